//! Inspection of a stopped program: threads, stack, variables, output.

use agent::ToolResult;
use dap_client::{Clock, DapError, Need, Page, Piece, Scope, Session, Since, State, Variable};
use policy::ErrorCode;
use serde_json::{Value, json};

use super::actions::{
    EvaluateArguments, FrameChoice, PageArguments, SetVariableArguments, VariablesArguments,
};
use super::side_effects::is_side_effect_free;
use super::snapshot::{cut, frame_data, label, variable, variable_data};
use super::{Answer, Cx, Debug, needs};
use crate::Failure;

/// Default number of frames or variables in a page.
const PAGE: u64 = 50;
/// Maximum number of variables of a scope in which a name is searched.
const MAX_SEARCHED: u64 = 1_000;
/// Largest number sent to an adapter.
///
/// Adapters use 32 bits, and the tool adds one to it.
const MAX_NUMBER: u64 = i32::MAX as u64 - 1;
/// Maximum number of threads in a result.
const THREADS: usize = 100;
/// Default and maximum size of output in a result, in bytes.
const OUTPUT: u64 = 16 * 1024;
const MAX_OUTPUT: u64 = 48 * 1024;
/// Maximum length of a value that `evaluate` shows, in characters.
const MAX_VALUE: usize = 10_000;

impl Debug {
    pub(super) async fn threads(&self, session: &Session, clock: &Clock) -> Answer {
        let threads = session.threads(clock).await?;
        let one = |it: &dap_client::Thread| format!("thread {}: {}\n", it.id, cut(&it.name, 200));
        let mut text: String = threads.iter().take(THREADS).map(one).collect();
        if threads.len() > THREADS {
            let more = crate::counted(threads.len() - THREADS, "thread");
            text.push_str(&format!("{more} more; the answer to `request` with `threads` names them\n"));
        }
        let list: Vec<Value> = threads.iter().map(|it| json!({ "thread": it.id, "name": it.name })).collect();
        Ok(ToolResult::text(text).with_details(json!({ "threads": list })))
    }

    pub(super) async fn stack(&self, session: &Session, args: &PageArguments, clock: &Clock) -> Answer {
        let (start, count) = page(args);
        // One more than requested shows whether there are more.
        let (mut frames, total) = session.stack(args.frame.thread, start, count + 1, clock).await?;
        let more = frames.len() as u64 > count;
        frames.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        let mut text: String =
            frames.iter().map(|it| format!("frame {}: {}\n", it.id, label(&self.context, it))).collect();
        let shown = start + frames.len() as u64;
        match total.filter(|total| *total > shown) {
            Some(total) => text.push_str(&format!("{total} in all; continue with `start: {shown}`\n")),
            None if more => text.push_str(&format!("more follow; continue with `start: {shown}`\n")),
            None => {}
        }
        let list: Vec<Value> = frames.iter().map(|it| frame_data(&self.context, it)).collect();
        Ok(ToolResult::text(text).with_details(json!({ "frames": list, "total": total, "more": more })))
    }

    pub(super) async fn scopes(&self, session: &Session, args: &FrameChoice, clock: &Clock) -> Answer {
        let frame = self.frame(session, "scopes", args, clock).await?;
        let scopes = session.scopes(frame, clock).await?;
        let mut text = String::new();
        for it in &scopes {
            let count = it.count.map(|count| format!(", {count} variables")).unwrap_or_default();
            let costly = if it.expensive { ", expensive" } else { "" };
            text.push_str(&format!("{} [variables_reference {}]{count}{costly}\n", it.name, it.variables));
        }
        let data = |it: &dap_client::Scope| json!({ "name": it.name, "variables_reference": it.variables });
        let list: Vec<Value> = scopes.iter().map(data).collect();
        Ok(ToolResult::text(text).with_details(json!({ "scopes": list })))
    }

    pub(super) async fn variables(
        &self,
        session: &Session,
        args: &VariablesArguments,
        clock: &Clock,
    ) -> Answer {
        let reference = args.variables_reference;
        let (start, count) = page(&args.page);
        // One more than requested shows whether there are more.
        let page = Page { start, count: count + 1, filter: args.filter.clone() };
        let mut found = session.variables(reference, &page, clock).await?;
        let more = found.len() as u64 > count;
        found.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        let mut text: String = found.iter().map(|it| format!("{}\n", variable(it))).collect();
        if more {
            text.push_str(&format!("more follow; continue with `start: {}`\n", start + count));
        }
        if found.is_empty() {
            text = "no variables\n".to_owned();
        }
        let list: Vec<Value> = found.iter().map(variable_data).collect();
        Ok(ToolResult::text(text).with_details(json!({ "variables": list, "more": more })))
    }

