//! Clients that leave or end the program, adapters that do not answer, and closed adapters.
//!
//! Invariants: every waiting request gets a response.

use std::time::Duration;

use process::deadlines;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::clients::Phase;
use super::super::{BreakpointRequest, ClientId, Output, Role};
use super::{Hub, Pending, Requester, Work, raw_member};
use crate::client::envelope::Envelope;

/// Time for a request that only reads state.
const READ: Duration = Duration::from_secs(60);
/// Time for a request that runs code of the program or reads its symbols.
///
/// Some adapters answer a step when it is done.
const RUN: Duration = Duration::from_secs(300);

impl Hub {
    pub(super) fn disconnect_client(&mut self, client: ClientId, message: Envelope) {
        if message.content()["terminateDebuggee"] == true && !self.terminated {
            self.status.ended_by_user = true;
            let from = Some((client, raw_member(&message, "seq")));
            return self.send_disconnect(from, message.name);
        }
        self.answer(client, &message, Value::Null);
        self.remove_client(client);
    }

    pub(super) fn terminate(&mut self, client: ClientId, message: Envelope) {
        if self.terminated {
            return self.answer(client, &message, Value::Null);
        }
        self.status.ended_by_user = true;
        self.end_program();
        let can = self.capabilities.as_ref().is_some_and(|it| it["supportsTerminateRequest"] == true);
        let from = Some((client, raw_member(&message, "seq")));
        if can {
            let number = self
                .send_to_adapter(message.clone(), Pending { from, command: message.name, work: Work::End });
            return self.out.push(Output::Deadline { number, after: deadlines::TERMINATION });
        }
        self.send_disconnect(from, message.name);
    }

    /// Sends a `disconnect` that ends the program, for a client that sent `disconnect`
    /// or `terminate`.
    pub(super) fn send_disconnect(&mut self, from: Requester, command: String) {
        self.end_program();
        let own = Envelope::request("disconnect", json!({ "terminateDebuggee": true }));
        let number = self.send_to_adapter(own, Pending { from, command, work: Work::Disconnect });
        self.out.push(Output::Deadline { number, after: deadlines::TERMINATION });
    }

    /// Ends a program that would continue once its session ends.
    ///
    /// After `terminated`, another program of the adapter may still run.
    pub(super) fn end_program(&mut self) {
        if !self.terminated {
            self.out.push(Output::EndProgram);
        }
    }

    /// Time for the answer to a request.
    ///
    /// The agent has its own deadlines, but its requests must not block other clients. Requests that end the
    /// program get their deadline where they are sent.
    pub(super) fn answer_timeout(&self, pending: &Pending) -> Option<Duration> {
        let client = pending.from.as_ref().and_then(|(client, _)| self.clients.get(client));
        match &pending.work {
            Work::Run(_) | Work::Set(_) => Some(RUN),
            Work::Plain | Work::Threads | Work::Change if client?.role == Role::User => {
                let runs = matches!(pending.work, Work::Change) || pending.command == "evaluate";
                Some(if runs { RUN } else { READ })
            }
            _ => None,
        }
    }

    /// Whether a request is unanswered, by the adapter or by a client.
    pub(crate) fn waits_for(&self, number: i64) -> bool {
        self.pending.contains_key(&number) || self.reverse_requests.iter().any(|it| it.number == number)
    }

    /// Handles a request that the adapter did not answer in time.
    ///
    /// If the user ends the program, the hub sends `disconnect`, then kills it.
    pub(super) fn request_expired(&mut self, number: i64) {
        match self.pending.remove(&number) {
            Some(Pending { from, command, work: Work::End }) if !self.terminated => {
                self.send_disconnect(from, command)
            }
            // The request is answered when the adapter is closed, like all waiting requests.
            Some(pending @ Pending { work: Work::End | Work::Disconnect, .. }) => {
                self.status.adapter_unresponsive = true;
                self.pending.insert(number, pending);
            }
            Some(pending) => {
                self.run_state_unknown |= matches!(pending.work, Work::Run(_));
                let sentence = format!(
                    "the debug adapter did not answer `{}` in time; it may be busy or hang. `terminate` ends it",
                    pending.command
                );
                let mut refusal = Envelope::refusal(&pending.command, "timeout", &sentence);
                refusal.set("request_seq", &json!(number));
                self.pending.insert(number, pending);
                self.adapter_response(refusal);
            }
            None => {}
        }
    }

    /// Ends the session after the adapter closed its stream.
    pub(super) fn adapter_closed(&mut self, reason: &str) {
        let first = !self.terminated;
        self.terminated = true;
        let mut pending: Vec<(i64, Pending)> = self.pending.drain().collect();
        pending.sort_by_key(|(number, _)| *number);
        let mut waiting: Vec<(ClientId, Box<RawValue>, String, bool)> = Vec::new();
        for (_, it) in pending {
            let ends = matches!(it.work, Work::End | Work::Disconnect);
            waiting.extend(it.from.map(|(client, seq)| (client, seq, it.command, ends)));
        }
        for it in std::mem::take(&mut self.queued_sets) {
            waiting.extend(it.from.map(|(client, seq)| (client, seq, it.set.command().to_owned(), false)));
        }
        for (id, member) in &mut self.clients {
            for message in std::mem::take(&mut member.deferred_requests) {
                waiting.push((*id, raw_member(&message, "seq"), message.name.clone(), false));
            }
        }
        self.set_in_flight = None;
        self.deferred_events.clear();
        self.reverse_requests.clear();
        self.external_requests.clear();
        for (client, seq, command, ends) in waiting {
            // The agent's connection closes, which carries the same information.
            if self.clients.get(&client).is_some_and(|it| it.role == Role::User) {
                let answer = if ends {
                    Envelope::answer(&command, Value::Null)
                } else {
                    Envelope::refusal(
                        &command,
                        "terminated",
                        &format!("the debug adapter has ended: {reason}"),
                    )
                };
                self.respond(client, &seq, answer);
            }
        }
        if self.relaunching {
            return;
        }
        if first {
            self.notify_joined_clients(&Envelope::event("terminated", Value::Null));
        }
        self.close_all();
    }

    /// The user's breakpoints, as requests.
    pub fn user_breakpoints(&self) -> Vec<BreakpointRequest> {
        let agents = self.clients.iter().filter(|(_, it)| it.role == Role::Agent);
        self.breakpoints.requests_except(&agents.map(|(id, _)| *id).collect::<Vec<_>>())
    }

    /// Records that another session launched the program again, or failed to.
    pub(super) fn relaunched(&mut self, configuration: Option<Value>) {
        if !std::mem::take(&mut self.relaunching) {
            return;
        }
        // A client that supports restart requests would send one here.
        let restarts = self.capabilities.as_ref().is_some_and(|it| it["supportsRestartRequest"] == true);
        if restarts && configuration.is_some() {
            let capabilities = json!({ "capabilities": { "supportsRestartRequest": false } });
            self.notify_joined_clients(&Envelope::event("capabilities", capabilities));
        }
        let body = configuration.map_or(Value::Null, |it| json!({ "restart": it }));
        self.notify_joined_clients(&Envelope::event("terminated", body));
        self.close_all();
    }

    pub(super) fn notify_joined_clients(&mut self, message: &Envelope) {
        let joined_clients = self.clients.iter().filter(|(_, it)| it.role == Role::User);
        for client in joined_clients.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.notify_client(client, message.clone());
        }
    }

    fn close_all(&mut self) {
        for (client, member) in &mut self.clients {
            member.phase = Phase::Closed;
            self.out.push(Output::Close { client: *client });
        }
    }
}
