//! Evaluation of rules and defaults, without asking.
//!
//! They are evaluated for a path, a command or a capability.

use paths::AbsPath;
use paths::canonical_existing as canonical;
use shell::CommandLine;

use super::{Decision, Judged, Mode, Policy, shell_command};
use crate::policy::protected::{Protection, protection};
use crate::rules::{self, ANSWER, Capability, Rule};

/// Reason of the denial of commands while `exec.enabled` is off.
pub(super) const SWITCHED_OFF: &str = "exec: commands are switched off by `exec.enabled`";

/// A decision before the check of trust.
pub(super) struct Found {
    pub decision: Decision,
    pub reason: String,
    /// Whether an answer of the user in this workspace made the decision.
    pub answered: bool,
}

impl From<(Decision, String)> for Found {
    fn from((decision, reason): (Decision, String)) -> Self {
        Self { decision, reason, answered: false }
    }
}

impl From<Found> for Judged {
    fn from(Found { decision, reason, .. }: Found) -> Self {
        Self { decision, reason, untrusted: None }
    }
}

pub(super) fn explain(rule: &Rule) -> Found {
    let reason = format!("{}: the rule `{}` ({})", rule.capability.name(), rule.text(), rule.source());
    Found { decision: rule.decision, reason, answered: rule.source() == ANSWER }
}

/// Whether a rule applies to a path of this protection.
///
/// A rule that permits must spell the protected name.
pub(super) fn applies(rule: &Rule, protection: Option<&Protection>) -> bool {
    protection.is_none_or(|it| rule.decision == Decision::Deny || rule.spells(it.name.as_deref()))
}

impl Policy {
    /// The stricter of the decisions about a path as spelled and as resolved.
    pub(super) fn judge_path(&self, capability: Capability, path: &AbsPath) -> Judged {
        let spelled = self.judge_resolved(capability, path);
        let resolved = canonical(path);
        if resolved == *path {
            return spelled;
        }
        let resolved = self.judge_resolved(capability, &resolved);
        if resolved.decision > spelled.decision { resolved } else { spelled }
    }

    pub(super) fn judge_resolved(&self, capability: Capability, path: &AbsPath) -> Judged {
        let root = &self.options.root;
        let shown = self.shown(path);
        let protection = protection(path, root, &self.options.own);
        let own = |rule: &&Rule| applies(rule, protection.as_ref());
        let default = || match &protection {
            Some(protection) => self.protected_default(capability, protection, &shown),
            None => self.default_for(capability),
        };
        let found = self.decide(|rules| rules::for_path(rules.filter(own), capability, path, root), default);
        self.trusted_only(capability, found)
    }

    /// The decision on a protected path without a rule of its own.
    ///
    /// `ask` becomes `deny` in the mode `strict`.
    pub(super) fn protected_default(
        &self,
        capability: Capability,
        protection: &Protection,
        shown: &str,
    ) -> (Decision, String) {
        let decision = match protection.decision(capability) {
            Decision::Ask if self.options.mode == Mode::Strict => Decision::Deny,
            decision => decision,
        };
        let name = capability.name();
        let pattern = if protection.name.is_some() && !shown.starts_with('/') {
            format!("./{shown}")
        } else {
            shown.to_owned()
        };
        let reason = format!(
            "{name}: {shown} is protected ({}); to permit it, add the rule `allow {name} {pattern}`",
            protection.what
        );
        (decision, reason)
    }

    /// The decision about a program that a tool runs: `deny` if `exec.enabled` is off.
    pub(super) fn judge_run(&self, command: &CommandLine) -> Judged {
        if self.options.exec.enabled {
            return self.judge_command(command);
        }
        Judged { decision: Decision::Deny, reason: SWITCHED_OFF.to_owned(), untrusted: None }
    }

    /// The decision about a command: `ask` if no rule names it.
    pub(super) fn judge_command(&self, command: &CommandLine) -> Judged {
        if let Some(line) = shell_command::of(command) {
            return self.judge_line(line).judged;
        }
        let default = || self.default_for(Capability::Exec);
        let found = self.decide(|rules| rules::for_command(rules, command), default);
        self.trusted_only(Capability::Exec, found)
    }

    /// The decision while the exact effect is unknown.
    pub(super) fn judge_all(&self, capability: Capability) -> Judged {
        let default = || self.default_for(capability);
        let found = self.decide(|rules| rules::for_all(rules, capability), default);
        self.trusted_only(capability, found)
    }

    /// Limits an untrusted workspace to reading and to the user's answers there.
    pub(super) fn trusted_only(&self, capability: Capability, found: Found) -> Judged {
        let Found { decision, reason, answered } = found;
        let free = capability == Capability::Read || decision == Decision::Deny || answered;
        if free || self.is_trusted() {
            return Judged { decision, reason, untrusted: None };
        }
        let reason = format!("{}: {} is not trusted", capability.name(), self.options.root);
        Judged { decision: Decision::Ask, reason, untrusted: Some(decision == Decision::Ask) }
    }

    pub(super) fn default_for(&self, capability: Capability) -> (Decision, String) {
        let name = capability.name();
        match (capability, self.options.mode) {
            (Capability::Read, _) => (Decision::Allow, "read: allowed in the workspace".into()),
            (_, Mode::Strict) => {
                (Decision::Deny, format!("{name}: no rule allows it and the mode is strict"))
            }
            (Capability::Exec, _) => (Decision::Ask, "exec: every command needs approval".into()),
            (_, Mode::Prompt) => (Decision::Ask, format!("{name}: no rule matches, so the user is asked")),
            (_, Mode::Permissive) => (Decision::Allow, format!("{name}: allowed by the mode permissive")),
        }
    }

    pub(super) fn protected(&self, path: &AbsPath) -> Option<Protection> {
        let root = &self.options.root;
        protection(path, root, &self.options.own)
            .or_else(|| protection(&canonical(path), root, &self.options.own))
    }

    /// The decision of the rule that `look` finds, else `default`.
    ///
    /// A rule that can only tighten may make it stricter.
    pub(super) fn decide(
        &self,
        look: impl for<'a> Fn(&mut dyn Iterator<Item = &'a Rule>) -> Option<&'a Rule>,
        default: impl FnOnce() -> (Decision, String),
    ) -> Found {
        let grants = self.grants.lock();
        let rules = || self.options.rules.iter().chain(&grants.rules);
        let found = look(&mut rules().filter(|rule| !rule.tightens())).map(explain);
        let found = found.unwrap_or_else(|| default().into());
        match look(&mut rules().filter(|rule| rule.tightens())) {
            Some(rule) if rule.decision > found.decision => explain(rule),
            _ => found,
        }
    }

    /// Renders a path for the user, relative to the root if it is below it.
    pub(super) fn shown(&self, path: &AbsPath) -> String {
        match path.strip_prefix(&self.options.root) {
            Some(relative) if !relative.as_os_str().is_empty() => relative.display().to_string(),
            _ => path.to_string(),
        }
    }
}