    pub(super) async fn evaluate(&self, session: &Session, args: &EvaluateArguments, cx: Cx<'_>) -> Answer {
        let expression = args.expression.as_str();
        let context = args.context.as_deref().unwrap_or("watch");
        if context == "repl" || !is_side_effect_free(expression, &session.adapter) {
            session.in_control("evaluate")?;
            cx.permit_debug(&format!("evaluate `{expression}`")).await?;
        }
        let frame = self.frame(session, "evaluate", &args.frame, cx.clock).await?;
        let value = session.evaluate(expression, Some(frame), context, cx.clock).await?;
        Ok(render_value(&value))
    }

    pub(super) async fn set_variable(
        &self,
        session: &Session,
        args: &SetVariableArguments,
        cx: Cx<'_>,
    ) -> Answer {
        let (name, value) = (args.name.as_str(), args.value.as_str());
        cx.permit_debug(&format!("set {name} to {value}")).await?;
        let (reference, before) = match args.variables_reference {
            Some(reference) => (reference, find_variable(session, reference, name, cx.clock).await?),
            None => {
                let frame = self.frame(session, "set_variable", &args.frame, cx.clock).await?;
                let scopes = session.scopes(frame, cx.clock).await?;
                let (reference, before) = find_in_scopes(session, &scopes, name, cx.clock).await?;
                (reference, Some(before))
            }
        };
        let set = session.set_variable(reference, name, value, cx.clock).await?;
        // debugpy 1.8 also responds with the previous value if it could not set it.
        let unchanged = before.filter(|it| it.value == set.value && value.trim() != it.value);
        let Some(before) = unchanged else { return Ok(render_value(&set)) };
        match find_variable(session, reference, name, cx.clock).await? {
            Some(now) if now.value != before.value => Ok(render_value(&now)),
            _ => self.report_unchanged(session, args, &before, value, cx.clock).await,
        }
    }

