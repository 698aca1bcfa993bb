//! The bare client: the fewest messages that ask a language server the same.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tests::Sandbox;

pub(crate) struct RawClient {
    server: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    root: PathBuf,
    settings: Value,
    open: BTreeSet<String>,
    next: u64,
}

impl RawClient {
    /// Starts a server in the sandbox's environment and initializes it.
    pub(crate) fn start(
        sandbox: &Sandbox,
        mut command: Command,
        root: &Path,
        options: &Value,
        settings: Value,
    ) -> RawClient {
        sandbox.prepare(&mut command);
        command.current_dir(root).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("the server starts");
        let stdin = server.stdin.take().unwrap();
        let stdout = BufReader::new(server.stdout.take().unwrap());
        let (root, open) = (root.to_owned(), BTreeSet::new());
        let mut client = RawClient { server, stdin, stdout, root, settings, open, next: 1 };
        let uri = file_uri(&client.root);
        let params = json!({
            "processId": null, "rootUri": uri, "initializationOptions": options,
            "workspaceFolders": [{"uri": uri, "name": "project"}],
            "capabilities": {
                "workspace": {"configuration": true, "workspaceFolders": true},
                "textDocument": {"hover": {}, "definition": {}, "references": {}, "implementation": {}, "callHierarchy": {}},
            },
        });
        client.request("initialize", &params).expect("it initializes");
        client.notify("initialized", &json!({}));
        client
    }

    /// Opens a file of the root, unless it is open.
    pub(crate) fn open(&mut self, file: &str, language: &str) {
        if self.open.insert(file.to_owned()) {
            let path = self.root.join(file);
            let text = fs::read_to_string(&path).unwrap();
            let document =
                json!({"uri": file_uri(&path), "languageId": language, "version": 1, "text": text});
            self.notify("textDocument/didOpen", &json!({"textDocument": document}));
        }
    }

    /// The result of a request, or the server's error.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut message = self.receive();
            match (message.get("method").is_some(), message.get("id").cloned()) {
                (true, Some(id)) => {
                    let result = self.setting(&message);
                    self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
                }
                (false, Some(answered)) if answered == json!(id) => {
                    let error = message["error"].take();
                    return if error.is_null() { Ok(message["result"].take()) } else { Err(error) };
                }
                _ => {}
            }
        }
    }

    /// The answer to a request of the server: settings, and null for anything else.
    fn setting(&self, message: &Value) -> Value {
        if message["method"] != "workspace/configuration" {
            return Value::Null;
        }
        let items = message["params"]["items"].as_array().cloned().unwrap_or_default();
        let section = |item: &Value| {
            let path = item["section"].as_str().unwrap_or_default().replace('.', "/");
            self.settings.pointer(&format!("/{path}")).cloned().unwrap_or_default()
        };
        items.iter().map(section).collect()
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let message = format!("Content-Length: {}\r\n\r\n{text}", text.len());
        self.stdin.write_all(message.as_bytes()).and_then(|()| self.stdin.flush()).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server ended");
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut bytes = vec![0; length];
        self.stdout.read_exact(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for RawClient {
    fn drop(&mut self) {
        self.server.kill().and_then(|()| self.server.wait()).expect("the server can be ended");
    }
}

/// The URI of a path of a sandbox.
pub(crate) fn file_uri(path: &Path) -> String {
    format!("file://{}", path.display()).replace(' ', "%20")
}
