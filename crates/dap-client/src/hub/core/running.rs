//! Requests that run the program: who may send them, and what those who did not are told.

use serde_json::{Value, json};

use super::super::clients::Phase;
use super::super::message::Envelope;
use super::super::view::{Missing, View};
use super::super::{ClientId, Controller, Who};
use super::{Hub, THEIRS, Work};

pub(super) struct Run {
    pub(super) thread: Option<i64>,
    pub(super) all: bool,
    /// The moment when it was sent, in the hub's view and in that of who asked.
    pub(super) marks: (u64, u64),
    /// The others were told that the program runs on.
    pub(super) told: bool,
}

/// Requests that run the program or move where it runs on; a person's take control.
pub(super) fn runs(command: &str) -> bool {
    crate::debuggee::runs_on(command) || matches!(command, "pause" | "terminateThreads")
}

impl Hub {
    pub(super) fn run(&mut self, client: ClientId, who: Who, mut message: Envelope) {
        let command = message.name.clone();
        if who == Who::Agent && self.shared.controller == Controller::Person {
            return self.refuse(client, &message, "control_taken_by_user", THEIRS);
        }
        let unfit = self.unfit(who, &command, &message.content());
        if let Some((state, help)) = unfit.filter(|_| command != "continue") {
            let short = if state == "running" { "notStopped" } else { "notRunning" };
            let sentence = format!("`{command}` does not fit: the session is {state}; {help}");
            return self.refuse(client, &message, short, &sentence);
        }
        if who == Who::Person {
            self.person_takes();
        }
        if unfit.is_some() {
            return self.runs_already(client, &message);
        }
        if command == "restart" && who == Who::Person && !self.launched.is_null() {
            // ExternalSession says how they joined.
            message.set_content(&json!({ "arguments": self.launched }));
        }
        let work = self.run_of(client, &command, &message.content()).map_or(Work::Plain, Work::Run);
        self.pass(client, message, work);
    }

    /// The state's name and what to do, where it forbids a request that runs the program. After a `continue` of
    /// what runs debugpy 1.8 answers nothing any more, so none is passed on.
    fn unfit(&self, who: Who, command: &str, arguments: &Value) -> Option<(&'static str, &'static str)> {
        if self.doubtful {
            return None;
        }
        let now = self.as_sent();
        let thread = arguments["threadId"].as_i64();
        match command {
            "restart" | "terminateThreads" => None,
            "pause" => thread
                .filter(|thread| now.stopped_threads().contains(thread))
                .map(|_| ("stopped", "`continue` or step first")),
            // The agent has looked at the state itself, but for what another has just asked.
            _ if now.is_stopped() || who == Who::Agent && !self.view.is_stopped() => None,
            _ => Some(("running", "`pause` it, or wait for a breakpoint")),
        }
    }

    /// The program as it is once what was sent is carried out.
    fn as_sent(&self) -> View {
        let mut view = self.view.clone();
        let sent = self.pending.iter().filter_map(|(number, it)| match &it.work {
            Work::Run(run) => Some((*number, run)),
            _ => None,
        });
        let mut sent: Vec<(i64, &Run)> = sent.collect();
        sent.sort_unstable_by_key(|(number, _)| *number);
        sent.iter().for_each(|(_, run)| view.continued(run.thread, run.all, run.marks.0));
        view
    }

    /// `continue` of what runs already: it is as the client wants it, and an error would be shown to a person.
    fn runs_already(&mut self, client: ClientId, message: &Envelope) {
        let Some(Run { thread, all, marks: (_, own), .. }) =
            self.run_of(client, &message.name, &message.content())
        else {
            return;
        };
        self.answer(client, message, json!({ "allThreadsContinued": all }));
        if let Some(member) = self.members.get_mut(&client) {
            member.told.continued(thread, all, own);
        }
    }

    pub(super) fn person_takes(&mut self) {
        if self.shared.controller != Controller::Person {
            self.shared.taken += 1;
        }
        self.shared.controller = Controller::Person;
    }

