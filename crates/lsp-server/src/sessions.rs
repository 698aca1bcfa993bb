//! The session service over LSP: `pilcrow/session/…`, `pilcrow/prompt` and the like.
//!
//! Invariant: `pilcrow/prompt` and `pilcrow/cancel` take effect in the order of their messages.

use std::collections::HashMap;
use std::sync::Arc;

use agent::{Envelope, Event, EventSink, Queue};
use editor_sync::apply_edit::EditorPort;
use futures_util::future::{BoxFuture, ready};
use host::ProjectHandle;
use host::service::{
    Cancelled, CompleteContext, DeleteSession, DeliveryMode, ForkSession, InputParams, KeepChanges,
    ListCheckpoints, ListSessions, NewSession, OpenSession, PermissionParams, PreviewCheckpoint,
    PromptParams, QueueEdit, QueueRemove, RejectChanges, RenameSession, RestoreCheckpoint, ReviewParams,
    ServiceError, ServiceOptions, SessionParams, SessionService, SetOption, StatusParams, TextBeforeParams,
    UndoCheckpoint,
};
use host::session::Subject;
use parking_lot::Mutex;
use paths::AbsPath;
use policy::{Approver, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;
use wire::{Peer, RpcError, codes};
use workspace::RunId;

use crate::review::EditorReview;
use crate::runs::{self, Work, WorkKind};
use crate::{Connection, Reply};

/// The live sessions of one connection.
pub struct Sessions {
    pub service: SessionService,
    last_runs: Arc<LastRuns>,
}

/// The last run of each live session.
type LastRuns = Mutex<HashMap<String, RunId>>;

impl Sessions {
    pub fn new(
        peer: &Peer,
        agent: Option<String>,
        approver: Option<Arc<dyn Approver>>,
        review: Arc<EditorReview>,
    ) -> Self {
        let last_runs = Arc::<LastRuns>::default();
        let sink = Arc::new(SessionSink { peer: peer.clone(), last_runs: Arc::clone(&last_runs), review });
        Self {
            service: SessionService::new(ServiceOptions { sink, approver, default_agent: agent }),
            last_runs,
        }
    }

    /// Sends the work to the live session that it continues or compacts, if any.
    pub(crate) fn prompt_live(&self, work: &Work) -> Option<Result<String, RpcError>> {
        let (session, text) = match &work.kind {
            WorkKind::Prompt { text, resume: Some(session) } => (session, text.clone()),
            WorkKind::Compact { session: Some(session), wishes } => (session, format!("/compact {wishes}")),
            _ => return None,
        };
        let subject = runs::subject(work, None);
        self.service.is_live(session).then(|| self.send(session, text, DeliveryMode::Queue, subject.as_ref()))
    }

    /// Sends a message to a live session.
    pub fn steer(&self, session: &str, text: &str, queue: Queue) -> Result<String, RpcError> {
        let delivery = if queue == Queue::Steering { DeliveryMode::Steer } else { DeliveryMode::Queue };
        self.send(session, text.to_owned(), delivery, None)
    }

    fn send(
        &self,
        session: &str,
        text: String,
        delivery: DeliveryMode,
        subject: Option<&Subject>,
    ) -> Result<String, RpcError> {
        let params = PromptParams { session: session.to_owned(), text, delivery, context: Vec::new() };
        self.service.prompt(&params, subject).map_err(rpc_error)?;
        Ok(params.session)
    }

    /// Cancels the run of a live session, or of all; returns their number.
    pub fn stop(&self, session: Option<&str>, port: &EditorPort) -> usize {
        let sessions = session.map_or_else(|| self.service.live_ids(), |session| vec![session.to_owned()]);
        sessions.iter().filter(|session| self.cancel(session, port).unwrap_or(false)).count()
    }

    /// Cancels the run of a session, with its edits.
    pub fn cancel(&self, session: &str, port: &EditorPort) -> Result<bool, ServiceError> {
        let cancelled = self.service.cancel(session)?.cancelled;
        if let Some(run) = self.last_run(session).filter(|_| cancelled) {
            port.stop_run(&run);
        }
        Ok(cancelled)
    }

    /// The last run of a live session.
    pub(crate) fn last_run(&self, session: &str) -> Option<RunId> {
        self.last_runs.lock().get(session).cloned()
    }
}

/// Sends the events of all live sessions to the client.
struct SessionSink {
    peer: Peer,
    last_runs: Arc<LastRuns>,
    review: Arc<EditorReview>,
}

impl EventSink for SessionSink {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Event::AgentStart { run_id, .. } = &envelope.event {
                self.last_runs.lock().insert(envelope.session_id.clone(), run_id.clone());
            }
            self.review.observe(envelope);
            if let Err(closed) = self.peer.notify("pilcrow/event", envelope).await {
                tracing::debug!(%closed, "an event was not sent");
            }
        })
    }
}

