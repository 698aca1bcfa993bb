//! `probe`: what expressions come to at some lines over one run, as a table.
//!
//! Log points, which do not stop the program; where an adapter has none, or an expression cannot stand in
//! one, it is stopped, asked and let go on at each pass. What must stay true: the program does what it does
//! without it, unless the person agreed to an expression that does more than look.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use dap_client::{
    AdapterDefinition, Breakpoints, Category, Clock, DapError, LaunchPlan, Session, SourceBreakpoint, State,
};
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{AbsPath, ErrorCode};

use super::snapshot::cut;
use super::{Arguments, Debug, needs};
use crate::{Failure, counted};

/// Rows shown, and kept for data.
const SHOWN: usize = 100;
const KEPT: usize = 2_000;
/// Characters of the program's own output that are shown.
const OUTPUT: usize = 2_000;
/// Around and between the values in a log message. Nothing that a language or an adapter reads.
const BEGIN: &str = "@@p";
const BETWEEN: &str = "@@";
const END: &str = "@@.";

/// Expressions at a line.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Watched {
    file: String,
    line: u64,
    expressions: Vec<String>,
}

/// A point with what is asked there.
struct Point {
    path: AbsPath,
    line: u64,
    expressions: Vec<String>,
}

/// One pass of a point.
struct Row {
    point: usize,
    values: Vec<String>,
}

#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    passes: usize,
    own: String,
    dropped: u64,
}

