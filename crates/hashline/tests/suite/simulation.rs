//! The commonest mistake, replayed with real files: a fresh tag with old numbers.
//!
//! A file is read whole, edited by the agent itself or by another program, and edited again: with the numbers
//! (and checks) of the first read under the tag of the second text, or with that text's own numbers. The
//! right result is known, since the test made the first edit. The bench of the same name replays thousands of
//! files; here a few hundred must give nothing wrong.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashline::{Limits, Lines, Options, Patch, SnapshotStore, View, plan};
use text::TextEdit;

#[path = "random.rs"]
pub mod random;

use random::Random;

/// The variants of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// Whether lines are shown and named with checks.
    pub checks: bool,
    pub past: Past,
    /// Whether the second edit has the numbers from before the first.
    pub stale: bool,
    /// Whether the first edit is the agent's own; else the file is read again.
    pub own: bool,
    /// Whether the second edit names both ends of a range; otherwise one line.
    pub two_anchors: bool,
}

/// The part of the first version that the store still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// The store has all of it.
    Kept,
    /// The store dropped it for the limit of versions.
    Evicted,
    /// The store dropped the path, and the file is read again.
    Gone,
}

/// Counts of the results of the second edits.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub right: usize,
    pub refused: usize,
    pub wrong: usize,
}

impl Tally {
    pub fn total(&self) -> usize {
        self.right + self.refused + self.wrong
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: usize| 100.0 * part as f64 / self.total().max(1) as f64;
        write!(
            f,
            "{:>7} right {:>6.2}%   {:>6} refused {:>6.2}%   {:>5} wrong {:>6.2}%",
            self.right,
            share(self.right),
            self.refused,
            share(self.refused),
            self.wrong,
            share(self.wrong)
        )
    }
}

fn options(checks: bool) -> Options<'static> {
    Options { view: View { checks, ..View::default() }, ..Options::default() }
}

/// Replays one file once; `None` if the first edit leaves no line for the second.
pub fn play(text: &Arc<str>, variant: Variant, random: &mut Random) -> Option<Result<bool, String>> {
    const PATH: &str = "file";
    let mut store = SnapshotStore::new(match variant.past {
        Past::Kept => Limits::default(),
        Past::Evicted => Limits { versions: 1, ..Limits::default() },
        Past::Gone => Limits { paths: 1, ..Limits::default() },
    });
    let read = |store: &mut SnapshotStore, text: &Arc<str>| {
        let tag = store.record(PATH, text.clone());
        store.see(PATH, tag, 1..=usize::MAX);
        tag
    };
    let tag = read(&mut store, text);
    let lines = Lines::new(text.clone());
    let count = lines.count();
    let name = |lines: &Lines, line: usize| {
        if variant.checks { format!("{line}{}", lines.check(line)) } else { line.to_string() }
    };

    // The first edit inserts, deletes, replaces or duplicates rows.
    let first = 1 + random.below(count);
    let last = (first + random.below(6)).min(count);
    let rows: Vec<String> =
        (0..1 + random.below(12)).map(|row| format!("the agent's own line {row}")).collect();
    let copy = || (first..=last).map(|line| lines.content(line).to_owned()).collect();
    let (from, to, rows) = match random.below(4) {
        0 => (first + 1, first, rows),
        1 => (first, last, Vec::new()),
        2 => (first, last, rows),
        _ => (last + 1, last, copy()),
    };
    let grown = rows.len() as isize - (to + 1 - from) as isize;
    let current = |text: &Arc<str>| {
        let text = text.clone();
        move |_: &str| Some(text.clone())
    };
    let (text, tag) = if variant.own {
        let range = format!("{}..={}", name(&lines, from.min(count)), name(&lines, to));
        let operation = match (rows.is_empty(), from > to) {
            (true, _) => format!("CUT {range}\n"),
            (_, true) => format!("PUT >{}:\n", name(&lines, to)),
            (_, false) => format!("PUT {range}:\n"),
        };
        let body: String = rows.iter().map(|row| format!("+{row}\n")).collect();
        let (patch, _) = Patch::parse(&format!("[{PATH}#{tag}]\n{operation}{body}")).ok()?;
        let made = plan(&patch, &mut store, &current(text), options(variant.checks)).ok()?;
        let text = made.sections[0].new_text.clone();
        let tag = store.committed(&made.sections[0], text.clone())?;
        (text, tag)
    } else {
        let start = if from > count { lines.text().len() } else { lines.start(from) };
        let end = if to >= count { lines.text().len() } else { lines.start(to + 1) };
        let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let text: Arc<str> = text::apply(text, &[TextEdit::replace(start..end, rows)]).ok()?.into();
        let tag = read(&mut store, &text);
        (text, tag)
    };
    let tag = match variant.past {
        Past::Gone => {
            store.record("another", "");
            read(&mut store, &text)
        }
        _ => tag,
    };

    // The second edit changes a line that the first did not touch, mostly below it.
    let below = random.below(5) > 0;
    let target = if below { to + 1 + random.below(count.checked_sub(to)?) } else { 1 + random.below(count) };
    let end = target + if variant.two_anchors { 1 + random.below(6) } else { 0 };
    if end > count
        || (target < from && end >= from)
        || (from..=to).contains(&target)
        || (from..=to).contains(&end)
    {
        return None;
    }
    let shift = if target > to { grown } else { 0 };
    let now = Lines::new(text.clone());
    let place = target.checked_add_signed(shift)?;
    let stop = place + (end - target);
    if now.content(place) != lines.content(target) || now.content(stop) != lines.content(end) {
        // The file had no final line end, and now a line has one.
        return None;
    }
    let body = format!("{} and more", lines.content(target));
    let (numbers, first, last) = if variant.stale { (&lines, target, end) } else { (&now, place, stop) };
    let range = if variant.two_anchors {
        format!("{}..={}", name(numbers, first), name(numbers, last))
    } else {
        name(numbers, first)
    };
    let (patch, _) = Patch::parse(&format!("[{PATH}#{tag}]\nPUT {range}:\n+{body}\n")).ok()?;
    let (start, stop) = (now.start(place), now.content_range(stop).end);
    let wanted = format!("{}{body}{}", &text[..start], &text[stop..]);
    Some(match plan(&patch, &mut store, &current(&text), options(variant.checks)) {
        Err(refusal) => Err(refusal.reason.as_str().to_owned()),
        Ok(made) => Ok(*made.sections[0].new_text == *wanted),
    })
}

