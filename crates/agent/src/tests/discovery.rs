//! Tool search: the ranking, and the tools sent to the model.
//!
//! Another program computed the expected scores from the formula alone.

use llm::ScriptModel;
use paths::{AbsPath, StateDir};
use serde_json::json;

use super::*;
use crate::discovery::{ToolDocument, ToolIndex};
use crate::store::SessionStore;
use crate::{Presence, Toolset};

fn document(name: &str, label: &str, summary: &str, of: Option<(&str, &str)>, keys: &[&str]) -> ToolDocument {
    ToolDocument {
        name: name.to_owned(),
        label: label.to_owned(),
        summary: summary.to_owned(),
        server_name: of.map(|(server, _)| server.to_owned()),
        mcp_tool_name: of.map(|(_, tool)| tool.to_owned()),
        schema_keys: keys.iter().map(|&key| key.to_owned()).collect(),
        ..ToolDocument::default()
    }
}

#[test]
fn scores_are_those_of_the_formula() {
    let documents = [
        document(
            "read",
            "Read a file",
            "Shows a file, or part of it, with line numbers.",
            None,
            &["path", "offset", "limit"],
        ),
        document(
            "grep",
            "Search text",
            "Searches the text of files for a pattern.",
            None,
            &["pattern", "path", "glob"],
        ),
        document(
            "debug",
            "Debug",
            "Runs a program under a debugger: breakpoints, stack, variables.",
            None,
            &["action", "program", "breakpoints"],
        ),
        document(
            "mcp__github__createPullRequest",
            "Create pull request",
            "Opens a pull request on GitHub.",
            Some(("github", "createPullRequest")),
            &["title", "body"],
        ),
        document(
            "mcp__github__listIssues",
            "List issues",
            "Lists the issues of a repository.",
            Some(("github", "listIssues")),
            &["state"],
        ),
    ];
    let index = ToolIndex::new(&documents);
    for (query, expected) in [
        ("search text in files", vec![("grep", 11.339_741)]),
        ("breakpoint breakpoints", vec![("debug", 3.731_553)]),
        ("Pull Request", vec![("mcp__github__createPullRequest", 8.287_512)]),
        (
            "github issues github",
            vec![("mcp__github__listIssues", 9.237_016), ("mcp__github__createPullRequest", 4.929_026)],
        ),
        ("café", vec![]),
        ("path", vec![("grep", 1.868_224), ("read", 1.794_702)]),
        ("Créate", vec![("mcp__github__createPullRequest", 4.106_501)]),
    ] {
        let found: Vec<(&str, f64)> = index
            .search(query, 3)
            .into_iter()
            .map(|found| (documents[found.document].name.as_str(), (found.score * 1e6).round() / 1e6))
            .collect();
        assert_eq!(found, expected, "{query}");
    }
    assert_eq!(index.search("path", 1).len(), 1);
    assert!(index.search("path", 0).is_empty());
    assert!(ToolIndex::new(&[]).search("path", 3).is_empty());
}

/// A tool with a presence, which answers with its search results.
struct Known {
    tool: TestTool,
    presence: Presence,
}

impl Tool for Known {
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }
    fn presence(&self) -> Presence {
        self.presence
    }
    fn effects(&self, args: &Value) -> Effects {
        self.tool.effects(args)
    }
    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        self.tool.execute(args, cx)
    }
}

fn found_by(tool: TestTool, when: &'static [&'static str]) -> Arc<dyn Tool> {
    Arc::new(Known { tool, presence: Presence::Search { when } })
}

/// Builds a tool known from the start, which searches the others.
fn finder() -> Arc<dyn Tool> {
    let tool = tool("finder", |args, cx| {
        Box::pin(async move {
            let found = cx.tools().find(args["text"].as_str().unwrap_or_default(), 10);
            let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
            let new = found.iter().filter(|found| found.is_new).map(|found| found.name.clone()).collect();
            ToolResult::text(names.join(" ")).with_added_tools(new)
        })
    });
    Arc::new(Known { tool, presence: Presence::Start })
}

