//! A debug adapter as data: which programs it debugs, how it is started and spoken to, what it is
//! launched with. The format is `docs/formats/adapter-definition.md`.
//!
//! No adapter's name stands in code: what is peculiar to one is a line of its file.

use std::collections::BTreeMap;
use std::path::Path;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::wrap::Wrap;

/// The newest format that is read.
pub const FORMAT: u64 = 1;

/// One debug adapter.
#[derive(Debug, Clone)]
pub struct AdapterDefinition {
    /// Its name, also its file's.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Of several that fit the lowest is taken.
    pub rank: u32,
    /// Values of `type` in launch configurations that mean it, beside its name.
    pub types: Vec<String>,
    /// Kinds of executables that it debugs.
    pub executables: Vec<Executable>,
    /// It debugs folders too, that have such files.
    pub folders: bool,
    /// Names of interpreters in a script's first line.
    pub interpreters: Vec<String>,
    /// How it is started.
    pub command: CommandRule,
    /// How it is spoken to.
    pub transport: Transport,
    /// Programs that its templates name, by variable: paths from the project, or names on `PATH`.
    pub variables: BTreeMap<String, Vec<String>>,
    /// Arguments of `launch`.
    pub launch: Value,
    /// Arguments of `attach`, if it can.
    pub attach: Option<Value>,
    /// Exception filters that are on unless others are named, in place of its own defaults.
    pub exceptions: Vec<String>,
    /// Runners of tests that it can stop at a failure.
    pub tests: BTreeMap<String, TestRule>,
    /// What is peculiar.
    pub quirks: Quirks,
    /// How it is got.
    pub install: Install,
    /// What the test run last saw working.
    pub verified: Option<Verified>,
    /// It came with a project rather than from us or the person.
    pub from_project: bool,
    matcher: GlobSet,
    /// What it was read from: two of one text are one.
    pub(crate) written: Box<str>,
}

/// A kind of executable, told by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Executable {
    /// Linux and others.
    Elf,
    /// macOS.
    MachO,
    /// Windows.
    Pe,
}

/// How an adapter is started.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// Names on the search path, or absolute paths; the first that is found.
    pub candidates: Vec<String>,
    /// Its arguments; `${port}` and `${host}` where it is spoken to over TCP, `${socket}` where at a socket.
    #[serde(default)]
    pub args: Vec<String>,
    /// Further variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// How an adapter is spoken to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "kind")]
pub enum Transport {
    /// Over its standard streams.
    #[default]
    Stdio,
    /// It listens on a port of the loopback, and we connect.
    Connect {
        /// What it prints before the port; without it the port is one that we choose as `${port}`.
        #[serde(default)]
        announces: Option<String>,
    },
    /// We listen on a port of the loopback, given as `${port}`, and it connects.
    Listen,
    /// It listens at a Unix socket, given as `${socket}`, and we connect.
    Socket,
}

