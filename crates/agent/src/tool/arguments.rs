//! Coercion and validation of a model's arguments against a tool's schema.
//!
//! The module coerces `"42"` to a number, `"true"` to a boolean, a scalar to a list of one, JSON text to a
//! list or object, and a number to a string. It removes null for an optional property, and never changes
//! arguments that fit. Errors address the model.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use crate::suggestion::nearest;

/// Maximum characters of the received arguments in an error.
const SHOWN: usize = 2000;
/// Maximum schema nesting that is followed, since a schema may refer to itself.
const DEEPEST: usize = 64;

/// A compiled schema.
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

/// Coerces arguments; returns a text that names each problem if they do not fit.
pub(crate) fn validate(tool: &str, schema: &Schema, mut args: Value) -> Result<Value, String> {
    if schema.validator.is_valid(&args) {
        return Ok(args);
    }
    let received = args.clone();
    let root = &schema.schema;
    coerce(root, root, DEEPEST, &mut args);
    let mut problems = Vec::new();
    for error in schema.validator.iter_errors(&args) {
        let path = error.instance_path().to_string().trim_start_matches('/').replace('/', ".");
        let path = if path.is_empty() { "arguments".to_owned() } else { path };
        problems.push(format!("\n  - {path}: {}", problem(&error)));
    }
    if problems.is_empty() {
        return Ok(args);
    }
    Err(failure(tool, &problems.concat(), &received))
}

/// One problem in one line; for an enum, with all values and the nearest one.
fn problem(error: &ValidationError<'_>) -> String {
    let ValidationErrorKind::Enum { options } = error.kind() else { return error.to_string() };
    let Some(given) = error.instance().as_str() else { return error.to_string() };
    let known: Vec<&str> = options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(nearest) = nearest(given, known.iter().copied()) else { return error.to_string() };
    let said = format!("{given:?} is unknown, the nearest is {nearest:?}; known: {}", known.join(", "));
    bounded(said)
}

fn bounded(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A note about arguments that the tool ignores.
///
/// `None` if there are none, or the schema declares no properties or allows others.
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
    let unknown = bounded(quoted(unknown));
    let known = quoted(named.keys().collect());
    Some(format!("note: ignored unknown argument {unknown}; known: {known}\n"))
}

/// The text of an error about arguments.
pub(crate) fn failure(tool: &str, problems: &str, received: &Value) -> String {
    let shown = bounded(received.to_string());
    format!("Validation failed for tool {tool:?}:{problems}\n\nReceived arguments: {shown}")
}

fn coerce(root: &Value, schema: &Value, left: usize, value: &mut Value) {
    let Some(left) = left.checked_sub(1) else { return };
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
        Value::Object(members) => coerce_members(root, schema, left, members),
        Value::Array(items) if schema["items"].is_object() => {
            items.iter_mut().for_each(|item| coerce(root, &schema["items"], left, item));
        }
        _ => {}
    }
    if let Some(named) = named(root, schema) {
        coerce(root, named, left, value);
    }
    // Only the matching variant counts, since another one would coerce to something else.
    for word in ["anyOf", "oneOf"] {
        let mut schemas = schema[word].as_array().into_iter().flatten();
        if (value.is_object() || value.is_array())
            && let Some(meant) = schemas.find(|it| is_meant(root, it, left, value))
        {
            coerce(root, meant, left, value);
        }
    }
}

fn coerce_members(root: &Value, schema: &Value, left: usize, members: &mut Map<String, Value>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, property) in properties {
        let is_null = members.get(name).is_some_and(Value::is_null);
        if is_null && !requires(schema, name) && !takes_null(root, property, left) {
            members.shift_remove(name);
        }
        if let Some(member) = members.get_mut(name) {
            coerce(root, property, left, member);
        }
    }
}

/// The target of `$ref`.
fn named<'a>(root: &'a Value, schema: &Value) -> Option<&'a Value> {
    root.pointer(schema["$ref"].as_str()?.strip_prefix('#')?)
}

fn requires(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|it| it.iter().any(|it| it == name))
}

/// Whether a list or object matches this variant.
///
/// Compares its type, required members and constants.
fn is_meant(root: &Value, schema: &Value, left: usize, value: &Value) -> bool {
    let Some(left) = left.checked_sub(1) else { return false };
    if let Some(named) = named(root, schema) {
        return is_meant(root, named, left, value);
    }
    let kind = if value.is_object() { "object" } else { "array" };
    let is_kind = match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|it| it == kind),
        _ => value.is_object() && schema["properties"].is_object(),
    };
    let Some(members) = value.as_object().filter(|_| is_kind) else { return is_kind };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let matches = |(name, property): (&String, &Value)| {
        let Some(member) = members.get(name) else { return true };
        let is_one = property["enum"].as_array().is_none_or(|it| it.contains(member));
        (is_one && property.get("const").is_none_or(|it| it == member))
            || member.is_null() && !requires(schema, name)
    };
    let is_closed = schema["additionalProperties"] == false;
    let properties = schema["properties"].as_object();
    let is_known = |name: &String| properties.is_some_and(|it| it.contains_key(name));
    required.into_iter().all(|name| members.contains_key(name))
        && properties.into_iter().flatten().all(matches)
        && (!is_closed || members.keys().all(is_known))
}

