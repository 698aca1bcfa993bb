//! Rules: `allow|ask|deny`, a capability, and a pattern.
//!
//! A rule is one line: `allow write docs/**`, `deny exec git push`, `ask http *.example.org`, or
//! `deny write`. The most specific of the matching rules wins, and among equally specific ones the
//! strictest. This module selects the rule; `policy` has the defaults.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use paths::AbsPath;
use shell::CommandLine;

/// Answer of a policy. Later variants are stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

/// A kind of effect that rules can allow or deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Showing a file's text to the model.
    Read,
    /// Changing, creating, moving or deleting a file.
    Write,
    Exec,
    /// Connecting to a host.
    Http,
    /// Passing a variable of the environment to a program.
    Env,
    /// Changing a debugged program, or evaluating an expression that may.
    Debug,
}

impl Capability {
    pub(crate) const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Exec, Self::Http, Self::Env, Self::Debug];

    /// The name as rules spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Exec => "exec",
            Self::Http => "http",
            Self::Env => "env",
            Self::Debug => "debug",
        }
    }
}

/// The source of rules that come from the user's answers to questions.
pub(crate) const ANSWER: &str = "your earlier answer";

/// A parsed rule; see [`Rule::parse`].
#[derive(Debug, Clone)]
pub struct Rule {
    pub decision: Decision,
    pub capability: Capability,
    /// The program that the rule is about; `None` for all.
    subject: Option<String>,
    pattern: Pattern,
    text: String,
    source: String,
    tightens: bool,
}

#[derive(Debug, Clone)]
enum Pattern {
    /// The rule applies to all of the capability.
    All,
    Path(PathPattern),
    /// The first words of a command.
    Command(Vec<String>),
    Host(HostPattern),
    /// The name of a variable, or with `true` its beginning.
    Variable(String, bool),
}

#[derive(Debug, Clone)]
enum HostPattern {
    /// The hosts of [`PACKAGE_HOSTS`].
    Packages,
    /// Every host below this one; it begins with a dot.
    Below(String, Option<u16>),
    Exact(String, Option<u16>),
}

/// The pattern of the package registries.
pub(crate) const PACKAGES: &str = "@packages";

/// Hosts from which package managers install, at port 443.
const PACKAGE_HOSTS: &[&str] = &[
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "jsr.io",
    "npm.jsr.io",
    "pypi.org",
    "files.pythonhosted.org",
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "static.rust-lang.org",
    "proxy.golang.org",
    "sum.golang.org",
    "rubygems.org",
    "index.rubygems.org",
    "repo.maven.apache.org",
    "repo1.maven.org",
    "plugins.gradle.org",
    "services.gradle.org",
    "api.nuget.org",
    "repo.packagist.org",
    "repo.hex.pm",
    "pub.dev",
];

pub(crate) fn is_package_host(host: &str, port: u16) -> bool {
    port == 443 && PACKAGE_HOSTS.contains(&host.to_ascii_lowercase().as_str())
}

#[derive(Debug, Clone)]
struct PathPattern {
    glob: GlobMatcher,
    /// Whether the pattern matches whole paths rather than those below the root.
    absolute: bool,
    specificity: Specificity,
}

/// Precedence of a pattern: one without wildcards wins, then the longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Specificity {
    exact: bool,
    literal: usize,
}

/// A malformed rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule {text:?} cannot be used: {detail}")]
pub struct RuleError {
    pub text: String,
    /// The problem, and how to fix it.
    pub detail: String,
}

