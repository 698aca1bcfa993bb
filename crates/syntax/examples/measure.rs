//! Measurements on real files.
//!
//! `cargo run --release -p syntax --example measure -- WHAT PATH…`, where WHAT is one of
//!
//! - `window`: valid and breaking edits, judged by the whole text and by the lines around them.
//! - `incremental`: whether an incremental parse finds the errors that a full parse finds.
//! - `parts`: how often the constructs around an edit prove that the text parses, and whether it does.
//! - `speed`: a full parse, after an edit, and around it; memory. In processor time.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement: it reads files, prints, and may fail"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use syntax::{Comparison, Language, Stop, Tree};
use text::TextEdit;

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let mut files = Vec::new();
    args.for_each(|arg| collect(Path::new(&arg), &mut files));
    files.sort();
    match what.as_str() {
        "window" => window(&files),
        "incremental" => incremental(&files),
        "parts" => parts(&files),
        "speed" => speed(&files),
        _ => println!("window, incremental, parts or speed, then files"),
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_symlink() {
        return;
    }
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| collect(&entry.path(), files)),
        Err(_) if path.is_file() => files.push(path.to_owned()),
        Err(_) => {}
    }
}

fn load(path: &Path) -> Option<(Language, String)> {
    let text = std::fs::read_to_string(path).ok()?;
    Some((Language::of(&path.to_string_lossy(), &text)?, text))
}

/// The processor time of this thread, which excludes other work on the machine.
#[derive(Clone, Copy)]
struct Work(Duration);

impl Work {
    fn now() -> Self {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Self(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
    }

    fn elapsed(self) -> Duration {
        Self::now().0 - self.0
    }
}

/// Bytes of memory in use.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
}

/// A small generator with a seed, for reproducible runs.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .filter(|at| *at < text.len())
        .collect()
}

fn line_of(text: &str, starts: &[usize], line: usize) -> std::ops::Range<usize> {
    starts[line]..starts.get(line + 1).copied().unwrap_or(text.len())
}

/// An edit that most likely parses: duplicates, deletes or replaces a construct.
fn good(tree: &Tree, text: &str, starts: &[usize], random: &mut Random) -> Option<TextEdit> {
    let lines = |random: &mut Random| {
        let block = (0..40).find_map(|_| tree.block(text, random.below(starts.len()) + 1).ok())?;
        (block.lines.clone().count() < 60).then_some(block)
    };
    let range = |block: &syntax::Construct| {
        starts[block.lines.start() - 1]..starts.get(*block.lines.end()).copied().unwrap_or(text.len())
    };
    let block = lines(random)?;
    let at = range(&block);
    Some(match random.below(3) {
        0 => TextEdit::insert(at.end, text[at].to_owned()),
        1 => TextEdit::replace(at, ""),
        _ => {
            let other = (0..200).find_map(|_| lines(random).filter(|other| other.kind == block.kind))?;
            TextEdit::replace(at, text[range(&other)].to_owned())
        }
    })
}

/// An edit that most likely breaks brackets.
///
/// It deletes or adds one bracket, or deletes or doubles a line of them.
fn bad(text: &str, starts: &[usize], random: &mut Random) -> Option<TextEdit> {
    let line = (0..200)
        .map(|_| random.below(starts.len()))
        .find(|line| text[line_of(text, starts, *line)].contains(['{', '}', '(', ')', '[', ']', '"']))?;
    let range = line_of(text, starts, line);
    let content = &text[range.clone()];
    let brackets: Vec<(usize, &str)> = content.match_indices(['{', '}', '(', ')', '[', ']']).collect();
    let (at, bracket) = *brackets.get(random.below(brackets.len()))?;
    let at = range.start + at;
    Some(match random.below(4) {
        0 => TextEdit::replace(at..at + 1, ""),
        1 => TextEdit::insert(at, bracket.to_owned()),
        2 => TextEdit::replace(range, ""),
        _ => TextEdit::insert(range.end, content.to_owned()),
    })
}

#[derive(Default)]
struct Count {
    files: usize,
    good: usize,
    accused: usize,
    bad: usize,
    missed: usize,
    unjudged: usize,
    dirty: usize,
    slowest: Duration,
}

