//! The planner's grammar: from an English sentence to a job.
//!
//! Pure. It rejects sentences that it does not understand. Backticks or quotes may enclose names; a quoted
//! name may contain spaces. Case does not matter.

/// A job that needs no model, parsed from a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// `rename A to B [in FILE]`
    Rename {
        /// The symbol, perhaps as a name path: `Class.method`.
        symbol: String,
        new_name: String,
        /// Place of the symbol, if the prompt names one.
        place: Place,
    },
    /// `move FILE to FILE`
    MoveFile { from: String, to: String },
    /// A query such as `find references of A` or `symbols in FILE`.
    Find {
        /// Action of the tool `lsp`.
        action: &'static str,
        symbol: String,
        /// Place of the symbol, if the prompt names one.
        place: Place,
    },
    /// `organize imports in FILE`, `format FILE`
    Tidy {
        /// Action of the tool `lsp`.
        action: &'static str,
        file: String,
    },
    /// `fix all diagnostics [of KIND] [in FILE[:LINE]]`
    Fix {
        /// A diagnostic's code, its tool, or `errors`; all without one.
        kind: Option<String>,
        /// A file or line; else the whole project.
        place: Place,
    },
    /// `explain the diagnostics [in FILE]`
    Diagnostics {
        /// A file; `None` for all files.
        file: Option<String>,
    },
    /// `debug FILE stopping at FILE:LINE [and show EXPR]`
    Debug {
        program: String,
        /// Place to stop at; has a file and a line.
        stop: Place,
        /// Expression to show at the stop.
        show: Option<String>,
    },
    /// `run test NAME [in FILE[:LINE]] under the debugger`
    ///
    /// A file alone means its first failing test: `debug the failing test in FILE`.
    Test { name: Option<String>, place: Place },
    /// `show values of EXPR at FILE:LINE [running FILE]`
    Probe {
        expression: String,
        /// Has a file and a line.
        at: Place,
        /// The program to run, by default the file itself.
        program: Option<String>,
    },
    /// `run the tests`
    RunTests,
    /// `undo`
    Undo,
    /// `redo`
    Redo,
}

impl Job {
    /// The symbol that it is about.
    pub fn symbol(&self) -> Option<&str> {
        match self {
            Self::Rename { symbol, .. } | Self::Find { symbol, .. } => Some(symbol),
            _ => None,
        }
    }
}

/// A file and perhaps a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Path as the user wrote it.
    pub file: Option<String>,
    /// Line (1-based).
    pub line: Option<u64>,
}

/// Glob of all files, for `format everything`.
pub(super) const EVERYTHING: &str = "**";

/// All sentences of the grammar, each with words that users write for it.
const SENTENCES: [(&str, &str); 24] = [
    ("rename A to B [in FILE[:LINE]]", ""),
    ("rename file FILE to FILE", ""),
    ("move FILE to FILE", ""),
    ("find references of A [in FILE[:LINE]]", "usage usages used"),
    ("find the definition of A [in FILE[:LINE]]", ""),
    ("find implementations, subtypes, supertypes or the type of A [in FILE[:LINE]]", ""),
    ("who calls A, what does A call [in FILE[:LINE]]", "callers"),
    ("describe A [in FILE[:LINE]]", "documentation explain"),
    ("what does A do, how does A work [in FILE[:LINE]]", ""),
    ("list symbols in FILE", ""),
    ("find class A", ""),
    ("organize imports in FILE", "unused"),
    ("format FILE", "beautify indent prettify reformat"),
    ("format everything", "beautify indent prettify reformat"),
    ("explain the diagnostics [in FILE]", "errors warnings"),
    ("check FILE", "bug bugs wrong broken lint"),
    ("fix all diagnostics [of KIND] [in FILE[:LINE]]", "errors warnings"),
    ("debug FILE stopping at FILE:LINE [and show EXPR]", "breakpoint"),
    ("run test NAME [in FILE[:LINE]] under the debugger", ""),
    ("debug the failing test in FILE", ""),
    ("show values of EXPR at FILE:LINE [running FILE]", ""),
    ("run the tests", ""),
    ("undo", "revert"),
    ("redo", ""),
];

/// Renders the help text: a sentence a line.
pub fn help() -> String {
    SENTENCES.map(|(sentence, _)| sentence).join("\n")
}

/// Words that do not distinguish requests.
const COMMON: [&str; 11] =
    ["the", "and", "for", "with", "does", "what", "file", "find", "this", "that", "everything"];

