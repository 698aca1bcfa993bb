//! A program launched again, by an adapter that has no restart of its own: another session, to which those
//! who had joined the one before are led.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::error::DapError;
use crate::hub::HubHandle;
use crate::session::{Clock, Session};
use crate::sessions::Sessions;
use crate::sessions::reverse::Runs;

impl Sessions {
    /// Ends `root` with all below it, and starts the same program with the breakpoints that it has now.
    /// Persons who had joined are told to join again, and where (DAP §Terminated Event, `restart`); the
    /// name of the old session leads to the new one.
    ///
    /// # Errors
    /// [`DapError`]; the old session is over then.
    pub async fn relaunch(
        &self,
        root: &Arc<Session>,
        runs: Arc<dyn Runs>,
        clock: &Clock,
    ) -> Result<Arc<Session>, DapError> {
        let (mut plan, grant) = self.again(root).ok_or_else(|| DapError::Unsupported {
            adapter: root.adapter.name.clone(),
            what: "start what the person's editor started".to_owned(),
            nearest: None,
        })?;
        // In place from the start too: their clients come again only later.
        plan.of_persons = root.hub().relaunching().await;
        let word = Word { hub: Some(root.hub().clone()), tracker: self.tracker().clone() };
        self.terminate(root, clock).await;
        let fresh = self.start_with(&plan, &grant, runs, clock).await?;
        fresh.comes_after(root, self.doors(), self.tracker());
        word.give(fresh.configuration()).await;
        Ok(fresh)
    }
}

/// That the hub is told how it went, also where that was given up.
struct Word {
    hub: Option<HubHandle>,
    tracker: TaskTracker,
}

impl Word {
    async fn give(mut self, configuration: Value) {
        if let Some(hub) = self.hub.take() {
            hub.relaunched(Some(configuration)).await;
        }
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        if let (Some(hub), Ok(runtime)) = (self.hub.take(), tokio::runtime::Handle::try_current()) {
            self.tracker.spawn_on(async move { hub.relaunched(None).await }, &runtime);
        }
    }
}
