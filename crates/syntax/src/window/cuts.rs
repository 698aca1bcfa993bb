//! Places to cut a piece out of source code, by its lines alone, and open blocks.
//!
//! Indentation decides: a construct begins at a line that is not deeper than any other nearby. The
//! lines above it, each less deep than the one before, open the blocks around it.

use std::ops::Range;

use crate::Language;

/// Maximum number of bytes searched for the lines that open blocks.
const HEADERS: usize = 4 << 20;
/// Maximum number of lines of a header.
const HEAD_LINES: usize = 40;

/// A line of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub start: usize,
    /// End of the line, with its line end.
    pub end: usize,
    /// Whether the line before it is blank, or the first.
    pub after_blank: bool,
}

/// One or more lines that open a block.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    /// Its place in the text, which identifies it.
    pub start: usize,
    /// Its replacement in a window, with its line end.
    pub text: String,
}

pub(crate) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |at| at + 1)
}

/// The end of the line that holds the byte before `at`, with its line end.
pub(crate) fn line_end(text: &str, at: usize) -> usize {
    if at == 0 || text[..at].ends_with('\n') {
        return at;
    }
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// Up to `most` lines above a line's start, nearest first.
pub(crate) fn above(text: &str, start: usize, most: usize, reach: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut end = start;
    while end > 0 && lines.len() < most && start - end < reach {
        let at = line_start(text, end - 1);
        let before = text[..at].trim_end_matches(['\n', '\r', ' ', '\t']);
        let after_blank = text[before.len()..at].matches('\n').count() > 1 || before.is_empty();
        lines.push(Line { start: at, end, after_blank });
        end = at;
    }
    lines
}

/// Up to `most` lines from a line's start down.
pub(crate) fn below(text: &str, start: usize, most: usize, reach: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut at = start;
    let mut after_blank = false;
    while at < text.len() && lines.len() < most && at - start < reach {
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
        lines.push(Line { start: at, end, after_blank });
        after_blank = text[at..end].trim().is_empty();
        at = end;
    }
    lines
}

/// The starts of lines that begin a construct and are not deeper than any other.
///
/// Returns the last of `lines` first; only those after a blank line, if there are any.
pub(crate) fn candidates(language: Language, text: &str, lines: &[Line]) -> Vec<usize> {
    let starts: Vec<(&Line, usize)> = lines
        .iter()
        .filter_map(|line| {
            let content = text.get(line.start..line.end)?;
            begins(language, content).then(|| (line, indent(content)))
        })
        .collect();
    let Some(least) = starts.iter().map(|(_, indent)| *indent).min() else { return Vec::new() };
    let least: Vec<&Line> =
        starts.iter().filter(|(_, indent)| *indent == least).map(|(line, _)| *line).rev().collect();
    let after_blank: Vec<usize> =
        least.iter().filter(|line| line.after_blank).map(|line| line.start).collect();
    if after_blank.is_empty() { least.iter().map(|line| line.start).collect() } else { after_blank }
}

/// Headers of the blocks that are open at a line's start, outermost first.
pub(crate) fn open_at(language: Language, text: &str, start: usize) -> Vec<Header> {
    let first = text[start..].lines().find(|line| !line.trim().is_empty());
    let Some(first) = first else { return Vec::new() };
    let mut depth = indent(first);
    let mut headers = Vec::new();
    let mut end = start;
    while depth > 0 && end > 0 && start - end < HEADERS {
        let at = line_start(text, end - 1);
        let line = &text[at..end];
        end = at;
        if line.trim().is_empty() || is_aside(language, line) || indent(line) >= depth {
            continue;
        }
        depth = indent(line);
        let (text, top) = head(language, text, at..at + line.len());
        end = end.min(top);
        headers.push(Header { start: at, text });
    }
    headers.reverse();
    headers
}

/// The closers of these blocks, innermost first, on a line of their own.
pub(crate) fn closers(language: Language, headers: &[Header]) -> String {
    let mut open: Vec<&str> = Vec::new();
    for header in headers {
        words(language, &header.text, &mut open);
        brackets(language, &header.text, &mut open);
    }
    if open.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n");
    if matches!(language, Language::Json | Language::JsonC) {
        // The comma before the cut requires another element.
        out.push_str(if open.last() == Some(&"}") { "\"\": 0" } else { "0" });
    }
    for word in open.iter().rev() {
        out.push_str(word);
        out.push_str(if word.len() > 1 { "\n" } else { "" });
    }
    out.push('\n');
    out
}

/// The header that ends with a line, and its start.
///
/// Some headers span several lines, and some begin by closing a block that a window does not hold.
fn head(language: Language, text: &str, line: Range<usize>) -> (String, usize) {
    let content = &text[line.clone()];
    let word = first_word(content.trim_start_matches([' ', '\t', '}', ')', ';']));
    let goes_on = ["else", "elif", "except", "finally", "catch"].contains(&word);
    if goes_on && language != Language::Lua && language != Language::Bash {
        let blanks = &content[..content.len() - content.trim_start().len()];
        let stand_in = if language == Language::Python { "if 1:" } else { "{" };
        return (format!("{blanks}{stand_in}\n"), line.start);
    }
    let alone = content.trim() == "{" || word == "where";
    if begins(language, content) && !alone {
        return (whole_line(content), line.start);
    }
    let (mut at, depth) = (line.start, indent(content));
    for _ in 0..HEAD_LINES {
        if at == 0 {
            break;
        }
        let start = line_start(text, at - 1);
        let above = &text[start..at];
        if above.trim().is_empty() {
            break;
        }
        at = start;
        if indent(above) <= depth && begins(language, above) && first_word(above.trim_start()) != "where" {
            return (whole_line(&text[at..line.end]), at);
        }
    }
    (whole_line(content), line.start)
}

fn whole_line(content: &str) -> String {
    if content.ends_with('\n') { content.to_owned() } else { format!("{content}\n") }
}

/// Whether a construct may begin with this line, rather than continue or end.
fn begins(language: Language, line: &str) -> bool {
    let line = line.trim();
    let Some(first) = line.chars().next() else { return false };
    let sign = match first {
        '}' | ')' | ']' | ',' | '.' | '?' | ':' | '&' | '|' | '+' | '=' | '%' | '^' | '>' => {
            matches!(language, Language::Css) && matches!(first, '.' | ':' | '&')
        }
        '/' => line.starts_with("//") || line.starts_with("/*"),
        '-' => matches!(language, Language::Yaml | Language::Markdown | Language::Lua | Language::Css),
        '*' => matches!(language, Language::Yaml | Language::Markdown | Language::Css),
        '<' => matches!(language, Language::Html | Language::Tsx | Language::JavaScript | Language::Markdown),
        _ => true,
    };
    let word = first_word(line);
    sign && ![
        "else",
        "elif",
        "elseif",
        "except",
        "finally",
        "catch",
        "then",
        "do",
        "fi",
        "done",
        "esac",
        "end",
        "until",
        "and",
        "or",
        "extends",
        "implements",
        "throws",
    ]
    .contains(&word)
        && line != "\"\"\""
        && line != "'''"
}

fn first_word(line: &str) -> &str {
    let end = line.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.len());
    &line[..end]
}

