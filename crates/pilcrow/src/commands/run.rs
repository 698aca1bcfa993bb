//! `pilcrow run`: runs the agent on a prompt and prints its events as they happen.

use std::io::{IsTerminal as _, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::events::MessageRole;
use agent::{Envelope, Event};
use host::escaping::escape_invisible_line;
use host::project::Access;
use host::{
    CompactReport, CompactRequest, Outcome, PromptRequest, Reply, RunReport, cancellation, describe_unsaved,
    parse_compact,
};
use llm::{AssistantMessage, Content, Message, StopReason, StreamEvent, Usage};
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{has_new_errors, print_text, with_new_errors, wrong_use};
use crate::executor::{Executor, Listener, show_progress};
use crate::render::Format;
use crate::{cli, open, output};

/// Options of a run.
pub struct RunOptions {
    /// The session to continue.
    pub resume: Option<String>,
    pub consent: cli::Consent,
    pub model: cli::ModelArgs,
    pub format: Format,
    /// Milliseconds that an edit of the built-in planner waits for its diagnostics.
    pub wait_ms: Option<u64>,
}

/// Runs `prompt`.
///
/// Reads it from standard input for `-`, and for nothing unless that is a terminal. As JSON, the last line is
/// `agent_settled`, also if no session was opened.
pub async fn run(
    prompt: Option<String>,
    args: &cli::CallArgs,
    options: RunOptions,
) -> anyhow::Result<Outcome> {
    let format = options.format;
    let progress = Arc::new(Progress { format, as_json: args.target.json, ..Progress::default() });
    let ran = run_prompt(prompt, args, options, &progress).await;
    match &ran {
        Ok(Ok(_)) => {}
        Ok(Err(text)) => progress.settle(text.clone()),
        Err(error) => progress.settle(format!("{error:#}")),
    }
    Ok(ran?.unwrap_or_else(|text| wrong_use(&text)))
}

/// Runs `prompt`; the inner error says why the request is invalid.
async fn run_prompt(
    prompt: Option<String>,
    args: &cli::CallArgs,
    options: RunOptions,
    progress: &Arc<Progress>,
) -> anyhow::Result<Result<Outcome, String>> {
    let RunOptions { resume, consent, model, wait_ms, .. } = options;
    // A recorded session contains its prompts.
    let is_replay = model.model.as_deref().is_some_and(|model| model.starts_with("replay:"));
    let prompt = match prompt.as_deref() {
        Some(prompt) if prompt != "-" => prompt.to_owned(),
        None if is_replay || std::io::stdin().is_terminal() => String::new(),
        _ => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text)?;
            // Some programs begin every text with a byte order mark.
            text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)
        }
    };
    if prompt.trim().is_empty() && !is_replay {
        let text = "there is no prompt; `pilcrow run --help-planner` lists requests that need no model";
        return Ok(Err(text.to_owned()));
    }
    if let Some(instructions) = parse_compact(&prompt) {
        let Some(id) = resume else {
            let text = "a new session has nothing to compact; name one: pilcrow sessions compact ID";
            return Ok(Err(text.to_owned()));
        };
        return compact(id, instructions, args, model).await.map(Ok);
    }
    let access = open::access(consent.yes, false)?;
    let cli::ModelArgs { model, agent } = model;
    let request =
        PromptRequest { prompt, model, directory: std::path::absolute(".")?, resume, agent, wait_ms };
    let listener = Arc::clone(progress);
    let reply = Executor::with(args, access, async |executor, cancel| {
        let reply = executor.run(request, listener, cancel).await;
        output::clear();
        reply
    });
    let RunReport { outcome, reason, unsaved } = match reply.await? {
        Reply::Done(report) => report,
        Reply::InvalidRequest(text) => return Ok(Err(text)),
    };
    if !args.target.json {
        let reason = reason.filter(|_| !progress.explained.load(Ordering::Relaxed));
        let lines = reason.into_iter().chain(describe_unsaved(&unsaved));
        lines.for_each(|line| output::note(&format!("pilcrow: {line}")));
    }
    Ok(Ok(with_new_errors(outcome, progress.has_new_errors.load(Ordering::Relaxed))))
}

