//! Time of one edit with one hunk, from the patch as text to the plan.
//!
//! `cargo xtask bench hashline` runs it; `cargo bench -p hashline --bench edits -- "rs, warm" 20000` measures
//! only figures with these words in their names, and these sizes. It makes no assertions. *plain* is the
//! engine alone, including parsing of the patch, with the text recorded before; *fresh* means that nothing
//! changed since, *stale* that five places did, far from the edit and unrecorded. The other figures include
//! the syntax check of a language: *warm* has the tree of the edited text, *full* parses it first, *window*
//! parses the lines around the edit. *cold* also records the text, as a process with one edit does. Files,
//! JSON and the start of the process are not measured.
//!
//! Times are processor times where the system reports them (Linux), which excludes other programs' work.

#![expect(clippy::print_stdout, reason = "its answer is a table on standard output")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should end with its location")]

use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hashline::{Block, Judgement, NoBlock, Options, Patch, SnapshotStore, Strategy, Syntax, Tag, plan};
use parking_lot::Mutex;
use syntax::{Comparison, Language, Stop, Tree};
use text::TextEdit;

const SIZES: [usize; 4] = [200, 2_000, 20_000, 200_000];
const LANGUAGES: [&str; 3] = ["ts", "rs", "py"];
/// Maximum time of a figure; a slow one gets fewer turns.
const BUDGET: Duration = Duration::from_secs(2);
const TURNS: usize = 300;
const FEWEST: usize = 7;

/// A syntax check that has the tree, parses the text, or parses the surroundings.
#[derive(Debug)]
enum Gate {
    Warm(Box<Tree>),
    /// The parsed tree becomes the next edit's, or another thread drops it.
    Full(Mutex<Option<Tree>>),
    Window,
}

impl Syntax for Gate {
    fn judge(&self, path: &str, _: &str, before: &Arc<str>, edits: &[TextEdit]) -> Option<Judgement> {
        let language = Language::of(path, before)?;
        let after = text::apply(before, edits).ok()?;
        let whole = |tree: &Tree| match tree.surely_parses(before, edits, Stop::NEVER) {
            Ok(true) => Some(Comparison { was_broken: false, new_errors: Vec::new() }),
            _ => Comparison::of(tree, before, edits, &after, Stop::NEVER).ok().map(|(_, it)| it),
        };
        let comparison = match self {
            Gate::Warm(tree) => whole(tree)?,
            Gate::Full(kept) => {
                let tree = Tree::parse(language, before, Stop::NEVER).ok()?;
                let comparison = whole(&tree)?;
                *kept.lock() = Some(tree);
                comparison
            }
            Gate::Window => Comparison::of_window(language, before, edits, Stop::NEVER).ok()??,
        };
        assert!(comparison.new_errors.is_empty() && !comparison.was_broken, "the texts parse");
        Some(Judgement::default())
    }

    fn block(&self, _: &str, _: &Arc<str>, _: usize) -> Result<Block, NoBlock> {
        Err(NoBlock::Unknown)
    }
}

/// A text of that many lines, one function after another, and the line to edit.
fn source(ending: &str, lines: usize) -> (String, usize, String) {
    const EACH: usize = 10;
    let mut text = String::new();
    for at in 0..lines / EACH {
        let rows: [String; EACH] = match ending {
            "rs" => [
                format!("/// Part {at} of the whole."),
                format!("pub fn part_{at}(input: &str, count: usize) -> Option<String> {{"),
                format!("    let limit = count + {at};"),
                "    if input.len() > limit {".into(),
                format!("        return input.get(..{at}).map(str::to_owned);"),
                "    }".into(),
                "    let words: Vec<&str> = input.split(' ').filter(|word| !word.is_empty()).collect();"
                    .into(),
                format!("    Some(format!(\"{{}} of {at}\", words.join(\"-\")))"),
                "}".into(),
                String::new(),
            ],
            "ts" => [
                format!("/** Part {at} of the whole. */"),
                format!("export function part{at}(input: string, count: number): string | undefined {{"),
                format!("  const limit = count + {at};"),
                "  if (input.length > limit) {".into(),
                format!("    return input.slice(0, {at});"),
                "  }".into(),
                "  const words: Array<string> = input.split(' ').filter((word) => word.length > 0);".into(),
                format!("  return `${{words.join('-')}} of {at}`;"),
                "}".into(),
                String::new(),
            ],
            _ => [
                format!("def part_{at}(text: str, count: int = 0) -> str | None:"),
                format!("    \"\"\"Part {at} of the whole.\"\"\""),
                format!("    limit = count + {at}"),
                "    if len(text) > limit:".into(),
                format!("        return text[:{at}]"),
                "    words = [word for word in text.split(' ') if word]".into(),
                "    words.sort(key=len)".into(),
                format!("    return f\"{{'-'.join(words)}} of {at}\""),
                String::new(),
                String::new(),
            ],
        };
        rows.iter().for_each(|row| {
            text.push_str(row);
            text.push('\n');
        });
    }
    let at = lines / EACH / 2;
    let row = match ending {
        "ts" => format!("  const limit = count - {at};"),
        "rs" => format!("    let limit = count - {at};"),
        _ => format!("    limit = count - {at}"),
    };
    (text, at * EACH + 3, row)
}

