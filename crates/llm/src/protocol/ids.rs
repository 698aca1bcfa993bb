//! Ids of tool calls as a protocol takes them, the same for a call and its result.

use std::collections::{HashMap, HashSet};

/// Which ids a protocol takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// The most bytes.
    pub longest: usize,
}

impl Rule {
    fn takes(self, id: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        !id.is_empty() && id.len() <= self.longest && id.bytes().all(plain)
    }
}

/// The ids of one request. What the rule refuses is replaced by a name of ours, by the order in which they come, so that
/// the same transcript gives the same request.
#[derive(Debug)]
pub(super) struct Ids {
    rule: Rule,
    newest: HashMap<String, String>,
    taken: HashSet<String>,
}

impl Ids {
    pub fn new(rule: Rule) -> Ids {
        Ids { rule, newest: HashMap::new(), taken: HashSet::new() }
    }

    /// The id for a call. One that an earlier call has already gets another, since there are providers
    /// that count calls anew in each answer, and others that want ids to be unique.
    pub fn call(&mut self, id: &str) -> String {
        self.call_as(id, id)
    }

    /// As [`Ids::call`], by preference with `wanted` in the place of the call's own id.
    pub fn call_as(&mut self, id: &str, wanted: &str) -> String {
        let mut accepted = wanted.to_owned();
        let mut next = self.taken.len();
        while !self.rule.takes(&accepted) || self.taken.contains(&accepted) {
            accepted = format!("pilcrow_call_{next}");
            next += 1;
        }
        self.taken.insert(accepted.clone());
        self.newest.insert(id.to_owned(), accepted.clone());
        accepted
    }

    /// The id for the result of the newest call that had `id`.
    pub fn result(&mut self, id: &str) -> String {
        match self.newest.get(id) {
            Some(accepted) => accepted.clone(),
            None => self.call(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_ids_are_replaced_alike_and_no_two_calls_share_one() {
        let mut ids = Ids::new(Rule { longest: 20 });
        assert_eq!((ids.call("a"), ids.call("b|c")), ("a".to_owned(), "pilcrow_call_1".to_owned()));
        assert_eq!((ids.result("b|c"), ids.result("a")), ("pilcrow_call_1".to_owned(), "a".to_owned()));
        assert_eq!(
            (ids.call("a"), ids.result("a")),
            ("pilcrow_call_2".to_owned(), "pilcrow_call_2".to_owned())
        );
        assert_eq!(ids.call("pilcrow_call_1"), "pilcrow_call_3");
    }
}
