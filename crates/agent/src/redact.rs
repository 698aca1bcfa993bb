//! Secrets on their way out of a run: to the session's file and to those who hear its events.
//!
//! What the loop itself works with stays as it is, so that edits and calls mean what they say.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use workspace::Redactor;

/// `value` with the secrets in its texts replaced; `None` when there are none. Names of fields stay.
pub(crate) fn redacted<T: Serialize + DeserializeOwned>(redactor: &Redactor, value: &T) -> Option<T> {
    let mut tree = serde_json::to_value(value).ok()?;
    if !replace(redactor, &mut tree) {
        return None;
    }
    match serde_json::from_value(tree) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(%error, "a secret was found where a text cannot be replaced");
            None
        }
    }
}

fn replace(redactor: &Redactor, value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let replaced = match redactor.redact(text) {
                std::borrow::Cow::Borrowed(_) => return false,
                std::borrow::Cow::Owned(replaced) => replaced,
            };
            *text = replaced;
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| replace(redactor, item) | any),
        Value::Object(fields) => fields.values_mut().fold(false, |any, item| replace(redactor, item) | any),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