/// Changes five places, none near the middle, so that the text still parses.
fn drifted(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        let tenth = lines.len() / 100 * 10;
        if line.is_empty()
            && [1, 2, 3, 7, 8].iter().any(|part| (part * tenth..part * tenth + 10).contains(&at))
        {
            out.push('\n');
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// The thread's processor time since an arbitrary moment, or a clock's time.
fn now() -> Duration {
    // The system updates the processor time when it switches threads.
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|stat| stat.split(' ').next()?.parse().ok());
    static START: OnceLock<Instant> = OnceLock::new();
    nanos.map_or_else(|| START.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

struct Times(Vec<Duration>);

impl Times {
    /// Measures and prints one figure.
    fn row(figure: &str, lines: usize, aim: &str, once: impl FnMut() -> Duration) {
        if is_asked(figure, lines) {
            println!("{figure:<28} {lines:>8} {}  {aim}", Self::of(once).show());
        }
    }

    fn of(mut once: impl FnMut() -> Duration) -> Times {
        let started = Instant::now();
        let mut times = Vec::new();
        while times.len() < FEWEST || (times.len() < TURNS && started.elapsed() < BUDGET) {
            times.push(once());
        }
        times.sort();
        Times(times)
    }

    fn show(&self) -> String {
        let at =
            |part: usize| self.0[(self.0.len() * part / 100).min(self.0.len() - 1)].as_secs_f64() * 1_000.0;
        format!("{:>9.2} {:>9.2} ({:>3})", at(50), at(95), self.0.len())
    }
}

fn once(
    store: &mut SnapshotStore,
    path: &str,
    patch: &str,
    now: &Arc<str>,
    gate: Option<&Gate>,
    stale: bool,
) {
    let (patch, _) = Patch::parse(patch).unwrap();
    let current = |asked: &str| (asked == path).then(|| now.clone());
    let options = Options { syntax: gate.map(|gate| gate as &dyn Syntax), ..Options::default() };
    let made = plan(&patch, store, &current, options).unwrap();
    assert_eq!(made.sections[0].strategy == Strategy::Exact, !stale);
    black_box(made);
}

/// Whether the arguments select a figure; without arguments all are selected.
///
/// Numbers are sizes, words are parts of names.
fn is_asked(figure: &str, lines: usize) -> bool {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let (sizes, names): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|arg| arg.parse::<usize>().is_ok());
    (sizes.is_empty() || sizes.iter().any(|size| **size == lines.to_string()))
        && (names.is_empty() || names.iter().any(|name| figure.contains(name.as_str())))
}

fn main() {
    println!("{:<28} {:>8} {:>9} {:>9} {:>5}  aim (p95)", "ms", "lines", "median", "p95", "turns");
    for lines in SIZES {
        let aim = |aims: [&'static str; 4]| aims[SIZES.iter().position(|size| *size == lines).unwrap()];
        let read = |path: &str, text: &Arc<str>| -> (SnapshotStore, Tag) {
            let mut store = SnapshotStore::default();
            let tag = store.record(path, text.clone());
            store.see(path, tag, 1..=usize::MAX);
            (store, tag)
        };
        let (text, line, new) = source("py", lines);
        let (text, stale): (Arc<str>, Arc<str>) = (text.as_str().into(), drifted(&text).into());
        let patch =
            |path: &str, tag: Tag, line: usize, new: &str| format!("[{path}#{tag}]\nPUT {line}:\n+{new}\n");
        for (name, current, aims) in
            [("plain, fresh", &text, ["", "", "", ""]), ("plain, stale", &stale, ["", "1", "5", "80"])]
        {
            let (mut store, tag) = read("f.txt", &text);
            let patch = patch("f.txt", tag, line, &new);
            Times::row(name, lines, aim(aims), || {
                let started = now();
                once(&mut store, "f.txt", &patch, current, None, name.ends_with("stale"));
                now() - started
            });
        }
        for ending in LANGUAGES {
            let path = format!("f.{ending}");
            let (text, line, new) = source(ending, lines);
            let (text, stale): (Arc<str>, Arc<str>) = (text.as_str().into(), drifted(&text).into());
            let tree = |text: &Arc<str>| {
                let language = Language::of(&path, text).unwrap();
                Gate::Warm(Box::new(Tree::parse(language, text, Stop::NEVER).unwrap()))
            };
            let warm = ["", "2", "12", "120"];
            for (name, current, aims) in [("warm, fresh", &text, warm), ("warm, stale", &stale, warm)] {
                if !is_asked(&format!("{ending}, {name}"), lines) {
                    continue;
                }
                let (mut store, tag) = read(&path, &text);
                let (gate, patch) = (tree(current), patch(&path, tag, line, &new));
                Times::row(&format!("{ending}, {name}"), lines, aim(aims), || {
                    let started = now();
                    once(&mut store, &path, &patch, current, Some(&gate), name.ends_with("stale"));
                    now() - started
                });
            }
            for (name, gate, aims) in [
                ("cold, full", Gate::Full(Mutex::default()), ["", "20", "150", "1500"]),
                ("cold, window", Gate::Window, ["30", "30", "30", "30"]),
            ] {
                Times::row(&format!("{ending}, {name}"), lines, aim(aims), || {
                    if let Gate::Full(kept) = &gate {
                        drop(kept.lock().take());
                    }
                    let started = now();
                    let (mut store, tag) = read(&path, &text);
                    once(&mut store, &path, &patch(&path, tag, line, &new), &text, Some(&gate), false);
                    now() - started
                });
            }
        }
    }
}
