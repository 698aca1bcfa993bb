//! The port through which Pilcrow asks the user. Surfaces implement it.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// The agent wants to read the text of a protected file.
    Read,
    /// The agent wants to change files.
    Write,
    /// The agent needs trust in a workspace.
    Trust,
    Exec,
}

/// A question for the user.
#[derive(Debug, Clone)]
pub struct Question {
    pub kind: QuestionKind,
    pub title: String,
    /// The lines to confirm, then the diff or the command.
    pub detail: String,
    pub files: Vec<String>,
}

impl Question {
    /// Renders a line of the detail that the user must confirm.
    pub(crate) fn confirming(what: &str) -> String {
        let what: Vec<&str> = what.lines().map(str::trim).collect();
        format!("{TO_CONFIRM}{}\n", what.join(" "))
    }

    /// The lines to confirm, without the diff, for surfaces that do not show it.
    pub fn to_confirm(&self) -> impl Iterator<Item = &str> {
        self.detail.lines().take_while(|line| line.starts_with(TO_CONFIRM))
    }
}

/// Beginning of a line that the user must confirm.
const TO_CONFIRM: &str = "to be confirmed: ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The user agrees once; for a question of trust, while this process runs.
    Once,
    Session,
    Always,
    /// The user refuses, with a text for the model.
    No {
        text: String,
    },
    /// The request is refused without a question to the user.
    Refused {
        /// The reason, for the user and the model.
        reason: String,
    },
    /// The user dismissed the question, which may be asked again.
    Dismissed,
    /// There is no user to ask.
    Unattended,
}

/// The answers that surfaces offer, with their titles.
///
/// A dismissed question is [`Answer::Dismissed`].
static CHOICES: [(&str, Answer); 4] = [
    ("Allow", Answer::Once),
    ("Session", Answer::Session),
    ("Always", Answer::Always),
    ("Deny", Answer::No { text: String::new() }),
];

impl QuestionKind {
    /// Returns the answers to offer, in order; trust has no answer for a session.
    pub fn choices(self) -> impl Iterator<Item = &'static (&'static str, Answer)> {
        CHOICES.iter().filter(move |(_, answer)| self != Self::Trust || *answer != Answer::Session)
    }
}

/// A question that the agent asks, whose answer permits nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub question: String,
    pub options: Vec<String>,
}

/// An answer to a [`Choice`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// The user chose an option, or wrote another answer.
    Said(String),
    /// The user dismissed the question.
    Dismissed,
    /// There is no user to ask.
    Unattended,
}

/// Port through which the policy asks the user; surfaces implement it.
pub trait Approver: Send + Sync {
    /// Returns the user's answer, or [`Answer::No`] soon after a cancellation.
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer>;

    /// Returns the user's choice, or [`Chosen::Dismissed`] soon after a cancellation.
    ///
    /// The default is for a surface without a user.
    fn choose<'a>(&'a self, _: Choice, _: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(async { Chosen::Unattended })
    }
}

/// An approver for runs without a user.
#[derive(Debug, Clone, Copy)]
pub struct Unattended;

impl Approver for Unattended {
    fn ask<'a>(&'a self, _: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Unattended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_to_confirm_are_separated_from_the_diff() {
        let detail = ["one", "two,\n  in two lines", "three"].map(Question::confirming).concat();
        let detail = detail + "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\nto be confirmed: not this\n";
        let question =
            Question { kind: QuestionKind::Write, title: String::new(), detail, files: Vec::new() };
        let lines: Vec<&str> = question.to_confirm().collect();
        assert_eq!(lines, ["one", "two, in two lines", "three"].map(|it| format!("to be confirmed: {it}")));
    }
}
