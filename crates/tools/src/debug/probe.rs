//! `probe`: what expressions come to at some lines over one run, as a table.
//!
//! Log points, which do not stop the program; where an adapter has none, or an expression cannot stand in
//! one, it is stopped, asked and let go on at each pass. What must stay true: the program does what it does
//! without it, unless the person agreed to an expression that does more than look.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use adapters::DebuggerDefinition;
use agent::{ToolCx, ToolResult};
use dap_client::{Breakpoints, Category, Clock, DapError, LaunchPlan, Session, SourceBreakpoint, State};
use paths::AbsPath;
use policy::ErrorCode;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::actions::ProbeArguments;
use super::snapshot::cut;
use super::{Debug, needs};
use crate::{Failure, counted};

/// Rows shown, and kept for data.
const SHOWN: usize = 100;
const KEPT: usize = 2_000;
/// Characters of the program's own output that are shown.
const OUTPUT: usize = 2_000;
/// Characters of a row that is still to be ended; a longer one is given up.
const ROW: usize = 64 * 1024;
/// How long the log points may take to be removed.
const TIDY: Duration = Duration::from_secs(5);
/// Kept of the time for letting a program that is held run on.
const LAST: Duration = Duration::from_secs(1);
/// Lines of the adapter's own that are kept, for where nothing passed.
const CHATTER: usize = 5;

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

/// What stands around and between the values in a log message. Of one run, so that no value holds it, and
/// nothing that a language or an adapter reads.
struct Marks {
    begin: String,
    between: String,
    end: String,
}

impl Marks {
    fn new() -> Self {
        let run = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) as u32;
        Self::of(&format!("{run:08x}"))
    }

    fn of(run: &str) -> Self {
        Self { begin: format!("@@{run}p"), between: format!("@@{run}v"), end: format!("@@{run}e") }
    }
}

#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    passes: Vec<usize>,
    /// The last that the program wrote.
    own: String,
    /// Bytes that it wrote before that.
    own_before: usize,
    /// The last that the adapter said itself.
    chatter: VecDeque<String>,
    dropped: u64,
    /// Rows that were too long, or not ended.
    unread: usize,
}

