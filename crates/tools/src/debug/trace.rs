//! `trace`: every change of an expression while a function runs on, line by line.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use agent::{ToolCx, ToolResult};
use dap_client::{Clock, Frame, Session, State};
use serde_json::{Value, json};

use super::snapshot::{cut, label};
use super::{Arguments, Debug, needs};
use crate::{Failure, counted};

/// Steps at most.
const STEPS: usize = 5_000;
/// Changes told unless asked for more.
const CHANGES: u64 = 50;
/// Frames counted at most.
const DEEP: u64 = 2_000;
/// Kept of the time for telling what was found.
const LAST: Duration = Duration::from_secs(1);

/// Where it is to end.
enum Until {
    Line(String, u64),
    True(String),
}

impl Debug {
    pub(super) async fn trace(
        &self,
        session: &Arc<Session>,
        args: &Arguments,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<ToolResult, Failure> {
        let expression = args.expression.as_deref().ok_or_else(|| needs("trace", "expression"))?;
        self.may_evaluate(expression, &session.adapter, cx).await?;
        let until = args.until.as_deref().map(until);
        if let Some(Until::True(condition)) = &until {
            self.may_evaluate(condition, &session.adapter, cx).await?;
        }
        let most = usize::try_from(args.count.unwrap_or(CHANGES).max(1)).unwrap_or(usize::MAX);
        let mut at = top(session, args.thread, clock).await?;
        let begin = at.clone();
        let (below, _) = session.stack(args.thread, 0, DEEP, clock).await?;
        let depth = below.len();
        // Where a step can come to another call of the same function, it is told by its depth.
        let recursive = below.iter().skip(1).any(|it| (&it.name, &it.path) == (&begin.name, &begin.path));
        let mut value = session.evaluate(expression, Some(at.id), "watch", clock).await?.value;
        let mut text = format!("{}: {expression} = {}\n", label(&self.kit, &at), cut(&value, 200));
        let mut changes: Vec<Value> = Vec::new();
        let mut steps = 0;
        let ended = loop {
            if changes.len() >= most {
                break format!("{} seen; go on with `trace`", counted(changes.len(), "change"));
            }
            if steps >= STEPS || clock.until.saturating_duration_since(tokio::time::Instant::now()) < LAST {
                break format!("stopped after {}; go on with `trace`", counted(steps, "step"));
            }
            session.run("next", args.thread, clock).await?;
            steps += 1;
            let mut deep = recursive;
            match session.settled(clock).await? {
                State::Stopped(stop) if ["step", "breakpoint"].contains(&stop.reason.as_str()) => {
                    deep |= stop.reason == "breakpoint";
                }
                State::Stopped(stop) => break format!("the program stopped: {}", stop.reason),
                State::Terminated(end) => break super::snapshot::ended(&end, &session.adapter),
                other => break format!("the program is {}; `pause` it", other.name()),
            }
            let from = at;
            at = top(session, args.thread, clock).await?;
            if (&at.name, &at.path) != (&begin.name, &begin.path) {
                break format!("{} returned", begin.name);
            }
            if deep {
                match session.stack(args.thread, 0, DEEP, clock).await?.0.len().cmp(&depth) {
                    Ordering::Less => break format!("this call of {} returned", begin.name),
                    Ordering::Greater => {
                        break format!("the program stopped in another call of {}", begin.name);
                    }
                    Ordering::Equal => {}
                }
            }
            let now = match session.evaluate(expression, Some(at.id), "watch", clock).await {
                Ok(now) => now.value,
                Err(error) => break format!("{expression} cannot be evaluated any more: {error}"),
            };
            if now != value {
                text.push_str(&format!(
                    "{}: {} -> {}\n",
                    label(&self.kit, &from),
                    cut(&value, 200),
                    cut(&now, 200)
                ));
                changes.push(json!({ "file": from.path.as_ref().map(|path| self.kit.shown(path)),
                    "line": from.line, "from": value, "to": now }));
                value = now;
            }
            match &until {
                Some(Until::Line(file, line)) if at.line == *line && self.is_file(&at, file) => {
                    break format!("{file}:{line} is reached");
                }
                Some(Until::True(condition)) => {
                    let is = session.evaluate(condition, Some(at.id), "watch", clock).await?.value;
                    if ["true", "True", "1"].contains(&is.trim()) {
                        break format!("{condition} is true");
                    }
                }
                _ => {}
            }
        };
        text.push_str(&format!("{ended} ({})\n", counted(steps, "step")));
        let shown = self.snapshot(session, cx, clock).await?;
        let mut details = shown.details.clone();
        super::look::merge(&mut details, json!({ "changes": changes, "steps": steps, "ended": ended }));
        Ok(super::more::before(&text, shown).with_details(details))
    }

    fn is_file(&self, frame: &Frame, file: &str) -> bool {
        let path = self.kit.workspace.resolve(file).ok();
        path.is_some() && frame.path == path
    }
}

async fn top(session: &Session, thread: Option<i64>, clock: &Clock) -> Result<Frame, Failure> {
    let (frames, _) = session.stack(thread, 0, 1, clock).await?;
    frames.into_iter().next().ok_or_else(|| needs("trace", "frame"))
}

fn until(text: &str) -> Until {
    match text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some((file, line)) => Until::Line(file.to_owned(), line),
        None => Until::True(text.to_owned()),
    }
}
