//! Neovim headless or in a terminal, driven by `--remote-send` (keys, as if typed).
//!
//! Tests inspect it through `editors/neovim-eyes.lua`. It runs with the plugin or without; without
//! it, the server's configuration is that of the guide, word for word. Only in a terminal does it
//! wait for ENTER after messages that do not fit.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::{PATIENCE, helper, plugin, tool};
use crate::built;
use crate::processes::wait_for;
use crate::sandbox::{Sandbox, finish};

/// The configuration of Neovim for Pilcrow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setup {
    /// The plugin is on the runtime path, with `vim.lsp.enable`.
    Plugin,
    /// The configuration is that of the guide.
    Bare,
}

/// The place where Neovim is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Screen {
    None,
    /// A terminal of 80 columns and 24 lines.
    Terminal,
}

pub struct Neovim<'a> {
    sandbox: &'a Sandbox,
    socket: PathBuf,
    log: PathBuf,
    child: Child,
    eyes: RefCell<Option<Eyes>>,
}

/// The channel that inspects Neovim.
struct Eyes {
    child: Child,
    stdin: ChildStdin,
    said: Receiver<String>,
}

impl<'a> Neovim<'a> {
    /// Starts Neovim with these files of the project open, the first one shown.
    ///
    /// Waits until Pilcrow runs in it.
    #[track_caller]
    pub fn start(sandbox: &'a Sandbox, setup: Setup, files: &[&str]) -> Neovim<'a> {
        Self::start_on(sandbox, setup, files, Screen::None)
    }

    /// Starts Neovim in a terminal, where long messages need an answer.
    #[track_caller]
    pub fn start_in_terminal(sandbox: &'a Sandbox, setup: Setup, files: &[&str]) -> Neovim<'a> {
        Self::start_on(sandbox, setup, files, Screen::Terminal)
    }

    #[track_caller]
    fn start_on(sandbox: &'a Sandbox, setup: Setup, files: &[&str], screen: Screen) -> Neovim<'a> {
        let socket = sandbox.beside("nvim.sock");
        let log = sandbox.beside("nvim.log");
        let init = sandbox.beside("init.lua");
        fs::write(&init, init_lua(setup)).unwrap();
        let nvim = tool("bin/nvim").display().to_string();
        let (socket_arg, init_arg) = (socket.display().to_string(), init.display().to_string());
        let mut args = vec!["--listen", &socket_arg, "-u", &init_arg];
        args.extend(files);
        let mut command = match screen {
            Screen::None => {
                let mut command = Command::new(&nvim);
                command.arg("--headless").args(&args);
                command
            }
            Screen::Terminal => {
                let words: Vec<String> = [nvim.as_str()].iter().chain(&args).map(|it| quoted(it)).collect();
                let line = format!("stty cols 80 rows 24; exec {}", words.join(" "));
                let mut command = Command::new("script");
                command.args(["--quiet", "--flush", "--return", "--command", &line]).arg("/dev/null");
                command
            }
        };
        sandbox.prepare(&mut command);
        environment(&mut command, sandbox);
        command.current_dir(sandbox.project()).env("TERM", "xterm-256color");
        let output = File::create(&log).unwrap();
        command.stdout(Stdio::from(output.try_clone().unwrap())).stderr(Stdio::from(output));
        let child = command.spawn().expect("nvim starts");
        let neovim = Neovim { sandbox, socket, log, child, eyes: RefCell::default() };
        neovim.wait("it listens", "1", |said| said == &Value::from(1));
        for file in files {
            neovim.wait_lua(
                &format!("{file} is known to the server"),
                &format!(
                    "local b = vim.fn.bufnr({0}); vim.fn.bufload(b); \
                     local c = vim.lsp.get_clients({{ name = 'pilcrow' }})[1]; \
                     if c and c.initialized and not vim.lsp.buf_is_attached(b, c.id) then vim.cmd.buffer(b) end; \
                     return c ~= nil and c.initialized and vim.lsp.buf_is_attached(b, c.id)",
                    lua_string(file)
                ),
            );
        }
        if let Some(first) = files.first() {
            neovim.show(first);
        }
        neovim
    }

    /// Types keys, in the notation of `:help key-notation`. `<` itself is `<lt>`.
    #[track_caller]
    pub fn keys(&self, keys: &str) {
        self.remote("--remote-send", keys);
    }

    /// Shows a file of the project in the window, as `:edit` does.
    #[track_caller]
    pub fn show(&self, file: &str) {
        self.lua(&format!("vim.cmd.buffer(vim.fn.bufnr({})); return true", lua_string(file)));
    }

    /// The value of an expression of Vim, once Neovim waits for no key.
    #[track_caller]
    pub fn eval(&self, expression: &str) -> Value {
        let mut last = Err(String::new());
        let came = wait_for(PATIENCE, || {
            last = self.try_eval(expression);
            !last.as_ref().is_err_and(|why| why.starts_with(BLOCKED))
        });
        match last {
            Ok(value) if came => value,
            Ok(_) => panic!("{expression}: not in time"),
            Err(why) => panic!("{expression}: {why}\n{}", self.log()),
        }
    }

    /// Whether it waits for a key, as after messages that do not fit and in a question.
    #[track_caller]
    pub fn is_blocked(&self) -> bool {
        let mode = self.ask(&json!({"mode": true})).unwrap_or_else(|why| panic!("{why}\n{}", self.log()));
        mode["blocking"] == true
    }

    /// The result of a piece of Lua.
    #[track_caller]
    pub fn lua(&self, code: &str) -> Value {
        self.eval(&in_lua(code))
    }

    /// The text of a file as Neovim has it, without the final line end.
    #[track_caller]
    pub fn text(&self, file: &str) -> String {
        let lines = self.lua(&format!(
            "local b = vim.fn.bufnr({}); return vim.api.nvim_buf_get_lines(b, 0, -1, false)",
            lua_string(file)
        ));
        lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }

    /// Whether the file is not saved as it is shown.
    #[track_caller]
    pub fn is_modified(&self, file: &str) -> bool {
        self.lua(&format!("return vim.bo[vim.fn.bufnr({})].modified", lua_string(file))) == Value::Bool(true)
    }

    /// Everything in `:messages`.
    #[track_caller]
    pub fn messages(&self) -> String {
        self.eval("execute('messages')").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the text of a file satisfies `wanted`.
    ///
    /// Panics with it, and all messages, if it never is.
    #[track_caller]
    pub fn wait_text(&self, file: &str, what: &str, wanted: impl Fn(&str) -> bool) {
        let mut last = String::new();
        let came = wait_for(PATIENCE, || {
            last = self.text(file);
            wanted(&last)
        });
        assert!(came, "{what}: never so in {file}:\n{last}\n{}", self.report());
    }

    /// Waits until Lua returns true.
    #[track_caller]
    pub fn wait_lua(&self, what: &str, code: &str) {
        let mut last = Ok(Value::Null);
        let came = wait_for(PATIENCE, || {
            last = self.try_eval(&in_lua(code));
            last == Ok(Value::Bool(true))
        });
        assert!(came, "{what}: never so, {last:?} at last\n{}", self.report());
    }

    /// Waits until an expression of Vim satisfies `wanted`; it may fail before.
    #[track_caller]
    pub fn wait(&self, what: &str, expression: &str, wanted: impl Fn(&Value) -> bool) {
        let mut last = Ok(Value::Null);
        let came = wait_for(PATIENCE, || {
            last = self.try_eval(expression);
            last.as_ref().is_ok_and(&wanted)
        });
        assert!(came, "{what}: never so, {last:?} at last\n{}", self.log());
    }

    /// Answers the question that shows `choice`, by its number.
    ///
    /// (During a question Neovim evaluates nothing, so the question is read from its output.)
    #[track_caller]
    pub fn answer(&self, choice: &str) {
        let line = || {
            let log = self.log();
            let line = log.lines().rev().find(|line| line.ends_with(&format!(": {choice}")))?;
            line.split(':').next().map(|number| number.trim().to_owned())
        };
        let asked = wait_for(PATIENCE, || line().is_some());
        assert!(asked, "never asked for `{choice}`\n{}", self.log());
        self.keys(&format!("{}<CR>", line().unwrap()));
    }

    /// Kills Neovim, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // Pilcrow's processes are not leftovers of Neovim.
        *self.eyes.borrow_mut() = None;
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn report(&self) -> String {
        let messages = self.try_eval("execute('messages')");
        let messages = messages.map(|said| said.as_str().unwrap_or_default().to_owned());
        let messages = messages.unwrap_or_else(|why| why);
        format!("messages: {messages}\nlog: {}\nof the server: {}", self.log(), self.server_log())
    }

    /// The log that Neovim keeps of its servers.
    pub fn server_log(&self) -> String {
        fs::read_to_string(self.sandbox.beside("user/.local/state/nvim/lsp.log")).unwrap_or_default()
    }

    fn try_eval(&self, expression: &str) -> Result<Value, String> {
        self.ask(&json!({"eval": expression}))
    }

    /// Sends a request over the channel, which opens when Neovim listens.
    ///
    /// An error has the reason why there is no answer.
    fn ask(&self, request: &Value) -> Result<Value, String> {
        let mut eyes = self.eyes.borrow_mut();
        if eyes.is_none() {
            if !self.socket.exists() {
                return Err("Neovim does not listen".to_owned());
            }
            *eyes = Some(self.open_eyes());
        }
        let answer = eyes.as_mut().map(|eyes| {
            writeln!(eyes.stdin, "{request}").map_err(|error| error.to_string())?;
            eyes.said.recv_timeout(PATIENCE).map_err(|error| error.to_string())
        });
        let answer = answer.unwrap_or_else(|| Err(String::new())).inspect_err(|_| *eyes = None)?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| format!("{error}: {answer}"))?;
        if let Some(mode) = answer["blocked"].as_str() {
            return Err(format!("{BLOCKED} (mode {mode})"));
        }
        answer["error"].as_str().map_or_else(|| Ok(answer["value"].clone()), |why| Err(why.to_owned()))
    }

    fn open_eyes(&self) -> Eyes {
        let mut command = Command::new(tool("bin/nvim"));
        self.sandbox.prepare(&mut command);
        environment(&mut command, self.sandbox);
        command.arg("-l").arg(helper("neovim-eyes.lua")).arg(&self.socket);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("nvim starts");
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Eyes { child, stdin, said }
    }

    #[track_caller]
    fn remote(&self, how: &str, what: &str) -> String {
        self.try_remote(how, what).unwrap_or_else(|error| panic!("{what}: {error}\n{}", self.log()))
    }

    fn try_remote(&self, how: &str, what: &str) -> Result<String, String> {
        let mut command = Command::new(tool("bin/nvim"));
        self.sandbox.prepare(&mut command);
        environment(&mut command, self.sandbox);
        command.arg("--server").arg(&self.socket).arg(how).arg(what);
        let ran = finish(command.spawn().expect("nvim starts"), PATIENCE);
        // Some versions answer on standard error.
        if ran.status.success() { Ok(ran.stdout) } else { Err(ran.all()) }
    }
}

impl Drop for Neovim<'_> {
    fn drop(&mut self) {
        // Neovim may have exited already; the sandbox ends the rest.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Eyes {
    fn drop(&mut self) {
        // The channels close with the editor that they inspect.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Prefix of the error for a Neovim that waits for a key.
const BLOCKED: &str = "Neovim waits for a key";

/// Wraps Lua in an expression of Vim that returns its result.
fn in_lua(code: &str) -> String {
    let code = format!("(function() {code} end)()").replace('\'', "''");
    format!("luaeval('{code}')")
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Quotes a string for Lua.
///
/// Paths and texts of tests contain no line ends.
pub fn lua_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn environment(command: &mut Command, sandbox: &Sandbox) {
    let user = sandbox.beside("user");
    for (name, directory) in [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_RUNTIME_DIR", ".run"),
    ] {
        fs::create_dir_all(user.join(directory)).unwrap();
        command.env(name, user.join(directory));
    }
}

fn init_lua(setup: Setup) -> String {
    let path = lua_string(&built::pilcrow().display().to_string());
    match setup {
        Setup::Plugin => format!(
            "vim.opt.runtimepath:append({})\nvim.g.pilcrow_path = {path}\nvim.o.hidden = true\nvim.lsp.enable('pilcrow')\n",
            lua_string(&plugin("neovim").display().to_string())
        ),
        Setup::Bare => {
            let guide = include_str!("../../../docs/guide/editors.md");
            let lines = guide.split("```lua\n").nth(1).and_then(|rest| rest.split("```").next());
            let lines = lines.expect("the guide has the configuration of Neovim");
            let with_path = lines.replace("{ 'pilcrow', 'lsp' }", &format!("{{ {path}, 'lsp' }}"));
            assert_ne!(with_path, lines, "the guide starts `pilcrow lsp`");
            format!("vim.o.hidden = true\n{with_path}")
        }
    }
}
