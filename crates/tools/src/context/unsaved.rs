//! Confirmation before a program runs while open files are unsaved.
//!
//! Programs read the disk. The setting `run.on_unsaved` decides. Without a user to ask, the program runs.

use std::sync::Arc;

use agent::ToolCx;
use policy::{Answer, ErrorCode, Question, QuestionKind};

use crate::{Failure, ToolContext};

/// Asks the user about unsaved files if the settings say so; returns the files.
pub(crate) async fn confirm(
    context: &Arc<ToolContext>,
    command: &str,
    cx: &ToolCx,
) -> Result<Vec<String>, Failure> {
    let shared = Arc::clone(context);
    let unsaved = tokio::task::spawn_blocking(move || shared.unsaved_files()).await;
    let unsaved = unsaved.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
    if unsaved.is_empty() || !context.settings().asks_on_unsaved {
        return Ok(unsaved);
    }
    let question = Question {
        kind: QuestionKind::Exec,
        title: format!("Run with {}?", crate::counted(unsaved.len(), "unsaved file")),
        detail: format!("{command}\nnot saved: {}", unsaved.join(", ")),
        files: unsaved.clone(),
    };
    let refused = |message: String| Err(Failure::new(ErrorCode::Denied, message));
    match cx.approver().ask(question, &cx.cancel).await {
        Answer::Once | Answer::Session | Answer::Always | Answer::Unattended => Ok(unsaved),
        Answer::No { text } if !text.is_empty() => refused(format!("not run, the user declined: {text}")),
        _ => refused(format!("not run: unsaved files: {}", unsaved.join(", "))),
    }
}
