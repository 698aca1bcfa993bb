//! What is asked of servers as such: any method, what they offer, a fresh start.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use workspace::{AbsPath, Document, ErrorCode};

use super::at;
use super::commands::{CommandEdits, Ran, asked_with_edits, commands};
use crate::answer::Answer;
use crate::capabilities::feature_of;
use crate::definition::Feature;
use crate::error::ServerError;
use crate::pool::{InUse, RequestCx, ServerPool};
use crate::server::Server;

/// How long a server that is started anew has to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// What came of a question in the server's own words.
pub type RawAnswer = Answer<Ran>;

/// What one server offers.
#[derive(Debug, Clone)]
pub struct Offered {
    /// The definition's name.
    pub server: String,
    /// The folder it works on.
    pub root: AbsPath,
    /// What it can be asked for.
    pub features: Vec<Feature>,
    /// What it cannot.
    pub lacks: Vec<Feature>,
    /// Kinds of code actions, where it says them.
    pub kinds: Vec<String>,
    /// Commands that it carries out.
    pub commands: Vec<String>,
    /// Its capabilities as they came.
    pub raw: Value,
}

impl ServerPool {
    /// Sends any request, to the server named, else to the one that is asked such a question otherwise.
    /// `textDocument` and `position` are filled in from `place` where `params` leave
    /// them out. Edits that the server sends meanwhile go to `edits`.
    ///
    /// # Errors
    /// [`ServerError`] when it was not sent: `Refused` as `unsupported` for what is not a question to a
    /// server, or would put what it knows of the texts out of step.
    pub async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Value,
        place: Option<(&Document, Option<usize>)>,
        server: Option<&str>,
        edits: &dyn CommandEdits,
        cx: &RequestCx,
    ) -> Result<RawAnswer, ServerError> {
        let clock = cx.clock();
        let document = place.map(|(document, _)| document);
        let servers = self.servers_of(document.map(|document| &document.path), server, cx).await?;
        // The one that answers this question otherwise, too.
        let first = match (document, feature_of(method)) {
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
                return Err(ServerError::Refused {
                    server: names.join(", "),
                    message: "several could be asked; name one as `server`".to_owned(),
                    code: ErrorCode::Ambiguous,
                });
            }
        };
        if is_ours(method) {
            let message = format!("{method} is what Pilcrow itself tells servers, it cannot be sent by hand");
            return Err(server.refused(ErrorCode::Unsupported, message));
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

    /// What the servers of a file offer, or those that run.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn offered(
        self: &Arc<Self>,
        path: Option<&AbsPath>,
        server: Option<&str>,
        cx: &RequestCx,
    ) -> Result<Vec<Offered>, ServerError> {
        let servers = self.servers_of(path, server, cx).await?;
        Ok(servers.iter().map(|server| offered(server)).collect())
    }

    /// Ends the servers of a file, or those that run, and starts them anew: they read the project
    /// afresh. Gives their names.
    ///
    /// # Errors
    /// [`ServerError`] when one does not start.
    pub async fn reload(
        self: &Arc<Self>,
        path: Option<&AbsPath>,
        server: Option<&str>,
        cx: &RequestCx,
    ) -> Result<Vec<String>, ServerError> {
        self.restart(path, server, GRACE, cx.clock()).await
    }

    /// The servers that a question without a feature can be meant for.
    async fn servers_of(
        self: &Arc<Self>,
        path: Option<&AbsPath>,
        name: Option<&str>,
        cx: &RequestCx,
    ) -> Result<Vec<InUse>, ServerError> {
        let mut servers = match path {
            Some(path) => self.all_of(path, name, cx.clock()).await?,
            None => self.use_running(),
        };
        servers.retain(|server| name.is_none_or(|name| name == server.name()));
        if servers.is_empty() {
            let message = match (path, name) {
                (Some(path), Some(_)) => {
                    format!("it does not speak the language of {}", self.workspace.relative(path))
                }
                (None, Some(_)) => "it is not running; name a `file` of its language".to_owned(),
                _ => "none is running; name a `file`".to_owned(),
            };
            let server = name.unwrap_or("language servers").to_owned();
            return Err(ServerError::Refused { server, message, code: ErrorCode::NotFound });
        }
        Ok(servers)
    }
}

/// What is sent to keep a server in step or to steer it, never by hand.
fn is_ours(method: &str) -> bool {
    let (scope, name) = method.split_once('/').unwrap_or(("", method));
    let told = name.strip_prefix("did").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    matches!(method, "initialize" | "initialized" | "shutdown" | "exit")
        || matches!(scope, "$" | "window" | "client")
        || (told && matches!(scope, "textDocument" | "workspace" | "notebookDocument"))
}

/// `TextDocumentPositionParams` of a place, in the server's own encoding.
async fn filled(
    server: &Server,
    document: &Document,
    offset: Option<usize>,
    cx: &RequestCx,
) -> Result<Option<serde_json::Map<String, Value>>, ServerError> {
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
    use super::is_ours;

    #[test]
    fn what_keeps_servers_in_step_is_not_sent_by_hand() {
        for method in
            ["initialize", "exit", "textDocument/didChange", "workspace/didRenameFiles", "$/cancelRequest"]
        {
            assert!(is_ours(method), "{method}");
        }
        for method in
            ["textDocument/hover", "rust-analyzer/expandMacro", "workspace/executeCommand", "x/didactic"]
        {
            assert!(!is_ours(method), "{method}");
        }
    }
}