/// Whether [`request`] handles `method`.
pub(crate) fn is_session_method(method: &str) -> bool {
    const GROUPS: [&str; 5] =
        ["pilcrow/session/", "pilcrow/queue/", "pilcrow/context/", "pilcrow/review/", "pilcrow/checkpoint/"];
    const OTHERS: [&str; 5] =
        ["pilcrow/prompt", "pilcrow/cancel", "pilcrow/permission", "pilcrow/input", "pilcrow/status"];
    GROUPS.iter().any(|group| method.starts_with(group)) || OTHERS.contains(&method)
}

/// Handles a request of a plugin.
///
/// # Errors
/// `InvalidParams` for parameters of another form, `RequestFailed` with the service's code.
pub fn request(connection: &Arc<Connection>, method: &str, params: Option<&RawValue>) -> Reply {
    match handle(connection, method, params) {
        Ok(answer) => answer,
        Err(error) => Box::pin(ready(Err(error))),
    }
}

fn handle(connection: &Arc<Connection>, method: &str, params: Option<&RawValue>) -> Result<Reply, RpcError> {
    let (connection, sessions) = (Arc::clone(connection), &connection.sessions);
    Ok(match method {
        "pilcrow/session/new" => {
            let params: NewSession = read(params)?;
            later(async move {
                let project = project(&connection, params.cwd.as_deref()).await?;
                connection.sessions.service.new_session(params, project).await
            })
        }
        "pilcrow/session/open" => {
            let params: OpenSession = read(params)?;
            later(async move {
                let cwd = params.cwd.clone();
                let project = project(&connection, cwd.as_deref());
                connection.sessions.service.open(params, project).await
            })
        }
        "pilcrow/session/close" => {
            let SessionParams { session } = read(params)?;
            later(async move {
                // Edits of its run stop first.
                connection.sessions.cancel(&session, &connection.port)?;
                connection.sessions.service.close(&session).await
            })
        }
        "pilcrow/session/list" => {
            let params: ListSessions = read(params)?;
            later(async move {
                let project = project(&connection, params.cwd.as_deref()).await?;
                connection.sessions.service.list(&project.project).await
            })
        }
        "pilcrow/prompt" => now(sessions.service.prompt(&read(params)?, None)),
        "pilcrow/cancel" => {
            let SessionParams { session } = read(params)?;
            now(sessions.cancel(&session, &connection.port).map(|cancelled| Cancelled { cancelled }))
        }
        "pilcrow/queue/edit" => {
            let params: QueueEdit = read(params)?;
            later(async move { connection.sessions.service.edit_queue(params).await })
        }
        "pilcrow/queue/remove" => {
            let params: QueueRemove = read(params)?;
            later(async move { connection.sessions.service.remove_queued(&params).await })
        }
        "pilcrow/session/setOption" => {
            let params: SetOption = read(params)?;
            later(async move { connection.sessions.service.set_option(params).await })
        }
        "pilcrow/session/fork" => {
            let params: ForkSession = read(params)?;
            later(async move {
                let project = project(&connection, params.cwd.as_deref()).await?;
                connection.sessions.service.fork(params, project).await
            })
        }
        "pilcrow/session/rename" => {
            let params: RenameSession = read(params)?;
            later(async move {
                let project = project(&connection, params.cwd.as_deref()).await?;
                connection.sessions.service.rename(params, &project.project).await
            })
        }
        "pilcrow/session/delete" => {
            let params: DeleteSession = read(params)?;
            later(async move {
                let project = project(&connection, params.cwd.as_deref()).await?;
                connection.sessions.service.delete(params, &project.project).await
            })
        }
        "pilcrow/permission" => now(sessions.service.answer_permission(read::<PermissionParams>(params)?)),
        "pilcrow/input" => now(sessions.service.answer_input(read::<InputParams>(params)?)),
        "pilcrow/status" => {
            let params: StatusParams = read(params)?;
            later(async move {
                let project = project(&connection, params.cwd.as_deref()).await?;
                connection.sessions.service.status(params.session.as_deref(), &project.project).await
            })
        }
        "pilcrow/context/complete" => {
            let CompleteContext { query, cwd } = read(params)?;
            later(async move {
                let project = project(&connection, cwd.as_deref()).await?;
                connection.sessions.service.complete_context(query, &project.project).await
            })
        }
        "pilcrow/review/list" => {
            let params: ReviewParams = read(params)?;
            later(async move {
                let project = project_of(&connection, &params.session, params.cwd.as_deref());
                connection.sessions.service.review(params, project).await
            })
        }
        "pilcrow/review/before" => {
            let params: TextBeforeParams = read(params)?;
            later(async move {
                let project = project_of(&connection, &params.scope.session, params.scope.cwd.as_deref());
                connection.sessions.service.text_before(params, project).await
            })
        }
        "pilcrow/checkpoint/list" => {
            let params: ListCheckpoints = read(params)?;
            later(async move {
                let project = project_of(&connection, &params.session, params.cwd.as_deref());
                connection.sessions.service.checkpoints(params.clone(), project).await
            })
        }
        "pilcrow/checkpoint/preview" => {
            let params: PreviewCheckpoint = read(params)?;
            later(async move {
                let project = project_of(&connection, &params.session, params.cwd.as_deref());
                connection.sessions.service.preview_checkpoint(params.clone(), project).await
            })
        }
        "pilcrow/checkpoint/restore" => {
            let params: RestoreCheckpoint = read(params)?;
            later(async move { connection.sessions.service.restore_checkpoint(params).await })
        }
        "pilcrow/checkpoint/undo" => {
            let params: UndoCheckpoint = read(params)?;
            later(async move { connection.sessions.service.undo_checkpoint(params).await })
        }
        "pilcrow/review/keep" => {
            let params: KeepChanges = read(params)?;
            later(async move {
                let project = project_of(&connection, &params.scope.session, params.scope.cwd.as_deref());
                connection.sessions.service.keep(params, project).await
            })
        }
        "pilcrow/review/reject" => {
            let params: RejectChanges = read(params)?;
            later(async move {
                let project = project_of(&connection, &params.scope.session, params.scope.cwd.as_deref());
                connection.sessions.service.reject(params, project).await
            })
        }
        _ => return Err(RpcError::method_not_found(method)),
    })
}

