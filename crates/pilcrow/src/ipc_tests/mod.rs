//! Owners and commands in separate processes.
//!
//! Each process runs this test program in its role.

#![expect(clippy::disallowed_methods, reason = "tests write their fixtures and start programs")]

mod faults;
mod peers;
mod protocol;
mod remote_execution;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::{Envelope, EventSink};
use clap::Parser;
use futures_util::future::BoxFuture;
use host::project::{Access, Project};
use host::{Frontend, Host, ProjectHandle, ServedProject};
use parking_lot::Mutex;
use paths::AbsPath;
use policy::{Answer, Approver, Choice, Chosen, Question};
use rpc_server::IpcPeers;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use workspace::{ApplyOutcome, ContentHash, Document, Editor, FileChange, Owner, RunId, Version, Workspace};

use crate::cli::Cli;

/// Time limit for expected events; only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Mark that a process prints before the output of a command.
const MARK: &str = "\n<<<command>>>\n";

/// Main function of the processes; not a test.
#[test]
fn role() {
    match std::env::var("TEST_ROLE").as_deref() {
        Ok("owner") => run_owner(),
        Ok("command") => {
            let args: Vec<String> = serde_json::from_str(&std::env::var("TEST_ARGS").unwrap()).unwrap();
            crate::output::part(MARK);
            let cli = Cli::try_parse_from(std::iter::once("pilcrow".to_owned()).chain(args)).unwrap();
            std::process::exit(i32::from(crate::status(cli.command)));
        }
        _ => {}
    }
}

/// Runs an owner that announces itself and answers lines on standard input.
fn run_owner() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let root = PathBuf::from(std::env::var("TEST_ROOT").unwrap());
        let open: BTreeMap<String, Text> =
            serde_json::from_str(&std::env::var("TEST_OPEN").unwrap()).unwrap();
        let canonical = AbsPath::new(root.canonicalize().unwrap()).unwrap();
        let texts = open.into_iter().map(|(path, text)| (canonical.join(path), text)).collect();
        let editor = Arc::new(ScriptedEditor { texts: Mutex::new(texts) });
        let host = Host::from_env().unwrap();
        let frontend = Arc::new(ScriptedFrontend(editor.clone()));
        let project = host.open_project(&root, Access::default(), frontend).unwrap();
        let homes = host.homes;
        project.workspace.set_peers(Arc::new(IpcPeers::new(&homes, false)));
        let name = std::env::var("TEST_EDITOR").unwrap();
        let served = Arc::new(OpenProject(project.clone()));
        let root = project.workspace.root();
        let guard = rpc_server::serve(&homes, root, served, &name, &CancellationToken::new()).unwrap();
        crate::output::part(MARK);
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(tokio::io::stdin()));
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.as_str() {
                "texts" => {
                    let texts = editor.texts.lock();
                    let shown =
                        |(path, text): (&AbsPath, &Text)| (project.workspace.relative(path), text.0.clone());
                    crate::output::json(&texts.iter().map(shown).collect::<BTreeMap<_, _>>());
                }
                // The decision of the owner's policy about writing a file.
                _ => {
                    let path = project.workspace.root().join("any");
                    let writes = policy::Writes::Paths(vec![path]);
                    let effects = policy::Effects { writes, ..Default::default() };
                    crate::output::json(&format!("{:?}", project.policy.judge(&effects).decision));
                }
            }
        }
        guard.close(Duration::from_secs(5)).await;
        project.close(true).await;
    });
    runtime.shutdown_background();
    std::process::exit(0);
}

/// A frontend with a scripted editor and no user.
struct ScriptedFrontend(Arc<ScriptedEditor>);

impl Frontend for ScriptedFrontend {
    fn notify(&self, _: &str) {}

    fn editor(&self) -> Option<Arc<dyn Editor>> {
        Some(self.0.clone())
    }
}

impl Approver for ScriptedFrontend {
    fn ask<'a>(&'a self, _: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Unattended })
    }

    fn choose<'a>(&'a self, _: Choice, _: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(async { Chosen::Unattended })
    }
}

impl EventSink for ScriptedFrontend {
    fn deliver<'a>(&'a self, _: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// A project that is always open.
struct OpenProject(Arc<Project>);

impl ServedProject for OpenProject {
    fn documents(&self) -> Vec<Document> {
        self.0.workspace.open_documents()
    }

    fn project(&self) -> BoxFuture<'_, anyhow::Result<ProjectHandle>> {
        let project = self.0.clone();
        Box::pin(async { Ok(ProjectHandle { project, keep_open: Box::new(()) }) })
    }
}

/// A text of the scripted editor, and whether it is unsaved.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Text(String, bool);

/// An editor that applies every edit.
struct ScriptedEditor {
    texts: Mutex<BTreeMap<AbsPath, Text>>,
}

impl ScriptedEditor {
    fn set<'a>(
        &'a self,
        changes: &'a [FileChange],
        text: impl Fn(&FileChange) -> Option<Arc<str>>,
    ) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        let mut texts = self.texts.lock();
        for change in changes {
            texts.insert(change.path.clone(), Text(text(change).unwrap().to_string(), true));
        }
        let settled = changes.iter().map(|_| ApplyOutcome::Applied).collect();
        Box::pin(async { settled })
    }
}

impl Editor for ScriptedEditor {
    fn documents(&self) -> Vec<Document> {
        let paths: Vec<AbsPath> = self.texts.lock().keys().cloned().collect();
        paths.iter().filter_map(|path| self.document(path)).collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        let Text(text, dirty) = self.texts.lock().get(path)?.clone();
        Some(Document {
            path: path.clone(),
            uri: paths::path_to_uri(path.as_path()),
            version: Version { hash: ContentHash::of(text.as_bytes()), editor: Some(1) },
            text: text.into(),
            bom: false,
            owner: Owner::Editor { dirty },
            blocked: None,
        })
    }

