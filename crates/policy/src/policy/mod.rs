//! Decisions about the agent's effects.
//!
//! A decision is `allow`, `ask` or `deny`. It comes from the rules ([`Rule`]: the user's, their
//! remembered answers, a project's stricter ones), else from the defaults:
//!
//! | effect | mode `strict` | `prompt` | `permissive` |
//! |---|---|---|---|
//! | read a file of the workspace | allow | allow | allow |
//! | change a file of the workspace | deny | ask | allow, in a trusted workspace |
//! | run a command | deny | ask | ask |
//! | talk to a host | deny | ask | allow |
//! | change a debugged program | deny | ask | allow, in a trusted workspace |
//!
//! Some paths are protected (`protected`): secrets, git's own files, paths outside the workspace.
//! In an untrusted workspace, the policy allows only reading without asking, whatever the rules
//! say. `--yes` answers questions and overrides no denial. The audit log has every question and
//! denial. A rule about a command is about its words; the policy analyzes a shell's command line
//! (`shell_command`).

mod audit;
mod command_locks;
mod evaluate;
mod explain;
mod git_line;
mod hosts;
mod prompt;
mod protected;
mod sandbox_profile;
mod shell_command;
mod subjects;

use std::sync::Arc;

use parking_lot::Mutex;
use paths::canonical_existing as canonical;
use paths::{AbsPath, StateDir};
use shell::{CommandLine, Tier};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::command_locks::CommandLock;
use self::evaluate::Found;
pub use self::explain::{Explanation, NamedProgram};
pub use self::hosts::{COMMANDS, HostPermit};
use self::prompt::{Asked, to_be_confirmed};
use self::sandbox_profile::LineUse;
pub use self::subjects::{Subject, SubjectState, Subjects};
use crate::grants::{Grants, Term};
use crate::policy::audit::{Audit, By, Classified, Decided};
use crate::policy::protected::protection;
use crate::rules::{ANSWER, Capability, Decision, Rule};
use crate::{
    Answer, Approver, Confinement, Effects, ErrorCode, Permit, PlannedChange, Question, QuestionKind,
    SandboxMode, SpawnGrant, TrustStore, Writes,
};

/// Default for effects that no rule names. Later variants are stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mode {
    Permissive,
    #[default]
    Prompt,
    Strict,
}

/// A decision with its reason.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub decision: Decision,
    /// The capability and the deciding rule, as a message.
    pub reason: String,
}

#[derive(Debug, Clone)]
pub struct PolicyOptions {
    /// Default for effects that no rule names.
    pub mode: Mode,
    /// Whether `--yes` answers every question, also about trust. Overrides no denial.
    pub yes: bool,
    /// The rules of the configuration.
    pub rules: Vec<Rule>,
    pub exec: ExecOptions,
    pub trust: TrustStore,
    pub root: AbsPath,
    /// Pilcrow's own directories, which its tools do not write.
    pub own: Vec<AbsPath>,
    /// The workspace's state for remembered answers and the audit log, if kept.
    pub state: Option<StateDir>,
    /// Directories that Pilcrow lets the agent read, also inside `own`.
    pub shown: Vec<AbsPath>,
    /// Whether permitted edits are only proposed to the user (`edit.mode`).
    pub proposes: bool,
}

/// Limits on command lines of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecOptions {
    /// Whether commands run at all (`exec.enabled`).
    pub enabled: bool,
    /// Lowest tier of command effects that the policy denies (`exec.deny_threshold`).
    pub deny_threshold: Tier,
    /// Whether the audit log has all commands, not only risky ones (`exec.audit_all`).
    pub audit_all: bool,
    /// Whether commands run in a sandbox (`exec.sandbox`).
    pub sandbox: SandboxMode,
    /// Bytes of memory for one command or debugged program (`exec.max_memory`).
    pub max_memory: Option<u64>,
}

impl Default for ExecOptions {
    fn default() -> Self {
        let sandbox = SandboxMode::default();
        Self { enabled: true, deny_threshold: Tier::High, audit_all: false, sandbox, max_memory: None }
    }
}

impl PolicyOptions {
    /// The defaults for a workspace: mode `prompt`, no rules, no state.
    pub fn new(trust: TrustStore, root: AbsPath) -> Self {
        let exec = ExecOptions::default();
        let (mode, rules, own, shown) = (Mode::default(), Vec::new(), Vec::new(), Vec::new());
        Self { mode, yes: false, rules, exec, trust, root, own, state: None, shown, proposes: false }
    }
}

