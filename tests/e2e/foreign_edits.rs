//! Edits as models write them for other tools: none is wrong, most are applied.

use std::collections::HashMap;

use serde_json::{Value, json};
use tests::{Batch, Sandbox};

const TABLE: &str = include_str!("foreign_edits.toml");

/// The text with the anchors of the shown lines and the project's directory.
fn filled(value: &Value, anchors: &[String], root: &str) -> Value {
    let mut text = value.to_string().replace("{root}", root);
    for (at, anchor) in anchors.iter().enumerate() {
        text = text.replace(&format!("{{{}}}", at + 1), anchor);
    }
    serde_json::from_str(&text).expect("it stays JSON")
}

#[test]
fn edits_for_other_tools_are_applied_or_refused() {
    let table: Value = toml::from_str(TABLE).expect("the table");
    let texts: HashMap<&str, &str> = table["texts"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, text)| Some((name.as_str(), text.as_str()?)))
        .collect();
    let edits = table["edit"].as_array().expect("edits");
    let mut applied = 0;
    let mut wrong: Vec<String> = Vec::new();
    for edit in edits {
        let name = edit["name"].as_str().expect("a name");
        let ends = |text: &str| match edit["crlf"] == true {
            true => text.replace('\n', "\r\n"),
            false => text.to_owned(),
        };
        let before = ends(texts["before"]);
        let sandbox = Sandbox::with(&[("a.py", &before), ("b.py", texts["before"])]);
        let mut batch = Batch::start(&sandbox);
        let anchors: Vec<String> = batch.view("a.py").lines.into_iter().map(|it| it.anchor).collect();
        let args = match &edit["patch"] {
            Value::Null => edit["args"].clone(),
            patch => json!({ "patch": patch }),
        };
        let args = filled(&args, &anchors, &sandbox.project().display().to_string());
        let answer = batch.call(edit["tool"].as_str().unwrap_or("edit"), &args);
        let file = |path: &str| std::fs::read_to_string(sandbox.project().join(path)).ok();
        let moved = edit["moved"].as_str();
        let (code, text) = match (edit["after"].as_str(), edit["gone"] == true) {
            (Some(after), _) => (None, Some(ends(texts[after]))),
            (None, true) => (None, None),
            (None, false) => (edit["reason"].as_str(), Some(before)),
        };
        let found = (answer.error(), file(moved.unwrap_or("a.py")));
        if found != (code, text) || moved.is_some() && file("a.py").is_some() || file("new.py").is_some() {
            wrong.push(format!("{name}: {found:?}\n{}", answer.text()));
        }
        applied += usize::from(code.is_none());
        batch.end();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(edits.len() >= 26 && applied >= 20, "{applied} of {} are applied", edits.len());
}
