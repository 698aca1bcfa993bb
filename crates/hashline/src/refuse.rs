//! A refusal, section by section: what is wrong, and the lines as they are now.

use crate::patch::Section;
use crate::refusal::{AnchorLines, CurrentLine};
use crate::{Documents, Lines, Reason, SectionRefusal, Snapshot, SnapshotStore, current};

/// Lines shown around an anchor in a refusal, on each side.
const CONTEXT: usize = 3;
/// Lines shown of one section in a refusal.
const MOST: usize = 120;
/// A line longer than this is not shown in a refusal.
pub(crate) const LONGEST: usize = 2_000;

#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub reason: Reason,
    pub message: String,
    /// Lines to show besides the anchors, in the current text.
    pub show: Vec<usize>,
}

impl Problem {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), show: Vec::new() }
    }
}

/// The refusal of one section: records the current text, and shows it around each anchor.
pub(crate) fn refuse(
    section: &Section,
    problem: Problem,
    store: &mut SnapshotStore,
    documents: &dyn Documents,
) -> SectionRefusal {
    let mut refusal = SectionRefusal {
        path: section.path.clone(),
        reason: problem.reason,
        message: problem.message,
        expected: section.tag,
        actual: None,
        line_count: 0,
        anchors: Vec::new(),
    };
    let Ok(lines) = current::current(&section.path, documents) else { return refusal };
    // The text that the tag means, to find where the anchors' lines went.
    let known = match section.tag {
        Some(tag) => store.get(&section.path, tag),
        None => store.newest(&section.path),
    };
    let tag = store.record(&section.path, lines.text().clone());
    refusal.actual = Some(tag);
    refusal.line_count = lines.count();
    let mut budget = MOST;
    if !problem.show.is_empty() {
        let anchor = format!("{}..={}", problem.show[0], problem.show[problem.show.len() - 1]);
        refusal.anchors.push(AnchorLines { anchor, lines: take(&lines, problem.show, &mut budget) });
    }
    for anchor in section.anchors() {
        let line = place_of(anchor.line, known.as_deref(), &lines);
        let around = line.saturating_sub(CONTEXT).max(1)..=line.saturating_add(CONTEXT).min(lines.count());
        let lines = take(&lines, around, &mut budget);
        refusal.anchors.push(AnchorLines { anchor: anchor.to_string(), lines });
    }
    if section.anchors().is_empty() && refusal.anchors.is_empty() {
        let ends = (1..=lines.count()).filter(|line| *line <= CONTEXT || *line + CONTEXT > lines.count());
        let lines = take(&lines, ends, &mut budget);
        refusal.anchors.push(AnchorLines { anchor: "<1, >$".to_owned(), lines });
    }
    for line in refusal.anchors.iter().flat_map(|anchor| &anchor.lines) {
        store.see(&section.path, tag, line.line..=line.line);
    }
    refusal
}

fn take(lines: &Lines, which: impl IntoIterator<Item = usize>, budget: &mut usize) -> Vec<CurrentLine> {
    let mut taken = Vec::new();
    for line in which {
        if line == 0 || line > lines.count() || lines.content(line).len() > LONGEST || *budget == 0 {
            continue;
        }
        *budget -= 1;
        taken.push(CurrentLine { line, check: lines.check(line), text: lines.content(line).to_owned() });
    }
    taken
}

/// Where to look for an anchor in the current text: at the nearest line that reads the same as the
/// tagged one, else at its number. Only for showing.
fn place_of(line: usize, known: Option<&Snapshot>, lines: &Lines) -> usize {
    const FAR: usize = 400;
    let here = line.min(lines.count());
    let Some(snapshot) = known.filter(|known| line <= known.lines().count()) else { return here };
    let content = snapshot.lines().content(line);
    let is = |at: &usize| (1..=lines.count()).contains(at) && lines.content(*at) == content;
    (0..=FAR).flat_map(|by| [line.saturating_sub(by), line.saturating_add(by)]).find(is).unwrap_or(here)
}
