//! `pilcrow/review/…`: the changes of a session, for plugins.

use std::sync::Arc;

use host::review::{ReviewScope, ReviewSelection};
use host::{Project, RequestError};
use paths::{AbsPath, path_to_uri, uri_to_path};
use serde::Deserialize;
use serde_json::{Value, json};
use wire::{RpcError, codes};

use super::Connection;
use super::projects::Lease;

/// Parameters of all methods.
#[derive(Deserialize)]
struct Params {
    #[serde(flatten)]
    scope: ReviewScope,
    #[serde(flatten)]
    selection: ReviewSelection,
    /// A file of the project of the session, or the one that the request is about.
    uri: Option<String>,
}

/// Whether [`request`] handles `method`.
pub(crate) fn is_review_method(method: &str) -> bool {
    method.starts_with("pilcrow/review/")
}

/// Handles a request of a plugin.
///
/// # Errors
/// `InvalidParams` for wrong parameters, `RequestFailed` with the reason.
pub async fn request(connection: &Arc<Connection>, method: &str, params: Value) -> Result<Value, RpcError> {
    let Params { scope, mut selection, uri } = serde_json::from_value(params)
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, error.to_string()))?;
    let file = uri.as_deref().and_then(uri_to_path).and_then(AbsPath::new);
    if let (Some(uri), None) = (&uri, &file) {
        return Err(RpcError::new(codes::INVALID_PARAMS, format!("{uri} is not the URI of a file")));
    }
    let lease = open(connection, &scope.session, file.as_ref()).await?;
    let project = &lease.project;
    match method {
        "pilcrow/review/list" => Ok(listed(&project.review(scope).await.map_err(failed)?)),
        "pilcrow/review/before" => {
            let file = file.ok_or_else(|| RpcError::new(codes::INVALID_PARAMS, "`uri` is missing"))?;
            Ok(json!({ "text": project.text_before(scope, &file).await.map_err(failed)? }))
        }
        "pilcrow/review/keep" => {
            selection.file = file;
            let report = project.keep_changes(scope, selection).await.map_err(failed)?;
            Ok(listed(&report))
        }
        "pilcrow/review/reject" => {
            selection.file = file;
            let report = reject(project, scope, selection).await?;
            Ok(report)
        }
        _ => Err(RpcError::method_not_found(method)),
    }
}

async fn reject(
    project: &Arc<Project>,
    scope: ReviewScope,
    selection: ReviewSelection,
) -> Result<Value, RpcError> {
    let report = project.reject_changes(scope, selection).await.map_err(failed)?;
    let conflicts = report
        .conflicts
        .iter()
        .map(|it| json!({ "uri": path_to_uri(it.path.as_path()), "reason": it.reason }));
    Ok(json!({ "rejected": report.rejected, "conflicts": conflicts.collect::<Vec<_>>() }))
}

/// Opens the project of the session.
///
/// It is that of its run here, else of the file, else of the first folder.
async fn open(
    connection: &Arc<Connection>,
    session: &str,
    file: Option<&AbsPath>,
) -> Result<Lease, RpcError> {
    let invalid = |error: &dyn std::fmt::Display| RpcError::new(codes::REQUEST_FAILED, error.to_string());
    let root = match connection.runs.root_of(session) {
        Some(root) => root,
        None => connection.projects.root_for(file).map_err(|error| invalid(&error))?,
    };
    connection.projects.open(&root).await.map_err(|error| invalid(&format!("{error:#}")))
}

/// A report with URIs instead of paths.
fn listed(report: &host::review::ReviewReport) -> Value {
    let files = report.files.iter().map(|file| {
        json!({
            "uri": path_to_uri(file.path.as_path()),
            "movedFrom": file.moved_from.as_ref().map(|path| path_to_uri(path.as_path())),
            "hunks": file.hunks,
        })
    });
    json!({ "files": files.collect::<Vec<_>>() })
}

fn failed(error: RequestError) -> RpcError {
    RpcError::new(codes::REQUEST_FAILED, format!("{error:#}"))
}
