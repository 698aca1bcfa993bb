//! A transcript that can be looked at while it grows: a value that shows the messages of one moment and is cheap to
//! make and to keep, however long the transcript is.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use llm::Message;

/// The messages of one moment. Cloning it copies no message; what is added later does not show in it.
#[derive(Clone, Default)]
pub struct Messages {
    /// Only ever appended to; a value shows the first `len`.
    list: Arc<RwLock<Vec<Message>>>,
    len: usize,
}

impl Messages {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A copy of the newest.
    pub fn last(&self) -> Option<Message> {
        self.look(|messages| messages.last().cloned())
    }

    /// Copies of all.
    pub fn to_vec(&self) -> Vec<Message> {
        self.look(<[Message]>::to_vec)
    }

    /// What `look` makes of them. It must be short: nothing can be added meanwhile.
    pub fn look<T>(&self, look: impl FnOnce(&[Message]) -> T) -> T {
        look(&self.read()[..self.len])
    }

    /// Adds one. Costs a copy of all when another value added one of its own before.
    pub(crate) fn push(&mut self, message: Message) {
        {
            let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
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
        self.list.read().unwrap_or_else(PoisonError::into_inner)
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
        self.look(|messages| f.debug_list().entries(messages).finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_shows_its_own_moment() {
        let mut one = Messages::default();
        one.push(Message::user("a"));
        let (mut two, before) = (one.clone(), one.clone());
        one.push(Message::user("b"));
        two.push(Message::user("c"));
        let texts = |it: &Messages| it.look(|all| all.iter().map(Message::text).collect::<Vec<_>>());
        assert_eq!((texts(&one), texts(&two)), (vec!["a".into(), "b".into()], vec!["a".into(), "c".into()]));
        assert_eq!((texts(&before), before.len(), two.len()), (vec!["a".to_owned()], 1, 2));
        assert_eq!(one.last().unwrap().text(), "b");
    }
}
