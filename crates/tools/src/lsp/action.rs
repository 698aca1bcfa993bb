//! Actions of the tool `lsp`: each group of actions is one tagged enum.
//!
//! Schema, effects and calls follow from it.

use agent::{ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use lsp_client::RequestCx;
use policy::{ErrorCode, Writes};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{code_actions, diagnostics, document_queries, edits, fix, navigate, servers};
use crate::described::{count, flag, text};
use crate::{Failure, ToolContext};

/// Actions whose arguments are one enum, tagged by `action`.
pub(super) trait ActionGroup: DeserializeOwned + Send + 'static {
    const ACTIONS: &'static [ActionSpec];

    fn run<'a>(self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>>;
}

/// An action as the schema and the policy see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActionSpec {
    pub name: &'static str,
    pub takes: Takes,
    pub effect: Effect,
}

/// Specifies an action that only reads and takes each of several places.
pub(super) const fn question(name: &'static str) -> ActionSpec {
    ActionSpec { name, takes: Takes::Each, effect: Effect::Reads }
}

/// The way an action takes several `files` or `symbols`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Takes only one place.
    One,
    /// Takes one place after the other.
    Each,
    /// Takes all places at once.
    Together,
}

/// The effect of an action on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    /// Edits files, unless `apply` is false.
    Edits,
    /// Edits files if `apply` is true.
    EditsOnRequest,
    /// Depends on `method`.
    ByMethod,
}

/// An action with its context and place.
pub(super) struct Call<'a> {
    pub context: &'a ToolContext,
    pub cx: &'a ToolCx,
    pub request: RequestCx,
    /// Whether the call names a `timeout`.
    pub has_timeout: bool,
}

/// Returns the parameters of all actions, with their schemas.
///
/// The schema is flat, since providers do not all understand alternatives: a description names the actions that a
/// parameter goes with.
fn parameters() -> Value {
    let list = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
    json!({
        "file": text("path; for diagnostics also a glob"),
        "files": list("several: read-only actions, format, organize_imports"),
        "symbol": text("name, Type.method, or name#2 for the second on the line"),
        "symbols": list("several: read-only actions"),
        "line": count("from 1; with `symbol`: which of several"),
        "column": count("from 1"),
        "range": text("code_actions, format, fix_all, inlay_hints: 3-9 or 3:1-9:20"),
        "query": text("symbols: part of a name"),
        "new_name": text("rename"),
        "to": text("rename_file: new path; move_symbol: target file"),
        "kind": text("code_actions: kind; fix_all: diagnostic code"),
        "title": text("code_actions: the action to apply"),
        "apply": flag("false: only show the diff"),
        "server": text("status, logs, reload, request: only this one"),
        "timeout": count("seconds"),
        "method": text("request"),
        "params": text("request: JSON"),
    })
}

/// Builds the schema of the tool's arguments.
pub(super) fn schema() -> Value {
    let action = json!({ "type": "string", "enum": names(), "description": "symbols: in `file`, or in the project by `query`" });
    let mut properties = json!({ "action": action });
    if let (Value::Object(properties), Value::Object(parameters)) = (&mut properties, parameters()) {
        properties.extend(parameters);
    }
    json!({ "type": "object", "properties": properties, "required": ["action"] })
}

type Run = for<'a> fn(Value, &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>>;

/// An [`ActionGroup`] in the table of groups.
struct Group {
    actions: &'static [ActionSpec],
    run: Run,
}

const fn group<G: ActionGroup>() -> Group {
    Group { actions: G::ACTIONS, run: run::<G> }
}

const GROUPS: [Group; 7] = [
    group::<diagnostics::DiagnosticsAction>(),
    group::<navigate::NavigationAction>(),
    group::<document_queries::DocumentAction>(),
    group::<edits::EditAction>(),
    group::<code_actions::CodeActionAction>(),
    group::<fix::FixAction>(),
    group::<servers::ServerAction>(),
];

fn run<'a, G: ActionGroup>(args: Value, call: &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>> {
    match parse::<G>(args) {
        Ok(action) => action.run(call),
        Err(failure) => Box::pin(async { Err(failure) }),
    }
}

