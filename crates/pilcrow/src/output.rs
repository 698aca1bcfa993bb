//! Standard output and standard error of the command line. A reader that went away (`| head`) ends
//! the process quietly; standard output holds answers only.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Write};

use serde::Serialize;

/// Writes `text` and a line end to standard output.
pub fn line(text: &str) {
    let stdout = std::io::stdout();
    let text = if stdout.is_terminal() { harmless(text) } else { Cow::Borrowed(text) };
    write(stdout.lock(), &text);
}

/// The same for what was said in a conversation: it is to be read, and `| less -R` is a terminal too.
pub fn said(text: &str) {
    write(std::io::stdout().lock(), &harmless(text));
}

/// `text` without what would be carried out by a terminal that shows it: what models, files and programs say is not
/// ours. Line ends and tabs stay; another control character becomes its picture.
fn harmless(text: &str) -> Cow<'_, str> {
    let acts = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().filter(|character| *character != '\r').map(|character| match character {
        _ if !acts(character) => character,
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    });
    Cow::Owned(shown.collect())
}

/// Writes `text` to standard output as it is.
pub fn part(text: &str) {
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

/// Writes `text` and a line end to standard error.
pub fn note(text: &str) {
    let stderr = std::io::stderr();
    let text = if stderr.is_terminal() { harmless(text) } else { Cow::Borrowed(text) };
    write(stderr.lock(), &text);
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

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn what_a_terminal_would_carry_out_is_shown_instead() {
        assert_eq!(harmless("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(harmless("\u{1b}]0;title\u{7}x\r\n\u{9b}2J\u{7f}"), "␛]0;title␇x\n\u{fffd}2J\u{fffd}");
    }
}
