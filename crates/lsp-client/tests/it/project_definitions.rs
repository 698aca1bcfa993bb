//! Servers that a project defines.
//!
//! The policy asks the user about each command that runs, and about no other.

use std::sync::Arc;

use adapters::{Parse, ServerDefinition, ServerDefinitions};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use policy::{Answer, Approver, PolicyOptions, Question};
use serde_json::json;
use testing::language_server::{Script, Step, executable};
use tokio_util::sync::CancellationToken;

use crate::bench::{LONG, cx, open, open_asking};

/// Checks that a permission covers one command; the probe is another command.
#[tokio::test]
async fn project_servers_need_permission_for_used_commands() {
    let exe = executable();
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script.json");
    let server = Script::new(json!({"hoverProvider": true, "textDocumentSync": 2}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "x"}))]);
    std::fs::write(&script, serde_json::to_string(&server).unwrap()).unwrap();
    let text = format!(
        "name = \"own\"\n[command]\ncandidates = [\"/bin/false\", \"/usr/bin/env\", \"/bin/sh\"]\n\
         probe = [\"--version\"]\nargs = [{exe:?}, {script:?}]\nenv = {{ OWN = \"1\" }}\n[install]\nhow = \"page\"\ncommand = \"x\"\n\
         [[languages]]\nid = \"words\"\npatterns = [\"*.txt\"]\n"
    );
    let mut definitions = ServerDefinitions::default();
    definitions.insert(ServerDefinition::parse(&text, "own", true).unwrap());
    let asked = Arc::new(Asked::default());
    let approver: Arc<dyn Approver> = Arc::<Asked>::clone(&asked);
    let trusted = |options: &mut PolicyOptions| options.trust.trust(&options.root).unwrap();
    let bench = open_asking(directory, &[("a.txt", "abc")], definitions, approver, trusted);
    for _ in 0..2 {
        bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
        bench.pool.reload(None, None, &cx(LONG)).await.unwrap();
    }
    let asked: Vec<String> = asked.0.lock().clone();
    let expected =
        ["/bin/false --version", "/usr/bin/env --version", &format!("/usr/bin/env {}", exe.display())];
    assert_eq!(asked.len(), expected.len(), "each once: {asked:#?}");
    for (asked, expected) in asked.iter().zip(expected) {
        assert!(asked.contains(expected), "{expected} is missing in {asked}");
        assert!(asked.starts_with("OWN=1 "), "its variables are shown: {asked}");
    }
}

#[tokio::test]
async fn a_refused_definition_is_named_by_the_missing_server() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("adapters/servers");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("own.toml");
    let text = "name = \"own\"\n[command]\ncandidates = [\"/bin/false\"]\n\
        [[languages]]\nid = \"foo\"\npatterns = [\"*.foo\"]\n";
    std::fs::write(&file, text).unwrap();
    let definitions = ServerDefinitions::load(home.path(), None);
    let bench = open(home, &[("a.foo", "abc")], definitions, |_| (), |_| ());
    let error = bench.pool.hover(&bench.doc("a.foo"), 0, &cx(LONG)).await.unwrap_err();
    let error = error.to_string().replace(&file.display().to_string(), "FILE");
    let expected = "no language server is defined for a.foo; search its text, or add a definition; refused definitions: FILE:1: missing field `install`";
    assert_eq!(error, expected);
    bench.pool.take_definitions(ServerDefinitions::built_in());
    let error = bench.pool.hover(&bench.doc("a.foo"), 0, &cx(LONG)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no language server is defined for a.foo; search its text, or add a definition"
    );
}

/// Agrees for the session, and records the questions.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl Approver for Asked {
    fn ask<'a>(&'a self, question: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        self.0.lock().push(question.detail);
        Box::pin(async { Answer::Session })
    }
}
