//! Values of definitions: dotted keys unfolded, laid over each other, with variables replaced. Pure.

use std::path::Path;

use serde_json::Value;

/// `{"a.b": 1}` as `{"a": {"b": 1}}`, at every depth.
pub(crate) fn unfold(value: Value) -> Value {
    let Value::Object(map) = value else { return value };
    let mut out = empty();
    for (key, value) in map {
        let mut nested = unfold(value);
        for part in key.rsplit('.') {
            nested = Value::Object([(part.to_owned(), nested)].into_iter().collect());
        }
        merge(&mut out, nested);
    }
    out
}

/// Lays `over` on `base`: objects are merged, anything else is replaced.
pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// What `workspace/configuration` asks for under `section`, `null` when there is nothing.
pub(crate) fn section(settings: &Value, section: Option<&str>) -> Value {
    let Some(section) = section.filter(|section| !section.is_empty()) else { return settings.clone() };
    let mut value = settings;
    for part in section.split('.') {
        match value.get(part) {
            Some(inner) => value = inner,
            None => return Value::Null,
        }
    }
    value.clone()
}

/// Replaces `${name}` in every string of `value`.
pub(crate) fn expand(value: &Value, variables: &[(&str, String)]) -> Value {
    match value {
        Value::String(text) => Value::String(expand_text(text, variables)),
        Value::Array(items) => items.iter().map(|item| expand(item, variables)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), expand(value, variables))).collect())
        }
        other => other.clone(),
    }
}

/// Whether some text of `value` names the virtual environment of a file.
pub(crate) fn names_venv(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(VENV),
        Value::Array(items) => items.iter().any(names_venv),
        Value::Object(map) => map.values().any(names_venv),
        _ => false,
    }
}

/// Replaces `${venv}` in every string of `value`; where there is none, what names it is left out.
pub(crate) fn with_venv(value: &Value, venv: Option<&Path>) -> Value {
    let kept = |value: &Value| venv.is_some() || !matches!(value, Value::String(text) if text.contains(VENV));
    match (value, venv) {
        (Value::String(text), Some(venv)) => Value::String(text.replace(VENV, &venv.display().to_string())),
        (Value::Array(items), _) => {
            items.iter().filter(|it| kept(it)).map(|item| with_venv(item, venv)).collect()
        }
        (Value::Object(map), _) => {
            let fields = map.iter().filter(|(_, value)| kept(value));
            Value::Object(fields.map(|(key, value)| (key.clone(), with_venv(value, venv))).collect())
        }
        (other, _) => other.clone(),
    }
}

/// Stands for a folder that differs from package to package, so it is replaced when a server asks.
const VENV: &str = "${venv}";

/// Replaces `${name}` in `text`.
pub(crate) fn expand_text(text: &str, variables: &[(&str, String)]) -> String {
    variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
}

pub(super) fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_answer_nested_and_dotted_sections() {
        let settings = unfold(json!({"a.b": {"c.d": 1}, "a": {"e": 2}}));
        assert_eq!(settings, json!({"a": {"b": {"c": {"d": 1}}, "e": 2}}));
        assert_eq!(section(&settings, Some("a.b.c")), json!({"d": 1}));
        assert_eq!(section(&settings, Some("a.x")), Value::Null);
        assert_eq!(section(&settings, None), settings);
    }

    #[test]
    fn what_names_a_virtual_environment_is_left_out_where_there_is_none() {
        let settings = json!({"python": {"path": "${venv}/bin/python", "more": ["${venv}", 1]}});
        assert!(names_venv(&settings) && !names_venv(&json!({"python": "${root}"})));
        let there = with_venv(&settings, Some(Path::new("/v")));
        assert_eq!(there, json!({"python": {"path": "/v/bin/python", "more": ["/v", 1]}}));
        assert_eq!(with_venv(&settings, None), json!({"python": {"more": [1]}}));
    }

    #[test]
    fn variables_are_replaced_everywhere() {
        let variables = [("root", "/r".to_owned())];
        assert_eq!(expand(&json!({"a": ["${root}/x", 1]}), &variables), json!({"a": ["/r/x", 1]}));
    }
}
