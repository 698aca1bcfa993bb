//! What servers want changed with files that are made or removed, before they are (LSP 3.17
//! §WillCreateFiles, §WillDeleteFiles).
//!
//! Asks servers that run and have loaded their project; none is started for it.

use std::sync::Arc;

use serde_json::{Value, json};
use workspace::{AbsPath, WorkspaceEdit, path_to_uri};

use crate::error::ServerError;
use crate::file_filter::wanted;
use crate::pool::{RequestCx, ServerPool};
use crate::protocol::RawWorkspaceEdit;
use crate::server::{Clock, Server};

/// What is to change with files that come and go.
#[derive(Debug, Default)]
pub struct Wishes {
    /// Of each server that wants anything changed; of texts as they are before the files come and go.
    pub edits: Vec<(String, WorkspaceEdit)>,
    /// Who was to be asked and did not say it, and why.
    pub unknown: Vec<String>,
}

impl ServerPool {
    /// What servers want changed with files that are about to be `created` and `deleted`. Takes no time
    /// where none wants to be asked.
    ///
    /// # Errors
    /// [`ServerError::Cancelled`] only.
    pub async fn will_change(
        self: &Arc<Self>,
        created: &[AbsPath],
        deleted: &[AbsPath],
        cx: &RequestCx,
    ) -> Result<Wishes, ServerError> {
        let clock = cx.clock();
        let mut wishes = Wishes::default();
        let servers = self.use_running();
        for (operation, method, paths) in [
            ("willCreate", "workspace/willCreateFiles", created),
            ("willDelete", "workspace/willDeleteFiles", deleted),
        ] {
            let asks = servers.iter().filter_map(|server| {
                let paths = wanted(server, operation, method, paths);
                (!paths.is_empty())
                    .then_some(async move { (server, ask(server, method, &paths, clock).await) })
            });
            for (server, answer) in futures_util::future::join_all(asks).await {
                match answer {
                    Ok(edit) if edit.operations.is_empty() => {}
                    Ok(edit) => wishes.edits.push((server.name().to_owned(), edit)),
                    Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                    Err(error) => wishes.unknown.push(error.to_string()),
                }
            }
        }
        Ok(wishes)
    }
}

async fn ask(
    server: &Server,
    method: &str,
    paths: &[&AbsPath],
    clock: Clock<'_>,
) -> Result<WorkspaceEdit, ServerError> {
    if !server.core.loading.is_ready() {
        return Err(ServerError::Starting { server: server.name().to_owned(), detail: server.doing() });
    }
    let files: Vec<Value> = paths.iter().map(|path| json!({"uri": path_to_uri(path.as_path())})).collect();
    let asked = server.ask(None, method, clock, |_, _| json!({"files": files})).await?;
    let raw: Option<RawWorkspaceEdit> = server.read(method, &asked.raw)?;
    asked.workspace_edit(server, raw.unwrap_or_default(), method.to_owned())
}
