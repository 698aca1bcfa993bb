//! The program as it was told: which threads live, and which are stopped and why.
//!
//! Pure: events in. The hub folds what the adapter says into one, and what each client was sent into
//! another; [`View::missing`] is what a client must be told so that both are the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The program as it was told.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub live: BTreeSet<i64>,
    stops: Vec<(u64, Value)>,
    clock: u64,
}

/// Something that a client must be told.
#[derive(Debug, Clone, PartialEq)]
pub enum Missing {
    /// The thread runs, or all do.
    Continued(Option<i64>),
    /// The body of an event `stopped`.
    Stopped(Value),
}

impl View {
    /// A moment, for [`View::continued`]: stops that come later are younger.
    pub fn now(&self) -> u64 {
        self.clock
    }

    /// A thread that lives.
    pub fn started(&mut self, thread: i64) {
        self.live.insert(thread);
    }

    /// A thread that ended.
    pub fn exited(&mut self, thread: i64) {
        self.run_alone(thread, u64::MAX);
        self.live.remove(&thread);
    }

    /// The body of an event `stopped`.
    pub fn stopped(&mut self, body: Value) {
        // What is no object names no thread: a stop all the same.
        let body = if body.is_object() { body } else { json!({ "reason": "unknown" }) };
        if let Some(thread) = body["threadId"].as_i64() {
            self.live.insert(thread);
            // An older one of this thread may have spoken for the others too.
            self.run_alone(thread, u64::MAX);
        }
        self.stops.push((self.clock, body));
        self.clock += 1;
    }

    /// A thread runs on, or all do. Of stops only those before `mark`: who ran on cannot have meant later ones.
    pub fn continued(&mut self, thread: Option<i64>, all: bool, mark: u64) {
        match thread.filter(|_| !all) {
            Some(thread) => self.run_alone(thread, mark),
            None => self.stops.retain(|(at, _)| *at >= mark),
        }
    }

    /// Whether anything is stopped.
    pub fn is_stopped(&self) -> bool {
        !self.stops.is_empty()
    }

    /// Bodies of the events `stopped` that still hold, oldest first.
    pub fn stops(&self) -> impl Iterator<Item = &Value> {
        self.stops.iter().map(|(_, body)| body)
    }

    /// The threads that are stopped, as far as they are known.
    pub fn stopped_threads(&self) -> BTreeSet<i64> {
        self.by_thread(&self.live).into_keys().collect()
    }

    /// The body that speaks for each stopped thread.
    fn by_thread(&self, live: &BTreeSet<i64>) -> BTreeMap<i64, &Value> {
        let mut threads = BTreeMap::new();
        for (_, body) in &self.stops {
            if body["allThreadsStopped"] == true || body["threadId"].is_null() {
                for thread in live {
                    threads.entry(*thread).or_insert(body);
                }
            }
        }
        for (_, body) in &self.stops {
            threads.extend(body["threadId"].as_i64().map(|thread| (thread, body)));
        }
        threads
    }

    /// What one who was told `self` must be told to know `truth`.
    pub fn missing(&self, truth: &Self) -> Vec<Missing> {
        let (told, is) = (self.by_thread(&truth.live), truth.by_thread(&truth.live));
        if is.is_empty() && truth.stops.is_empty() {
            return if self.stops.is_empty() { Vec::new() } else { vec![Missing::Continued(None)] };
        }
        let runs = told.keys().filter(|thread| !is.contains_key(thread));
        let mut missing: Vec<Missing> = runs.map(|thread| Missing::Continued(Some(*thread))).collect();
        for (thread, body) in is.iter().filter(|(thread, _)| !told.contains_key(thread)) {
            let one = of_thread(body, *thread);
            missing.push(Missing::Stopped(one));
        }
        missing
    }