/// The project of a run of this connection, else that of `cwd`.
pub(crate) fn project_of(
    connection: &Arc<Connection>,
    session: &str,
    cwd: Option<&str>,
) -> impl Future<Output = Result<ProjectHandle, ServiceError>> + Send + 'static {
    let (connection, root) = (Arc::clone(connection), connection.runs.root_of(session));
    let cwd = cwd.map(str::to_owned);
    async move {
        match root {
            Some(root) => Ok(connection.projects.open(&root).await?.into_handle()),
            None => project(&connection, cwd.as_deref()).await,
        }
    }
}

/// The project of the folder that contains `cwd`, else of the active folder.
async fn project(connection: &Arc<Connection>, cwd: Option<&str>) -> Result<ProjectHandle, ServiceError> {
    let invalid = |message: String| ServiceError::new(ErrorCode::InvalidArguments, message);
    let root = match cwd {
        None => runs::root(connection, None).map_err(|error| invalid(error.to_string()))?,
        Some(cwd) => {
            let path = AbsPath::new(std::path::Path::new(cwd));
            let inside = path.filter(|path| connection.projects.contains(path));
            let root = inside.and_then(|path| connection.projects.root_for(Some(&path)).ok());
            root.ok_or_else(|| {
                invalid(format!("{cwd} is outside the open folders; use a path in one of them"))
            })?
        }
    };
    Ok(connection.projects.open(&root).await?.into_handle())
}

