//! VS Code as code-server in a headless Chromium.
//!
//! Keys and clicks go through `editors/vscode.mjs`, texts through the helper extension
//! `editors/vscode-eyes`. No file is saved automatically (`files.autoSave: off`): the default of
//! the web hides mistakes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::{PATIENCE, artifacts, helper, plugin, tool};
use crate::built;
use crate::processes::wait_for;
use crate::sandbox::{Sandbox, finish};

const CHROMIUM: &str = "/usr/bin/chromium";

/// A running VS Code with a window on the project.
pub struct VsCode<'a> {
    sandbox: &'a Sandbox,
    server: Child,
    browser: Child,
    hands: ChildStdin,
    said: BufReader<ChildStdout>,
    eyes: PathBuf,
    artifacts: PathBuf,
}

/// A document as the editor has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    pub text: String,
    /// Whether it has unsaved changes.
    pub dirty: bool,
}

impl<'a> VsCode<'a> {
    /// Starts VS Code on the sandbox's project, and waits until the plugin runs.
    ///
    /// Screenshots go to `target/artifacts/NAME`.
    #[track_caller]
    pub fn start(sandbox: &'a Sandbox, name: &str) -> VsCode<'a> {
        Self::launch(sandbox, name, true)
    }

    /// Starts it in restricted mode: the user has not trusted the project.
    #[track_caller]
    pub fn start_restricted(sandbox: &'a Sandbox, name: &str) -> VsCode<'a> {
        Self::launch(sandbox, name, false)
    }

    #[track_caller]
    fn launch(sandbox: &'a Sandbox, name: &str, trusted: bool) -> VsCode<'a> {
        assert!(Path::new(CHROMIUM).exists(), "{CHROMIUM} is missing; run: cargo xtask setup");
        let extensions = sandbox.beside("extensions");
        copy(&helper("vscode-eyes"), &extensions.join("tests.eyes-0.0.1"));
        copy(extension(), &extensions.join("pilcrow.pilcrow-0.1.0"));
        let data = sandbox.beside("code");
        fs::create_dir_all(data.join("User")).unwrap();
        fs::write(data.join("User/settings.json"), settings().to_string()).unwrap();
        set_path(sandbox, built::pilcrow());

        let eyes = sandbox.beside("eyes.sock");
        let log = sandbox.beside("code-server.log");
        let start = || {
            let mut server = Command::new(tool("bin/node24"));
            sandbox.prepare(&mut server);
            let output = File::create(&log).unwrap();
            server
                .arg(tool("lib/code-server").join("out/node/entry.js"))
                .args(["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry"])
                .args(["--disable-update-check", "--disable-getting-started-override"])
                .args((trusted).then_some("--disable-workspace-trust"))
                .arg("--user-data-dir")
                .arg(&data)
                .arg("--extensions-dir")
                .arg(&extensions)
                .arg("--config")
                .arg(sandbox.beside("code-server.yaml"))
                .env("TEST_EYES", &eyes)
                .stdout(Stdio::from(output.try_clone().unwrap()))
                .stderr(Stdio::from(output));
            server.spawn().expect("node starts")
        };
        let mut server = start();
        let mut address = String::new();
        let listens = wait_for(PATIENCE, || {
            let said = fs::read_to_string(&log).unwrap_or_default();
            // VS Code allows ten seconds, which are not enough on a busy machine.
            let gave_up = said.lines().any(|line| line.contains(" error ") && line.contains("timed out"));
            if gave_up && server.try_wait().expect("the process can be awaited").is_some() {
                server = start();
                return false;
            }
            let line =
                said.lines().find_map(|line| line.split_once("HTTP server listening on ")).map(|it| it.1);
            address = line.unwrap_or_default().trim().trim_end_matches('/').to_owned();
            !address.is_empty()
        });
        assert!(listens, "code-server does not listen\n{}", fs::read_to_string(&log).unwrap_or_default());

        let url = format!("{address}/?folder={}", percent(&sandbox.project().display().to_string()));
        let mut browser = Command::new(tool("bin/node24"));
        sandbox.prepare(&mut browser);
        browser.arg(helper("vscode.mjs")).arg(tool("lib/playwright-core")).arg(CHROMIUM).arg(url);
        let browser_log = File::create(sandbox.beside("browser.log")).unwrap();
        browser.stdin(Stdio::piped()).stderr(Stdio::from(browser_log));
        let mut browser = browser.spawn().expect("node starts");
        let hands = browser.stdin.take().unwrap();
        let said = BufReader::new(browser.stdout.take().unwrap());
        let artifacts = artifacts(name);
        let mut code = VsCode { sandbox, server, browser, hands, said, eyes, artifacts };
        code.act(json!({"do": "start"}));
        code.wait("the plugin runs", "extensions", |active| {
            active.as_array().is_some_and(|ids| ids.iter().any(|id| id == "pilcrow.pilcrow"))
        });
        code
    }

    /// Opens a file by name, as with Ctrl+P, and waits until it is shown.
    #[track_caller]
    pub fn open(&mut self, file: &str) {
        self.act(json!({"do": "open", "file": file}));
        let path = self.sandbox.project().join(file).display().to_string();
        self.wait(&format!("{file} is shown"), "active", |active| active["path"] == path.as_str());
    }

    /// Puts the cursor, counted from 1, as with Ctrl+G.
    #[track_caller]
    pub fn goto(&mut self, line: u64, column: u64) {
        self.act(json!({"do": "goto", "line": line, "column": column}));
        self.wait("the cursor is there", "active", |active| {
            active["line"] == line - 1 && active["column"] == column - 1
        });
    }

    /// Types a text into the focused element.
    #[track_caller]
    pub fn type_text(&mut self, text: &str) {
        self.act(json!({"do": "type", "text": text}));
    }

    /// Presses a key or a chord, for example `Control+Z`.
    #[track_caller]
    pub fn press(&mut self, key: &str) {
        self.act(json!({"do": "press", "key": key}));
    }

    /// Calls a command by its title, as with F1.
    #[track_caller]
    pub fn command(&mut self, title: &str) {
        self.act(json!({"do": "command", "name": title}));
    }

    /// Selects a visible answer to a question.
    #[track_caller]
    pub fn answer(&mut self, text: &str) {
        self.act(json!({"do": "answer", "text": text}));
    }

    /// Clicks on a text.
    #[track_caller]
    pub fn click(&mut self, text: &str, within: Option<&str>) {
        self.act(json!({"do": "click", "text": text, "within": within}));
    }

    /// Clicks on a button by its label; it may be shown only under the mouse.
    #[track_caller]
    pub fn click_button(&mut self, label: &str, within: &str) {
        self.act(json!({"do": "button", "label": label, "within": within}));
    }

    /// Types a text into the session view's prompt, and sends it.
    #[track_caller]
    pub fn prompt(&mut self, text: &str) {
        self.focus_prompt();
        self.type_text(text);
        self.press("Enter");
    }

    /// Puts the cursor into the session view's prompt.
    #[track_caller]
    pub fn focus_prompt(&mut self) {
        self.act(json!({"do": "prompt"}));
    }

    /// Clicks on a button of the session view.
    #[track_caller]
    pub fn click_in_view(&mut self, label: &str, within: &str) {
        self.act(json!({"do": "button", "label": label, "within": within, "inView": true}));
    }

    /// Expands a part of the session view.
    #[track_caller]
    pub fn expand_in_view(&mut self, part: &str) {
        self.act(json!({"do": "expand", "within": part}));
    }

    /// Moves the focus from the session view's prompt back to a control.
    #[track_caller]
    pub fn tab_in_view(&mut self, label: &str) {
        self.focus_prompt();
        self.act(json!({"do": "tab", "label": label}));
    }

    /// Waits until the text of the session view's prompt satisfies `wanted`.
    #[track_caller]
    pub fn wait_prompt(&mut self, what: &str, wanted: impl Fn(&str) -> bool) {
        let mut text = Value::Null;
        let came = wait_for(PATIENCE, || {
            text = self.act(json!({"do": "promptText"}));
            text.as_str().is_some_and(&wanted)
        });
        if !came {
            self.screenshot("failed");
            panic!("{what}: never so in the prompt: {text}\n{}", self.logs());
        }
    }

    /// Chooses the value of a list of the session view.
    #[track_caller]
    pub fn choose_in_view(&mut self, label: &str, value: &str) {
        self.act(json!({"do": "choose", "label": label, "value": value}));
    }

    /// Waits until a part of the session view satisfies `wanted`.
    ///
    /// Saves a screenshot and panics if it never does.
    #[track_caller]
    pub fn wait_view(&mut self, within: &str, what: &str, wanted: impl Fn(&str) -> bool) {
        let mut shown = Value::Null;
        let came = wait_for(PATIENCE, || {
            shown = self.act(json!({"do": "look", "within": within, "inView": true}));
            shown.as_str().is_some_and(&wanted)
        });
        if !came {
            self.screenshot("failed");
            panic!("{what}: never so in {within}: {shown}\n{}", self.logs());
        }
    }

    /// Loads the window again.
    #[track_caller]
    pub fn reload(&mut self) {
        self.act(json!({"do": "reload"}));
    }

    /// Waits until a text is visible.
    #[track_caller]
    pub fn shows(&mut self, text: &str, within: Option<&str>) {
        self.act(json!({"do": "shows", "text": text, "within": within}));
    }

    /// The visible text of a part of the window.
    #[track_caller]
    pub fn look(&mut self, within: &str) -> String {
        self.act(json!({"do": "look", "within": within})).as_str().unwrap_or_default().to_owned()
    }

    /// Changes the setting `pilcrow.path`, as the user does in the settings.
    pub fn set_path(&self, path: &Path) {
        set_path(self.sandbox, path);
    }

    /// The process of the server that the plugin started.
    pub fn server_process(&self) -> Option<u32> {
        let living = self.sandbox.mark().living();
        living.into_iter().find(|it| it.command.contains("pilcrow lsp")).map(|it| it.pid)
    }

    /// Saves a screenshot of the window.
    #[track_caller]
    pub fn screenshot(&mut self, name: &str) {
        let path = self.artifacts.join(format!("{name}.png"));
        self.act(json!({"do": "screenshot", "path": path}));
    }

    /// A document as the editor has it; `None` if it is not open.
    #[track_caller]
    pub fn document(&self, file: &str) -> Option<Shown> {
        let path = self.sandbox.project().join(file).display().to_string();
        let documents = self.see("documents").expect("the eyes answer");
        let found = documents.as_array()?.iter().find(|it| it["path"] == path.as_str())?.clone();
        Some(Shown { text: found["text"].as_str()?.to_owned(), dirty: found["dirty"] == true })
    }

    /// Waits until a document satisfies `wanted`.
    ///
    /// Saves a screenshot and panics if it never is.
    #[track_caller]
    pub fn wait_document(&mut self, file: &str, what: &str, wanted: impl Fn(&Shown) -> bool) {
        let mut last = None;
        let came = wait_for(PATIENCE, || {
            last = self.document(file);
            last.as_ref().is_some_and(&wanted)
        });
        if !came {
            self.screenshot("failed");
            panic!("{what}: never so in {file}: {last:?}\n{}", self.logs());
        }
    }

    /// The problems the editor shows.
    #[track_caller]
    pub fn diagnostics(&self) -> Vec<Value> {
        self.see("diagnostics").expect("the eyes answer").as_array().cloned().unwrap_or_default()
    }

    /// The position of the cursor, and the first visible line.
    #[track_caller]
    pub fn active(&self) -> Value {
        self.see("active").expect("the eyes answer")
    }

    /// Kills the whole editor at once, as a crash would.
    pub fn kill(&mut self) {
        for found in self.sandbox.mark().living() {
            if found.command.contains("code-server")
                || found.command.contains("vscode.mjs")
                || found.command.contains("chromium")
            {
                crate::processes::kill(found.pid, rustix::process::Signal::KILL);
            }
        }
        self.server.wait().unwrap();
        self.browser.wait().unwrap();
    }

    /// All log output, for a failure.
    pub fn logs(&self) -> String {
        let mut logs = Vec::new();
        let mut pending = vec![self.sandbox.beside("code/logs"), self.sandbox.beside("code/coder-logs")];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    pending.push(entry.path());
                } else if entry.path().display().to_string().contains("ilcrow") {
                    logs.push(fs::read_to_string(entry.path()).unwrap_or_default());
                }
            }
        }
        logs.join("\n")
    }

