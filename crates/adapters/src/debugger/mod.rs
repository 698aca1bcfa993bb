//! Definitions of debug adapters, as data: one TOML file each.
//!
//! `docs/formats/adapter-definition.md` has the format.
//!
//! Invariants: no code selects an adapter by its name; an adapter's peculiarity is a key of its definition.

mod selection;
mod wrap;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::definitions::{BuiltIn, Definition, Parse, Summary};
use crate::format::{self, DefinitionError, Globs, OldKeys, Verified, verified};
use crate::install::{Install, exact};

pub use wrap::Wrap;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebuggerDefinition {
    /// Unique name; the file's name without `.toml`.
    pub name: String,
    /// Description for users in one line.
    #[serde(default)]
    pub about: String,
    /// Order among the adapters for a program, lowest first.
    #[serde(default)]
    pub rank: u32,
    /// Further values of `type` in launch configurations that select the adapter.
    #[serde(default)]
    pub types: Vec<String>,
    #[serde(default)]
    pub executables: Vec<Executable>,
    /// Commands that build its programs from source, by the extension of the source.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// Whether the adapter also debugs a directory with such files.
    #[serde(default)]
    pub directories: bool,
    /// Names of interpreters in a script's first line.
    #[serde(default)]
    pub interpreters: Vec<String>,
    pub command: DebuggerCommand,
    #[serde(default)]
    pub transport: Transport,
    /// Programs that its templates name, by variable.
    ///
    /// Each is a path from the project or a name on `PATH`.
    #[serde(default)]
    pub variables: BTreeMap<String, Vec<String>>,
    /// Texts that its templates name, by variable.
    #[serde(default)]
    pub texts: BTreeMap<String, String>,
    /// Arguments of `launch`.
    pub launch: Value,
    /// Arguments merged over those of `launch` if a file is standard input.
    pub stdin: Option<Value>,
    /// Arguments merged over those of `launch` for a built program.
    ///
    /// That is a file that `patterns` does not match.
    pub launch_executable: Option<Value>,
    /// Arguments of `attach`, if the adapter supports it.
    pub attach: Option<Value>,
    /// Exception filters that are on by default, instead of the adapter's own.
    #[serde(default)]
    pub exceptions: Vec<String>,
    /// Rules that stop a failing test, by test runner.
    #[serde(default)]
    pub tests: BTreeMap<String, TestRule>,
    #[serde(default)]
    pub quirks: Quirks,
    #[serde(deserialize_with = "exact")]
    pub install: Install,
    /// The version that last passed the tests.
    #[serde(default, deserialize_with = "verified")]
    pub verified: Option<Verified>,
    /// Whether the project defines it, rather than Pilcrow or the user.
    #[serde(skip)]
    pub from_project: bool,
    /// Globs over the names of programs that it debugs.
    #[serde(default)]
    pub(crate) patterns: Globs,
    /// Text of the file, by which definitions are compared.
    #[serde(skip)]
    source: Box<str>,
}

/// A kind of executable, recognized by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Executable {
    Elf,
    MachO,
    Pe,
}

/// The command that starts an adapter.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebuggerCommand {
    /// Names on the search path or absolute paths; the first that exists is started.
    pub candidates: Vec<String>,
    /// Arguments; `${port}` and `${host}` for TCP, `${socket}` for a socket.
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// The way in which Pilcrow connects to an adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "kind")]
pub enum Transport {
    /// Pilcrow uses standard input and output.
    #[default]
    Stdio,
    /// The adapter listens on the loopback interface, and Pilcrow connects.
    Connect {
        /// Text that the adapter prints before its port; if absent, Pilcrow sets `${port}`.
        #[serde(default)]
        announces: Option<String>,
    },
    /// Pilcrow listens on the loopback port `${port}`, and the adapter connects.
    Listen,
    /// The adapter listens at the Unix socket `${socket}`, and Pilcrow connects.
    Socket,
}