/// Whether a line is a comment, an attribute or a preprocessor line.
///
/// Such a line may be at any depth.
fn is_aside(language: Language, line: &str) -> bool {
    let line = line.trim_start();
    match language {
        Language::Css | Language::Html | Language::Markdown => line.starts_with("/*"),
        Language::Lua => line.starts_with("--"),
        _ => ["#", "//", "/*", "*", "\"\"\"", "'''"].iter().any(|sign| line.starts_with(sign)),
    }
}

/// The leading blanks of a line; a tab counts as four.
fn indent(line: &str) -> usize {
    line.bytes()
        .map_while(|byte| match byte {
            b' ' => Some(1),
            b'\t' => Some(4),
            _ => None,
        })
        .sum()
}

/// Adds words that open blocks, in languages without brackets for them.
fn words(language: Language, head: &str, open: &mut Vec<&str>) {
    let code = head.trim_end();
    let ends = |word: &str| code.ends_with(word);
    match language {
        Language::Lua => {
            let opens = ends(" then") || ends(" do") || ends("do") || code.contains("function");
            if opens && !ends("end") {
                open.push("end");
            } else if first_word(code.trim_start()) == "repeat" {
                open.push("until true");
            }
        }
        Language::Bash => {
            if ends("then") || ends("else") {
                open.push("fi");
            } else if ends("do") {
                open.push("done");
            } else if ends(" in") {
                open.push("esac");
            }
        }
        _ => {}
    }
}

/// Adds the brackets that a header leaves open.
fn brackets(language: Language, head: &str, open: &mut Vec<&str>) {
    if matches!(language, Language::Html | Language::Markdown | Language::Yaml) {
        return;
    }
    let hash_comments = matches!(language, Language::Python | Language::Bash | Language::Toml);
    let floor = open.len();
    for line in head.lines() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let mut step = first.len_utf8();
            match first {
                '{' => open.push("}"),
                '(' => open.push(")"),
                '[' => open.push("]"),
                '}' | ')' | ']' if open.len() > floor => {
                    open.pop();
                }
                '#' if hash_comments => break,
                '/' if rest.starts_with("//") && !hash_comments => break,
                '\'' if language == Language::Rust => {
                    // The quote begins a character or a lifetime.
                    let close =
                        rest[1..].char_indices().skip(1).find(|(_, c)| *c == '\'').map(|(at, _)| at + 2);
                    step = close.filter(|close| *close <= 6 || rest.starts_with("'\\")).unwrap_or(step);
                }
                '"' | '\'' | '`' => step = quoted(rest, first),
                _ => {}
            }
            rest = &rest[step.min(rest.len())..];
        }
    }
}

/// Length in bytes of the string that begins here.
///
/// Returns the length of the quote alone if the string does not end on the line.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    quote.len_utf8()
}
