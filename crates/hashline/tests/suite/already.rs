//! Tests that `AlreadyApplied` is reported exactly for edits that were made.

use hashline::{Lines, Reason, Strategy, Tag};

use crate::session::Session;

/// A session that has read the text, for operations on its lines.
struct Read {
    session: Session,
    lines: Lines,
    tag: Tag,
}

impl Read {
    fn new(text: &str) -> Self {
        let mut session = Session::new(&[("f", text)]);
        let tag = session.read("f");
        Self { session, lines: Lines::new(text.into()), tag }
    }

    /// The patch of one operation, `2?` being line 2 with its check.
    fn patch(&self, operation: &str) -> String {
        let mut out = format!("[f#{}]\n", self.tag);
        let mut parts = operation.split('?').peekable();
        while let Some(part) = parts.next() {
            out.push_str(part);
            if parts.peek().is_some() {
                let number: String = part.chars().rev().take_while(char::is_ascii_digit).collect();
                let number: String = number.chars().rev().collect();
                out.push_str(&self.lines.check(number.parse().unwrap()).to_string());
            }
        }
        out + "\n"
    }

    #[track_caller]
    fn edited(&mut self, operation: &str) -> Strategy {
        let patch = self.patch(operation);
        self.session.edited(&patch).0
    }

    #[track_caller]
    fn stale(&mut self, operation: &str) {
        let patch = self.patch(operation);
        self.session.refused_for(&patch, Reason::Stale);
    }
}

/// Reads `text`, applies `first`, then `second` under the same tag.
#[track_caller]
fn check(text: &str, first: &str, second: &str, strategy: Strategy, expected: &str) {
    let mut read = Read::new(text);
    read.edited(first);
    let found = read.edited(second);
    assert_eq!((found, read.session.text("f")), (strategy, expected), "{first:?}, {second:?}");
}

#[test]
fn deleting_a_twin_again_deletes_the_other() {
    check("a\n\n\nb\n", "CUT 2?", "CUT 3?", Strategy::Chain, "a\nb\n");
    check("a\n\n\nb\n", "CUT 3?", "CUT 2?", Strategy::Chain, "a\nb\n");
    let methods = "class A:\n    def f(self):\n        pass\n\n    def f(self):\n        pass\n\nend\n";
    check(methods, "CUT 2?..=4?", "CUT 5?..=7?", Strategy::Chain, "class A:\nend\n");
    let (list, long) = ("k:\n- a\n- a\nend\n", "k:\n- a\n- a\n- a\n- a\nend\n");
    check(list, "PUT >2?:\n+- a", "PUT >3?:\n+- a", Strategy::Chain, long);
}

#[test]
fn a_repeated_edit_is_applied_once() {
    let same = |text: &str, operation: &str, expected: &str| {
        check(text, operation, operation, Strategy::AlreadyApplied, expected);
    };
    same("a\n\n\nb\n", "CUT 2?", "a\n\nb\n");
    same("k:\n- a\n- a\nend\n", "PUT >2?:\n+- a", "k:\n- a\n- a\n- a\nend\n");
    same("k:\n- a\n- a\nend\n", "PUT 2?:\n+- a\n+- b", "k:\n- a\n- b\n- a\nend\n");
    same("a\nb\n", "PUT 1?:\n+x", "x\nb\n");
    same("a\nb\n", "PUT >$:\n+x", "a\nb\nx\n");
}

#[test]
fn a_deletion_is_not_done_while_a_line_is_left() {
    let mut read = Read::new("a\n\n\n\nb\n");
    read.edited("CUT 2?");
    read.edited("CUT 4?");
    // One of the two lines still exists, although the text reads as if both were deleted.
    read.stale("CUT 2?..=3?");
}

#[test]
fn an_insertion_beside_twins_is_not_repeated() {
    let mut read = Read::new("k:\n- a\n- a\nend\nz\n");
    read.edited("PUT >2?:\n+- a");
    read.edited("PUT 5?:\n+y");
    assert_eq!(read.edited("PUT >2?:\n+- a"), Strategy::AlreadyApplied);
    assert_eq!(read.session.text("f"), "k:\n- a\n- a\n- a\nend\ny\n");
}

#[test]
fn an_insertion_among_others_is_not_repeated() {
    let mut read = Read::new("k:\n- a\n- a\nend\n");
    read.edited("PUT >2?:\n+- a");
    read.edited("PUT >2?:\n+- b");
    read.stale("PUT >2?:\n+- a");
    // A replacement that repeats the lines is an insertion too.
    let mut read = Read::new("a\nb\nc\n");
    read.edited("PUT 1?..=2?:\n+a\n+b\n+x");
    read.edited("PUT <3?:\n+y");
    read.stale("PUT 1?..=2?:\n+a\n+b\n+x");
}

#[test]
fn without_a_history_a_twin_is_not_assumed_deleted() {
    for operation in ["CUT 2?", "CUT 3?"] {
        let mut read = Read::new("a\n\n\nb\n");
        read.session.write("f", "a\n\nb\n");
        read.stale(operation);
    }
    let mut read = Read::new("a\nb\nc\n");
    read.session.write("f", "a\nc\n");
    assert_eq!(read.edited("CUT 2?"), Strategy::AlreadyApplied);
}

#[test]
fn a_run_that_occurs_twice_proves_no_place() {
    for operation in ["PUT <3?:\n+x", "PUT <4?:\n+x", "PUT >5?:\n+x", "CUT 5?", "CUT 6?"] {
        let mut read = Read::new("h\nf\nA\nB\nC\nD\n");
        read.session.write("f", "h\nA\nB\nC\nD\nq\nf\nu\nA\nB\nC\nD\n");
        read.stale(operation);
    }
}
