//! Tests that real children end with their groups, their strays and Pilcrow.
//!
//! Some tests run this test program again in a role (`PILCROW_TEST_ROLE`), as a process that can be
//! killed or that is alone with its orphans.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paths::{AbsPath, StateDir};
use policy::{ErrorCode, Policy, PolicyOptions, SpawnGrant, TrustStore};
use shell::CommandLine;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use crate::process_table::{Entry, MARK};
use crate::{Process, Processes, SpawnError};

const LONG: Duration = Duration::from_secs(20);
const ROLE: &str = "PILCROW_TEST_ROLE";

fn sh(script: &str) -> CommandLine {
    CommandLine {
        program: PathBuf::from("sh"),
        args: vec!["-c".into(), script.into()],
        env: Vec::new(),
        cwd: AbsPath::new("/").unwrap(),
    }
}

fn grant(command: &CommandLine) -> SpawnGrant {
    let temp = tempfile::tempdir().unwrap();
    let root = AbsPath::new(temp.path()).unwrap();
    let options = PolicyOptions::new(TrustStore::new(StateDir::new(root.join("state"))), root);
    Policy::new(options).grant_invoked("test", command).unwrap()
}

async fn spawn(processes: &Arc<Processes>, script: &str) -> Process {
    let command = sh(script);
    processes.spawn(&command, &grant(&command)).await.unwrap()
}

/// The first `count` lines of its output, as process ids.
async fn pids(process: &mut Process, count: usize) -> Vec<u32> {
    let mut lines = tokio::io::BufReader::new(process.take_stdout().unwrap()).lines();
    let mut pids = Vec::new();
    while pids.len() < count {
        let line = tokio::time::timeout(LONG, lines.next_line()).await.unwrap().unwrap();
        pids.push(line.expect("the script prints its pids").trim().parse().unwrap());
    }
    pids
}

fn lives(pid: u32) -> bool {
    Entry::read(pid).is_some_and(|entry| !entry.zombie)
}

#[track_caller]
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_session_ends_with_its_child() {
    let processes = Processes::new(None);
    let mut command = sh("echo $$; sleep 1000 & echo $!; wait");
    command.program = PathBuf::from("/bin/sh");
    let mut process = processes.spawn_apart(&command, &grant(&command), &[], None).await.unwrap();
    let pids = pids(&mut process, 2).await;
    assert_eq!(pids[0], process.id());
    // The third and fourth fields after the name are the group and the session.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let rest: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let own = process.id().to_string();
    assert_eq!((rest[2], rest[3]), (own.as_str(), own.as_str()));
    process.end(Duration::from_millis(100)).await;
    assert!(!lives(pids[0]) && !lives(pids[1]));

    // End it at once, when it may not lead its session yet.
    for _ in 0..10 {
        let process = processes.spawn_apart(&command, &grant(&command), &[], None).await.unwrap();
        let id = process.id();
        drop(process);
        wait_for("it is killed", || !lives(id));
    }
    assert_eq!(processes.end_all(LONG).await, Vec::<u32>::new());
}

/// Prints its own pid and that of a grandchild that left group and session.
const SETSID: &str = "echo $$; setsid sh -c 'echo $$; exec sleep 1000' & wait";

#[tokio::test]
async fn streams_are_pipes_and_every_waiter_gets_the_exit() {
    let processes = Processes::new(None);
    let mut process = spawn(&processes, "read line; echo \"got $line\"; echo oops >&2; exit 3").await;
    process.take_stdin().unwrap().write_all(b"hello\n").await.unwrap();
    let mut output = String::new();
    process.take_stdout().unwrap().read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "got hello\n");
    let (one, two) = tokio::join!(process.exited(), process.exited());
    assert_eq!((one.code(), two.code()), (Some(3), Some(3)));
    assert_eq!(process.stderr_tail(), "oops\n");
    assert!(process.take_stdin().is_none());
}

