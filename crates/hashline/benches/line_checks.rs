//! What line checks and earlier versions are worth: thousands of edits with numbers from before the own last edit.
//!
//! Started by `cargo xtask bench hashline`. Figures only; the same with few files is a test. Real files of 50 to 10,000
//! lines are taken from cargo's registry and this project.

#![expect(clippy::print_stdout, reason = "its answer is a table on standard output")]

use std::path::{Path, PathBuf};

#[path = "../tests/suite/simulation.rs"]
mod simulation;

use simulation::{Tally, Way, simulate, texts};

const EDITS: usize = 5_000;
const SIZES: [(usize, usize); 3] = [(50, 199), (200, 1_999), (2_000, 10_000)];

fn main() {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let registry = home.unwrap_or_default().join("registry/src");
    println!("fresh tag, numbers from before the own last edit, {EDITS} edits a row");
    let mut sums = [[Tally::default(); 2]; 2];
    for (first, last) in SIZES {
        let mut files = texts(&registry, first..=last, 1_500);
        files.extend(texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), first..=last, 500));
        println!("\nfiles of {first} to {last} lines ({})", files.len());
        for checks in [true, false] {
            for retained in [true, false] {
                for two_anchors in [false, true] {
                    let tally = simulate(&files, Way { checks, retained, two_anchors }, EDITS, 1);
                    let sum = &mut sums[usize::from(checks)][usize::from(retained)];
                    sum.right += tally.right;
                    sum.refused += tally.refused;
                    sum.wrong += tally.wrong;
                    let with = if checks { "with checks" } else { "without" };
                    let kept = if retained { "version kept" } else { "evicted" };
                    let anchors = if two_anchors { "a range" } else { "one line" };
                    println!("  {with:<12} {kept:<13} {anchors:<9} {tally}");
                }
            }
        }
    }
    println!("\nall sizes, one line and ranges (aim with checks: none wrong while kept, 1 in 500 after)");
    for (checks, retained) in [(true, true), (true, false), (false, true), (false, false)] {
        let with = if checks { "with checks" } else { "without" };
        let kept = if retained { "version kept" } else { "evicted" };
        println!("  {with:<12} {kept:<13} {:<9} {}", "", sums[usize::from(checks)][usize::from(retained)]);
    }
}
