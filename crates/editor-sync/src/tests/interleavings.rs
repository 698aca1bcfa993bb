//! Random interleavings of typing and agent edits.
//!
//! The text consists of numbered cells, `<3:abc>`. The user types into cells and adds and removes
//! lines; the agent replaces the content of cells. The model is a list of characters that marks those
//! that the agent planned on: an edit fits while its marks are complete.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use testing::editor::{Fault, Personality, Typed, VersionCheck};

use super::*;

const CELLS: usize = 12;

/// Deterministic random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// The content of every cell, with its range.
fn cells(text: &str) -> BTreeMap<usize, (std::ops::Range<usize>, String)> {
    let mut out = BTreeMap::new();
    for (at, _) in text.match_indices('<') {
        let rest = &text[at + 1..];
        let (name, rest) = rest.split_once(':').expect("a cell is whole");
        let content = rest.split_once('>').expect("a cell is whole").0;
        let start = at + 1 + name.len() + 1;
        let old = out.insert(name.parse().unwrap(), (start..start + content.len(), content.to_owned()));
        assert!(old.is_none(), "cell {name} is there twice in {text:?}");
    }
    out
}

fn start() -> String {
    (0..CELLS).map(|n| format!("<{n}:é😀{n}>{}", if n % 3 == 2 { "\n" } else { " " })).collect()
}

/// A random change of the user: in a cell, or between lines.
fn typed(dice: &mut Dice, uri: &str, text: &str) -> Typed {
    let uri = uri.to_owned();
    if dice.roll(3) == 0 {
        let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).chain([0]).collect();
        let at = lines[dice.roll(lines.len())];
        let empty = text[at..].starts_with('\n');
        return if empty && dice.roll(2) == 0 {
            Typed { uri, range: at..at + 1, text: String::new() }
        } else {
            Typed { uri, range: at..at, text: "\n".to_owned() }
        };
    }
    let cells = cells(text);
    let (range, content) = cells.values().nth(dice.roll(cells.len())).unwrap().clone();
    let at: Vec<usize> = content.char_indices().map(|(at, _)| at).chain([content.len()]).collect();
    let place = at[dice.roll(at.len())];
    let delete = content[place..].chars().next().filter(|_| dice.roll(3) == 0);
    let end = place + delete.map_or(0, char::len_utf8);
    let text =
        if delete.is_some() { String::new() } else { ["x", "ß", "𝒳", "yy"][dice.roll(4)].to_owned() };
    Typed { uri, range: range.start + place..range.start + end, text }
}

#[derive(Clone)]
struct Model {
    /// Characters, each with the number of the planned edit that replaces it.
    text: Vec<(char, Option<usize>)>,
    /// Whether the user typed right next to a mark, which is a conflict only in a word.
    beside: bool,
}

impl Model {
    fn new(text: &str) -> Self {
        Self { text: text.chars().map(|character| (character, None)).collect(), beside: false }
    }

    fn to_text(&self) -> String {
        self.text.iter().map(|(character, _)| character).collect()
    }

    fn at(&self, offset: usize) -> usize {
        self.to_text()[..offset].chars().count()
    }

    fn plan(&mut self, edits: &[TextEdit]) {
        self.beside = false;
        self.text.iter_mut().for_each(|(_, mark)| *mark = None);
        for (number, edit) in edits.iter().enumerate() {
            let range = self.at(edit.range.start)..self.at(edit.range.end);
            self.text[range].iter_mut().for_each(|(_, mark)| *mark = Some(number));
        }
    }

    fn typed(&mut self, typed: &Typed) {
        let range = self.at(typed.range.start)..self.at(typed.range.end);
        let marked = |index: usize| self.text.get(index).is_some_and(|(_, mark)| mark.is_some());
        self.beside |= marked(range.end) || range.start.checked_sub(1).is_some_and(marked);
        self.text.splice(range, typed.text.chars().map(|character| (character, None)));
    }

    /// Applies the planned edits to the model; `None` if their marks are incomplete.
    fn applied(&self, edits: &[TextEdit], counts: &[usize]) -> Option<Self> {
        let mut made = self.clone();
        for (number, edit) in edits.iter().enumerate() {
            let is_ours = |(_, mark): &(char, Option<usize>)| *mark == Some(number);
            let first = made.text.iter().position(is_ours)?;
            let last = made.text.iter().rposition(is_ours)?;
            let whole = last + 1 - first == counts[number] && made.text[first..=last].iter().all(is_ours);
            if !whole {
                return None;
            }
            made.text.splice(first..=last, edit.new_text.chars().map(|character| (character, None)));
        }
        Some(made)
    }
}

