//! Checkpoints: the files and the conversation before each message that started a run.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use agent::{Message, Queue};
use paths::AbsPath;
use policy::ErrorCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use workspace::{Rejection, ReviewError, RunId, Selection, Undo};

use super::live::{Held, LiveSession};
use super::review::{ConflictView, ReviewParams, Reviewed, blocking, conflicts};
use super::{Done, ServiceError, SessionService};
use crate::announce::ProjectHandle;

/// Maximum number of characters of a listed message.
const MAX_TEXT: usize = 200;

/// Parameters of `checkpoint/list`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ListCheckpoints {
    pub session: String,
    pub cwd: Option<String>,
}

/// Parameters of `checkpoint/preview`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct PreviewCheckpoint {
    pub session: String,
    pub cwd: Option<String>,
    pub message_id: String,
}

/// Parameters of `checkpoint/restore`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct RestoreCheckpoint {
    pub session: String,
    pub message_id: String,
    pub restore: RestoreScope,
}

/// The parts that a restore concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreScope {
    Files,
    Conversation,
    Both,
}

/// Parameters of `checkpoint/undo`: the `undo` of a restore.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct UndoCheckpoint {
    pub session: String,
    pub undo: RestoreUndo,
}

/// The checkpoints of a session's conversation, oldest first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CheckpointList {
    pub checkpoints: Vec<CheckpointView>,
}

/// The state before a message.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CheckpointView {
    pub message_id: String,
    /// The beginning of the message.
    pub text: String,
    /// RFC 3339.
    pub timestamp: String,
    /// Number of files that the run of the message changed.
    pub files: usize,
}

/// The changes that a restore would make.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RestorePreview {
    /// Absolute paths.
    pub files: Vec<String>,
    /// A unified diff from the current files.
    pub diff: String,
    /// Changes that stay.
    pub conflicts: Vec<ConflictView>,
}

/// The outcome of a restore.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RestoreView {
    /// Absolute paths of the restored files.
    pub files: Vec<String>,
    /// Changes that stay.
    pub conflicts: Vec<ConflictView>,
    /// The message of the checkpoint, if the conversation now ends before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    pub undo: RestoreUndo,
}

/// The means to undo a restore.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RestoreUndo {
    /// The run that restored the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The last entry of the conversation before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

impl SessionService {
    /// Lists the checkpoints of a session, live or stored.
    ///
    /// # Errors
    /// When there is no such session, or its files cannot be read.
    pub async fn checkpoints(
        &self,
        params: ListCheckpoints,
        project: ProjectHandle,
    ) -> Result<CheckpointList, ServiceError> {
        let ListCheckpoints { session, cwd } = params;
        let params = ReviewParams { session, cwd, since: None, run: None };
        let reviewed = self.reviewed(params, Arc::new(project)).await?;
        blocking(reviewed, |of| Ok(CheckpointList { checkpoints: list(of)? })).await
    }

    /// Computes what a restore of the files would change.
    ///
    /// # Errors
    /// As [`SessionService::checkpoints`], and when there is no such checkpoint.
    pub async fn preview_checkpoint(
        &self,
        params: PreviewCheckpoint,
        project: ProjectHandle,
    ) -> Result<RestorePreview, ServiceError> {
        let PreviewCheckpoint { session, cwd, message_id } = params;
        let params = ReviewParams { session, cwd, since: Some(message_id.clone()), run: None };
        let reviewed = self.reviewed(params, Arc::new(project)).await?;
        blocking(reviewed, move |of| {
            of.checkpoint(&message_id)?;
            let workspace = &of.project.project.workspace;
            let (diff, mut files, skipped) = match workspace.plan_restore(&of.runs) {
                Ok(planned) => (planned.plan.diff(workspace.root()), files(&planned), planned.skipped),
                Err(ReviewError::Conflict { skipped }) => (String::new(), Vec::new(), skipped),
                Err(ReviewError::Nothing) => Default::default(),
                Err(error) => return Err(error.into()),
            };
            add_files(&mut files, workspace.proposed_files_of(&of.runs));
            Ok(RestorePreview { files, diff, conflicts: conflicts(skipped) })
        })
        .await
    }