impl Debug {
    pub(super) async fn probe(
        &self,
        args: &ProbeArguments,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<ToolResult, Failure> {
        if args.points.is_empty() {
            return Err(needs("probe", "points"));
        }
        Self::no_stop_needed("probe", &args.launch)?;
        let mut said = String::new();
        let (mut plan, over) = match &args.launch.config {
            Some(name) => self.one_config(name, &args.launch, cx, &mut said).await?,
            None => {
                let over = super::launch::json_text(args.launch.arguments.as_deref())?;
                (self.plan(self.spec(&args.launch, false)?).await?, over)
            }
        };
        super::launch::agreed(&self.context, &plan.breakpoints, &plan.adapter, cx).await?;
        let points = self.points(args, &plan.adapter, cx).await?;
        // It runs to its end: nothing but the points is of interest.
        plan.breakpoints.exceptions = Some(Vec::new());
        let braces = points.iter().flat_map(|it| &it.expressions).any(|it| it.contains(['{', '}', '%']));
        let (mut logged, marks) = (None, Marks::new());
        if !braces && !plan.adapter.quirks.logpoints_write_to_program {
            let plan = with_points(&plan, &points, Some(&marks));
            match self.begin_agreed(&plan, over.clone(), cx, clock).await {
                Ok(session) => logged = Some(session),
                Err(failure) if failure.code == ErrorCode::Unsupported => {}
                Err(failure) => return Err(failure),
            }
        }
        let (session, table, how) = match logged {
            Some(session) => {
                let table = self.read_log(&session, &points, &marks, clock).await?;
                (session, table, "log points; it was not stopped")
            }
            None => {
                let session = self.begin_agreed(&with_points(&plan, &points, None), over, cx, clock).await?;
                let table = self.ask_at_stops(&session, &points, clock).await?;
                (session, table, "stops: it was held at each pass")
            }
        };
        let root = self.context.debug.root_of(&session);
        self.context.debug.show(&session, &cx.starter);
        let state = root.state();
        let ended = match self.context.debug.end_of(&self.context.debug.focus(&root)) {
            Some(end) => super::snapshot::ended(&end, &session.adapter),
            None => format!("it is {}, as {}; `terminate` it", state.name(), root.id),
        };
        Ok(super::advanced::before(&said, self.told(&points, &table, &ended, how, &root)))
    }

    /// The points, those of one line together, after the person was asked about what does more than look.
    async fn points(
        &self,
        args: &ProbeArguments,
        adapter: &DebuggerDefinition,
        cx: &ToolCx,
    ) -> Result<Vec<Point>, Failure> {
        let mut points: Vec<Point> = Vec::new();
        for it in &args.points {
            for expression in &it.expressions {
                self.may_evaluate(expression, adapter, cx).await?;
            }
            let path = self.context.workspace.resolve(&it.file)?;
            if !path.as_path().is_file() {
                return Err(Failure::new(ErrorCode::NotFound, format!("there is no file {}", it.file)));
            }
            let lines = self.context.workspace.document(&path)?.text.lines().count() as u64;
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
    async fn read_log(
        &self,
        session: &Arc<Session>,
        points: &[Point],
        marks: &Marks,
        clock: &Clock,
    ) -> Result<Table, Failure> {
        let debug = &self.context.debug;
        let root = debug.root_of(session);
        let mut bell = debug.bell().subscribe();
        let mut table = Table { passes: vec![0; points.len()], ..Table::default() };
        let mut read: HashMap<String, u64> = HashMap::new();
        let mut begun: BTreeMap<(String, &'static str), String> = BTreeMap::new();
        let end = |mut table: Table, begun: BTreeMap<(String, &'static str), String>| {
            for ((_, category), rest) in begun {
                table.unread += usize::from(rest.contains(&marks.begin));
                if !rest.contains(&marks.begin) {
                    table.write(&rest, Category::parse(Some(category)).unwrap_or(Category::Console));
                }
            }
            table
        };
        loop {
            bell.borrow_and_update();
            let tree = debug.tree(&root);
            let over = tree.iter().all(|it| matches!(it.state(), State::Terminated(_)));
            if over {
                for it in &tree {
                    it.settled(clock).await?;
                }
            }
            for it in tree.iter().filter(|it| !it.shares_output()) {
                let output = it.output(read.get(&it.id).copied().unwrap_or(0));
                read.insert(it.id.clone(), output.next);
                table.dropped += output.dropped;
                for piece in output.pieces {
                    let begun = begun.entry((it.id.clone(), piece.category.name())).or_default();
                    begun.push_str(&piece.text);
                    table.take(begun, piece.category, marks);
                }
            }
            for it in &tree {
                // What stops it is not of interest here: it is to run to its end.
                if let State::Stopped(stop) = it.state() {
                    it.run("continue", stop.thread, clock).await?;
                }
            }
            if over {
                return Ok(end(table, begun));
            }
            tokio::select! {
                biased;
                () = clock.cancel.cancelled() => return Err(DapError::Cancelled.into()),
                // What came so far is told.
                rung = tokio::time::timeout_at(clock.until, bell.changed()) => if rung.is_err() {
                    self.take_away(session, points).await;
                    return Ok(end(table, begun));
                },
            }
        }
    }

    /// The program runs on past the time: its points go, and what they wrote is not shown as its output.
    async fn take_away(&self, session: &Arc<Session>, points: &[Point]) {
        let debug = &self.context.debug;
        let change = |all: &mut Breakpoints| {
            for point in points {
                all.remove(&point.path, Some(point.line));
            }
        };
        let clock = Clock::new(TIDY, &CancellationToken::new());
        if let Err(error) = debug.change_breakpoints(session, change, &clock).await {
            tracing::warn!(session = session.id, %error, "its log points are still there");
        }
        for it in debug.tree(&debug.root_of(session)) {
            self.pass_over_output(&it);
        }
    }

    /// Stops at each pass, asks, and goes on.
    async fn ask_at_stops(
        &self,
        session: &Arc<Session>,
        points: &[Point],
        clock: &Clock,
    ) -> Result<Table, Failure> {
        let debug = &self.context.debug;
        let mut table = Table { passes: vec![0; points.len()], ..Table::default() };
        let root = debug.root_of(session);
        let mut bell = debug.bell().subscribe();
        let until = clock.until.checked_sub(LAST).unwrap_or(clock.until);
        loop {
            bell.borrow_and_update();
            let tree = debug.tree(&root);
            for it in &tree {
                let State::Stopped(stop) = it.state() else { continue };
                self.ask_at_stop(it, stop.thread, points, &mut table, clock).await?;
                it.run("continue", stop.thread, clock).await?;
            }
            if tree.iter().all(|it| matches!(it.state(), State::Terminated(_))) {
                for it in &tree {
                    it.settled(clock).await?;
                }
                break;
            }
            let rung = tokio::select! {
                biased;
                () = clock.cancel.cancelled() => return Err(DapError::Cancelled.into()),
                // Dropping the wait loses nothing: it looks at the states.
                rung = tokio::time::timeout_at(until, bell.changed()) => rung.is_ok(),
            };
            // What came so far is told.
            if !rung || Instant::now() >= until {
                self.take_away(session, points).await;
                for it in debug.tree(&root) {
                    if let State::Stopped(stop) = it.state() {
                        it.run("continue", stop.thread, clock).await?;
                    }
                }
                break;
            }
        }
        for it in debug.tree(&debug.root_of(session)).iter().filter(|it| !it.shares_output()) {
            let output = it.output(0);
            table.dropped += output.dropped;
            output.pieces.iter().for_each(|piece| table.write(&piece.text, piece.category));
        }
        Ok(table)
    }

    /// The row of a stop, where it is at a point.
    async fn ask_at_stop(
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
                values.push(value.map_or_else(|error| format!("({error})"), |it| it.value));
            }
            table.add(Row { point: number, values });
        }
        Ok(())
    }

    /// What is known of why a point was never passed.
    fn why_none(&self, root: &Arc<Session>, point: &Point, passes: usize) -> String {
        let tree = self.context.debug.tree(root);
        let all = tree.iter().map(|it| it.breakpoints());
        let mut placed = all.flat_map(|all| {
            let of = all.list().filter(|(it, _)| it.path == point.path && it.line == point.line);
            of.map(|(_, placed)| placed.clone()).collect::<Vec<_>>()
        });
        let known: Vec<_> = placed.by_ref().collect();
        let moved = known.iter().filter(|it| it.ever).find_map(|it| it.line);
        let moved = moved.filter(|line| *line != point.line);
        let at = moved.map(|line| format!(" (it stands at line {line})")).unwrap_or_default();
        match known.iter().any(|it| it.ever) {
            _ if passes > 0 => at,
            true => format!("{at}: its line was not reached, or what is asked there cannot be evaluated"),
            false => {
                let why = known.iter().find_map(|it| it.sentence());
                let why = why.map(|it| format!(": {it}")).unwrap_or_default();
                format!(": it was never put in place{why}")
            }
        }
    }

    fn told(
        &self,
        points: &[Point],
        table: &Table,
        ended: &str,
        how: &str,
        root: &Arc<Session>,
    ) -> ToolResult {
        let name = |point: &Point| format!("{}:{}", self.context.shown(&point.path), point.line);
        let mut text = format!("{}: {ended}\n", root.title);
        for (number, point) in points.iter().enumerate() {
            let passes = table.passes.get(number).copied().unwrap_or(0);
            let passes_told = counted(passes, "pass").replace("passs", "passes");
            let why = self.why_none(root, point, passes);
            text.push_str(&format!("{}: {passes_told}{why}\n", name(point)));
        }
        if table.passes.contains(&0) && !table.chatter.is_empty() {
            text.push_str(&format!("{} said:\n", root.adapter.name));
            table.chatter.iter().for_each(|line| text.push_str(&format!("  {}\n", cut(line, 300))));
        }
        if root.adapter.quirks.drops_output_at_exit && matches!(root.state(), State::Terminated(_)) {
            text.push_str(&format!(
                "{} may drop what was logged right before the program's end: the last passes may be missing\n",
                root.adapter.name
            ));
        }
        if table.unread > 0 {
            text.push_str(&format!("{} could not be read\n", counted(table.unread, "row")));
        }
        text.push_str("\n| pass | at | values |\n|---|---|---|\n");
        for (number, row) in table.rows.iter().take(SHOWN).enumerate() {
            let Some(point) = points.get(row.point) else { continue };
            let values: Vec<String> = point
                .expressions
                .iter()
                .zip(&row.values)
                .map(|(expression, value)| in_cell(&format!("{expression} = {}", cut(value, 120))))
                .collect();
            let at = in_cell(&name(point));
            text.push_str(&format!("| {} | {at} | {} |\n", number + 1, values.join(", ")));
        }
        let passes: usize = table.passes.iter().sum();
        if passes > SHOWN {
            text.push_str(&format!("{} more rows are not shown\n", passes - SHOWN));
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
            let cut = if from + table.own_before > 0 {
                format!(" (its last {OUTPUT} bytes)")
            } else {
                String::new()
            };
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
                Some(json!({ "file": self.context.shown(&point.path), "line": point.line, "values": values }))
            })
            .collect();
        let details = json!({ "session": root.id, "state": root.state().name(), "rows": rows,
            "passes": passes, "ended": ended });
        ToolResult::text(text).with_details(details)
    }
}

impl Table {
    fn add(&mut self, row: Row) {
        if let Some(passes) = self.passes.get_mut(row.point) {
            *passes += 1;
            if self.rows.len() < KEPT {
                self.rows.push(row);
            }
        }
    }

