//! `reasoning_details` of OpenRouter and compatible servers.
//!
//! They are texts, summaries and encrypted parts, streamed in pieces. The complete list goes back with its
//! message, in order.

use serde_json::{Value, json};

use crate::protocol::non_empty;

/// The parts so far.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Value>);

impl Details {
    /// Adds a part or a piece of one.
    ///
    /// Texts and summaries continue; an encrypted part is always new.
    pub fn take(&mut self, piece: &Value) {
        let grows =
            ["text", "summary"].into_iter().find(|field| piece["type"] == format!("reasoning.{field}"));
        let begun = grows.and_then(|field| Some((field, self.begun(piece)?)));
        let Some((field, part)) = begun else {
            return self.0.push(piece.clone());
        };
        if let Some(more) = non_empty(&piece[field]) {
            match &mut part[field] {
                Value::String(text) => text.push_str(more),
                other => *other = Value::from(more),
            }
        }
        // A signature comes last, and an id may come late.
        for (name, value) in piece.as_object().into_iter().flatten() {
            if name != field && !value.is_null() && part.get(name).is_none_or(Value::is_null) {
                part[name] = value.clone();
            }
        }
    }

    /// Finds the part that this piece continues.
    ///
    /// This is the newest of its index and kind, unless it is signed.
    fn begun(&mut self, piece: &Value) -> Option<&mut Value> {
        let part = match piece.get("index").filter(|index| !index.is_null()) {
            Some(index) => self.0.iter_mut().rfind(|it| it.get("index") == Some(index))?,
            None => self.0.last_mut()?,
        };
        let same = part["type"] == piece["type"] && non_empty(&part["signature"]).is_none();
        let other = non_empty(&part["id"]).zip(non_empty(&piece["id"])).is_some_and(|(a, b)| a != b);
        (same && !other).then_some(part)
    }

    /// The parts as stored in a thinking block; `None` if there are none.
    pub fn signature(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| json!({ "reasoning_details": self.0 }).to_string())
    }

    /// The parts stored by [`Details::signature`]; `None` for any other signature.
    pub fn kept(signature: &str) -> Option<Value> {
        let mut kept = serde_json::from_str::<Value>(signature).ok()?;
        let details = kept.get_mut("reasoning_details")?.take();
        details.is_array().then_some(details)
    }
}
