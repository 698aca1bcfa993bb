//! Documents that a client has opened, by the protocol's messages.
//!
//! Panics at an invalid message: the client under test is wrong.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use text::{LineIndex, Position, PositionEncoding, TextEdit};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenDocument {
    /// The version after the last change.
    pub version: i64,
    /// Language of the document (`languageId`).
    pub language: String,
    /// The text after all changes.
    pub text: String,
}

/// Documents of a server, by the messages that it received.
#[derive(Debug)]
pub struct Documents {
    pub encoding: PositionEncoding,
    pub open: BTreeMap<String, OpenDocument>,
}

impl Default for Documents {
    /// Starts with no documents and positions in UTF-16.
    fn default() -> Self {
        Self { encoding: PositionEncoding::Utf16, open: BTreeMap::new() }
    }
}

impl Documents {
    /// Applies one message; ignores those that concern no document.
    ///
    /// # Panics
    /// If it is invalid: a document is opened twice, or changed while it is closed.
    pub fn take(&mut self, method: &str, params: &Value) {
        let document = &params["textDocument"];
        let uri = document["uri"].as_str().unwrap_or_default().to_owned();
        match method {
            "textDocument/didOpen" => {
                let open = OpenDocument {
                    version: document["version"].as_i64().expect("didOpen has a version"),
                    language: document["languageId"].as_str().expect("didOpen has a language").to_owned(),
                    text: document["text"].as_str().expect("didOpen has a text").to_owned(),
                };
                assert!(self.open.insert(uri.clone(), open).is_none(), "{uri} is opened twice");
            }
            "textDocument/didClose" => {
                assert!(self.open.remove(&uri).is_some(), "{uri} is closed but was not open");
            }
            "textDocument/didChange" => {
                let version = document["version"].as_i64().expect("didChange has a version");
                let encoding = self.encoding;
                let open = self.open.get_mut(&uri).unwrap_or_else(|| panic!("{uri} changed while closed"));
                assert!(version > open.version, "versions only grow");
                open.version = version;
                for change in params["contentChanges"].as_array().expect("changes are a list") {
                    let new_text = change["text"].as_str().expect("a change has a text");
                    open.text = match change.get("range") {
                        None => new_text.to_owned(),
                        Some(range) => changed(&open.text, range, new_text, encoding),
                    };
                }
            }
            _ => {}
        }
    }
}

fn changed(text: &str, range: &Value, new_text: &str, encoding: PositionEncoding) -> String {
    let index = LineIndex::new(text);
    let offset = |end: &str| {
        let number = |name: &str| range[end][name].as_u64().expect("positions are numbers") as u32;
        let position = Position { line: number("line"), character: number("character") };
        index.offset(text, position, encoding).unwrap_or_else(|| panic!("{range} does not fit {text:?}"))
    };
    text::apply(text, &[TextEdit::replace(offset("start")..offset("end"), new_text)])
        .expect("a range that fits")
}