/// Departures from the protocol.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quirks {
    /// What it needs beyond its program, said when it does not start.
    #[serde(default)]
    pub needs: Option<String>,
    /// How its language writes "or" between two conditions, so that two breakpoints on one line can be one.
    #[serde(default)]
    pub or: Option<String>,
    /// Words that its own output begins with, which say nothing about the program.
    #[serde(default)]
    pub chatter: Vec<String>,
    /// What stands in lines of its own that it tells as the program's.
    #[serde(default)]
    pub own_lines: Vec<String>,
    /// What lines of its own begin with that it tells as the program's, but not as of its standard output, also behind
    /// what the program wrote without the end of a line.
    #[serde(default)]
    pub own_endings: Vec<String>,
    /// What stands before the program's exit code in output of its own, where no event tells it; or all of what
    /// says it, with `${code}` for the code, from the beginning of a line on.
    #[serde(default)]
    pub exit_says: Vec<String>,
    /// What is put before what runs the program.
    #[serde(default)]
    pub wrap: Option<Wrap>,
    /// Its own standard streams are the program's too.
    #[serde(default)]
    pub output_of_program: bool,
    /// What it evaluates, conditions too, are commands of a shell, so that none of it only looks.
    #[serde(default)]
    pub shell: bool,
    /// It tells the end by a signal as an exit code: 256 less the signal's number.
    #[serde(default)]
    pub signals_below_256: bool,
    /// It tells the end by a signal as an exit code: the signal's number.
    #[serde(default)]
    pub signals_as_codes: bool,
    /// Output that it did not send yet is lost when the program ends.
    #[serde(default)]
    pub drops_output_at_exit: bool,
    /// What it evaluates in the context `repl` to write `${mark}` and a newline to where its program writes: it reads that in
    /// a thread of its own, and tells stops and the end before the output that came before them.
    #[serde(default)]
    pub marks: Option<String>,
    /// It tells the exit code 0 of a program that a signal ended, too.
    #[serde(default)]
    pub zero_after_signal: bool,
    /// How it reads a hit count, where not as a number, a comparison or a multiple.
    #[serde(default)]
    pub hits: Option<Hits>,
    /// Exceptions can be named themselves, beside its filters.
    #[serde(default)]
    pub exception_names: Option<ExceptionNames>,
    /// Functions that a panic of a program runs into: the exception filter `panic` stops there.
    #[serde(default)]
    pub panics: Vec<String>,
    /// Functions in which it stops for an exception, and calls that a breakpoint.
    #[serde(default)]
    pub throws: Vec<String>,
    /// Its log points write to the program's own output, which another program may read.
    #[serde(default)]
    pub logs_in_program: bool,
    /// What it completes are commands: this one before an expression has it complete that.
    #[serde(default)]
    pub completes_after: Option<String>,
    /// What it is asked, as a command, for the signal of a stop that names none.
    #[serde(default)]
    pub tells_signal: Option<String>,
    /// The session that is launched runs no program itself: its child sessions do.
    #[serde(default)]
    pub launcher: bool,
    /// Where in the configuration of a child session the port of its adapter stands, as a JSON pointer.
    #[serde(default)]
    pub child_port: Option<String>,
    /// What is attached to by a port is the adapter itself: none is started.
    #[serde(default)]
    pub attach_connects: bool,
    /// Names of scopes that are not looked into for a snapshot.
    #[serde(default)]
    pub skip_scopes: Vec<String>,
    /// Variables of these names, or that begin as one with a `*` at its end, are left out of a snapshot.
    #[serde(default)]
    pub skip_variables: Vec<String>,
}

/// How an adapter reads the hit count of a breakpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hits {
    /// As a number: the pass from which on it stops.
    Number,
    /// As a number: how many passes it lets go by first.
    Ignored,
}

impl Hits {
    /// What is sent for a hit count that a person wrote; `None` for what the adapter would not heed.
    pub(crate) fn sent(self, hit: &str) -> Option<String> {
        let pass: u64 = hit.trim().parse().ok().filter(|it| *it > 0)?;
        Some(match self {
            Self::Number => pass.to_string(),
            Self::Ignored => (pass - 1).to_string(),
        })
    }
}

impl Quirks {
    /// Whether a variable is left out of snapshots.
    pub fn skips(&self, variable: &str) -> bool {
        self.skip_variables.iter().any(|it| match it.strip_suffix('*') {
            Some(beginning) => variable.starts_with(beginning),
            None => it == variable,
        })
    }
}

/// How an adapter is told of exceptions by name (DAP §ExceptionOptions), which it then takes in place of filters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExceptionNames {
    /// The category that all are in.
    pub category: String,
    /// What its filters are for the whole category: a filter, and when it stops; the later counts for more.
    #[serde(default)]
    pub filters: Vec<(String, String)>,
}

