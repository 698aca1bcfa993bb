//! Every document the editor has open, as its notifications tell it.
//!
//! Applies notifications in wire order, synchronously, and knows for each document its text, its
//! version, what was saved last, and every change since. What must stay true: one file is one
//! document under whatever name it was opened; answers use the client's own spelling of its URI.

use std::sync::Arc;

use serde_json::value::RawValue;
use text::{LineIndex, PositionEncoding};
use workspace::{AbsPath, Document};

use super::editors::ClientFacts;

/// The open documents of one connection.
pub struct OpenDocuments {
    encoding: PositionEncoding,
}

/// One open document at one moment.
#[derive(Debug, Clone)]
pub struct Open {
    /// As the client spells it.
    pub uri: String,
    /// Canonical path; `None` for `untitled:` and other schemes.
    pub path: Option<AbsPath>,
    /// As the client names it.
    pub language_id: String,
    /// The client's number for this text.
    pub version: i32,
    /// The text as the client has it.
    pub text: Arc<str>,
    /// Lines of `text`, as this client counts them.
    pub lines: Arc<LineIndex>,
    /// Counts changes of this document; rises by at least one with each notification.
    pub sequence: u64,
}

impl OpenDocuments {
    /// None open yet, for a client that said at `initialize` who it is.
    pub fn new(client: &ClientFacts) -> Self {
        Self { encoding: client.position_encoding }
    }

    /// Takes `textDocument/didOpen`, `didChange`, `didSave` and `didClose`, to be called in wire
    /// order before anything later is looked at. `false`: it is another notification. What cannot
    /// be understood is logged and changes nothing.
    pub fn notification(&self, method: &str, params: Option<&RawValue>) -> bool {
        let _ = (method, params);
        false
    }

    /// The document as it is now, without waiting for an edit in flight; by any spelling of its URI.
    pub fn get(&self, uri: &str) -> Option<Open> {
        let _ = uri;
        None
    }

    /// The same by canonical path.
    pub fn at(&self, path: &AbsPath) -> Option<Open> {
        let _ = path;
        None
    }

    /// Every open document, in order of URI.
    pub fn all(&self) -> Vec<Open> {
        Vec::new()
    }

    /// The client's spelling for a path: its own for an open document, else ours.
    pub fn uri_of(&self, path: &AbsPath) -> String {
        workspace::path_to_uri(path.as_path())
    }

    /// Open files whose text is not saved.
    pub fn unsaved(&self) -> Vec<AbsPath> {
        Vec::new()
    }

    /// The document for the agent: with saved state and diverged copies looked at. Does not wait
    /// for an edit in flight. Looks at the disk.
    pub fn document(&self, path: &AbsPath) -> Option<Document> {
        let _ = path;
        None
    }

    /// Told of every change of any document, with the number of changes so far.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        tokio::sync::watch::channel(0).1
    }

    /// In which unit this client counts characters.
    pub fn encoding(&self) -> PositionEncoding {
        self.encoding
    }
}
