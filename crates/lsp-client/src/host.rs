//! The port through which servers reach upward: what they ask of an editor.

use futures_util::future::BoxFuture;
use serde_json::Value;
use workspace::WorkspaceEdit;

/// How much a server's message matters (LSP 3.17 §MessageType).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's own names")]
pub enum MessageType {
    Error,
    Warning,
    Info,
    Log,
}

/// What a server wants to be shown (LSP 3.17 §ShowDocument).
#[derive(Debug, Clone)]
pub struct ShowDocument {
    /// A file's, or any other.
    pub uri: String,
    /// In another program, a browser for example.
    pub external: bool,
    /// The range to be selected, as the server sent it; null for none.
    pub selection: Value,
}

/// What servers ask of an editor. Every default is a refusal that the server understands.
pub trait Host: Send + Sync {
    /// `workspace/applyEdit`. `Err` is the reason that the server is given.
    fn apply_edit<'a>(&'a self, server: &'a str, edit: WorkspaceEdit) -> BoxFuture<'a, Result<(), String>> {
        let _ = (server, edit);
        Box::pin(async { Err("edits that a server begins by itself are not taken".to_owned()) })
    }

    /// `workspace/configuration` of one section; `None` leaves it to the definition's settings.
    fn configuration(&self, server: &str, section: Option<&str>) -> Option<Value> {
        let _ = (server, section);
        None
    }

    /// `window/showDocument`: whether the person is going to see it.
    fn show_document<'a>(&'a self, server: &'a str, wanted: ShowDocument) -> BoxFuture<'a, bool> {
        let _ = (server, wanted);
        Box::pin(async { false })
    }

    /// `window/showMessage` and `window/logMessage`. Must not block.
    fn message(&self, server: &str, kind: MessageType, text: &str) {
        let _ = (server, kind, text);
    }
}

/// A host that refuses all and hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl Host for NoHost {}
