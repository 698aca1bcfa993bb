//! What a client says of itself at `initialize`, and what we answer. Pure.

use std::path::PathBuf;

use adapters::MessageForm;
use editor_sync::editors::ClientFacts;
use serde_json::{Value, json};

use super::{actions, commands};

/// The version of our own methods, `experimental.pilcrow.protocol`.
pub const PROTOCOL: u64 = 1;

/// A client, as it introduced itself. What it did not say counts as not offered.
#[derive(Debug, Clone)]
pub struct Client {
    /// Who it is and how its edits work.
    pub facts: ClientFacts,
    /// The process that started us; we end when it does.
    pub process_id: Option<u32>,
    /// Workspace folders, else the root, as paths; what is no `file:` is left out.
    pub folders: Vec<PathBuf>,
    /// `initializationOptions.pilcrow`.
    pub settings: Value,
    /// Whether the editor's own question about trust was answered, and how.
    pub trusted: Option<bool>,
    /// It shows work-done progress that we begin.
    pub progress: bool,
    /// It opens documents that we name.
    pub show_document: bool,
    /// It answers `workspace/configuration`.
    pub configuration: bool,
    /// `workspace/didChangeConfiguration` must be registered.
    pub registers_configuration: bool,
    /// It shows tags of code actions.
    pub action_tags: bool,
    /// It takes code actions, rather than bare commands.
    pub action_literals: bool,
    /// It takes snippets in edits (LSP 3.18).
    pub snippets: bool,
    /// It asks for code lenses again when told to.
    pub lens_refresh: bool,
    /// Our plugin, which shows events itself (`pilcrow/event`).
    pub events: bool,
    /// Our plugin, which shows answers of any length.
    pub answers: bool,
}

impl Client {
    /// Reads the parameters of `initialize`.
    pub fn read(params: &Value) -> Self {
        let capabilities = &params["capabilities"];
        let yes = |pointer: &str| capabilities.pointer(pointer) == Some(&Value::Bool(true));
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
            progress: yes("/window/workDoneProgress"),
            show_document: yes("/window/showDocument/support"),
            configuration: yes("/workspace/configuration"),
            registers_configuration: yes("/workspace/didChangeConfiguration/dynamicRegistration"),
            action_tags: tags.and_then(Value::as_array).is_some_and(|tags| tags.contains(&json!(1))),
            action_literals: capabilities
                .pointer("/textDocument/codeAction/codeActionLiteralSupport")
                .is_some_and(Value::is_object),
            snippets: yes("/workspace/workspaceEdit/snippetEditSupport"),
            lens_refresh: yes("/workspace/codeLens/refreshSupport"),
            events: yes("/experimental/pilcrow/events"),
            answers: yes("/experimental/pilcrow/answers"),
        }
    }

    /// What a message may be.
    pub fn message_form(&self) -> MessageForm {
        if self.answers { MessageForm::whole() } else { self.facts.editor.message.clone() }
    }

    /// The answer to `initialize`.
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
    let listed = named(&params["workspaceFolders"]);
    if !listed.is_empty() {
        return listed;
    }
    let uri = params["rootUri"].as_str().and_then(paths::uri_to_path);
    uri.or_else(|| params["rootPath"].as_str().map(PathBuf::from)).into_iter().collect()
}

/// The paths of a list of workspace folders.
pub fn named(folders: &Value) -> Vec<PathBuf> {
    let uris = folders.as_array().into_iter().flatten().filter_map(|folder| folder["uri"].as_str());
    uris.filter_map(paths::uri_to_path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_says_nothing_is_offered_what_all_understand() {
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
