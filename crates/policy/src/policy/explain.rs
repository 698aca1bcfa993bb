//! Explains a decision: what each level of the policy says, in the order in which they apply.

use serde::Serialize;

use super::evaluate::{applies, explain};
use super::hosts::COMMANDS;
use super::shell_command::{EARLIER_ANSWER, command_of};
use super::{Decision, Found, Judged, Policy};
use crate::is_secret;
use crate::policy::protected::protection;
use crate::rules::{self, Capability, Rule};

/// A decision and what led to it.
#[derive(Debug, Serialize)]
pub struct Explanation {
    decision: &'static str,
    /// The deciding rule or default, as a message.
    reason: String,
    levels: Vec<Level>,
}

/// One level of the policy; of several lines about one level, the strictest counts.
#[derive(Debug, Serialize)]
struct Level {
    /// `rule`, `default`, `effect`, `project rule`, `answer` or `trust`.
    level: &'static str,
    /// `None` if the level decides nothing.
    decision: Option<&'static str>,
    detail: String,
}

/// A program in questions about hosts and variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedProgram<'a> {
    /// A debug adapter, or `bash` for commands.
    Asking(&'a str),
    /// A language server, whose connections do not ask.
    Server(&'a str),
}

impl Explanation {
    /// Renders the explanation as lines of text.
    pub fn render(&self) -> String {
        let mut text = format!("{}: {}\n", self.decision, self.reason);
        for Level { level, decision, detail } in &self.levels {
            text.push_str(&format!("  {level:<13} {:<6} {detail}\n", decision.unwrap_or("-")));
        }
        text
    }
}

impl Policy {
    /// Explains the decision about `argument`.
    ///
    /// It is a path, a command line, `HOST`, `HOST:PORT` or a variable. Without an argument, the decision is
    /// about the whole capability. `by` is the program that connects or gets the variable, by default a
    /// command. Asks nothing and writes nothing.
    ///
    /// # Errors
    /// A message if the capability is unknown or the argument is not of its kind.
    pub fn explain(
        &self,
        capability: &str,
        argument: Option<&str>,
        by: Option<NamedProgram<'_>>,
    ) -> Result<Explanation, String> {
        let known = Capability::ALL.into_iter().find(|it| it.name() == capability);
        let Some(capability) = known else {
            let names = Capability::ALL.map(Capability::name).join(", ");
            return Err(format!("there is no capability `{capability}`; use one of {names}"));
        };
        if by.is_some() && !matches!(capability, Capability::Http | Capability::Env) {
            return Err("`--by` applies to http and env only; leave it out".to_owned());
        }
        let root = &self.options.root;
        let (name, is_server) = match by.unwrap_or(NamedProgram::Asking(COMMANDS)) {
            NamedProgram::Asking(name) => (name, false),
            NamedProgram::Server(name) => (name, true),
        };
        Ok(match (capability, argument) {
            (Capability::Read | Capability::Write, Some(path)) => {
                let path = root.join(path);
                let protection = protection(&path, root, &self.options.own);
                let default = match &protection {
                    Some(protection) => self.protected_default(capability, protection, &self.shown(&path)),
                    None => self.default_for(capability),
                };
                let levels = self.levels(capability, default, &|rules| {
                    let own = |rule: &&Rule| applies(rule, protection.as_ref());
                    rules::for_path(rules.filter(own), capability, &path, root)
                });
                conclude(self.judge_path(capability, &path), levels)
            }
            (Capability::Exec, Some(line)) => self.explain_line(line),
            (Capability::Http, Some(host)) => {
                let (host, port) = match host.rsplit_once(':') {
                    Some((host, port)) => {
                        (host, port.parse().map_err(|_| format!("{port:?} is not a port"))?)
                    }
                    None => (host, 443),
                };
                let default = match is_server {
                    true => self.server_default(host, port),
                    false => self.default_for(capability),
                };
                let levels =
                    self.levels(capability, default, &|rules| rules::for_host(rules, host, port, name));
                let judged = match is_server {
                    true => self.judge_server_host(name, host, port).into(),
                    false => self.judge_host(host, port, name),
                };
                conclude(judged, levels)
            }
            (Capability::Env, Some(variable)) => {
                let value = std::env::var_os(variable).unwrap_or_default();
                let default = match is_secret(variable, &value.to_string_lossy()) {
                    true => (Decision::Deny, "env: the variable is a secret".to_owned()),
                    false => (Decision::Allow, "env: the variable is not secret".to_owned()),
                };
                let levels = self
                    .levels(capability, default.clone(), &|rules| rules::for_variable(rules, variable, name));
                conclude(
                    self.decide(|rules| rules::for_variable(rules, variable, name), || default).into(),
                    levels,
                )
            }
            (Capability::Env, None) => {
                return Err("a decision about env needs a variable: `pilcrow config why env NAME`".to_owned());
            }
            (Capability::Debug, Some(_)) => return Err("a decision about debug has no argument".to_owned()),
            (_, None) => {
                let default = self.default_for(capability);
                let levels = self.levels(capability, default, &|rules| rules::for_all(rules, capability));
                conclude(self.judge_all(capability), levels)
            }
        })
    }

    /// The levels of a subject, from the default to trust.
    fn levels(
        &self,
        capability: Capability,
        (decision, reason): (Decision, String),
        look: &dyn for<'a> Fn(&mut dyn Iterator<Item = &'a Rule>) -> Option<&'a Rule>,
    ) -> Vec<Level> {
        let mut levels = vec![Level { level: "default", decision: Some(decision.name()), detail: reason }];
        self.add_rules(&mut levels, "", look);
        levels.push(self.trust_level(capability));
        levels
    }

    fn add_rules(
        &self,
        levels: &mut Vec<Level>,
        subject: &str,
        look: &dyn for<'a> Fn(&mut dyn Iterator<Item = &'a Rule>) -> Option<&'a Rule>,
    ) {
        let grants = self.grants.lock();
        for (level, tightens) in [("rule", false), ("project rule", true)] {
            let mut rules = self.options.rules.iter().chain(&grants.rules);
            let found = look(&mut rules.by_ref().filter(|rule| rule.tightens() == tightens));
            let (decision, detail) = match found.map(explain) {
                Some(Found { decision, reason, .. }) => (Some(decision.name()), reason),
                None if tightens => continue,
                None => (None, "no rule matches".to_owned()),
            };
            let detail = if subject.is_empty() { detail } else { format!("{subject}: {detail}") };
            levels.push(Level { level, decision, detail });
        }
    }

    fn explain_line(&self, text: &str) -> Explanation {
        let root = &self.options.root;
        let line = self.judge_line(text);
        let (decision, reason) = self.default_for(Capability::Exec);
        let mut levels = vec![Level { level: "default", decision: Some(decision.name()), detail: reason }];
        for words in line.commands.iter().map(|named| &named.words).filter(|words| !words.is_empty()) {
            let command = command_of(words, root);
            self.add_rules(&mut levels, &format!("`{}`", words.join(" ")), &|rules| {
                rules::for_command(rules.filter(|rule| rule.is_about(&command, root)), &command)
            });
        }
        let effects =
            line.notes.iter().map(|note| Level { level: "effect", decision: None, detail: note.clone() });
        levels.extend(effects);
        let mut judged = line.judged;
        // The tool that runs command lines.
        if judged.decision == Decision::Ask && self.grants.lock().has_command_of(&format!("bash {text}")) {
            (judged.decision, judged.reason) = (Decision::Allow, EARLIER_ANSWER.to_owned());
            let (decision, detail) = (Some(judged.decision.name()), judged.reason.clone());
            levels.push(Level { level: "answer", decision, detail });
        }
        levels.push(self.trust_level(Capability::Exec));
        conclude(judged, levels)
    }

    fn trust_level(&self, capability: Capability) -> Level {
        let root = &self.options.root;
        let (decision, detail) = match (self.is_trusted(), capability) {
            (true, _) => (None, format!("{root} is trusted")),
            (false, Capability::Read) => (None, format!("{root} is not trusted; reading needs no trust")),
            (false, Capability::Env) => (None, format!("{root} is not trusted; nothing starts there")),
            (false, _) => (Some(Decision::Ask.name()), format!("{root} is not trusted")),
        };
        Level { level: "trust", decision, detail }
    }
}

