//! Several places in one call: `symbols` and `files`.
//!
//! Questions are asked for each and answered one below the other; what failed for one says nothing
//! about the others. Edits of several files are one edit.

use agent::{ToolCx, ToolResult};
use serde_json::{Value, json};
use workspace::ErrorCode;

use super::{Arguments, one};
use crate::{Failure, Kit};

/// At most this many places in one call.
const MOST: usize = 20;

/// Whether the arguments name several places.
pub(super) fn is_many(args: &Arguments) -> bool {
    args.symbols.is_some() || args.files.is_some()
}

/// Runs an action for each place.
pub(super) async fn run(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let places = places(args)?;
    match args.action.as_str() {
        // These take several by themselves.
        "organize_imports" | "format" | "fix_all" | "diagnostics" => return one(kit, args, cx).await,
        "rename" | "rename_file" | "move_symbol" | "code_actions" | "request" | "reload" | "status"
        | "logs" => {
            return Err(Failure::new(
                ErrorCode::InvalidArguments,
                format!("`{}` takes one place in a call: `file` and `symbol`", args.action),
            ));
        }
        _ => {}
    }
    let (mut text, mut answers) = (String::new(), Vec::new());
    let (mut asked, mut first) = (0, None);
    let all = kit.request(&cx.cancel, args.timeout);
    for mut place in places {
        asked += 1;
        let named = named(&place);
        let left = all.left();
        let answer = if left.is_zero() {
            let message =
                format!("the {} s of this call were over before it was asked", all.deadline.as_secs());
            Err(Failure::new(ErrorCode::Timeout, message))
        } else {
            place.timeout = Some(left.as_secs() + u64::from(left.subsec_nanos() > 0));
            one(kit, &place, cx).await
        };
        match answer {
            Ok(result) => {
                for content in &result.content {
                    if let llm::Content::Text { text: said, .. } = content {
                        text.push_str(&format!("{}\n", said.trim_end()));
                    }
                }
                answers.push(json!({ "place": named, "details": result.details }));
            }
            Err(failure) if failure.code == ErrorCode::Cancelled => return Err(failure),
            Err(failure) => {
                text.push_str(&format!("{named}: {} ({})\n", failure.message, failure.code));
                answers.push(json!({
                    "place": named,
                    "error": { "code": failure.code, "message": failure.message, "data": failure.data },
                }));
                first = first.or(Some(failure));
            }
        }
    }
    let failed = answers.iter().filter(|answer| answer.get("error").is_some()).count();
    match first {
        Some(failure) if failed == asked => Err(Failure { message: text, ..failure }),
        _ => Ok(ToolResult::text(text).with_details(json!({ "answers": answers }))),
    }
}

/// Each place as the arguments of a call of its own; `symbols` in each of `files`.
fn places(args: &Arguments) -> Result<Vec<Arguments>, Failure> {
    let files = args.files.clone().unwrap_or_default().into_iter().map(Some).collect::<Vec<_>>();
    let symbols = args.symbols.clone().unwrap_or_default().into_iter().map(Some).collect::<Vec<_>>();
    let files = if files.is_empty() { vec![args.file.clone()] } else { files };
    let symbols = if symbols.is_empty() { vec![args.symbol.clone()] } else { symbols };
    let places: Vec<Arguments> = files
        .iter()
        .flat_map(|file| symbols.iter().map(move |symbol| (file.clone(), symbol.clone())))
        .map(|(file, symbol)| Arguments { file, symbol, files: None, symbols: None, ..args.clone() })
        .collect();
    if places.len() > MOST {
        let message = format!("{} places are too many for one call; {MOST} at most", places.len());
        return Err(Failure::new(ErrorCode::TooLarge, message));
    }
    Ok(places)
}

fn named(place: &Arguments) -> String {
    let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
    match (&place.symbol, &place.file) {
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
    fn each_symbol_in_each_file() {
        let list = |items: &[&str]| Some(items.iter().map(|item| (*item).to_owned()).collect());
        let args = |files, symbols| Arguments { files, symbols, ..Arguments::default() };
        let named = |args| places(&args).map(|it| it.iter().map(named).collect::<Vec<_>>()).unwrap();
        assert_eq!(named(args(None, list(&["a", "b"]))), ["`a`", "`b`"]);
        assert_eq!(named(args(list(&["x"]), list(&["a", "b"]))), ["`a` in x", "`b` in x"]);
        assert_eq!(named(args(list(&["x", "y"]), None)), ["x", "y"]);
        let many: Vec<String> = (0..21).map(|number| number.to_string()).collect();
        assert_eq!(places(&args(None, Some(many))).unwrap_err().code, ErrorCode::TooLarge);
    }
}
