//! Decisions about all the commands in a shell's command line.
//!
//! Rules come first. A command that a rule allows by its words is allowed whatever it does, unless
//! that is critical: then the rule must spell the whole command. A denied command is denied at any
//! position of the line. Files that a redirection opens, or that a command like `cp` writes, are
//! checked like any path. Then the line's effects count (`shell`): the policy denies those at or
//! above the threshold and asks the user about those below. It also asks about an effect that it
//! cannot predict, and the question names the worst case.

use std::sync::Arc;

use paths::AbsPath;
use paths::canonical_existing as canonical;
use shell::CommandLine;
use shell::{self, Finding, Named, Opened, Surroundings, Tier};
use tokio_util::sync::CancellationToken;

use super::{
    Asked, By, Classified, Decided, Decision, Denied, DeniedBy, Found, Judged, Mode, Policy, SandboxMode,
    Term,
};
use crate::policy::protected::protection;
use crate::policy::sandbox_profile::LineUse;
use crate::rules::{self, Capability, Rule};
use crate::{
    Approver, CommandLock, Confinement, ErrorCode, Question, QuestionKind, SandboxProfile, SpawnGrant,
};

/// Maximum number of a command line's effects that a question shows.
const MOST_SHOWN: usize = 6;

pub(super) const EARLIER_ANSWER: &str = "exec: allowed by your earlier answer";

/// World-writable directories.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp", "/private/tmp"];

/// The decision on a command line.
pub(super) struct Line {
    pub judged: Judged,
    pub class: Option<Classified>,
    /// Warnings that the question shows.
    pub(super) notes: Vec<String>,
    pub(super) commands: Vec<Named>,
    /// Whether some effects are known only at run time.
    pub(super) is_doubtful: bool,
    /// Whether it sets a variable that programs may read.
    pub(super) sets_variables: bool,
}

/// The command line that `command` passes to a shell.
pub(super) fn of(command: &CommandLine) -> Option<&str> {
    let name = command.program.file_name()?.to_str()?;
    match command.args.as_slice() {
        [option, line] if matches!(name, "bash" | "sh") && option == "-c" => Some(line),
        _ => None,
    }
}

/// Maximum length of a command in a title, in characters.
const MOST_TITLE: usize = 80;

