//! The layers of a session's tools.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::discovery::ToolSource;
use crate::tool::Origin;
use crate::tool::pipeline::{Filter, LAYERS, Pipeline};
use crate::{RegistryError, call_tool};

fn arced(tool: TestTool) -> Arc<dyn Tool> {
    Arc::new(tool)
}

fn saying(name: &str, words: &'static str) -> Arc<dyn Tool> {
    arced(tool(name, move |_, _| Box::pin(async move { ToolResult::text(words) })))
}

fn whole() -> Pipeline {
    Pipeline::base([saying("read", "base"), saying("bash", "base"), saying("risky", "base")])
        .session([saying("search_tools", "session")])
        .surface([saying("show", "surface"), saying("secret", "surface")])
        .filter(Filter {
            disable: vec!["secret".to_owned(), "search_tools".to_owned()],
            off: vec!["risky".to_owned()],
            ..Filter::default()
        })
}

fn names(list: &str) -> Vec<String> {
    list.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_layers_are_ordered_and_traced() {
    let (registry, trace) = whole().build().unwrap();
    let layers: Vec<&str> = trace.iter().map(|it| it.layer).collect();
    assert_eq!(layers, LAYERS);
    let tools: Vec<&[String]> = trace.iter().map(|it| it.tools.as_slice()).collect();
    let (base, all) = (names("read bash risky"), names("read bash risky search_tools show secret"));
    let left = names("read bash show");
    assert_eq!(tools, [&base, &names("read bash risky search_tools"), &all, &left, &left]);
    assert_eq!(
        trace[3].did,
        ["risky removed: off unless enabled", "search_tools removed: disabled", "secret removed: disabled"],
        "what a later layer added is filtered as well"
    );
    assert_eq!(registry.names(), left);
}

#[test]
fn the_same_parts_give_the_same_bytes_and_unique_names() {
    let bytes = || serde_json::to_string(&whole().build().unwrap().0.definitions()).unwrap();
    assert_eq!(bytes(), bytes());
    let twice = Pipeline::base([saying("read", "a")]).surface([saying("read", "b")]).build();
    assert_eq!(twice.err(), Some(RegistryError::Duplicate { name: "read".to_owned() }));
}

struct From(TestTool, Origin);

impl Tool for From {
    fn definition(&self) -> &ToolDefinition {
        &self.0.definition
    }
    fn effects(&self, args: &Value) -> Effects {
        self.0.effects(args)
    }
    fn origin(&self) -> Origin {
        self.1.clone()
    }
    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        self.0.execute(args, cx)
    }
}

#[test]
fn the_filter_knows_names_sources_and_servers() {
    let remote = |name: &str, server: &str| -> Arc<dyn Tool> {
        let server_name = Some(server.to_owned());
        Arc::new(From(echo(name), Origin { source: ToolSource::Mcp, server_name, mcp_tool_name: None }))
    };
    let left = |filter: Filter| {
        let tools = [saying("read", ""), remote("a", "one"), remote("b", "two")];
        Pipeline::base(tools).filter(filter).build().unwrap().0.names()
    };
    let list = |it: &str| names(it);
    assert_eq!(left(Filter::default()), ["read", "a", "b"]);
    assert_eq!(left(Filter { disable: list("mcp"), ..Filter::default() }), ["read"]);
    assert_eq!(left(Filter { disable: list("mcp:two"), ..Filter::default() }), ["read", "a"]);
    let off = Filter { off: list("mcp"), enable: list("a"), ..Filter::default() };
    assert_eq!(left(off), ["read", "a"]);
    let both = Filter { enable: list("a"), disable: list("a"), ..Filter::default() };
    assert_eq!(left(both), ["read", "b"], "`disable` takes precedence over `enable`");
}

#[tokio::test]
async fn a_cancelled_call_does_not_start() {
    let (registry, _) = whole().build().unwrap();
    let tracker = tokio_util::task::TaskTracker::new();
    let emitter = crate::events::emitter::Emitter::start(
        "s".to_owned(),
        Vec::new(),
        crate::SessionState::default(),
        0,
        &tracker,
    );
    let mut cx = super::sessions::cx(emitter);
    assert_eq!(call_tool(&registry, "bash", json!({}), &cx).await.joined_text(), "base");
    let cancel = CancellationToken::new();
    cancel.cancel();
    cx.cancel = cancel;
    let result = call_tool(&registry, "bash", json!({}), &cx).await;
    assert!(result.is_error);
    assert_eq!(result.joined_text(), "the call was cancelled before it started");
}
