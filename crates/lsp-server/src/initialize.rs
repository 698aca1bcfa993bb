//! The parameters and the result of `initialize`.
//!
//! The module is pure.

use std::path::PathBuf;

use adapters::MessageForm;
use editor_sync::editors::ClientFacts;
use serde_json::{Value, json};

use super::{actions, commands};

/// Version of the `pilcrow/` methods, `experimental.pilcrow.protocol`.
pub const PROTOCOL: u64 = 2;

/// Facts about the client, from its parameters of `initialize`.
///
/// Absent capabilities count as unsupported.
#[derive(Debug, Clone)]
pub struct Client {
    pub facts: ClientFacts,
    /// The client's process; the server ends with it.
    pub process_id: Option<u32>,
    /// Paths of the `file:` workspace folders, else of the root.
    pub folders: Vec<PathBuf>,
    /// `initializationOptions.pilcrow`.
    pub settings: Value,
    /// The user's answer to the editor's own question about trust.
    pub trusted: Option<bool>,
    /// Whether it supports progress that the server creates.
    pub progress: bool,
    /// Whether it supports `window/showDocument`.
    pub show_document: bool,
    /// Whether it supports `workspace/configuration`.
    pub configuration: bool,
    /// Whether the server registers for `workspace/didChangeConfiguration`.
    pub registers_configuration: bool,
    /// Whether it supports tags of code actions.
    pub action_tags: bool,
    /// Whether it supports code actions, rather than only commands.
    pub action_literals: bool,
    /// Whether it supports snippets in edits (LSP 3.18).
    pub snippets: bool,
    /// Whether it supports `workspace/codeLens/refresh`.
    pub lens_refresh: bool,
    /// Whether the client is Pilcrow's plugin, which shows `pilcrow/event`.
    pub events: bool,
    /// Whether the client is Pilcrow's plugin, which shows answers of any length.
    pub answers: bool,
    /// Whether it answers by `pilcrow/permission` and `pilcrow/input`.
    pub questions: bool,
    /// Whether the client is Pilcrow's plugin, which shows `pilcrow/list`.
    pub lists: bool,
    /// Whether the client is a plugin that shows the review by `pilcrow/review/…`.
    pub reviews: bool,
}

impl Client {
    /// Reads the parameters of `initialize`.
    pub fn read(params: &Value) -> Self {
        let capabilities = &params["capabilities"];
        let supports = |pointer: &str| capabilities.pointer(pointer) == Some(&Value::Bool(true));
        let settings = params["initializationOptions"]["pilcrow"].clone();
        let trusted = settings["trusted"].as_bool();
        let process_id = params["processId"].as_u64().and_then(|id| u32::try_from(id).ok());
        let tags = capabilities.pointer("/textDocument/codeAction/tagSupport/valueSet");
        Self {
            facts: ClientFacts::from_initialize(params),
            process_id,
            folders: folders(params),
            settings,
            trusted,
            progress: supports("/window/workDoneProgress"),
            show_document: supports("/window/showDocument/support"),
            configuration: supports("/workspace/configuration"),
            registers_configuration: supports("/workspace/didChangeConfiguration/dynamicRegistration"),
            action_tags: tags.and_then(Value::as_array).is_some_and(|tags| tags.contains(&json!(1))),
            action_literals: capabilities
                .pointer("/textDocument/codeAction/codeActionLiteralSupport")
                .is_some_and(Value::is_object),
            snippets: supports("/workspace/workspaceEdit/snippetEditSupport"),
            lens_refresh: supports("/workspace/codeLens/refreshSupport"),
            events: supports("/experimental/pilcrow/events"),
            answers: supports("/experimental/pilcrow/answers"),
            questions: supports("/experimental/pilcrow/questions"),
            lists: supports("/experimental/pilcrow/lists"),
            reviews: supports("/experimental/pilcrow/reviews"),
        }
    }

    /// Limits and line break of messages to this client.
    pub(crate) fn message_form(&self) -> MessageForm {
        if self.answers { MessageForm::whole() } else { self.facts.editor.message.clone() }
    }

    /// The result of `initialize`.
    pub fn answer(&self) -> Value {
        json!({
            "capabilities": {
                "positionEncoding": self.facts.encoding_name(),
                "textDocumentSync": { "openClose": true, "change": 2, "save": { "includeText": false } },
                "codeActionProvider": { "codeActionKinds": actions::KINDS },
                "codeLensProvider": { "resolveProvider": false },
                "executeCommandProvider": { "commands": commands::NAMES },
                "workspace": { "workspaceFolders": { "supported": true, "changeNotifications": true } },
                "experimental": { "pilcrow": { "protocol": PROTOCOL, "notifications": ["pilcrow/event"] } },
            },
            "serverInfo": { "name": "pilcrow", "version": env!("CARGO_PKG_VERSION") },
        })
    }
}

/// `workspaceFolders`, else `rootUri`, else `rootPath`.
fn folders(params: &Value) -> Vec<PathBuf> {
    let listed = folder_paths(&params["workspaceFolders"]);
    if !listed.is_empty() {
        return listed;
    }
    let uri = params["rootUri"].as_str().and_then(paths::uri_to_path);
    uri.or_else(|| params["rootPath"].as_str().map(PathBuf::from)).into_iter().collect()
}

/// The paths of a list of workspace folders.
pub(crate) fn folder_paths(folders: &Value) -> Vec<PathBuf> {
    let uris = folders.as_array().into_iter().flatten().filter_map(|folder| folder["uri"].as_str());
    uris.filter_map(paths::uri_to_path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_capabilities_gets_the_basics() {
        let client = Client::read(&json!({ "processId": null, "rootUri": null, "capabilities": {} }));
        assert!(!client.progress && !client.show_document && !client.events && !client.action_tags);
        assert_eq!((client.process_id, client.trusted, client.folders.len()), (None, None, 0));
        let answer = client.answer();
        assert_eq!(answer["capabilities"]["positionEncoding"], "utf-16");
        assert_eq!(answer["capabilities"]["textDocumentSync"]["change"], 2);
    }

    #[test]
    fn folders_come_before_the_root() {
        let root = json!({ "rootUri": "file:///a%20b", "rootPath": "/c" });
        assert_eq!(Client::read(&root).folders, [PathBuf::from("/a b")]);
        let listed = json!({ "workspaceFolders": [{ "uri": "file:///x", "name": "x" }, { "uri": "vscode-vfs://y" }], "rootUri": "file:///a" });
        assert_eq!(Client::read(&listed).folders, [PathBuf::from("/x")]);
        assert_eq!(Client::read(&json!({ "rootPath": "/c" })).folders, [PathBuf::from("/c")]);
    }
}