fn tools() -> Registry {
    let mut tools = vec![found_by(echo("weather_report"), &[]), finder()];
    tools.push(found_by(echo("bisect"), &["crash", "regression"]));
    tools.extend((0..9).map(|n| found_by(echo(&format!("stock_price{n}")), &[])));
    Registry::new(tools).unwrap()
}

fn offers(names: &[&str]) -> Value {
    json!({ "tools": names })
}

#[tokio::test]
async fn a_found_tool_is_in_all_later_requests() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().canonicalize().unwrap();
    let store = || SessionStore::new(StateDir::new(AbsPath::new(&path).unwrap()));
    let call = |expect: &[&str], name: &str, words: &str| json!({"expect": offers(expect), "tool_calls": [{"name": name, "arguments": {"text": words}}]});
    let five = ["stock_price0", "stock_price1", "stock_price2", "stock_price3", "stock_price4"];
    let grown: Vec<&str> = ["finder", "weather_report"].into_iter().chain(five).collect();
    let script = [
        call(&["finder"], "finder", "weather"),
        call(&["finder", "weather_report"], "weather_report", "x"),
        // A search adds at most five tools; the last of them can be called before it is sent to the model.
        call(&["finder", "weather_report"], "finder", "stock price"),
        call(&grown, "stock_price8", "x"),
        json!({"expect": offers(&grown), "text": "done"}),
    ];
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    let session = Session::builder(Arc::new(ScriptModel::parse("t", &script).unwrap()), tools())
        .searches_tools(true)
        .store(store())
        .build();
    let outcome = session.prompt("go").await;
    assert_eq!((outcome.final_text.as_str(), outcome.error), ("done", None));
    assert_eq!(session.state().borrow().tools, grown, "the state knows what was found");
    session.close(DEADLINE).await;
    let loaded = store().load(session.id()).unwrap();
    assert_eq!(loaded.activated(), grown[1..]);
    assert_eq!(loaded.context().len(), outcome.messages.len());
    // Each result lists the tools that it added.
    let added: Vec<Vec<String>> = loaded
        .context()
        .into_iter()
        .filter_map(|message| match message {
            llm::Message::ToolResult(result) => Some(result.added_tools),
            _ => None,
        })
        .collect();
    assert_eq!(added, [vec!["weather_report".to_owned()], vec![], five.map(str::to_owned).to_vec(), vec![]]);

    // A resumed session has them, and the file records them once.
    let script = format!("{}\n", json!({"expect": offers(&grown), "text": "again"}));
    let session = Session::builder(Arc::new(ScriptModel::parse("t", &script).unwrap()), tools())
        .searches_tools(true)
        .store(store())
        .resume(loaded)
        .build();
    let outcome = session.prompt("a crash").await;
    assert_eq!((outcome.final_text.as_str(), outcome.error), ("again", None), "its first prompt was another");
    session.close(DEADLINE).await;
    assert_eq!(store().load(session.id()).unwrap().activated(), grown[1..]);
}

#[tokio::test]
async fn words_of_the_first_prompt_activate_a_tool() {
    for (prompt, expect) in [
        ("why does it CRASH?", vec!["finder", "bisect"]),
        ("crashes", vec!["finder"]),
        ("a regression, and a crash", vec!["finder", "bisect"]),
    ] {
        let script = format!("{}\n", json!({"expect": offers(&expect), "text": "ok"}));
        let session = Session::builder(Arc::new(ScriptModel::parse("t", &script).unwrap()), tools())
            .searches_tools(true)
            .build();
        let outcome = session.prompt(prompt).await;
        assert_eq!((outcome.final_text.as_str(), outcome.error), ("ok", None), "{prompt}");
    }
}

#[test]
fn without_search_every_tool_is_sent() {
    let registry = Arc::new(tools());
    let whole = Toolset::all(Arc::clone(&registry));
    assert_eq!(whole.active(), registry.names());
    assert_eq!(whole.definitions(), registry.definitions());
    assert!(whole.find("stock", 3).iter().all(|found| found.is_active));
    assert_eq!(whole.active(), registry.names());
}
