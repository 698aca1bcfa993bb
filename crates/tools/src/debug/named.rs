//! Tests as they stand in a text: what a line begins, what it is called, what it is within; and the name by
//! which somebody asks for one.
//!
//! Pure. What is told is as good as lines and indents tell it; where a runner can list its tests, the list decides.

use std::path::Path;

/// A language's tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tests {
    Python,
    Rust,
    Go,
    Node,
}

impl Tests {
    /// By a file's extension.
    pub(super) fn of(extension: &str) -> Option<Self> {
        Some(match extension {
            "py" => Self::Python,
            "rs" => Self::Rust,
            "go" => Self::Go,
            "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" | "jsx" | "tsx" => Self::Node,
            _ => return None,
        })
    }

    /// What stands before a name, where that is a word.
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Python => Some("def "),
            Self::Rust => Some("fn "),
            Self::Go => Some("func "),
            Self::Node => None,
        }
    }
}

/// The name of a test or a group: its pieces, with anything between them where it has parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(Vec<String>);

impl Name {
    /// For people, and to tell one from another.
    pub(super) fn shown(&self) -> String {
        self.0.join("…")
    }

    /// As a regular expression.
    pub(super) fn pattern(&self) -> String {
        self.0.iter().map(|it| escaped(it)).collect::<Vec<_>>().join(".*")
    }

    /// Whether a text may end with it.
    pub(super) fn may_end(&self, text: &str) -> bool {
        self.shown() == text || self.0.last().is_some_and(|it| text.ends_with(it.as_str()))
    }

    /// Whether it has no parameters.
    pub(super) fn is_whole(&self) -> bool {
        self.0.len() == 1
    }

    /// One within another, as it reads with `between`.
    pub(super) fn joined(&self, between: &str, inner: &Self) -> Self {
        let mut pieces = self.0.clone();
        let (first, rest) = inner.0.split_first().map_or(("", &[][..]), |(it, rest)| (it.as_str(), rest));
        pieces.last_mut().into_iter().for_each(|it| *it = format!("{it}{between}{first}"));
        pieces.extend_from_slice(rest);
        Self(pieces)
    }

    /// Whether a test of it may be called so. A name that is parameters alone says nothing.
    pub(super) fn fits(&self, text: &str) -> bool {
        if self.shown() == text {
            return true;
        }
        if self.0.iter().all(|it| it.trim().is_empty()) {
            return false;
        }
        self.values(text).is_some()
    }

    /// What stands in a text for its parameters.
    pub(super) fn values(&self, text: &str) -> Option<Vec<String>> {
        let [first, middle @ .., last] = self.0.as_slice() else {
            return self.0.first().filter(|it| *it == text).map(|_| Vec::new());
        };
        let mut rest = text.strip_prefix(first.as_str())?.strip_suffix(last.as_str())?;
        let mut values = Vec::new();
        for piece in middle {
            let (value, after) = rest.split_once(piece.as_str())?;
            values.push(value.to_owned());
            rest = after;
        }
        values.push(rest.to_owned());
        Some(values)
    }

    /// It with these for its parameters.
    pub(super) fn filled(&self, values: &mut impl Iterator<Item = String>) -> String {
        let (first, rest) = self.0.split_first().map_or(("", &[][..]), |(it, rest)| (it.as_str(), rest));
        rest.iter().fold(first.to_owned(), |text, piece| {
            format!("{text}{}{piece}", values.next().unwrap_or_default())
        })
    }
}

/// What a line begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begins {
    pub name: Name,
    /// A group of tests and none itself.
    pub group: bool,
}

