//! Asking the person at a terminal. Questions go to standard error and answers come from standard
//! input; when either is no terminal there is nobody to ask.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use workspace::{Answer, Approver, Choice, Chosen, Nobody, Question};

/// The longest diff shown with a question.
const MAX_LINES: usize = 120;

/// Asks one question at a time.
struct Terminal {
    asking: Mutex<()>,
}

/// Whether there is a terminal at both ends, and so somebody who can be asked.
pub fn is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The approver of this process: the terminal, if there is one.
pub fn approver() -> Arc<dyn Approver> {
    if is_there() { Arc::new(Terminal { asking: Mutex::new(()) }) } else { Arc::new(Nobody) }
}

impl Approver for Terminal {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let _one_at_a_time = self.asking.lock().await;
            // The thread that reads may stay behind after a cancel; it holds nothing and ends with
            // the process.
            let answer = tokio::task::spawn_blocking(move || read_answer(&question));
            tokio::select! {
                answer = answer => answer.unwrap_or(Answer::Nobody),
                // Dropping the wait loses nothing: no answer was given.
                () = cancel.cancelled() => Answer::No { text: String::new() },
            }
        })
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(async move {
            let _one_at_a_time = self.asking.lock().await;
            let answer = tokio::task::spawn_blocking(move || read_choice(&choice));
            // As above.
            tokio::select! {
                answer = answer => answer.unwrap_or(Chosen::Nobody),
                () = cancel.cancelled() => Chosen::Dismissed,
            }
        })
    }
}

fn read_choice(choice: &Choice) -> Chosen {
    let mut shown = format!("\n{}\n", choice.question);
    for (at, option) in choice.options.iter().enumerate() {
        shown.push_str(&format!("  {}. {option}\n", at + 1));
    }
    shown.push_str("a number, or in your own words: ");
    let mut stderr = std::io::stderr().lock();
    if stderr.write_all(shown.as_bytes()).and_then(|()| stderr.flush()).is_err() {
        return Chosen::Nobody;
    }
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => Chosen::Nobody,
        Ok(_) => chosen(line.trim(), &choice.options),
    }
}

fn chosen(line: &str, options: &[String]) -> Chosen {
    let by_number = line.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
    match by_number {
        Some(option) => Chosen::Said(option.clone()),
        None if line.is_empty() => Chosen::Dismissed,
        None => Chosen::Said(line.to_owned()),
    }
}

fn read_answer(question: &Question) -> Answer {
    let mut shown = format!("\n{}\n", question.title);
    let lines: Vec<&str> = question.detail.lines().collect();
    for line in lines.iter().take(MAX_LINES) {
        shown.push_str(&format!("  {line}\n"));
    }
    if lines.len() > MAX_LINES {
        shown.push_str(&format!("  … {} more lines\n", lines.len() - MAX_LINES));
    }
    shown.push_str("[y]es, for this [s]ession, [a]lways, [n]o (or say why not): ");
    let mut stderr = std::io::stderr().lock();
    if stderr.write_all(shown.as_bytes()).and_then(|()| stderr.flush()).is_err() {
        return Answer::Nobody;
    }
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => Answer::Nobody,
        Ok(_) => understand(line.trim()),
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
    fn only_a_clear_yes_is_one() {
        assert_eq!(understand("Y"), Answer::Once);
        assert_eq!(understand("always"), Answer::Always);
        assert_eq!(understand(""), Answer::No { text: String::new() });
        assert_eq!(understand("yep, but not a.py"), Answer::No { text: "yep, but not a.py".into() });
    }
}
