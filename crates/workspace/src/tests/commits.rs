//! Commits on the disk: all or nothing, with the files' attributes.

use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;

use policy::ErrorCode;

use super::*;
use crate::{ChangeKind, ContentHash};

fn inode(path: &AbsPath) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

#[test]
fn a_commit_makes_every_planned_change() {
    let fixture =
        Fixture::new(&[("a.py", "\u{feff}one\r\ntwo"), ("b.py", "b\n"), ("c.py", "c\n"), ("d.py", "d\n")]);
    set_mode(fixture.path("a.py"), 0o755);
    set_mode(fixture.path("b.py"), 0o640);
    let mut commits = fixture.workspace.subscribe();
    let run = RunId::new();
    let commit = fixture
        .commit_as(
            &run,
            vec![
                fixture.replace("a.py", "two", "2"),
                fixture.replace("b.py", "b", "B"),
                fixture.rename("b.py", "sub/b.py"),
                fixture.delete("c.py"),
                fixture.create("new/deep/e.py", "e\n"),
                fixture.rename("d.py", "D.py"),
            ],
        )
        .unwrap();
    let after: BTreeMap<String, Vec<u8>> =
        [("a.py", "\u{feff}one\r\n2"), ("sub/b.py", "B\n"), ("new/deep/e.py", "e\n"), ("D.py", "d\n")]
            .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
            .into();
    assert_eq!(fixture.files(), after);
    assert_eq!([mode(fixture.path("a.py")), mode(fixture.path("sub/b.py"))], [0o755, 0o640]);
    assert_eq!((&commit.run, commit.label.as_str(), commit.notes.len()), (&run, "a change", 0));
    let shown: Vec<_> = commit.files.iter().map(|file| fixture.workspace.relative(&file.path)).collect();
    assert_eq!(shown, ["D.py", "a.py", "c.py", "new/deep/e.py", "sub/b.py"]);
    assert_eq!(commit.files[1].version, Some(fixture.version("a.py")));
    assert_eq!(commit.files[1].edits, [TextEdit::replace(5..8, "2")]);
    assert_eq!((&commit.files[2].kind, commit.files[2].version), (&ChangeKind::Deleted, None));
    assert_eq!(commits.try_recv().unwrap().id, commit.id);
    let history = fixture.workspace.history().unwrap();
    assert_eq!((history.len(), &history[0].id, &history[0].undone_by), (1, &commit.id, &None));
    // Only the user may read the copies of the user's files.
    let state = fixture.workspace.state();
    assert_eq!(mode(state.path()), 0o700);
    assert_eq!(mode(state.path().join("blobs").join(&commit.id.0)), 0o600);
    assert!(state.read("workspace.json").unwrap().is_some());
}

