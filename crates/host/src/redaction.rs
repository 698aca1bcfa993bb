//! Redaction of output outside of events and sessions.
//!
//! It covers standard error, editor messages and URLs.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use policy::Redactor;

/// Redacts secrets that this process knows or that have a known form.
pub fn redact(text: &str) -> Cow<'_, str> {
    static REDACTOR: OnceLock<Redactor> = OnceLock::new();
    REDACTOR.get_or_init(Redactor::from_env).redact(text)
}

/// Redacts the password of a URL, and keys in its parameters.
pub fn redact_url(url: &str) -> String {
    let mut out = url.to_owned();
    for (range, name) in secrets(url).into_iter().rev() {
        out.replace_range(range, &format!("[redacted:{name}]"));
    }
    out
}

/// Extracts the password of a URL, and the keys in its parameters.
pub(crate) fn secrets_of_url(url: &str) -> impl Iterator<Item = String> {
    secrets(url).into_iter().map(|(range, _)| url[range].to_owned())
}

/// Finds the ranges and kinds of the secrets in a URL, in order.
fn secrets(url: &str) -> Vec<(Range<usize>, &'static str)> {
    let Some(begin) = url.find("://").map(|at| at + 3) else { return Vec::new() };
    let authority = url[begin..].split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let password = user.and_then(|user| user.find(':').map(|at| begin + at + 1..begin + user.len()));
    let mut found: Vec<_> = password.into_iter().map(|range| (range, "url-password")).collect();
    // Text before `://` has no secret.
    let end = url[begin..].find('#').map_or(url.len(), |at| begin + at);
    let mut at = url[begin..end].find('?').map_or(end, |at| begin + at + 1);
    for pair in url[at..end].split('&') {
        if let Some((name, value)) = pair.split_once('=').filter(|(name, _)| is_secret_name(name)) {
            let begin = at + name.len() + 1;
            found.push((begin..begin + value.len(), "api-key"));
        }
        at += pair.len() + 1;
    }
    // Placeholders and variables are not secrets.
    found.retain(|(range, _)| !range.is_empty() && !url[range.clone()].contains(['{', '$']));
    found
}

/// Whether a parameter or a header of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.replace('-', "_").to_ascii_lowercase();
    policy::is_secret_name(&name) || ["key", "sig", "signature", "cookie"].contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_secrets() {
        for (url, shown) in [
            (
                "http://me:pw@host:80/v1?key=abc&api-version=1#a",
                "http://me:[redacted:url-password]@host:80/v1?key=[redacted:api-key]&api-version=1#a",
            ),
            ("https://me@host/v1?api_key=k", "https://me@host/v1?api_key=[redacted:api-key]"),
            ("https://host/{place}/a:b@c?q=key=1", "https://host/{place}/a:b@c?q=key=1"),
            ("https://host?token=${TOKEN}", "https://host?token=${TOKEN}"),
            ("no address", "no address"),
            ("x?key=https://me:pw@h", "x?key=https://me:[redacted:url-password]@h"),
            ("#://me:pw@h?key=k#?key=k", "#://me:[redacted:url-password]@h?key=[redacted:api-key]#?key=k"),
        ] {
            assert_eq!(redact_url(url), shown);
        }
    }

    #[test]
    fn secrets_of_any_text_are_in_order() {
        const PARTS: [&str; 8] = ["://", "?", "#", "key=", "&", "a:bé@", "/", "h"];
        for number in 0..PARTS.len().pow(5) {
            let url: String = (0..5).map(|at| PARTS[number / PARTS.len().pow(at) % PARTS.len()]).collect();
            let found = secrets(&url);
            assert!(found.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start), "{url}: {found:?}");
            assert!(found.iter().all(|(range, _)| url.get(range.clone()).is_some()), "{url}: {found:?}");
        }
    }

    #[test]
    fn headers_with_keys_are_detected() {
        for (name, expected) in [
            ("X-Api-Key", true),
            ("authorization", true),
            ("Cookie", true),
            ("x-team", false),
            ("accept", false),
        ] {
            assert_eq!(is_secret_name(name), expected, "{name}");
        }
    }
}
