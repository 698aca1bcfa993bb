//! The action `probe`: a table of the values of expressions over one run.
//!
//! It uses log points, which do not stop the program. If the adapter has none, or an expression cannot be part of
//! one, it stops the program at each pass, evaluates, and continues.
//!
//! Invariants: the program behaves as without the probe, unless the user permitted an expression with side effects.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use adapters::DebuggerDefinition;
use agent::ToolResult;
use dap_client::{Breakpoints, Category, Clock, DapError, LaunchPlan, Session, SourceBreakpoint, State};
use paths::AbsPath;
use policy::ErrorCode;
use process::deadlines;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::actions::ProbeArguments;
use super::snapshot::cut;
use super::{Answer, Cx, Debug, needs};
use crate::{Failure, counted};

/// Maximum number of rows in the text and in the details of a result.
///
/// Half of them are the first, half the last.
const SHOWN: usize = 100;
const MAX_ROWS: usize = 2_000;
/// Maximum size of the program's own output in a result, in bytes.
const OUTPUT: usize = 2_000;
/// Maximum length of a row; a longer one is dropped.
const ROW: usize = 64 * 1024;
/// Time reserved for continuing a stopped program.
const RESERVE: Duration = Duration::from_secs(1);
/// Maximum number of lines of adapter output in a result without passes.
const ADAPTER_LINES: usize = 5;

/// A line with the expressions to evaluate.
struct Point {
    path: AbsPath,
    line: u64,
    expressions: Vec<String>,
}

/// The values at one pass of a point.
struct Row {
    /// Number of the pass of any point, from 1.
    pass: usize,
    point: usize,
    values: Vec<String>,
}

/// Delimiters of the values in a log message.
///
/// Unique for each run, so that no value contains them, and without meaning for languages and adapters.
struct Marks {
    begin: String,
    between: String,
    end: String,
}

impl Marks {
    fn new() -> Self {
        let nonce = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) as u32;
        Self::with_nonce(&format!("{nonce:08x}"))
    }

    fn with_nonce(nonce: &str) -> Self {
        Self { begin: format!("@@{nonce}p"), between: format!("@@{nonce}v"), end: format!("@@{nonce}e") }
    }
}

#[derive(Default)]
struct Table {
    /// The first rows, and the last after these.
    rows: Vec<Row>,
    last_rows: VecDeque<Row>,
    passes: Vec<usize>,
    /// The end of the program's output.
    output: String,
    /// Number of bytes of output before `output`.
    output_before: usize,
    /// The last lines of the adapter's output.
    adapter_lines: VecDeque<String>,
    dropped: u64,
    /// Number of rows that were too long or incomplete.
    unread: usize,
    /// The last error of each expression, by point.
    errors: HashMap<(usize, String), String>,
}