impl Rule {
    /// Parses a rule; `source` is the place where it was written.
    ///
    /// A path pattern is a glob (`*`, `?`, `[a-z]`, `{a,b}` within a name, `**` across directories)
    /// below the workspace's root. One without `/` matches in every directory (`./a.md`: only in
    /// the root), one that ends in `/` everything below that directory, and one that begins with
    /// `/` or `~/` whole paths. A command pattern is the first words of the command. A host may
    /// begin with `*.` and end with `:PORT`; `@packages` are the package registries. A variable may
    /// end in `*`. A rule about hosts or variables may begin with the program that it is about:
    /// `gopls: deny http`.
    ///
    /// # Errors
    ///
    /// [`RuleError`] with the problem.
    pub fn parse(text: &str, source: &str) -> Result<Self, RuleError> {
        let fail = |detail: String| RuleError { text: text.to_owned(), detail };
        let named = text.trim_start().split_once(':').filter(|(name, _)| !name.contains(char::is_whitespace));
        let (subject, rule) = named.map_or((None, text), |(name, rest)| (Some(name.to_owned()), rest));
        let mut words = rule.split_whitespace();
        let decision = match words.next() {
            Some("allow") => Decision::Allow,
            Some("ask") => Decision::Ask,
            Some("deny") => Decision::Deny,
            _ => return Err(fail("it must begin with allow, ask or deny".into())),
        };
        let name = words.next().unwrap_or_default();
        let Some(capability) = Capability::ALL.into_iter().find(|it| it.name() == name) else {
            return Err(fail("its second word must be read, write, exec, http, env or debug".into()));
        };
        // The rest stays as written: a path may contain spaces.
        let rest = rule.split_once(name).map_or("", |(_, rest)| rest.trim());
        if subject.is_some() && !matches!(capability, Capability::Http | Capability::Env) {
            return Err(fail("only a rule for http or env can begin with a program".into()));
        }
        if capability == Capability::Env && decision == Decision::Ask {
            return Err(fail("a rule for env cannot ask; write allow or deny".into()));
        }
        let pattern = match capability {
            _ if rest.is_empty() => Pattern::All,
            Capability::Read | Capability::Write => Pattern::Path(PathPattern::parse(rest).map_err(fail)?),
            Capability::Exec => Pattern::Command(rest.split_whitespace().map(str::to_owned).collect()),
            Capability::Http => Pattern::Host(HostPattern::parse(rest).map_err(fail)?),
            Capability::Env => match rest.strip_suffix('*') {
                Some(beginning) => Pattern::Variable(beginning.to_owned(), true),
                None => Pattern::Variable(rest.to_owned(), false),
            },
            Capability::Debug => {
                return Err(fail("a rule for debug takes no argument; remove the text after `debug`".into()));
            }
        };
        let (text, source) = (text.trim().to_owned(), source.to_owned());
        Ok(Self { decision, capability, subject, pattern, text, source, tightens: false })
    }

    /// Limits the rule to making decisions stricter.
    ///
    /// A project's rules are limited so that none overrides the user's by being more specific.
    pub fn tightening(self) -> Self {
        Self { tightens: true, ..self }
    }

    /// Whether the rule can only make a decision stricter.
    pub(crate) fn tightens(&self) -> bool {
        self.tightens
    }

    /// The rule for exactly one path, whose characters are literal.
    pub(crate) fn for_path(decision: Decision, capability: Capability, path: &str, source: &str) -> Self {
        let anchor = if path.starts_with('/') { "" } else { "./" };
        let text = format!("{} {} {anchor}{}", decision.name(), capability.name(), globset::escape(path));
        let everything = || Self {
            decision: Decision::Ask,
            capability,
            subject: None,
            pattern: Pattern::All,
            text: text.clone(),
            source: source.into(),
            tightens: false,
        };
        // An escaped path is always a glob; otherwise the rule would only ask.
        Self::parse(&text, source).unwrap_or_else(|_| everything())
    }

    /// The rule that allows reading below a directory, whose name is literal.
    pub(crate) fn for_reading_below(directory: &AbsPath) -> Self {
        let text = format!("allow read {}/**", globset::escape(&directory.to_string()));
        let source = "Pilcrow's own directory";
        let pattern = PathPattern::parse(text.trim_start_matches("allow read ")).map(Pattern::Path);
        // An escaped path is always a glob; otherwise the rule would only ask.
        let (decision, pattern) = match pattern {
            Ok(pattern) => (Decision::Allow, pattern),
            Err(_) => (Decision::Ask, Pattern::All),
        };
        let (capability, source) = (Capability::Read, source.into());
        Self { decision, capability, subject: None, pattern, text, source, tightens: false }
    }

    /// The rule as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The place of the rule, for messages: `config.toml:12`.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Specificity of its match of `path`, if it matches.
    fn path(&self, path: &AbsPath, root: &AbsPath) -> Option<Specificity> {
        match &self.pattern {
            Pattern::All => Some(Specificity::default()),
            Pattern::Path(pattern) => pattern.matches(path, root).then_some(pattern.specificity),
            Pattern::Command(_) | Pattern::Host(_) | Pattern::Variable(..) => None,
        }
    }

