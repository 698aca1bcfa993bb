//! Ranking of the built-in tools among five hundred others, and request size.

use agent::discovery::{ToolDocument, ToolIndex, ToolSource};
use host::{HeadlessFrontend, Host, Project};
use paths::{AbsPath, Homes, StateDir};

use super::*;

const SERVERS: [(&str, [&str; 4]); 25] = [
    ("github", ["issue", "pull_request", "release", "workflow_run"]),
    ("gitlab", ["merge_request", "pipeline", "issue", "runner"]),
    ("jira", ["ticket", "sprint", "board", "epic"]),
    ("slack", ["message", "channel", "reaction", "reminder"]),
    ("postgres", ["table", "row", "index", "migration"]),
    ("redis", ["key", "stream", "hash", "set"]),
    ("s3", ["bucket", "object", "policy", "upload"]),
    ("stripe", ["invoice", "customer", "refund", "subscription"]),
    ("sentry", ["error", "project", "alert", "release"]),
    ("datadog", ["metric", "dashboard", "monitor", "log"]),
    ("notion", ["page", "database", "block", "comment"]),
    ("linear", ["cycle", "team", "issue", "roadmap"]),
    ("figma", ["frame", "component", "comment", "variable"]),
    ("docker", ["container", "image", "volume", "network"]),
    ("kubernetes", ["pod", "deployment", "service", "secret"]),
    ("terraform", ["plan", "state", "module", "workspace"]),
    ("aws", ["instance", "lambda_function", "role", "vpc"]),
    ("gcloud", ["instance", "cloud_function", "dataset", "disk"]),
    ("gmail", ["email", "draft", "label", "attachment"]),
    ("calendar", ["event", "meeting", "invitation", "room"]),
    ("drive", ["folder", "document", "spreadsheet", "permission"]),
    ("zendesk", ["ticket", "macro", "agent", "article"]),
    ("hubspot", ["contact", "deal", "campaign", "company"]),
    ("twilio", ["sms", "call", "recording", "phone_number"]),
    ("spotify", ["playlist", "track", "album", "queue"]),
];
const VERBS: [&str; 5] = ["list", "get", "create", "update", "delete"];

fn sample_tools() -> impl Iterator<Item = ToolDocument> {
    SERVERS.into_iter().flat_map(|(server, objects)| {
        objects
            .into_iter()
            .flat_map(move |object| VERBS.into_iter().map(move |verb| one(server, verb, object)))
    })
}

fn one(server: &str, verb: &str, object: &str) -> ToolDocument {
    let words = object.replace('_', " ");
    ToolDocument {
        name: format!("mcp__{server}__{verb}_{object}"),
        label: format!("{verb} {words}"),
        summary: format!("Use this to {verb} one {words} or several, as the user may."),
        source: ToolSource::Mcp,
        server_name: Some(server.to_owned()),
        mcp_tool_name: Some(format!("{verb}_{object}")),
        schema_keys: ["id", "name", "filter"].map(str::to_owned).into(),
    }
}

fn project() -> (tempfile::TempDir, Arc<Project>) {
    project_with("")
}

/// Opens a project with these user settings.
fn project_with(settings: &str) -> (tempfile::TempDir, Arc<Project>) {
    let temp = tempfile::tempdir().unwrap();
    let directory = AbsPath::new(temp.path().canonicalize().unwrap()).unwrap();
    let dir = |name: &str| StateDir::new(directory.join("home").join(name));
    let homes = Homes {
        config: directory.join("home/config"),
        state: dir("state"),
        data: dir("data"),
        cache: dir("cache"),
        run: dir("run"),
    };
    dir("config").write_atomic("config.toml", settings.as_bytes()).unwrap();
    let host = Host { homes };
    let project =
        host.open_project(directory.as_path(), Access::default(), Arc::new(HeadlessFrontend)).unwrap();
    (temp, project)
}

/// The instructions of a session in the project, with the environment.
fn instructions(project: &Arc<Project>) -> String {
    let options =
        SourceOptions { policy: &project.policy, context: &project.context, agent: None, cwd: None };
    SessionConfigSource::new(project, options).unwrap().instructions()
}

