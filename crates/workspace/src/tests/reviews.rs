//! Review: hunks of commits, and decisions about them.

use super::*;
use crate::{HunkKind, Rejection, ReviewError, Selection};

const NAME: &str = "session";

/// A fixture with the runs of one session.
struct Session {
    fixture: Fixture,
    runs: Vec<RunId>,
    /// The only run to review.
    only: Option<usize>,
}

impl Session {
    fn new(files: &[(&str, &str)]) -> Self {
        Self { fixture: Fixture::new(files), runs: vec![RunId::new()], only: None }
    }

    fn scope(&self) -> &[RunId] {
        self.only.map_or(&self.runs, |nth| std::slice::from_ref(&self.runs[nth]))
    }

    fn agent(&self, operations: Vec<Operation>) {
        self.fixture.commit_as(self.runs.last().unwrap(), operations).unwrap();
    }

    /// Commits as a command does: a moved file is deleted and created.
    fn command(&self, operations: Vec<Operation>) {
        let mut plan = self.fixture.plan(operations).unwrap();
        plan.steps.iter_mut().for_each(|step| step.moved_from = None);
        self.fixture.commit_plan(self.runs.last().unwrap(), plan).unwrap();
    }

    /// Renders the runs of each hunk, as numbers.
    fn authors(&self) -> Vec<Vec<usize>> {
        let review = self.fixture.workspace.review(NAME, &self.runs, self.scope()).unwrap();
        let number = |run: &RunId| self.runs.iter().position(|it| it == run).unwrap();
        let hunks = review.files.iter().flat_map(|file| &file.hunks);
        hunks.map(|hunk| hunk.runs.iter().map(number).collect()).collect()
    }

    /// Renders the review: one line for each hunk.
    fn shown(&self) -> Vec<String> {
        let review = self.fixture.workspace.review(NAME, &self.runs, self.scope()).unwrap();
        let mut shown = Vec::new();
        for file in &review.files {
            let path = self.fixture.workspace.relative(&file.path);
            for hunk in &file.hunks {
                let kind = match &hunk.kind {
                    HunkKind::Lines { before, now, .. } => format!("{before:?} {now:?}"),
                    other => format!("{other:?}").to_lowercase(),
                };
                shown.push(format!("{path} {kind}{}", if hunk.is_edited { " edited" } else { "" }));
            }
        }
        shown
    }

    fn keep(&self, selection: Selection<'_>) {
        self.fixture.workspace.keep(NAME, &self.runs, self.scope(), selection).unwrap();
    }

    fn reject(&self, selection: Selection<'_>) -> Result<Rejection, ReviewError> {
        let rejection = self.fixture.workspace.plan_rejection(NAME, &self.runs, self.scope(), selection)?;
        self.fixture.commit_plan(&rejection.run, rejection.plan.clone()).unwrap();
        Ok(rejection)
    }

    /// The id of the hunk `nth` of a file.
    fn hunk(&self, path: &str, nth: usize) -> crate::HunkId {
        let review = self.fixture.workspace.review(NAME, &self.runs, self.scope()).unwrap();
        let path = self.fixture.path(path);
        review.files.iter().find(|file| file.path == path).unwrap().hunks[nth].id.clone()
    }
}

const LINES: &str = "one\ntwo\nthree\nfour\nfive\n";

#[test]
fn hunks_are_kept_and_rejected_one_by_one() {
    let session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "one", "1")]);
    session.agent(vec![session.fixture.replace("a", "three", "3")]);
    session.agent(vec![session.fixture.replace("a", "five\n", "")]);
    assert_eq!(session.shown(), ["a 0..1 0..1", "a 2..3 2..3", "a 4..5 4..4"]);
    let kept = session.hunk("a", 1);
    session.keep(Selection::Hunks(&[kept]));
    assert_eq!(session.shown(), ["a 0..1 0..1", "a 4..5 4..4"]);
    let rejected = session.hunk("a", 1);
    session.reject(Selection::Hunks(&[rejected])).unwrap();
    assert_eq!(session.fixture.text("a"), "1\ntwo\n3\nfour\nfive\n");
    assert_eq!(session.shown(), ["a 0..1 0..1"]);
    session.keep(Selection::All);
    assert_eq!(session.shown(), [""; 0]);
    assert!(matches!(session.reject(Selection::All), Err(ReviewError::Nothing)));
}

