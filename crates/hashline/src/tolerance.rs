//! What models write instead of the canonical form, as data: what is read all the same, and what
//! never is.
//!
//! Each repair leaves a note. A form that could turn into wrong file content has no place in the
//! first table.

use crate::NoteKind;

/// Words between the two ends of a range, tried in this order. All but the first leave a note;
/// all are inclusive.
pub(crate) const SEPARATORS: &[&str] = &["..=", "..", ".=", "-", "to "];

/// First lines that open an envelope, with the line that may close it.
pub(crate) const ENVELOPES: &[(&str, &str, NoteKind)] = &[
    ("```", "```", NoteKind::Fence),
    ("~~~", "~~~", NoteKind::Fence),
    ("*** Begin Patch", "*** End Patch", NoteKind::Envelope),
];

/// A form that is read although it is not canonical.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Short name.
    pub name: &'static str,
    /// A patch in that form.
    pub written: &'static str,
    /// The canonical patch it is read as.
    pub read_as: &'static str,
    /// The note it leaves.
    pub note: NoteKind,
}

/// Every form that is read although it is not canonical; each row is a test and a line of the manual.
pub const TOLERATED: &[Tolerance] = &[
    Tolerance {
        name: "range with two dots",
        written: "[a#3F2A]\nCUT 2..4\n",
        read_as: "[a#3F2A]\nCUT 2..=4\n",
        note: NoteKind::Separator,
    },
    Tolerance {
        name: "range with a dash",
        written: "[a#3F2A]\nCUT 2kq-4mz\n",
        read_as: "[a#3F2A]\nCUT 2kq..=4mz\n",
        note: NoteKind::Separator,
    },
    Tolerance {
        name: "range with dot and equals sign",
        written: "[a#3F2A]\nCUT 2.=4\n",
        read_as: "[a#3F2A]\nCUT 2..=4\n",
        note: NoteKind::Separator,
    },
    Tolerance {
        name: "range with the word to",
        written: "[a#3F2A]\nCUT 2 to 4\n",
        read_as: "[a#3F2A]\nCUT 2..=4\n",
        note: NoteKind::Separator,
    },
    Tolerance {
        name: "lower-case verb",
        written: "[a#3F2A]\nput 2:\n+x\n",
        read_as: "[a#3F2A]\nPUT 2:\n+x\n",
        note: NoteKind::VerbCase,
    },
    Tolerance {
        name: "code fence",
        written: "```hashline\n[a#3F2A]\nPUT 2:\n+x\n```\n",
        read_as: "[a#3F2A]\nPUT 2:\n+x\n",
        note: NoteKind::Fence,
    },
    Tolerance {
        name: "patch envelope",
        written: "*** Begin Patch\n[a#3F2A]\nPUT 2:\n+x\n*** End Patch\n",
        read_as: "[a#3F2A]\nPUT 2:\n+x\n",
        note: NoteKind::Envelope,
    },
    Tolerance {
        name: "rows pasted from a read",
        written: "[a#3F2A]\nPUT 2:\n2kq:x\n3mz:  y\n",
        read_as: "[a#3F2A]\nPUT 2:\n+x\n+  y\n",
        note: NoteKind::PastedRows,
    },
    Tolerance {
        name: "CRLF",
        written: "[a#3F2A]\r\nPUT 2:\r\n+x\r\n",
        read_as: "[a#3F2A]\nPUT 2:\n+x\n",
        note: NoteKind::CarriageReturns,
    },
    Tolerance {
        name: "old rows of a diff",
        written: "[a#3F2A]\nPUT 2:\n-old\n+x\n",
        read_as: "[a#3F2A]\nPUT 2:\n-old\n+x\n",
        note: NoteKind::OldRows,
    },
    Tolerance {
        name: "missing colon",
        written: "[a#3F2A]\nPUT 2\n+x\n",
        read_as: "[a#3F2A]\nPUT 2:\n+x\n",
        note: NoteKind::MissingColon,
    },
    Tolerance {
        name: "colon after CUT",
        written: "[a#3F2A]\nCUT 2:\n",
        read_as: "[a#3F2A]\nCUT 2\n",
        note: NoteKind::ExtraColon,
    },
    Tolerance {
        name: "two sections of one file",
        written: "[a#3F2A]\nCUT 2\n[./a#3f2a]\nCUT 4\n",
        read_as: "[a#3F2A]\nCUT 2\nCUT 4\n",
        note: NoteKind::MergedSections,
    },
];

