//! What the agent may do: the one place where that is decided.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{AbsPath, CommandLine, Effects, ErrorCode, Permit, Plan, SpawnGrant, TrustStore};

/// What is done with an effect that no rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Denied.
    Strict,
    /// Asked.
    #[default]
    Prompt,
    /// Allowed.
    Permissive,
}

/// The three answers of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Go on.
    Allow,
    /// Ask the person.
    Ask,
    /// No.
    Deny,
}

/// A decision and why.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What was decided.
    pub decision: Decision,
    /// The capability and the rule that decided, for people.
    pub reason: String,
}

/// What a policy is made of.
#[derive(Debug)]
pub struct PolicyOptions {
    /// For what no rule names.
    pub mode: Mode,
    /// The person said yes to everything that would be asked, trust included. Lifts no denial.
    pub yes: bool,
    /// Who is trusted.
    pub trust: TrustStore,
    /// The workspace.
    pub root: AbsPath,
}

/// The rules in force for one workspace and process.
#[derive(Debug)]
pub struct Policy {
    options: PolicyOptions,
}

/// A program that is to be started for a definition.
#[derive(Debug, Clone)]
pub struct SpawnRequest {
    /// Name of the server's or adapter's definition.
    pub definition: String,
    /// What would run.
    pub command: CommandLine,
    /// For which root.
    pub root: AbsPath,
    /// Whether the definition came with the project rather than from us or the person.
    pub from_project: bool,
}

/// What the person is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// A change of files.
    Write,
    /// Trust in a workspace.
    Trust,
    /// A command.
    Exec,
}

/// A question for the person.
#[derive(Debug, Clone)]
pub struct Question {
    /// What about.
    pub kind: QuestionKind,
    /// One line.
    pub title: String,
    /// The diff or the command.
    pub detail: String,
    /// The files concerned.
    pub files: Vec<String>,
}

/// What the person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This time.
    Once,
    /// For this session.
    Session,
    /// From now on.
    Always,
    /// No, with a text for the model.
    No {
        /// May be empty.
        text: String,
    },
    /// There is nobody who could be asked.
    Nobody,
}

/// Asks the person. Implemented by surfaces.
pub trait Approver: Send + Sync {
    /// Returns the answer; on cancel returns [`Answer::No`] soon.
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer>;
}

/// An approver for when there is nobody.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Nobody })
    }
}

/// Not permitted.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct Denied {
    /// `denied`, `untrusted` or `cancelled`.
    pub code: ErrorCode,
    /// The capability, the rule, and what to do.
    pub reason: String,
    /// It would have been asked, but there is nobody.
    pub nobody_to_ask: bool,
}

impl Policy {
    /// A policy in force.
    pub fn new(options: PolicyOptions) -> Self {
        Self { options }
    }

    /// What would be decided about `effects`, without asking anybody.
    pub fn judge(&self, effects: &Effects) -> Verdict {
        let _ = effects;
        unimplemented!()
    }

    /// Whether code of the workspace may run.
    pub fn is_trusted(&self) -> bool {
        let _ = &self.options;
        unimplemented!()
    }

    /// Permission for a plan; asks where the policy says so.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn permit(
        &self,
        plan: &Plan,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Permit, Denied> {
        let _ = (plan, approver, cancel);
        unimplemented!()
    }

    /// Permission for a plan that the person's own command named; nothing is asked.
    ///
    /// # Errors
    /// [`Denied`] when a rule denies it.
    pub fn permit_invoked(&self, plan: &Plan) -> Result<Permit, Denied> {
        let _ = plan;
        unimplemented!()
    }

    /// Permission to start a definition's program; asks for trust where it is missing.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn grant_spawn(
        &self,
        request: &SpawnRequest,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<SpawnGrant, Denied> {
        let _ = (request, approver, cancel);
        unimplemented!()
    }
}
