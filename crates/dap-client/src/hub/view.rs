//! Program state as reported: live threads, and the reasons why threads are stopped.
//!
//! Pure: events in. The hub applies the adapter's events to one view and each client's events to
//! another. [`View::missing`] is the difference that the hub must send to a client.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

#[derive(Debug, Clone, Default)]
pub struct View {
    pub live: BTreeSet<i64>,
    stops: Vec<(u64, Value)>,
    clock: u64,
}

/// An event that the hub must send to a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Missing {
    /// The thread that runs; `None` for all.
    Continued(Option<i64>),
    /// The body of a `stopped` event.
    Stopped(Value),
}

impl View {
    /// A point in time for [`View::continued`]; later stops are newer.
    pub fn now(&self) -> u64 {
        self.clock
    }

    pub fn started(&mut self, thread: i64) {
        self.live.insert(thread);
    }

    pub fn exited(&mut self, thread: i64) {
        self.resume_thread(thread, u64::MAX);
        self.live.remove(&thread);
    }

    /// Applies the body of a `stopped` event.
    pub fn stopped(&mut self, body: Value) {
        // A body that is not an object names no thread, but is a stop.
        let body = if body.is_object() { body } else { json!({ "reason": "unknown" }) };
        if let Some(thread) = body["threadId"].as_i64() {
            self.live.insert(thread);
            // An older stop of this thread may also cover other threads.
            self.resume_thread(thread, u64::MAX);
        }
        self.stops.push((self.clock, body));
        self.clock += 1;
    }

    /// Resumes one thread or all.
    ///
    /// Only stops before `mark` end; a resume cannot refer to later ones.
    pub fn continued(&mut self, thread: Option<i64>, all: bool, mark: u64) {
        match thread.filter(|_| !all) {
            Some(thread) => self.resume_thread(thread, mark),
            None => self.stops.retain(|(at, _)| *at >= mark),
        }
    }

    pub fn is_stopped(&self) -> bool {
        !self.stops.is_empty()
    }

    /// Bodies of the `stopped` events still in force, oldest first.
    pub fn stops(&self) -> impl Iterator<Item = &Value> {
        self.stops.iter().map(|(_, body)| body)
    }

    /// The stopped threads, as far as they are known.
    pub fn stopped_threads(&self) -> BTreeSet<i64> {
        self.by_thread(&self.live).into_keys().collect()
    }

    /// The stop that applies to each stopped thread.
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

    /// The events that bring a client with this view to `truth`.
    pub fn missing(&self, truth: &Self) -> Vec<Missing> {
        let (known, actual) = (self.by_thread(&truth.live), truth.by_thread(&truth.live));
        if actual.is_empty() && truth.stops.is_empty() {
            return if self.stops.is_empty() { Vec::new() } else { vec![Missing::Continued(None)] };
        }
        let running = known.keys().filter(|thread| !actual.contains_key(thread));
        let mut missing: Vec<Missing> = running.map(|thread| Missing::Continued(Some(*thread))).collect();
        for (thread, body) in actual.iter().filter(|(thread, _)| !known.contains_key(thread)) {
            missing.push(Missing::Stopped(stop_for_thread(body, *thread)));
        }
        missing
    }

    /// Resumes one thread; splits a stop of all threads into one for each other thread.
    fn resume_thread(&mut self, thread: i64, mark: u64) {
        let of_all = |(at, stop): &&(u64, Value)| {
            *at < mark && (stop["allThreadsStopped"] == true || stop["threadId"].is_null())
        };
        if let Some((at, all)) = self.stops.iter().rev().find(of_all).cloned() {
            let own = |stops: &[(u64, Value)], id: i64| stops.iter().any(|(_, stop)| stop["threadId"] == id);
            let others: Vec<i64> = self.live.iter().copied().filter(|id| !own(&self.stops, *id)).collect();
            // A thread that was already stopped was reported as stopped again.
            for (own, _) in self.stops.iter_mut().filter(|(own, _)| *own < at) {
                *own = at;
            }
            for (_, stop) in self.stops.iter_mut().filter(|(at, _)| *at < mark) {
                stop["allThreadsStopped"] = json!(false);
            }
            self.stops.extend(others.into_iter().map(|id| (at, stop_for_thread(&all, id))));
            // A stop without a thread is now covered by one for each thread.
            self.stops.retain(|(_, stop)| stop["threadId"].is_i64());
        }
        self.stops.retain(|(at, stop)| stop["threadId"] != thread || *at >= mark);
    }
}

/// The stop of one thread, from a stop of several.
fn stop_for_thread(body: &Value, thread: i64) -> Value {
    let mut one = body.clone();
    if one["threadId"] != thread {
        one["threadId"] = json!(thread);
        // The thread stopped because another did.
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
    fn a_resumed_thread_leaves_the_others_stopped() {
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
    fn a_resume_does_not_end_later_stops() {
        let mut view = View { live: BTreeSet::from([1, 2]), ..View::default() };
        view.stopped(stop(1, true));
        let mark = view.now();
        view.stopped(stop(2, false));
        view.continued(Some(1), true, mark);
        assert_eq!(view.stopped_threads(), BTreeSet::from([2]));
    }

    /// Tests an answer that arrives after all threads ran and stopped again.
    ///
    /// One thread ran alone meanwhile. The late answer of the first request resumes no thread.
    #[test]
    fn a_late_answer_resumes_no_thread_that_stopped_again() {
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
    fn missing_events_are_computed() {
        let mut truth = View { live: BTreeSet::from([1, 2, 3]), ..View::default() };
        let mut client = truth.clone();
        client.stopped(stop(1, true));
        assert_eq!(client.missing(&truth), [Missing::Continued(None)]);
        truth.stopped(stop(2, false));
        assert_eq!(client.missing(&truth), [Missing::Continued(Some(1)), Missing::Continued(Some(3))]);
        let client = View::default();
        assert_eq!(client.missing(&truth), [Missing::Stopped(stop(2, false))]);
    }
}
