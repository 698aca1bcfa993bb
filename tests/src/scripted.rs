//! A sandbox whose Python language server is the scripted one.
//!
//! It is in the tools directory under the name of the built-in definition's program, so Pilcrow
//! needs no configuration. The n-th start runs the n-th script, later starts the last one.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::built;
use crate::sandbox::{Sandbox, make_executable};

/// The program of the built-in definition that is asked first for Python.
const PROGRAM: &str = "basedpyright-langserver";

/// The scripted server in a sandbox.
pub struct Scripted {
    record: PathBuf,
}

impl Scripted {
    /// Installs it in the sandbox.
    ///
    /// A script's `methods` are enough: the server reports that it has loaded, unless the script
    /// has a turn for `initialized`, and records its messages. `capabilities` extend the announced
    /// ones.
    pub fn install(sandbox: &mut Sandbox, scripts: &[Value]) -> Scripted {
        Self::install_as(sandbox, PROGRAM, "", scripts)
    }

    /// Puts it into the sandbox as the linter of Python.
    pub fn install_linter(sandbox: &mut Sandbox, scripts: &[Value]) -> Scripted {
        Self::install_as(sandbox, "ruff", "ruff-", scripts)
    }

    fn install_as(sandbox: &mut Sandbox, program: &str, prefix: &str, scripts: &[Value]) -> Scripted {
        let tools = sandbox.beside("scripted tools");
        let bin = tools.join("bin");
        fs::create_dir_all(&bin).expect("the tools directory");
        let record = tools.join(format!("{prefix}record.jsonl"));
        for (index, script) in scripts.iter().enumerate() {
            let mut script = script.clone();
            script["record"] = json!(record);
            let more = script["capabilities"].take();
            script["capabilities"] = json!({
                "textDocumentSync": {"openClose": true, "change": 1},
                "referencesProvider": true,
                "definitionProvider": true,
                "renameProvider": true,
                "documentSymbolProvider": true,
                "diagnosticProvider": {"interFileDependencies": true, "workspaceDiagnostics": false},
            });
            for (name, value) in more.as_object().into_iter().flatten() {
                script["capabilities"][name] = value.clone();
            }
            if script["methods"]["initialized"].is_array() {
                fs::write(tools.join(format!("{prefix}script-{index}.json")), script.to_string())
                    .expect("the script");
                continue;
            }
            script["methods"]["initialized"] = json!([[{"notify": {"method": "window/logMessage", "params": {"type": 3, "message": "Found 1 source file"}}}]]);
            fs::write(tools.join(format!("{prefix}script-{index}.json")), script.to_string())
                .expect("the script");
        }
        let launcher = format!(
            "#!/bin/sh\ncd \"$(dirname \"$0\")/..\" || exit 9\nn=$(cat {prefix}starts 2>/dev/null || echo 0)\n\
             echo $((n + 1)) > {prefix}starts\n[ \"$n\" -lt {last} ] || n={last}\n\
             exec '{server}' \"$PWD/{prefix}script-$n.json\"\n",
            last = scripts.len() - 1,
            server = built::scripted_language_server().display(),
        );
        let program = bin.join(program);
        fs::write(&program, launcher).expect("the launcher");
        make_executable(&program);
        sandbox.variables.insert("PILCROW_TOOLS".to_owned(), tools.display().to_string());
        // The tools directory hides every other server.
        sandbox.variables.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
        Scripted { record }
    }

    /// The parameters of each received message of a method, over all starts.
    pub fn sent(&self, method: &str) -> Vec<Value> {
        testing::recorded(&self.record)
            .into_iter()
            .filter(|message| message["method"] == method)
            .map(|message| message["params"].clone())
            .collect()
    }

    /// The number of received messages of a method, over all starts.
    pub fn got(&self, method: &str) -> usize {
        self.sent(method).len()
    }
}