impl ExceptionNames {
    /// When an exception may stop a program; DAP §ExceptionBreakMode.
    pub(crate) const MODES: [&'static str; 4] = ["always", "unhandled", "userUnhandled", "never"];

    /// One exception of the category.
    pub(crate) fn option(&self, name: &str, mode: &str) -> Value {
        json!({ "path": [{ "names": [self.category] }, { "names": [name] }], "breakMode": mode })
    }

    /// What stands for these filters.
    pub(crate) fn options(&self, filters: &[Value]) -> impl Iterator<Item = Value> {
        let named = |filter: &str| filters.iter().any(|it| it == filter);
        let on = self.filters.iter().filter(move |(filter, _)| named(filter));
        on.map(|(_, mode)| json!({ "path": [{ "names": [self.category] }], "breakMode": mode }))
    }
}

/// What a test under the debugger needs of an adapter, for one runner of tests.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestRule {
    /// In place of the adapter's own rank.
    #[serde(default)]
    pub rank: Option<u32>,
    /// Laid over the arguments of `launch`; variables as there.
    #[serde(default)]
    pub launch: Option<Value>,
    /// Filters with which it stops at a failure.
    #[serde(default)]
    pub exceptions: Option<Vec<String>>,
    /// Functions that a failing test runs into.
    #[serde(default)]
    pub functions: Vec<String>,
}

/// How an adapter is got.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Install {
    /// `pip`, `npm`, `cargo`, `apt`, or `page`.
    pub how: How,
    /// The packages.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Where it is described.
    pub page: String,
}

/// Who installs an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names of package managers")]
pub enum How {
    Pip,
    Npm,
    Cargo,
    Apt,
    Page,
}

impl Install {
    /// What a person does to get the adapter called `name`.
    pub fn hint(&self, name: &str) -> String {
        match self.how {
            How::Pip | How::Npm | How::Cargo => format!("pilcrow adapters install {name}"),
            How::Apt => format!("apt-get install {}", self.packages.join(" ")),
            How::Page => format!("see {}", self.page),
        }
    }
}

/// What the test run last saw working; only it writes this.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    /// The adapter's version.
    pub version: String,
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// The test.
    pub how: String,
}

/// Why a definition file cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{origin}: {reason}")]
pub struct DefinitionError {
    /// The file, or `built in: NAME`.
    pub origin: String,
    /// What is wrong.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u64,
    name: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    rank: u32,
    #[serde(default)]
    patterns: Vec<String>,
    #[serde(default)]
    executables: Vec<Executable>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    folders: bool,
    #[serde(default)]
    interpreters: Vec<String>,
    command: CommandRule,
    #[serde(default)]
    transport: Transport,
    #[serde(default)]
    variables: BTreeMap<String, Vec<String>>,
    launch: Value,
    #[serde(default)]
    attach: Option<Value>,
    #[serde(default)]
    exceptions: Vec<String>,
    #[serde(default)]
    tests: BTreeMap<String, TestRule>,
    #[serde(default)]
    quirks: Quirks,
    install: Install,
    verified: FileVerified,
}

/// `verified = false`, or what was seen.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileVerified {
    Never(bool),
    Seen(Verified),
}

impl AdapterDefinition {
    /// Reads a definition. `origin` names the file in errors.
    ///
    /// # Errors
    /// [`DefinitionError`] for a newer format, an unknown key, a bad glob, or no candidate to start.
    pub fn parse(text: &str, origin: &str, from_project: bool) -> Result<Self, DefinitionError> {
        let bad = |reason: String| DefinitionError { origin: origin.to_owned(), reason };
        // The format first: a newer file may have keys that are refused here.
        let table: Option<toml::Table> = toml::from_str(text).ok();
        let found = table.and_then(|table| table.get("format")?.as_integer());
        if let Some(found) = found.filter(|found| *found > FORMAT as i64) {
            return Err(bad(format!(
                "has format {found}, this program knows up to {FORMAT}; use a newer Pilcrow"
            )));
        }
        let file: File = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        if file.format == 0 || file.command.candidates.is_empty() {
            return Err(bad("it needs `format = 1` and a program in `command.candidates`".to_owned()));
        }
        let verified = match file.verified {
            FileVerified::Never(false) => None,
            FileVerified::Seen(verified) => Some(verified),
            FileVerified::Never(true) => {
                return Err(bad("verified is false, or {version, date, how}".to_owned()));
            }
        };
        let mut matcher = GlobSetBuilder::new();
        for pattern in &file.patterns {
            matcher.add(Glob::new(pattern).map_err(|error| bad(error.to_string()))?);
        }
        Ok(Self {
            written: text.into(),
            name: file.name,
            about: file.about,
            rank: file.rank,
            executables: file.executables,
            types: file.types,
            folders: file.folders,
            interpreters: file.interpreters,
            command: file.command,
            transport: file.transport,
            variables: file.variables,
            launch: file.launch,
            attach: file.attach,
            exceptions: file.exceptions,
            tests: file.tests,
            quirks: file.quirks,
            install: file.install,
            verified,
            from_project,
            matcher: matcher.build().map_err(|error| bad(error.to_string()))?,
        })
    }

