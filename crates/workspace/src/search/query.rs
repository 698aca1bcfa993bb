//! A pattern, and its matches in a text.
//!
//! Lines end with `\n`, `\r\n` or `\r`. `^` and `$` recognize all three.

use std::borrow::Cow;
use std::ops::Range;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use regex_syntax::hir::{Hir, HirKind};

/// Maximum length of a pattern in bytes, which bounds the search time of a line.
const MAX_PATTERN_BYTES: usize = 2_000;
/// Maximum number of positions in a match.
///
/// Every repetition counts by the number in its braces, since it multiplies the search time of a line.
const MAX_PLACES: usize = 2_000;
/// Maximum size of a compiled regex; a class such as `\w` is large and slow.
const MAX_REGEX_BYTES: usize = 8 << 20;
/// Maximum size of its tables in each thread.
const MAX_TABLE_BYTES: usize = 64 << 20;

/// A parsed pattern, ready for searches.
#[derive(Debug, Clone)]
pub struct Query {
    pub(super) matcher: RegexMatcher,
    across_lines: bool,
}

/// Options of a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryOptions {
    /// Whether the pattern is plain text, not a regex.
    pub literal: bool,
    /// Whether the case of letters is ignored.
    pub ignore_case: bool,
    /// Whether the pattern matches only whole words.
    pub word: bool,
    /// Whether a match may span lines; a pattern with a line end always may.
    pub multiline: bool,
}

/// The reason why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The pattern is empty.
    #[error("the pattern is empty; pass a text or a regex")]
    Empty,
    /// The pattern is longer than 2,000 bytes.
    #[error(
        "the pattern has {bytes} bytes, more than {MAX_PATTERN_BYTES}; search for a distinctive part of it"
    )]
    TooLong { bytes: usize },
    /// The counted repetitions make a match too long.
    #[error(
        "`{pattern}` matches up to {places} places, more than {MAX_PLACES}; use smaller counts in braces, `+` or `*`"
    )]
    TooManyPlaces {
        /// The pattern as written.
        pattern: String,
        places: usize,
    },
    #[error("`{pattern}` is not a Rust regex: {reason}; escape special characters with \\, or set `literal`")]
    Invalid {
        /// The pattern as written.
        pattern: String,
        reason: String,
    },
}

/// A line, or several with [`QueryOptions::multiline`], and the matches in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMatch {
    /// Bytes of the matched lines, including their ends.
    pub range: Range<usize>,
    /// Bytes of the first matches in the lines.
    pub spans: Vec<Range<usize>>,
}

/// Maximum number of reported matches of one line.
const SPANS: usize = 4;

impl Query {
    /// Parses `pattern`.
    ///
    /// # Errors
    /// [`QueryError`] has the problem and the remedy.
    pub fn new(pattern: &str, options: QueryOptions) -> Result<Self, QueryError> {
        if pattern.is_empty() {
            return Err(QueryError::Empty);
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(QueryError::TooLong { bytes: pattern.len() });
        }
        // The builder reports a malformed regex.
        if !options.literal
            && let Ok(hir) = regex_syntax::parse(pattern)
        {
            let places = places(&hir);
            if places > MAX_PLACES {
                return Err(QueryError::TooManyPlaces { pattern: pattern.to_owned(), places });
            }
        }
        let regex = with_any_line_end(pattern, options.literal);
        let build = |across_lines: bool| {
            let mut builder = RegexMatcherBuilder::new();
            builder
                .multi_line(true)
                .crlf(true)
                .case_insensitive(options.ignore_case)
                .word(options.word)
                .size_limit(MAX_REGEX_BYTES)
                .dfa_size_limit(MAX_TABLE_BYTES);
            if across_lines {
                builder.line_terminator(None);
            }
            builder.build(&regex).map(|matcher| Self { matcher, across_lines })
        };
        let built = match build(options.multiline) {
            // It contains a line end, so it may match across one.
            Err(error) if matches!(error.kind(), grep_regex::ErrorKind::NotAllowed(_)) => build(true),
            built => built,
        };
        built.map_err(|error| {
            let text = error.to_string();
            let reason = text.rsplit_once("error: ").map_or(text.as_str(), |(_, reason)| reason);
            QueryError::Invalid { pattern: pattern.to_owned(), reason: reason.trim().to_owned() }
        })
    }

