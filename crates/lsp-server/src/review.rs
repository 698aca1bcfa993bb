//! Review in an editor: code lenses, code actions and the command `pilcrow.review`; or notifications to a
//! plugin that shows the review itself.
//!
//! The session service computes the changes; this module knows which sessions to ask for a file, and keeps
//! the answer for the text that the editor shows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use agent::{Envelope, Event};
use editor_sync::buffers::{OpenBuffer, Revision};
use host::service::{
    ConflictView, HunkKindName, HunkView, KeepChanges, RejectChanges, ReviewFileView, ReviewParams,
};
use parking_lot::Mutex;
use paths::AbsPath;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::{Peer, RpcError, codes};

use crate::messages::Kind;
use crate::sessions::{project, rpc_error};
use crate::{Connection, document_of, messages, transcript};

/// Number of earlier sessions of a project to review.
const EARLIER: usize = 3;
/// Time that code actions wait for changes.
const ACTIONS_WAIT: Duration = Duration::from_millis(50);

/// The sessions to review, and the known changes of open files.
pub struct EditorReview {
    state: Mutex<State>,
    /// The client, if it shows the review itself.
    plugin: Option<Peer>,
}

#[derive(Default)]
struct State {
    /// The sessions that changed a file, oldest first.
    sessions: HashMap<AbsPath, Vec<String>>,
    /// All sessions to review, with a changed file if one is known.
    places: BTreeMap<String, Option<AbsPath>>,
    /// Projects whose earlier sessions are known.
    roots: HashSet<AbsPath>,
    /// Number of commits and decisions.
    generation: u64,
    known: HashMap<AbsPath, Known>,
}

/// The changes of a file at one revision.
struct Known {
    revision: Revision,
    generation: u64,
    changes: Arc<[Change]>,
}

/// A change to review, with its session.
struct Change {
    session: String,
    hunk: HunkView,
    /// The editor's lines, from 0, the end exclusive; empty where lines were removed.
    lines: (usize, usize),
}

/// Parameters of `pilcrow.review`.
#[derive(Deserialize)]
pub(crate) struct ReviewCommand {
    action: ReviewAction,
    session: String,
    uri: String,
    /// The change; without it, all of the file.
    hunk: Option<String>,
    /// The line after which `next` starts.
    line: Option<usize>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReviewAction {
    Keep,
    Reject,
    Next,
}

impl EditorReview {
    pub fn new(plugin: Option<Peer>) -> Self {
        Self { state: Mutex::default(), plugin }
    }

    /// Notes the files that a session changes, and the end of its runs.
    ///
    /// A command that changes files reports no commit.
    pub async fn observe(&self, envelope: &Envelope) {
        let files = match &envelope.event {
            Event::Commit { files, .. } => files.as_slice(),
            Event::AgentEnd { .. } => &[],
            _ => return,
        };
        self.add(&envelope.session_id, files.iter().map(|file| file.path.as_str()));
        self.changed(Some(&envelope.session_id)).await;
    }

    fn add<'a>(&self, session: &str, paths: impl Iterator<Item = &'a str>) {
        let mut state = self.state.lock();
        state.places.entry(session.to_owned()).or_default();
        for path in paths.filter_map(|path| AbsPath::new(std::path::Path::new(path))) {
            state.places.insert(session.to_owned(), Some(path.clone()));
            let sessions = state.sessions.entry(path).or_default();
            if !sessions.iter().any(|known| known == session) {
                sessions.push(session.to_owned());
            }
        }
    }

    /// Notes that the review of a session, or of all, may have changed.
    pub(crate) async fn changed(&self, session: Option<&str>) {
        let places = {
            let mut state = self.state.lock();
            state.generation += 1;
            state.places.clone()
        };
        let Some(peer) = &self.plugin else { return };
        for (known, path) in places {
            if session.is_none_or(|session| session == known) {
                let cwd = path.map(|path| path.to_string());
                let params = json!({ "session": known, "cwd": cwd });
                if let Err(closed) = peer.notify("pilcrow/review/changed", &params).await {
                    tracing::debug!(%closed, "a change of the review was not sent");
                }
            }
        }
    }
}

/// Reports earlier sessions to a plugin that opens the first document.
pub(crate) fn document_opened(connection: &Arc<Connection>, params: Option<&RawValue>) {
    let params = params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
    if let Some(path) = document_of(connection, &params).and_then(|open| open.path) {
        let connection = Arc::clone(connection);
        connection.tracker.clone().spawn(async move { load_earlier(&connection, &path).await });
    }
}