    /// Restores the files, the conversation or both to the state before a message.
    ///
    /// Only changes of the agent since then leave the files, as a commit; the conversation continues on a new
    /// branch.
    ///
    /// # Errors
    /// When the session is not live or runs, there is no such checkpoint, the user changed all of the agent's
    /// changes, or the commit fails. Then nothing changes.
    pub async fn restore_checkpoint(&self, params: RestoreCheckpoint) -> Result<RestoreView, ServiceError> {
        let RestoreCheckpoint { session, message_id, restore } = params;
        let live = self.idle(&session).await?;
        let params = ReviewParams { session, cwd: None, since: Some(message_id.clone()), run: None };
        let of = self.reviewed(params, Arc::clone(&live.project)).await?;
        let at = of.checkpoint(&message_id)?;
        let before = of.loaded.leaf().map(|entry| entry.id.clone());
        let prompt = of.loaded.body(&of.loaded.entries[at]).ok().and_then(|body| body.message(0));
        let parent = of.loaded.entries[at].parent_id.clone();

        let mut restored = RestoreView {
            files: Vec::new(),
            conflicts: Vec::new(),
            prompt: None,
            undo: RestoreUndo::default(),
        };
        if restore != RestoreScope::Conversation {
            let (project, runs) = (Arc::clone(&of.project), of.runs.clone());
            let planned = blocking(of, |of| Ok(of.project.project.workspace.plan_restore(&of.runs))).await?;
            let workspace = project.project.workspace.clone();
            let is_proposed = !workspace.proposed_files_of(&runs).is_empty();
            match planned {
                Ok(planned) => {
                    restored.files = files(&planned);
                    let Rejection { plan, run, skipped, .. } = planned;
                    project.project.commit_plan_invoked(plan, &run).await?;
                    restored.conflicts = conflicts(skipped);
                    restored.undo.run = Some(run.0);
                }
                Err(ReviewError::Nothing) if restore == RestoreScope::Both || is_proposed => {}
                Err(ReviewError::Nothing) => {
                    let message = "the agent changed no file since this message; there is nothing to restore";
                    return Err(ServiceError::new(ErrorCode::NotFound, message));
                }
                Err(error) => return Err(error.into()),
            }
            let drop = move || workspace.reject_proposals(&runs, Selection::All);
            let dropped = tokio::task::spawn_blocking(drop).await??;
            add_files(&mut restored.files, dropped.into_iter().map(|(path, _)| path).collect());
        }
        if restore == RestoreScope::Files {
            let text =
                "I restored the files to their state before one of my earlier messages; read them again.";
            live.session().queue(Queue::Steering, Message::user(text).into()).await;
        } else {
            match parent {
                Some(parent) => switch(&live, &parent).await?,
                None => live.session().replace_messages(Vec::new()).await.map_err(anyhow::Error::from)?,
            }
            restored.prompt = prompt.map(|prompt| prompt.text());
            restored.undo.entry = before;
        }
        Ok(restored)
    }

    /// Undoes a restore.
    ///
    /// # Errors
    /// When the session is not live or runs, the files changed too much since, or the commit fails.
    pub async fn undo_checkpoint(&self, params: UndoCheckpoint) -> Result<Done, ServiceError> {
        let UndoCheckpoint { session, undo: RestoreUndo { run, entry } } = params;
        let live = self.idle(&session).await?;
        if let Some(run) = run {
            let workspace = live.project.project.workspace.clone();
            let undo = Undo::Run(RunId(run));
            let planned = tokio::task::spawn_blocking(move || workspace.plan_undo(&undo)).await?;
            let planned = planned.map_err(|error| ServiceError::new(error.code(), error.to_string()))?;
            live.project.project.commit_undo_invoked(planned, &RunId::new()).await?;
        }
        if let Some(entry) = entry {
            switch(&live, &entry).await?;
        }
        Ok(Done {})
    }

    /// Holds a live session between its runs.
    async fn idle(&self, session: &str) -> Result<Held, ServiceError> {
        let message = "the session runs; cancel its run, then try again";
        let runs = || ServiceError::new(ErrorCode::WrongState, message);
        self.live(session)?.hold().await.ok_or_else(runs)
    }
}

impl Reviewed {
    /// The index of a message that started a run of the conversation.
    fn checkpoint(&self, message_id: &str) -> Result<usize, ServiceError> {
        let mut starts = self.loaded.run_starts().into_iter();
        let found = starts.find(|(at, _)| self.loaded.entries[*at].id == message_id);
        let missing = || {
            let message = format!("message {message_id:?} started no run of this conversation");
            ServiceError::new(ErrorCode::NotFound, message)
        };
        found.map(|(at, _)| at).ok_or_else(missing)
    }
}

/// Continues the conversation after `entry`, also if the session is opened again.
async fn switch(live: &LiveSession, entry: &str) -> Result<(), ServiceError> {
    live.session().switch_to(entry).await.map_err(anyhow::Error::from)?;
    // The next entry of the file selects the branch.
    let data = json!({ "entry": entry });
    Ok(live.session().append_custom("restored", data).await.map_err(anyhow::Error::from)?)
}

fn list(of: &Reviewed) -> Result<Vec<CheckpointView>, ServiceError> {
    let mut changed: HashMap<RunId, BTreeSet<_>> = HashMap::new();
    let history = of.project.project.workspace.history();
    for commit in history.map_err(|error| ServiceError::from(anyhow::Error::from(error)))? {
        changed.entry(commit.run).or_default().extend(commit.files);
    }
    let view = |(at, run): (usize, RunId)| {
        let entry = &of.loaded.entries[at];
        let message = of.loaded.body(entry).ok()?.message(0)?;
        Some(CheckpointView {
            message_id: entry.id.clone(),
            text: message.text().chars().take(MAX_TEXT).collect(),
            timestamp: entry.timestamp.clone(),
            files: changed.get(&run).map_or(0, BTreeSet::len),
        })
    };
    Ok(of.loaded.run_starts().into_iter().filter_map(view).collect())
}

/// The paths of a planned restore.
/// Adds files with dropped proposals.
fn add_files(files: &mut Vec<String>, dropped: Vec<AbsPath>) {
    files.extend(dropped.into_iter().map(|path| path.to_string()));
    files.sort();
    files.dedup();
}

fn files(planned: &Rejection) -> Vec<String> {
    planned.plan.changes().iter().map(|change| change.path.to_string()).collect()
}
