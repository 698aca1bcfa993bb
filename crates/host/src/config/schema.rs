//! The JSON Schema (draft 2020-12) of `config.toml`, made from the table.

use serde_json::{Map, Value, json};

use super::keys::{FORMAT, KEYS, Key};
use super::value::Kind;

/// The schema that `pilcrow config schema` prints.
pub fn schema() -> Value {
    let mut root = group();
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "Pilcrow's config.toml".into();
    root["properties"]["format"] = json!({
        "type": "integer",
        "minimum": 1,
        "maximum": FORMAT,
        "description": "The format of this file; may be left out.",
    });
    for key in KEYS {
        let mut place = &mut root;
        let parts: Vec<&str> = key.name.split('.').collect();
        let (last, groups) = parts.split_last().expect("a split has at least one part");
        for part in groups {
            place = if *part == "NAME" {
                let place = &mut place["additionalProperties"];
                if !place.is_object() {
                    *place = group();
                }
                place
            } else {
                let place = &mut place["properties"][*part];
                if place.is_null() {
                    *place = group();
                }
                place
            };
        }
        match *last {
            "NAME" => place["additionalProperties"] = property(key),
            last => place["properties"][last] = property(key),
        }
    }
    root
}

fn group() -> Value {
    json!({ "type": "object", "properties": Map::new(), "additionalProperties": false })
}

/// A text that names a variable.
const VARIABLES: &str = r"\$\{[^}]+\}";

fn property(key: &Key) -> Value {
    let mut property = match key.kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Duration { .. } => json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$" }),
        Kind::Text | Kind::Filter => json!({ "type": "string", "minLength": 1 }),
        Kind::Url => json!({ "type": "string", "pattern": "^https?://[^/]" }),
        Kind::Variable => json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }),
        Kind::Choice(choices) => json!({ "type": "string", "enum": choices }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string", "minLength": 1 } }),
        Kind::Secret => json!({ "anyOf": [
            { "type": "string", "pattern": VARIABLES },
            {
                "type": "object",
                "properties": {
                    "command": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                    "ttl": { "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$" },
                    "env": { "type": "array", "items": { "type": "string" } },
                },
                "required": ["command"],
                "additionalProperties": false,
            },
        ] }),
        Kind::Secrets => json!({
            "type": "array", "items": { "type": "string", "pattern": VARIABLES }, "minItems": 1,
        }),
        Kind::Paths => json!({ "type": "array", "items": {
            "type": "object",
            "properties": { "glob": { "type": "string" }, "role": { "type": "string" } },
            "required": ["glob", "role"],
            "additionalProperties": false,
        } }),
        Kind::Rules => json!({
            "type": "array",
            "items": { "type": "string", "pattern": "^\\s*(allow|ask|deny)\\s+(read|write|exec|http)(\\s|$)" },
        }),
    };
    property["description"] = key.doc.into();
    property["x-pilcrow-class"] = key.class.name().into();
    if let Some(default) = key.default {
        // The defaults of the table are JSON as well as TOML.
        property["default"] = serde_json::from_str(default).expect("a test reads every default of the table");
    }
    property
}