    /// Whether a match may span lines.
    pub(crate) fn goes_across_lines(&self) -> bool {
        self.across_lines
    }

    /// Returns the first `most` matching lines of a text without a byte order mark.
    ///
    /// Does not block, and takes time in proportion to the text.
    pub fn lines(&self, text: &str, most: usize) -> Vec<LineMatch> {
        let bytes = normal_ends(text.as_bytes());
        let mut sink = Lines { matcher: &self.matcher, most, found: Vec::new() };
        let mut searcher = self.searcher();
        if most > 0
            && let Err(error) = searcher.search_slice(&self.matcher, &bytes, &mut sink)
        {
            tracing::warn!("a text cannot be searched: {error}");
        }
        sink.found
    }

    /// Creates a searcher for whole bytes that are known to be text.
    pub(super) fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(false)
            .multi_line(self.across_lines)
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false)
            .build()
    }
}

/// Extends the regex so that each `\n` outside a class matches both line ends.
///
/// Lines are shown without their ends, so the author cannot know which one it is.
fn with_any_line_end(pattern: &str, literal: bool) -> String {
    const END: &str = r"(?:\r?\n)";
    if literal {
        return regex_syntax::escape(pattern).replace('\n', END);
    }
    // In a mode that ignores blanks, it ignores line ends too.
    let blanks_count = !pattern.match_indices("(?").any(|(at, _)| {
        let flags = pattern[at + 2..].split(|letter: char| !letter.is_ascii_alphabetic() && letter != '-');
        flags.into_iter().next().is_some_and(|flags| flags.contains('x'))
    });
    let mut regex = String::with_capacity(pattern.len());
    let mut classes = 0_usize;
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') if classes == 0 => regex.push_str(END),
                next => {
                    regex.push('\\');
                    regex.extend(next);
                }
            },
            '\n' if classes == 0 && blanks_count => regex.push_str(END),
            '[' => {
                classes += 1;
                regex.push('[');
                // A `]` in first position, also after `^`, is literal.
                for first in ['^', ']'] {
                    regex.extend(letters.next_if_eq(&first));
                }
            }
            _ => {
                if letter == ']' {
                    classes = classes.saturating_sub(1);
                }
                regex.push(letter);
            }
        }
    }
    regex
}

/// Counts the characters and classes of a regex, with repetitions expanded.
fn places(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(_) => 1,
        HirKind::Capture(capture) => places(&capture.sub),
        HirKind::Repetition(repeated) => {
            let times = repeated.max.unwrap_or(repeated.min).max(1);
            places(&repeated.sub).saturating_mul(usize::try_from(times).unwrap_or(usize::MAX))
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(places).fold(0, usize::saturating_add)
        }
    }
}

/// Replaces each lone `\r` by `\n` in place, so that all lines end with `\n`.
pub(super) fn normal_ends(bytes: &[u8]) -> Cow<'_, [u8]> {
    let lone = |at: &usize| bytes.get(at + 1) != Some(&b'\n');
    if !memchr::memchr_iter(b'\r', bytes).any(|at| lone(&at)) {
        return Cow::Borrowed(bytes);
    }
    let mut normal = bytes.to_vec();
    memchr::memchr_iter(b'\r', bytes).filter(lone).for_each(|at| normal[at] = b'\n');
    Cow::Owned(normal)
}

/// Collects lines with their matches.
struct Lines<'a> {
    matcher: &'a RegexMatcher,
    most: usize,
    found: Vec<LineMatch>,
}