/// Finds the sentence that shares most words with a prompt.
///
/// It gets the file of the prompt. A misspelled word counts too. `None` if no sentence shares any.
pub fn nearest(prompt: &str) -> Option<String> {
    let split = |text: &str| -> Vec<String> {
        let words = text.split(|character: char| !character.is_alphanumeric());
        words.filter(|word| word.len() > 2).map(str::to_owned).collect()
    };
    let said = split(&prompt.to_lowercase());
    let is_said = |word: &&String| {
        said.contains(word)
            || word.len() > 4 && said.iter().any(|it| it.len() > 4 && strsim::osa_distance(it, word) == 1)
    };
    let shared = |(sentence, others): &(&str, &str)| {
        let words = split(&format!("{sentence} {others}"));
        // Words in capitals stand for others.
        let words = words.iter().filter(|word| word.chars().any(char::is_lowercase));
        words.filter(|word| !COMMON.contains(&word.as_str())).filter(is_said).count()
    };
    let best = SENTENCES.iter().rev().max_by_key(|it| shared(it)).filter(|it| shared(it) > 0)?.0;
    let is_file = |word: &&str| word.contains(['.', '/']);
    let trimmed =
        prompt.split_whitespace().map(|word| word.trim_matches(['`', '"', '\'', ',', '.', '?', '!']));
    Some(match trimmed.into_iter().find(is_file) {
        Some(file) => best
            .replace("[in FILE[:LINE]]", &format!("in {file}"))
            .replace("[in FILE]", &format!("in {file}"))
            .replacen("FILE", file, 1),
        None => best.to_owned(),
    })
}

/// Parses a prompt; `None` if it is not in the grammar.
pub fn parse(prompt: &str) -> Option<Job> {
    let mut words = words(prompt)?;
    let is_short = |word: &Word| !word.quoted && ["what's", "where's"].contains(&&*word.text.to_lowercase());
    if let Some(at) = words.iter().position(is_short) {
        // `where's A`
        let question = words[at].text.len() - 2;
        words[at].text.truncate(question);
        words.insert(at + 1, Word { text: "is".to_owned(), quoted: false });
    }
    let mut cursor = Cursor { words: &words, at: 0 };
    let job = cursor.job()?;
    // Reject a sentence with words that were not understood.
    cursor.skip(&["please", "now", "everywhere", "for", "me", "thanks", "thank", "you"]);
    (cursor.at == words.len()).then_some(job)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    quoted: bool,
}

/// Splits at spaces; a quoted run is one word. `None` if a quote is not closed.
fn words(prompt: &str) -> Option<Vec<Word>> {
    let mut out = Vec::new();
    let mut rest = prompt.trim();
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|c| matches!(c, '`' | '"' | '\''));
        let (text, after) = match quote {
            Some(quote) => {
                let end = rest[1..].find(quote)? + 1;
                let after = &rest[end + 1..];
                // Only a line number such as `:12` may follow a closing quote.
                let tail = after.find(char::is_whitespace).map_or(after, |at| &after[..at]);
                let line_number =
                    if tail.starts_with(':') { tail.trim_end_matches(['.', ',', '!', '?']) } else { "" };
                (format!("{}{line_number}", &rest[1..end]), &after[tail.len()..])
            }
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        out.push(Word { text, quoted: quote.is_some() });
        rest = after.trim_start();
    }
    // Final punctuation belongs to the sentence, not to a name.
    if let Some(last) = out.last_mut()
        && !last.quoted
    {
        last.text = last.text.trim_end_matches(['.', '!', '?']).to_owned();
        if last.text.is_empty() {
            out.pop();
        }
    }
    Some(out)
}

struct Cursor<'a> {
    words: &'a [Word],
    at: usize,
}

