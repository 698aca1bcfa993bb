//! Options of a plan.

use crate::{ParseRegression, Syntax, View};

/// Options of [`plan`](crate::plan()).
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// The form in which lines are shown.
    ///
    /// It comes from the settings `hashline.dialect` and `hashline.line_checks`. If checks are shown,
    /// an anchor without one is accepted only if it means the same line in every version shown.
    pub view: View,
    /// Parser of source code; without one, blocks are refused and brackets unchecked.
    pub syntax: Option<&'a dyn Syntax>,
    /// The response to an edit that breaks the syntax (`edit.parse_regression`).
    pub parse_regression: ParseRegression,
}
