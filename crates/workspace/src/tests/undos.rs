//! Undo and redo: exact, and never at the cost of other changes.

use policy::ErrorCode;
use proptest::prelude::*;

use super::*;
use crate::{ChangeKind, CommitId};

const LINES: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

#[test]
fn undo_and_redo_are_byte_identical() {
    let fixture = Fixture::new(&[("a", "\u{feff}one\r\ntwo"), ("b", "b\n"), ("c", "c\n")]);
    set_mode(fixture.path("b"), 0o750);
    let before = fixture.files();
    let run = RunId::new();
    fixture
        .commit_as(
            &run,
            vec![fixture.replace("a", "one", "1"), fixture.delete("b"), fixture.create("n/new", "n")],
        )
        .unwrap();
    fixture
        .commit_as(
            &run,
            vec![
                fixture.replace("a", "two", "2"),
                fixture.rename("c", "n/c"),
                fixture.replace("n/new", "n", "N"),
            ],
        )
        .unwrap();
    let after = fixture.files();
    for _ in 0..2 {
        let undone = fixture.undo();
        assert_eq!(undone.label, "undo: a change and 1 more");
        assert_eq!(fixture.files(), before);
        assert_eq!(mode(fixture.path("b")), 0o750);
        assert!(matches!(
            fixture.workspace.plan_undo(&Undo::LastRun),
            Err(UndoError::Nothing { what: "undo" })
        ));
        let redone = fixture.apply_undo(fixture.workspace.plan_redo());
        assert_eq!(redone.label, "redo: a change and 1 more");
        assert_eq!(fixture.files(), after);
        assert!(matches!(fixture.workspace.plan_redo(), Err(UndoError::Nothing { what: "redo" })));
    }
    let history = fixture.workspace.history().unwrap();
    assert_eq!(history.len(), 6);
    assert!(history.iter().all(|record| record.label.starts_with("undo") == record.undone_by.is_some()));
}

#[test]
fn undo_reverts_the_last_run_as_a_whole() {
    let fixture = Fixture::new(&[("a", "0\n")]);
    let mut ids = Vec::new();
    for n in 1..=3 {
        ids.push(fixture.commit(vec![fixture.replace("a", &(n - 1).to_string(), &n.to_string())]).unwrap());
    }
    fixture.undo();
    assert_eq!(fixture.text("a"), "2\n");
    fixture.undo();
    assert_eq!(fixture.text("a"), "1\n");
    for expected in ["2\n", "3\n"] {
        fixture.apply_undo(fixture.workspace.plan_redo());
        assert_eq!(fixture.text("a"), expected);
    }
    fixture.undo();
    fixture.commit(vec![fixture.replace("a", "2", "x")]).unwrap();
    assert!(
        matches!(fixture.workspace.plan_redo(), Err(UndoError::Nothing { .. })),
        "something was done since"
    );
    let again = fixture.workspace.plan_undo(&Undo::Commit(ids[2].id.clone()));
    assert!(matches!(again, Err(UndoError::AlreadyUndone { .. })));
    let unknown = fixture.workspace.plan_undo(&Undo::Commit(CommitId("none".into())));
    assert!(matches!(unknown, Err(UndoError::Unknown { .. })));
    assert!(matches!(fixture.workspace.plan_undo(&Undo::Run(RunId::new())), Err(UndoError::Unknown { .. })));
}

#[test]
fn one_commit_of_many_can_be_undone() {
    let fixture = Fixture::new(&[("a", LINES)]);
    let first = fixture.commit(vec![fixture.replace("a", "two", "TWO")]).unwrap();
    let second = fixture.commit(vec![fixture.replace("a", "five", "FIVE")]).unwrap();
    fixture.apply_undo(fixture.workspace.plan_undo(&Undo::Commit(first.id.clone())));
    assert_eq!(fixture.text("a"), LINES.replace("five", "FIVE"));
    fixture.apply_undo(fixture.workspace.plan_undo(&Undo::Run(second.run.clone())));
    assert_eq!(fixture.text("a"), LINES);
}

#[test]
fn undo_keeps_the_users_other_edits() {
    let fixture = Fixture::new(&[("a", LINES), ("old", LINES)]);
    fixture
        .commit(vec![
            fixture.replace("a", "two\n", "2\n2b\n"),
            fixture.replace("old", "six", "SIX"),
            fixture.rename("old", "moved/new"),
        ])
        .unwrap();
    fixture.write("a", fixture.text("a").replace("one\n", "zero\none\n").replace("seven", "SEVEN"));
    fixture.write("moved/new", fixture.text("moved/new").replace("one", "1"));
    fixture.undo();
    assert_eq!(fixture.text("a"), LINES.replace("one\n", "zero\none\n").replace("seven", "SEVEN"));
    assert_eq!(fixture.text("old"), LINES.replace("one", "1"));
    assert_eq!(fixture.files().len(), 2, "the directory that was made is gone again");
}

