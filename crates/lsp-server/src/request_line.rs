//! Request lines (`¶`): comment syntax, finding and writing requests.
//!
//! The module is pure. A request is a comment alone on its line (or lines, for a block comment) that begins
//! with a marker, or a line of a block comment that begins with `*` and a marker. This module reads lines
//! only; `comments` distinguishes comments from strings.

use std::ops::Range;

/// The comment syntax of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    /// Starts of line comments; new comments use the first.
    line: &'static [&'static str],
    /// Starts and ends of block comments.
    block: &'static [(&'static str, &'static str)],
}

const HASH: Syntax = Syntax { line: &["#"], block: &[] };
const C_BLOCK: (&str, &str) = ("/*", "*/");
const C: Syntax = Syntax { line: &["//"], block: &[C_BLOCK] };
const JSX: Syntax = Syntax { line: &["//"], block: &[(C_BLOCK.0, C_BLOCK.1), ("{/*", "*/}")] };
const XML: Syntax = Syntax { line: &[], block: &[("<!--", "-->")] };
const LISP: Syntax = Syntax { line: &[";;", ";"], block: &[("#|", "|#")] };
/// The syntax of languages that are not in the table.
const ANY: Syntax =
    Syntax { line: &["#", "//", "--", ";", "%"], block: &[("<!--", "-->"), ("/*", "*/"), ("(*", "*)")] };