    fn command(&self, command: &CommandLine) -> Option<Specificity> {
        let words = match &self.pattern {
            Pattern::All => return Some(Specificity::default()),
            Pattern::Command(words) => words,
            Pattern::Path(_) | Pattern::Host(_) | Pattern::Variable(..) => return None,
        };
        let (program, args) = words.split_first()?;
        let is_program = Path::new(program) == command.program
            || !program.contains('/') && command.program.file_name().is_some_and(|name| name == &**program);
        let exact = command.args.len() == args.len();
        (is_program && command.args.starts_with(args)).then_some(Specificity { exact, literal: words.len() })
    }

    fn host(&self, host: &str, port: u16) -> Option<Specificity> {
        match &self.pattern {
            Pattern::All => Some(Specificity::default()),
            Pattern::Host(pattern) => pattern.matches(host, port),
            Pattern::Path(_) | Pattern::Command(_) | Pattern::Variable(..) => None,
        }
    }

    fn variable(&self, name: &str) -> Option<Specificity> {
        let Pattern::Variable(known, is_beginning) = &self.pattern else {
            return matches!(self.pattern, Pattern::All).then(Specificity::default);
        };
        let matches = if *is_beginning { name.starts_with(known) } else { name == known };
        matches.then_some(Specificity { exact: !is_beginning, literal: known.len() })
    }

    /// Whether the rule is about one host.
    pub(crate) fn names_host(&self) -> bool {
        matches!(self.pattern, Pattern::Host(HostPattern::Exact(..)))
    }

    /// Whether the rule names words of a command; `Some(true)`: it covers all commands.
    pub(crate) fn names(&self, command: &CommandLine) -> Option<bool> {
        let Pattern::Command(_) = &self.pattern else { return None };
        self.command(command).map(|specificity| specificity.exact)
    }

    /// Whether the rule may apply to a command of a line.
    ///
    /// A rule that allows `ls` applies to the program in a directory of `PATH`, not to a file of
    /// that name elsewhere, unless it spells that file. Neither does it apply to an option that
    /// writes a file or runs code, unless it spells the option.
    pub(crate) fn is_about(&self, command: &CommandLine, root: &AbsPath) -> bool {
        let Pattern::Command(words) = &self.pattern else { return true };
        if self.decision != Decision::Allow {
            return true;
        }
        let program = command.program.as_path();
        let is_spelled = || words.first().is_some_and(|word| Path::new(word) == program);
        let is_program =
            !program.to_string_lossy().contains('/') || is_spelled() || is_installed(program, root);
        let all = std::iter::once(program.to_string_lossy().into_owned()).chain(command.args.iter().cloned());
        let all: Vec<String> = all.collect();
        let option = shell::acting_option(&all);
        is_program && option.is_none_or(|option| words.iter().any(|word| word == option))
    }

    /// Whether the rule's pattern is about whole paths, or spells `name`.
    ///
    /// Only such a rule applies to a path that is protected because of that name.
    pub(crate) fn spells(&self, name: Option<&str>) -> bool {
        match (&self.pattern, name) {
            (Pattern::Path(pattern), None) => pattern.absolute,
            (Pattern::Path(_), Some(name)) => {
                // The text may have escapes (`[*]`), but no name here needs them.
                self.text.to_ascii_lowercase().contains(&name.to_ascii_lowercase())
            }
            _ => false,
        }
    }
}

