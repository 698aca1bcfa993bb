//! A cheap snapshot of a growing transcript.

use std::sync::Arc;

use llm::Message;
use parking_lot::{RwLock, RwLockReadGuard};

/// The messages at one moment; cloning copies none of them.
#[derive(Clone, Default)]
pub struct Messages {
    /// List that only grows; a value shows the first `len` messages.
    list: Arc<RwLock<Vec<Message>>>,
    len: usize,
}

impl Messages {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A copy of the newest message.
    pub fn last(&self) -> Option<Message> {
        self.with(|messages| messages.last().cloned())
    }

    pub fn to_vec(&self) -> Vec<Message> {
        self.with(<[Message]>::to_vec)
    }

    /// Calls `read` with the messages. It must be short: pushes wait for it.
    pub fn with<T>(&self, read: impl FnOnce(&[Message]) -> T) -> T {
        read(&self.read()[..self.len])
    }

    /// Adds a message; copies all if another value has added one of its own.
    pub(crate) fn push(&mut self, message: Message) {
        {
            let mut list = self.list.write();
            if list.len() == self.len {
                list.push(message);
                self.len += 1;
                return;
            }
        }
        let mut own = self.to_vec();
        own.push(message);
        *self = own.into();
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Message>> {
        // A push is the only change.
        self.list.read()
    }
}

impl From<Vec<Message>> for Messages {
    fn from(list: Vec<Message>) -> Messages {
        let len = list.len();
        Messages { list: Arc::new(RwLock::new(list)), len }
    }
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.with(|messages| f.debug_list().entries(messages).finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_does_not_change() {
        let mut one = Messages::default();
        one.push(Message::user("a"));
        let (mut two, before) = (one.clone(), one.clone());
        one.push(Message::user("b"));
        two.push(Message::user("c"));
        let texts = |it: &Messages| it.with(|all| all.iter().map(Message::text).collect::<Vec<_>>());
        assert_eq!((texts(&one), texts(&two)), (vec!["a".into(), "b".into()], vec!["a".into(), "c".into()]));
        assert_eq!((texts(&before), before.len(), two.len()), (vec!["a".to_owned()], 1, 2));
        assert_eq!(one.last().unwrap().text(), "b");
    }
}
