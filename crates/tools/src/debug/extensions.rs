//! Keys of `.vscode/launch.json` that an editor's extension reads itself and no debug adapter knows: CodeLLDB's
//! `cargo`, and those of cppdbg.
//!
//! Pure. What must stay true: nothing else is debugged than what a configuration says; what is not taken over is
//! said.

use serde_json::{Value, json};
use workspace::{AbsPath, ErrorCode};

use crate::Failure;

/// What stands for the program that cargo builds.
const PROGRAM: &str = "${cargo:program}";

/// A build by cargo, to debug what comes of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CargoBuild {
    /// The words behind `cargo`.
    pub words: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Where it runs, where that is said.
    pub cwd: Option<String>,
    tests: bool,
    name: Option<String>,
    kind: Option<String>,
}

impl CargoBuild {
    /// What the key `cargo` says: words, or an object with `args`, `env`, `cwd` and `filter`.
    pub fn read(cargo: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let given = if cargo.is_array() { cargo } else { &cargo["args"] };
        // What comes after these would be the program's.
        let given = given.as_array().into_iter().flatten().filter_map(text).take_while(|it| it != "--");
        let mut words: Vec<String> = without_message_format(given);
        let command = command_at(&words).map(|at| &mut words[at]);
        let tests = command.as_ref().is_some_and(|it| ["test", "t", "bench"].contains(&it.as_str()));
        match command {
            Some(command) if ["run", "r"].contains(&command.as_str()) => *command = "build".to_owned(),
            Some(_) => {}
            None => words.push("build".to_owned()),
        }
        if tests && !words.iter().any(|it| it == "--no-run") {
            words.push("--no-run".to_owned());
        }
        words.push("--message-format=json".to_owned());
        let env = cargo["env"].as_object().into_iter().flatten();
        Self {
            words,
            env: env.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect(),
            cwd: text(&cargo["cwd"]),
            tests,
            name: text(&cargo["filter"]["name"]),
            kind: text(&cargo["filter"]["kind"]),
        }
    }

    /// The one program that cargo tells it made.
    ///
    /// # Errors
    /// It made none, or several.
    pub fn program(&self, messages: &str) -> Result<AbsPath, Failure> {
        let mut found: Vec<(AbsPath, String)> = Vec::new();
        for it in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let kinds = it["target"]["kind"].as_array().into_iter().flatten();
            let kinds: Vec<&str> = kinds.filter_map(Value::as_str).collect();
            let name = it["target"]["name"].as_str().unwrap_or_default();
            let fits = it["reason"] == "compiler-artifact"
                && (!self.tests || it["profile"]["test"] == true)
                && self.name.as_ref().is_none_or(|wanted| wanted == name)
                && self.kind.as_ref().is_none_or(|wanted| kinds.contains(&wanted.as_str()));
            if let Some(path) = it["executable"].as_str().filter(|_| fits).and_then(AbsPath::new)
                && !found.iter().any(|(known, _)| *known == path)
            {
                found.push((path, format!("{name} ({})", kinds.join(", "))));
            }
        }
        match found.len() {
            1 => Ok(found.swap_remove(0).0),
            0 => Err(Failure::new(
                ErrorCode::NotFound,
                format!(
                    "`cargo {}` made no program that fits the configuration's `cargo`",
                    self.words.join(" ")
                ),
            )),
            _ => {
                let all: Vec<&str> = found.iter().map(|(_, it)| it.as_str()).collect();
                let message = format!(
                    "cargo made several programs: {}; give the configuration's `cargo` a `filter` with `name` and \
                     `kind`",
                    all.join(", ")
                );
                Err(Failure::new(ErrorCode::Ambiguous, message))
            }
        }
    }
}

/// Cargo's words without how it writes its messages, which is ours to say.
fn without_message_format(mut given: impl Iterator<Item = String>) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(word) = given.next() {
        match word.strip_prefix("--message-format") {
            // Its value is a word of its own.
            Some("") => drop(given.next()),
            Some(_) => {}
            None => words.push(word),
        }
    }
    words
}

/// Where in cargo's words its command is: the first that is no option and no option's value.
fn command_at(words: &[String]) -> Option<usize> {
    const WITH_VALUE: &[&str] = &["--config", "--color", "-Z", "-C", "--manifest-path"];
    let is_value = |at: usize| at > 0 && WITH_VALUE.contains(&words[at - 1].as_str());
    (0..words.len()).find(|at| !words[*at].starts_with(['+', '-']) && !is_value(*at))
}