    /// What a request of `client` that runs the program means; `None` where only events can say.
    pub(super) fn run_of(&self, client: ClientId, command: &str, arguments: &Value) -> Option<Run> {
        let own = self.members.get(&client).map_or(0, |it| it.told.now());
        let marks = (self.view.now(), own);
        let (thread, all) = match command {
            "pause" | "goto" | "restartFrame" | "terminateThreads" => return None,
            "restart" => (None, true),
            _ => (arguments["threadId"].as_i64(), arguments["singleThread"] != true),
        };
        Some(Run { thread, all, marks, told: false })
    }

    /// Tells of the requests that run the program and are not answered, before a stop is told. Should one
    /// be refused, its answer puts that right.
    pub(super) fn resume_unanswered(&mut self) {
        let untold = self.pending.iter_mut().filter_map(|(number, it)| match &mut it.work {
            Work::Run(Run { thread, all, told, .. }) if !*told => {
                *told = true;
                Some((*number, it.from.as_ref().map(|(client, _)| *client), *thread, *all))
            }
            _ => None,
        });
        let mut untold: Vec<_> = untold.collect();
        untold.sort_unstable();
        for (_, client, thread, all) in untold {
            for other in self.members.keys().copied().filter(|it| Some(*it) != client).collect::<Vec<_>>() {
                let stopped = self.members.get(&other).is_some_and(|it| it.told.is_stopped());
                if stopped {
                    self.foretell(other, continued(thread, all));
                }
            }
        }
    }

    /// After a request that runs the program was answered: all are told what they do not know.
    pub(super) fn reconcile(&mut self) {
        for id in self.members.keys().copied().collect::<Vec<_>>() {
            let Some(member) = self.members.get(&id).filter(|it| it.phase == Phase::Live) else { continue };
            let last = member.told.stops().last().and_then(|stop| stop["threadId"].as_i64());
            for missing in member.told.missing(&self.view) {
                match missing {
                    Missing::Continued(thread) => {
                        self.foretell(id, continued(thread.or(last), thread.is_none()));
                    }
                    Missing::Stopped(body) => self.tell_live(id, Envelope::event("stopped", body)),
                }
            }
        }
    }

    /// Tells that the program runs on, in place of the adapter.
    fn foretell(&mut self, client: ClientId, event: Envelope) {
        self.tell_live(client, event);
        if let Some(member) = self.members.get_mut(&client) {
            member.foretold = true;
        }
    }

    /// The adapter's own word that the program runs on: who was told already is not told again.
    pub(super) fn tell_continued(&mut self, event: &Envelope) {
        for client in self.members.keys().copied().collect::<Vec<_>>() {
            let Some(member) = self.members.get(&client) else { continue };
            let mut then = member.told.clone();
            fold(&mut then, event);
            let is_news = !then.stops().eq(member.told.stops());
            if is_news || !member.foretold {
                self.tell_live(client, event.clone());
            }
        }
    }
}

/// The event that tells of a run that `thread`, or all, go on with.
fn continued(thread: Option<i64>, all: bool) -> Envelope {
    Envelope::event(
        "continued",
        json!({ "threadId": thread.unwrap_or_default(), "allThreadsContinued": all }),
    )
}

/// What an event says of the program.
pub(super) fn fold(view: &mut View, event: &Envelope) {
    if !matches!(event.name.as_str(), "thread" | "stopped" | "continued") {
        return;
    }
    let body = event.content();
    let thread = body["threadId"].as_i64();
    match (event.name.as_str(), thread) {
        ("thread", Some(thread)) if body["reason"] == "exited" => view.exited(thread),
        ("thread", Some(thread)) => view.started(thread),
        // Left out means all (DAP §Continued Event).
        ("continued", _) => {
            view.continued(thread, body["allThreadsContinued"].as_bool().unwrap_or(true), u64::MAX)
        }
        ("stopped", _) => view.stopped(body),
        _ => {}
    }
}
