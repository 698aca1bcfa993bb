//! Questions to the user, one at a time, each recorded in the audit log.

use futures_util::future::{Either, select};
use paths::AbsPath;
use paths::canonical_existing as canonical;
use shell::CommandLine;
use tokio_util::sync::CancellationToken;

use super::{Decision, Denied, DeniedBy, Judged, Policy, SpawnRequest};
use crate::grants::Term;
use crate::policy::audit::{By, Classified, Decided};
use crate::rules::{self, ANSWER, Capability, Rule};
use crate::trust::trust_command;
use crate::{Answer, Approver, ErrorCode, Question, QuestionKind, Subject, SubjectState};

/// Audit entry of a question, and the message if it cannot be asked.
pub(super) struct Asked<'a> {
    pub capability: &'a str,
    pub code: ErrorCode,
    pub reason: &'a str,
    pub help: &'a str,
    pub subject: Vec<String>,
    pub class: Option<Classified>,
}

/// Renders the lines that the user must confirm as the reason of a decision.
pub(super) fn to_be_confirmed(lines: &[String]) -> String {
    format!("to be confirmed: {}", lines.join("; "))
}

impl Policy {
    /// Returns an error if a rule denies `command`.
    pub(super) fn refuse_command(&self, command: &CommandLine) -> Result<(), Denied> {
        let unruled = || (Decision::Allow, String::new());
        let found = self.decide(|rules| rules::for_command(rules, command), unruled);
        if found.decision != Decision::Deny {
            return Ok(());
        }
        Err(self.deny(Capability::Exec, By::Policy, found.reason, vec![command.to_string()]))
    }

    /// The question to ask before `request`.
    pub(super) fn lacks(&self, request: &SpawnRequest) -> Option<QuestionKind> {
        if !self.trusts(&request.root) {
            return Some(QuestionKind::Trust);
        }
        let agrees = |subject: &Subject| self.subjects.allows(subject, &request.command);
        let agreed = request.subject.as_ref().is_none_or(agrees)
            || self.judge_command(&request.command).decision == Decision::Allow;
        (!agreed).then_some(QuestionKind::Exec)
    }

