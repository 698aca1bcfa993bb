//! The messages of a session, in memory and in its file. One task owns it.

mod estimate;
mod messages;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use llm::{Content, Message, ToolResultMessage, Usage, UserMessage};
use serde_json::Value;

pub(crate) use estimate::estimate;
pub use messages::Messages;

use crate::store::{ContextItem, SessionFile, StoreError, summary_text};

/// The messages of a session with their entries, sizes and file.
pub(crate) struct Transcript {
    messages: Messages,
    /// Results that requests have in another form, by index.
    replaced: BTreeMap<usize, Message>,
    /// The entry of each message.
    ids: Vec<String>,
    /// Estimated tokens of the messages up to and including each.
    sums: Vec<u64>,
    /// Index of the newest answer that reported the context's size, and that size.
    ///
    /// Answers from before the last compaction do not count.
    measured: Option<(usize, u64)>,
    /// The wire protocol of the model, which decides what images cost.
    api: String,
    /// Number of messages before the last compaction; their sizes are stale.
    old: usize,
    /// Messages added by the current run.
    new_messages: Vec<Message>,
    file: Option<SessionFile>,
    next_id: u64,
    sent: Arc<Vec<Message>>,
    /// Number of leading messages whose encoding is final.
    done: usize,
    /// Number of entries of `sent` that the first `done` messages produced.
    done_sent: usize,
}

/// Messages as requests have them: some results replaced.
///
/// The first `old` have no reported sizes, which limit requests.
fn in_requests<'a>(
    messages: &'a [Message],
    part: Range<usize>,
    old: usize,
    replaced: &BTreeMap<usize, Message>,
) -> Cow<'a, [Message]> {
    if part.start >= old {
        return Cow::Borrowed(&messages[part]);
    }
    let count = old.min(part.end) - part.start;
    let start = part.start;
    let mut messages = messages[part].to_vec();
    for (at, message) in messages[..count].iter_mut().enumerate() {
        match message {
            Message::Assistant(answer) => answer.usage = Usage::default(),
            message => {
                if let Some(replacement) = replaced.get(&(start + at)) {
                    message.clone_from(replacement);
                }
            }
        }
    }
    Cow::Owned(messages)
}

impl Transcript {
    pub fn new(items: Vec<ContextItem>, file: Option<SessionFile>) -> Transcript {
        let mut transcript = Transcript {
            messages: Messages::default(),
            replaced: BTreeMap::new(),
            ids: Vec::new(),
            sums: Vec::new(),
            measured: None,
            api: String::new(),
            old: 0,
            new_messages: Vec::new(),
            file,
            next_id: 0,
            sent: Arc::default(),
            done: 0,
            done_sent: 0,
        };
        transcript.set(items);
        transcript
    }

    fn set(&mut self, items: Vec<ContextItem>) {
        let old = items.iter().take_while(|item| item.before_compaction).count();
        (self.ids, self.sums, self.measured, self.old) = (Vec::new(), Vec::new(), None, old);
        let mut messages = Vec::with_capacity(items.len());
        for (at, ContextItem { entry_id, message, .. }) in items.into_iter().enumerate() {
            self.measure(&message, at >= old);
            self.ids.push(entry_id);
            messages.push(message);
        }
        self.messages = messages.into();
        self.replaced.clear();
        (self.sent, self.done, self.done_sent) = (Arc::default(), 0, 0);
    }

    fn measure(&mut self, message: &Message, says_its_size: bool) {
        let at = self.sums.len();
        self.sums.push(self.sums.last().unwrap_or(&0) + estimate(message, &self.api));
        if let Message::Assistant(answer) = message
            && says_its_size
            && !answer.failed()
            && answer.usage.total_tokens > 0
        {
            self.measured = Some((at, answer.usage.total_tokens));
        }
    }

    /// Sets the wire protocol of the model that the next requests go to.
    pub(crate) fn set_api(&mut self, api: &str) {
        if self.api != api {
            api.clone_into(&mut self.api);
            self.estimate_all();
        }
    }

    fn estimate_all(&mut self) {
        let mut sum = 0;
        self.sums = self.messages.with(|messages| {
            let sizes = messages.iter().enumerate().map(|(at, message)| {
                sum += estimate(self.replaced.get(&at).unwrap_or(message), &self.api);
                sum
            });
            sizes.collect()
        });
    }

    /// The messages as the next request has them, before their repair.
    pub(crate) fn current(&self) -> Vec<Message> {
        let old = self.old;
        let count = self.messages.len();
        self.messages.with(|messages| in_requests(messages, 0..count, old, &self.replaced).into_owned())
    }

    /// Replaces the content of results and of the user's messages.
    ///
    /// The new content is in requests and in the context of the file.
    pub(crate) fn replace_content(&mut self, contents: Vec<(usize, Vec<Content>)>) -> Result<(), StoreError> {
        let tokens = self.sums.last().copied().unwrap_or(0);
        for (at, content) in contents {
            let message = self.messages.with(|messages| messages.get(at).cloned());
            let message = match message {
                Some(Message::ToolResult(result)) => {
                    Message::ToolResult(ToolResultMessage { content, ..result })
                }
                Some(Message::User(message)) => Message::User(UserMessage { content, ..message }),
                Some(Message::Assistant(_)) | None => continue,
            };
            if let Some(file) = &mut self.file {
                file.append_replacement(&self.ids[at], &message)?;
            }
            self.replaced.insert(at, message);
        }
        self.estimate_all();
        // A line may be longer than the small image that it replaces.
        let removed = tokens.saturating_sub(self.sums.last().copied().unwrap_or(0));
        // Sizes that older answers reported include what is removed.
        self.measured = self.measured.map(|(at, size)| (at, size.saturating_sub(removed)));
        self.old = self.messages.len();
        (self.sent, self.done, self.done_sent) = (Arc::default(), 0, 0);
        Ok(())
    }