/// What `lines[at]` begins: a test or a function of this name, a group of tests.
pub(super) fn begins(lines: &[&str], at: usize, language: Tests) -> Option<Begins> {
    let Some(word) = language.word() else { return javascript(lines, at) };
    let mut text = lines[at].trim_start();
    // `#[test] fn a() {`
    while language == Tests::Rust && text.starts_with("#[") {
        text = text.split_once(']')?.1.trim_start();
    }
    for before in ["pub(crate) ", "pub ", "const ", "async ", "unsafe "] {
        text = text.strip_prefix(before).unwrap_or(text);
    }
    let name = identifier(text.strip_prefix(word)?.trim_start())?;
    Some(Begins { name: Name(vec![name.to_owned()]), group: false })
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// Whether what a line begins is a test.
pub(super) fn is_test(begins: &Begins, lines: &[&str], at: usize, language: Tests) -> bool {
    let name = begins.name.0.first().map(String::as_str).unwrap_or_default();
    match language {
        Tests::Python => name.starts_with("test"),
        Tests::Go => ["Test", "Fuzz", "Example"].iter().any(|it| name.starts_with(it)),
        Tests::Node => !begins.group,
        Tests::Rust => {
            // Attributes of several lines, and what is said about it between them.
            let over = |it: &&&str| it.trim().is_empty() || it.trim_end().ends_with(['{', '}', ';']);
            let own = lines[at].trim_start();
            let above = lines[..at].iter().rev().take_while(|it| !over(it)).map(|it| it.trim_start());
            let mut attributes = std::iter::once(own).chain(above).filter(|it| it.starts_with("#["));
            attributes.any(|it| it.split("#[").skip(1).any(makes_test))
        }
    }
}

/// Whether an attribute of Rust, what follows its `#[`, makes a test: by the last of its path, `tokio::test`, also
/// where it holds under a condition. `cfg(test)` makes none.
fn makes_test(attribute: &str) -> bool {
    let path = attribute.trim_start();
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(path.len());
    let (path, rest) = path.split_at(end);
    if path == "cfg_attr" {
        let mut open = 0;
        let parts = rest.strip_prefix('(').unwrap_or_default().split(|c: char| {
            open += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && open == 0
        });
        return parts.skip(1).any(makes_test);
    }
    let name = path.rsplit("::").next().unwrap_or_default();
    ["test", "case", "quickcheck"].iter().any(|word| name.contains(word))
}

/// What a test is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Around {
    /// None where something is called that may make groups of its own.
    pub name: Option<Name>,
    /// No test itself.
    pub group: bool,
}

/// The names of what `lines[at]` is within, as far as they are known.
pub(super) fn within(lines: &[&str], at: usize, language: Tests) -> Vec<String> {
    around(lines, at, language).iter().filter_map(|it| Some(it.name.as_ref()?.shown())).collect()
}

/// What `lines[at]` is within, outermost first: classes of Python, modules of Rust, groups and tests of JavaScript.
pub(super) fn around(lines: &[&str], at: usize, language: Tests) -> Vec<Around> {
    let of = |name: &str| Around { name: Some(Name(vec![name.to_owned()])), group: true };
    const OPENERS: &[&str] = &["def ", "async def ", "if ", "else:", "try:", "with ", "for ", "while "];
    let mut least = indent(lines[at]);
    let mut found = Vec::new();
    // Blocks that ended before it, by their indents.
    let mut ended: Vec<usize> = Vec::new();
    for above in (0..at).rev() {
        let (own, text) = (indent(lines[above]), lines[above].trim_start());
        if own >= least || text.is_empty() {
            continue;
        }
        if language != Tests::Python && text.starts_with('}') {
            // `});` ends one and `} else {` begins another.
            ended.push(own);
            continue;
        }
        let opens = match language {
            Tests::Python => text.strip_prefix("class ").and_then(identifier).map(of),
            Tests::Rust => {
                let text = text.strip_prefix("pub(crate) ").or(text.strip_prefix("pub ")).unwrap_or(text);
                let name = text.strip_prefix("mod ").filter(|_| text.trim_end().ends_with('{'));
                name.and_then(identifier).map(of)
            }
            Tests::Node => match javascript(lines, above) {
                // One that was over on its own line.
                Some(_) if call_ends(lines, above, at).is_some_and(|end| end == above) => continue,
                Some(it) => Some(Around { name: Some(it.name), group: it.group }),
                None => makes_groups(text).then_some(Around { name: None, group: true }),
            },
            Tests::Go => None,
        };
        match opens {
            Some(_) if ended.last() == Some(&own) => drop(ended.pop()),
            Some(name) => {
                found.push(name);
                least = own;
                ended.clear();
            }
            // What looks like less may stand in a text of several lines.
            None if language == Tests::Python
                && text.trim_end().ends_with(':')
                && OPENERS.iter().any(|it| text.starts_with(it)) =>
            {
                least = own;
            }
            None => {}
        }
        if least == 0 {
            break;
        }
    }
    found.reverse();
    found
}

pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The test of JavaScript that a line, from 1, is in: the innermost whose call is not over before it.
pub(super) fn test_around(lines: &[&str], line: u64) -> Option<usize> {
    let rows = usize::try_from(line).unwrap_or(usize::MAX).min(lines.len());
    let row = rows.checked_sub(1)?;
    (0..rows).rev().find(|at| {
        let encloses = || match call_ends(lines, *at, row) {
            Some(end) => row <= end,
            None => indent(lines[*at]) < indent(lines[row]),
        };
        javascript(lines, *at).is_some_and(|it| !it.group) && (*at == row || encloses())
    })
}

/// Lines of a call that are read at first.
const FIRST: usize = 16;

/// The line at which the call that `lines[at]` begins ends; none where that is after the line `till`, or its
/// brackets do not tell.
fn call_ends(lines: &[&str], at: usize, till: usize) -> Option<usize> {
    // What follows a short call is not read for it: there may be thousands above one line.
    let mut read = FIRST.min(till.checked_sub(at)?);
    loop {
        let end = ends_within(lines, at, at + read, at + read == till);
        if end.is_some() || at + read == till {
            return end;
        }
        read = (2 * read).min(till - at);
    }
}

/// The same where only the lines up to `till` are read; `last` when none come after them.
fn ends_within(lines: &[&str], at: usize, till: usize, last: bool) -> Option<usize> {
    let text = lines.get(at..=till)?.join("\n");
    let own = call(lines, at).map_or(lines[at], |(own, _)| own);
    let text = &text[lines[at].len() - own.len()..];
    let mut from = text.find(['(', '`'])?;
    loop {
        let own = &text[from..];
        let end = from + if own.starts_with('`') { quoted(own)?.1 } else { bracket(own)? };
        // `test.each([…])(…)`, `` test.each`…`(…) ``
        let rest = text[end..].trim_start();
        if rest.is_empty() && !last {
            return None;
        }
        if !rest.starts_with('(') {
            return Some(at + text[..end].matches('\n').count());
        }
        from = text.len() - rest.len();
    }
}

/// Whether a line opens a function, or calls one with a function, that may make groups of its own: neither a
/// loop nor a condition.
fn makes_groups(text: &str) -> bool {
    const PLAIN: &[&str] = &["for", "if", "while", "else", "try", "switch", "do"];
    const LOOPS: &[&str] = &["forEach(", "map(", "for (", "flatMap("];
    let text = text.trim_end();
    let word = identifier(text).unwrap_or_default();
    let opens =
        text.ends_with('(') || (text.ends_with('{') && (text.contains("=>") || text.contains("function")));
    // A function on a line of its own belongs to a call above.
    let alone = ["(", "async (", "async(", "function (", "function(", "async function ("];
    let is_alone = text.ends_with('{') && alone.iter().any(|it| text.starts_with(it));
    // Another line began what begins with a bracket.
    !word.is_empty()
        && opens
        && !is_alone
        && !PLAIN.contains(&word)
        && !LOOPS.iter().any(|it| text.contains(it))
}

/// Heads of loops and conditions that are looked behind on one line.
const HEADS: usize = 8;

/// A line from behind the head of a loop or a condition on it, `for (…) {` and `all.forEach((it) => {`, where a
/// call stands there too.
fn behind_head(line: &str) -> &str {
    let mut line = line.trim_start();
    for _ in 0..HEADS {
        match behind_one(line) {
            Some(body) => line = body,
            None => break,
        }
    }
    line
}

/// A line from behind the first such head, where something stands there.
fn behind_one(line: &str) -> Option<&str> {
    let word = identifier(line).filter(|it| ["for", "if", "while"].contains(it));
    let behind = match word {
        Some(word) => {
            let head = line[word.len()..].trim_start();
            let head = head.strip_prefix("await").map_or(head, str::trim_start);
            bracket(head).filter(|_| head.starts_with('(')).map(|end| &head[end..])
        }
        None => {
            let call = ["forEach(", "map("].iter().filter_map(|it| line.find(it)).min();
            call.and_then(|at| line[at..].split_once("=>")).map(|(_, body)| body)
        }
    };
    let body = behind.map(|it| it.trim_start().trim_start_matches('{').trim_start());
    body.filter(|it| !it.is_empty())
}

/// `test('adds', …`, `it.only(`, `describe.each(…)('of %i', …`, over several lines too.
fn javascript(lines: &[&str], at: usize) -> Option<Begins> {
    call(lines, at).map(|(_, it)| it)
}