/// The comment syntax for each language id of LSP, VS Code, Neovim and Emacs.
const LANGUAGES: &[(&[&str], Syntax)] = &[
    (
        &[
            "python",
            "ruby",
            "shellscript",
            "sh",
            "bash",
            "zsh",
            "fish",
            "perl",
            "r",
            "yaml",
            "make",
            "makefile",
            "dockerfile",
            "elixir",
            "cmake",
            "graphql",
            "tcl",
            "gdscript",
            "awk",
            "properties",
            "gitcommit",
            "git-commit",
            "conf",
            "jq",
            "crystal",
            "starlark",
            "bzl",
            "bazel",
            "just",
            "sshconfig",
            "gitignore",
            "ignore",
            "dotenv",
        ],
        HASH,
    ),
    (&["toml"], HASH),
    (&["julia", "coffeescript"], Syntax { line: &["#"], block: &[("#=", "=#"), ("###", "###")] }),
    (&["powershell", "ps1"], Syntax { line: &["#"], block: &[("<#", "#>")] }),
    (&["nim"], Syntax { line: &["#"], block: &[("#[", "]#")] }),
    (&["nix", "terraform", "hcl"], Syntax { line: &["#", "//"], block: &[("/*", "*/")] }),
    (&["php"], Syntax { line: &["//", "#"], block: &[("/*", "*/"), ("<!--", "-->")] }),
    (
        &[
            "c",
            "cpp",
            "c++",
            "objective-c",
            "objective-cpp",
            "objc",
            "objcpp",
            "csharp",
            "cs",
            "java",
            "rust",
            "go",
            "swift",
            "kotlin",
            "scala",
            "dart",
            "groovy",
            "json",
            "jsonc",
            "json5",
            "less",
            "scss",
            "proto",
            "proto3",
            "solidity",
            "verilog",
            "systemverilog",
            "glsl",
            "hlsl",
            "wgsl",
            "cuda",
            "cuda-cpp",
            "d",
            "v",
            "jai",
            "odin",
            "typst",
            "bicep",
            "thrift",
            "stylus",
            "gradle",
        ],
        C,
    ),
    (&["javascript", "javascriptreact", "typescript", "typescriptreact", "js", "js2"], JSX),
    (&["zig", "prisma", "jade", "pug"], Syntax { line: &["//"], block: &[] }),
    (&["css"], Syntax { line: &[], block: &[("/*", "*/")] }),
    (&["fsharp"], Syntax { line: &["//"], block: &[("(*", "*)")] }),
    (&["pascal", "delphi"], Syntax { line: &["//"], block: &[("{", "}"), ("(*", "*)")] }),
    (&["ocaml", "sml", "coq", "rocq"], Syntax { line: &[], block: &[("(*", "*)")] }),
    (&["sql", "plsql", "mysql", "pgsql"], Syntax { line: &["--"], block: &[("/*", "*/")] }),
    (&["lua", "luau"], Syntax { line: &["--"], block: &[("--[[", "]]")] }),
    (&["haskell", "elm", "purescript", "idris", "agda"], Syntax { line: &["--"], block: &[("{-", "-}")] }),
    (&["ada", "vhdl", "applescript", "eiffel"], Syntax { line: &["--"], block: &[] }),
    (&["erlang"], Syntax { line: &["%"], block: &[] }),
    (&["latex", "tex", "plaintex", "bibtex"], Syntax { line: &["%"], block: &[] }),
    (&["matlab", "octave"], Syntax { line: &["%"], block: &[("%{", "%}")] }),
    (&["prolog"], Syntax { line: &["%"], block: &[("/*", "*/")] }),
    (&["clojure", "lisp", "commonlisp", "scheme", "racket", "elisp", "emacs-lisp", "fennel"], LISP),
    (&["ini", "dosini", "editorconfig"], Syntax { line: &[";", "#"], block: &[] }),
    (&["asm", "nasm", "autohotkey"], Syntax { line: &[";"], block: &[] }),
    (&["vim"], Syntax { line: &["\""], block: &[] }),
    (&["vb"], Syntax { line: &["'"], block: &[] }),
    (&["fortran", "fortran-modern"], Syntax { line: &["!"], block: &[] }),
    (&["bat", "dosbatch"], Syntax { line: &["REM", "rem", "::"], block: &[] }),
    (&["html", "mhtml", "xml", "xsl", "svg", "markdown", "mdx"], XML),
    (
        &["vue", "svelte", "astro", "htmlangular"],
        Syntax { line: &["//"], block: &[("<!--", "-->"), ("/*", "*/")] },
    ),
    (
        &["jinja", "jinja-html", "django-html", "htmldjango", "twig", "nunjucks"],
        Syntax { line: &[], block: &[("<!--", "-->"), ("{#", "#}")] },
    ),
    (&["handlebars", "mustache"], Syntax { line: &[], block: &[("<!--", "-->"), ("{{!", "}}")] }),
    (&["erb", "eruby"], Syntax { line: &[], block: &[("<!--", "-->"), ("<%#", "%>")] }),
    (&["razor", "aspnetcorerazor"], Syntax { line: &["//"], block: &[("@*", "*@"), ("<!--", "-->")] }),
    (&["haml"], Syntax { line: &["-#"], block: &[] }),
    (&["restructuredtext", "rst"], Syntax { line: &[".."], block: &[] }),
    (&["plaintext", "text", "csv", "diff", "log"], Syntax { line: &[], block: &[] }),
];

/// Maximum number of lines of a block comment that is a request.
const MAX_BLOCK_LINES: usize = 50;
/// Maximum number of lines of an answer in place.
pub(crate) const MAX_ANSWER_LINES: usize = 10;

/// A request in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// Its line, from 0.
    pub line: usize,
    /// Its bytes: whole lines without the last line end.
    pub range: Range<usize>,
    pub text: String,
    /// Byte offset of its marker.
    pub marker: usize,
    style: Style,
}

/// The style of one comment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Style {
    indent: String,
    open: &'static str,
    close: &'static str,
    /// Comment marks that the text inside must escape.
    comment_marks: Option<(&'static str, &'static str)>,
}

/// The comment syntax of a language id.
pub fn syntax(language_id: &str) -> Syntax {
    let id = language_id.to_ascii_lowercase();
    LANGUAGES.iter().find(|(ids, _)| ids.contains(&id.as_str())).map_or(ANY, |(_, syntax)| *syntax)
}