fn parse<G: ActionGroup>(mut args: Value) -> Result<G, Failure> {
    // A null argument counts as absent.
    if let Value::Object(args) = &mut args {
        args.retain(|_, value| !value.is_null());
    }
    let action = args["action"].as_str().unwrap_or_default().to_owned();
    serde_json::from_value(args).map_err(|error| {
        let message = error.to_string();
        let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        match missing {
            Some(argument) => needs(&action, argument),
            None => Failure::new(ErrorCode::InvalidArguments, format!("arguments: {message}")),
        }
    })
}

/// Lists the names of all actions.
fn names() -> Vec<&'static str> {
    GROUPS.iter().flat_map(|group| group.actions).map(|action| action.name).collect()
}

fn find(name: &str) -> Option<(&'static ActionSpec, Run)> {
    GROUPS.iter().find_map(|group| {
        let spec = group.actions.iter().find(|action| action.name == name)?;
        Some((spec, group.run))
    })
}

/// Finds the action that arguments name.
///
/// # Errors
/// [`Failure`] when there is none.
pub(super) fn spec(args: &Value) -> Result<(&'static ActionSpec, Run), Failure> {
    let name = args["action"].as_str().unwrap_or_default();
    find(name).ok_or_else(|| {
        let message = format!("unknown action `{name}`; the actions of lsp are: {}", names().join(", "));
        Failure::new(ErrorCode::InvalidArguments, message)
    })
}

/// Returns the files that a call writes.
pub(super) fn writes(args: &Value) -> Writes {
    let effect = find(args["action"].as_str().unwrap_or_default()).map(|(spec, _)| spec.effect);
    let edits = match effect {
        None | Some(Effect::Reads) => false,
        Some(Effect::Edits) => args["apply"] != json!(false),
        Some(Effect::EditsOnRequest) => args["apply"] == json!(true),
        Some(Effect::ByMethod) => !only_reads(args["method"].as_str().unwrap_or_default()),
    };
    if edits { Writes::Unknown } else { Writes::None }
}

/// Whether the answer to a method changes nothing by itself.
pub(super) fn only_reads(method: &str) -> bool {
    let (scope, name) = method.rsplit_once('/').unwrap_or(("", method));
    scope == "textDocument"
        || name == "resolve"
        || method == "workspace/symbol"
        || scope.ends_with("Hierarchy")
}

/// Creates the failure of a call that lacks an argument.
pub(super) fn needs(action: &str, argument: &str) -> Failure {
    Failure::new(ErrorCode::InvalidArguments, format!("`{action}` needs `{argument}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits the size of the definition, which every request to a model contains.
    #[test]
    fn the_definition_is_small() {
        let (text, schema) = (include_str!("lsp.md").trim(), schema().to_string());
        assert!(text.len() <= 1100 && schema.len() <= 1900, "{} and {} bytes", text.len(), schema.len());
    }

    #[test]
    fn every_action_of_a_group_is_a_variant_of_its_enum() {
        fn check<G: ActionGroup>() {
            for action in G::ACTIONS {
                if let Err(failure) = parse::<G>(json!({ "action": action.name })) {
                    let expected = format!("`{}` needs `", action.name);
                    assert!(failure.message.starts_with(&expected), "{}", failure.message);
                }
            }
        }
        check::<diagnostics::DiagnosticsAction>();
        check::<navigate::NavigationAction>();
        check::<document_queries::DocumentAction>();
        check::<edits::EditAction>();
        check::<code_actions::CodeActionAction>();
        check::<fix::FixAction>();
        check::<servers::ServerAction>();
    }

    #[test]
    fn methods_that_may_change_files_are_recognized() {
        for method in ["textDocument/hover", "callHierarchy/incomingCalls", "codeAction/resolve"] {
            assert!(only_reads(method), "{method}");
        }
        for method in ["workspace/executeCommand", "rust-analyzer/reloadWorkspace", "java/buildWorkspace"] {
            assert!(!only_reads(method), "{method}");
        }
    }
}
