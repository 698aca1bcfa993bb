//! A model that follows a test's script, for runs in an editor.
//!
//! Each run reads the script again.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A model with a script in a sandbox.
pub struct Model<'a>(&'a Sandbox);

impl<'a> Model<'a> {
    /// Makes it the sandbox's model, with a policy that asks no questions.
    ///
    /// The tests of questions have their own policy.
    pub fn install(sandbox: &'a Sandbox) -> Model<'a> {
        let config = sandbox.home().join("config");
        fs::create_dir_all(&config).unwrap();
        let script = sandbox.beside("script.jsonl");
        let text = format!(
            "hashline.line_checks = false\npolicy.mode = \"permissive\"\nmodel.default = {:?}\n",
            format!("script:{}", script.display())
        );
        fs::write(config.join("config.toml"), text).unwrap();
        Model(sandbox)
    }

    /// Scripts the next run: it reads `file`, makes these edits, and answers `answer`.
    ///
    /// The edits use the line numbers of that read, one after the other. The text it reads must not
    /// contain `hidden`.
    pub fn edits(&self, file: &str, hidden: &[&str], operations: &[String], answer: &str) {
        let mut lines = vec![json!({"tool_calls": [{"name": "read", "arguments": {"path": file}}]})];
        for (index, operation) in operations.iter().enumerate() {
            let patch = format!("[{file}#{{{{tag}}}}]\n{operation}\n");
            let mut line = json!({"tool_calls": [{"name": "edit", "arguments": {"patch": patch}}]});
            line["expect"] = json!({"last_is_error": false});
            if index == 0 {
                line["expect"]["last_lacks"] = json!(hidden);
                line["capture"] = json!({"tag": {"after": format!("[{file}#"), "before": "]"}});
            }
            lines.push(line);
        }
        lines.push(json!({"expect": {"last_is_error": false}, "text": answer}));
        self.says(&lines);
    }

    /// Scripts the next run by these lines (docs/formats/script.md).
    pub fn says(&self, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.0.beside("script.jsonl"), text).unwrap();
    }

    /// Sets the model of a role.
    pub fn role(&self, role: &str, model: &str) {
        let config = self.0.home().join("config/config.toml");
        let text = fs::read_to_string(&config).expect("the configuration");
        fs::write(config, format!("{text}roles.{role}.model = {model:?}\n")).expect("the configuration");
    }

    /// Messages and calls of the last run, for a failure.
    pub fn conversation(&self) -> String {
        let mut newest = (None, String::new());
        let mut pending = vec![self.0.home().join("state")];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    pending.push(path);
                } else if path.extension().is_some_and(|it| it == "md") {
                    let time = entry.metadata().and_then(|it| it.modified()).ok();
                    if time >= newest.0 {
                        newest = (time, fs::read_to_string(path).unwrap_or_default());
                    }
                }
            }
        }
        newest.1
    }
}
