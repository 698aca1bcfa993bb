//! What the adapter asks of the clients, and the hub of persons' editors: each is asked of one who can.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::clients::{Member, Phase};
use super::super::coordinates::Coordinates;
use super::super::message::Envelope;
use super::super::{ClientId, Output, Who};
use super::{Hub, raw_of};

/// How long a person's editor may take for an answer.
const ANSWER: Duration = Duration::from_secs(20);

pub(super) struct Asked {
    /// Below 0, unlike those of requests to the adapter.
    pub(super) number: i64,
    pub(super) adapter_seq: Box<RawValue>,
    pub(super) message: Envelope,
    pub(super) client: ClientId,
    pub(super) client_seq: i64,
    pub(super) tried: BTreeSet<ClientId>,
}

impl Hub {
    pub(super) fn reverse(&mut self, message: Envelope) {
        let seq = raw_of(&message, "seq");
        self.ask_next(seq, message, BTreeSet::new());
    }

    /// Asks the next who can answer: a person who can do it, then the agent, then nobody.
    pub(super) fn ask_next(
        &mut self,
        adapter_seq: Box<RawValue>,
        message: Envelope,
        mut tried: BTreeSet<ClientId>,
    ) {
        let command = message.name.as_str();
        let able = |(id, it): &(&ClientId, &Member)| {
            // Children are the agent's to start: they get a hub of their own.
            let can = it.who == Who::Agent
                || it.phase == Phase::Live && command == "runInTerminal" && it.facts.terminal;
            can && !tried.contains(*id)
        };
        let chosen =
            self.members.iter().filter(able).max_by_key(|(_, it)| it.who == Who::Person).map(|(id, _)| *id);
        let Some(client) = chosen else {
            let sentence = format!("nobody here can answer `{command}`");
            let mut answer = Envelope::refusal(command, "notSupported", &sentence);
            answer.set_raw("request_seq", adapter_seq);
            return self.send_answer(answer);
        };
        tried.insert(client);
        self.asks -= 1;
        let number = self.asks;
        if self.members.get(&client).is_some_and(|it| it.who == Who::Person) {
            self.out.push(Output::Deadline { number, after: ANSWER });
        }
        let mut own = message.clone();
        let coordinates = self.members.get(&client).map_or(Coordinates::ADAPTER, |it| it.facts.coordinates);
        coordinates.to_client(&mut own);
        let client_seq = self.tell(client, own);
        self.asked.push(Asked { number, adapter_seq, message, client, client_seq, tried });
    }

    /// A person's editor did not answer in time: the next is asked.
    pub(super) fn unanswered(&mut self, number: i64) {
        if let Some(at) = self.asked.iter().position(|it| it.number == number) {
            let Asked { adapter_seq, message, client, tried, .. } = self.asked.remove(at);
            self.log(format!("client {client} did not answer `{}` in time", message.name));
            self.ask_next(adapter_seq, message, tried);
        }
    }

    pub(super) fn reply(&mut self, client: ClientId, message: &Envelope) {
        let to = message.answers();
        let Some(at) = self.asked.iter().position(|it| it.client == client && Some(it.client_seq) == to)
        else {
            // Also the answers to what the hub itself asked, which say nothing.
            return self.log(format!("client {client} answered {:?}, which was not asked", to));
        };
        let Asked { adapter_seq, message: asked, tried, .. } = self.asked.remove(at);
        let person = self.members.get(&client).is_some_and(|it| it.who == Who::Person);
        if !message.success() && person {
            return self.ask_next(adapter_seq, asked, tried);
        }
        let mut answer = message.clone();
        answer.set("command", &json!(asked.name));
        answer.set_raw("request_seq", adapter_seq);
        self.send_answer(answer);
    }

    pub(super) fn send_answer(&mut self, mut answer: Envelope) {
        let number = self.number();
        answer.set("seq", &json!(number));
        self.out.push(Output::Adapter(answer));
    }

    /// A child session of the agent's: persons whose editors can are asked to join it.
    pub(super) fn child(&mut self, configuration: Value) {
        for client in self.members.keys().copied().collect::<Vec<_>>() {
            self.ask_to_join(client, &configuration);
        }
        // Whoever comes later is asked then.
        self.children.push(configuration);
    }

    pub(super) fn ask_to_join(&mut self, client: ClientId, configuration: &Value) {
        let able = |it: &Member| it.who == Who::Person && it.phase == Phase::Live && it.facts.children;
        if self.members.get(&client).is_some_and(able) {
            let arguments = json!({ "request": "attach", "configuration": configuration });
            self.tell(client, Envelope::request("startDebugging", arguments));
        }
    }
}
