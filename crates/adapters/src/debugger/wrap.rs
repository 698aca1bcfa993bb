//! Adapter output within program output: the adapter's own lines, the exit code.
//!
//! Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Quirks;

/// A command that wraps the interpreter which an argument of `launch` names.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrap {
    /// Argument of `launch` that holds the interpreter.
    pub program: String,
    /// Argument of `launch` that holds the interpreter's first arguments.
    pub args: String,
    /// Interpreter to use if the arguments name none.
    pub default: String,
    /// The command and its arguments, placed before the interpreter.
    pub command: Vec<String>,
    /// The text, with `${code}`, by which the command reports the exit code.
    ///
    /// It follows the program's last output, and Pilcrow does not show it.
    pub exit_code_text: Option<String>,
    /// Values of arguments for which the wrapper applies.
    #[serde(default)]
    pub when: BTreeMap<String, Value>,
}

impl Wrap {
    /// Splits the reported exit code from the rest of a text.
    pub fn exit_code(&self, text: &str) -> Option<(i64, String)> {
        code_in(text, self.exit_code_text.as_deref()?.split_once("${code}")?, |_| true)
    }

    /// Returns where the exit code's report may begin, else the text's length.
    pub fn begins_at(&self, text: &str) -> usize {
        let Some((before, after)) = self.exit_code_text.as_deref().and_then(|it| it.split_once("${code}"))
        else {
            return text.len();
        };
        // The longest number has 20 characters.
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

    /// Applies the wrapper to the arguments of `launch`.
    pub fn apply(&self, arguments: &mut Value) {
        let Some(arguments) = arguments.as_object_mut() else { return };
        let is_so = self.when.iter().all(|(name, value)| arguments.get(name) == Some(value));
        let Some((program, with)) = self.command.split_first().filter(|_| is_so) else { return };
        let runs = arguments.insert(self.program.clone(), json!(program)).unwrap_or(json!(self.default));
        let own = arguments.remove(&self.args).and_then(|it| it.as_array().cloned()).unwrap_or_default();
        let words = with.iter().map(|it| json!(it)).chain([runs]).chain(own).collect();
        arguments.insert(self.args.clone(), Value::Array(words));
    }
}

impl Quirks {
    /// Removes the adapter's own lines from program output.
    ///
    /// `adapter_line_starts` does not apply to standard output.
    pub fn without_own<'a>(&self, is_stdout: bool, text: &'a str) -> Cow<'a, str> {
        let endings: &[String] = if is_stdout { &[] } else { &self.adapter_line_starts };
        let is_own = |line: &str| self.adapter_lines.iter().any(|it| line.contains(it.as_str()));
        let own_from = |line: &str| endings.iter().filter_map(|it| line.find(it.as_str())).min();
        if !text.lines().any(|line| is_own(line) || own_from(line).is_some()) {
            return Cow::Borrowed(text);
        }
        let lines = text.split_inclusive('\n').filter(|line| !is_own(line));
        Cow::Owned(lines.map(|line| &line[..own_from(line).unwrap_or(line.len())]).collect())
    }

    /// Removes the texts that the adapter adds to names.
    pub fn without_texts<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for added in &self.adapter_texts {
            let (start, end) = added.split_once('*').unwrap_or((added, ""));
            while let Some(from) = text.find(start).filter(|_| !start.is_empty()) {
                let rest = from + start.len();
                let Some(at) = text[rest..].find(end) else { break };
                text.to_mut().replace_range(from..rest + at + end.len(), "");
            }
        }
        text
    }

    /// The form of a probed expression in a log message.
    pub fn log_expression<'a>(&self, expression: &'a str) -> Cow<'a, str> {
        match &self.log_value {
            Some(form) => Cow::Owned(form.replace("${expression}", &json!(expression).to_string())),
            None => Cow::Borrowed(expression),
        }
    }

    /// Splits the exit code from the rest of an adapter's text.
    pub fn exit_code(&self, text: &str) -> Option<(i64, String)> {
        if let Some(found) = self.wrap.as_ref().and_then(|it| it.exit_code(text)) {
            return Some(found);
        }
        self.exit_code_text.iter().find_map(|says| match says.split_once("${code}") {
            Some(around) => code_in(text, around, |at| at == 0 || text[..at].ends_with('\n')),
            None => {
                // The adapter's own line is short; a longer one is the program's.
                let text = Some(text.trim_end()).filter(|it| it.len() < 100 && !it.contains('\n'))?;
                let after = text.split_once(says.as_str())?.1;
                let end = after.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(after.len());
                Some((after[..end].parse().ok()?, String::new()))
            }
        })
    }
}

