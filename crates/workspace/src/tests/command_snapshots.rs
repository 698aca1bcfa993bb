//! Changes of commands: detection, journal entries, and undo.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::{Policy, PolicyOptions, TrustStore};
use process::Processes;

use super::Fixture;
use crate::*;

fn git(directory: &Path, args: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@t"];
    let mut command = std::process::Command::new("git");
    for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
        command.env_remove(name);
    }
    let done = command
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(identity)
        .args(args)
        .output();
    assert!(done.unwrap().status.success(), "{args:?}");
}

/// Waits until a file written now is newer than the index.
fn age(root: &Path) {
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    for entry in std::fs::read_dir(root).unwrap().flatten().filter(|it| it.path().is_file()) {
        std::fs::File::options().append(true).open(entry.path()).unwrap().set_modified(old).unwrap();
    }
}

async fn run(fixture: &Fixture, command: impl FnOnce(&Path)) -> (CommandChanges, Arc<Processes>) {
    run_line(fixture, "x", command).await
}

/// Runs a command line as [`run`] does.
async fn run_line(
    fixture: &Fixture,
    line: &str,
    command: impl FnOnce(&Path),
) -> (CommandChanges, Arc<Processes>) {
    let processes = Processes::new(None);
    let snapshots = Arc::new(CommandSnapshots::new(fixture.workspace.clone()));
    let before = snapshots.before(line, &RunId::new(), "bash: x", &processes).unwrap();
    command(fixture.workspace.root().as_path());
    let wrote = snapshots.after(before, &RunId::new(), "bash: x", &processes).await.unwrap();
    (wrote, processes)
}

fn names(fixture: &Fixture, wrote: &CommandChanges) -> Vec<String> {
    wrote.files.iter().map(|path| fixture.workspace.relative(path)).collect()
}

async fn undo(fixture: &Fixture) {
    let undo = fixture.workspace.plan_undo(&Undo::LastRun).unwrap();
    assert_eq!(undo.skipped, []);
    let policy = Policy::new(PolicyOptions::new(
        TrustStore::new(super::state(&fixture.directory)),
        fixture.workspace.root().clone(),
    ));
    let permit = policy.permit_invoked(&undo.plan).unwrap();
    fixture.workspace.commit_undo(undo, permit, &RunId::new()).await.unwrap();
}

#[tokio::test]
async fn backups_for_a_command_are_removed_with_it() {
    let fixture = Fixture::new(&[("a.txt", "old a\n"), ("b.txt", "old b\n")]);
    let directory = fixture.workspace.inner.state.child("commands").unwrap();
    let kept = || -> Vec<String> {
        let own = directory
            .list()
            .unwrap()
            .into_iter()
            .flat_map(|name| directory.child(&name).unwrap().list().unwrap());
        own.collect()
    };
    let snapshots = Arc::new(CommandSnapshots::new(fixture.workspace.clone()));
    let processes = Processes::new(None);
    for round in 1..=2 {
        let before = snapshots.before("x", &RunId::new(), "bash: x", &processes).unwrap();
        // The record refers to the earlier contents again, and to new ones.
        let expected: &[&str] = match round {
            1 => &["00000001.contents", "00000001.json", "held.lock"],
            _ => &["00000001.contents", "00000002.contents", "00000002.json", "held.lock"],
        };
        assert_eq!(kept(), expected);
        std::fs::write(fixture.workspace.root().join("a.txt").as_path(), format!("new a {round}\n")).unwrap();
        snapshots.after(before, &RunId::new(), "bash: x", &processes).await.unwrap();
        assert!(kept().iter().all(|name| !name.ends_with(".json")), "{:?}", kept());
    }
    // Another process that opens the workspace does not touch locked directories.
    let state = super::state(&fixture.directory);
    let (_, notes) = Workspace::open(fixture.workspace.root().as_path(), &state, None).unwrap();
    assert!(notes.is_empty() && !kept().is_empty());
    drop(snapshots);
    assert_eq!(directory.list().unwrap(), [""; 0]);
}

