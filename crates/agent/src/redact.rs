//! Redacts secrets in values that leave a run: session files and events.
//!
//! The loop itself works with the original values, so that edits and calls keep their meaning.

use std::borrow::Cow;

use policy::Redactor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Copies `value` with its secrets replaced; `None` when it has none.
///
/// Replaces secrets in strings and in member names. A member name that is a field of ours is not a secret
/// and stays.
pub fn redacted<T: Serialize + DeserializeOwned>(redactor: &Redactor, value: &T) -> Option<T> {
    let mut tree = serde_json::to_value(value).ok()?;
    let mut only_values = Value::Null;
    if has_name(redactor, &tree) {
        only_values = tree.clone();
    }
    if !replace(redactor, &mut tree, !only_values.is_null()) {
        return None;
    }
    if !only_values.is_null() {
        // serde ignores a renamed optional field silently, so the round trip is compared.
        let renamed = serde_json::from_value::<T>(tree.clone()).ok();
        if let Some(value) = renamed.filter(|it| serde_json::to_value(it).is_ok_and(|it| it == tree)) {
            return Some(value);
        }
        if !replace(redactor, &mut only_values, false) {
            return None;
        }
        tree = only_values;
    }
    match serde_json::from_value(tree) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(%error, "cannot redact a secret inside a value that is not text");
            None
        }
    }
}

/// Whether any member name is a secret.
fn has_name(redactor: &Redactor, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| has_name(redactor, item)),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| matches!(redactor.redact(name), Cow::Owned(_)) || has_name(redactor, value)),
        _ => false,
    }
}

/// Redacts member names in place, keeping their order; equal names are numbered.
fn rename(redactor: &Redactor, fields: &mut serde_json::Map<String, Value>) {
    for (name, value) in std::mem::take(fields) {
        let new = redactor.redact(&name);
        let mut free = new.clone().into_owned();
        let mut number = 1;
        while fields.contains_key(&free) {
            number += 1;
            free = format!("{new} {number}");
        }
        fields.insert(free, value);
    }
}

fn replace(redactor: &Redactor, value: &mut Value, names: bool) -> bool {
    match value {
        Value::String(text) => {
            let replaced = match redactor.redact(text) {
                Cow::Borrowed(_) => return false,
                Cow::Owned(replaced) => replaced,
            };
            *text = replaced;
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| replace(redactor, item, names) | any),
        Value::Object(fields) => {
            let renames = names && fields.keys().any(|name| matches!(redactor.redact(name), Cow::Owned(_)));
            if renames {
                rename(redactor, fields);
            }
            fields.values_mut().fold(renames, |any, item| replace(redactor, item, names) | any)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Serialize, Deserialize, PartialEq)]
    struct Call {
        #[serde(default)]
        tool_name: String,
        input: Value,
    }

    #[test]
    fn a_secret_is_replaced_as_a_value_and_as_a_name() {
        let secrets = [("B_SECRET", "plainsecretvalue9931"), ("C_KEY", "tool_name")];
        let secrets = |count: usize| {
            secrets.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().take(count)
        };
        let call = |input: Value| Call { tool_name: "read".to_owned(), input };
        let given =
            call(json!({"path": "x", "plainsecretvalue9931": [{"plainsecretvalue9931 2": 1}], "z": 2}));
        let expected =
            call(json!({"path": "x", "[redacted:B_SECRET]": [{"[redacted:B_SECRET] 2": 1}], "z": 2}));
        let redactor = Redactor::new(secrets(1));
        let found = redacted(&redactor, &given).unwrap();
        assert_eq!(serde_json::to_string(&found).unwrap(), serde_json::to_string(&expected).unwrap());
        let two = call(json!({"plainsecretvalue9931": 1, "[redacted:B_SECRET]": 2}));
        let found = redacted(&redactor, &two).unwrap().input;
        assert_eq!(found, json!({"[redacted:B_SECRET]": 1, "[redacted:B_SECRET] 2": 2}));
        assert_eq!(redacted(&redactor, &call(json!({"path": 1}))), None);
        // A field name of ours is not a secret, and hides none.
        let redactor = Redactor::new(secrets(2));
        let found = redacted(&redactor, &call(json!({"a": "plainsecretvalue9931"}))).unwrap();
        assert_eq!(found, call(json!({"a": "[redacted:B_SECRET]"})));
    }
}
