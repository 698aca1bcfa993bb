//! Access to a loaded session file.
//!
//! Entries are known by their heads; bodies are parsed on demand. The module is pure.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use llm::{AssistantMessage, Message, Usage};
use paths::StateLock;
use serde::de::IgnoredAny;
use workspace::RunId;

use super::entry::{Entry, EntryBody, Header, RUN, VERSION};
use super::migrate::migrated;

/// A session as loaded from its file.
#[derive(Debug)]
pub struct LoadedSession {
    pub header: Header,
    /// The entries in file order.
    pub entries: Vec<Entry>,
    /// Unreadable parts, for users.
    pub warnings: Vec<String>,
    /// Name of the file in the store.
    pub file: String,
    /// Whether the file ends in the middle of a line.
    pub torn: bool,
    /// Size of the file in bytes when it was read.
    pub(super) size: u64,
    /// Whether the text was migrated to the newest version, unlike the file.
    pub(super) is_migrated: bool,
    /// Lock for writing the file, if the caller took it.
    pub(super) lock: Option<Arc<StateLock>>,
    text: String,
    by_id: OnceLock<HashMap<String, usize>>,
    leaf: Option<usize>,
}

/// One message of the context.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextItem {
    /// The entry it comes from.
    pub entry_id: String,
    pub message: Message,
    /// Whether it is the newest summary, or existed when that was made.
    pub before_compaction: bool,
}

/// A line of the tree of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeLine {
    /// Index in [`LoadedSession::entries`].
    pub entry: usize,
    /// Number of branchings above it.
    pub depth: usize,
    /// Whether it is an ancestor of the newest entry.
    pub is_current: bool,
    pub label: Option<String>,
}

/// Parses a session file.
///
/// `Err` if it is not a readable session. Unreadable lines are warnings, and so is a last line cut by a
/// crash.
pub fn parse(file: &str, text: String) -> Result<LoadedSession, String> {
    let size = text.len() as u64;
    let first = text.lines().find(|line| !line.trim().is_empty()).ok_or("it is empty")?;
    let header: serde_json::Value =
        serde_json::from_str(first).map_err(|error| format!("its first line is not a header: {error}"))?;
    if header["type"] != "session" {
        return Err("its first line is not a session header".to_owned());
    }
    let version = header["version"].as_u64().unwrap_or(1);
    if version > VERSION {
        return Err(format!(
            "it has version {version}, newer than the supported version {VERSION}; update pilcrow"
        ));
    }
    let torn = !text.ends_with('\n');
    let mut warnings = Vec::new();
    let is_migrated = version < VERSION;
    let text = if is_migrated { migrated(file, &text, version, &mut warnings) } else { text };
    let first_end = text.find('\n').unwrap_or(text.len());
    let header: Header = serde_json::from_str(&text[..first_end])
        .map_err(|error| format!("its header cannot be read: {error}"))?;
    let mut session = LoadedSession {
        header,
        entries: Vec::new(),
        warnings,
        file: file.to_owned(),
        torn: torn && !is_migrated,
        size,
        is_migrated,
        lock: None,
        text,
        by_id: OnceLock::new(),
        leaf: None,
    };
    session.read_entries(first_end + 1);
    Ok(session)
}

