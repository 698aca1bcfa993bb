//! One request to the model and its answer. A model that fails, and a hook that does, are messages that say so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use llm::{AssistantMessage, ErrorKind, Message, Request, StopReason, StreamEvent, Tap, Wire};
use serde_json::Value;
use tokio::time::sleep;
use workspace::Redactor;

use crate::event::{Event, MessageRole};
use crate::hooks::Hooks;
use crate::redact::redacted;
use crate::run::{Hooked, RunCx, RunError};
use crate::settings::Current;
use crate::transcript::Transcript;

/// How long a cancelled stream is waited for that does not end by itself.
const STREAM_GRACE: Duration = Duration::from_millis(200);

/// What the model answered.
pub(crate) struct Answer {
    pub message_id: String,
    pub message: AssistantMessage,
    /// The provider had accepted the request.
    pub streamed: bool,
}

/// Asks the model and adds its answer to the transcript.
pub(crate) async fn respond(cx: &RunCx, transcript: &mut Transcript) -> Result<Answer, RunError> {
    let message_id = transcript.new_id();
    let current = cx.current();
    let mut open = Open { cx, message_id: &message_id, started: false, streamed: false, attempt: None };
    let message = match request(cx, transcript, &current).await {
        Ok(request) => {
            match catch_unwind(AssertUnwindSafe(|| current.model.stream(request, cx.cancel.child_token()))) {
                Err(_) => failed(&current, "the model panicked".to_owned()),
                Ok(stream) => receive(cx, stream, &mut open).await,
            }
        }
        Err(message) => *message,
    };
    // The model may have had another level than the one that was asked for, and says so.
    let thinking_level = message.thinking_level.or(current.thinking_level);
    let message = AssistantMessage { thinking_level, ..message };
    open.retried(!message.failed()).await;
    open.start(Some(&message)).await;
    let streamed = open.streamed;
    transcript.end(cx, &message_id, Message::Assistant(message.clone())).await?;
    Ok(Answer { message_id, message, streamed })
}

/// What is asked; `Err` is the answer where a hook failed.
async fn request(
    cx: &RunCx,
    transcript: &mut Transcript,
    current: &Current,
) -> Result<Request, Box<AssistantMessage>> {
    let messages = if cx.hooks.changes_context() {
        let messages = transcript.messages().to_vec();
        let converted = cx.hook(async {
            let messages = cx.hooks.transform_context(messages).await;
            cx.hooks.convert_to_llm(messages).await
        });
        let messages = done(current, "transform_context or convert_to_llm", converted.await)?;
        Arc::new(llm::transcript::repair(&messages))
    } else {
        transcript.sendable()
    };
    let request = Request {
        system: current.instructions.clone(),
        messages,
        tools: current.tools.definitions(),
        thinking: current.thinking_level,
        ..Request::default()
    };
    as_ours(cx, current, request).await
}

/// The request with what each of the session's has: its id, the key, and the hooks that see what is sent and answered.
pub(crate) async fn as_ours(
    cx: &RunCx,
    current: &Current,
    request: Request,
) -> Result<Request, Box<AssistantMessage>> {
    let provider = &current.model.info().provider;
    let api_key = cx.hook(async { cx.hooks.get_api_key(provider).await }).await;
    let api_key = done(current, "get_api_key", api_key)?;
    let watched = Watched { hooks: cx.hooks.clone(), redactor: cx.redactor.clone() };
    let session_id = cx.events.session_id().to_owned();
    Ok(Request { session_id, api_key, tap: Some(Tap(Arc::new(watched))), ..request })
}

fn done<T>(current: &Current, hook: &str, hooked: Hooked<T>) -> Result<T, Box<AssistantMessage>> {
    match hooked {
        Hooked::Done(value) => Ok(value),
        Hooked::Panicked(_) => Err(Box::new(failed(current, format!("a hook panicked in {hook}")))),
        Hooked::GivenUp => {
            let message = failed(current, String::new());
            let stop_reason = StopReason::Aborted;
            Err(Box::new(AssistantMessage { stop_reason, error_kind: None, error_message: None, ..message }))
        }
    }
}