/// The policy in force for one workspace and process.
#[derive(Debug)]
pub struct Policy {
    options: Arc<PolicyOptions>,
    grants: Arc<Mutex<Grants>>,
    subjects: Arc<Subjects>,
    audit: Arc<Audit>,
    /// Limit of one question at a time, whose answer may decide the next.
    asking: Semaphore,
}

/// A definition's program to start.
#[derive(Debug, Clone)]
pub struct SpawnRequest {
    /// Name of the server's or adapter's definition.
    pub definition: String,
    pub command: CommandLine,
    pub root: AbsPath,
    /// The project's definition; `None` if it is built in or the user's.
    pub subject: Option<Subject>,
    /// The files that the program changes, if it runs in a sandbox.
    pub changes: Option<ProgramFiles>,
    /// Whether `exec.max_memory` applies.
    pub is_command: bool,
}

/// Files that a definition's program may change besides caches.
#[derive(Debug, Clone, Default)]
pub struct ProgramFiles {
    /// Its own directory for the workspace, created if missing.
    pub state: Option<AbsPath>,
    /// Files and directories in the project, of which the rest is read-only.
    pub project: Vec<AbsPath>,
    /// Those that are created as directories if they are missing.
    pub created: Vec<AbsPath>,
    /// Whether it needs Unix sockets, even if those of others cannot be hidden.
    pub unix_sockets: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Denied {
    /// Code `denied`, `untrusted` or `cancelled`.
    pub code: ErrorCode,
    /// The capability, the rule, and what to do.
    pub reason: String,
    pub by: DeniedBy,
}

/// The cause of a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedBy {
    /// A rule, the mode, a protection, or a cancelled question.
    Policy,
    /// The policy would ask, but there is no user.
    Unattended,
    /// The user refused or dismissed the question.
    User,
}

/// The decision on one path or command.
struct Judged {
    decision: Decision,
    reason: String,
    /// Set if trust is missing; `Some(true)` if the policy asks anyway.
    untrusted: Option<bool>,
}

const WITHOUT_SANDBOX: &str = "\nwithout a sandbox: it can change all files that you can";

impl Policy {
    /// Creates the policy and reads the remembered answers.
    pub fn new(options: PolicyOptions) -> Self {
        let grants = Arc::new(Mutex::new(Grants::load(options.state.clone())));
        let subjects = Arc::new(Subjects::new(options.state.clone()));
        let audit = Arc::new(Audit::new(options.state.clone()));
        Self { options: Arc::new(options), grants, subjects, audit, asking: Semaphore::new(1) }
    }

    /// Copies the policy with its own queue of questions.
    ///
    /// Concurrent runs in one process use it, so that an open question blocks only its own run.
    pub fn for_concurrent_run(&self) -> Self {
        let (options, grants, audit) = (self.options.clone(), self.grants.clone(), self.audit.clone());
        Self { options, grants, subjects: self.subjects.clone(), audit, asking: Semaphore::new(1) }
    }

    /// Extends the policy to allow reading below `directories` without asking.
    ///
    /// The user put files there for the agent to read, or Pilcrow stores them for it. A more
    /// specific rule of the user still counts. A directory need not exist yet.
    pub fn allowing_reads(&self, directories: &[AbsPath]) -> Self {
        let mut options = PolicyOptions::clone(&self.options);
        options
            .rules
            .extend(directories.iter().map(|directory| Rule::for_reading_below(&canonical(directory))));
        options.shown.extend(directories.iter().map(canonical));
        Self { options: Arc::new(options), ..self.for_concurrent_run() }
    }

    /// The policy with or without proposals (`edit.mode`).
    #[must_use]
    pub fn proposing(&self, proposes: bool) -> Self {
        let options = PolicyOptions { proposes, ..PolicyOptions::clone(&self.options) };
        Self { options: Arc::new(options), ..self.for_concurrent_run() }
    }

    /// The setting `exec.sandbox`.
    pub fn sandbox_mode(&self) -> SandboxMode {
        self.options.exec.sandbox
    }

