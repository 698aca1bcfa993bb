//! Clients come and go: what one that joins is answered and told, and what leaves with one that goes.

use serde_json::{Value, json};

use super::super::clients::{Facts, Member, Phase};
use super::super::merge::FORMER;
use super::super::message::Envelope;
use super::super::view::View;
use super::super::{ClientId, Controller, Output, Who};
use super::{Hub, Work};

impl Hub {
    pub(super) fn joined(&mut self, client: ClientId, who: Who) {
        let phase = if who == Who::Agent { Phase::Live } else { Phase::New };
        self.members.insert(
            client,
            Member {
                who,
                phase,
                facts: Facts::default(),
                told: View::default(),
                foretold: false,
                next: 1,
                waiting: Vec::new(),
            },
        );
        self.count();
    }

    pub(super) fn left(&mut self, client: ClientId) {
        let Some(member) = self.members.remove(&client) else { return };
        self.pending.values_mut().for_each(|it| {
            if it.from.as_ref().is_some_and(|(of, _)| *of == client) {
                it.from = None;
            }
        });
        self.queue.retain(|it| it.from.as_ref().is_none_or(|(of, _)| *of != client));
        self.drop_lists(client);
        for asked in self.asked.extract_if(.., |it| it.client == client).collect::<Vec<_>>() {
            self.ask_next(asked.adapter_seq, asked.message, asked.tried);
        }
        if member.phase != Phase::Closed {
            self.out.push(Output::Close { client });
        }
        self.count();
    }

    pub(super) fn count(&mut self) {
        let there = |it: &&Member| matches!(it.phase, Phase::Live | Phase::Beside);
        let joined = |it: &&Member| it.who == Who::Person && there(it);
        let persons = self.members.values().filter(joined).count();
        // The last person who leaves gives control back.
        if persons == 0 {
            self.shared.controller = Controller::Agent;
        }
        self.shared.persons = persons;
    }

    pub(super) fn forget_agent(&mut self) {
        let agents: Vec<ClientId> =
            self.members.iter().filter(|(_, it)| it.who == Who::Agent).map(|(id, _)| *id).collect();
        agents.into_iter().for_each(|agent| self.drop_lists(agent));
        if self.shared.persons > 0 {
            self.shared.controller = Controller::Person;
        }
    }

    pub(super) fn drop_lists(&mut self, client: ClientId) {
        for set in self.book.forget(client) {
            if !self.over {
                self.set_again(set);
            }
        }
        self.next_setting();
    }

    pub(super) fn initialize_adapter(&mut self, client: ClientId, mut message: Envelope) {
        let mut arguments = message.content();
        // What the hub passes on to those who can and keeps from the others.
        for can in [
            "supportsProgressReporting",
            "supportsInvalidatedEvent",
            "supportsMemoryEvent",
            "supportsMemoryReferences",
        ] {
            arguments[can] = json!(true);
        }
        message.set_content(&arguments);
        self.pass(client, message, Work::Initialize);
    }

    pub(super) fn initialize_person(&mut self, client: ClientId, phase: Phase, message: Envelope) {
        if phase != Phase::New {
            return self.refuse(client, &message, "initialized", "`initialize` comes once");
        }
        let Some(capabilities) = &self.capabilities else {
            return self.wait(client, message);
        };
        let mut capabilities = capabilities.clone();
        // The hub's own.
        for can in
            ["supportsConfigurationDoneRequest", "supportTerminateDebuggee", "supportsTerminateRequest"]
        {
            capabilities[can] = json!(true);
        }
        if let Some(member) = self.members.get_mut(&client) {
            member.facts = Facts::read(&message.content());
            member.phase = Phase::Initialized;
        }
        self.answer(client, &message, capabilities);
    }

    pub(super) fn attach(&mut self, client: ClientId, message: Envelope) {
        if !self.ready {
            return self.wait(client, message);
        }
        let Some(member) = self.members.get_mut(&client).filter(|it| it.phase == Phase::Initialized) else {
            return self.refuse(client, &message, "attached", "`attach` comes once");
        };
        member.phase = Phase::Attached;
        self.answer(client, &message, Value::Null);
        self.tell(client, Envelope::event("initialized", Value::Null));
    }

    /// Keeps a request until the adapter is there.
    pub(super) fn wait(&mut self, client: ClientId, message: Envelope) {
        if let Some(member) = self.members.get_mut(&client) {
            member.waiting.push(message);
        }
    }

    pub(super) fn wake(&mut self) {
        for client in self.members.keys().copied().collect::<Vec<_>>() {
            let waiting = self.members.get_mut(&client).map(|it| std::mem::take(&mut it.waiting));
            waiting.into_iter().flatten().for_each(|message| self.request(client, message));
        }
    }

    /// What happened before the client came, and from now on all that happens.
    pub(super) fn configured(&mut self, client: ClientId, message: Envelope) {
        self.answer(client, &message, Value::Null);
        if let Some(member) = self.members.get_mut(&client) {
            member.phase = Phase::Live;
        }
        // What it wants it has set by now.
        self.drop_lists(FORMER);
        self.count();
        if let Some(process) = self.process.clone() {
            self.tell_live(client, Envelope::event("process", process));
        }
        for thread in self.view.live.clone() {
            self.tell_live(
                client,
                Envelope::event("thread", json!({ "reason": "started", "threadId": thread })),
            );
        }
        for stop in self.view.stops().cloned().collect::<Vec<_>>() {
            self.tell_live(client, Envelope::event("stopped", stop));
        }
        for output in self.kept.replay().collect::<Vec<_>>() {
            self.tell_live(client, output);
        }
        for child in self.children.clone() {
            self.ask_to_join(client, &child);
        }
    }
}
