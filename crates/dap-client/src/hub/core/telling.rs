//! The ways out: answers and events, each under the client's own numbers and in its own coordinates.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::clients::{Member, Phase};
use super::super::message::Envelope;
use super::super::{ClientId, Output, Who};
use super::running::fold;
use super::{Hub, raw_of};

impl Hub {
    pub(super) fn answer(&mut self, client: ClientId, to: &Envelope, body: Value) {
        let seq = raw_of(to, "seq");
        self.respond(client, &seq, Envelope::answer(&to.name, body));
    }

    pub(super) fn refuse(&mut self, client: ClientId, to: &Envelope, short: &str, sentence: &str) {
        let seq = raw_of(to, "seq");
        self.respond(client, &seq, Envelope::refusal(&to.name, short, sentence));
    }

    pub(super) fn respond(&mut self, client: ClientId, to: &RawValue, mut answer: Envelope) {
        answer.set_raw("request_seq", to.to_owned());
        self.tell(client, answer);
    }

    /// To all who are there, but for the one who needs no word.
    pub(super) fn tell_all(&mut self, message: &Envelope, but: Option<ClientId>) {
        for client in self.members.keys().copied().filter(|it| Some(*it) != but).collect::<Vec<_>>() {
            self.tell_live(client, message.clone());
        }
    }

    pub(super) fn tell_agents(&mut self, message: &Envelope) {
        let agents = self.members.iter().filter(|(_, it)| it.who == Who::Agent);
        for agent in agents.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.tell(agent, message.clone());
        }
    }

    pub(super) fn tell_live(&mut self, client: ClientId, mut message: Envelope) {
        let Some(member) = self.members.get(&client).filter(|it| it.phase == Phase::Live) else { return };
        if member.facts.takes(member.who, &message.name) {
            if let Some(member) = self.members.get_mut(&client) {
                fold(&mut member.told, &message);
                // What the adapter tells from here on is of another run.
                member.foretold &= message.name != "stopped";
            }
            let Some(member) = self.members.get(&client) else { return };
            member.facts.coordinates.to_client(&mut message);
            self.tell(client, message);
        }
    }

    /// Sends under the client's own next number, which it gives.
    pub(super) fn tell(&mut self, client: ClientId, mut message: Envelope) -> i64 {
        let deaf = |it: &Member| matches!(it.phase, Phase::Closed | Phase::Beside);
        let Some(member) = self.members.get_mut(&client).filter(|it| !deaf(it)) else {
            return 0;
        };
        let number = member.next;
        member.next += 1;
        message.set("seq", &json!(number));
        self.out.push(Output::Client { client, message });
        number
    }

    pub(super) fn log(&mut self, text: String) {
        self.out.push(Output::Log(text));
    }
}
