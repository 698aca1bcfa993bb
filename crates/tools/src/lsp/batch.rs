//! Several places in one call: `symbols` and `files`.
//!
//! The answer has one part for each place; the failure of one does not affect the others. Edits of several
//! files are one edit.

use agent::{ToolCx, ToolResult};
use policy::ErrorCode;
use serde_json::{Value, json};

use super::action::{self, Takes};
use super::run_action;
use crate::{Failure, ToolContext};

/// Maximum number of places in one call.
const MAX_PLACES: usize = 20;

/// Whether the arguments name several places.
pub(super) fn has_several(args: &Value) -> bool {
    ["symbols", "files"].iter().any(|list| !args[*list].is_null())
}

/// Runs an action for each place.
pub(super) async fn run(context: &ToolContext, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let (spec, _) = action::spec(&args)?;
    match spec.takes {
        Takes::Together => return run_action(context, args, cx).await,
        Takes::One => {
            let message = format!("`{}` takes one place in a call: `file` and `symbol`", spec.name);
            return Err(Failure::new(ErrorCode::InvalidArguments, message));
        }
        Takes::Each => {}
    }
    let places = places(&args)?;
    let (mut text, mut answers) = (String::new(), Vec::new());
    let (count, mut first) = (places.len(), None);
    let all = context.request(&cx.cancel, args["timeout"].as_u64());
    for mut place in places {
        let name = name(&place);
        let left = all.left();
        let answer = if left.is_zero() {
            let message = format!("the {} s of this call ran out before its request", all.deadline.as_secs());
            Err(Failure::new(ErrorCode::Timeout, message))
        } else {
            place["timeout"] = json!(left.as_secs() + u64::from(left.subsec_nanos() > 0));
            run_action(context, place, cx).await
        };
        match answer {
            Ok(result) => {
                for content in &result.content {
                    if let llm::Content::Text { text: answer, .. } = content {
                        text.push_str(&format!("{}\n", answer.trim_end()));
                    }
                }
                answers.push(json!({ "place": name, "details": result.details }));
            }
            Err(failure) if failure.code == ErrorCode::Cancelled => return Err(failure),
            Err(failure) => {
                text.push_str(&format!("{name}: {} ({})\n", failure.message, failure.code));
                answers.push(json!({
                    "place": name,
                    "error": { "code": failure.code, "message": failure.message, "data": failure.data },
                }));
                first = first.or(Some(failure));
            }
        }
    }
    let failed = answers.iter().filter(|answer| answer.get("error").is_some()).count();
    match first {
        Some(failure) if failed == count => Err(Failure { message: text, ..failure }),
        _ => Ok(ToolResult::text(text).with_details(json!({ "answers": answers }))),
    }
}

/// Splits a call into one call for each place.
///
/// With `symbols` and `files`, searches each symbol in each file.
fn places(args: &Value) -> Result<Vec<Value>, Failure> {
    let list = |several: &str, one: &str| match args[several].as_array() {
        Some(list) if !list.is_empty() => list.clone(),
        _ => vec![args[one].clone()],
    };
    let (files, symbols) = (list("files", "file"), list("symbols", "symbol"));
    let count = files.len() * symbols.len();
    if count > MAX_PLACES {
        let message = format!("{count} places are too many for one call; {MAX_PLACES} at most");
        return Err(Failure::new(ErrorCode::TooLarge, message));
    }
    let place = |file: &Value, symbol: &Value| {
        let mut place = args.clone();
        if let Value::Object(place) = &mut place {
            place.remove("files");
            place.remove("symbols");
            place.insert("file".to_owned(), file.clone());
            place.insert("symbol".to_owned(), symbol.clone());
        }
        place
    };
    Ok(files.iter().flat_map(|file| symbols.iter().map(move |symbol| place(file, symbol))).collect())
}

/// Names a place in the answer.
fn name(place: &Value) -> String {
    let line = place["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
    match (place["symbol"].as_str(), place["file"].as_str()) {
        (Some(symbol), Some(file)) => format!("`{symbol}` in {file}{line}"),
        (Some(symbol), None) => format!("`{symbol}`"),
        (None, Some(file)) => format!("{file}{line}"),
        (None, None) => Value::Null.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_symbol_is_looked_up_in_each_file() {
        let names = |args: Value| places(&args).map(|it| it.iter().map(name).collect::<Vec<_>>()).unwrap();
        assert_eq!(names(json!({ "symbols": ["a", "b"] })), ["`a`", "`b`"]);
        assert_eq!(names(json!({ "files": ["x"], "symbols": ["a", "b"] })), ["`a` in x", "`b` in x"]);
        assert_eq!(names(json!({ "files": ["x", "y"] })), ["x", "y"]);
        let many: Vec<String> = (0..21).map(|number| number.to_string()).collect();
        assert_eq!(places(&json!({ "symbols": many })).unwrap_err().code, ErrorCode::TooLarge);
    }
}