impl Debug {
    pub(super) async fn probe(
        &self,
        args: &Arguments,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<ToolResult, Failure> {
        if args.points.is_empty() {
            return Err(needs("probe", "points"));
        }
        let mut plan = self.plan(self.spec(args)?).await?;
        super::launch::agreed(&self.kit, &plan.breakpoints, &plan.adapter, cx).await?;
        let points = self.points(args, &plan.adapter, cx).await?;
        // It runs to its end: nothing but the points is of interest.
        plan.breakpoints.exceptions = Some(Vec::new());
        let over = super::launch::json_text(args.arguments.as_deref())?;
        let braces = points.iter().flat_map(|it| &it.expressions).any(|it| it.contains(['{', '}', '%']));
        let mut logged = None;
        if !braces {
            let plan = with_points(&plan, &points, true);
            match self.begin_agreed(&plan, over.clone(), cx, clock).await {
                Ok(session) => logged = Some(session),
                Err(failure) if failure.code == ErrorCode::Unsupported => {}
                Err(failure) => return Err(failure),
            }
        }
        let (session, table, how) = match logged {
            Some(session) => {
                let table = self.read_log(&session, clock).await?;
                (session, table, "log points; it was not stopped")
            }
            None => {
                let session = self.begin_agreed(&with_points(&plan, &points, false), over, cx, clock).await?;
                let table = self.ask_at_stops(&session, &points, clock).await?;
                (session, table, "stops: it was held at each pass")
            }
        };
        let root = self.kit.debug.root_of(&session);
        let state = root.state();
        let ended = match self.kit.debug.end_of(&self.kit.debug.focus(&root)) {
            Some(end) => super::snapshot::ended(&end, &session.adapter),
            None => format!("it is {}, as {}; `terminate` it", state.name(), root.id),
        };
        Ok(self.told(&points, &table, &ended, how, &root))
    }

    /// The points, those of one line together, after the person was asked about what does more than look.
    async fn points(
        &self,
        args: &Arguments,
        adapter: &AdapterDefinition,
        cx: &ToolCx,
    ) -> Result<Vec<Point>, Failure> {
        let mut points: Vec<Point> = Vec::new();
        for it in &args.points {
            for expression in &it.expressions {
                self.may_evaluate(expression, adapter, cx).await?;
            }
            let path = self.kit.workspace.resolve(&it.file)?;
            let lines = self.kit.workspace.document(&path)?.text.lines().count() as u64;
            if it.line == 0 || it.line > lines {
                let message = format!("{} has {lines} lines; there is no line {}", it.file, it.line);
                return Err(Failure::new(ErrorCode::InvalidArguments, message));
            }
            match points.iter_mut().find(|point| point.path == path && point.line == it.line) {
                Some(point) => point.expressions.extend(it.expressions.iter().cloned()),
                None => {
                    points.push(Point { path, line: it.line, expressions: it.expressions.clone() });
                }
            }
        }
        Ok(points)
    }

    /// Reads rows from the output of all sessions until the program is over or the time is.
    async fn read_log(&self, session: &Arc<Session>, clock: &Clock) -> Result<Table, Failure> {
        let debug = &self.kit.debug;
        let root = debug.root_of(session);
        let mut bell = debug.bell().subscribe();
        let mut table = Table::default();
        let mut read: HashMap<String, u64> = HashMap::new();
        let mut begun: BTreeMap<(String, &'static str), String> = BTreeMap::new();
        loop {
            bell.borrow_and_update();
            let tree = debug.tree(&root);
            let over = tree.iter().all(|it| matches!(it.state(), State::Terminated(_)));
            if over {
                for it in &tree {
                    it.settled(clock).await?;
                }
            }
            for it in &tree {
                let output = it.output(read.get(&it.id).copied().unwrap_or(0));
                read.insert(it.id.clone(), output.next);
                table.dropped += output.dropped;
                for piece in output.pieces {
                    let begun = begun.entry((it.id.clone(), piece.category.name())).or_default();
                    begun.push_str(&piece.text);
                    while let Some((line, rest)) = begun.split_once('\n') {
                        let (line, rest) = (line.to_owned(), rest.to_owned());
                        table.take(&line, piece.category);
                        *begun = rest;
                    }
                }
            }
            for it in &tree {
                // What stops it is not of interest here: it is to run to its end.
                if let State::Stopped(stop) = it.state() {
                    it.run("continue", stop.thread, clock).await?;
                }
            }
            if over {
                begun.into_iter().filter(|(_, rest)| !rest.is_empty()).for_each(|((_, category), rest)| {
                    table.take(&rest, Category::parse(Some(category)).unwrap_or(Category::Console));
                });
                return Ok(table);
            }
            tokio::select! {
                biased;
                () = clock.cancel.cancelled() => return Err(DapError::Cancelled.into()),
                // What came so far is told.
                rung = tokio::time::timeout_at(clock.until, bell.changed()) => if rung.is_err() {
                    return Ok(table);
                },
            }
        }
    }

    /// Stops at each pass, asks, and goes on.
    async fn ask_at_stops(
        &self,
        session: &Arc<Session>,
        points: &[Point],
        clock: &Clock,
    ) -> Result<Table, Failure> {
        let debug = &self.kit.debug;
        let mut table = Table::default();
        let mut at = Arc::clone(session);
        loop {
            at = debug.settled(&at, clock).await?;
            let State::Stopped(stop) = at.state() else { break };
            let (frames, _) = at.stack(stop.thread, 0, 1, clock).await?;
            let Some(frame) = frames.first() else { break };
            let is_here = |it: &&Point| Some(&it.path) == frame.path.as_ref() && it.line == frame.line;
            if let Some((number, point)) = points.iter().enumerate().find(|(_, it)| is_here(it)) {
                let mut values = Vec::new();
                for expression in &point.expressions {
                    let value = at.evaluate(expression, Some(frame.id), "watch", clock).await;
                    values.push(value.map_or_else(|error| format!("({error})"), |it| it.value));
                }
                table.add(Row { point: number, values });
            }
            at.run("continue", stop.thread, clock).await?;
        }
        for it in debug.tree(&debug.root_of(session)) {
            let output = it.output(0);
            table.dropped += output.dropped;
            output.pieces.iter().filter(|it| it.category != Category::Console).for_each(|piece| {
                table.own.push_str(&piece.text);
            });
        }
        Ok(table)
    }

    fn told(&self, points: &[Point], table: &Table, ended: &str, how: &str, root: &Session) -> ToolResult {
        let name = |point: &Point| format!("{}:{}", self.kit.shown(&point.path), point.line);
        let mut text = format!("{}: {ended}\n", root.title);
        for (number, point) in points.iter().enumerate() {
            let passes = table.rows.iter().filter(|row| row.point == number).count();
            let more = if table.passes > table.rows.len() { " or more" } else { "" };
            text.push_str(&format!(
                "{}: {}{more}\n",
                name(point),
                counted(passes, "pass").replace("passs", "passes")
            ));
        }
        text.push_str("\n| pass | at | values |\n|---|---|---|\n");
        for (number, row) in table.rows.iter().take(SHOWN).enumerate() {
            let Some(point) = points.get(row.point) else { continue };
            let values: Vec<String> = point
                .expressions
                .iter()
                .zip(&row.values)
                .map(|(expression, value)| format!("{expression} = {}", cut(value, 120).replace('|', "\\|")))
                .collect();
            text.push_str(&format!("| {} | {} | {} |\n", number + 1, name(point), values.join(", ")));
        }
        if table.passes > SHOWN {
            text.push_str(&format!("{} more rows are not shown\n", table.passes - SHOWN));
        }
        if table.dropped > 0 {
            text.push_str(&format!(
                "{} bytes of output, with rows in them, came too fast to be kept\n",
                table.dropped
            ));
        }
        let own = table.own.trim_end();
        if !own.is_empty() {
            let from = own.ceil_char_boundary(own.len().saturating_sub(OUTPUT));
            let cut = if from > 0 { format!(" (its last {OUTPUT} bytes)") } else { String::new() };
            text.push_str(&format!("\noutput{cut}:\n{}\n", &own[from..]));
        }
        text.push_str(&format!("\nby {how}\n"));
        let rows: Vec<Value> = table
            .rows
            .iter()
            .filter_map(|row| {
                let point = points.get(row.point)?;
                let values: serde_json::Map<String, Value> =
                    point.expressions.iter().cloned().zip(row.values.iter().map(|it| json!(it))).collect();
                Some(json!({ "file": self.kit.shown(&point.path), "line": point.line, "values": values }))
            })
            .collect();
        let details = json!({ "session": root.id, "state": root.state().name(), "rows": rows,
            "passes": table.passes, "ended": ended });
        ToolResult::text(text).with_details(details)
    }
}

impl Table {
    fn add(&mut self, row: Row) {
        self.passes += 1;
        if self.rows.len() < KEPT {
            self.rows.push(row);
        }
    }

    /// A line of output: a row, or the program's own.
    fn take(&mut self, line: &str, category: Category) {
        let rows = rows(line);
        if !rows.is_empty() {
            return rows.into_iter().for_each(|row| self.add(row));
        }
        if category != Category::Console {
            self.own.push_str(line);
            self.own.push('\n');
        }
    }
}

/// The rows in a line: some adapters end a message with no new line.
fn rows(line: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut rest = line;
    while let Some((_, after)) = rest.split_once(BEGIN)
        && let Some((inside, after)) = after.split_once(END)
    {
        let mut parts = inside.split(BETWEEN);
        if let Some(point) = parts.next().and_then(|it| it.parse().ok()) {
            rows.push(Row { point, values: parts.map(str::to_owned).collect() });
        }
        rest = after;
    }
    rows
}

fn with_points(plan: &LaunchPlan, points: &[Point], log: bool) -> LaunchPlan {
    let mut breakpoints: Breakpoints = plan.breakpoints.clone();
    for (number, point) in points.iter().enumerate() {
        let values: Vec<String> = point.expressions.iter().map(|it| format!("{{{it}}}")).collect();
        let message = format!("{BEGIN}{number}{BETWEEN}{}{END}", values.join(BETWEEN));
        breakpoints.add(SourceBreakpoint {
            path: point.path.clone(),
            line: point.line,
            column: None,
            condition: None,
            hit: None,
            log: log.then_some(message),
        });
    }
    LaunchPlan { breakpoints, ..plan.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_told_from_what_the_program_writes() {
        let read = |line: &str| -> Vec<(usize, String)> {
            rows(line).into_iter().map(|row| (row.point, row.values.join(","))).collect()
        };
        assert_eq!(read("> [Go 1]: @@p1@@3@@a b@@."), [(1, "3,a b".into())]);
        assert_eq!(read("@@p0@@0@@.@@p0@@1@@."), [(0, "0".into()), (0, "1".into())]);
        assert_eq!(read("@@p0@@@@."), [(0, String::new())]);
        assert!(read("total 3").is_empty() && read("@@px@@1@@.").is_empty());
    }
}