impl Debug {
    pub(super) async fn probe(&self, args: &ProbeArguments, cx: Cx<'_>) -> Answer {
        if args.points.is_empty() {
            return Err(needs("probe", "points"));
        }
        let launch = &args.test.launch;
        let is_test = launch.config.is_none()
            && launch.program.is_none()
            && launch.module.is_none()
            && (launch.name.is_some() || launch.file.is_some());
        Self::refuse_stop_arguments("probe", launch, is_test)?;
        let mut notes = String::new();
        let (mut plan, overrides) = match &launch.config {
            Some(name) => self.one_config(name, launch, cx, &mut notes).await?,
            None => {
                let overrides = super::launch::json_text(launch.arguments.as_deref())?;
                let plan = if is_test {
                    let (title, run) = self.runner(&args.test, cx).await?;
                    notes.extend(run.note.iter().map(|note| format!("{note}\n")));
                    LaunchPlan { title, ..self.plan(self.test_spec(&args.test, cx, &run).await?).await? }
                } else {
                    self.plan(self.spec(launch, false)?).await?
                };
                (plan, overrides)
            }
        };
        super::launch::permit_breakpoints(&self.context, &plan.breakpoints, &plan.adapter, cx).await?;
        let points = self.points(args, &plan.adapter, cx).await?;
        // The program runs to its end without stops at exceptions.
        plan.breakpoints.exceptions = Some(Vec::new());
        let braces = points.iter().flat_map(|it| &it.expressions).any(|it| it.contains(['{', '}', '%']));
        let (mut logged, marks) = (None, Marks::new());
        if !braces && !plan.adapter.quirks.logpoints_write_to_program {
            let plan = with_points(&plan, &points, Some(&marks));
            match self.begin_permitted(&plan, overrides.clone(), cx).await {
                Ok(session) => logged = Some(session),
                Err(failure) if failure.code == ErrorCode::Unsupported => {}
                Err(failure) => return Err(failure),
            }
        }
        let (session, table, how) = match logged {
            Some(session) => {
                let table = self.measure(&session, &points, Some(&marks), cx.clock).await?;
                (session, table, "log points, without stopping the program")
            }
            None => {
                let session = self.begin_permitted(&with_points(&plan, &points, None), overrides, cx).await?;
                let table = self.measure(&session, &points, None, cx.clock).await?;
                (session, table, "stops at each pass")
            }
        };
        let root = self.context.debug.root_of(&session);
        self.context.debug.show(&session, &cx.starter);
        let state = root.state();
        let ended = match self.context.debug.end_of(&self.context.debug.focus(&root)) {
            Some(end) => super::snapshot::ended(&end, &session.adapter),
            None => format!("{} as {}; `terminate` it", state.name(), root.id),
        };
        Ok(super::advanced::prepend(&notes, self.render_table(&points, &table, &ended, how, &root)))
    }

    /// Resolves the points, merged by line.
    ///
    /// Expressions with side effects need permission first.
    async fn points(
        &self,
        args: &ProbeArguments,
        adapter: &DebuggerDefinition,
        cx: Cx<'_>,
    ) -> Result<Vec<Point>, Failure> {
        let mut points: Vec<Point> = Vec::new();
        for it in &args.points {
            for expression in &it.expressions {
                self.permit_evaluate(expression, adapter, cx).await?;
            }
            let path = self.context.workspace.resolve(&it.file)?;
            if !path.as_path().is_file() {
                return Err(Failure::new(ErrorCode::NotFound, format!("there is no file {}", it.file)));
            }
            super::launch::check_line(&self.context, &path, it.line)?;
            match points.iter_mut().find(|point| point.path == path && point.line == it.line) {
                Some(point) => point.expressions.extend(it.expressions.iter().cloned()),
                None => {
                    points.push(Point { path, line: it.line, expressions: it.expressions.clone() });
                }
            }
        }
        Ok(points)
    }