impl LoadedSession {
    fn read_entries(&mut self, from: usize) {
        let text = &self.text;
        // Lines are seldom shorter, and the system provides no memory for unused capacity.
        let mut entries: Vec<Entry> = Vec::with_capacity(text.len() / 512);
        let mut whole: Vec<bool> = Vec::with_capacity(text.len() / 512);
        let mut lost: Vec<LostLine> = Vec::new();
        let (mut at, mut number) = (from, 1);
        while at < text.len() {
            let end = text[at..].find('\n').map_or(text.len(), |found| at + found);
            number += 1;
            let line = at..end;
            at = end + 1;
            if text[line.clone()].trim_start().is_empty() {
                continue;
            }
            match Entry::read(text, line.clone()) {
                Ok((entry, is_whole)) => {
                    entries.push(entry);
                    whole.push(is_whole);
                }
                Err(error) => {
                    let line_text = &text[line.clone()];
                    let before = || entries.last().map(|entry| entry.id.clone());
                    let (id, parent) = (field(line_text, "id"), field(line_text, "parentId").or_else(before));
                    lost.push(LostLine { id, parent, before: entries.len() });
                    self.warnings.push(left_out(&self.file, text, &line, number, &error));
                }
            }
        }
        let cut = cut(text, &entries, &whole);
        let (mut counted, mut number) = (0, 1);
        for (place, error) in &cut {
            let line = &entries[*place].line;
            number += text[counted..line.start].matches('\n').count();
            counted = line.start;
            self.warnings.push(left_out(&self.file, text, line, number, error));
        }
        let mut cut = cut.into_iter().map(|(place, _)| place).peekable();
        let mut place = 0;
        entries.retain(|_| {
            place += 1;
            cut.next_if_eq(&(place - 1)).is_none()
        });
        self.entries = entries;
        bridge(&mut self.entries, lost);
        self.leaf = self.entries.len().checked_sub(1);
    }

    /// Indices of the entries by id; the later of two equal ids counts.
    ///
    /// The first use builds it; continuing a session does not need it.
    fn by_id(&self) -> &HashMap<String, usize> {
        self.by_id.get_or_init(|| {
            self.entries.iter().enumerate().map(|(place, entry)| (entry.id.clone(), place)).collect()
        })
    }

    /// Index of the parent, which is nearly always the entry before.
    fn parent_of(&self, place: usize) -> Option<usize> {
        let id = self.entries[place].parent_id.as_deref()?;
        let just_before = place.checked_sub(1).filter(|before| self.entries[*before].id == id);
        just_before.or_else(|| self.by_id().get(id).copied())
    }

    /// The content of an entry. `Err` if it is unreadable.
    pub fn body(&self, entry: &Entry) -> Result<EntryBody, String> {
        EntryBody::read(&entry.kind, &self.text[entry.line.clone()])
    }

    /// The line of an entry.
    pub fn line(&self, entry: &Entry) -> &str {
        &self.text[entry.line.clone()]
    }

    /// The whole text, in the newest version.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The selected entry, which the next one follows.
    pub fn leaf(&self) -> Option<&Entry> {
        self.leaf.map(|place| &self.entries[place])
    }

    /// The entry with this id, or the only one whose id begins with it.
    pub fn find(&self, id: &str) -> Option<&Entry> {
        if let Some(place) = self.by_id().get(id) {
            return Some(&self.entries[*place]);
        }
        let mut found = self.entries.iter().filter(|entry| !id.is_empty() && entry.id.starts_with(id));
        found.next().filter(|_| found.next().is_none())
    }

    /// Selects an entry to continue from; returns false if it does not exist.
    pub fn select(&mut self, id: &str) -> bool {
        let Some(place) = self.find(id).and_then(|entry| self.by_id().get(&entry.id)).copied() else {
            return false;
        };
        self.leaf = Some(place);
        true
    }

    /// Selects the entry `at`; returns the messages of the branch that is left.
    ///
    /// These are the context's messages that are not on the path to `at`, except summaries of that path.
    /// `None` if there is no such entry.
    pub fn leave_for(&mut self, at: &str) -> Option<Vec<Message>> {
        let items = self.context_items();
        if !self.select(at) {
            return None;
        }
        let shared: HashSet<&str> = self.path().into_iter().map(|entry| entry.id.as_str()).collect();
        let is_summarized = |id: &str| match self.find(id).map(|entry| self.body(entry)) {
            Some(Ok(EntryBody::BranchSummary { from, .. })) => {
                // Labels and the like may follow the last message.
                let mut last = self.find(&from);
                while let Some(entry) = last.filter(|entry| entry.kind != "message") {
                    last = entry.parent_id.as_deref().and_then(|id| self.find(id));
                }
                last.is_some_and(|entry| shared.contains(entry.id.as_str()))
            }
            _ => false,
        };
        let left = items.into_iter().filter(|item| {
            let id = item.entry_id.as_str();
            !shared.contains(id) && !is_summarized(id)
        });
        Some(left.map(|item| item.message).collect())
    }