#[test]
fn undo_names_and_skips_user_changes() {
    let fixture = Fixture::new(&[("a", LINES), ("gone", "x"), ("b", LINES)]);
    fixture
        .commit(vec![
            fixture.replace("a", "two", "TWO"),
            fixture.replace("b", "two", "TWO"),
            fixture.create("made", "m"),
            fixture.delete("gone"),
        ])
        .unwrap();
    fixture.commit(vec![fixture.replace("a", "six", "SIX")]).unwrap();
    let first = fixture.workspace.history().unwrap()[1].id.clone();
    fixture.write("a", fixture.text("a").replace("TWO", "TWOOO"));
    fixture.write("made", "mine");
    fixture.write("gone", "mine");
    let plan = fixture.workspace.plan_undo(&Undo::Commit(first)).unwrap();
    let skipped: Vec<_> = plan
        .skipped
        .iter()
        .map(|skipped| format!("{}: {}", skipped.path.file_name(), skipped.reason))
        .collect();
    assert_eq!(
        skipped,
        [
            "a: line 2 changed since and is not reverted",
            "gone: the path exists again, so the deleted file is not restored",
            "made: it changed since it was created, so it stays",
        ]
    );
    fixture.apply_undo(Ok(plan));
    assert_eq!(fixture.text("b"), LINES, "the others are undone");
    assert_eq!(fixture.text("a"), LINES.replace("two", "TWOOO").replace("six", "SIX"));
    assert_eq!(["made", "gone"].map(|path| fixture.text(path)), ["mine", "mine"]);
}

#[test]
fn undo_can_skip_one_hunk_of_a_file() {
    let fixture = Fixture::new(&[("a", LINES)]);
    let document = fixture.workspace.document(&fixture.path("a")).unwrap();
    let changed = LINES.replace("two", "TWO").replace("six", "SIX");
    let edit = Operation::Edit {
        path: document.path.clone(),
        expected: document.version,
        edits: vec![TextEdit::replace(0..LINES.len(), changed)],
    };
    fixture.commit(vec![edit]).unwrap();
    fixture.write("a", fixture.text("a").replace("SIX", "SIXTH\nMORE"));
    let plan = fixture.workspace.plan_undo(&Undo::LastRun).unwrap();
    assert_eq!(plan.skipped.len(), 1);
    assert!(plan.skipped[0].reason.contains('6'), "{:?}", plan.skipped);
    fixture.apply_undo(Ok(plan));
    assert_eq!(fixture.text("a"), LINES.replace("six", "SIXTH\nMORE"));
}

