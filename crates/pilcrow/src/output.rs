//! Standard output and standard error of the command line; standard output holds answers only. A reader that went away
//! (`| head`) stops a command that can be stopped, and ends any other quietly.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use host::harmless::{harmless, unmasked_line};
use host::shown;
use serde::Serialize;

use crate::stop;

static INCOMPLETE: AtomicBool = AtomicBool::new(false);
/// Whether a line is shown that the next one replaces.
static FLEETING: AtomicBool = AtomicBool::new(false);
/// Back to the start of the row, and the row emptied.
const CLEAR: &str = "\r\x1b[K";
/// Of a terminal that does not say how wide it is.
const COLUMNS: usize = 80;

/// Writes `text` and a line end to standard output.
pub fn line(text: &str) {
    clear();
    let stdout = std::io::stdout();
    let text = if stdout.is_terminal() { harmless(text) } else { Cow::Borrowed(text) };
    write(stdout.lock(), &text);
}

/// The same for what was said in a conversation: it is to be read, and `| less -R` is a terminal too.
pub fn said(text: &str) {
    clear();
    write(std::io::stdout().lock(), &harmless(text));
}

/// Writes `text` to standard output as it is.
pub fn part(text: &str) {
    clear();
    let stdout = std::io::stdout();
    let text = if stdout.is_terminal() { harmless(text) } else { Cow::Borrowed(text) };
    let mut stdout = stdout.lock();
    ended(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Writes `value` as one line of JSON to standard output.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => note(&format!("the answer cannot be written as JSON: {error}")),
    }
}

/// Writes `text` and a line end to standard error, without secrets: what went wrong may quote anybody.
pub fn note(text: &str) {
    clear();
    let stderr = std::io::stderr();
    let text = shown::redacted(text);
    let text = if stderr.is_terminal() { harmless(&text) } else { text };
    write(stderr.lock(), &text);
}

/// Writes a line to standard error that whatever is written next takes the place of; nothing where that is no terminal.
/// No longer than the terminal is wide: of one that goes on in the next row only that would be replaced.
pub fn fleeting(text: &str) {
    let stderr = std::io::stderr();
    if !stderr.is_terminal() {
        return;
    }
    let columns = rustix::termios::tcgetwinsize(&stderr).map_or(0, |size| usize::from(size.ws_col));
    let columns = if columns == 0 { COLUMNS } else { columns };
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = shown::redacted(&text);
    // Ctrl-C is shown in the same row.
    let text: String = unmasked_line(&text).chars().take(columns.saturating_sub(3)).collect();
    write_part(&format!("{CLEAR}{text}"));
    FLEETING.store(true, Ordering::Relaxed);
}

/// Takes such a line away, if one is shown.
fn clear() {
    if FLEETING.swap(false, Ordering::Relaxed) {
        write_part(CLEAR);
    }
}

fn write_part(text: &str) {
    let mut stderr = std::io::stderr().lock();
    if let Err(error) = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()) {
        tracing::debug!(%error, "standard error takes no more");
    }
}

fn write(mut to: impl Write, text: &str) {
    let written = to
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { to.write_all(b"\n") })
        .and_then(|()| to.flush());
    ended(written);
}

fn ended(written: std::io::Result<()>) {
    let Err(error) = written else { return };
    let is_read = error.kind() != ErrorKind::BrokenPipe;
    if is_read {
        INCOMPLETE.store(true, Ordering::Relaxed);
    }
    // What is stopped in order keeps what it did; the rest changes nothing, or is undone by its own rules.
    if !stop::went_away() {
        std::process::exit(i32::from(is_read));
    }
}

/// Whether something could not be written that somebody would have read: the disk is full, and not the reader gone.
pub fn is_incomplete() -> bool {
    INCOMPLETE.load(Ordering::Relaxed)
}
