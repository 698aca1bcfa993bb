//! Progress output: a line when a step begins and one when it ends, with its time.
//!
//! Lines go to standard error, so that standard output holds results only.

use std::time::{Duration, Instant};

use anyhow::Result;

/// The steps of one command, in order, with their times.
pub(crate) struct Steps {
    started: Instant,
    /// Title and time of each step; `None` for a step that was ignored.
    done: Vec<(String, Option<Duration>)>,
}

impl Steps {
    pub(crate) fn new() -> Steps {
        Steps { started: Instant::now(), done: Vec::new() }
    }

    /// Runs one step and reports its result and time; an error ends the command.
    pub(crate) fn run<T>(&mut self, title: &str, step: impl FnOnce() -> Result<(T, String)>) -> Result<T> {
        eprintln!("==> {title}");
        let started = Instant::now();
        let outcome = step();
        let took = started.elapsed();
        match outcome {
            Ok((value, said)) => {
                let said = if said.is_empty() { "done".to_owned() } else { said };
                eprintln!("    {said} ({})", seconds(took));
                self.done.push((title.to_owned(), Some(took)));
                Ok(value)
            }
            Err(error) => {
                eprintln!("    failed after {}", seconds(took));
                Err(error.context(format!("step failed: {title}")))
            }
        }
    }

    /// Reports a step that does not run as ignored.
    pub(crate) fn ignore(&mut self, title: &str, reason: &str) {
        eprintln!("==> {title}\n    ignored: {reason}");
        self.done.push((title.to_owned(), None));
    }

    /// The number of ignored steps.
    pub(crate) fn ignored(&self) -> usize {
        self.done.iter().filter(|(_, took)| took.is_none()).count()
    }

    pub(crate) fn total(&self) -> Duration {
        self.started.elapsed()
    }

    /// A table of the steps and their times, for the end of a command.
    pub(crate) fn table(&self) -> String {
        let width = self.done.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0).max(5);
        let mut out = String::new();
        for (title, took) in &self.done {
            let took = took.map_or_else(|| "ignored".to_owned(), seconds);
            out.push_str(&format!("  {title:<width$}  {took:>8}\n"));
        }
        out.push_str(&format!("  {:<width$}  {:>8}\n", "total", seconds(self.total())));
        out
    }
}

/// Renders a duration: `0.42 s`, `3 min 05 s`.
pub(crate) fn seconds(took: Duration) -> String {
    let whole = took.as_secs();
    if whole >= 60 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        format!("{:.2} s", took.as_secs_f64())
    }
}
