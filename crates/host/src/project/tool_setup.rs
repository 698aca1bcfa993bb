//! The tools of a project, with their settings.

use std::sync::Arc;

use agent::Registry;
use agent::tool::pipeline::{Filter, LayerTrace, Pipeline};
use hashline::{Limits, SnapshotStore};
use lsp_client::ServerPool;
use parking_lot::Mutex;
use tools::ToolContext;
use workspace::Workspace;

use crate::config::{Config, distance};

/// The tools of a session, with `search_tools` where the model sees only some at first.
pub(crate) fn registry(context: &Arc<ToolContext>, config: &Config) -> anyhow::Result<Registry> {
    Ok(layers(context, config).build()?.0)
}

/// Warnings about names in `tools.enable` and `tools.disable` that no tool has.
pub(crate) fn unknown_tools(context: &Arc<ToolContext>, config: &Config) -> Vec<String> {
    // Tools of other surfaces and settings.
    const ELSEWHERE: [&str; 2] = ["show", "search_tools"];
    let present = tools::builtin(context).into_iter().chain(tools::surface(context));
    let mut known: Vec<String> = present.map(|tool| tool.definition().name.clone()).collect();
    known.extend(ELSEWHERE.map(str::to_owned));
    let is_source =
        |name: &str| matches!(name, "builtin" | "mcp" | "extension" | "custom") || name.starts_with("mcp:");
    let mut warnings = Vec::new();
    for (key, names) in [("enable", config.enabled_tools()), ("disable", config.disabled_tools())] {
        for name in names.iter().filter(|name| !known.contains(name) && !is_source(name)) {
            let lower = name.to_lowercase();
            let nearest = known.iter().min_by_key(|known| distance(known, &lower));
            let nearest = nearest.map(|name| format!("; the nearest is `{name}`")).unwrap_or_default();
            warnings.push(format!("`tools.{key}` names `{name}`, and there is no such tool{nearest}"));
        }
    }
    warnings
}

/// The tools that each layer adds or removes.
pub(super) fn trace(context: &Arc<ToolContext>, config: &Config) -> anyhow::Result<Vec<LayerTrace>> {
    Ok(layers(context, config).build()?.1)
}

/// The layers of tools; each provider's protocol rewrites the schemas as that provider accepts them.
fn layers(context: &Arc<ToolContext>, config: &Config) -> Pipeline {
    let (enable, disable) = (config.enabled_tools(), config.disabled_tools());
    let filter = Filter { enable, disable, ..Filter::default() };
    Pipeline::base(tools::builtin(context))
        .session(config.searches_tools().then(tools::search_tools))
        .surface(tools::surface(context))
        .filter(filter)
}

/// The context of the tools, with nothing read yet.
pub(super) fn context(
    workspace: &Workspace,
    servers: &Arc<ServerPool>,
    debug: &Arc<dap_client::Sessions>,
    shell: &Arc<tools::Shell>,
    config: &Config,
) -> ToolContext {
    let limits = Limits {
        paths: config.snapshot_paths(),
        versions: config.snapshot_versions(),
        bytes: config.snapshot_bytes(),
    };
    ToolContext {
        workspace: workspace.clone(),
        servers: Arc::clone(servers),
        debug: Arc::clone(debug),
        snapshots: Mutex::new(SnapshotStore::new(limits)),
        trees: tools::Trees::default(),
        kept: None,
        pending: tools::Pending::default(),
        shell: Arc::clone(shell),
        show: None,
        settings: tool_settings(config).into(),
    }
}

/// The settings of the tools.
pub(crate) fn tool_settings(config: &Config) -> tools::ToolSettings {
    tools::ToolSettings {
        view: config.view(),
        parse_regression: config.parse_regression(),
        diagnostics_wait: config.diagnostics_wait(),
        verify: config.verify(),
        verify_policy: config.verify_policy(),
        request_timeout: config.request_timeout(),
        start: config.server_start(),
        asks_on_unsaved: config.asks_on_unsaved(),
    }
}
