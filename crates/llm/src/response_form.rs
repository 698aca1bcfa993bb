//! Detection of an answer's form by its first bytes.
//!
//! The module is pure. The content type is unreliable: servers and gateways send event streams as JSON
//! or web pages, and errors as event streams.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    /// A stream of text events or binary frames.
    Events,
    Whole,
    /// A web page.
    Page,
}

/// `head` without byte order mark and leading white space; empty if more is needed.
pub(crate) fn significant(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start()
}

/// The form of an answer with this lowercase content type that begins with `head`.
pub(crate) fn detect(content_type: &str, head: &[u8]) -> ResponseForm {
    if content_type == "application/vnd.amazon.eventstream" {
        return ResponseForm::Events;
    }
    let begins = significant(head);
    match begins.first() {
        Some(b'{' | b'[') => ResponseForm::Whole,
        Some(b'<') => ResponseForm::Page,
        _ if content_type == "text/html" && !has_events(begins) => ResponseForm::Page,
        _ => ResponseForm::Events,
    }
}

/// Whether the bytes contain a line of an event stream.
pub(crate) fn has_events(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 5] = [b"data:", b"event:", b":", b"id:", b"retry:"];
    bytes.split(|byte| matches!(byte, b'\n' | b'\r')).any(|line| starts.iter().any(|it| line.starts_with(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_bytes_not_the_content_type() {
        for (content_type, head, expected) in [
            ("text/event-stream", "data: {}\n\n", ResponseForm::Events),
            ("application/json", "data: {}\n\n", ResponseForm::Events),
            ("text/html", ": ping\n\ndata: {}", ResponseForm::Events),
            ("text/event-stream", " \n{\"error\": 1}", ResponseForm::Whole),
            ("text/plain", "\u{feff}[{}]", ResponseForm::Whole),
            ("text/event-stream", "<!doctype html>", ResponseForm::Page),
            ("text/html", "no such page", ResponseForm::Page),
            ("", "", ResponseForm::Events),
            ("application/vnd.amazon.eventstream", "{\0\0\0", ResponseForm::Events),
        ] {
            assert_eq!(detect(content_type, head.as_bytes()), expected, "{content_type} {head:?}");
        }
        assert!(!has_events(b"databases are\nasleep") && has_events(b"\r\nevent: error\r\n"));
        assert!(significant("\u{feff} \r\n".as_bytes()).is_empty());
    }
}
