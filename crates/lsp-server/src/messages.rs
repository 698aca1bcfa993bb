//! What the person is told outside of a conversation: `window/showMessage` and `window/logMessage`.

use std::sync::OnceLock;

use adapters::MessageForm;
use host::shown;
use serde_json::json;
use tracing::Level;
use wire::Peer;

/// How much a message matters (LSP 3.17 §MessageType).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Error = 1,
    Warning = 2,
    Info = 3,
}

/// What a message of ours begins with.
const NAME: &str = "Pilcrow: ";

/// Shows a message, cut to what the editor can show. A client that is gone needs none.
pub async fn show(peer: &Peer, form: &MessageForm, kind: Kind, text: &str) {
    show_as_is(peer, kind, &Message::of(text, form).text).await;
}

/// Shows a message that has its form.
pub async fn show_as_is(peer: &Peer, kind: Kind, text: &str) {
    let params = json!({ "type": kind as u8, "message": text });
    if let Err(closed) = peer.notify("window/showMessage", &params).await {
        tracing::debug!(%closed, "a message was not shown");
    }
}

/// A text as an editor can show it.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// With whose message it is in front.
    pub text: String,
    /// Whether something was left out.
    pub cut: bool,
}

impl Message {
    /// `text` without secrets, or its beginning where it is too long.
    pub fn of(text: &str, form: &MessageForm) -> Self {
        // Before it is cut: a part of a secret would not be found.
        let text = &*shown::redacted(text);
        // Lines that follow each other in one line need neither indentation nor empty ones.
        let lines: Vec<&str> = if form.line_break.contains('\n') {
            text.trim().lines().collect()
        } else {
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
        };
        let whole = format!("{NAME}{}", lines.join(&form.line_break));
        if lines.len() <= form.lines && whole.chars().count() <= form.characters {
            return Self { text: whole, cut: false };
        }
        let shown = &lines[..lines.len().min(form.lines)];
        let room = form.characters.saturating_sub(form.more.chars().count());
        let text: String = format!("{NAME}{}", shown.join(&form.line_break)).chars().take(room).collect();
        let text = text.trim_end();
        let ends = text.strip_suffix(form.line_break.trim()).unwrap_or(text).trim_end();
        Self { text: format!("{ends}{}", form.more), cut: true }
    }
}

/// Hands lines of the log to the client, once there is one. Never waits: what does not fit is in the
/// log's file.
#[derive(Default)]
pub struct ClientLog(OnceLock<Peer>);

impl ClientLog {
    /// From now on lines go to `peer`.
    pub fn begin(&self, peer: &Peer) {
        // A second `initialized` changes nothing.
        self.0.set(peer.clone()).ok();
    }

    /// One line of the log, redacted.
    pub fn line(&self, level: Level, text: &str) {
        let Some(peer) = self.0.get() else { return };
        let kind = match level {
            Level::ERROR => Kind::Error,
            Level::WARN => Kind::Warning,
            _ => Kind::Info,
        };
        let params = json!({ "type": kind as u8, "message": text.trim_end() });
        // Told nobody when it fails: this is the log itself.
        peer.try_notify("window/logMessage", &params).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: &MessageForm, text: &str, expected: &str, cut: bool) {
        assert_eq!(Message::of(text, form), Message { text: expected.to_owned(), cut }, "{text:?}");
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
    fn in_one_line_nothing_runs_together_and_it_is_as_long_as_it_may_be() {
        let form = MessageForm { characters: 30, line_break: " · ".to_owned(), ..MessageForm::default() };
        check(&form, "made it\n\n  a.py: 2\n", "Pilcrow: made it · a.py: 2", false);
        check(&form, "made it\na.py: 2\nb.py: 3", "Pilcrow: made it · a.py: 2 …", true);
        let whole = MessageForm { line_break: "\n".to_owned(), ..MessageForm::whole() };
        let long = "line\n".repeat(100);
        check(&whole, &long, &format!("Pilcrow: {}", long.trim()), false);
    }
}