/// Deviations of an adapter from the protocol.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// Further requirements of the adapter, shown when it does not start.
    pub requires: Option<String>,
    /// The requests without a capability that it knows, if it ends at others.
    pub known_requests: Vec<String>,
    /// Operator "or" of its language, which merges two conditions on one line.
    pub or_operator: Option<String>,
    /// Starts of the adapter's own lines that contain nothing about the program.
    pub noise_prefixes: Vec<String>,
    /// Categories of output that are its own, never the program's.
    pub adapter_categories: Vec<String>,
    /// Texts in lines of its own that it reports as the program's output.
    pub adapter_lines: Vec<String>,
    /// Starts of such lines, except on standard output.
    ///
    /// They also match after program output without a final newline.
    pub adapter_line_starts: Vec<String>,
    /// Texts that it adds to names of exceptions and of frames; `*` is any text.
    pub adapter_texts: Vec<String>,
    /// Texts before the program's exit code in the adapter's output.
    ///
    /// Empty if an event reports the code. A text with `${code}` is the whole report, from the start of a line.
    pub exit_code_text: Vec<String>,
    /// Command that wraps the program's interpreter.
    pub wrap: Option<Wrap>,
    /// Whether the program shares the adapter's standard streams.
    pub shares_program_output: bool,
    /// Whether expressions are shell commands, so that each may have side effects.
    pub evaluates_shell: bool,
    /// Whether it reports a signal as the exit code 256 minus the signal's number.
    pub signals_below_256: bool,
    /// Whether it reports a signal as the exit code with the signal's number.
    pub signals_as_codes: bool,
    /// Whether the adapter loses pending output when the program ends.
    pub drops_output_at_exit: bool,
    /// An expression that writes `${mark}` and a newline to the program's output.
    ///
    /// Its context is `repl`. The adapter reads that output in a thread of its own, and reports stops and the
    /// end before earlier output.
    pub output_fence: Option<String>,
    /// An expression that prepares the reading of values, in a frame of the first stop.
    pub first_stop: Option<String>,
    /// Whether it reports the exit code 0 even after a signal.
    pub zero_after_signal: bool,
    /// Meaning of a hit count; `None` if the adapter reads `>=3` and `%2` too.
    pub hit_count: Option<Hits>,
    /// Rules to stop at exceptions by name; `None` if the adapter has only filters.
    pub exception_names: Option<ExceptionNames>,
    /// Functions where the program's own code begins, if it stops before them on entry.
    pub entry_functions: Vec<String>,
    /// Whether a step into leads from its stop on entry to the first statement.
    pub entry_step: bool,
    /// Functions that a panic reaches: the exception filter `panic` stops there.
    pub panic_functions: Vec<String>,
    /// Functions in which it stops for an exception and reports a breakpoint.
    pub exception_functions: Vec<String>,
    /// Whether its log points write to the program's own output.
    pub logpoints_write_to_program: bool,
    /// The form of a probed expression in a log message.
    ///
    /// `${expression}` is the expression as a string.
    pub log_value: Option<String>,
    /// Prefix that makes the adapter complete an expression rather than a command.
    pub completion_prefix: Option<String>,
    /// Prefixes of the names of sockets that it leaves behind.
    ///
    /// They are in the temporary directory; `${pid}` is its process id.
    pub leftover_sockets: Vec<String>,
    /// Whether it or its programs need Unix sockets.
    ///
    /// Landlock cannot keep them from the sockets of other programs.
    pub unix_sockets: bool,
    /// The text before an expression of the program's language, if others are its own.
    pub native_prefix: Option<String>,
    /// A command that shows the signal of a stop that names none.
    pub signal_command: Option<String>,
    /// Whether its launched session runs no program itself, but has child sessions.
    pub launcher: bool,
    /// Whether a launched program continues when its session ends.
    ///
    /// Pilcrow then ends it before it asks the adapter to.
    pub program_outlives_session: bool,
    /// JSON pointer in the configuration of a child session to the port of its adapter.
    pub child_port: Option<String>,
    /// Whether attaching to a port connects to a running adapter.
    pub attach_connects: bool,
    /// Whether it lists variables before their declaration, with undefined values.
    pub locals_before_declaration: bool,
    /// Scopes that are left out of snapshots.
    pub skip_scopes: Vec<String>,
    /// Variables that snapshots omit; a final `*` matches any ending.
    pub skip_variables: Vec<String>,
    /// Variables that snapshots omit from a scope that has all of them.
    pub skip_together: Vec<String>,
}

/// Meaning of a breakpoint's hit count to an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hits {
    /// The count is the pass from which the breakpoint stops.
    Number,
    /// The count is the number of passes to skip.
    Ignored,
}

