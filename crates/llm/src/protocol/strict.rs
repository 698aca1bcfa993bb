//! Conversion of schemas to the subset for constrained arguments (`strict`).
//!
//! Every object is closed. OpenAI requires every property, and optional ones accept null. Claude
//! allows optional ones, but limits their number per request. A schema that cannot be converted is
//! not constrained.

use serde_json::{Map, Value, json};

use crate::endpoint::Endpoint;

/// Dropped keywords: arguments are validated against them in any case.
const LOOSE: [&str; 8] =
    ["default", "examples", "minLength", "maxLength", "uniqueItems", "readOnly", "writeOnly", "deprecated"];
/// Further keywords that Claude does not support.
const LOOSE_FOR_CLAUDE: [&str; 8] = [
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];
/// Supported keywords.
const TAKEN: [&str; 15] = [
    "type",
    "title",
    "description",
    "enum",
    "const",
    "required",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];
/// Supported string formats.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
/// Maximum object depth and total number of properties.
const DEEPEST: usize = 5;
const PROPERTIES: usize = 100;
/// Maximum size: parts, list items, and texts of this many characters.
///
/// Referenced definitions count at each use.
const PARTS: usize = 8_000;
const OF_TEXT: usize = 64;
/// Claude's limits per request: tools, optional properties, and union types.
const CLAUDE: Weight = Weight { tools: 20, optional: 24, unions: 16 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    OpenAi,
    Claude,
}

/// Counted parts of schemas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Weight {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl Weight {
    fn less(self, other: Weight) -> Option<Weight> {
        Some(Weight {
            tools: self.tools.checked_sub(other.tools)?,
            optional: self.optional.checked_sub(other.optional)?,
            unions: self.unions.checked_sub(other.unions)?,
        })
    }
}

/// The choice of the tools of a request that are constrained.
///
/// It takes as many as the provider supports, in request order, so that later tools do not affect
/// earlier ones.
pub(super) struct Strict {
    rules: Rules,
    /// Remaining capacity; `None` if tools are not constrained.
    left: Option<Weight>,
}

impl Strict {
    pub fn new(endpoint: &Endpoint, rules: Rules) -> Strict {
        let most = match rules {
            Rules::OpenAi => Weight { tools: usize::MAX, optional: usize::MAX, unions: usize::MAX },
            Rules::Claude => CLAUDE,
        };
        Strict { rules, left: endpoint.compat.strict_tools.then_some(most) }
    }

    /// The converted schema of the next tool, if it is constrained.
    pub fn next(&mut self, schema: &Value) -> Option<Value> {
        let left = self.left.as_mut()?;
        let (schema, weight) = strict(schema, self.rules)?;
        *left = left.less(weight)?;
        Some(schema)
    }
}

/// The converted schema, or `None` if it cannot be converted.
fn strict(schema: &Value, rules: Rules) -> Option<(Value, Weight)> {
    let weight = Weight { tools: 1, ..Weight::default() };
    let mut said = Said { root: schema, rules, properties: PROPERTIES, parts: PARTS, weight };
    let out = said.part(schema, 0)?;
    (out["type"] == "object").then_some((out, said.weight))
}

/// A schema under conversion.
struct Said<'a> {
    root: &'a Value,
    rules: Rules,
    /// Remaining number of properties.
    properties: usize,
    parts: usize,
    weight: Weight,
}

