//! `pilcrow run`: runs the agent on a prompt and prints its events as they happen.

use std::io::{IsTerminal as _, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::events::MessageRole;
use agent::{Envelope, Event};
use host::escaping::escape_invisible_line;
use host::project::Access;
use host::{
    CompactReport, CompactRequest, Outcome, PromptRequest, Reply, RunReport, describe_unsaved, parse_compact,
};
use llm::{AssistantMessage, Content, Message, StopReason, StreamEvent, Usage};
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{print_text, wrong_use};
use crate::executor::{Executor, Listener};
use crate::render::Format;
use crate::{cli, output, stop};

/// Options of a run.
pub struct RunOptions {
    /// The session to continue.
    pub resume: Option<String>,
    pub consent: cli::Consent,
    pub model: cli::ModelArgs,
    pub format: Format,
}

/// Runs `prompt`.
///
/// Reads it from standard input for `-`, and for nothing unless that is a terminal.
pub async fn run(
    prompt: Option<String>,
    project: &cli::Project,
    execution: &cli::ExecutionArgs,
    options: RunOptions,
) -> anyhow::Result<Outcome> {
    let RunOptions { resume, consent, model, format } = options;
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
        return Ok(wrong_use(
            "there is no prompt; `pilcrow run --help-planner` lists requests that need no model",
        ));
    }
    if let Some(instructions) = parse_compact(&prompt) {
        let Some(id) = resume else {
            return Ok(wrong_use(
                "a new session has nothing to compact; name one: pilcrow sessions compact ID",
            ));
        };
        return compact(id, instructions, project, execution, consent.json, model).await;
    }
    let cancel = stop::on_signal()?;
    let access = Access { yes: consent.yes, keep: false, trusted: false };
    let mut executor = Executor::find(project, execution, access).await?;
    let cli::ModelArgs { model, agent } = model;
    let request = PromptRequest { prompt, model, directory: std::path::absolute(".")?, resume, agent };
    let progress = Arc::new(Progress { format, ..Progress::default() });
    let listener = if consent.json { listener(true) } else { Arc::clone(&progress) as _ };
    let reply = executor.run(request, listener, &cancel).await;
    executor.close(&cancel).await;
    let RunReport { outcome, reason, unsaved } = match reply? {
        Reply::Done(report) => report,
        Reply::InvalidRequest(text) => return Ok(wrong_use(&text)),
    };
    if !consent.json {
        let reason = reason.filter(|_| !progress.explained.load(Ordering::Relaxed));
        let lines = reason.into_iter().chain(describe_unsaved(&unsaved));
        lines.for_each(|line| output::note(&format!("pilcrow: {line}")));
    }
    Ok(outcome)
}

/// Compacts the session `id`.
pub async fn compact(
    id: String,
    instructions: &str,
    project: &cli::Project,
    execution: &cli::ExecutionArgs,
    as_json: bool,
    model: cli::ModelArgs,
) -> anyhow::Result<Outcome> {
    let cancel = stop::on_signal()?;
    let mut executor = Executor::find(project, execution, Access::default()).await?;
    let cli::ModelArgs { model, agent } = model;
    let request = CompactRequest {
        session: Some(id),
        instructions: instructions.to_owned(),
        model,
        directory: Some(std::path::absolute(".")?),
        agent,
    };
    let reply = executor.compact(request, listener(as_json), &cancel).await;
    executor.close(&cancel).await;
    let CompactReport { compacted, error, notes } = match reply? {
        Reply::Done(report) => report,
        Reply::InvalidRequest(text) => return Ok(wrong_use(&text)),
    };
    let failed = error.is_some();
    let nothing = (!failed && !compacted).then(|| "nothing to compact: the session is short".to_owned());
    if !as_json {
        notes.iter().for_each(|note| output::note(&format!("· {note}")));
        error.into_iter().chain(nothing).for_each(|line| output::note(&format!("pilcrow: {line}")));
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

fn listener(as_json: bool) -> Arc<dyn Listener> {
    if as_json { Arc::new(Lines) } else { Arc::new(Progress::default()) }
}

/// Sink that prints one event per line, as JSON.
struct Lines;

impl Listener for Lines {
    fn event(&self, envelope: &Envelope) {
        output::json(envelope);
    }

    fn raw_event(&self, envelope: &RawValue) {
        output::line(envelope.get());
    }
}

/// Prints the response on standard output as it arrives.
///
/// The other events go to standard error.
#[derive(Default)]
struct Progress {
    format: Format,
    streamed: AtomicBool,
    /// The last result, which is the answer of the built-in planner.
    result: Mutex<Option<(String, Value)>>,
    /// Whether the planner answers; its answer repeats the failure of a call.
    is_planner: AtomicBool,
    /// Whether the planner's answer explains a failure.
    explained: AtomicBool,
}

impl Listener for Progress {
    fn event(&self, envelope: &Envelope) {
        self.print(&envelope.event);
    }

    fn raw_event(&self, envelope: &RawValue) {
        // Events of a newer version are skipped.
        if let Ok(envelope) = serde_json::from_str::<Envelope>(envelope.get()) {
            self.print(&envelope.event);
        }
    }
}

impl Progress {
    fn print(&self, event: &Event) {
        if let Event::MessageEnd { message: Message::Assistant(message), .. } = event {
            let is_planner = message.api == "planner";
            self.is_planner.store(is_planner, Ordering::Relaxed);
            if is_planner && message.tool_calls().next().is_none() {
                return self.print_answer(message);
            }
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
            Event::ToolExecutionEnd { tool_name, is_error: true, content, .. } => {
                let first = content.iter().find_map(text_of).and_then(|text| text.lines().next());
                let first = first.unwrap_or_default();
                output::note(&format!("· {tool_name} failed: {first}"));
            }
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
        if message.stop_reason == StopReason::Error {
            self.explained.store(true, Ordering::Relaxed);
            return output::note(&format!("pilcrow: {text}"));
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
