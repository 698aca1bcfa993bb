//! What the person is told outside of a conversation: `window/showMessage` and `window/logMessage`.

use std::sync::OnceLock;

use serde_json::json;
use tracing::Level;
use wire::Peer;

/// More lines of an answer are left to the transcript.
const MAX_LINES: usize = 6;
/// More characters as well.
const MAX_CHARS: usize = 600;

/// How much a message matters (LSP 3.17 §MessageType).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Error = 1,
    Warning = 2,
    Info = 3,
}

/// Shows a message. A client that is gone needs none.
pub async fn show(peer: &Peer, kind: Kind, text: &str) {
    let params = json!({ "type": kind as u8, "message": text });
    if let Err(closed) = peer.notify("window/showMessage", &params).await {
        tracing::debug!(%closed, "a message was not shown");
    }
}

/// The beginning of a long text, and whether something was cut.
pub fn beginning(text: &str) -> (String, bool) {
    let text = text.trim();
    let mut short: String = text.lines().take(MAX_LINES).collect::<Vec<_>>().join("\n");
    if let Some((at, _)) = short.char_indices().nth(MAX_CHARS) {
        short.truncate(at);
    }
    let cut = short.len() < text.len() && short.trim_end() != text;
    if cut {
        short.push_str(" …");
    }
    (short, cut)
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

    #[test]
    fn a_long_answer_is_cut_at_lines_and_characters() {
        assert_eq!(beginning(" done \n"), ("done".to_owned(), false));
        assert_eq!(beginning("1\n2\n3\n4\n5\n6"), ("1\n2\n3\n4\n5\n6".to_owned(), false));
        assert_eq!(beginning("1\n2\n3\n4\n5\n6\n7"), ("1\n2\n3\n4\n5\n6 …".to_owned(), true));
        let (short, cut) = beginning(&"é".repeat(700));
        assert_eq!((short, cut), (format!("{} …", "é".repeat(600)), true));
    }
}
