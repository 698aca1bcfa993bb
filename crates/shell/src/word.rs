//! Words after shell expansion: quotes removed, variables expanded, words split.
//!
//! Parts known only at run time become [`UNKNOWN`].

use std::collections::BTreeMap;

/// Placeholder of unknown text of any length.
///
/// A zero byte, which a word cannot contain.
pub(super) const UNKNOWN: char = '\0';

/// Maximum number of words from one brace expansion.
const MAX_BRACES: usize = 64;

/// Maximum length of a value, in bytes. A longer one is unknown.
const MAX_VALUE: usize = 16 << 10;
/// Maximum number of scripts whose output is part of a word.
const MAX_SCRIPTS: usize = 64;

/// A word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// Its value, with [`UNKNOWN`] for unknown parts.
    pub text: String,
    /// The scripts whose output is part of it.
    pub scripts: Vec<String>,
}

impl Word {
    pub fn known(text: impl Into<String>) -> Self {
        Self { text: text.into(), scripts: Vec::new() }
    }

    pub fn is_known(&self) -> bool {
        !self.text.contains(UNKNOWN)
    }

    pub fn shown(&self) -> String {
        self.text.replace(UNKNOWN, "…")
    }
}

/// Variables with known values in a script.
///
/// If a variable has several values, each reading of the script uses another one.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, Vec<Word>>,
    /// Number of the combination of values that is used.
    pub reading: usize,
    /// Whether variables with several values are unknown.
    pub hides_several: bool,
}

impl Variables {
    pub fn set(&mut self, name: &str, value: Word) {
        let values = self.values.entry(name.to_owned()).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }

    /// Number of combinations of the values.
    pub fn readings(&self) -> usize {
        self.values.values().fold(1, |all, values| all.saturating_mul(values.len()))
    }

    fn get(&self, name: &str) -> Word {
        match self.values.get(name) {
            None => Word::known(UNKNOWN),
            Some(values) if values.len() == 1 => values[0].clone(),
            Some(_) if self.hides_several => Word::known(UNKNOWN),
            Some(values) => {
                let before =
                    self.values.iter().take_while(|(other, _)| other.as_str() < name).map(|(_, it)| it.len());
                let stride = before.fold(1_usize, usize::saturating_mul);
                values[self.reading / stride % values.len()].clone()
            }
        }
    }
}

/// Expands the written word `raw` to words.
pub(super) fn words(raw: &str, variables: &Variables) -> Vec<Word> {
    let mut alternatives = Vec::new();
    braces(raw, &mut alternatives);
    let mut out = Vec::new();
    for raw in alternatives {
        let mut reader = Reader::new(&raw, variables);
        reader.read(true);
        reader.finish(&mut out);
    }
    out
}

/// Expands `raw` to one word where a shell does not split.
///
/// Examples are an assigned value and the target of a redirection.
pub(super) fn value(raw: &str, variables: &Variables) -> Word {
    let mut reader = Reader::new(raw, variables);
    reader.read(false);
    let mut out = Vec::new();
    reader.finish(&mut out);
    out.into_iter().next().unwrap_or_default()
}

/// The text of a here-document, in which only variables and commands count.
pub(super) fn document(raw: &str, variables: &Variables) -> Word {
    let mut reader = Reader::new(raw, variables);
    reader.double(None);
    reader.current
}

/// Replaces the escapes of `printf` and `echo -e`.
pub(super) fn unescaped(text: &str) -> String {
    let variables = Variables::default();
    let parts = text.split('\'').map(|part| {
        let mut reader = Reader::new(part, &variables);
        reader.ansi();
        reader.current.text
    });
    parts.collect::<Vec<_>>().join("'")
}

/// Expands each alternative of the first unquoted `{a,b}` into `out`, recursively.
fn braces(raw: &str, out: &mut Vec<String>) {
    let Some((start, commas, end)) = first_brace(raw) else {
        out.push(raw.to_owned());
        return;
    };
    let mut from = start + 1;
    for to in commas.into_iter().chain([end]) {
        if out.len() >= MAX_BRACES {
            return;
        }
        braces(&format!("{}{}{}", &raw[..start], &raw[from..to], &raw[end + 1..]), out);
        from = to + 1;
    }
}

