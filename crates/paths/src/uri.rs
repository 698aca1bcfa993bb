//! Mapping of `file:` URIs to paths and back (RFC 8089), without I/O.
//!
//! Bytes that are not UTF-8 survive both ways.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The `file:` URI of an absolute path, percent-encoded as VS Code does it.
pub fn path_to_uri(path: &Path) -> String {
    encode(path.as_os_str().as_bytes(), Style::Unix)
}

/// The path that a `file:` URI names.
///
/// `None` for any other scheme, a host that is not local, or a malformed escape.
pub fn uri_to_path(uri: &str) -> Option<PathBuf> {
    decode(uri, Style::Unix).map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Unix,
    /// Used by tests only until Pilcrow supports Windows.
    Windows,
}

fn encode(path: &[u8], style: Style) -> String {
    let mut out = String::from("file://");
    let mut path = path.to_vec();
    if style == Style::Windows {
        path.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
        if path.len() >= 2 && path[1] == b':' && path[0].is_ascii_alphabetic() {
            path[0].make_ascii_lowercase();
            path.insert(0, b'/');
        } else if path.starts_with(b"//") {
            // The path is a share, whose server is the URI's host.
            path.drain(..2);
        }
    }
    for byte in path {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn decode(uri: &str, style: Style) -> Option<Vec<u8>> {
    let scheme = uri.get(..5)?;
    if !scheme.eq_ignore_ascii_case("file:") {
        return None;
    }
    let rest = uri[5..].split(['?', '#']).next()?;
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/')?),
        None => ("", rest),
    };
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = percent_decode(path)?;
    if bytes.contains(&0) {
        return None;
    }
    let local = host.is_empty() || host.eq_ignore_ascii_case("localhost");
    match style {
        Style::Unix => local.then_some(bytes),
        Style::Windows => {
            if bytes.len() >= 3 && bytes[1].is_ascii_alphabetic() && bytes[2] == b':' {
                bytes.remove(0);
                bytes[0].make_ascii_lowercase();
            }
            if !local {
                bytes.splice(0..0, [b"//".as_slice(), host.as_bytes()].concat());
            }
            bytes.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b'\\');
            Some(bytes)
        }
    }
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodes_as_vs_code_does() {
        assert_eq!(path_to_uri(Path::new("/a b/ü+(x)#1.rs")), "file:///a%20b/%C3%BC%2B%28x%29%231.rs");
        assert_eq!(encode(br"C:\a b\c.rs", Style::Windows), "file:///c%3A/a%20b/c.rs");
        assert_eq!(encode(br"\\server\share\c.rs", Style::Windows), "file://server/share/c.rs");
    }

    #[test]
    fn decodes_every_spelling_in_use() {
        let path = |uri| uri_to_path(uri).map(|path| path.to_string_lossy().into_owned());
        for uri in
            ["file:///a%20b", "file:/a%20b", "FILE://localhost/a%20b", "file:///a b", "file:///a%20b#L3"]
        {
            assert_eq!(path(uri).as_deref(), Some("/a b"), "{uri}");
        }
        for uri in [
            "http:///a",
            "untitled:1",
            "file://elsewhere/a",
            "file:a",
            "file:///a%0",
            "file:///a%00b",
            "",
            "ü",
        ] {
            assert_eq!(path(uri), None, "{uri}");
        }
        let windows = |uri| decode(uri, Style::Windows).map(|path| String::from_utf8(path).unwrap());
        assert_eq!(windows("file:///C%3A/a/b").as_deref(), Some(r"c:\a\b"));
        assert_eq!(windows("file:///c:/a/b").as_deref(), Some(r"c:\a\b"));
        assert_eq!(windows("file://server/share/b").as_deref(), Some(r"\\server\share\b"));
    }

    proptest! {
        #[test]
        fn every_path_round_trips(bytes in prop::collection::vec(1u8..=255, 0..20)) {
            let path = PathBuf::from(OsString::from_vec([b"/".as_slice(), &bytes].concat()));
            prop_assert_eq!(uri_to_path(&path_to_uri(&path)), Some(path));
        }
    }
}
