//! Buffers of a scripted editor, and the edits made to them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use serde_json::{Value, json};
use text::{LineEnds, LineIndex, Position, PositionEncoding, TextEdit};

use super::path;
use super::script::{Fault, Personality, Typed, VersionCheck};

#[derive(Debug, Clone)]
pub struct Buffer {
    pub text: String,
    pub version: i32,
    /// Language of the buffer (`languageId`).
    pub language_id: String,
    /// Number of edits that the server applied to it.
    pub edits: usize,
    pub(super) pending: Vec<Value>,
}

pub(super) struct EditorState {
    pub(super) personality: Personality,
    pub(super) encoding: PositionEncoding,
    pub(super) buffers: BTreeMap<String, Buffer>,
    pub(super) faults: VecDeque<Fault>,
    pub(super) answers: BTreeMap<String, Value>,
    pub(super) got: Vec<Value>,
    /// Whether notifications are withheld until the test flushes them.
    pub(super) withheld: bool,
    /// State of a deterministic generator of version jumps.
    pub(super) dice: u64,
}

impl EditorState {
    pub(super) fn lines(&self, text: &str) -> LineIndex {
        let crlf = text.contains("\r\n") && text.matches('\n').count() == text.matches("\r\n").count();
        let ends = match self.personality.ends {
            LineEnds::Lf if crlf => LineEnds::CrLf,
            ends => ends,
        };
        LineIndex::with_ends(text, ends)
    }

    /// Changes a buffer and queues the notification.
    pub(super) fn change(&mut self, uri: &str, range: Range<usize>, new_text: &str) {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let jump = i32::try_from((self.dice >> 33) % self.personality.jump.max(1) as u64).unwrap_or(0) + 1;
        let before = self.buffers.get(uri).unwrap_or_else(|| panic!("{uri} is not open")).text.clone();
        if before[range.clone()] == *new_text {
            return;
        }
        let lines = self.lines(&before);
        let position = |offset: usize| {
            let Position { line, character } = lines.position(&before, offset, self.encoding);
            json!({ "line": line, "character": character })
        };
        let change = json!({
            "range": { "start": position(range.start), "end": position(range.end) },
            "text": new_text,
        });
        if let Some(buffer) = self.buffers.get_mut(uri) {
            buffer.text.replace_range(range, new_text);
            buffer.version += jump;
            buffer.pending.push(change);
        }
    }

    pub(super) fn type_all(&mut self, typed: &[Typed]) {
        for Typed { uri, range, text } in typed {
            self.change(uri, range.clone(), text);
        }
    }