    pub(super) async fn ask_spawn(
        &self,
        request: &SpawnRequest,
        kind: QuestionKind,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(), Denied> {
        let root = &self.options.root;
        let root = if request.root.starts_with(root) { root } else { &request.root };
        let name = &request.definition;
        let is_trust = kind == QuestionKind::Trust;
        let (code, title, reason, help) = if is_trust {
            (
                ErrorCode::Untrusted,
                format!("Trust {root} and start {name}?"),
                format!("{root} is not trusted"),
                format!("run `{}`, or repeat with --yes", trust_command(root)),
            )
        } else {
            (
                ErrorCode::Denied,
                format!("Run {name} as this project defines it?"),
                format!("the user did not agree to the command of {name}, which this project defines"),
                "repeat with --yes after reading it, or name it in a rule `allow exec …`".to_owned(),
            )
        };
        if is_trust && self.grants.lock().refused {
            let reason = format!("the user declined to trust {root}");
            return Err(Denied { code, reason, by: DeniedBy::User });
        }
        if let Some(subject) = &request.subject {
            self.subjects.reset_if_changed(subject, &request.command);
        }
        // The search path is long and the same for every program.
        let variables = request.command.env.iter().filter(|(name, _)| name.as_str() != "PATH");
        let variables: String = variables.map(|(name, value)| format!("{name}={value} ")).collect();
        let mut detail = format!("{variables}{}", request.command);
        // The title names the root.
        if !is_trust || request.command.cwd != *root {
            detail.push_str(&format!("\nin {}", request.command.cwd));
        }
        if is_trust {
            detail
                .push_str("\nTools of a trusted project use your rights: they write files and run its code.");
        }
        let question = Question { kind, title, detail, files: Vec::new() };
        let subject = vec![root.to_string(), request.command.to_string()];
        let capability = if is_trust { "trust" } else { "exec" };
        let asked = Asked { capability, code, reason: &reason, help: &help, subject, class: None };
        let answer = self.ask(question, asked, approver, cancel).await;
        let mut grants = self.grants.lock();
        let answer = match answer {
            Ok(answer) => answer,
            Err((denied, said_no)) => {
                grants.refused |= is_trust && said_no;
                return Err(denied);
            }
        };
        let term = if answer == Answer::Always { Term::Always } else { Term::Session };
        if is_trust {
            grants.trusts.push(canonical(root));
            if term == Term::Always
                && let Err(error) = self.options.trust.trust(root)
            {
                tracing::warn!(%error, "trust holds for this session only");
            }
        }
        drop(grants);
        if let Some(subject) = &request.subject {
            let command = &request.command;
            match (self.options.yes, term) {
                // With `--yes` the user saw nothing.
                (true, _) => self.subjects.allow_here(subject, command),
                (_, Term::Always) => self.subjects.acknowledge(subject, command, SubjectState::Trusted),
                (_, Term::Session) => self.subjects.acknowledge(subject, command, SubjectState::Acknowledged),
            }
        }
        Ok(())
    }

    /// Decides about `paths` together, with one question.
    ///
    /// `more` has further lines to confirm, which a denial without a question names too. Returns
    /// whether it asked the user or `--yes`.
    pub(super) async fn permit_paths(
        &self,
        capability: Capability,
        paths: &[AbsPath],
        more: &[String],
        question: impl Fn() -> Question,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<bool, Denied> {
        if self.refuse_denied(capability, paths)?.is_empty() {
            return Ok(false);
        }
        let _turn = self.turn(cancel).await?;
        // Check again: the answer to the previous question may have decided it.
        let asked = self.refuse_denied(capability, paths)?;
        let Some((_, first)) = asked.first() else { return Ok(false) };
        let rule = format!("allow it with a rule `allow {} …`", capability.name());
        let trust = format!("run `{}`", trust_command(&self.options.root));
        let (code, help) = match asked.iter().filter_map(|(_, judged)| judged.untrusted).max() {
            None => (ErrorCode::Denied, format!("repeat with --yes, or {rule}")),
            Some(false) => (ErrorCode::Untrusted, format!("repeat with --yes, or {trust}")),
            Some(true) => (ErrorCode::Untrusted, format!("repeat with --yes, or {trust} and {rule}")),
        };
        let subject = asked.iter().map(|(path, _)| self.shown(path)).collect();
        let capability_name = capability.name();
        let mut reason = first.reason.clone();
        if !more.is_empty() {
            reason = format!("{reason}; {}", to_be_confirmed(more));
        }
        let about =
            Asked { capability: capability_name, code, reason: &reason, help: &help, subject, class: None };
        let answer = self.ask(question(), about, approver, cancel).await.map_err(|(denied, _)| denied)?;
        let term = match answer {
            Answer::Session => Term::Session,
            Answer::Always => Term::Always,
            _ => return Ok(true),
        };
        let mut grants = self.grants.lock();
        for (path, _) in &asked {
            let rule = match self.protected(path) {
                Some(_) => Rule::for_path(Decision::Allow, capability, &self.shown(path), ANSWER),
                None => match Rule::parse(&format!("allow {capability_name}"), ANSWER) {
                    Ok(rule) => rule,
                    Err(_) => continue,
                },
            };
            if !grants.rules.iter().any(|known| known.text() == rule.text()) {
                grants.add_rule(rule, term);
            }
        }
        Ok(true)
    }

    /// Returns the paths to ask about, or the first denied one as an error.
    pub(super) fn refuse_denied<'a>(
        &self,
        capability: Capability,
        paths: &'a [AbsPath],
    ) -> Result<Vec<(&'a AbsPath, Judged)>, Denied> {
        let mut asked = Vec::new();
        for path in paths {
            let judged = self.judge_path(capability, path);
            match judged.decision {
                Decision::Allow => {}
                Decision::Ask => asked.push((path, judged)),
                Decision::Deny => {
                    let subject = vec![self.shown(path)];
                    return Err(self.deny(capability, By::Policy, judged.reason, subject));
                }
            }
        }
        Ok(asked)
    }

    /// Asks `--yes` or the user; the error says whether the user denied it.
    pub(super) async fn ask(
        &self,
        question: Question,
        about: Asked<'_>,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Answer, (Denied, bool)> {
        let decided = |by, decision, answer| {
            let (capability, reason) = (about.capability, about.reason);
            let subject = about.subject.clone();
            self.audit.record(Decided {
                capability,
                decision,
                by,
                answer,
                reason,
                subject,
                class: about.class,
            })
        };
        let allowed = |by, answer| {
            self.require_row(decided(by, "allow", answer), about.class).map_err(|denied| (denied, false))
        };
        let refused = |by, answer| {
            // The request is denied, whether or not the log has a row.
            decided(by, "deny", answer).ok();
        };
        if self.options.yes {
            allowed(By::Yes, None)?;
            return Ok(Answer::Session);
        }
        // Dropping the question is harmless: a surface withdraws it with its future.
        let answer = match select(Box::pin(cancel.cancelled()), approver.ask(question, cancel)).await {
            Either::Left(_) => None,
            Either::Right((answer, _)) => Some(answer).filter(|_| !cancel.is_cancelled()),
        };
        let denied = |reason: String, by| Denied { code: about.code, reason, by };
        match answer {
            None => {
                refused(By::Cancel, None);
                let reason = "cancelled before it was answered".into();
                Err((Denied { code: ErrorCode::Cancelled, ..denied(reason, DeniedBy::Policy) }, false))
            }
            Some(Answer::Unattended) => {
                refused(By::Unattended, None);
                let reason = format!("{}, and there is no user to ask: {}", about.reason, about.help);
                Err((denied(reason, DeniedBy::Unattended), false))
            }
            Some(Answer::Refused { reason }) => {
                refused(By::Unattended, None);
                Err((denied(format!("{}: {reason}", about.reason), DeniedBy::Policy), false))
            }
            Some(Answer::Dismissed) => {
                refused(By::User, Some("dismissed"));
                Err((denied("the user dismissed the question".into(), DeniedBy::User), false))
            }
            Some(Answer::No { text }) => {
                refused(By::User, Some("no"));
                let text = if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) };
                Err((denied(format!("the user said no{text}"), DeniedBy::User), true))
            }
            Some(answer) => {
                let name = match answer {
                    Answer::Always => "always",
                    Answer::Session => "session",
                    _ => "once",
                };
                allowed(By::User, Some(name))?;
                Ok(answer)
            }
        }
    }

    /// Refuses a command that must be audited and has no row.
    ///
    /// These are commands of a class, and with `exec.audit_all` all.
    pub(super) fn require_row(
        &self,
        written: Result<(), String>,
        class: Option<Classified>,
    ) -> Result<(), Denied> {
        let is_required = class.is_some() || self.options.exec.audit_all;
        let Err(error) = written.or_else(|error| if is_required { Err(error) } else { Ok(()) }) else {
            return Ok(());
        };
        let reason = format!("exec: the audit log cannot be written ({error}); make it writable and repeat");
        Err(Denied { code: ErrorCode::Denied, reason, by: DeniedBy::Policy })
    }

    /// Waits for the turn to ask.
    pub(super) async fn turn(
        &self,
        cancel: &CancellationToken,
    ) -> Result<tokio::sync::SemaphorePermit<'_>, Denied> {
        // Dropping either future is harmless: it takes no turn.
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            turn = self.asking.acquire() => if let Ok(turn) = turn {
                return Ok(turn);
            }
        }
        let reason = "the call was cancelled before Pilcrow asked the user".into();
        Err(Denied { code: ErrorCode::Cancelled, reason, by: DeniedBy::Policy })
    }

    pub(super) fn deny(
        &self,
        capability: Capability,
        by: By,
        reason: String,
        subject: Vec<String>,
    ) -> Denied {
        self.deny_class(capability, by, reason, subject, None)
    }

    /// Logs a denial with the class of a command line, and returns it.
    pub(super) fn deny_class(
        &self,
        capability: Capability,
        by: By,
        reason: String,
        subject: Vec<String>,
        class: Option<Classified>,
    ) -> Denied {
        let (capability, decision, answer) = (capability.name(), "deny", None);
        let row = Decided { capability, decision, by, answer, reason: &reason, subject, class };
        // The request is denied, whether or not the log has a row.
        self.audit.record(row).ok();
        Denied { code: ErrorCode::Denied, reason, by: DeniedBy::Policy }
    }
}