    /// The entries from the root to the selected one.
    pub fn path(&self) -> Vec<&Entry> {
        let mut path = Vec::new();
        let mut seen = vec![false; self.entries.len()];
        let mut at = self.leaf;
        while let Some(place) = at {
            if std::mem::replace(&mut seen[place], true) {
                break;
            }
            path.push(&self.entries[place]);
            at = self.parent_of(place);
        }
        path.reverse();
        path
    }

    /// The messages that a model receives, from the root to the selected entry.
    pub fn context(&self) -> Vec<Message> {
        self.context_items().into_iter().map(|item| item.message).collect()
    }

    /// Returns [`LoadedSession::context`] with the entries of its messages.
    ///
    /// The newest summary replaces what it summarizes, and the latest edits on the path apply.
    pub(crate) fn context_items(&self) -> Vec<ContextItem> {
        let path = self.path();
        let mut edits: HashMap<String, Option<Box<Message>>> = HashMap::new();
        for entry in path.iter().filter(|entry| entry.kind == "context_edit") {
            if let Ok(EntryBody::ContextEdit { target, replacement }) = self.body(entry) {
                edits.insert(target, replacement);
            }
        }
        let newest = path.iter().rposition(|entry| entry.kind == "compaction");
        let mut chosen: Vec<(&Entry, bool)> = Vec::new();
        if let Some(at) = newest {
            chosen.push((path[at], true));
            if let Ok(EntryBody::Compaction { first_kept: Some(first), .. }) = self.body(path[at])
                && let Some(from) = path[..at].iter().position(|entry| entry.id == first)
            {
                chosen
                    .extend(path[from..at].iter().filter(|it| it.kind != "compaction").map(|it| (*it, true)));
            }
        }
        let after = newest.map_or(0, |at| at + 1);
        chosen.extend(path[after..].iter().map(|entry| (*entry, false)));
        chosen.retain(|(entry, _)| {
            matches!(entry.kind.as_str(), "message" | "compaction" | "branch_summary" | "custom_message")
        });
        let item = |(entry, before_compaction): &(&Entry, bool)| {
            let message = match edits.get(&entry.id) {
                Some(replacement) => Message::clone(replacement.as_ref()?),
                None => self.body(entry).ok()?.message(0)?,
            };
            Some(ContextItem { entry_id: entry.id.clone(), message, before_compaction: *before_compaction })
        };
        in_parallel(&chosen, item)
    }

    /// The tools that the model knows on this path, in order.
    pub fn activated(&self) -> Vec<String> {
        let tools = |entry: &&Entry| match self.body(entry) {
            Ok(EntryBody::ToolActivation(tools)) => tools,
            _ => Vec::new(),
        };
        self.path().iter().filter(|entry| entry.kind == "tool_activation").flat_map(tools).collect()
    }

    /// The runs of all branches, oldest first.
    ///
    /// With `since`, the run that this message started, and later ones; empty if it started none.
    pub fn runs(&self, since: Option<&str>) -> Vec<RunId> {
        let run = |entry: &Entry| match entry.kind.as_str() {
            "custom" => match self.body(entry) {
                Ok(EntryBody::Custom { kind, data }) if kind == RUN => {
                    Some(RunId(data["runId"].as_str()?.to_owned()))
                }
                _ => None,
            },
            _ => None,
        };
        let started = |message: &str| {
            let at = self.entries.iter().position(|entry| entry.id == message)?;
            let before = (0..at).rev().take_while(|it| self.entries[*it].kind != "message");
            before.filter(|it| run(&self.entries[*it]).is_some()).last()
        };
        let first = since.map_or(Some(0), started);
        first.map(|first| self.entries[first..].iter().filter_map(run).collect()).unwrap_or_default()
    }

