//! Requests that set the breakpoints of one kind: sent one after the other, each with what all clients want.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::merge::{Before, Book, Plan, Set, Told};
use super::super::message::Envelope;
use super::super::{ClientId, Who};
use super::{Hub, Pending, Work};

pub(super) struct Setting {
    pub(super) from: Option<(ClientId, Box<RawValue>)>,
    pub(super) set: Set,
    pub(super) arguments: Option<Value>,
}

/// A set as it was sent.
pub(super) struct Sent {
    pub(super) plan: Plan,
    pub(super) before: Option<Before>,
}

impl Hub {
    /// Sends a set once more when its turn comes, with what all want by then.
    pub(super) fn set_again(&mut self, set: Set) {
        if !self.queue.iter().any(|it| it.from.is_none() && it.set == set) {
            self.queue.push_back(Setting { from: None, set, arguments: None });
        }
    }

    pub(super) fn next_setting(&mut self) {
        if self.setting.is_some() {
            return;
        }
        let Some(Setting { from, set, arguments }) = self.queue.pop_front() else {
            if let Some((client, message)) = self.configured.take() {
                self.pass(client, message, Work::Plain);
            }
            return;
        };
        let client = from.as_ref().map(|(client, _)| *client);
        let before = match (client, &arguments) {
            (Some(client), Some(arguments)) => Some(self.book.replace(client, &set, arguments)),
            _ => None,
        };
        let members = &self.members;
        let plan = self.book.plan(&set, &|client| match members.get(&client).map(|it| it.who) {
            Some(Who::Agent) => "the agent".to_owned(),
            _ => "the person".to_owned(),
        });
        let message = Envelope::request(set.command(), plan.arguments.clone());
        let command = set.command().to_owned();
        let number =
            self.send(message, Pending { from, command, work: Work::Set(Box::new(Sent { plan, before })) });
        self.setting = Some(number);
    }

    pub(super) fn set_answered(
        &mut self,
        number: i64,
        from: Option<(ClientId, Box<RawValue>)>,
        sent: Sent,
        mut message: Envelope,
    ) {
        let Sent { plan, before } = sent;
        if self.setting == Some(number) {
            self.setting = None;
        }
        let command = plan.set.command();
        if message.success() {
            let body = message.content();
            if let Some((client, _)) = &from
                && self.book.part(&plan, *client, &body)
            {
                // Its condition is at fault, not that of the other: once more, without it.
                self.queue.push_front(Setting { from, set: plan.set, arguments: None });
                return self.next_setting();
            }
            let Told { answers, changed } = self.book.answered(&plan, &body);
            let client = from.as_ref().map(|(client, _)| *client);
            if let Some(client) = client
                && Book::has_answers(&plan, &body)
            {
                let mut own = if body.is_object() { body } else { json!({}) };
                own["breakpoints"] = json!(answers.get(&client).cloned().unwrap_or_default());
                message.set_content(&own);
            }
            self.pass_back(from, command, message);
            for (owner, breakpoint) in changed.into_iter().filter(|(owner, _)| Some(*owner) != client) {
                let body = json!({ "reason": "changed", "breakpoint": breakpoint });
                self.tell_live(owner, Envelope::event("breakpoint", body));
            }
        } else {
            if let Some(before) = before {
                self.book.restore(before);
            }
            self.pass_back(from, command, message);
        }
        for event in std::mem::take(&mut self.held) {
            self.event(event);
        }
        self.next_setting();
    }
}
