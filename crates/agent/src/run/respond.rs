//! One request to the model and its response.
//!
//! A failing model or hook produces an error message.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use llm::{
    AssistantMessage, Content, ErrorKind, Message, Request, RequestObserver, SharedObserver, StopReason,
    StreamEvent,
};
use policy::Redactor;
use process::deadlines;
use serde_json::Value;
use tokio::time::sleep;

use crate::events::{Event, MessageRole};
use crate::redact::redacted;
use crate::run::context::{Hooked, RunCx};
use crate::run::hooks::Hooks;
use crate::run::settings::TurnSettings;
use crate::store::StoreError;
use crate::transcript::Transcript;

/// A response in the transcript.
pub(crate) struct Response {
    pub message_id: String,
    pub message: AssistantMessage,
    /// Whether the provider accepted the request.
    pub streamed: bool,
    /// Retries of this turn so far.
    pub retries: u32,
}

/// Asks the model and adds its answer to the transcript.
///
/// `retries` are those before this request.
pub(crate) async fn respond(
    cx: &RunCx,
    transcript: &mut Transcript,
    retries: u32,
) -> Result<Response, StoreError> {
    let message_id = transcript.new_id();
    let current = cx.current();
    let mut open =
        OpenMessage { cx, message_id: &message_id, started: false, streamed: false, retries, attempt: None };
    let message = match request(cx, transcript, &current).await {
        Ok(request) => {
            match catch_unwind(AssertUnwindSafe(|| {
                current.model.stream(Request { retries, ..request }, cx.cancel.child_token())
            })) {
                Err(_) => failed(&current, "the model panicked".to_owned()),
                Ok(stream) => receive(cx, stream, &mut open).await,
            }
        }
        Err(message) => *message,
    };
    // The model may report another level than the requested one.
    let thinking_level = message.thinking_level.or(current.thinking_level);
    let mut message = AssistantMessage { thinking_level, ..message };
    // A strict provider refuses a later request with a name that it does not know.
    for content in &mut message.content {
        if let Content::ToolCall(call) = content
            && let Some(tool) = cx.tools().registry().get(&call.name)
        {
            call.name.clone_from(&tool.definition().name);
        }
    }
    open.retried(!message.failed()).await;
    open.start(Some(&message)).await;
    let (streamed, retries) = (open.streamed, open.retries);
    cx.end_message(transcript, &message_id, Message::Assistant(message.clone())).await?;
    Ok(Response { message_id, message, streamed, retries })
}

/// Builds the request; `Err` is the answer if a hook failed.
async fn request(
    cx: &RunCx,
    transcript: &mut Transcript,
    current: &TurnSettings,
) -> Result<Request, Box<AssistantMessage>> {
    let messages = if cx.hooks.changes_context() {
        let messages = transcript.current();
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
        patience: (!cx.settings.get().fallbacks.is_empty()).then(|| cx.limits().retries.patience),
        ..Request::default()
    };
    with_session(cx, current, request).await
}

/// Adds the session's id, key and observer to a request.
pub(crate) async fn with_session(
    cx: &RunCx,
    current: &TurnSettings,
    request: Request,
) -> Result<Request, Box<AssistantMessage>> {
    let provider = &current.model.info().provider;
    let api_key = cx.hook(async { cx.hooks.get_api_key(provider).await }).await;
    let api_key = done(current, "get_api_key", api_key)?;
    let watched = HookObserver { hooks: cx.hooks.clone(), redactor: cx.redactor.clone() };
    let session_id = cx.events.session_id().to_owned();
    Ok(Request { session_id, api_key, observer: Some(SharedObserver(Arc::new(watched))), ..request })
}

fn done<T>(current: &TurnSettings, hook: &str, hooked: Hooked<T>) -> Result<T, Box<AssistantMessage>> {
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

/// An answer that reports an error.
pub(crate) fn failed(current: &TurnSettings, error: String) -> AssistantMessage {
    let info = current.model.info();
    AssistantMessage {
        stop_reason: StopReason::Error,
        error_kind: Some(ErrorKind::Internal),
        error_message: Some(error),
        ..AssistantMessage::empty(&info.api, &info.provider, &info.id)
    }
}

/// Forwards requests and answers to the hooks, redacted.
struct HookObserver {
    hooks: Arc<dyn Hooks>,
    redactor: Arc<Redactor>,
}

impl RequestObserver for HookObserver {
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
                let value = if SECRET.contains(&name.as_str()) {
                    "[redacted]".to_owned()
                } else {
                    self.redactor.redact(value).into_owned()
                };
                (name.clone(), value)
            })
            .collect();
        if catch_unwind(AssertUnwindSafe(|| self.hooks.on_response(status, &shown))).is_err() {
            tracing::error!("a hook panicked in on_response");
        }
    }
}

/// Events sent for an incomplete message.
struct OpenMessage<'a> {
    cx: &'a RunCx,
    message_id: &'a str,
    started: bool,
    streamed: bool,
    retries: u32,
    /// The current retry, if its end is not reported yet.
    attempt: Option<u32>,
}

impl OpenMessage<'_> {
    /// Reports the end of a retry.
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

async fn receive(cx: &RunCx, mut stream: llm::MessageStream, open: &mut OpenMessage<'_>) -> AssistantMessage {
    let give_up = async {
        cx.cancel.cancelled().await;
        sleep(deadlines::STREAM).await;
    };
    let mut give_up = std::pin::pin!(give_up);
    loop {
        let event = tokio::select! {
            biased;
            // This is cancel-safe: `next` takes an event only when it returns one.
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
                (open.attempt, open.retries) = (Some(attempt), attempt);
                cx.emit(Event::RetryStart { attempt, max, delay_ms, error }).await;
            }
            // Events before the start belong to no message.
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