impl Sink for &mut Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let range = found.bytes_range_in_buffer();
        let start = usize::try_from(found.absolute_byte_offset()).unwrap_or(usize::MAX);
        let mut spans = Vec::new();
        // Match in the whole buffer, so that lookaround sees the same text as in the search.
        let buffer = &found.buffer()[..range.end];
        let searched = self.matcher.find_iter_at(buffer, range.start, |span| {
            spans.push(span.start()..span.end());
            spans.len() < SPANS
        });
        if let Err(error) = searched {
            return Err(std::io::Error::other(error.to_string()));
        }
        let shift = start - range.start;
        spans.iter_mut().for_each(|span| *span = span.start + shift..span.end + shift);
        self.found.push(LineMatch { range: start..start + range.len(), spans });
        Ok(self.found.len() < self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_end_in_a_pattern_matches_all_kinds() {
        let over = QueryOptions { multiline: true, ..PLAIN };
        for text in ["foo\nbar\nx", "foo\r\nbar\r\nx", "foo\rbar\rx"] {
            for pattern in [
                r"foo\nbar",
                r"foo\n+b[^\n]r",
                r"foo\r?\nbar",
                r"(?m)o\nba[^]\n]$",
                "foo\nbar",
                r"[[a-f]\n]oo\nb",
            ] {
                assert_eq!(found(pattern, over, text).len(), 1, "{pattern} in {text:?}");
            }
            assert_eq!(found("foo\nbar", QueryOptions { literal: true, ..over }, text).len(), 1, "{text:?}");
            assert_eq!(found(r"foo\\nbar", over, text).len(), 0, "{text:?}");
        }
        assert_eq!(found("(?x) f oo\n b", over, "foob").len(), 1);
        assert_eq!(found(r"foo\r\nbar", over, "foo\r\nbar").len(), 1);
        assert_eq!(found(r"foo\r\nbar", over, "foo\nbar").len(), 0);
    }

    fn found(pattern: &str, options: QueryOptions, text: &str) -> Vec<String> {
        let query = Query::new(pattern, options).unwrap();
        let lines = query.lines(text, 100);
        lines.into_iter().map(|line| text[line.range].to_owned()).collect()
    }

    const PLAIN: QueryOptions =
        QueryOptions { literal: false, ignore_case: false, word: false, multiline: false };

    #[test]
    fn anchors_match_at_every_kind_of_line_end() {
        for text in ["ab\nb\n", "ab\r\nb\r\n", "ab\rb\r", "ab\r\nb"] {
            assert_eq!(found("b$", PLAIN, text).len(), 2, "{text:?}");
            assert_eq!(found("^b", PLAIN, text).len(), 1, "{text:?}");
            assert_eq!(
                found("^b$", PLAIN, text),
                [text[text.len() - text[2..].trim_start().len()..].to_owned()]
            );
        }
        assert_eq!(found("a.b", PLAIN, "a\rb\r"), [""; 0], "a dot matches no line end");
    }

    #[test]
    fn options_change_the_match() {
        let text = "a.c\nabc\nABC abcd\n";
        assert_eq!(found("a.c", PLAIN, text).len(), 3);
        assert_eq!(found("a.c", QueryOptions { literal: true, ..PLAIN }, text), ["a.c\n"]);
        assert_eq!(found("abc", QueryOptions { word: true, ..PLAIN }, text), ["abc\n"]);
        let both = QueryOptions { ignore_case: true, word: true, ..PLAIN };
        assert_eq!(found("abc", both, text), ["abc\n", "ABC abcd\n"]);
    }

    #[test]
    fn a_multiline_match_reports_all_its_lines() {
        let text = "one {\n  two\n}\nthree\n";
        let over = QueryOptions { multiline: true, ..PLAIN };
        assert_eq!(found(r"\{[^}]*\}", over, text), ["one {\n  two\n}\n"]);
        assert_eq!(found(r"\{[^}]*\}", PLAIN, text), [""; 0]);
        // A pattern with a line end matches one.
        assert_eq!(found(r"two\n\}", PLAIN, text), ["  two\n}\n"]);
        let plain = QueryOptions { literal: true, ..PLAIN };
        assert_eq!(found("two\n}", plain, text), ["  two\n}\n"]);
    }

    #[test]
    fn matches_have_their_ranges_in_the_text() {
        let query = Query::new("b+", PLAIN).unwrap();
        let text = "x\r\nabbab\r\nb";
        let lines = query.lines(text, 100);
        assert_eq!(lines[0], LineMatch { range: 3..10, spans: vec![4..6, 7..8] });
        assert_eq!((&lines[1].range, lines[1].spans.first()), (&(10..11), Some(&(10..11))));
        assert_eq!(query.lines(text, 1).len(), 1);
        assert_eq!(query.lines(text, 0), []);
        let inner = Query::new(r"\bb", PLAIN).unwrap();
        assert_eq!(inner.lines("ab b", 9)[0].spans[0], 3..4);
    }

    #[test]
    fn invalid_patterns_are_explained() {
        let mut said = Vec::new();
        for pattern in ["foo(", "a(?=b)", r"(a)\1", "a{2,1}", r"\w{999}"] {
            let error = Query::new(pattern, PLAIN).unwrap_err().to_string();
            assert!(error.contains("literal") && !error.contains('\n'), "{error}");
            said.push(error);
        }
        for (pattern, places) in [
            ("a{20000}", 20_000),
            ("(ab|c){0,1000}", 3_000),
            ("(x{50}){50}", 2_500),
            (".{3000,}", 3_000),
            ("(((a{1000}){1000}){1000}){1000}{1000}{1000}{1000}", usize::MAX),
        ] {
            let error = Query::new(pattern, PLAIN).unwrap_err();
            assert_eq!(error, QueryError::TooManyPlaces { pattern: pattern.into(), places });
            said.push(error.to_string());
        }
        for pattern in [r"\w{1,100}", "a{2000}", "^.{1000,}$", r"(?i)function\s+\w{1,40}\s*\(", "(a+)*"] {
            assert!(Query::new(pattern, PLAIN).is_ok(), "{pattern}");
        }
        assert!(Query::new("a{20000}", QueryOptions { literal: true, ..PLAIN }).is_ok());
        assert_eq!(Query::new("", PLAIN).unwrap_err(), QueryError::Empty);
        for literal in [false, true] {
            let error = Query::new(&"é".repeat(1_001), QueryOptions { literal, ..PLAIN }).unwrap_err();
            assert_eq!(error, QueryError::TooLong { bytes: 2_002 });
            said.push(error.to_string());
        }
        expect_test::expect![[r#"
            `foo(` is not a Rust regex: unclosed group; escape special characters with \, or set `literal`
            `a(?=b)` is not a Rust regex: look-around, including look-ahead and look-behind, is not supported; escape special characters with \, or set `literal`
            `(a)\1` is not a Rust regex: backreferences are not supported; escape special characters with \, or set `literal`
            `a{2,1}` is not a Rust regex: invalid repetition count range, the start must be <= the end; escape special characters with \, or set `literal`
            `\w{999}` is not a Rust regex: compiled regex exceeds size limit of 8388608; escape special characters with \, or set `literal`
            `a{20000}` matches up to 20000 places, more than 2000; use smaller counts in braces, `+` or `*`
            `(ab|c){0,1000}` matches up to 3000 places, more than 2000; use smaller counts in braces, `+` or `*`
            `(x{50}){50}` matches up to 2500 places, more than 2000; use smaller counts in braces, `+` or `*`
            `.{3000,}` matches up to 3000 places, more than 2000; use smaller counts in braces, `+` or `*`
            `(((a{1000}){1000}){1000}){1000}{1000}{1000}{1000}` matches up to 18446744073709551615 places, more than 2000; use smaller counts in braces, `+` or `*`
            the pattern has 2002 bytes, more than 2000; search for a distinctive part of it
            the pattern has 2002 bytes, more than 2000; search for a distinctive part of it"#]].assert_eq(&said.join("\n"));
        assert!(Query::new(&"x".repeat(2_000), PLAIN).is_ok());
    }
}
