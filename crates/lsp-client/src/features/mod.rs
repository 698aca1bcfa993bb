//! The requests that a pool answers, a file for each kind.
//!
//! Each request chooses the server, starts it, waits until it is ready, syncs the texts, sends the
//! request, and reads the answer by the texts that the server had.

mod candidate_files;
mod check;
mod check_on_save;
mod code_actions;
mod commands;
mod diagnostics;
mod edits;
mod file_operations;
mod hierarchy;
mod hints;
mod navigation;
mod preview;
mod raw;
mod rename;
mod server_handle;
mod speculative;
mod symbols;
mod uncovered_files;
mod workspace_diagnostics;

pub use candidate_files::*;
pub use check::*;
pub use check_on_save::*;
pub use code_actions::*;
pub use commands::*;
pub use file_operations::*;
pub use hierarchy::*;
pub use hints::*;
pub use navigation::*;
pub use preview::*;
pub use raw::*;
pub use rename::*;
pub use server_handle::*;
pub use speculative::*;
pub use symbols::*;
pub use uncovered_files::*;
pub use workspace_diagnostics::*;

use std::sync::Arc;

use paths::AbsPath;
use serde_json::{Value, json};
use text::PositionEncoding;
use workspace::WorkspaceEdit;

use crate::answer::{Answer, Location};
use crate::error::{Refusal, Result};
use crate::pool::{PoolLimits, PoolOptions, ServerPool};
use crate::server::documents::Synced;
use crate::server::edit::Converter;
use crate::server::protocol::{Range, RawWorkspaceEdit};
use crate::server::request_table::RequestTable;
use crate::server::view::View;
use crate::server::{Asked, Server};

pub(crate) const REQUESTS: RequestTable = RequestTable(&[
    navigation::REQUESTS,
    hints::REQUESTS,
    hierarchy::REQUESTS,
    symbols::REQUESTS,
    rename::REQUESTS,
    file_operations::REQUESTS,
    code_actions::REQUESTS,
    edits::REQUESTS,
    diagnostics::REQUESTS,
    workspace_diagnostics::REQUESTS,
]);

impl ServerPool {
    /// Creates a pool with the default limits. Starts nothing.
    pub fn new(options: PoolOptions) -> Arc<Self> {
        Self::with_limits(options, PoolLimits::default())
    }

    /// Creates a pool with limits of its own. Starts nothing.
    pub fn with_limits(options: PoolOptions, limits: PoolLimits) -> Arc<Self> {
        Self::with_requests(options, limits, REQUESTS)
    }
}

/// Builds `TextDocumentPositionParams`.
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

/// A server's answer, with the reasons why it may be incomplete.
fn answer<T>(server: &Server, asked: &Asked, value: T) -> Answer<T> {
    let notes = asked.note.clone().or_else(|| server.note()).into_iter().collect();
    Answer { value, server: server.name().to_owned(), notes }
}

impl Asked {
    /// The text of a file that the server has: as sent, else as on disk.
    fn view(&self, server: &Server, path: &AbsPath) -> Option<Arc<View>> {
        if let Some(synced) = self.snapshot.get(path) {
            return Some(Arc::clone(&synced.view));
        }
        self.views.get(path, || {
            let document = server.core.workspace.document(path).ok()?;
            Some(Arc::new(View::new(document.text)))
        })
    }

    /// A location; `None` if the URI names no file.
    fn location(&self, server: &Server, uri: &str, range: Range) -> Option<Location> {
        let path = paths::uri_to_path(uri).and_then(AbsPath::new)?;
        let view = self.view(server, &path);
        let bytes = view.as_ref().and_then(|view| view.range(range, self.encoding));
        let (Some(view), Some(bytes)) = (view, bytes) else {
            let line = range.start.line as usize + 1;
            return Some(Location { path, range: 0..0, line, column: 1, line_text: String::new() });
        };
        Some(view.location(path, bytes))
    }

    fn converter<'a>(&'a self, server: &'a Server) -> Converter<'a> {
        let (workspace, snapshot) = (&server.core.workspace, &self.snapshot);
        Converter { workspace, snapshot, encoding: self.encoding, since: None }
    }

    fn workspace_edit(&self, server: &Server, raw: RawWorkspaceEdit, label: String) -> Result<WorkspaceEdit> {
        self.converter(server).convert(raw, label).map_err(|problem| {
            server.refused(Refusal::Edit { method: self.method.clone(), problem: problem.into() })
        })
    }
}