#[tokio::test]
async fn the_tail_of_stderr_is_bounded_and_whole_lines() {
    let processes = Processes::new(None);
    let script = "i=0; while [ $i -lt 3000 ]; do echo \"line $i of a server that talks a great deal\" >&2; \
                  i=$((i+1)); done";
    let process = spawn(&processes, script).await;
    process.exited().await;
    let tail = process.stderr_tail();
    assert!(tail.len() <= 64 * 1024 && tail.len() > 60 * 1024, "{}", tail.len());
    assert!(tail.starts_with("line ") && tail.ends_with("line 2999 of a server that talks a great deal\n"));
    // A view reads new output, also after its owner is gone.
    let view = process.view();
    drop(process);
    let (fresh, all) = view.stderr_since(0);
    assert!(fresh.len() == 64 * 1024 && all > 3000 * 40, "{} of {all}", fresh.len());
    assert_eq!(view.stderr_since(all - 5), (b"deal\n".to_vec(), all));
    assert_eq!(view.stderr_since(all), (Vec::new(), all));
    assert!(view.exited().await.success());
}

#[tokio::test]
async fn missing_programs_and_directories_are_reported() {
    let processes = Processes::new(None);
    let mut command = sh("true");
    command.program = "no-such-program-anywhere".into();
    let error = processes.spawn(&command, &grant(&command)).await.unwrap_err();
    assert!(
        matches!(&error, SpawnError::MissingProgram { program } if program == "no-such-program-anywhere")
    );
    assert_eq!(error.code(), ErrorCode::MissingTool);

    let mut command = sh("true");
    command.cwd = AbsPath::new("/no/such/directory").unwrap();
    let error = processes.spawn(&command, &grant(&command)).await.unwrap_err();
    expect_test::expect!["sh cannot be started: /no/such/directory is not a directory"]
        .assert_eq(&error.to_string());

    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = sh("true");
    command.program = script;
    let error = processes.spawn(&command, &grant(&command)).await.unwrap_err();
    assert!(error.to_string().contains("interpret"), "{error}");
}

#[tokio::test]
async fn a_grant_for_another_command_starts_nothing() {
    let processes = Processes::new(None);
    let directory = tempfile::tempdir().unwrap();
    let marker = directory.path().join("ran");
    let command = sh(&format!("touch {}", marker.display()));
    let elsewhere = grant(&CommandLine { cwd: AbsPath::new(directory.path()).unwrap(), ..command.clone() });
    let other_program = grant(&CommandLine { program: "python3".into(), ..command.clone() });
    let other_args = grant(&CommandLine { args: vec!["-c".into(), "true".into()], ..command.clone() });
    for grant in [elsewhere, other_program, other_args] {
        let error = processes.spawn(&command, &grant).await.unwrap_err();
        assert!(matches!(error, SpawnError::Grant { .. }), "{error}");
        assert_eq!(error.code(), ErrorCode::Internal);
    }
    assert!(!marker.exists());
}

#[tokio::test]
async fn children_get_path_but_no_secrets_unless_named() {
    let processes = Processes::new(None);
    // The test program is started again with a secret in its environment.
    let mut command = sh("");
    command.program = std::env::current_exe().unwrap();
    command.args = ["--exact", "tests::role_environment", "--nocapture"].map(String::from).to_vec();
    command.env = [(ROLE, "environment"), ("SOME_API_KEY", "abc-not-for-you")]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
    let mut process = processes.spawn(&command, &grant(&command)).await.unwrap();
    let mut output = String::new();
    process.take_stdout().unwrap().read_to_string(&mut output).await.unwrap();
    for part in ["key=[]", "named=[here]", "path=[set]"] {
        assert!(output.contains(part), "{part}: {output}");
    }
}

#[tokio::test]
async fn role_environment() {
    if std::env::var(ROLE).as_deref() != Ok("environment") {
        return;
    }
    let processes = Processes::new(None);
    let mut command = sh("echo \"inherited key=[$SOME_API_KEY] named=[$OTHER_TOKEN] path=[${PATH:+set}]\"");
    command.env.push(("OTHER_TOKEN".into(), "here".into()));
    let mut process = processes.spawn(&command, &grant(&command)).await.unwrap();
    let mut output = String::new();
    process.take_stdout().unwrap().read_to_string(&mut output).await.unwrap();
    println!("{output}");
}

