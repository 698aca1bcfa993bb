//! The breakpoints of one session: what was asked for, and what the adapter made of it.
//!
//! Pure. The protocol sets all breakpoints of a source at once; here each is added and removed alone.

use std::collections::BTreeMap;

use paths::AbsPath;
use serde_json::{Value, json};

use adapters::Hits;

/// A breakpoint on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBreakpoint {
    pub path: AbsPath,
    /// 1-based.
    pub line: u64,
    /// 1-based.
    pub column: Option<u64>,
    /// Stops only where this is true.
    pub condition: Option<String>,
    /// Stops at the n-th hit, as the adapter reads it.
    pub hit: Option<String>,
    /// Writes this, with `{expressions}`, and does not stop.
    pub log: Option<String>,
}

/// A breakpoint on a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionBreakpoint {
    /// Its name, as the adapter's language writes it.
    pub name: String,
    /// Stops only where this is true.
    pub condition: Option<String>,
    /// Stops at the n-th hit, as the adapter reads it.
    pub hit: Option<String>,
}

/// A breakpoint on data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataBreakpoint {
    /// The adapter's name of the data.
    pub id: String,
    /// What it was asked for as.
    pub name: String,
    pub label: String,
    /// `read`, `write` or `readWrite`.
    pub access: String,
    /// Stops only where this is true.
    pub condition: Option<String>,
    /// Stops at the n-th hit, as the adapter reads it.
    pub hit: Option<String>,
}

/// A breakpoint on an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionBreakpoint {
    pub reference: String,
    /// Bytes from there.
    pub offset: i64,
    /// Stops only where this is true.
    pub condition: Option<String>,
    /// Stops at the n-th hit, as the adapter reads it.
    pub hit: Option<String>,
}

/// What the adapter made of one breakpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    pub id: Option<i64>,
    /// Whether it is in place; some adapters learn that only when the code is loaded.
    pub verified: bool,
    /// Whether it is or was.
    pub ever: bool,
    /// The line it came to stand on.
    pub line: Option<u64>,
    /// Why it is not in place.
    pub message: Option<String>,
}

impl Placed {
    /// Why it is not in place, in words: js-debug tells the name of a sentence instead of it.
    pub fn sentence(&self) -> Option<&str> {
        self.message.as_deref().filter(|it| it.contains(' '))
    }
}

/// All of a session.
#[derive(Debug, Clone, Default)]
pub struct Breakpoints {
    sources: BTreeMap<AbsPath, Vec<(SourceBreakpoint, Placed)>>,
    functions: Vec<(FunctionBreakpoint, Placed)>,
    data: Vec<(DataBreakpoint, Placed)>,
    instructions: Vec<(InstructionBreakpoint, Placed)>,
    /// Exception filters; `None`: those that the adapter has on by default.
    pub exceptions: Option<Vec<String>>,
}

/// A name, and the condition after the word `if`.
pub fn conditional(text: &str) -> (&str, Option<&str>) {
    match text.split_once(" if ") {
        Some((name, condition)) => (name.trim(), Some(condition.trim()).filter(|it| !it.is_empty())),
        None => (text.trim(), None),
    }
}

/// Exceptions to stop at: `NAME`, `NAME mode MODE`, each also with `if CONDITION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExceptionFilter<'a> {
    /// Of a filter, or of an exception.
    pub name: &'a str,
    pub mode: Option<&'a str>,
    /// Stops only where this is true.
    pub condition: Option<&'a str>,
}

impl<'a> ExceptionFilter<'a> {
    /// Takes a text apart.
    pub fn read(text: &'a str) -> Self {
        let (rest, condition) = conditional(text);
        let (name, mode) = rest.split_once(" mode ").map_or((rest, None), |(name, mode)| (name, Some(mode)));
        Self { name: name.trim(), mode: mode.map(str::trim), condition }
    }
}

