//! What an adapter tells as its program's and is not: lines of its own, and the exit code, as it says it or as we have
//! it said by what is put before the program.
//!
//! Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::definition::Quirks;
use crate::output::Category;

/// What is put before what runs a program, where the arguments of `launch` name that.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrap {
    /// The argument that names what runs it.
    pub program: String,
    /// The argument with its first words.
    pub words: String,
    /// What runs it where nothing is named.
    pub usual: String,
    /// A program and its words, before those.
    pub with: Vec<String>,
    /// What they write to tell the program's exit code, with `${code}`: it stands behind whatever the program wrote last,
    /// and nobody is shown it.
    #[serde(default)]
    pub says: Option<String>,
    /// Only where these arguments are so.
    #[serde(default)]
    pub when: BTreeMap<String, Value>,
}

impl Wrap {
    /// The exit code that it told in a text, and the text without that.
    pub(crate) fn exit_code(&self, text: &str) -> Option<(i64, String)> {
        code_in(text, self.says.as_deref()?.split_once("${code}")?, |_| true)
    }

    /// Where a text ends with what may be the beginning of its telling the exit code; the text's length where it does
    /// not.
    pub(crate) fn begins_at(&self, text: &str) -> usize {
        let Some((before, after)) = self.says.as_deref().and_then(|it| it.split_once("${code}")) else {
            return text.len();
        };
        // With the longest number there is.
        let longest = before.len() + after.len() + 20;
        let from = text.floor_char_boundary(text.len().saturating_sub(longest));
        let may_be = |at: usize| {
            let rest = &text[at..];
            before.starts_with(rest)
                || rest.strip_prefix(before).is_some_and(|rest| {
                    let code = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
                    after.starts_with(&rest[code..])
                })
        };
        let mut places = text[from..].char_indices().map(|(at, _)| from + at);
        places.find(|at| may_be(*at)).unwrap_or(text.len())
    }

    /// Changes the arguments of a `launch`.
    pub(crate) fn apply(&self, arguments: &mut Value) {
        let Some(arguments) = arguments.as_object_mut() else { return };
        let is_so = self.when.iter().all(|(name, value)| arguments.get(name) == Some(value));
        let Some((program, with)) = self.with.split_first().filter(|_| is_so) else { return };
        let runs = arguments.insert(self.program.clone(), json!(program)).unwrap_or(json!(self.usual));
        let own = arguments.remove(&self.words).and_then(|it| it.as_array().cloned()).unwrap_or_default();
        let words = with.iter().map(|it| json!(it)).chain([runs]).chain(own).collect();
        arguments.insert(self.words.clone(), Value::Array(words));
    }
}

impl Quirks {
    /// A text that came as the program's without what is the adapter's own.
    /// Its endings are never in the program's standard output.
    pub(crate) fn without_own<'a>(&self, category: Option<Category>, text: &'a str) -> Cow<'a, str> {
        let endings: &[String] = if category == Some(Category::Stdout) { &[] } else { &self.own_endings };
        let is_own = |line: &str| self.own_lines.iter().any(|it| line.contains(it.as_str()));
        let own_from = |line: &str| endings.iter().filter_map(|it| line.find(it.as_str())).min();
        if !text.lines().any(|line| is_own(line) || own_from(line).is_some()) {
            return Cow::Borrowed(text);
        }
        let lines = text.split_inclusive('\n').filter(|line| !is_own(line));
        Cow::Owned(lines.map(|line| &line[..own_from(line).unwrap_or(line.len())]).collect())
    }

    /// The exit code that stands in a text of the adapter's own, and what else stands there.
    pub(crate) fn exit_code(&self, text: &str) -> Option<(i64, String)> {
        if let Some(found) = self.wrap.as_ref().and_then(|it| it.exit_code(text)) {
            return Some(found);
        }
        self.exit_says.iter().find_map(|says| match says.split_once("${code}") {
            Some(around) => code_in(text, around, |at| at == 0 || text[..at].ends_with('\n')),
            None => {
                // A line of its own; what a program writes about others comes with more.
                let text = Some(text.trim_end()).filter(|it| it.len() < 100 && !it.contains('\n'))?;
                let after = text.split_once(says.as_str())?.1;
                let end = after.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(after.len());
                Some((after[..end].parse().ok()?, String::new()))
            }
        })
    }
}