/// A configuration with the program that cargo made.
pub(super) fn with_program(config: &Value, program: &AbsPath) -> Value {
    let mut config = config.clone();
    let named = config["program"].as_str().map(|it| it.replace(PROGRAM, &program.to_string()));
    if let Some(members) = config.as_object_mut() {
        members.remove("cargo");
        members.insert("program".to_owned(), json!(named.unwrap_or_else(|| program.to_string())));
    }
    config
}

/// By which `type` the adapter of a configuration is known: of two debuggers behind one type, cppdbg's `MIMode` says
/// which.
pub(super) fn types(config: &Value) -> impl Iterator<Item = String> {
    let kind = config["type"].as_str().unwrap_or_default().to_owned();
    let mode = config["MIMode"].as_str().map(|mode| format!("{kind}/{mode}"));
    mode.into_iter().chain([kind])
}

/// What cppdbg debugs in place of a program that is started here, and what does so instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("coreDumpPath", "look at a core dump with `gdb PROGRAM CORE` in a shell"),
    ("miDebuggerServerAddress", SERVER),
    ("debugServerPath", SERVER),
    ("customLaunchSetupCommands", SERVER),
    ("pipeTransport", "run Pilcrow on that machine"),
];
const SERVER: &str = "start the server in a shell, and `attach` with `adapter` gdb, its `port`, and `arguments` \
                      {\"target\": \"HOST:PORT\", \"program\": …}";

/// What cppdbg tells its debugger, and how that is told here.
const LEFT: &[(&str, &str)] = &[
    ("setupCommands", COMMANDS),
    ("postRemoteConnectCommands", COMMANDS),
    ("sourceFileMap", COMMANDS),
    ("additionalSOLibSearchPath", COMMANDS),
    ("symbolLoadInfo", COMMANDS),
    ("miDebuggerPath", DEBUGGER),
    ("miDebuggerArgs", DEBUGGER),
];
const COMMANDS: &str = "begin with `stop_on_entry`, and give the debugger's own commands by `request` with \
                        `command` evaluate and `arguments` {\"expression\": …, \"context\": \"repl\"}";
const DEBUGGER: &str = "the debugger is the one on PATH, or that of a definition of your own";

/// Nothing is to be told of these: they are about the editor's view or its terminal.
const EDITORS: &[&str] = &[
    "MIMode",
    "externalConsole",
    "visualizerFile",
    "showDisplayString",
    "logging",
    "avoidWindowsConsoleRedirection",
    "targetArchitecture",
    "filterStdout",
    "filterStderr",
    "serverStarted",
    "serverLaunchTimeout",
    "launchCompleteCommand",
];

/// Takes cppdbg's own keys out of a configuration; what is not taken over, with what to use instead, a line each.
///
/// # Errors
/// It debugs something else than a program that is started or attached to here.
pub(super) fn without_cppdbg(config: &mut Value) -> Result<Vec<String>, Failure> {
    let Some(members) = config.as_object_mut().filter(|it| it.get("type").is_some_and(|it| it == "cppdbg"))
    else {
        return Ok(Vec::new());
    };
    for (key, instead) in ELSEWHERE {
        if members.get(*key).is_some_and(says_something) {
            let message = format!("cppdbg's `{key}` is not taken over; {instead}");
            return Err(Failure::new(ErrorCode::Unsupported, message));
        }
        members.remove(*key);
    }
    EDITORS.iter().for_each(|key| drop(members.remove(*key)));
    let mut left = Vec::new();
    for (key, instead) in LEFT {
        if members.remove(*key).is_some_and(|it| says_something(&it)) {
            left.push(format!("cppdbg's `{key}` is not taken over: {instead}"));
        }
    }
    Ok(left)
}

