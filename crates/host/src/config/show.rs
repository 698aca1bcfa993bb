//! The configuration as data and as text: every key with its value and origin.

use std::fmt::Write;

use policy::Redactor;
use serde::Serialize;
use serde_json::Value;

use super::keys::keys;
use super::{Config, Origin};
use crate::redaction;

/// A key in the form of `pilcrow config show --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    pub key: String,
    /// Value of the key; null if it is unset and has no default.
    pub value: Value,
    /// Class of the key: `free`, `policy` or `personal`.
    pub class: &'static str,
    /// Origins: `default`, `FILE:LINE`, the variable or the flag.
    ///
    /// There is one for each element of a list.
    pub origins: Vec<String>,
}

impl Config {
    /// Lists every key, in the order of the schema, without passwords and keys in URLs.
    pub fn show(&self) -> Vec<Shown> {
        let redactor = Redactor::default();
        let mut shown = Vec::new();
        for key in keys() {
            let class = key.class.name();
            let settings = self.layers.iter().filter(|(path, _)| key.matches(path));
            let before = shown.len();
            shown.extend(settings.map(|(path, setting)| {
                let mut value = setting.value.clone();
                if let Value::String(text) = &mut value {
                    *text = redactor.redact(&redaction::redact_url(text)).into_owned();
                }
                let origins = setting.origins.iter().map(Origin::to_string).collect();
                Shown { key: path.join("."), value, class, origins }
            }));
            if shown.len() == before && !key.path.iter().any(|part| part == "NAME") {
                let origins = vec![Origin::Default.to_string()];
                shown.push(Shown { key: key.name(), value: Value::Null, class, origins });
            }
        }
        shown
    }

    /// Renders every key as a line for the user: `KEY = VALUE`, and its origin.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for Shown { key, value, origins, .. } in self.show() {
            let line = match &value {
                Value::Null => writeln!(out, "# {key} is not set"),
                Value::Array(items) if !items.is_empty() => {
                    let lines = items.iter().zip(&origins);
                    let lines: String =
                        lines.map(|(item, origin)| format!("    {item},  # {origin}\n")).collect();
                    writeln!(out, "{key} = [\n{lines}]")
                }
                value => writeln!(out, "{key} = {value}  # {}", origins.join(", ")),
            };
            line.expect("writing to a String never fails");
        }
        out
    }
}
