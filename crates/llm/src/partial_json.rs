//! Parser of tool call arguments, while they stream and when they are complete.
//!
//! [`PartialJson`] takes text in any pieces and builds the value in linear time, for display at any
//! moment. It never fails: after the first character that is not JSON, it adds nothing more.
//! [`parse_arguments`] parses the complete text once, strictly apart from two repairs; its result
//! is authoritative.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::surrogates;

/// Maximum depth; the strict parser rejects deeper values as well.
const MAX_DEPTH: usize = 128;

/// A JSON text that is still arriving.
#[derive(Debug, Clone, Default)]
pub struct PartialJson {
    open: Vec<Frame>,
    token: Token,
    root: Option<Value>,
}

#[derive(Debug, Clone)]
enum Frame {
    Object { members: Map<String, Value>, key: Option<String>, expects: Expects },
    Array { items: Vec<Value> },
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum Expects {
    Key,
    Colon,
    Value,
    Comma,
}

#[derive(Debug, Clone, Default)]
enum Token {
    #[default]
    None,
    Text {
        text: String,
        escape: Escape,
        high: Option<u16>,
    },
    /// A number, `true`, `false` or `null`, which is complete at the next character.
    Word(String),
    Broken,
}

#[derive(Debug, Clone, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    Unicode(String),
}

impl PartialJson {
    /// Adds the next piece.
    pub fn push(&mut self, piece: &str) {
        for character in piece.chars() {
            self.step(character);
        }
    }

    /// The value so far.
    ///
    /// Unfinished strings are included; members without a value, unfinished numbers and words are not. `None`
    /// if no value has begun. Linear in the size of the value.
    pub fn value(&self) -> Option<Value> {
        let mut inner = match &self.token {
            Token::Text { text, .. } if !self.in_key() => Some(Value::String(text.clone())),
            _ => None,
        };
        for frame in self.open.iter().rev() {
            inner = Some(match frame {
                Frame::Object { members, key, .. } => {
                    let mut members = members.clone();
                    if let (Some(key), Some(value)) = (key, inner) {
                        members.insert(key.clone(), value);
                    }
                    Value::Object(members)
                }
                Frame::Array { items } => {
                    let mut items = items.clone();
                    items.extend(inner);
                    Value::Array(items)
                }
            });
        }
        inner.or_else(|| self.root.clone())
    }

    fn in_key(&self) -> bool {
        matches!(self.open.last(), Some(Frame::Object { expects: Expects::Key, .. }))
    }

