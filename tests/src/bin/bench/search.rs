//! Searches of a large tree, compared with `rg`, else `grep -r`, and `find`.
//!
//! The tree contains the sources that cargo has downloaded, or is the one that `PILCROW_BENCH_TREE`
//! names.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Batch, Sandbox};

use crate::{Times, row};

const ROUNDS: usize = 11;

/// A pattern with the options of each program.
struct Case {
    name: &'static str,
    arguments: Value,
    rg: &'static [&'static str],
    grep: &'static [&'static str],
}

pub(crate) fn search() {
    let Some(tree) = tree() else {
        return row("search", "-".to_owned(), "", "no tree: PILCROW_BENCH_TREE names one");
    };
    let sandbox = Sandbox::new();
    let mut batch = Batch::start_in(&sandbox, &tree);
    let cases = [
        Case {
            name: "rare word",
            arguments: json!({"pattern": "unsafe_op_in_unsafe_fn"}),
            rg: &["unsafe_op_in_unsafe_fn"],
            grep: &["unsafe_op_in_unsafe_fn"],
        },
        Case { name: "frequent word", arguments: json!({"pattern": "let"}), rg: &["let"], grep: &["let"] },
        Case {
            name: "regex",
            arguments: json!({"pattern": "fn [a-z]+_[a-z]+\\(&mut self"}),
            rg: &["fn [a-z]+_[a-z]+\\(&mut self"],
            grep: &["-E", "fn [a-z]+_[a-z]+\\(&mut self"],
        },
        Case {
            name: "any case",
            arguments: json!({"pattern": "todo", "ignore_case": true}),
            rg: &["-i", "todo"],
            grep: &["-i", "todo"],
        },
    ];
    let has_rg = Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_ok();
    for case in cases {
        let answer = batch.call("grep", &case.arguments);
        answer.ok();
        let details = answer.value["details"].clone();
        let own_times = times(|| {
            batch.call("grep", &case.arguments).ok();
        });
        let other_times = times(|| {
            let (program, arguments) = if has_rg {
                ("rg", [&["-c", "--no-require-git"], case.rg].concat())
            } else {
                ("grep", [&["-rIc"], case.grep].concat())
            };
            let mut command = Command::new(program);
            command.args(arguments).arg(&tree).env("LC_ALL", "C").stdout(Stdio::null());
            command.status().expect("the other program runs");
        });
        let other = if has_rg { "rg" } else { "grep -r" };
        let meaning = format!(
            "grep, {} hits in {} of {} files of {}; median of {ROUNDS}",
            details["hits"],
            details["files_with_hits"],
            details["searched"],
            tree.display()
        );
        compared(case.name, &own_times, other, &other_times, &meaning);
    }
    let arguments = json!({"pattern": "*config*.rs"});
    let answer = batch.call("find", &arguments);
    answer.ok();
    let own_times = times(|| {
        batch.call("find", &arguments).ok();
    });
    let other_times = times(|| {
        let mut command = Command::new("find");
        command.arg(&tree).args(["-name", "*config*.rs"]).stdout(Stdio::null());
        command.status().expect("find runs");
    });
    let meaning =
        format!("{} of {} names", answer.value["details"]["found"], answer.value["details"]["looked"]);
    compared("names", &own_times, "find", &other_times, &meaning);
}

fn compared(name: &str, own_times: &Times, other: &str, other_times: &Times, meaning: &str) {
    let (a, b) = (own_times.percentile(50), other_times.percentile(50));
    row(&format!("search, {name}"), format!("{a:.1} ms"), "", meaning);
    row(
        &format!("search, {name}, {other}"),
        format!("{b:.1} ms"),
        "",
        "the same asked of it, its start included",
    );
    row(&format!("search, {name}, ratio"), format!("{:.2}", a / b), "2", "Pilcrow to the other");
}

fn times(mut once: impl FnMut()) -> Times {
    Times::of(ROUNDS, || -> Duration {
        let started = Instant::now();
        once();
        started.elapsed()
    })
}

fn tree() -> Option<PathBuf> {
    if let Some(tree) = std::env::var_os("PILCROW_BENCH_TREE") {
        return Some(tree.into());
    }
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")))?;
    Some(cargo.join("registry/src")).filter(|tree| tree.is_dir())
}
