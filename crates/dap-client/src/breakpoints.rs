//! The breakpoints of one session: what was asked for, and what the adapter made of it.
//!
//! Pure. The protocol sets all breakpoints of a source at once; here each is added and removed alone.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use workspace::AbsPath;

/// A breakpoint on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBreakpoint {
    /// The file.
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
}

/// What the adapter made of one breakpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    /// The adapter's number.
    pub id: Option<i64>,
    /// Whether it is in place; some adapters learn that only when the code is loaded.
    pub verified: bool,
    /// The line it came to stand on.
    pub line: Option<u64>,
    /// Why it is not in place.
    pub message: Option<String>,
}

/// All of a session.
#[derive(Debug, Clone, Default)]
pub struct Breakpoints {
    sources: BTreeMap<AbsPath, Vec<(SourceBreakpoint, Placed)>>,
    functions: Vec<(FunctionBreakpoint, Placed)>,
    /// Exception filters; `None`: those that the adapter has on by default.
    pub exceptions: Option<Vec<String>>,
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
        sources
            .chain(self.functions.iter_mut().map(|(_, placed)| placed))
            .for_each(|it| *it = Placed::default());
        self
    }

    /// Adds one on a function.
    pub fn add_function(&mut self, name: &str) {
        if !self.functions.iter().any(|(it, _)| it.name == name) {
            self.functions.push((FunctionBreakpoint { name: name.to_owned() }, Placed::default()));
        }
    }

    /// The files that have some, or had.
    pub fn paths(&self) -> Vec<AbsPath> {
        self.sources.keys().cloned().collect()
    }

    /// All on lines, by file and line.
    pub fn list(&self) -> impl Iterator<Item = &(SourceBreakpoint, Placed)> {
        self.sources.values().flatten()
    }

    /// All on functions.
    pub fn functions(&self) -> &[(FunctionBreakpoint, Placed)] {
        &self.functions
    }

    /// Arguments of `setBreakpoints` for a file.
    pub(crate) fn source_arguments(&self, path: &AbsPath) -> Value {
        let one = |it: &SourceBreakpoint| {
            json!({"line": it.line, "column": it.column, "condition": it.condition, "hitCondition": it.hit,
                "logMessage": it.log})
        };
        let all: Vec<Value> = self.sources.get(path).into_iter().flatten().map(|(it, _)| one(it)).collect();
        let source = json!({"name": path.file_name(), "path": path.to_string()});
        json!({"source": source, "breakpoints": all, "sourceModified": false})
    }

    /// Arguments of `setFunctionBreakpoints`.
    pub(crate) fn function_arguments(&self) -> Value {
        let all: Vec<Value> = self.functions.iter().map(|(it, _)| json!({"name": it.name})).collect();
        json!({"breakpoints": all})
    }

    /// Takes the answer to `setBreakpoints` in.
    pub(crate) fn source_answer(&mut self, path: &AbsPath, body: &Value) {
        let answers = body["breakpoints"].as_array().cloned().unwrap_or_default();
        for ((_, placed), answer) in self.sources.entry(path.clone()).or_default().iter_mut().zip(answers) {
            *placed = read(&answer);
        }
    }

    /// Takes the answer to `setFunctionBreakpoints` in.
    pub(crate) fn function_answer(&mut self, body: &Value) {
        let answers = body["breakpoints"].as_array().cloned().unwrap_or_default();
        for ((_, placed), answer) in self.functions.iter_mut().zip(answers) {
            *placed = read(&answer);
        }
    }

    /// Takes an event `breakpoint` in.
    pub(crate) fn changed(&mut self, body: &Value) {
        let told = read(&body["breakpoint"]);
        let Some(id) = told.id else { return };
        let functions = self.functions.iter_mut().map(|(_, placed)| placed);
        let sources = self.sources.values_mut().flatten().map(|(_, placed)| placed);
        for placed in sources.chain(functions).filter(|placed| placed.id == Some(id)) {
            let line = told.line.or(placed.line);
            *placed = Placed { line, ..told.clone() };
        }
    }
}

fn read(value: &Value) -> Placed {
    Placed {
        id: value["id"].as_i64(),
        verified: value["verified"].as_bool().unwrap_or(false),
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
    fn a_source_is_sent_whole_and_its_answers_are_kept_in_order() {
        let mut all = Breakpoints::default();
        all.add(at(9));
        all.add(SourceBreakpoint { condition: Some("n == 3".into()), ..at(4) });
        all.add(SourceBreakpoint { log: Some("n {n}".into()), ..at(9) });
        let path = at(1).path;
        let sent = crate::envelope::without_nulls(all.source_arguments(&path));
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