    pub(crate) fn api(&self) -> &str {
        &self.api
    }

    /// Estimated tokens of the next request.
    ///
    /// It is the size that the newest answer reported, plus a quarter of the characters since.
    pub fn tokens(&self) -> u64 {
        let all = self.sums.last().copied().unwrap_or(0);
        match self.measured {
            Some((at, tokens)) => tokens.saturating_add(all.saturating_sub(self.sums[at])),
            None => all,
        }
    }

    /// Number of messages from before the last compaction.
    pub(crate) fn old(&self) -> usize {
        self.old
    }

    /// Whether a model reported the size of the context.
    pub(crate) fn is_measured(&self) -> bool {
        self.measured.is_some()
    }

    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The messages as a provider accepts them.
    ///
    /// The part of earlier requests is neither copied nor processed again, unless the last one is still held.
    pub fn sendable(&mut self) -> Arc<Vec<Message>> {
        if Arc::get_mut(&mut self.sent).is_none() {
            self.sent = Arc::new(self.sent[..self.done_sent].to_vec());
        }
        let Some(sent) = Arc::get_mut(&mut self.sent) else { return Arc::clone(&self.sent) };
        sent.truncate(self.done_sent);
        self.messages.with(|messages| {
            // An answer's calls may still get results, until another answer follows.
            let last = messages.iter().rposition(|it| matches!(it, Message::Assistant(_)));
            let open = last.unwrap_or(messages.len()).max(self.done);
            let (old, replaced) = (self.old, &self.replaced);
            sent.extend(llm::transcript::repair(&in_requests(messages, self.done..open, old, replaced)));
            (self.done, self.done_sent) = (open, sent.len());
            sent.extend(llm::transcript::repair(&in_requests(messages, open..messages.len(), old, replaced)));
        });
        Arc::clone(&self.sent)
    }

    pub fn file(&mut self) -> Option<&mut SessionFile> {
        self.file.as_mut()
    }

    /// The messages added since the last call.
    pub(crate) fn take_new_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.new_messages)
    }

    /// Records tools that the model now knows.
    pub(crate) fn note_tools(&mut self, new: &[String]) -> Result<(), StoreError> {
        if let Some(file) = &mut self.file
            && !new.is_empty()
        {
            file.append_tool_activation(new)?;
        }
        Ok(())
    }

    /// An id for the next message and its entry.
    pub fn new_id(&mut self) -> String {
        match &mut self.file {
            Some(file) => file.new_id(),
            None => {
                self.next_id += 1;
                format!("{:08x}", self.next_id)
            }
        }
    }

    /// Adds a message that the current run made.
    pub(crate) fn append_of_run(&mut self, message_id: &str, message: &Message) -> Result<(), StoreError> {
        self.new_messages.push(message.clone());
        self.append(message_id, message)
    }

    /// Adds a message without an event.
    pub fn append(&mut self, message_id: &str, message: &Message) -> Result<(), StoreError> {
        self.messages.push(message.clone());
        self.ids.push(message_id.to_owned());
        self.measure(message, true);
        match &mut self.file {
            Some(file) => file.append_message(message_id, message),
            None => Ok(()),
        }
    }

    /// Records data that no model receives; returns its id.
    pub fn append_custom(&mut self, kind: &str, data: &Value) -> Result<String, StoreError> {
        let id = self.new_id();
        if let Some(file) = &mut self.file {
            file.append_custom(&id, kind, data)?;
        }
        Ok(id)
    }

    /// Records entries other than messages.
    pub fn note(&mut self, notes: Vec<(&'static str, Value)>) -> Result<(), StoreError> {
        for (kind, fields) in notes {
            if let Some(file) = &mut self.file {
                file.append_note(kind, fields)?;
            }
        }
        Ok(())
    }

    /// Removes a failed response from the stored context.
    ///
    /// Requests skip failed responses in any case, so it stays in memory.
    pub fn omit(&mut self, message_id: &str) -> Result<(), StoreError> {
        match &mut self.file {
            Some(file) => file.append_omission(message_id),
            None => Ok(()),
        }
    }

    /// Replaces all but the newest `kept` messages by `summary`.
    pub fn compact(
        &mut self,
        summary: &Message,
        kept: usize,
        tokens_before: u64,
        details: &Value,
    ) -> Result<(), StoreError> {
        let cut = self.messages.len() - kept.min(self.messages.len());
        let text = summary_text(summary);
        let id = match &mut self.file {
            Some(file) => {
                file.append_compaction(&text, self.ids.get(cut).map(String::as_str), tokens_before, details)?
            }
            None => self.new_id(),
        };
        let mut items = vec![ContextItem { entry_id: id, message: summary.clone(), before_compaction: true }];
        self.messages.with(|messages| {
            for (entry_id, message) in self.ids[cut..].iter().zip(&messages[cut..]) {
                let entry_id = entry_id.clone();
                items.push(ContextItem { entry_id, message: message.clone(), before_compaction: true });
            }
        });
        let replaced = self.replaced.split_off(&cut);
        self.set(items);
        self.replaced = replaced.into_iter().map(|(at, message)| (at - cut + 1, message)).collect();
        self.estimate_all();
        Ok(())
    }

    /// Records the tokens of a request outside turns.
    pub(crate) fn note_usage(&mut self, kind: &str, usage: Usage) -> Result<(), StoreError> {
        if let Some(file) = &mut self.file
            && usage.total_tokens > 0
        {
            file.append_usage(kind, &usage)?;
        }
        Ok(())
    }

    /// Replaces the transcript, as the session file has it at another entry.
    pub fn replace(&mut self, items: Vec<ContextItem>) {
        self.set(items);
    }
}