/// Copies the state of a killed process: its directory without its locks.
fn copy_of_the_dead(fixture: &Fixture) -> PathBuf {
    let all = fixture.workspace.inner.state.child("commands").unwrap();
    let [name] = all.list().unwrap().try_into().unwrap();
    let (from, to) = (all.path().as_path().join(name), all.path().as_path().join("dead"));
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

/// Recovery notes of the next start, by file name.
fn notes_of_next_start(fixture: &Fixture) -> std::collections::BTreeMap<String, String> {
    let state = super::state(&fixture.directory);
    let (_, notes) = Workspace::open(fixture.workspace.root().as_path(), &state, None).unwrap();
    notes.into_iter().map(|note| (fixture.workspace.relative(&note.path), note.detail)).collect()
}

#[track_caller]
fn kept_text(detail: &str) -> String {
    let (_, path) = detail.split_once("content is in ").unwrap_or_else(|| panic!("{detail}"));
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn a_users_change_after_a_kill_survives_the_undo() {
    let names = ["a.txt", "b.txt", "gone.txt", "mine.txt", "same.txt"];
    let fixture = Fixture::new(&names.map(|name| (name, "old\n")));
    let snapshots = CommandSnapshots::new(fixture.workspace.clone());
    let mut before = snapshots.before("x", &RunId::new(), "bash: x", &Processes::new(None)).unwrap();
    before.mark_running();
    fixture.write("a.txt", "the command's\n");
    fixture.write("b.txt", "the command's\n");
    std::fs::remove_file(fixture.path("gone.txt")).unwrap();
    let dead = copy_of_the_dead(&fixture);
    std::fs::write(dead.join("ended"), "\n").unwrap();
    later_than(&dead.join("ended"));
    fixture.write("b.txt", "the command's, and mine\n");
    fixture.write("mine.txt", "mine!\n");
    let notes = notes_of_next_start(&fixture);
    assert_eq!(notes.keys().collect::<Vec<_>>(), ["a.txt", "b.txt", "gone.txt", "mine.txt"]);
    expect_test::expect!["a command that changed it was interrupted; `pilcrow undo` restores it"]
        .assert_eq(&notes["a.txt"]);
    expect_test::expect!["a command that deleted it was interrupted; `pilcrow undo` restores it"]
        .assert_eq(&notes["gone.txt"]);
    assert_eq!(["b.txt", "mine.txt"].map(|name| kept_text(&notes[name])), ["old\n"; 2]);
    undo(&fixture).await;
    let now = names.map(|name| fixture.text(name));
    assert_eq!(now, ["old\n", "the command's, and mine\n", "old\n", "mine!\n", "old\n"]);
    assert!(!dead.exists());
}

#[tokio::test]
async fn without_a_known_end_undo_restores_only_deleted_files() {
    let fixture = Fixture::new(&[("a.txt", "old\n"), ("gone.txt", "old\n")]);
    let snapshots = CommandSnapshots::new(fixture.workspace.clone());
    let before = snapshots.before("x", &RunId::new(), "bash: x", &Processes::new(None)).unwrap();
    fixture.write("a.txt", "whose?\n");
    std::fs::remove_file(fixture.path("gone.txt")).unwrap();
    copy_of_the_dead(&fixture);
    let notes = notes_of_next_start(&fixture);
    assert_eq!(kept_text(&notes["a.txt"]), "old\n");
    undo(&fixture).await;
    assert_eq!(["a.txt", "gone.txt"].map(|name| fixture.text(name)), ["whose?\n", "old\n"]);
    drop(before);
    drop(snapshots);
    assert_eq!(notes_of_next_start(&fixture).len(), 0, "it never ran");
}

#[tokio::test]
async fn files_beyond_the_limit_are_counted_quickly() {
    let fixture = Fixture::new(&[]);
    for number in 0..5_010 {
        std::fs::write(fixture.path(&format!("{number:04}")), "old\n").unwrap();
    }
    let snapshots = CommandSnapshots::new(fixture.workspace.clone());
    let _before = snapshots.before("x", &RunId::new(), "bash: x", &Processes::new(None)).unwrap();
    for number in 0..5_010 {
        std::fs::remove_file(fixture.path(&format!("{number:04}"))).unwrap();
    }
    copy_of_the_dead(&fixture);
    let notes = notes_of_next_start(&fixture);
    assert_eq!(notes.len(), 5_001);
    let lost: Vec<&String> = notes.values().filter(|detail| detail.starts_with("it and ")).collect();
    assert_eq!(lost.len(), 1);
    expect_test::expect![
        "it and 9 more changed after an interrupted command began; too many to store their earlier content"
    ]
    .assert_eq(lost[0]);
}

#[tokio::test]
async fn an_unrecorded_command_waits_for_the_next_start() {
    let fixture = Fixture::new(&[("a.txt", "old\n"), ("b.txt", "old\n"), ("c.txt", "old\n")]);
    let snapshots = Arc::new(CommandSnapshots::new(fixture.workspace.clone()));
    let processes = Processes::new(None);
    let before = snapshots.before("x", &RunId::new(), "bash: x", &processes).unwrap();
    fixture.write("a.txt", "the command's\n");
    fixture.write("b.txt", "the command's\n");
    later_than(&fixture.workspace.root().as_path().join("b.txt"));
    let journal = fixture.workspace.inner.state.path().join("journal");
    std::fs::write(&journal, "in the way").unwrap();
    snapshots.after(before, &RunId::new(), "bash: x", &processes).await.unwrap_err();
    std::fs::remove_file(&journal).unwrap();
    let commands = fixture.workspace.inner.state.child("commands").unwrap();
    let [name] = commands.list().unwrap().try_into().unwrap();
    later_than(commands.path().join(name).join("00000001.left.json").as_path());
    fixture.write("b.txt", "mine\n");
    // The next command uses its own directory, so that it does not wait for the end of this process.
    let next = snapshots.before("x", &RunId::new(), "bash: x", &processes).unwrap();
    let notes = notes_of_next_start(&fixture);
    assert_eq!(notes.keys().collect::<Vec<_>>(), ["a.txt", "b.txt"]);
    assert_eq!(kept_text(&notes["b.txt"]), "old\n");
    undo(&fixture).await;
    assert_eq!(["a.txt", "b.txt", "c.txt"].map(|name| fixture.text(name)), ["old\n", "mine\n", "old\n"]);
    drop(next);
    // A command cut off by the end of its call also waits.
    let mut next = snapshots.before("x", &RunId::new(), "bash: x", &processes).unwrap();
    next.mark_running();
    fixture.write("c.txt", "the command's\n");
    later_than(&fixture.workspace.root().as_path().join("c.txt"));
    drop((next, snapshots));
    assert_eq!(notes_of_next_start(&fixture).keys().collect::<Vec<_>>(), ["c.txt"]);
    undo(&fixture).await;
    assert_eq!(fixture.text("c.txt"), "old\n");
}

#[tokio::test]
async fn without_git_small_files_are_restored() {
    let fixture = Fixture::new(&[("a.txt", "old a\n"), ("gone.txt", "gone\n"), ("sub/same.txt", "same\n")]);
    let (wrote, _) = run(&fixture, |root| {
        std::fs::write(root.join("a.txt"), "new a\n").unwrap();
        std::fs::remove_file(root.join("gone.txt")).unwrap();
        std::fs::write(root.join("sub/same.txt"), "same\n").unwrap();
        std::fs::create_dir_all(root.join("made/deep")).unwrap();
        std::fs::write(root.join("made/deep/new.txt"), [0xff, 0]).unwrap();
        std::os::unix::fs::symlink("a.txt", root.join("link")).unwrap();
    })
    .await;
    assert_eq!(names(&fixture, &wrote), ["a.txt", "gone.txt", "link", "made/deep/new.txt"]);
    assert_eq!(wrote.lost, []);
    assert!(wrote.commit.is_some());
    undo(&fixture).await;
    let root = fixture.workspace.root().as_path();
    let text = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    assert_eq!((text("a.txt").as_str(), text("gone.txt").as_str()), ("old a\n", "gone\n"));
    assert!(!root.join("made").exists() && root.join("link").symlink_metadata().is_err());
}

#[tokio::test]
async fn git_restores_clean_files_and_ignored_files_stay() {
    let fixture = Fixture::new(&[("a.txt", "old a\n"), ("b.txt", "old b\n"), (".gitignore", "out/\n")]);
    let root = fixture.workspace.root().as_path().to_owned();
    git(&root, &["init", "-q"]);
    age(&root);
    git(&root, &["add", "."]);
    git(&root, &["commit", "-qm", "x"]);
    std::fs::write(root.join("b.txt"), "mine, not committed\n").unwrap();
    let before = CommandSnapshots::new(fixture.workspace.clone())
        .before("x", &RunId::new(), "bash: x", &Processes::new(None))
        .unwrap();
    assert!(before.is_from_git("a.txt") && !before.is_from_git("b.txt"));
    let (wrote, processes) = run(&fixture, |root| {
        std::fs::write(root.join("a.txt"), "new a\n").unwrap();
        std::fs::write(root.join("b.txt"), "new b\n").unwrap();
        std::fs::create_dir(root.join("out")).unwrap();
        std::fs::write(root.join("out/x"), "x").unwrap();
        git(root, &["add", "."]);
    })
    .await;
    assert_eq!(names(&fixture, &wrote), ["a.txt", "b.txt"]);
    assert_eq!(wrote.lost, []);
    undo(&fixture).await;
    assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), "old a\n");
    assert_eq!(std::fs::read_to_string(root.join("b.txt")).unwrap(), "mine, not committed\n");
    assert!(root.join("out/x").exists());
    processes.end_all(std::time::Duration::from_secs(5)).await;
}

