//! Redaction of secrets in logs, sessions, events and children's environments.
//!
//! A secret is known by its name (environment variables) or by its shape (keys with a known prefix,
//! private keys, URLs with a password). The redaction is best effort: it misses a password that
//! looks like a word and is in no variable. Short and common values stay, since replacing them
//! would spoil text and hide nothing.

mod learned;
mod pieces;

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub use learned::{learn_passing_secret, learn_secret};
pub use pieces::Pieces;

use learned::{Learned, learned};

/// Names of variables with secrets that no suffix identifies.
const NAMES: &[&str] = &[
    "API_KEY",
    "APIKEY",
    "AUTHORIZATION",
    "AUTH_TOKEN",
    "COOKIE",
    "CREDENTIALS",
    "DATABASE_URL",
    "DOCKER_AUTH_CONFIG",
    "GITHUB_PAT",
    "MYSQL_PWD",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PGPASSWORD",
    "PRIVATE_KEY",
    "REDISCLI_AUTH",
    "SECRET",
    "SSHPASS",
    "TOKEN",
];

/// Suffixes of the names of secrets.
const SUFFIXES: &[&str] = &[
    "_ACCESS_KEY_ID",
    "_APIKEY",
    "_AUTH",
    "_BEARER",
    "_CONNECTION_STRING",
    "_COOKIE",
    "_CREDENTIAL",
    "_CREDENTIALS",
    "_DATABASE_URL",
    "_DSN",
    "_KEY",
    "_KEY_BASE64",
    "_PASS",
    "_PASSPHRASE",
    "_PASSWD",
    "_PASSWORD",
    "_PAT",
    "_PWD",
    "_SECRET",
    "_SECRETS",
    "_TOKEN",
    "_TOKENS",
    "_WEBHOOK",
    "_WEBHOOK_URL",
];

/// Prefixes of the names of secrets.
const PREFIXES: &[&str] = &["AWS_SECRET", "AWS_SESSION", "NPM_CONFIG__AUTH", "SECRET_"];

/// Harmless names that look secret: directories that shells and npm set.
const HARMLESS: &[&str] = &["OLD_PWD", "INIT_CWD"];

/// Common example values, which are not secrets.
const COMMON: &[&str] = &[
    "changeme",
    "development",
    "disabled",
    "enabled",
    "example",
    "localhost",
    "password",
    "placeholder",
    "postgres",
    "production",
    "undefined",
    "username",
    "your-api-key",
];

/// Characters written as `%XX` in a URI (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Length of the shortest value that is redacted.
const SHORTEST: usize = 8;
/// Length of the shortest line of a multi-line value to redact by itself.
const SHORTEST_LINE: usize = 16;

/// Maximum length of a private key, a key of [`KEYS`] and a URL's authority.
const LONGEST_KEY: usize = 8 << 10;
const LONGEST_PRIVATE_KEY: usize = 16 << 10;
const LONGEST_AUTHORITY: usize = 4 << 10;

/// Keys with a known prefix: name, prefix, minimum number of characters.
///
/// The characters that follow are `[A-Za-z0-9_-.]`.
const KEYS: &[(&str, &str, usize)] = &[
    ("api-key", "sk-", 20),
    ("api-key", "sk_live_", 16),
    ("api-key", "rk_live_", 16),
    ("aws-key", "AKIA", 16),
    ("aws-key", "ASIA", 16),
    ("databricks-token", "dapi", 32),
    ("digitalocean-token", "dop_v1_", 60),
    ("discord-webhook", "discord.com/api/webhooks/", 60),
    ("docker-token", "dckr_pat_", 20),
    ("github-token", "ghp_", 30),
    ("github-token", "gho_", 30),
    ("github-token", "ghu_", 30),
    ("github-token", "ghs_", 30),
    ("github-token", "ghr_", 30),
    ("github-token", "github_pat_", 30),
    ("gitlab-token", "glpat-", 20),
    ("google-key", "AIza", 35),
    ("google-secret", "GOCSPX-", 24),
    ("google-token", "ya29.", 30),
    ("groq-key", "gsk_", 40),
    ("hugging-face-token", "hf_", 30),
    ("jwt", "eyJ", 40),
    ("linear-key", "lin_api_", 32),
    ("notion-token", "ntn_", 40),
    ("npm-token", "npm_", 36),
    ("perplexity-key", "pplx-", 40),
    ("pypi-token", "pypi-", 50),
    ("replicate-token", "r8_", 36),
    ("sendgrid-key", "SG.", 40),
    ("sentry-token", "sntrys_", 60),
    ("shopify-token", "shpat_", 32),
    ("slack-token", "xapp-", 20),
    ("slack-webhook", "hooks.slack.com/services/", 30),
    ("stripe-secret", "whsec_", 24),
    ("supabase-token", "sbp_", 40),
    ("vault-token", "hvs.", 24),
    ("xai-key", "xai-", 60),
    ("slack-token", "xoxa-", 20),
    ("slack-token", "xoxb-", 20),
    ("slack-token", "xoxp-", 20),
    ("slack-token", "xoxr-", 20),
    ("slack-token", "xoxs-", 20),
];