    /// Takes what came of one stream so far: rows, and the program's own whole lines; the rest stays.
    fn take(&mut self, begun: &mut String, category: Category, marks: &Marks) {
        while let Some(at) = begun.find(&marks.begin) {
            let Some(end) = begun[at..].find(&marks.end).map(|end| at + end) else {
                if begun.len() - at > ROW {
                    self.unread += 1;
                    begun.clear();
                }
                return;
            };
            // One that was cut has no end of its own.
            let last = begun[..end].rfind(&marks.begin).unwrap_or(at);
            self.unread += usize::from(last > at);
            let mut parts = begun[last + marks.begin.len()..end].split(&marks.between);
            if let Some(point) = parts.next().and_then(|it| it.parse().ok()) {
                self.add(Row { point, values: parts.map(str::to_owned).collect() });
            }
            // Delve writes the goroutine before a message: `> [Go 1]: `.
            let before = &begun[..at];
            let line = before.rfind('\n').map_or(0, |at| at + 1);
            let own = before[line..].starts_with("> [") && before.ends_with("]: ");
            let before = before[..if own { line } else { at }].to_owned();
            self.write(&before, category);
            let after = end + marks.end.len();
            // Some end a message with a new line, some do not.
            let after = after + usize::from(begun[after..].starts_with('\n'));
            begun.drain(..after);
        }
        // A mark may be cut in the middle; only whole lines are surely without one.
        if let Some(at) = begun.rfind('\n') {
            let lines: String = begun.drain(..=at).collect();
            self.write(&lines, category);
        } else if begun.len() > ROW {
            let lines = std::mem::take(begun);
            self.write(&lines, category);
        }
    }