#[tokio::test]
async fn end_sends_sigterm_first() {
    let processes = Processes::new(None);
    let mut process = spawn(&processes, "trap 'exit 7' TERM; echo $$; while :; do sleep 0.01; done").await;
    pids(&mut process, 1).await;
    assert_eq!(process.end(LONG).await.code(), Some(7));
    // A second call gives the same answer.
    assert_eq!(process.end(LONG).await.code(), Some(7));
}

#[tokio::test]
async fn end_kills_a_group_that_ignores_sigterm() {
    let processes = Processes::new(None);
    let script = "trap '' TERM; echo $$; sh -c 'echo $$; while :; do sleep 1; done' & wait; \
                  while :; do sleep 1; done";
    let mut process = spawn(&processes, script).await;
    let pids = pids(&mut process, 2).await;
    let status = process.end(Duration::from_millis(50)).await;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    for pid in pids {
        assert!(Entry::read(pid).is_none(), "{pid} still exists, maybe as a zombie");
    }
}

#[tokio::test]
async fn end_reaches_grandchildren_that_left_the_group() {
    let processes = Processes::new(None);
    let mut process = spawn(&processes, SETSID).await;
    let pids = pids(&mut process, 2).await;
    assert_ne!(Entry::read(pids[1]).unwrap().group, pids[0]);
    process.end(Duration::from_millis(200)).await;
    for pid in pids {
        assert!(Entry::read(pid).is_none(), "{pid} still exists");
    }
}

#[tokio::test]
async fn end_reaches_a_daemon_whose_starter_has_ended() {
    let processes = Processes::new(None);
    let mut process = spawn(&processes, "setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.05; exit 0").await;
    let daemon = pids(&mut process, 1).await[0];
    process.exited().await;
    wait_for("the daemon becomes our child", || {
        Entry::read(daemon).is_some_and(|entry| entry.parent == std::process::id())
    });
    assert!(lives(daemon));
    process.end(Duration::from_millis(200)).await;
    assert!(Entry::read(daemon).is_none());
}

#[tokio::test]
async fn ending_one_child_leaves_another_running() {
    let processes = Processes::new(None);
    let (mut one, mut two) = (spawn(&processes, SETSID).await, spawn(&processes, SETSID).await);
    let (gone, stays) = (pids(&mut one, 2).await, pids(&mut two, 2).await);
    one.end(Duration::from_millis(200)).await;
    assert!(gone.iter().all(|pid| Entry::read(*pid).is_none()));
    assert!(stays.iter().all(|pid| lives(*pid)));
    assert_eq!(processes.end_all(LONG).await, Vec::<u32>::new());
    assert!(stays.iter().all(|pid| Entry::read(*pid).is_none()));
}

