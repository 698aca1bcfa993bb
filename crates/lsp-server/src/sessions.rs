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
    Cancelled, CompleteContext, DeleteSession, DeliveryMode, ForkSession, KeepChanges, ListCheckpoints,
    ListSessions, NewSession, OpenSession, PreviewCheckpoint, PromptParams, RejectChanges, RenameSession,
    ReviewParams, ServiceError, ServiceOptions, SessionParams, SessionService, StatusParams,
    TextBeforeParams,
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
        let params = PromptParams {
            session: session.to_owned(),
            text,
            delivery,
            context: Vec::new(),
            images: Vec::new(),
        };
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
            self.review.observe(envelope).await;
            if let Err(closed) = self.peer.notify("pilcrow/event", envelope).await {
                tracing::debug!(%closed, "an event was not sent");
            }
        })
    }
}

/// Handles a request of a plugin.
///
/// `None` for a method that is not of the session service.
///
/// # Errors
/// `InvalidParams` for parameters of another form, `RequestFailed` with the service's code.
pub fn request(connection: &Arc<Connection>, method: &str, params: Option<&RawValue>) -> Option<Reply> {
    let (connection, service) = (Arc::clone(connection), &connection.sessions.service);
    Some(match method {
        "pilcrow/session/new" => later(connection, params, |it, params: NewSession| async move {
            let project = project(&it, None, params.cwd.as_deref()).await?;
            it.sessions.service.new_session(params, project).await
        }),
        "pilcrow/session/open" => later(connection, params, |it, params: OpenSession| async move {
            let project = project(&it, Some(&params.session), params.cwd.as_deref()).await?;
            it.sessions.service.open(params, project).await
        }),
        "pilcrow/session/close" => later(connection, params, |it, params: SessionParams| async move {
            // Edits of its run stop first.
            it.sessions.cancel(&params.session, &it.port)?;
            it.sessions.service.close(&params.session).await
        }),
        "pilcrow/session/list" => later(connection, params, |it, params: ListSessions| async move {
            let project = project(&it, None, params.cwd.as_deref()).await?;
            it.sessions.service.list(&project.project).await
        }),
        "pilcrow/prompt" => now(params, |params| service.prompt(&params, None)),
        "pilcrow/cancel" => now(params, |SessionParams { session }| {
            let cancelled = connection.sessions.cancel(&session, &connection.port)?;
            Ok(Cancelled { cancelled })
        }),
        "pilcrow/queue/edit" => {
            later(
                connection,
                params,
                |it, params| async move { it.sessions.service.edit_queue(params).await },
            )
        }
        "pilcrow/queue/remove" => {
            later(
                connection,
                params,
                |it, params| async move { it.sessions.service.remove_queued(&params).await },
            )
        }
        "pilcrow/session/setOption" => {
            later(
                connection,
                params,
                |it, params| async move { it.sessions.service.set_option(params).await },
            )
        }
        "pilcrow/session/fork" => later(connection, params, |it, params: ForkSession| async move {
            let project = project(&it, Some(&params.session), params.cwd.as_deref()).await?;
            it.sessions.service.fork(params, project).await
        }),
        "pilcrow/session/rename" => later(connection, params, |it, params: RenameSession| async move {
            let project = project(&it, Some(&params.session), params.cwd.as_deref()).await?;
            it.sessions.service.rename(params, &project.project).await
        }),
        "pilcrow/session/delete" => later(connection, params, |it, params: DeleteSession| async move {
            let project = project(&it, Some(&params.session), params.cwd.as_deref()).await?;
            it.sessions.service.delete(params, &project.project).await
        }),
        "pilcrow/permission" => now(params, |params| service.answer_permission(params)),
        "pilcrow/input" => now(params, |params| service.answer_input(params)),
        "pilcrow/status" => later(connection, params, |it, params: StatusParams| async move {
            let project = project(&it, params.session.as_deref(), params.cwd.as_deref()).await?;
            it.sessions.service.status(params.session.as_deref(), &project.project).await
        }),
        "pilcrow/context/complete" => later(connection, params, |it, params: CompleteContext| async move {
            let project = project(&it, None, params.cwd.as_deref()).await?;
            it.sessions.service.complete_context(params, &project.project).await
        }),
        "pilcrow/review/list" => later(connection, params, |it, params: ReviewParams| async move {
            let project = project(&it, Some(&params.session), params.cwd.as_deref()).await?;
            it.sessions.service.review(params, project).await
        }),
        "pilcrow/review/before" => later(connection, params, |it, params: TextBeforeParams| async move {
            let project = project(&it, Some(&params.scope.session), params.scope.cwd.as_deref()).await?;
            it.sessions.service.text_before(params, project).await
        }),
        "pilcrow/review/keep" => later(connection, params, |it, params: KeepChanges| async move {
            let project = project(&it, Some(&params.scope.session), params.scope.cwd.as_deref()).await?;
            let session = params.scope.session.clone();
            let done = it.sessions.service.keep(params, project).await?;
            it.review.changed(Some(&session)).await;
            Ok(done)
        }),
        "pilcrow/review/reject" => later(connection, params, |it, params: RejectChanges| async move {
            let project = project(&it, Some(&params.scope.session), params.scope.cwd.as_deref()).await?;
            let session = params.scope.session.clone();
            let rejected = it.sessions.service.reject(params, project).await?;
            it.review.changed(Some(&session)).await;
            Ok(rejected)
        }),
        "pilcrow/checkpoint/list" => later(connection, params, |it, params: ListCheckpoints| async move {
            let project = project(&it, Some(&params.session), params.cwd.as_deref()).await?;
            it.sessions.service.checkpoints(params, project).await
        }),
        "pilcrow/checkpoint/preview" => {
            later(connection, params, |it, params: PreviewCheckpoint| async move {
                let project = project(&it, Some(&params.session), params.cwd.as_deref()).await?;
                it.sessions.service.preview_checkpoint(params, project).await
            })
        }
        "pilcrow/checkpoint/restore" => later(connection, params, |it, params| async move {
            let restored = it.sessions.service.restore_checkpoint(params).await?;
            it.review.changed(None).await;
            Ok(restored)
        }),
        "pilcrow/checkpoint/undo" => later(connection, params, |it, params| async move {
            let done = it.sessions.service.undo_checkpoint(params).await?;
            it.review.changed(None).await;
            Ok(done)
        }),
        _ => return None,
    })
}