    fn apply<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        self.set(changes, |change| change.after.clone())
    }

    fn revert<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        self.set(changes, |change| change.before.clone())
    }
}

/// A project and a Pilcrow home.
struct Place {
    directory: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

/// The exit code and output of a command.
#[derive(Debug, Clone, PartialEq)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Place {
    fn with(files: &[(&str, &str)]) -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap(), variables: Vec::new() };
        for name in ["project", "home", "user"] {
            std::fs::create_dir(place.directory.path().join(name)).unwrap();
        }
        for (path, text) in files {
            place.write(path, text);
        }
        place
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Writes a file beside the project.
    fn beside(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Returns the directory with the sockets of a root's owners.
    fn sockets(&self, root: &Path) -> PathBuf {
        let (_, id) = Workspace::identify(root).unwrap();
        self.directory.path().join("home/run").join(id)
    }

    fn announced(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.sockets(&self.root())).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn process(&self, role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "ipc_tests::role", "--nocapture", "--test-threads=1"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.directory.path().join("user"))
            .env("PILCROW_HOME", self.directory.path().join("home"))
            .env("TEST_ROLE", role)
            .envs(self.variables.iter().cloned())
            .current_dir(self.directory.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a command.
    fn start_in(&self, root: &Path, args: &[&str]) -> Child {
        let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        args.extend(["-C".to_owned(), root.display().to_string()]);
        self.process("command").env("TEST_ARGS", serde_json::to_string(&args).unwrap()).spawn().unwrap()
    }

    fn start(&self, args: &[&str]) -> Child {
        self.start_in(&self.root(), args)
    }

    #[track_caller]
    fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self.start(args);
        // A command that ends without reading closes the pipe.
        child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
        finish(child)
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> Ran {
        self.run_with_input(args, "")
    }

    /// Starts an owner of the project, in an editor that has these files open.
    fn owner(&self, editor: &str, open: &[(&str, &str, bool)]) -> OwnerProcess {
        self.owner_of(&self.root(), editor, open)
    }

    fn owner_of(&self, root: &Path, editor: &str, open: &[(&str, &str, bool)]) -> OwnerProcess {
        let texts: BTreeMap<&str, Text> =
            open.iter().map(|(path, text, dirty)| (*path, Text((*text).to_owned(), *dirty))).collect();
        let mut command = self.process("owner");
        command.env("TEST_ROOT", root).env("TEST_EDITOR", editor).stderr(Stdio::inherit());
        command.env("TEST_OPEN", serde_json::to_string(&texts).unwrap());
        let mut child = command.spawn().unwrap();
        let (stdin, mut stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut line = String::new();
        while line != MARK.trim_start() {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the owner did not announce itself");
        }
        OwnerProcess { child, stdin, stdout }
    }
}

/// An owner in another process; its drop kills the process.
struct OwnerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl OwnerProcess {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        send(&self.child, signal);
        if signal == Signal::STOP {
            // Waits until all threads are stopped.
            let pid = Pid::from_raw(self.child.id() as i32);
            let (_, status) = waitpid(pid, WaitOptions::UNTRACED).unwrap().unwrap();
            assert!(status.stopped(), "{status:?}");
        }
    }

    fn ask(&mut self, line: &str) -> Value {
        writeln!(self.stdin.as_ref().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Returns the text in the editor.
    fn text(&mut self, path: &str) -> String {
        self.ask("texts")[path].as_str().unwrap().to_owned()
    }

    /// Closes the editor.
    #[track_caller]
    fn end(mut self) {
        drop(self.stdin.take());
        assert!(wait(|| self.child.try_wait().unwrap().is_some()), "the owner did not end");
    }
}

impl Drop for OwnerProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

/// Waits until a condition holds.
fn wait(mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > until {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}

/// Reads the output of a command up to `text`.
fn until(stdout: &mut impl Read, text: &str) {
    let mut output = Vec::new();
    while !output.ends_with(text.as_bytes()) {
        let mut byte = [0];
        if let Err(error) = stdout.read_exact(&mut byte) {
            panic!("{error}: {}", String::from_utf8_lossy(&output));
        }
        output.push(byte[0]);
    }
}

/// Waits for a command to end.
#[track_caller]
fn finish(mut child: Child) -> Ran {
    drop(child.stdin.take());
    let read = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            stream.unwrap().read_to_string(&mut text).unwrap();
            text
        })
    };
    let stdout = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let mut status = None;
    let ended = wait(|| {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    if !ended {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    assert!(ended, "the command did not end\n{stdout}\n{stderr}");
    // A test may already have read the mark.
    let stdout = stdout.split_once(MARK).map(|(_, rest)| rest.to_owned()).unwrap_or(stdout);
    Ran { code: status.unwrap().code(), stdout, stderr }
}

impl Ran {
    /// Panics with the output unless the exit code is `code`.
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Panics unless the output contains all texts.
    #[track_caller]
    fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(
                self.stdout.contains(text) || self.stderr.contains(text),
                "{text:?} is not in\n{}\n{}",
                self.stdout,
                self.stderr
            );
        }
        self
    }

    fn json(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Builds a patch that replaces the line `old` of a file that `read` showed.
fn patch(shown: &str, old: &str, new: &str) -> String {
    let (header, rows) = shown.split_once('\n').unwrap();
    let row = rows.lines().find(|row| row.ends_with(&format!("\t{old}"))).unwrap();
    let anchor = row.split_once('\t').unwrap().0;
    format!("{header}\nPUT {anchor}:\n+{new}\n")
}