/// Whether the value of a key asks for anything that is not done anyway.
fn says_something(value: &Value) -> bool {
    // gdb prints so when it is spoken to over DAP.
    let is_usual = |it: &Value| it["text"].as_str().is_some_and(|it| it.contains("enable-pretty-printing"));
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.iter().all(is_usual),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(name: &str, kind: &str, executable: &str, test: bool) -> String {
        json!({"reason": "compiler-artifact", "executable": executable, "profile": {"test": test},
            "target": {"name": name, "kind": [kind]}})
        .to_string()
    }

    #[test]
    fn cargo_builds_and_does_not_run() {
        let words = |cargo: Value| CargoBuild::read(&cargo).words.join(" ");
        assert_eq!(words(json!({"args": ["build", "--bin=a"]})), "build --bin=a --message-format=json");
        assert_eq!(words(json!(["+nightly", "run", "--", "x"])), "+nightly build --message-format=json");
        let test = "test --lib --no-run --message-format=json";
        assert_eq!(words(json!({"args": ["test", "--lib"]})), test);
        assert_eq!(words(json!({"args": ["test", "--lib", "--no-run", "--message-format=json"]})), test);
        assert_eq!(words(json!({})), "build --message-format=json");
        for (given, expected) in [
            (json!(["--config", "a.b=1", "run"]), "--config a.b=1 build"),
            (json!(["-Z", "x", "--color", "always", "-C", "sub", "r"]), "-Z x --color always -C sub build"),
            (json!(["--manifest-path", "sub/Cargo.toml", "run"]), "--manifest-path sub/Cargo.toml build"),
            (json!(["--message-format", "short", "run", "--message-format=json-x"]), "build"),
            (json!(["--message-format"]), "build"),
        ] {
            assert_eq!(words(given), format!("{expected} --message-format=json"));
        }
    }

    #[test]
    fn what_cargo_made_is_one_program_or_refused() {
        let messages = [
            artifact("a", "bin", "/t/a", false),
            artifact("b", "bin", "/t/b", false),
            artifact("a", "lib", "/t/deps/a", true),
            json!({"reason": "compiler-artifact", "executable": null, "target": {"name": "c", "kind": ["lib"]}})
                .to_string(),
            "no JSON".to_owned(),
        ]
        .join("\n");
        let made = |cargo: Value| {
            let made = CargoBuild::read(&cargo).program(&messages);
            made.map_or_else(|failure| failure.message, |it| it.to_string())
        };
        assert_eq!(made(json!({"filter": {"name": "b", "kind": "bin"}})), "/t/b");
        assert_eq!(made(json!({"args": ["test"]})), "/t/deps/a");
        let several = made(json!({"filter": {"kind": "bin"}}));
        assert!(several.contains("a (bin), b (bin)") && several.contains("`filter`"), "{several}");
        assert!(made(json!({"filter": {"name": "z"}})).contains("made no program"));
    }

    #[test]
    fn the_program_is_put_where_it_is_named_or_is_the_program() {
        let made = AbsPath::new("/t/a").unwrap();
        let program = |config: Value| with_program(&config, &made);
        assert_eq!(program(json!({"cargo": {}})), json!({"program": "/t/a"}));
        assert_eq!(program(json!({"program": "${cargo:program}"}))["program"], "/t/a");
    }

    #[test]
    fn what_is_not_taken_over_of_cppdbg_is_said() {
        let mut config = json!({"type": "cppdbg", "program": "a", "MIMode": "gdb", "externalConsole": false,
            "setupCommands": [{"text": "-enable-pretty-printing"}], "miDebuggerPath": "/x/gdb",
            "sourceFileMap": {"/build": "/src"}, "coreDumpPath": ""});
        let left = without_cppdbg(&mut config).unwrap();
        assert_eq!(config, json!({"type": "cppdbg", "program": "a"}));
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(
            left[0].starts_with("cppdbg's `sourceFileMap` is not taken over: begin with `stop_on_entry`")
        );
        assert!(left[1].starts_with("cppdbg's `miDebuggerPath`"), "{left:?}");
        let refused = without_cppdbg(&mut json!({"type": "cppdbg", "miDebuggerServerAddress": "h:1"}));
        assert!(refused.unwrap_err().message.contains("\"target\": \"HOST:PORT\""));
        let mut other = json!({"type": "coreclr", "sourceFileMap": {"a": "b"}});
        assert!(without_cppdbg(&mut other).unwrap().is_empty() && !other["sourceFileMap"].is_null());
    }

    #[test]
    fn the_mode_of_cppdbg_chooses_the_debugger() {
        let of = |config: Value| types(&config).collect::<Vec<_>>();
        assert_eq!(of(json!({"type": "cppdbg", "MIMode": "lldb"})), ["cppdbg/lldb", "cppdbg"]);
        assert_eq!(of(json!({"type": "lldb"})), ["lldb"]);
    }
}
