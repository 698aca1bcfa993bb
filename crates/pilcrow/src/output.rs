//! Standard output and standard error of the command line.
//!
//! Standard output holds results only. A closed pipe (`| head`) cancels a command that handles cancellation,
//! and ends any other silently.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use host::escaping::{escape_controls, escape_invisible_line};
use host::redaction;
use serde::Serialize;

use crate::stop;

static INCOMPLETE: AtomicBool = AtomicBool::new(false);
/// Whether the last line on standard error is one that the next replaces.
static TRANSIENT: AtomicBool = AtomicBool::new(false);
/// Whether a question is open on standard error, whose line is not replaced.
static ASKING: AtomicBool = AtomicBool::new(false);
/// Control sequence that moves to the start of the row and erases it.
const CLEAR: &str = "\r\x1b[K";
/// Assumed width of a terminal that does not report it.
const COLUMNS: usize = 80;

/// The width of the terminal `stream`.
pub fn columns(stream: impl AsFd) -> usize {
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { COLUMNS } else { columns }
}

/// Writes rendered text, which has its own colours, to standard output.
pub fn rendered(text: &str) {
    clear();
    write(std::io::stdout().lock(), text);
}

/// Writes `text` and a line end to standard output.
pub fn line(text: &str) {
    clear();
    let stdout = std::io::stdout();
    let text = if stdout.is_terminal() { escape_controls(text) } else { Cow::Borrowed(text) };
    write(stdout.lock(), &text);
}

/// Writes text of a conversation to standard output.
///
/// Always escapes control characters, because `| less -R` interprets them too.
pub fn conversation(text: &str) {
    clear();
    write(std::io::stdout().lock(), &escape_controls(text));
}

/// Writes `text` to standard output without a line end.
pub fn part(text: &str) {
    clear();
    let stdout = std::io::stdout();
    let text = if stdout.is_terminal() { escape_controls(text) } else { Cow::Borrowed(text) };
    let mut stdout = stdout.lock();
    finish(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Writes `value` as one line of JSON to standard output.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => note(&format!("cannot write the result as JSON: {error}")),
    }
}

/// Writes redacted `text` and a line end to standard error.
///
/// An error may quote any text.
pub fn note(text: &str) {
    clear();
    let stderr = std::io::stderr();
    let text = redaction::redact(text);
    let text = if stderr.is_terminal() { escape_controls(&text) } else { text };
    write(stderr.lock(), &text);
}

/// Writes a line to standard error that the next output replaces.
///
/// Does nothing unless standard error is a terminal that can erase a line, without an open
/// question. Cuts the line to the terminal's width, because only the last row can be erased.
pub fn transient(text: &str) {
    let stderr = std::io::stderr();
    let is_plain = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    if !stderr.is_terminal() || is_plain || ASKING.load(Ordering::Relaxed) {
        return;
    }
    let columns = columns(&stderr);
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = redaction::redact(&text);
    // Leaves room for `^C`.
    let text: String = escape_invisible_line(&text).chars().take(columns.saturating_sub(3)).collect();
    write_part(&format!("{CLEAR}{text}"));
    TRANSIENT.store(true, Ordering::Relaxed);
}

/// An open question at the terminal, which no transient line replaces.
pub struct Asking(());

impl Asking {
    pub fn begin() -> Self {
        ASKING.store(true, Ordering::Relaxed);
        clear();
        Self(())
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.store(false, Ordering::Relaxed);
        // The terminal shows `^C` after the question.
        if stop::interrupted() {
            write_part("\n");
        }
    }
}

/// Erases a transient line.
pub fn clear() {
    if TRANSIENT.swap(false, Ordering::Relaxed) {
        write_part(CLEAR);
    }
}

fn write_part(text: &str) {
    let mut stderr = std::io::stderr().lock();
    if let Err(error) = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()) {
        tracing::debug!(%error, "cannot write to standard error");
    }
}

fn write(mut to: impl Write, text: &str) {
    let written = to
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { to.write_all(b"\n") })
        .and_then(|()| to.flush());
    finish(written);
}

fn finish(written: std::io::Result<()>) {
    let Err(error) = written else { return };
    let has_reader = error.kind() != ErrorKind::BrokenPipe;
    if has_reader {
        INCOMPLETE.store(true, Ordering::Relaxed);
    }
    // A command that handles cancellation ends in order; any other can exit at any point.
    if !stop::close_surface() {
        std::process::exit(i32::from(has_reader));
    }
}

/// Whether output was lost although it has a reader.
///
/// A full disk is an example.
pub fn is_incomplete() -> bool {
    INCOMPLETE.load(Ordering::Relaxed)
}
