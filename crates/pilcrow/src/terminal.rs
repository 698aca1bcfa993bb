//! Asking the person at a terminal. Questions go to standard error and answers come from standard
//! input; when either is no terminal there is nobody to ask.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host::harmless::{unmasked, unmasked_line};
use policy::{Answer, Approver, Choice, Chosen, Question, Unattended};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

/// The longest diff shown with a question.
const MAX_LINES: usize = 120;

/// Asks one question at a time.
struct Terminal {
    lines: Mutex<Lines>,
}

/// Lines of standard input, each read when it is asked for.
#[derive(Default)]
struct Lines {
    reader: Option<Reader>,
}

/// The thread that reads. It cannot be stopped while it does; it holds nothing and ends with the process.
struct Reader {
    wanted: std::sync::mpsc::Sender<()>,
    read: mpsc::UnboundedReceiver<String>,
    /// A line was asked for and nobody took it: the question was taken back.
    is_reading: bool,
}

/// Whether there is a terminal at both ends, and so somebody who can be asked.
pub fn is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The approver of this process: the terminal, if there is one.
pub fn approver() -> Arc<dyn Approver> {
    if is_there() { Arc::new(Terminal { lines: Mutex::default() }) } else { Arc::new(Unattended) }
}

impl Approver for Terminal {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match self.answer(&question_text(&question), cancel).await {
                Heard::Line(line) => understand(line.trim()),
                Heard::Cancelled => Answer::No { text: String::new() },
                Heard::Unattended => Answer::Unattended,
            }
        })
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(async move {
            match self.answer(&choice_text(&choice), cancel).await {
                Heard::Line(line) => chosen(line.trim(), &choice.options),
                Heard::Cancelled => Chosen::Dismissed,
                Heard::Unattended => Chosen::Unattended,
            }
        })
    }
}

/// What came of a question.
enum Heard {
    Line(String),
    Cancelled,
    Unattended,
}

impl Terminal {
    /// Shows `text` and waits for a line. Others may write meanwhile: what happens is told while a question stands.
    async fn answer(&self, text: &str, cancel: &CancellationToken) -> Heard {
        let asked = async {
            let mut lines = self.lines.lock().await;
            lines.drop_stale();
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
            // Dropping the wait loses nothing: no answer was given, and the line that comes is nobody's.
            () = cancel.cancelled() => Heard::Cancelled,
            line = asked => line.map_or(Heard::Unattended, Heard::Line),
        }
    }
}

impl Lines {
    /// A line that was typed to a question that is over answers no other.
    fn drop_stale(&mut self) {
        if let Some(reader) = &mut self.reader
            && reader.is_reading
            && reader.read.try_recv().is_ok()
        {
            reader.is_reading = false;
        }
    }

    /// The next line; `None` at the end of the input. A line that nobody waits for any more is kept for
    /// [`Self::drop_stale`].
    async fn next(&mut self) -> Option<String> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(Reader::start()?),
        };
        if !reader.is_reading {
            reader.wanted.send(()).ok()?;
            reader.is_reading = true;
        }
        let line = reader.read.recv().await;
        reader.is_reading = false;
        line
    }
}

impl Reader {
    fn start() -> Option<Self> {
        let (wanted, wants) = std::sync::mpsc::channel();
        let (says, read) = mpsc::unbounded_channel();
        // Bounded by `wanted`: a line for each time that one is asked for.
        let reads = move || {
            while wants.recv().is_ok() {
                let mut line = String::new();
                match std::io::stdin().lock().read_line(&mut line) {
                    Ok(1..) if says.send(line).is_ok() => {}
                    _ => return,
                }
            }
        };
        match std::thread::Builder::new().name("answers".to_owned()).spawn(reads) {
            Ok(_ends_with_the_process) => Some(Self { wanted, read, is_reading: false }),
            Err(error) => {
                tracing::warn!(%error, "nobody can be asked");
                None
            }
        }
    }
}

fn choice_text(choice: &Choice) -> String {
    let mut shown = format!("\n{}\n", unmasked(&choice.question));
    for (at, option) in choice.options.iter().enumerate() {
        shown.push_str(&format!("  {}. {}\n", at + 1, unmasked_line(option)));
    }
    shown.push_str("a number, or in your own words: ");
    shown
}

fn question_text(question: &Question) -> String {
    let mut shown = format!("\n{}\n", unmasked_line(&question.title));
    let detail = unmasked(&question.detail);
    let lines: Vec<&str> = detail.lines().collect();
    for line in lines.iter().take(MAX_LINES) {
        shown.push_str(&format!("  {line}\n"));
    }
    if lines.len() > MAX_LINES {
        shown.push_str(&format!("  … {} more lines\n", lines.len() - MAX_LINES));
    }
    shown.push_str("[y]es, for this [s]ession, [a]lways, [n]o (or say why not): ");
    shown
}

fn chosen(line: &str, options: &[String]) -> Chosen {
    let by_number = line.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
    match by_number {
        Some(option) => Chosen::Said(option.clone()),
        None if line.is_empty() => Chosen::Dismissed,
        None => Chosen::Said(line.to_owned()),
    }
}

fn understand(line: &str) -> Answer {
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
    fn a_number_is_an_option_and_anything_else_is_said() {
        let options = ["red".to_owned(), "blue".to_owned()];
        assert_eq!(chosen("2", &options), Chosen::Said("blue".into()));
        assert_eq!(chosen("3", &options), Chosen::Said("3".into()));
        assert_eq!(chosen("0", &options), Chosen::Said("0".into()));
        assert_eq!(chosen("green, please", &options), Chosen::Said("green, please".into()));
        assert_eq!(chosen("", &options), Chosen::Dismissed);
    }

    #[test]
    fn what_is_asked_about_is_seen_whole() {
        let question = Question {
            kind: policy::QuestionKind::Exec,
            title: "Run `a\nRun ls?`".into(),
            detail: "echo HIDDEN #\u{1b}[1A\u{1b}[2K\rRun ls?\u{1b}[8m\u{202e}".into(),
            files: Vec::new(),
        };
        let shown = question_text(&question);
        let expected = "\nRun `a␊Run ls?`\n  echo HIDDEN #␛[1A␛[2K␍Run ls?␛[8m\\u{202e}\n[y]es";
        assert!(shown.starts_with(expected), "{shown:?}");
        let choice = Choice { question: "Which?\u{1b}c".into(), options: vec!["a\r\nb".into()] };
        assert_eq!(choice_text(&choice), "\nWhich?␛c\n  1. a␊b\na number, or in your own words: ");
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        assert_eq!(understand("Y"), Answer::Once);
        assert_eq!(understand("always"), Answer::Always);
        assert_eq!(understand(""), Answer::No { text: String::new() });
        assert_eq!(understand("yep, but not a.py"), Answer::No { text: "yep, but not a.py".into() });
    }
}
