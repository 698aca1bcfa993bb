//! Plans: the outcome of operations, and refused operations.

use std::os::unix::fs::symlink;

use policy::Writes;

use super::*;
use crate::{ChangeKind, ContentHash, ReadError};

fn hash(text: &str) -> Version {
    Version { hash: ContentHash::of(text.as_bytes()), editor: None }
}

/// Renders each change as `kind path before -> after`.
#[track_caller]
fn check(fixture: &Fixture, operations: Vec<Operation>, expected: &[&str]) -> Plan {
    let before = fixture.files();
    let plan = fixture.plan(operations).unwrap();
    let shown: Vec<String> = plan
        .changes()
        .iter()
        .map(|change| {
            let kind = match &change.kind {
                ChangeKind::Modified => "modified".to_owned(),
                ChangeKind::Created => "created".to_owned(),
                ChangeKind::Deleted => "deleted".to_owned(),
                ChangeKind::Renamed { from } => format!("{} ->", fixture.workspace.relative(from)),
            };
            let path = fixture.workspace.relative(&change.path);
            if let (Some(before), Some(after)) = (&change.before, &change.after) {
                assert_eq!(text::apply(before, &change.edits).unwrap(), **after, "{path}");
            }
            let text = |side: &Option<std::sync::Arc<str>>| side.as_deref().unwrap_or("-").to_owned();
            format!("{kind} {path}: {} -> {}", text(&change.before), text(&change.after))
        })
        .collect();
    assert_eq!(shown, expected);
    assert_eq!(plan.is_empty(), expected.is_empty());
    assert_eq!(fixture.files(), before, "planning writes nothing");
    plan
}

#[test]
fn later_operations_see_the_effects_of_earlier_ones() {
    let fixture = Fixture::new(&[("a", "one"), ("b", "two")]);
    let edit = |path: &str, expected: &str, range: std::ops::Range<usize>, new: &str| Operation::Edit {
        path: fixture.path(path),
        expected: hash(expected),
        edits: vec![TextEdit::replace(range, new)],
    };
    let replace = |from: &str, to: &str| fixture.rename(from, to);
    check(&fixture, vec![replace("a", "c"), edit("c", "one", 0..1, "O")], &["a -> c: one -> One"]);
    check(&fixture, vec![edit("a", "one", 0..1, "O"), edit("a", "One", 1..3, "")], &["modified a: one -> O"]);
    check(&fixture, vec![fixture.create("n/m", "x"), edit("n/m", "x", 1..1, "y")], &["created n/m: - -> xy"]);
    check(&fixture, vec![replace("a", "t"), replace("t", "u"), replace("u", "v")], &["a -> v: one -> one"]);
    let swap = vec![replace("a", "t"), replace("b", "a"), replace("t", "b")];
    check(&fixture, swap.clone(), &["b -> a: two -> two", "a -> b: one -> one"]);
    let twice = [swap.clone(), swap].concat();
    check(&fixture, twice, &[]);
    check(&fixture, vec![fixture.delete("a"), replace("b", "a")], &["b -> a: two -> two"]);
    check(&fixture, vec![fixture.delete("a"), fixture.create("a", "new")], &["modified a: one -> new"]);
    check(
        &fixture,
        vec![
            fixture.create("x", ""),
            edit("x", "", 0..0, "y"),
            Operation::Delete { path: fixture.path("x"), expected: hash("y") },
        ],
        &[],
    );
    let over = Operation::Rename {
        from: fixture.path("a"),
        to: fixture.path("b"),
        expected: Some(hash("one")),
        replaces: Some(hash("two")),
    };
    check(&fixture, vec![over], &["a -> b: one -> one"]);
    check(&fixture, vec![replace("a", "A")], &["a -> A: one -> one"]);
}

#[test]
fn an_edit_without_effect_gives_an_empty_plan() {
    let fixture = Fixture::new(&[("a", "one\n")]);
    let same = fixture.replace("a", "one", "one");
    let whole = Operation::Create {
        path: fixture.path("a"),
        text: "one\n".to_owned(),
        replaces: Some(hash("one\n")),
    };
    let plan = check(&fixture, vec![same, whole, fixture.rename("a", "a")], &[]);
    assert_eq!(plan.effects().writes, Writes::None);
    assert_eq!((plan.counts(), plan.diff(fixture.workspace.root())), ((0, 0, 0), String::new()));
}

#[test]
fn byte_order_mark_and_line_ends_stay() {
    let fixture = Fixture::new(&[("a", "\u{feff}one\r\ntwo\n")]);
    let plan = fixture.plan(vec![fixture.replace("a", "one", "1")]).unwrap();
    let after = plan.steps[0].after.clone().unwrap();
    assert_eq!(&*after.content.bytes(), "\u{feff}1\r\ntwo\n".as_bytes());
    let whole = Operation::Create {
        path: fixture.path("a"),
        text: "new".to_owned(),
        replaces: Some(fixture.version("a")),
    };
    let plan = fixture.plan(vec![whole]).unwrap();
    assert_eq!(&*plan.steps[0].after.clone().unwrap().content.bytes(), "\u{feff}new".as_bytes());
}