    /// One thread runs, the others stay as they are: a stop of all becomes one of each.
    fn run_alone(&mut self, thread: i64, mark: u64) {
        let of_all = |(at, stop): &&(u64, Value)| {
            *at < mark && (stop["allThreadsStopped"] == true || stop["threadId"].is_null())
        };
        if let Some((at, all)) = self.stops.iter().rev().find(of_all).cloned() {
            let own = |stops: &[(u64, Value)], id: i64| stops.iter().any(|(_, stop)| stop["threadId"] == id);
            let others: Vec<i64> = self.live.iter().copied().filter(|id| !own(&self.stops, *id)).collect();
            // A thread that stood already was told to stand once more.
            for (own, _) in self.stops.iter_mut().filter(|(own, _)| *own < at) {
                *own = at;
            }
            for (_, stop) in self.stops.iter_mut().filter(|(at, _)| *at < mark) {
                stop["allThreadsStopped"] = json!(false);
            }
            self.stops.extend(others.into_iter().map(|id| (at, of_thread(&all, id))));
            // One that named no thread is in those of each.
            self.stops.retain(|(_, stop)| stop["threadId"].is_i64());
        }
        self.stops.retain(|(at, stop)| stop["threadId"] != thread || *at >= mark);
    }
}

/// The stop of one thread among those that `body` speaks of.
fn of_thread(body: &Value, thread: i64) -> Value {
    let mut one = body.clone();
    if one["threadId"] != thread {
        one["threadId"] = json!(thread);
        // It stopped since another did.
        if let Some(members) = one.as_object_mut() {
            members.remove("hitBreakpointIds");
        }
        one["preserveFocusHint"] = json!(true);
    }
    one["allThreadsStopped"] = json!(false);
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(thread: i64, all: bool) -> Value {
        json!({"reason": "breakpoint", "threadId": thread, "allThreadsStopped": all})
    }

    #[test]
    fn one_that_runs_on_leaves_the_others_stopped() {
        let mut view = View { live: BTreeSet::from([1, 2, 3]), ..View::default() };
        view.stopped(stop(1, true));
        assert_eq!(view.stopped_threads(), BTreeSet::from([1, 2, 3]));
        view.continued(Some(1), false, view.now());
        assert_eq!(view.stopped_threads(), BTreeSet::from([2, 3]));
        view.stopped(stop(1, false));
        view.exited(2);
        assert_eq!(view.stopped_threads(), BTreeSet::from([1, 3]));
        view.continued(Some(1), true, view.now());
        assert!(!view.is_stopped());
    }

    #[test]
    fn who_ran_on_did_not_mean_later_stops() {
        let mut view = View { live: BTreeSet::from([1, 2]), ..View::default() };
        view.stopped(stop(1, true));
        let mark = view.now();
        view.stopped(stop(2, false));
        view.continued(Some(1), true, mark);
        assert_eq!(view.stopped_threads(), BTreeSet::from([2]));
    }

    /// All ran on and stopped again before that was answered, and one ran on alone: the late answer of the
    /// first says nothing of the others.
    #[test]
    fn a_late_answer_lets_nobody_run_who_stopped_again() {
        let mut view = View { live: BTreeSet::from([1, 2, 3]), ..View::default() };
        view.stopped(stop(1, true));
        let all = view.now();
        view.stopped(stop(1, true));
        let one = view.now();
        view.continued(Some(1), false, one);
        view.continued(Some(1), true, all);
        assert_eq!(view.stopped_threads(), BTreeSet::from([2, 3]));
    }

    #[test]
    fn what_is_missing_is_told() {
        let mut truth = View { live: BTreeSet::from([1, 2, 3]), ..View::default() };
        let mut told = truth.clone();
        told.stopped(stop(1, true));
        assert_eq!(told.missing(&truth), [Missing::Continued(None)]);
        truth.stopped(stop(2, false));
        assert_eq!(told.missing(&truth), [Missing::Continued(Some(1)), Missing::Continued(Some(3))]);
        let told = View::default();
        assert_eq!(told.missing(&truth), [Missing::Stopped(stop(2, false))]);
    }
}