impl Policy {
    /// Permits the tool `by` to run a command line, `bash -c LINE` or `sh -c LINE`.
    ///
    /// Asks where the policy says so; the question lists the effects of the line. If the sandbox is waived
    /// it asks about every line, also one that a rule allows.
    ///
    /// # Errors
    /// [`Denied`] with the reason, also if `command` is not of that form.
    pub async fn grant_line(
        &self,
        by: &str,
        command: &CommandLine,
        confinement: Confinement,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<SpawnGrant, Denied> {
        let Some(text) = of(command) else {
            let reason = format!(
                "exec: `{command}` is not a shell's command line; pass `bash -c LINE` or `sh -c LINE`"
            );
            return Err(self.deny(Capability::Exec, By::Policy, reason, vec![command.to_string()]));
        };
        let sandboxed = confinement.is_sandboxed();
        // Each permitted line is remembered separately.
        let known_as =
            if sandboxed { format!("{by} {text}") } else { format!("{by} without sandbox {text}") };
        let sandbox_mode = self.options.exec.sandbox;
        let judge = || {
            let mut line = self.judge_line(text);
            if !sandboxed && line.judged.decision < Decision::Deny && sandbox_mode != SandboxMode::Off {
                let (decision, why) = match (sandbox_mode, self.options.mode, confinement) {
                    (SandboxMode::Required, ..) => (Decision::Deny, "`exec.sandbox` is \"required\""),
                    // Only a rule allows it unasked, as without the setting.
                    (.., Confinement::Unavailable) => (line.judged.decision, ""),
                    (_, Mode::Strict, _) => (Decision::Deny, "the mode is strict"),
                    _ => (Decision::Ask, "every such command needs approval"),
                };
                line.judged.decision = decision;
                if !why.is_empty() {
                    line.judged.reason = format!("exec: without the sandbox: {why}");
                }
                line.notes.insert(0, "without a sandbox: it can change all files that you can".to_owned());
            }
            if line.judged.decision == Decision::Ask && self.grants.lock().allows_command(&known_as, command)
            {
                line.judged.decision = Decision::Allow;
                line.judged.reason = EARLIER_ANSWER.to_owned();
            }
            line
        };
        let grant = async |line: &Line| {
            let max_memory = self.options.exec.max_memory;
            let granted = SpawnGrant { max_memory, ..self.granted(by, command) };
            if !sandboxed {
                return Ok(granted);
            }
            let (used, sandbox, lock) = self.lock_line(text, line, confinement, cancel).await?;
            Ok(SpawnGrant { sandbox, environment: used.environment, note: used.note, lock, ..granted })
        };
        let line = judge();
        let line = if line.judged.decision == Decision::Ask {
            let _turn = self.turn(cancel).await?;
            // Check again: the answer to the previous question may have decided it.
            let line = judge();
            if line.judged.decision == Decision::Ask {
                self.ask_line(&known_as, command, text, &line, approver, cancel).await?;
                return grant(&line).await;
            }
            line
        } else {
            line
        };
        let Line { judged, class, .. } = &line;
        let denied = judged.decision == Decision::Deny;
        if denied || class.is_some() || self.options.exec.audit_all {
            let decision = if denied { "deny" } else { "allow" };
            let (capability, reason) = (Capability::Exec.name(), judged.reason.as_str());
            let (subject, answer) = (vec![text.to_owned()], None);
            let by = By::Policy;
            let row = Decided { capability, decision, by, answer, reason, subject, class: *class };
            let written = self.audit.record(row);
            if !denied {
                self.require_row(written, *class)?;
            }
        }
        if denied {
            let by = DeniedBy::Policy;
            return Err(Denied { code: ErrorCode::Denied, reason: line.judged.reason, by });
        }
        grant(&line).await
    }

    /// The limits of a line, and the lock that makes them hold while it runs.
    async fn lock_line(
        &self,
        text: &str,
        line: &Line,
        confinement: Confinement,
        cancel: &CancellationToken,
    ) -> Result<(LineUse, Option<SandboxProfile>, Option<Arc<CommandLock>>), Denied> {
        let mut alone = confinement == Confinement::SandboxAlone;
        loop {
            let used = self.line_use(text, line, alone);
            let Some(profile) = self.sandbox_profile(&used) else { return Ok((used, None, None)) };
            if !used.git.has_keys {
                let lock = self.lock_command(&profile, cancel).await?.map(Arc::new);
                return Ok((used, Some(profile), lock));
            }
            let command = self.command_use(&profile, true);
            match self.try_lock_command(&command).await {
                Ok(Ok(lock)) => {
                    // Another command may have changed the settings before the lock.
                    let used = self.line_use(text, line, alone);
                    let profile = self.sandbox_profile(&used);
                    let is_same = |profile| self.command_use(profile, true) == command;
                    if used.git.has_keys && profile.as_ref().is_some_and(is_same) {
                        return Ok((used, profile, Some(Arc::new(lock))));
                    }
                }
                Ok(Err(busy)) if busy.has_keys => self.wait_for(busy, cancel).await?,
                Ok(Err(_)) => alone = false,
                Err(error) => {
                    tracing::warn!(%error, "git gets no keys without a lock");
                    alone = false;
                }
            }
        }
    }

    async fn ask_line(
        &self,
        known_as: &str,
        command: &CommandLine,
        text: &str,
        line: &Line,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(), Denied> {
        let title: String = text.lines().next().unwrap_or_default().chars().take(MOST_TITLE).collect();
        let more = if title.len() < text.trim().len() { "…" } else { "" };
        let mut detail = format!("{text}\nin {}", command.cwd);
        for note in line.notes.iter().take(MOST_SHOWN) {
            detail.push_str(&format!("\n! {note}"));
        }
        let question = Question {
            kind: QuestionKind::Exec,
            title: format!("Run {title}{more}?"),
            detail,
            files: Vec::new(),
        };
        let untrusted = line.judged.untrusted.is_some();
        let about = Asked {
            capability: Capability::Exec.name(),
            code: if untrusted { ErrorCode::Untrusted } else { ErrorCode::Denied },
            reason: &line.judged.reason,
            help: "repeat with --yes, or name the commands in rules like `allow exec cargo test`",
            subject: vec![text.to_owned()],
            class: line.class,
        };
        let answer = self.ask(question, about, approver, cancel).await.map_err(|(denied, _)| denied)?;
        let term = match answer {
            crate::Answer::Session if !self.options.yes => Term::Session,
            crate::Answer::Always => Term::Always,
            _ => return Ok(()),
        };
        self.grants.lock().remember_command(known_as, command, term);
        Ok(())
    }

    /// The decision on a command line, without asking.
    pub(super) fn judge_line(&self, text: &str) -> Line {
        let root = &self.options.root;
        let found = shell::judge(text, &surroundings(root));
        let class = found.findings.first().filter(|it| it.tier > Tier::Low);
        let class = class.map(|it| Classified { class: it.class, tier: it.tier });
        let mut notes: Vec<String> = found.findings.iter().filter(|it| it.sure).map(describe).collect();
        notes.extend(found.doubts.iter().cloned());
        let (found_commands, is_doubtful) = (found.commands.clone(), !found.doubts.is_empty());
        let sets_variables = found.sets_variables;
        let line = |decision, reason: String| {
            let found = Found { decision, reason, answered: false };
            let (judged, notes) = (self.trusted_only(Capability::Exec, found), notes.clone());
            Line { judged, class, notes, commands: found_commands.clone(), is_doubtful, sets_variables }
        };
        if !self.options.exec.enabled {
            return line(Decision::Deny, super::evaluate::SWITCHED_OFF.to_owned());
        }
        let ruled = self.rule_commands(&found.commands, root);
        if ruled.decision == Decision::Deny {
            return line(Decision::Deny, ruled.reason);
        }
        let opened = self.rule_files(&found.files);
        if let Some(Judged { decision: Decision::Deny, reason, .. }) = opened {
            return line(Decision::Deny, reason);
        }
        let mut asked: Option<String> = None;
        for finding in found.findings.iter().filter(|it| it.sure) {
            if self.lifts(finding, root) {
                continue;
            }
            if finding.tier >= self.options.exec.deny_threshold {
                let lift = match finding.tier {
                    Tier::Critical => "only a rule that spells the whole command allows it",
                    _ => "a rule `allow exec …` that names the command allows it",
                };
                return line(Decision::Deny, format!("exec: {}; {lift}", describe(finding)));
            }
            if finding.tier > Tier::Low {
                asked.get_or_insert_with(|| format!("exec: {}", describe(finding)));
            }
        }
        let unknown =
            || found.doubts.first().map(|doubt| format!("exec: Pilcrow cannot predict the effects: {doubt}"));
        match asked.or_else(unknown) {
            Some(reason) if self.options.mode == Mode::Strict => {
                line(Decision::Deny, format!("{reason}, and the mode is strict"))
            }
            Some(reason) => line(Decision::Ask, reason),
            None => match opened {
                Some(opened) if opened.decision > ruled.decision => line(opened.decision, opened.reason),
                _ => line(ruled.decision, ruled.reason),
            },
        }
    }

    /// The strictest decision of the rules on the commands of a line.
    fn rule_commands(&self, commands: &[Named], root: &AbsPath) -> Found {
        let mut strictest: Option<Found> = None;
        for named in commands.iter().filter(|named| !named.words.is_empty()) {
            let command = command_of(&named.words, root);
            let default = || {
                if named.neutral && commands.iter().any(|it| !it.neutral) {
                    (Decision::Allow, String::new())
                } else {
                    self.default_for(Capability::Exec)
                }
            };
            let about = |rule: &&Rule| rule.is_about(&command, root);
            let found = self.decide(|rules| rules::for_command(rules.filter(about), &command), default);
            if strictest.as_ref().is_none_or(|now| found.decision > now.decision) {
                strictest = Some(found);
            }
        }
        strictest.unwrap_or_else(|| self.default_for(Capability::Exec).into())
    }

    /// The strictest decision on files that redirections open and commands write.
    ///
    /// A rule about commands is about their words. It permits no file that another rule or the
    /// file's place protects.
    fn rule_files(&self, files: &[Opened]) -> Option<Judged> {
        let root = &self.options.root;
        let judge = |file: &Opened| {
            let capability = if file.writes { Capability::Write } else { Capability::Read };
            let Some(path) = file.path.as_deref().and_then(AbsPath::new) else {
                let decision = if self.options.mode == Mode::Strict { Decision::Deny } else { Decision::Ask };
                let reason =
                    format!("{}: Pilcrow cannot predict which file the line opens", capability.name());
                return Judged { decision, reason, untrusted: None };
            };
            let about = |path: &AbsPath| {
                protection(path, root, &self.options.own).is_some()
                    || self
                        .decide(
                            |rules| rules::for_path(rules, capability, path, root),
                            || (Decision::Allow, String::new()),
                        )
                        .decision
                        > Decision::Allow
            };
            let is_spelled = || file.words.as_ref().is_some_and(|words| self.allows(words, root, true));
            if file.by_words && (!about(&path) && !about(&canonical(&path)) || is_spelled()) {
                return Judged { decision: Decision::Allow, reason: String::new(), untrusted: None };
            }
            // Temporary directories are open to all programs, unless a rule denies them.
            let is_temporary = |path: &AbsPath| {
                TEMPORARY.iter().any(|directory| path.as_path().starts_with(directory))
                    && protection(path, root, &self.options.own).is_some_and(|it| it.name.is_none())
            };
            if is_temporary(&path) && is_temporary(&canonical(&path)) {
                let own = |rule: &&Rule| rule.decision == Decision::Deny || rule.spells(None);
                let default = || {
                    if file.by_words {
                        (Decision::Allow, String::new())
                    } else {
                        self.default_for(capability)
                    }
                };
                let found =
                    self.decide(|rules| rules::for_path(rules.filter(own), capability, &path, root), default);
                return self.trusted_only(capability, found);
            }
            self.judge_path(capability, &path)
        };
        // The first of the strictest decisions counts.
        files.iter().map(judge).reduce(|a, b| if b.decision > a.decision { b } else { a })
    }

    /// Whether a rule permits the finding: it names the command, in full if critical.
    fn lifts(&self, finding: &Finding, root: &AbsPath) -> bool {
        let Some(words) = &finding.words else { return false };
        self.allows(words, root, finding.tier >= Tier::Critical)
    }

    /// Whether a rule names the command of these words; with `whole`, all its words.
    fn allows(&self, words: &[String], root: &AbsPath, whole: bool) -> bool {
        let command = command_of(words, root);
        let grants = self.grants.lock();
        let rules = || self.options.rules.iter().chain(&grants.rules);
        let rules = || rules().filter(|rule| rule.is_about(&command, root));
        let allowed = rules::for_command(rules().filter(|rule| !rule.tightens()), &command);
        let tightened = rules::for_command(rules().filter(|rule| rule.tightens()), &command);
        let enough = |rule: &Rule| {
            let exact = rule.names(&command);
            rule.decision == Decision::Allow && exact.is_some_and(|exact| exact || !whole)
        };
        tightened.is_none_or(|rule| rule.decision == Decision::Allow) && allowed.is_some_and(enough)
    }
}

fn describe(finding: &Finding) -> String {
    format!("{} ({}): {}", finding.class, finding.tier.name(), finding.why)
}

pub(super) fn command_of(words: &[String], root: &AbsPath) -> CommandLine {
    let program = words.first().map(String::as_str).unwrap_or_default();
    let args = words.get(1..).unwrap_or_default().to_vec();
    CommandLine { program: program.into(), args, env: Vec::new(), cwd: root.clone() }
}

pub(super) fn surroundings(root: &AbsPath) -> Surroundings {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    let own = std::iter::once(std::process::id()).chain(parent.filter(|pid| *pid > 1)).collect();
    Surroundings { root: root.to_string(), home: std::env::var("HOME").ok().filter(|it| !it.is_empty()), own }
}

#[cfg(test)]
mod tests;