fn conclude(judged: Judged, levels: Vec<Level>) -> Explanation {
    Explanation { decision: judged.decision.name(), reason: judged.reason, levels }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::NamedProgram;
    use crate::tests::{Fixture, policy, rules, untrusted};

    #[test]
    fn each_level_is_shown() {
        let fixture = Fixture::new(&[(".env", ""), ("src/a.rs", "")]);
        let policy = policy(&fixture, |options| {
            options.rules = rules(&[
                "allow write src/**",
                "allow exec git",
                "deny http *.example.org",
                "gopls: allow http x.org",
                "gopls: allow env A_KEY",
            ]);
            let project = rules(&["deny exec git push", "ask write src/a.rs"]);
            options.rules.extend(project.into_iter().map(crate::Rule::tightening));
        });
        let explain = |(capability, argument)| match policy.explain(capability, argument, None) {
            Ok(explanation) => explanation.render(),
            Err(message) => format!("{message}\n"),
        };
        let cases = [
            ("write", Some("src/a.rs")),
            ("write", Some(".env")),
            ("read", Some("src/../src/a.rs")),
            ("exec", Some("git push && rm -rf /")),
            ("exec", Some("git status | sort")),
            ("exec", Some("cargo test")),
            ("http", Some("a.example.org:80")),
            ("http", Some("pypi.org")),
            ("http", Some("pypi.org:x")),
            ("env", Some("A_KEY")),
            ("env", Some("A_DIRECTORY_OF_MINE")),
            ("env", None),
            ("debug", None),
            ("debug", Some("x")),
            ("paint", None),
        ];
        let shell = shell::CommandLine {
            program: "bash".into(),
            args: vec!["-c".into(), "cargo test".into()],
            env: Vec::new(),
            cwd: fixture.root.clone(),
        };
        policy.grants.lock().remember_command("bash cargo test", &shell, crate::grants::Term::Always);
        let mut text: String = cases.map(explain).concat();
        let (server, debugger) = (NamedProgram::Server("gopls"), NamedProgram::Asking("debugpy"));
        for (capability, argument, by) in [
            ("http", "pypi.org", server),
            ("http", "x.org", server),
            ("http", "pypi.org", debugger),
            ("http", "x.org", debugger),
            ("env", "A_KEY", server),
            ("exec", "ls", server),
        ] {
            let explained = policy.explain(capability, Some(argument), Some(by));
            text.push_str(&explained.map_or_else(|message| format!("{message}\n"), |it| it.render()));
        }
        let other = Fixture::new(&[]);
        for capability in ["read", "write"] {
            let explanation = untrusted(&other, |_| {}).explain(capability, Some("a"), None).unwrap();
            text.push_str(&other.without_base(&explanation.render()));
        }
        expect![[r#"
            ask: write: the rule `ask write src/a.rs` (config.toml:1)
              default       ask    write: no rule matches, so the user is asked
              rule          allow  write: the rule `allow write src/**` (config.toml:1)
              project rule  ask    write: the rule `ask write src/a.rs` (config.toml:1)
              trust         -      <base>/root is trusted
            ask: write: .env is protected (environment secrets); to permit it, add the rule `allow write ./.env`
              default       ask    write: .env is protected (environment secrets); to permit it, add the rule `allow write ./.env`
              rule          -      no rule matches
              trust         -      <base>/root is trusted
            allow: read: allowed in the workspace
              default       allow  read: allowed in the workspace
              rule          -      no rule matches
              trust         -      <base>/root is trusted
            deny: exec: the rule `deny exec git push` (config.toml:1)
              default       ask    exec: every command needs approval
              rule          allow  `git push`: exec: the rule `allow exec git` (config.toml:1)
              project rule  deny   `git push`: exec: the rule `deny exec git push` (config.toml:1)
              rule          -      `rm -rf /`: no rule matches
              effect        -      recursive delete (critical): `rm -rf /`: deletes the root of the file system
              trust         -      <base>/root is trusted
            ask: exec: every command needs approval
              default       ask    exec: every command needs approval
              rule          allow  `git status`: exec: the rule `allow exec git` (config.toml:1)
              rule          -      `sort`: no rule matches
              trust         -      <base>/root is trusted
            allow: exec: allowed by your earlier answer
              default       ask    exec: every command needs approval
              rule          -      `cargo test`: no rule matches
              answer        allow  exec: allowed by your earlier answer
              trust         -      <base>/root is trusted
            deny: http: the rule `deny http *.example.org` (config.toml:1)
              default       ask    http: no rule matches, so the user is asked
              rule          deny   http: the rule `deny http *.example.org` (config.toml:1)
              trust         -      <base>/root is trusted
            ask: http: no rule matches, so the user is asked
              default       ask    http: no rule matches, so the user is asked
              rule          -      no rule matches
              trust         -      <base>/root is trusted
            "x" is not a port
            deny: env: the variable is a secret
              default       deny   env: the variable is a secret
              rule          -      no rule matches
              trust         -      <base>/root is trusted
            allow: env: the variable is not secret
              default       allow  env: the variable is not secret
              rule          -      no rule matches
              trust         -      <base>/root is trusted
            a decision about env needs a variable: `pilcrow config why env NAME`
            ask: debug: no rule matches, so the user is asked
              default       ask    debug: no rule matches, so the user is asked
              rule          -      no rule matches
              trust         -      <base>/root is trusted
            a decision about debug has no argument
            there is no capability `paint`; use one of read, write, exec, http, env, debug
            allow: http: a package registry
              default       allow  http: a package registry
              rule          -      no rule matches
              trust         -      <base>/root is trusted
            allow: http: the rule `gopls: allow http x.org` (config.toml:1)
              default       ask    http: no rule matches, so the user is asked
              rule          allow  http: the rule `gopls: allow http x.org` (config.toml:1)
              trust         -      <base>/root is trusted
            ask: http: no rule matches, so the user is asked
              default       ask    http: no rule matches, so the user is asked
              rule          -      no rule matches
              trust         -      <base>/root is trusted
            ask: http: no rule matches, so the user is asked
              default       ask    http: no rule matches, so the user is asked
              rule          -      no rule matches
              trust         -      <base>/root is trusted
            allow: env: the rule `gopls: allow env A_KEY` (config.toml:1)
              default       deny   env: the variable is a secret
              rule          allow  env: the rule `gopls: allow env A_KEY` (config.toml:1)
              trust         -      <base>/root is trusted
            `--by` applies to http and env only; leave it out
            allow: read: allowed in the workspace
              default       allow  read: allowed in the workspace
              rule          -      no rule matches
              trust         -      <base>/root is not trusted; reading needs no trust
            ask: write: <base>/root is not trusted
              default       ask    write: no rule matches, so the user is asked
              rule          -      no rule matches
              trust         ask    <base>/root is not trusted
        "#]].assert_eq(&fixture.without_base(&text));
    }
}
