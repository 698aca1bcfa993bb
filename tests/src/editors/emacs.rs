//! Emacs with eglot and without any plugin, driven through `emacsclient`.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::PATIENCE;
use crate::built;
use crate::processes::wait_for;
use crate::sandbox::{Sandbox, finish};

pub struct Emacs<'a> {
    sandbox: &'a Sandbox,
    socket: PathBuf,
    log: PathBuf,
    child: Child,
}

impl<'a> Emacs<'a> {
    /// Starts Emacs headless, with the few lines of configuration from the README.
    #[track_caller]
    pub fn start(sandbox: &'a Sandbox) -> Emacs<'a> {
        let socket = sandbox.beside("emacs.sock");
        let log = sandbox.beside("emacs.log");
        let init = sandbox.beside("init.el");
        let init_el = format!(
            "(package-activate-all)\n(require 'eglot)\n(require 'rust-mode)\n\
             (dolist (mode '(python-mode rust-mode html-mode))\n  (add-to-list 'eglot-server-programs (list mode {} \"lsp\")))\n\
             (setq eglot-confirm-server-initiated-edits nil)\n",
            lisp_string(&built::pilcrow().display().to_string())
        );
        fs::write(&init, init_el).unwrap();
        let mut command = Command::new("emacs");
        sandbox.prepare(&mut command);
        let output = File::create(&log).unwrap();
        command.current_dir(sandbox.project()).arg("-q").arg(format!("--fg-daemon={}", socket.display()));
        command.arg("-l").arg(&init);
        command.stdout(Stdio::from(output.try_clone().unwrap())).stderr(Stdio::from(output));
        let child = command.spawn().expect("emacs starts; run: cargo xtask setup");
        let emacs = Emacs { sandbox, socket, log, child };
        let listens = wait_for(PATIENCE, || emacs.try_eval("1").is_ok_and(|said| said == "1"));
        assert!(listens, "emacs does not listen\n{}", emacs.log());
        emacs
    }

    /// The value of an expression, as Emacs prints it.
    #[track_caller]
    pub fn eval(&self, expression: &str) -> String {
        self.try_eval(expression).unwrap_or_else(|error| panic!("{expression}: {error}\n{}", self.log()))
    }

    /// The value of an expression in the buffer of a file of the project.
    ///
    /// Opens the file if needed.
    #[track_caller]
    pub fn eval_in(&self, file: &str, expression: &str) -> String {
        self.eval(&self.in_file(file, expression))
    }

    /// The text of a file as Emacs has it.
    #[track_caller]
    pub fn text(&self, file: &str) -> String {
        let copy = self.sandbox.beside("text of emacs");
        self.eval_in(
            file,
            &format!(
                "(let ((text (buffer-substring-no-properties (point-min) (point-max))) (coding-system-for-write 'utf-8-unix)) (write-region text nil {} nil 'silent))",
                lisp_string(&copy.display().to_string())
            ),
        );
        fs::read_to_string(copy).unwrap()
    }

    /// Waits until an expression returns `t` in the buffer of a file.
    #[track_caller]
    pub fn wait_in(&self, file: &str, what: &str, expression: &str) {
        let mut last = String::new();
        let came = wait_for(PATIENCE, || {
            last = self.try_eval(&self.in_file(file, expression)).unwrap_or_else(|error| error);
            last == "t"
        });
        assert!(came, "{what}: never so, {last} at last\n{}\n{}", self.text(file), self.log());
    }

    /// Kills Emacs, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The messages of Emacs, and eglot's log.
    pub fn log(&self) -> String {
        let events = "(mapconcat (lambda (b) (with-current-buffer b (buffer-string))) (seq-filter (lambda (b) (string-match \"EGLOT\\\\|Messages\" (buffer-name b))) (buffer-list)) \"\\n\")";
        let events = self.try_eval(events).unwrap_or_else(|error| error).replace("\\n", "\n");
        format!("{}\n{events}", fs::read_to_string(&self.log).unwrap_or_default())
    }

    fn in_file(&self, file: &str, expression: &str) -> String {
        let path = lisp_string(&self.sandbox.project().join(file).display().to_string());
        format!("(with-current-buffer (find-file-noselect {path}) {expression})")
    }

    fn try_eval(&self, expression: &str) -> Result<String, String> {
        let mut command = Command::new("emacsclient");
        self.sandbox.prepare(&mut command);
        command.arg("-s").arg(&self.socket).arg("--eval").arg(expression);
        let ran = finish(command.spawn().expect("emacsclient starts"), PATIENCE);
        if ran.status.success() { Ok(ran.stdout.trim_end().to_owned()) } else { Err(ran.all()) }
    }
}

impl Drop for Emacs<'_> {
    fn drop(&mut self) {
        // Emacs may have exited already; the sandbox ends the rest.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Quotes a string for Lisp.
pub fn lisp_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
