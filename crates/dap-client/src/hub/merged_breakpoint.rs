//! Two breakpoints on one place as one, where they go together.
//!
//! Pure.

use serde_json::{Value, json};

/// What of a breakpoint must agree on one place, besides the condition.
const KIND: [&str; 3] = ["hitCondition", "logMessage", "mode"];

/// What must agree, with the condition.
pub fn kind(value: &Value) -> [&Value; 4] {
    [&value[KIND[0]], &value[KIND[1]], &value[KIND[2]], &value["condition"]]
}

/// Makes `first` stop where `second` wants it too; what stands in the way, where it cannot.
pub fn join(first: &mut Value, second: &Value, or: Option<&str>) -> Result<(), &'static str> {
    if KIND.iter().any(|name| first[*name] != second[*name]) {
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
        (Some(one), Some(two)) => match or.filter(|_| is_plain(&one) && is_plain(&two)) {
            Some(or) => {
                first["condition"] = json!(format!("({one}) {or} ({two})"));
                Ok(())
            }
            None => Err("a breakpoint with another condition"),
        },
        // One of them stops always.
        _ => {
            if let Some(members) = first.as_object_mut() {
                members.remove("condition");
            }
            Ok(())
        }
    }
}

/// Whether an expression means the same in parentheses: closed brackets and quotes, nothing that ends it.
fn is_plain(text: &str) -> bool {
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
    // CodeLLDB reads `/nat` and the like at the beginning.
    open.is_empty() && !text.contains("//") && !text.contains("/*") && !text.trim_start().starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_what_stays_whole_in_parentheses_is_joined() {
        for plain in ["a", "f(x)[1] == 'a)'", "x > \"#\""] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in ["a)", "(a", "a; b", "a # b", "'a", "a // b", "/nat a"] {
            assert!(!is_plain(other), "{other}");
        }
    }
}
