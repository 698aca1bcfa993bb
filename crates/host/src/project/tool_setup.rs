//! Tools of a project, with their settings.

use std::sync::Arc;

use agent::Registry;
use agent::tool::pipeline::{Filter, LayerTrace, Pipeline};
use hashline::{Limits, SnapshotStore, View};
use lsp_client::ServerPool;
use parking_lot::Mutex;
use tools::ToolContext;
use workspace::Workspace;

use crate::config::{Config, OnUnsaved, Settings, Text};

/// Builds the tools of a session, with `search_tools` if the model sees only some.
pub(crate) fn registry(context: &Arc<ToolContext>, config: &Config) -> anyhow::Result<Registry> {
    Ok(layers(context, config).build()?.0)
}

/// Lists names in `tools.enable` and `tools.disable` that no tool has, as warnings.
pub(crate) fn unknown_tools(context: &Arc<ToolContext>, config: &Config) -> Vec<String> {
    // Tools that exist only in other surfaces or under other settings.
    const ELSEWHERE: [&str; 2] = ["show", "search_tools"];
    let present = tools::builtin(context).into_iter().chain(tools::surface(context));
    let mut known: Vec<String> = present.map(|tool| tool.definition().name.clone()).collect();
    known.extend(ELSEWHERE.map(str::to_owned));
    let is_source =
        |name: &str| matches!(name, "builtin" | "mcp" | "extension" | "custom") || name.starts_with("mcp:");
    let mut warnings = Vec::new();
    let tools = &config.values.tools;
    for (key, names) in [("enable", &tools.enable), ("disable", &tools.disable)] {
        let names = names.iter().map(|name| &name.0);
        for name in names.filter(|name| !known.contains(name) && !is_source(name)) {
            let lower = name.to_lowercase();
            let nearest = agent::nearest(&lower, known.iter().map(String::as_str));
            let nearest = nearest.map(|name| format!("; the nearest is `{name}`")).unwrap_or_default();
            warnings.push(format!("`tools.{key}` names `{name}`, and there is no such tool{nearest}"));
        }
    }
    warnings
}

/// Lists the tools that each layer adds or removes.
pub(super) fn trace(context: &Arc<ToolContext>, config: &Config) -> anyhow::Result<Vec<LayerTrace>> {
    Ok(layers(context, config).build()?.1)
}

/// Builds the layers of tools.
///
/// Each provider's protocol rewrites the schemas as that provider accepts them.
fn layers(context: &Arc<ToolContext>, config: &Config) -> Pipeline {
    let settings = &config.values.tools;
    let names = |names: &[Text]| names.iter().map(|name| name.0.clone()).collect();
    let (enable, disable) = (names(&settings.enable), names(&settings.disable));
    let filter = Filter { enable, disable, ..Filter::default() };
    Pipeline::base(tools::builtin(context))
        .session(settings.discovery.0.then(tools::search_tools))
        .surface(tools::surface(context))
        .filter(filter)
}

/// Creates the context of the tools, with nothing read yet.
pub(super) fn context(
    workspace: &Workspace,
    servers: &Arc<ServerPool>,
    debug: &Arc<dap_client::Sessions>,
    shell: &Arc<tools::Shell>,
    config: &Config,
) -> ToolContext {
    let snapshots = &config.values.hashline.snapshots;
    let limits =
        Limits { paths: snapshots.paths.0, versions: snapshots.versions.0, bytes: snapshots.bytes.0 };
    ToolContext {
        workspace: workspace.clone(),
        servers: Arc::clone(servers),
        debug: Arc::clone(debug),
        snapshots: Mutex::new(SnapshotStore::new(limits)),
        trees: tools::Trees::default(),
        saved_snapshots: None,
        pending: tools::Pending::default(),
        shell: Arc::clone(shell),
        show: None,
        settings: tool_settings(config).into(),
    }
}

/// Converts the configuration to the settings of the tools.
pub(crate) fn tool_settings(config: &Config) -> tools::ToolSettings {
    let Settings { edit, hashline, lsp, run, .. } = &config.values;
    tools::ToolSettings {
        view: View { dialect: hashline.dialect.0, checks: hashline.line_checks.0 },
        parse_regression: edit.parse_regression.0,
        edit_wait: edit.wait.0,
        verify: edit.verify.0,
        verify_wait: edit.verify_wait.0,
        verify_policy: edit.verify_policy.0,
        request_timeout: lsp.timeout.0,
        start: lsp.start.0,
        asks_on_unsaved: run.on_unsaved.0 == OnUnsaved::Ask,
        ..tools::ToolSettings::default()
    }
}
