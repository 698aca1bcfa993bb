//! Tool call ids in the form that a protocol accepts.
//!
//! A call and its result have the same id.

use std::collections::{HashMap, HashSet};

/// The ids that a protocol accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// Minimum and maximum length in bytes.
    length: (usize, usize),
    /// Whether `_` and `-` are accepted in addition to letters and digits.
    signs: bool,
}

impl Rule {
    /// Accepts up to this many letters, digits, `_` and `-`.
    pub(crate) const fn up_to(longest: usize) -> Rule {
        Rule { length: (1, longest), signs: true }
    }

    /// Accepts exactly this many letters and digits, at least nine.
    pub const fn exactly(length: usize) -> Rule {
        Rule { length: (length, length), signs: false }
    }

    fn takes(self, id: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || (self.signs && matches!(byte, b'_' | b'-'));
        (self.length.0..=self.length.1).contains(&id.len()) && id.bytes().all(plain)
    }

    /// A generated id for the call of this number.
    fn name(self, number: usize) -> String {
        match self.signs {
            true => format!("pilcrow_call_{number}"),
            false => format!("c{number:0width$x}", width = self.length.0 - 1),
        }
    }
}

/// The ids of one request.
///
/// Invalid ids are replaced by generated ones in order, so that the same transcript gives the same request.
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

    /// The id for a call; a repeated id is replaced.
    ///
    /// Some providers number calls from zero in each answer, and others require unique ids.
    pub fn call(&mut self, id: &str) -> String {
        self.call_as(id, id)
    }

    /// Returns `wanted` if possible; else like [`Ids::call`].
    pub(crate) fn call_as(&mut self, id: &str, wanted: &str) -> String {
        let mut accepted = wanted.to_owned();
        let mut next = self.taken.len();
        while !self.rule.takes(&accepted) || self.taken.contains(&accepted) {
            accepted = self.rule.name(next);
            next += 1;
        }
        self.taken.insert(accepted.clone());
        self.newest.insert(id.to_owned(), accepted.clone());
        accepted
    }

    /// The id for the result of the newest call with `id`.
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
    fn invalid_ids_are_replaced_consistently_and_stay_unique() {
        let mut ids = Ids::new(Rule::up_to(20));
        assert_eq!((ids.call("a"), ids.call("b|c")), ("a".to_owned(), "pilcrow_call_1".to_owned()));
        assert_eq!((ids.result("b|c"), ids.result("a")), ("pilcrow_call_1".to_owned(), "a".to_owned()));
        assert_eq!(
            (ids.call("a"), ids.result("a")),
            ("pilcrow_call_2".to_owned(), "pilcrow_call_2".to_owned())
        );
        assert_eq!(ids.call("pilcrow_call_1"), "pilcrow_call_3");
    }

    #[test]
    fn an_exact_length_is_kept() {
        let mut ids = Ids::new(Rule::exactly(9));
        assert_eq!(
            (ids.call("abcDEF123"), ids.call("abc_EF123")),
            ("abcDEF123".to_owned(), "c00000001".to_owned())
        );
        assert_eq!(
            (ids.call("short"), ids.call("c00000003")),
            ("c00000002".to_owned(), "c00000003".to_owned())
        );
        assert_eq!(ids.result("short"), "c00000002");
    }
}