impl HostPattern {
    fn parse(pattern: &str) -> Result<Self, String> {
        if pattern == PACKAGES {
            return Ok(Self::Packages);
        }
        let port = pattern.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let (host, port) = match port {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| format!("{port:?} is not a port"))?)),
            None => (pattern, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches([']', '.']).to_ascii_lowercase();
        let (below, name) = host.strip_prefix('*').map_or((false, host.as_str()), |name| (true, name));
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c))
        };
        match below {
            true if name.starts_with('.') && is_name(&name[1..]) => Ok(Self::Below(name.to_owned(), port)),
            false if is_name(name) => Ok(Self::Exact(name.to_owned(), port)),
            _ => {
                Err(format!("{pattern:?} is not a host; write `example.org`, `*.example.org` or {PACKAGES}"))
            }
        }
    }

    fn matches(&self, host: &str, port: u16) -> Option<Specificity> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let (name, known, exact) = match self {
            Self::Packages => {
                return is_package_host(&host, port).then_some(Specificity { exact: false, literal: 1 });
            }
            Self::Below(name, known) if host.ends_with(name.as_str()) => (name, known, false),
            Self::Exact(name, known) if host == *name => (name, known, true),
            Self::Below(..) | Self::Exact(..) => return None,
        };
        let literal = name.len() + usize::from(known.is_some());
        known.is_none_or(|known| known == port).then_some(Specificity { exact, literal })
    }
}

/// Whether a program is in a directory of `PATH` that not every program can write.
fn is_installed(program: &Path, root: &AbsPath) -> bool {
    let open = [root.as_path(), Path::new("/tmp"), Path::new("/var/tmp"), Path::new("/dev/shm")];
    let Some(directory) = program.parent().and_then(|it| it.canonicalize().ok()) else { return false };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed = std::env::split_paths(&path).any(|it| it.canonicalize().is_ok_and(|it| it == directory));
    program.is_absolute() && listed && !open.iter().any(|it| directory.starts_with(it))
}

impl PathPattern {
    fn parse(pattern: &str) -> Result<Self, String> {
        let home = pattern.strip_prefix("~/").map(|rest| match std::env::var_os("HOME") {
            Some(home) => Ok(PathBuf::from(home).join(rest).display().to_string()),
            None => Err("`~` has no meaning because HOME is not set; set HOME or write the path".to_owned()),
        });
        let pattern = home.unwrap_or_else(|| Ok(pattern.to_owned()))?;
        let anchored = pattern.strip_prefix("./");
        let pattern = anchored.unwrap_or(&pattern);
        if pattern.split('/').any(|name| name == "..") {
            return Err("a pattern cannot contain `..`; begin it with / to leave the workspace".into());
        }
        let absolute = pattern.starts_with('/');
        let mut glob = if pattern.ends_with('/') { format!("{pattern}**") } else { pattern.to_owned() };
        if !absolute && anchored.is_none() && !glob.contains('/') {
            glob = format!("**/{glob}");
        }
        let matcher = GlobBuilder::new(&glob)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| format!("{glob:?} is not a glob: {}", error.kind()))?
            .compile_matcher();
        let exact = (anchored.is_some() || pattern.contains('/')) && !glob.contains(['*', '?', '{', '[']);
        let literal = glob.chars().filter(|c| !"*?[]{},!".contains(*c)).count();
        Ok(Self { glob: matcher, absolute, specificity: Specificity { exact, literal } })
    }

    fn matches(&self, path: &AbsPath, root: &AbsPath) -> bool {
        if self.absolute {
            return self.glob.is_match(path);
        }
        path.strip_prefix(root).is_some_and(|relative| self.glob.is_match(relative))
    }
}

impl Decision {
    /// The name as rules spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// The rule that decides about a path.
pub(crate) fn for_path<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    capability: Capability,
    path: &AbsPath,
    root: &AbsPath,
) -> Option<&'a Rule> {
    strongest(rules, capability, |rule| rule.path(path, root))
}

/// The rule that decides about a command.
pub(crate) fn for_command<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    command: &CommandLine,
) -> Option<&'a Rule> {
    strongest(rules, Capability::Exec, |rule| rule.command(command))
}

/// The rule that decides about a connection of `subject` to a host.
pub(crate) fn for_host<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    host: &str,
    port: u16,
    subject: &str,
) -> Option<&'a Rule> {
    for_subject(rules, Capability::Http, subject, |rule| rule.host(host, port))
}

/// The rule that decides whether `subject` gets a variable.
pub(crate) fn for_variable<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    name: &str,
    subject: &str,
) -> Option<&'a Rule> {
    for_subject(rules, Capability::Env, subject, |rule| rule.variable(name))
}