    /// One of which nothing is known but its name: it is spoken to and not started.
    pub(crate) fn unknown(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: String::new(),
            rank: u32::MAX,
            executables: Vec::new(),
            types: Vec::new(),
            folders: false,
            interpreters: Vec::new(),
            command: CommandRule { candidates: Vec::new(), args: Vec::new(), env: BTreeMap::new() },
            transport: Transport::Stdio,
            variables: BTreeMap::new(),
            launch: Value::Null,
            attach: None,
            exceptions: Vec::new(),
            tests: BTreeMap::new(),
            quirks: Quirks::default(),
            install: Install { how: How::Page, packages: Vec::new(), page: String::new() },
            verified: None,
            from_project: false,
            matcher: GlobSet::empty(),
            written: Box::default(),
        }
    }

    /// Whether it debugs files of this name.
    pub fn takes(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| self.matcher.is_match(name))
    }

    /// What must be there for it: its program, or the script that its program runs.
    pub fn programs(&self) -> &[String] {
        let own = self.command.args.iter().find_map(|word| word.strip_prefix("${")?.strip_suffix('}'));
        own.and_then(|it| self.variables.get(it)).unwrap_or(&self.command.candidates)
    }

    /// What runs the program, with its first words: the argument of `launch` that is one of the variables'
    /// programs, as it is in these arguments.
    pub(crate) fn interpreter(&self, arguments: &Value) -> Vec<String> {
        let is_variable = |value: &Value| self.variables.keys().any(|name| *value == format!("${{{name}}}"));
        let launch = self.launch.as_object().into_iter().flatten();
        let named = launch.filter(|(_, value)| is_variable(value)).find_map(|(name, _)| arguments.get(name));
        match named {
            Some(Value::String(program)) => vec![program.clone()],
            Some(Value::Array(words)) => {
                words.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether its `launch` can be given `${name}`.
    pub fn launches(&self, name: &str) -> bool {
        mentions(&self.launch, &format!("${{{name}}}"))
    }
}

fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value.contains(text),
        Value::Array(items) => items.iter().any(|item| mentions(item, text)),
        Value::Object(map) => map.values().any(|value| mentions(value, text)),
        _ => false,
    }
}

/// `template` with its `${name}` replaced. A text that is nothing but a variable becomes the variable's
/// value, and is left out with its key where there is none. In a longer text the value stands as text.
pub fn fill(template: &Value, variables: &Map<String, Value>) -> Option<Value> {
    match template {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
                && !name.contains("${")
            {
                return variables.get(name).cloned();
            }
            let mut out = text.clone();
            for (name, value) in variables {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                out = out.replace(&format!("${{{name}}}"), &value);
            }
            Some(Value::String(out))
        }
        Value::Array(items) => Some(items.iter().filter_map(|item| fill(item, variables)).collect()),
        Value::Object(map) => Some(Value::Object(
            map.iter().filter_map(|(name, value)| Some((name.clone(), fill(value, variables)?))).collect(),
        )),
        other => Some(other.clone()),
    }
}

