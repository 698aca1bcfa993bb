//! The rows of `pilcrow edit --batch`: the edit engine as a program for tests and measurements.
//!
//! Answers each JSON line before it reads the next. Accesses no file, asks nothing and stores nothing between
//! rows: a row contains its texts. `docs/formats/edit-batch.md` specifies the format.

use std::io::{BufRead, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use hashline::{
    Dialect, FileOp, Note, Options, Parser, Patch, Reason, SnapshotStore, Strategy, Tag, normal_path,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tools::{Grammars, Trees};

/// Maximum length of a line in bytes; a longer one is an error.
const MAX_LINE: u64 = 256 << 20;

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    id: Value,
    path: String,
    base: String,
    current: String,
    patch: String,
}

/// The answer to a row.
#[derive(Debug, Default, Serialize)]
pub struct RowResult {
    id: Value,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<Strategy>,
    /// Text after the patch; `None` for a deleted file, and if nothing was applied.
    text: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Number of the input line, for an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    notes: Vec<Note>,
    micros: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Applied,
    Recovered,
    Refused,
    #[default]
    Error,
}

/// Answers each row of `input`.
///
/// # Errors
/// When `input` cannot be read.
pub fn answer(input: impl BufRead, answer: impl FnMut(&RowResult)) -> std::io::Result<()> {
    answer_lines(input, MAX_LINE, answer)
}

fn answer_lines(
    mut input: impl BufRead,
    longest: u64,
    mut answer: impl FnMut(&RowResult),
) -> std::io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if (&mut input).take(longest).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.len() as u64 == longest && line.last() != Some(&b'\n') {
            skip_line(&mut input)?;
            answer(&RowResult::error(
                Value::Null,
                number,
                format!("the line is longer than {longest} bytes"),
            ));
            continue;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answered = match serde_json::from_slice::<Row>(&line) {
            Ok(row) => {
                let id = row.id.clone();
                // A panic in one row must not affect the others.
                catch_unwind(AssertUnwindSafe(|| apply(row))).unwrap_or_else(|_| {
                    RowResult::error(id, number, "the engine panicked on this row; please report it".into())
                })
            }
            Err(error) => {
                let id = match serde_json::from_slice::<Value>(&line) {
                    Ok(Value::Object(mut row)) => row.remove("id"),
                    _ => None,
                };
                let message = format!(
                    "the line is not a row {{\"id\", \"path\", \"base\", \"current\", \"patch\"}}: {error}"
                );
                RowResult::error(id.unwrap_or_default(), number, message)
            }
        };
        answer(&answered);
        // Frees the memory of a huge row.
        line.shrink_to(1 << 20);
    }
    Ok(())
}

fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let passed = end.map_or(buffer.len(), |at| at + 1);
        let is_done = end.is_some() || passed == 0;
        input.consume(passed);
        if is_done {
            return Ok(());
        }
    }
}

fn apply(row: Row) -> RowResult {
    let Row { id, path, base, current, patch } = row;
    let path = normal_path(&path);
    let (base, current): (Arc<str>, Arc<str>) = (base.into(), current.into());
    let started = Instant::now();
    let mut store = SnapshotStore::default();
    let tag = store.record(&path, base);
    store.see(&path, tag, 1..=usize::MAX);
    let answer = match Patch::parse(&with_tag(&patch, tag)) {
        Err(error) => RowResult::refused(error.reason(), error.to_string()),
        Ok((patch, notes)) => {
            let first = patch.sections.first().map(|section| section.path.clone()).unwrap_or_default();
            let is_own = first == path;
            let documents = |requested: &str| (is_own && requested == first).then(|| current.clone());
            // New trees for each row, so that rows do not affect each other.
            let trees = Trees::default();
            let grammars = Grammars::new(&trees);
            let options = Options { syntax: Some(&grammars), ..Options::default() };
            match hashline::plan(&patch, &mut store, &documents, options) {
                Err(refusal) => RowResult::refused(refusal.reason, refusal.to_string()),
                Ok(mut plan) => match plan.sections.pop() {
                    Some(section) => RowResult::planned(section, notes),
                    None => RowResult::refused(
                        Reason::InvalidPatch,
                        "the patch has no section; begin one with `[PATH#TAG]`".into(),
                    ),
                },
            }
        }
    };
    let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    RowResult { id, micros, ..answer }
}

