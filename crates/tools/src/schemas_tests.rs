//! Checks of the parameter schemas of all built-in tools.

use std::sync::Arc;

use adapters::{DebuggerDefinitions, ProjectPrograms, SearchPath, ServerDefinitions};
use dap_client::Sessions;
use hashline::{Dialect, SnapshotStore, View};
use lsp_client::{NoHost, PoolOptions, ServerPool};
use parking_lot::Mutex;
use paths::{AbsPath, StateDir};
use policy::{Policy, PolicyOptions, TrustStore, Unattended};
use process::Processes;
use serde_json::Value;
use workspace::Workspace;

use crate::{Pending, ToolContext, ToolSettings, Trees, builtin, surface};

/// Checks that a schema uses only keywords that all providers understand.
#[track_caller]
fn check(tool: &str, schema: &Value) {
    for (word, value) in schema.as_object().unwrap() {
        let is_fit = match word.as_str() {
            "properties" => {
                for (name, property) in value.as_object().unwrap() {
                    assert!(property["description"].is_string(), "{tool}: `{name}` has no description");
                    check(tool, property);
                }
                true
            }
            "items" => {
                check(tool, value);
                true
            }
            "type" | "description" => value.is_string(),
            "required" | "enum" => value.as_array().unwrap().iter().all(Value::is_string),
            _ => false,
        };
        assert!(is_fit, "{tool}: `{word}`: {value}");
    }
}

#[tokio::test]
async fn schemas_use_only_keywords_of_every_provider() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::new(AbsPath::new(folder.path()).unwrap());
    let (workspace, _) = Workspace::open(folder.path(), &state, None).unwrap();
    let options = PolicyOptions::new(TrustStore::new(state), workspace.root().clone());
    for dialect in Dialect::ALL {
        let servers = ServerPool::new(PoolOptions {
            workspace: workspace.clone(),
            processes: Processes::new(None),
            policy: Arc::new(Policy::new(options.clone())),
            approver: Arc::new(Unattended),
            definitions: Arc::new(ServerDefinitions::default()),
            reread: None,
            host: Arc::new(NoHost),
        });
        let context = ToolContext {
            workspace: workspace.clone(),
            servers,
            debug: Sessions::new(
                DebuggerDefinitions::default(),
                ProjectPrograms { search: SearchPath::default(), workspace: workspace.root().clone() },
                Processes::new(None),
            ),
            snapshots: Mutex::new(SnapshotStore::default()),
            trees: Trees::default(),
            saved_snapshots: None,
            pending: Pending::default(),
            shell: crate::Shell::new(Processes::new(None), &workspace).unwrap(),
            show: Some(Arc::new(|_, _| Box::pin(std::future::ready(true)))),
            settings: ToolSettings { view: View::of(dialect), ..ToolSettings::default() }.into(),
        };
        let context = Arc::new(context);
        let tools = [builtin(&context), surface(&context)].concat();
        assert!(tools.len() >= 14);
        for tool in tools {
            let definition = tool.definition();
            assert_eq!(definition.parameters["type"], "object", "{}", definition.name);
            check(&definition.name, &definition.parameters);
        }
    }
}
