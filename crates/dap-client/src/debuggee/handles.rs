//! Pilcrow's numbers for frames and variables, each valid until the program resumes.
//!
//! Pure. Adapters reuse their numbers after a resume. Pilcrow uses each number once, so that it
//! recognizes a stale number and refuses it with the name of its former object.

use std::collections::HashMap;
use std::collections::VecDeque;

/// Maximum number of stored handles, including stale ones.
///
/// A stale number is refused with the name of its former object.
const MAX_HANDLES: usize = 20_000;

/// The object behind a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    pub reference: i64,
    /// Name for messages, such as `compute at a.py:12` or `self.items`.
    pub name: String,
    epoch: u64,
}

/// Error for a number that is not valid now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHandle {
    /// The number was valid at an earlier stop.
    #[error("{kind} {number} was `{name}` at an earlier stop; use `{ask}` again")]
    Stale {
        /// Kind of the handle: `frame` or `variables_reference`.
        kind: &'static str,
        number: i64,
        name: String,
        /// The action that returns new numbers.
        ask: &'static str,
    },
    /// The number was never assigned, or too long ago.
    #[error("there is no {kind} {number}; `{ask}` lists the valid ones")]
    Unknown {
        /// Kind of the handle: `frame` or `variables_reference`.
        kind: &'static str,
        number: i64,
        /// The action that returns valid numbers.
        ask: &'static str,
    },
}

/// Table of handles of one kind.
#[derive(Debug)]
pub struct Handles {
    kind: &'static str,
    ask: &'static str,
    next: i64,
    by_number: HashMap<i64, Handle>,
    by_reference: HashMap<i64, i64>,
    order: VecDeque<i64>,
    epoch: u64,
}

impl Handles {
    /// Creates an empty table. `ask` is the action that returns new numbers.
    pub fn new(kind: &'static str, ask: &'static str) -> Self {
        let (by_number, by_reference, order) = Default::default();
        Self { kind, ask, next: 1, by_number, by_reference, order, epoch: 0 }
    }

    /// The number for the adapter's `reference` in `epoch`.
    ///
    /// Equal references have equal numbers.
    pub fn assign(&mut self, epoch: u64, reference: i64, name: &str) -> i64 {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.by_reference.clear();
        }
        if let Some(number) = self.by_reference.get(&reference) {
            return *number;
        }
        let number = self.next;
        self.next += 1;
        let name: String = name.chars().take(120).collect();
        self.by_number.insert(number, Handle { reference, name, epoch });
        self.by_reference.insert(reference, number);
        self.order.push_back(number);
        if self.order.len() > MAX_HANDLES
            && let Some(oldest) = self.order.pop_front()
            && let Some(handle) = self.by_number.remove(&oldest)
            && self.by_reference.get(&handle.reference) == Some(&oldest)
        {
            self.by_reference.remove(&handle.reference);
        }
        number
    }

    /// The object behind `number` in `epoch`.
    ///
    /// # Errors
    /// [`BadHandle`] with the name of a stale object.
    pub fn find(&self, epoch: u64, number: i64) -> Result<&Handle, BadHandle> {
        let (kind, ask) = (self.kind, self.ask);
        match self.by_number.get(&number) {
            Some(handle) if handle.epoch == epoch => Ok(handle),
            Some(handle) => Err(BadHandle::Stale { kind, number, name: handle.name.clone(), ask }),
            None => Err(BadHandle::Unknown { kind, number, ask }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_number_is_refused_by_name() {
        let mut frames = Handles::new("frame", "stack");
        let first = frames.assign(1, 1000, "compute at a.py:12");
        assert_eq!(frames.assign(1, 1000, "compute at a.py:12"), first);
        assert_eq!(frames.find(1, first).unwrap().reference, 1000);
        let second = frames.assign(2, 1000, "main at a.py:20");
        assert_ne!(first, second);
        let error = frames.find(2, first).unwrap_err().to_string();
        assert_eq!(error, "frame 1 was `compute at a.py:12` at an earlier stop; use `stack` again");
        let error = frames.find(2, 99).unwrap_err().to_string();
        assert_eq!(error, "there is no frame 99; `stack` lists the valid ones");
    }

    #[test]
    fn the_names_are_bounded() {
        let mut handles = Handles::new("frame", "stack");
        for number in 0..50_000 {
            handles.assign(number, 1, "x");
        }
        assert!(handles.by_number.len() <= MAX_HANDLES && handles.by_reference.len() <= MAX_HANDLES);
    }
}