/// The lenses of a document's changes.
pub(crate) async fn lenses(connection: &Arc<Connection>, open: &OpenBuffer) -> Vec<Value> {
    let changes = changes(connection, open).await;
    let mut lenses = Vec::new();
    let lens = |line: usize, title: &str, arguments: Value| {
        let at = json!({ "line": line, "character": 0 });
        let command = json!({ "title": title, "command": "pilcrow.review", "arguments": [arguments] });
        json!({ "range": { "start": at, "end": at }, "command": command })
    };
    for change in changes.iter() {
        for action in ["keep", "reject"] {
            if change.allows(action) {
                let title = match action {
                    "keep" => format!("Keep {}", noun_of(&change.hunk)),
                    _ => "Reject".to_owned(),
                };
                lenses.push(lens(change.lines.0, &title, change.arguments(action, &open.uri)));
            }
        }
        if changes.len() > 1 {
            lenses.push(lens(change.lines.0, "Next", change.arguments("next", &open.uri)));
        }
    }
    let mut sessions: Vec<&str> = changes.iter().map(|change| change.session.as_str()).collect();
    sessions.dedup();
    for session in sessions {
        let count = changes.iter().filter(|change| change.session == session).count();
        if count > 1 {
            for (action, title) in
                [("keep", format!("Keep all {count}")), ("reject", "Reject all".to_owned())]
            {
                lenses.push(lens(
                    0,
                    &title,
                    json!({ "action": action, "session": session, "uri": open.uri }),
                ));
            }
        }
    }
    lenses
}

/// The decisions about the change at a line.
///
/// Each is a title with the argument of `pilcrow.review`.
pub(crate) async fn actions(
    connection: &Arc<Connection>,
    open: &OpenBuffer,
    line: usize,
) -> Vec<(&'static str, Value)> {
    let changes = tokio::time::timeout(ACTIONS_WAIT, changes(connection, open)).await.unwrap_or_default();
    let at = changes.iter().find(|change| {
        let (start, end) = change.lines;
        (start..end.max(start + 1)).contains(&line)
    });
    let Some(change) = at else { return Vec::new() };
    let all = [("Keep this change", "keep"), ("Reject this change", "reject")];
    let possible = all.into_iter().filter(|(_, action)| change.allows(action));
    possible.map(|(title, action)| (title, change.arguments(action, &open.uri))).collect()
}

/// Executes `pilcrow.review`.
///
/// # Errors
/// As the session service.
pub(crate) async fn execute(connection: &Arc<Connection>, command: ReviewCommand) -> Result<Value, RpcError> {
    let ReviewCommand { action, session, uri, hunk, line } = command;
    let invalid =
        || RpcError::new(codes::INVALID_PARAMS, format!("{uri} is not a file URI; use file:///PATH"));
    let path = paths::uri_to_path(&uri).and_then(|path| AbsPath::new(&path)).ok_or_else(invalid)?;
    let scope =
        ReviewParams { session: session.clone(), cwd: Some(path.to_string()), since: None, run: None };
    let project = project(connection, Some(&scope.session), scope.cwd.as_deref()).await.map_err(rpc_error)?;
    let service = &connection.sessions.service;
    let (hunks, of) = (hunk.map(|hunk| vec![hunk]), Some(path.to_string()));
    match action {
        ReviewAction::Keep => {
            let kept =
                service.keep(KeepChanges { scope, hunks, path: of }, project).await.map_err(rpc_error)?;
            warn_of(connection, &path, "kept", kept.conflicts).await;
        }
        ReviewAction::Reject => {
            let params = RejectChanges { scope, hunks, path: of, reason: None };
            let rejected = service.reject(params, project).await.map_err(rpc_error)?;
            warn_of(connection, &path, "rejected", rejected.conflicts).await;
        }
        ReviewAction::Next => {
            let review = service.review(scope, project).await.map_err(rpc_error)?;
            let Some((file, line)) = next(&review.files, &path.to_string(), line.unwrap_or(0)) else {
                return Ok(json!({}));
            };
            if let Some(file) = AbsPath::new(std::path::Path::new(&file)) {
                let line = connection.filter.editor_line(&file, line);
                transcript::open_at(&connection.peer, file.as_path(), line).await;
            }
            return Ok(json!({}));
        }
    }
    connection.review.changed(Some(&session)).await;
    if connection.client.lens_refresh {
        connection.refresh_lenses().await;
    }
    Ok(json!({}))
}

/// Shows the changes that a decision leaves out.
async fn warn_of(connection: &Connection, path: &AbsPath, verb: &str, conflicts: Vec<ConflictView>) {
    if !conflicts.is_empty() {
        let reasons: Vec<String> = conflicts.into_iter().map(|it| it.reason).collect();
        let path = connection.display_path(path);
        let text = format!("some changes in {path} were not {verb}: {}", reasons.join("; "));
        messages::show(&connection.peer, &connection.client.message_form(), Kind::Warning, &text).await;
    }
}

/// The file and line of the next change after a line of a file.
///
/// After the last change comes the first.
fn next(files: &[ReviewFileView], path: &str, line: usize) -> Option<(String, usize)> {
    let places = files.iter().flat_map(|file| {
        let has_file = |hunk: &&HunkView| hunk.proposed.is_none() || hunk.now.is_some();
        let shown = file.hunks.iter().filter(|hunk| hunk.kind != HunkKindName::Deleted).filter(has_file);
        shown.map(|hunk| (file.path.as_str(), hunk.now.map_or(0, |now| now.0)))
    });
    let places: Vec<(&str, usize)> = places.collect();
    let after = places.iter().find(|place| **place > (path, line));
    after.or(places.first()).map(|(path, line)| ((*path).to_owned(), *line))
}