/// Finds the number between two texts at an accepted position.
///
/// Also returns the text without them.
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
    fn adapter_lines_are_removed_from_program_output() {
        let adapter_lines = vec!["No source file named /".to_owned(), " (-source /".to_owned()];
        let quirks = Quirks { adapter_lines, ..Quirks::default() };
        let own = "❌️ No source file named /p/a.c.\nBreakpoint 1 (-source /p/a.c -line 2) pending.\n";
        assert_eq!(quirks.without_own(true, own), "");
        assert_eq!(quirks.without_own(true, "total 3\n"), "total 3\n");
        assert_eq!(quirks.without_own(true, "No source file named /p/a.c.\ntotal 3\n"), "total 3\n");
        assert_eq!(Quirks::default().without_own(true, "\n"), "\n");
        // The adapter's line follows program output without a final newline.
        let adapter_line_starts = vec!["Waiting for".to_owned()];
        let quirks = Quirks { adapter_line_starts, ..Quirks::default() };
        let text = "oh noWaiting for it\nWaiting for it\nmore\n";
        assert_eq!(quirks.without_own(false, text), "oh nomore\n");
        assert_eq!(quirks.without_own(true, text), text);
    }

    #[test]
    fn adapter_texts_are_removed_from_names() {
        let adapter_texts = vec![" (now)".to_owned(), " (note: *)".to_owned()];
        let quirks = Quirks { adapter_texts, ..Quirks::default() };
        assert_eq!(quirks.without_texts("f (now), g (now)"), "f, g");
        assert_eq!(quirks.without_texts("KeyError (note: in f) (2)"), "KeyError (2)");
        assert_eq!(quirks.without_texts("KeyError (note: in f"), "KeyError (note: in f");
        let adapter_texts = vec![String::new(), "*".to_owned(), "* (now)".to_owned()];
        let quirks = Quirks { adapter_texts, ..Quirks::default() };
        assert_eq!(quirks.without_texts("f (now)"), "f (now)", "a text needs a beginning");
    }

    #[test]
    fn exit_codes_are_read_from_adapter_output() {
        let says = |says: &str, text: &str| {
            Quirks { exit_code_text: vec![says.to_owned()], ..Quirks::default() }.exit_code(text)
        };
        let alone = |code: i64| Some((code, String::new()));
        assert_eq!(says("has exited with status ", "Process 7 has exited with status 3\n"), alone(3));
        assert_eq!(says("has exited with status ", "a\nb has exited with status 3\n"), None);
        let line = "ours: ${code}\n";
        assert_eq!(says(line, "ours: -1\n"), alone(-1));
        assert_eq!(says(line, "oh\nours: 3\nmore\n"), Some((3, "oh\nmore\n".to_owned())));
        assert_eq!(says(line, "it ours: 3\n"), None);
        assert_eq!(says(line, "ours: 3\r\n"), None);
        // The wrapper's report follows the program's last output.
        let wrap = Wrap { exit_code_text: Some(line.to_owned()), ..wrap() };
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
            args: "words".to_owned(),
            default: "node".to_owned(),
            command: vec!["sh".to_owned(), "-c".to_owned()],
            exit_code_text: None,
            when: BTreeMap::from([("all".to_owned(), json!(true))]),
        }
    }

    #[test]
    fn the_wrapper_is_applied_to_launch_arguments() {
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