#[test]
fn a_commit_on_a_changed_file_is_refused() {
    let fixture = Fixture::new(&[("a", "one"), ("b", "two"), ("c", "three")]);
    let run = RunId::new();
    let plan = |fixture: &Fixture| {
        fixture.plan(vec![
            fixture.replace("a", "one", "1"),
            fixture.replace("b", "two", "2"),
            fixture.create("n", ""),
        ])
    };
    let stale = plan(&fixture).unwrap();
    fixture.write("b", "two!");
    fixture.write("n", "foreign");
    let before = fixture.files();
    match fixture.commit_plan(&run, stale) {
        Err(error @ CommitError::Moved { .. }) => {
            assert_eq!(error.code(), ErrorCode::StaleText);
            let CommitError::Moved { paths } = error else { unreachable!() };
            assert_eq!(paths, [fixture.path("b"), fixture.path("n")]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.files(), before);

    let retargeted = fixture.plan(vec![fixture.replace("a", "one", "1")]).unwrap();
    std::fs::rename(fixture.path("a"), fixture.directory.as_path().join("outside")).unwrap();
    symlink(fixture.directory.as_path().join("outside"), fixture.path("a")).unwrap();
    assert!(matches!(fixture.commit_plan(&run, retargeted), Err(CommitError::Moved { .. })));
    assert_eq!(std::fs::read_to_string(fixture.directory.as_path().join("outside")).unwrap(), "one");

    let held = fixture.plan(vec![fixture.replace("c", "three", "3")]).unwrap();
    fixture.write(".c.swp", "");
    assert!(matches!(fixture.commit_plan(&run, held), Err(CommitError::Held { .. })));

    let plan = fixture.plan(vec![fixture.create("x", "1")]).unwrap();
    let other = fixture.plan(vec![fixture.create("x", "2")]).unwrap();
    let wrong = block_on(fixture.workspace.commit(plan, permit(&other), &run));
    assert!(matches!(wrong, Err(CommitError::WrongPermit)));
    assert!(!fixture.path("x").as_path().exists());
    assert!(fixture.workspace.history().unwrap().is_empty());
}

#[test]
fn a_commit_finishes_when_its_caller_is_gone() {
    let fixture = Fixture::new(&[("a", "one")]);
    let plan = fixture.plan(vec![fixture.replace("a", "one", "two")]).unwrap();
    let mut commits = fixture.workspace.subscribe();
    block_on(async {
        let (permit, run) = (permit(&plan), RunId::new());
        let mut commit = std::pin::pin!(fixture.workspace.commit(plan, permit, &run));
        assert!(futures_util::poll!(commit.as_mut()).is_pending());
        tokio::time::timeout(std::time::Duration::from_secs(20), commits.recv()).await.unwrap().unwrap();
    });
    assert_eq!(fixture.text("a"), "two");
}

#[test]
fn a_file_with_several_names_keeps_them() {
    let fixture = Fixture::new(&[("a", "one\n"), ("b", "two\n")]);
    std::fs::hard_link(fixture.path("a"), fixture.path("twin")).unwrap();
    symlink("b", fixture.path("link")).unwrap();
    let through = fixture.workspace.resolve("link").unwrap();
    let edit = Operation::Edit {
        expected: fixture.version("b"),
        path: through,
        edits: vec![TextEdit::replace(0..3, "2")],
    };
    let commit = fixture.commit(vec![fixture.replace("a", "one", "a longer text"), edit]).unwrap();
    assert_eq!(fixture.text("twin"), "a longer text\n");
    assert_eq!(inode(&fixture.path("a")), inode(&fixture.path("twin")));
    assert_eq!(
        (fixture.text("b"), std::fs::read_link(fixture.path("link")).unwrap()),
        ("2\n".to_owned(), "b".into())
    );
    let note = format!("{}: written in place, since it has several hard links", fixture.path("a"));
    assert_eq!(commit.notes[0], note);
    let plain = inode(&fixture.path("b"));
    fixture.undo();
    assert_eq!((fixture.text("twin"), fixture.text("b")), ("one\n".to_owned(), "two\n".to_owned()));
    assert_ne!(inode(&fixture.path("b")), plain, "a plain file is replaced, never half-written");
}

#[test]
fn two_names_of_one_file_are_not_changed_at_once() {
    let fixture = Fixture::new(&[("a", "one\ntwo\n")]);
    std::fs::hard_link(fixture.path("a"), fixture.path("twin")).unwrap();
    let both = vec![fixture.replace("a", "one", "ONE"), fixture.replace("twin", "two", "TWO")];
    let error = fixture.commit(both).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict);
    expect_test::expect![
        "twin cannot be written: it is the same file as a (a hard link); change it by one of its names"
    ]
    .assert_eq(&fixture.relative(&error.to_string()));
    assert_eq!(fixture.text("a"), "one\ntwo\n");
}

#[test]
fn commits_respect_file_permissions() {
    let fixture = Fixture::new(&[("ro", "one"), ("closed/in", "two"), ("closed/gone", "x"), ("other", "o")]);
    set_mode(fixture.path("ro"), 0o444);
    set_mode(fixture.path("closed"), 0o555);
    let before = fixture.files();
    let read_only = |operations, named: &str| match fixture.commit(operations) {
        Err(error @ CommitError::ReadOnly { .. }) => {
            assert_eq!(error.code(), ErrorCode::ReadOnly);
            let CommitError::ReadOnly { path } = error else { unreachable!() };
            assert_eq!(path, fixture.path(named));
            assert_eq!(fixture.files(), before);
        }
        other => panic!("{named}: {other:?}"),
    };
    read_only(vec![fixture.replace("other", "o", "O"), fixture.replace("ro", "one", "1")], "ro");
    read_only(vec![fixture.delete("ro")], "ro");
    read_only(vec![fixture.replace("other", "o", "O"), fixture.create("closed/new", "")], "closed");
    read_only(vec![fixture.create("closed/deep/new", "")], "closed");
    read_only(vec![fixture.delete("closed/gone")], "closed");
    read_only(vec![fixture.rename("closed/gone", "moved")], "closed");

    let commit = fixture.commit(vec![fixture.replace("closed/in", "two", "2")]).unwrap();
    assert_eq!(fixture.text("closed/in"), "2");
    let note = format!("{}: written in place, since its directory is read-only", fixture.path("closed/in"));
    assert_eq!(commit.notes[0], note);
    fixture.commit(vec![fixture.rename("ro", "moved")]).unwrap();
    assert_eq!((fixture.text("moved"), mode(fixture.path("moved"))), ("one".to_owned(), 0o444));
    set_mode(fixture.path("closed"), 0o755);
}

#[test]
fn files_can_swap_paths() {
    let fixture = Fixture::new(&[("a", "one"), ("b", "two"), ("c", "three")]);
    let swap = vec![
        fixture.rename("a", "t"),
        fixture.rename("b", "a"),
        fixture.rename("c", "b"),
        fixture.rename("t", "c"),
    ];
    let inodes = ["a", "b", "c"].map(|path| inode(&fixture.path(path)));
    fixture.commit(swap).unwrap();
    assert_eq!(["a", "b", "c"].map(|path| fixture.text(path)), ["two", "three", "one"]);
    assert_eq!(["c", "a", "b"].map(|path| inode(&fixture.path(path))), inodes, "the files themselves moved");
    fixture.undo();
    assert_eq!(["a", "b", "c"].map(|path| fixture.text(path)), ["one", "two", "three"]);
}

#[test]
fn a_directory_moves_byte_for_byte_and_back() {
    let fixture = Fixture::new(&[("old/a", "a"), ("old/sub/b", "b"), ("keep", "k")]);
    fixture.write("old/picture", b"\xff\x00\x01");
    symlink("a", fixture.path("old/link")).unwrap();
    symlink("/nowhere", fixture.path("old/dangling")).unwrap();
    std::fs::create_dir_all(fixture.path("old/empty/deeper")).unwrap();
    set_mode(fixture.path("old/sub"), 0o750);
    set_mode(fixture.path("old/a"), 0o755);
    let before = fixture.files();
    let run = RunId::new();
    fixture
        .commit_as(&run, vec![fixture.rename("old", "new/place"), fixture.replace("keep", "k", "K")])
        .unwrap();
    let moved: BTreeMap<_, _> = before
        .iter()
        .map(|(path, bytes)| match path.strip_prefix("old") {
            Some(rest) => (format!("new/place{rest}"), bytes.clone()),
            None => (path.clone(), b"K".to_vec()),
        })
        .collect();
    assert_eq!(fixture.files(), moved);
    assert_eq!([mode(fixture.path("new/place/sub")), mode(fixture.path("new/place/a"))], [0o750, 0o755]);
    fixture.undo();
    assert_eq!(fixture.files(), before);
    assert_eq!([mode(fixture.path("old/sub")), mode(fixture.path("old/a"))], [0o750, 0o755]);
}

#[test]
fn owner_and_attributes_stay() {
    let fixture = Fixture::new(&[("a", "one")]);
    let path = fixture.path("a");
    let owned = std::os::unix::fs::chown(&path, Some(1234), Some(2345)).is_ok();
    let flags = rustix::fs::XattrFlags::empty();
    let labelled = rustix::fs::setxattr(path.as_path(), "user.label", b"mine", flags).is_ok();
    if !(owned && labelled) {
        println!("SKIPPED in part: owner {owned}, attributes {labelled}");
    }
    set_mode(&path, 0o4755);
    let before = std::fs::metadata(&path).unwrap();
    let commit = fixture.commit(vec![fixture.replace("a", "one", "two")]).unwrap();
    assert_eq!(commit.notes, [""; 0]);
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!((after.uid(), after.gid(), after.mode()), (before.uid(), before.gid(), before.mode()));
    assert_ne!(after.ino(), before.ino(), "replaced");
    if labelled {
        let mut value = [0u8; 16];
        let len = rustix::fs::getxattr(path.as_path(), "user.label", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"mine");
    }
}

#[test]
fn many_files_take_linear_time() {
    // The bound is loose: ten times the files may take at most thirty times as long.
    let time = |count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("d{}/f{n}", n % 7)).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "one\n")).collect();
        let fixture = Fixture::new(&files);
        let operations = names.iter().map(|name| fixture.replace(name, "one", "two")).collect();
        let start = std::time::Instant::now();
        fixture.commit(operations).unwrap();
        start.elapsed()
    };
    time(1);
    let (some, many) = (time(40), time(400));
    println!("40 files {some:?}, 400 files {many:?}");
    assert!(many < some * 30 + std::time::Duration::from_secs(2), "{some:?} {many:?}");
}