impl Cursor<'_> {
    fn job(&mut self) -> Option<Job> {
        self.skip(&[
            "hi", "hey", "hello", "please", "kindly", "can", "could", "would", "will", "you", "now", "just",
        ]);
        self.skip(&["i", "want", "would", "like", "you", "to", "please", "help", "me"]);
        if self.take(&["rename"]) {
            if let Some(job) = self.rename_file() {
                return Some(job);
            }
            self.noun();
            let symbol = self.name()?;
            let place = self.place_before_name()?;
            // As on the command line, two names suffice.
            let is_last = self.at + 1 == self.words.len() && !self.words[self.at].quoted;
            if !is_last || self.is_next("to") {
                self.expect(&["to", "as", "into"])?;
            }
            let new_name = self.name()?;
            // No symbol is called like a path.
            if new_name.contains(['/', '.']) {
                return Some(Job::MoveFile { from: symbol, to: new_name });
            }
            self.skip(&["everywhere"]);
            return Some(Job::Rename { symbol, new_name, place: self.place_or(place)? });
        }
        if self.take(&["change"]) {
            self.skip(&["the"]);
            self.expect(&["name"])?;
            self.expect(&["of"])?;
            self.noun();
            let symbol = self.name()?;
            let place = self.place_before_name()?;
            self.expect(&["to", "into"])?;
            return Some(Job::Rename { symbol, new_name: self.name()?, place: self.place_or(place)? });
        }
        if self.take(&["move"]) {
            self.skip(&["the", "file", "module"]);
            let from = self.name()?;
            self.expect(&["to", "into"])?;
            return Some(Job::MoveFile { from, to: self.name()? });
        }
        if self.take(&["mv"]) {
            return Some(Job::MoveFile { from: self.name()?, to: self.name()? });
        }
        if self.take(&["organize", "organise", "sort"]) {
            self.skip(&["the", "all"]);
            self.expect(&["imports", "import"])?;
            self.expect(&["in", "of"])?;
            self.skip(&["the", "file"]);
            return Some(Job::Tidy { action: "organize_imports", file: self.name()? });
        }
        if self.take(&["format", "reformat"]) {
            let start = self.at;
            self.skip(&["all", "the", "my"]);
            if self.at + 1 == self.words.len() && self.take(&["everything", "files", "code", "project"]) {
                return Some(Job::Tidy { action: "format", file: EVERYTHING.to_owned() });
            }
            self.at = start;
            self.skip(&["the"]);
            if self.take(&["code"]) {
                self.expect(&["in"])?;
            }
            self.skip(&["the", "file"]);
            return Some(Job::Tidy { action: "format", file: self.name()? });
        }
        if self.take(&["undo", "revert"]) {
            self.skip(&["that", "it", "the", "my", "last", "run", "rename", "edit", "change", "changes"]);
            return Some(Job::Undo);
        }
        if self.take(&["redo"]) {
            self.skip(&["that", "it", "the", "last", "undo", "change", "changes"]);
            return Some(Job::Redo);
        }
        if self.take(&["fix"]) {
            return self.fix_imports().or_else(|| self.fix());
        }
        if self.take(&["debug"]) {
            return self.debug();
        }
        let start = self.at;
        if self.take(&["run"]) {
            self.skip(&["all", "the", "my"]);
            let has_suite = self.is_next("test")
                && self.words.get(self.at + 1).is_some_and(|word| word.text.eq_ignore_ascii_case("suite"));
            if has_suite {
                self.at += 2;
            }
            if has_suite || self.take(&["tests"]) {
                return Some(Job::RunTests);
            }
        }
        self.at = start;
        if let Some(job) = self.test().or_else(|| {
            self.at = start;
            self.probe()
        }) {
            return Some(job);
        }
        self.at = start;
        if let Some(job) = self.calls() {
            return Some(job);
        }
        if self.take(&["describe"]) {
            return self.hover();
        }
        let start = self.at;
        if self.take(&["what"]) && self.take(&["is"]) && self.take(&["wrong", "broken"]) {
            self.expect(&["with", "in"])?;
            self.skip(&["the", "file"]);
            return Some(Job::Diagnostics { file: Some(self.file()?) });
        }
        self.at = start;
        if let Some(job) = self.question() {
            return Some(job);
        }
        self.at = start;
        if self.take(&["check"]) {
            self.skip(&["the", "file"]);
            return Some(Job::Diagnostics { file: Some(self.file()?) });
        }
        if self.take(&["find", "search"]) {
            return self.search();
        }
        let is_question = self.take(&["what"]) && self.take(&["is"]);
        if is_question || self.take(&["explain"]) {
            return self.hover();
        }
        None
    }

    /// Parses `A [in FILE[:LINE]]` after a request to describe it.
    fn hover(&mut self) -> Option<Job> {
        let has_article = self.is_next("the") || self.is_next("a");
        let start = self.at;
        self.skip(&["a"]);
        self.noun();
        // `the function parse` is a symbol; `the plan` is not.
        if has_article && self.at < start + 2 {
            return None;
        }
        let symbol = self.name()?;
        Some(Job::Find { action: "hover", symbol, place: self.place()? })
    }

    /// Parses `[for] [the] class A` after `find`: a symbol anywhere.
    fn search(&mut self) -> Option<Job> {
        self.skip(&["for", "the"]);
        let start = self.at;
        self.noun();
        // `find bugs` and `find type errors` name no symbol.
        if self.at == start || self.words[self.at - 1].text.eq_ignore_ascii_case("type") {
            return None;
        }
        Some(Job::Find { action: "symbols", symbol: self.name()?, place: Place::default() })
    }

    /// A file; a plain word names none.
    fn file(&mut self) -> Option<String> {
        let is_quoted = self.words.get(self.at)?.quoted;
        self.name().filter(|name| is_quoted || name.contains(['.', '/']))
    }

    /// Parses `who calls A`, `what does A call` and `how does A work`.
    ///
    /// Does not advance otherwise.
    fn calls(&mut self) -> Option<Job> {
        let start = self.at;
        let mut read = || {
            let verbs = ["calls", "uses", "implements", "extends"];
            if self.take(&["who", "what"]) && self.take(&verbs) {
                let action = match self.words[self.at - 1].text.to_lowercase().as_str() {
                    "calls" => "callers",
                    "uses" => "references",
                    "implements" => "implementation",
                    _ => "subtypes",
                };
                self.noun();
                let symbol = self.name()?;
                return Some(Job::Find { action, symbol, place: self.place()? });
            }
            self.at = start;
            let works = self.take(&["how"]);
            if !works {
                self.expect(&["what"])?;
            }
            self.expect(&["does"])?;
            let has_article = self.is_next("the");
            self.noun();
            // `the code` is not a symbol; `the function parse` and `parse` are.
            let is_named = !has_article || self.at > start + 3;
            let symbol = self.name()?;
            if works {
                self.expect(&["work"])?;
                return is_named.then_some(Job::Find { action: "hover", symbol, place: self.place()? });
            }
            let action = if is_named && self.take(&["do"]) { "hover" } else { "callees" };
            if action == "callees" {
                self.expect(&["call"])?;
            }
            Some(Job::Find { action, symbol, place: self.place()? })
        };
        let job = read();
        if job.is_none() {
            self.at = start;
        }
        job
    }

    /// Parses the rest after `debug`.
    ///
    /// The expression extends to the end of the sentence.
    fn debug(&mut self) -> Option<Job> {
        let start = self.at;
        self.skip(&["the", "first", "failing", "failed"]);
        if self.take(&["test", "tests"]) && !self.is_next("stopping") {
            let name = if self.is_next("in") || self.is_next("of") { None } else { Some(self.name()?) };
            let place = self.place()?;
            return (name.is_some() || place.file.is_some()).then_some(Job::Test { name, place });
        }
        self.at = start;
        self.skip(&["the", "file", "program"]);
        let program = self.name()?;
        self.expect(&["stopping", "stop", "and"])?;
        self.skip(&["stop"]);
        let stop = self.place()?;
        stop.file.as_ref().and(stop.line)?;
        self.skip(&["and"]);
        let show = if self.take(&["show", "showing", "print"]) {
            self.skip(&["me"]);
            let rest: Vec<&str> = self.words[self.at..].iter().map(|word| word.text.as_str()).collect();
            self.at = self.words.len();
            Some(rest.join(" ")).filter(|rest| !rest.is_empty())?.into()
        } else {
            None
        };
        Some(Job::Debug { program, stop, show })
    }

    /// Parses `run [the] test NAME [in FILE] under the debugger`.
    fn test(&mut self) -> Option<Job> {
        self.expect(&["run"])?;
        self.skip(&["the"]);
        self.expect(&["test"])?;
        let has_no_name =
            ["in", "at"].iter().any(|it| self.words.get(self.at).is_some_and(|word| word.text == *it));
        let name = if has_no_name { None } else { Some(self.name()?) };
        let place = self.place()?;
        self.expect(&["under", "in", "with"])?;
        self.skip(&["the", "a"]);
        self.expect(&["debugger"])?;
        (name.is_some() || place.line.is_some()).then_some(Job::Test { name, place })
    }

    /// Parses `show [the] values of EXPR at FILE:LINE [running FILE]`.
    fn probe(&mut self) -> Option<Job> {
        self.expect(&["show", "print"])?;
        self.skip(&["me", "the", "all"]);
        self.expect(&["values", "value"])?;
        self.expect(&["of"])?;
        let rest = &self.words[self.at..];
        let end = rest.iter().rposition(|word| !word.quoted && word.text.eq_ignore_ascii_case("at"))?;
        let expression: Vec<&str> = rest[..end].iter().map(|word| word.text.as_str()).collect();
        let expression = Some(expression.join(" ")).filter(|it| !it.is_empty())?;
        self.at += end;
        let at = self.place()?;
        at.file.as_ref().and(at.line)?;
        let program = if self.take(&["running", "when", "while"]) {
            self.skip(&["running"]);
            Some(self.name()?)
        } else {
            None
        };
        Some(Job::Probe { expression, at, program })
    }

    /// Parses `[the] file A to B` after `rename`.
    ///
    /// Does not advance for a symbol called `file`.
    fn rename_file(&mut self) -> Option<Job> {
        let start = self.at;
        let mut read = || {
            self.skip(&["the"]);
            self.expect(&["file"])?;
            let from = self.name()?;
            self.expect(&["to", "as", "into"])?;
            Some(Job::MoveFile { from, to: self.name()? })
        };
        let job = read();
        if job.is_none() {
            self.at = start;
        }
        job
    }

    /// Parses `[the] imports in FILE` after `fix`; does not advance otherwise.
    fn fix_imports(&mut self) -> Option<Job> {
        let start = self.at;
        let mut read = || {
            self.skip(&["the", "all"]);
            self.expect(&["imports"])?;
            self.expect(&["in", "of"])?;
            self.skip(&["the", "file"]);
            Some(Job::Tidy { action: "organize_imports", file: self.name()? })
        };
        let job = read();
        if job.is_none() {
            self.at = start;
        }
        job
    }

    /// Parses the rest after `fix`.
    ///
    /// A plain word is not a kind: the user may want anything fixed.
    fn fix(&mut self) -> Option<Job> {
        let all = self.take(&["all", "every", "everything"]);
        self.skip(&["the"]);
        let noun = self.take(&["diagnostics", "diagnostic", "problems", "problem", "issues"]);
        let severity = ["errors", "error", "warnings", "warning", "hints", "hint"];
        let kind = if !noun
            && self.words.get(self.at).is_some_and(|word| severity.contains(&word.text.as_str()))
        {
            self.name()
        } else if self.words.get(self.at).is_some_and(|word| word.text.eq_ignore_ascii_case("of")) && all {
            self.at += 1;
            self.skip(&["kind", "code", "the"]);
            Some(self.name()?)
        } else if !noun && self.words.get(self.at).is_some_and(is_code) {
            self.name()
        } else {
            None
        };
        self.skip(&["diagnostics", "problems"]);
        if kind.is_none()
            && !noun
            && !(all && self.words[self.at - 1].text.eq_ignore_ascii_case("everything"))
        {
            return None;
        }
        Some(Job::Fix { kind, place: self.place()? })
    }

    /// Parses questions about symbols and diagnostics.
    fn question(&mut self) -> Option<Job> {
        let verbs = ["find", "show", "list", "explain", "what", "where", "go", "check", "get", "are", "jump"];
        let verb = self.take(&verbs);
        self.skip(&["me", "are", "is", "to", "for", "there", "any", "all", "the", "current", "every"]);
        if self.take(&["diagnostics", "diagnostic", "errors", "error", "problems", "problem", "warnings"]) {
            self.skip(&["and", "warnings", "errors"]);
            return Some(Job::Diagnostics { file: self.place()?.file });
        }
        if self.take(&["references", "reference", "usages", "uses", "users"]) {
            return self.about("references");
        }
        for (words, action) in [
            (&["definition"][..], "definition"),
            (&["declaration"], "declaration"),
            (&["implementations", "implementation", "implementers"], "implementation"),
            (&["callers", "calls"], "callers"),
            (&["callees"], "callees"),
            (&["supertypes", "bases"], "supertypes"),
            (&["subtypes", "subclasses"], "subtypes"),
            (&["type"], "type_definition"),
        ] {
            if self.take(words) {
                return self.about(action);
            }
        }
        if self.take(&["symbols", "outline"]) {
            let place = self.place()?;
            let file = if place == Place::default() { self.file()? } else { place.file? };
            return Some(Job::Find {
                action: "symbols",
                symbol: String::new(),
                place: Place { file: Some(file), line: None },
            });
        }
        // `where is A defined`, `where is A used`
        if verb && self.words.first().is_some_and(|word| word.text.eq_ignore_ascii_case("where")) {
            let article =
                self.at.checked_sub(1).is_some_and(|at| self.words[at].text.eq_ignore_ascii_case("the"));
            let start = self.at;
            self.noun();
            let is_vague = article && self.at == start;
            let symbol = self.name()?;
            let action = if self.take(&["defined", "declared"]) {
                "definition"
            } else {
                // `where is A` asks for its definition.
                let is_used = self.take(&["used", "referenced", "called"]);
                match is_used {
                    true => "references",
                    // `the bug` is not a symbol; `the class A` is.
                    false if is_vague => return None,
                    false => "definition",
                }
            };
            return Some(Job::Find { action, symbol, place: self.place()? });
        }
        None
    }

    fn about(&mut self, action: &'static str) -> Option<Job> {
        // `type errors` names no symbol.
        if !self.take(&["of", "to", "for"]) && action == "type_definition" {
            return None;
        }
        self.noun();
        let symbol = self.name()?;
        Some(Job::Find { action, symbol, place: self.place()? })
    }

    /// Parses `[in|of FILE[:LINE]]`; `None` when the word `in` has no file after it.
    fn place(&mut self) -> Option<Place> {
        if !self.take(&["in", "of", "from", "at"]) {
            return Some(Place::default());
        }
        self.skip(&["the", "file"]);
        let name = self.name()?;
        if let Some((file, line)) = name.rsplit_once(':')
            && let Ok(line) = line.parse()
        {
            return Some(Place { file: Some(file.to_owned()), line: Some(line) });
        }
        let start = self.at;
        self.skip(&["on", "at"]);
        let line = if self.take(&["line"]) { self.name().and_then(|line| line.parse().ok()) } else { None };
        if line.is_none() {
            self.at = start;
        }
        Some(Place { file: Some(name), line })
    }

    /// Parses `in FILE[:LINE]` where `to` follows: `rename A in FILE to B`.
    fn place_before_name(&mut self) -> Option<Place> {
        let is_place = ["in", "from", "at"].iter().any(|word| self.is_next(word))
            && self
                .words
                .iter()
                .skip(self.at + 2)
                .any(|word| !word.quoted && word.text.eq_ignore_ascii_case("to"));
        if is_place { self.place() } else { Some(Place::default()) }
    }

    /// Parses a place, unless an earlier one is known.
    fn place_or(&mut self, place: Place) -> Option<Place> {
        if place == Place::default() { self.place() } else { Some(place) }
    }

    /// Skips words before a name, such as `the function`.
    fn noun(&mut self) {
        self.skip(&["the"]);
        let next_is_a_name = self
            .words
            .get(self.at + 1)
            .is_some_and(|next| !["to", "as", "into", "in"].contains(&next.text.to_lowercase().as_str()));
        if next_is_a_name {
            self.skip(&[
                "function", "method", "class", "variable", "symbol", "constant", "type", "struct", "field",
            ]);
        }
    }

    fn name(&mut self) -> Option<String> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        let text = if word.quoted {
            word.text.as_str()
        } else {
            word.text.trim_end_matches(',').trim_end_matches("()")
        };
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn take(&mut self, any: &[&str]) -> bool {
        let found = self.words.get(self.at).is_some_and(|word| {
            !word.quoted
                && any.iter().any(|option| word.text.trim_end_matches(',').eq_ignore_ascii_case(option))
        });
        self.at += usize::from(found);
        found
    }

    fn is_next(&self, option: &str) -> bool {
        self.words.get(self.at).is_some_and(|word| !word.quoted && word.text.eq_ignore_ascii_case(option))
    }

    fn expect(&mut self, any: &[&str]) -> Option<()> {
        self.take(any).then_some(())
    }

    fn skip(&mut self, any: &[&str]) {
        while self.take(any) {}
    }
}

