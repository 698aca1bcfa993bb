//! The agent's permissions: rules, permits, trust, the audit log, and secrets.
//!
//! The crate decides about values, without edits or processes: only [`Policy`] issues a [`Permit`] for
//! one planned change and a [`SpawnGrant`] for one program.
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "the tests create files"))]

mod approver;
mod effects;
mod error_code;
mod grants;
mod permit;
mod policy;
mod rules;
mod sandbox;
mod secrets;
#[cfg(test)]
mod tests;
mod trust;

pub use approver::{Answer, Approver, Choice, Chosen, Question, QuestionKind, Unattended};
pub use effects::{Effects, PlannedChange, Writes};
pub use error_code::ErrorCode;
pub use permit::{Permit, SpawnGrant};
pub use policy::{
    COMMANDS, CommandLock, Denied, DeniedBy, ExecOptions, Explanation, HostPermit, Mode, NamedProgram,
    Policy, PolicyOptions, ProgramFiles, SpawnRequest, Subject, SubjectState, Subjects, Verdict,
};
pub use rules::{Capability, Decision, Rule, RuleError};
pub use sandbox::{
    Checkout, Confinement, EXECUTED, GitChanges, Network, ProjectRoots, SandboxMode, SandboxProfile,
};
pub use secrets::{Pieces, Redactor, is_secret, is_secret_name, learn_passing_secret, learn_secret};
pub use trust::{TrustStore, trust_command};