#[test]
fn the_first_request_is_short() {
    let (_temp, project) = project();
    let vocabulary = tiktoken_rs::o200k_base().unwrap();
    let mut parts = vec![("instructions".to_owned(), instructions(&project))];
    parts.extend(first_tools(project.registry.clone(), &project.config));
    let counts: Vec<usize> = parts.iter().map(|(_, text)| vocabulary.encode_ordinary(text).len()).collect();
    for ((name, _), tokens) in parts.iter().zip(&counts) {
        println!("{name}: {tokens} tokens");
    }
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["instructions", "read", "edit", "write", "bash", "grep", "find", "lsp", "search_tools"]
    );
    let total: usize = counts.iter().sum();
    assert!(counts[0] <= 350, "{} tokens of instructions", counts[0]);
    assert!(total <= 2100, "{total} tokens");
}

#[test]
fn the_first_request_with_the_debugger_is_short() {
    let vocabulary = tiktoken_rs::o200k_base().unwrap();
    for dialect in ["put", "arrow", "json"] {
        let (_temp, project) = project_with(&format!("hashline.dialect = '{dialect}'\n"));
        let registry = Arc::new(project.registry.clone());
        let tools = Toolset::searchable(registry);
        tools.activate_for("why does it crash");
        let names = tools.active();
        assert_eq!(names.last().map(String::as_str), Some("debug"), "{names:?}");
        let count = |text: &str| vocabulary.encode_ordinary(text).len();
        let total = count(&instructions(&project))
            + tools.definitions().iter().map(|tool| count(&encode(tool))).sum::<usize>();
        println!("{dialect}: {total} tokens");
        // Json describes its edits twice: in the schema of its parameters, and in words.
        let most = if dialect == "json" { 3600 } else { 3400 };
        assert!(total <= most, "{dialect}: {total} tokens");
    }
}