#[tokio::test]
async fn dropping_a_child_kills_its_group_and_strays() {
    let processes = Processes::new(None);
    let mut process = spawn(&processes, SETSID).await;
    let pids = pids(&mut process, 2).await;
    drop(process);
    let deadline = tokio::time::Instant::now() + LONG;
    while pids.iter().any(|pid| Entry::read(*pid).is_some()) {
        assert!(tokio::time::Instant::now() < deadline, "not gone: {pids:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_orphan_that_ends_by_itself_leaves_no_zombie() {
    let processes = Processes::new(None);
    let script = "setsid sh -c 'echo $$; sleep 0.2' & sleep 0.05; exit 0";
    let mut process = spawn(&processes, script).await;
    let orphan = pids(&mut process, 1).await[0];
    process.exited().await;
    let deadline = tokio::time::Instant::now() + LONG;
    while Entry::read(orphan).is_some() {
        assert!(tokio::time::Instant::now() < deadline, "{:?}", Entry::read(orphan));
        tokio::task::yield_now().await;
    }
}

#[test]
fn children_do_not_outlive_their_runtime() {
    let processes = Processes::new(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut process = runtime.block_on(spawn(&processes, "echo $$; exec sleep 1000"));
    let pid = runtime.block_on(pids(&mut process, 1))[0];
    drop(runtime);
    drop(process);
    wait_for("the child has ended", || !lives(pid));
}

/// Starts this test program in a role; returns what it prints after `pids:`.
fn start_role(role: &str) -> (std::process::Child, impl Sized, Vec<u32>) {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("tests::role_{role}"), "--nocapture"])
        .env(ROLE, role)
        // This process adopts its orphans; a test that ends everything unmarked or its own must not end them.
        .env(MARK, "a-role.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The program is returned, so that it can continue to print.
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let pids = lines
        .by_ref()
        .map(Result::unwrap)
        .find_map(|line| Some(line.split_once("pids:")?.1.to_owned()))
        .expect("the role prints its children");
    (owner, lines, pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect())
}

#[test]
fn after_kill_9_the_guard_ends_groups_and_strays() {
    let (mut owner, _output, pids) = start_role("owner");
    assert!(pids.len() == 3 && pids.iter().all(|pid| lives(*pid)), "{pids:?}");
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_for("all have ended", || !pids.iter().any(|pid| lives(*pid)));
}

/// Plays a Pilcrow that is killed: it owns children and has a guard.
#[tokio::test]
async fn role_owner() {
    if std::env::var(ROLE).as_deref() != Ok("owner") {
        return;
    }
    let processes = Processes::new(Some(std::env::current_exe().unwrap()));
    let mut one = spawn(&processes, SETSID).await;
    // This child ignores SIGTERM.
    let mut two = spawn(&processes, "trap '' TERM; echo $$; while :; do sleep 1; done").await;
    let (one_pids, two_pids) = (pids(&mut one, 2).await, pids(&mut two, 1).await);
    println!("pids: {} {} {}", one_pids[0], one_pids[1], two_pids[0]);
    one.exited().await;
}

/// The guard of `role_owner`: libtest runs this for the filter `__guard`.
mod role {
    #[test]
    fn __guard() {
        if std::env::var(super::ROLE).as_deref() == Ok("owner") {
            crate::guard_main();
        }
    }
}

#[test]
fn a_daemon_without_the_mark_ends_with_the_program() {
    let (mut owner, _output, pids) = start_role("cleaned");
    assert!(owner.wait().unwrap().success());
    assert!(!pids.is_empty() && pids.iter().all(|pid| Entry::read(*pid).is_none()), "{pids:?}");
}

/// Runs alone in its process, since nothing marks such a daemon's owner.
#[tokio::test]
async fn role_cleaned() {
    if std::env::var(ROLE).as_deref() != Ok("cleaned") {
        return;
    }
    let processes = Processes::new(None);
    let script = "env -i setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.05; exit 0";
    let mut process = spawn(&processes, script).await;
    let daemon = pids(&mut process, 1).await[0];
    process.exited().await;
    wait_for("the daemon becomes our child", || {
        Entry::read(daemon).is_some_and(|entry| entry.parent == std::process::id())
    });
    assert_eq!(processes.end_all(LONG).await, Vec::<u32>::new());
    println!("pids: {daemon}");
}

#[test]
fn commands_are_shown_as_typed() {
    let mut command = sh("echo it's");
    command.args.push(String::new());
    assert_eq!(command.to_string(), r"sh -c 'echo it'\''s' ''");
}

#[tokio::test]
async fn a_child_without_the_mark_is_one_of_the_run() {
    let processes = Processes::new(None);
    let script = "echo $$; env -i sh -c 'echo $$; sleep 60 & sleep 60' & wait";
    let mut child = spawn(&processes, script).await;
    for pid in pids(&mut child, 2).await {
        assert!(crate::descends_from_run(pid), "{pid}");
    }
    assert!(crate::descends_from_run(u32::MAX));
    assert!(!crate::descends_from_run(1));
    drop(child);
}