    /// The messages on this path that started runs, by index, with their runs.
    pub fn run_starts(&self) -> Vec<(usize, RunId)> {
        let (mut run, mut starts) = (None, Vec::new());
        for entry in self.path() {
            match (entry.kind.as_str(), self.body(entry)) {
                ("custom", Ok(EntryBody::Custom { kind, data })) if kind == RUN => {
                    run = data["runId"].as_str().map(|id| RunId(id.to_owned()));
                }
                ("message", Ok(EntryBody::Message(message))) => {
                    let started = run.take().filter(|_| matches!(*message, Message::User(_)));
                    starts.extend(self.by_id().get(&entry.id).copied().zip(started));
                }
                _ => {}
            }
        }
        starts
    }

    /// The last model (provider and id) and thinking level on this path.
    pub fn last_settings(&self) -> (Option<(String, String)>, Option<llm::ThinkingLevel>) {
        let path = self.path();
        let mut levels = path.iter().rev().filter(|entry| entry.kind == "thinking_level_change");
        let level = levels.find_map(|entry| match self.body(entry) {
            Ok(EntryBody::ThinkingLevelChange(level)) => Some(level),
            _ => None,
        });
        let model = path.iter().rev().find_map(|entry| match entry.kind.as_str() {
            "model_change" => match self.body(entry) {
                Ok(EntryBody::ModelChange { provider, model }) => Some((provider, model)),
                _ => None,
            },
            _ => self.answer(entry).map(|answer| (answer.provider, answer.model)),
        });
        (model, level.flatten())
    }

    /// The newest answer on this path.
    pub fn last_answer(&self) -> Option<AssistantMessage> {
        self.path().into_iter().rev().find_map(|entry| self.answer(entry))
    }

    fn answer(&self, entry: &Entry) -> Option<AssistantMessage> {
        if entry.kind != "message" {
            return None;
        }
        match self.body(entry) {
            Ok(EntryBody::Message(message)) => match *message {
                Message::Assistant(answer) => Some(answer),
                _ => None,
            },
            _ => None,
        }
    }

    /// The tokens used on all branches, and their cost where known.
    ///
    /// Entries inherited from a parent session count there.
    pub fn usage(&self) -> Usage {
        let inherited = self.header.branch_point.as_ref();
        let left_at = inherited.and_then(|id| self.entries.iter().position(|entry| entry.id == *id));
        let own = self.entries.iter().skip(left_at.map_or(0, |at| at + 1));
        let usage = |entry: &Entry| match entry.kind.as_str() {
            "message" => self.answer(entry).map(|answer| answer.usage),
            "usage" => match self.body(entry) {
                Ok(EntryBody::Other(line)) => serde_json::from_value(line["usage"].clone()).ok(),
                _ => None,
            },
            _ => None,
        };
        own.filter_map(usage).fold(Usage::default(), Usage::plus)
    }

    /// Labels by entry.
    pub fn labels(&self) -> HashMap<String, String> {
        let mut labels = HashMap::new();
        for entry in self.entries.iter().filter(|entry| entry.kind == "label") {
            if let Ok(EntryBody::Label { target, label }) = self.body(entry) {
                match label {
                    Some(label) => labels.insert(target, label),
                    None => labels.remove(&target),
                };
            }
        }
        labels
    }

    /// The session's name, if set.
    pub fn name(&self) -> Option<String> {
        let newest = self.entries.iter().rev().find(|entry| entry.kind == "session_info")?;
        match self.body(newest) {
            Ok(EntryBody::Info { name }) => name.filter(|name| !name.is_empty()),
            _ => None,
        }
    }

    /// The tree, each entry after its parent; an entry of an unknown parent is a root.
    pub fn tree(&self) -> Vec<TreeLine> {
        let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for place in 0..self.entries.len() {
            let parent = self.parent_of(place).filter(|parent| *parent < place);
            children.entry(parent).or_default().push(place);
        }
        let current: HashSet<&str> = self.path().iter().map(|entry| entry.id.as_str()).collect();
        let labels = self.labels();
        let mut lines = Vec::new();
        let roots = children.get(&None).cloned().unwrap_or_default();
        let mut open: Vec<(usize, usize)> = roots.into_iter().rev().map(|place| (place, 0)).collect();
        while let Some((place, depth)) = open.pop() {
            let entry = &self.entries[place];
            lines.push(TreeLine {
                entry: place,
                depth,
                is_current: current.contains(entry.id.as_str()),
                label: labels.get(&entry.id).cloned(),
            });
            let below = children.get(&Some(place)).map(Vec::as_slice).unwrap_or_default();
            let deeper = depth + usize::from(below.len() > 1);
            open.extend(below.iter().rev().map(|child| (*child, deeper)));
        }
        lines
    }
}