impl RowResult {
    fn error(id: Value, line: u64, message: String) -> Self {
        Self { id, line: Some(line), message: Some(message), ..Self::default() }
    }

    fn refused(reason: Reason, message: String) -> Self {
        Self {
            status: Status::Refused,
            reason: Some(reason_word(reason)),
            message: Some(message),
            ..Self::default()
        }
    }

    fn planned(section: hashline::SectionPlan, mut notes: Vec<Note>) -> Self {
        let status = match section.strategy {
            Strategy::Exact | Strategy::AlreadyApplied => Status::Applied,
            Strategy::Chain | Strategy::Remap | Strategy::Merge => Status::Recovered,
        };
        notes.extend(section.notes);
        let text = (section.file_op != FileOp::Remove).then_some(section.new_text);
        Self { status, strategy: Some(section.strategy), text, notes, ..Self::default() }
    }
}

/// Names the reason in an answer.
///
/// Reasons that need a project count as an invalid patch.
fn reason_word(reason: Reason) -> &'static str {
    match reason {
        Reason::Unsupported | Reason::NotFound | Reason::Exists => Reason::InvalidPatch.as_str(),
        reason => reason.as_str(),
    }
}

/// Replaces the word `TAG` by the tag, in headers and in the `tag` of an object.
fn with_tag(patch: &str, tag: Tag) -> String {
    let mut parser = Parser::new();
    parser.push(patch);
    parser.push("\n");
    if parser.dialect() == Some(Dialect::Json) {
        return with_tag_in_json(patch, tag);
    }
    let header = |line: &str| {
        let trimmed = line.trim();
        let bracketed = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        // A model may have copied the sign before the path incorrectly.
        let signed = trimmed.strip_prefix(|c: char| !c.is_ascii());
        let word = bracketed.or(signed)?.strip_suffix("TAG")?;
        let at = line.rfind("TAG").filter(|_| word.trim_end().ends_with('#'))?;
        Some(format!("{}{tag}{}", &line[..at], &line[at + 3..]))
    };
    patch.split_inclusive('\n').map(|line| header(line).unwrap_or_else(|| line.to_owned())).collect()
}

