//! A small real model on loopback: text only, since it cannot call tools.
//!
//! The test checks that its answer is streamed, counted and stored, not its content. It runs on a
//! processor that other tests use as well, so every wait is long and none is endless.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;
use tests::Sandbox;

/// Maximum time until its weights are loaded.
const LOADING: Duration = Duration::from_secs(300);
/// Maximum time until it has read the instructions and answered.
const ANSWERING: Duration = Duration::from_secs(900);

/// A running server, which ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The file with this ending below a directory.
fn find(directory: &Path, ending: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.map(|entry| entry.expect("an entry").path());
    entries.into_iter().find_map(|path| match path.is_dir() {
        true => find(&path, ending),
        false => path.to_str()?.ends_with(ending).then_some(path),
    })
}

fn serve() -> (Served, String) {
    let tools =
        PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("`cargo xtask env` sets PILCROW_TOOLS"));
    let weights = find(&tools.join("lib/smollm2/lib"), ".gguf")
        .expect("`cargo xtask setup --for editors` installed it");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/model_real/serve.mjs");
    let mut child = Command::new(tools.join("bin/node24"))
        .args([&script, &tools.join("lib/node-llama-cpp").canonicalize().expect("its modules"), &weights])
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let output = child.stdout.take().expect("its output");
    let served = Served(child);
    let (sender, address) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        // The receiver was dropped if the wait timed out.
        sender.send(read.map(|_| line)).ok();
    });
    let line = address.recv_timeout(LOADING).expect("its address in time").expect("its output can be read");
    assert!(line.starts_with("http://127.0.0.1:"), "it did not start: {line:?}");
    (served, line.trim().to_owned())
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn a_small_real_model_answers() {
    let (_served, url) = serve();
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    std::fs::create_dir_all(sandbox.home().join("config")).expect("the configuration's folder");
    let settings = format!("[model]\ndefault = \"local/smollm2\"\n[providers.local]\nbase_url = \"{url}\"\n");
    std::fs::write(sandbox.home().join("config/config.toml"), settings).expect("the configuration");
    // The answer is long enough to arrive in several pieces, whatever its content.
    let question = "Explain in three sentences what a compiler does.";
    let child = sandbox.command(&["run", question, "--json"]).spawn().expect("pilcrow starts");
    let ran = tests::sandbox::finish(child, ANSWERING);
    let events: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line")["event"].clone())
        .collect();
    let streamed: Vec<&str> = events
        .iter()
        .filter(|event| event["update"]["type"] == "text_delta")
        .filter_map(|event| event["update"]["delta"].as_str())
        .collect();
    let mut answers = events
        .iter()
        .filter(|event| event["type"] == "message_end" && event["message"]["role"] == "assistant");
    let (last, more) = (answers.next().expect("an answer"), answers.next());
    assert_eq!(more, None, "the model receives one request");
    let said = last["message"]["content"][0]["text"].as_str().expect("words");
    eprintln!("it said: {said}");
    assert!(streamed.len() > 3 && streamed.concat() == said, "{streamed:?} is not {said:?}");
    // The server limits the answer to 64 tokens; a truncated answer does not count as complete.
    let status = match last["message"]["stopReason"].as_str() {
        Some("stop") => 0,
        Some("length") => 1,
        other => panic!("{other:?}: {last}"),
    };
    ran.expect(status);
    let usage = &last["message"]["usage"];
    assert!(usage["input"].as_u64() > Some(100), "our instructions are many tokens: {usage}");
    let counted = usage["output"].as_u64().expect("a count") as usize;
    assert!(counted >= streamed.len(), "a piece is a token at least: {counted} of {}", streamed.len());
}
