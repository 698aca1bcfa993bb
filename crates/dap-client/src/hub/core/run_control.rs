//! Requests that run the program: the permission to send them, and the events for the other
//! clients.

use serde_json::{Value, json};

use super::super::clients::Phase;
use super::super::view::{Missing, View};
use super::super::{ClientId, Controller, Role};
use super::{Hub, USER_HAS_CONTROL, Work};
use crate::client::envelope::Envelope;

pub(super) struct RunRequest {
    pub(super) thread: Option<i64>,
    pub(super) all: bool,
    /// Time of sending, in the hub's view and in the requesting client's.
    pub(super) marks: (u64, u64),
    /// Whether the other clients were sent `continued`.
    pub(super) announced: bool,
}

/// Whether a command runs the program or moves its position.
///
/// The user takes control with such a command.
pub(super) fn runs(command: &str) -> bool {
    crate::debuggee::runs_on(command) || matches!(command, "pause" | "terminateThreads")
}

impl Hub {
    pub(super) fn run_request(&mut self, client: ClientId, role: Role, mut message: Envelope) {
        let command = message.name.clone();
        if role == Role::Agent && self.status.controller == Controller::User {
            return self.refuse(client, &message, "control_taken_by_user", USER_HAS_CONTROL);
        }
        let unfit = self.state_conflict(role, &command, &message.content());
        if let Some((state, help)) = unfit.filter(|_| command != "continue") {
            let short = if state == "running" { "notStopped" } else { "notRunning" };
            let sentence = format!("`{command}` does not fit: the session is {state}; {help}");
            return self.refuse(client, &message, short, &sentence);
        }
        if role == Role::User {
            self.user_takes_control();
        }
        if unfit.is_some() {
            return self.answer_while_running(client, &message);
        }
        if command == "restart" && role == Role::User && !self.launch_arguments.is_null() {
            // A joined client's arguments describe how it joined, not how the program was launched.
            message.set_content(&json!({ "arguments": self.launch_arguments }));
        }
        let work = self.run_effect(client, &command, &message.content()).map_or(Work::Plain, Work::Run);
        self.forward(client, message, work);
    }

    /// The state that forbids a run request, and advice.
    ///
    /// debugpy 1.8 answers nothing after a `continue` of a running program, so the hub does not forward one.
    fn state_conflict(
        &self,
        role: Role,
        command: &str,
        arguments: &Value,
    ) -> Option<(&'static str, &'static str)> {
        if self.run_state_unknown {
            return None;
        }
        let now = self.view_after_sent_requests();
        let thread = arguments["threadId"].as_i64();
        match command {
            "restart" | "terminateThreads" => None,
            "pause" => thread
                .filter(|thread| now.stopped_threads().contains(thread))
                .map(|_| ("stopped", "`continue` or step first")),
            // The agent's session checked the state, except for requests that are still in flight.
            _ if now.is_stopped() || role == Role::Agent && !self.view.is_stopped() => None,
            _ => Some(("running", "`pause` it, or wait for a breakpoint")),
        }
    }

    /// The program state after the adapter has completed all sent requests.
    fn view_after_sent_requests(&self) -> View {
        let mut view = self.view.clone();
        let sent = self.pending.iter().filter_map(|(number, it)| match &it.work {
            Work::Run(run) => Some((*number, run)),
            _ => None,
        });
        let mut sent: Vec<(i64, &RunRequest)> = sent.collect();
        sent.sort_unstable_by_key(|(number, _)| *number);
        sent.iter().for_each(|(_, run)| view.continued(run.thread, run.all, run.marks.0));
        view
    }

    /// Answers `continue` of a running program with success.
    ///
    /// Editors would show an error to the user.
    fn answer_while_running(&mut self, client: ClientId, message: &Envelope) {
        let Some(RunRequest { thread, all, marks: (_, own), .. }) =
            self.run_effect(client, &message.name, &message.content())
        else {
            return;
        };
        self.answer(client, message, json!({ "allThreadsContinued": all }));
        if let Some(member) = self.clients.get_mut(&client) {
            member.view.continued(thread, all, own);
        }
    }

