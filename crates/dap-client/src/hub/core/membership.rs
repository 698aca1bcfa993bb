//! Clients that join and leave: their handshake, the replay of past events, and
//! cleanup.

use serde_json::{Value, json};

use super::super::breakpoint_table::PREVIOUS_SESSION;
use super::super::clients::{ClientCapabilities, ClientState, Phase};
use super::super::view::View;
use super::super::{ClientId, Controller, Output, Role};
use super::{Hub, Work, is_from};
use crate::client::envelope::Envelope;

impl Hub {
    pub(super) fn add_client(&mut self, client: ClientId, role: Role) {
        let phase = if role == Role::Agent { Phase::Live } else { Phase::New };
        self.clients.insert(
            client,
            ClientState {
                role,
                phase,
                capabilities: ClientCapabilities::default(),
                view: View::default(),
                run_announced: false,
                next_seq: 1,
                deferred_requests: Vec::new(),
            },
        );
        self.update_joined_clients();
    }

    pub(super) fn remove_client(&mut self, client: ClientId) {
        let Some(member) = self.clients.remove(&client) else { return };
        self.pending.values_mut().for_each(|it| {
            if is_from(&it.from, client) {
                it.from = None;
            }
        });
        self.queued_sets.retain(|it| !is_from(&it.from, client));
        self.drop_breakpoints(client);
        for asked in self.reverse_requests.extract_if(.., |it| it.client == client).collect::<Vec<_>>() {
            self.ask_next_client(asked.adapter_seq, asked.message, asked.tried);
        }
        if member.phase != Phase::Closed {
            self.out.push(Output::Close { client });
        }
        self.update_joined_clients();
    }

    pub(super) fn update_joined_clients(&mut self) {
        let is_live = |it: &&ClientState| matches!(it.phase, Phase::Live | Phase::External);
        let is_joined = |it: &&ClientState| it.role == Role::User && is_live(it);
        let joined_clients = self.clients.values().filter(is_joined).count();
        // Control returns to the agent when the last client leaves.
        if joined_clients == 0 {
            self.status.controller = Controller::Agent;
        }
        self.status.joined_clients = joined_clients;
    }

    pub(super) fn drop_agent_breakpoints(&mut self) {
        let agents: Vec<ClientId> =
            self.clients.iter().filter(|(_, it)| it.role == Role::Agent).map(|(id, _)| *id).collect();
        agents.into_iter().for_each(|agent| self.drop_breakpoints(agent));
        if self.status.joined_clients > 0 {
            self.status.controller = Controller::User;
        }
    }

    pub(super) fn drop_breakpoints(&mut self, client: ClientId) {
        for set in self.breakpoints.remove_client(client) {
            if !self.terminated {
                self.queue_resend(set);
            }
        }
        self.send_next_set();
    }

    pub(super) fn initialize_adapter(&mut self, client: ClientId, mut message: Envelope) {
        let mut arguments = message.content();
        // The hub forwards these to clients that support them and filters them for others.
        for can in [
            "supportsProgressReporting",
            "supportsInvalidatedEvent",
            "supportsMemoryEvent",
            "supportsMemoryReferences",
        ] {
            arguments[can] = json!(true);
        }
        message.set_content(&arguments);
        self.forward(client, message, Work::Initialize);
    }

    pub(super) fn initialize_client(&mut self, client: ClientId, phase: Phase, message: Envelope) {
        if phase != Phase::New {
            return self.refuse(client, &message, "initialized", "`initialize` was already answered");
        }
        let Some(capabilities) = &self.capabilities else {
            return self.defer_request(client, message);
        };
        let mut capabilities = capabilities.clone();
        // The hub implements these capabilities itself.
        for can in
            ["supportsConfigurationDoneRequest", "supportTerminateDebuggee", "supportsTerminateRequest"]
        {
            capabilities[can] = json!(true);
        }
        if let Some(member) = self.clients.get_mut(&client) {
            member.capabilities = ClientCapabilities::read(&message.content());
            member.phase = Phase::Initialized;
        }
        self.answer(client, &message, capabilities);
    }

    pub(super) fn attach_client(&mut self, client: ClientId, message: Envelope) {
        if !self.adapter_initialized {
            return self.defer_request(client, message);
        }
        let Some(member) = self.clients.get_mut(&client).filter(|it| it.phase == Phase::Initialized) else {
            return self.refuse(client, &message, "attached", "`attach` was already answered");
        };
        member.phase = Phase::Attached;
        self.answer(client, &message, Value::Null);
        self.send_to_client(client, Envelope::event("initialized", Value::Null));
    }

    /// Defers a request until the adapter is initialized.
    pub(super) fn defer_request(&mut self, client: ClientId, message: Envelope) {
        if let Some(member) = self.clients.get_mut(&client) {
            member.deferred_requests.push(message);
        }
    }

    pub(super) fn resume_deferred_requests(&mut self) {
        for client in self.clients.keys().copied().collect::<Vec<_>>() {
            let waiting = self.clients.get_mut(&client).map(|it| std::mem::take(&mut it.deferred_requests));
            waiting.into_iter().flatten().for_each(|message| self.client_request(client, message));
        }
    }

    /// Replays past events to a client that is configured, and forwards all later ones.
    pub(super) fn client_configured(&mut self, client: ClientId, message: Envelope) {
        self.answer(client, &message, Value::Null);
        if let Some(member) = self.clients.get_mut(&client) {
            member.phase = Phase::Live;
        }
        // The client has set its breakpoints by now.
        self.drop_breakpoints(PREVIOUS_SESSION);
        self.update_joined_clients();
        if let Some(process) = self.process.clone() {
            self.notify_client(client, Envelope::event("process", process));
        }
        for thread in self.view.live.clone() {
            self.notify_client(
                client,
                Envelope::event("thread", json!({ "reason": "started", "threadId": thread })),
            );
        }
        for stop in self.view.stops().cloned().collect::<Vec<_>>() {
            self.notify_client(client, Envelope::event("stopped", stop));
        }
        for output in self.backlog.replay().collect::<Vec<_>>() {
            self.notify_client(client, output);
        }
        for child in self.children.clone() {
            self.ask_to_join(client, &child);
        }
    }
}