    /// Reports that setting a variable to `value` had no effect.
    ///
    /// # Errors
    /// The adapter's message if `value` cannot be evaluated.
    async fn report_unchanged(
        &self,
        session: &Session,
        args: &SetVariableArguments,
        before: &Variable,
        value: &str,
        clock: &Clock,
    ) -> Answer {
        let note = format!("{} was not changed: it is still {}", before.name, cut(&before.value, MAX_VALUE));
        if is_side_effect_free(value, &session.adapter) {
            let frame = self.frame(session, "set_variable", &args.frame, clock).await.ok();
            match session.evaluate(value, frame, "watch", clock).await {
                Ok(it) if it.value == before.value => return Ok(render_value(before)),
                Err(DapError::Refused { reason, .. }) => {
                    let message = format!("{note}; {} reports for `{value}`: {reason}", session.adapter.name);
                    return Err(Failure::new(ErrorCode::NotApplied, message));
                }
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ToolResult::text(format!("{note}\n")).with_details(variable_data(before)))
    }

    /// Returns the latest output, or that from `start` on.
    pub(super) fn output(&self, session: &Session, args: &PageArguments) -> ToolResult {
        let limit = args.count.unwrap_or(OUTPUT).clamp(1, MAX_OUTPUT);
        let all = session.output(args.start.unwrap_or(0));
        let Window { pieces, from, next } = window(&all, args.start.is_some(), limit);
        let mut text = String::new();
        if all.dropped > 0 {
            text.push_str(&format!("{} earlier bytes are no longer stored\n", all.dropped));
        }
        let begin = all.at.first().copied().unwrap_or(from);
        if from > begin {
            text.push_str(&format!("{} bytes are left out; `start: {begin}` shows them\n", from - begin));
        }
        let mut list = Vec::new();
        for piece in &pieces {
            text.push_str(&format!("{}:\n{}\n", piece.category.name(), piece.text.trim_end_matches('\n')));
            list.push(json!({ "category": piece.category.name(), "text": piece.text }));
        }
        if pieces.is_empty() {
            text.push_str("no output\n");
        }
        if next < all.next {
            text.push_str(&format!("{} bytes more; continue with `start: {next}`\n", all.next - next));
        }
        let details = json!({ "output": list, "dropped": all.dropped, "start": from, "next": next });
        ToolResult::text(text).with_details(details)
    }

    /// Finds the frame of a call.
    ///
    /// It is the frame that the call names, else that of the last snapshot, else the top one.
    pub(super) async fn frame(
        &self,
        session: &Session,
        action: &str,
        choice: &FrameChoice,
        clock: &Clock,
    ) -> Result<i64, Failure> {
        if let Some(frame) = choice.frame {
            return Ok(frame);
        }
        session.check(action, Need::Stopped)?;
        let none = || needs(action, "frame");
        let State::Stopped(stop) = session.state() else { return Err(none()) };
        if choice.thread.is_some_and(|it| Some(it) != stop.thread) {
            let (frames, _) = session.stack(choice.thread, 0, 1, clock).await?;
            return frames.first().map(|frame| frame.id).ok_or_else(none);
        }
        // The frame whose locals the snapshot shows.
        let shown = self.last_frame(session);
        if let Some((epoch, frame)) = shown
            && epoch == session.epoch()
        {
            return Ok(frame);
        }
        let (frames, _) = session.stack(stop.thread, 0, super::snapshot::FRAMES, clock).await?;
        let frame = super::snapshot::shown_frame(&self.context, session, &stop, &frames);
        frame.map(|frame| frame.id).ok_or_else(none)
    }
}

/// Finds the variable `name` in a variables reference.
///
/// Returns `None` if not all variables were searched.
///
/// # Errors
/// If there is none: some adapters (debugpy) would create it.
async fn find_variable(
    session: &Session,
    reference: i64,
    name: &str,
    clock: &Clock,
) -> Result<Option<Variable>, Failure> {
    let page = Page { count: MAX_SEARCHED, ..Page::default() };
    let all = session.variables(reference, &page, clock).await?;
    let is_all = (all.len() as u64) < MAX_SEARCHED;
    let found = all.into_iter().find(|it| it.name == name);
    if found.is_none() && is_all {
        let message = format!("there is no variable `{name}` in {reference}; `variables` lists those it has");
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    Ok(found)
}

/// Finds the only scope of a frame that has the variable `name`, and the variable.
async fn find_in_scopes(
    session: &Session,
    scopes: &[Scope],
    name: &str,
    clock: &Clock,
) -> Result<(i64, Variable), Failure> {
    let mut matches = Vec::new();
    // Expensive scopes (globals, registers) are read only if the call names them.
    for scope in scopes.iter().filter(|it| !it.expensive && it.variables > 0) {
        let page = Page { count: MAX_SEARCHED, ..Page::default() };
        let variables = session.variables(scope.variables, &page, clock).await?;
        matches.extend(variables.into_iter().find(|it| it.name == name).map(|it| (scope, it)));
    }
    // In a Python module the globals are the locals; elsewhere the inner scope wins.
    let skipped = |scope: &Scope| session.adapter.quirks.skip_scopes.contains(&scope.name);
    if matches.iter().any(|(scope, _)| !skipped(scope)) {
        matches.retain(|(scope, _)| !skipped(scope));
    }
    let names = |scopes: &mut dyn Iterator<Item = &Scope>| {
        scopes.map(|it| format!("{} ({})", it.name, it.variables)).collect::<Vec<_>>().join(", ")
    };
    if matches.len() > 1 {
        let several = names(&mut matches.iter().map(|(scope, _)| *scope));
        let message = format!("{name} is in several scopes; give `variables_reference`: {several}");
        return Err(Failure::new(ErrorCode::Ambiguous, message));
    }
    matches.pop().map(|(scope, it)| (scope.variables, it)).ok_or_else(|| {
        let all = names(&mut scopes.iter());
        let message = format!(
            "there is no variable `{name}` here; give the `variables_reference` of its container: {all}"
        );
        Failure::new(ErrorCode::NotFound, message)
    })
}

pub(super) fn render_value(value: &Variable) -> ToolResult {
    let shown = Variable { value: cut(&value.value, MAX_VALUE), ..value.clone() };
    let kind = shown.kind.as_ref().map(|kind| format!(" : {kind}")).unwrap_or_default();
    let inside = match shown.variables {
        0 => String::new(),
        number => format!("  [variables_reference {number}]"),
    };
    // The memory reference of a pointer is its value.
    let memory = shown.memory.iter().filter(|it| !shown.value.contains(it.as_str()));
    let memory: String = memory.map(|it| format!("  [memory_reference {it}]")).collect();
    let text = format!("{} = {}{kind}{inside}{memory}\n", shown.name, shown.value);
    ToolResult::text(text).with_details(variable_data(value))
}

/// A part of some output, by its start and end offsets.
struct Window {
    pieces: Vec<Piece>,
    from: u64,
    next: u64,
}

/// Selects the first or last `limit` bytes of output, in whole lines if possible.
fn window(all: &Since, first: bool, limit: u64) -> Window {
    let begin = all.at.first().copied().unwrap_or(all.next);
    let mut window = Window { pieces: Vec::new(), from: begin, next: all.next };
    let mut left = usize::try_from(limit).unwrap_or(usize::MAX);
    let each = all.at.iter().zip(&all.pieces);
    if first {
        for (at, Piece { category, text }) in each {
            if text.len() <= left {
                left -= text.len();
                window.pieces.push(Piece { category: *category, text: text.clone() });
                continue;
            }
            let end = text.floor_char_boundary(left);
            let end = text[..end].rfind('\n').map_or(end, |line| line + 1);
            // At least one character, so that reading on makes progress.
            let end = if end == 0 && window.pieces.is_empty() { text.ceil_char_boundary(1) } else { end };
            if end > 0 {
                window.pieces.push(Piece { category: *category, text: text[..end].to_owned() });
            }
            window.next = at + end as u64;
            return window;
        }
        return window;
    }
    for (at, Piece { category, text }) in each.rev() {
        if text.len() <= left {
            left -= text.len();
            window.from = *at;
            window.pieces.push(Piece { category: *category, text: text.clone() });
            continue;
        }
        let start = text.ceil_char_boundary(text.len() - left);
        let start = text[start..].find('\n').map_or(start, |line| start + line + 1);
        if start < text.len() {
            window.from = at + start as u64;
            window.pieces.push(Piece { category: *category, text: text[start..].to_owned() });
        }
        break;
    }
    window.pieces.reverse();
    window
}

/// Returns start and length of the requested page.
fn page(args: &PageArguments) -> (u64, u64) {
    (args.start.unwrap_or(0).min(MAX_NUMBER), args.count.unwrap_or(PAGE).clamp(1, MAX_NUMBER))
}

/// Adds the members of `more` to `details`.
pub(super) fn merge(details: &mut Value, more: Value) {
    if let (Value::Object(details), Value::Object(more)) = (details, more) {
        details.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_paged_from_either_end() {
        let mut output = dap_client::Output::default();
        (0..5_000).for_each(|it| output.push(dap_client::Category::Stdout, &format!("line {it}\n")));
        output.push(dap_client::Category::Stderr, "an error\n");
        let all = output.since(0);
        let text = |it: &Window| it.pieces.iter().map(|it| it.text.as_str()).collect::<String>();
        let last = window(&all, false, 1_000);
        assert!(text(&last).len() <= 1_000 && text(&last).ends_with("line 4999\nan error\n"));
        assert!(text(&last).starts_with("line "), "a whole line: {}", text(&last));
        assert_eq!(last.from + text(&last).len() as u64, all.next);
        let (mut read, mut at) = (String::new(), 0);
        while at < all.next {
            let part = window(&output.since(at), true, 1_000);
            assert_eq!((part.from, text(&part).len() <= 1_000), (at, true));
            read.push_str(&text(&part));
            at = part.next;
        }
        let whole: String = all.pieces.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(read, whole);
        assert!(window(&output.since(at), true, 10).pieces.is_empty());
    }

    #[test]
    fn numbers_above_32_bits_are_clamped() {
        let asked = |start, count| page(&PageArguments { start, count, ..PageArguments::default() });
        assert_eq!(asked(None, None), (0, PAGE));
        assert_eq!(asked(Some(3), Some(0)), (3, 1));
        let (start, count) = asked(Some(u64::MAX), Some(u64::MAX));
        assert!(count < i32::MAX as u64 && start.checked_add(count).is_some());
    }
}