#[tokio::test]
async fn irreversible_changes_have_a_reason() {
    let fixture = Fixture::new(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    let big = fixture.workspace.root().as_path().join("big");
    std::fs::File::create(&big).unwrap().set_len(40 << 20).unwrap();
    let (wrote, _) = run(&fixture, |root| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(root.join("big"), "small now").unwrap();
        std::fs::set_permissions(root.join("a.txt"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(root.join("b.txt"), "b 2\n").unwrap();
    })
    .await;
    let lost: Vec<String> =
        wrote.lost.iter().map(|(path, why)| format!("{} {why}", fixture.workspace.relative(path))).collect();
    assert_eq!(lost, ["a.txt only its permissions changed", "big too large to back up with the others"]);
    assert_eq!(names(&fixture, &wrote), ["b.txt"]);
    let (wrote, _) = run(&fixture, |_| {}).await;
    assert!(wrote.commit.is_none() && wrote.files.is_empty() && wrote.lost.is_empty());
}

/// Undoes the last run; returns the skipped changes, by path.
async fn undo_what_fits(fixture: &Fixture) -> Vec<String> {
    let undo = fixture.workspace.plan_undo(&Undo::LastRun).unwrap();
    let left = undo.skipped.iter().map(|it| fixture.workspace.relative(&it.path)).collect();
    let policy = Policy::new(PolicyOptions::new(
        TrustStore::new(super::state(&fixture.directory)),
        fixture.workspace.root().clone(),
    ));
    let permit = policy.permit_invoked(&undo.plan).unwrap();
    fixture.workspace.commit_undo(undo, permit, &RunId::new()).await.unwrap();
    left
}

#[tokio::test]
async fn undo_restores_the_rest_where_a_file_became_a_directory() {
    let fixture = Fixture::new(&[("a.txt", "a\n"), ("d/x.txt", "x\n"), ("d/e/y.txt", "y\n"), ("f", "f\n")]);
    run(&fixture, |root| {
        std::fs::write(root.join("a.txt"), "new\n").unwrap();
        std::fs::remove_dir_all(root.join("d")).unwrap();
        std::fs::write(root.join("d"), "a file\n").unwrap();
        std::fs::remove_file(root.join("f")).unwrap();
        std::fs::create_dir(root.join("f")).unwrap();
        std::fs::write(root.join("f/z.txt"), "z\n").unwrap();
    })
    .await;
    let left = undo_what_fits(&fixture).await;
    let mut sorted = left.clone();
    sorted.sort();
    assert_eq!(sorted, ["d", "d/e/y.txt", "d/x.txt", "f"], "{left:?}");
    let root = fixture.workspace.root().as_path();
    assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), "a\n");
    assert_eq!(std::fs::read_to_string(root.join("d")).unwrap(), "a file\n");
    assert!(!root.join("f/z.txt").exists());
}