fn takes_null(root: &Value, schema: &Value, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else { return true };
    match &schema["type"] {
        Value::String(one) => one == "null",
        Value::Array(several) => several.iter().any(|it| it == "null"),
        _ => {
            let lists = ["anyOf", "oneOf"].into_iter().filter_map(|word| schema[word].as_array());
            let lists = lists.map(|schemas| schemas.iter().any(|it| takes_null(root, it, left)));
            let values = schema["enum"].as_array().map(|values| values.contains(&Value::Null));
            let one = schema.get("const").map(Value::is_null);
            let named = named(root, schema).map(|it| takes_null(root, it, left));
            values.into_iter().chain(one).chain(named).chain(lists).all(|takes| takes)
        }
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
    use expect_test::expect;
    use serde_json::json;

    use super::*;

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
                "mode": {"enum": ["a", "b"]},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
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
    fn arguments_are_coerced_only_if_needed() {
        check(json!({"path": "42", "line": 3}), json!({"path": "42", "line": 3}));
        check(json!({"path": 42, "line": "3", "all": "true"}), json!({"path": "42", "line": 3, "all": true}));
        check(json!({"path": "a", "line": null, "names": null}), json!({"path": "a"}));
        check(
            json!({"path": "a", "mode": null, "either": null, "maybe": null}),
            json!({"path": "a", "maybe": null}),
        );
        check(json!({"path": "a", "names": "x"}), json!({"path": "a", "names": ["x"]}));
        check(json!({"path": "a", "names": "[\"x\", 1]"}), json!({"path": "a", "names": ["x", "1"]}));
        check(json!({"path": "a", "edits": {"old": 1}}), json!({"path": "a", "edits": [{"old": "1"}]}));
        check(json!({"path": "a", "options": "{\"n\": 1}"}), json!({"path": "a", "options": {"n": 1}}));
    }

    #[test]
    fn an_unknown_enum_value_names_the_nearest_and_all() {
        let kinds = json!({"type": "string", "enum": ["diagnostics", "reload", "references", "rename"]});
        let schema = Schema::compile(&json!({"type": "object", "properties": {"kind": kinds}})).unwrap();
        let said = |kind: &str| validate("t", &schema, json!({"kind": kind})).unwrap_err();
        expect![[r#"
            Validation failed for tool "t":
              - kind: "refs" is unknown, the nearest is "references"; known: diagnostics, reload, references, rename

            Received arguments: {"kind":"refs"}
            Validation failed for tool "t":
              - kind: "Rename" is unknown, the nearest is "rename"; known: diagnostics, reload, references, rename

            Received arguments: {"kind":"Rename"}
            Validation failed for tool "t":
              - kind: "renames" is unknown, the nearest is "rename"; known: diagnostics, reload, references, rename

            Received arguments: {"kind":"renames"}"#]].assert_eq(&["refs", "Rename", "renames"].map(said).join("\n"));
        assert!(said(&"x".repeat(9000)).len() < 3 * SHOWN, "{}", said(&"x".repeat(9000)).len());
    }

    #[test]
    fn null_for_an_optional_property_is_removed_at_any_depth() {
        let schema = Schema::compile(&json!({
            "type": "object",
            "properties": {
                "at": {"$ref": "#/$defs/place"},
                "kind": {"const": "a"},
                "edits": {"type": "array", "items": {"anyOf": [
                    {"type": "object", "properties": {"do": {"const": "cut"}, "line": {"type": "integer"}},
                     "required": ["do"]},
                    {"type": "object", "properties": {"do": {"const": "put"}, "line": {"type": "null"},
                     "at": {"$ref": "#/$defs/place"}}, "required": ["do"]},
                ]}},
            },
            "$defs": {"place": {"type": "object", "properties": {
                "line": {"type": "integer"}, "next": {"$ref": "#/$defs/place"}, "mark": {"enum": ["x", null]},
            }}},
        }));
        let schema = schema.unwrap();
        let check = |args, expected| assert_eq!(validate("t", &schema, args), Ok(expected));
        check(json!({"at": null, "kind": null, "edits": null}), json!({}));
        check(
            json!({"at": {"line": null, "next": {"line": "3", "next": null, "mark": null}}}),
            json!({"at": {"next": {"line": 3, "mark": null}}}),
        );
        check(
            json!({"edits": [{"do": "cut", "line": null}, {"do": "put", "line": null, "at": {"next": null}}]}),
            json!({"edits": [{"do": "cut"}, {"do": "put", "line": null, "at": {}}]}),
        );
    }

    #[test]
    fn a_self_referential_schema_terminates() {
        let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}});
        coerce(&schema, &schema, DEEPEST, &mut json!({"b": null}));
    }

    #[test]
    fn unknown_arguments_are_named() {
        let open = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": true});
        assert_eq!(unknown(&open, &[], &json!({"b": 1})), None);
        assert_eq!(unknown(&json!({"type": "object"}), &[], &json!({"b": 1})), None);
        let schema = json!({"type": "object", "properties": {"a": {}}});
        assert_eq!(unknown(&schema, &[], &json!({"a": 1})), None);
        let said = unknown(&schema, &["c"], &json!({"a": 1, "b": 2, "c": 3})).unwrap();
        assert_eq!(said, "note: ignored unknown argument `b`; known: `a`\n");
    }

    #[test]
    fn every_problem_is_named_with_its_path_and_input() {
        let error =
            validate("edit", &schema(), json!({"line": "x", "edits": [{}], "kind": "c"})).unwrap_err();
        expect![[r#"
            Validation failed for tool "edit":
              - arguments: "path" is a required property
              - line: "x" is not of type "integer"
              - edits.0: "old" is a required property
              - kind: "c" is unknown, the nearest is "a"; known: a, b

            Received arguments: {"line":"x","edits":[{}],"kind":"c"}"#]]
        .assert_eq(&error);
    }
}