/// Every request of `text`, in order.
pub(crate) fn find_all(text: &str, language_id: &str, markers: &[String]) -> Vec<RequestLine> {
    let syntax = syntax(language_id);
    let mut found: Vec<RequestLine> = Vec::new();
    for marker in markers.iter().filter(|marker| !marker.is_empty()) {
        for (at, _) in text.match_indices(marker.as_str()) {
            found.extend(request_at(text, at, marker, &syntax));
        }
    }
    found.sort_by_key(|request| request.range.start);
    // A request inside of another is a part of it.
    let mut end = 0;
    found.retain(|request| {
        let is_separate = request.range.start >= end;
        end = end.max(request.range.end);
        is_separate
    });
    let mut line = (0, 0);
    for request in &mut found {
        let between = &text.as_bytes()[line.0..request.range.start];
        line = (request.range.start, line.1 + between.iter().filter(|byte| **byte == b'\n').count());
        request.line = line.1;
    }
    found
}

/// The request on `line` (from 0).
pub(crate) fn find_at(text: &str, language_id: &str, markers: &[String], line: usize) -> Option<RequestLine> {
    find_all(text, language_id, markers).into_iter().find(|request| request.is_on(line, text))
}

/// The request whose marker is at byte `at`; its line number is left at 0.
fn request_at(text: &str, at: usize, marker: &str, syntax: &Syntax) -> Option<RequestLine> {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = &text[start..at];
    let indent = &before[..before.len() - before.trim_start().len()];
    let opened = before[indent.len()..].trim_end();
    let content = at + marker.len();
    // The longest opening mark wins: `--[[` precedes `--`.
    let block = syntax.block.iter().filter(|(open, _)| is_decorated(opened, open, "*!-"));
    let line = syntax.line.iter().filter(|open| {
        let last = open.chars().last().unwrap_or_default();
        is_decorated(opened, open, &format!("{last}!"))
    });
    let styles = block.map(|(open, close)| (*open, *close)).chain(line.map(|open| (*open, "")));
    let own = styles.max_by_key(|(open, _)| open.len());
    let inside = || inside_block(text, start, opened, syntax).then_some(("*", ""));
    let (open, close) = own.or_else(inside)?;
    let line_end = |from: usize| text[from..].find('\n').map_or(text.len(), |end| from + end);
    let (end, words) = if close.is_empty() {
        let end = line_end(content);
        (end, text[content..end].trim().to_owned())
    } else {
        let closed = content + text[content..].find(close)?;
        let end = line_end(closed);
        let inside = &text[content..closed];
        let alone = text[closed + close.len()..end].trim().is_empty();
        if !alone || inside.matches('\n').count() >= MAX_BLOCK_LINES {
            return None;
        }
        let lines = inside.lines().map(|line| line.trim().trim_start_matches('*').trim());
        (end, lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" "))
    };
    let end = if text[..end].ends_with('\r') { end - 1 } else { end };
    if words.is_empty() {
        return None;
    }
    let comment_marks = match close {
        "" if open == "*" => Some(C_BLOCK),
        "" => None,
        "*/}" => Some(C_BLOCK),
        _ => Some((open, close)),
    };
    // The answer would remove the end of the comment.
    if open == "*" && words.contains(C_BLOCK.1) {
        return None;
    }
    let style = Style { indent: indent.to_owned(), open, close, comment_marks };
    Some(RequestLine { line: 0, range: start..end, text: words, marker: at, style })
}

/// Whether the line at `start` with `opened` continues a block comment.
fn inside_block(text: &str, start: usize, opened: &str, syntax: &Syntax) -> bool {
    let stars = !opened.is_empty() && opened.bytes().all(|byte| byte == b'*');
    if !stars || !syntax.block.contains(&C_BLOCK) {
        return false;
    }
    let begun = text[..start].rfind(C_BLOCK.0);
    begun.is_some_and(|begun| !text[begun + C_BLOCK.0.len()..start].contains(C_BLOCK.1))
}

/// Whether `opened` is `open` with more comment characters, as in `///`.
fn is_decorated(opened: &str, open: &str, more: &str) -> bool {
    opened.strip_prefix(open).is_some_and(|rest| rest.chars().all(|c| more.contains(c) || c.is_whitespace()))
}

