//! Kills of a process: it loses at most one entry, and the session continues.

#![expect(clippy::disallowed_methods, reason = "a process is killed, and a file watched while it grows")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use paths::{AbsPath, StateDir};
use serde_json::json;

use super::*;
use crate::TerminationReason;
use crate::store::SessionStore;

/// Passes the directory to the child.
const DIRECTORY: &str = "PILCROW_TEST_CRASH_DIRECTORY";
/// Prompts of one child, which is killed before the last.
const PROMPTS: usize = 2_000;

fn store(directory: &Path) -> SessionStore {
    SessionStore::new(StateDir::new(AbsPath::new(directory).unwrap()))
}

fn script(count: usize) -> String {
    let turn = |at: usize| {
        let first = calls(&[call(&format!("c{at}"), "t", json!({ "n": at }))]);
        format!("{first}\n{}\n", text(&format!("answer {at}")))
    };
    (0..count).map(turn).collect()
}

fn tools() -> Registry {
    Registry::new([Arc::new(echo("t")) as Arc<dyn Tool>]).unwrap()
}

/// The transcript up to this prompt.
fn expected(at: usize) -> String {
    match at % 4 {
        0 => format!("prompt {}", at / 4),
        1 => String::new(),
        2 => format!("{{\"n\":{}}}", at / 4),
        _ => format!("answer {}", at / 4),
    }
}

/// The process that is killed; does nothing when run among the other tests.
#[tokio::test]
async fn child_that_writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let model = Arc::new(ScriptModel::parse("t", &script(PROMPTS)).unwrap());
    let session = Session::builder(model, tools()).store(store(Path::new(&directory))).build();
    for at in 0..PROMPTS {
        session.prompt(format!("prompt {at}")).await;
        println!("\ndone {at}");
    }
}

async fn once(random: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("sessions");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::crash::child_that_writes_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY, &path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The child is killed at this prompt or later, since the pipe buffers further output.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let until = format!("done {}", random % 12);
    let mut done = 0;
    for line in lines.by_ref() {
        let line = line.unwrap();
        if let Some(at) = line.strip_prefix("done ") {
            done = at.parse::<usize>().unwrap() + 1;
        }
        if line == until {
            break;
        }
    }
    for _ in 0..(random / 12) % 20_000 {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for line in lines {
        // A cut line does not count.
        if let Some(at) = line.unwrap().strip_prefix("done ").and_then(|at| at.parse::<usize>().ok()) {
            done = done.max(at + 1);
        }
    }
    let store = store(&path);
    let id = store.list().unwrap()[0].id.clone();
    let loaded = store.load_locked(&id).expect("the lock went with its process");
    let said: Vec<String> = loaded.context().iter().map(Message::text).collect();
    assert!(said.len() >= done * 4, "what was answered for is there: {} of {done} prompts", said.len());
    for (at, text) in said.iter().enumerate() {
        assert_eq!(*text, expected(at));
    }
    assert!(loaded.warnings.len() <= 1, "{:?}", loaded.warnings);
    let model = Arc::new(ScriptModel::parse("t", "{\"text\": \"went on\"}").unwrap());
    let session = Session::builder(model.clone(), tools()).store(store.clone()).resume(loaded).build();
    let outcome = session.prompt("again").await;
    assert_eq!((outcome.reason, outcome.final_text.as_str()), (TerminationReason::NoToolCalls, "went on"));
    let sent = &model.requests()[0].messages;
    assert_eq!(llm::transcript::repair(sent), **sent, "a provider takes it");
    session.close(DEADLINE).await;
    let after: Vec<String> = store.load(&id).unwrap().context().iter().map(Message::text).collect();
    assert_eq!(after[..said.len()], said);
    assert_eq!(after[said.len()..], ["again", "went on"]);
}

#[tokio::test]
async fn a_killed_process_loses_at_most_one_entry() {
    kill_at_random_moments(15).await;
}

#[tokio::test]
#[ignore = "slow: 200 processes; cargo xtask test runs it"]
async fn two_hundred_killed_processes_lose_at_most_one_entry_each() {
    kill_at_random_moments(200).await;
}

async fn kill_at_random_moments(runs: usize) {
    let mut random: u64 = 0x9E37_79B9_7F4A_7C15 ^ u64::from(std::process::id());
    for _ in 0..runs {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        once(random >> 20).await;
    }
}
