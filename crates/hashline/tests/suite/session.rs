//! A small session: files in memory, a store, reads and edits like a tool's.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashline::{
    Current, Documents, FileOp, Lines, NotADialect, Options, Outcome, ParseRegression, Patch, Plan, Reason,
    Refusal, Snapshot, SnapshotStore, Strategy, Tag, View,
};
use text::{ChangeLog, TextEdit};

use crate::grammars::Grammars;

#[derive(Default)]
pub struct Session {
    pub files: Files,
    pub store: SnapshotStore,
    pub options: Options<'static>,
}

#[derive(Default)]
pub struct Files {
    pub texts: BTreeMap<String, Arc<str>>,
    /// The editor's recorded edits since a tag was read.
    pub log: Option<ChangeLog>,
    /// The state of a path that has no text.
    pub states: BTreeMap<String, Current>,
}

impl Documents for Files {
    fn current(&self, path: &str) -> Current {
        match self.states.get(path) {
            Some(state) => state.clone(),
            None => self.texts.get(path).cloned().into(),
        }
    }

    fn changes(&self, _: &str, _: &Snapshot) -> Option<ChangeLog> {
        self.log.clone()
    }
}

impl Session {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let mut session = Self::default();
        for (path, text) in files {
            session.write(path, text);
        }
        session
    }

    /// Writes the file as another program.
    pub fn write(&mut self, path: &str, text: &str) {
        self.files.texts.insert(path.to_owned(), text.into());
    }

    /// Types as a user in the editor, which records the edit.
    pub fn type_in(&mut self, path: &str, edit: TextEdit) {
        let text = text::apply(&self.files.texts[path], std::slice::from_ref(&edit)).unwrap();
        self.write(path, &text);
        self.files.log.get_or_insert_with(ChangeLog::new).push(vec![edit]);
    }

    pub fn text(&self, path: &str) -> &str {
        &self.files.texts[path]
    }

    /// Shows the whole file.
    pub fn read(&mut self, path: &str) -> Tag {
        self.read_lines(path, 1..=usize::MAX)
    }

    pub fn read_lines(&mut self, path: &str, lines: std::ops::RangeInclusive<usize>) -> Tag {
        let tag = self.store.record(path, self.files.texts[path].clone());
        self.store.show(path, tag, &[lines], self.options.view).unwrap();
        tag
    }

    /// Shows these lines, or the whole file if none are named.
    pub fn read_ranges(&mut self, path: &str, ranges: &[[usize; 2]]) -> Tag {
        if ranges.is_empty() {
            return self.read(path);
        }
        let tag = self.store.record(path, self.files.texts[path].clone());
        let ranges: Vec<_> = ranges.iter().map(|[first, last]| *first..=*last).collect();
        self.store.show(path, tag, &ranges, self.options.view).unwrap();
        tag
    }

    /// Sets the form in which lines are shown.
    pub fn set_view(&mut self, checks: bool, dialect: Option<&str>) -> Result<(), String> {
        let dialect = dialect.map(str::parse).transpose().map_err(|error: NotADialect| error.to_string())?;
        self.options.view = View { dialect: dialect.unwrap_or_default(), checks };
        Ok(())
    }

    /// Enables the parser; with `refuse`, an edit that breaks the syntax is refused.
    pub fn set_parse_regression(&mut self, refuse: bool) {
        self.options.syntax = Some(&Grammars);
        self.options.parse_regression = if refuse { ParseRegression::Refuse } else { ParseRegression::Warn };
    }

    /// Sets the state of a path that has no text.
    pub fn set_state(&mut self, path: &str, state: &str) -> Result<(), String> {
        let state = match state {
            "missing" => Current::Missing,
            "not_utf8" => Current::NotUtf8,
            "too_large" => Current::TooLarge,
            other => return Err(format!("`{other}` is no state of a file")),
        };
        self.files.texts.remove(path);
        self.files.states.insert(path.to_owned(), state);
        Ok(())
    }

    /// The anchor of a line of the current text, such as `12kq` for line 12.
    pub fn anchor(&self, path: &str, line: usize) -> String {
        format!("{line}{}", Lines::new(self.files.texts[path].clone()).check(line))
    }

    pub fn plan(&mut self, patch: &str) -> Result<Plan, Refusal> {
        let (patch, _) = Patch::parse(patch).unwrap_or_else(|error| panic!("{error}\n{patch}"));
        self.plan_parsed(&patch)
    }

    pub fn plan_parsed(&mut self, patch: &Patch) -> Result<Plan, Refusal> {
        hashline::plan(patch, &mut self.store, &self.files, self.options)
    }

    /// Plans and writes an edit, and records the text read back.
    pub fn edit(&mut self, patch: &str) -> Result<(Plan, Vec<Outcome>), Refusal> {
        let plan = self.plan(patch)?;
        let outcomes = self.write_plan(&plan, None).unwrap_or_else(|problem| panic!("{problem}"));
        Ok((plan, outcomes.into_iter().map(|(_, outcome)| outcome).collect()))
    }

    /// Writes a plan and records the text read back: the planned one, or another.
    ///
    /// Returns the path of each section afterwards with its outcome.
    pub fn write_plan(
        &mut self,
        plan: &Plan,
        read_back: Option<&str>,
    ) -> Result<Vec<(String, Outcome)>, String> {
        let mut outcomes = Vec::new();
        for section in &plan.sections {
            if text::apply(&section.before, &section.edits).ok().as_deref() != Some(&*section.new_text) {
                return Err(format!("the edits of {} do not make its new text", section.path));
            }
            let text: Arc<str> = read_back.map_or(section.new_text.clone(), Arc::from);
            self.files.texts.remove(&section.path);
            let path = match &section.file_op {
                FileOp::Rename { to } => to.clone(),
                _ => section.path.clone(),
            };
            if section.file_op != FileOp::Remove {
                self.write(&path, &text);
            }
            let view = self.options.view;
            outcomes.push((path, hashline::outcome(&mut self.store, section, text, view)));
        }
        Ok(outcomes)
    }

    /// Edits one file and returns the result.
    #[track_caller]
    pub fn edited(&mut self, patch: &str) -> (Strategy, Outcome) {
        let (plan, mut outcomes) =
            self.edit(patch).unwrap_or_else(|refusal| panic!("{patch}\n{}", refusal.render()));
        (plan.sections[0].strategy, outcomes.remove(0))
    }

    #[track_caller]
    pub fn refused(&mut self, patch: &str) -> Refusal {
        let before = self.files.texts.clone();
        let refusal = match self.edit(patch) {
            Ok((plan, _)) => panic!("{patch}\nwas applied: {plan:?}"),
            Err(refusal) => refusal,
        };
        assert_eq!(self.files.texts, before);
        refusal
    }

    #[track_caller]
    pub fn refused_for(&mut self, patch: &str, reason: Reason) -> Refusal {
        let refusal = self.refused(patch);
        assert_eq!(refusal.reason, reason, "{}", refusal.render());
        refusal
    }
}

/// Applies a patch to one file that was read whole.
///
/// `TAG` is its tag, `PATH` is `f`.
#[track_caller]
pub fn check(text: &str, operations: &str, expected: &str) -> Plan {
    let mut session = Session::new(&[("f", text)]);
    let tag = session.read("f");
    let patch = format!("[f#{tag}]\n{operations}");
    let plan = session.plan(&patch).unwrap_or_else(|refusal| panic!("{patch}\n{}", refusal.render()));
    assert_eq!(&*plan.sections[0].new_text, expected);
    plan
}

#[track_caller]
pub fn check_refused(text: &str, operations: &str, reason: Reason) -> Refusal {
    let mut session = Session::new(&[("f", text)]);
    let tag = session.read("f");
    session.refused_for(&format!("[f#{tag}]\n{operations}"), reason)
}

pub fn numbered(count: usize) -> String {
    (1..=count).map(|line| format!("line {line}\n")).collect()
}