/// The project of a live session or of a run of this connection.
///
/// Without them the project of the folder that contains `cwd`, else of the active folder.
pub(crate) async fn project(
    connection: &Arc<Connection>,
    session: Option<&str>,
    cwd: Option<&str>,
) -> Result<ProjectHandle, ServiceError> {
    let invalid = |message: String| ServiceError::new(ErrorCode::InvalidArguments, message);
    let known = session.and_then(|session| {
        connection.sessions.service.root_of(session).or_else(|| connection.runs.root_of(session))
    });
    let root = match (known, cwd) {
        (Some(root), _) => root,
        (None, None) => runs::root(connection, None).map_err(|error| invalid(error.to_string()))?,
        (None, Some(cwd)) => {
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

/// Answers at once, in the order of the messages.
fn now<P: DeserializeOwned, T: Serialize>(
    params: Option<&RawValue>,
    serve: impl FnOnce(P) -> Result<T, ServiceError>,
) -> Reply {
    Box::pin(ready(read(params).and_then(|params| answer(serve(params)))))
}

fn later<P, T, F>(
    connection: Arc<Connection>,
    params: Option<&RawValue>,
    serve: impl FnOnce(Arc<Connection>, P) -> F,
) -> Reply
where
    P: DeserializeOwned,
    T: Serialize + Send + 'static,
    F: Future<Output = Result<T, ServiceError>> + Send + 'static,
{
    match read(params) {
        Ok(params) => {
            // A cancelled request must not be done by half.
            let served = tokio::spawn(serve(connection, params));
            Box::pin(async move {
                match served.await {
                    Ok(served) => answer(served),
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(error) => Err(RpcError::new(codes::INTERNAL_ERROR, error.to_string())),
                }
            })
        }
        Err(error) => Box::pin(ready(Err(error))),
    }
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

    use host::service::*;
    use schemars::{Schema, schema_for};
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

    /// The methods of the service, with the schemas of their parameters and answers.
    fn methods() -> Vec<(&'static str, Schema, Schema)> {
        macro_rules! methods {
            ($($name:literal: $params:ty => $answer:ty,)*) => {
                vec![$(($name, schema_for!($params), schema_for!($answer)),)*]
            };
        }
        methods! {
            "session/new": NewSession => SessionView,
            "session/open": OpenSession => SessionView,
            "session/close": SessionParams => Done,
            "session/list": ListSessions => SessionList,
            "prompt": PromptParams => PromptAck,
            "cancel": SessionParams => Cancelled,
            "queue/edit": QueueEdit => Done,
            "queue/remove": QueueRemove => RemovedMessage,
            "session/setOption": SetOption => SessionOptions,
            "session/fork": ForkSession => SessionView,
            "session/rename": RenameSession => Done,
            "session/delete": DeleteSession => Done,
            "permission": PermissionParams => Done,
            "input": InputParams => Done,
            "status": StatusParams => StatusView,
            "context/complete": CompleteContext => ContextItems,
            "review/list": ReviewParams => ReviewView,
            "review/before": TextBeforeParams => TextBefore,
            "review/keep": KeepChanges => KeptView,
            "review/reject": RejectChanges => RejectionView,
            "checkpoint/list": ListCheckpoints => CheckpointList,
            "checkpoint/preview": PreviewCheckpoint => RestorePreview,
            "checkpoint/restore": RestoreCheckpoint => RestoreView,
            "checkpoint/undo": UndoCheckpoint => Done,
        }
    }

    #[test]
    fn the_protocol_page_has_the_fields_of_the_session_service() {
        for (method, params, answer) in methods() {
            let name = format!("pilcrow/{method}");
            let (params, answer) = (params.to_value(), answer.to_value());
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
