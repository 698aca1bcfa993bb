//! Why a patch was not planned, with what its author needs to try again.
//!
//! A refusal is an answer, not an accident: it shows the lines as they are now, under a tag that
//! is valid for the next edit. Nothing was changed, in any section.

use std::ops::RangeInclusive;

use serde::Serialize;

use crate::{LineCheck, ParseError, Tag, View, furniture, render};

/// The closed list of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No version is kept under the tag.
    UnknownTag,
    /// The text changed since the tag was shown, and the places could not be followed.
    Stale,
    /// The edit touches lines that were not shown.
    UnseenLines,
    /// A number and its check, or a `-` row and its line, do not agree.
    CheckMismatch,
    /// The numbers fit two versions and mean different lines.
    Ambiguous,
    /// Two operations claim the same lines.
    Overlap,
    /// The file would no longer parse, and an edge of the edit does not fit its surroundings.
    Boundary,
    /// The file would no longer parse.
    ParseRegression,
    /// The patch cannot be read, or asks for something that would become wrong content.
    InvalidPatch,
    /// The file is not UTF-8 text.
    NotUtf8,
    /// The file is too large for this format.
    TooLarge,
    /// Understood, but not possible here.
    Unsupported,
    /// The file does not exist.
    NotFound,
    /// The destination exists already.
    Exists,
}

impl Reason {
    /// The reason as it is serialized: `unknown_tag`, …
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
    /// Always [`Reason::InvalidPatch`].
    pub fn reason(&self) -> Reason {
        Reason::InvalidPatch
    }
}

/// Nothing was planned. Serializes as the `details` of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("not applied: {}", self.first_message())]
pub struct Refusal {
    /// The reason of the first section refused.
    pub reason: Reason,
    /// The sections that were refused; the others were not applied either.
    pub sections: Vec<SectionRefusal>,
    /// How often this same patch was refused by now, this time included.
    pub times: usize,
    #[serde(skip)]
    pub(crate) view: View,
}

/// Why one section was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionRefusal {
    /// The section's path.
    pub path: String,
    /// Why.
    pub reason: Reason,
    /// What is wrong and what to do next, in one sentence.
    pub message: String,
    /// The tag that the patch named; `None` where it named none.
    pub expected: Option<Tag>,
    /// The tag of the text as it is now, valid for the next edit; `None` when there is no text.
    pub actual: Option<Tag>,
    /// Number of lines of the text as it is now.
    pub line_count: usize,
    /// The anchors, each with the lines that stand around its place now.
    pub anchors: Vec<AnchorLines>,
}

/// An anchor of a refused section, or a run of lines that had not been shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnchorLines {
    /// As written (`12kq`), or as a range (`12..=20`) for lines that had not been shown.
    pub anchor: String,
    /// Lines of the current text around it; empty when it has no place near. They count as seen.
    pub lines: Vec<CurrentLine>,
}

/// A line of the text as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CurrentLine {
    /// Its number.
    pub line: usize,
    /// Its check.
    pub check: LineCheck,
    /// Its content, without line end.
    pub text: String,
}

impl Refusal {
    fn first_message(&self) -> String {
        match self.sections.first() {
            Some(section) => format!("{}: {}", section.path, section.message),
            None => self.reason.as_str().to_owned(),
        }
    }

    /// What the model is told: per section what is wrong and what to do, then the current lines
    /// under their tag, as a read shows them in the view of the plan's [`Options`](crate::Options).
    pub fn render(&self) -> String {
        let mut out = String::from("Not applied, nothing was changed.\n");
        if self.times >= 3 {
            let times = self.times;
            render::push_line(
                &mut out,
                format!(
                    "This same patch was refused {times} times; sending it again will not help. Write it anew from the lines below."
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
            let mut next = 1;
            for line in lines {
                gap(&mut out, next..=line.line - 1);
                render::push_line(&mut out, self.view.numbered(line.line, Some(line.check), &line.text));
                next = line.line + 1;
            }
            gap(&mut out, next..=section.line_count);
        }
        out
    }
}

fn gap(out: &mut String, lines: RangeInclusive<usize>) {
    if !lines.is_empty() {
        render::push_line(out, furniture::elision(*lines.start(), *lines.end()));
    }
}