impl Said<'_> {
    fn is_loose(&self, word: &str) -> bool {
        LOOSE.contains(&word) || self.rules == Rules::Claude && LOOSE_FOR_CLAUDE.contains(&word)
    }

    fn part(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let schema = schema.as_object().filter(|it| !it.is_empty() && depth <= DEEPEST)?;
        if let Some(named) = schema.get("$ref") {
            return self.reference(schema, named, depth);
        }
        self.parts = self.parts.checked_sub(1)?;
        let mut out = Map::new();
        for (word, value) in schema {
            let value = match word.as_str() {
                word if self.is_loose(word) => continue,
                "pattern" if looks_around(value) => continue,
                "format" if value.as_str().is_none_or(|it| !FORMATS.contains(&it)) => continue,
                // Claude supports only scalar values.
                "enum" | "const" if self.rules == Rules::Claude && !is_simple(value) => return None,
                word if TAKEN.contains(&word) => {
                    self.parts = self.parts.checked_sub(size(value))?;
                    value.clone()
                }
                "oneOf" if schema.contains_key("anyOf") => return None,
                "anyOf" | "oneOf" => {
                    let parts = value.as_array()?.iter().map(|it| self.part(it, depth));
                    out.insert("anyOf".to_owned(), parts.collect::<Option<_>>()?);
                    continue;
                }
                "items" => self.part(value, depth + 1)?,
                "properties" => continue,
                // Definitions are copied to the places that reference them.
                "$defs" | "definitions" if self.rules == Rules::Claude => continue,
                "$defs" | "definitions" => {
                    let parts = value.as_object()?.iter();
                    let parts = parts.map(|(name, it)| Some((name.clone(), self.part(it, depth)?)));
                    Value::Object(parts.collect::<Option<_>>()?)
                }
                // A schema that allows others would become too strict.
                "additionalProperties" if *value == Value::Bool(false) => continue,
                _ => return None,
            };
            out.insert(word.clone(), value);
        }
        let types = match &schema.get("type") {
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one.as_str()],
            _ => Vec::new(),
        };
        if types.contains(&"array") && !out.contains_key("items") {
            return None;
        }
        if types.len() > 1 || out.contains_key("anyOf") {
            self.weight.unions += 1;
        }
        // An object without properties accepts any object.
        match schema.get("properties").and_then(Value::as_object) {
            Some(properties) => self.object(schema, properties, depth, &mut out)?,
            None if types.contains(&"object") && !is_closed(schema) => return None,
            None if types.contains(&"object") => self.object(schema, &Map::new(), depth, &mut out)?,
            None if types.is_empty()
                && !["anyOf", "enum", "const"].iter().any(|it| out.contains_key(*it)) =>
            {
                return None;
            }
            None => {}
        }
        Some(Value::Object(out))
    }

    /// Converts `$ref` with sibling keywords to a copy of the definition.
    ///
    /// No keyword is allowed next to `$ref`. Claude gets only copies, which excludes recursive definitions.
    fn reference(&mut self, schema: &Map<String, Value>, named: &Value, depth: usize) -> Option<Value> {
        let named = named.as_str()?;
        let mut siblings =
            schema.iter().filter(|(word, _)| *word != "$ref" && !self.is_loose(word)).peekable();
        if siblings.peek().is_none() && self.rules == Rules::OpenAi {
            return Some(json!({ "$ref": named }));
        }
        let there = self.root.pointer(named.strip_prefix('#')?)?;
        let left = self.parts.checked_sub(size(there))?;
        let mut copy = there.as_object()?.clone();
        for (word, value) in siblings {
            // Both rules apply, which one copy cannot express.
            if !["title", "description"].contains(&word.as_str()) {
                return None;
            }
            copy.insert(word.clone(), value.clone());
        }
        self.parts = left;
        // The copy is one level deeper, so that recursion ends.
        self.part(&Value::Object(copy), depth + 1)
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        properties: &Map<String, Value>,
        depth: usize,
        out: &mut Map<String, Value>,
    ) -> Option<()> {
        self.properties = self.properties.checked_sub(properties.len())?;
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|it| it.iter().any(|it| it == name));
        if required.into_iter().flatten().any(|it| it.as_str().is_none_or(|it| !properties.contains_key(it)))
        {
            return None;
        }
        let mut parts = Map::new();
        for (name, property) in properties {
            let mut property = self.part(property, depth + 1)?;
            if !is_required(name) {
                self.weight.optional += 1;
                if self.rules == Rules::OpenAi {
                    property = or_null(property);
                }
            }
            parts.insert(name.clone(), property);
        }
        if self.rules == Rules::OpenAi {
            out.insert("required".to_owned(), parts.keys().cloned().collect());
        }
        out.insert("properties".to_owned(), Value::Object(parts));
        out.insert("additionalProperties".to_owned(), json!(false));
        Some(())
    }
}

/// Whether a pattern has lookaround, for which OpenAI rejects the whole request.
pub(super) fn looks_around(pattern: &Value) -> bool {
    pattern.as_str().is_some_and(|it| ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| it.contains(look)))
}

