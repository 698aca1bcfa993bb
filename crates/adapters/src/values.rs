//! Values of definitions: dotted keys, merges and variables.
//!
//! Pure.

use std::path::Path;

use serde_json::{Map, Value};

/// Unfolds dotted keys at every depth: `{"a.b": 1}` becomes `{"a": {"b": 1}}`.
pub fn unfold(value: Value) -> Value {
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

/// Merges `over` into `base`.
///
/// Objects are merged, `null` removes, anything else is replaced.
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

/// Returns a section's value for `workspace/configuration`; `null` without one.
pub fn section(settings: &Value, section: Option<&str>) -> Value {
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
pub fn expand(value: &Value, variables: &[(&str, String)]) -> Value {
    match value {
        Value::String(text) => Value::String(expand_text(text, variables)),
        Value::Array(items) => items.iter().map(|item| expand(item, variables)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), expand(value, variables))).collect())
        }
        other => other.clone(),
    }
}

/// Whether a text in `value` uses `${venv}`.
pub fn names_venv(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(VENV),
        Value::Array(items) => items.iter().any(names_venv),
        Value::Object(map) => map.values().any(names_venv),
        _ => false,
    }
}

/// Replaces `${venv}` in every string of `value`.
///
/// Without an environment, drops values that use it.
pub fn with_venv(value: &Value, venv: Option<&Path>) -> Value {
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

/// The variable that differs between packages; the server's request replaces it.
const VENV: &str = "${venv}";

/// Replaces `${name}` in `text`.
pub fn expand_text(text: &str, variables: &[(&str, String)]) -> String {
    variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
}

/// Replaces each `${name}` in `template`.
///
/// A text that is only a variable becomes the variable's value; without a value it disappears with its key. A
/// longer text receives the value as text.
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

pub(crate) fn empty() -> Value {
    Value::Object(Map::new())
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
    fn values_with_venv_are_left_out_without_one() {
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

    #[test]
    fn templates_drop_variables_without_a_value() {
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
    fn merging_replaces_values_and_null_removes() {
        let mut base = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut base, json!({"a": {"b": 3, "c": null}, "d": [2]}));
        assert_eq!(base, json!({"a": {"b": 3}, "d": [2]}));
    }
}