fn window(files: &[PathBuf]) {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for path in files {
        let Some((language, text)) = load(path) else { continue };
        let starts = line_starts(&text);
        // Generated text without line ends is not source code.
        if starts.len() < 1_000 || text.len() / starts.len() > 100 {
            continue;
        }
        let tree = Tree::parse(language, &text, Stop::NEVER).unwrap();
        if tree.is_broken(&text) {
            continue;
        }
        let count = counts.entry(language.name()).or_default();
        if count.files >= 60 {
            continue;
        }
        count.files += 1;
        let mut random = Random(text.len() as u64);
        for at in 0..12 {
            let edit = if at < 6 {
                good(&tree, &text, &starts, &mut random)
            } else {
                bad(&text, &starts, &mut random)
            };
            let Some(edit) = edit else { continue };
            let edits = [edit];
            let after = text::apply(&text, &edits).unwrap();
            let (_, whole) = Comparison::of(&tree, &text, &edits, &after, Stop::NEVER).unwrap();
            let start = Work::now();
            let near = Comparison::of_window(language, &text, &edits, Stop::NEVER).unwrap();
            count.slowest = count.slowest.max(start.elapsed());
            let Some(near) = near else {
                count.unjudged += 1;
                continue;
            };
            count.dirty += usize::from(near.was_broken);
            let line = text[..edits[0].range.start].matches('\n').count() + 1;
            if whole.new_errors.is_empty() {
                count.good += 1;
                if !near.new_errors.is_empty() {
                    count.accused += 1;
                    let error = near.new_errors[0].message(&after);
                    println!(
                        "accused {}:{line} {:?} {error} dirty {}",
                        path.display(),
                        edits[0].range,
                        near.was_broken
                    );
                }
            } else {
                count.bad += 1;
                if near.new_errors.is_empty() {
                    count.missed += 1;
                    println!(
                        "missed  {}:{line} {:?} dirty {}",
                        path.display(),
                        whole.new_errors[0].message(&after),
                        near.was_broken
                    );
                }
            }
        }
    }
    for (language, count) in counts {
        let Count { files, good, accused, bad, missed, unjudged, dirty, slowest } = count;
        println!(
            "{language}: {files} files; good {good}, accused {accused}; bad {bad}, missed {missed}; unjudged {unjudged}; not clean before {dirty}; slowest {slowest:?}"
        );
    }
}

fn incremental(files: &[PathBuf]) {
    let mut counts: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for path in files {
        let Some((language, text)) =
            load(path).filter(|(_, text)| text.len() < 200_000 && text.lines().count() > 5)
        else {
            continue;
        };
        let count = counts.entry(language.name()).or_default();
        if count[0] >= 600 {
            continue;
        }
        let starts = line_starts(&text);
        let mut tree = Tree::parse(language, &text, Stop::NEVER).unwrap();
        let mut text = text;
        let mut random = Random(text.len() as u64);
        for at in 0..6 {
            let starts = if at == 0 { starts.clone() } else { line_starts(&text) };
            let edit = if at % 2 == 0 {
                good(&tree, &text, &starts, &mut random)
            } else {
                bad(&text, &starts, &mut random)
            };
            let Some(edit) = edit.filter(|edit| text.len() > edit.range.len()) else { continue };
            let edits = [edit];
            let after = text::apply(&text, &edits).unwrap();
            let again = tree.reparse(&text, &edits, &after, Stop::NEVER).unwrap();
            let full = Tree::parse(language, &after, Stop::NEVER).unwrap();
            let (a, b) = (again.errors(&after), full.errors(&after));
            count[0] += 1;
            count[1] += usize::from(a.is_empty() != b.is_empty());
            count[2] += usize::from(a != b);
            let whole = Comparison::of(&tree, &text, &edits, &after, Stop::NEVER).unwrap().1;
            count[3] += usize::from(at % 2 == 0 && !whole.new_errors.is_empty() && whole.was_broken);
            if a.is_empty() != b.is_empty() {
                println!("{} {edits:?}: again {} full {}", path.display(), a.len(), b.len());
            }
            tree = full;
            text = after;
        }
    }
    for (language, [all, broken, differ, accused]) in counts {
        println!(
            "{language}: {all} edits; broken or not differs {broken}; errors differ {differ}; good edit of a broken text accused {accused}"
        );
    }
}