#[tokio::test]
async fn hard_links_are_restored_together() {
    let fixture = Fixture::new(&[("a.txt", "old\n"), ("c.txt", "c\n"), ("own.txt", "own\n")]);
    let root = fixture.workspace.root().as_path().to_owned();
    std::fs::hard_link(root.join("a.txt"), root.join("b.txt")).unwrap();
    run(&fixture, |root| {
        std::fs::write(root.join("a.txt"), "new\n").unwrap();
        std::fs::write(root.join("c.txt"), "new c\n").unwrap();
        std::fs::remove_file(root.join("own.txt")).unwrap();
        std::fs::hard_link(root.join("c.txt"), root.join("own.txt")).unwrap();
    })
    .await;
    assert_eq!(undo_what_fits(&fixture).await, ["own.txt"]);
    let text = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    assert_eq!([text("a.txt"), text("b.txt"), text("c.txt")], ["old\n", "old\n", "c\n"]);
}

#[tokio::test]
async fn permissions_pipes_and_sockets_are_reported() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("d/x.txt", "x\n")]);
    let (wrote, _) = run(&fixture, |root| {
        std::fs::write(root.join("a.txt"), "new\n").unwrap();
        std::fs::set_permissions(root.join("a.txt"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::set_permissions(root.join("d"), PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::remove_file(root.join("b.txt")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(root.join("b.txt")).unwrap());
    })
    .await;
    let lost: Vec<String> =
        wrote.lost.iter().map(|(path, why)| format!("{} {why}", fixture.workspace.relative(path))).collect();
    assert_eq!(
        lost,
        [
            "a.txt its new permissions stay; undo restores its content",
            "d a directory's permissions changed",
            "b.txt a pipe, socket or device was created",
        ]
    );
    assert_eq!(undo_what_fits(&fixture).await, ["b.txt"]);
    let root = fixture.workspace.root().as_path();
    assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), "a\n");
}

