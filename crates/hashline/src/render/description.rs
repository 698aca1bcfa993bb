//! The description of an `edit` tool, which teaches a model the format.
//!
//! Each dialect has a text of at most 900 tokens (a test counts them with the vocabulary o200k). In that of the
//! canonical dialect, text between `⟦` and `⟧` is for views with checks.

use std::borrow::Cow;

use crate::{Dialect, View};

/// The description of an `edit` tool for a model that is shown lines in this view.
///
/// It holds the dialect's operations, its rules and an example.
pub fn edit_description(view: View) -> Cow<'static, str> {
    let text = match view.dialect {
        Dialect::Put => include_str!("edit.md"),
        Dialect::Arrow => include_str!("edit_arrow.md"),
        Dialect::Json => include_str!("edit_json.md"),
    };
    let text = text.trim_end();
    if !text.contains('⟦') {
        return text.into();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('⟦') {
        let (marked, after) = after.split_once('⟧').unwrap_or((after, ""));
        out.push_str(before);
        if view.shows_checks() {
            out.push_str(marked);
        }
        rest = after;
    }
    (out + rest).into()
}
