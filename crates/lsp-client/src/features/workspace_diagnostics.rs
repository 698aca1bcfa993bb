//! Workspace diagnostics: diagnostics of files that are not requested one by one.
//!
//! The request is that of LSP 3.17 §Workspace Diagnostics Pull.
//!
//! Invariants: the diagnostics of a file are unknown if no report mentions it, or if it changed
//! since the request was sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use paths::AbsPath;
use serde_json::{Value, json};
use workspace::Document;

use super::diagnostics::{pulled, read};
use crate::answer::{Diagnostic, RawJson};
use crate::error::{Result, ServerError};
use crate::pool::{RequestCx, ServerPool};
use crate::server::documents::Synced;
use crate::server::protocol::WorkspaceReport;
use crate::server::request_table::Request;
use crate::server::{Clock, Server};

const WHOLE: &str = "workspace/diagnostic";

pub(super) const REQUESTS: &[Request] = &[Request::new(WHOLE)];

/// The report about one file.
#[derive(Debug, Clone)]
pub struct Reported {
    /// The text that it is about; `None` if there are no problems.
    pub document: Option<Document>,
    /// Diagnostics in order of position.
    pub items: Vec<Diagnostic>,
    /// The servers that reported, by their definitions.
    pub servers: BTreeSet<String>,
}

impl ServerPool {
    /// The diagnostics of running servers for `paths`.
    ///
    /// A server that fails or does not answer in time reports nothing.
    ///
    /// # Errors
    /// [`ServerError::Cancelled`] only.
    pub async fn reported(
        self: &Arc<Self>,
        paths: &BTreeSet<AbsPath>,
        cx: &RequestCx,
    ) -> Result<BTreeMap<AbsPath, Reported>> {
        let clock = cx.clock();
        let servers = self.use_running();
        let able = servers.iter().filter_map(|server| Some((server, whole(server)?)));
        let asks = able.map(|(server, options)| async move {
            (server, of_one(self, server, &options, paths, clock).await)
        });
        let mut out: BTreeMap<AbsPath, Reported> = BTreeMap::new();
        for (server, report) in futures_util::future::join_all(asks).await {
            let report = match report {
                Ok(report) => report,
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => {
                    tracing::debug!(%error, "no workspace diagnostics");
                    continue;
                }
            };
            for (path, (document, items)) in report {
                let known = out.entry(path).or_insert_with(|| Reported {
                    document: None,
                    items: Vec::new(),
                    servers: BTreeSet::new(),
                });
                known.document = known.document.take().or(document);
                known.items.extend(items);
                known.items.sort_by_key(|item| (item.range.start, item.range.end, item.severity));
                known.servers.insert(server.name().to_owned());
            }
        }
        Ok(out)
    }
}

/// The options of workspace diagnostics; `None`: not offered.
fn whole(server: &Server) -> Option<Value> {
    pulled(server).filter(|options| options["workspaceDiagnostics"] == true)
}

type Report = Vec<(AbsPath, (Option<Document>, Vec<Diagnostic>))>;

async fn of_one(
    pool: &ServerPool,
    server: &Server,
    options: &Value,
    paths: &BTreeSet<AbsPath>,
    clock: Clock<'_>,
) -> Result<Report> {
    server.wait_ready(None, clock).await?;
    let mut params = json!({ "previousResultIds": [] });
    if let Some(identifier) = options.get("identifier").filter(|it| it.is_string()) {
        params["identifier"] = identifier.clone();
    }
    let started = SystemTime::now();
    let asked = server.ask(None, WHOLE, clock, |_, _| params.clone()).await?;
    let mut out = Vec::new();
    if server.core.deleted_files.is_awaited() {
        return Ok(out);
    }
    let report: Option<WorkspaceReport<'_>> = server.read_borrowed(WHOLE, &asked.raw)?;
    for file in report.into_iter().flat_map(|report| report.items) {
        let Some(path) = paths::uri_to_path(&file.uri).and_then(AbsPath::new) else { continue };
        // A server that received no previous result ids cannot answer `unchanged`.
        let Some(items) =
            file.items.filter(|_| paths.contains(&path) && file.kind != Some("unchanged".into()))
        else {
            continue;
        };
        let synced = asked.snapshot.get(&path);
        if file.version.is_some_and(|version| synced.is_none_or(|synced| synced.number != version)) {
            continue;
        }
        if synced.is_none() && !is_older(&path, started) {
            continue;
        }
        let items = RawJson::new(items);
        if items.get() == "[]" {
            out.push((path, (None, Vec::new())));
            continue;
        }
        let Ok(document) = pool.workspace.document(&path) else { continue };
        let now = match synced {
            Some(synced) if *synced.view.text != *document.text => continue,
            Some(synced) => synced.clone(),
            None => Synced::on_disk(&document),
        };
        let items = read(server, &now, &items)?;
        out.push((path, (Some(document), items)));
    }
    Ok(out)
}

/// Whether a file was written before `time`, at the resolution of its file system.
fn is_older(path: &AbsPath, time: SystemTime) -> bool {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).is_ok_and(|written| written < time)
}