/// The number in a text between these two, where it begins at a place that is meant, and the text without them.
fn code_in(
    text: &str,
    (before, after): (&str, &str),
    is_meant: impl Fn(usize) -> bool,
) -> Option<(i64, String)> {
    let mut at = text.match_indices(before).map(|(at, _)| at).filter(|at| is_meant(*at));
    at.find_map(|at| {
        let (code, rest) = text[at + before.len()..].split_once(after)?;
        Some((code.parse().ok()?, format!("{}{rest}", &text[..at])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_its_own_are_told_from_the_programs() {
        let own_lines = vec!["No source file named /".to_owned(), " (-source /".to_owned()];
        let quirks = Quirks { own_lines, ..Quirks::default() };
        let own = "❌️ No source file named /p/a.c.\nBreakpoint 1 (-source /p/a.c -line 2) pending.\n";
        assert_eq!(quirks.without_own(Some(Category::Stdout), own), "");
        assert_eq!(quirks.without_own(Some(Category::Stdout), "total 3\n"), "total 3\n");
        assert_eq!(
            quirks.without_own(Some(Category::Stdout), "No source file named /p/a.c.\ntotal 3\n"),
            "total 3\n"
        );
        assert_eq!(Quirks::default().without_own(Some(Category::Stdout), "\n"), "\n");
        // Behind a line that the program did not end.
        let own_endings = vec!["Waiting for".to_owned()];
        let quirks = Quirks { own_endings, ..Quirks::default() };
        let text = "oh noWaiting for it\nWaiting for it\nmore\n";
        assert_eq!(quirks.without_own(Some(Category::Stderr), text), "oh nomore\n");
        assert_eq!(quirks.without_own(Some(Category::Stdout), text), text);
    }

    #[test]
    fn an_exit_code_is_read_where_the_adapter_says_it() {
        let says = |says: &str, text: &str| {
            Quirks { exit_says: vec![says.to_owned()], ..Quirks::default() }.exit_code(text)
        };
        let alone = |code: i64| Some((code, String::new()));
        assert_eq!(says("has exited with status ", "Process 7 has exited with status 3\n"), alone(3));
        assert_eq!(says("has exited with status ", "a\nb has exited with status 3\n"), None);
        let line = "ours: ${code}\n";
        assert_eq!(says(line, "ours: -1\n"), alone(-1));
        assert_eq!(says(line, "oh\nours: 3\nmore\n"), Some((3, "oh\nmore\n".to_owned())));
        assert_eq!(says(line, "it ours: 3\n"), None);
        assert_eq!(says(line, "ours: 3\r\n"), None);
        // What we have written stands behind whatever the program wrote last.
        let wrap = Wrap { says: Some(line.to_owned()), ..wrap() };
        let quirks = Quirks { wrap: Some(wrap), ..Quirks::default() };
        assert_eq!(quirks.exit_code("oh noours: 3\n"), Some((3, "oh no".to_owned())));
        assert_eq!(quirks.exit_code("ours: x\n"), None);
        let held = |text: &str| quirks.wrap.as_ref().map(|it| text[it.begins_at(text)..].to_owned()).unwrap();
        for (text, tail) in [
            ("oh noo", "o"),
            ("oh noours: ", "ours: "),
            ("oh noours: -1", "ours: -1"),
            ("ours: x", ""),
            ("ü\n", ""),
            ("", ""),
        ] {
            assert_eq!(held(text), tail, "{text}");
        }
    }

    fn wrap() -> Wrap {
        Wrap {
            program: "by".to_owned(),
            words: "words".to_owned(),
            usual: "node".to_owned(),
            with: vec!["sh".to_owned(), "-c".to_owned()],
            says: None,
            when: BTreeMap::from([("all".to_owned(), json!(true))]),
        }
    }

    #[test]
    fn what_runs_a_program_is_wrapped_where_it_is_to_be() {
        let wrap = wrap();
        let check = |mut arguments: Value, expected: Value| {
            wrap.apply(&mut arguments);
            assert_eq!(arguments, expected);
        };
        check(json!({"all": true}), json!({"all": true, "by": "sh", "words": ["-c", "node"]}));
        let named = json!({"all": true, "by": "npm", "words": ["run", "x"]});
        check(named, json!({"all": true, "by": "sh", "words": ["-c", "npm", "run", "x"]}));
        check(json!({"by": "npm"}), json!({"by": "npm"}));
    }
}
