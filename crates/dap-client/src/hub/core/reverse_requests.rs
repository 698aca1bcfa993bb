//! Requests of the adapter, and of the hub to joined clients.
//!
//! Each goes to one client that can answer.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::clients::{ClientState, Phase};
use super::super::coordinates::Coordinates;
use super::super::{ClientId, Output, Role};
use super::{Hub, raw_member};
use crate::client::envelope::Envelope;

/// Time that a joined client has for an answer.
const ANSWER: Duration = Duration::from_secs(20);

pub(super) struct ReverseRequest {
    /// Number of the request, below 0 unlike those of requests to the adapter.
    pub(super) number: i64,
    pub(super) adapter_seq: Box<RawValue>,
    pub(super) message: Envelope,
    pub(super) client: ClientId,
    pub(super) client_seq: i64,
    pub(super) tried: BTreeSet<ClientId>,
}

impl Hub {
    pub(super) fn adapter_request(&mut self, message: Envelope) {
        let seq = raw_member(&message, "seq");
        self.ask_next_client(seq, message, BTreeSet::new());
    }

    /// Forwards an adapter request to the next client that can answer.
    ///
    /// Joined clients that support it come first, then the agent.
    pub(super) fn ask_next_client(
        &mut self,
        adapter_seq: Box<RawValue>,
        message: Envelope,
        mut tried: BTreeSet<ClientId>,
    ) {
        let command = message.name.as_str();
        let able = |(id, it): &(&ClientId, &ClientState)| {
            // The agent starts child sessions, because each gets a hub of its own.
            let has_terminal = it.phase == Phase::Live && it.capabilities.terminal;
            let can = it.role == Role::Agent
                || command == "runInTerminal" && has_terminal && !self.options.runs_in_terminal_itself;
            can && !tried.contains(*id)
        };
        let chosen =
            self.clients.iter().filter(able).max_by_key(|(_, it)| it.role == Role::User).map(|(id, _)| *id);
        let Some(client) = chosen else {
            let sentence = format!("no client of this session can answer `{command}`");
            let mut answer = Envelope::refusal(command, "notSupported", &sentence);
            answer.set_raw("request_seq", adapter_seq);
            return self.send_answer_to_adapter(answer);
        };
        tried.insert(client);
        self.last_reverse_number -= 1;
        let number = self.last_reverse_number;
        if self.clients.get(&client).is_some_and(|it| it.role == Role::User) {
            self.out.push(Output::Deadline { number, after: ANSWER });
        }
        let mut own = message.clone();
        let coordinates =
            self.clients.get(&client).map_or(Coordinates::ADAPTER, |it| it.capabilities.coordinates);
        coordinates.to_client(&mut own);
        let client_seq = self.send_to_client(client, own);
        self.reverse_requests.push(ReverseRequest {
            number,
            adapter_seq,
            message,
            client,
            client_seq,
            tried,
        });
    }

    /// Passes a request on that a joined client did not answer in time.
    pub(super) fn reverse_request_expired(&mut self, number: i64) {
        if let Some(at) = self.reverse_requests.iter().position(|it| it.number == number) {
            let ReverseRequest { adapter_seq, message, client, tried, .. } = self.reverse_requests.remove(at);
            self.log(format!("client {client} did not answer `{}` in time", message.name));
            self.ask_next_client(adapter_seq, message, tried);
        }
    }

    pub(super) fn client_response(&mut self, client: ClientId, message: &Envelope) {
        let to = message.answers();
        let Some(at) =
            self.reverse_requests.iter().position(|it| it.client == client && Some(it.client_seq) == to)
        else {
            // Responses to requests of the hub itself also end here; they need no handling.
            return self.log(format!("client {client} answered {:?}, which is no pending request", to));
        };
        let ReverseRequest { adapter_seq, message: asked, tried, .. } = self.reverse_requests.remove(at);
        let is_user = self.clients.get(&client).is_some_and(|it| it.role == Role::User);
        if !message.success() && is_user {
            return self.ask_next_client(adapter_seq, asked, tried);
        }
        let mut answer = message.clone();
        answer.set("command", &json!(asked.name));
        answer.set_raw("request_seq", adapter_seq);
        self.send_answer_to_adapter(answer);
    }

    pub(super) fn send_answer_to_adapter(&mut self, mut answer: Envelope) {
        let number = self.take_number();
        answer.set("seq", &json!(number));
        self.out.push(Output::Adapter(answer));
    }

    /// Asks joined clients that support it to join a child session of the agent.
    pub(super) fn child_started(&mut self, configuration: Value) {
        for client in self.clients.keys().copied().collect::<Vec<_>>() {
            self.ask_to_join(client, &configuration);
        }
        // Clients that join later receive the request when they join.
        self.children.push(configuration);
    }

    pub(super) fn ask_to_join(&mut self, client: ClientId, configuration: &Value) {
        let able =
            |it: &ClientState| it.role == Role::User && it.phase == Phase::Live && it.capabilities.children;
        if self.clients.get(&client).is_some_and(able) {
            let arguments = json!({ "request": "attach", "configuration": configuration });
            self.send_to_client(client, Envelope::request("startDebugging", arguments));
        }
    }
}