/// What a line begins, and the line from its call on.
fn call<'a>(lines: &[&'a str], at: usize) -> Option<(&'a str, Begins)> {
    let line = *lines.get(at)?;
    [line, behind_head(line)].into_iter().find_map(|own| Some((own, called(own, &lines[at + 1..])?)))
}

/// What a line begins whose further lines are `below`.
fn called(own: &str, below: &[&str]) -> Option<Begins> {
    /// Lines that a table of cases may have.
    const TABLE: usize = 200;
    let mut own = own.trim_start();
    for before in ["return ", "void ", "await "] {
        own = own.strip_prefix(before).unwrap_or(own);
    }
    // A test in a test of Node's, by its context.
    let context = identifier(own).filter(|it| !["test", "it", "describe", "suite"].contains(it));
    let inner = context.and_then(|it| own[it.len()..].strip_prefix('.'));
    let own = inner.filter(|it| it.starts_with("test") || it.starts_with("it(")).unwrap_or(own);
    let word = identifier(own).filter(|it| ["test", "it", "describe", "suite"].contains(it))?;
    let group = ["describe", "suite"].contains(&word);
    let mut text = own[word.len()..].to_owned();
    for line in below.iter().take(TABLE) {
        text.push('\n');
        text.push_str(line);
    }
    let mut rest = text.as_str();
    let mut cases = false;
    while let Some(after) = rest.strip_prefix('.') {
        let word = identifier(after)?;
        cases |= ["each", "for"].contains(&word);
        rest = &after[word.len()..];
        if cases || ["skipIf", "runIf"].contains(&word) {
            rest = rest.trim_start();
            rest = match rest.chars().next()? {
                '`' => &rest[quoted(rest)?.1..],
                '(' => &rest[bracket(rest)?..],
                _ => return None,
            };
        }
    }
    let rest = rest.trim_start().strip_prefix('(')?.trim_start();
    let (text, end) = quoted(rest)?;
    // `re.test('a')` is none.
    if inner.is_some() && !rest[end..].trim_start().starts_with(',') {
        return None;
    }
    let mut pieces = pieces(&text, cases, rest.starts_with('`'));
    // `'of ' + name`
    if rest[end..].trim_start().starts_with('+') {
        pieces.push(String::new());
    }
    Some(Begins { name: Name(pieces), group })
}

/// The text of a literal at the beginning, and where it ends.
fn quoted(text: &str) -> Option<(String, usize)> {
    let quote = text.chars().next().filter(|c| "'\"`".contains(*c))?;
    let mut found = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => match characters.next()?.1 {
                'n' => found.push('\n'),
                't' => found.push('\t'),
                '\n' => {}
                other => found.push(other),
            },
            _ if c == quote => return Some((found, at + 1)),
            '\n' if quote != '`' => return None,
            _ => found.push(c),
        }
    }
    None
}