    /// Runs the program to its end, or until the time is up.
    ///
    /// With `marks` it reads rows from the output of all sessions; else it evaluates the expressions at each stop.
    async fn measure(
        &self,
        session: &Arc<Session>,
        points: &[Point],
        marks: Option<&Marks>,
        clock: &Clock,
    ) -> Result<Table, Failure> {
        let debug = &self.context.debug;
        let root = debug.root_of(session);
        let mut changes = debug.change_signal().subscribe();
        let reserve = if marks.is_some() { Duration::ZERO } else { RESERVE };
        let until = clock.until.checked_sub(reserve).unwrap_or(clock.until);
        let mut table = Table { passes: vec![0; points.len()], ..Table::default() };
        let mut read: HashMap<String, u64> = HashMap::new();
        let mut buffer: BTreeMap<(String, &'static str), String> = BTreeMap::new();
        let mut in_time = true;
        loop {
            changes.borrow_and_update();
            let tree = debug.tree(&root);
            let has_ended = tree.iter().all(|it| matches!(it.state(), State::Terminated(_)));
            if has_ended {
                for it in &tree {
                    it.wait_for_stop(clock).await?;
                }
            }
            for it in tree.iter().filter(|it| !it.shares_output()) {
                let output = it.output(read.get(&it.id).copied().unwrap_or(0));
                read.insert(it.id.clone(), output.next);
                table.dropped += output.dropped;
                for piece in output.pieces {
                    let Some(marks) = marks else {
                        table.write(&piece.text, piece.category);
                        continue;
                    };
                    let buffer = buffer.entry((it.id.clone(), piece.category.name())).or_default();
                    buffer.push_str(&piece.text);
                    table.read(buffer, piece.category, marks);
                }
            }
            // Continue past any stop: the program runs to its end.
            for it in &tree {
                let State::Stopped(stop) = it.state() else { continue };
                if marks.is_none() && in_time {
                    self.evaluate_at_stop(it, stop.thread, points, &mut table, clock).await?;
                }
                it.run("continue", stop.thread, clock).await?;
            }
            if has_ended || !in_time {
                break;
            }
            in_time = tokio::select! {
                biased;
                () = clock.cancel.cancelled() => return Err(DapError::Cancelled.into()),
                // Cancel safe: the loop reads the states again.
                changed = tokio::time::timeout_at(until, changes.changed()) => changed.is_ok(),
            } && Instant::now() < until;
            // Report the rows so far.
            if !in_time {
                self.remove_points(session, points).await;
            }
        }
        for ((_, category), rest) in buffer {
            let is_row = marks.is_some_and(|marks| rest.contains(&marks.begin));
            table.unread += usize::from(is_row);
            if !is_row {
                table.write(&rest, Category::parse(Some(category)).unwrap_or(Category::Console));
            }
        }
        Ok(table)
    }

    /// Removes the points of a program that continues, and skips the output they wrote.
    async fn remove_points(&self, session: &Arc<Session>, points: &[Point]) {
        let debug = &self.context.debug;
        let change = |all: &mut Breakpoints| {
            for point in points {
                all.remove(&point.path, Some(point.line));
            }
        };
        let clock = Clock::new(deadlines::OWN_BREAKPOINTS, &CancellationToken::new());
        if let Err(error) = debug.change_breakpoints(session, change, &clock).await {
            tracing::warn!(session = session.id, %error, "failed to remove log points");
        }
        for it in debug.tree(&debug.root_of(session)) {
            self.skip_output(&it);
        }
    }

    /// Adds the row of a stop if it is at a point.
    async fn evaluate_at_stop(
        &self,
        at: &Session,
        thread: Option<i64>,
        points: &[Point],
        table: &mut Table,
        clock: &Clock,
    ) -> Result<(), Failure> {
        let (frames, _) = at.stack(thread, 0, 1, clock).await?;
        let Some(frame) = frames.first() else { return Ok(()) };
        let set = at.breakpoints();
        let is_here = |it: &&Point| {
            let placed = set.list().find(|(set, _)| set.path == it.path && set.line == it.line);
            let line = placed.and_then(|(_, placed)| placed.line).unwrap_or(it.line);
            Some(&it.path) == frame.path.as_ref() && [line, it.line].contains(&frame.line)
        };
        if let Some((number, point)) = points.iter().enumerate().find(|(_, it)| is_here(it)) {
            let mut values = Vec::new();
            for expression in &point.expressions {
                let value = at.evaluate(expression, Some(frame.id), "watch", clock).await;
                let error = |error| table.error_once(number, expression, &error);
                values.push(value.map_or_else(error, |it| it.value));
            }
            table.add(number, values);
        }
        Ok(())
    }

    /// Explains why a point was never passed.
    fn explain_passes(&self, root: &Arc<Session>, point: &Point, table: &Table, passes: usize) -> String {
        let tree = self.context.debug.tree(root);
        let all = tree.iter().map(|it| it.breakpoints());
        let mut placed = all.flat_map(|all| {
            let placed = all.list().filter(|(it, _)| it.path == point.path && it.line == point.line);
            placed.map(|(_, placed)| placed.clone()).collect::<Vec<_>>()
        });
        let known: Vec<_> = placed.by_ref().collect();
        let moved = known.iter().filter(|it| it.was_verified).find_map(|it| it.line);
        let moved = moved.filter(|line| *line != point.line);
        let at = moved.map(|line| format!(" (set at line {line})")).unwrap_or_default();
        match known.iter().any(|it| it.was_verified) {
            _ if passes > 0 => at,
            // An adapter may write no message at all if one of its expressions fails.
            true if !table.adapter_lines.is_empty() && point.expressions.len() > 1 => format!(
                "{at}: the line was not reached, or one of the expressions failed; probe each one alone"
            ),
            true => format!("{at}: the line was not reached, or the expressions cannot be evaluated"),
            false => {
                let why = known.iter().find_map(|it| it.sentence());
                let why = why.map(|it| format!(": {it}")).unwrap_or_default();
                format!(": it was never set{why}")
            }
        }
    }

    fn render_table(
        &self,
        points: &[Point],
        table: &Table,
        ended: &str,
        how: &str,
        root: &Arc<Session>,
    ) -> ToolResult {
        let name = |point: &Point| format!("{}:{}", self.context.display_path(&point.path), point.line);
        let mut text = format!("{}: {ended}\n", root.title);
        for (number, point) in points.iter().enumerate() {
            let passes = table.passes.get(number).copied().unwrap_or(0);
            let passes_text = counted(passes, "pass").replace("passs", "passes");
            let why = self.explain_passes(root, point, table, passes);
            text.push_str(&format!("{}: {passes_text}{why}\n", name(point)));
        }
        if table.passes.contains(&0) && !table.adapter_lines.is_empty() {
            text.push_str(&format!("output of {}:\n", root.adapter.name));
            table.adapter_lines.iter().for_each(|line| text.push_str(&format!("  {}\n", cut(line, 300))));
        }
        if root.adapter.quirks.drops_output_at_exit && matches!(root.state(), State::Terminated(_)) {
            text.push_str(&format!(
                "{} may drop output at the program's end: the last passes may be missing\n",
                root.adapter.name
            ));
        }
        if table.unread > 0 {
            text.push_str(&format!("{} could not be read\n", counted(table.unread, "row")));
        }
        text.push_str("\n| pass | at | values |\n|---|---|---|\n");
        let passes: usize = table.passes.iter().sum();
        for row in table.all_rows().filter(|row| is_at_an_end(row.pass, passes, SHOWN)) {
            let Some(point) = points.get(row.point) else { continue };
            if passes > SHOWN && row.pass == passes - SHOWN / 2 + 1 {
                let left_out = counted(passes - SHOWN, "row");
                text.push_str(&format!("| … | | {left_out} left out |\n"));
            }
            let values: Vec<String> = point
                .expressions
                .iter()
                .zip(&row.values)
                .map(|(expression, value)| table_cell(&format!("{expression} = {}", cut(value, 120))))
                .collect();
            let at = table_cell(&name(point));
            text.push_str(&format!("| {} | {at} | {} |\n", row.pass, values.join(", ")));
        }
        if table.dropped > 0 {
            text.push_str(&format!(
                "{} bytes of output with rows were dropped: too much output\n",
                table.dropped
            ));
        }
        let output = table.output.trim_end();
        if !output.is_empty() {
            let from = output.ceil_char_boundary(output.len().saturating_sub(OUTPUT));
            let cut = if from + table.output_before > 0 {
                format!(" (last {OUTPUT} bytes)")
            } else {
                String::new()
            };
            text.push_str(&format!("\noutput{cut}:\n{}\n", &output[from..]));
        }
        text.push_str(&format!("\nmeasured by {how}\n"));
        let rows: Vec<Value> = table
            .all_rows()
            .filter_map(|row| {
                let point = points.get(row.point)?;
                let values: serde_json::Map<String, Value> =
                    point.expressions.iter().cloned().zip(row.values.iter().map(|it| json!(it))).collect();
                Some(json!({ "pass": row.pass, "file": self.context.display_path(&point.path), "line": point.line, "values": values }))
            })
            .collect();
        let details = json!({ "session": root.id, "state": root.state().name(), "rows": rows,
            "passes": passes, "ended": ended });
        ToolResult::text(text).with_details(details)
    }
}

impl Table {
    fn add(&mut self, point: usize, values: Vec<String>) {
        if let Some(passes) = self.passes.get_mut(point) {
            *passes += 1;
            let pass = self.passes.iter().sum();
            let row = Row { pass, point, values };
            if self.rows.len() < MAX_ROWS / 2 {
                return self.rows.push(row);
            }
            if self.last_rows.len() == MAX_ROWS / 2 {
                self.last_rows.pop_front();
            }
            self.last_rows.push_back(row);
        }
    }

