//! A model's arguments against a tool's schema: gently coerced where the meaning is plain, then validated.
//!
//! Coerced: `"42"` to a number, `"true"` to a boolean, a scalar to a list of one, a list or object given as
//! JSON text, a number to a string, and null for an optional property, which is left out. What already
//! fits is never changed. The text of an error is for the model.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use crate::nearest::nearest;

/// The longest part of the received arguments that an error shows, in characters.
const SHOWN: usize = 2000;
/// How many parts of a schema are followed into one another: one may name itself.
const DEEPEST: usize = 64;

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

/// What is wrong with one part, in one line. Of the values that it may have all are told, and the nearest.
fn problem(error: &ValidationError<'_>) -> String {
    let ValidationErrorKind::Enum { options } = error.kind() else { return error.to_string() };
    let Some(given) = error.instance().as_str() else { return error.to_string() };
    let known: Vec<&str> = options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(nearest) = nearest(given, known.iter().copied()) else { return error.to_string() };
    let said =
        format!("{given:?} is none of them, the nearest is {nearest:?}; there are: {}", known.join(", "));
    bounded(said)
}

fn bounded(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
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
    let unknown = bounded(quoted(unknown));
    let known = quoted(named.keys().collect());
    Some(format!("note: there is no argument {unknown}, it was ignored; there are {known}\n"))
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
    // Only the one that is meant: another would take it for something else.
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

/// The part of the schema that this one stands for.
fn named<'a>(root: &'a Value, schema: &Value) -> Option<&'a Value> {
    root.pointer(schema["$ref"].as_str()?.strip_prefix('#')?)
}

fn requires(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|it| it.iter().any(|it| it == name))
}

/// Whether a list or object is one of these by its kind, what it has to have, and the words that tell it from others.
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
    let is_told = |(name, property): (&String, &Value)| {
        let Some(member) = members.get(name) else { return true };
        let is_one = property["enum"].as_array().is_none_or(|it| it.contains(member));
        (is_one && property.get("const").is_none_or(|it| it == member))
            || member.is_null() && !requires(schema, name)
    };
    let is_closed = schema["additionalProperties"] == false;
    let properties = schema["properties"].as_object();
    let is_known = |name: &String| properties.is_some_and(|it| it.contains_key(name));
    required.into_iter().all(|name| members.contains_key(name))
        && properties.into_iter().flatten().all(is_told)
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
    fn what_is_plain_is_coerced_and_what_fits_is_left() {
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
    fn of_a_word_that_is_none_of_the_list_the_nearest_and_all_are_told() {
        let kinds = json!({"type": "string", "enum": ["diagnostics", "reload", "references", "rename"]});
        let schema = Schema::compile(&json!({"type": "object", "properties": {"kind": kinds}})).unwrap();
        let said = |kind: &str| validate("t", &schema, json!({"kind": kind})).unwrap_err();
        let all = "there are: diagnostics, reload, references, rename";
        assert!(
            said("refs").contains(&format!(
                "  - kind: \"refs\" is none of them, the nearest is \"references\"; {all}\n"
            )),
            "{}",
            said("refs")
        );
        assert!(said("Rename").contains("the nearest is \"rename\""), "{}", said("Rename"));
        assert!(said("renames").contains("the nearest is \"rename\""), "{}", said("renames"));
        assert!(said(&"x".repeat(9000)).len() < 3 * SHOWN, "{}", said(&"x".repeat(9000)).len());
    }

    #[test]
    fn null_for_what_may_be_left_out_is_left_out_wherever_it_stands() {
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
    fn a_schema_that_is_nothing_but_itself_comes_to_an_end() {
        let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}});
        coerce(&schema, &schema, DEEPEST, &mut json!({"b": null}));
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
