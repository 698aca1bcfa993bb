//! Personalities and faults of a scripted editor.

use std::ops::Range;
use std::time::Duration;

use text::LineEnds;

/// The handling of an edit's version by an editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionCheck {
    /// Rejects any version but the buffer's with `applied: false` (VS Code).
    Exact,
    /// Drops an edit if the buffer is newer, with `applied: true` (Neovim).
    ///
    /// Does not check version 0, and checks only the first document of an edit.
    DropStaleFirst,
    /// Applies all edits at their literal positions.
    Never,
}

/// The behaviour of an editor without faults.
#[derive(Debug, Clone)]
pub struct Personality {
    /// Name in `clientInfo.name`.
    pub name: &'static str,
    /// Values of `general.positionEncodings`.
    pub encodings: &'static [&'static str],
    /// The line ends that the editor recognizes.
    pub ends: LineEnds,
    /// The version of a document when it is opened.
    pub first_version: i32,
    /// Maximum growth of the version by one change.
    pub jump: i32,
    /// Delay of change notifications, which are then combined.
    ///
    /// Zero sends them at once, before the response to an edit.
    pub debounce: Duration,
    /// Whether the editor sends every change as the whole text.
    pub whole: bool,
    /// The handling of versions.
    pub check: VersionCheck,
    /// Whether the editor reports an edit in the smallest pieces.
    pub minimal: bool,
    /// Supported file operations.
    pub operations: &'static [&'static str],
}

impl Personality {
    /// The behaviour of Neovim 0.11.
    pub fn neovim() -> Self {
        Self {
            name: "Neovim",
            encodings: &["utf-8", "utf-16", "utf-32"],
            ends: LineEnds::Lf,
            first_version: 0,
            jump: 4,
            debounce: Duration::from_millis(20),
            whole: false,
            check: VersionCheck::DropStaleFirst,
            minimal: true,
            operations: &["rename", "create", "delete"],
        }
    }

    pub fn vscode() -> Self {
        Self {
            name: "Visual Studio Code",
            encodings: &["utf-16"],
            ends: LineEnds::Any,
            first_version: 1,
            jump: 1,
            debounce: Duration::ZERO,
            whole: false,
            check: VersionCheck::Exact,
            minimal: false,
            operations: &["create", "rename", "delete"],
        }
    }

    /// A client that knows only utf-32 and checks no version.
    pub fn careless() -> Self {
        Self {
            name: "careless",
            encodings: &["utf-32"],
            ends: LineEnds::Any,
            check: VersionCheck::Never,
            operations: &[],
            ..Self::vscode()
        }
    }

    /// A client that sends whole texts.
    pub fn whole() -> Self {
        Self { name: "whole", whole: true, encodings: &[], ..Self::vscode() }
    }
}

/// Text typed by the user: bytes of the buffer at that time, and their replacement.
#[derive(Debug, Clone)]
pub struct Typed {
    pub uri: String,
    pub range: Range<usize>,
    pub text: String,
}

/// A fault of one `workspace/applyEdit`.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Applies the edit correctly.
    Fine,
    /// Applies nothing, with `applied: true`.
    Drop,
    /// Applies nothing, with `applied: false` without a reason.
    Refuse,
    /// Applies every edit this many lines further down, at most at the end.
    Shift(u32),
    /// Applies only the first half of each document's edits.
    Half {
        /// Value of `applied` in the response.
        applied: bool,
    },
    /// Applies the edit correctly or not at all, and never responds.
    Silent {
        /// Whether the editor applies it.
        made: bool,
    },
    /// The user types before and after an edit, in one notification.
    ///
    /// Positions are literal.
    Between {
        /// Text typed before the edit, unknown to the server.
        before: Vec<Typed>,
        after: Vec<Typed>,
        /// Whether the edit moves with text typed before it (operational transforms).
        rebased: bool,
    },
    /// The user types just before the edit arrives; versions are checked as usual.
    TypedFirst(Vec<Typed>),
    /// Applies the edit; [`Editor::release`](super::Editor::release) responds.
    Late,
    /// Neither applies nor responds before [`Editor::release`](super::Editor::release).
    Held {
        /// Whether it responds then.
        answered: bool,
    },
}
