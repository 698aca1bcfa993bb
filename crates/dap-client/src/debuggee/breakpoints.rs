//! Breakpoints of one session: the requested ones, and the adapter's placement of each.
//!
//! Pure. The protocol sets all breakpoints of a source at once; this type adds and removes them one
//! by one.

use std::collections::BTreeMap;

use paths::AbsPath;
use serde_json::{Value, json};

use adapters::Hits;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBreakpoint {
    pub path: AbsPath,
    /// Line number, from 1.
    pub line: u64,
    /// Column number, from 1.
    pub column: Option<u64>,
    /// Expression that must be true for a stop.
    pub condition: Option<String>,
    /// Hit count from which it stops, in the adapter's syntax.
    pub hit: Option<String>,
    /// Message to write instead of stopping, with `{expressions}`.
    pub log: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionBreakpoint {
    /// Name of the function in the adapter's language.
    pub name: String,
    /// Expression that must be true for a stop.
    pub condition: Option<String>,
    /// Hit count from which it stops, in the adapter's syntax.
    pub hit: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataBreakpoint {
    /// The adapter's id of the data.
    pub id: String,
    /// The requested name.
    pub name: String,
    pub label: String,
    /// Access that stops: `read`, `write` or `readWrite`.
    pub access: String,
    /// Expression that must be true for a stop.
    pub condition: Option<String>,
    /// Hit count from which it stops, in the adapter's syntax.
    pub hit: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionBreakpoint {
    pub reference: String,
    /// Bytes from the reference.
    pub offset: i64,
    /// Expression that must be true for a stop.
    pub condition: Option<String>,
    /// Hit count from which it stops, in the adapter's syntax.
    pub hit: Option<String>,
}

/// The adapter's placement of one breakpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    pub id: Option<i64>,
    /// Whether it is in place; some adapters verify only when the code is loaded.
    pub verified: bool,
    /// Whether it is or was verified.
    pub was_verified: bool,
    /// The line on which the adapter placed it.
    pub line: Option<u64>,
    /// The reason why it is not in place.
    pub message: Option<String>,
}

impl Placed {
    /// The message if it is a sentence; js-debug reports a message key instead.
    pub fn sentence(&self) -> Option<&str> {
        self.message.as_deref().filter(|it| it.contains(' '))
    }
}

/// All breakpoints of a session.
#[derive(Debug, Clone, Default)]
pub struct Breakpoints {
    sources: BTreeMap<AbsPath, Vec<(SourceBreakpoint, Placed)>>,
    functions: Vec<(FunctionBreakpoint, Placed)>,
    data: Vec<(DataBreakpoint, Placed)>,
    instructions: Vec<(InstructionBreakpoint, Placed)>,
    /// Exception filters; `None` for the adapter's defaults.
    pub exceptions: Option<Vec<String>>,
}

/// Splits a name from the condition after the word `if`.
pub fn conditional(text: &str) -> (&str, Option<&str>) {
    match text.split_once(" if ") {
        Some((name, condition)) => (name.trim(), Some(condition.trim()).filter(|it| !it.is_empty())),
        None => (text.trim(), None),
    }
}

/// An exception filter as text: `NAME` or `NAME mode MODE`.
///
/// Either may end with `if CONDITION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExceptionFilter<'a> {
    /// Name of a filter or of an exception.
    pub name: &'a str,
    pub mode: Option<&'a str>,
    /// Expression that must be true for a stop.
    pub condition: Option<&'a str>,
}

impl<'a> ExceptionFilter<'a> {
    /// Parses the form that [`Self`] describes.
    pub fn read(text: &'a str) -> Self {
        let (rest, condition) = conditional(text);
        let (name, mode) = rest.split_once(" mode ").map_or((rest, None), |(name, mode)| (name, Some(mode)));
        Self { name: name.trim(), mode: mode.map(str::trim), condition }
    }
}

impl FunctionBreakpoint {
    /// The text that [`Breakpoints::add_function`] parses.
    pub fn text(&self) -> String {
        match &self.condition {
            Some(condition) => format!("{} if {condition}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Breakpoints {
    /// Adds a breakpoint; replaces one on the same line and column.
    pub fn add(&mut self, breakpoint: SourceBreakpoint) {
        let all = self.sources.entry(breakpoint.path.clone()).or_default();
        all.retain(|(it, _)| (it.line, it.column) != (breakpoint.line, breakpoint.column));
        all.push((breakpoint, Placed::default()));
        all.sort_by_key(|(it, _)| (it.line, it.column));
    }

    /// Removes the breakpoints of a file, or of one of its lines; returns how many.
    pub fn remove(&mut self, path: &AbsPath, line: Option<u64>) -> usize {
        let Some(all) = self.sources.get_mut(path) else { return 0 };
        let before = all.len();
        all.retain(|(it, placed)| line.is_some_and(|line| it.line != line && placed.line != Some(line)));
        before - all.len()
    }

    /// The breakpoints without placements, for another adapter.
    pub(crate) fn unplaced(mut self) -> Self {
        let sources = self.sources.values_mut().flatten().map(|(_, placed)| placed);
        let functions = self.functions.iter_mut().map(|(_, placed)| placed);
        sources.chain(functions).for_each(|it| *it = Placed::default());
        // Addresses are valid in one process only.
        self.data.clear();
        self.instructions.clear();
        self
    }

    /// Replaces the filter `panic` by a breakpoint on each of `functions`, if any.
    pub fn stop_at_panics(&mut self, functions: &[String]) {
        let Some(filters) = self.exceptions.as_mut().filter(|_| !functions.is_empty()) else { return };
        let before = filters.len();
        filters.retain(|it| it != "panic");
        if filters.len() < before {
            if filters.is_empty() {
                self.exceptions = None;
            }
            functions.iter().for_each(|name| self.add_function(name));
        }
    }

    /// Adds a function breakpoint from `NAME` or `NAME if CONDITION`.
    ///
    /// Replaces one with that name.
    pub fn add_function(&mut self, text: &str) {
        let (name, condition) = conditional(text);
        let condition = condition.map(str::to_owned);
        self.add_function_point(FunctionBreakpoint { name: name.to_owned(), condition, hit: None });
    }

    /// Adds a function breakpoint; replaces one with that name.
    pub fn add_function_point(&mut self, point: FunctionBreakpoint) {
        match self.functions.iter_mut().find(|(it, _)| it.name == point.name) {
            Some((it, placed)) if *it != point => (*it, *placed) = (point, Placed::default()),
            Some(_) => {}
            None => self.functions.push((point, Placed::default())),
        }
    }

    pub fn remove_function(&mut self, name: &str) {
        self.functions.retain(|(it, _)| it.name != name);
    }

    /// Removes data breakpoints with this name or id.
    pub fn remove_data(&mut self, name: &str) {
        self.data.retain(|(it, _)| it.name != name && it.id != name);
    }

    pub fn remove_instruction(&mut self, reference: &str, offset: i64) {
        self.instructions.retain(|(it, _)| (it.reference.as_str(), it.offset) != (reference, offset));
    }

    /// Number of breakpoints, without exception filters.
    pub fn count(&self) -> usize {
        self.list().count() + self.functions.len() + self.data.len() + self.instructions.len()
    }

    pub fn add_data(&mut self, breakpoint: DataBreakpoint) {
        self.data.retain(|(it, _)| it.id != breakpoint.id);
        self.data.push((breakpoint, Placed::default()));
    }

    pub fn add_instruction(&mut self, breakpoint: InstructionBreakpoint) {
        self.remove_instruction(&breakpoint.reference, breakpoint.offset);
        self.instructions.push((breakpoint, Placed::default()));
    }

    /// Removes function, data and instruction breakpoints.
    pub fn remove_others(&mut self) {
        self.functions.clear();
        self.data.clear();
        self.instructions.clear();
    }

    pub fn data(&self) -> &[(DataBreakpoint, Placed)] {
        &self.data
    }

    pub fn instructions(&self) -> &[(InstructionBreakpoint, Placed)] {
        &self.instructions
    }

    /// The arguments of `setDataBreakpoints`.
    pub(crate) fn data_arguments(&self, hits: Option<Hits>) -> Value {
        let one = |it: &DataBreakpoint| {
            json!({"dataId": it.id, "accessType": it.access, "condition": it.condition,
                "hitCondition": hit_condition(it.hit.as_ref(), hits)})
        };
        json!({"breakpoints": self.data.iter().map(|(it, _)| one(it)).collect::<Vec<_>>()})
    }

    /// The arguments of `setInstructionBreakpoints`.
    pub(crate) fn instruction_arguments(&self, hits: Option<Hits>) -> Value {
        let one = |it: &InstructionBreakpoint| {
            json!({"instructionReference": it.reference, "offset": (it.offset != 0).then_some(it.offset),
                "condition": it.condition, "hitCondition": hit_condition(it.hit.as_ref(), hits)})
        };
        json!({"breakpoints": self.instructions.iter().map(|(it, _)| one(it)).collect::<Vec<_>>()})
    }

    /// Applies the answer to `setDataBreakpoints`.
    pub(crate) fn data_answer(&mut self, body: &Value) {
        apply_answers(self.data.iter_mut().map(|(_, placed)| placed), body);
    }

    /// Applies the answer to `setInstructionBreakpoints`.
    pub(crate) fn instruction_answer(&mut self, body: &Value) {
        apply_answers(self.instructions.iter_mut().map(|(_, placed)| placed), body);
    }

    /// The files that have or had breakpoints.
    pub fn paths(&self) -> Vec<AbsPath> {
        self.sources.keys().cloned().collect()
    }

    /// All line breakpoints, by file and line.
    pub fn list(&self) -> impl Iterator<Item = &(SourceBreakpoint, Placed)> {
        self.sources.values().flatten()
    }

    pub fn functions(&self) -> &[(FunctionBreakpoint, Placed)] {
        &self.functions
    }

    /// The arguments of `setBreakpoints` for a file.
    pub(crate) fn source_arguments(&self, path: &AbsPath, hits: Option<Hits>) -> Value {
        let one = |it: &SourceBreakpoint| {
            json!({"line": it.line, "column": it.column, "condition": it.condition,
                "hitCondition": hit_condition(it.hit.as_ref(), hits), "logMessage": it.log})
        };
        let all: Vec<Value> = self.sources.get(path).into_iter().flatten().map(|(it, _)| one(it)).collect();
        let source = json!({"name": path.file_name(), "path": path.to_string()});
        json!({"source": source, "breakpoints": all, "sourceModified": false})
    }

    /// The arguments of `setFunctionBreakpoints`.
    pub(crate) fn function_arguments(&self, hits: Option<Hits>) -> Value {
        let one = |it: &FunctionBreakpoint| json!({"name": it.name, "condition": it.condition, "hitCondition": hit_condition(it.hit.as_ref(), hits)});
        let all: Vec<Value> = self.functions.iter().map(|(it, _)| one(it)).collect();
        json!({"breakpoints": all})
    }

    /// Applies the answer to `setBreakpoints`.
    pub(crate) fn source_answer(&mut self, path: &AbsPath, body: &Value) {
        let all = self.sources.entry(path.clone()).or_default();
        apply_answers(all.iter_mut().map(|(_, placed)| placed), body);
    }

    /// Applies the answer to `setFunctionBreakpoints`.
    pub(crate) fn function_answer(&mut self, body: &Value) {
        apply_answers(self.functions.iter_mut().map(|(_, placed)| placed), body);
    }

    /// Applies a `breakpoint` event.
    pub(crate) fn apply_event(&mut self, body: &Value) {
        let reported = read_placement(&body["breakpoint"]);
        let Some(id) = reported.id else { return };
        let functions = self.functions.iter_mut().map(|(_, placed)| placed);
        let sources = self.sources.values_mut().flatten().map(|(_, placed)| placed);
        let data = self.data.iter_mut().map(|(_, placed)| placed);
        let instructions = self.instructions.iter_mut().map(|(_, placed)| placed);
        let all = sources.chain(functions).chain(data).chain(instructions);
        for placed in all.filter(|placed| placed.id == Some(id)) {
            let line = reported.line.or(placed.line);
            *placed = Placed {
                line,
                was_verified: reported.was_verified || placed.was_verified,
                ..reported.clone()
            };
        }
    }
}

/// A hit count in the adapter's syntax.
fn hit_condition(hit: Option<&String>, hits: Option<Hits>) -> Option<String> {
    hit.and_then(|hit| hits.map_or(Some(hit.clone()), |it| it.sent(hit)))
}

fn apply_answers<'a>(placed: impl Iterator<Item = &'a mut Placed>, body: &Value) {
    let answers = body["breakpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    placed.zip(answers).for_each(|(placed, answer)| {
        let reported = read_placement(answer);
        *placed = Placed { was_verified: reported.was_verified || placed.was_verified, ..reported };
    });
}

fn read_placement(value: &Value) -> Placed {
    Placed {
        id: value["id"].as_i64(),
        verified: value["verified"].as_bool().unwrap_or(false),
        was_verified: value["verified"].as_bool().unwrap_or(false),
        line: value["line"].as_u64(),
        message: value["message"].as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u64) -> SourceBreakpoint {
        let path = AbsPath::new("/p/a.py").unwrap();
        SourceBreakpoint { path, line, column: None, condition: None, hit: None, log: None }
    }

    #[test]
    fn exceptions_are_named_with_a_mode_and_a_condition() {
        let read = |text| {
            let ExceptionFilter { name, mode, condition } = ExceptionFilter::read(text);
            (name, mode, condition)
        };
        assert_eq!(read("raised"), ("raised", None, None));
        assert_eq!(read("a.B mode always if x mode y"), ("a.B", Some("always"), Some("x mode y")));
        assert_eq!(read(" raised if n == 1"), ("raised", None, Some("n == 1")));
    }

    #[test]
    fn a_source_is_sent_whole_and_answers_keep_its_order() {
        let mut all = Breakpoints::default();
        all.add(at(9));
        all.add(SourceBreakpoint { condition: Some("n == 3".into()), ..at(4) });
        all.add(SourceBreakpoint { log: Some("n {n}".into()), ..at(9) });
        let path = at(1).path;
        let sent = crate::client::envelope::without_nulls(all.source_arguments(&path, None));
        let expected = json!([{"line": 4, "condition": "n == 3"}, {"line": 9, "logMessage": "n {n}"}]);
        assert_eq!(sent["breakpoints"], expected);
        let answer = json!({"breakpoints": [
            {"id": 1, "verified": false, "message": "not loaded"}, {"id": 2, "verified": true, "line": 10}]});
        all.source_answer(&path, &answer);
        all.apply_event(&json!({"reason": "changed", "breakpoint": {"id": 1, "verified": true}}));
        let placed: Vec<_> = all.list().map(|(it, placed)| (it.line, placed.verified, placed.line)).collect();
        assert_eq!(placed, [(4, true, None), (9, true, Some(10))]);
        assert_eq!(all.remove(&path, Some(10)), 1, "its own line selects it too");
        assert_eq!((all.remove(&path, None), all.list().count()), (1, 0));
    }
}
