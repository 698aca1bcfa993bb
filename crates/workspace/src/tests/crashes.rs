//! Kills at every step of a commit, and concurrent commits, with real processes.
//!
//! A child is this test binary again; the environment selects its role.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::RecoveryNote;

const FILES: [(&str, &str); 4] =
    [("a.py", "one\n"), ("c.py", "three\r\n"), ("linked.py", "a text that is long\n"), ("z.py", "last\n")];

/// A commit of every kind of change.
fn operations(fixture: &Fixture) -> Vec<Operation> {
    vec![
        fixture.replace("a.py", "one", "1"),
        fixture.create("new/deep/b.py", "two\n"),
        fixture.replace("c.py", "three", "3"),
        fixture.rename("c.py", "d.py"),
        fixture.replace("linked.py", "a text that is long", "short"),
        fixture.delete("z.py"),
    ]
}

fn fixture() -> Fixture {
    let fixture = Fixture::new(&FILES);
    std::fs::hard_link(fixture.path("linked.py"), fixture.path("twin.py")).unwrap();
    set_mode(fixture.path("a.py"), 0o755);
    fixture
}

#[test]
fn child() {
    let Ok(work) = std::env::var("PILCROW_TEST_CHILD") else { return };
    let (work, directory) = work.split_once(' ').unwrap();
    let fixture = Fixture::existing(Path::new(directory));
    match work {
        "commit" => drop(fixture.commit(operations(&fixture)).unwrap()),
        "move" => drop(fixture.commit(vec![fixture.rename("old", "new/place")]).unwrap()),
        "append" => {
            for n in 0..15 {
                append(&fixture, &format!("{} {n}\n", std::process::id()));
            }
        }
        other => panic!("{other}"),
    }
}