#[test]
fn a_directory_moves_with_its_contents() {
    let fixture = Fixture::new(&[("old/a", "a"), ("old/sub/b", "b"), ("c", "c")]);
    let root = fixture.workspace.root().as_path().to_owned();
    write(&root.join("old/picture"), b"\xff\x00\x01");
    symlink("a", root.join("old/link")).unwrap();
    std::fs::create_dir(root.join("old/empty")).unwrap();
    let plan = check(
        &fixture,
        vec![
            fixture.create("old/new", "n"),
            fixture.rename("old", "moved/here"),
            fixture.rename("c", "moved/here/c"),
        ],
        &[
            "old/a -> moved/here/a: a -> a",
            "c -> moved/here/c: c -> c",
            "old/link -> moved/here/link: - -> -",
            "created moved/here/new: - -> n",
            "old/picture -> moved/here/picture: - -> -",
            "old/sub/b -> moved/here/sub/b: b -> b",
        ],
    );
    let made: Vec<_> =
        plan.made.iter().map(|directory| fixture.workspace.relative(&directory.path)).collect();
    assert_eq!(made, ["moved/here", "moved/here/empty", "moved/here/sub"]);
    let missing = fixture.plan(vec![fixture.rename("old", "moved"), fixture.rename("old", "again")]);
    assert!(matches!(missing, Err(PlanError::Read(ReadError::NotFound { .. }))), "{missing:?}");
    assert!(matches!(fixture.plan(vec![fixture.rename("old", "old/in")]), Err(PlanError::Impossible { .. })));
    std::fs::create_dir(root.join("taken")).unwrap();
    assert!(matches!(fixture.plan(vec![fixture.rename("old", "taken")]), Err(PlanError::Exists { .. })));
}

#[test]
fn stale_and_invalid_edits_are_refused() {
    let fixture = Fixture::new(&[("a", "one"), ("b", "two"), ("d/e", "x")]);
    write(&fixture.directory.as_path().join("root/latin"), b"\xe9");
    let edit = |path: &str, expected: Version, range| Operation::Edit {
        path: fixture.path(path),
        expected,
        edits: vec![TextEdit::replace(range, "")],
    };
    let refused = |operation| fixture.plan(vec![operation]).unwrap_err();
    assert!(matches!(refused(edit("a", hash("old"), 0..1)), PlanError::Stale { .. }));
    assert!(matches!(refused(edit("a", hash("one"), 0..9)), PlanError::Invalid { .. }));
    let large = "x".repeat(33 << 20);
    assert!(matches!(refused(fixture.replace("a", "one", &large)), PlanError::TooLarge { .. }));
    assert!(matches!(refused(fixture.create("large", &large)), PlanError::TooLarge { .. }));
    let latin = Version { hash: ContentHash::of(b"\xe9"), editor: None };
    assert!(matches!(
        refused(edit("latin", latin, 0..1)),
        PlanError::Read(ReadError::NotUtf8 { offset: 0, .. })
    ));
    assert!(matches!(refused(edit("none", hash(""), 0..0)), PlanError::Read(ReadError::NotFound { .. })));
    assert!(matches!(refused(edit("d", hash(""), 0..0)), PlanError::Read(ReadError::NotAFile { .. })));
    assert!(matches!(refused(fixture.create("a", "")), PlanError::Exists { .. }));
    assert!(matches!(refused(fixture.create("d", "")), PlanError::Exists { .. }));
    assert!(matches!(refused(fixture.create("a/b", "")), PlanError::Impossible { .. }));
    assert!(matches!(refused(fixture.create("../x", "")), PlanError::Outside { .. }));
    assert!(matches!(refused(fixture.rename("a", "b")), PlanError::Exists { .. }));
    let stale = Operation::Delete { path: fixture.path("a"), expected: hash("old") };
    assert!(matches!(refused(stale), PlanError::Stale { .. }));
    let twice = fixture.plan(vec![fixture.replace("a", "one", "1"), fixture.replace("a", "one", "1")]);
    assert!(
        matches!(twice, Err(PlanError::Stale { .. })),
        "the second was made for the text before the first"
    );
}

#[test]
fn a_file_open_in_another_editor_is_refused() {
    for (trace, who) in [(".a.py.swp", "Vim"), (".a.py.swo", "Vim"), (".#a.py", "Emacs")] {
        let fixture = Fixture::new(&[("a.py", "one")]);
        symlink("me@here.1234:1", fixture.path(trace)).unwrap();
        match fixture.plan(vec![fixture.replace("a.py", "one", "two")]) {
            Err(PlanError::Held { path, reason }) => {
                assert_eq!(path, fixture.path("a.py"));
                assert!(reason.starts_with(who) && reason.contains(trace), "{reason}");
            }
            other => panic!("{trace}: {other:?}"),
        }
    }
}