/// Indices of entries that were cut while being written, with the errors.
///
/// Only the heads of most lines were parsed. A line that has a successor was written completely.
fn cut(text: &str, entries: &[Entry], whole: &[bool]) -> Vec<(usize, String)> {
    let follows = |place: usize| {
        let next = entries.get(place + 1).and_then(|next| next.parent_id.as_deref());
        next == Some(entries[place].id.as_str())
    };
    let mut open: Vec<usize> =
        (0..entries.len()).filter(|place| !whole[*place] && !follows(*place)).collect();
    if open.len() > 1 {
        let parents: HashSet<&str> = entries.iter().filter_map(|entry| entry.parent_id.as_deref()).collect();
        open.retain(|place| !parents.contains(entries[*place].id.as_str()));
    }
    let error = |place: usize| {
        let read = serde_json::from_str::<IgnoredAny>(&text[entries[place].line.clone()]);
        Some((place, read.err()?.to_string()))
    };
    open.into_iter().filter_map(error).collect()
}

/// An unreadable line, as far as it is known.
struct LostLine {
    id: Option<String>,
    /// Its parent; if unreadable, the entry before it in the file.
    parent: Option<String>,
    before: usize,
}

/// A member at the beginning of an unreadable line, before the entry's own fields.
fn field(line: &str, name: &str) -> Option<String> {
    let beginning = &line[..line.find("\"message\":").unwrap_or(line.len())];
    let (_, rest) = beginning.split_once(&format!("\"{name}\":"))?;
    let (value, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    (!value.contains('\\')).then(|| value.to_owned())
}

/// Connects the successors of an unreadable line to its parent.
///
/// One bad line then does not separate a session from its beginning.
fn bridge(entries: &mut [Entry], mut lost: Vec<LostLine>) {
    if lost.is_empty() {
        return;
    }
    let known: HashSet<String> = entries.iter().map(|entry| entry.id.clone()).collect();
    for (place, entry) in entries.iter_mut().enumerate() {
        // Several successive lines may be unreadable.
        for _ in 0..=lost.len() {
            let Some(missing) = entry.parent_id.clone().filter(|parent| !known.contains(parent)) else {
                break;
            };
            let by_name = lost.iter().position(|it| it.before <= place && it.id.as_ref() == Some(&missing));
            let found = by_name.or_else(|| lost.iter().rposition(|it| it.before <= place && it.id.is_none()));
            let Some(line) = found.map(|at| &mut lost[at]) else { break };
            // Its other successors find it by this id.
            line.id = Some(missing);
            entry.parent_id.clone_from(&line.parent);
        }
    }
}

fn left_out(file: &str, text: &str, line: &std::ops::Range<usize>, number: usize, error: &str) -> String {
    if line.end == text.len() {
        format!("{file}: skipped the last line, which a crash cut")
    } else {
        format!("{file}: skipped line {number}: {error}")
    }
}

/// Maps all items in order, on several threads if there are many.
fn in_parallel<T: Sync, U: Send>(all: &[T], map: impl Fn(&T) -> Option<U> + Sync) -> Vec<U> {
    const WORTH_IT: usize = 2_000;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    if all.len() < WORTH_IT || threads == 1 {
        return all.iter().filter_map(map).collect();
    }
    let map = &map;
    std::thread::scope(|scope| {
        let parts: Vec<_> = all
            .chunks(all.len().div_ceil(threads))
            .map(|part| scope.spawn(move || part.iter().filter_map(map).collect::<Vec<U>>()))
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
