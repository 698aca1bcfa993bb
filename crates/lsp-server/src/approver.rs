//! Asking the person in their editor, by `window/showMessageRequest`.
//!
//! What must stay true: a question holds up the run that asks and nothing else; no answer is no for
//! this time; once the run is cancelled the question is taken back and an answer that still comes
//! changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use host::harmless::{unmasked, unmasked_line};
use paths::StateDir;
use policy::{Answer, Approver, Choice, Chosen, Question, QuestionKind};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::Peer;

use super::initialize::Client;
use super::transcript;

/// A question stays open while its run does; this only bounds one that nobody ever looks at.
const PATIENCE: Duration = Duration::from_secs(48 * 60 * 60);
/// More files are counted.
const MAX_FILES: usize = 8;

const SHOW: &str = "Show the changes";

/// Asks in one editor.
pub struct EditorApprover {
    peer: Peer,
    client: Arc<Client>,
    /// The editor asked about trust itself, and this was the answer.
    trusted: Option<bool>,
    /// Where a diff is put for the person to look at.
    state: StateDir,
}

impl EditorApprover {
    /// Asks the client of `peer`.
    pub fn new(peer: &Peer, client: &Arc<Client>, trusted: Option<bool>, state: StateDir) -> Self {
        Self { peer: peer.clone(), client: Arc::clone(client), trusted, state }
    }
}

impl Approver for EditorApprover {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if let (QuestionKind::Trust, Some(trusted)) = (question.kind, self.trusted) {
                let reason =
                    "the editor works in restricted mode here; trust the folder in the editor".to_owned();
                return if trusted { Answer::Once } else { Answer::Refused { reason } };
            }
            let diff = question.kind == QuestionKind::Write && !question.detail.is_empty();
            let can_show = diff && self.client.show_document;
            loop {
                let mut params = self.request(&question, can_show);
                let open = self.client.answers.then(|| Asked::new(&self.peer));
                if let Some(open) = &open {
                    params["pilcrow"] = json!({ "question": open.question });
                }
                let asked = self.peer.request("window/showMessageRequest", &params, PATIENCE, cancel).await;
                let chosen = match asked {
                    Ok(answer) => serde_json::from_str::<Value>(answer.get()).unwrap_or_default(),
                    Err(wire::RequestError::Cancelled { .. }) => return Answer::No { text: String::new() },
                    Err(error) => {
                        tracing::warn!(%error, "the question could not be asked: {}", question.title);
                        return Answer::Unattended;
                    }
                };
                match chosen["title"].as_str() {
                    Some(SHOW) => self.show(&question).await,
                    title => return understand(question.kind, title),
                }
            }
        })
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(self.put(choice, cancel))
    }
}

impl EditorApprover {
    async fn put(&self, choice: Choice, cancel: &CancellationToken) -> Chosen {
        let message = unmasked(&choice.question).replace('\n', &self.client.facts.editor.question.line_break);
        let titles: Vec<_> = choice.options.iter().map(|option| unmasked_line(option)).collect();
        let actions: Vec<Value> = titles.iter().map(|title| json!({ "title": title })).collect();
        let mut params = json!({ "type": 3, "message": message, "actions": actions });
        let open = self.client.answers.then(|| Asked::new(&self.peer));
        if let Some(open) = &open {
            params["pilcrow"] = json!({ "question": open.question });
        }
        match self.peer.request("window/showMessageRequest", &params, PATIENCE, cancel).await {
            Ok(answer) => {
                let answer = serde_json::from_str::<Value>(answer.get()).unwrap_or_default();
                let at = answer["title"].as_str().and_then(|it| titles.iter().position(|title| title == it));
                at.map_or(Chosen::Dismissed, |at| Chosen::Said(choice.options[at].clone()))
            }
            Err(wire::RequestError::Cancelled { .. }) => Chosen::Dismissed,
            Err(error) => {
                tracing::warn!(%error, "the question could not be asked: {}", choice.question);
                Chosen::Unattended
            }
        }
    }

    fn request(&self, question: &Question, can_show: bool) -> Value {
        let mut message = unmasked_line(&question.title).into_owned();
        match question.kind {
            QuestionKind::Write => {
                for line in question.to_confirm() {
                    message.push_str(&format!("\n{}", unmasked_line(line)));
                }
                for file in question.files.iter().take(MAX_FILES) {
                    message.push_str(&format!("\n{}", unmasked_line(file)));
                }
                if question.files.len() > MAX_FILES {
                    message.push_str(&format!("\n… and {} more", question.files.len() - MAX_FILES));
                }
            }
            QuestionKind::Exec => message.push_str(&format!("\n{}", unmasked(&question.detail))),
            QuestionKind::Read | QuestionKind::Trust => {}
        }
        let message = message.replace('\n', &self.client.facts.editor.question.line_break);
        let mut titles: Vec<&str> = titles(question.kind).to_vec();
        if can_show {
            titles.insert(1, SHOW);
        }
        let actions: Vec<Value> = titles.iter().map(|title| json!({ "title": title })).collect();
        json!({ "type": 3, "message": message, "actions": actions })
    }

    async fn show(&self, question: &Question) {
        const NAME: &str = "proposed.diff";
        match self.state.write_atomic(NAME, question.detail.as_bytes()) {
            Ok(()) => transcript::open(&self.peer, self.state.path().join(NAME).as_path()).await,
            Err(error) => tracing::warn!(%error, "the changes cannot be shown"),
        }
    }
}

/// A question that is open. Dropped, it is over: told to plugins in editors that do not say which
/// request is cancelled.
struct Asked {
    peer: Peer,
    question: u64,
}

impl Asked {
    fn new(peer: &Peer) -> Self {
        static QUESTIONS: AtomicU64 = AtomicU64::new(1);
        Self { peer: peer.clone(), question: QUESTIONS.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let params = json!({ "question": self.question });
        if let Err(closed) = self.peer.try_notify("pilcrow/question/over", &params) {
            tracing::debug!(%closed, "a question that is over was not told");
        }
    }
}

/// What can be answered.
fn titles(kind: QuestionKind) -> &'static [&'static str] {
    match kind {
        QuestionKind::Trust => &["Yes", "Once", "No"],
        _ => &["Allow", "Allow in this session", "Always allow", "Deny"],
    }
}

/// The answer with this title; nothing is a no for this time.
fn understand(kind: QuestionKind, title: Option<&str>) -> Answer {
    match (kind, title) {
        (QuestionKind::Trust, Some("Yes")) | (_, Some("Always allow")) => Answer::Always,
        (QuestionKind::Trust, Some("Once")) | (_, Some("Allow")) => Answer::Once,
        (_, Some("Allow in this session")) => Answer::Session,
        (_, Some("No" | "Deny")) => Answer::No { text: String::new() },
        _ => Answer::Dismissed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_chosen_is_an_answer() {
        let all = |kind| titles(kind).iter().map(|title| understand(kind, Some(title))).collect::<Vec<_>>();
        let no = Answer::No { text: String::new() };
        assert_eq!(all(QuestionKind::Trust), [Answer::Always, Answer::Once, no.clone()]);
        assert_eq!(all(QuestionKind::Write), [Answer::Once, Answer::Session, Answer::Always, no]);
        for kind in [QuestionKind::Trust, QuestionKind::Write, QuestionKind::Exec, QuestionKind::Read] {
            assert_eq!(understand(kind, None), Answer::Dismissed);
            assert_eq!(understand(kind, Some("yes")), Answer::Dismissed);
        }
        // A title of one question is no answer to another.
        assert_eq!(understand(QuestionKind::Write, Some("Yes")), Answer::Dismissed);
    }
}