impl Hits {
    /// Converts the user's hit count; `None` if the adapter would ignore it.
    pub fn sent(self, hit: &str) -> Option<String> {
        let pass: u64 = hit.trim().parse().ok().filter(|it| *it > 0)?;
        Some(match self {
            Self::Number => pass.to_string(),
            Self::Ignored => (pass - 1).to_string(),
        })
    }
}

impl Quirks {
    /// Whether snapshots omit a variable.
    pub fn skips(&self, variable: &str) -> bool {
        self.skip_variables.iter().any(|it| match it.strip_suffix('*') {
            Some(beginning) => variable.starts_with(beginning),
            None => it == variable,
        })
    }
}

/// Exceptions by name (DAP §ExceptionOptions), which replace filters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExceptionNames {
    /// The category of all exceptions.
    pub category: String,
    /// A filter and its break mode for the whole category; later entries win.
    #[serde(default)]
    pub filters: Vec<(String, String)>,
}

impl ExceptionNames {
    /// Break modes, DAP §ExceptionBreakMode.
    pub const MODES: [&'static str; 4] = ["always", "unhandled", "userUnhandled", "never"];

    /// Builds an `ExceptionOptions` for one exception of the category.
    pub fn option(&self, name: &str, mode: &str) -> Value {
        json!({ "path": [{ "names": [self.category] }, { "names": [name] }], "breakMode": mode })
    }

    /// Builds the `ExceptionOptions` that replace these filters.
    pub fn options(&self, filters: &[Value]) -> impl Iterator<Item = Value> {
        let named = |filter: &str| filters.iter().any(|it| it == filter);
        let on = self.filters.iter().filter(move |(filter, _)| named(filter));
        on.map(|(_, mode)| json!({ "path": [{ "names": [self.category] }], "breakMode": mode }))
    }
}

/// Settings to debug a test of one test runner.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestRule {
    /// The rank for this runner, in place of the adapter's.
    pub rank: Option<u32>,
    /// Values merged over the template `launch`, with the same variables.
    pub launch: Option<Value>,
    /// Exception filters that stop at a failure.
    pub exceptions: Option<Vec<String>>,
    /// Functions that a failing test reaches.
    #[serde(default)]
    pub functions: Vec<String>,
}

/// Keys that format 1 named differently.
const OLD_KEYS: OldKeys = &[
    ("", "folders", "directories"),
    ("quirks", "needs", "requires"),
    ("quirks", "or", "or_operator"),
    ("quirks", "exit_says", "exit_code_text"),
    ("quirks", "own_lines", "adapter_lines"),
    ("quirks", "own_endings", "adapter_line_starts"),
    ("quirks", "chatter", "noise_prefixes"),
    ("quirks", "tells_signal", "signal_command"),
    ("quirks", "completes_after", "completion_prefix"),
    ("quirks", "throws", "exception_functions"),
    ("quirks", "panics", "panic_functions"),
    ("quirks", "hits", "hit_count"),
    ("quirks", "marks", "output_fence"),
    ("quirks", "logs_in_program", "logpoints_write_to_program"),
    ("quirks", "output_of_program", "shares_program_output"),
    ("quirks", "shell", "evaluates_shell"),
    ("quirks.wrap", "words", "args"),
    ("quirks.wrap", "usual", "default"),
    ("quirks.wrap", "with", "command"),
    ("quirks.wrap", "says", "exit_code_text"),
];

impl Parse for DebuggerDefinition {
    fn parse(text: &str, origin: &str, from_project: bool) -> Result<Self, DefinitionError> {
        let mut definition: Self = format::parse(text, origin, OLD_KEYS)?;
        format::check_candidates(&definition.command.candidates, origin)?;
        (definition.from_project, definition.source) = (from_project, text.into());
        Ok(definition)
    }
}

impl Definition for DebuggerDefinition {
    const DIRECTORY: &'static str = "debuggers";

    fn summary(&self) -> Summary<'_> {
        Summary {
            name: &self.name,
            about: &self.about,
            group: None,
            rank: self.rank,
            install: &self.install,
            programs: self.programs(),
            verified: self.verified.as_ref(),
            from_project: self.from_project,
        }
    }

    fn covers(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| self.patterns.is_match(name))
    }

    fn built_in() -> &'static [BuiltIn<Self>] {
        &crate::DEBUGGERS
    }

    fn source(&self) -> &str {
        &self.source
    }
}