/// Number of values in a copy.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|it| 1 + size(it)).sum(),
        Value::Object(fields) => fields.iter().map(|(name, it)| 1 + name.len() / OF_TEXT + size(it)).sum(),
        Value::String(text) => text.len() / OF_TEXT,
        _ => 0,
    }
}

fn is_simple(value: &Value) -> bool {
    let is_one = |it: &Value| !it.is_array() && !it.is_object();
    is_one(value) || value.as_array().is_some_and(|it| it.iter().all(is_one))
}

fn is_closed(schema: &Map<String, Value>) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
}

/// The schema, or null.
fn or_null(mut schema: Value) -> Value {
    let mut types = match &schema["type"] {
        Value::String(one) => vec![json!(one)],
        Value::Array(several) => several.clone(),
        _ => Vec::new(),
    };
    if types.iter().any(|it| it == "null") {
        return schema;
    }
    if types.is_empty() || ["enum", "const", "anyOf", "$ref"].iter().any(|it| schema.get(it).is_some()) {
        return json!({ "anyOf": [schema, { "type": "null" }] });
    }
    types.push(json!("null"));
    schema["type"] = Value::Array(types);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(schema: &Value) -> Option<Value> {
        super::strict(schema, Rules::OpenAi).map(|(schema, _)| schema)
    }

    #[test]
    fn objects_are_closed_and_optional_properties_nullable() {
        let given = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "d"},
                "line": {"type": ["integer"], "minimum": 1, "default": 1},
                "mode": {"enum": ["a", "b"]},
                "edits": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "boolean"}}}},
                "at": {"oneOf": [{"type": "string", "format": "uri"}, {"$ref": "#/$defs/p"}]},
            },
            "required": ["path", "at"],
            "$defs": {"p": {"type": "object", "additionalProperties": false}},
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "d"},
                "line": {"type": ["integer", "null"], "minimum": 1},
                "mode": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]},
                "edits": {"type": ["array", "null"], "items": {
                    "type": "object", "properties": {"a": {"type": ["boolean", "null"]}}, "required": ["a"],
                    "additionalProperties": false,
                }},
                "at": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/p"}]},
            },
            "required": ["path", "line", "mode", "edits", "at"],
            "additionalProperties": false,
            "$defs": {"p": {"type": "object", "properties": {}, "required": [], "additionalProperties": false}},
        });
        assert_eq!(strict(&given), Some(expected.clone()));
        assert_eq!(strict(&expected), Some(expected), "a strict schema does not change");
    }

    #[test]
    fn references_with_siblings_become_copies() {
        let with = |property: Value| {
            strict(&json!({
                "type": "object",
                "properties": {"at": property},
                "required": ["at"],
                "$defs": {
                    "p": {"type": "object", "description": "Any.", "properties": {"l": {"type": "integer"}}},
                },
            }))
        };
        let at = |property: Value| with(property).map(|it| it["properties"]["at"].clone());
        assert_eq!(at(json!({"$ref": "#/$defs/p", "default": {}})), Some(json!({"$ref": "#/$defs/p"})));
        let copy = json!({
            "type": "object",
            "description": "Where.",
            "properties": {"l": {"type": ["integer", "null"]}},
            "required": ["l"],
            "additionalProperties": false,
        });
        assert_eq!(at(json!({"$ref": "#/$defs/p", "description": "Where."})), Some(copy));
        assert_eq!(at(json!({"$ref": "#/$defs/p", "minProperties": 1})), None);
        assert_eq!(at(json!({"$ref": "#/$defs/gone", "title": "t"})), None);
        let endless = json!({"anyOf": [{"type": "null"}, {"$ref": "#/properties/a", "title": "t"}]});
        assert_eq!(strict(&json!({"type": "object", "properties": {"a": endless}})), None);
    }

    #[test]
    fn recursive_definitions_terminate() {
        let named: Vec<Value> = (0..30).map(|_| json!({"$ref": "#/$defs/p", "title": "t"})).collect();
        let schema = json!({
            "type": "object",
            "properties": {"a": {"anyOf": [{"$ref": "#/$defs/p"}]}},
            "$defs": {"p": {"anyOf": named}, "q": {"type": "string", "description": "long ".repeat(200_000)}},
        });
        for rules in [Rules::OpenAi, Rules::Claude] {
            let mut said = Said {
                root: &schema,
                rules,
                properties: PROPERTIES,
                parts: PARTS,
                weight: Weight::default(),
            };
            assert_eq!(said.part(&schema, 0), None);
        }
        assert_eq!(
            strict(&json!({
                "type": "object",
                "properties": {"a": {"type": "string", "description": "long ".repeat(200_000)}},
            })),
            None
        );
    }

    #[test]
    fn a_pattern_with_lookaround_is_dropped() {
        let with = |pattern: &str| json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}});
        for (pattern, is_kept) in [
            ("^(?!\\.)a$", false),
            ("a(?=b)", false),
            ("(?<=a)b", false),
            ("(?<!a)b", false),
            ("^(?<name>a)(?:b)$", true),
        ] {
            let said = strict(&with(pattern)).unwrap();
            assert_eq!(said["properties"]["a"].get("pattern").is_some(), is_kept, "{pattern}");
        }
    }

    #[test]
    fn unsupported_schemas_are_not_constrained() {
        let deep = (0..=DEEPEST).fold(
            json!({"type": "string"}),
            |inner, _| json!({"type": "object", "properties": {"a": inner}, "required": ["a"]}),
        );
        let many: Map<String, Value> =
            (0..=PROPERTIES).map(|at| (at.to_string(), json!({"type": "string"}))).collect();
        let with = |property: Value| json!({"type": "object", "properties": {"a": property}});
        for schema in [
            deep,
            json!({"type": "object", "properties": many}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}, "additionalProperties": true}),
            json!({"type": "object", "properties": {}, "required": ["gone"]}),
            json!({"type": "string"}),
            with(json!({})),
            with(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            with(json!({"type": "array"})),
            with(json!({"type": "array", "items": {}})),
            with(json!({"allOf": [{"type": "string"}]})),
            with(json!({"not": {"type": "string"}})),
            with(json!({"type": "object", "patternProperties": {"a": {"type": "string"}}})),
        ] {
            assert_eq!(strict(&schema), None, "{schema}");
        }
    }

    #[test]
    fn optional_properties_stay_optional_for_claude() {
        let convert = |schema: &Value| super::strict(schema, Rules::Claude);
        let given = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "pattern": "^/", "description": "d"},
                "line": {"type": ["integer", "null"], "minimum": 1},
                "at": {"$ref": "#/$defs/p", "description": "Where."},
                "kinds": {"type": "array", "minItems": 2, "items": {"enum": ["a", 1]}},
            },
            "required": ["path"],
            "$defs": {"p": {"type": "object", "properties": {"l": {"anyOf": [{"type": "null"}, {"type": "string"}]}}}},
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "d"},
                "line": {"type": ["integer", "null"]},
                "at": {
                    "type": "object", "description": "Where.", "additionalProperties": false,
                    "properties": {"l": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
                },
                "kinds": {"type": "array", "items": {"enum": ["a", 1]}},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        let weight = Weight { tools: 1, optional: 4, unions: 2 };
        assert_eq!(convert(&given), Some((expected.clone(), weight)));
        assert_eq!(convert(&expected), Some((expected, weight)), "a strict schema does not change");
        let endless = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
        assert_eq!(convert(&endless), None);
        assert_eq!(convert(&json!({"type": "object", "properties": {"a": {"enum": [{}]}}})), None);
    }

    #[test]
    fn constraints_stay_within_claudes_limits() {
        let mut endpoint = Endpoint::new("p", "http://x", "m");
        let tool = |optional: usize| {
            let properties: Map<String, Value> =
                (0..optional).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
            json!({"type": "object", "properties": properties})
        };
        let held = |endpoint: &Endpoint, rules, tools: &[usize]| {
            let mut strict = Strict::new(endpoint, rules);
            tools.iter().map(|optional| strict.next(&tool(*optional)).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(held(&endpoint, Rules::Claude, &[0]), [false]);
        endpoint.compat.strict_tools = true;
        // A tool beyond the limit leaves room for later ones.
        assert_eq!(held(&endpoint, Rules::Claude, &[20, 5, 4, 1, 0]), [true, false, true, false, true]);
        assert_eq!(held(&endpoint, Rules::OpenAi, &[20, 5, 4, 1, 0]), [true; 5]);
        assert_eq!(held(&endpoint, Rules::Claude, &[0; 21]).iter().filter(|it| **it).count(), 20);
    }
}