    /// Keeps the last of what was written.
    fn write(&mut self, text: &str, category: Category) {
        if category == Category::Console {
            for line in text.lines().filter(|it| !it.trim().is_empty()) {
                self.chatter.push_back(line.to_owned());
                if self.chatter.len() > CHATTER {
                    self.chatter.pop_front();
                }
            }
            return;
        }
        self.own.push_str(text);
        if self.own.len() > 8 * OUTPUT {
            let from = self.own.ceil_char_boundary(self.own.len() - 2 * OUTPUT);
            self.own_before += from;
            self.own.drain(..from);
        }
    }
}

/// A text as it stands in a cell of a table.
fn in_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', "\\n")
}

fn with_points(plan: &LaunchPlan, points: &[Point], marks: Option<&Marks>) -> LaunchPlan {
    let mut breakpoints: Breakpoints = plan.breakpoints.clone();
    for (number, point) in points.iter().enumerate() {
        let values: Vec<String> = point.expressions.iter().map(|it| format!("{{{it}}}")).collect();
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
        let marks = Marks::of("7");
        let (mut table, mut begun) = (Table { passes: vec![0; 2], ..Table::default() }, String::new());
        for piece in pieces {
            begun.push_str(piece);
            table.take(&mut begun, Category::Stdout, &marks);
        }
        assert_eq!(table.passes.iter().sum::<usize>(), table.rows.len());
        let rows = table.rows.iter().map(|row| (row.point, row.values.join(",")));
        (rows.collect(), table.own)
    }

    #[test]
    fn a_row_is_told_from_what_the_program_writes() {
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
    fn what_is_kept_is_bounded_and_what_passed_is_counted() {
        let marks = Marks::of("7");
        let mut table = Table { passes: vec![0; 1], ..Table::default() };
        let mut begun = String::new();
        for number in 0..3_000 {
            begun.push_str(&format!("a line of the program\n@@7p0@@7v{number}@@7e\n"));
            table.take(&mut begun, Category::Stdout, &marks);
        }
        assert_eq!((table.passes[0], table.rows.len()), (3_000, KEPT));
        assert!(table.own.len() <= 8 * OUTPUT && table.own_before > 0);
        begun.push_str("@@7p0@@7v");
        begun.push_str(&"x".repeat(2 * ROW));
        table.take(&mut begun, Category::Stdout, &marks);
        assert_eq!((begun.len(), table.unread), (0, 1));
    }
}
