//! The value of line checks and earlier versions, by edits with stale numbers.
//!
//! `cargo xtask bench hashline` runs it and prints figures; a test does the same with few files. Real files of
//! 50 to 10,000 lines come from cargo's registry and this project.

#![expect(clippy::print_stdout, reason = "its answer is a table on standard output")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashline::{Lines, View};

#[path = "../tests/suite/simulation.rs"]
mod simulation;

use simulation::{Past, Tally, Variant, simulate, texts};

const SIZES: [(usize, usize); 3] = [(50, 199), (200, 1_999), (2_000, 10_000)];

/// A name, and the row of a line.
type Form<'a> = (&'a str, &'a dyn Fn(&Lines, usize) -> String);

/// Prints the tokens (o200k) of rows in several forms, relative to the bare texts.
fn costs<'a>(files: impl Iterator<Item = &'a Arc<str>>) {
    let Ok(vocabulary) = tiktoken_rs::o200k_base() else { return };
    let count = |text: &str| vocabulary.encode_ordinary(text).len();
    let files: Vec<Lines> = files.step_by(10).map(|text| Lines::new(text.clone())).collect();
    let raw: usize = files.iter().map(|lines| count(lines.text())).sum();
    let checked = |lines: &Lines, line: usize| View::default().row(lines, line);
    let bare =
        |row: String, lines: &Lines, line| if lines.content(line).is_empty() { String::new() } else { row };
    let forms: [Form<'_>; 5] = [
        ("12kq, tab; empty lines bare (in force)", &|lines, line| bare(checked(lines, line), lines, line)),
        ("12kq, tab", &checked),
        ("12kq, colon", &|lines, line| checked(lines, line).replacen('\t', ":", 1)),
        ("12, tab; empty lines bare", &|lines, line| bare(View::PLAIN.row(lines, line), lines, line)),
        ("12, tab; empty lines bare; check on every fifth", &|lines, line| match line % 5 {
            0 => checked(lines, line),
            _ => bare(View::PLAIN.row(lines, line), lines, line),
        }),
    ];
    println!("tokens of {} files, relative to their text", files.len());
    for (name, row) in forms {
        let shown =
            |lines: &Lines| (1..=lines.count()).map(|line| row(lines, line) + "\n").collect::<String>();
        let tokens: usize = files.iter().map(|lines| count(&shown(lines))).sum();
        println!("  {name:<50} {:.3}", tokens as f64 / raw.max(1) as f64);
    }
    println!();
}

fn main() {
    // Edits per row; `cargo bench` adds arguments of its own.
    let edits = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(5_000);
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let registry = home.unwrap_or_default().join("registry/src");
    let files = SIZES.map(|(first, last)| {
        let mut files = texts(&registry, first..=last, 1_500);
        files.extend(texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), first..=last, 500));
        println!("{} files of {first} to {last} lines", files.len());
        files
    });
    costs(files.iter().flatten());
    println!(
        "fresh tag, {edits} edits a size and row; aim with checks: none wrong while kept, 1 in 500 after"
    );
    for checks in [true, false] {
        for (stale, own) in [(true, true), (true, false), (false, true), (false, false)] {
            let numbers = if stale { "from before" } else { "of that tag" };
            let whose = if own { "the own edit" } else { "another's edit" };
            let with = if checks { "checks" } else { "plain" };
            println!("\n{with}, numbers {numbers}, after {whose}");
            for past in [Past::Kept, Past::Evicted, Past::Gone] {
                for two_anchors in [false, true] {
                    let anchors = if two_anchors { "a range" } else { "one line" };
                    let mut sum = Tally::default();
                    for files in &files {
                        let variant = Variant { checks, past, stale, own, two_anchors };
                        let tally = simulate(files, variant, edits, 1);
                        sum.right += tally.right;
                        sum.refused += tally.refused;
                        sum.wrong += tally.wrong;
                    }
                    println!("  {:<8} {anchors:<9} {sum}", format!("{past:?}").to_lowercase());
                }
            }
        }
    }
}