    #[track_caller]
    fn wait(&mut self, what: &str, look: &str, wanted: impl Fn(&Value) -> bool) {
        let mut last = Err(String::new());
        if !wait_for(PATIENCE, || {
            last = self.see(look);
            last.as_ref().is_ok_and(&wanted)
        }) {
            self.screenshot("failed");
            panic!("{what}: never so: {last:?}\n{}", self.logs());
        }
    }

    fn see(&self, look: &str) -> Result<Value, String> {
        let mut socket = UnixStream::connect(&self.eyes).map_err(|error| error.to_string())?;
        let mut said = String::new();
        socket.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        socket.write_all(format!("{look}\n").as_bytes()).map_err(|error| error.to_string())?;
        socket.read_to_string(&mut said).map_err(|error| error.to_string())?;
        serde_json::from_str(&said).map_err(|error| format!("{error}: {said}"))
    }

    #[track_caller]
    fn act(&mut self, request: Value) -> Value {
        writeln!(self.hands, "{request}").expect("the browser's script reads");
        let mut line = String::new();
        self.said.read_line(&mut line).expect("the browser's script answers");
        let log = || fs::read_to_string(self.sandbox.beside("browser.log")).unwrap_or_default();
        let answer: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{request}: {error}: {line}\n{}", log()));
        if let Some(error) = answer["error"].as_str() {
            let error = error.to_owned();
            if request["do"] != "screenshot" && request["do"] != "start" {
                self.screenshot("failed");
            }
            panic!("{request}: {error}\n{}", self.logs());
        }
        answer["value"].clone()
    }
}

