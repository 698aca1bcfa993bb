//! The reason why a patch was refused, with the data for another attempt.
//!
//! A refusal shows the current lines, under a tag that is valid for the next edit. No section was
//! changed.

use serde::Serialize;

use crate::{LineCheck, ParseError, Tag, View, render};

/// Reasons of a refusal; a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No version is stored under the tag.
    UnknownTag,
    /// The text changed since the tag was shown, and the places could not be mapped.
    Stale,
    /// The edit touches lines that were not shown.
    UnseenLines,
    /// A number and its check, or a `-` row and its line, do not agree.
    CheckMismatch,
    /// The numbers fit two versions and mean different lines.
    Ambiguous,
    /// Two operations claim the same lines.
    Overlap,
    /// The file would no longer parse, and an edge of the edit does not fit.
    Boundary,
    /// The file would no longer parse.
    ParseRegression,
    /// The patch cannot be read, or asks for something that would become wrong content.
    InvalidPatch,
    /// The file is not UTF-8 text.
    NotUtf8,
    /// The file is too large for this format.
    TooLarge,
    /// The patch is valid, but not supported here.
    Unsupported,
    /// The file does not exist.
    NotFound,
    /// The destination exists already.
    Exists,
}

impl Reason {
    /// The reason as it is serialized, such as `unknown_tag`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTag => "unknown_tag",
            Self::Stale => "stale",
            Self::UnseenLines => "unseen_lines",
            Self::CheckMismatch => "check_mismatch",
            Self::Ambiguous => "ambiguous",
            Self::Overlap => "overlap",
            Self::Boundary => "boundary",
            Self::ParseRegression => "parse_regression",
            Self::InvalidPatch => "invalid_patch",
            Self::NotUtf8 => "not_utf8",
            Self::TooLarge => "too_large",
            Self::Unsupported => "unsupported",
            Self::NotFound => "not_found",
            Self::Exists => "exists",
        }
    }
}

impl ParseError {
    /// Returns [`Reason::InvalidPatch`].
    pub fn reason(&self) -> Reason {
        Reason::InvalidPatch
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub reason: Reason,
    pub message: String,
    /// Lines to show besides the anchors, in the current text.
    pub show: Vec<usize>,
}

impl Problem {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), show: Vec::new() }
    }
}

/// A patch that was not planned. Serializes as the `details` of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("not applied: {}", self.first_message())]
pub struct Refusal {
    /// The reason of the first section refused.
    pub reason: Reason,
    /// The sections that were refused; the others were not applied either.
    pub sections: Vec<SectionRefusal>,
    /// Number of refusals of this patch so far, including this one.
    pub times: usize,
    #[serde(skip)]
    pub(crate) view: View,
}

/// The refusal of one section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionRefusal {
    /// Path as the patch spells it, in normal form.
    pub path: String,
    /// Reason why this section was refused; other sections may have other reasons.
    pub reason: Reason,
    /// The problem and the next step, in one sentence.
    pub message: String,
    /// The tag that the patch named, if any.
    pub expected: Option<Tag>,
    /// The tag of the current text, for the next edit; `None` if there is no text.
    pub actual: Option<Tag>,
    /// Number of lines of the current text.
    pub line_count: usize,
    /// The anchors, each with the current lines around its place.
    pub anchors: Vec<AnchorLines>,
}

/// An anchor of a refused section, or a run of lines that were not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnchorLines {
    /// The anchor as written (`12kq`), or a range of lines that were not shown.
    pub anchor: String,
    /// Current lines around it, which count as seen; empty without a place nearby.
    pub lines: Vec<CurrentLine>,
}

/// A line of the current text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CurrentLine {
    /// The line's number.
    pub line: usize,
    /// The line's check.
    pub check: LineCheck,
    /// Content of the line without its line end.
    pub text: String,
}

impl Refusal {
    fn first_message(&self) -> String {
        match self.sections.first() {
            Some(section) => format!("{}: {}", section.path, section.message),
            None => self.reason.as_str().to_owned(),
        }
    }

    /// Renders the refusal for the model.
    ///
    /// Each section has the problem and the next step, then the current lines under their tag, in the view of
    /// the plan's [`Options`](crate::Options).
    pub fn render(&self) -> String {
        let mut out = String::from("Not applied, nothing was changed.\n");
        if self.times >= 3 {
            let times = self.times;
            render::push_line(
                &mut out,
                format!(
                    "This patch was refused {times} times; sending it again will not help. Rewrite it as shown below."
                ),
            );
        }
        for section in &self.sections {
            render::push_line(&mut out, format!("{}: {}", section.path, section.message));
            let Some(tag) = section.actual else { continue };
            render::push_line(&mut out, self.view.header(&section.path, tag));
            let mut lines: Vec<&CurrentLine> =
                section.anchors.iter().flat_map(|anchor| &anchor.lines).collect();
            lines.sort_by_key(|line| line.line);
            lines.dedup_by_key(|line| line.line);
            let mut before = None;
            for line in lines {
                render::push_line(&mut out, self.view.numbered(before, line.line, line.check, &line.text));
                before = Some(line.line);
            }
        }
        out
    }
}
