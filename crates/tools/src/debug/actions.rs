//! Actions of the tool `debug`: one tagged enum.
//!
//! Required arguments, effects and calls follow from it. The schema is flat, since models fill in flat
//! objects best; a test compares it with the enum.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::needs;
use crate::Failure;

/// The arguments of one call of `debug`.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    #[serde(flatten)]
    pub action: Action,
    pub session: Option<String>,
    /// Time limit of the call, in seconds.
    pub timeout: Option<u64>,
}

/// An action with its arguments.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum Action {
    Launch(LaunchArguments),
    Attach(LaunchArguments),
    Configs(LaunchArguments),
    Test(TestArguments),
    Probe(ProbeArguments),
    Trace(TraceArguments),
    Breakpoints(BreakpointArguments),
    Continue(StepArguments),
    StepOver(StepArguments),
    StepIn(StepArguments),
    StepOut(StepArguments),
    StepBack(StepArguments),
    ReverseContinue(StepArguments),
    RunTo(PlaceArguments),
    Goto(PlaceArguments),
    Pause(FrameChoice),
    Restart,
    Snapshot,
    Threads,
    Stack(PageArguments),
    Scopes(FrameChoice),
    Variables(VariablesArguments),
    Evaluate(EvaluateArguments),
    SetVariable(SetVariableArguments),
    SetExpression(SetExpressionArguments),
    ExceptionInfo(FrameChoice),
    Completions(EvaluateArguments),
    Modules,
    LoadedSources,
    Source(PageArguments),
    Disassemble(MemoryArguments),
    ReadMemory(MemoryArguments),
    WriteMemory(WriteMemoryArguments),
    Output(PageArguments),
    Request(RequestArguments),
    Sessions,
    Terminate,
    Disconnect,
}

impl Action {
    /// Whether the action changes or ends the program.
    ///
    /// Such an action is denied while the user has control.
    pub(super) fn changes(&self) -> bool {
        matches!(
            self,
            Self::SetVariable(_)
                | Self::SetExpression(_)
                | Self::WriteMemory(_)
                | Self::Goto(_)
                | Self::Restart
                | Self::RunTo(_)
                | Self::Terminate
        )
    }

    /// Whether the action starts a program from disk.
    pub(super) fn starts(&self) -> bool {
        matches!(self, Self::Launch(_) | Self::Test(_) | Self::Probe(_) | Self::Restart)
    }

    /// Whether the action builds, or runs a program to its end.
    pub(super) fn takes_long(&self) -> bool {
        matches!(self, Self::Test(_) | Self::Probe(_))
    }
}

