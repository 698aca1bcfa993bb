//! Requests that set breakpoints: one at a time, each with the breakpoints of all
//! clients.

use serde_json::{Value, json};

use super::super::Role;
use super::super::breakpoint_table::{BreakpointTable, Plan, PreviousList, Set, SetResult};
use super::{Hub, Pending, Requester, Work};
use crate::client::envelope::Envelope;

pub(super) struct QueuedSet {
    pub(super) from: Requester,
    pub(super) set: Set,
    pub(super) arguments: Option<Value>,
}

/// Breakpoint set that waits for the adapter's answer.
pub(super) struct SentSet {
    pub(super) plan: Plan,
    pub(super) before: Option<PreviousList>,
}

impl Hub {
    /// Queues a set to be sent again.
    ///
    /// It will contain the breakpoints that all clients have at that time.
    pub(super) fn queue_resend(&mut self, set: Set) {
        if !self.queued_sets.iter().any(|it| it.from.is_none() && it.set == set) {
            self.queued_sets.push_back(QueuedSet { from: None, set, arguments: None });
        }
    }

    pub(super) fn send_next_set(&mut self) {
        if self.set_in_flight.is_some() {
            return;
        }
        let Some(QueuedSet { from, set, arguments }) = self.queued_sets.pop_front() else {
            if let Some((client, message)) = self.pending_configuration_done.take() {
                self.forward(client, message, Work::Plain);
            }
            return;
        };
        let client = from.as_ref().map(|(client, _)| *client);
        let before = match (client, &arguments) {
            (Some(client), Some(arguments)) => Some(self.breakpoints.replace(client, &set, arguments)),
            _ => None,
        };
        let members = &self.clients;
        let plan = self.breakpoints.plan(&set, &|client| match members.get(&client).map(|it| it.role) {
            Some(Role::Agent) => "the agent".to_owned(),
            _ => "the user".to_owned(),
        });
        let message = Envelope::request(set.command(), plan.arguments.clone());
        let command = set.command().to_owned();
        let number = self.send_to_adapter(
            message,
            Pending { from, command, work: Work::Set(Box::new(SentSet { plan, before })) },
        );
        self.set_in_flight = Some(number);
    }

    pub(super) fn set_answered(
        &mut self,
        number: i64,
        from: Requester,
        sent: SentSet,
        mut message: Envelope,
    ) {
        let SentSet { plan, before } = sent;
        if self.set_in_flight == Some(number) {
            self.set_in_flight = None;
        }
        let command = plan.set.command();
        if message.success() {
            let body = message.content();
            if let Some((client, _)) = &from
                && self.breakpoints.separate_bad_condition(&plan, *client, &body)
            {
                // The client's condition is invalid, so the set is sent again without it.
                self.queued_sets.push_front(QueuedSet { from, set: plan.set, arguments: None });
                return self.send_next_set();
            }
            let SetResult { answers, changed } = self.breakpoints.apply_answer(&plan, &body);
            let client = from.as_ref().map(|(client, _)| *client);
            if let Some(client) = client
                && BreakpointTable::answers_each_item(&plan, &body)
            {
                let mut own = if body.is_object() { body } else { json!({}) };
                own["breakpoints"] = json!(answers.get(&client).cloned().unwrap_or_default());
                message.set_content(&own);
            }
            self.forward_response(from, command, message);
            for (owner, breakpoint) in changed.into_iter().filter(|(owner, _)| Some(*owner) != client) {
                let body = json!({ "reason": "changed", "breakpoint": breakpoint });
                self.notify_client(owner, Envelope::event("breakpoint", body));
            }
        } else {
            if let Some(before) = before {
                self.breakpoints.restore(before);
            }
            self.forward_response(from, command, message);
        }
        for event in std::mem::take(&mut self.deferred_events) {
            self.adapter_event(event);
        }
        self.send_next_set();
    }
}
