//! Arguments of a function call that Vertex AI streams by their JSON paths.
//!
//! The module is pure. A path is in the form of RFC 9535, with names and indices only.

use serde_json::{Map, Value, json};

/// The arguments so far.
#[derive(Debug, Default)]
pub(super) struct PartialArguments(Map<String, Value>);

enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

impl PartialArguments {
    /// Adds whole arguments.
    pub fn extend(&mut self, arguments: &Map<String, Value>) {
        self.0.extend(arguments.clone());
    }

    /// Adds one piece; a string continues the one before at its path.
    ///
    /// `None` if the path cannot be followed.
    pub fn push(&mut self, piece: &Value) -> Option<()> {
        let steps = steps(piece["jsonPath"].as_str()?)?;
        let (first, rest) = steps.split_first()?;
        let Step::Name(name) = first else { return None };
        let mut place = self.0.entry(*name).or_insert(Value::Null);
        for step in rest {
            place = match step {
                Step::Name(name) => {
                    if place.is_null() {
                        *place = json!({});
                    }
                    place.as_object_mut()?.entry(*name).or_insert(Value::Null)
                }
                Step::Index(index) => {
                    if place.is_null() {
                        *place = json!([]);
                    }
                    let list = place.as_array_mut()?;
                    if *index == list.len() {
                        list.push(Value::Null);
                    }
                    list.get_mut(*index)?
                }
            };
        }
        if let Some(text) = piece["stringValue"].as_str() {
            match place {
                Value::String(known) => known.push_str(text),
                place => *place = json!(text),
            }
        } else if let Some(number) = piece["numberValue"].as_f64() {
            // Every number is a double; tools take whole ones as integers.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            #[expect(clippy::cast_possible_truncation, reason = "the number is whole and exact")]
            let whole = (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64);
            *place = whole.map_or_else(|| json!(number), |whole| json!(whole));
        } else if let Some(flag) = piece["boolValue"].as_bool() {
            *place = json!(flag);
        }
        Some(())
    }

    /// The JSON text; empty without arguments.
    pub fn text(self) -> String {
        if self.0.is_empty() { String::new() } else { Value::Object(self.0).to_string() }
    }
}

/// The steps of a path such as `$.a.b[0]` or `$['a b']`.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if matches!(&name[..end], "" | "*") {
                return None;
            }
            steps.push(Step::Name(&name[..end]));
            rest = &name[end..];
        } else if let Some(quoted) = rest.strip_prefix("['").or_else(|| rest.strip_prefix("[\"")) {
            let quote = &rest[1..2];
            let (name, after) = quoted.split_once(&format!("{quote}]"))?;
            if name.contains('\\') {
                return None;
            }
            steps.push(Step::Name(name));
            rest = after;
        } else {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(Step::Index(index.parse().ok()?));
            rest = after;
        }
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_at_their_paths() {
        let mut arguments = PartialArguments::default();
        for (path, value) in [
            ("$.path", json!({"stringValue": "src/"})),
            ("$.path", json!({"stringValue": "a.rs"})),
            ("$.edits[0].line", json!({"numberValue": 3.0})),
            ("$.edits[0].ratio", json!({"numberValue": 0.5})),
            ("$.edits[1]['new text']", json!({"stringValue": "x"})),
            ("$[\"all\"]", json!({"boolValue": true})),
            ("$.none", json!({"nullValue": "NULL_VALUE"})),
        ] {
            let mut piece = value;
            piece["jsonPath"] = json!(path);
            arguments.push(&piece).unwrap_or_else(|| panic!("{path}"));
        }
        for path in
            ["", "path", "$", "$..a", "$.*", "$[0]", "$.edits[9]", "$.path.deeper", "$.edits[x]", "$['a"]
        {
            assert!(arguments.push(&json!({"jsonPath": path, "stringValue": "x"})).is_none(), "{path}");
        }
        let text = arguments.text();
        expect_test::expect![[
            r#"{"path":"src/a.rs","edits":[{"line":3,"ratio":0.5},{"new text":"x"}],"all":true,"none":null}"#
        ]]
        .assert_eq(&text);
    }
}
