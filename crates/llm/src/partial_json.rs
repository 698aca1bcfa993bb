//! Parser of tool call arguments, while they stream and when they are complete.
//!
//! [`PartialJson`] takes text in any pieces and shows the value at any moment. [`parse_arguments`] parses the
//! complete text once, strictly apart from two repairs; its result is authoritative.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::surrogates;

/// A JSON text that is still arriving.
#[derive(Debug, Clone, Default)]
pub struct PartialJson {
    text: String,
}

impl PartialJson {
    /// Adds the next piece.
    pub fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// The value so far.
    ///
    /// Unfinished strings are included; members without a value, unfinished numbers and words are not. `None`
    /// if no value has begun. The time is linear in the size of the text.
    pub fn value(&self) -> Option<Value> {
        let bytes = self.text.as_bytes();
        // The brackets to close, and the last place at which closing them gives JSON.
        let (mut open, mut end) = (Vec::new(), None);
        let (mut at, mut in_key, mut quote) = (0, false, "");
        while at < bytes.len() && !(open.is_empty() && end.is_some()) {
            let byte = bytes[at];
            at += 1;
            match byte {
                b'{' | b'[' => {
                    in_key = byte == b'{';
                    open.push(if in_key { '}' } else { ']' });
                    end = Some(at);
                }
                b'}' | b']' => {
                    open.pop();
                    in_key = false;
                    end = Some(at);
                }
                b':' => in_key = false,
                b',' => in_key = open.last() == Some(&'}'),
                b'"' => {
                    let (after, is_closed) = string_end(bytes, at);
                    if !in_key {
                        (end, quote) = (Some(after), if is_closed { "" } else { "\"" });
                    }
                    if !is_closed {
                        break;
                    }
                    at = after;
                }
                _ if byte.is_ascii_whitespace() => {}
                _ => {
                    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",}]".contains(byte);
                    let Some(length) = bytes[at..].iter().position(is_end) else { break };
                    let word = serde_json::from_slice::<Value>(&bytes[at - 1..at + length]);
                    if word.is_err() {
                        break;
                    }
                    at += length;
                    end = Some(at);
                }
            }
        }
        let mut whole = self.text[..end?].to_owned() + quote;
        whole.extend(open.iter().rev());
        parse_repaired(&whole).ok()
    }
}

/// The place after the string that begins at `at`, and whether it is closed.
///
/// An unclosed string ends before an incomplete escape.
fn string_end(bytes: &[u8], mut at: usize) -> (usize, bool) {
    while let Some(byte) = bytes.get(at) {
        let length = match byte {
            b'"' => return (at + 1, true),
            b'\\' if bytes.get(at + 1) == Some(&b'u') => 6,
            b'\\' => 2,
            _ => 1,
        };
        if at + length > bytes.len() {
            break;
        }
        at += length;
    }
    (at, false)
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

/// Parses like [`parse_repaired`], but keeps half a surrogate pair at an edge.
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