/// A request comment, split at the place where the user continues typing.
///
/// `None` if the language has no comments.
pub(crate) fn write_comment(
    language_id: &str,
    indent: &str,
    marker: &str,
    text: &str,
) -> Option<(String, String)> {
    let syntax = syntax(language_id);
    let (open, close) = match (syntax.line.first(), syntax.block.first()) {
        (Some(open), _) => (*open, String::new()),
        (None, Some((open, close))) => (*open, format!(" {close}")),
        (None, None) => return None,
    };
    Some((format!("{indent}{open} {marker} {text}"), close))
}

impl RequestLine {
    /// Whether one of its lines in `text` is `line`, from 0.
    pub fn is_on(&self, line: usize, text: &str) -> bool {
        let lines = text[self.range.clone()].matches('\n').count();
        (self.line..=self.line + lines).contains(&line)
    }

    /// The request after its lines moved to `line` and `range`.
    pub fn moved(&self, line: usize, range: Range<usize>) -> Self {
        let marker = range.start + (self.marker - self.range.start);
        Self { line, range, marker, text: self.text.clone(), style: self.style.clone() }
    }

    /// An answer as a comment in the style of the request, without the last line end.
    ///
    /// `None` if it is empty or too long.
    pub(crate) fn render_answer(&self, answer: &str, line_end: &str) -> Option<String> {
        let answer = answer.trim();
        if answer.is_empty() || answer.lines().count() > MAX_ANSWER_LINES {
            return None;
        }
        let Style { indent, open, close, comment_marks } = &self.style;
        let lines = answer.lines().map(|line| {
            let line = comment_marks
                .map_or_else(|| line.to_owned(), |(open, close)| escape_marks(line, open, close));
            let close = if close.is_empty() { String::new() } else { format!(" {close}") };
            format!("{indent}{open} {}{close}", line.trim_end()).trim_end().to_owned()
        });
        Some(lines.collect::<Vec<_>>().join(line_end))
    }
}

