//! The documents that one server has open, and what it must be told to see them as they are.
//!
//! Reads no file. What must stay true: after [`OpenDocuments::sync`] the server's text equals the text
//! given; versions only grow; the messages go out in the order in which the table changes, because both
//! happen under the one lock that the caller holds.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use text::PositionEncoding;
use wire::{Closed, Room};
use workspace::{AbsPath, Document};

use crate::view::View;

/// Documents kept open in one server; the least recently used is closed first.
const LIMIT: usize = 48;

#[derive(Default)]
pub(crate) struct OpenDocuments {
    open: HashMap<AbsPath, Open>,
    clock: u64,
    /// Opened for one question on top of the limit, and closed after it.
    extra: usize,
}

struct Open {
    state: Synced,
    used: u64,
}

/// A document as the server has it.
#[derive(Debug, Clone)]
pub(crate) struct Synced {
    pub uri: String,
    /// The protocol's version number.
    pub number: i32,
    /// The version of the document it was made from.
    pub version: workspace::Version,
    pub view: Arc<View>,
    /// How many diagnostics had been pushed when this text was sent; later ones may be about it.
    pub pushes_before: u64,
}

/// How a server wants to be told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncRule {
    pub open: bool,
    pub incremental: bool,
    pub encoding: PositionEncoding,
}

impl OpenDocuments {
    /// All that are open.
    pub fn paths(&self) -> Vec<AbsPath> {
        self.open.keys().cloned().collect()
    }

    /// Makes room for `count` documents more until [`OpenDocuments::take_room`].
    pub fn make_room(&mut self, count: usize) {
        self.extra += count;
    }

    /// Takes back the room that was made.
    pub fn take_room(&mut self, count: usize) {
        self.extra = self.extra.saturating_sub(count);
    }

    /// What the server has, to read its answers by.
    pub fn snapshot(&self) -> HashMap<AbsPath, Synced> {
        self.open.iter().map(|(path, open)| (path.clone(), open.state.clone())).collect()
    }

    /// Tells the server of a document's text, opening it if need be.
    pub fn sync(
        &mut self,
        room: &Room,
        rule: SyncRule,
        document: &Document,
        language: &str,
        pushes: u64,
    ) -> Result<Synced, Closed> {
        self.clock += 1;
        let used = self.clock;
        if let Some(open) = self.open.get_mut(&document.path) {
            open.used = used;
            if *open.state.view.text != *document.text {
                let view = Arc::new(View::new(Arc::clone(&document.text)));
                let changes = changes(rule, &open.state.view, &view);
                open.state.number += 1;
                open.state.view = view;
                open.state.pushes_before = pushes;
                let params = json!({
                    "textDocument": {"uri": open.state.uri, "version": open.state.number},
                    "contentChanges": changes,
                });
                if rule.open {
                    room.notify("textDocument/didChange", &params)?;
                }
            }
            open.state.version = document.version;
            return Ok(open.state.clone());
        }
        let state = Synced {
            uri: document.uri.clone(),
            number: 1,
            version: document.version,
            view: Arc::new(View::new(Arc::clone(&document.text))),
            pushes_before: pushes,
        };
        self.open.insert(document.path.clone(), Open { state: state.clone(), used });
        if rule.open {
            let params = json!({"textDocument": {
                "uri": state.uri, "languageId": language, "version": state.number, "text": &*document.text,
            }});
            room.notify("textDocument/didOpen", &params)?;
        }
        while self.open.len() > LIMIT + self.extra {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(path, _)| path.clone());
            let Some(oldest) = oldest else { break };
            self.close(room, rule, &oldest)?;
        }
        Ok(state)
    }

    /// Tells the server that a document is no longer open.
    pub fn close(&mut self, room: &Room, rule: SyncRule, path: &AbsPath) -> Result<(), Closed> {
        match self.open.remove(path) {
            Some(open) if rule.open => {
                room.notify("textDocument/didClose", &json!({"textDocument": {"uri": open.state.uri}}))
            }
            _ => Ok(()),
        }
    }
}

/// The changes from one text to another, last place first, so that each speaks of positions that those
/// before it in the list have not moved.
fn changes(rule: SyncRule, old: &View, new: &View) -> Vec<Value> {
    if !rule.incremental {
        return vec![json!({"text": &*new.text})];
    }
    text::diff_edits(&old.text, &new.text)
        .iter()
        .rev()
        .map(|edit| {
            // A position cannot stand between `\r` and `\n`; a change there takes the whole line end.
            let (start, end, new_text) = whole_line_ends(&old.text, edit);
            let range = old.protocol_range(&(start..end), rule.encoding);
            json!({"range": range, "text": new_text})
        })
        .collect()
}

fn whole_line_ends(text: &str, edit: &text::TextEdit) -> (usize, usize, String) {
    let between = |offset: usize| text[..offset].ends_with('\r') && text[offset..].starts_with('\n');
    let (mut start, mut end, mut new_text) = (edit.range.start, edit.range.end, edit.new_text.clone());
    if between(start) {
        start -= 1;
        new_text.insert(0, '\r');
    }
    if between(end) {
        end += 1;
        new_text.push('\n');
    }
    (start, end, new_text)
}