#[test]
fn the_review_survives_a_restart() {
    let mut session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "one", "1"), session.fixture.create("b", "b\n")]);
    let kept = session.hunk("a", 0);
    session.keep(Selection::Hunks(&[kept]));
    // The user writes while nothing runs.
    session.fixture.write("a", "zero\n1\ntwo\nthree\nfour\nfive\n");
    session.fixture.workspace = open(&session.fixture.directory);
    session.runs.push(RunId::new());
    session.agent(vec![session.fixture.replace("a", "two", "2")]);
    assert_eq!(session.shown(), ["a 2..3 2..3", "b created"]);
    session.reject(Selection::All).unwrap();
    assert_eq!(session.fixture.text("a"), "zero\n1\ntwo\nthree\nfour\nfive\n");
    assert!(!session.fixture.path("b").as_path().exists());
}

#[test]
fn a_hunk_that_the_user_changed_is_a_conflict() {
    let session = Session::new(&[("a", LINES), ("b", "b\n")]);
    session.agent(vec![session.fixture.replace("a", "two", "2\n2b"), session.fixture.create("n", "new\n")]);
    session.fixture.write("a", LINES.replace("two", "2\nmine\n2b"));
    session.fixture.write("n", "new\nmine\n");
    assert_eq!(session.shown(), ["a 1..2 1..4 edited", "n created edited"]);
    let Err(ReviewError::Conflict { skipped }) = session.reject(Selection::All) else { panic!() };
    let reasons: Vec<_> = skipped.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons, ["lines 2-4: you changed it since", "you changed it since"]);
    session.keep(Selection::All);
    assert_eq!(session.shown(), [""; 0]);
}

#[test]
fn undo_and_redo_change_the_review() {
    let session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "two", "2")]);
    session.fixture.undo();
    assert_eq!(session.shown(), [""; 0]);
    session.fixture.apply_undo(session.fixture.workspace.plan_redo());
    assert_eq!(session.shown(), ["a 1..2 1..2"]);
    // A rejection is a commit like any other.
    session.reject(Selection::All).unwrap();
    assert_eq!(session.fixture.text("a"), LINES);
    session.fixture.undo();
    assert_eq!(session.fixture.text("a"), LINES.replace("two", "2"));
    assert_eq!(session.shown(), ["a 1..2 1..2"]);
}

#[test]
fn whole_files_are_restored() {
    let session = Session::new(&[("gone", "gone\n"), ("moved", LINES), ("binary", "")]);
    session.fixture.write("binary", b"\xff\x00old");
    let binary = Version { hash: crate::ContentHash::of(b"\xff\x00old"), editor: None };
    set_mode(session.fixture.path("gone"), 0o750);
    let before = session.fixture.files();
    session.agent(vec![
        session.fixture.delete("gone"),
        session.fixture.rename("moved", "to/moved"),
        session.fixture.create("made/new", "new\n"),
        Operation::Delete { path: session.fixture.path("binary"), expected: binary },
    ]);
    session.agent(vec![session.fixture.replace("to/moved", "two", "2")]);
    let shown =
        ["binary deleted", "gone deleted", "made/new created", "to/moved moved", "to/moved 1..2 1..2"];
    assert_eq!(session.shown(), shown);
    let rejection = session.reject(Selection::All).unwrap();
    assert_eq!((rejection.rejected.len(), rejection.skipped.len()), (5, 0));
    let mut after = session.fixture.files();
    // The directory of a moved file stays.
    after.remove("to/");
    assert_eq!(after, before);
    assert_eq!(mode(session.fixture.path("gone")), 0o750);
    assert_eq!(session.shown(), [""; 0]);
}

#[test]
fn texts_keep_their_line_ends_and_marks() {
    let session = Session::new(&[("a", "\u{feff}one\r\ntwo\r\nthree")]);
    session.agent(vec![session.fixture.replace("a", "two\r\nthree", "2\r\n3")]);
    assert_eq!(session.shown(), ["a 1..3 1..3"]);
    session.reject(Selection::File(&session.fixture.path("a"))).unwrap();
    assert_eq!(session.fixture.text("a"), "\u{feff}one\r\ntwo\r\nthree");
}

