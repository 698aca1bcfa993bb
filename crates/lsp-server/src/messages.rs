//! Messages to the user: `window/showMessage` and `window/logMessage`.

use std::sync::OnceLock;

use adapters::MessageForm;
use host::redaction;
use serde_json::json;
use tracing::Level;
use wire::Peer;

/// Severity of a message (LSP 3.17 §MessageType).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Error = 1,
    Warning = 2,
    Info = 3,
}

/// Prefix of every message.
const PREFIX: &str = "Pilcrow: ";

/// Shows a message, truncated to the length that the editor can show.
pub async fn show(peer: &Peer, form: &MessageForm, kind: Kind, text: &str) {
    show_rendered(peer, kind, &Message::new(text, form).text).await;
}

/// Sends a message that is already redacted and truncated.
pub(crate) async fn show_rendered(peer: &Peer, kind: Kind, text: &str) {
    let params = json!({ "type": kind as u8, "message": text });
    if let Err(closed) = peer.notify("window/showMessage", &params).await {
        tracing::debug!(%closed, "a message was not shown");
    }
}

/// A text rendered for an editor.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    pub text: String,
    /// Whether the rendering truncated the text.
    pub cut: bool,
}

impl Message {
    /// Redacts secrets in `text` and truncates it.
    pub fn new(text: &str, form: &MessageForm) -> Self {
        // Redaction precedes truncation, because it does not recognize a part of a secret.
        let text = &*redaction::redact(text);
        // Joined lines need neither indentation nor empty lines.
        let lines: Vec<&str> = if form.line_break.contains('\n') {
            text.trim().lines().collect()
        } else {
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
        };
        let whole = format!("{PREFIX}{}", lines.join(&form.line_break));
        if lines.len() <= form.lines && whole.chars().count() <= form.characters {
            return Self { text: whole, cut: false };
        }
        let shown = &lines[..lines.len().min(form.lines)];
        let room = form.characters.saturating_sub(form.more.chars().count());
        let text: String = format!("{PREFIX}{}", shown.join(&form.line_break)).chars().take(room).collect();
        let text = text.trim_end();
        let ends = text.strip_suffix(form.line_break.trim()).unwrap_or(text).trim_end();
        Self { text: format!("{ends}{}", form.more), cut: true }
    }
}

/// Sends log lines to the client.
///
/// It never waits: lines that do not fit are only in the log file.
#[derive(Default)]
pub struct ClientLog(OnceLock<Peer>);

impl ClientLog {
    /// Connects the log to the client, once it is initialized.
    pub fn begin(&self, peer: &Peer) {
        // A second `initialized` changes nothing.
        self.0.set(peer.clone()).ok();
    }

    /// Sends a line after redaction.
    pub fn line(&self, level: Level, text: &str) {
        let Some(peer) = self.0.get() else { return };
        let kind = match level {
            Level::ERROR => Kind::Error,
            Level::WARN => Kind::Warning,
            _ => Kind::Info,
        };
        let params = json!({ "type": kind as u8, "message": text.trim_end() });
        // A failure cannot be logged here.
        peer.try_notify("window/logMessage", &params).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: &MessageForm, text: &str, expected: &str, cut: bool) {
        assert_eq!(Message::new(text, form), Message { text: expected.to_owned(), cut }, "{text:?}");
    }

    #[test]
    fn a_long_answer_is_cut_at_lines_and_characters() {
        let form = MessageForm::default();
        check(&form, " done \n", "Pilcrow: done", false);
        check(&form, "1\n\n  3\n4\n5\n6", "Pilcrow: 1\n\n  3\n4\n5\n6", false);
        check(&form, "1\n2\n3\n4\n5\n6\n7", "Pilcrow: 1\n2\n3\n4\n5\n6 …", true);
        check(&form, &"é".repeat(700), &format!("Pilcrow: {} …", "é".repeat(589)), true);
    }

    #[test]
    fn lines_are_joined_by_the_editor_line_break() {
        let form = MessageForm { characters: 30, line_break: " · ".to_owned(), ..MessageForm::default() };
        check(&form, "made it\n\n  a.py: 2\n", "Pilcrow: made it · a.py: 2", false);
        check(&form, "made it\na.py: 2\nb.py: 3", "Pilcrow: made it · a.py: 2 …", true);
        let whole = MessageForm { line_break: "\n".to_owned(), ..MessageForm::whole() };
        let long = "line\n".repeat(100);
        check(&whole, &long, &format!("Pilcrow: {}", long.trim()), false);
    }
}
