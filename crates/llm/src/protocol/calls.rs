//! Assembly of tool calls from the pieces that chat completions stream.
//!
//! The index of a piece is not reliable.

use serde_json::Value;

use crate::protocol::blocks::Blocks;

/// The calls of a response so far.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug)]
struct Call {
    index: usize,
    /// The provider's index, if any.
    number: Option<u64>,
    id: String,
}

impl Calls {
    /// Adds a piece of a call; id and name may be empty, and may come late.
    pub fn piece(
        &mut self,
        blocks: &mut Blocks,
        number: Option<u64>,
        id: &str,
        name: &str,
        arguments: &Value,
    ) {
        let slot = match self.find(number, id, name) {
            Some(slot) => slot,
            None => {
                let index = blocks.begin_call(id, name);
                self.0.push(Call { index, number, id: id.to_owned() });
                self.0.len() - 1
            }
        };
        let slot = &mut self.0[slot];
        if slot.id.is_empty() {
            id.clone_into(&mut slot.id);
        }
        blocks.name_call(slot.index, id, name);
        match arguments {
            Value::String(text) => blocks.push(slot.index, text),
            // Some servers send the arguments as an object.
            whole @ Value::Object(_) => blocks.push(slot.index, &whole.to_string()),
            _ => {}
        }
    }

    /// The call of a piece: by index, else by id, else the newest.
    ///
    /// Some servers give every call the index 0; a new id with a name is a new call.
    fn find(&self, number: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let is_new = |call: &Call| !id.is_empty() && !name.is_empty() && !call.id.is_empty() && call.id != id;
        match number {
            Some(number) => {
                let found = self.0.iter().rposition(|call| call.number == Some(number))?;
                (!is_new(&self.0[found])).then_some(found)
            }
            None if !id.is_empty() => self.0.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => None,
            None => self.0.len().checked_sub(1),
        }
    }
}