/// Where the bracket at the beginning ends.
fn bracket(text: &str) -> Option<usize> {
    let (mut at, mut open) = (0, 0usize);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '/' if text[at..].starts_with("//") => at += text[at..].find('\n')? - c.len_utf8(),
            '/' if text[at..].starts_with("/*") => at += text[at..].find("*/")?,
            '\'' | '"' | '`' => at += quoted(&text[at..])?.1 - c.len_utf8(),
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => {
                open = open.checked_sub(1)?;
                if open == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    None
}

/// A title between what is put into it: `%i` and `$name` of cases, `${…}` of a template.
fn pieces(title: &str, cases: bool, template: bool) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut rest = title;
    while let Some(c) = rest.chars().next() {
        let word = |text: &str| identifier(text).map_or(0, str::len);
        let skipped = match c {
            '$' if template && rest[1..].starts_with('{') => rest.find('}').map(|it| it + 1),
            '%' if cases && rest[1..].starts_with('%') => {
                rest = &rest[1..];
                None
            }
            '%' if cases => rest[1..].chars().next().filter(|c| "sdifjopc#$".contains(*c)).map(|_| 2),
            '$' if cases && rest[1..].starts_with('#') => Some(2),
            '$' if cases && word(&rest[1..]) > 0 => {
                let mut end = 1 + word(&rest[1..]);
                while rest[end..].starts_with('.') && word(&rest[end + 1..]) > 0 {
                    end += 1 + word(&rest[end + 1..]);
                }
                Some(end)
            }
            _ => None,
        };
        match skipped {
            Some(end) => {
                pieces.push(String::new());
                rest = &rest[end..];
            }
            None => {
                pieces.last_mut().into_iter().for_each(|it| it.push(c));
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    pieces
}

/// A text as a regular expression.
pub(super) fn escaped(text: &str) -> String {
    let special = |c: char| "\\^$.|?*+()[]{}/".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// What somebody asks for, as they and the runners write it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// All of it, which is what a test of JavaScript is called.
    pub text: String,
    /// `tests/test_a.py`, where it begins with a file.
    pub file: Option<String>,
    /// Classes or modules, outermost first.
    pub within: Vec<String>,
    /// The function.
    pub name: String,
    /// `[2-x]` of pytest, `/two` of Go: which of the cases.
    pub case: String,
}

impl Asked {
    /// `Class::name`, `module::name`, `Class.name[2-x]`, `TestAdd/two`, `tests/test_a.py::Class::name`, `name`.
    pub(super) fn read(text: &str) -> Self {
        let mut asked = Self { text: text.to_owned(), ..Self::default() };
        let mut rest = text;
        if let Some((file, after)) = rest.split_once(".py::") {
            asked.file = Some(format!("{file}.py"));
            rest = after;
        }
        let cases = match rest.find(['[', '/']) {
            Some(at) if rest[at..].starts_with('[') && rest.ends_with(']') => Some(at),
            Some(at) if rest[at..].starts_with('/') && asked.file.is_none() => Some(at),
            _ => None,
        };
        if let Some(at) = cases.filter(|at| !rest[..*at].contains(' ')) {
            asked.case = rest[at..].to_owned();
            rest = &rest[..at];
        }
        if !rest.contains(' ') {
            asked.within = rest.split("::").flat_map(|it| it.split('.')).map(str::to_owned).collect();
        }
        asked.name = asked.within.pop().unwrap_or_else(|| rest.to_owned());
        asked
    }

    /// The same where the last is one of the cases of the one before: `adds::case_2` of Rust.
    pub(super) fn of_cases(&self) -> Option<Self> {
        let mut other = self.clone();
        other.name = other.within.pop()?;
        other.case = format!("::{}", self.name);
        Some(other)
    }

    /// Whether it may mean a test of this file: what it says of the file is the end of the file's path.
    pub(super) fn may_be_of(&self, path: &Path) -> bool {
        let asked = self.file.as_deref().map(|it| it.strip_prefix("./").unwrap_or(it));
        asked.is_none_or(|it| path.ends_with(it))
    }

    /// Whether it may mean what is within these.
    pub(super) fn may_be_in(&self, within: &[String]) -> bool {
        self.within.iter().rev().zip(within.iter().rev()).all(|(asked, is)| asked == is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str, language: Tests) -> String {
        let lines: Vec<&str> = text.lines().collect();
        begins(&lines, 0, language).map(|it| it.name.shown()).unwrap_or_default()
    }

    #[test]
    fn a_test_is_known_by_its_first_line() {
        assert_eq!(named("    async def test_a(self):", Tests::Python), "test_a");
        assert_eq!(named("    pub fn adds() {", Tests::Rust), "adds");
        assert_eq!(named("#[test] fn adds() {", Tests::Rust), "adds");
        assert_eq!(named("func TestAdd(t *testing.T) {", Tests::Go), "TestAdd");
        assert_eq!(named("x = 1", Tests::Python), "");
        for (text, name) in [
            ("test('adds up (twice)', () => {", "adds up (twice)"),
            ("  it(\"works\", async () => {", "works"),
            (r"test('it\'s one', () => {", "it's one"),
            ("test(\n  \"on its own line\",\n  () => {", "on its own line"),
            ("it.only(`so`, () => {", "so"),
            ("await t.test('inner', () => {", "inner"),
            ("test.skipIf(process.platform === 'win32')('here', () => {", "here"),
            (
                "test.each([\n  [1, ')'],\n  [2, 2],\n])('of %i is %s (100%%)', (a, b) => {",
                "of … is … (100%)",
            ),
            ("it.each`\n  a | b\n  ${1} | ${2}\n`('$a of $b.deep', ({ a, b }) => {", "… of …"),
            ("test(`of ${name}`, () => {", "of …"),
            ("test('of ' + name, () => {", "of …"),
            ("return ctx.test('inner', async (c) => {", "inner"),
            ("pattern.test('inner')", ""),
            ("test.todo('later');", "later"),
            ("testing('no', 1)", ""),
            ("test(name, () => {", ""),
            ("for (const k of [')', '2']) it(`case ${k}`, () => {", "case …"),
            ("  for await (const k of all()) { test(`case ${k}`, () => {", "case …"),
            ("if (linux) for (const k of all) it('one', () => {", "one"),
            ("['a', 'b'].forEach((k) => it(`of ${k}`, () => {", "of …"),
            ("it('sums', () => [1].map((x) => it('inner', () => {", "sums"),
            ("for (const k of [1]) {", ""),
        ] {
            assert_eq!(named(text, Tests::Node), name, "{text}");
        }
    }

    #[test]
    fn a_line_of_many_loops_is_read_to_its_end() {
        assert_eq!(named(&"all.map(x=>".repeat(100_000), Tests::Node), "");
        assert_eq!(named("a.map(x => b.map(y => test(`of ${x}`, () => {", Tests::Node), "of …");
    }

    #[test]
    fn one_of_the_cases_is_known_by_their_title() {
        let name = Name(pieces("add(%i, %i) -> %i", true, false));
        assert!(name.fits("add(1, 2) -> 3") && name.fits("add(…, …) -> …") && !name.fits("sub(1, 2) -> 3"));
        assert_eq!(name.pattern(), "add\\(.*, .*\\) -> .*");
        assert!(Name(vec!["a".to_owned()]).fits("a") && !Name(vec!["a".to_owned()]).fits("aa"));
        assert_eq!(name.values("add(1, 2) -> 3").unwrap(), ["1", "2", "3"]);
        assert_eq!(name.filled(&mut ["1".to_owned(), "2".to_owned()].into_iter()), "add(1, 2) -> ");
        // One that is nothing else fits no name in particular.
        for title in ["%s", "$a $b"] {
            let name = Name(pieces(title, true, false));
            assert!(!name.fits("x y") && name.fits(&name.shown()), "{title}");
        }
    }

    #[test]
    fn a_test_of_rust_has_an_attribute_that_says_so() {
        let check = |text: &str, is: bool| {
            let lines: Vec<&str> = text.lines().collect();
            let at = lines.len() - 1;
            assert_eq!(
                is_test(&begins(&lines, at, Tests::Rust).unwrap(), &lines, at, Tests::Rust),
                is,
                "{text}"
            );
        };
        check("#[test]\n#[should_panic(\n    expected = \"x\"\n)]\n/// Says so.\nfn a() {", true);
        check("#[rstest]\n#[case(1)]\nfn a(#[case] n: i32) {", true);
        check("#[tokio::test]\nasync fn a() {", true);
        check("#[test]\nfn a() {}\nfn b() {", false);
        check("/// No test.\n#[inline]\nfn b() {", false);
        check("#[cfg(test)]\nfn b() {", false);
        check("#[cfg(test)] fn b() {", false);
        check("#[cfg(test)] #[test] fn b() {", true);
        check("#[cfg_attr(not(any(a, b)), ignore, test)]\nfn b() {", true);
        check("#[cfg_attr(test, inline)]\nfn b() {", false);
        check("#[allow(unused, reason = \"only a test uses it\")]\nfn b() {", false);
    }

    #[test]
    fn what_a_test_is_within_is_known_by_indents() {
        let check = |text: &str, language: Tests, expected: &[&str]| {
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(within(&lines, lines.len() - 1, language), expected, "{text}");
        };
        let text = "class TestA(TestCase):\n    def test_text(self):\n        x = '''\nif so\n'''\n\n    class TestB:\n        def test_a(self):";
        check(text, Tests::Python, &["TestA", "TestB"]);
        check("class A:\n    def f(self): ...\ndef test_b():", Tests::Python, &[]);
        check("class A:\n    x = 1\nif so:\n    def test_b():", Tests::Python, &[]);
        let text = "mod a {\n    fn x() {}\n}\n\n#[cfg(test)]\nmod tests {\n    mod deep {\n        #[test]\n        fn b() {";
        check(text, Tests::Rust, &["tests", "deep"]);
        check("mod a {\n    fn x() {}\n}\nproptest! {\n    fn b() {", Tests::Rust, &[]);
        let text = "describe('cart', () => {\n  describe('empty', () => {\n    test('x', () => {});\n  });\n\n  describe('full', () => {\n    test('adds', () => {";
        check(text, Tests::Node, &["cart", "full"]);
        let text =
            "test('outer', async (t) => {\n  for (const n of [1]) {\n    await t.test('inner', () => {";
        check(text, Tests::Node, &["outer"]);
        let text = "test('one', () => {});\nfor (const n of [1]) {\n  test('x', () => {";
        check(text, Tests::Node, &[]);
        let text = "function all(make) {\n  test('x', () => {";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(around(&lines, 1, Tests::Node), [Around { name: None, group: true }]);
        let text = "describe.each([\n  [1],\n])('of %i', (n) => {\n  test('x', () => {";
        check(text, Tests::Node, &["of …"]);
        let text = "for (const n of [1]) describe(`of ${n}`, () => {\n  test('x', () => {";
        check(text, Tests::Node, &["of …"]);
        let text = "describe(\n  'cart',\n  () => {\n    test('x', () => {";
        check(text, Tests::Node, &["cart"]);
    }

    #[test]
    fn a_line_is_in_the_test_whose_call_is_not_over_before_it() {
        let text = "test('outer', async (t) => {\n  await t.test('inner', () => { // don't\n    f(')');\n  });\n  \
                    assert(1);\n});\ntest.each`\n  a\n  ${f(1)}\n`('$a', () => {\n  g();\n});\nfunction f() {\n  h();\n}\n";
        let lines: Vec<&str> = text.lines().collect();
        let expected = [Some(0), Some(1), Some(1), Some(1), Some(0), Some(0)];
        for (at, expected) in expected.into_iter().enumerate() {
            assert_eq!(test_around(&lines, at as u64 + 1), expected, "{}", lines[at]);
        }
        assert_eq!(test_around(&lines, 11), Some(6));
        assert_eq!(test_around(&lines, 14), None);
        // Of any length, with its words on the line after its table.
        for rows in 0..40 {
            let table = "  [1, 2],\n".repeat(rows);
            let text = format!("test.each([\n{table}])\n('of %i', () => {{\n  f();\n}});\ng();\n");
            let lines: Vec<&str> = text.lines().collect();
            let around =
                |text: &str| test_around(&lines, 1 + lines.iter().position(|it| *it == text).unwrap() as u64);
            assert_eq!((around("  f();"), around("g();")), (Some(0), None), "{rows}");
        }
    }

    #[test]
    fn a_line_below_very_many_tests_is_in_none_of_them() {
        let text = "test('a', () => {\n  f();\n});\n".repeat(50_000) + "g();\n";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(test_around(&lines, lines.len() as u64), None);
    }

    #[test]
    fn what_is_asked_for_is_read_as_runners_write_it() {
        let check = |text: &str, file: Option<&str>, within: &[&str], name: &str, case: &str| {
            let asked = Asked::read(text);
            assert_eq!(asked.file.as_deref(), file, "{text}");
            assert_eq!(asked.within, within, "{text}");
            assert_eq!((asked.name.as_str(), asked.case.as_str()), (name, case), "{text}");
        };
        check("Cart::test_a", None, &["Cart"], "test_a", "");
        check("test_sum.TestSum.test_sum", None, &["test_sum", "TestSum"], "test_sum", "");
        check(
            "t/test_a.py::TestB::test_c[1.5-x::y]",
            Some("t/test_a.py"),
            &["TestB"],
            "test_c",
            "[1.5-x::y]",
        );
        check("TestAdd/two_and.two", None, &[], "TestAdd", "/two_and.two");
        check("adds 1.5 [up]", None, &[], "adds 1.5 [up]", "");
        let asked = Asked::read("tests::adds::case_2").of_cases().unwrap();
        assert_eq!((asked.name.as_str(), asked.case.as_str()), ("adds", "::case_2"));
        let within = ["a".to_owned(), "tests".to_owned()];
        for (text, is) in [("x", true), ("tests::x", true), ("a::tests::x", true), ("b::tests::x", false)] {
            assert_eq!(Asked::read(text).may_be_in(&within), is, "{text}");
        }
        let path = Path::new("/p/sub/tests/test_a.py");
        for (text, is) in [
            ("test_x", true),
            ("tests/test_a.py::test_x", true),
            ("./sub/tests/test_a.py::test_x", true),
            ("/p/sub/tests/test_a.py::test_x", true),
            ("test/test_a.py::test_x", false),
            ("st_a.py::test_x", false),
        ] {
            assert_eq!(Asked::read(text).may_be_of(path), is, "{text}");
        }
        assert!(!Asked::read("b.py::B::c").of_cases().unwrap().may_be_of(path));
    }
}
