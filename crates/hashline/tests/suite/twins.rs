//! Numbers of lines that equal others nearby, including their neighbours.

use hashline::{Limits, Reason, SnapshotStore};

use crate::session::{Session, numbered};

#[test]
fn a_twin_that_may_have_moved_here_is_refused() {
    let twins = "a\nsame\nb\n".repeat(6);
    let mut session = Session::new(&[("f", &twins)]);
    session.read("f");
    let anchor = session.anchor("f", 8);
    // Another program duplicates the block; which copy is new is undecidable.
    session.write("f", &"a\nsame\nb\n".repeat(7));
    let tag = session.read("f");
    assert_eq!(session.anchor("f", 8), anchor);
    let cut = format!("[f#{tag}]\nCUT {anchor}\n");
    session.refused_for(&cut, Reason::Ambiguous);
    session.edited(&cut);
}

#[test]
fn a_twin_is_refused_once_a_version_is_dropped() {
    let text = format!("{}{}", numbered(100), "a\nsame\nb\n".repeat(6));
    let insert_after = |line: usize| {
        let mut session = Session::new(&[("f", &text), ("g", "other\n")]);
        session.store = SnapshotStore::new(Limits { paths: 1, ..Limits::default() });
        let tag = ["f", "g", "f"].map(|path| session.read(path))[2];
        let patch = format!("[f#{tag}]\nPUT >{}:\n+x\n", session.anchor("f", line));
        (session, patch)
    };
    let (mut session, patch) = insert_after(108);
    session.refused_for(&patch, Reason::Ambiguous);
    session.edited(&patch);
    // A unique line is not affected.
    let (mut session, patch) = insert_after(60);
    session.edited(&patch);
}

/// Reads the text with more lines above, so that numbers lose their old meaning.
#[test]
fn an_earlier_number_is_not_a_current_one() {
    let text = "X\n}\n\n\nY\n}\n\n\nZ\n";
    for between in [None, Some(7), Some(9)] {
        let mut session = Session::new(&[("f", text)]);
        let old = session.read("f");
        let anchors: Vec<String> = (1..=9).map(|line| session.anchor("f", line)).collect();
        session.write("f", &format!("1\n2\n3\n4\n{text}"));
        if let Some(line) = between {
            session.edited(&format!("[f#{old}]\nPUT {}:\n+changed\n", anchors[line - 1]));
        }
        let tag = session.read("f");
        let stays = session.anchor("f", 7) == anchors[6];
        let reason = if stays { Reason::Ambiguous } else { Reason::CheckMismatch };
        session.refused_for(&format!("[f#{tag}]\nPUT {}:\n+here\n", anchors[6]), reason);
    }
}
