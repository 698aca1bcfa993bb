//! Before something runs: it reads the disk, and open files that are not saved differ from that. The person
//! is asked where they want it (`run.on_unsaved`); nobody there to be asked stops nothing.

use std::sync::Arc;

use agent::ToolCx;
use policy::{Answer, ErrorCode, Question, QuestionKind};

use crate::{Failure, ToolContext};

/// The open files that are not saved, after the person was asked about them if they want that. `what` is what
/// would run.
pub(crate) async fn agreed(
    context: &Arc<ToolContext>,
    what: &str,
    cx: &ToolCx,
) -> Result<Vec<String>, Failure> {
    let looked = Arc::clone(context);
    let unsaved = tokio::task::spawn_blocking(move || looked.not_saved()).await;
    let unsaved = unsaved.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
    if unsaved.is_empty() || !context.settings().asks_on_unsaved {
        return Ok(unsaved);
    }
    let question = Question {
        kind: QuestionKind::Exec,
        title: format!(
            "Run it although {} not saved?",
            if unsaved.len() == 1 { "a file is" } else { "files are" }
        ),
        detail: format!("{what}\nnot saved: {}", unsaved.join(", ")),
        files: unsaved.clone(),
    };
    let refused = |message: String| Err(Failure::new(ErrorCode::Denied, message));
    match cx.approver().ask(question, &cx.cancel).await {
        Answer::Once | Answer::Session | Answer::Always | Answer::Unattended => Ok(unsaved),
        Answer::No { text } if !text.is_empty() => refused(format!("the user said no: {text}")),
        _ => refused(format!("not run, since these files are not saved: {}", unsaved.join(", "))),
    }
}
