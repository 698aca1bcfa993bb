//! Recovery against an oracle that knows the identity of every line.
//!
//! Every line has a hidden identity that random edits keep. There are few distinct lines, so each has twins
//! everywhere: matching by similarity would edit the wrong one. A result is right if the edit was made on the
//! intended lines, by identity.
//!
//! Edits that undo each other leave no trace in a text (a line removed, and its twin inserted beside it), and
//! no engine can know of them. So only histories without such detours are judged: those that explain the
//! change with a minimal number of removed and added lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashline::{Anchor, FileOp, Lines, Op, Options, Patch, Section, SnapshotStore, Span, Strategy, Target};

use crate::simulation::random::Random;

/// A line and its identity.
type Line = (usize, u8);

fn text(lines: &[Line]) -> String {
    lines.iter().map(|(_, letter)| format!("{}\n", char::from(b'a' + letter))).collect()
}

/// Applies an edit of another author.
fn edit(random: &mut Random, lines: &mut Vec<Line>, alphabet: usize, next: &mut usize) {
    let mut new = |random: &mut Random, letter: Option<u8>| {
        *next += 1;
        (*next, letter.unwrap_or_else(|| random.below(alphabet) as u8))
    };
    let at = random.below(lines.len() + 1);
    let end = (at + 1 + random.below(3)).min(lines.len());
    match random.below(5) {
        0 => drop(lines.drain(at..end)),
        1 => {
            let count = 1 + random.below(3);
            let rows: Vec<Line> = (0..count).map(|_| new(random, None)).collect();
            lines.splice(at..end, rows);
        }
        2 => {
            // A copy of lines from elsewhere.
            let from = random.below(lines.len() + 1);
            let to = (from + 1 + random.below(4)).min(lines.len());
            let copied: Vec<u8> = lines[from..to].iter().map(|line| line.1).collect();
            let rows: Vec<Line> = copied.into_iter().map(|letter| new(random, Some(letter))).collect();
            lines.splice(at..at, rows);
        }
        _ => {
            let count = 1 + random.below(3);
            let rows: Vec<Line> = (0..count).map(|_| new(random, None)).collect();
            lines.splice(at..at, rows);
        }
    }
}

#[derive(Debug, Clone)]
enum Wish {
    Replace(usize, usize, Vec<String>),
    Before(usize, Vec<String>),
    After(usize, Vec<String>),
    Head(Vec<String>),
    End(Vec<String>),
}

fn wish(random: &mut Random, count: usize, alphabet: usize) -> Wish {
    let kind = random.below(8);
    let rows = |random: &mut Random, least: usize| -> Vec<String> {
        let rows = least + random.below(3);
        (0..rows)
            .map(|_| match random.below(3) {
                0 => "NEW".to_owned(),
                _ => char::from(b'a' + random.below(alphabet) as u8).to_string(),
            })
            .collect()
    };
    let line = 1 + random.below(count);
    match kind {
        _ if count == 0 => Wish::Head(rows(random, 1)),
        0..=3 => {
            let last = (line + random.below(3)).min(count);
            Wish::Replace(line, last, rows(random, 0))
        }
        4 => Wish::Before(line, rows(random, 1)),
        5 | 6 => Wish::After(line, rows(random, 1)),
        _ if random.below(2) == 0 => Wish::Head(rows(random, 1)),
        _ => Wish::End(rows(random, 1)),
    }
}

fn op(wish: &Wish, lines: &Lines) -> Op {
    let anchor = |line: usize| Anchor { line, check: Some(lines.check(line)) };
    let put = |target: Target, rows: &[String]| Op::Put { target, body: rows.to_vec(), old: vec![] };
    match wish {
        Wish::Replace(first, last, rows) => {
            let span = Span::Lines { first: anchor(*first), last: anchor(*last) };
            if rows.is_empty() { Op::Cut { span, register: None } } else { put(Target::Replace(span), rows) }
        }
        Wish::Before(line, rows) => put(Target::Before(anchor(*line)), rows),
        Wish::After(line, rows) => put(Target::After(anchor(*line)), rows),
        Wish::Head(rows) => put(Target::Head, rows),
        Wish::End(rows) => put(Target::End, rows),
    }
}

/// The intended result, by the identities of the lines.
///
/// `None` if its lines are not there as they were.
fn right(wish: &Wish, old: &[Line], new: &[Line]) -> Option<String> {
    let place = |line: usize| new.iter().position(|now| now.0 == old[line - 1].0);
    let (from, to, rows) = match wish {
        Wish::Replace(first, last, rows) => {
            let from = place(*first)?;
            let same = (*first..=*last).all(|line| place(line) == Some(from + line - first));
            same.then_some(())?;
            (from, from + last + 1 - first, rows)
        }
        Wish::Before(line, rows) => (place(*line)?, place(*line)?, rows),
        Wish::After(line, rows) => (place(*line)? + 1, place(*line)? + 1, rows),
        Wish::Head(rows) => (0, 0, rows),
        Wish::End(rows) => (new.len(), new.len(), rows),
    };
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    Some(format!("{}{rows}{}", text(&new[..from]), text(&new[to..])))
}