/// The rule for `subject` or for all: a denial first, then the subject's own rule.
fn for_subject<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    capability: Capability,
    subject: &str,
    specificity: impl Fn(&Rule) -> Option<Specificity>,
) -> Option<&'a Rule> {
    let rules: Vec<&Rule> = rules.collect();
    let of = |own: bool| {
        let named = |rule: &&Rule| rule.subject.as_deref() == own.then_some(subject);
        strongest(rules.iter().copied().filter(named), capability, &specificity)
    };
    let denies = |rule: &Option<&Rule>| rule.is_some_and(|rule| rule.decision == Decision::Deny);
    let (own, general) = (of(true), of(false));
    if denies(&general) && !denies(&own) { general } else { own.or(general) }
}

/// The rule about all of a capability.
pub(crate) fn for_all<'a>(rules: impl Iterator<Item = &'a Rule>, capability: Capability) -> Option<&'a Rule> {
    strongest(rules.filter(|rule| rule.subject.is_none()), capability, |rule| {
        matches!(rule.pattern, Pattern::All).then_some(Specificity::default())
    })
}

fn strongest<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    capability: Capability,
    specificity: impl Fn(&Rule) -> Option<Specificity>,
) -> Option<&'a Rule> {
    rules
        .filter(|rule| rule.capability == capability)
        .filter_map(|rule| Some((specificity(rule)?, rule.decision, rule)))
        .max_by_key(|(specificity, decision, _)| (*specificity, *decision))
        .map(|(_, _, rule)| rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &[&str]) -> Vec<Rule> {
        lines.iter().map(|line| Rule::parse(line, "test").unwrap()).collect()
    }

    #[track_caller]
    fn check_path(lines: &[&str], path: &str, expected: Option<&str>) {
        let root = AbsPath::new("/w").unwrap();
        let rules = rules(lines);
        let rule = for_path(rules.iter(), Capability::Write, &AbsPath::new(path).unwrap(), &root);
        assert_eq!(rule.map(Rule::text), expected, "{path}");
    }

    #[test]
    fn a_path_pattern_matches_only_its_paths() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("deny write docs/**", &["/w/docs/a", "/w/docs/a/b"], &["/w/doc/a", "/w/x/docs/a", "/x/docs/a"]),
            ("deny write docs/", &["/w/docs/a", "/w/docs/a/b"], &["/w/docs2/a"]),
            ("deny write *.lock", &["/w/a.lock", "/w/x/y/a.lock"], &["/w/a.lock/b", "/w/lock", "/o/a.lock"]),
            ("deny write src/*.rs", &["/w/src/a.rs"], &["/w/src/x/a.rs", "/w/a.rs"]),
            ("deny write src/{a,b}.rs", &["/w/src/a.rs"], &["/w/src/c.rs"]),
            ("deny write a directory/x.md", &["/w/a directory/x.md"], &["/w/a/directory/x.md"]),
            ("deny write ./a.md", &["/w/a.md"], &["/w/x/a.md"]),
            ("deny write /etc/**", &["/etc/x/y"], &["/w/etc/x"]),
            ("deny write", &["/w/a", "/o/b"], &[]),
        ];
        for (line, yes, no) in cases {
            yes.iter().for_each(|path| check_path(&[line], path, Some(line)));
            no.iter().for_each(|path| check_path(&[line], path, None));
        }
    }

    #[test]
    fn the_most_specific_then_the_strictest_rule_wins() {
        let lines =
            ["allow write", "deny write docs/**", "allow write docs/guide/**", "ask write docs/guide/a.md"];
        check_path(&lines, "/w/a", Some("allow write"));
        check_path(&lines, "/w/docs/a", Some("deny write docs/**"));
        check_path(&lines, "/w/docs/guide/b", Some("allow write docs/guide/**"));
        check_path(&lines, "/w/docs/guide/a.md", Some("ask write docs/guide/a.md"));
        let equals = ["allow write a/**", "deny write a/**", "ask write a/**"];
        check_path(&equals, "/w/a/b", Some("deny write a/**"));
        check_path(&["deny read a/**"], "/w/a/b", None);
    }

    #[test]
    fn a_rule_for_one_path_matches_only_that_path() {
        let root = AbsPath::new("/w").unwrap();
        for (path, other) in [("a [1]/b*.md", "a [1]/bc.md"), (".env", "sub/.env"), ("/o/{x}", "/w/o/{x}")] {
            let rule = Rule::for_path(Decision::Allow, Capability::Write, path, "test");
            assert!(rule.path(&root.join(path), &root).is_some(), "{}", rule.text());
            assert!(rule.path(&root.join(other), &root).is_none(), "{}", rule.text());
        }
    }

    #[test]
    fn hosts_match_by_name_and_port() {
        let rules = rules(&[
            "deny http",
            "allow http @packages",
            "allow http *.example.org",
            "deny http bad.example.org",
            "allow http a.b:8080",
            "ask http pypi.org",
        ]);
        for (host, port, expected) in [
            ("crates.io", 443, "allow http @packages"),
            ("crates.io", 80, "deny http"),
            ("PyPI.org.", 443, "ask http pypi.org"),
            ("x.Example.org", 80, "allow http *.example.org"),
            ("bad.example.org", 80, "deny http bad.example.org"),
            ("example.org", 80, "deny http"),
            ("evilexample.org", 80, "deny http"),
            ("a.b", 8080, "allow http a.b:8080"),
            ("a.b", 80, "deny http"),
        ] {
            assert_eq!(for_host(rules.iter(), host, port, "bash").map(Rule::text), Some(expected), "{host}");
        }
        for wrong in
            ["allow http *", "allow http a b", "allow http x:y", "allow http *x", "allow http https://a"]
        {
            assert!(Rule::parse(wrong, "test").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_denial_then_the_programs_own_rule_decides() {
        let rules = rules(&[
            "allow http *.org",
            "deny http bad.org",
            "gopls: deny http a.org",
            "gopls: allow http bad.org",
            "gopls: ask http b.org",
            "allow env MY_*",
            "gopls: deny env MY_KEY",
        ]);
        for (subject, host, expected) in [
            ("gopls", "a.org", "gopls: deny http a.org"),
            ("gopls", "bad.org", "deny http bad.org"),
            ("gopls", "b.org", "gopls: ask http b.org"),
            ("gopls", "c.org", "allow http *.org"),
            ("other", "a.org", "allow http *.org"),
        ] {
            assert_eq!(for_host(rules.iter(), host, 443, subject).map(Rule::text), Some(expected), "{host}");
        }
        let variable = |name, subject| for_variable(rules.iter(), name, subject).map(|it| it.decision);
        assert_eq!(variable("MY_KEY", "bash"), Some(Decision::Allow));
        assert_eq!(variable("MY_KEY", "gopls"), Some(Decision::Deny));
        assert_eq!(variable("A_KEY", "gopls"), None);
    }

    #[test]
    fn commands_match_by_whole_words() {
        let command = |program: &str, args: &[&str]| CommandLine {
            program: program.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: Vec::new(),
            cwd: AbsPath::new("/w").unwrap(),
        };
        let rules = rules(&["allow exec cargo test", "deny exec cargo", "allow exec /usr/bin/make"]);
        let check = |command: &CommandLine, expected: Option<&str>| {
            assert_eq!(for_command(rules.iter(), command).map(Rule::text), expected, "{command}");
        };
        check(&command("cargo", &["test", "-p", "x"]), Some("allow exec cargo test"));
        check(&command("/home/me/.cargo/bin/cargo", &["test"]), Some("allow exec cargo test"));
        check(&command("cargo", &["test-all"]), Some("deny exec cargo"));
        check(&command("cargo-x", &["test"]), None);
        check(&command("/usr/bin/make", &[]), Some("allow exec /usr/bin/make"));
        check(&command("/tmp/make", &[]), None);
        check(&command("sh", &["-c", "cargo test"]), None);
    }

    #[test]
    fn an_invalid_rule_is_explained() {
        for (line, part) in [
            ("permit write x", "allow, ask or deny"),
            ("allow fly x", "read, write, exec, http, env or debug"),
            ("allow", "read, write, exec, http, env or debug"),
            ("gopls: allow write x", "only a rule for http or env"),
            ("ask env X", "cannot ask; write allow or deny"),
            ("allow write ../x", "cannot contain `..`"),
            ("allow write [x", "is not a glob"),
        ] {
            let error = Rule::parse(line, "test").unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(line), "{error}");
        }
    }
}