impl DebuggerDefinition {
    /// Creates a definition from the name of an adapter that Pilcrow did not start.
    pub fn unknown(name: &str) -> Self {
        Self { name: name.to_owned(), rank: u32::MAX, ..Self::default() }
    }

    /// Returns the programs of which one must be installed.
    ///
    /// They are the adapter, or the script that it runs.
    pub fn programs(&self) -> &[String] {
        let own = self.command.args.iter().find_map(|word| word.strip_prefix("${")?.strip_suffix('}'));
        own.and_then(|it| self.variables.get(it)).unwrap_or(&self.command.candidates)
    }

    /// Whether the adapter runs the program of a variable itself.
    pub fn runs_itself(&self, variable: &str) -> bool {
        self.command.args.iter().any(|it| *it == format!("${{{variable}}}"))
    }

    /// Returns the program's interpreter with its first arguments.
    ///
    /// It is the value of the argument of `launch` whose template is a variable.
    pub fn interpreter(&self, arguments: &Value) -> Vec<String> {
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

    /// Returns the command that builds a program of this source.
    pub fn builds(&self, source: &Path) -> Option<&str> {
        self.sources.get(source.extension()?.to_str()?).map(String::as_str)
    }

    /// Whether the template `attach` uses `${name}`.
    pub fn attaches_by(&self, name: &str) -> bool {
        self.attach.as_ref().is_some_and(|it| mentions(it, &format!("${{{name}}}")))
    }

    /// Whether the template `launch` uses `${name}`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hit_counts_are_converted_for_the_adapter() {
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
    fn an_invalid_definition_is_refused_with_its_origin() {
        let refuse = |text: &str| DebuggerDefinition::parse(text, "a.toml", false).unwrap_err().to_string();
        let newer = SMALL.replace("format = 1", "format = 3\nnews = 1");
        assert_eq!(refuse(&newer), "a.toml: has format 3; this version reads up to 2; use a newer Pilcrow");
        assert!(refuse(&format!("nmae = 1\n{SMALL}")).contains("nmae"));
        assert!(refuse(&SMALL.replace("[\"a\"]", "[]")).contains("command.candidates"));
        assert_eq!(
            refuse(&SMALL.replace("verified = false", "verified = true")),
            "a.toml:4: `verified` must be false or a table of version, date and how"
        );
    }

    #[test]
    fn patterns_match_file_names() {
        let definition = DebuggerDefinition::parse(SMALL, "a.toml", false).unwrap();
        let by_a_project = SMALL.replace("verified = false\n", "");
        assert!(DebuggerDefinition::parse(&by_a_project, "a.toml", true).unwrap().verified.is_none());
        assert!(definition.covers(Path::new("/p/q.x")) && !definition.covers(Path::new("/p/q.y")));
        assert!(definition.launches("program") && !definition.launches("module"));
    }

    /// lldb-dap hides a command that begins with `?`; else the text is the same.
    #[test]
    fn the_lldb_adapters_share_their_formatters_of_rust() {
        let all = crate::definitions::Definitions::<DebuggerDefinition>::built_in();
        let script = |name: &str| all.get(name).unwrap().texts["rust"].trim_start_matches('?').to_owned();
        assert_eq!(script("lldb-dap"), script("codelldb"));
    }

    /// Covers a directory of the project that is also called `bin`.
    #[test]
    fn the_interpreter_is_the_launch_argument_of_a_variable() {
        let text = SMALL.replace(
            "program = \"${program}\"\n",
            "cwd = \"${cwd}\"\nmodule = \"${module}\"\npython = \"${python}\"\n[variables]\npython = [\"python3\"]\n",
        );
        let definition = DebuggerDefinition::parse(&text, "a.toml", false).unwrap();
        let runs = |arguments: Value| definition.interpreter(&arguments);
        assert_eq!(runs(json!({"cwd": "/p/bin/x", "python": "/usr/bin/python3"})), ["/usr/bin/python3"]);
        assert_eq!(runs(json!({"python": ["/v/python", "-E"]})), ["/v/python", "-E"]);
        assert!(runs(json!({"cwd": "/p/bin/x"})).is_empty());
    }
}