/// Runs one interleaving; returns the numbers of applied and refused edits.
async fn interleave(personality: Personality, seed: u64) -> (usize, usize) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let rig = Rig::new(personality.clone(), &[("a", &start())]);
    let uri = rig.open("a").await;
    let mut model = Model::new(&start());
    let (mut applied, mut refused) = (0, 0);
    for turn in 0..4 {
        let what = format!("seed {seed}, turn {turn}, {}", personality.name);
        // The agent reads and plans; the user types.
        let document = rig.document("a");
        let found = cells(&document.text);
        let mut wanted: Vec<usize> = (0..1 + dice.roll(3)).map(|_| dice.roll(CELLS)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|cell| !found[cell].1.is_empty());
        let edits: Vec<TextEdit> = wanted
            .iter()
            .map(|cell| TextEdit::replace(found[cell].0.clone(), format!("{turn}ä{cell}")))
            .filter(|edit| document.text[edit.range.clone()] != edit.new_text)
            .collect();
        if edits.is_empty() {
            continue;
        }
        model.plan(&edits);
        let counts: Vec<usize> =
            edits.iter().map(|edit| document.text[edit.range.clone()].chars().count()).collect();
        let operation =
            Operation::Edit { path: document.path, expected: document.version, edits: edits.clone() };
        let plan = rig.plan(vec![operation]).unwrap();
        for _ in 0..dice.roll(3) {
            let typed = typed(&mut dice, &uri, &model.to_text());
            rig.editor.type_in(&uri, typed.range.clone(), &typed.text).await;
            model.typed(&typed);
        }
        // The editor reports this typing only after the edit arrives.
        let mut then = model.clone();
        let mut hidden = Vec::new();
        for _ in 0..dice.roll(3) {
            let typed = typed(&mut dice, &uri, &then.to_text());
            then.typed(&typed);
            hidden.push(typed);
        }
        let mut may_fail = false;
        match dice.roll(4) {
            0 => {
                rig.editor.fault(Fault::TypedFirst(hidden));
                // An editor that ignores versions misplaces it.
                may_fail = true;
            }
            1 => {
                rig.editor.withhold();
                for typed in &hidden {
                    rig.editor.type_in(&uri, typed.range.clone(), &typed.text).await;
                }
                rig.editor.flush().await;
                model = then.clone();
                // The edit may overtake the notifications, and an editor that ignores versions misplaces it.
                may_fail = personality.check == VersionCheck::Never;
            }
            2 => rig.editor.fault(Fault::Drop),
            _ => rig.editor.fault(Fault::Refuse),
        }
        let faults = rig.editor.faults();
        let result = rig.commit_plan(plan).await;
        if may_fail && rig.editor.faults() < faults {
            model = then;
        }
        rig.editor.clear_faults();
        rig.synced(&uri).await;
        match (&result, model.applied(&edits, &counts)) {
            (Ok(_), Some(made)) => {
                applied += 1;
                assert_eq!(rig.editor.text(&uri), made.to_text(), "{what}");
                model = made;
            }
            (Ok(_), None) => panic!("{what}: applied on {:?}", model.to_text()),
            (Err(error), made) => {
                refused += 1;
                assert_eq!(rig.editor.text(&uri), model.to_text(), "{what}: {error}");
                let kind = matches!(error, CommitError::Moved { .. } | CommitError::NotApplied { .. });
                assert!(kind, "{what}: {error}");
                // Whole texts show only the lines that differ.
                may_fail |= personality.whole;
                assert!(made.is_none() || model.beside || may_fail, "{what}: refused for nothing: {error}");
            }
        }
    }
    (applied, refused)
}

async fn run(personality: fn() -> Personality, seeds: std::ops::Range<u64>) {
    let one = |seed| async move {
        println!("seed {seed}, {}", personality().name);
        interleave(personality(), seed).await
    };
    // The runs mostly wait for timeouts, so they run concurrently.
    let all: Vec<(usize, usize)> = stream::iter(seeds.clone()).map(one).buffer_unordered(6).collect().await;
    let (applied, refused) = all.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("{}: seeds {seeds:?}: {applied} applied, {refused} refused", personality().name);
    assert!(applied > refused && refused > 0, "{applied} applied, {refused} refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_interleave_with_neovim_without_loss() {
    run(Personality::neovim, 0..50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_interleave_with_vscode_without_loss() {
    run(Personality::vscode, 50..110).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_interleave_with_a_careless_editor_without_loss() {
    run(Personality::careless, 110..160).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_interleave_with_whole_texts_without_loss() {
    run(Personality::whole, 160..200).await;
}