#[tokio::test]
async fn files_hidden_before_are_not_new() {
    let fixture = Fixture::new(&[(".gitignore", ".env\nkept/\n"), (".env", "mine\n"), ("kept/x", "x\n")]);
    let root = fixture.workspace.root().as_path().to_owned();
    std::fs::create_dir(root.join(".git")).unwrap();
    later_than(&root.join(".env"));
    later_than(&root.join("kept/x"));
    let (wrote, _) = run(&fixture, |root| {
        std::fs::write(root.join(".gitignore"), "new.txt\n").unwrap();
        std::fs::write(root.join("made"), "made\n").unwrap();
        std::fs::write(root.join("kept/x"), "y\n").unwrap();
    })
    .await;
    assert_eq!(names(&fixture, &wrote), [".gitignore", "made"]);
    let lost: Vec<String> = wrote.lost.iter().map(|(path, _)| fixture.workspace.relative(path)).collect();
    assert_eq!(lost, ["kept/x"]);
    undo(&fixture).await;
    assert_eq!(std::fs::read_to_string(root.join(".env")).unwrap(), "mine\n");
    assert!(root.join("kept/x").exists() && !root.join("made").exists());
}

#[tokio::test]
async fn files_hidden_now_are_not_deleted() {
    let fixture = Fixture::new(&[("a.txt", "a\n"), ("sub/b.txt", "b\n")]);
    let (wrote, _) = run(&fixture, |root| {
        std::fs::write(root.join(".gitignore"), "*.txt\nsub/\n").unwrap();
        std::fs::write(root.join("a.txt"), "other\n").unwrap();
    })
    .await;
    assert_eq!(names(&fixture, &wrote), [".gitignore", "a.txt"]);
    undo(&fixture).await;
    let root = fixture.workspace.root().as_path();
    assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), "a\n");
    assert!(root.join("sub/b.txt").exists() && !root.join(".gitignore").exists());
}

#[tokio::test]
async fn files_with_a_git_filter_are_not_restored_from_git() {
    let fixture = Fixture::new(&[("a.cfg", "a\n"), ("b.txt", "b\n"), ("sub/c.x", "c\n")]);
    let root = fixture.workspace.root().as_path().to_owned();
    std::fs::write(root.join(".gitattributes"), "*.cfg filter=local\n*.txt text\n").unwrap();
    std::fs::write(root.join("sub/.gitattributes"), "*.x ident\n").unwrap();
    git(&root, &["init", "-q"]);
    age(&root);
    age(&root.join("sub"));
    git(&root, &["add", "."]);
    let before = CommandSnapshots::new(fixture.workspace.clone())
        .before("x", &RunId::new(), "bash: x", &Processes::new(None))
        .unwrap();
    assert!(before.is_from_git("b.txt"));
    assert!(!before.is_from_git("a.cfg") && !before.is_from_git("sub/c.x"));
}