#[test]
fn the_ranking_of_many_tools_is_as_expected() {
    let (_temp, project) = project();
    let mut documents: Vec<ToolDocument> =
        project.registry.tools().map(|tool| ToolDocument::of(tool.as_ref())).collect();
    documents.extend(sample_tools());
    assert!(documents.len() > 500);
    let index = ToolIndex::new(&documents);
    let mut wrong = Vec::new();
    for (query, expected) in RANKING {
        let found: Vec<&str> = index
            .search(query, expected.len())
            .into_iter()
            .map(|found| documents[found.document].name.as_str())
            .collect();
        if found != *expected {
            wrong.push(format!("{query:?}: {found:?}, not {expected:?}"));
        }
    }
    assert!(RANKING.len() >= 60);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks scores of sample tools, so that descriptions do not matter.
///
/// Another program computed the scores.
#[test]
fn the_scores_of_many_tools_follow_the_formula() {
    let documents: Vec<ToolDocument> = sample_tools().collect();
    assert_eq!(documents.len(), 500);
    let index = ToolIndex::new(&documents);
    for (query, [first, second]) in [
        ("create github issue", [("github__create_issue", 24.809_333), ("github__delete_issue", 19.912_907)]),
        (
            "list pull requests on github",
            [("github__list_pull_request", 27.684_881), ("github__create_pull_request", 22.827_388)],
        ),
        (
            "merge request gitlab",
            [("gitlab__create_merge_request", 34.514_867), ("gitlab__delete_merge_request", 34.514_867)],
        ),
        (
            "lambdaFunction",
            [("aws__create_lambda_function", 25.330_194), ("aws__delete_lambda_function", 25.330_194)],
        ),
        (
            "phone number list",
            [("twilio__list_phone_number", 32.142_923), ("twilio__create_phone_number", 27.285_431)],
        ),
        (
            "delete delete meeting",
            [("calendar__delete_meeting", 23.544_914), ("calendar__create_meeting", 13.752_063)],
        ),
        (
            "list invoices invoice",
            [("stripe__list_invoice", 18.648_488), ("stripe__create_invoice", 13.752_063)],
        ),
        (
            "use several as the user may",
            [("aws__create_instance", 0.014_261), ("aws__create_role", 0.014_261)],
        ),
    ] {
        let found: Vec<(&str, f64)> = index
            .search(query, 2)
            .into_iter()
            .map(|found| (documents[found.document].name.as_str(), (found.score * 1e6).round() / 1e6))
            .collect();
        let expected = [first, second].map(|(name, score)| (format!("mcp__{name}"), score));
        assert_eq!(found, expected.each_ref().map(|(name, score)| (name.as_str(), *score)), "{query}");
    }
}

/// Queries and their first results.
const RANKING: &[(&str, &[&str])] = &[
    ("undo", &["undo"]),
    ("take back my edits", &["undo"]),
    ("take back the last run", &["undo"]),
    ("revert what I changed", &["undo"]),
    ("list a folder", &["ls"]),
    ("what is in this directory", &["ls"]),
    ("read", &["read"]),
    ("edit", &["edit"]),
    ("rename a symbol everywhere", &["lsp"]),
    ("write a new file", &["write"]),
    ("grep", &["grep"]),
    ("search text of files by regular expression", &["grep"]),
    ("find files by name", &["find"]),
    ("glob pattern", &["find"]),
    ("lsp rename symbol", &["lsp"]),
    ("language server definition references", &["lsp"]),
    ("who calls this symbol", &["lsp"]),
    ("diagnostics", &["lsp"]),
    ("organize imports", &["lsp"]),
    ("find tools", &["search_tools"]),
    ("create github issue", &["mcp__github__create_issue"]),
    ("github create issue", &["mcp__github__create_issue"]),
    ("close pull request", &["mcp__github__create_pull_request", "mcp__github__delete_pull_request"]),
    ("list pull requests on github", &["mcp__github__list_pull_request"]),
    ("merge request gitlab", &["mcp__gitlab__create_merge_request"]),
    ("get pipeline", &["mcp__gitlab__get_pipeline"]),
    ("jira ticket update", &["mcp__jira__update_ticket"]),
    ("update zendesk ticket", &["mcp__zendesk__update_ticket"]),
    ("sprint", &["mcp__jira__create_sprint"]),
    ("slack message", &["mcp__slack__create_message"]),
    ("slack delete channel", &["mcp__slack__delete_channel"]),
    ("postgres table list", &["mcp__postgres__list_table"]),
    ("delete row", &["mcp__postgres__delete_row"]),
    ("redis get key", &["mcp__redis__get_key"]),
    ("s3 bucket create", &["mcp__s3__create_bucket"]),
    ("createBucket", &["mcp__s3__create_bucket"]),
    ("stripe refund", &["mcp__stripe__create_refund"]),
    ("list invoices invoice", &["mcp__stripe__list_invoice"]),
    ("sentry error", &["mcp__sentry__create_error"]),
    ("datadog get metric", &["mcp__datadog__get_metric"]),
    ("notion page update", &["mcp__notion__update_page"]),
    ("linear issue", &["mcp__linear__create_issue", "mcp__linear__delete_issue"]),
    ("figma component list", &["mcp__figma__list_component"]),
    ("docker container", &["mcp__docker__create_container"]),
    ("kubernetes pod delete", &["mcp__kubernetes__delete_pod"]),
    ("terraform plan", &["mcp__terraform__create_plan"]),
    ("aws lambda function get", &["mcp__aws__get_lambda_function"]),
    ("lambdaFunction", &["mcp__aws__create_lambda_function"]),
    ("cloud function gcloud update", &["mcp__gcloud__update_cloud_function"]),
    ("create email draft", &["mcp__gmail__create_draft"]),
    ("calendar event create", &["mcp__calendar__create_event"]),
    ("delete meeting", &["mcp__calendar__delete_meeting"]),
    ("drive spreadsheet get", &["mcp__drive__get_spreadsheet"]),
    ("hubspot contact create", &["mcp__hubspot__create_contact"]),
    ("twilio sms create", &["mcp__twilio__create_sms"]),
    ("phone number list", &["mcp__twilio__list_phone_number"]),
    ("spotify playlist update", &["mcp__spotify__update_playlist"]),
    ("TRACK", &["mcp__spotify__create_track", "mcp__spotify__delete_track"]),
    ("mcp__spotify__get_album", &["mcp__spotify__get_album"]),
    ("epic", &["mcp__jira__create_epic"]),
    ("list vpc", &["mcp__aws__list_vpc"]),
    ("run a command line", &["bash"]),
    ("ask the user a question", &["ask"]),
    ("plan the steps", &["plan"]),
    ("breakpoint", &["debug"]),
    ("set a breakpoint", &["debug"]),
    ("backtrace", &["debug"]),
    ("stack trace", &["debug"]),
    ("call stack", &["debug"]),
    ("step over", &["debug"]),
    ("watch a variable", &["debug"]),
    ("inspect variables at runtime", &["debug"]),
    ("attach to a process", &["debug"]),
    ("run the failing test", &["debug"]),
    ("why does it crash", &["debug"]),
    ("checkpoint", &["checkpoint"]),
    ("zzz", &[]),
    ("", &[]),
];
