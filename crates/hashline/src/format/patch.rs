//! A patch as a value, and its canonical form.
//!
//! Every dialect parses to these types. A patch states what its author wants, in lines of the text that its
//! tag names; [`plan`](crate::plan()) decides whether that is possible.

use std::fmt;

use crate::{LineCheck, Tag};

/// The operations of one call, a section per file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    /// Sections in the order written, one per path.
    pub sections: Vec<Section>,
}

/// Operations on one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Path as written, lexically normal (`./a` is `a`).
    pub path: String,
    /// The version whose lines the operations name.
    ///
    /// `None` is the newest version shown; then every operation must name its lines with their checks. Only
    /// the json dialect allows that.
    pub tag: Option<Tag>,
    /// Operations in the order written.
    pub ops: Vec<Op>,
    /// The operation on the file itself, after those on lines.
    pub file_op: FileOp,
}

/// An operation on a file itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FileOp {
    /// The file stays.
    #[default]
    Keep,
    /// `REM`: the file is deleted.
    Remove,
    /// `MV DEST`: the file gets another path.
    Rename {
        /// The new path, lexically normal.
        to: String,
    },
}

/// One operation on lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// `PUT … :` with a body.
    Put {
        /// Place for the body.
        target: Target,
        /// The rows, without line ends; never empty.
        body: Vec<String>,
        /// `-` rows before the body, which must equal the replaced lines; usually empty.
        old: Vec<String>,
    },
    /// `CUT`: deletes lines and stores them in a register.
    Cut {
        /// The lines.
        span: Span,
        /// The register; `None` is the unnamed one.
        register: Option<String>,
    },
    /// `PUT` without a colon: pastes a register.
    Paste {
        /// Place to paste it.
        target: Target,
        /// The register; `None` is the unnamed one.
        register: Option<String>,
    },
}

/// The place of a body or a register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Replaces lines.
    Replace(Span),
    /// `<A`: before a line.
    Before(Anchor),
    /// `>A`: after a line.
    After(Anchor),
    /// `>A*`: after the syntactic block that begins on a line.
    AfterBlock(Anchor),
    /// `<1`: at the head of the file.
    Head,
    /// `>$`: at the end of the file.
    End,
}

/// Lines to replace or delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Lines from the first to the last, both included.
    Lines {
        /// First line.
        first: Anchor,
        /// Last line; equal to `first` for a single one.
        last: Anchor,
    },
    /// `A*`: the syntactic block that begins on a line.
    Block(Anchor),
}

/// A line named by its number, and by its check where checks are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// 1-based number in the tagged text.
    pub line: usize,
    /// The two letters shown after the number.
    pub check: Option<LineCheck>,
}

impl Section {
    /// All anchors of the operations, in the order written.
    pub fn anchors(&self) -> Vec<Anchor> {
        self.ops.iter().flat_map(Op::anchors).collect()
    }
}

impl Section {
    /// Adds `by` to every number.
    pub(crate) fn shift(&mut self, by: isize) {
        let anchors = self.ops.iter_mut().flat_map(|op| match op {
            Op::Cut { span, .. } => span.anchors_mut(),
            Op::Put { target, .. } | Op::Paste { target, .. } => match target {
                Target::Replace(span) => span.anchors_mut(),
                Target::Before(anchor) | Target::After(anchor) | Target::AfterBlock(anchor) => vec![anchor],
                Target::Head | Target::End => Vec::new(),
            },
        });
        anchors.for_each(|anchor| anchor.line = anchor.line.saturating_add_signed(by));
    }
}

impl Op {
    /// The operation's anchors: two for a range, one for a line, none for a file end.
    pub fn anchors(&self) -> Vec<Anchor> {
        match self {
            Self::Cut { span, .. } => span.anchors(),
            Self::Put { target, .. } | Self::Paste { target, .. } => match target {
                Target::Replace(span) => span.anchors(),
                Target::Before(anchor) | Target::After(anchor) | Target::AfterBlock(anchor) => vec![*anchor],
                Target::Head | Target::End => Vec::new(),
            },
        }
    }

