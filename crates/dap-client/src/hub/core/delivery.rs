//! Messages to clients: each under the client's own numbers and in its own
//! coordinates.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::clients::{ClientState, Phase};
use super::super::{ClientId, Output, Role};
use super::run_control::apply_event;
use super::{Hub, raw_member};
use crate::client::envelope::Envelope;

impl Hub {
    pub(super) fn answer(&mut self, client: ClientId, to: &Envelope, body: Value) {
        let seq = raw_member(to, "seq");
        self.respond(client, &seq, Envelope::answer(&to.name, body));
    }

    pub(super) fn refuse(&mut self, client: ClientId, to: &Envelope, short: &str, sentence: &str) {
        let seq = raw_member(to, "seq");
        self.respond(client, &seq, Envelope::refusal(&to.name, short, sentence));
    }

    pub(super) fn respond(&mut self, client: ClientId, to: &RawValue, mut answer: Envelope) {
        answer.set_raw("request_seq", to.to_owned());
        self.send_to_client(client, answer);
    }

    /// Sends an event to all clients but one.
    pub(super) fn notify_all(&mut self, message: &Envelope, but: Option<ClientId>) {
        for client in self.clients.keys().copied().filter(|it| Some(*it) != but).collect::<Vec<_>>() {
            self.notify_client(client, message.clone());
        }
    }

    pub(super) fn notify_agent(&mut self, message: &Envelope) {
        let agents = self.clients.iter().filter(|(_, it)| it.role == Role::Agent);
        for agent in agents.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.send_to_client(agent, message.clone());
        }
    }

    pub(super) fn notify_client(&mut self, client: ClientId, mut message: Envelope) {
        let Some(member) = self.clients.get(&client).filter(|it| it.phase == Phase::Live) else { return };
        if member.capabilities.accepts_event(member.role, &message.name) {
            if let Some(member) = self.clients.get_mut(&client) {
                apply_event(&mut member.view, &message);
                // Later events of the adapter concern another run.
                member.run_announced &= message.name != "stopped";
            }
            let Some(member) = self.clients.get(&client) else { return };
            member.capabilities.coordinates.to_client(&mut message);
            self.send_to_client(client, message);
        }
    }

    /// Sends a message under the client's next number; returns the number.
    pub(super) fn send_to_client(&mut self, client: ClientId, mut message: Envelope) -> i64 {
        let receives_nothing = |it: &ClientState| matches!(it.phase, Phase::Closed | Phase::External);
        let Some(member) = self.clients.get_mut(&client).filter(|it| !receives_nothing(it)) else {
            return 0;
        };
        let number = member.next_seq;
        member.next_seq += 1;
        message.set("seq", &json!(number));
        self.out.push(Output::Client { client, message });
        number
    }

    pub(super) fn log(&mut self, text: String) {
        self.out.push(Output::Log(text));
    }
}