/// Replaces the value of every `"tag": "TAG"`.
///
/// Inside strings quotes are escaped and do not match.
fn with_tag_in_json(patch: &str, tag: Tag) -> String {
    const KEY: &str = "\"tag\"";
    let mut out = String::new();
    let mut rest = patch;
    while let Some(at) = rest.find(KEY) {
        let (before, after) = rest.split_at(at + KEY.len());
        out.push_str(before);
        rest = after;
        let value = after.trim_start().strip_prefix(':').map(str::trim_start);
        if let Some(after) = value.and_then(|value| value.strip_prefix("\"TAG\"")) {
            out.push_str(&format!(": \"{tag}\""));
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{BufReader, Read};
    use std::rc::Rc;

    use serde_json::json;

    use super::*;

    fn answers(input: &str, longest: u64) -> Vec<Value> {
        let mut answers = Vec::new();
        answer_lines(input.as_bytes(), longest, |answer| answers.push(json!(answer))).unwrap();
        answers
    }

    #[track_caller]
    fn one(base: &str, current: &str, patch: &str) -> Value {
        let row = json!({"id": 7, "path": "a.txt", "base": base, "current": current, "patch": patch});
        let mut answers = answers(&format!("{row}\n"), MAX_LINE);
        assert_eq!(answers.len(), 1);
        let answer = answers.remove(0);
        assert_eq!(answer["id"], 7);
        answer
    }

    #[test]
    fn a_row_is_applied_with_the_placeholder_tag() {
        let answer = one("a\nb\n", "a\nb\n", "[a.txt#TAG]\nPUT 2:\n+B TAG]\n");
        assert_eq!((&answer["status"], &answer["strategy"]), (&json!("applied"), &json!("exact")));
        assert_eq!(answer["text"], "a\nB TAG]\n");
        assert_eq!(answer["notes"], json!([]));
        assert!(answer["micros"].is_u64());
        let answer = one("a\n", "a\n", "[a.txt#TAG]\nREM\n");
        assert_eq!((&answer["status"], &answer["text"]), (&json!("applied"), &Value::Null));
    }

    #[test]
    fn the_path_selects_the_grammar() {
        let base = "fn f() {\n    g();\n}\n";
        let row = |path: &str| {
            let patch = format!("[{path}#TAG]\nPUT 2:\n+    h();\n+}}\n");
            json!({"id": path, "path": path, "base": base, "current": base, "patch": patch})
        };
        let answers = answers(&format!("{}\n{}\n", row("f.rs"), row("f.txt")), MAX_LINE);
        assert_eq!(answers[0]["text"], "fn f() {\n    h();\n}\n", "the closer is there once");
        assert_eq!(answers[1]["text"], "fn f() {\n    h();\n}\n}\n");
    }

    #[test]
    fn the_placeholder_is_replaced_in_headers_only() {
        let tag = Tag::long("x");
        assert_eq!(
            with_tag("[TAG/a#TAG]\nPUT 1:\n+[a#TAG]\n", tag),
            format!("[TAG/a#{tag}]\nPUT 1:\n+[a#TAG]\n")
        );
        assert_eq!(with_tag("¶a#TAG\r\n1:TAG\n", tag), format!("¶a#{tag}\r\n1:TAG\n"));
        let object = with_tag(r#"{"path": "a", "tag": "TAG", "edits": [{"lines": "TAG"}]}"#, tag);
        let object: Value = serde_json::from_str(&object).unwrap();
        assert_eq!(object, json!({"path": "a", "tag": tag.to_string(), "edits": [{"lines": "TAG"}]}));
    }

    #[test]
    fn refusals_have_a_documented_reason() {
        for (current, patch, reason) in [
            ("a\nb\n", "[a.txt#0000]\nCUT 1\n", "unknown_tag"),
            ("x\ny\n", "[a.txt#TAG]\nCUT 1\n", "stale"),
            ("a\nb\n", "[a.txt#TAG]\nCUT 9\n", "check_mismatch"),
            ("a\nb\n", "[a.txt#TAG]\nCUT 1..=2\nCUT 2\n", "overlap"),
            ("a\nb\n", "no patch\n", "invalid_patch"),
            ("a\nb\n", "[b.txt#TAG]\nCUT 1\n", "invalid_patch"),
            ("a\nb\n", "[a.txt#TAG]\nCUT 1\n[b.txt#TAG]\nCUT 1\n", "invalid_patch"),
        ] {
            let answer = one("a\nb\n", current, patch);
            assert_eq!(
                (&answer["status"], &answer["reason"]),
                (&json!("refused"), &json!(reason)),
                "{patch}"
            );
            assert_eq!(answer["text"], Value::Null);
            assert!(!answer["message"].as_str().unwrap().is_empty());
        }
    }

    #[test]
    fn a_line_that_is_not_an_object_is_an_error() {
        let row = json!({"id": 1, "path": "a", "base": "a\n", "current": "a\n", "patch": "[a#TAG]\nCUT 1\n"});
        for line in ["[]", "5", "\"x\"", "true", "null", "[{\"id\": 3}]"] {
            let answers = answers(&format!("{line}\n{row}\n"), MAX_LINE);
            assert_eq!((&answers[0]["status"], &answers[0]["id"]), (&json!("error"), &Value::Null), "{line}");
            assert_eq!(answers[1]["status"], "applied", "{line}");
        }
    }

    #[test]
    fn the_placeholder_is_replaced_in_every_dialect() {
        let edits = json!([{"op": "replace", "pos": "1", "lines": ["A"]}]);
        let object = json!({"path": "a.txt", "tag": "TAG", "edits": edits});
        for patch in [
            object.to_string(),
            json!([object]).to_string(),
            format!("```json\n{object}\n```\n"),
            format!("```\n[\n{object}\n]\n```\n"),
            "¶a.txt#TAG\n1:A\n".to_owned(),
            "§a.txt#TAG\n1:A\n".to_owned(),
            "[a.txt#TAG]\nPUT 1:\n+A\n".to_owned(),
            "[x/../a.txt#TAG]\nPUT 1:\n+A\n".to_owned(),
        ] {
            let answer = one("a\nb\n", "a\nb\n", &patch);
            assert_eq!(answer["text"], "A\nb\n", "{patch}\n{answer}");
        }
        let twice = r#"{"path": "a.txt", "tag": "TAG", "edits": [{"op": "replace", "pos": "1", "pos": "2", "lines": ["A"]}]}"#;
        assert_eq!(one("a\nb\n", "a\nb\n", twice)["reason"], "invalid_patch");
        let row = json!({"path": "x/../a.txt", "base": "a\n", "current": "a\n", "patch": "[x/../a.txt#TAG]\nPUT 1:\n+A\n"});
        assert_eq!(answers(&format!("{row}\n"), MAX_LINE)[0]["text"], "A\n");
    }

    #[test]
    fn an_invalid_line_does_not_stop_the_batch() {
        let row =
            json!({"id": "x", "path": "a", "base": "a\n", "current": "a\n", "patch": "[a#TAG]\nCUT 1\n"});
        let input = format!("{{\n\n{}\n{}\n{row}\n{row}", json!({"id": 3, "path": "a"}), "y".repeat(9_000));
        let answers = answers(&input, 4_000);
        let found: Vec<(&Value, &Value, &Value)> =
            answers.iter().map(|answer| (&answer["id"], &answer["status"], &answer["line"])).collect();
        assert_eq!(
            found,
            [
                (&Value::Null, &json!("error"), &json!(1)),
                (&json!(3), &json!("error"), &json!(3)),
                (&Value::Null, &json!("error"), &json!(4)),
                (&json!("x"), &json!("applied"), &Value::Null),
                (&json!("x"), &json!("applied"), &Value::Null),
            ]
        );
    }

    /// Returns one line per read, and records the number of answers at that time.
    struct LineReader {
        lines: Vec<String>,
        answered: Rc<RefCell<usize>>,
        reads: Rc<RefCell<Vec<usize>>>,
    }

    impl Read for LineReader {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.reads.borrow_mut().push(*self.answered.borrow());
            if self.lines.is_empty() {
                return Ok(0);
            }
            let line = self.lines.remove(0);
            into[..line.len()].copy_from_slice(line.as_bytes());
            Ok(line.len())
        }
    }

    #[test]
    fn each_row_is_answered_before_the_next_is_read() {
        let row = json!({"path": "a", "base": "a\n", "current": "a\n", "patch": "[a#TAG]\nCUT 1\n"});
        let (answered, reads) = (Rc::new(RefCell::new(0)), Rc::new(RefCell::new(Vec::new())));
        let input = LineReader {
            lines: vec![format!("{row}\n"); 3],
            answered: answered.clone(),
            reads: reads.clone(),
        };
        answer_lines(BufReader::new(input), MAX_LINE, |_| *answered.borrow_mut() += 1).unwrap();
        assert_eq!(*reads.borrow(), [0, 1, 2, 3]);
    }
}