/// Escapes comment marks in a line by inserting spaces.
fn escape_marks(line: &str, open: &str, close: &str) -> String {
    let apart = |mark: &str| mark.chars().map(String::from).collect::<Vec<_>>().join(" ");
    line.replace(close, &apart(close)).replace(open, &apart(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markers() -> Vec<String> {
        vec!["¶".to_owned(), "pilcrow:".to_owned()]
    }

    #[track_caller]
    fn check(language: &str, text: &str, expected: &[(usize, &str, &str)]) {
        let found = find_all(text, language, &markers());
        let shown: Vec<(usize, &str, &str)> = found
            .iter()
            .map(|request| (request.line, request.text.as_str(), &text[request.range.clone()]))
            .collect();
        assert_eq!(shown, expected, "{language}: {text:?}");
    }

    #[test]
    fn every_language_finds_the_requests_that_it_writes() {
        let mut languages = 0;
        for (ids, syntax) in LANGUAGES {
            for id in *ids {
                let Some((before, after)) = write_comment(id, "  ", "¶", "rename a to ") else {
                    assert_eq!((syntax.line.len(), syntax.block.len()), (0, 0));
                    continue;
                };
                languages += 1;
                let text = format!("one\n{before}b{after}\n  two\n");
                let found = find_all(&text, id, &markers());
                assert_eq!(found.len(), 1, "{id}: {text}");
                assert_eq!((found[0].line, found[0].text.as_str()), (1, "rename a to b"), "{id}");
                let answer = found[0].render_answer("all's well\nsecond", "\n").unwrap();
                assert_eq!(answer.lines().count(), 2, "{id}");
                assert!(answer.lines().all(|line| line.starts_with("  ")), "{id}: {answer}");
                assert_eq!(find_all(&answer, id, &markers()), [], "{id}: {answer}");
            }
        }
        assert!(languages >= 25, "{languages}");
        let ids: Vec<&str> = LANGUAGES.iter().flat_map(|(ids, _)| ids.iter().copied()).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(ids.len(), unique.len(), "a language is in the table twice");
    }

    #[test]
    fn a_request_is_a_comment_alone_on_its_line() {
        check("python", "# ¶ rename a to b\na = 1\n", &[(0, "rename a to b", "# ¶ rename a to b")]);
        check("python", "    #¶ add a test  \r\nx", &[(0, "add a test", "    #¶ add a test  ")]);
        check("python", "x\n## pilcrow: go", &[(1, "go", "## pilcrow: go")]);
        check("python", "a = 1  # ¶ no\ns = '¶'\n# the sign ¶ here\n# ¶\n#  ¶   \n", &[]);
        check("rust", "/// ¶ one\n//! ¶ two\n", &[(0, "one", "/// ¶ one"), (1, "two", "//! ¶ two")]);
        check("rust", "/* ¶ one */\nfn f() {} // ¶ no\n/* ¶ no */ fn g() {}\n", &[(0, "one", "/* ¶ one */")]);
        check(
            "html",
            "<p>\n  <!-- ¶ make a list -->\n</p>",
            &[(1, "make a list", "  <!-- ¶ make a list -->")],
        );
        check("html", "<!-- ¶ make\n  a list\n-->\nx", &[(0, "make a list", "<!-- ¶ make\n  a list\n-->")]);
        check("css", "/** ¶ one\n * two\n */", &[(0, "one two", "/** ¶ one\n * two\n */")]);
        check("c", "/*\n * ¶ one\n */\nint a\n * ¶ b;\n", &[(1, "one", " * ¶ one")]);
        check("c", "/*\n * ¶ one */\n/** x */\n * ¶ two\n", &[]);
        check("css", "/* ¶ one\n * ¶ two */", &[(0, "one ¶ two", "/* ¶ one\n * ¶ two */")]);
        check("javascriptreact", "  {/* ¶ one */}\n", &[(0, "one", "  {/* ¶ one */}")]);
        check("html", "<!-- ¶ never closed", &[]);
        check("html", "# ¶ no comment here\n", &[]);
        check("lua", "--[[ ¶ one ]]\n-- ¶ two", &[(0, "one", "--[[ ¶ one ]]"), (1, "two", "-- ¶ two")]);
        check("something-new", "// ¶ one\n; ¶ two", &[(0, "one", "// ¶ one"), (1, "two", "; ¶ two")]);
        check("plaintext", "# ¶ no\n", &[]);
        check(
            "python",
            "# ¶ one ¶ two pilcrow: three",
            &[(0, "one ¶ two pilcrow: three", "# ¶ one ¶ two pilcrow: three")],
        );
    }

    #[test]
    fn a_request_is_found_by_any_of_its_lines() {
        let text = "a\n<!-- ¶ one\ntwo -->\nb";
        let at = |line| find_at(text, "html", &markers(), line).map(|request| request.text);
        assert_eq!(
            [at(0), at(1), at(2), at(3)],
            [None, Some("one two".into()), Some("one two".into()), None]
        );
    }

    #[test]
    fn answers_are_comments_of_at_most_ten_lines() {
        let request = &find_all("  # ¶ why?\n", "python", &markers())[0];
        assert_eq!(
            request.render_answer("Because.\n\nIt is.\n", "\r\n").unwrap(),
            "  # Because.\r\n  #\r\n  # It is."
        );
        assert_eq!(request.render_answer(&"x\n".repeat(11), "\n"), None);
        assert_eq!(request.render_answer(" \n", "\n"), None);
        let request = &find_all("<!-- ¶ why? -->", "html", &markers())[0];
        assert_eq!(request.render_answer("a --> b", "\n").unwrap(), "<!-- a - - > b -->");
        let request = &find_all("/*\n * ¶ why? */\n */", "c", &markers()).len();
        assert_eq!(*request, 0);
        let request = &find_all("/*\n * ¶ why?\n */", "c", &markers())[0];
        assert_eq!(request.render_answer("a */ b\nc", "\n").unwrap(), " * a * / b\n * c");
        let request = &find_all("{/* ¶ why? */}", "typescriptreact", &markers())[0];
        assert_eq!(request.render_answer("a */ b", "\n").unwrap(), "{/* a * / b */}");
    }
}