/// Compacts the session `id`.
pub async fn compact(
    id: String,
    instructions: &str,
    args: &cli::CallArgs,
    model: cli::ModelArgs,
) -> anyhow::Result<Outcome> {
    let cli::ModelArgs { model, agent } = model;
    let request = CompactRequest {
        session: Some(id),
        instructions: instructions.to_owned(),
        model,
        directory: Some(std::path::absolute(".")?),
        agent,
    };
    let progress = Progress { as_json: args.target.json, ..Progress::default() };
    let progress = Arc::new(progress);
    let work = async |it: &mut Executor, cancel: &_| it.compact(request, progress, cancel).await;
    let CompactReport { compacted, error, notes } =
        match Executor::with(args, Access::default(), work).await? {
            Reply::Done(report) => report,
            Reply::InvalidRequest(text) => return Ok(wrong_use(&text)),
        };
    let failed = error.is_some();
    let nothing = (!failed && !compacted).then(|| "nothing to compact: the session is short".to_owned());
    if !args.target.json {
        notes.iter().for_each(|note| output::note(&format!("· {note}")));
        error.into_iter().chain(nothing).for_each(|line| output::note(&format!("pilcrow: {line}")));
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

/// Prints the response on standard output as it arrives.
///
/// The other events go to standard error. As JSON, prints one event per line instead.
#[derive(Default)]
struct Progress {
    format: Format,
    as_json: bool,
    streamed: AtomicBool,
    /// The last result, which is the answer of the built-in planner.
    result: Mutex<Option<(String, Value)>>,
    /// Whether the planner answers; its answer repeats the failure of a call.
    is_planner: AtomicBool,
    /// Whether the planner's answer explains a failure.
    explained: AtomicBool,
    /// Whether an edit of the planner introduced errors.
    has_new_errors: AtomicBool,
    /// Whether the session had an event.
    has_events: AtomicBool,
}

impl Listener for Progress {
    fn event(&self, envelope: &Envelope) {
        self.observe(&envelope.event);
        match self.as_json {
            true => output::json(envelope),
            false => self.print(&envelope.event),
        }
    }

    fn raw_event(&self, raw: &RawValue) {
        // Events of a newer version are skipped.
        let envelope = serde_json::from_str::<Envelope>(raw.get()).ok();
        if let Some(envelope) = &envelope {
            self.observe(&envelope.event);
        }
        match envelope {
            _ if self.as_json => output::line(raw.get()),
            Some(envelope) => self.print(&envelope.event),
            None => {}
        }
    }
}

impl Progress {
    /// Prints the events of a run without a session: the error and `agent_settled`.
    fn settle(&self, error: String) {
        if !self.as_json || self.has_events.load(Ordering::Relaxed) {
            return;
        }
        let error = Event::Notice { level: "error".to_owned(), text: error };
        for (seq, event) in (1..).zip([error, Event::AgentSettled { aborted: false }]) {
            let session_id = String::new();
            output::json(&Envelope { session_id, seq, state_version: 0, at: llm::now_ms(), event });
        }
    }

    /// Records who answers, and whether an edit of the planner introduced errors.
    fn observe(&self, event: &Event) {
        self.has_events.store(true, Ordering::Relaxed);
        match event {
            Event::MessageEnd { message: Message::Assistant(message), .. } => {
                self.is_planner.store(message.api == "planner", Ordering::Relaxed);
            }
            Event::ToolExecutionEnd { details, .. } if self.is_planner.load(Ordering::Relaxed) => {
                self.has_new_errors.fetch_or(has_new_errors(details), Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn print(&self, event: &Event) {
        if let Event::MessageEnd { message: Message::Assistant(message), .. } = event
            && self.is_planner.load(Ordering::Relaxed)
            && message.tool_calls().next().is_none()
        {
            return self.print_answer(message);
        }
        match event {
            Event::MessageStart { role: MessageRole::Assistant, .. } => {
                self.streamed.store(false, Ordering::Relaxed);
            }
            Event::MessageUpdate { update: StreamEvent::TextDelta { delta, .. }, .. } => {
                self.streamed.store(true, Ordering::Relaxed);
                output::part(delta);
            }
            Event::MessageEnd { message: Message::Assistant(message), .. } => {
                let text = message.text();
                if self.streamed.load(Ordering::Relaxed) {
                    output::line("");
                } else if !text.is_empty() {
                    output::line(&text);
                }
            }
            // The question itself is shown.
            Event::ToolExecutionStart { tool_name, .. } if tool_name == "ask" => {}
            Event::ToolExecutionStart { tool_name, input, .. } => {
                output::note(&format!("· {tool_name} {}", escape_invisible_line(&brief(input))));
            }
            Event::ToolExecutionEnd { is_error: true, .. } if self.is_planner.load(Ordering::Relaxed) => {}
            Event::ToolExecutionEnd { tool_name, is_error: true, content, details, .. } => {
                if let Some(cancelled) = cancellation(details) {
                    return output::note(&format!("· {cancelled}"));
                }
                let first = content.iter().find_map(text_of).and_then(|text| text.lines().next());
                let first = first.unwrap_or_default();
                output::note(&format!("· {tool_name} failed: {first}"));
            }
            Event::ToolExecutionUpdate { update, .. } => show_progress(update),
            Event::Reloaded { changed, problems } => {
                changed.iter().for_each(|name| output::note(&format!("· reloaded: {name}")));
                problems.iter().for_each(|problem| output::note(&format!("· {problem}")));
            }
            Event::CompactionEnd { summary: Some(_), kept, .. } => {
                output::note(&format!("· compacted the conversation (kept the last {kept} messages)"));
            }
            Event::ToolExecutionEnd { tool_name, is_error: false, content, .. } if tool_name == "plan" => {
                content.iter().filter_map(text_of).for_each(output::note);
            }
            Event::ToolExecutionEnd { content, details, .. } => {
                let texts: Vec<&str> = content.iter().filter_map(text_of).collect();
                *self.result.lock() = Some((texts.join("\n"), details.clone()));
            }
            Event::ModelChange { provider, model } => {
                output::note(&format!("· switched to {provider}/{model}"));
            }
            Event::Notice { text, .. } => output::note(&format!("· {text}")),
            Event::AgentEnd { usage, .. } => {
                if let Some(text) = describe_usage(usage) {
                    output::note(&text);
                }
            }
            Event::RetryStart { attempt, max, error, .. } => {
                output::note(&format!("· retrying ({attempt} of {max}): {error}"));
            }
            _ => {}
        }
    }
}

impl Progress {
    /// Prints the planner's last message, for people if it is the last result.
    fn print_answer(&self, message: &AssistantMessage) {
        let text = message.text();
        match message.stop_reason {
            StopReason::Error => {
                self.explained.store(true, Ordering::Relaxed);
                return output::note(&format!("pilcrow: {text}"));
            }
            // The user refused the call; a stopped run has no text.
            StopReason::Aborted if text.is_empty() => return,
            StopReason::Aborted => {
                self.explained.store(true, Ordering::Relaxed);
                return output::note(&text);
            }
            _ => {}
        }
        let result = self.result.lock().take().filter(|(last, _)| *last == text);
        print_text(&text, &result.map(|(_, details)| details).unwrap_or_default(), self.format);
    }
}

/// Renders the tokens and cost of a run; `None` if no provider was used.
pub fn describe_usage(usage: &Usage) -> Option<String> {
    match (usage.total_tokens, usage.uncounted) {
        (0, false) => return None,
        (0, true) => return Some("· the provider reported no usage; cost unknown".to_owned()),
        _ => {}
    }
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let cost = usage.cost.map_or_else(|| "cost unknown".to_owned(), |cost| cost.to_string());
    Some(format!("· {input} tokens in ({} cached), {} out, {cost}", usage.cache_read, usage.output))
}

fn text_of(content: &Content) -> Option<&str> {
    match content {
        Content::Text { text, .. } => Some(text),
        _ => None,
    }
}

/// Renders the arguments of a call in one short line.
fn brief(input: &Value) -> String {
    const MAX: usize = 100;
    let member = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) => format!("{name}={}", text.lines().next().unwrap_or_default()),
        None => format!("{name}={value}"),
    };
    let text = match input.as_object() {
        Some(members) => members.iter().map(member).collect::<Vec<_>>().join(" "),
        None => input.to_string(),
    };
    if text.chars().count() > MAX { text.chars().take(MAX).chain(['…']).collect() } else { text }
}