/// Adds a line to both files, planning again until the commit succeeds.
fn append(fixture: &Fixture, line: &str) {
    loop {
        let end = |path: &str| {
            let document = fixture.workspace.document(&fixture.path(path)).unwrap();
            let edits = vec![TextEdit::insert(document.text.len(), line)];
            Operation::Edit { path: document.path, expected: document.version, edits }
        };
        let plan = match fixture.plan(vec![end("a.py"), end("z.py")]) {
            Ok(plan) => plan,
            Err(PlanError::Stale { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        match fixture.commit_plan(&RunId::new(), plan) {
            Ok(commit) => {
                assert!(commit.notes.is_empty(), "{:?}", commit.notes);
                return;
            }
            Err(CommitError::Moved { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn start(work: &str, fixture: &Fixture, fault: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::crashes::child", "--nocapture"])
        .env("PILCROW_TEST_CHILD", format!("{work} {}", fixture.directory.as_path().display()))
        .env("PILCROW_FAULT", fault)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[track_caller]
fn killed_at(fixture: &Fixture, fault: &str) {
    let status = start("commit", fixture, fault).wait().unwrap();
    assert_eq!(status.signal(), Some(9), "{fault} is a step of this commit: {status}");
}

fn reopen(fixture: &Fixture) -> Vec<RecoveryNote> {
    Workspace::open(&fixture.directory.as_path().join("root"), &state(fixture.directory.as_path()), None)
        .unwrap()
        .1
}

fn pending(fixture: &Fixture) -> Vec<String> {
    let names = fixture.workspace.state().child("journal").unwrap().list().unwrap();
    names.into_iter().filter(|name| name.contains("pending")).collect()
}

#[test]
fn a_kill_at_any_step_leaves_all_or_nothing_changed() {
    let undisturbed = fixture();
    let before = undisturbed.files();
    undisturbed.commit(operations(&undisturbed)).unwrap();
    let after = undisturbed.files();

    let once = [
        "after-lock",
        "after-blobs",
        "after-journal",
        "after-editor",
        "mid-in-place:1",
        "after-directories",
        "before-done",
        "after-done",
    ];
    let counted =
        (1..=3).map(|n| format!("after-temp:{n}")).chain((1..=6).map(|n| format!("after-rename:{n}")));
    for step in once.into_iter().map(str::to_owned).chain(counted) {
        let fixture = fixture();
        killed_at(&fixture, &format!("commit:{step}"));
        let visible = fixture.files() != before;
        let notes = reopen(&fixture);
        let expected = if step == "after-done" { &after } else { &before };
        assert_eq!(fixture.files(), *expected, "{step}");
        assert_eq!(mode(fixture.path("a.py")), 0o755, "{step}");
        assert_eq!(pending(&fixture), [""; 0], "{step}");
        if ["after-directories", "before-done"].contains(&step.as_str()) {
            assert!(visible && notes.len() == 6, "{step}: {notes:?}");
        }
        assert_eq!(reopen(&fixture).len(), 0, "{step}: reported once");
        if step != "after-done" {
            fixture.commit(operations(&fixture)).unwrap();
            assert_eq!(fixture.files(), after, "{step}: the same commit works afterwards");
        }
        fixture.undo();
        assert_eq!(fixture.files(), before, "{step}");
        let blobs = fixture.workspace.state().child("blobs").unwrap().list().unwrap();
        assert_eq!(blobs.len(), 2, "{step}: a commit and its undo, nothing of the killed one: {blobs:?}");
    }
}

#[test]
fn an_interrupted_directory_move_is_reverted() {
    use std::os::unix::fs::MetadataExt;
    let inode = |path: AbsPath| std::fs::metadata(path).unwrap().ino();
    for step in ["after-temp:1", "after-rename:2", "after-rename:3", "before-done"] {
        let fixture = Fixture::new(&[("old/a", "a"), ("old/sub/b", "b")]);
        std::fs::create_dir(fixture.path("old/empty")).unwrap();
        set_mode(fixture.path("old/sub"), 0o750);
        set_mode(fixture.path("old/empty"), 0o700);
        let (before, file) = (fixture.files(), inode(fixture.path("old/sub/b")));
        let status = start("move", &fixture, &format!("commit:{step}")).wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{step}");
        reopen(&fixture);
        assert_eq!(fixture.files(), before, "{step}");
        assert_eq!(
            [mode(fixture.path("old/sub")), mode(fixture.path("old/empty"))],
            [0o750, 0o700],
            "{step}"
        );
        if step == "before-done" {
            assert_eq!(inode(fixture.path("old/sub/b")), file, "it is the same file");
        }
    }
}

#[test]
fn the_next_commit_also_recovers() {
    let fixture = fixture();
    killed_at(&fixture, "commit:after-rename:2");
    // This workspace was opened before the crash.
    let commit = fixture.commit(vec![fixture.create("other", "x")]).unwrap();
    assert!(commit.notes.iter().any(|note| note.contains("unfinished commit")), "{:?}", commit.notes);
    let mut files = fixture.files();
    assert_eq!(files.remove("other"), Some(b"x".to_vec()));
    let before: BTreeMap<_, _> = FILES
        .into_iter()
        .chain([("twin.py", FILES[2].1)])
        .map(|(path, text)| (path.to_owned(), text.into()))
        .collect();
    assert_eq!(files, before);
}

#[test]
fn recovery_keeps_and_reports_foreign_changes() {
    let fixture = fixture();
    let before = fixture.files();
    killed_at(&fixture, "commit:before-done");
    fixture.write("a.py", "foreign\n");
    fixture.write("new/deep/b.py", "foreign\n");
    fixture.write("c.py", "foreign\n");
    let notes = reopen(&fixture);
    let mut expected = before.clone();
    let mut said = Vec::new();
    for path in ["a.py", "new/deep/b.py", "c.py"] {
        expected.insert(path.to_owned(), b"foreign\n".to_vec());
        let note = notes.iter().find(|note| note.path == fixture.path(path)).unwrap();
        said.push(note.detail.split("; its earlier content is in ").next().unwrap().to_owned());
        if let Some((_, kept)) = note.detail.split_once("content is in ") {
            assert_eq!(std::fs::read(kept).unwrap(), before[path]);
        } else {
            assert_eq!(path, "new/deep/b.py", "only a new file has no earlier content");
        }
    }
    expect_test::expect![[r#"
        another program changed it since, so it was not reverted
        another program changed it since, so it was not reverted
        another program changed it since, so it was not reverted"#]]
    .assert_eq(&said.join("\n"));
    assert_eq!(fixture.files(), expected);
    assert_eq!(pending(&fixture), [""; 0]);
}

#[test]
fn a_damaged_entry_is_moved_aside_and_reported() {
    let fixture = fixture();
    killed_at(&fixture, "commit:after-journal");
    let journal = fixture.workspace.state().child("journal").unwrap();
    journal.write_atomic(&pending(&fixture)[0], b"{").unwrap();
    let notes = reopen(&fixture);
    assert!(notes[0].detail.contains("damaged") && notes[0].path.as_path().exists(), "{notes:?}");
    assert!(reopen(&fixture).is_empty());
}

#[test]
fn a_commit_of_a_living_process_is_left_alone() {
    let fixture = fixture();
    killed_at(&fixture, "commit:after-rename:1");
    let torn = fixture.files();
    let lock = fixture.workspace.state().lock("commit.lock", std::time::Duration::from_secs(20)).unwrap();
    assert!(reopen(&fixture).is_empty());
    assert_eq!(fixture.files(), torn);
    drop(lock);
    assert!(!reopen(&fixture).is_empty());
}

#[test]
fn commits_of_two_processes_do_not_mix() {
    let fixture = Fixture::new(&[("a.py", ""), ("z.py", "")]);
    let mut children: Vec<Child> = (0..3).map(|_| start("append", &fixture, "")).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(fixture.text("a.py"), fixture.text("z.py"));
    assert_eq!(fixture.text("a.py").lines().count(), 45, "no line was lost");
    assert_eq!(fixture.workspace.history().unwrap().len(), 45);
    let mut lines: Vec<_> =
        fixture.workspace.history().unwrap().into_iter().map(|record| record.id).collect();
    lines.dedup();
    assert_eq!(lines.len(), 45);
}
