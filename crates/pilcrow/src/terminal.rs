//! Questions to the user at a terminal.
//!
//! They go to standard error, and answers come from standard input. If either is not a terminal, the command
//! is unattended.

use std::borrow::Cow;
use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host::escaping::{escape_invisible, escape_invisible_line};
use policy::{Answer, Approver, Choice, Chosen, Question, QuestionKind, Unattended};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::output;
use crate::render::{Screen, colored_diff};

/// Maximum number of lines of a diff shown with a question.
const MAX_LINES: usize = 120;

/// Asks one question at a time.
struct Terminal {
    lines: Mutex<Lines>,
}

/// Lines of standard input, each read on demand.
#[derive(Default)]
struct Lines {
    reader: Option<Reader>,
}

/// The thread that reads standard input.
///
/// Nothing can stop it while it reads; it owns nothing and ends with the process.
struct Reader {
    requests: std::sync::mpsc::Sender<()>,
    lines: mpsc::UnboundedReceiver<String>,
    /// Whether a line was requested and not yet received.
    ///
    /// This happens if the question was withdrawn.
    is_reading: bool,
}

/// Whether the user can be asked: standard input and standard error are terminals.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns the approver of this process: the terminal, if there is one.
pub fn approver() -> Arc<dyn Approver> {
    if is_interactive() { Arc::new(Terminal { lines: Mutex::default() }) } else { Arc::new(Unattended) }
}

impl Approver for Terminal {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match self.answer(&question_text(&question, Screen::of_stderr()), cancel).await {
                Reply::Line(line) => parse_answer(line.trim()),
                Reply::Cancelled => Answer::No { text: String::new() },
                Reply::Unattended => Answer::Unattended,
            }
        })
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(async move {
            match self.answer(&choice_text(&choice), cancel).await {
                Reply::Line(line) => parse_choice(line.trim(), &choice.options),
                Reply::Cancelled => Chosen::Dismissed,
                Reply::Unattended => Chosen::Unattended,
            }
        })
    }
}

/// The outcome of a question.
enum Reply {
    Line(String),
    Cancelled,
    Unattended,
}

impl Terminal {
    /// Shows `text` and waits for a line.
    ///
    /// Other tasks may write to the terminal meanwhile.
    async fn answer(&self, text: &str, cancel: &CancellationToken) -> Reply {
        let answer = async {
            let mut lines = self.lines.lock().await;
            lines.drop_stale();
            let _asking = output::Asking::begin();
            let shown = {
                let mut stderr = std::io::stderr().lock();
                stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush())
            };
            match shown {
                Ok(()) => lines.next().await,
                Err(_) => None,
            }
        };
        tokio::select! {
            // Cancel safety: `drop_stale` drops a line that arrives later.
            () = cancel.cancelled() => Reply::Cancelled,
            line = answer => line.map_or(Reply::Unattended, Reply::Line),
        }
    }
}

impl Lines {
    /// Drops a line that answers a withdrawn question.
    fn drop_stale(&mut self) {
        if let Some(reader) = &mut self.reader
            && reader.is_reading
            && reader.lines.try_recv().is_ok()
        {
            reader.is_reading = false;
        }
    }

    /// Reads the next line; `None` at the end of the input.
    ///
    /// If cancelled, the line remains for [`Self::drop_stale`].
    async fn next(&mut self) -> Option<String> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(Reader::start()?),
        };
        if !reader.is_reading {
            reader.requests.send(()).ok()?;
            reader.is_reading = true;
        }
        let line = reader.lines.recv().await;
        reader.is_reading = false;
        line
    }
}

impl Reader {
    fn start() -> Option<Self> {
        let (requests, requested) = std::sync::mpsc::channel();
        let (sender, lines) = mpsc::unbounded_channel();
        // Bounded by `requests`: one line for each.
        let read = move || {
            while requested.recv().is_ok() {
                let mut line = String::new();
                match std::io::stdin().lock().read_line(&mut line) {
                    Ok(1..) if sender.send(line).is_ok() => {}
                    _ => return,
                }
            }
        };
        match std::thread::Builder::new().name("answers".to_owned()).spawn(read) {
            Ok(_ends_with_the_process) => Some(Self { requests, lines, is_reading: false }),
            Err(error) => {
                tracing::warn!(%error, "cannot read answers from the terminal");
                None
            }
        }
    }
}