/// Forms that are refused, since a guess could become wrong file content: a name and a patch.
pub const REFUSED: &[(&str, &str)] = &[
    ("nothing", "  \n"),
    ("text before the first header", "Here is the edit:\n[a#3F2A]\nCUT 2\n"),
    ("text after the envelope", "```\n[a#3F2A]\nCUT 2\n```\nDone.\n"),
    ("header without tag", "[a]\nCUT 2\n"),
    ("tag that is none", "[a#TAG]\nCUT 2\n"),
    ("header without path", "[#3F2A]\nCUT 2\n"),
    ("section without operation", "[a#3F2A]\n[b#3F2A]\nCUT 2\n"),
    ("one file under two tags", "[a#3F2A]\nCUT 2\n[a#3F2B]\nCUT 4\n"),
    ("unknown verb", "[a#3F2A]\nSWAP 2:\n+x\n"),
    ("no number", "[a#3F2A]\nCUT\n"),
    ("line zero", "[a#3F2A]\nCUT 0\n"),
    ("a number beyond counting", "[a#3F2A]\nCUT 99999999999999999999999\n"),
    ("letters that are no check", "[a#3F2A]\nCUT 2il\n"),
    ("reversed range", "[a#3F2A]\nCUT 4..=2\n"),
    ("range as a count", "[a#3F2A]\nCUT 12-3\n"),
    ("three dots", "[a#3F2A]\nCUT 2...4\n"),
    ("range to the end sign", "[a#3F2A]\nCUT 2..=$\n"),
    ("before the end sign", "[a#3F2A]\nPUT <$:\n+x\n"),
    ("before a block", "[a#3F2A]\nPUT <2*:\n+x\n"),
    ("block in a range", "[a#3F2A]\nCUT 2*..=4\n"),
    ("cut at an insertion point", "[a#3F2A]\nCUT <2\n"),
    ("body on the operation's line", "[a#3F2A]\nPUT 2: x\n"),
    ("empty body", "[a#3F2A]\nPUT 2:\n[b#3F2A]\nCUT 1\n"),
    ("empty body at the end", "[a#3F2A]\nPUT 2..=4:\n"),
    ("only old rows", "[a#3F2A]\nPUT 2:\n-x\n"),
    ("old rows at an insertion", "[a#3F2A]\nPUT >2:\n-x\n+y\n"),
    ("replacement without colon, body or register", "[a#3F2A]\nPUT 2\n"),
    ("register with a body", "[a#3F2A]\nPUT >2 @r:\n+x\n"),
    ("rows under a paste", "[a#3F2A]\nPUT >2 @r\n+x\n"),
    ("rows under a cut", "[a#3F2A]\nCUT 2\n+x\n"),
    ("rows under a header", "[a#3F2A]\n+x\n"),
    ("register without a name", "[a#3F2A]\nCUT 2 @\n"),
    ("body row without plus", "[a#3F2A]\nPUT 2:\nx = 1\n"),
    ("some rows without plus", "[a#3F2A]\nPUT 2:\n+x\n  y\n"),
    ("context rows of a diff", "[a#3F2A]\nPUT 2..=3:\n a\n-b\n+c\n"),
    ("pasted rows with a gap", "[a#3F2A]\nPUT 2:\n2kq:x\n7mz:y\n"),
    ("pasted rows beside body rows", "[a#3F2A]\nPUT 2:\n2kq:x\n+y\n"),
    ("pasted row without check that is not the line named", "[a#3F2A]\nPUT 9:\n2: x\n"),
    ("elision row among pasted rows", "[a#3F2A]\nPUT 2:\n2kq:x\n… 3..=9 not shown\n"),
    ("blank line between body rows", "[a#3F2A]\nPUT 2:\n+x\n\n+y\n"),
    ("carriage return inside a row", "[a#3F2A]\nPUT 2:\n+x\ry\n"),
    ("delete and edit", "[a#3F2A]\nCUT 2\nREM\n"),
    ("two file operations", "[a#3F2A]\nREM\nMV b\n"),
    ("rename to nowhere", "[a#3F2A]\nMV\n"),
    ("words after REM", "[a#3F2A]\nREM b\n"),
];