/// Whether a variable of this name looks like a secret, in any case.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // `SOME_KEY_2` and `SOME_KEY_V2` are secrets like `SOME_KEY`.
    let plain = name.trim_end_matches(|it: char| it.is_ascii_digit());
    let plain = plain.strip_suffix("_V").unwrap_or(plain).trim_end_matches('_');
    ![name.as_str(), plain].iter().any(|it| HARMLESS.contains(it))
        && (NAMES.contains(&name.as_str())
            || SUFFIXES.iter().any(|suffix| name.ends_with(suffix) || plain.ends_with(suffix))
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// Whether a variable is a secret by its name or by the form of its value.
///
/// A proxy's address is not one, with or without a password, since programs need it to reach anything.
pub fn is_secret(name: &str, value: &str) -> bool {
    let is_proxy = name.to_ascii_uppercase().ends_with("_PROXY");
    is_secret_name(name) || !is_proxy && matches!(Redactor::default().redact(value), Cow::Owned(_))
}

/// Replaces secret values in text.
///
/// A redactor made from the environment also knows the secrets of [`learn_secret`].
#[derive(Clone)]
pub struct Redactor {
    /// Names and values, longest value first, so that no part of a value remains.
    values: Vec<(String, String)>,
    /// The bytes with which a secret can begin.
    begins: [bool; 256],
    /// Whether it redacts learned secrets.
    learns: bool,
    /// Whether it redacts by shape.
    shapes: bool,
    /// Text whose secrets the reader knows, so that they stay.
    open: Option<Arc<str>>,
}

impl std::fmt::Debug for Redactor {
    /// Formats names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.values.iter().map(|(name, _)| name)).finish()
    }
}

impl Default for Redactor {
    /// A redactor of shapes only.
    fn default() -> Self {
        Self::new([])
    }
}

