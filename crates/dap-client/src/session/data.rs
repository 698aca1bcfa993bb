//! Threads, frames, scopes and variables of a stopped program, with Pilcrow's numbers.

use paths::AbsPath;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub id: i64,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub id: i64,
    pub name: String,
    /// Whether the adapter marks the name, as of a frame that an exception leaves.
    pub is_marked: bool,
    /// The file, if it exists on this machine.
    pub path: Option<AbsPath>,
    /// The source's name if there is no file.
    pub source: Option<String>,
    /// The line, from 1; 0 if unknown.
    pub line: u64,
    /// The column, from 1; 0 if unknown.
    pub column: u64,
    /// Whether the adapter marks it as not the user's code.
    pub subtle: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub name: String,
    /// The number under which Pilcrow keeps its variables.
    pub variables: i64,
    /// Number of variables, if reported.
    pub count: Option<u64>,
    /// Whether the adapter marks it as expensive to read.
    pub expensive: bool,
    /// Kind such as `locals` or `arguments`, if reported.
    pub hint: Option<String>,
}

/// A variable or a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    /// The value as the adapter renders it.
    pub value: String,
    /// Its type, if reported.
    pub kind: Option<String>,
    /// Pilcrow's number of its members; 0 if there are none.
    pub variables: i64,
    /// Number of members, if reported.
    pub count: Option<u64>,
    /// The expression that evaluates to it.
    pub expression: Option<String>,
    /// The memory reference for requests about memory.
    pub memory: Option<String>,
}

/// A range of many variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Index of the first variable, from 0.
    pub start: u64,
    /// Number of variables; 0 for all.
    pub count: u64,
    /// Kind of variables to select: `indexed` or `named`.
    pub filter: Option<String>,
}