    /// Copies the policy with its answers and trust, under other settings.
    pub fn under(&self, mode: Mode, rules: Vec<Rule>, exec: ExecOptions) -> Self {
        let options = PolicyOptions { mode, rules, exec, ..PolicyOptions::clone(&self.options) };
        Self { options: Arc::new(options), ..self.for_concurrent_run() }
    }

    /// Creates the policy for a request of another process, with its own `--yes`.
    ///
    /// Neither policy knows the other's answers for the session; both know answers given with
    /// "always". Reads the remembered answers.
    pub fn for_request(&self, yes: bool) -> Self {
        Self::new(PolicyOptions { yes, ..PolicyOptions::clone(&self.options) })
    }

    /// Trusts the workspace while this process runs, as the user's editor requested.
    pub fn trust_for_now(&self) {
        self.grants.lock().trusts.push(canonical(&self.options.root));
    }

    /// The strictest decision on `effects`, without asking.
    pub fn judge(&self, effects: &Effects) -> Verdict {
        let mut verdicts = Vec::new();
        if effects.reads {
            verdicts.push(self.judge_all(Capability::Read));
        }
        match &effects.writes {
            Writes::None => {}
            Writes::Paths(paths) => {
                verdicts.extend(paths.iter().map(|path| self.judge_path(Capability::Write, path)));
            }
            Writes::Unknown => verdicts.push(self.judge_all(Capability::Write)),
        }
        if let Some(command) = &effects.exec {
            verdicts.push(self.judge_command(command));
        }
        let strictest = verdicts.into_iter().reduce(|a, b| if b.decision > a.decision { b } else { a });
        strictest.map_or_else(
            || Verdict { decision: Decision::Allow, reason: "no effect needs permission".into() },
            |judged| Verdict { decision: judged.decision, reason: judged.reason },
        )
    }

    /// Refuses denied `effects` before the call starts, without asking.
    ///
    /// The audit log records a refusal.
    ///
    /// # Errors
    /// [`Denied`] with the first reason.
    pub fn refuse(&self, effects: &Effects) -> Result<(), Denied> {
        let denied = |judged: &Judged| judged.decision == Decision::Deny;
        let line = effects.exec.as_ref().and_then(shell_command::of);
        let command =
            || line.map(str::to_owned).or_else(|| effects.exec.as_ref().map(CommandLine::to_string));
        let about = |capability, subject: Vec<String>, judged: Judged| {
            // The class is that of the command line, whichever of its effects is denied.
            let class = line.and_then(|line| self.judge_line(line).class);
            Err(self.deny_class(capability, By::Policy, judged.reason, subject, class))
        };
        let all = |capability| Some(self.judge_all(capability)).filter(denied);
        if effects.reads
            && let Some(judged) = all(Capability::Read)
        {
            return about(Capability::Read, command().into_iter().collect(), judged);
        }
        match &effects.writes {
            Writes::None => {}
            Writes::Paths(paths) => {
                for path in paths {
                    let judged = self.judge_path(Capability::Write, path);
                    if denied(&judged) {
                        return about(Capability::Write, vec![self.shown(path)], judged);
                    }
                }
            }
            Writes::Unknown => {
                if let Some(judged) = all(Capability::Write) {
                    return about(Capability::Write, command().into_iter().collect(), judged);
                }
            }
        }
        if let Some(exec) = &effects.exec {
            let judged = self.judge_command(exec);
            if denied(&judged) {
                return about(Capability::Exec, command().into_iter().collect(), judged);
            }
        }
        Ok(())
    }

    /// The decision on showing the text of `path`, without asking.
    pub fn judge_read(&self, path: &AbsPath) -> Verdict {
        let Judged { decision, reason, .. } = self.judge_path(Capability::Read, path);
        Verdict { decision, reason }
    }

    /// Whether the workspace's code may run.
    pub fn is_trusted(&self) -> bool {
        self.trusts(&self.options.root)
    }

    /// Permits showing the text of `path` to the model.
    ///
    /// Asks where the policy says so.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn permit_read(
        &self,
        path: &AbsPath,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(), Denied> {
        let question = || Question {
            kind: QuestionKind::Read,
            title: format!("Read {}?", self.shown(path)),
            detail: String::new(),
            files: vec![self.shown(path)],
        };
        let paths = std::slice::from_ref(path);
        self.permit_paths(Capability::Read, paths, &[], question, approver, cancel).await.map(drop)
    }