impl Change {
    /// Whether a decision is possible.
    ///
    /// A proposal that the user edited cannot be kept; another edited change cannot be rejected.
    fn allows(&self, action: &str) -> bool {
        !self.hunk.edited || (action == "keep") != self.hunk.proposed.is_some()
    }

    fn arguments(&self, action: &str, uri: &str) -> Value {
        let line = self.hunk.now.map_or(0, |now| now.0);
        json!({ "action": action, "session": self.session, "uri": uri, "hunk": self.hunk.id, "line": line })
    }
}

fn noun_of(hunk: &HunkView) -> &'static str {
    match hunk.kind {
        _ if hunk.proposed.is_some() => "proposed change",
        HunkKindName::Lines => "change",
        HunkKindName::Created => "new file",
        HunkKindName::Deleted => "deletion",
        HunkKindName::Moved => "move",
        HunkKindName::Content => "file",
    }
}

/// The changes of a document that wait for a decision, by place.
async fn changes(connection: &Arc<Connection>, open: &OpenBuffer) -> Arc<[Change]> {
    let Some(path) = open.path.as_ref().filter(|_| !connection.client.reviews) else { return [].into() };
    load_earlier(connection, path).await;
    let (sessions, generation) = {
        let state = connection.review.state.lock();
        let known = state.known.get(path);
        let same = |known: &&Known| known.generation == state.generation && known.revision == open.revision();
        if let Some(known) = known.filter(same) {
            return Arc::clone(&known.changes);
        }
        (state.sessions.get(path).cloned().unwrap_or_default(), state.generation)
    };
    let mut changes = Vec::new();
    for session in sessions {
        let files = review(connection, &session, path).await;
        let file = files.into_iter().find(|file| file.path == path.to_string());
        for hunk in file.into_iter().flat_map(|file| file.hunks) {
            let (start, end) = hunk.now.unwrap_or_default();
            let line = |line| connection.filter.editor_line(path, line);
            changes.push(Change { session: session.clone(), hunk, lines: (line(start), line(end)) });
        }
    }
    changes.sort_by_key(|change| change.lines);
    let changes: Arc<[Change]> = changes.into();
    let known = Known { revision: open.revision(), generation, changes: Arc::clone(&changes) };
    connection.review.state.lock().known.insert(path.clone(), known);
    changes
}

/// Reviews the last sessions of a project, once.
///
/// So the list survives a restart.
async fn load_earlier(connection: &Arc<Connection>, path: &AbsPath) {
    let Ok(root) = connection.projects.root_for(Some(path)) else { return };
    if !path.starts_with(&root) || !connection.review.state.lock().roots.insert(root.clone()) {
        return;
    }
    let Ok(lease) = connection.projects.open(&root).await else { return };
    let listed = connection.sessions.service.list(&lease.project).await.map(|listed| listed.sessions);
    for session in listed.unwrap_or_default().into_iter().take(EARLIER) {
        let files = review(connection, &session.session, path).await;
        if !files.is_empty() {
            connection.review.add(&session.session, files.iter().map(|file| file.path.as_str()));
            connection.review.changed(Some(&session.session)).await;
        }
    }
}

/// The review of a session in the project of `near`.
async fn review(connection: &Arc<Connection>, session: &str, near: &AbsPath) -> Vec<ReviewFileView> {
    let params =
        ReviewParams { session: session.to_owned(), cwd: Some(near.to_string()), since: None, run: None };
    let review = async {
        let project = project(connection, Some(session), params.cwd.as_deref()).await?;
        connection.sessions.service.review(params, project).await
    };
    match review.await {
        Ok(review) => review.files,
        Err(error) => {
            tracing::debug!(%error, session, "no review");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: &[usize]) -> ReviewFileView {
        let hunk = |line: &usize| HunkView {
            id: String::new(),
            kind: HunkKindName::Lines,
            before: None,
            now: Some((*line, *line + 1)),
            removed: None,
            runs: Vec::new(),
            edited: false,
            proposed: None,
        };
        ReviewFileView { path: path.to_owned(), moved_from: None, hunks: lines.iter().map(hunk).collect() }
    }

    #[test]
    fn the_next_change_may_be_in_another_file() {
        let files = [file("/a", &[3, 9]), file("/b", &[1])];
        assert_eq!(next(&files, "/a", 3), Some(("/a".to_owned(), 9)));
        assert_eq!(next(&files, "/a", 9), Some(("/b".to_owned(), 1)));
        assert_eq!(next(&files, "/b", 1), Some(("/a".to_owned(), 3)));
        assert_eq!(next(&[], "/b", 1), None);
    }
}
