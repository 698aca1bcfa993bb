//! A terminal and a program in it: its screen, and the user's keys.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::processes::wait_for;

/// A program whose three streams are a terminal of its own.
pub struct Terminal {
    pub child: Child,
    keys: File,
    shown: Arc<Mutex<Vec<u8>>>,
    columns: usize,
}

impl Terminal {
    /// Starts `command` in a new terminal without a width.
    pub fn start(command: &mut Command) -> Terminal {
        Terminal::start_wide(command, 0)
    }

    /// Starts a command in a terminal with this many columns.
    pub fn start_wide(command: &mut Command, columns: u16) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("this process owns the terminal");
        unlockpt(&master).expect("the terminal can be opened");
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("the terminal accepts a size");
        let name = ptsname(&master, Vec::new()).expect("the terminal has a name");
        let path = std::path::Path::new(name.to_str().expect("a path"));
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let end = || {
            let end = rustix::fs::open(path, flags, rustix::fs::Mode::empty());
            Stdio::from(end.expect("its other end"))
        };
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("it starts");
        // The ends that the command holds would keep the terminal open.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let keys = File::from(master);
        let mut screen = keys.try_clone().expect("its screen");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let fills = Arc::clone(&shown);
        // The thread ends with the terminal: the last holder of its other end closes it.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                fills.lock().extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { child, keys, shown, columns: usize::from(columns) }
    }

    /// The visible rows without empty ones.
    pub fn rows(&self) -> Vec<String> {
        let rows = rows(&self.shown(), self.columns);
        rows.into_iter().map(|row| row.trim_end().to_owned()).filter(|row| !row.is_empty()).collect()
    }

    /// The whole output so far, with control sequences.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock()).into_owned()
    }

    /// Waits until `text` is shown.
    #[track_caller]
    pub fn waits_for(&self, text: &str, deadline: Duration) {
        let came = wait_for(deadline, || self.shown().contains(text));
        assert!(came, "{text:?} was not shown: {}", self.shown());
    }

    /// Sends `keys` to the program unchanged, control characters too.
    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it takes keys");
    }

    /// Waits for the end of the program; panics after `deadline`.
    #[track_caller]
    pub fn ends(&mut self, deadline: Duration) -> ExitStatus {
        let mut status = None;
        let ended = wait_for(deadline, || {
            status = self.child.try_wait().expect("the process can be awaited");
            status.is_some()
        });
        assert!(ended, "it did not end: {}", self.shown());
        status.expect("it ended")
    }
}

/// Interprets the output of a terminal as rows.
///
/// Handles line ends, returns, and erasing to the end of a row. Zero columns: rows of any length.
fn rows(shown: &str, columns: usize) -> Vec<String> {
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut rest = shown;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\u{1b}[K") {
            rows[row].truncate(column);
            rest = after;
            continue;
        }
        rest = &rest[character.len_utf8()..];
        match character {
            '\r' => column = 0,
            '\n' => row += 1,
            _ => {
                if column == columns && columns > 0 {
                    (row, column) = (row + 1, 0);
                }
                rows.resize(rows.len().max(row + 1), Vec::new());
                let at = &mut rows[row];
                at.resize(at.len().max(column + 1), ' ');
                at[column] = character;
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), Vec::new());
    }
    rows.into_iter().map(String::from_iter).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn rows_are_overwritten_cleared_and_wrapped() {
        let rows = |shown: &str| super::rows(shown, 5);
        assert_eq!(rows("one\r\ntwo\rT"), ["one", "Two"]);
        assert_eq!(rows("first\rx\u{1b}[K"), ["x"]);
        assert_eq!(rows("12345"), ["12345"]);
        assert_eq!(rows("1234567\r\u{1b}[Kx"), ["12345", "x"]);
    }
}