/// Mounts for one test, where the system allows them.
struct Mount(std::path::PathBuf);

impl Mount {
    fn new(arguments: &[&str], on: &Path) -> Option<Self> {
        let done = Command::new("mount").args(arguments).arg(on).output();
        match done {
            Ok(output) if output.status.success() => Some(Self(on.to_owned())),
            other => {
                println!("SKIPPED: this needs a mount, which only root may make: {other:?}");
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.0).status();
        println!("unmounted: {status:?}");
    }
}

#[test]
fn a_full_disk_changes_nothing() {
    let fixture = Fixture::new(&[("a", "one")]);
    std::fs::create_dir(fixture.path("small")).unwrap();
    let Some(_mount) =
        Mount::new(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], fixture.path("small").as_path())
    else {
        return;
    };
    fixture.write("small/b", "two");
    fixture.write("small/linked", "three");
    std::fs::hard_link(fixture.path("small/linked"), fixture.path("small/twin")).unwrap();
    let before = fixture.files();
    let big = "x".repeat(100_000);
    for operation in [
        fixture.create("small/deep/new", &big),
        fixture.replace("small/b", "two", &big),
        fixture.replace("small/linked", "three", &big),
    ] {
        let error = fixture.commit(vec![fixture.replace("a", "one", "1"), operation]).unwrap_err();
        assert!(matches!(error, CommitError::DiskFull { .. }), "{error:?}");
        assert_eq!(error.code(), ErrorCode::DiskFull);
        assert_eq!(fixture.files(), before, "nothing changed, and nothing is left behind");
    }
    assert!(fixture.workspace.history().unwrap().is_empty());
}

