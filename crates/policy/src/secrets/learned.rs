//! Secrets learned while the process runs.
//!
//! They are keys from a keyring or a command's output. Redactors made from the environment know
//! them from then on.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{is_plain, spellings};

/// The name shown instead of a learned secret.
pub(super) const NAME: &str = "api-key";

/// Maximum number of expiring secrets to store; each slows every redaction.
const PASSING: usize = 64;

static LEARNED: RwLock<Option<Arc<Learned>>> = RwLock::new(None);

/// The known secrets.
#[derive(Clone)]
pub(super) struct Learned {
    pub values: Vec<String>,
    pub begins: [bool; 256],
    lasting: Vec<String>,
    /// The spellings of each expiring secret, the newest last.
    passing: VecDeque<Vec<String>>,
}

/// Registers a secret for every present and future [`super::Redactor`].
///
/// Ignores a short or common value and the path of an existing file.
pub fn learn_secret(value: &str) {
    learn(value, |now, spellings| {
        let new = spellings.into_iter().filter(|it| !now.lasting.contains(it)).collect::<Vec<_>>();
        now.lasting.extend(new);
    });
}

/// Registers a secret that expires and has successors; only the newest are known.
pub fn learn_passing_secret(value: &str) {
    learn(value, Learned::pass);
}

fn learn(value: &str, add: impl FnOnce(&mut Learned, Vec<String>)) {
    let mut spellings = spellings(value.trim());
    spellings.retain(|value| !is_plain(value));
    // Keys are requested before each request and are mostly the same.
    if learned().map_or(spellings.is_empty(), |it| it.has_newest(&spellings)) {
        return;
    }
    let mut learned = LEARNED.write();
    let mut now = learned.as_deref().cloned().unwrap_or_else(Learned::new);
    add(&mut now, spellings);
    now.sort();
    *learned = Some(Arc::new(now));
}

impl Learned {
    fn new() -> Learned {
        Learned { values: Vec::new(), begins: [false; 256], lasting: Vec::new(), passing: VecDeque::new() }
    }

    /// Whether these are known and not the next to be dropped.
    fn has_newest(&self, spellings: &[String]) -> bool {
        let newest = self.passing.back();
        spellings.iter().all(|it| self.lasting.contains(it) || newest.is_some_and(|all| all.contains(it)))
    }

    fn pass(&mut self, spellings: Vec<String>) {
        self.passing.retain(|it| *it != spellings);
        self.passing.push_back(spellings);
        if self.passing.len() > PASSING {
            self.passing.pop_front();
        }
    }

    fn sort(&mut self) {
        self.values = self.lasting.iter().chain(self.passing.iter().flatten()).cloned().collect();
        self.values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.values.dedup();
        self.begins = [false; 256];
        for value in &self.values {
            self.begins[usize::from(value.as_bytes()[0])] = true;
        }
    }
}

/// The secrets known now, if any.
pub(super) fn learned() -> Option<Arc<Learned>> {
    LEARNED.read().clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_expiring_secrets_are_known() {
        let mut known = Learned::new();
        known.lasting.push("lasting-0".to_owned());
        let one = |at: usize| vec![format!("passing-{at}")];
        for at in 0..=PASSING {
            // The first secret is registered repeatedly.
            known.pass(one(0));
            known.pass(one(at));
        }
        known.sort();
        assert_eq!(known.values.len(), PASSING + 1);
        for (value, is_known) in
            [("lasting-0", true), ("passing-0", true), ("passing-1", false), ("passing-2", true)]
        {
            assert_eq!(known.values.iter().any(|it| it == value), is_known, "{value}");
        }
        assert!(known.begins[usize::from(b'p')] && !known.begins[usize::from(b'x')]);
        assert!(known.has_newest(&one(PASSING)) && !known.has_newest(&one(0)), "it is no longer known");
    }
}