fn parts(files: &[PathBuf]) {
    let mut counts: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for path in files {
        let Some((language, text)) = load(path).filter(|(_, text)| (8_000..400_000).contains(&text.len()))
        else {
            continue;
        };
        let count = counts.entry(language.name()).or_default();
        if count[0] >= 300 {
            continue;
        }
        let starts = line_starts(&text);
        let tree = Tree::parse(language, &text, Stop::NEVER).unwrap();
        if tree.is_broken(&text) {
            continue;
        }
        count[0] += 1;
        let mut random = Random(text.len() as u64);
        for at in 0..24 {
            let two = at % 8 > 5;
            let mut edits: Vec<TextEdit> = (0..1 + usize::from(two))
                .filter_map(|_| match at % 4 {
                    0 | 1 => good(&tree, &text, &starts, &mut random),
                    2 => bad(&text, &starts, &mut random),
                    _ => other(&text, &starts, &mut random),
                })
                .collect();
            edits.sort_by_key(|edit| edit.range.start);
            if edits.is_empty() || edits.windows(2).any(|two| two[0].range.end >= two[1].range.start) {
                continue;
            }
            let after = text::apply(&text, &edits).unwrap();
            let proven = tree.surely_parses(&text, &edits, Stop::NEVER).unwrap();
            let broken = Tree::parse(language, &after, Stop::NEVER).unwrap().is_broken(&after);
            count[if broken { 3 } else { 1 }] += 1;
            count[if broken { 4 } else { 2 }] += usize::from(proven);
            if proven && broken {
                println!("{} {edits:?}", path.display());
            }
        }
    }
    for (language, [files, good, proven, bad, wrong]) in counts {
        println!(
            "{language}: {files} files; parses {good}, proven {proven}; broken {bad}, proven to parse {wrong}"
        );
    }
}

/// An arbitrary edit: inserts a piece of the text elsewhere.
fn other(text: &str, starts: &[usize], random: &mut Random) -> Option<TextEdit> {
    let lines = |random: &mut Random, most: usize| {
        let first = random.below(starts.len());
        let last = (first + random.below(most)).min(starts.len() - 1);
        starts[first]..line_of(text, starts, last).end
    };
    let (at, from) = (lines(random, 4), lines(random, 12));
    Some(match random.below(3) {
        0 => TextEdit::insert(at.start, text[from].to_owned()),
        1 => TextEdit::replace(at, text[from].to_owned()),
        _ => {
            let words = [
                "/*",
                "*/",
                "\"\"\"",
                "`",
                "'",
                "#if X\n",
                "#endif\n",
                "\\\n",
                "@a\n",
                "r#\"",
                "${",
                "//",
                "#",
                "\n    x\n",
                "else {\n",
                "else:\n",
                "async\n",
                "<<",
            ];
            let word = words[random.below(words.len())];
            TextEdit::insert(
                if random.below(2) == 0 { at.start } else { at.end.saturating_sub(1) },
                word.to_owned(),
            )
        }
    })
}

fn speed(files: &[PathBuf]) {
    for path in files {
        let Some((language, text)) = load(path) else { continue };
        let starts = line_starts(&text);
        let timed = |work: &mut dyn FnMut()| {
            let mut times: Vec<Duration> = (0..20)
                .map(|_| {
                    let start = Work::now();
                    work();
                    start.elapsed()
                })
                .collect();
            times.sort();
            (times[10], times[19])
        };
        let memory = resident();
        let start = Work::now();
        let tree = Tree::parse(language, &text, Stop::NEVER).unwrap();
        let memory = (resident() - memory) as f64 / text.len() as f64;
        let whole = start.elapsed();
        let mut random = Random(7);
        let mut edits = Vec::new();
        while edits.len() < 20 {
            edits.extend(good(&tree, &text, &starts, &mut random));
        }
        let afters: Vec<String> =
            edits.iter().map(|edit| text::apply(&text, std::slice::from_ref(edit)).unwrap()).collect();
        let mut at = 0;
        let (again, again_worst) = timed(&mut || {
            Comparison::of(&tree, &text, &edits[at..=at], &afters[at], Stop::NEVER).unwrap();
            at = (at + 1) % edits.len();
        });
        let mut at = 0;
        let (near, near_worst) = timed(&mut || {
            Comparison::of_window(language, &text, &edits[at..=at], Stop::NEVER).unwrap();
            at = (at + 1) % edits.len();
        });
        let rate = whole.as_nanos() as f64 / text.len() as f64;
        println!(
            "{}: {} lines, {} KB, broken {}; whole {whole:.1?} ({rate:.0} ns and {memory:.0} bytes a byte); after an edit {again:.2?}, worst {again_worst:.2?}; window {near:.2?}, worst {near_worst:.2?}",
            path.display(),
            starts.len(),
            text.len() >> 10,
            tree.is_broken(&text),
        );
        let start = Work::now();
        drop(tree);
        println!("  dropped in {:.1?}", start.elapsed());
    }
}