    /// Whether the operation needs the file's syntax.
    pub(crate) fn is_block(&self) -> bool {
        match self {
            Self::Cut { span, .. } => matches!(span, Span::Block(_)),
            Self::Put { target, .. } | Self::Paste { target, .. } => {
                matches!(target, Target::Replace(Span::Block(_)) | Target::AfterBlock(_))
            }
        }
    }
}

impl Span {
    fn anchors_mut(&mut self) -> Vec<&mut Anchor> {
        match self {
            Self::Lines { first, last } => vec![first, last],
            Self::Block(anchor) => vec![anchor],
        }
    }

    fn anchors(&self) -> Vec<Anchor> {
        match self {
            Self::Lines { first, last } if first == last => vec![*first],
            Self::Lines { first, last } => vec![*first, *last],
            Self::Block(anchor) => vec![*anchor],
        }
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.line)?;
        self.check.map_or(Ok(()), |check| write!(f, "{check}"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines { first, last } if first == last => write!(f, "{first}"),
            Self::Lines { first, last } => write!(f, "{first}..={last}"),
            Self::Block(anchor) => write!(f, "{anchor}*"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replace(span) => write!(f, "{span}"),
            Self::Before(anchor) => write!(f, "<{anchor}"),
            Self::After(anchor) => write!(f, ">{anchor}"),
            Self::AfterBlock(anchor) => write!(f, ">{anchor}*"),
            Self::Head => write!(f, "<1"),
            Self::End => write!(f, ">$"),
        }
    }
}

impl fmt::Display for Op {
    /// The operation's lines in the canonical dialect, each with its line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |register: &Option<String>| match register {
            Some(register) => format!(" @{register}"),
            None => String::new(),
        };
        match self {
            Self::Put { target, body, old } => {
                writeln!(f, "PUT {target}:")?;
                old.iter().try_for_each(|row| writeln!(f, "-{row}"))?;
                body.iter().try_for_each(|row| writeln!(f, "+{row}"))
            }
            Self::Cut { span, register } => writeln!(f, "CUT {span}{}", name(register)),
            Self::Paste { target, register } => writeln!(f, "PUT {target}{}", name(register)),
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag {
            Some(tag) => writeln!(f, "[{}#{tag}]", self.path)?,
            None => writeln!(f, "[{}]", self.path)?,
        }
        self.ops.iter().try_for_each(|op| write!(f, "{op}"))?;
        match &self.file_op {
            FileOp::Keep => Ok(()),
            FileOp::Remove => writeln!(f, "REM"),
            FileOp::Rename { to } => writeln!(f, "MV {to}"),
        }
    }
}

impl Patch {
    /// Trims blanks from the ends of paths that exist only without them.
    pub fn leave_out_blanks(&mut self, mut exists: impl FnMut(&str) -> bool) {
        for section in &mut self.sections {
            let bare = normal_path(section.path.trim());
            if bare != section.path && !bare.is_empty() && !exists(&section.path) && exists(&bare) {
                section.path = bare;
            }
        }
    }
}

impl fmt::Display for Patch {
    /// Writes the canonical dialect, which parses to the same patch.
    ///
    /// Parsing it gives no notes unless it holds `-` rows. A section without a tag has no canonical form and
    /// does not parse.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sections.iter().try_for_each(|section| write!(f, "{section}"))
    }
}

/// The path in lexically normal form: `/` between parts, no `.`, no `a/..`.
///
/// Blanks at its ends stay, since they may be part of a name.
pub fn normal_path(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let root = if is_absolute { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized() {
        for (path, normal) in [
            ("./a/b", "a/b"),
            ("a//b/../c", "a/c"),
            ("/a/./b", "/a/b"),
            ("../a", "../a"),
            ("a b", "a b"),
            (" a ", " a "),
            ("./ ./a", " ./a"),
            ("a/b/c /../", "a/b"),
            ("b /.", "b "),
            ("/ ./a", "/ ./a"),
        ] {
            assert_eq!(normal_path(path), normal);
        }
    }
}