    /// Whether a scan may read the file at a canonical path without asking.
    ///
    /// The check is cheap and writes nothing to the audit log.
    pub fn may_read(&self, path: &AbsPath) -> bool {
        let is_plain = protection(path, &self.options.root, &self.options.own).is_none();
        // An unprotected file may be read unless a rule forbids it.
        let is_ruled = |rules: &[Rule]| {
            rules.iter().any(|rule| rule.capability == Capability::Read && rule.decision != Decision::Allow)
        };
        if is_plain && !is_ruled(&self.options.rules) && !is_ruled(&self.grants.lock().rules) {
            return true;
        }
        self.judge_resolved(Capability::Read, path).decision == Decision::Allow
    }

    /// Permits a plan; asks where the policy or the plan itself requires it.
    ///
    /// The question shows files, counts and diff. A policy that proposes does not ask.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn permit(
        &self,
        plan: &dyn PlannedChange,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Permit, Denied> {
        let paths = plan.paths();
        if self.options.proposes {
            // The user decides when the change is known.
            self.refuse_denied(Capability::Write, &paths)?;
            return Ok(Permit { digest: plan.digest(), is_proposal: true });
        }
        let question = || self.question(plan, &paths);
        let more = plan.confirm();
        let asked = self.permit_paths(Capability::Write, &paths, more, question, approver, cancel).await?;
        if !asked {
            self.confirm(plan, &paths, approver, cancel).await?;
        }
        Ok(Permit { digest: plan.digest(), is_proposal: false })
    }

    fn question(&self, plan: &dyn PlannedChange, paths: &[AbsPath]) -> Question {
        let (files, added, removed) = plan.counts();
        let noun = if files == 1 { "file" } else { "files" };
        let confirm: String = plan.confirm().iter().map(|line| Question::confirming(line)).collect();
        Question {
            kind: QuestionKind::Write,
            title: format!("{}: {files} {noun}, +{added} −{removed}", plan.label()),
            detail: confirm + &plan.diff(&self.options.root),
            files: paths.iter().map(|path| self.shown(path)).collect(),
        }
    }