pub(crate) fn rpc_error(error: ServiceError) -> RpcError {
    let is_invalid = error.code == ErrorCode::InvalidArguments;
    RpcError {
        code: if is_invalid { codes::INVALID_PARAMS } else { codes::REQUEST_FAILED },
        data: Some(json!({ "code": error.code })),
        message: error.message,
    }
}

fn now<T: Serialize>(result: Result<T, ServiceError>) -> Reply {
    Box::pin(ready(answer(result)))
}

fn later<T: Serialize>(result: impl Future<Output = Result<T, ServiceError>> + Send + 'static) -> Reply {
    Box::pin(async move { answer(result.await) })
}

fn answer<T: Serialize>(result: Result<T, ServiceError>) -> Result<Box<RawValue>, RpcError> {
    let value = result.map_err(rpc_error)?;
    wire::raw(&value).map_err(|error| RpcError::new(codes::INTERNAL_ERROR, error.to_string()))
}

fn read<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, RpcError> {
    let params = params.map_or("{}", RawValue::get);
    serde_json::from_str(params)
        .map_err(|error| rpc_error(ServiceError::new(ErrorCode::InvalidArguments, error.to_string())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    const PAGE: &str = include_str!("../../../docs/protocols/language-server.md");

    /// The names of a schema's fields, `?` after optional ones, or its values.
    fn names(schema: &Value) -> BTreeSet<String> {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let fields = schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
        let fields = fields.map(|name| match required.contains(&name.as_str()) {
            true => format!("`{name}`"),
            false => format!("`{name}`?"),
        });
        let values = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let variants = schema["oneOf"].as_array().into_iter().flatten();
        let variants = variants.filter_map(|variant| variant["const"].as_str());
        fields.chain(values.chain(variants).map(|value| format!("`{value}`"))).collect()
    }

    /// The cells of the row that begins with `name`.
    fn row(name: &str) -> Vec<&'static str> {
        let start = format!("| `{name}` |");
        let row = PAGE.lines().find(|line| line.starts_with(&start));
        row.unwrap_or_else(|| panic!("docs/protocols/language-server.md lacks {name}")).split('|').collect()
    }

    /// The names in a cell, without those in parentheses.
    fn documented(cell: &str) -> BTreeSet<String> {
        let outside = cell.split('(').map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
        let text = outside.collect::<String>();
        let parts: Vec<&str> = text.split('`').collect();
        let name = |pair: &[&str]| match pair {
            [name, after] if after.starts_with('?') => format!("`{name}`?"),
            [name, ..] => format!("`{name}`"),
            [] => String::new(),
        };
        parts[1..].chunks(2).map(name).collect()
    }

    #[test]
    fn the_protocol_page_has_the_fields_of_the_session_service() {
        for method in host::service::methods() {
            let name = format!("pilcrow/{}", method.name);
            assert!(super::is_session_method(&name), "{name}");
            let (params, answer) = (method.params.to_value(), method.answer.to_value());
            let cells = row(&name);
            assert_eq!(documented(cells[2]), names(&params), "params of {name}");
            let title = answer["title"].as_str().expect("a title");
            assert_eq!(cells[3].trim(), format!("`{title}`"), "answer of {name}");
            assert_eq!(documented(row(title)[2]), names(&answer), "{title}");
            for schema in [&params, &answer] {
                for (title, schema) in schema["$defs"].as_object().into_iter().flatten() {
                    assert_eq!(documented(row(title)[2]), names(schema), "{title}");
                }
            }
        }
    }
}
