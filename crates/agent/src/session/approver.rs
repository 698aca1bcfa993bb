//! Questions to the user, reported as events with their answers.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use policy::{Answer, Approver, Choice, Chosen, Question, QuestionKind};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::events::emitter::Emitter;
use crate::events::{Event, PermissionAnswer};
use crate::tool::gate::Notes;

/// An approver that reports its questions as events.
pub(crate) struct ReportingApprover {
    pub approver: Arc<dyn Approver>,
    pub events: Emitter,
    pub notes: Arc<Notes>,
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
            let request = Event::PermissionRequest {
                request_id: request_id.clone(),
                kind: kind.to_owned(),
                title: question.title.clone(),
                detail: question.detail.clone(),
                files: question.files.clone(),
            };
            let mut entry = json!({
                "requestId": request_id, "kind": kind, "title": question.title, "files": question.files,
            });
            self.events.emit(request, cancel).await;
            let answer = self.approver.ask(question, cancel).await;
            let reported = match &answer {
                Answer::Once => PermissionAnswer::Once,
                Answer::Session => PermissionAnswer::Session,
                Answer::Always => PermissionAnswer::Always,
                Answer::No { .. } | Answer::Refused { .. } | Answer::Dismissed => PermissionAnswer::No,
                Answer::Unattended => PermissionAnswer::Unattended,
            };
            entry["answer"] = json!(reported);
            self.notes.push("permission", entry);
            self.events.send(Event::PermissionResolved { request_id, answer: reported }).await;
            answer
        })
    }

    // The call that asks is an event already.
    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        self.approver.choose(choice, cancel)
    }
}
