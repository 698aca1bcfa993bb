//! Raw requests to servers: any method, their capabilities, a restart.

use std::sync::Arc;

use paths::AbsPath;
use serde_json::{Value, json};
use workspace::Document;

use super::commands::{CommandEdits, Ran, asked_with_edits, commands};
use super::{REQUESTS, at};
use crate::answer::Answer;
use crate::error::{Refusal, Result, ServerError};
use crate::pool::{InUse, RequestCx, ServerPool};
use crate::server::Server;
use adapters::Feature;

/// The answer to a raw request.
pub type RawAnswer = Answer<Ran>;

/// The capabilities of one server.
#[derive(Debug, Clone)]
pub struct Offered {
    pub server: String,
    /// The root directory of the server.
    pub root: AbsPath,
    pub features: Vec<Feature>,
    pub lacks: Vec<Feature>,
    /// Kinds of code actions, if it lists them.
    pub kinds: Vec<String>,
    pub commands: Vec<String>,
    /// The server's capabilities as received.
    pub raw: Value,
}

impl ServerPool {
    /// Sends any request, to the named server or the one that answers such requests.
    ///
    /// `textDocument` and `position` are filled in from `place` if `params` omit them. Edits that the server
    /// sends meanwhile go to `edits`.
    ///
    /// # Errors
    /// [`ServerError`] if the request was not sent: `Refused` as `unsupported` if it is not a request, or
    /// would change the server's view of the texts.
    pub async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Value,
        place: Option<(&Document, Option<usize>)>,
        server: Option<&str>,
        edits: &dyn CommandEdits,
        cx: &RequestCx,
    ) -> Result<RawAnswer> {
        let clock = cx.clock();
        let document = place.map(|(document, _)| document);
        let servers = self.servers_of(document.map(|document| &document.path), server, cx).await?;
        // Chooses the server that answers this request for other callers.
        let first = match (document, REQUESTS.feature_of(method)) {
            (Some(document), Some(feature)) if servers.len() > 1 => {
                Some(self.pick(&document.path, feature, clock).await?)
            }
            _ => None,
        };
        let server = match (&servers[..], first) {
            ([server], _) => Arc::clone(server),
            (_, Some(first)) => Arc::clone(&first),
            (servers, None) => {
                let names: Vec<&str> = servers.iter().map(|server| server.name()).collect();
                let (server, refusal) = (names.join(", "), Refusal::SeveralServers);
                return Err(ServerError::Refused { server, refusal });
            }
        };
        if is_reserved(method) {
            return Err(server.refused(Refusal::Reserved(method.to_owned())));
        }
        server.wait_ready(document, clock).await?;
        let mut params = params;
        if let Some((document, offset)) = place
            && let Some(filled) = filled(&server, document, offset, cx).await?
            && let Value::Object(given) = &mut params
        {
            for (key, value) in filled {
                given.entry(key).or_insert(value);
            }
        }
        asked_with_edits(&server, document, method, &params, edits, clock).await
    }

    /// The capabilities of a file's servers, or of those that run.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn offered(
        self: &Arc<Self>,
        path: Option<&AbsPath>,
        server: Option<&str>,
        cx: &RequestCx,
    ) -> Result<Vec<Offered>> {
        let servers = self.servers_of(path, server, cx).await?;
        Ok(servers.iter().map(|server| offered(server)).collect())
    }

    /// Restarts the servers of a file, or all that run.
    ///
    /// Returns their names.
    ///
    /// # Errors
    /// [`ServerError`] when one does not start.
    pub async fn reload(
        self: &Arc<Self>,
        path: Option<&AbsPath>,
        server: Option<&str>,
        cx: &RequestCx,
    ) -> Result<Vec<String>> {
        self.restart(path, server, cx.clock()).await
    }

    /// The servers to which a request without a feature may go.
    async fn servers_of(
        self: &Arc<Self>,
        path: Option<&AbsPath>,
        name: Option<&str>,
        cx: &RequestCx,
    ) -> Result<Vec<InUse>> {
        let mut servers = match path {
            Some(path) => self.all_of(path, name, cx.clock()).await?,
            None => self.use_running(),
        };
        servers.retain(|server| name.is_none_or(|name| name == server.name()));
        if servers.is_empty() {
            let refusal = match (path, name) {
                (Some(path), Some(_)) => Refusal::OtherLanguage(self.workspace.relative(path)),
                (None, Some(_)) => Refusal::NotRunning,
                _ => Refusal::NoneRunning,
            };
            let server = name.unwrap_or("language servers").to_owned();
            return Err(ServerError::Refused { server, refusal });
        }
        Ok(servers)
    }
}

/// Whether a method is part of synchronization or of the server's lifecycle.
fn is_reserved(method: &str) -> bool {
    let (scope, name) = method.split_once('/').unwrap_or(("", method));
    let is_notification = name.strip_prefix("did").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    matches!(method, "initialize" | "initialized" | "shutdown" | "exit")
        || matches!(scope, "$" | "window" | "client")
        || (is_notification && matches!(scope, "textDocument" | "workspace" | "notebookDocument"))
}

/// `TextDocumentPositionParams` of a place, in the server's own encoding.
async fn filled(
    server: &Server,
    document: &Document,
    offset: Option<usize>,
    cx: &RequestCx,
) -> Result<Option<serde_json::Map<String, Value>>> {
    let synced = server.open(document, cx.clock()).await?;
    let encoding = server.core.capabilities().encoding();
    let params = match offset {
        Some(offset) => at(Some(&synced), offset, encoding),
        None => json!({"textDocument": {"uri": synced.uri}}),
    };
    Ok(match params {
        Value::Object(params) => Some(params),
        _ => None,
    })
}

fn offered(server: &Server) -> Offered {
    let capabilities = server.core.capabilities();
    let (features, lacks) = Feature::ALL.iter().partition(|feature| capabilities.offers(**feature));
    let kinds = capabilities.provider("codeActionProvider", "textDocument/codeAction");
    let kinds = kinds.and_then(|options| options["codeActionKinds"].as_array()).cloned().unwrap_or_default();
    let kinds = kinds.iter().filter_map(|kind| kind.as_str().map(str::to_owned)).collect();
    let raw = capabilities.raw().clone();
    drop(capabilities);
    Offered {
        server: server.name().to_owned(),
        root: server.core.root.clone(),
        features,
        lacks,
        kinds,
        commands: commands(&server.core),
        raw,
    }
}

#[cfg(test)]
mod tests {
    use super::is_reserved;

    #[test]
    fn methods_of_synchronization_are_reserved() {
        for method in
            ["initialize", "exit", "textDocument/didChange", "workspace/didRenameFiles", "$/cancelRequest"]
        {
            assert!(is_reserved(method), "{method}");
        }
        for method in
            ["textDocument/hover", "rust-analyzer/expandMacro", "workspace/executeCommand", "x/didactic"]
        {
            assert!(!is_reserved(method), "{method}");
        }
    }
}
