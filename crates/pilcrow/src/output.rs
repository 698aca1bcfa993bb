//! Standard output and standard error of the command line. A reader that went away (`| head`) ends
//! the process quietly; standard output holds answers only.

use std::io::{ErrorKind, Write};

use serde::Serialize;

/// Writes `text` and a line end to standard output.
pub fn line(text: &str) {
    write(std::io::stdout().lock(), text);
}

/// Writes `text` to standard output as it is.
pub fn part(text: &str) {
    let mut stdout = std::io::stdout().lock();
    ended(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Writes `value` as one line of JSON to standard output.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => note(&format!("the answer cannot be written as JSON: {error}")),
    }
}

/// Writes `text` and a line end to standard error.
pub fn note(text: &str) {
    write(std::io::stderr().lock(), text);
}

/// Writes a part of a line to standard error, as it is.
pub fn note_part(text: &str) {
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
    if let Err(error) = written {
        // Nobody reads any more; what was begun is whole or undone by its own rules.
        std::process::exit(if error.kind() == ErrorKind::BrokenPipe { 0 } else { 1 });
    }
}
