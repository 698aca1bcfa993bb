//! `pilcrow run`: one prompt, worked out and applied, with what happens told as it happens.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::{Envelope, Event, EventSink, Limits, MessageRole, Session, TerminationReason};
use futures_util::future::BoxFuture;
use llm::{Content, Message, StreamEvent};
use serde_json::Value;
use workspace::Homes;

use super::Exit;
use crate::project::{Access, Project};
use crate::{cli, models, output, stop};

/// Works out `prompt`; `-` or nothing reads it from standard input.
pub async fn run(
    prompt: Option<String>,
    project: &cli::Project,
    consent: &cli::Consent,
    model: Option<&str>,
) -> anyhow::Result<Exit> {
    let prompt = match prompt.filter(|prompt| prompt != "-") {
        Some(prompt) => prompt,
        None => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text)?;
            text
        }
    };
    if prompt.trim().is_empty() {
        output::note("pilcrow: there is no prompt; `pilcrow run --help-planner` shows what needs no model");
        return Ok(Exit::Usage);
    }
    let project = Project::open(project, Access { yes: consent.yes, keep: false, trusted: false })?;
    let person_file = Homes::from_env()?.config.join("config.toml").to_string();
    let model = match models::choose(model, &project.config, &person_file) {
        Ok(model) => model,
        Err(error) => {
            output::note(&format!("pilcrow: {error:#}"));
            return Ok(Exit::Usage);
        }
    };
    let cancel = stop::on_signal()?;
    let sink: Arc<dyn EventSink> = if consent.json { Arc::new(Lines) } else { Arc::new(Told::default()) };
    let session = Session::builder(model, project.registry.clone())
        .system(include_str!("../instructions.md").trim())
        .cwd(project.workspace.root().to_string())
        .store(project.sessions()?)
        .sink(sink)
        .policy(Arc::clone(&project.policy))
        .approver(Arc::clone(&project.approver))
        .limits(Limits {
            turns: u32::try_from(project.config.turn_limit()).unwrap_or(u32::MAX),
            ..Limits::default()
        })
        .cancel(cancel.clone())
        .build();
    let outcome = session.prompt(prompt).await;
    session.close(Duration::from_millis(200)).await;
    project.close(cancel.is_cancelled()).await;
    let exit = match outcome.reason {
        _ if outcome.denied_for_lack_of_asker => Exit::Denied,
        TerminationReason::NoToolCalls | TerminationReason::TerminatedByTools => Exit::Done,
        _ => Exit::Failed,
    };
    if exit != Exit::Done && !consent.json {
        let why = outcome.error.unwrap_or_else(|| reason(outcome.reason).to_owned());
        output::note(&format!("pilcrow: {why}"));
    }
    Ok(exit)
}

fn reason(reason: TerminationReason) -> &'static str {
    match reason {
        TerminationReason::Aborted => "stopped",
        TerminationReason::Disconnected => "the surface went away",
        TerminationReason::TimeoutTotal | TerminationReason::TimeoutIdle => "it took too long",
        TerminationReason::TurnLimit => "the limit of turns was reached",
        _ => "the run failed",
    }
}

/// One event a line.
struct Lines;

impl EventSink for Lines {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move { output::json(envelope) })
    }
}

/// The answer on standard output as it is written, what is done meanwhile on standard error.
#[derive(Default)]
struct Told {
    streamed: AtomicBool,
}

impl EventSink for Told {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.tell(&envelope.event) })
    }
}

impl Told {
    fn tell(&self, event: &Event) {
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
            Event::ToolExecutionStart { tool_name, input, .. } => {
                output::note(&format!("· {tool_name} {}", brief(input)));
            }
            Event::ToolExecutionEnd { tool_name, is_error: true, content, .. } => {
                let first = content.iter().find_map(text_of).and_then(|text| text.lines().next());
                output::note(&format!("· {tool_name} failed: {}", first.unwrap_or_default()));
            }
            Event::Notice { text, .. } => output::note(&format!("· {text}")),
            Event::RetryStart { attempt, max, error, .. } => {
                output::note(&format!("· trying again ({attempt} of {max}): {error}"));
            }
            _ => {}
        }
    }
}

fn text_of(content: &Content) -> Option<&str> {
    match content {
        Content::Text { text, .. } => Some(text),
        _ => None,
    }
}

/// A call's arguments in one short line.
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