impl FunctionBreakpoint {
    /// As [`Breakpoints::add_function`] takes it.
    pub fn text(&self) -> String {
        match &self.condition {
            Some(condition) => format!("{} if {condition}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Breakpoints {
    /// Adds one; one on the same line and column is replaced.
    pub fn add(&mut self, breakpoint: SourceBreakpoint) {
        let all = self.sources.entry(breakpoint.path.clone()).or_default();
        all.retain(|(it, _)| (it.line, it.column) != (breakpoint.line, breakpoint.column));
        all.push((breakpoint, Placed::default()));
        all.sort_by_key(|(it, _)| (it.line, it.column));
    }

    /// Removes those of a file, all or those of a line; how many.
    pub fn remove(&mut self, path: &AbsPath, line: Option<u64>) -> usize {
        let Some(all) = self.sources.get_mut(path) else { return 0 };
        let before = all.len();
        all.retain(|(it, placed)| line.is_some_and(|line| it.line != line && placed.line != Some(line)));
        before - all.len()
    }

    /// The same, as no adapter has seen them.
    pub(crate) fn unplaced(mut self) -> Self {
        let sources = self.sources.values_mut().flatten().map(|(_, placed)| placed);
        let functions = self.functions.iter_mut().map(|(_, placed)| placed);
        sources.chain(functions).for_each(|it| *it = Placed::default());
        // Addresses are of one process.
        self.data.clear();
        self.instructions.clear();
        self
    }

    /// The filter `panic` becomes a breakpoint on each of `functions`, where there are some.
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

    /// Adds one on a function: `NAME`, or `NAME if CONDITION`. One of that name is replaced.
    pub fn add_function(&mut self, text: &str) {
        let (name, condition) = conditional(text);
        let condition = condition.map(str::to_owned);
        self.add_function_point(FunctionBreakpoint { name: name.to_owned(), condition, hit: None });
    }

    /// Adds one on a function. One of that name is replaced.
    pub fn add_function_point(&mut self, point: FunctionBreakpoint) {
        match self.functions.iter_mut().find(|(it, _)| it.name == point.name) {
            Some((it, placed)) if *it != point => (*it, *placed) = (point, Placed::default()),
            Some(_) => {}
            None => self.functions.push((point, Placed::default())),
        }
    }

    /// Removes the one on a function of this name.
    pub fn remove_function(&mut self, name: &str) {
        self.functions.retain(|(it, _)| it.name != name);
    }

    /// Removes those on data of this name or id.
    pub fn remove_data(&mut self, name: &str) {
        self.data.retain(|(it, _)| it.name != name && it.id != name);
    }

    /// Removes the one on an instruction.
    pub fn remove_instruction(&mut self, reference: &str, offset: i64) {
        self.instructions.retain(|(it, _)| (it.reference.as_str(), it.offset) != (reference, offset));
    }

    /// How many there are of all kinds, without exception filters.
    pub fn count(&self) -> usize {
        self.list().count() + self.functions.len() + self.data.len() + self.instructions.len()
    }

    /// Adds one on data.
    pub fn add_data(&mut self, breakpoint: DataBreakpoint) {
        self.data.retain(|(it, _)| it.id != breakpoint.id);
        self.data.push((breakpoint, Placed::default()));
    }

    /// Adds one on an instruction.
    pub fn add_instruction(&mut self, breakpoint: InstructionBreakpoint) {
        self.remove_instruction(&breakpoint.reference, breakpoint.offset);
        self.instructions.push((breakpoint, Placed::default()));
    }

    /// Removes those on functions, data and instructions.
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

    /// Arguments of `setDataBreakpoints`, with hit counts as the adapter reads them.
    pub(crate) fn data_arguments(&self, hits: Option<Hits>) -> Value {
        let one = |it: &DataBreakpoint| {
            json!({"dataId": it.id, "accessType": it.access, "condition": it.condition,
                "hitCondition": sent(it.hit.as_ref(), hits)})
        };
        json!({"breakpoints": self.data.iter().map(|(it, _)| one(it)).collect::<Vec<_>>()})
    }

    /// Arguments of `setInstructionBreakpoints`, with hit counts as the adapter reads them.
    pub(crate) fn instruction_arguments(&self, hits: Option<Hits>) -> Value {
        let one = |it: &InstructionBreakpoint| {
            json!({"instructionReference": it.reference, "offset": (it.offset != 0).then_some(it.offset),
                "condition": it.condition, "hitCondition": sent(it.hit.as_ref(), hits)})
        };
        json!({"breakpoints": self.instructions.iter().map(|(it, _)| one(it)).collect::<Vec<_>>()})
    }

    /// Takes the answer to `setDataBreakpoints` in.
    pub(crate) fn data_answer(&mut self, body: &Value) {
        answered(self.data.iter_mut().map(|(_, placed)| placed), body);
    }

    /// Takes the answer to `setInstructionBreakpoints` in.
    pub(crate) fn instruction_answer(&mut self, body: &Value) {
        answered(self.instructions.iter_mut().map(|(_, placed)| placed), body);
    }

    /// The files that have some, or had.
    pub fn paths(&self) -> Vec<AbsPath> {
        self.sources.keys().cloned().collect()
    }

    /// All on lines, by file and line.
    pub fn list(&self) -> impl Iterator<Item = &(SourceBreakpoint, Placed)> {
        self.sources.values().flatten()
    }

    pub fn functions(&self) -> &[(FunctionBreakpoint, Placed)] {
        &self.functions
    }

    /// Arguments of `setBreakpoints` for a file, with hit counts as the adapter reads them.
    pub(crate) fn source_arguments(&self, path: &AbsPath, hits: Option<Hits>) -> Value {
        let one = |it: &SourceBreakpoint| {
            json!({"line": it.line, "column": it.column, "condition": it.condition,
                "hitCondition": sent(it.hit.as_ref(), hits), "logMessage": it.log})
        };
        let all: Vec<Value> = self.sources.get(path).into_iter().flatten().map(|(it, _)| one(it)).collect();
        let source = json!({"name": path.file_name(), "path": path.to_string()});
        json!({"source": source, "breakpoints": all, "sourceModified": false})
    }

    /// Arguments of `setFunctionBreakpoints`, with hit counts as the adapter reads them.
    pub(crate) fn function_arguments(&self, hits: Option<Hits>) -> Value {
        let one = |it: &FunctionBreakpoint| json!({"name": it.name, "condition": it.condition, "hitCondition": sent(it.hit.as_ref(), hits)});
        let all: Vec<Value> = self.functions.iter().map(|(it, _)| one(it)).collect();
        json!({"breakpoints": all})
    }

    /// Takes the answer to `setBreakpoints` in.
    pub(crate) fn source_answer(&mut self, path: &AbsPath, body: &Value) {
        let all = self.sources.entry(path.clone()).or_default();
        answered(all.iter_mut().map(|(_, placed)| placed), body);
    }

    /// Takes the answer to `setFunctionBreakpoints` in.
    pub(crate) fn function_answer(&mut self, body: &Value) {
        answered(self.functions.iter_mut().map(|(_, placed)| placed), body);
    }

    /// Takes an event `breakpoint` in.
    pub(crate) fn changed(&mut self, body: &Value) {
        let told = read(&body["breakpoint"]);
        let Some(id) = told.id else { return };
        let functions = self.functions.iter_mut().map(|(_, placed)| placed);
        let sources = self.sources.values_mut().flatten().map(|(_, placed)| placed);
        let data = self.data.iter_mut().map(|(_, placed)| placed);
        let instructions = self.instructions.iter_mut().map(|(_, placed)| placed);
        let all = sources.chain(functions).chain(data).chain(instructions);
        for placed in all.filter(|placed| placed.id == Some(id)) {
            let line = told.line.or(placed.line);
            *placed = Placed { line, ever: told.ever || placed.ever, ..told.clone() };
        }
    }
}

/// A hit count as the adapter reads it.
fn sent(hit: Option<&String>, hits: Option<Hits>) -> Option<String> {
    hit.and_then(|hit| hits.map_or(Some(hit.clone()), |it| it.sent(hit)))
}

fn answered<'a>(placed: impl Iterator<Item = &'a mut Placed>, body: &Value) {
    let answers = body["breakpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    placed.zip(answers).for_each(|(placed, answer)| {
        let told = read(answer);
        *placed = Placed { ever: told.ever || placed.ever, ..told };
    });
}

fn read(value: &Value) -> Placed {
    Placed {
        id: value["id"].as_i64(),
        verified: value["verified"].as_bool().unwrap_or(false),
        ever: value["verified"].as_bool().unwrap_or(false),
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
    fn a_source_is_sent_whole_and_its_answers_are_kept_in_order() {
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
        all.changed(&json!({"reason": "changed", "breakpoint": {"id": 1, "verified": true}}));
        let placed: Vec<_> = all.list().map(|(it, placed)| (it.line, placed.verified, placed.line)).collect();
        assert_eq!(placed, [(4, true, None), (9, true, Some(10))]);
        assert_eq!(all.remove(&path, Some(10)), 1, "the line it stands on names it too");
        assert_eq!((all.remove(&path, None), all.list().count()), (1, 0));
    }
}
