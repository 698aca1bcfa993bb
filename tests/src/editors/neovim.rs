//! Neovim without a screen, driven by `--remote-send` (keys, as if typed) and looked at by
//! `--remote-expr`.
//!
//! With the plugin or without any of it; without, the server's configuration is the few lines that a
//! person without plugins writes.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{PATIENCE, plugin, tool};
use crate::built;
use crate::processes::wait_for;
use crate::sandbox::{Sandbox, finish};

/// How Neovim gets to know Pilcrow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setup {
    /// The plugin on the runtime path, and `vim.lsp.enable`.
    Plugin,
    /// Four lines of configuration.
    Bare,
}

/// A running Neovim.
pub struct Neovim<'a> {
    sandbox: &'a Sandbox,
    socket: PathBuf,
    log: PathBuf,
    child: Child,
}

impl<'a> Neovim<'a> {
    /// Starts it with these files of the project open, the first one shown, and waits until Pilcrow
    /// runs in it.
    #[track_caller]
    pub fn start(sandbox: &'a Sandbox, setup: Setup, files: &[&str]) -> Neovim<'a> {
        let socket = sandbox.beside("nvim.sock");
        let log = sandbox.beside("nvim.log");
        let init = sandbox.beside("init.lua");
        fs::write(&init, init_lua(setup)).unwrap();
        let mut command = Command::new(tool("bin/nvim"));
        sandbox.prepare(&mut command);
        environment(&mut command, sandbox);
        command.current_dir(sandbox.project()).arg("--headless").arg("--listen").arg(&socket);
        command.arg("-u").arg(&init).args(files);
        let output = File::create(&log).unwrap();
        command.stdout(Stdio::from(output.try_clone().unwrap())).stderr(Stdio::from(output));
        let child = command.spawn().expect("nvim starts");
        let neovim = Neovim { sandbox, socket, log, child };
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

    /// Puts a file of the project into the window, as `:edit` does.
    #[track_caller]
    pub fn show(&self, file: &str) {
        self.lua(&format!("vim.cmd.buffer(vim.fn.bufnr({})); return true", lua_string(file)));
    }

    /// The value of an expression of Vim.
    #[track_caller]
    pub fn eval(&self, expression: &str) -> Value {
        let said = self.remote("--remote-expr", &format!("json_encode({expression})"));
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{expression}: {error}: {said}"))
    }

    /// What a piece of Lua returns.
    #[track_caller]
    pub fn lua(&self, code: &str) -> Value {
        let code = format!("(function() {code} end)()").replace('\'', "''");
        self.eval(&format!("luaeval('{code}')"))
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

    /// Waits until the text of a file is as wanted. Panics with it, and all messages, if it never is.
    #[track_caller]
    pub fn wait_text(&self, file: &str, what: &str, wanted: impl Fn(&str) -> bool) {
        let mut last = String::new();
        let came = wait_for(PATIENCE, || {
            last = self.text(file);
            wanted(&last)
        });
        assert!(came, "{what}: never so in {file}:\n{last}\n{}", self.told());
    }

    /// Waits until Lua returns true.
    #[track_caller]
    pub fn wait_lua(&self, what: &str, code: &str) {
        let mut last = Value::Null;
        let came = wait_for(PATIENCE, || {
            last = self.lua(code);
            last == Value::Bool(true)
        });
        assert!(came, "{what}: never so, {last} at last\n{}", self.told());
    }

    /// Waits until an expression of Vim has the wanted value; it may fail before.
    #[track_caller]
    pub fn wait(&self, what: &str, expression: &str, wanted: impl Fn(&Value) -> bool) {
        let mut last = String::new();
        let came = wait_for(PATIENCE, || {
            let said = self.try_remote("--remote-expr", &format!("json_encode({expression})"));
            last = said.unwrap_or_else(|error| error);
            serde_json::from_str(&last).is_ok_and(|value| wanted(&value))
        });
        assert!(came, "{what}: never so, {last} at last\n{}", self.log());
    }

    /// Answers the question that shows `choice`, by its number, as a person does. (While Neovim asks it
    /// evaluates nothing; what it shows is in what it printed.)
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

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its own process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn told(&self) -> String {
        let messages = self.try_remote("--remote-expr", "execute('messages')").unwrap_or_else(|error| error);
        format!("messages: {messages}\nlog: {}\nof the server: {}", self.log(), self.server_log())
    }

    /// What Neovim logged of its servers.
    pub fn server_log(&self) -> String {
        fs::read_to_string(self.sandbox.beside("user/.local/state/nvim/lsp.log")).unwrap_or_default()
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
        // It may be gone already; the sandbox ends the rest.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A string of Lua. Paths and texts of tests hold no line ends.
pub fn lua_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn environment(command: &mut Command, sandbox: &Sandbox) {
    let user = sandbox.beside("user");
    for (name, folder) in [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_RUNTIME_DIR", ".run"),
    ] {
        fs::create_dir_all(user.join(folder)).unwrap();
        command.env(name, user.join(folder));
    }
}

fn init_lua(setup: Setup) -> String {
    let path = lua_string(&built::pilcrow().display().to_string());
    match setup {
        Setup::Plugin => format!(
            "vim.opt.runtimepath:append({})\nvim.g.pilcrow_path = {path}\nvim.o.hidden = true\nvim.lsp.enable('pilcrow')\n",
            lua_string(&plugin("neovim").display().to_string())
        ),
        Setup::Bare => format!(
            "vim.o.hidden = true\nvim.lsp.config('pilcrow', {{\n  cmd = {{ {path}, 'lsp' }},\n  root_markers = {{ '.git' }},\n}})\nvim.lsp.enable('pilcrow')\n"
        ),
    }
}