impl Redactor {
    /// A redactor of the values of variables whose names look like secrets.
    pub fn from_env() -> Self {
        let variables = std::env::vars_os();
        let known = Self::new(variables.filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            is_secret_name(&name).then_some((name, value))
        }));
        Self { learns: true, ..known }
    }

    /// The redactor without shapes, for messages to peers with their own secrets.
    #[must_use]
    pub fn without_shapes(self) -> Self {
        Self { shapes: false, ..self }
    }

    /// Redacts the secrets of [`learn_secret`] that `text` does not contain.
    ///
    /// The author of `text` knows those in it.
    pub fn of_learned(text: &str) -> Self {
        Self { begins: [false; 256], learns: true, shapes: false, open: Some(text.into()), ..Self::default() }
    }

    /// Creates a redactor of shapes and of `secrets`, pairs of name and value.
    ///
    /// Omits values that are short, common, plain numbers or the path of an existing file. Also
    /// knows a value as JSON text spells it, and each key-like line of a multi-line value.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut values: Vec<(String, String)> = secrets
            .into_iter()
            .flat_map(|(name, value)| spellings(value.trim()).into_iter().map(move |it| (name.clone(), it)))
            .filter(|(_, value)| !is_plain(value))
            .collect();
        values.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.cmp(b)));
        let mut begins = [false; 256];
        let firsts = values.iter().map(|(_, value)| value.as_bytes()[0]);
        let shapes = KEYS.iter().map(|(_, prefix, _)| prefix.as_bytes()[0]);
        for byte in firsts.chain(shapes).chain([b'-', b':']) {
            begins[usize::from(byte)] = true;
        }
        Self { values, begins, learns: false, shapes: true, open: None }
    }

    /// Replaces every known or recognizable secret in `text` by `[redacted:NAME]`.
    ///
    /// Takes one pass, and copies nothing if there is no secret.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.scan(Piece { text, before: None, more: false }).0
    }

    /// Redacts up to the first place that needs more text; returns that position.
    ///
    /// Returns the end if no more text follows.
    fn scan<'a>(&self, piece: Piece<'a>) -> (Cow<'a, str>, usize) {
        let learned = if self.learns { learned() } else { None };
        let learned = learned.as_deref();
        let text = piece.text;
        let bytes = text.as_bytes();
        let mut out = String::new();
        let mut copied = 0;
        let mut at = 0;
        while at < bytes.len() {
            let byte = usize::from(bytes[at]);
            if !self.begins[byte] && !learned.is_some_and(|it| it.begins[byte]) {
                at += 1;
                continue;
            }
            match self.secret_at(piece, at, learned) {
                Found::No => at += 1,
                Found::Open => break,
                Found::Secret { name, start, end } => {
                    out.push_str(&text[copied..start]);
                    out.push_str("[redacted:");
                    out.push_str(name);
                    out.push(']');
                    (copied, at) = (end, end);
                }
            }
        }
        if copied == 0 {
            return (Cow::Borrowed(&text[..at]), at);
        }
        out.push_str(&text[copied..at]);
        (Cow::Owned(out), at)
    }

    /// The secret that begins at `at`, or whose marker (`://`) does.
    fn secret_at(&self, piece: Piece<'_>, at: usize, learned: Option<&Learned>) -> Found<'_> {
        let rest = &piece.text.as_bytes()[at..];
        let own = self.values.iter().map(|(name, value)| (name.as_str(), value));
        let learned = learned.into_iter().flat_map(|it| &it.values).map(|value| (learned::NAME, value));
        for (name, value) in own.chain(learned) {
            if rest.starts_with(value.as_bytes()) {
                if self.open.as_ref().is_some_and(|open| open.contains(value.as_str())) {
                    continue;
                }
                return Found::Secret { name, start: at, end: at + value.len() };
            }
            if piece.more && value.as_bytes().starts_with(rest) {
                return Found::Open;
            }
        }
        match rest[0] {
            _ if !self.shapes => Found::No,
            b':' => url_password(piece, at),
            b'-' => private_key(piece, at),
            _ => key(piece, at),
        }
    }
}

/// A text to scan, the byte before it, and whether more of it may follow.
#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    before: Option<u8>,
    more: bool,
}

enum Found<'a> {
    No,
    Open,
    /// A secret, with its name and range.
    Secret {
        name: &'a str,
        start: usize,
        end: usize,
    },
}

/// A JSON text with non-ASCII characters as `\uXXXX`.
fn ascii(text: &str, upper: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let hex = if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
            out.push_str(&hex);
        }
    }
    out
}

/// Whether a value hides nothing: short, common, a number, or an existing path.
fn is_plain(value: &str) -> bool {
    value.len() < SHORTEST
        || is_common(value)
        || value.bytes().all(|byte| byte.is_ascii_digit())
        || value.starts_with('/') && std::path::Path::new(value).exists()
}

/// Spellings of a value: unchanged, in a JSON text, and in an address.
///
/// A multi-line value also has the spellings of each line that looks like a key.
fn spellings(value: &str) -> Vec<String> {
    let mut all = vec![value.to_owned()];
    let quoted = serde_json::Value::from(value).to_string();
    let escaped = &quoted[1..quoted.len() - 1];
    let slashes = escaped.replace('/', "\\/");
    for spelling in [escaped, &slashes, &ascii(escaped, false), &ascii(escaped, true)] {
        if !all.iter().any(|known| known == spelling) {
            all.push(spelling.to_owned());
        }
    }
    // A key in a URI has no blanks.
    if !value.contains(char::is_whitespace) {
        let encoded: Vec<&str> = utf8_percent_encode(value, RESERVED).collect();
        let lower = |piece: &&str| {
            if piece.starts_with('%') { piece.to_ascii_lowercase() } else { (*piece).to_owned() }
        };
        for spelling in [encoded.concat(), encoded.iter().map(lower).collect()] {
            if !all.contains(&spelling) {
                all.push(spelling);
            }
        }
    }
    if value.contains('\n') {
        let is_key = |line: &&str| {
            line.len() >= SHORTEST_LINE
                && !line.contains(char::is_whitespace)
                && line.bytes().any(|byte| byte.is_ascii_digit())
                && line.bytes().any(|byte| byte.is_ascii_alphabetic())
        };
        all.extend(value.lines().map(str::trim).filter(is_key).map(str::to_owned));
    }
    all
}

