//! The end: a person who leaves or ends the program, an adapter that does not answer then, and one that is
//! gone. What must stay true: whoever waits is answered.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::clients::Phase;
use super::super::message::Envelope;
use super::super::{ClientId, Output, Who};
use super::{Hub, Pending, Work, raw_of};

/// How long an adapter may take to answer a request that ends its program.
const END: Duration = Duration::from_secs(2);
/// How long it may take for one that looks.
const LOOK: Duration = Duration::from_secs(60);
/// How long it may take for one that runs code of the program, or reads its symbols: some answer a step when it
/// is done.
const RUN: Duration = Duration::from_secs(300);

impl Hub {
    pub(super) fn disconnect(&mut self, client: ClientId, message: Envelope) {
        if message.content()["terminateDebuggee"] == true && !self.over {
            self.shared.ended_by_person = true;
            let from = Some((client, raw_of(&message, "seq")));
            return self.send_end(from, message.name);
        }
        self.answer(client, &message, Value::Null);
        self.left(client);
    }

    pub(super) fn terminate(&mut self, client: ClientId, message: Envelope) {
        if self.over {
            return self.answer(client, &message, Value::Null);
        }
        self.shared.ended_by_person = true;
        let can = self.capabilities.as_ref().is_some_and(|it| it["supportsTerminateRequest"] == true);
        let from = Some((client, raw_of(&message, "seq")));
        if can {
            let number = self.send(message.clone(), Pending { from, command: message.name, work: Work::End });
            return self.out.push(Output::Deadline { number, after: END });
        }
        self.send_end(from, message.name);
    }

    /// `disconnect` that ends the program, for a client that asked so or with `terminate`.
    pub(super) fn send_end(&mut self, from: Option<(ClientId, Box<RawValue>)>, command: String) {
        let own = Envelope::request("disconnect", json!({ "terminateDebuggee": true }));
        let number = self.send(own, Pending { from, command, work: Work::Disconnect });
        self.out.push(Output::Deadline { number, after: END });
    }

    /// How long the answer is waited for. The agent has deadlines of its own, but what it has sent must not hold
    /// up others; what ends the program is given its time where it is sent.
    pub(super) fn patience(&self, pending: &Pending) -> Option<Duration> {
        let client = pending.from.as_ref().and_then(|(client, _)| self.members.get(client));
        match &pending.work {
            Work::Run(_) | Work::Set(_) => Some(RUN),
            Work::Plain | Work::Threads | Work::Change if client?.who == Who::Person => {
                let runs = matches!(pending.work, Work::Change) || pending.command == "evaluate";
                Some(if runs { RUN } else { LOOK })
            }
            _ => None,
        }
    }

    /// Whether the answer to a request is waited for: the adapter's, or a client's.
    pub(crate) fn waits_for(&self, number: i64) -> bool {
        self.pending.contains_key(&number) || self.asked.iter().any(|it| it.number == number)
    }

    /// The adapter did not answer in time. Where a person ends the program it is asked to disconnect, then ended.
    pub(super) fn late(&mut self, number: i64) {
        match self.pending.remove(&number) {
            Some(Pending { from, command, work: Work::End }) if !self.over => self.send_end(from, command),
            // Its answer comes when it is gone, as that of all that wait.
            Some(pending @ Pending { work: Work::End | Work::Disconnect, .. }) => {
                self.shared.deaf = true;
                self.pending.insert(number, pending);
            }
            Some(pending) => {
                self.doubtful |= matches!(pending.work, Work::Run(_));
                let sentence = format!(
                    "the debug adapter has not answered `{}` in time; it may be busy, or hang: `terminate` ends it",
                    pending.command
                );
                let mut refusal = Envelope::refusal(&pending.command, "timeout", &sentence);
                refusal.set("request_seq", &json!(number));
                self.pending.insert(number, pending);
                self.response(refusal);
            }
            None => {}
        }
    }

    /// The adapter's stream is closed.
    pub(super) fn gone(&mut self, why: &str) {
        let first = !self.over;
        self.over = true;
        let mut pending: Vec<(i64, Pending)> = self.pending.drain().collect();
        pending.sort_by_key(|(number, _)| *number);
        let mut waiting: Vec<(ClientId, Box<RawValue>, String, bool)> = Vec::new();
        for (_, it) in pending {
            let ends = matches!(it.work, Work::End | Work::Disconnect);
            waiting.extend(it.from.map(|(client, seq)| (client, seq, it.command, ends)));
        }
        for it in std::mem::take(&mut self.queue) {
            waiting.extend(it.from.map(|(client, seq)| (client, seq, it.set.command().to_owned(), false)));
        }
        for (id, member) in &mut self.members {
            for message in std::mem::take(&mut member.waiting) {
                waiting.push((*id, raw_of(&message, "seq"), message.name.clone(), false));
            }
        }
        self.setting = None;
        self.held.clear();
        self.asked.clear();
        self.overheard.clear();
        for (client, seq, command, ends) in waiting {
            // The agent's own connection closes, which says the same.
            if self.members.get(&client).is_some_and(|it| it.who == Who::Person) {
                let answer = if ends {
                    Envelope::answer(&command, Value::Null)
                } else {
                    Envelope::refusal(&command, "terminated", &format!("the debug adapter is gone: {why}"))
                };
                self.respond(client, &seq, answer);
            }
        }
        if self.relaunching {
            return;
        }
        if first {
            self.tell_persons(&Envelope::event("terminated", Value::Null));
        }
        self.close_all();
    }

    /// What persons have set, or had before, as requests.
    pub fn of_persons(&self) -> Vec<(&'static str, Value)> {
        let agents = self.members.iter().filter(|(_, it)| it.who == Who::Agent);
        self.book.of_others(&agents.map(|(id, _)| *id).collect::<Vec<_>>())
    }

    /// The program was launched again elsewhere, or could not be.
    pub(super) fn relaunched(&mut self, configuration: Option<Value>) {
        if !std::mem::take(&mut self.relaunching) {
            return;
        }
        // A client that was told of a restart would otherwise ask for one here.
        let restarts = self.capabilities.as_ref().is_some_and(|it| it["supportsRestartRequest"] == true);
        if restarts && configuration.is_some() {
            let capabilities = json!({ "capabilities": { "supportsRestartRequest": false } });
            self.tell_persons(&Envelope::event("capabilities", capabilities));
        }
        let body = configuration.map_or(Value::Null, |it| json!({ "restart": it }));
        self.tell_persons(&Envelope::event("terminated", body));
        self.close_all();
    }

    pub(super) fn tell_persons(&mut self, message: &Envelope) {
        let persons = self.members.iter().filter(|(_, it)| it.who == Who::Person);
        for client in persons.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.tell_live(client, message.clone());
        }
    }

    fn close_all(&mut self) {
        for (client, member) in &mut self.members {
            member.phase = Phase::Closed;
            self.out.push(Output::Close { client: *client });
        }
    }
}
