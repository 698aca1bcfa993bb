//! Changes that servers request before Pilcrow creates or deletes files.
//!
//! The requests are `willCreateFiles` and `willDeleteFiles` (LSP 3.17 §WillCreateFiles, §WillDeleteFiles).
//!
//! Only running servers that have loaded their project receive the request.

use std::sync::Arc;

use adapters::Feature;
use paths::{AbsPath, path_to_uri};
use serde_json::{Value, json};
use workspace::WorkspaceEdit;

use crate::error::{Result, ServerError};
use crate::files::file_filter::wanted;
use crate::pool::{RequestCx, ServerPool};
use crate::server::protocol::RawWorkspaceEdit;
use crate::server::request_table::Request;
use crate::server::{Clock, Server};

pub(super) const REQUESTS: &[Request] = &[
    Request::new("workspace/willCreateFiles"),
    Request::new("workspace/willRenameFiles").of(Feature::RenameFile, "workspace.fileOperations.willRename"),
    Request::new("workspace/willDeleteFiles"),
];

/// Changes that servers request for created and deleted files.
#[derive(Debug, Default)]
pub struct Wishes {
    /// Edits by server, for texts before the files are created or deleted.
    pub edits: Vec<(String, WorkspaceEdit)>,
    /// Servers that did not answer, with the reason.
    pub unknown: Vec<String>,
}

impl ServerPool {
    /// Requests changes with files that are about to be `created` and `deleted`.
    ///
    /// Returns at once if no server registered for it.
    ///
    /// # Errors
    /// [`ServerError::Cancelled`] only.
    pub async fn will_change(
        self: &Arc<Self>,
        created: &[AbsPath],
        deleted: &[AbsPath],
        cx: &RequestCx,
    ) -> Result<Wishes> {
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

async fn ask(server: &Server, method: &str, paths: &[&AbsPath], clock: Clock<'_>) -> Result<WorkspaceEdit> {
    if !server.core.loading.is_ready() {
        return Err(server.loading());
    }
    let files: Vec<Value> = paths.iter().map(|path| json!({"uri": path_to_uri(path.as_path())})).collect();
    let asked = server.ask(None, method, clock, |_, _| json!({"files": files})).await?;
    let raw: Option<RawWorkspaceEdit> = server.read(method, &asked.raw)?;
    asked.workspace_edit(server, raw.unwrap_or_default(), method.to_owned())
}