fn choice_text(choice: &Choice) -> String {
    let mut shown = format!("\n{}\n", escape_invisible(&choice.question));
    for (at, option) in choice.options.iter().enumerate() {
        shown.push_str(&format!("  {}. {}\n", at + 1, escape_invisible_line(option)));
    }
    shown.push_str("Number or text: ");
    shown
}

/// Renders a question; a diff in colour on a `screen`.
fn question_text(question: &Question, screen: Option<Screen>) -> String {
    let mut shown = format!("\n{}\n", escape_invisible_line(&question.title));
    let detail = escape_invisible(&question.detail);
    let detail = match screen.filter(|_| question.kind == QuestionKind::Write) {
        Some(screen) => Cow::Owned(colored_diff(&detail, screen).0),
        None => detail,
    };
    let lines: Vec<&str> = detail.lines().collect();
    for line in lines.iter().take(MAX_LINES) {
        shown.push_str(&format!("  {line}\n"));
    }
    if lines.len() > MAX_LINES {
        shown.push_str(&format!("  … {} more lines\n", lines.len() - MAX_LINES));
    }
    let session = if question.kind == QuestionKind::Trust { "" } else { "[s]ession, " };
    shown.push_str(&format!("[y] allow once, {session}[a]lways, [n] deny (or type a reason): "));
    shown
}

fn parse_choice(line: &str, options: &[String]) -> Chosen {
    let by_number = line.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
    match by_number {
        Some(option) => Chosen::Said(option.clone()),
        None if line.is_empty() => Chosen::Dismissed,
        None => Chosen::Said(line.to_owned()),
    }
}

fn parse_answer(line: &str) -> Answer {
    match line.to_lowercase().as_str() {
        "y" | "yes" => Answer::Once,
        "s" | "session" => Answer::Session,
        "a" | "always" => Answer::Always,
        "" | "n" | "no" => Answer::No { text: String::new() },
        _ => Answer::No { text: line.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_selects_an_option_other_input_is_text() {
        let options = ["red".to_owned(), "blue".to_owned()];
        assert_eq!(parse_choice("2", &options), Chosen::Said("blue".into()));
        assert_eq!(parse_choice("3", &options), Chosen::Said("3".into()));
        assert_eq!(parse_choice("0", &options), Chosen::Said("0".into()));
        assert_eq!(parse_choice("green, please", &options), Chosen::Said("green, please".into()));
        assert_eq!(parse_choice("", &options), Chosen::Dismissed);
    }

    #[test]
    fn questions_escape_control_characters() {
        let question = Question {
            kind: QuestionKind::Exec,
            title: "Run `a\nRun ls?`".into(),
            detail: "echo HIDDEN #\u{1b}[1A\u{1b}[2K\rRun ls?\u{1b}[8m\u{202e}".into(),
            files: Vec::new(),
        };
        let shown = question_text(&question, None);
        let expected = "\nRun `a␊Run ls?`\n  echo HIDDEN #␛[1A␛[2K␍Run ls?␛[8m\\u{202e}\n[y] allow";
        assert!(shown.starts_with(expected), "{shown:?}");
        let choice = Choice { question: "Which?\u{1b}c".into(), options: vec!["a\r\nb".into()] };
        assert_eq!(choice_text(&choice), "\nWhich?␛c\n  1. a␊b\nNumber or text: ");
    }

    #[test]
    fn a_question_about_a_change_shows_its_diff_in_colour() {
        let question = Question {
            kind: QuestionKind::Write,
            title: "rename a to b: 1 file, +1 −1".into(),
            detail: "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+b = 1\n".into(),
            files: vec!["x.py".into()],
        };
        let shown = question_text(&question, Some(Screen { width: 80, color: true }));
        expect_test::expect![[r#"

            rename a to b: 1 file, +1 −1
              ^[36m--- a/x.py^[0m
              ^[36m+++ b/x.py^[0m
              ^[36m@@ -1 +1 @@^[0m
              ^[31m-^[7m^[31ma^[0m^[31m = 1^[0m
              ^[32m+^[7m^[32mb^[0m^[32m = 1^[0m
            [y] allow once, [s]ession, [a]lways, [n] deny (or type a reason): "#]]
        .assert_eq(&shown.replace('\x1b', "^"));
    }

    #[test]
    fn only_a_clear_yes_permits() {
        assert_eq!(parse_answer("Y"), Answer::Once);
        assert_eq!(parse_answer("always"), Answer::Always);
        assert_eq!(parse_answer(""), Answer::No { text: String::new() });
        assert_eq!(parse_answer("yep, but not a.py"), Answer::No { text: "yep, but not a.py".into() });
    }
}
