//! `kill -9` at every step of a commit, and two processes that commit at once.
//!
//! The commit changes three files. The steps come from the page about the journal's format, so a documented new
//! step is tested.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use expect_test::expect;
use serde_json::json;
use tests::{Batch, Sandbox, check_output, line_with};

const NAMES: [&str; 3] = ["a.txt", "b.txt", "c.txt"];

fn before(name: &str) -> String {
    format!("first of {name}\nold\nlast of {name}\n")
}

fn after(name: &str) -> String {
    before(name).replace("old", "new")
}

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in NAMES {
        sandbox.write(name, before(name));
    }
    sandbox
}

/// Every documented step of a commit at which a fault can be set: `after-lock`, …
fn steps() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/formats").join("journal.md");
    let text = std::fs::read_to_string(page).expect("the page about the journal's format");
    let named = text.split('`').skip(1).step_by(2).map(|word| {
        let word = word.strip_prefix("commit:").unwrap_or(word);
        word.split(':').next().unwrap_or(word)
    });
    let is_step = |word: &&str| {
        (word.starts_with("after-") || word.starts_with("before-"))
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
    };
    let steps: BTreeSet<String> = named.filter(is_step).map(str::to_owned).collect();
    assert!(steps.len() >= 5, "a commit has more steps than {steps:?}");
    steps
}

/// Calls `check` with a fresh project after a kill at each step.
///
/// Calls it once, or once for each file.
fn at_every_step(mut check: impl FnMut(&str, Sandbox)) {
    for step in steps() {
        let mut killed = 0;
        let faults = std::iter::once(format!("commit:{step}"))
            .chain((1..=NAMES.len()).map(|number| format!("commit:{step}:{number}")));
        for fault in faults {
            let mut sandbox = project();
            if commit(&mut sandbox, &fault) {
                killed += 1;
                sandbox.mark().none_left(Duration::from_secs(10));
                check(&fault, sandbox);
            } else {
                assert_eq!(states(&sandbox), ["after"; 3], "{fault}");
            }
        }
        assert!(
            [1, NAMES.len()].contains(&killed),
            "{step} was met {killed} times, not once nor for each file"
        );
    }
}

/// Makes one commit of all three files, killed at the fault point.
///
/// Returns whether it was killed.
fn commit(sandbox: &mut Sandbox, fault: &str) -> bool {
    sandbox.variables.insert("PILCROW_FAULT".to_owned(), fault.to_owned());
    let mut batch = Batch::start(sandbox);
    sandbox.variables.remove("PILCROW_FAULT");
    let patch: String = NAMES.iter().map(|name| batch.view(name).put("old", "new")).collect();
    let answer = batch.try_call("edit", &json!({"patch": patch}));
    let (status, said) = batch.end();
    if std::os::unix::process::ExitStatusExt::signal(&status) == Some(9) {
        return true;
    }
    answer.unwrap_or_else(|| panic!("{fault}: {status}: {said}")).ok();
    false
}

/// The current content of each file, by name.
fn states(sandbox: &Sandbox) -> Vec<&'static str> {
    let state = |name: &&str| match sandbox.read(name) {
        text if text == before(name) => "before",
        text if text == after(name) => "after",
        _ => "other",
    };
    NAMES.iter().map(state).collect()
}

fn only_the_files(sandbox: &Sandbox, fault: &str) {
    let tree = sandbox.tree();
    let files: Vec<&str> = tree.keys().map(String::as_str).collect();
    assert_eq!(files, NAMES, "{fault}: something was left in the project");
}

#[test]
fn a_kill_at_any_step_leaves_all_files_old_or_new() {
    let mut mixed = 0;
    at_every_step(|fault, sandbox| {
        let at_the_kill = states(&sandbox);
        mixed += usize::from(at_the_kill.contains(&"before") && at_the_kill.contains(&"after"));

        sandbox.run(&["read", "a.txt"]).expect(0);
        let now = states(&sandbox);
        assert!(now == ["before"; 3] || now == ["after"; 3], "{fault}: {at_the_kill:?} became {now:?}");
        only_the_files(&sandbox, fault);
        // The next commit uses the recovered files.
        let mut batch = Batch::start(&sandbox);
        let line = if now[0] == "before" { "old" } else { "new" };
        let patch = batch.view("a.txt").put(line, "again");
        batch.edit(&patch).ok();
        assert!(batch.end().0.success());
        sandbox.run(&["undo"]).expect(0);
        assert_eq!(states(&sandbox), now, "{fault}: undo after recovery");
    });
    assert!(mixed > 0, "no kill happened between two files, so the test proves nothing");
}

#[test]
fn the_guard_reverts_a_killed_commit_at_once() {
    let mut sandbox = project();
    sandbox.variables.insert("PILCROW_FAULT".to_owned(), "commit:after-rename:2".to_owned());
    let mut batch = Batch::start(&sandbox);
    sandbox.variables.remove("PILCROW_FAULT");
    // The guard starts with the first program.
    batch.call("bash", &json!({"command": "true"})).ok();
    let patch: String = NAMES.iter().map(|name| batch.view(name).put("old", "new")).collect();
    assert!(batch.try_call("edit", &json!({"patch": patch})).is_none());
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&batch.end().0), Some(9));
    let is_reverted = || states(&sandbox) == ["before"; 3];
    assert!(tests::wait_for(Duration::from_secs(20), is_reverted), "{:?}", states(&sandbox));
    sandbox.mark().none_left(Duration::from_secs(10));
    let reads = [(); 2].map(|()| sandbox.run(&["read", "a.txt"]).expect(0).stderr);
    let note = |name: &str| {
        format!(
            "pilcrow: interrupted change of {}: restored to its state before an unfinished commit\n",
            sandbox.project().join(name).display()
        )
    };
    assert_eq!(reads, [note("a.txt") + &note("b.txt"), String::new()]);
}