    /// The response, if any, and whether it waits for the test.
    pub(super) fn apply_edit(&mut self, edit: &Value) -> (Option<bool>, bool) {
        let fault = self.faults.pop_front().unwrap_or(Fault::Fine);
        let changes = edit["documentChanges"].as_array().cloned().unwrap_or_default();
        match fault {
            Fault::Fine => (Some(self.take(&changes, &|_, edits| edits)), false),
            Fault::Late | Fault::Held { .. } => (Some(self.take(&changes, &|_, edits| edits)), true),
            Fault::Drop => (Some(true), false),
            Fault::Refuse => (Some(false), false),
            Fault::Silent { made } => {
                if made {
                    self.take(&changes, &|_, edits| edits);
                }
                (None, false)
            }
            Fault::Half { applied } => {
                self.take(&changes, &|_, mut edits| {
                    edits.truncate(edits.len().div_ceil(2));
                    edits
                });
                (Some(applied), false)
            }
            Fault::Shift(by) => {
                for change in &changes {
                    let uri = change["textDocument"]["uri"].as_str().unwrap_or_default();
                    let edits = change["edits"].as_array().cloned().unwrap_or_default();
                    self.edit_buffer(uri, &edits, by);
                }
                (Some(true), false)
            }
            Fault::TypedFirst(typed) => {
                self.type_all(&typed);
                (Some(self.take(&changes, &|_, edits| edits)), false)
            }
            Fault::Between { before, after, rebased } => {
                for change in &changes {
                    let uri = change["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
                    let edits = change["edits"].as_array().cloned().unwrap_or_default();
                    let ours: Vec<Typed> = before.iter().filter(|typed| typed.uri == uri).cloned().collect();
                    let mut places = self.places(&uri, &edits, 0);
                    self.type_all(&ours);
                    if rebased {
                        for typed in &ours {
                            let step = [TextEdit::replace(typed.range.clone(), &typed.text)];
                            for place in &mut places {
                                let range = text::map_range(place.range.clone(), &step);
                                place.range = range.expect("a test types next to the edit");
                            }
                        }
                    } else {
                        places = self.places(&uri, &edits, 0);
                    }
                    self.replace_ranges(&uri, places);
                    let later: Vec<Typed> = after.iter().filter(|typed| typed.uri == uri).cloned().collect();
                    self.type_all(&later);
                }
                (Some(true), false)
            }
        }
    }

    /// Applies an edit in the manner of the personality.
    pub(super) fn take(
        &mut self,
        changes: &[Value],
        choose: &dyn Fn(&str, Vec<Value>) -> Vec<Value>,
    ) -> bool {
        let stale = |state: &Self, change: &Value, newer_only: bool| {
            let uri = change["textDocument"]["uri"].as_str().unwrap_or_default();
            let Some(buffer) = state.buffers.get(uri) else { return false };
            match change["textDocument"]["version"].as_i64() {
                None => false,
                Some(0) if newer_only => false,
                Some(version) if newer_only => i64::from(buffer.version) > version,
                Some(version) => i64::from(buffer.version) != version,
            }
        };
        if self.personality.check == VersionCheck::Exact
            && changes.iter().any(|change| stale(self, change, false))
        {
            return false;
        }
        for (index, change) in changes.iter().enumerate() {
            if let Some(kind) = change["kind"].as_str() {
                if !self.operate(kind, change) {
                    return false;
                }
                continue;
            }
            let check = self.personality.check == VersionCheck::DropStaleFirst && index == 0;
            if check && stale(self, change, true) {
                continue;
            }
            let uri = change["textDocument"]["uri"].as_str().unwrap_or_default();
            let edits = change["edits"].as_array().cloned().unwrap_or_default();
            self.edit_buffer(uri, &choose(uri, edits), 0);
        }
        true
    }

    pub(super) fn edit_buffer(&mut self, uri: &str, edits: &[Value], shift: u32) {
        let places = self.places(uri, edits, shift);
        self.replace_ranges(uri, places);
    }

    /// The places of the edits.
    ///
    /// Places past the end are at the end, as in real editors.
    pub(super) fn places(&self, uri: &str, edits: &[Value], shift: u32) -> Vec<TextEdit> {
        let text = self.buffers.get(uri).unwrap_or_else(|| panic!("{uri} is not open")).text.clone();
        let lines = self.lines(&text);
        let place = |position: &Value| {
            let number = |name: &str| position[name].as_u64().unwrap_or_default() as u32;
            let position = Position { line: number("line") + shift, character: number("character") };
            if position.line as usize >= lines.line_count() {
                return text.len();
            }
            // A place inside a character moves before it.
            let before = |back| Position { character: position.character.saturating_sub(back), ..position };
            (0..4).find_map(|back| lines.offset(&text, before(back), self.encoding)).unwrap_or(text.len())
        };
        let eol = if text.contains("\r\n") { "\r\n" } else { "\n" };
        edits
            .iter()
            .map(|edit| {
                let new = edit["newText"].as_str().unwrap_or_default();
                // Editors convert inserted line ends to the document's.
                let new = new.replace("\r\n", "\n").replace('\r', "\n").replace('\n', eol);
                let (start, end) = (place(&edit["range"]["start"]), place(&edit["range"]["end"]));
                TextEdit::replace(start..end.max(start), new)
            })
            .collect()
    }

    /// Applies edits from the last place to the first, in pieces if configured.
    pub(super) fn replace_ranges(&mut self, uri: &str, places: Vec<TextEdit>) {
        let text = self.buffers.get(uri).map(|buffer| buffer.text.clone()).unwrap_or_default();
        let mut places = text::normalize(&text, &places).expect("edits fit and do not overlap");
        places.reverse();
        for place in places {
            if self.personality.minimal {
                let pieces = text::diff_edits(&text[place.range.clone()], &place.new_text);
                for piece in pieces.into_iter().rev() {
                    let at = place.range.start;
                    self.change(uri, at + piece.range.start..at + piece.range.end, &piece.new_text);
                }
            } else {
                self.change(uri, place.range, &place.new_text);
            }
        }
        if let Some(buffer) = self.buffers.get_mut(uri) {
            buffer.edits += 1;
        }
    }

    /// Renames and deletes on disk and in the buffers; sends `didClose` and `didOpen`.
    pub(super) fn operate(&mut self, kind: &str, change: &Value) -> bool {
        let uri = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
        match kind {
            "create" => std::fs::File::create_new(path(&uri("uri"))).is_ok(),
            "delete" => {
                if let Some(buffer) = self.buffers.get_mut(&uri("uri")) {
                    buffer.pending = vec![json!("closed")];
                }
                std::fs::remove_file(path(&uri("uri"))).is_ok()
            }
            "rename" => {
                let (from, to) = (uri("oldUri"), uri("newUri"));
                let target = path(&to);
                if target.exists() {
                    return false;
                }
                if let Some(directory) = target.parent() {
                    std::fs::create_dir_all(directory).expect("a directory can be created");
                }
                let moved = std::fs::rename(path(&from), target).is_ok();
                if let Some(buffer) = self.buffers.get_mut(&from) {
                    let mut new = buffer.clone();
                    new.version = self.personality.first_version;
                    new.pending = vec![json!("opened")];
                    buffer.pending = vec![json!("closed")];
                    self.buffers.insert(to, new);
                }
                moved
            }
            _ => false,
        }
    }
}