    fn all_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().chain(&self.last_rows)
    }

    /// The error as a value; a reference to it if it repeats the last one.
    fn error_once(&mut self, point: usize, expression: &str, error: &DapError) -> String {
        let error = error.to_string();
        let place = (point, expression.to_owned());
        match self.errors.insert(place, error.clone()) {
            Some(last) if last == error => "(the same error)".to_owned(),
            _ => format!("({error})"),
        }
    }

    /// Moves rows and whole lines from the buffer of one stream to the table.
    fn read(&mut self, buffer: &mut String, category: Category, marks: &Marks) {
        while let Some(at) = buffer.find(&marks.begin) {
            let Some(end) = buffer[at..].find(&marks.end).map(|end| at + end) else {
                if buffer.len() - at > ROW {
                    self.unread += 1;
                    buffer.clear();
                }
                return;
            };
            // A truncated row has no end mark.
            let last = buffer[..end].rfind(&marks.begin).unwrap_or(at);
            self.unread += usize::from(last > at);
            let mut parts = buffer[last + marks.begin.len()..end].split(&marks.between);
            if let Some(point) = parts.next().and_then(|it| it.parse().ok()) {
                self.add(point, parts.map(str::to_owned).collect());
            }
            // Delve prefixes a message with the goroutine: `> [Go 1]: `.
            let before = &buffer[..at];
            let line = before.rfind('\n').map_or(0, |at| at + 1);
            let own = before[line..].starts_with("> [") && before.ends_with("]: ");
            let before = before[..if own { line } else { at }].to_owned();
            self.write(&before, category);
            let after = end + marks.end.len();
            // Some adapters end a message with a line break.
            let after = after + usize::from(buffer[after..].starts_with('\n'));
            buffer.drain(..after);
        }
        // The buffer may end inside a mark; whole lines cannot.
        if let Some(at) = buffer.rfind('\n') {
            let lines: String = buffer.drain(..=at).collect();
            self.write(&lines, category);
        } else if buffer.len() > ROW {
            let lines = std::mem::take(buffer);
            self.write(&lines, category);
        }
    }