#[test]
fn only_the_given_runs_are_reviewed() {
    let mut session = Session::new(&[("a", LINES), ("b", "b\n")]);
    session.agent(vec![session.fixture.replace("a", "one", "1"), session.fixture.replace("b", "b", "B")]);
    session.runs = vec![RunId::new()];
    session.agent(vec![session.fixture.replace("a", "five", "5")]);
    assert_eq!(session.shown(), ["a 4..5 4..5"]);
    session.reject(Selection::All).unwrap();
    assert_eq!(session.fixture.text("a"), LINES.replace("one", "1"));
}

#[test]
fn an_edited_hunk_of_a_deleted_file_stays_edited() {
    let mut session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "two", "2\n2b")]);
    session.fixture.write("a", LINES.replace("two", "2\nmine\n2b"));
    session.runs.push(RunId::new());
    session.agent(vec![session.fixture.delete("a")]);
    assert_eq!(session.shown(), ["a deleted edited"]);
    session.fixture.undo();
    assert_eq!(session.shown(), ["a 1..2 1..4 edited"]);
}

#[test]
fn a_file_that_the_user_writes_again_is_not_replaced() {
    let session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.delete("a")]);
    session.fixture.write("a", LINES.replace("two", "mine"));
    assert_eq!(session.shown(), ["a 1..2 1..2 edited"]);
}

#[test]
fn the_undo_of_a_deletion_brings_the_hunks_back() {
    let mut session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "two", "2")]);
    session.runs.push(RunId::new());
    session.agent(vec![session.fixture.delete("a")]);
    session.fixture.undo();
    assert_eq!(session.shown(), ["a 1..2 1..2"]);
}

#[test]
fn a_move_by_a_command_keeps_the_users_edits() {
    let mut session = Session::new(&[("a", LINES), ("b", "b\n")]);
    session.agent(vec![session.fixture.replace("a", "two", "2\n2b")]);
    session.agent(vec![session.fixture.replace("a", "five", "5")]);
    session.fixture.write("a", session.fixture.text("a").replace("2b", "mine\n2b"));
    session.runs.push(RunId::new());
    session.command(vec![session.fixture.rename("a", "to"), session.fixture.rename("b", "c")]);
    assert_eq!(session.shown(), ["c moved", "to moved", "to 1..2 1..4 edited", "to 4..5 6..7"]);
    session.fixture.undo();
    assert_eq!(session.shown(), ["a 1..2 1..4 edited", "a 4..5 6..7"]);
    session.fixture.apply_undo(session.fixture.workspace.plan_redo());
    let rejection = session.reject(Selection::All).unwrap();
    assert_eq!((rejection.rejected.len(), rejection.skipped.len()), (3, 1));
    assert_eq!(session.fixture.text("a"), LINES.replace("two", "2\nmine\n2b"));
    assert_eq!(session.fixture.text("b"), "b\n");
}

#[test]
fn copies_of_a_deleted_file_keep_the_users_edits() {
    let session = Session::new(&[("a", LINES), ("over", "over\n")]);
    session.agent(vec![session.fixture.replace("a", "two", "2\n2b")]);
    let text = LINES.replace("two", "2\nmine\n2b");
    session.fixture.write("a", &text);
    session.command(vec![
        session.fixture.delete("a"),
        session.fixture.create("b", &text),
        session.fixture.create("c", &text),
        session.fixture.replace("over", "over\n", &text),
    ]);
    let shown = ["a deleted edited", "b created edited", "c created edited", "over 0..1 0..7 edited"];
    assert_eq!(session.shown(), shown);
}

#[test]
fn the_undo_of_a_run_that_moved_a_file_leaves_nothing() {
    let session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "two", "2")]);
    session.command(vec![session.fixture.rename("a", "to")]);
    session.fixture.undo();
    assert_eq!((session.fixture.text("a"), session.shown()), (LINES.to_owned(), vec![]));
}

