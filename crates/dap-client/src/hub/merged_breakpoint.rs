//! Merging of two breakpoints on one line.
//!
//! Pure.

use serde_json::{Value, json};

/// Members besides the condition that must agree.
const MEMBERS: [&str; 3] = ["hitCondition", "logMessage", "mode"];

/// The members that must agree, and the condition.
pub(crate) fn compared_members(value: &Value) -> [&Value; 4] {
    [&value[MEMBERS[0]], &value[MEMBERS[1]], &value[MEMBERS[2]], &value["condition"]]
}

/// Merges `second` into `first`, so that it stops for both.
///
/// On a conflict, returns a description of `first`.
pub(crate) fn merge_into(first: &mut Value, second: &Value, or: Option<&str>) -> Result<(), &'static str> {
    if MEMBERS.iter().any(|name| first[*name] != second[*name]) {
        return Err(if first["logMessage"].is_string() {
            "a log point"
        } else if first["hitCondition"].is_string() {
            "a breakpoint that counts hits"
        } else {
            "another breakpoint"
        });
    }
    let condition =
        |value: &Value| value["condition"].as_str().filter(|it| !it.trim().is_empty()).map(str::to_owned);
    match (condition(first), condition(second)) {
        (Some(one), Some(two)) if one == two => Ok(()),
        (Some(one), Some(two)) => match or.filter(|_| is_complete(&one) && is_complete(&two)) {
            Some(or) => {
                first["condition"] = json!(format!("({one}) {or} ({two})"));
                Ok(())
            }
            None => Err("a breakpoint with another condition"),
        },
        // One of them has no condition and always stops.
        _ => {
            if let Some(members) = first.as_object_mut() {
                members.remove("condition");
            }
            Ok(())
        }
    }
}

/// Whether an expression can be put in parentheses.
///
/// Its brackets and quotes are balanced, and it has no comment or separator.
fn is_complete(text: &str) -> bool {
    let mut open = Vec::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(character) => return false,
            '"' | '\'' => loop {
                match characters.next() {
                    None | Some('\n') => return false,
                    Some('\\') => drop(characters.next()),
                    Some(end) if end == character => break,
                    Some(_) => {}
                }
            },
            ';' | '#' | '\n' | '\r' | '`' => return false,
            _ => {}
        }
    }
    // CodeLLDB reads a leading `/nat` as a format.
    open.is_empty() && !text.contains("//") && !text.contains("/*") && !text.trim_start().starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn only_complete_expressions_are_combined() {
        for plain in ["a", "f(x)[1] == 'a)'", "x > \"#\""] {
            assert!(is_complete(plain), "{plain}");
        }
        for other in ["a)", "(a", "a; b", "a # b", "'a", "a // b", "/nat a"] {
            assert!(!is_complete(other), "{other}");
        }
    }
}