#[test]
fn recovery_leaves_and_reports_foreign_changes() {
    let mut shown = 0;
    at_every_step(|fault, sandbox| {
        let at_the_kill = states(&sandbox);
        sandbox.write("b.txt", "another user\n");
        let ran = sandbox.run(&["read", "a.txt"]).expect(0);
        assert_eq!(sandbox.read("b.txt"), "another user\n", "{fault}");
        let now = states(&sandbox);
        assert_eq!(now[0], now[2], "{fault}: {at_the_kill:?} became {now:?}");
        only_the_files(&sandbox, fault);
        // b.txt belongs to the reverted commit but cannot be reverted, which must be reported.
        if at_the_kill[1] == "after" && now[0] == "before" {
            shown += 1;
            assert!(ran.all().contains("b.txt"), "{fault}: nothing was said of b.txt: {ran:?}");
        }
    });
    assert!(shown > 0, "no kill happened between writing b.txt and the end, so the test proves nothing");
}

#[test]
fn a_killed_commands_overwrite_can_be_undone() {
    let sandbox = Sandbox::with(&[
        ("a.txt", "first\n"),
        ("gone/b.txt", "unsaved b\n"),
        ("same.txt", "same\n"),
        ("mine.txt", "unsaved\n"),
    ]);
    // The process runs several commands; the last one is killed.
    let mut batch = Batch::start(&sandbox);
    batch.call("bash", &json!({"command": "echo unsaved > a.txt"})).ok();
    let line = "echo over > a.txt; rm gone/b.txt; rmdir gone; echo made > made.txt; sleep 60";
    assert!(batch.send(&json!({"name": "bash", "arguments": {"command": line}}).to_string()));
    let is_over = || sandbox.project().join("made.txt").exists();
    assert!(tests::wait_for(Duration::from_secs(60), is_over), "the command never ran");
    // File times advance in steps of milliseconds.
    let tick = sandbox.beside("tick");
    let modified = |path: &Path| std::fs::metadata(path).and_then(|it| it.modified()).expect("its time");
    let goes_on = || {
        std::fs::write(&tick, "").expect("the test's own file");
        modified(&tick) > modified(&sandbox.project().join("made.txt"))
    };
    assert!(tests::wait_for(Duration::from_secs(10), goes_on), "the clock does not advance");
    tests::processes::kill(batch.pid(), rustix::process::Signal::KILL);
    sandbox.mark().none_left(Duration::from_secs(10));
    // Later writes belong to the user, even immediate ones.
    sandbox.write("mine.txt", "an hour of work\n");
    let undone = sandbox.run(&["undo"]).expect(0);
    check_output(
        line_with(&undone.all(), "a.txt: a command"),
        &expect![
            "pilcrow: interrupted change of <sandbox>/the project/a.txt: a command that changed it was interrupted; `pilcrow undo` restores it"
        ],
    );
    let all = undone.all();
    let (_, kept) = line_with(&all, "mine.txt: ").split_once(" content is in ").expect("its place");
    assert_eq!(std::fs::read_to_string(kept).expect("the earlier content"), "unsaved\n");
    assert_eq!(sandbox.read("mine.txt"), "an hour of work\n");
    assert_eq!(sandbox.read("a.txt"), "unsaved\n");
    assert_eq!(sandbox.read("gone/b.txt"), "unsaved b\n");
    assert_eq!(sandbox.read("same.txt"), "same\n");
    // The command is reported once; the one before belongs to another run or another commit of this
    // one.
    let listed = sandbox.run(&["undo", "--list"]).expect(0).all();
    assert!(listed.contains("(cut off)") && !listed.contains("interrupted"), "{listed}");
}

#[test]
fn two_processes_at_once_never_mix() {
    let sandbox = Sandbox::new();
    for name in NAMES {
        sandbox.write(name, "round 0\n");
    }
    let mut done = 0;
    for round in 1..=10 {
        let was = sandbox.read(NAMES[0]);
        let mut batches: Vec<Batch> = (0..2).map(|_| Batch::start(&sandbox)).collect();
        // Both processes read the same text before either writes.
        let patches: Vec<String> = batches
            .iter_mut()
            .enumerate()
            .map(|(who, batch)| {
                let line = format!("round {round} by {who}");
                NAMES.iter().map(|name| batch.view(name).put(was.trim_end(), &line)).collect()
            })
            .collect();
        for (batch, patch) in batches.iter_mut().zip(&patches) {
            assert!(batch.send(&json!({"name": "edit", "arguments": {"patch": patch}}).to_string()));
        }
        let answers: Vec<_> = batches
            .iter_mut()
            .map(|batch| batch.answer(Duration::from_secs(60)).expect("an answer"))
            .collect();
        for answer in &answers {
            match answer.error() {
                None => done += 1,
                Some("stale_text" | "conflict") => {}
                Some(other) => panic!("{other}: {:#}", answer.value),
            }
        }
        let texts: BTreeSet<String> = NAMES.iter().map(|name| sandbox.read(name)).collect();
        assert_eq!(texts.len(), 1, "round {round}: mixed: {texts:?}");
        assert_eq!(
            answers.iter().filter(|answer| answer.error().is_none()).count(),
            1,
            "round {round}: both meant the same line"
        );
    }
    assert_eq!(done, 10);
    let tree = sandbox.tree();
    assert_eq!(tree.keys().map(String::as_str).collect::<Vec<_>>(), NAMES);
}