/// Lays `over` on `base`: objects are merged, `null` removes, anything else is replaced.
pub fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                if value.is_null() {
                    base.remove(&name);
                } else {
                    merge(base.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (base, over) => *base = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_count_is_the_pass_from_which_on_it_stops() {
        assert_eq!(Hits::Number.sent(" 3 ").as_deref(), Some("3"));
        assert_eq!(Hits::Ignored.sent("3").as_deref(), Some("2"));
        assert_eq!(Hits::Ignored.sent("1").as_deref(), Some("0"));
        for odd in [">=3", "%2", "0", "-1", ""] {
            assert_eq!((Hits::Number.sent(odd), Hits::Ignored.sent(odd)), (None, None), "{odd}");
        }
    }

    pub(crate) const SMALL: &str = "format = 1\nname = \"a\"\npatterns = [\"*.x\"]\nverified = false\n\
        [command]\ncandidates = [\"a\"]\n[launch]\nprogram = \"${program}\"\n\
        [install]\nhow = \"page\"\npage = \"https://example.org\"\n";

    #[test]
    fn what_cannot_be_read_is_refused_with_its_name() {
        let refuse = |text: &str| AdapterDefinition::parse(text, "a.toml", false).unwrap_err().to_string();
        let newer = SMALL.replace("format = 1", "format = 2\nnews = 1");
        assert_eq!(refuse(&newer), "a.toml: has format 2, this program knows up to 1; use a newer Pilcrow");
        assert!(refuse(&format!("nmae = 1\n{SMALL}")).contains("nmae"));
        assert!(refuse(&SMALL.replace("[\"a\"]", "[]")).contains("command.candidates"));
        assert!(refuse(&SMALL.replace("verified = false", "verified = true")).contains("verified is false"));
    }

    #[test]
    fn files_are_taken_by_their_names() {
        let definition = AdapterDefinition::parse(SMALL, "a.toml", false).unwrap();
        assert!(definition.takes(Path::new("/p/q.x")) && !definition.takes(Path::new("/p/q.y")));
        assert!(definition.launches("program") && !definition.launches("module"));
    }

    /// A folder of the project may be called `bin` too.
    #[test]
    fn what_runs_a_module_is_the_variable_of_the_definition_and_what_a_person_names_in_its_place() {
        let text = SMALL.replace(
            "program = \"${program}\"\n",
            "cwd = \"${cwd}\"\nmodule = \"${module}\"\npython = \"${python}\"\n[variables]\npython = [\"python3\"]\n",
        );
        let definition = AdapterDefinition::parse(&text, "a.toml", false).unwrap();
        let runs = |arguments: Value| definition.interpreter(&arguments);
        assert_eq!(runs(json!({"cwd": "/p/bin/x", "python": "/usr/bin/python3"})), ["/usr/bin/python3"]);
        assert_eq!(runs(json!({"python": ["/v/python", "-E"]})), ["/v/python", "-E"]);
        assert!(runs(json!({"cwd": "/p/bin/x"})).is_empty());
    }

    #[test]
    fn a_template_keeps_what_it_is_given_and_drops_the_rest() {
        let given = json!({"program": "/p/a b", "args": ["x"], "stop": true});
        let template = json!({
            "program": "${program}", "module": "${module}", "args": "${args}", "stop": "${stop}",
            "deep": {"text": "run ${program} now", "list": ["${module}", 1]},
        });
        let filled = fill(&template, given.as_object().unwrap()).unwrap();
        let expected = json!({
            "program": "/p/a b", "args": ["x"], "stop": true,
            "deep": {"text": "run /p/a b now", "list": [1]},
        });
        assert_eq!(filled, expected);
    }

    #[test]
    fn what_is_laid_over_wins_and_null_removes() {
        let mut base = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut base, json!({"a": {"b": 3, "c": null}, "d": [2]}));
        assert_eq!(base, json!({"a": {"b": 3}, "d": [2]}));
    }
}
