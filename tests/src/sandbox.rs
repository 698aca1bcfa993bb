//! A temporary project, a Pilcrow home next to it, and calls of the executable.
//!
//! The path has a space, and the user's own settings are not used.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::built;
use crate::processes::{Mark, VARIABLE, wait_for};

/// Maximum time of every call; a hang becomes a failure that shows the output.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// User id without rights, for tests of permissions when the tests run as root.
const UNPRIVILEGED: u32 = 65534;

/// A project and a Pilcrow home.
///
/// They are removed at the end, with all processes that were started in them.
pub struct Sandbox {
    directory: tempfile::TempDir,
    /// Variables of every call, besides the sandbox's own.
    pub variables: BTreeMap<String, String>,
    mark: Mark,
    unprivileged: bool,
}

/// The end of a call.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// Duration of the call.
    pub took: Duration,
}

/// The answer of `pilcrow tool --json`.
#[derive(Debug)]
pub struct Answer {
    /// The exit code of the process; `None` in a batch, which continues.
    pub exit: Option<i32>,
    pub value: Value,
}

impl Sandbox {
    #[expect(clippy::new_without_default, reason = "it creates directories and starts nothing by default")]
    pub fn new() -> Sandbox {
        let directory = tempfile::Builder::new().prefix("pilcrow e2e ").tempdir().expect("temporary folder");
        for name in ["the project", "home", "user"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        // An edit that is answered ends its wait early; a busy machine may need long.
        let variables = BTreeMap::from([("PILCROW_EDIT_WAIT".to_owned(), "10s".to_owned())]);
        Sandbox { directory, variables, mark: Mark::new(), unprivileged: false }
    }

    /// Creates a project with these files.
    pub fn with(files: &[(&str, &str)]) -> Sandbox {
        let sandbox = Sandbox::new();
        for (path, text) in files {
            sandbox.write(path, text);
        }
        sandbox
    }

    pub fn project(&self) -> PathBuf {
        self.directory.path().join("the project")
    }

    /// Pilcrow's home (`PILCROW_HOME`).
    pub fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// A path next to the project, outside of it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The mark of all processes of this sandbox.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Writes a file of the project, as another program would.
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// A file's bytes as lossy text, to compare whole texts.
    #[track_caller]
    pub fn read(&self, path: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.project().join(path)).unwrap()).into_owned()
    }

    /// Every file of the project with its bytes.
    ///
    /// Directories end with `/` and are empty, links end with `@` and contain their target.
    pub fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        let mut tree = BTreeMap::new();
        let mut pending = vec![(self.project(), String::new())];
        while let Some((directory, prefix)) = pending.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                let kind = entry.file_type().unwrap();
                if kind.is_symlink() {
                    let target = fs::read_link(entry.path()).unwrap();
                    tree.insert(format!("{name}@"), target.into_os_string().into_encoded_bytes());
                } else if kind.is_dir() {
                    tree.insert(format!("{name}/"), Vec::new());
                    pending.push((entry.path(), format!("{name}/")));
                } else {
                    match fs::read(entry.path()) {
                        Ok(bytes) => drop(tree.insert(name, bytes)),
                        // The file disappeared after the listing, as temporary files do.
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                        Err(error) => panic!("{name}: {error}"),
                    }
                }
            }
        }
        tree
    }

    /// Makes later calls run as an unprivileged user, who owns the sandbox.
    ///
    /// Needed when the tests run as root, who may write read-only files.
    pub fn drop_root(&mut self) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // The executable may be in a directory that only root can enter.
        let copy = self.directory.path().join("pilcrow");
        // Another process copies it: if this one had the copy open for writing while another test
        // starts a program, that program would inherit the descriptor for a moment, and the copy
        // could not start ("text file busy").
        let copied = Command::new("cp").arg(built::pilcrow()).arg(&copy).status().unwrap();
        assert!(copied.success(), "the executable can be copied");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        let mut pending = vec![self.directory.path().to_owned()];
        while let Some(path) = pending.pop() {
            std::os::unix::fs::lchown(&path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
            if path.symlink_metadata().unwrap().is_dir() {
                pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        self.unprivileged = true;
    }

    /// `pilcrow` with these arguments, `-C` the project, and a clean environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.command_anywhere(args);
        command.arg("-C").arg(self.project());
        command
    }

    /// Runs `pilcrow` to its end under another program, which these words start.
    #[track_caller]
    pub fn run_under(&self, words: &[&str], args: &[&str]) -> Ran {
        let mut command = self.command_under(words, args);
        finish(command.spawn().expect("the program starts"), DEADLINE)
    }

    /// A command in the project as an argument of the program `words[0]`.
    pub(crate) fn command_under(&self, words: &[&str], args: &[&str]) -> Command {
        let inner = self.command(args);
        let mut command = Command::new(words[0]);
        self.prepare(&mut command);
        if self.unprivileged {
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        command.args(&words[1..]).arg(inner.get_program()).args(inner.get_args());
        command
    }

    /// A command without `-C`, for calls that concern no project.
    pub fn command_anywhere(&self, args: &[&str]) -> Command {
        let copy = self.directory.path().join("pilcrow");
        let mut command = Command::new(if self.unprivileged { &copy } else { built::pilcrow() });
        self.prepare(&mut command);
        if self.unprivileged {
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        command.args(args);
        command
    }

    /// Starts a command in the product's own sandbox, with this profile and input.
    pub fn confined(&self, level: &str, profile: &Value, words: &[&str], input: &str) -> Child {
        let spec = serde_json::json!({
            "level": level, "cwd": self.project(), "no_input": false, "profile": profile,
        });
        let mut command = self.command_anywhere(&[&["__confine"], words].concat());
        // The helper passes the listener of its proxy there.
        let (mut own, input_of_helper) = UnixStream::pair().unwrap();
        command.stdin(OwnedFd::from(input_of_helper));
        let child = command.spawn().expect("pilcrow starts");
        let spec = spec.to_string();
        own.write_all(format!("{}\n{spec}{input}", spec.len()).as_bytes()).unwrap();
        own.shutdown(Shutdown::Write).unwrap();
        std::thread::spawn(move || own.read_to_end(&mut Vec::new()));
        child
    }

    /// A profile in which only the project is writable.
    ///
    /// Its repository's hooks and settings are not.
    pub fn profile(&self, hidden: &[PathBuf], network: &str) -> Value {
        let git = self.project().join(".git");
        serde_json::json!({
            "writable": [self.project()],
            "created": [],
            "read_only": [],
            "protected": [git.join("hooks"), git.join("config")],
            "nested": null,
            "hidden": hidden,
            "readable": [],
            "network": network,
            "unix_sockets": false,
            "required": false,
        })
    }

    /// Sets the sandbox's environment for a command.
    ///
    /// It has the mark and the homes, but no keys and no settings.
    pub fn prepare(&self, command: &mut Command) {
        command.env_clear().current_dir(self.directory.path());
        for name in ["PATH", "PILCROW_TOOLS", "RUST_SRC_PATH", "LANG", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // rustup's cargo, which rust-analyzer calls, has its toolchains by default below the home.
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        for (name, directory) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            command.env(name, std::env::var_os(name).map_or_else(|| home.join(directory), PathBuf::from));
        }
        command
            .env("HOME", self.directory.path().join("user"))
            .env("PILCROW_HOME", self.home())
            .env(VARIABLE, self.mark.value())
            // The tests must not find other servers on this machine.
            .env("PILCROW_MODEL_DISCOVERY", "off")
            .envs(&self.variables)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// Runs `pilcrow` to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args).spawn().expect("pilcrow starts"), DEADLINE)
    }

    /// Runs `pilcrow` without `-C` to its end.
    #[track_caller]
    pub fn run_anywhere(&self, args: &[&str]) -> Ran {
        finish(self.command_anywhere(args).spawn().expect("pilcrow starts"), DEADLINE)
    }

    /// Runs `pilcrow` with this on its standard input.
    #[track_caller]
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("pilcrow starts");
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        // A process that ends without reading closes the pipe; its status shows the reason.
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let ran = finish(child, DEADLINE);
        drop(writer.join().unwrap());
        ran
    }

    /// Calls one tool with `--yes --json`.
    #[track_caller]
    pub fn tool(&self, name: &str, arguments: &Value) -> Answer {
        let ran = self.run(&["tool", name, &arguments.to_string(), "--yes", "--json"]);
        Answer { exit: ran.status.code(), value: one_line(&ran) }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.mark.kill_all();
    }
}

impl Ran {
    /// The exit code; a panic if a signal ended it.
    #[track_caller]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by a signal: {self:?}"))
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Panics with the whole output unless it ended with this code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(self.status.code(), Some(code), "{}\n{}\n{}", self.status, self.stdout, self.stderr);
        self
    }

    pub fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl Answer {
    /// The text of all content blocks.
    pub fn text(&self) -> String {
        let blocks = self.value["content"].as_array().cloned().unwrap_or_default();
        blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The error's code, if the answer is an error.
    pub fn error(&self) -> Option<&str> {
        self.value["error"]["code"].as_str()
    }

    /// Panics unless it succeeded; returns the text.
    #[track_caller]
    pub fn ok(&self) -> String {
        assert_eq!(self.value["is_error"], Value::Bool(false), "{:#}", self.value);
        self.text()
    }

    /// Panics unless it failed with this code, in text and data; returns the text.
    #[track_caller]
    pub fn fails(&self, code: &str) -> String {
        assert_eq!(self.error(), Some(code), "{:#}", self.value);
        assert_eq!(self.value["is_error"], Value::Bool(true), "{:#}", self.value);
        assert!(self.exit.is_none_or(|exit| exit != 0), "an error with exit 0: {:#}", self.value);
        let text = self.text();
        assert!(!text.trim().is_empty(), "an error that says nothing: {:#}", self.value);
        text
    }
}

/// Waits for a process to end and collects its output.
///
/// Kills it after `deadline` and panics.
#[track_caller]
pub fn finish(mut child: Child, deadline: Duration) -> Ran {
    let started = Instant::now();
    let read = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream
                .map(|mut stream| stream.read_to_end(&mut bytes))
                .transpose()
                .expect("its output can be read");
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = read(child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let stderr = read(child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let mut status = None;
    if !wait_for(deadline, || {
        status = child.try_wait().expect("the process can be awaited");
        status.is_some()
    }) {
        child.kill().expect("the process can be killed");
        child.wait().expect("it ended");
        panic!("not finished after {deadline:?}\n{}\n{}", stdout.join().unwrap(), stderr.join().unwrap());
    }
    let took = started.elapsed();
    Ran { status: status.unwrap(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap(), took }
}

/// The single line of JSON that a call with `--json` prints.
#[track_caller]
fn one_line(ran: &Ran) -> Value {
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 1, "not one line of JSON: {ran:?}");
    serde_json::from_str(lines[0]).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Limits a sandbox to these programs of the tools directory, with no other server.
pub fn give(sandbox: &mut Sandbox, programs: &[&str]) {
    let tools = PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env sets PILCROW_TOOLS"));
    let own = sandbox.beside("tools");
    fs::create_dir_all(own.join("bin")).expect("the tools directory");
    for program in programs {
        std::os::unix::fs::symlink(tools.join("bin").join(program), own.join("bin").join(program))
            .expect("a link");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let wanted = ["node", "cargo", "go", "cc", "sh"];
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path)
        .filter(|directory| {
            !directory.starts_with(&tools) && wanted.iter().any(|name| directory.join(name).exists())
        })
        .collect();
    directories.insert(0, own.join("bin"));
    let path = std::env::join_paths(directories).expect("a path");
    sandbox.variables.insert("PATH".to_owned(), path.to_string_lossy().into_owned());
    sandbox.variables.insert("PILCROW_TOOLS".to_owned(), own.display().to_string());
}

/// Makes a file executable for all.
pub fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::kill;

    #[test]
    fn a_daemonized_process_is_found() {
        let sandbox = Sandbox::new();
        let mut shell = Command::new("sh");
        sandbox.prepare(&mut shell);
        let ran = finish(
            shell.args(["-c", "setsid sleep 3600 >/dev/null 2>&1 & echo $!"]).spawn().unwrap(),
            Duration::from_secs(20),
        );
        assert!(ran.status.success(), "{ran:?}");
        assert!(wait_for(Duration::from_secs(20), || {
            sandbox.mark().living().iter().any(|found| found.command.starts_with("sleep"))
        }));
        for found in sandbox.mark().living() {
            kill(found.pid, rustix::process::Signal::KILL);
        }
        sandbox.mark().none_left(Duration::from_secs(20));
    }

    #[test]
    fn an_error_needs_code_text_and_exit_status() {
        let value = serde_json::json!({"is_error": true, "content": [{"type": "text", "text": "why"}], "error": {"code": "denied"}});
        assert_eq!(Answer { exit: Some(1), value: value.clone() }.fails("denied"), "why");
        for (exit, code) in [(Some(0), "denied"), (Some(1), "not_found")] {
            let answer = Answer { exit, value: value.clone() };
            assert!(std::panic::catch_unwind(|| answer.fails(code)).is_err());
        }
    }
}
