//! The questions that can be asked of a pool, a file for each kind.
//!
//! Each picks the server, starts it, waits for it, makes it see the texts as they are, asks, and reads the
//! answer by the texts that the server had.

mod check;
mod code_actions;
mod commands;
mod diagnostics;
mod edits;
mod family;
mod file_operations;
mod hierarchy;
mod hints;
mod holders;
mod includes;
mod navigation;
mod new_place;
mod old_place;
mod raw;
mod rename;
mod saved;
mod symbols;
mod tried;
mod twins;
mod unasked;
mod whole;

pub(crate) use check::Extra;
pub use check::{Checked, Look};
pub use code_actions::{ActionQuery, CodeAction, Resolved};
pub(crate) use commands::{Arrived, Inbox};
pub use commands::{CommandEdits, Ran, ServerCommand};
pub(crate) use diagnostics::{Looked, METHOD, look, pulled, question, read, told_whole};
pub use file_operations::Wishes;
pub use hierarchy::{Call, Calls, Types};
pub use hints::{Completion, Highlight, InlayHint, Signature};
pub use navigation::Navigate;
pub use raw::{Offered, RawAnswer};
pub use saved::{FoundSaved, SavedProblems};
pub use symbols::{Glanced, WorkspaceSymbols};
pub use tried::Tried;
pub use unasked::{Unasked, UnaskedWhy};
pub use whole::Reported;

use std::sync::Arc;

use serde_json::{Value, json};
use text::PositionEncoding;
use workspace::{AbsPath, WorkspaceEdit};

use crate::answer::{Answer, Location};
use crate::documents::Synced;
use crate::edit::Converter;
use crate::error::ServerError;
use crate::protocol::{Range, RawWorkspaceEdit};
use crate::server::{Asked, Server};
use crate::view::View;

/// `TextDocumentPositionParams`.
fn at(synced: Option<&Synced>, offset: usize, encoding: PositionEncoding) -> Value {
    let Some(synced) = synced else { return json!({}) };
    json!({
        "textDocument": {"uri": synced.uri},
        "position": synced.view.position(offset, encoding),
    })
}

fn document(synced: Option<&Synced>) -> Value {
    json!({"uri": synced.map(|synced| synced.uri.as_str())})
}

/// What an answer comes to, with what was to be said about it when it was asked for.
fn answer<T>(server: &Server, asked: &Asked, value: T) -> Answer<T> {
    let note = asked.note.clone().or_else(|| server.note());
    Answer { value, server: server.name().to_owned(), note }
}

/// With one more thing that the answer may lack.
fn noted<T>(mut answer: Answer<T>, note: Option<String>) -> Answer<T> {
    let notes: Vec<String> = answer.note.take().into_iter().chain(note).collect();
    answer.note = (!notes.is_empty()).then(|| notes.join("; "));
    answer
}

impl Asked {
    /// The text of a file as the server had it: what it was sent, else what is on disk.
    fn view(&self, server: &Server, path: &AbsPath) -> Option<Arc<View>> {
        if let Some(synced) = self.snapshot.get(path) {
            return Some(Arc::clone(&synced.view));
        }
        self.views.get(path, || {
            let document = server.core.workspace.document(path).ok()?;
            Some(Arc::new(View::new(document.text)))
        })
    }

    /// A place; `None` when the URI names no file.
    fn location(&self, server: &Server, uri: &str, range: Range) -> Option<Location> {
        let path = workspace::uri_to_path(uri).and_then(AbsPath::new)?;
        let view = self.view(server, &path);
        let bytes = view.as_ref().and_then(|view| view.range(range, self.encoding));
        let (Some(view), Some(bytes)) = (view, bytes) else {
            let line = range.start.line as usize + 1;
            return Some(Location { path, range: 0..0, line, line_text: String::new() });
        };
        let (line, line_text) = view.line(bytes.start);
        Some(Location { path, range: bytes, line, line_text })
    }

    fn converter<'a>(&'a self, server: &'a Server) -> Converter<'a> {
        let (workspace, snapshot) = (&server.core.workspace, &self.snapshot);
        Converter { workspace, snapshot, encoding: self.encoding, since: None }
    }

    fn workspace_edit(
        &self,
        server: &Server,
        raw: RawWorkspaceEdit,
        label: String,
    ) -> Result<WorkspaceEdit, ServerError> {
        self.converter(server)
            .convert(raw, label)
            .map_err(|problem| server.refused(problem.code(), format!("{}: {problem}", self.method)))
    }
}
