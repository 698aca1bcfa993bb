//! Messages between an adapter and the editor that owns the session; they bypass
//! the hub.

use serde_json::json;

use super::super::ClientId;
use super::super::breakpoint_table::{BreakpointTable, PreviousList, Set};
use super::run_control::runs;
use super::{Hub, MAX_WAITING_REQUESTS, Pending, Work, changes};
use crate::client::envelope::{Envelope, Kind};

/// A set that an editor sent to the adapter itself.
pub(super) struct ExternalSet {
    pub(super) client: ClientId,
    pub(super) set: Set,
    pub(super) before: PreviousList,
    /// Whether a set of the hub was in flight, so that it did not contain this one.
    pub(super) crossed: bool,
}

impl Hub {
    /// Handles a message between the adapter and the editor that owns the session.
    pub(super) fn external_message(&mut self, client: ClientId, mut message: Envelope) {
        if self.terminated || !self.clients.contains_key(&client) {
            return;
        }
        if message.kind == Kind::Response {
            let asked = message.raw("request_seq").map(|it| it.get().trim().to_owned());
            if let Some(number) = asked.and_then(|seq| self.external_requests.remove(&seq)) {
                message.set("request_seq", &json!(number));
                self.adapter_response(message);
            }
            return;
        }
        let (command, arguments) = (message.name.as_str(), message.content());
        let work = match command {
            _ if runs(command) => {
                self.user_takes_control();
                self.run_effect(client, command, &arguments).map(Work::Run)
            }
            _ if changes(command) => Some(Work::Change),
            "terminate" | "disconnect" => {
                self.status.ended_by_user = true;
                None
            }
            _ => BreakpointTable::set_of(command, &arguments, &*self.options.canonical_path).map(|set| {
                let before = self.breakpoints.replace(client, &set, &arguments);
                let crossed = self.set_in_flight.is_some();
                Work::ExternalSet(Box::new(ExternalSet { client, set, before, crossed }))
            }),
        };
        if let (Some(work), Some(seq)) = (work, message.raw("seq")) {
            let number = self.take_number();
            let before = self.external_requests.insert(seq.get().trim().to_owned(), number);
            let command = message.name.clone();
            self.pending.insert(number, Pending { from: None, command, work });
            if let Some(number) = before.or_else(|| self.take_oldest_external_request()) {
                self.abandon_external_request(number);
            }
        }
    }

    /// Removes the oldest unanswered request if there are too many.
    fn take_oldest_external_request(&mut self) -> Option<i64> {
        if self.external_requests.len() <= MAX_WAITING_REQUESTS {
            return None;
        }
        let (seq, number) = self.external_requests.iter().min_by_key(|(_, number)| **number)?;
        let (seq, number) = (seq.clone(), *number);
        self.external_requests.remove(&seq);
        Some(number)
    }

    /// Stops waiting for an answer; assumes that the adapter did what was requested.
    fn abandon_external_request(&mut self, number: i64) {
        let Some(Pending { command, work, .. }) = self.pending.remove(&number) else { return };
        self.log(format!("no longer waiting for the answer to `{command}`, which an editor sent itself"));
        if let Work::ExternalSet(set) = work {
            self.external_set_answered(*set, true);
        }
    }

    /// Sends the set again with all clients' breakpoints.
    ///
    /// The editor's request replaced them.
    pub(super) fn external_set_answered(&mut self, external: ExternalSet, good: bool) {
        let ExternalSet { client, set, before, crossed } = external;
        if !good {
            return self.breakpoints.restore(before);
        }
        if crossed || self.breakpoints.others_request(&set, client) {
            self.queue_resend(set);
            self.send_next_set();
        }
    }
}