#[test]
fn an_undone_rejection_is_the_change_of_its_run() {
    let mut session = Session::new(&[("a", LINES), ("b", "b\n")]);
    session.agent(vec![session.fixture.replace("a", "two", "2")]);
    session.agent(vec![session.fixture.rename("b", "c")]);
    session.runs.push(RunId::new());
    session.agent(vec![session.fixture.replace("a", "four", "4")]);
    let rejection = session.reject(Selection::All).unwrap();
    session.runs.push(RunId::new());
    session.agent(vec![session.fixture.create("n", "new\n")]);
    let undo = || session.fixture.workspace.plan_undo(&Undo::Run(rejection.run.clone()));
    session.fixture.apply_undo(undo());
    assert_eq!(session.shown(), ["a 1..2 1..2", "a 3..4 3..4", "c moved", "n created"]);
    assert_eq!(session.authors(), [vec![0], vec![1], vec![0], vec![2]]);
    session.fixture.apply_undo(session.fixture.workspace.plan_redo());
    assert_eq!(session.shown(), ["n created"]);
    session.fixture.apply_undo(undo());
    assert_eq!(session.authors(), [vec![0], vec![1], vec![0], vec![2]]);
}

#[test]
fn an_undone_rejection_returns_after_another_change() {
    let mut session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "two", "2")]);
    let rejection = session.reject(Selection::All).unwrap();
    session.runs.push(RunId::new());
    session.agent(vec![session.fixture.replace("a", "four", "4")]);
    session.fixture.apply_undo(session.fixture.workspace.plan_undo(&Undo::Run(rejection.run)));
    assert_eq!(session.shown(), ["a 1..2 1..2", "a 3..4 3..4"]);
    assert_eq!(session.authors(), [[0], [1]]);
}

#[test]
fn an_undone_rejection_returns_beside_a_line_of_the_user() {
    let session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "two", "2")]);
    // No commit has this line.
    let text = session.fixture.text("a");
    session.fixture.write("a", format!("{text}mine\n"));
    let rejection = session.reject(Selection::All).unwrap();
    session.fixture.apply_undo(session.fixture.workspace.plan_undo(&Undo::Run(rejection.run)));
    assert_eq!(session.shown(), ["a 1..2 1..2"]);
}

#[test]
fn an_undone_restore_of_another_session_is_not_reviewed() {
    let mut session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "two", "2")]);
    session.keep(Selection::All);
    let restore = session.fixture.workspace.plan_restore(&session.runs).unwrap();
    session.fixture.commit_plan(&restore.run, restore.plan).unwrap();
    session.fixture.undo();
    assert_eq!(session.shown(), [""; 0]);
    session.runs = vec![RunId::new()];
    session.agent(vec![session.fixture.create("n", "new\n")]);
    assert_eq!(session.shown(), ["n created"]);
}

#[test]
fn a_decision_about_one_run_leaves_the_others() {
    let mut session = Session::new(&[("a", LINES)]);
    session.agent(vec![session.fixture.replace("a", "one", "1\n1b")]);
    session.runs.push(RunId::new());
    session.agent(vec![session.fixture.replace("a", "three", "3")]);
    session.runs.push(RunId::new());
    session.agent(vec![session.fixture.replace("a", "five", "5")]);
    session.only = Some(1);
    assert_eq!(session.shown(), ["a 3..4 3..4"]);
    let review = session.fixture.workspace.review(NAME, &session.runs, session.scope()).unwrap();
    let before = session.fixture.text("a").replace("3", "three");
    assert_eq!(review.files[0].before.as_deref(), Some(before.as_str()));
    session.keep(Selection::All);
    session.only = Some(2);
    assert_eq!(session.shown(), ["a 5..6 5..6"]);
    session.reject(Selection::All).unwrap();
    assert_eq!(session.fixture.text("a"), "1\n1b\ntwo\n3\nfour\nfive\n");
    session.only = None;
    assert_eq!(session.authors(), [[0]]);
}

#[test]
fn concurrent_decisions_are_all_stored() {
    let session = Session::new(&[]);
    let names: Vec<String> = (0..8).map(|nth| format!("f{nth}")).collect();
    session.agent(names.iter().map(|name| session.fixture.create(name, "new\n")).collect());
    std::thread::scope(|scope| {
        for name in &names {
            let path = session.fixture.path(name);
            let session = &session;
            scope.spawn(move || session.keep(Selection::File(&path)));
        }
    });
    assert_eq!(session.shown(), [""; 0]);
}
