//! The messages of a session, in memory and in its file, and the events that tell of them. One task owns it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use llm::{Message, Usage};
use serde_json::Value;

use crate::compaction::estimate;
use crate::cx::Notes;
use crate::discovery::Toolset;
use crate::event::{Event, MessageRole};
use crate::messages::Messages;
use crate::run::{RunCx, RunError};
use crate::store::{ContextItem, SessionFile, summary_text};

/// The messages of a session, in memory and in its file.
pub(crate) struct Transcript {
    messages: Messages,
    /// The entry of each message.
    ids: Vec<String>,
    /// About how many tokens the messages up to and including each hold.
    sums: Vec<u64>,
    /// What the newest answer said of the context's size, and its place. Those that were there when the context was last put into
    /// fewer words say nothing any more.
    measured: Option<(usize, u64)>,
    /// So many messages are from before the newest compaction: what they say of their size is of a context that is gone.
    old: usize,
    /// What the run that is going on added.
    made: Vec<Message>,
    file: Option<SessionFile>,
    next_id: u64,
    /// The last request.
    sent: Arc<Vec<Message>>,
    /// So many of the messages are done with: nothing that comes later changes how they are sent …
    done: usize,
    /// … and they are so many of `sent`.
    done_sent: usize,
}

/// These messages; those of the first `old` say nothing of their size, by which a request's room is reckoned.
fn without_sizes(messages: &[Message], part: Range<usize>, old: usize) -> Cow<'_, [Message]> {
    if part.start >= old {
        return Cow::Borrowed(&messages[part]);
    }
    let count = old.min(part.end) - part.start;
    let mut messages = messages[part].to_vec();
    for message in &mut messages[..count] {
        if let Message::Assistant(answer) = message {
            answer.usage = Usage::default();
        }
    }
    Cow::Owned(messages)
}

impl Transcript {
    pub fn new(items: Vec<ContextItem>, file: Option<SessionFile>) -> Transcript {
        let mut transcript = Transcript {
            messages: Messages::default(),
            ids: Vec::new(),
            sums: Vec::new(),
            measured: None,
            old: 0,
            made: Vec::new(),
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
        (self.sent, self.done, self.done_sent) = (Arc::default(), 0, 0);
    }

    fn measure(&mut self, message: &Message, says_its_size: bool) {
        let at = self.sums.len();
        self.sums.push(self.sums.last().unwrap_or(&0) + estimate(message));
        if let Message::Assistant(answer) = message
            && says_its_size
            && !answer.failed()
            && answer.usage.total_tokens > 0
        {
            self.measured = Some((at, answer.usage.total_tokens));
        }
    }

    /// About how many tokens the next request holds: what the newest answer said of its own, and a quarter of the characters
    /// since.
    pub fn tokens(&self) -> u64 {
        let all = self.sums.last().copied().unwrap_or(0);
        match self.measured {
            Some((at, tokens)) => tokens.saturating_add(all.saturating_sub(self.sums[at])),
            None => all,
        }
    }

    /// So many messages at the beginning were there at the newest compaction.
    pub(crate) fn old(&self) -> usize {
        self.old
    }

    /// Whether a model told the size of what the context begins with.
    pub fn is_measured(&self) -> bool {
        self.measured.is_some()
    }

    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The messages as a provider accepts them. What earlier requests had is neither copied nor looked at again, unless somebody still
    /// holds the last one.
    pub fn sendable(&mut self) -> Arc<Vec<Message>> {
        if Arc::get_mut(&mut self.sent).is_none() {
            self.sent = Arc::new(self.sent[..self.done_sent].to_vec());
        }
        let Some(sent) = Arc::get_mut(&mut self.sent) else { return Arc::clone(&self.sent) };
        sent.truncate(self.done_sent);
        self.messages.look(|messages| {
            // An answer's calls may still get results, until another answer follows.
            let last = messages.iter().rposition(|it| matches!(it, Message::Assistant(_)));
            let open = last.unwrap_or(messages.len()).max(self.done);
            let old = self.old;
            sent.extend(llm::transcript::repair(&without_sizes(messages, self.done..open, old)));
            (self.done, self.done_sent) = (open, sent.len());
            sent.extend(llm::transcript::repair(&without_sizes(messages, open..messages.len(), old)));
        });
        Arc::clone(&self.sent)
    }

    pub fn file(&mut self) -> Option<&mut SessionFile> {
        self.file.as_mut()
    }

    /// What was added since this was asked last.
    pub fn take_made(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.made)
    }

