//! The port for requests of servers to an editor.

use futures_util::future::BoxFuture;
use serde_json::Value;
use workspace::WorkspaceEdit;

/// Type of a server's message (LSP 3.17 §MessageType).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageType {
    Error,
    Warning,
    Info,
    Log,
}

/// A `window/showDocument` request (LSP 3.17 §ShowDocument).
#[derive(Debug, Clone)]
pub struct ShowDocument {
    /// A `file:` URI or another one.
    pub uri: String,
    /// Whether to open it in another program, e.g. a browser.
    pub external: bool,
    /// The range to select, as the server sent it; null for none.
    pub selection: Value,
}

/// An editor that handles the requests of servers. Every default is a refusal.
pub trait Host: Send + Sync {
    /// Handles `workspace/applyEdit`.
    ///
    /// `Err` is the reason that the server receives.
    fn apply_edit<'a>(&'a self, server: &'a str, edit: WorkspaceEdit) -> BoxFuture<'a, Result<(), String>> {
        let _ = (server, edit);
        Box::pin(async { Err("edits without a pending request are refused".to_owned()) })
    }

    /// Answers `workspace/configuration` of one section.
    ///
    /// `None`: the definition's settings apply.
    fn configuration(&self, server: &str, section: Option<&str>) -> Option<Value> {
        let _ = (server, section);
        None
    }

    /// Handles `window/showDocument`.
    ///
    /// Returns whether the user will see the document.
    fn show_document<'a>(&'a self, server: &'a str, wanted: ShowDocument) -> BoxFuture<'a, bool> {
        let _ = (server, wanted);
        Box::pin(async { false })
    }

    /// Handles `window/showMessage` and `window/logMessage`. Must not block.
    fn message(&self, server: &str, kind: MessageType, text: &str) {
        let _ = (server, kind, text);
    }
}

/// A host that refuses everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl Host for NoHost {}