/// Whether a word is the code of a diagnostic.
///
/// A code is quoted, or not spelled like an English word.
fn is_code(word: &Word) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c == '-' || c == '.' || c == '/';
    word.quoted
        || (!word.text.chars().all(plain)
            && word.text.chars().skip(1).any(|c| c.is_ascii_digit() || c.is_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str, line: Option<u64>) -> Place {
        Place { file: Some(file.to_owned()), line }
    }

    #[track_caller]
    fn check(prompt: &str, job: impl Into<Option<Job>>) {
        assert_eq!(parse(prompt), job.into(), "{prompt}");
    }

    fn rename(symbol: &str, new_name: &str, place: Place) -> Job {
        Job::Rename { symbol: symbol.to_owned(), new_name: new_name.to_owned(), place }
    }

    #[test]
    fn rename_sentences_are_understood() {
        check("rename want_bytes to to_bytes", rename("want_bytes", "to_bytes", Place::default()));
        check("Please rename the function `a` to `b`.", rename("a", "b", Place::default()));
        check(
            "rename Class.method to other in src/a.py:12",
            rename("Class.method", "other", place("src/a.py", Some(12))),
        );
        check("rename f() to g() in \"my file.py\":3", rename("f", "g", place("my file.py", Some(3))));
        check("rename to to into", rename("to", "into", Place::default()));
        check("rename class to kind", rename("class", "kind", Place::default()));
        check("rename file to path", rename("file", "path", Place::default()));
        check("rename a", None);
        check("rename a to b and then delete everything", None);
        check("rename `a to b", None);
    }

    #[test]
    fn debug_sentences_are_understood() {
        let debug = |show: Option<&str>| Job::Debug {
            program: "app.py".into(),
            stop: place("src/a.py", Some(12)),
            show: show.map(str::to_owned),
        };
        check("debug app.py stopping at src/a.py:12", debug(None));
        check("Please debug app.py, stop at src/a.py:12 and show total", debug(Some("total")));
        check("debug `app.py` stopping at src/a.py:12 and show items[0] + 1", debug(Some("items[0] + 1")));
        check("debug app.py stopping at src/a.py", None);
        check("debug app.py stopping at src/a.py:12 and show", None);
        check("debug app.py stopping at src/a.py:12 and delete it", None);
        check("debug it", None);
    }

    #[test]
    fn lookup_sentences_are_understood() {
        let find = |action, symbol: &str, place| Job::Find { action, symbol: symbol.to_owned(), place };
        check("find references of foo", find("references", "foo", Place::default()));
        check(
            "Find all references to the function foo in a.rs",
            find("references", "foo", place("a.rs", None)),
        );
        check("show me the definition of Foo.bar", find("definition", "Foo.bar", Place::default()));
        check("where is foo defined?", find("definition", "foo", Place::default()));
        check("where is foo used in a.py", find("references", "foo", place("a.py", None)));
        check("list symbols in a.py", find("symbols", "", place("a.py", None)));
        check("describe foo", find("hover", "foo", Place::default()));
        check("what does foo do?", find("hover", "foo", Place::default()));
        check("what does the function foo do in a.py", find("hover", "foo", place("a.py", None)));
        check("what does this do in `a.py`:3", find("hover", "this", place("a.py", Some(3))));
    }

    #[test]
    fn sentences_about_calls_and_types_are_understood() {
        let find = |action, symbol: &str, place| Job::Find { action, symbol: symbol.to_owned(), place };
        check("who calls parse", find("callers", "parse", Place::default()));
        check(
            "Who calls the function Foo.parse() in a.rs:3?",
            find("callers", "Foo.parse", place("a.rs", Some(3))),
        );
        check("what does main call?", find("callees", "main", Place::default()));
        check("find callers of foo", find("callers", "foo", Place::default()));
        check(
            "find all implementations of Shape in a.ts",
            find("implementation", "Shape", place("a.ts", None)),
        );
        check("show subtypes of Shape", find("subtypes", "Shape", Place::default()));
        check("what uses foo", find("references", "foo", Place::default()));
        check("what is the type of x in a.rs:4", find("type_definition", "x", place("a.rs", Some(4))));
        check("what does the code do", None);
        check("who calls", None);
    }

    #[test]
    fn sentences_about_tests_and_values_are_understood() {
        let test = |name: Option<&str>, place| Job::Test { name: name.map(str::to_owned), place };
        check("run test test_total under the debugger", test(Some("test_total"), Place::default()));
        check(
            "Run the test 'adds up' in src/a.test.js under the debugger",
            test(Some("adds up"), place("src/a.test.js", None)),
        );
        check("run the test at a_test.go:12 under the debugger", test(None, place("a_test.go", Some(12))));
        check("debug the failing test in a_test.py", test(None, place("a_test.py", None)));
        check("debug test_total", None);
        check("debug the test test_total in a.py", test(Some("test_total"), place("a.py", None)));
        check("debug the failing test", None);
        check("run test test_total", None);
        check("run the test under the debugger", None);
        let probe = |expression: &str, program: Option<&str>| Job::Probe {
            expression: expression.to_owned(),
            at: place("src/a.py", Some(4)),
            program: program.map(str::to_owned),
        };
        check("show values of total at src/a.py:4", probe("total", None));
        check("show me the values of items[0] + n at src/a.py:4", probe("items[0] + n", None));
        check("show values of total at src/a.py:4 running main.py", probe("total", Some("main.py")));
        check("show values of total at src/a.py", None);
        check("show values of at src/a.py:4", None);
    }

    #[test]
    fn fix_sentences_are_understood() {
        let fix = |kind: Option<&str>, place| Job::Fix { kind: kind.map(str::to_owned), place };
        check("fix all diagnostics", fix(None, Place::default()));
        check("fix all diagnostics in a.py", fix(None, place("a.py", None)));
        check("fix all diagnostics of F401 in a.py", fix(Some("F401"), place("a.py", None)));
        check("fix all of kind `no-var`", fix(Some("no-var"), Place::default()));
        check("fix all errors in src/a.ts:7", fix(Some("errors"), place("src/a.ts", Some(7))));
        check("please fix reportUnusedImport in a.py", fix(Some("reportUnusedImport"), place("a.py", None)));
        check("fix everything in a.py", fix(None, place("a.py", None)));
        check("fix the problems in a.py", fix(None, place("a.py", None)));
        check("fix the bug in a.py", None);
        check("fix all bugs", None);
        check("fix it", None);
        check("fix", None);
        check("fix all diagnostics and go home", None);
    }

    #[test]
    fn file_import_and_undo_sentences_are_understood() {
        check("move src/a.py to src/b.py", Job::MoveFile { from: "src/a.py".into(), to: "src/b.py".into() });
        check("mv src/a.py lib/", Job::MoveFile { from: "src/a.py".into(), to: "lib/".into() });
        let renamed = || Job::MoveFile { from: "a.py".into(), to: "b.py".into() };
        check("rename the file a.py to b.py", renamed());
        check("rename file a.py to b.py.", renamed());
        check("Run all the tests.", Job::RunTests);
        check("redo", Job::Redo);
        check("redo the last change", Job::Redo);
        check("fix imports in a.py", Job::Tidy { action: "organize_imports", file: "a.py".into() });
        check("fix the imports", None);
        check("organize imports in a.py", Job::Tidy { action: "organize_imports", file: "a.py".into() });
        check("format 'a b.py'", Job::Tidy { action: "format", file: "a b.py".into() });
        check("explain the diagnostics in a.py", Job::Diagnostics { file: Some("a.py".into()) });
        check("explain diagnostics", Job::Diagnostics { file: None });
        check("undo the last run", Job::Undo);
        check("write me a poem", None);
        check("", None);
        check("…", None);
    }

    #[test]
    fn the_nearest_sentence_shares_most_words() {
        let nearest: Vec<String> = [
            "organize my imports please",
            "find unused imports in src/a.py",
            "renmae open_stream to open_any",
            "lint src/a.py",
            "are there bugs in a.py?",
            "move function f from a.py to b.py",
            "make it faster",
            "write a poem about a.py",
        ]
        .iter()
        .map(|prompt| nearest(prompt).unwrap_or_else(|| "-".to_owned()))
        .collect();
        expect_test::expect![[r#"
            organize imports in FILE
            organize imports in src/a.py
            rename A to B [in FILE[:LINE]]
            check src/a.py
            check a.py
            move a.py to FILE
            -
            -"#]]
        .assert_eq(&nearest.join("\n"));
    }

    #[test]
    fn every_sentence_of_the_help_is_understood() {
        let kinds = "implementations, subtypes, supertypes or the type";
        let calls = "who calls A, what does A call";
        let plain = |line: &str| line.replace(['[', ']'], "");
        let without_line = |line: &str| line.replace("[:LINE]", "");
        let without =
            |line: &str| line.split('[').map(|it| it.rsplit(']').next().unwrap()).collect::<String>();
        let mut seen = 0;
        for (line, _) in SENTENCES {
            let does = "what does A do, how does A work";
            let several = match line {
                _ if line.contains(does) => (does, vec!["what does A do", "how does A work"]),
                _ if line.contains(kinds) => {
                    (kinds, vec!["implementations", "subtypes", "supertypes", "the type"])
                }
                _ if line.contains(calls) => (calls, vec!["who calls A", "what does A call"]),
                _ => ("\n", vec![""]),
            };
            for one in several.1 {
                let line = line.replace(several.0, one);
                let brief = without_line(&line);
                for sentence in [without(&brief).trim().to_owned(), plain(&brief), plain(&line)] {
                    let examples = [
                        ("FILE", "a.py"),
                        ("LINE", "3"),
                        ("NAME", "test_a"),
                        ("KIND", "F401"),
                        ("EXPR", "x + 1"),
                    ];
                    let prompt =
                        examples.iter().fold(sentence, |text, (word, example)| text.replace(word, example));
                    let words = prompt.split(' ').map(|it| match it {
                        "A" => "greet",
                        "B" => "hail",
                        it => it,
                    });
                    let prompt = words.collect::<Vec<_>>().join(" ");
                    assert!(parse(&prompt).is_some(), "{prompt}");
                    seen += 1;
                }
            }
        }
        assert!(seen >= 3 * SENTENCES.len(), "{seen}");
    }
}