#[test]
fn an_undo_without_effect_gives_the_reason() {
    let fixture = Fixture::new(&[("a", "one\n")]);
    fixture.commit(vec![fixture.replace("a", "one", "two")]).unwrap();
    fixture.write("a", "three\n");
    match fixture.workspace.plan_undo(&Undo::LastRun) {
        Err(error @ UndoError::NothingFits { .. }) => {
            assert_eq!(error.code(), ErrorCode::Conflict);
            assert!(error.to_string().contains("line 1"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    // A change that the user reverted by hand needs no undo.
    fixture.write("a", "one\n");
    let plan = fixture.workspace.plan_undo(&Undo::LastRun).unwrap();
    assert!(plan.plan.is_empty());
    fixture.apply_undo(Ok(plan));
    assert!(matches!(fixture.workspace.plan_undo(&Undo::LastRun), Err(UndoError::Nothing { .. })));
}

#[test]
fn edits_within_one_later_change_give_one_reason() {
    let fixture = Fixture::new(&[("a", "one\nb\ntwo\nc\nthree\n")]);
    let document = fixture.workspace.document(&fixture.path("a")).unwrap();
    let edits = text::diff_edits(&document.text, "x\nb\nx\nc\nx\n");
    fixture.commit(vec![Operation::Edit { path: document.path, expected: document.version, edits }]).unwrap();
    fixture.write("a", "new\nc\nx\n");
    let plan = fixture.workspace.plan_undo(&Undo::LastRun).unwrap();
    let reasons: Vec<&str> = plan.skipped.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons, ["line 1 changed since and is not reverted"]);
    fixture.apply_undo(Ok(plan));
    assert_eq!(fixture.text("a"), "new\nc\nthree\n");
}

#[test]
fn a_move_is_not_undone_over_another_file() {
    let fixture = Fixture::new(&[("a", "one\n"), ("b", "two\n"), ("c", "three\n")]);
    fixture
        .commit(vec![fixture.rename("a", "x"), fixture.rename("b", "y"), fixture.replace("c", "three", "3")])
        .unwrap();
    fixture.write("a", "mine\n");
    std::fs::remove_file(fixture.path("y")).unwrap();
    let plan = fixture.workspace.plan_undo(&Undo::LastRun).unwrap();
    assert_eq!(plan.skipped.len(), 2, "{:?}", plan.skipped);
    fixture.apply_undo(Ok(plan));
    let files: Vec<_> = fixture
        .files()
        .into_iter()
        .map(|(path, text)| format!("{path}={}", String::from_utf8(text).unwrap()))
        .collect();
    assert_eq!(files, ["a=mine\n", "c=three\n", "x=one\n"]);
}

#[test]
fn a_replaced_file_comes_back() {
    let fixture = Fixture::new(&[("a", "one"), ("b", "two"), ("c", "three")]);
    let over = Operation::Rename {
        from: fixture.path("a"),
        to: fixture.path("b"),
        expected: None,
        replaces: Some(fixture.version("b")),
    };
    fixture.commit(vec![over, fixture.create("a", "new")]).unwrap();
    assert_eq!(["a", "b"].map(|path| fixture.text(path)), ["new", "one"]);
    fixture.undo();
    assert_eq!(["a", "b", "c"].map(|path| fixture.text(path)), ["one", "two", "three"]);
    fixture.apply_undo(fixture.workspace.plan_redo());
    assert_eq!(["a", "b", "c"].map(|path| fixture.text(path)), ["new", "one", "three"]);
}

#[test]
fn undo_removes_files_created_for_the_edit() {
    let fixture = Fixture::new(&[("a", "one")]);
    let before = fixture.files();
    fixture.write("made", "");
    let adopt = |path: &str| Operation::Adopt {
        path: fixture.path(path),
        text: "m".to_owned(),
        found: fixture.version(path),
    };
    let plan = fixture.plan(vec![adopt("made"), fixture.replace("a", "one", "1")]).unwrap();
    let kinds: Vec<_> =
        plan.changes().iter().map(|change| (change.kind.clone(), change.before.is_some())).collect();
    assert_eq!(kinds, [(ChangeKind::Modified, true), (ChangeKind::Created, false)]);
    fixture.commit(vec![adopt("made"), fixture.replace("a", "one", "1")]).unwrap();
    let after = fixture.files();
    assert_eq!(fixture.text("made"), "m");
    fixture.undo();
    assert_eq!(fixture.files(), before);
    fixture.apply_undo(fixture.workspace.plan_redo());
    assert_eq!(fixture.files(), after);
    // A directory with contents was not created for the file.
    assert!(matches!(fixture.plan(vec![adopt("a")]), Err(PlanError::Exists { .. })));
}

#[test]
fn a_directory_with_a_foreign_file_stays() {
    let fixture = Fixture::new(&[("a", "one")]);
    fixture.commit(vec![fixture.create("n/m/b", "two")]).unwrap();
    fixture.write("n/mine", "x");
    fixture.undo();
    assert_eq!(fixture.files().into_keys().collect::<Vec<_>>(), ["a", "n/mine"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Undoes a run of edits of single lines, which restores the original bytes.
    ///
    /// Lines that the user added between blocks of untouched lines stay.
    #[test]
    fn undo_restores_bytes_and_keeps_the_users_edits(
        steps in prop::collection::vec(prop::collection::vec((0usize..10, "[a-zé😀]{0,6}(\r?\n)?"), 1..4), 1..4),
        user in prop::collection::vec((0usize..10, "[A-Z]{1,5}"), 0..4),
    ) {
        // Ten editable lines, each with a fence of untouched lines around it.
        let line = |n: usize| format!("fence {n} a\nfence {n} b\neditable {n}\nfence {n} c\nfence {n} d\n");
        let original: String = (0..10).map(line).collect();
        let fixture = Fixture::new(&[("a", &original)]);
        let run = RunId::new();
        for step in &steps {
            let document = fixture.workspace.document(&fixture.path("a")).unwrap();
            let mut edits: BTreeMap<usize, TextEdit> = BTreeMap::new();
            for (n, new) in step {
                let start = document.text.find(&format!("fence {n} b\n")).unwrap() + format!("fence {n} b\n").len();
                let end = document.text.find(&format!("fence {n} c\n")).unwrap();
                edits.insert(*n, TextEdit::replace(start..end, format!("{new}\n")));
            }
            let edits = edits.into_values().collect();
            let edit = Operation::Edit { path: document.path, expected: document.version, edits };
            fixture.commit_as(&run, vec![edit]).unwrap();
        }
        let with_user_lines = |text: &str| user.iter().fold(text.to_owned(), |text, (n, word)| {
            text.replace(&format!("fence {n} d\n"), &format!("{word}\nfence {n} d\n"))
        });
        fixture.write("a", with_user_lines(&fixture.text("a")));
        let plan = match fixture.workspace.plan_undo(&Undo::LastRun) {
            Err(UndoError::Nothing { .. }) => return Ok(()),
            plan => plan.unwrap(),
        };
        prop_assert_eq!(&plan.skipped, &[]);
        fixture.apply_undo(Ok(plan));
        prop_assert_eq!(fixture.text("a"), with_user_lines(&original));
    }
}