/// The minimal number of lines removed and added between two texts.
fn distance(old: &[Line], new: &[Line]) -> usize {
    let mut row: Vec<usize> = (0..=new.len()).collect();
    for a in old {
        let mut diagonal = row[0];
        row[0] += 1;
        for (at, b) in new.iter().enumerate() {
            let best = if a.1 == b.1 { diagonal } else { row[at].min(row[at + 1]) + 1 };
            diagonal = std::mem::replace(&mut row[at + 1], best);
        }
    }
    row[new.len()]
}

/// Identifies equal lines removed and added between the same two lines.
fn same_again(old: &[Line], new: &mut [Line]) {
    let kept = |line: &Line| old.iter().position(|other| other.0 == line.0);
    let mut from = 0;
    let mut at = 0;
    while at <= new.len() {
        let gap = new[at..].iter().take_while(|line| kept(line).is_none()).count();
        let to = new.get(at + gap).and_then(kept).unwrap_or(old.len());
        let mut next = from;
        for line in &mut new[at..at + gap] {
            if let Some(found) = old[next.min(to)..to].iter().position(|other| other.1 == line.1) {
                line.0 = old[next + found].0;
                next += found + 1;
            }
        }
        at += gap + 1;
        from = to + 1;
    }
}

#[derive(Default, Debug)]
struct Tally {
    cases: usize,
    right: usize,
    refused: usize,
    /// Number of refusals although the lines exist by identity.
    shy: usize,
    applied: usize,
    wrong: usize,
    stray: usize,
}

#[expect(clippy::print_stdout, reason = "for looking into one kind of case")]
/// Results by the number of lines that the history removed and added again.
fn run(cases: usize, seed: u64, alphabet: usize, most: usize, edits: usize) -> BTreeMap<usize, Tally> {
    let mut tallies: BTreeMap<usize, Tally> = BTreeMap::new();
    let show = setting("HASHLINE_SHOW", usize::MAX);
    for case in 0..cases {
        let mut random = Random(seed ^ (case as u64).wrapping_mul(0xD134_2543_DE82_EF95));
        let mut next = 0;
        let old: Vec<Line> = (0..random.below(most))
            .map(|_| {
                next += 1;
                (next, random.below(alphabet) as u8)
            })
            .collect();
        let mut new = old.clone();
        for _ in 0..1 + random.below(edits) {
            edit(&mut random, &mut new, alphabet, &mut next);
        }
        same_again(&old, &mut new);
        let kept = old.iter().filter(|line| new.contains(line)).count();
        let detour = old.len() + new.len() - 2 * kept - distance(&old, &new);
        let wish = wish(&mut random, old.len(), alphabet);
        let (old_text, new_text) = (text(&old), text(&new));
        if old_text == new_text {
            continue;
        }
        let mut store = SnapshotStore::default();
        let tag = store.record("f", old_text.clone());
        store.see("f", tag, 1..=usize::MAX);
        let op = op(&wish, &Lines::new(old_text.as_str().into()));
        let section = Section { path: "f".into(), tag: Some(tag), ops: vec![op], file_op: FileOp::Keep };
        let patch = Patch { sections: vec![section] };
        let current: Arc<str> = new_text.as_str().into();
        let plan = hashline::plan(&patch, &mut store, &|_: &str| Some(current.clone()), Options::default());
        let right = right(&wish, &old, &new);
        let tally = tallies.entry(detour).or_default();
        tally.cases += 1;
        match plan {
            Err(_) => {
                tally.refused += 1;
                tally.shy += usize::from(right.is_some());
            }
            Ok(plan) => {
                let section = &plan.sections[0];
                let what = if section.strategy == Strategy::AlreadyApplied && *section.new_text == *new_text {
                    tally.applied += 1;
                    "applied"
                } else if right.as_deref() == Some(&*section.new_text) {
                    tally.right += 1;
                    "right"
                } else if right.is_some() {
                    tally.wrong += 1;
                    "wrong"
                } else {
                    tally.stray += 1;
                    "stray"
                };
                if (what == "wrong" || what == "stray") && detour == show {
                    println!(
                        "{what} detour {detour} {:?} {wish:?}\n old {:?}\n new {:?}\n got {:?}\n right {:?}",
                        section.strategy, old, new, section.new_text, right
                    );
                }
            }
        }
    }
    tallies
}

/// Number from a variable: `HASHLINE_CASES` or `HASHLINE_SEED`.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn never_a_wrong_edit_among_twins() {
    let (cases, seed) = (setting("HASHLINE_CASES", 2_000), setting("HASHLINE_SEED", 7));
    println!("{cases} cases a row, seed {seed}");
    for (alphabet, most, edits) in [(3, 14, 3), (2, 8, 2), (4, 40, 4), (12, 30, 3), (30, 40, 4), (60, 90, 6)]
    {
        let tallies = run(cases, seed as u64, alphabet, most, edits);
        for (detour, tally) in &tallies {
            println!("{alphabet} letters, up to {most} lines and {edits} edits, detour {detour}: {tally:?}");
        }
        let straight = &tallies[&0];
        assert_eq!((straight.wrong, straight.stray), (0, 0), "{straight:?}");
        assert!(
            straight.right * 5 > straight.cases,
            "an engine that refuses everything is never wrong: {straight:?}"
        );
    }
}