/// Replays until `count` second edits were sent.
pub fn simulate(files: &[Arc<str>], variant: Variant, count: usize, seed: u64) -> Tally {
    let mut random = Random(seed);
    let mut tally = Tally::default();
    for _ in 0..count * 20 {
        if tally.total() == count || files.is_empty() {
            break;
        }
        match play(&files[random.below(files.len())], variant, &mut random) {
            None => {}
            Some(Err(_)) => tally.refused += 1,
            Some(Ok(true)) => tally.right += 1,
            Some(Ok(false)) => tally.wrong += 1,
        }
    }
    tally
}

/// Texts under `directory` with that number of lines, in order of path.
pub fn texts(directory: &Path, lines: std::ops::RangeInclusive<usize>, most: usize) -> Vec<Arc<str>> {
    let mut directories = vec![directory.to_owned()];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !hidden && !path.ends_with("target") {
                directories.push(path);
                continue;
            }
            let known = ["rs", "py", "toml", "md", "js", "ts", "c", "h", "json", "yml", "html", "txt"];
            let source = path.extension().is_some_and(|ending| known.iter().any(|known| ending == *known));
            if !source || found.len() >= most {
                continue;
            }
            if let Ok(text) = std::fs::read_to_string(&path)
                && lines.contains(&text.lines().count())
                && text.len() < 4 << 20
            {
                found.push(Arc::from(text));
            }
        }
    }
    found
}

#[test]
fn stale_numbers_edit_no_wrong_line() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = texts(&root, 50..=2_000, 400);
    assert!(files.len() > 20);
    let (mut asked, mut wrong) = (0, 0);
    for two_anchors in [false, true] {
        let variant = Variant { checks: true, past: Past::Kept, stale: true, own: true, two_anchors };
        let tally = simulate(&files, variant, 250, 1);
        assert_eq!(tally.wrong, 0, "{tally}");
        assert!(tally.right > 200, "the earlier version is of use: {tally}");
        // One in 576 other lines has the check by chance.
        for past in [Past::Evicted, Past::Gone] {
            for own in [true, false] {
                let tally = simulate(&files, Variant { past, own, ..variant }, 125, 2);
                asked += tally.total();
                wrong += tally.wrong;
            }
        }
        // Numbers of the text itself are seldom refused.
        for past in [Past::Kept, Past::Gone] {
            let tally = simulate(&files, Variant { past, own: false, stale: false, ..variant }, 100, 4);
            assert!(tally.wrong == 0 && tally.refused < 40, "{past:?}: {tally}");
        }
        // Without checks, many edits are wrong.
        let tally = simulate(&files, Variant { checks: false, ..variant }, 150, 3);
        assert!(tally.wrong > 100, "plain numbers cannot distinguish: {tally}");
    }
    // The numbers' version is dropped before the edit.
    assert!(asked >= 900 && wrong * 500 <= asked, "{wrong} wrong of {asked}");
}
