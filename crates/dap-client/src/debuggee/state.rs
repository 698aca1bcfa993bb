//! State of one debug session, derived from the adapter's events and Pilcrow's requests.
//!
//! Pure: inputs in, state changes out.
//!
//! Invariants: `terminated` is the last state; every resume begins a new epoch, in which handles of
//! the previous one are stale; only the state decides whether a request is allowed.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The adapter has not reported `initialized` yet.
    Launching,
    /// The adapter accepts breakpoints; the program does not run yet.
    Configuring,
    Running,
    Stopped(Stop),
    Terminated(End),
}

impl State {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Launching => "launching",
            Self::Configuring => "configuring",
            Self::Running => "running",
            Self::Stopped(_) => "stopped",
            Self::Terminated(_) => "terminated",
        }
    }
}

/// Reason and place of a stop; DAP §Stopped Event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stop {
    /// Reason such as `breakpoint`, `step`, `exception`, `pause` or `entry`.
    ///
    /// Adapters may report others.
    pub reason: String,
    pub description: Option<String>,
    /// Details, such as an exception's name.
    pub text: Option<String>,
    /// The thread that stopped, if reported.
    pub thread: Option<i64>,
    /// The adapter's ids of the hit breakpoints.
    pub hit: Vec<i64>,
    /// Whether another stop has the focus: DAP `preserveFocusHint`.
    pub preserves_focus: bool,
}

/// End of a session; `None` members were not reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct End {
    pub exit_code: Option<i64>,
    /// The signal that ended it.
    pub signal: Option<i64>,
    /// Whether a signal was the last reported stop and no exit code is known.
    pub after_signal: bool,
    /// The requested end, if any.
    ///
    /// An exit code may then be only the program's reaction.
    pub asked: Option<Ending>,
    /// The adapter's failure, with the end of its standard error.
    pub failure: Option<String>,
    /// Whether the session never started.
    ///
    /// Then the reason in `failure` may not be the adapter's.
    pub start_failed: bool,
}

/// A requested end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Terminated,
    /// The end keeps the program running.
    Left,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Event `initialized`.
    Initialized,
    /// `configurationDone` was answered, or the adapter does not support it.
    Configured,
    /// Event `stopped`.
    Stopped {
        stop: Stop,
        /// Whether it covers all threads.
        all: bool,
    },
    /// Event `continued`.
    Continued {
        /// The thread, if reported.
        thread: Option<i64>,
        /// Whether it covers all threads.
        all: bool,
    },
    /// A request that runs the program is about to be sent.
    ///
    /// Its answer may follow the next stop, so the answer itself changes nothing.
    Resuming,
    /// The adapter refused that request.
    NotResumed,
    /// Event `thread`, started or exited.
    Thread { id: i64, alive: bool },
    /// Event `exited`.
    Exited { code: Option<i64> },
    /// Event `terminated`.
    Terminated,
    /// A request that ends the session is about to be sent.
    Ending(Ending),
    /// The adapter or its stream ended.
    AdapterClosed {
        /// The failure to report, unless the end was requested.
        failure: String,
    },
    /// The start was abandoned.
    StartFailed { failure: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Stopped: the request inspects frames or resumes.
    Stopped,
    Running,
    /// Running or stopped.
    Alive,
    /// Any state but the end.
    NotTerminated,
}

/// Error for a request that the state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{command}` does not fit: the session is {state}; {help}")]
pub struct WrongState {
    pub command: String,
    pub state: &'static str,
    pub help: &'static str,
}

#[derive(Debug, Clone)]
pub struct Machine {
    state: State,
    epoch: u64,
    threads: BTreeMap<i64, bool>,
    /// The stop from which Pilcrow's request resumes, until another event arrives.
    resumed_from: Option<Stop>,
    exit_code: Option<i64>,
    /// Whether the last stop was by a signal.
    signalled: bool,
    /// The signal that the last stop names.
    signal: Option<i64>,
    asked: Option<Ending>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            state: State::Launching,
            epoch: 0,
            threads: BTreeMap::new(),
            resumed_from: None,
            exit_code: None,
            signalled: false,
            signal: None,
            asked: None,
        }
    }
}

impl Machine {
    pub fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn signalled(&self) -> bool {
        self.signalled
    }

    /// The signal of the last stop, if it is named and fatal when not caught.
    pub(crate) fn signal(&self) -> Option<i64> {
        self.signal
    }