/// Target and options of a launch or attach.
#[derive(Debug, Default, Deserialize)]
pub(super) struct LaunchArguments {
    pub program: Option<String>,
    pub module: Option<String>,
    #[serde(default)]
    pub args: Vec<String>,
    pub cwd: Option<String>,
    pub env: Option<HashMap<String, String>>,
    pub adapter: Option<String>,
    #[serde(flatten)]
    pub points: PointArguments,
    #[serde(default)]
    pub stop_on_entry: bool,
    /// File with the program's standard input.
    pub stdin: Option<String>,
    pub pid: Option<i64>,
    pub host: Option<String>,
    pub port: Option<u16>,
    /// JSON merged into the adapter's launch arguments.
    pub arguments: Option<String>,
    pub config: Option<String>,
    pub file: Option<String>,
    /// Name of a test.
    ///
    /// Actions without a test refuse this field and the next two.
    pub name: Option<String>,
    pub memory_reference: Option<String>,
    pub data_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TestArguments {
    #[serde(flatten)]
    pub launch: LaunchArguments,
    pub line: Option<u64>,
    pub on: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ProbeArguments {
    #[serde(flatten)]
    pub test: TestArguments,
    pub points: Vec<WatchedLine>,
}

/// Expressions to evaluate at a line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchedLine {
    pub file: String,
    pub line: u64,
    pub expressions: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TraceArguments {
    pub expression: String,
    pub until: Option<String>,
    pub count: Option<u64>,
    pub thread: Option<i64>,
}

/// Breakpoints on lines, functions and exceptions.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PointArguments {
    pub breakpoints: Vec<LineArgument>,
    pub functions: Vec<String>,
    pub exceptions: Option<Vec<String>>,
    pub condition: Option<String>,
    pub hit: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LineArgument {
    pub file: String,
    pub line: u64,
    pub column: Option<u64>,
    pub condition: Option<String>,
    pub hit: Option<String>,
    pub log: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BreakpointArguments {
    #[serde(flatten)]
    pub points: PointArguments,
    #[serde(flatten)]
    pub frame: FrameChoice,
    pub file: Option<String>,
    pub line: Option<u64>,
    pub log: Option<String>,
    pub name: Option<String>,
    pub data_id: Option<String>,
    pub variables_reference: Option<i64>,
    pub memory_reference: Option<String>,
    pub offset: Option<i64>,
    pub access: Option<String>,
    #[serde(default)]
    pub remove: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct StepArguments {
    pub thread: Option<i64>,
    pub granularity: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PlaceArguments {
    pub file: String,
    pub line: u64,
    pub thread: Option<i64>,
}

/// A frame; without one, the top frame of a thread.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FrameChoice {
    pub frame: Option<i64>,
    pub thread: Option<i64>,
}

/// The requested part of a list or a text.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PageArguments {
    #[serde(flatten)]
    pub frame: FrameChoice,
    pub start: Option<u64>,
    pub count: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct VariablesArguments {
    pub variables_reference: i64,
    #[serde(flatten)]
    pub page: PageArguments,
    pub filter: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct EvaluateArguments {
    pub expression: String,
    pub context: Option<String>,
    #[serde(flatten)]
    pub frame: FrameChoice,
}

#[derive(Debug, Deserialize)]
pub(super) struct SetVariableArguments {
    pub name: String,
    pub value: String,
    pub variables_reference: Option<i64>,
    #[serde(flatten)]
    pub frame: FrameChoice,
}

#[derive(Debug, Deserialize)]
pub(super) struct SetExpressionArguments {
    pub expression: String,
    pub value: String,
    #[serde(flatten)]
    pub frame: FrameChoice,
}

#[derive(Debug, Deserialize)]
pub(super) struct MemoryArguments {
    pub memory_reference: Option<String>,
    pub offset: Option<i64>,
    pub count: Option<u64>,
    #[serde(flatten)]
    pub frame: FrameChoice,
}

#[derive(Debug, Deserialize)]
pub(super) struct WriteMemoryArguments {
    pub memory_reference: String,
    pub offset: Option<i64>,
    pub value: String,
    #[serde(flatten)]
    pub frame: FrameChoice,
}

#[derive(Debug, Deserialize)]
pub(super) struct RequestArguments {
    pub command: String,
    /// Arguments of the request, as JSON text.
    pub arguments: Option<String>,
}

/// The parameters of all actions.
pub(super) static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("parameters.json")).expect("the schema is JSON"));

/// Every action, in the order of the schema.
fn actions() -> Vec<&'static str> {
    let actions = SCHEMA["properties"]["action"]["enum"].as_array();
    actions.into_iter().flatten().filter_map(Value::as_str).collect()
}

impl Call {
    /// Parses the arguments; returns the call and the name of its action.
    pub(super) fn read(args: Value) -> Result<(Self, String), Failure> {
        let action = args["action"].as_str().unwrap_or_default().to_owned();
        let known = actions();
        if !known.contains(&action.as_str()) {
            let known = known.join(", ");
            return Err(Failure::invalid(format!(
                "unknown action `{action}`; the actions of debug are: {known}"
            )));
        }
        let call = serde_json::from_value(args).map_err(|error| {
            let error = error.to_string();
            let missing = error.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
            match missing {
                Some(field) => needs(&action, field),
                None => Failure::invalid(format!("arguments: {error}")),
            }
        })?;
        Ok((call, action))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An action with a value for each property of the schema.
    fn full(action: &str) -> Value {
        let mut args = json!({});
        for (name, property) in SCHEMA["properties"].as_object().unwrap() {
            args[name] = match property["type"].as_str().unwrap() {
                "string" if property["enum"].is_array() => property["enum"][0].clone(),
                "string" => json!("x"),
                "integer" => json!(1),
                "boolean" => json!(true),
                "object" => json!({"a": "b"}),
                _ if name == "breakpoints" => json!([{"file": "a", "line": 1}]),
                _ if name == "points" => json!([{"file": "a", "line": 1, "expressions": ["x"]}]),
                _ => json!(["x"]),
            };
        }
        args["action"] = json!(action);
        args
    }

    #[test]
    fn the_schema_lists_the_actions_and_fits_each() {
        let unknown = serde_json::from_value::<Action>(json!({"action": "?"})).unwrap_err().to_string();
        let known = unknown.split_once("expected one of ").unwrap().1;
        let known: Vec<&str> = known.split(", ").map(|name| name.trim_matches('`')).collect();
        assert_eq!(known, actions());
        for action in actions() {
            assert!(Call::read(full(action)).is_ok(), "{action}");
        }
    }

    #[test]
    fn a_missing_argument_is_named() {
        let message = |args: Value| Call::read(args).unwrap_err().message;
        assert_eq!(message(json!({"action": "evaluate"})), "`evaluate` needs `expression`");
        assert_eq!(message(json!({"action": "goto", "file": "a"})), "`goto` needs `line`");
        assert_eq!(message(json!({"action": "probe"})), "`probe` needs `points`");
        let typo = json!([{"file": "a", "line": 1, "cond": "n"}]);
        assert_eq!(
            message(json!({"action": "launch", "breakpoints": typo})),
            "arguments: unknown field `cond`, expected one of `file`, `line`, `column`, `condition`, `hit`, `log`"
        );
        assert!(
            message(json!({"action": "fly"}))
                .starts_with("unknown action `fly`; the actions of debug are: launch,")
        );
    }
}