#[test]
fn the_digest_identifies_the_outcome() {
    let fixture = Fixture::new(&[("a", "one"), ("b", "one")]);
    let digest = |operation| fixture.plan(vec![operation]).unwrap().digest();
    let first = digest(fixture.replace("a", "one", "1"));
    assert_eq!(first, digest(fixture.replace("a", "one", "1")));
    assert_ne!(first, digest(fixture.replace("a", "one", "2")));
    assert_ne!(first, digest(fixture.replace("b", "one", "1")));
    write(&fixture.directory.as_path().join("root/a"), "one!");
    assert_ne!(first, digest(fixture.replace("a", "one!", "1")), "the text before counts");
}

#[test]
fn a_plan_has_one_diff() {
    let fixture = Fixture::new(&[("a", "one\ntwo\n"), ("b", "x\n")]);
    let plan = fixture
        .plan(vec![
            fixture.replace("a", "two", "2"),
            fixture.rename("a", "c"),
            fixture.delete("b"),
            fixture.create("d", "new\n"),
        ])
        .unwrap();
    assert_eq!(
        plan.diff(fixture.workspace.root()),
        "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\nrename from a\nrename to c\n--- a/a\n+++ b/c\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+new\n"
    );
    assert_eq!(plan.counts(), (3, 2, 2));
    let paths = ["a", "b", "c", "d"].map(|path| fixture.path(path)).to_vec();
    assert_eq!(plan.effects().writes, Writes::Paths(paths));
}

#[test]
fn overwritten_files_are_in_the_diff_and_the_counts() {
    let fixture = Fixture::new(&[("a", "one\n"), ("b", "precious\nlines\n"), ("c", "old\n")]);
    let bytes = [0xff, 0xfe, 0];
    fixture.write("picture", bytes);
    let replaced = |from: &str, to: &str, version| Operation::Rename {
        from: fixture.path(from),
        to: fixture.path(to),
        expected: None,
        replaces: Some(version),
    };
    let over = |from: &str, to: &str| replaced(from, to, fixture.version(to));
    let recreate = |path: &str, text: &str| Operation::Create {
        path: fixture.path(path),
        text: text.to_owned(),
        replaces: Some(fixture.version(path)),
    };
    let shown = |operations| {
        let plan = fixture.plan(operations).unwrap();
        let lost = |change: &crate::FileChange| {
            let text = change.overwritten.as_ref()?.text.as_deref().unwrap_or("-").to_owned();
            Some((fixture.workspace.relative(&change.path), text))
        };
        let lost: Vec<_> = plan.changes().iter().filter_map(lost).collect();
        (plan.counts(), plan.diff(fixture.workspace.root()), lost)
    };
    let lost = |path: &str, text: &str| vec![(path.to_owned(), text.to_owned())];
    let gone = "--- a/b\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-precious\n-lines\nrename from a\nrename to b\n";
    assert_eq!(shown(vec![over("a", "b")]), ((2, 0, 2), gone.to_owned(), lost("b", "precious\nlines\n")));
    let gone = vec![fixture.delete("b"), fixture.rename("a", "b")];
    assert_eq!(shown(gone).0, (2, 0, 2), "however it goes");
    let picture = "binary file picture deleted\nrename from a\nrename to picture\n";
    let version = Version { hash: ContentHash::of(&bytes), editor: None };
    assert_eq!(
        shown(vec![replaced("a", "picture", version)]),
        ((2, 0, 0), picture.to_owned(), lost("picture", "-"))
    );
    let (counts, _, whole) = shown(vec![recreate("c", "new\n")]);
    assert_eq!((counts, whole), ((1, 1, 1), lost("c", "old\n")));
    let swap = vec![fixture.rename("a", "t"), fixture.rename("b", "a"), fixture.rename("t", "b")];
    let swapped = shown(swap);
    assert_eq!((swapped.0, swapped.2), ((2, 0, 0), Vec::new()), "nothing goes");
}

#[test]
fn a_directory_is_deleted_empty_or_recursively() {
    let fixture = Fixture::new(&[("d/a", "one"), ("d/e/b", "two"), ("c", "three")]);
    fixture.write("d/e/picture", [0xff, 0xfe, 0]);
    let gone = |path: &str, recursive| Operation::DeleteDirectory { path: fixture.path(path), recursive };
    let refused = fixture.plan(vec![gone("d", false)]).unwrap_err();
    expect_test::expect!["d cannot be changed like this: it is not empty: d/a is in it"]
        .assert_eq(&fixture.relative(&refused.to_string()));
    assert!(matches!(fixture.plan(vec![gone("c", true)]), Err(PlanError::Read(ReadError::NotFound { .. }))));
    let before = fixture.files();
    fixture.commit(vec![fixture.rename("d/a", "kept"), gone("d", true)]).unwrap();
    assert_eq!(fixture.files().keys().collect::<Vec<_>>(), ["c", "kept"]);
    fixture.undo();
    assert_eq!(fixture.files(), before);
    // Earlier operations empty the directory.
    let empty = vec![fixture.rename("d/e/b", "b"), fixture.rename("d/e/picture", "p"), gone("d/e", false)];
    fixture.commit(empty).unwrap();
    assert_eq!(fixture.files().keys().collect::<Vec<_>>(), ["b", "c", "d/a", "p"]);
}