    /// Counter that every resume increases.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Checks whether `command`, which needs `need`, fits the state.
    ///
    /// # Errors
    /// [`WrongState`] with the state's name.
    pub fn check(&self, command: &str, need: Need) -> Result<(), WrongState> {
        let fits = match need {
            Need::Stopped => matches!(self.state, State::Stopped(_)),
            Need::Running => matches!(self.state, State::Running),
            Need::Alive => matches!(self.state, State::Running | State::Stopped(_)),
            Need::NotTerminated => !matches!(self.state, State::Terminated(_)),
        };
        if fits {
            return Ok(());
        }
        let help = match self.state {
            State::Launching | State::Configuring => "wait until the program runs",
            State::Running => "`pause` it, or wait for a breakpoint with `snapshot`",
            State::Stopped(_) => "`continue` or step first",
            State::Terminated(_) => "`launch` again",
        };
        Err(WrongState { command: command.to_owned(), state: self.state.name(), help })
    }

    /// Applies one input; returns the new state if it changed.
    pub fn take(&mut self, input: Input) -> Option<State> {
        let before = self.state.clone();
        self.apply(input);
        (self.state != before).then(|| self.state.clone())
    }

    fn apply(&mut self, input: Input) {
        if let State::Terminated(end) = &mut self.state {
            // Adapters report `exited` before or after `terminated`, or never. Only a missing code is
            // still news, unless the adapter failed, because then the code results from ending it.
            if let (Input::Exited { code: Some(code) }, None, None, None) =
                (&input, end.exit_code, end.signal, &end.failure)
            {
                *end = End { asked: end.asked, ..ended(Some(*code)) };
            }
            return;
        }
        match input {
            Input::Initialized => {
                if self.state == State::Launching {
                    self.state = State::Configuring;
                }
            }
            Input::Configured => {
                // A program that stops at its entry may be stopped before this is answered.
                if matches!(self.state, State::Launching | State::Configuring) {
                    self.state = State::Running;
                }
            }
            Input::Stopped { stop, all } => self.stopped(stop, all),
            Input::Continued { thread, all } => {
                let alone = thread.is_some() && !all;
                if let (Some(thread), true) = (thread, alone) {
                    self.threads.insert(thread, false);
                }
                let others = alone && self.threads.values().any(|stopped| *stopped);
                if matches!(self.state, State::Stopped(_)) && !others {
                    self.resumed();
                }
                self.resumed_from = None;
            }
            Input::Resuming => {
                if let State::Stopped(stop) = &self.state {
                    let stop = stop.clone();
                    self.resumed();
                    self.resumed_from = Some(stop);
                }
            }
            Input::NotResumed => {
                if let (Some(stop), State::Running) = (self.resumed_from.take(), &self.state) {
                    self.state = State::Stopped(stop);
                }
            }
            Input::Thread { id, alive: true } => {
                self.threads.entry(id).or_insert(false);
            }
            Input::Thread { id, alive: false } => {
                self.threads.remove(&id);
            }
            Input::Exited { code } => {
                self.exit_code = code;
                self.end();
            }
            Input::Terminated => self.end(),
            Input::Ending(how) => self.asked = Some(how),
            Input::AdapterClosed { .. } | Input::StartFailed { .. } if self.asked.is_some() => self.end(),
            Input::AdapterClosed { failure } => {
                let end = End { failure: Some(failure), ..ended(self.exit_code) };
                self.state = State::Terminated(end);
            }
            Input::StartFailed { failure } => {
                let end = End { failure: Some(failure), start_failed: true, ..ended(self.exit_code) };
                self.state = State::Terminated(end);
            }
        }
    }

    fn end(&mut self) {
        let after_signal = self.signalled && self.exit_code.is_none();
        self.state = State::Terminated(End { after_signal, asked: self.asked, ..ended(self.exit_code) });
    }

    fn stopped(&mut self, stop: Stop, all: bool) {
        if let Some(thread) = stop.thread {
            self.threads.insert(thread, true);
        }
        if all {
            self.threads.values_mut().for_each(|stopped| *stopped = true);
        }
        self.resumed_from = None;
        if let State::Stopped(first) = &self.state {
            // A stop of a second thread invalidates nothing. A stop of the same thread without a
            // resume before it may, so the handles of the replaced stop are stale.
            if first.thread.is_none() || stop.thread.is_none() || first.thread == stop.thread {
                self.epoch += 1;
            } else if stop.preserves_focus {
                return;
            }
        }
        self.signalled = stop.reason == "signal";
        self.signal = named_signal(&stop);
        self.state = State::Stopped(stop);
    }

    fn resumed(&mut self) {
        self.threads.values_mut().for_each(|stopped| *stopped = false);
        self.epoch += 1;
        self.state = State::Running;
    }
}

/// Reads a negative code as a signal's number, as Python and others report it.
fn ended(code: Option<i64>) -> End {
    let signal = code.filter(|code| (-64..0).contains(code)).map(|code| -code);
    End { exit_code: code.filter(|_| signal.is_none()), signal, ..End::default() }
}

