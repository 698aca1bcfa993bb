//! The port to the user.
//!
//! Through it a surface answers questions, receives events and shows files.

use std::sync::Arc;

use agent::{Envelope, EventSink};
use futures_util::future::{BoxFuture, ready};
use policy::{Answer, Approver, Choice, Chosen, Question};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use workspace::Editor;

use crate::config::Config;
use crate::project::Show;

/// The surface of a project: its user, its events, and its editor.
pub trait Frontend: Approver + EventSink {
    /// Reports a problem that stops nothing.
    fn notify(&self, text: &str);

    /// Returns the editor that has files open, if there is one.
    fn editor(&self) -> Option<Arc<dyn Editor>> {
        None
    }

    /// Returns the settings of the editor, as JSON.
    fn settings(&self) -> Option<Value> {
        None
    }

    /// Returns the function that shows a file with an LSP range selected.
    fn show_document(&self) -> Option<Show> {
        None
    }

    /// Handles the loaded settings, before anything else of the project starts.
    ///
    /// # Errors
    /// When the surface cannot work with them; the project then does not open.
    fn config_loaded(&self, _config: &Config) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A frontend without a user.
///
/// Questions stay unanswered, the frontend drops events, and problems go to the log.
pub struct HeadlessFrontend;

impl Frontend for HeadlessFrontend {
    fn notify(&self, text: &str) {
        tracing::warn!("{text}");
    }
}

impl Approver for HeadlessFrontend {
    fn ask<'a>(&'a self, _: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(ready(Answer::Unattended))
    }

    fn choose<'a>(&'a self, _: Choice, _: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(ready(Chosen::Unattended))
    }
}

impl EventSink for HeadlessFrontend {
    fn deliver<'a>(&'a self, _: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }
}