#[tokio::test]
async fn tracked_files_are_restored_even_if_ignored() {
    let fixture = Fixture::new(&[(".gitignore", "*.log\nout/\n"), ("a.log", "old\n"), ("out/b", "b\n")]);
    let root = fixture.workspace.root().as_path().to_owned();
    git(&root, &["init", "-q"]);
    std::fs::write(root.join("notes"), "mine\n").unwrap();
    std::fs::write(root.join(".git/info/exclude"), "notes\n").unwrap();
    git(&root, &["add", "-f", "."]);
    git(&root, &["add", "-f", "notes"]);
    let (wrote, _) = run(&fixture, |root| {
        std::fs::write(root.join("a.log"), "new\n").unwrap();
        std::fs::remove_dir_all(root.join("out")).unwrap();
        std::fs::remove_file(root.join("notes")).unwrap();
        std::fs::write(root.join("other.log"), "x\n").unwrap();
    })
    .await;
    assert_eq!(names(&fixture, &wrote), ["a.log", "notes", "out/b"]);
    undo(&fixture).await;
    let text = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    assert_eq!([text("a.log"), text("notes"), text("out/b")], ["old\n", "mine\n", "b\n"]);
}

#[tokio::test]
async fn undo_restores_files_hidden_by_the_users_ignore_files() {
    let fixture = Fixture::new(&[("a.txt", "a\n")]);
    let root = fixture.workspace.root().as_path().to_owned();
    git(&root, &["init", "-q"]);
    std::fs::write(root.join(".git/info/exclude"), "notes\n").unwrap();
    std::fs::write(root.join("notes"), "mine\n").unwrap();
    let (wrote, _) = run(&fixture, |root| std::fs::write(root.join("notes"), "gone\n").unwrap()).await;
    assert_eq!((names(&fixture, &wrote), wrote.lost), (vec!["notes".to_owned()], vec![]));
    undo(&fixture).await;
    assert_eq!(std::fs::read_to_string(root.join("notes")).unwrap(), "mine\n");
}

#[tokio::test]
async fn writes_beyond_the_reach_of_undo_are_reported() {
    let fixture = Fixture::new(&[(".gitignore", "out/\n"), ("a.txt", "a\n"), ("out/b", "b\n")]);
    let root = fixture.workspace.root().as_path().to_owned();
    let outside = fixture.directory.as_path().canonicalize().unwrap();
    git(&root, &["init", "-q"]);
    let line = format!(
        "cp a.txt {0} && echo x > {0}/x && rm -r out && touch .git/config2 && cat {0}/y",
        outside.display()
    );
    let (wrote, _) = run_line(&fixture, &line, |root| {
        std::fs::write(outside.join("a.txt"), "a\n").unwrap();
        std::fs::write(outside.join("x"), "x\n").unwrap();
        std::fs::remove_dir_all(root.join("out")).unwrap();
        std::fs::write(root.join(".git/config2"), "").unwrap();
    })
    .await;
    let mut lost: Vec<(PathBuf, &str)> =
        wrote.lost.iter().map(|(path, why)| (path.as_path().to_owned(), why.as_str())).collect();
    lost.sort();
    let expected = [
        (outside.join("a.txt"), "it is outside the workspace"),
        (root.join(".git/config2"), "it belongs to version control"),
        (root.join("out"), "an ignore file names it"),
        (outside.join("x"), "it is outside the workspace"),
    ];
    assert_eq!(lost, expected);
    let (wrote, _) = run_line(&fixture, "git branch x", |root| {
        std::fs::write(root.join(".git/refs/heads/x"), "0").unwrap();
    })
    .await;
    assert_eq!(wrote.lost.len(), 1, "{:?}", wrote.lost);
    assert_eq!(wrote.lost[0].0.as_path(), root.join(".git"));
    let (wrote, _) = run_line(&fixture, &line, |_| {}).await;
    assert_eq!(wrote.lost, [], "unwritten targets are not reported");
}

