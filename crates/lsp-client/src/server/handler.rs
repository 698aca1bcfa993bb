//! Handler of messages from servers.
//!
//! Every request of LSP 3.17 that a server may send has a response; the handler refuses an unknown
//! one with `-32601`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use paths::AbsPath;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use wire::{Handler, IncomingRequest, Peer, RpcError};

use crate::answer::RawJson;
use crate::files::external_changes::registered;
use crate::server::core::Core;
use crate::server::edit::Converter;
use crate::server::edit_inbox::PendingEdit;
use crate::server::host::{MessageType, ShowDocument};
use crate::server::protocol::{Published, RawWorkspaceEdit};

/// The reason in the response to an edit that arrives after its request has ended.
const LATE: &str = "the request that caused this edit has ended";

pub(crate) struct ServerHandler(pub Arc<Core>);

fn value(params: Option<&RawValue>) -> Value {
    params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or(Value::Null)
}

impl Handler for ServerHandler {
    fn notification(&self, _: &Peer, method: &str, params: Option<&RawValue>) {
        let core = &self.0;
        if method == "textDocument/publishDiagnostics" {
            return published(core, params);
        }
        let params = value(params);
        match method {
            "$/progress" => {
                core.loading.progress(&params);
                core.diagnostics.progress(&params, core.loading.kind(&params));
                core.check_on_save.progress(&params);
            }
            "window/logMessage" | "window/showMessage" => {
                let text = params["message"].as_str().unwrap_or_default();
                let kind = match params["type"].as_u64() {
                    Some(1) => MessageType::Error,
                    Some(2) => MessageType::Warning,
                    Some(3) => MessageType::Info,
                    _ => MessageType::Log,
                };
                core.loading.log_message(text);
                if method == "window/showMessage" {
                    core.add_message(kind, text);
                }
                tracing::debug!(server = core.definition.name, ?kind, "{text}");
                core.host.message(&core.definition.name, kind, text);
            }
            other => {
                core.loading.status(other, &params);
                core.language_version.notification(other, &params);
                core.diagnostics.status(other, &params);
                tracing::trace!(server = core.definition.name, method = other, "notification");
            }
        }
    }

    fn request(
        &self,
        _: &Peer,
        request: IncomingRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let core = Arc::clone(&self.0);
        let params = value(request.params.as_deref());
        core.loading.request(&request.method);
        // The tables change here, in wire order, before any later message is read.
        let now = match request.method.as_str() {
            "workspace/configuration" => Some(configuration(&core, &params)),
            "client/registerCapability" => {
                let mut capabilities = core.capabilities();
                for registration in params["registrations"].as_array().into_iter().flatten() {
                    capabilities.register(
                        registration["id"].as_str().unwrap_or_default(),
                        registration["method"].as_str().unwrap_or_default(),
                        registration["registerOptions"].clone(),
                    );
                }
                Some(Value::Null)
            }
            "client/unregisterCapability" => {
                let mut capabilities = core.capabilities();
                // The specification's spelling, and the correct one.
                for name in ["unregisterations", "unregistrations"] {
                    for registration in params[name].as_array().into_iter().flatten() {
                        capabilities.unregister(registration["id"].as_str().unwrap_or_default());
                    }
                }
                Some(Value::Null)
            }
            "workspace/workspaceFolders" => Some(core.workspace_folders()),
            "window/workDoneProgress/create" => {
                core.diagnostics.announced(&params["token"]);
                Some(Value::Null)
            }
            "window/showMessageRequest"
            | "workspace/diagnostic/refresh"
            | "workspace/semanticTokens/refresh"
            | "workspace/inlayHint/refresh"
            | "workspace/inlineValue/refresh"
            | "workspace/codeLens/refresh"
            | "workspace/foldingRange/refresh" => Some(Value::Null),
            _ => None,
        };
        Box::pin(async move {
            if request.method == "client/registerCapability" {
                registered(&core).await;
            }
            let answer = match now {
                Some(value) => value,
                None if request.method == "workspace/applyEdit" => apply_edit(&core, params).await,
                None if request.method == "window/showDocument" => {
                    let wanted = ShowDocument {
                        uri: params["uri"].as_str().unwrap_or_default().to_owned(),
                        external: params["external"] == true,
                        selection: params["selection"].clone(),
                    };
                    json!({"success": core.host.show_document(&core.definition.name, wanted).await})
                }
                None => {
                    tracing::debug!(
                        server = core.definition.name,
                        method = request.method,
                        "unknown request"
                    );
                    return Err(RpcError::method_not_found(&request.method));
                }
            };
            wire::raw(&answer).map_err(|error| RpcError::new(wire::codes::INTERNAL_ERROR, error.to_string()))
        })
    }
}

/// Handles `textDocument/publishDiagnostics`.
///
/// The list is parsed on demand.
fn published(core: &Core, params: Option<&RawValue>) {
    let read = params.map(|params| serde_json::from_str::<Published<'_>>(params.get()));
    let Some(Ok(Published { uri, version, diagnostics })) = read else {
        tracing::debug!(server = core.definition.name, "published diagnostics cannot be read");
        return;
    };
    let Some(path) = paths::uri_to_path(&uri).and_then(AbsPath::new) else { return };
    let version = version.and_then(|version| version.as_i64()).map(|version| version as i32);
    let items = diagnostics.map_or_else(RawJson::empty_list, RawJson::new);
    core.check_on_save.push(&path, &items);
    core.diagnostics.push(path, version, items);
}

fn configuration(core: &Core, params: &Value) -> Value {
    params["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| {
            let section = item["section"].as_str();
            let own = core.host.configuration(&core.definition.name, section);
            let scope = item["scopeUri"].as_str().and_then(paths::uri_to_path).and_then(AbsPath::new);
            own.unwrap_or_else(|| adapters::section(&core.settings_for(scope.as_ref()), section))
        })
        .collect()
}

async fn apply_edit(core: &Core, params: Value) -> Value {
    let refused = |reason: String| json!({"applied": false, "failureReason": reason});
    let label = params["label"].as_str().unwrap_or("edit by the server").to_owned();
    let raw: RawWorkspaceEdit = match serde_json::from_value(params["edit"].clone()) {
        Ok(raw) => raw,
        Err(error) => return refused(format!("the edit cannot be read: {error}")),
    };
    let snapshot = core.documents().snapshot();
    let encoding = core.capabilities().encoding();
    let inbox = core.edits().clone();
    let since = inbox.as_ref().map(|inbox| inbox.since);
    let converter = Converter { workspace: &core.workspace, snapshot: &snapshot, encoding, since };
    let edit = match converter.convert(raw, label) {
        Ok(edit) => edit,
        Err(problem) => return refused(problem.to_string()),
    };
    let made = match inbox {
        Some(inbox) => {
            let (done, made) = oneshot::channel();
            match inbox.sender.send(PendingEdit { edit, done }).await {
                Ok(()) => made.await.unwrap_or_else(|_| Err(LATE.to_owned())),
                Err(_) => Err(LATE.to_owned()),
            }
        }
        None => core.host.apply_edit(&core.definition.name, edit).await,
    };
    match made {
        Ok(()) => json!({"applied": true}),
        Err(reason) => refused(reason),
    }
}
