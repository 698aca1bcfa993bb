//! Construction of a refusal, with the current lines around each anchor.

use crate::format::patch::Section;
use crate::render::LONGEST;
use crate::render::refusal::{AnchorLines, CurrentLine, Problem};
use crate::source::documents;
use crate::{Documents, Lines, SectionRefusal, Snapshot, SnapshotStore};

/// Number of lines shown around an anchor in a refusal, on each side.
const CONTEXT: usize = 3;
/// Maximum number of lines shown of one section in a refusal.
const MOST: usize = 120;
/// Refuses one section: records the current text, and shows it around each anchor.
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
    let Ok(lines) = documents::current(&section.path, documents) else { return refusal };
    // The text of the tag locates the anchors' lines in the current text.
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
        store.show_in_refusal(&section.path, tag, line.line);
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

/// The line to show for an anchor in the current text.
///
/// It is the nearest line equal to the tagged one, else the line with its number.
fn place_of(line: usize, known: Option<&Snapshot>, lines: &Lines) -> usize {
    const FAR: usize = 400;
    let here = line.min(lines.count());
    let Some(snapshot) = known.filter(|known| line <= known.lines().count()) else { return here };
    let content = snapshot.lines().content(line);
    let is = |at: &usize| (1..=lines.count()).contains(at) && lines.content(*at) == content;
    (0..=FAR).flat_map(|by| [line.saturating_sub(by), line.saturating_add(by)]).find(is).unwrap_or(here)
}