#[tokio::test]
async fn windows_line_ends_are_restored() {
    let text = "one\r\ntwo\r\n";
    let fixture =
        Fixture::new(&[("a.txt", text), ("b.dat", text), (".gitattributes", "*.txt text eol=crlf\n")]);
    let root = fixture.workspace.root().as_path().to_owned();
    git(&root, &["init", "-q"]);
    git(&root, &["config", "core.autocrlf", "true"]);
    git(&root, &["config", "core.safecrlf", "false"]);
    age(&root);
    git(&root, &["add", "."]);
    let before = CommandSnapshots::new(fixture.workspace.clone())
        .before("x", &RunId::new(), "bash: x", &Processes::new(None))
        .unwrap();
    assert!(!before.is_from_git("a.txt") && before.is_from_git("b.dat"));
    let (wrote, processes) = run(&fixture, |root| {
        std::fs::write(root.join("a.txt"), "new\n").unwrap();
        std::fs::write(root.join("b.dat"), "new\n").unwrap();
    })
    .await;
    assert_eq!((names(&fixture, &wrote), wrote.lost), (vec!["a.txt".to_owned(), "b.dat".to_owned()], vec![]));
    undo(&fixture).await;
    assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), text);
    assert_eq!(std::fs::read_to_string(root.join("b.dat")).unwrap(), text);
    processes.end_all(std::time::Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_moved_directory_is_moved_back() {
    let fixture = Fixture::new(&[("sub/deep/a.txt", "a\n")]);
    let root = fixture.workspace.root().as_path().to_owned();
    later_than(&root.join("sub"));
    run(&fixture, |root| std::fs::rename(root.join("sub"), root.join("Other")).unwrap()).await;
    undo(&fixture).await;
    assert_eq!(std::fs::read_to_string(root.join("sub/deep/a.txt")).unwrap(), "a\n");
    assert!(!root.join("Other").exists());
}

/// Waits until a file created now is newer than this one.
fn later_than(path: &Path) {
    let meta = std::fs::metadata(path).unwrap();
    let made = meta.created().unwrap().max(meta.modified().unwrap());
    let begun = std::time::Instant::now();
    while crate::command_snapshot::file_clock() <= made {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        std::thread::yield_now();
    }
}

/// Puts a pipe or an endless device at a path.
fn block(path: &Path, with_device: bool) {
    let _absent = std::fs::remove_file(path);
    match with_device {
        true => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        false => rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap(),
    }
}

#[test]
fn pipes_and_devices_do_not_block_a_snapshot() {
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        for with_device in [false, true] {
            let fixture =
                Fixture::new(&[("a.txt", "hit\n"), ("sub/b.txt", "hit\n"), ("sub/.gitignore", "*.log\n")]);
            let root = fixture.workspace.root().as_path().to_owned();
            git(&root, &["init", "-q"]);
            git(&root, &["add", "."]);
            let (wrote, _) = runtime.block_on(run(&fixture, |root| {
                let places =
                    ["sub/.gitignore", ".git/index", ".git/info/exclude", ".gitattributes", ".git/HEAD"];
                places.iter().for_each(|place| block(&root.join(place), with_device));
                std::fs::write(root.join("sub/new.txt"), "hit\n").unwrap();
                std::fs::write(root.join("sub/new.log"), "hit\n").unwrap();
            }));
            let mut expected = vec!["sub/new.log", "sub/new.txt"];
            // A link is a file.
            expected.splice(..0, with_device.then_some(".gitattributes"));
            assert_eq!(names(&fixture, &wrote), expected);
            let lost = wrote.lost.iter().map(|(path, _)| fixture.workspace.relative(path));
            assert!(lost.into_iter().any(|it| it == "sub/.gitignore"), "git cannot read the repository");
            let files = || fixture.workspace.files(fixture.workspace.root()).map(|it| it.file_name());
            assert_eq!(files().collect::<Vec<_>>(), ["a.txt", "b.txt", "new.log", "new.txt"]);
            std::fs::remove_file(root.join(".git/info/exclude")).unwrap();
            assert_eq!(files().collect::<Vec<_>>(), ["a.txt"], "the others have unknown rules");
            let (wrote, _) =
                runtime.block_on(run(&fixture, |root| block(&root.join(".git/index"), with_device)));
            assert_eq!(names(&fixture, &wrote), <[&str; 0]>::default());
        }
        done.send(()).unwrap();
    });
    finished.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
}
