//! What an answer is, by its first bytes rather than by its content type: servers and gateways send event streams as JSON or as
//! web pages, and whole answers and errors as event streams. Pure.

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Events, of text or of frames.
    Events,
    /// One JSON text.
    Whole,
    /// A page for people.
    Page,
}

/// The part of `head` that tells the form: without a byte order mark and white space at the start. Empty as long as more is
/// to be read.
pub(crate) fn telling(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start()
}

/// The form of the answer with this content type, in lower case without parameters, that begins with `head`.
pub(crate) fn form(content_type: &str, head: &[u8]) -> Form {
    if content_type == "application/vnd.amazon.eventstream" {
        return Form::Events;
    }
    let begins = telling(head);
    match begins.first() {
        Some(b'{' | b'[') => Form::Whole,
        Some(b'<') => Form::Page,
        _ if content_type == "text/html" && !has_events(begins) => Form::Page,
        _ => Form::Events,
    }
}

/// Whether a line of an event stream stands in it.
pub(crate) fn has_events(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 5] = [b"data", b"event", b":", b"id:", b"retry:"];
    bytes.split(|byte| matches!(byte, b'\n' | b'\r')).any(|line| starts.iter().any(|it| line.starts_with(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_tell_more_than_content_types() {
        for (content_type, head, expected) in [
            ("text/event-stream", "data: {}\n\n", Form::Events),
            ("application/json", "data: {}\n\n", Form::Events),
            ("text/html", ": ping\n\ndata: {}", Form::Events),
            ("text/event-stream", " \n{\"error\": 1}", Form::Whole),
            ("text/plain", "\u{feff}[{}]", Form::Whole),
            ("text/event-stream", "<!doctype html>", Form::Page),
            ("text/html", "no such page", Form::Page),
            ("", "", Form::Events),
            ("application/vnd.amazon.eventstream", "{\0\0\0", Form::Events),
        ] {
            assert_eq!(form(content_type, head.as_bytes()), expected, "{content_type} {head:?}");
        }
        assert!(!has_events(b"the database is asleep") && has_events(b"\r\nevent: error\r\n"));
        assert!(telling("\u{feff} \r\n".as_bytes()).is_empty());
    }
}
