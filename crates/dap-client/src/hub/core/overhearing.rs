//! An editor that holds the session itself and speaks with the adapter past the hub.

use serde_json::json;

use super::super::ClientId;
use super::super::merge::{Before, Book, Set};
use super::super::message::{Envelope, Kind};
use super::running::runs;
use super::{Hub, Pending, WAITING, Work, changes};

/// A set that an editor sent past the hub.
pub(super) struct Heard {
    pub(super) client: ClientId,
    pub(super) set: Set,
    pub(super) before: Before,
    /// What was on its way then did not know of it.
    pub(super) crossed: bool,
}

impl Hub {
    /// What an editor that holds the session said to the adapter, or was answered.
    pub(super) fn overheard(&mut self, client: ClientId, mut message: Envelope) {
        if self.over || !self.members.contains_key(&client) {
            return;
        }
        if message.kind == Kind::Response {
            let asked = message.raw("request_seq").map(|it| it.get().trim().to_owned());
            if let Some(number) = asked.and_then(|seq| self.overheard.remove(&seq)) {
                message.set("request_seq", &json!(number));
                self.response(message);
            }
            return;
        }
        let (command, arguments) = (message.name.as_str(), message.content());
        let work = match command {
            _ if runs(command) => {
                self.person_takes();
                self.run_of(client, command, &arguments).map(Work::Run)
            }
            _ if changes(command) => Some(Work::Change),
            "terminate" | "disconnect" => {
                self.shared.ended_by_person = true;
                None
            }
            _ => Book::set_of(command, &arguments, &*self.options.same).map(|set| {
                let before = self.book.replace(client, &set, &arguments);
                let crossed = self.setting.is_some();
                Work::Heard(Box::new(Heard { client, set, before, crossed }))
            }),
        };
        if let (Some(work), Some(seq)) = (work, message.raw("seq")) {
            let number = self.number();
            let before = self.overheard.insert(seq.get().trim().to_owned(), number);
            let command = message.name.clone();
            self.pending.insert(number, Pending { from: None, command, work });
            if let Some(number) = before.or_else(|| self.longest_overheard()) {
                self.give_up(number);
            }
        }
    }

    /// The request that waits longest, where too many do.
    fn longest_overheard(&mut self) -> Option<i64> {
        if self.overheard.len() <= WAITING {
            return None;
        }
        let (seq, number) = self.overheard.iter().min_by_key(|(_, number)| **number)?;
        let (seq, number) = (seq.clone(), *number);
        self.overheard.remove(&seq);
        Some(number)
    }

    /// The answer to a request is not waited for any longer: the adapter did as it was asked, for all we know.
    fn give_up(&mut self, number: i64) {
        let Some(Pending { command, work, .. }) = self.pending.remove(&number) else { return };
        self.log(format!("the answer to `{command}`, which an editor sent itself, is not waited for"));
        if let Work::Heard(heard) = work {
            self.heard(*heard, true);
        }
    }

    /// The adapter has now what an editor alone wants: with what the others want it is sent again.
    pub(super) fn heard(&mut self, heard: Heard, good: bool) {
        let Heard { client, set, before, crossed } = heard;
        if !good {
            return self.book.restore(before);
        }
        if crossed || self.book.others_want(&set, client) {
            self.set_again(set);
            self.next_setting();
        }
    }
}