/// Start, commas and end of the first unquoted brace with a comma.
fn first_brace(raw: &str) -> Option<(usize, Vec<usize>, usize)> {
    let bytes = raw.as_bytes();
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut found: Option<(usize, Vec<usize>, usize)> = None;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\'' | b'"' => at = quoted_end(bytes, at),
            b'`' => at = quoted_end(bytes, at),
            b'$' if bytes.get(at + 1) == Some(&b'{') => at = closing(raw, at + 1, b'{', b'}'),
            b'$' if bytes.get(at + 1) == Some(&b'(') => at = closing(raw, at + 1, b'(', b')'),
            b'{' => open.push((at, Vec::new())),
            b',' => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            b'}' => {
                if let Some((start, commas)) = open.pop()
                    && !commas.is_empty()
                {
                    // An outer brace comes first.
                    found = Some((start, commas, at));
                    if open.is_empty() {
                        break;
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Position of the quote that ends the one at `at`.
fn quoted_end(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != quote {
        end += if bytes[end] == b'\\' && quote != b'\'' { 2 } else { 1 };
    }
    end
}

/// Position of the bracket that closes the one at `at`.
///
/// Skips quotes and nested brackets. Returns the end of the text if there is none.
fn closing(raw: &str, at: usize, open: u8, close: u8) -> usize {
    let bytes = raw.as_bytes();
    let (mut depth, mut end) = (0usize, at);
    while end < bytes.len() {
        match bytes[end] {
            b'\\' => end += 1,
            b'\'' | b'"' => end = quoted_end(bytes, end),
            byte if byte == open => depth += 1,
            byte if byte == close => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return end;
                }
            }
            _ => {}
        }
        end += 1;
    }
    bytes.len()
}

struct Reader<'a> {
    raw: &'a str,
    at: usize,
    variables: &'a Variables,
    done: Vec<Word>,
    current: Word,
    /// Total length of the expanded values, in bytes.
    length: usize,
    /// Whether there is a word, even if it is empty.
    is_word: bool,
}

impl<'a> Reader<'a> {
    fn new(raw: &'a str, variables: &'a Variables) -> Self {
        Self { raw, at: 0, variables, done: Vec::new(), current: Word::default(), length: 0, is_word: false }
    }

    fn finish(mut self, out: &mut Vec<Word>) {
        self.end_word();
        out.append(&mut self.done);
    }

    fn end_word(&mut self) {
        if self.is_word || !self.current.text.is_empty() {
            self.done.push(std::mem::take(&mut self.current));
        }
        self.is_word = false;
    }

    fn next(&mut self) -> Option<char> {
        let next = self.raw.get(self.at..)?.chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn peek(&self) -> Option<char> {
        self.raw.get(self.at..)?.chars().next()
    }

    fn push(&mut self, c: char) {
        // A zero byte of the text itself has no meaning; a shell drops it.
        if c != UNKNOWN {
            self.current.text.push(c);
        }
    }

    fn read(&mut self, splits: bool) {
        while let Some(c) = self.next() {
            match c {
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c) => self.push(c),
                },
                '\'' => {
                    self.is_word = true;
                    while let Some(c) = self.next().filter(|c| *c != '\'') {
                        self.push(c);
                    }
                }
                '"' => {
                    self.is_word = true;
                    self.double(Some('"'));
                }
                '$' if self.peek() == Some('\'') => {
                    self.at += 1;
                    self.is_word = true;
                    self.ansi();
                }
                '$' if self.peek() == Some('"') => {}
                '$' => {
                    let value = self.expansion();
                    self.put(value, splits);
                }
                '`' => {
                    let value = self.backticks();
                    self.put(value, splits);
                }
                '<' | '>' if self.peek() == Some('(') => {
                    let script = self.bracketed('(', ')');
                    self.current.text.push_str("/dev/fd/");
                    self.current.text.push(UNKNOWN);
                    self.current.scripts.push(script);
                }
                '~' if self.current.text.is_empty() && !self.is_word => self.tilde(),
                c if splits && c.is_whitespace() => self.end_word(),
                c => self.push(c),
            }
        }
    }

    /// Reads the text between double quotes, or with `None` all the rest.
    fn double(&mut self, until: Option<char>) {
        while let Some(c) = self.next() {
            match c {
                c if Some(c) == until => return,
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                '$' => {
                    let value = self.expansion();
                    self.put(value, false);
                }
                '`' => {
                    let value = self.backticks();
                    self.put(value, false);
                }
                c => self.push(c),
            }
        }
    }

    /// Adds the result of an expansion; if unquoted, its spaces split.
    fn put(&mut self, mut value: Word, splits: bool) {
        for script in value.scripts {
            if self.current.scripts.len() < MAX_SCRIPTS && !self.current.scripts.contains(&script) {
                self.current.scripts.push(script);
            }
        }
        self.length += value.text.len();
        if self.length > MAX_VALUE {
            value.text = UNKNOWN.to_string();
        }
        if !splits {
            self.current.text.push_str(&value.text);
            return;
        }
        for c in value.text.chars() {
            if c.is_whitespace() { self.end_word() } else { self.current.text.push(c) }
        }
    }

    /// Reads an expansion after the `$`.
    fn expansion(&mut self) -> Word {
        let rest = self.raw.get(self.at..).unwrap_or_default();
        match rest.chars().next() {
            Some('(') => {
                let script = self.bracketed('(', ')');
                let scripts = if rest.starts_with("((") { Vec::new() } else { vec![script] };
                Word { text: UNKNOWN.to_string(), scripts }
            }
            Some('{') => {
                let inside = self.bracketed('{', '}');
                self.parameter(&inside)
            }
            // The expansion is a background job of the script.
            Some('!') => {
                self.at += 1;
                Word::known("%!")
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                self.at += end;
                self.variables.get(&rest[..end])
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$".contains(c) => {
                self.at += 1;
                Word::known(UNKNOWN)
            }
            _ => Word::known("$"),
        }
    }

    /// Expands the content of `${…}`.
    fn parameter(&mut self, inside: &str) -> Word {
        let end = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inside.len());
        let (name, rest) = inside.split_at(end);
        let known = self.variables.get(name);
        let operator = rest.strip_prefix(':').unwrap_or(rest);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        match operator.chars().next() {
            _ if !is_name => Word::known(UNKNOWN),
            None if rest.is_empty() => known,
            // The variable is not set as far as is known, so the other text applies.
            Some('-' | '=') if !known.is_known() && known.scripts.is_empty() => {
                value(&operator[1..], self.variables)
            }
            Some('+') => value(&operator[1..], self.variables),
            Some('-' | '=' | '?') => known,
            _ => Word { text: UNKNOWN.to_string(), scripts: known.scripts },
        }
    }

    fn backticks(&mut self) -> Word {
        let start = self.at;
        while let Some(c) = self.next().filter(|c| *c != '`') {
            if c == '\\' {
                self.next();
            }
        }
        let end = self.at.saturating_sub(1).max(start);
        let script = self.raw.get(start..end).unwrap_or_default().replace("\\`", "`");
        Word { text: UNKNOWN.to_string(), scripts: vec![script] }
    }

    /// The content of the brackets that begin here.
    fn bracketed(&mut self, open: char, close: char) -> String {
        let start = self.at;
        let end = closing(self.raw, start, open as u8, close as u8);
        self.at = (end + 1).min(self.raw.len());
        self.raw.get(start + 1..end).unwrap_or_default().to_owned()
    }

    fn tilde(&mut self) {
        let rest = self.raw.get(self.at..).unwrap_or_default();
        let user = &rest[..rest.find('/').unwrap_or(rest.len())];
        if user.is_empty() {
            let home = self.variables.get("HOME");
            self.current.text.push_str(&home.text);
        } else if user.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)) {
            // A directory of the shell: the current or last one, or one of its stack.
            self.current.text.push(UNKNOWN);
        } else if user.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
            self.current.text.push_str(if user == "root" { "/" } else { "/home/" });
        } else {
            self.push('~');
        }
    }

    /// Reads a string after `$'`.
    fn ansi(&mut self) {
        while let Some(c) = self.next().filter(|c| *c != '\'') {
            if c != '\\' {
                self.push(c);
                continue;
            }
            let Some(c) = self.next() else { return };
            let (radix, most) = match c {
                'x' => (16, 2),
                'u' => (16, 4),
                'U' => (16, 8),
                '0'..='7' => (8, 3),
                _ => {
                    let c = match c {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'e' | 'E' => '\u{1b}',
                        c => c,
                    };
                    self.push(c);
                    continue;
                }
            };
            if radix == 8 {
                self.at -= 1;
            }
            let rest = self.raw.get(self.at..).unwrap_or_default();
            let digits = rest.chars().take(most).take_while(|c| c.is_digit(radix)).count();
            let code = u32::from_str_radix(&rest[..digits], radix).ok();
            self.at += digits;
            if let Some(c) = code.and_then(char::from_u32) {
                self.push(c);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: &[&str]) {
        let mut variables = Variables::default();
        variables.set("HOME", Word::known("/home/me"));
        variables.set("IFS", Word::known(" \t\n"));
        variables.set("X", Word::known("-rf /"));
        let texts: Vec<String> = words(raw, &variables).iter().map(Word::shown).collect();
        assert_eq!(texts, expected, "{raw}");
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        check(r#"r\m"#, &["rm"]);
        check(r#"'r'"m""#, &["rm"]);
        check("rm${IFS}-rf$IFS/", &["rm", "-rf", "/"]);
        check("{rm,-rf,/}", &["rm", "-rf", "/"]);
        check("a{b,{c,d}}e", &["abe", "ace", "ade"]);
        check("'{a,b}'", &["{a,b}"]);
        check("~/x", &["/home/me/x"]);
        check("a~b", &["a~b"]);
        check("$X", &["-rf", "/"]);
        check("\"$X\"", &["-rf /"]);
        check(r"$'\x72\155 \u0041'", &["rm A"]);
        check("\"\"", &[""]);
        check("a\\\nb", &["ab"]);
        check("${Y:-/}", &["/"]);
        check("${HOME}x", &["/home/mex"]);
        check("a$(echo ')')b", &["a…b"]);
        check("$((1+2))", &["…"]);
        check("${#X}", &["…"]);
        check("$", &["$"]);
    }
}