fn is_common(value: &str) -> bool {
    COMMON.iter().any(|common| common.eq_ignore_ascii_case(value))
}

/// A key of [`KEYS`] at `at`, not inside a longer word.
fn key(piece: Piece<'_>, at: usize) -> Found<'static> {
    let bytes = piece.text.as_bytes();
    let before = if at > 0 { Some(bytes[at - 1]) } else { piece.before };
    if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        return Found::No;
    }
    let rest = &bytes[at..];
    if piece.more
        && KEYS.iter().any(|(_, prefix, _)| prefix.len() > rest.len() && prefix.as_bytes().starts_with(rest))
    {
        return Found::Open;
    }
    let Some((name, prefix, least)) = KEYS.iter().find(|(_, prefix, _)| rest.starts_with(prefix.as_bytes()))
    else {
        return Found::No;
    };
    let is_webhook = name.ends_with("webhook");
    let is_part = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || is_webhook && *byte == b'/'
    };
    let body = &rest[prefix.len()..];
    let length = body.iter().take(LONGEST_KEY).take_while(|byte| is_part(byte)).count();
    if piece.more && length == body.len() && length < LONGEST_KEY {
        return Found::Open;
    }
    let body = piece.text[at + prefix.len()..][..length].trim_end_matches('.');
    // Words joined by hyphens are not a key, and a JSON web token has three parts.
    let has_digit = body.bytes().any(|byte| byte.is_ascii_digit());
    let fits = match *name {
        "jwt" => body.matches('.').count() == 2,
        "aws-key" => {
            body.len() == *least && body.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        }
        _ => has_digit,
    };
    if fits && body.len() >= *least {
        Found::Secret { name, start: at, end: at + prefix.len() + body.len() }
    } else {
        Found::No
    }
}