    /// Writes down which tools the model came to know since this was done last.
    pub fn note_tools(&mut self, tools: &Toolset) -> Result<(), RunError> {
        let new = tools.take_new();
        if let Some(file) = &mut self.file
            && !new.is_empty()
        {
            file.append_tool_activation(&new)?;
        }
        Ok(())
    }

    /// An id for the next message; the entry in the file will have it.
    pub fn new_id(&mut self) -> String {
        match &mut self.file {
            Some(file) => file.new_id(),
            None => {
                self.next_id += 1;
                format!("{:08x}", self.next_id)
            }
        }
    }

    /// Adds a whole message, with its two events; returns its id.
    pub async fn add(&mut self, cx: &RunCx, message: Message) -> Result<String, RunError> {
        let message_id = self.new_id();
        let role = MessageRole::of(&message);
        let start =
            Event::MessageStart { message_id: message_id.clone(), role, message: Some(message.clone()) };
        cx.emit(start).await;
        self.end(cx, &message_id, message).await?;
        Ok(message_id)
    }

    /// Adds a message whose start was told, with its end event.
    pub async fn end(&mut self, cx: &RunCx, message_id: &str, message: Message) -> Result<(), RunError> {
        let written = self.append(message_id, &message);
        self.made.push(message.clone());
        let event = Event::MessageEnd { message_id: message_id.to_owned(), message };
        cx.events.emit_with(event, Some(self.messages.clone()), &cx.cancel).await;
        written
    }

    /// Adds a message without telling anybody.
    pub fn append(&mut self, message_id: &str, message: &Message) -> Result<(), RunError> {
        self.messages.push(message.clone());
        self.ids.push(message_id.to_owned());
        self.measure(message, true);
        match &mut self.file {
            Some(file) => Ok(file.append_message(message_id, message)?),
            None => Ok(()),
        }
    }

    /// Keeps a message that no model is sent; returns its id.
    pub fn append_custom(&mut self, kind: &str, data: &Value) -> Result<String, RunError> {
        let id = self.new_id();
        if let Some(file) = &mut self.file {
            file.append_custom(&id, kind, data)?;
        }
        Ok(id)
    }

    /// Writes down what waits to be, beside messages.
    pub fn note(&mut self, notes: &Notes) -> Result<(), RunError> {
        for (kind, fields) in notes.take() {
            if let Some(file) = &mut self.file {
                file.append_note(kind, fields)?;
            }
        }
        Ok(())
    }

    /// Leaves a message out of the context from now on; it stays in the file. A response that failed is left out of requests
    /// in any case, so it stays in memory.
    pub fn omit(&mut self, message_id: &str) -> Result<(), RunError> {
        match &mut self.file {
            Some(file) => Ok(file.append_omission(message_id)?),
            None => Ok(()),
        }
    }

    /// Puts `summary` in the place of all but the newest `kept` messages.
    pub fn compact(&mut self, summary: &Message, kept: usize, tokens_before: u64) -> Result<(), RunError> {
        let cut = self.messages.len() - kept.min(self.messages.len());
        let text = summary_text(summary);
        let id = match &mut self.file {
            Some(file) => {
                file.append_compaction(&text, self.ids.get(cut).map(String::as_str), tokens_before)?
            }
            None => self.new_id(),
        };
        let mut items = vec![ContextItem { entry_id: id, message: summary.clone(), before_compaction: true }];
        self.messages.look(|messages| {
            for (entry_id, message) in self.ids[cut..].iter().zip(&messages[cut..]) {
                let entry_id = entry_id.clone();
                items.push(ContextItem { entry_id, message: message.clone(), before_compaction: true });
            }
        });
        self.set(items);
        Ok(())
    }

    /// Writes down the tokens of a request that is no turn.
    pub fn note_usage(&mut self, kind: &str, usage: Usage) -> Result<(), RunError> {
        if let Some(file) = &mut self.file
            && usage.total_tokens > 0
        {
            file.append_usage(kind, &usage)?;
        }
        Ok(())
    }

    /// Another transcript in its place, as the session's file has it at another entry.
    pub fn replace(&mut self, items: Vec<ContextItem>) {
        self.set(items);
    }
}
