//! The action `trace`: steps through a function and reports changed expressions.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use agent::ToolResult;
use dap_client::{DapError, Frame, Need, Session, State, Stop};
use policy::ErrorCode;
use serde_json::{Value, json};

use super::actions::TraceArguments;
use super::snapshot::{cut, label};
use super::{Answer, Cx, Debug, needs};
use crate::{Failure, counted};

const STEPS: usize = 5_000;
/// Default number of changes in a report.
const CHANGES: u64 = 50;
/// Maximum number of frames that a trace counts.
const MAX_FRAMES: u64 = 2_000;
/// Time reserved for the report.
const RESERVE: Duration = Duration::from_secs(1);

/// Message for a stop without a frame, as adapters send at a program's end.
const NO_FRAME: &str = "the program stopped without a frame";

/// Condition that ends a trace.
enum Until {
    Line(String, u64),
    True(String),
}

impl Debug {
    pub(super) async fn trace(&self, session: &Arc<Session>, args: &TraceArguments, cx: Cx<'_>) -> Answer {
        let expression = args.expression.as_str();
        self.permit_evaluate(expression, &session.adapter, cx).await?;
        let until = args.until.as_deref().map(until);
        if let Some(Until::True(condition)) = &until {
            self.permit_evaluate(condition, &session.adapter, cx).await?;
        }
        let max_changes = usize::try_from(args.count.unwrap_or(CHANGES).max(1)).unwrap_or(usize::MAX);
        let State::Stopped(stop) = session.state() else {
            session.check("trace", Need::Stopped)?;
            return Err(needs("trace", "thread"));
        };
        let thread = args.thread.or(stop.thread);
        let (below, _) = session.stack(thread, 0, MAX_FRAMES, cx.clock).await?;
        let Some(mut at) = below.first().cloned() else {
            return Err(Failure::new(ErrorCode::WrongState, NO_FRAME.to_owned()));
        };
        let begin = at.clone();
        let depth = below.len();
        // In a recursive function the depth identifies the call.
        let recursive = below.iter().skip(1).any(|it| (&it.name, &it.path) == (&begin.name, &begin.path));
        let mut value = session.evaluate(expression, Some(at.id), "watch", cx.clock).await?.value;
        let mut text = format!("{}: {expression} = {}\n", label(&self.context, &at), cut(&value, 200));
        let mut changes: Vec<Value> = Vec::new();
        let mut steps = 0;
        let ended = loop {
            if changes.len() >= max_changes {
                break format!("{}; continue with `trace`", counted(changes.len(), "change"));
            }
            if steps >= STEPS
                || cx.clock.until.saturating_duration_since(tokio::time::Instant::now()) < RESERVE
            {
                break format!("stopped after {}; continue with `trace`", counted(steps, "step"));
            }
            if let Err(error) = session.run("next", thread, cx.clock).await {
                break error.to_string();
            }
            steps += 1;
            let mut deep = recursive;
            match session.wait_for_stop(cx.clock).await {
                Ok(State::Stopped(Stop { thread: Some(other), reason, .. }))
                    if thread.is_some_and(|it| it != other) =>
                {
                    break format!("thread {other} stopped: {reason}");
                }
                Ok(State::Stopped(stop)) if ["step", "breakpoint"].contains(&stop.reason.as_str()) => {
                    deep |= stop.reason == "breakpoint";
                }
                Ok(State::Stopped(stop)) => break format!("the program stopped: {}", stop.reason),
                Ok(State::Terminated(end)) => break super::snapshot::ended(&end, &session.adapter),
                Ok(other) => break format!("the program is {}; `pause` it", other.name()),
                Err(error) => break error.to_string(),
            }
            let levels = if deep { MAX_FRAMES } else { 1 };
            let (frames, _) = match session.stack(thread, 0, levels, cx.clock).await {
                Ok(stack) => stack,
                Err(error) => break error.to_string(),
            };
            let Some(now_at) = frames.first().cloned() else { break NO_FRAME.to_owned() };
            let from = std::mem::replace(&mut at, now_at);
            if (&at.name, &at.path) != (&begin.name, &begin.path) {
                let below = match session.stack(thread, 0, MAX_FRAMES, cx.clock).await {
                    Ok((below, _)) => below,
                    Err(error) => break error.to_string(),
                };
                let call = below.len().checked_sub(depth).and_then(|above| below.get(above));
                let called = call.is_some_and(|it| (&it.name, &it.path) == (&begin.name, &begin.path));
                break match called {
                    true => format!("the program stopped in {}, which {} called", at.name, begin.name),
                    false => format!("{} returned", begin.name),
                };
            }
            if deep {
                match frames.len().cmp(&depth) {
                    Ordering::Less => break format!("this call of {} returned", begin.name),
                    Ordering::Greater => {
                        break format!("the program stopped in another call of {}", begin.name);
                    }
                    Ordering::Equal => {}
                }
            }
            let now = match session.evaluate(expression, Some(at.id), "watch", cx.clock).await {
                Ok(now) => now.value,
                // The name left its scope and may enter it again.
                Err(DapError::Refused { .. }) => "(out of scope)".to_owned(),
                Err(error) => break format!("{expression} can no longer be evaluated: {error}"),
            };
            if now != value {
                text.push_str(&format!(
                    "{}: {} -> {}\n",
                    label(&self.context, &from),
                    cut(&value, 200),
                    cut(&now, 200)
                ));
                changes.push(json!({ "file": from.path.as_ref().map(|path| self.context.display_path(path)),
                    "line": from.line, "from": value, "to": now }));
                value = now;
            }
            match &until {
                Some(Until::Line(file, line)) if at.line == *line && self.is_file(&at, file) => {
                    break format!("{file}:{line} is reached");
                }
                Some(Until::True(condition)) => {
                    match session.evaluate(condition, Some(at.id), "watch", cx.clock).await {
                        Ok(result) if ["true", "True", "1"].contains(&result.value.trim()) => {
                            break format!("{condition} is true");
                        }
                        Ok(_) => {}
                        Err(error) => break format!("{condition} cannot be evaluated: {error}"),
                    }
                }
                _ => {}
            }
        };
        text.push_str(&format!("{ended} ({})\n", counted(steps, "step")));
        let shown = match self.snapshot(session, cx).await {
            Ok(shown) => shown,
            // Keep the changes found so far.
            Err(failure) => ToolResult::text(format!("{}\n", failure.message)).with_details(json!({})),
        };
        let mut details = shown.details.clone();
        super::inspect::merge(&mut details, json!({ "changes": changes, "steps": steps, "ended": ended }));
        Ok(super::advanced::prepend(&text, shown).with_details(details))
    }

    fn is_file(&self, frame: &Frame, file: &str) -> bool {
        let path = self.context.workspace.resolve(file).ok();
        path.is_some() && frame.path == path
    }
}

fn until(text: &str) -> Until {
    match text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some((file, line)) => Until::Line(file.to_owned(), line),
        None => Until::True(text.to_owned()),
    }
}