    fn step(&mut self, character: char) {
        match &mut self.token {
            Token::Broken => {}
            Token::Text { text, escape, high } => match escape {
                Escape::None => match character {
                    '"' => {
                        let text = std::mem::take(text);
                        self.token = Token::None;
                        self.text_done(text);
                    }
                    '\\' => *escape = Escape::Backslash,
                    _ => text.push(character),
                },
                Escape::Backslash => {
                    let plain = match character {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'u' => {
                            *escape = Escape::Unicode(String::new());
                            return;
                        }
                        other => other,
                    };
                    text.push(plain);
                    *escape = Escape::None;
                }
                Escape::Unicode(digits) => {
                    digits.push(character);
                    if digits.len() < 4 {
                        return;
                    }
                    let unit = u16::from_str_radix(digits, 16).unwrap_or(0xfffd);
                    *escape = Escape::None;
                    let units: Vec<u16> = high.take().into_iter().chain([unit]).collect();
                    if units.len() == 1 && (0xd800..0xdc00).contains(&unit) {
                        *high = Some(unit);
                    } else {
                        text.push_str(&String::from_utf16_lossy(&units));
                    }
                }
            },
            Token::Word(word) => {
                if character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.') {
                    word.push(character);
                } else {
                    let word = std::mem::take(word);
                    self.token = Token::None;
                    match serde_json::from_str(&word) {
                        Ok(value) => {
                            self.value_done(value);
                            self.step(character);
                        }
                        Err(_) => self.token = Token::Broken,
                    }
                }
            }
            Token::None => self.between(character),
        }
    }

    fn between(&mut self, character: char) {
        if character.is_ascii_whitespace() {
            return;
        }
        let expects = match self.open.last() {
            None if self.root.is_some() => return self.token = Token::Broken,
            None | Some(Frame::Array { .. }) => Expects::Value,
            Some(Frame::Object { expects, .. }) => *expects,
        };
        match (character, expects) {
            ('{' | '[', Expects::Value) if self.open.len() >= MAX_DEPTH => self.token = Token::Broken,
            ('{', Expects::Value) => {
                self.open.push(Frame::Object { members: Map::new(), key: None, expects: Expects::Key });
            }
            ('[', Expects::Value) => self.open.push(Frame::Array { items: Vec::new() }),
            ('"', Expects::Value | Expects::Key) => {
                self.token = Token::Text { text: String::new(), escape: Escape::None, high: None };
            }
            (':', Expects::Colon) => self.expect(Expects::Value),
            (',', Expects::Comma) => self.expect(Expects::Key),
            ('}', Expects::Key | Expects::Comma) | (']', Expects::Value) => match self.open.pop() {
                Some(Frame::Object { members, .. }) if character == '}' => {
                    self.value_done(Value::Object(members));
                }
                Some(Frame::Array { items }) if character == ']' => self.value_done(Value::Array(items)),
                _ => self.token = Token::Broken,
            },
            (',', Expects::Value) if matches!(self.open.last(), Some(Frame::Array { .. })) => {}
            ('-' | '0'..='9' | 't' | 'f' | 'n', Expects::Value) => {
                self.token = Token::Word(character.to_string());
            }
            _ => self.token = Token::Broken,
        }
    }

    fn expect(&mut self, next: Expects) {
        if let Some(Frame::Object { expects, .. }) = self.open.last_mut() {
            *expects = next;
        }
    }

    fn text_done(&mut self, text: String) {
        match self.open.last_mut() {
            Some(Frame::Object { key, expects, .. }) if *expects == Expects::Key => {
                *key = Some(text);
                *expects = Expects::Colon;
            }
            _ => self.value_done(Value::String(text)),
        }
    }

    fn value_done(&mut self, value: Value) {
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some(Frame::Array { items }) => items.push(value),
            Some(Frame::Object { members, key, expects }) => {
                if let Some(key) = key.take() {
                    members.insert(key, value);
                }
                *expects = Expects::Comma;
            }
        }
    }
}

/// Parses the complete arguments of a call.
///
/// White space alone is an empty object. If strict parsing fails, the parser repairs raw control
/// characters, invalid escapes and lone surrogates in strings. `Err` is written for the model.
pub(crate) fn parse_arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match parse_repaired(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(other) => Err(format!("the arguments must be a JSON object, not {}", kind(&other))),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}

/// Parses JSON, with repaired strings if that fails; returns the first error.
pub(crate) fn parse_repaired(text: &str) -> Result<Value, serde_json::Error> {
    parse(text, false)
}

/// [`parse_repaired`] that keeps half a surrogate pair at the edge of a string.
///
/// See [`crate::surrogates`].
pub(crate) fn parse_piece(text: &str) -> Result<Value, serde_json::Error> {
    parse(text, true)
}

fn parse(text: &str, marks: bool) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match repair_strings(text, marks) {
        Cow::Owned(repaired) => serde_json::from_str(&repaired).map_err(|_| error),
        Cow::Borrowed(_) => Err(error),
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn repair_strings(text: &str, marks: bool) -> Cow<'_, str> {
    let mut out = String::with_capacity(text.len() + 8);
    let mut changed = false;
    let mut in_string = false;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        if !in_string {
            in_string = character == '"';
            out.push(character);
            rest = after;
            continue;
        }
        match character {
            '"' => {
                in_string = false;
                out.push('"');
                rest = after;
            }
            '\\' => rest = repair_escape(after, &mut out, &mut changed, marks),
            control if control < ' ' => {
                changed = true;
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
                rest = after;
            }
            other => {
                out.push(other);
                rest = after;
            }
        }
    }
    if changed { Cow::Owned(out) } else { Cow::Borrowed(text) }
}

