//! Decisions about the hosts that programs connect to through the sandbox's proxy.

use tokio_util::sync::CancellationToken;

use super::{By, Decided, Decision, Denied, Found, Judged, Policy};
use crate::rules::{self, ANSWER, Capability, PACKAGES, Rule};
use crate::{Approver, Question, QuestionKind};

/// The name of commands in rules about one program.
pub const COMMANDS: &str = "bash";

/// Permission to connect to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPermit {
    /// Whether a rule of the configuration names the host exactly.
    ///
    /// Only then it may be in a private network.
    pub private: bool,
}

impl Policy {
    /// The decision about a connection of a command to a host, without asking.
    pub(super) fn judge_host(&self, host: &str, port: u16, program: &str) -> Judged {
        let default = || self.default_for(Capability::Http);
        let found = self.decide(|rules| rules::for_host(rules, host, port, program), default);
        self.trusted_only(Capability::Http, found)
    }

    /// The default of a language server for a host.
    pub(super) fn server_default(&self, host: &str, port: u16) -> (Decision, String) {
        if rules::is_package_host(host, port) {
            return (Decision::Allow, "http: a package registry".to_owned());
        }
        self.default_for(Capability::Http)
    }

    /// The decision about a connection of a language server to a host.
    pub(super) fn judge_server_host(&self, server: &str, host: &str, port: u16) -> Found {
        let default = || self.server_default(host, port);
        self.decide(|rules| rules::for_host(rules, host, port, server), default)
    }

    /// Permits a connection to a host; asks where the policy says so.
    ///
    /// `program` is the name in rules about one program: `bash`, or a debug adapter's.
    /// An answer for a package registry is for all of them. The audit log has a row for each call.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub async fn permit_host(
        &self,
        host: &str,
        port: u16,
        program: &str,
        approver: &dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<HostPermit, Denied> {
        let named = format!("{host}:{port}");
        let judge = || self.judge_host(host, port, program);
        let first = judge();
        if first.decision == Decision::Allow {
            let (capability, decision, by) = (Capability::Http.name(), "allow", By::Policy);
            let (reason, subject) = (first.reason.as_str(), vec![named]);
            let row = Decided { capability, decision, by, answer: None, reason, subject, class: None };
            let written = self.audit.record(row);
            self.require_row(written, None)?;
        } else {
            let is_package = rules::is_package_host(host, port);
            let (title, pattern) = if is_package {
                ("Connect to the package registries?".to_owned(), PACKAGES.to_owned())
            } else {
                (format!("Connect to {named}?"), named.clone())
            };
            let detail = format!("A command connects to {named}.");
            let question = Question { kind: QuestionKind::Exec, title, detail, files: Vec::new() };
            let help = format!("repeat with --yes, or allow it with a rule `allow http {pattern}`");
            let asked =
                self.permit_judged(Capability::Http, judge, &help, vec![named], question, approver, cancel);
            if let Some(term) = asked.await?
                && let Ok(rule) = Rule::parse(&format!("allow http {pattern}"), ANSWER)
            {
                self.grants.lock().add_rule(rule, term);
            }
        }
        Ok(self.host_permit(host, port, program))
    }

    /// Permits a language server to connect to a host, without asking.
    ///
    /// A server connects at any time, also while the user does other work. Package registries are permitted
    /// unless a rule says otherwise. The audit log has a row for each call.
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub fn permit_server_host(&self, server: &str, host: &str, port: u16) -> Result<HostPermit, Denied> {
        let found = self.judge_server_host(server, host, port);
        let subject = vec![format!("{host}:{port}"), server.to_owned()];
        if found.decision != Decision::Allow {
            let rule = format!("{server}: allow http {host}:{port}");
            let reason = format!("{}; allow it with a rule `{rule}`", found.reason);
            return Err(self.deny(Capability::Http, By::Policy, reason, subject));
        }
        let (capability, decision, by, reason) =
            (Capability::Http.name(), "allow", By::Policy, &*found.reason);
        let row = Decided { capability, decision, by, answer: None, reason, subject, class: None };
        self.require_row(self.audit.record(row), None)?;
        Ok(self.host_permit(host, port, server))
    }

    fn host_permit(&self, host: &str, port: u16, subject: &str) -> HostPermit {
        let settings = self.options.rules.iter().filter(|rule| !rule.tightens());
        let private = rules::for_host(settings, host, port, subject)
            .is_some_and(|rule| rule.decision == Decision::Allow && rule.names_host());
        HostPermit { private }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;
    use crate::tests::{Fixture, Script, audit, policy, rules};

    #[test]
    fn servers_reach_package_registries_unless_a_rule_denies_them() {
        let fixture = Fixture::new(&[]);
        let permits = |rule: &[&str], host: &str| {
            let policy = policy(&fixture, |options| options.rules = rules(rule));
            policy.permit_server_host("x", host, 443).is_ok()
        };
        assert!(permits(&[], "pypi.org") && !permits(&[], "example.org"));
        assert!(permits(&["allow http example.org"], "example.org"));
        assert!(permits(&["x: allow http example.org"], "example.org"));
        assert!(!permits(&["y: allow http example.org"], "example.org"));
        assert!(!permits(&["x: deny http"], "pypi.org"));
        for rule in ["ask http @packages", "deny http pypi.org"] {
            assert!(!permits(&[rule], "pypi.org"), "{rule}");
        }
        assert_eq!(audit(&fixture).len(), 8);
    }

    #[tokio::test]
    async fn one_answer_allows_all_package_registries() {
        let fixture = Fixture::new(&[]);
        let policy = policy(&fixture, |options| {
            options.rules = rules(&["allow http db.corp:5432", "allow http *.corp"]);
        });
        let ask = async |host: &str, port, script: &Script| {
            policy.permit_host(host, port, COMMANDS, script, &CancellationToken::new()).await
        };
        let session = Script::new([Answer::Session]);
        let plain = Ok(HostPermit { private: false });
        assert_eq!(ask("pypi.org", 443, &session).await, plain);
        let none = Script::new([]);
        assert_eq!(ask("files.pythonhosted.org", 443, &none).await, plain);
        assert_eq!(ask("db.corp", 5432, &none).await, Ok(HostPermit { private: true }));
        assert_eq!(ask("a.corp", 80, &none).await, plain);
        for (host, port) in [("pypi.org", 80), ("example.org", 443), ("corp", 80)] {
            let no = Script::new([Answer::No { text: String::new() }]);
            assert!(ask(host, port, &no).await.is_err(), "{host}");
        }
        let rows = audit(&fixture);
        let shown: Vec<String> =
            rows.iter().map(|row| format!("{} {}", row["decision"], row["subject"][0])).collect();
        assert_eq!(shown.len(), 7, "{shown:?}");
        assert_eq!(shown[1], r#""allow" "files.pythonhosted.org:443""#);
    }
}
