//! Relaunch of a program whose adapter cannot restart it.
//!
//! Starts a new session and directs joined clients to it.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::error::{DapError, Result};
use crate::hub::{HubHandle, Input};
use crate::session::{Clock, Session};
use crate::sessions::Sessions;
use crate::sessions::reverse::SpawnApprover;

impl Sessions {
    /// Ends `root` and its descendants, and starts the same program again.
    ///
    /// The current breakpoints apply. Joined clients are sent the new session to join (DAP
    /// §Terminated Event, `restart`), and the old session's name resolves to the new one.
    ///
    /// # Errors
    ///
    /// [`DapError`]; the old session has ended then.
    pub async fn relaunch(
        &self,
        root: &Arc<Session>,
        approver: Arc<dyn SpawnApprover>,
        clock: &Clock,
    ) -> Result<Arc<Session>> {
        let (mut plan, grant) = self.restart_plan(root).ok_or_else(|| DapError::Unsupported {
            adapter: root.adapter.name.clone(),
            what: "restart a session of the user's editor".to_owned(),
            nearest: None,
        })?;
        // The session is listed from the start, because the clients join again only later.
        plan.user_breakpoints = root.hub().begin_relaunch().await;
        let guard = RelaunchGuard { hub: Some(root.hub().clone()), tracker: self.tracker().clone() };
        self.terminate(root, clock).await;
        let fresh = self.start_with(&plan, &grant, approver, clock).await?;
        fresh.replaces(root, self.socket_dir(), self.tracker());
        guard.finish(fresh.configuration()).await;
        Ok(fresh)
    }
}

/// Reports the outcome to the hub, even if the relaunch is dropped.
struct RelaunchGuard {
    hub: Option<HubHandle>,
    tracker: TaskTracker,
}

impl RelaunchGuard {
    async fn finish(mut self, configuration: Value) {
        if let Some(hub) = self.hub.take() {
            hub.handle(Input::Relaunched { configuration: Some(configuration) }).await;
        }
    }
}

impl Drop for RelaunchGuard {
    fn drop(&mut self) {
        if let (Some(hub), Ok(runtime)) = (self.hub.take(), tokio::runtime::Handle::try_current()) {
            self.tracker.spawn_on(
                async move { hub.handle(Input::Relaunched { configuration: None }).await },
                &runtime,
            );
        }
    }
}
