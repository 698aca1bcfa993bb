//! Tests of the examples: each runs a prompt of a scripted model in a project.
#![expect(clippy::disallowed_methods, reason = "tests make a project and start the examples")]
#![expect(clippy::unwrap_used, reason = "a failing fixture fails the test")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A project with a script for the model, and a home of its own.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new(answer: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("project")).unwrap();
        std::fs::write(directory.path().join("answers.jsonl"), answer).unwrap();
        Self { directory }
    }

    fn project(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    fn model(&self) -> String {
        format!("script:{}", self.directory.path().join("answers.jsonl").display())
    }

    /// Runs an example with standard input.
    fn run(&self, example: &str, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new(program(example));
        command.arg(self.project()).args(arguments).env("PILCROW_HOME", self.directory.path().join("home"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

/// Returns the program of an example, which cargo builds next to the tests.
fn program(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join("examples").join(example);
    assert!(path.exists(), "{} is missing: cargo build -p host --examples", path.display());
    path
}

#[test]
fn headless_prints_the_answer() {
    let fixture = Fixture::new("{\"text\": \"It is done.\"}\n");
    let output = fixture.run("headless", &["do it", &fixture.model()], "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "It is done.\n", "{output:?}");
    assert!(output.status.success());
    let output = fixture.run("headless", &["do it", "nosuch/model"], "");
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn json_lines_end_each_request_with_its_reply() {
    let fixture = Fixture::new("{\"text\": \"It is done.\"}\n");
    let request = serde_json::json!({ "prompt": "do it", "model": fixture.model() });
    let output = fixture.run("json_lines", &[], &format!("{request}\nno request\n"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let replies: Vec<&serde_json::Value> = lines.iter().filter(|line| line.get("event").is_none()).collect();
    assert_eq!(replies.len(), 2, "{stdout}");
    assert_eq!(replies[0]["done"]["outcome"], "done");
    assert!(replies[1]["invalid_request"].is_string());
    assert!(lines.len() > 2, "no events: {stdout}");
}
