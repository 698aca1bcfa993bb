//! Questions to the user by `window/showMessageRequest`.
//!
//! Invariants: a question delays only its run; a dismissed question denies once; a question of a
//! cancelled run is withdrawn, and a later answer has no effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use host::escaping::{escape_invisible, escape_invisible_line};
use paths::StateDir;
use policy::{Answer, Approver, Choice, Chosen, Question, QuestionKind};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::Peer;

use super::initialize::Client;
use super::transcript;

/// Deadline of a question that the user never answers.
const ANSWER_DEADLINE: Duration = Duration::from_secs(48 * 60 * 60);
/// Maximum number of listed files.
const MAX_FILES: usize = 8;

const SHOW: &str = "Diff";

/// Asks the user of one editor.
pub(crate) struct EditorApprover {
    peer: Peer,
    client: Arc<Client>,
    /// The user's answer to the editor's own question about trust.
    trusted: Option<bool>,
    /// Directory of the diff that the editor shows.
    state: StateDir,
    /// Whether the client answers questions by event, so that no message is shown.
    pub by_event: bool,
}

impl EditorApprover {
    pub fn new(peer: &Peer, client: &Arc<Client>, trusted: Option<bool>, state: StateDir) -> Self {
        Self { peer: peer.clone(), client: Arc::clone(client), trusted, state, by_event: false }
    }
}

impl Approver for EditorApprover {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if let (QuestionKind::Trust, Some(trusted)) = (question.kind, self.trusted) {
                let reason = "the folder is in restricted mode; trust it in the editor".to_owned();
                return if trusted { Answer::Once } else { Answer::Refused { reason } };
            }
            if self.by_event {
                cancel.cancelled().await;
                return Answer::No { text: String::new() };
            }
            let diff = question.kind == QuestionKind::Write && !question.detail.is_empty();
            // Our plugin shows the diff with the question.
            let can_show = diff && self.client.show_document && !self.client.answers;
            loop {
                let mut params = self.request(&question, can_show);
                let open = self.client.answers.then(|| OpenQuestion::new(&self.peer));
                if let Some(open) = &open {
                    params["pilcrow"] = json!({ "question": open.question });
                    if diff {
                        params["pilcrow"]["diff"] = json!(escape_invisible(&question.detail));
                    }
                }
                let reply =
                    self.peer.request("window/showMessageRequest", &params, ANSWER_DEADLINE, cancel).await;
                let chosen = match reply {
                    Ok(answer) => serde_json::from_str::<Value>(answer.get()).unwrap_or_default(),
                    Err(wire::RequestError::Cancelled { .. }) => return Answer::No { text: String::new() },
                    Err(error) => {
                        tracing::warn!(%error, "cannot show the question: {}", question.title);
                        return Answer::Unattended;
                    }
                };
                match chosen["title"].as_str() {
                    Some(SHOW) => self.show(&question).await,
                    title => return parse_answer(question.kind, title),
                }
            }
        })
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(self.ask_choice(choice, cancel))
    }
}

impl EditorApprover {
    async fn ask_choice(&self, choice: Choice, cancel: &CancellationToken) -> Chosen {
        if self.by_event {
            cancel.cancelled().await;
            return Chosen::Dismissed;
        }
        let message =
            escape_invisible(&choice.question).replace('\n', &self.client.facts.editor.question.line_break);
        let titles: Vec<_> = choice.options.iter().map(|option| escape_invisible_line(option)).collect();
        let actions: Vec<Value> = titles.iter().map(|title| json!({ "title": title })).collect();
        let mut params = json!({ "type": 3, "message": message, "actions": actions });
        let open = self.client.answers.then(|| OpenQuestion::new(&self.peer));
        if let Some(open) = &open {
            params["pilcrow"] = json!({ "question": open.question });
        }
        match self.peer.request("window/showMessageRequest", &params, ANSWER_DEADLINE, cancel).await {
            Ok(answer) => {
                let answer = serde_json::from_str::<Value>(answer.get()).unwrap_or_default();
                let at = answer["title"]
                    .as_str()
                    .and_then(|chosen| titles.iter().position(|title| title == chosen));
                at.map_or(Chosen::Dismissed, |at| Chosen::Said(choice.options[at].clone()))
            }
            Err(wire::RequestError::Cancelled { .. }) => Chosen::Dismissed,
            Err(error) => {
                tracing::warn!(%error, "cannot show the question: {}", choice.question);
                Chosen::Unattended
            }
        }
    }

    fn request(&self, question: &Question, can_show: bool) -> Value {
        let mut message = escape_invisible_line(&question.title).into_owned();
        match question.kind {
            QuestionKind::Write => {
                for line in question.to_confirm() {
                    message.push_str(&format!("\n{}", escape_invisible_line(line)));
                }
                for file in question.files.iter().take(MAX_FILES) {
                    message.push_str(&format!("\n{}", escape_invisible_line(file)));
                }
                if question.files.len() > MAX_FILES {
                    message.push_str(&format!("\n… and {} more", question.files.len() - MAX_FILES));
                }
            }
            QuestionKind::Exec | QuestionKind::Trust => {
                message.push_str(&format!("\n{}", escape_invisible(&question.detail)));
            }
            QuestionKind::Read => {}
        }
        let message = message.replace('\n', &self.client.facts.editor.question.line_break);
        let mut titles: Vec<&str> = question.kind.choices().map(|(title, _)| *title).collect();
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
            Err(error) => tracing::warn!(%error, "cannot write the changes for the editor"),
        }
    }
}

/// An open question.
///
/// Dropping it notifies plugins in editors that do not report cancelled requests.
struct OpenQuestion {
    peer: Peer,
    question: u64,
}

impl OpenQuestion {
    fn new(peer: &Peer) -> Self {
        static QUESTIONS: AtomicU64 = AtomicU64::new(1);
        Self { peer: peer.clone(), question: QUESTIONS.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let params = json!({ "question": self.question });
        if let Err(closed) = self.peer.try_notify("pilcrow/question/over", &params) {
            tracing::debug!(%closed, "cannot notify the client of the end of a question");
        }
    }
}

/// The answer with this title; any other is a dismissal.
fn parse_answer(kind: QuestionKind, title: Option<&str>) -> Answer {
    let mut choices = kind.choices();
    let chosen = choices.find(|(name, _)| title == Some(*name));
    chosen.map_or(Answer::Dismissed, |(_, answer)| answer.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_offered_titles_are_answers() {
        for kind in [QuestionKind::Trust, QuestionKind::Write, QuestionKind::Exec, QuestionKind::Read] {
            assert_eq!(parse_answer(kind, None), Answer::Dismissed);
            assert_eq!(parse_answer(kind, Some("allow")), Answer::Dismissed);
            assert_eq!(parse_answer(kind, Some("Always")), Answer::Always);
            assert_eq!(parse_answer(kind, Some("Deny")), Answer::No { text: String::new() });
        }
        assert_eq!(parse_answer(QuestionKind::Write, Some("Session")), Answer::Session);
        // A title of one question does not answer another.
        assert_eq!(parse_answer(QuestionKind::Trust, Some("Session")), Answer::Dismissed);
    }
}
