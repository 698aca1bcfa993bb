//! Permits of a run, and the entries that its calls add to the session file.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, RwLock};
use policy::{Approver, Policy};
use serde_json::Value;

/// The policy, approver and identity with which a run gets permits.
pub(crate) struct Gate {
    policy: RwLock<Option<Arc<Policy>>>,
    pub approver: Arc<dyn Approver>,
    /// Whether the user's own command named the action.
    ///
    /// Only a denying rule stops such an action.
    pub invoked: bool,
    pub unattended: AtomicBool,
    /// Entries that the next message carries into the session file.
    pub notes: Arc<Notes>,
}

/// Entries for the session file, written with the next message.
///
/// The task that owns the file takes them.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Vec<(&'static str, Value)>>);

impl Notes {
    pub fn push(&self, kind: &'static str, fields: Value) {
        self.0.lock().push((kind, fields));
    }

    pub fn take(&self) -> Vec<(&'static str, Value)> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Gate {
    pub fn new(
        policy: Option<Arc<Policy>>,
        approver: Arc<dyn Approver>,
        invoked: bool,
        notes: Arc<Notes>,
    ) -> Gate {
        Gate { policy: RwLock::new(policy), approver, invoked, unattended: AtomicBool::new(false), notes }
    }

    /// The policy of the current turn.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.read().clone()
    }

    /// Replaces the policy between turns.
    pub(crate) fn set_policy(&self, policy: Option<Arc<Policy>>) {
        *self.policy.write() = policy;
    }
}
