//! The editor as the frontend of a project.

use std::sync::Arc;

use agent::{Envelope, EventSink};
use futures_util::future::BoxFuture;
use host::Frontend;
use host::project::Show;
use policy::{Answer, Approver, Choice, Chosen, Question};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use wire::Peer;
use workspace::Editor;

/// One project's view of the editor.
pub(crate) struct EditorFrontend {
    pub editor: Arc<dyn Editor>,
    pub approver: Arc<dyn Approver>,
    pub settings: Value,
    pub show: Option<Show>,
    /// The client, if it supports events.
    pub events: Option<Peer>,
}

impl Frontend for EditorFrontend {
    fn notify(&self, text: &str) {
        tracing::warn!("{text}");
    }

    fn editor(&self) -> Option<Arc<dyn Editor>> {
        Some(Arc::clone(&self.editor))
    }

    fn settings(&self) -> Option<Value> {
        Some(self.settings.clone())
    }

    fn show_document(&self) -> Option<Show> {
        self.show.clone()
    }
}

impl Approver for EditorFrontend {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        self.approver.ask(question, cancel)
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        self.approver.choose(choice, cancel)
    }
}

impl EventSink for EditorFrontend {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(peer) = &self.events
                && let Err(closed) = peer.notify("pilcrow/event", envelope).await
            {
                tracing::debug!(%closed, "an event did not reach the client");
            }
        })
    }
}