    pub(super) fn user_takes_control(&mut self) {
        if self.status.controller != Controller::User {
            self.status.takeovers += 1;
        }
        self.status.controller = Controller::User;
    }

    /// The change of the program state by a run request of `client`.
    ///
    /// `None` if only events show it.
    pub(super) fn run_effect(
        &self,
        client: ClientId,
        command: &str,
        arguments: &Value,
    ) -> Option<RunRequest> {
        let own = self.clients.get(&client).map_or(0, |it| it.view.now());
        let marks = (self.view.now(), own);
        let (thread, all) = match command {
            "pause" | "goto" | "restartFrame" | "terminateThreads" => return None,
            "restart" => (None, true),
            _ => (arguments["threadId"].as_i64(), arguments["singleThread"] != true),
        };
        Some(RunRequest { thread, all, marks, announced: false })
    }

    /// Sends `continued` for unanswered run requests before a stop is sent.
    ///
    /// If the adapter refuses one, its response corrects the state.
    pub(super) fn announce_unanswered_runs(&mut self) {
        let unannounced = self.pending.iter_mut().filter_map(|(number, it)| match &mut it.work {
            Work::Run(RunRequest { thread, all, announced, .. }) if !*announced => {
                *announced = true;
                Some((*number, it.from.as_ref().map(|(client, _)| *client), *thread, *all))
            }
            _ => None,
        });
        let mut unannounced: Vec<_> = unannounced.collect();
        unannounced.sort_unstable();
        for (_, client, thread, all) in unannounced {
            for other in self.clients.keys().copied().filter(|it| Some(*it) != client).collect::<Vec<_>>() {
                let stopped = self.clients.get(&other).is_some_and(|it| it.view.is_stopped());
                if stopped {
                    self.announce_run(other, continued(thread, all));
                }
            }
        }
    }

    /// Sends all clients the events that bring their view up to date.
    ///
    /// The hub calls it after a run request was answered.
    pub(super) fn reconcile(&mut self) {
        for id in self.clients.keys().copied().collect::<Vec<_>>() {
            let Some(member) = self.clients.get(&id).filter(|it| it.phase == Phase::Live) else { continue };
            let last = member.view.stops().last().and_then(|stop| stop["threadId"].as_i64());
            for missing in member.view.missing(&self.view) {
                match missing {
                    Missing::Continued(thread) => {
                        self.announce_run(id, continued(thread.or(last), thread.is_none()));
                    }
                    Missing::Stopped(body) => self.notify_client(id, Envelope::event("stopped", body)),
                }
            }
        }
    }

    /// Sends `continued` in place of the adapter.
    fn announce_run(&mut self, client: ClientId, event: Envelope) {
        self.notify_client(client, event);
        if let Some(member) = self.clients.get_mut(&client) {
            member.run_announced = true;
        }
    }

    /// Sends the adapter's `continued` to clients that did not receive it from the hub.
    pub(super) fn notify_continued(&mut self, event: &Envelope) {
        for client in self.clients.keys().copied().collect::<Vec<_>>() {
            let Some(member) = self.clients.get(&client) else { continue };
            let mut then = member.view.clone();
            apply_event(&mut then, event);
            let is_news = !then.stops().eq(member.view.stops());
            if is_news || !member.run_announced {
                self.notify_client(client, event.clone());
            }
        }
    }
}

fn continued(thread: Option<i64>, all: bool) -> Envelope {
    Envelope::event(
        "continued",
        json!({ "threadId": thread.unwrap_or_default(), "allThreadsContinued": all }),
    )
}

/// Applies an event to a view.
pub(super) fn apply_event(view: &mut View, event: &Envelope) {
    if !matches!(event.name.as_str(), "thread" | "stopped" | "continued") {
        return;
    }
    let body = event.content();
    let thread = body["threadId"].as_i64();
    match (event.name.as_str(), thread) {
        ("thread", Some(thread)) if body["reason"] == "exited" => view.exited(thread),
        ("thread", Some(thread)) => view.started(thread),
        // A missing member means all threads (DAP §Continued Event).
        ("continued", _) => {
            view.continued(thread, body["allThreadsContinued"].as_bool().unwrap_or(true), u64::MAX)
        }
        ("stopped", _) => view.stopped(body),
        _ => {}
    }
}