/// The fatal signal that a stop names, by the numbers that Linux and macOS share.
fn named_signal(stop: &Stop) -> Option<i64> {
    const FATAL: &[(&str, i64)] =
        &[("SIGILL", 4), ("SIGTRAP", 5), ("SIGABRT", 6), ("SIGFPE", 8), ("SIGSEGV", 11)];
    if !matches!(stop.reason.as_str(), "signal" | "exception") {
        return None;
    }
    let said = [&stop.description, &stop.text].into_iter().flatten();
    let mut words = said.flat_map(|it| it.split(|c: char| !c.is_ascii_alphanumeric()));
    words.find_map(|word| FATAL.iter().find(|(name, _)| *name == word)).map(|(_, number)| *number)
}

/// Whether a request resumes a stopped program.
///
/// After it is sent, the program does not count as stopped, whatever the answer.
pub fn runs_on(command: &str) -> bool {
    [
        "continue",
        "next",
        "stepIn",
        "stepOut",
        "stepBack",
        "reverseContinue",
        "restart",
        "restartFrame",
        "goto",
    ]
    .contains(&command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stop(reason: &str, thread: i64) -> Input {
        let stop = Stop { reason: reason.into(), thread: Some(thread), ..Stop::default() };
        Input::Stopped { stop, all: true }
    }

    #[track_caller]
    fn check(inputs: &[Input], states: &[&str]) -> Machine {
        let mut machine = Machine::default();
        let mut states_seen = Vec::new();
        for input in inputs {
            states_seen.extend(machine.take(input.clone()).map(|state| state.name()));
        }
        assert_eq!(states_seen, states);
        machine
    }

    /// lldb-dap reports one stop for each thread, not always that of the step first.
    #[test]
    fn the_stop_in_focus_of_several_threads_is_shown() {
        let beside = |thread| match stop("exception", thread) {
            Input::Stopped { stop, all } => {
                Input::Stopped { stop: Stop { preserves_focus: true, ..stop }, all }
            }
            other => other,
        };
        let shown = |machine: &Machine| match machine.state() {
            State::Stopped(stop) => (stop.thread, stop.reason.clone(), machine.epoch()),
            other => panic!("{other:?}"),
        };
        let (step, one) = (|| stop("step", 2), || beside(1));
        let step_of_2 = (Some(2), "step".to_owned(), 0);
        let first = check(
            &[Input::Initialized, Input::Configured, one(), step()],
            &["configuring", "running", "stopped", "stopped"],
        );
        assert_eq!(shown(&first), step_of_2);
        let last = check(
            &[Input::Initialized, Input::Configured, step(), one()],
            &["configuring", "running", "stopped"],
        );
        assert_eq!(shown(&last), step_of_2);
        // A later stop of the same thread makes it stale.
        let again = check(
            &[Input::Initialized, Input::Configured, step(), stop("breakpoint", 2)],
            &["configuring", "running", "stopped", "stopped"],
        );
        assert_eq!(shown(&again).2, 1);
    }

    #[test]
    fn a_session_passes_through_every_state() {
        let machine = check(
            &[
                Input::Initialized,
                Input::Configured,
                stop("breakpoint", 1),
                Input::Resuming,
                Input::Exited { code: Some(3) },
                Input::Terminated,
            ],
            &["configuring", "running", "stopped", "running", "terminated"],
        );
        assert_eq!(*machine.state(), State::Terminated(End { exit_code: Some(3), ..End::default() }));
    }

    /// lldb-dap reports `exited` with 9 for a program whose launch was abandoned.
    #[test]
    fn events_after_a_failure_do_not_hide_it() {
        let gone = Input::StartFailed { failure: "there is no filter `x`".into() };
        let machine = check(
            &[Input::Initialized, gone, Input::Exited { code: Some(9) }],
            &["configuring", "terminated"],
        );
        let failure = Some("there is no filter `x`".to_owned());
        assert_eq!(
            *machine.state(),
            State::Terminated(End { failure, start_failed: true, ..End::default() })
        );
    }

    #[test]
    fn a_stop_before_configuration_is_answered_stays() {
        check(&[Input::Initialized, stop("entry", 1), Input::Configured], &["configuring", "stopped"]);
    }

    #[test]
    fn a_stop_before_the_answer_to_continue_stays() {
        let machine = check(
            &[Input::Initialized, Input::Configured, stop("step", 1), Input::Resuming, stop("step", 1)],
            &["configuring", "running", "stopped", "running", "stopped"],
        );
        assert_eq!(machine.epoch(), 1);
    }

    #[test]
    fn a_refused_resume_stops_again_with_stale_handles() {
        let mut machine = check(
            &[Input::Initialized, Input::Configured, stop("step", 1), Input::Resuming, Input::NotResumed],
            &["configuring", "running", "stopped", "running", "stopped"],
        );
        assert_eq!(machine.epoch(), 1);
        assert_eq!(machine.take(Input::NotResumed), None);
    }

    #[test]
    fn an_exit_code_after_the_end_is_reported_once() {
        let mut machine = check(&[Input::Terminated], &["terminated"]);
        let change = machine.take(Input::Exited { code: Some(-11) });
        assert_eq!(change, Some(State::Terminated(End { signal: Some(11), ..End::default() })));
        assert_eq!(machine.take(Input::Exited { code: Some(0) }), None);
    }

    #[test]
    fn an_end_without_a_code_follows_the_signal_of_the_last_stop() {
        let start = [Input::Initialized, Input::Configured, stop("signal", 1), Input::Resuming];
        let states = ["configuring", "running", "stopped", "running"];
        let mut machine = check(&start, &states);
        let end = End { after_signal: true, ..End::default() };
        assert_eq!(machine.clone().take(Input::Exited { code: None }), Some(State::Terminated(end)));
        // The program handled the signal.
        machine.take(stop("breakpoint", 1));
        assert_eq!(machine.take(Input::Terminated), Some(State::Terminated(End::default())));
    }

    #[test]
    fn a_resumed_thread_leaves_the_others_stopped() {
        let alone = |thread| Input::Continued { thread: Some(thread), all: false };
        let start = [Input::Initialized, Input::Configured, stop("breakpoint", 1), stop("breakpoint", 2)];
        let mut machine = check(&start, &["configuring", "running", "stopped", "stopped"]);
        assert_eq!(machine.take(alone(1)), None);
        assert_eq!(machine.take(alone(2)), Some(State::Running));
    }

    #[test]
    fn a_request_that_does_not_fit_is_refused_with_the_state() {
        let machine = check(&[Input::Initialized, Input::Configured], &["configuring", "running"]);
        let error = machine.check("next", Need::Stopped).unwrap_err();
        assert_eq!(error.state, "running");
        assert!(error.to_string().starts_with("`next` does not fit: the session is running; `pause` it"));
        assert!(machine.check("pause", Need::Running).is_ok());
    }

    fn inputs() -> impl Strategy<Value = Input> {
        prop_oneof![
            Just(Input::Initialized),
            Just(Input::Configured),
            (any::<bool>(), 1..4i64, any::<bool>()).prop_map(|(all, thread, named)| Input::Stopped {
                stop: Stop { reason: "step".into(), thread: named.then_some(thread), ..Stop::default() },
                all,
            }),
            (any::<bool>(), proptest::option::of(1..4i64))
                .prop_map(|(all, thread)| Input::Continued { thread, all }),
            Just(Input::Resuming),
            Just(Input::NotResumed),
            (1..4i64, any::<bool>()).prop_map(|(id, alive)| Input::Thread { id, alive }),
            proptest::option::of(-2..3i64).prop_map(|code| Input::Exited { code }),
            Just(Input::Terminated),
            Just(Input::AdapterClosed { failure: "crashed".into() }),
            Just(Input::StartFailed { failure: "refused".into() }),
        ]
    }

    proptest! {
        #[test]
        fn random_traffic_keeps_the_invariants(inputs in proptest::collection::vec(inputs(), 0..60)) {
            let mut machine = Machine::default();
            let mut terminated = false;
            let mut resumes = 0;
            for input in inputs {
                let (before, epoch) = (machine.state().clone(), machine.epoch());
                let change = machine.take(input.clone());
                prop_assert_eq!(change.is_some(), *machine.state() != before, "every change is returned");
                prop_assert!(machine.epoch() >= epoch);
                if matches!(before, State::Stopped(_)) && *machine.state() == State::Running {
                    resumes += 1;
                    prop_assert!(machine.epoch() > epoch, "a resume makes stale");
                }
                // No state leads back to before the program ran.
                if before.name() != "launching" {
                    prop_assert_ne!(machine.state().name(), "launching");
                }
                if matches!(before, State::Running | State::Stopped(_)) {
                    prop_assert_ne!(machine.state().name(), "configuring");
                }
                if terminated {
                    prop_assert_eq!(machine.state().name(), "terminated");
                }
                terminated = machine.state().name() == "terminated";
                let fits = machine.check("evaluate", Need::Stopped).is_ok();
                prop_assert_eq!(fits, machine.state().name() == "stopped");
                prop_assert_eq!(machine.check("x", Need::NotTerminated).is_ok(), !terminated);
                if let Err(error) = machine.check("evaluate", Need::Stopped) {
                    prop_assert_eq!(error.state, machine.state().name());
                }
            }
            prop_assert!(machine.epoch() >= resumes);
        }
    }
}