/// A private key in PEM at `at`; a truncated one ends at the end of the text.
fn private_key(piece: Piece<'_>, at: usize) -> Found<'static> {
    const BEGIN: &str = "-----BEGIN ";
    const LONGEST_LABEL: usize = 40;
    let rest = &piece.text[at..];
    let Some(label) = rest.strip_prefix(BEGIN) else {
        return if piece.more && BEGIN.starts_with(rest) { Found::Open } else { Found::No };
    };
    let label = match label.find("-----") {
        Some(end) => &label[..end],
        None if piece.more && label.len() < LONGEST_LABEL + "-----".len() => return Found::Open,
        None => return Found::No,
    };
    if label.len() > LONGEST_LABEL || !label.ends_with("PRIVATE KEY") {
        return Found::No;
    }
    let near = &rest.as_bytes()[..rest.len().min(LONGEST_PRIVATE_KEY)];
    let end = format!("-----END {label}-----");
    let end = match near.windows(end.len()).position(|window| window == end.as_bytes()) {
        Some(found) => at + found + end.len(),
        None if piece.more && rest.len() < LONGEST_PRIVATE_KEY => return Found::Open,
        None => {
            let body = "-----BEGIN -----".len() + label.len();
            let is_part = |byte: &u8| {
                byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+/=\\-:,".contains(byte)
            };
            at + body + near[body..].iter().take_while(|byte| is_part(byte)).count()
        }
    };
    Found::Secret { name: "private-key", start: at, end }
}

/// The password of a URL whose `://` is at `at`.
fn url_password(piece: Piece<'_>, at: usize) -> Found<'static> {
    let start = at + 3;
    let rest = &piece.text[at..];
    let Some(authority) = rest.strip_prefix("://") else {
        return if piece.more && "://".starts_with(rest) { Found::Open } else { Found::No };
    };
    let stop = |c: char| c.is_whitespace() || "/?#\"'<>`\\|()".contains(c);
    let authority = match authority.find(stop) {
        Some(end) => &authority[..end],
        None if piece.more && authority.len() <= LONGEST_AUTHORITY => return Found::Open,
        None => authority,
    };
    if authority.len() > LONGEST_AUTHORITY {
        return Found::No;
    }
    let Some((user, password)) =
        authority.rsplit_once('@').and_then(|(user_info, _host)| user_info.split_once(':'))
    else {
        return Found::No;
    };
    let is_template = password.starts_with(['$', '{', '%', '*', '[']);
    if password.len() < 4 || is_template || is_common(password) {
        return Found::No;
    }
    let start = start + user.len() + 1;
    Found::Secret { name: "url-password", start, end: start + password.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learned_secrets_are_redacted_from_then_on() {
        let (before, other) = (Redactor::from_env(), Redactor::default());
        let key = "plain-words-of-a-keyring";
        assert_eq!(before.redact(key), key);
        learn_secret(&format!(" {key}\n"));
        learn_secret("short");
        learn_secret("/etc/passwd");
        assert_eq!(before.redact("/etc/passwd"), "/etc/passwd", "the path of a file");
        for redactor in [before, Redactor::from_env()] {
            assert_eq!(redactor.redact(&format!("it is {key}, short")), "it is [redacted:api-key], short");
            let mut pieces = Pieces::default();
            let mut out = pieces.push(&redactor, "it is plain-words-of").into_owned();
            assert_eq!(out, "it is ");
            out.push_str(&pieces.push(&redactor, "-a-keyring"));
            out.push_str(&pieces.finish(&redactor));
            assert_eq!(out, "it is [redacted:api-key]");
        }
        assert_eq!(other.redact(key), key, "it knows shapes only");
    }

    #[test]
    fn the_author_of_a_secret_may_read_it() {
        let (said, unsaid) = ("plain-words-that-were-said", "plain-words-that-were-not-said");
        learn_secret(said);
        learn_secret(unsaid);
        let redactor = Redactor::of_learned(&format!(r#"{{"text":"{said}"}}"#));
        let shape = "https://me:hunter2-hunter2@host";
        assert_eq!(
            redactor.redact(&format!("{said} {unsaid} {shape}")),
            format!("{said} [redacted:api-key] {shape}")
        );
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let secrets = [
            ("MY_TOKEN", "hunter2-hunter2"),
            ("LONGER_TOKEN", "hunter2-hunter2-more"),
            ("SHORT_TOKEN", "abc"),
            ("COMMON_PASSWORD", "changeme"),
            ("PIN_SECRET", "1234567890"),
            ("FILE_CREDENTIALS", "/etc/passwd"),
            ("ACCENT_SECRET", "pässwörd-ü"),
        ];
        let redactor = Redactor::new(secrets.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(redactor.redact(text), expected);
        assert_eq!(text == expected, matches!(redactor.redact(text), Cow::Borrowed(_)));
    }

    #[test]
    fn values_of_secret_variables_are_redacted() {
        check("a hunter2-hunter2 b", "a [redacted:MY_TOKEN] b");
        check("hunter2-hunter2-more", "[redacted:LONGER_TOKEN]");
        check(
            "p%C3%A4ssw%C3%B6rd-%C3%BC&p%c3%a4ssw%c3%b6rd-%c3%bc",
            "[redacted:ACCENT_SECRET]&[redacted:ACCENT_SECRET]",
        );
        check("«pässwörd-ü»hunter2-hunter2", "«[redacted:ACCENT_SECRET]»[redacted:MY_TOKEN]");
        check("abc changeme 1234567890 /etc/passwd", "abc changeme 1234567890 /etc/passwd");
    }

    #[test]
    fn a_multi_line_value_is_redacted_line_by_line_and_in_json() {
        let value = "first line\nMIIEvQIBADANBgkq0\nsecond \"line\"\nqhkiG9w0BAQEFAASC\n";
        let redactor = Redactor::new([("A_SECRET".to_owned(), value.to_owned())]);
        assert_eq!(redactor.redact(value), "[redacted:A_SECRET]\n");
        assert_eq!(redactor.redact("12:MIIEvQIBADANBgkq0|"), "12:[redacted:A_SECRET]|");
        assert_eq!(redactor.redact("first line"), "first line");
        let json = serde_json::json!({ "a": value.trim() }).to_string();
        assert_eq!(redactor.redact(&json), "{\"a\":\"[redacted:A_SECRET]\"}");
        let redactor = Redactor::new([("A_SECRET".to_owned(), "pässwört/\u{1f511}9".to_owned())]);
        for json in [
            r"p\u00e4ssw\u00f6rt/\ud83d\udd119",
            r"p\u00E4ssw\u00F6rt/\uD83D\uDD119",
            "pässwört\\/\u{1f511}9",
        ] {
            assert_eq!(redactor.redact(json), "[redacted:A_SECRET]", "{json}");
        }
    }

    #[test]
    fn keys_are_recognized_by_shape() {
        let body = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
        check(&format!("key=ghp_{body}."), "key=[redacted:github-token].");
        check(&format!("\"sk-ant-{body}\""), "\"[redacted:api-key]\"");
        check("AKIAIOSFODNN7EXAMPLE", "[redacted:aws-key]");
        check(
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
            "[redacted:jwt]",
        );
        for harmless in [
            "task-ghp_1",
            "sk-learn-is-a-python-library-name",
            "AKIA",
            "ghp_short1",
            "npm_config_cache",
            "disk-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
            "AKIAIOSFODNN7EXAMPLEbutlonger",
            "hf_hub_download",
        ] {
            check(harmless, harmless);
        }
    }

    #[test]
    fn private_keys_are_redacted_whole_or_truncated() {
        let key = "x -----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\nabc\n-----END RSA PRIVATE KEY----- y";
        check(key, "x [redacted:private-key] y");
        check("-----BEGIN PRIVATE KEY-----\\nMIIEabc\\n\"}", "[redacted:private-key]\"}");
        let public = "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----";
        check(public, public);
    }

    #[test]
    fn passwords_in_urls_are_redacted() {
        check("git clone https://me:s3cr3t@host/x", "git clone https://me:[redacted:url-password]@host/x");
        check("redis://:p@ss@h:6379", "redis://:[redacted:url-password]@h:6379");
        for harmless in [
            "http://host:8080/a@b",
            "https://me@host/",
            "https://$U:$PASS@host",
            "std::fs",
            "a://b:postgres@c",
        ] {
            check(harmless, harmless);
        }
    }

    #[test]
    fn a_redactor_can_ignore_shapes() {
        let redactor = Redactor::new([("A_TOKEN".to_owned(), "hunter2-hunter2".to_owned())]).without_shapes();
        let text =
            "https://me:s3cr3t@host/x ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8 -----BEGIN PRIVATE KEY-----";
        assert_eq!(redactor.redact(text), text);
        assert_eq!(redactor.redact("hunter2-hunter2"), "[redacted:A_TOKEN]");
    }

    #[test]
    fn names_of_secret_variables_are_recognized() {
        for secret in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "aws_secret_access_key",
            "AWS_ACCESS_KEY_ID",
            "PGPASSWORD",
            "DB_PASSWORD",
            "TOKEN",
            "MY_PAT",
            "SECRET_STUFF",
            "npm_config__auth",
            "GROQ_KEY_1",
            "MISTRAL_API_KEY2",
            "APP_SECRET_V2",
            "COOKIE",
            "SESSION_COOKIE",
            "SLACK_WEBHOOK_URL",
            "SENTRY_DSN",
        ] {
            assert!(is_secret_name(secret), "{secret}");
        }
        for harmless in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "SSH_AUTH_SOCK",
            "TERM",
            "KEYBOARD",
            "XDG_CONFIG_HOME",
            "TOKENIZERS_PARALLELISM",
            "PILCROW_HOME",
            "INIT_CWD",
            "GIT_AUTHOR_NAME",
        ] {
            assert!(!is_secret_name(harmless), "{harmless}");
        }
    }

    #[test]
    fn webhooks_and_prefixes_of_providers_are_redacted() {
        let key = "a1".repeat(40);
        for prefix in
            KEYS.iter().filter(|(name, ..)| !matches!(*name, "jwt" | "aws-key")).map(|(_, it, _)| it)
        {
            let text = format!("x = \"https://{prefix}{key}\"");
            assert!(matches!(Redactor::default().redact(&text), Cow::Owned(_)), "{text}");
        }
        check(
            "https://hooks.slack.com/services/T0/B0/a1b2c3d4e5f6a1b2c3d4e5f6 .",
            "https://[redacted:slack-webhook] .",
        );
    }

    #[test]
    fn a_value_that_looks_secret_marks_its_variable() {
        assert!(is_secret("UPSTREAM", "https://me:s3cr3t@host/x"));
        assert!(is_secret("CI_X", "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"));
        assert!(is_secret("A_TOKEN", "x"));
        assert!(!is_secret("https_proxy", "http://me:s3cr3t@proxy:8080"));
        assert!(!is_secret("PATH", "/usr/bin:/bin"));
    }

    #[test]
    fn debug_shows_no_value() {
        let redactor = Redactor::new([("A_TOKEN".to_owned(), "very-secret-value".to_owned())]);
        assert!(!format!("{redactor:?}").contains("very-secret-value"));
    }
}
