//! What a stopped program is made of, with numbers of ours that go stale when it runs on.

use paths::AbsPath;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub id: i64,
    pub name: String,
}

/// A frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub id: i64,
    pub name: String,
    /// The file, where there is one on this machine.
    pub path: Option<AbsPath>,
    /// The source's name where there is no file.
    pub source: Option<String>,
    /// 1-based; 0 where it is not known.
    pub line: u64,
    /// 1-based; 0 where it is not known.
    pub column: u64,
    /// The adapter says that it is not the person's code.
    pub subtle: bool,
}

/// A group of variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub name: String,
    /// Our number of its variables.
    pub variables: i64,
    /// How many there are, where it is said.
    pub count: Option<u64>,
    /// The adapter says that it is costly to look at.
    pub expensive: bool,
    /// `locals`, `arguments`, …, where it is said.
    pub hint: Option<String>,
}

/// A variable or a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    /// Its value, as the adapter shows it.
    pub value: String,
    /// Its type, where it is said.
    pub kind: Option<String>,
    /// Our number of what is in it; 0 when there is nothing.
    pub variables: i64,
    /// How many are in it, where it is said.
    pub count: Option<u64>,
    /// The expression that gives it.
    pub expression: Option<String>,
    /// The memory that it points to, as requests about memory name it.
    pub memory: Option<String>,
}

/// Which of many variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The first, from 0.
    pub start: u64,
    /// How many; 0: all.
    pub count: u64,
    /// `indexed` or `named`, where only these are wanted.
    pub filter: Option<String>,
}
