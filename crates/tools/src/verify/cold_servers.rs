//! Files whose servers do not run.
//!
//! An edit starts these servers if the settings say so; otherwise the files are counted.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use lsp_client::RequestCx;
use paths::AbsPath;
use workspace::{ChangeKind, FileChange, Plan};

use super::MAX_FILES;
use super::dependents::source;
use crate::ServerStart;
use crate::{ToolContext, counted};

/// Package roots that are named; more are counted.
const MOST_NAMED: usize = 3;

/// Whether a server of a file runs or starts.
pub(super) fn is_asked(context: &ToolContext, path: &AbsPath) -> bool {
    context.servers.is_warm(path) || context.servers.is_starting(path)
}

/// Starts the servers of the files that `plan` changes.
pub(super) fn begin(context: &ToolContext, plan: &Plan) {
    for change in plan.changes().iter().filter(|it| it.after.is_some()).take(MAX_FILES) {
        if !context.servers.is_warm(&change.path) {
            context.start_servers(&change.path, ServerStart::Edit);
        }
    }
}

/// Starts the servers of the files that `plan` changes, and lets them load.
///
/// Only if one moves or its server runs: a call that needs no server ends sooner.
pub(super) async fn load(context: &ToolContext, plan: &Plan, request: &RequestCx) {
    let needs_servers = |change: &FileChange| {
        matches!(change.kind, ChangeKind::Renamed { .. }) || context.servers.is_warm(source(change))
    };
    if !plan.changes().iter().any(needs_servers) {
        return;
    }
    let written = plan.changes().iter().filter(|it| it.after.is_some());
    let cold = written.filter_map(|change| Some((root(context, change)?, change.path.clone())));
    let mut rest: Vec<AbsPath> = cold.collect::<BTreeMap<_, _>>().into_values().collect();
    // The pool limits how many start at once.
    while !rest.is_empty() && !request.left().is_zero() {
        let (begun, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|path| context.servers.begin(path));
        let loads = begun.iter().map(async |path| {
            let document = context.workspace.document(path).ok();
            if let Err(error) = context.servers.load(path, document.as_ref(), request).await {
                tracing::debug!(%error, "no server of {path} has loaded");
            }
        });
        join_all(loads).await;
        rest = if begun.is_empty() { Vec::new() } else { later };
    }
}

/// The package root of a changed file that has a server, and none that runs.
pub(super) fn root(context: &ToolContext, change: &FileChange) -> Option<AbsPath> {
    context.servers.cold_root(&change.path, std::slice::from_ref(&change.path))
}

/// Names the package roots without a running server, for a verdict.
///
/// Empty if there are none.
pub(super) fn describe(context: &ToolContext, roots: &BTreeSet<AbsPath>) -> String {
    let mut names: Vec<String> = roots.iter().take(MOST_NAMED).map(|root| name(context, root)).collect();
    if roots.len() > MOST_NAMED {
        names.push(counted(roots.len() - MOST_NAMED, "more package"));
    }
    if names.is_empty() {
        String::new()
    } else {
        format!(" (no language server of {} runs)", names.join(", "))
    }
}

fn name(context: &ToolContext, root: &AbsPath) -> String {
    if root == context.workspace.root() {
        "the project's root".to_owned()
    } else {
        context.display_path(root)
    }
}
