//! The configuration as data and as text: every key with its value and where that comes from.

use std::fmt::Write;

use policy::Redactor;
use serde::Serialize;

use super::keys::KEYS;
use super::{Config, Origin};
use crate::shown;

/// One key as `pilcrow config show --json` gives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    pub key: String,
    /// Its value; null when nobody set it and there is no default.
    pub value: serde_json::Value,
    /// `free`, `policy` or `personal`.
    pub class: &'static str,
    /// `default`, `FILE:LINE`, the variable or the flag; of a list one for each element.
    pub origins: Vec<String>,
}

impl Config {
    /// Every key in the order of the table; passwords and keys in URLs are replaced.
    pub fn show(&self) -> Vec<Shown> {
        let redactor = Redactor::default();
        let mut shown = Vec::new();
        for key in KEYS {
            // A provider's name may hold dots, so its beginning and end tell which key this is.
            let (begin, end) = key.name.split_once("NAME").unwrap_or((key.name, key.name));
            let is_key = |name: &&String| name.starts_with(begin) && name.ends_with(end);
            let names: Vec<&String> = self.settings.keys().filter(is_key).collect();
            for name in &names {
                let setting = &self.settings[*name];
                let mut value = setting.value.json();
                if let serde_json::Value::String(text) = &mut value {
                    *text = redactor.redact(&shown::address(text)).into_owned();
                }
                let origins = setting.origins.iter().map(Origin::to_string).collect();
                shown.push(Shown { key: (*name).clone(), value, class: key.class.name(), origins });
            }
            if names.is_empty() && !key.name.contains("NAME") {
                let (value, origins) = (serde_json::Value::Null, vec![Origin::Default.to_string()]);
                shown.push(Shown { key: key.name.to_owned(), value, class: key.class.name(), origins });
            }
        }
        shown
    }

    /// The same for people: `KEY = VALUE`, and behind it where it comes from.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for Shown { key, value, origins, .. } in self.show() {
            let line = match &value {
                serde_json::Value::Null => writeln!(out, "# {key} is not set"),
                serde_json::Value::Array(items) if !items.is_empty() => {
                    let lines = items.iter().zip(&origins);
                    let lines: String =
                        lines.map(|(item, origin)| format!("    {item},  # {origin}\n")).collect();
                    writeln!(out, "{key} = [\n{lines}]")
                }
                value => writeln!(out, "{key} = {value}  # {}", origins.join(", ")),
            };
            line.expect("a String takes every text");
        }
        out
    }
}