    /// Asks the user to confirm the plan's lines, if there are any.
    async fn confirm(
        &self,
        plan: &dyn PlannedChange,
        paths: &[AbsPath],
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(), Denied> {
        if plan.confirm().is_empty() {
            return Ok(());
        }
        let _turn = self.turn(cancel).await?;
        let reason = format!("write: {}", to_be_confirmed(plan.confirm()));
        let about = Asked {
            capability: Capability::Write.name(),
            code: ErrorCode::Denied,
            reason: &reason,
            help: "look at the change with apply: false, then repeat with --yes",
            subject: paths.iter().map(|path| self.shown(path)).collect(),
            class: None,
        };
        let answer = self.ask(self.question(plan, paths), about, approver, cancel).await;
        answer.map(drop).map_err(|(denied, _)| denied)
    }

    /// Permits a plan that the user's own command named, without asking.
    ///
    /// # Errors
    /// [`Denied`] if a rule or a protection denies it, or the plan needs confirmation.
    pub fn permit_invoked(&self, plan: &dyn PlannedChange) -> Result<Permit, Denied> {
        let paths = plan.paths();
        self.refuse_denied(Capability::Write, &paths)?;
        if !plan.confirm().is_empty() {
            let reason = format!("write: {}", to_be_confirmed(plan.confirm()));
            let subject = paths.iter().map(|path| self.shown(path)).collect();
            return Err(self.deny(Capability::Write, By::Policy, reason, subject));
        }
        Ok(Permit { digest: plan.digest(), is_proposal: false })
    }

    /// Permits like [`Self::permit_invoked`], but asks the user to confirm lines.
    ///
    /// # Errors
    /// [`Denied`] if a rule, a protection or the user denies it.
    pub async fn permit_invoked_asking(
        &self,
        plan: &dyn PlannedChange,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Permit, Denied> {
        let paths = plan.paths();
        self.refuse_denied(Capability::Write, &paths)?;
        self.confirm(plan, &paths, approver, cancel).await?;
        Ok(Permit { digest: plan.digest(), is_proposal: false })
    }

    /// Permits starting a definition's program; asks once for missing trust.
    ///
    /// For a project's definition, a question shows the command; the policy asks again when the
    /// command changes.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn grant_spawn(
        &self,
        request: &SpawnRequest,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<SpawnGrant, Denied> {
        self.refuse_command(&request.command)?;
        if self.lacks(request).is_some() {
            let _turn = self.turn(cancel).await?;
            // Check again: the answer to the previous question may have decided it.
            if let Some(missing) = self.lacks(request) {
                self.ask_spawn(request, missing, approver, cancel).await?;
            }
        }
        let args = request.subject.is_some().then(|| request.command.args.clone());
        Ok(SpawnGrant {
            definition: request.definition.clone(),
            root: request.root.clone(),
            program: request.command.program.clone(),
            args,
            sandbox: request.changes.as_ref().and_then(|files| self.program_profile(files)),
            environment: Vec::new(),
            note: None,
            variables: self.variable_rules(),
            max_memory: self.options.exec.max_memory.filter(|_| request.is_command),
            lock: None,
        })
    }

    fn granted(&self, definition: &str, command: &CommandLine) -> SpawnGrant {
        SpawnGrant { variables: self.variable_rules(), ..SpawnGrant::exactly(definition, command) }
    }

    fn variable_rules(&self) -> Vec<Rule> {
        let is_about = |rule: &&Rule| rule.capability == Capability::Env;
        self.options.rules.iter().filter(is_about).cloned().collect()
    }

    /// Whether a definition's program may start on `root` without asking.
    ///
    /// A rule may still deny it.
    pub fn spawns_unasked(&self, root: &AbsPath, from_project: bool) -> bool {
        self.options.yes || !from_project && self.trusts(root)
    }

    /// Ends the trust in a subject that broke a limit, which `reason` names.
    pub fn kill_subject(&self, subject: &Subject, reason: &str) {
        self.subjects.kill_for(subject, reason);
    }

    fn trusts(&self, root: &AbsPath) -> bool {
        let canonical = canonical(root);
        self.grants.lock().trusts.iter().any(|trusted| canonical.starts_with(trusted))
            || self.options.trust.is_trusted(root)
    }

    /// Permits a program that the user's own command named, without asking.
    ///
    /// `pilcrow adapters install` is such a command. The grant is for exactly this program and its
    /// arguments. Callers must not pass a command that a model chose.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a rule denies it.
    pub fn grant_invoked(&self, definition: &str, command: &CommandLine) -> Result<SpawnGrant, Denied> {
        self.refuse_command(command)?;
        Ok(self.granted(definition, command))
    }

    /// Permits like [`Self::grant_invoked`] a program that only prints.
    ///
    /// It runs in a sandbox without network.
    ///
    /// # Errors
    ///
    /// [`Denied`] if a rule denies it.
    pub fn grant_query(&self, definition: &str, command: &CommandLine) -> Result<SpawnGrant, Denied> {
        let sandbox = self.program_profile(&ProgramFiles::default());
        Ok(SpawnGrant { sandbox, ..self.grant_invoked(definition, command)? })
    }

    /// Permits the tool `by` to run `command`, a program of the user.
    ///
    /// Asks where the policy says so; the question shows the whole command.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn permit_run(
        &self,
        by: &str,
        command: &CommandLine,
        confinement: Confinement,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(), Denied> {
        self.refuse_unconfined(Capability::Exec, confinement, &command.to_string())?;
        let variables: String = command.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let without = if self.lacks_sandbox(confinement) { WITHOUT_SANDBOX } else { "" };
        let question = Question {
            kind: QuestionKind::Exec,
            title: format!("Run {command} under {by}?"),
            detail: format!("{variables}{command}\nin {}{without}", command.cwd),
            files: Vec::new(),
        };
        let known_as = match confinement {
            Confinement::Sandbox | Confinement::SandboxAlone => format!("{by} in the sandbox"),
            _ => by.to_owned(),
        };
        let judge = || {
            let judged = self.judge_run(command);
            let agreed =
                judged.decision == Decision::Ask && self.grants.lock().allows_command(&known_as, command);
            if agreed { Judged { decision: Decision::Allow, ..judged } } else { judged }
        };
        let help = "repeat with --yes, or name it in a rule `allow exec …`";
        let subject = vec![command.to_string()];
        let asked = self.permit_judged(Capability::Exec, judge, help, subject, question, approver, cancel);
        if let Some(term) = asked.await? {
            self.grants.lock().remember_command(&known_as, command, term);
        }
        Ok(())
    }

    /// Permits like [`Self::permit_run`], and grants the start of exactly `command`.
    ///
    /// A confined one has the sandbox of commands.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn grant_run(
        &self,
        by: &str,
        command: &CommandLine,
        confinement: Confinement,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<SpawnGrant, Denied> {
        self.permit_run(by, command, confinement, approver, cancel).await?;
        let is_confined = confinement.is_sandboxed();
        let sandbox = if is_confined { self.sandbox_profile(&LineUse::default()) } else { None };
        let lock = match &sandbox {
            Some(profile) => self.lock_command(profile, cancel).await?.map(Arc::new),
            None => None,
        };
        let max_memory = self.options.exec.max_memory;
        Ok(SpawnGrant { sandbox, max_memory, lock, ..self.granted(by, command) })
    }

    /// Refuses to run `what` where the user requires a sandbox and it has none.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    fn refuse_unconfined(
        &self,
        capability: Capability,
        confinement: Confinement,
        what: &str,
    ) -> Result<(), Denied> {
        let is_required = self.options.exec.sandbox == SandboxMode::Required;
        if confinement.is_sandboxed() || !is_required {
            return Ok(());
        }
        let reason = format!(
            "{}: {what} would run outside the sandbox, and `exec.sandbox` is \"required\"",
            capability.name()
        );
        Err(self.deny(capability, By::Policy, reason, vec![what.to_owned()]))
    }

    /// Whether a program runs without the sandbox that the settings ask for.
    fn lacks_sandbox(&self, confinement: Confinement) -> bool {
        !confinement.is_sandboxed() && self.options.exec.sandbox != SandboxMode::Off
    }

    /// Permits attaching to a process, which is outside the sandbox.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn permit_attach(
        &self,
        what: &str,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(), Denied> {
        self.refuse_unconfined(Capability::Debug, Confinement::Waived, what)?;
        let outside = if self.lacks_sandbox(Confinement::Waived) { ", outside the sandbox" } else { "" };
        self.permit_debug(&format!("{what}{outside}"), approver, cancel).await
    }

    /// Permits `what` on a debugged program; asks where the policy says so.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn permit_debug(
        &self,
        what: &str,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(), Denied> {
        let title = format!("In the debugged program: {what}?");
        let question =
            Question { kind: QuestionKind::Exec, title, detail: what.to_owned(), files: Vec::new() };
        let judge = || self.judge_all(Capability::Debug);
        let help = "repeat with --yes, or allow it with a rule `allow debug`";
        let subject = vec![what.to_owned()];
        let asked = self.permit_judged(Capability::Debug, judge, help, subject, question, approver, cancel);
        if let Some(term) = asked.await?
            && let Ok(rule) = Rule::parse("allow debug", ANSWER)
        {
            self.grants.lock().add_rule(rule, term);
        }
        Ok(())
    }

    /// Asks where `judge` says so.
    ///
    /// Returns how long the answer holds, if it does.
    #[expect(clippy::too_many_arguments, reason = "the subject, the question, and the user to ask")]
    async fn permit_judged(
        &self,
        capability: Capability,
        judge: impl Fn() -> Judged,
        help: &str,
        subject: Vec<String>,
        question: Question,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Option<Term>, Denied> {
        if judge().decision == Decision::Allow {
            return Ok(None);
        }
        let _turn = self.turn(cancel).await?;
        // Check again: the answer to the previous question may have decided it.
        let Judged { decision, reason, untrusted } = judge();
        match decision {
            Decision::Allow => return Ok(None),
            Decision::Deny => return Err(self.deny(capability, By::Policy, reason, subject)),
            Decision::Ask => {}
        }
        let code = if untrusted.is_some() { ErrorCode::Untrusted } else { ErrorCode::Denied };
        let about =
            Asked { capability: capability.name(), code, reason: &reason, help, subject, class: None };
        let answer = self.ask(question, about, approver, cancel).await.map_err(|(denied, _)| denied)?;
        Ok(match answer {
            Answer::Session => Some(Term::Session),
            Answer::Always => Some(Term::Always),
            _ => None,
        })
    }
}