#[test]
fn a_full_state_disk_changes_nothing() {
    let fixture = Fixture::new(&[("a", "one")]);
    std::fs::create_dir(fixture.directory.as_path().join("state")).unwrap();
    let Some(_mount) =
        Mount::new(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], &fixture.directory.as_path().join("state"))
    else {
        return;
    };
    let error = fixture.commit(vec![fixture.create("new", &"x".repeat(100_000))]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DiskFull, "{error:?}");
    assert_eq!(fixture.files().len(), 1);
    fixture.commit(vec![fixture.create("new", "small")]).unwrap();
}

#[test]
fn irreplaceable_files_are_written_in_place() {
    let fixture = Fixture::new(&[("a", "one"), ("b", "two")]);
    let other = fixture.directory.as_path().join("other");
    write(&other, "mounted");
    let target = fixture.path("a").as_path().to_owned();
    let Some(_mount) = Mount::new(&["--bind", other.to_str().unwrap()], &target) else {
        return;
    };
    let commit = fixture
        .commit(vec![fixture.replace("a", "mounted", "changed"), fixture.replace("b", "two", "2")])
        .unwrap();
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "changed");
    let note = format!("{}: written in place, since it cannot be replaced", fixture.path("a"));
    assert_eq!(commit.notes[0], note);
    fixture.undo();
    assert_eq!(
        (std::fs::read_to_string(&other).unwrap(), fixture.text("b")),
        ("mounted".to_owned(), "two".to_owned())
    );
    assert_eq!(fixture.files().len(), 2);
}

#[test]
fn a_failure_halfway_reverts_the_rest() {
    // A mount point cannot be removed, which only the attempt shows.
    let fixture = Fixture::new(&[("a", "one"), ("b", "two"), ("z", "last")]);
    let other = fixture.directory.as_path().join("other");
    write(&other, "mounted");
    let target = fixture.path("b").as_path().to_owned();
    let Some(_mount) = Mount::new(&["--bind", other.to_str().unwrap()], &target) else {
        return;
    };
    let before = fixture.files();
    let error = fixture
        .commit(vec![
            fixture.delete("a"),
            fixture.delete("b"),
            fixture.replace("z", "last", "changed"),
            fixture.create("n/m", ""),
        ])
        .unwrap_err();
    assert!(matches!(error, CommitError::Io { .. }), "{error:?}");
    assert_eq!(fixture.files(), before);
    assert!(fixture.workspace.history().unwrap().is_empty());
}

#[test]
fn an_empty_plan_is_committed_without_a_trace() {
    let fixture = Fixture::new(&[("a", "one")]);
    let commit = fixture.commit(vec![fixture.replace("a", "one", "one")]).unwrap();
    assert!(commit.files.is_empty());
    assert!(matches!(fixture.workspace.plan_undo(&Undo::LastRun), Err(UndoError::Nothing { .. })));
}

#[test]
fn the_version_after_is_that_of_the_file() {
    let fixture = Fixture::new(&[("a", "one")]);
    let commit = fixture.commit(vec![fixture.replace("a", "one", "two")]).unwrap();
    assert_eq!(commit.files[0].version.map(|version| version.hash), Some(ContentHash::of(b"two")));
}

#[test]
fn a_directory_swapped_for_a_link_leads_no_write_outside() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let fixture = Fixture::new(&[("sub/a", "0")]);
    let [outside, link] = ["outside", "link"].map(|name| fixture.directory.join(name));
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, &link).unwrap();
    let inside = fixture.path("sub").as_path().to_owned();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                // Never missing: a commit would make the directory again.
                renameat_with(CWD, &inside, CWD, link.as_path(), RenameFlags::EXCHANGE).unwrap();
            }
        });
        for number in 0..400 {
            let operation = fixture.create(&format!("sub/{number}"), "x");
            if let Ok(plan) = fixture.plan(vec![operation]) {
                fixture.commit_plan(&RunId::new(), plan).ok();
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0);
}
