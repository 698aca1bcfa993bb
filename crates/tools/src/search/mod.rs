//! The search tools `grep`, `find` and `ls`, with their common scope, time limits and rendering of paths, and
//! the place that a symbol's name means.

mod find;
mod grep;
mod ls;
mod page;
pub(crate) mod remap;
mod share;
mod symbols;
pub(crate) mod target;
mod text_search;

use std::sync::Arc;
use std::time::Duration;

use agent::ToolCx;
use paths::AbsPath;
use policy::{ErrorCode, Policy};
use workspace::{Bounds, PathError};

pub(crate) use find::Find;
pub(crate) use grep::Grep;
pub(crate) use ls::Ls;
pub use symbols::{SymbolMatch, symbols_like};
pub(crate) use text_search::declaring;

use crate::{Failure, ToolContext};

/// Time limit of a search; partial results are reported.
const TIME: Duration = Duration::from_secs(30);
/// Time limit of the second search.
///
/// The second search covers hidden and ignored files, if the first found nothing.
const SECOND_TIME: Duration = Duration::from_millis(400);
/// Maximum number of omitted files named in a result.
const NAMED: usize = 5;

/// Resolves and permits the place of a call; by default the whole workspace.
async fn place(
    context: &ToolContext,
    path: Option<&str>,
    cx: &ToolCx,
) -> Result<(AbsPath, Arc<Policy>), Failure> {
    let path = match context.workspace.resolve(path.filter(|path| !path.is_empty()).unwrap_or(".")) {
        // Readable files outside the workspace, such as skills and command outputs.
        Err(PathError::Outside { target, .. }) if cx.may_read(&target) => target,
        path => path?,
    };
    cx.permit_read(&path).await?;
    let no_policy = || Failure::new(ErrorCode::Denied, "cannot search: this session has no policy");
    Ok((path, cx.policy().ok_or_else(no_policy)?))
}

fn bounds(cx: &ToolCx, time: Duration) -> Bounds {
    Bounds { cancel: cx.cancel.clone(), time }
}

/// Renders a path, quoted if it could be misread.
fn shown_path(context: &ToolContext, path: &AbsPath) -> String {
    let shown = context.display_path(path);
    if is_plain(context, path, &shown) { shown } else { quoted(context, path) }
}

/// Whether a path needs no quotes in a call or a header.
fn is_plain(context: &ToolContext, path: &AbsPath, shown: &str) -> bool {
    let is_whole = path.strip_prefix(context.workspace.root()).is_some_and(|it| it.to_str().is_some());
    is_whole && !shown.chars().any(char::is_control) && shown.trim() == shown
}

fn quoted(context: &ToolContext, path: &AbsPath) -> String {
    let relative = path.strip_prefix(context.workspace.root()).unwrap_or(path.as_path());
    format!("{:?}", relative.as_os_str())
}

/// Renders a number with separators: `1,234`.
pub(crate) fn number(count: impl TryInto<u64>) -> String {
    let digits = count.try_into().unwrap_or(u64::MAX).to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Renders a count with its noun: `1 file`, `1,234 files`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{} {noun}s", number(count)) }
}

/// Renders a note about files that could not be read.
fn unreadable(failed: usize, failures: &[String]) -> Option<String> {
    let first = failures.first()?;
    let more = if failed > 1 { format!(" and {} more", number(failed - 1)) } else { String::new() };
    Some(format!("could not be read: {first}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (count, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(number(count as u64), shown);
        }
    }
}
