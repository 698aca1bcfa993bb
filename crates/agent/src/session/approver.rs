//! Questions to the user, reported as events with their answers.
//!
//! A surface answers through the approver, or by the question's id; the first answer counts.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use policy::{Answer, Approver, Choice, Chosen, Question, QuestionKind};
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::events::emitter::Emitter;
use crate::events::{Event, PermissionAnswer};
use crate::tool::gate::Notes;

/// The open questions of a session, by the ids of their events.
#[derive(Default)]
pub(crate) struct OpenQuestions(Mutex<HashMap<String, OpenQuestion>>);

enum OpenQuestion {
    Permission(Vec<PermissionAnswer>, oneshot::Sender<Answer>),
    Input(oneshot::Sender<Chosen>),
}

impl OpenQuestions {
    /// Answers a permission question.
    ///
    /// Returns false if it is not open or offers no such answer.
    pub fn answer_permission(&self, request_id: &str, answer: PermissionAnswer, text: String) -> bool {
        let given = match answer {
            PermissionAnswer::Once => Answer::Once,
            PermissionAnswer::Session => Answer::Session,
            PermissionAnswer::Always => Answer::Always,
            PermissionAnswer::No | PermissionAnswer::Unattended => Answer::No { text },
        };
        let mut open = self.0.lock();
        let offered = |question: &OpenQuestion| match question {
            OpenQuestion::Permission(answers, _) => answers.contains(&answer),
            OpenQuestion::Input(_) => false,
        };
        if !open.get(request_id).is_some_and(offered) {
            return false;
        }
        // `Err` means that the question was withdrawn.
        match open.remove(request_id) {
            Some(OpenQuestion::Permission(_, reply)) => reply.send(given).is_ok(),
            _ => false,
        }
    }

    /// Answers the agent's question; returns false if it is not open.
    pub fn answer_input(&self, request_id: &str, chosen: Chosen) -> bool {
        let mut open = self.0.lock();
        if !matches!(open.get(request_id), Some(OpenQuestion::Input(_))) {
            return false;
        }
        match open.remove(request_id) {
            Some(OpenQuestion::Input(reply)) => reply.send(chosen).is_ok(),
            _ => false,
        }
    }

    /// Waits for the approver, or for an answer by id, which withdraws the question.
    async fn first<T>(
        &self,
        request_id: &str,
        withdrawn: &CancellationToken,
        asked: BoxFuture<'_, T>,
        mut answered: oneshot::Receiver<T>,
    ) -> T {
        let mut asked = asked;
        let first = tokio::select! {
            answer = &mut asked => answer,
            answer = &mut answered => {
                withdrawn.cancel();
                let withdrawn = asked.await;
                answer.unwrap_or(withdrawn)
            }
        };
        self.0.lock().remove(request_id);
        first
    }
}

/// An approver that reports its questions as events.
pub(crate) struct ReportingApprover {
    pub approver: Arc<dyn Approver>,
    pub events: Emitter,
    pub notes: Arc<Notes>,
    pub open: Arc<OpenQuestions>,
}

impl Approver for ReportingApprover {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let request_id = uuid::Uuid::now_v7().to_string();
            let kind = match question.kind {
                QuestionKind::Read => "read",
                QuestionKind::Write => "write",
                QuestionKind::Trust => "trust",
                QuestionKind::Exec => "exec",
            };
            let offered = question.kind.choices().filter_map(|(_, answer)| PermissionAnswer::of(answer));
            let answers: Vec<PermissionAnswer> = offered.collect();
            let (reply, answered) = oneshot::channel();
            let open = OpenQuestion::Permission(answers.clone(), reply);
            self.open.0.lock().insert(request_id.clone(), open);
            let request = Event::PermissionRequest {
                request_id: request_id.clone(),
                kind: kind.to_owned(),
                title: question.title.clone(),
                detail: question.detail.clone(),
                files: question.files.clone(),
                answers,
            };
            let mut entry = json!({
                "requestId": request_id, "kind": kind, "title": question.title, "files": question.files,
            });
            self.events.emit(request, cancel).await;
            let withdrawn = cancel.child_token();
            let asked = self.approver.ask(question, &withdrawn);
            let answer = self.open.first(&request_id, &withdrawn, asked, answered).await;
            let reported = PermissionAnswer::of(&answer).unwrap_or(PermissionAnswer::No);
            entry["answer"] = json!(reported);
            self.notes.push("permission", entry);
            self.events.send(Event::PermissionResolved { request_id, answer: reported }).await;
            answer
        })
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(async move {
            let request_id = uuid::Uuid::now_v7().to_string();
            let (reply, answered) = oneshot::channel();
            self.open.0.lock().insert(request_id.clone(), OpenQuestion::Input(reply));
            let request = Event::InputRequest {
                request_id: request_id.clone(),
                question: choice.question.clone(),
                options: choice.options.clone(),
            };
            self.events.emit(request, cancel).await;
            let withdrawn = cancel.child_token();
            let asked = self.approver.choose(choice, &withdrawn);
            let chosen = self.open.first(&request_id, &withdrawn, asked, answered).await;
            let answer = match &chosen {
                Chosen::Said(text) => Some(text.clone()),
                Chosen::Dismissed | Chosen::Unattended => None,
            };
            self.events.send(Event::InputResolved { request_id, answer }).await;
            chosen
        })
    }
}