/// An answer that there is none, and why.
pub(crate) fn failed(current: &Current, error: String) -> AssistantMessage {
    let info = current.model.info();
    AssistantMessage {
        stop_reason: StopReason::Error,
        error_kind: Some(ErrorKind::Internal),
        error_message: Some(error),
        ..AssistantMessage::empty(&info.api, &info.provider, &info.id)
    }
}

/// Hands what goes over the network to the hooks, without secrets.
struct Watched {
    hooks: Arc<dyn Hooks>,
    redactor: Arc<Redactor>,
}

impl Wire for Watched {
    fn payload<'a>(&'a self, body: &'a Value) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            match redacted(&self.redactor, body) {
                Some(shown) => self.hooks.on_payload(&shown).await,
                None => self.hooks.on_payload(body).await,
            }
        })
    }

    fn response(&self, status: u16, headers: &[(String, String)]) {
        const SECRET: [&str; 3] = ["set-cookie", "authorization", "proxy-authorization"];
        let shown: Vec<(String, String)> = headers
            .iter()
            .map(|(name, value)| {
                let value = match SECRET.contains(&name.as_str()) {
                    true => "[redacted]".to_owned(),
                    false => self.redactor.redact(value).into_owned(),
                };
                (name.clone(), value)
            })
            .collect();
        if catch_unwind(AssertUnwindSafe(|| self.hooks.on_response(status, &shown))).is_err() {
            tracing::error!("a hook panicked in on_response");
        }
    }
}

/// What was told of a message before it is whole.
struct Open<'a> {
    cx: &'a RunCx,
    message_id: &'a str,
    started: bool,
    streamed: bool,
    /// The request is being made again, and no end of that was told yet.
    attempt: Option<u32>,
}

impl Open<'_> {
    /// The provider took the request that was made again, or never did.
    async fn retried(&mut self, success: bool) {
        if let Some(attempt) = self.attempt.take() {
            self.cx.emit(Event::RetryEnd { attempt, success }).await;
        }
    }

    async fn start(&mut self, whole: Option<&AssistantMessage>) {
        if !std::mem::replace(&mut self.started, true) {
            let event = Event::MessageStart {
                message_id: self.message_id.to_owned(),
                role: MessageRole::Assistant,
                message: whole.cloned().map(Message::Assistant),
            };
            self.cx.emit(event).await;
        }
    }
}

async fn receive(cx: &RunCx, mut stream: llm::MessageStream, open: &mut Open<'_>) -> AssistantMessage {
    let give_up = async {
        cx.cancel.cancelled().await;
        sleep(STREAM_GRACE).await;
    };
    let mut give_up = std::pin::pin!(give_up);
    loop {
        let event = tokio::select! {
            biased;
            // `next` may be dropped: it takes an event only when it returns one.
            event = stream.next() => event,
            () = &mut give_up => None,
        };
        match event {
            Some(StreamEvent::Done { message } | StreamEvent::Error { message }) => {
                return AssistantMessage::clone(&message);
            }
            Some(StreamEvent::Start) => {
                open.streamed = true;
                open.retried(true).await;
                open.start(None).await;
            }
            Some(StreamEvent::Retrying { attempt, max, delay_ms, error }) => {
                open.attempt = Some(attempt);
                cx.emit(Event::RetryStart { attempt, max, delay_ms, error }).await;
            }
            // What comes before the start belongs to no message.
            Some(_) if !open.started => {}
            Some(update) => {
                let message_id = open.message_id.to_owned();
                cx.events.send(Event::MessageUpdate { message_id, update }).await;
            }
            None => {
                let stop_reason = StopReason::Aborted;
                return AssistantMessage { stop_reason, ..stream.partial() };
            }
        }
    }
}