impl Drop for VsCode<'_> {
    fn drop(&mut self) {
        // The processes may have exited already; the sandbox ends the rest.
        for child in [&mut self.browser, &mut self.server] {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Copies a directory without its dependencies.
#[track_caller]
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry")) {
        let (name, kind) = (entry.file_name(), entry.file_type().expect("a type"));
        if kind.is_file() {
            fs::copy(entry.path(), to.join(&name)).expect("a copy");
        } else if kind.is_dir() && name != "node_modules" {
            copy(&entry.path(), &to.join(&name));
        }
    }
}

/// The plugin, type-checked and bundled once per test process.
#[track_caller]
pub fn extension() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = artifacts("vscode-plugin");
        let sources = plugin("vscode");
        copy(&sources, &directory);
        std::os::unix::fs::symlink(tool("lib/vscode-plugin"), directory.join("node_modules")).unwrap();
        let mut npm = Command::new("npm");
        npm.current_dir(&directory).args(["run", "--silent", "build"]);
        npm.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran =
            finish(npm.spawn().expect("npm starts; install it with: apt-get install nodejs npm"), PATIENCE);
        assert!(ran.status.success() && directory.join("dist/extension.js").is_file(), "{}", ran.all());
        directory
    })
}

// A remote window, as this one is, ignores machine-scoped settings of the user.
fn set_path(sandbox: &Sandbox, path: &Path) {
    let folder = sandbox.beside("code/Machine");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("settings.json"), json!({ "pilcrow.path": path }).to_string()).unwrap();
}

fn settings() -> Value {
    json!({
        "files.autoSave": "off",
        "files.refactoring.autoSave": true,
        "workbench.startupEditor": "none",
        "workbench.tips.enabled": false,
        "extensions.ignoreRecommendations": true,
        "extensions.autoCheckUpdates": false,
        "chat.disableAIFeatures": true,
        "git.openRepositoryInParentFolders": "never",
        "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
        "editor.parameterHints.enabled": false,
        "editor.minimap.enabled": false,
        "window.commandCenter": false,
        "security.workspace.trust.startupPrompt": "never",
        "security.workspace.trust.banner": "never",
        "workbench.secondarySideBar.defaultVisibility": "hidden",
        "workbench.reduceMotion": "on",
    })
}

/// Encodes a path for the query of a URL.
fn percent(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
