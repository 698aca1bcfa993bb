//! A model's arguments against a tool's schema: gently coerced where the meaning is plain, then validated.
//!
//! Coerced: `"42"` to a number, `"true"` to a boolean, a scalar to a list of one, a list or object given as
//! JSON text, a number to a string, and null for an optional property, which is left out. What already
//! fits is never changed. The text of an error is for the model.

use jsonschema::Validator;
use serde_json::{Map, Value};

/// The longest part of the received arguments that an error shows, in characters.
const SHOWN: usize = 2000;

/// A schema ready for use.
pub(crate) struct Schema {
    schema: Value,
    validator: Validator,
}

impl Schema {
    pub fn compile(schema: &Value) -> Result<Schema, String> {
        let validator = jsonschema::options().should_validate_formats(true).build(schema);
        let validator = validator.map_err(|error| error.to_string())?;
        Ok(Schema { schema: schema.clone(), validator })
    }
}

/// The arguments as the tool gets them, or a text that says what is wrong with each.
pub(crate) fn validate(tool: &str, schema: &Schema, mut args: Value) -> Result<Value, String> {
    let received = args.clone();
    coerce(&schema.schema, &mut args);
    let mut problems = Vec::new();
    for error in schema.validator.iter_errors(&args) {
        let path = error.instance_path().to_string().trim_start_matches('/').replace('/', ".");
        let path = if path.is_empty() { "arguments".to_owned() } else { path };
        problems.push(format!("\n  - {path}: {error}"));
    }
    if problems.is_empty() {
        return Ok(args);
    }
    Err(failure(tool, &problems.concat(), &received))
}

/// What is said of arguments that neither the schema nor `unnamed` names, which a tool does not see; `None`
/// where there are none, or the schema names none or lets others in.
pub(crate) fn unknown(schema: &Value, unnamed: &[&str], args: &Value) -> Option<String> {
    let (named, given) = (schema["properties"].as_object()?, args.as_object()?);
    let is_open = |word: &str| schema.get(word).is_some_and(|it| *it != Value::Bool(false));
    if ["additionalProperties", "patternProperties"].into_iter().any(is_open) {
        return None;
    }
    let quoted = |names: Vec<&String>| {
        names.iter().map(|name| format!("`{}`", name.escape_debug())).collect::<Vec<_>>().join(", ")
    };
    let is_known = |name: &str| named.contains_key(name) || unnamed.contains(&name);
    let unknown: Vec<&String> = given.keys().filter(|name| !is_known(name)).collect();
    if unknown.is_empty() {
        return None;
    }
    let mut unknown = quoted(unknown);
    if let Some((end, _)) = unknown.char_indices().nth(SHOWN) {
        unknown.truncate(end);
        unknown.push('…');
    }
    let known = quoted(named.keys().collect());
    Some(format!("note: there is no argument {unknown}, it was ignored; there are {known}\n"))
}

/// The text of an error about arguments.
pub(crate) fn failure(tool: &str, problems: &str, received: &Value) -> String {
    let mut shown = received.to_string();
    if let Some((end, _)) = shown.char_indices().nth(SHOWN) {
        shown.truncate(end);
        shown.push('…');
    }
    format!("Validation failed for tool {tool:?}:{problems}\n\nReceived arguments: {shown}")
}

fn coerce(schema: &Value, value: &mut Value) {
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty()
        && !types.iter().any(|it| is_of(value, it))
        && let Some(coerced) = types.iter().find_map(|it| coerced(value, it))
    {
        *value = coerced;
    }
    match value {
        Value::Object(members) => coerce_members(schema, members),
        Value::Array(items) if schema["items"].is_object() => {
            items.iter_mut().for_each(|item| coerce(&schema["items"], item));
        }
        _ => {}
    }
}

fn coerce_members(schema: &Value, members: &mut Map<String, Value>) {
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|it| it.iter().any(|it| it == name));
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, property) in properties {
        if members.get(name).is_some_and(Value::is_null) && !required(name) && !takes_null(property) {
            members.shift_remove(name);
        }
        if let Some(member) = members.get_mut(name) {
            coerce(property, member);
        }
    }
}

fn takes_null(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(one) => one == "null",
        Value::Array(several) => several.iter().any(|it| it == "null"),
        _ => true,
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn coerced(value: &Value, kind: &str) -> Option<Value> {
    let parsed = |text: &str| serde_json::from_str::<Value>(text.trim()).ok();
    match (kind, value) {
        ("number" | "integer" | "boolean" | "object", Value::String(text)) => {
            parsed(text).filter(|value| is_of(value, kind))
        }
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        ("string", Value::Bool(flag)) => Some(Value::String(flag.to_string())),
        ("array", Value::String(text)) => {
            Some(parsed(text).filter(Value::is_array).unwrap_or_else(|| Value::Array(vec![value.clone()])))
        }
        ("array", Value::Number(_) | Value::Bool(_) | Value::Object(_)) => {
            Some(Value::Array(vec![value.clone()]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::compile(&json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "line": {"type": "integer"},
                "all": {"type": "boolean"},
                "names": {"type": "array", "items": {"type": "string"}},
                "edits": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}},
                    "required": ["old"],
                }},
                "options": {"type": "object"},
                "kind": {"type": "string", "enum": ["a", "b"]},
            },
            "required": ["path"],
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(args: Value, expected: Value) {
        assert_eq!(validate("t", &schema(), args), Ok(expected));
    }

    #[test]
    fn what_is_plain_is_coerced_and_what_fits_is_left() {
        check(json!({"path": "42", "line": 3}), json!({"path": "42", "line": 3}));
        check(json!({"path": 42, "line": "3", "all": "true"}), json!({"path": "42", "line": 3, "all": true}));
        check(json!({"path": "a", "line": null, "names": null}), json!({"path": "a"}));
        check(json!({"path": "a", "names": "x"}), json!({"path": "a", "names": ["x"]}));
        check(json!({"path": "a", "names": "[\"x\", 1]"}), json!({"path": "a", "names": ["x", "1"]}));
        check(json!({"path": "a", "edits": {"old": 1}}), json!({"path": "a", "edits": [{"old": "1"}]}));
        check(json!({"path": "a", "options": "{\"n\": 1}"}), json!({"path": "a", "options": {"n": 1}}));
    }

    #[test]
    fn arguments_that_nobody_reads_are_named() {
        let open = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": true});
        assert_eq!(unknown(&open, &[], &json!({"b": 1})), None);
        assert_eq!(unknown(&json!({"type": "object"}), &[], &json!({"b": 1})), None);
        let schema = json!({"type": "object", "properties": {"a": {}}});
        assert_eq!(unknown(&schema, &[], &json!({"a": 1})), None);
        let said = unknown(&schema, &["c"], &json!({"a": 1, "b": 2, "c": 3})).unwrap();
        assert_eq!(said, "note: there is no argument `b`, it was ignored; there are `a`\n");
    }

    #[test]
    fn b70_every_problem_is_named_with_its_place_and_what_was_received() {
        let error =
            validate("edit", &schema(), json!({"line": "x", "edits": [{}], "kind": "c"})).unwrap_err();
        assert!(error.starts_with("Validation failed for tool \"edit\":\n  - "), "{error}");
        for part in ["arguments: ", "\"path\" is a required", "edits.0: ", "line: ", "kind: "] {
            assert!(error.contains(part), "{part} in {error}");
        }
        assert!(
            error.ends_with("Received arguments: {\"line\":\"x\",\"edits\":[{}],\"kind\":\"c\"}"),
            "{error}"
        );
    }
}