    /// Stores the end of the output.
    fn write(&mut self, text: &str, category: Category) {
        if category == Category::Console {
            for line in text.lines().filter(|it| !it.trim().is_empty()) {
                self.adapter_lines.push_back(line.to_owned());
                if self.adapter_lines.len() > ADAPTER_LINES {
                    self.adapter_lines.pop_front();
                }
            }
            return;
        }
        self.output.push_str(text);
        if self.output.len() > 8 * OUTPUT {
            let from = self.output.ceil_char_boundary(self.output.len() - 2 * OUTPUT);
            self.output_before += from;
            self.output.drain(..from);
        }
    }
}

/// Whether a pass is among the first or the last of all, `shown` together.
fn is_at_an_end(pass: usize, passes: usize, shown: usize) -> bool {
    pass <= shown / 2 || pass + shown / 2 > passes
}

/// Escapes a text for a table cell.
fn table_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', "\\n")
}

fn with_points(plan: &LaunchPlan, points: &[Point], marks: Option<&Marks>) -> LaunchPlan {
    let mut breakpoints: Breakpoints = plan.breakpoints.clone();
    for (number, point) in points.iter().enumerate() {
        let value = |it: &String| format!("{{{}}}", plan.adapter.quirks.log_expression(it));
        let values: Vec<String> = point.expressions.iter().map(value).collect();
        let message = marks.map(|Marks { begin, between, end }| {
            format!("{begin}{number}{between}{}{end}", values.join(between))
        });
        breakpoints.add(SourceBreakpoint {
            path: point.path.clone(),
            line: point.line,
            column: None,
            condition: None,
            hit: None,
            log: message,
        });
    }
    LaunchPlan { breakpoints, ..plan.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and own output of a stream that comes in pieces.
    fn read(pieces: &[&str]) -> (Vec<(usize, String)>, String) {
        let marks = Marks::with_nonce("7");
        let (mut table, mut buffer) = (Table { passes: vec![0; 2], ..Table::default() }, String::new());
        for piece in pieces {
            buffer.push_str(piece);
            table.read(&mut buffer, Category::Stdout, &marks);
        }
        assert_eq!(table.passes.iter().sum::<usize>(), table.all_rows().count());
        let rows = table.all_rows().map(|row| (row.point, row.values.join(",")));
        (rows.collect(), table.output)
    }

    #[test]
    fn rows_are_separated_from_program_output() {
        let row = |point: usize, values: &str| (point, values.to_owned());
        assert_eq!(read(&["> [Go 1]: @@7p1@@7v3@@7va b@@7e\n"]), (vec![row(1, "3,a b")], String::new()));
        let two = read(&["@@7p0@@7v0@@7e@@7p0@@7v1@@7e"]);
        assert_eq!(two, (vec![row(0, "0"), row(0, "1")], String::new()));
        // Values that look like marks, or have lines; rows in pieces; output before and after.
        let odd = read(&["hello\nx@@7p0@@7v@@p1@@ a\nb", "@@7", "e\nbye\n@@7", "p1@@7v@@7e\n"]);
        assert_eq!(odd, (vec![row(0, "@@p1@@ a\nb"), row(1, "")], "hello\nxbye\n".to_owned()));
        assert_eq!(read(&["total 3\n@@7px@@7v1@@7e\n"]), (Vec::new(), "total 3\n".to_owned()));
    }

    #[test]
    fn a_repeated_error_is_shown_once() {
        let mut table = Table::default();
        let error = |text: &str| DapError::Invalid(text.to_owned());
        let mut shown = |expression: &str, text: &str| table.error_once(0, expression, &error(text));
        assert_eq!(shown("a", "no a"), "(no a)");
        assert_eq!(shown("a", "no a"), "(the same error)");
        assert_eq!(shown("b", "no a"), "(no a)");
        assert_eq!(shown("a", "bad a"), "(bad a)");
    }

    #[test]
    fn rows_are_bounded_and_passes_are_counted() {
        let marks = Marks::with_nonce("7");
        let mut table = Table { passes: vec![0; 1], ..Table::default() };
        let mut buffer = String::new();
        for number in 0..3_000 {
            buffer.push_str(&format!("a line of the program\n@@7p0@@7v{number}@@7e\n"));
            table.read(&mut buffer, Category::Stdout, &marks);
        }
        assert_eq!((table.passes[0], table.all_rows().count()), (3_000, MAX_ROWS));
        let passes: Vec<usize> = table.all_rows().map(|row| row.pass).collect();
        assert_eq!((passes[0], passes[999], passes[1_000], passes[1_999]), (1, 1_000, 2_001, 3_000));
        assert!(table.output.len() <= 8 * OUTPUT && table.output_before > 0);
        buffer.push_str("@@7p0@@7v");
        buffer.push_str(&"x".repeat(2 * ROW));
        table.read(&mut buffer, Category::Stdout, &marks);
        assert_eq!((buffer.len(), table.unread), (0, 1));
    }
}