/// Copies or repairs the escape after its backslash; returns the rest.
fn repair_escape<'a>(after: &'a str, out: &mut String, changed: &mut bool, marks: bool) -> &'a str {
    let hex = |text: &str| {
        let digits = text.strip_prefix('u')?.get(..4)?;
        u16::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|it| it.is_ascii_hexdigit()))
    };
    match after.chars().next() {
        Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => {
            out.push('\\');
            out.push_str(&after[..1]);
            &after[1..]
        }
        Some('u') if let Some(unit) = hex(after) => {
            let low = after[5..].strip_prefix('\\').and_then(hex).filter(|it| (0xdc00..0xe000).contains(it));
            match (unit, low) {
                (0xd800..0xdc00, Some(_)) => {
                    out.push('\\');
                    out.push_str(&after[..11]);
                    &after[11..]
                }
                (0xd800..0xe000, _) => {
                    *changed = true;
                    let at_edge =
                        if unit < 0xdc00 { after[5..].starts_with('"') } else { out.ends_with('"') };
                    out.push_str(&if marks && at_edge {
                        surrogates::placeholder(unit)
                    } else {
                        "\\ufffd".to_owned()
                    });
                    &after[5..]
                }
                _ => {
                    out.push('\\');
                    out.push_str(&after[..5]);
                    &after[5..]
                }
            }
        }
        _ => {
            *changed = true;
            out.push_str("\\\\");
            after
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check_partial(text: &str, expected: Option<Value>) {
        let mut whole = PartialJson::default();
        whole.push(text);
        assert_eq!(whole.value(), expected, "{text}");
        let mut split = PartialJson::default();
        for character in text.chars() {
            split.push(character.encode_utf8(&mut [0; 4]));
            split.value();
        }
        assert_eq!(split.value(), expected, "{text}, a character at a time");
    }

    #[test]
    fn partial_values_are_visible() {
        check_partial("", None);
        check_partial("{", Some(json!({})));
        check_partial("{\"pa", Some(json!({})));
        check_partial("{\"path\":", Some(json!({})));
        check_partial("{\"path\": \"src/m", Some(json!({"path": "src/m"})));
        check_partial("{\"path\": \"a\\", Some(json!({"path": "a"})));
        check_partial("{\"path\": \"a\\u00e", Some(json!({"path": "a"})));
        check_partial("{\"path\": \"\\ud83d\\ude00!", Some(json!({"path": "😀!"})));
        check_partial("{\"n\": 12", Some(json!({})));
        check_partial("{\"n\": 12, \"l\": [1, {\"x\": \"y", Some(json!({"n": 12, "l": [1, {"x": "y"}]})));
        check_partial("{\"n\": [[], {}, true, null]}", Some(json!({"n": [[], {}, true, null]})));
        check_partial("{\"a\": 1} trailing", Some(json!({"a": 1})));
        check_partial("{\"a\": 1, oops", Some(json!({"a": 1})));
    }

    #[test]
    fn complete_arguments_are_parsed_with_two_repairs() {
        #[track_caller]
        fn check(text: &str, expected: Value) {
            assert_eq!(parse_arguments(text).map(Value::Object), Ok(expected), "{text}");
        }
        check("", json!({}));
        check("  \n", json!({}));
        check("{\"a\": \"b\"}", json!({"a": "b"}));
        check("{\"a\": \"line\nbreak\ttab\"}", json!({"a": "line\nbreak\ttab"}));
        check(r#"{"a": "\d+\.py"}"#, json!({"a": r"\d+\.py"}));
        check(r#"{"a": "\ud83d x \ud83d\ude00"}"#, json!({"a": "\u{fffd} x 😀"}));
        check(r#"{"a": "C:\users"}"#, json!({"a": r"C:\users"}));
    }

    #[test]
    fn arguments_other_than_an_object_are_an_error() {
        for (text, part) in [
            ("{\"command\": }", "not valid JSON"),
            ("{\"a\": \"cut", "not valid JSON"),
            ("[1]", "an array"),
            ("\"x\"", "a string"),
        ] {
            let error = parse_arguments(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_long_text_in_small_pieces_is_linear() {
        let body = "x".repeat(2_000_000);
        let mut partial = PartialJson::default();
        partial.push("{\"content\": \"");
        for piece in body.as_bytes().chunks(16) {
            partial.push(std::str::from_utf8(piece).unwrap());
        }
        partial.push("\"}");
        assert_eq!(partial.value(), Some(json!({"content": body})));
    }
}
