//! The same work through each wire protocol, on the command line and in Neovim.
//!
//! The work is: read, rename, read again, edit, request diagnostics, answer.

use serde_json::{Value, json};
use testing::model::protocols::{self, ModelOutput, PROTOCOLS};
use testing::model::{ModelServer, Received, Reply};
use tests::editors::neovim::Setup;
use tests::editors::{Neovim, alone};
use tests::{Sandbox, Scripted};

const KEY: &str = "sk-mine-7f3a9c1d5e8b2460";
const BEFORE: &str = "def greet(): ...\ngreet()\nnope\n";
const AFTER: &str = "def welcome(): ...\nwelcome()  # edited\nnope\n";
const DONE: &str = "All of it is done.";
const WRONG: &str = "an unused name";
/// An image of one pixel, and the same in base64.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\nIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q\x00\x00\x00\x00IEND\xaeB`\x82";
const PNG_BASE64: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";

/// The model's next message, by the number of requests so far.
fn mind(protocol: &'static str) -> impl FnMut(&Received) -> Reply + Send + 'static {
    let mut asked = 0;
    move |received| {
        asked += 1;
        let thought = ModelOutput::Thinking(format!("Step {asked}."));
        let call = |name: &str, arguments: Value| {
            vec![thought.clone(), ModelOutput::call(&format!("c{asked}"), name, arguments)]
        };
        let said = match asked {
            1 | 3 => call("read", json!({"path": "a.py"})),
            2 => call(
                "lsp",
                json!({"action": "rename", "file": "a.py", "symbol": "greet", "new_name": "welcome"}),
            ),
            4 => call(
                "edit",
                json!({"patch": format!("{}\nPUT 2:\n+welcome()  # edited\n", header(&received.body))}),
            ),
            5 => call("lsp", json!({"action": "diagnostics", "file": "a.py"})),
            _ => vec![thought.clone(), ModelOutput::text(DONE)],
        };
        protocols::reply(protocol, &said)
    }
}

/// The header of the last read, at its position in the protocol.
fn header(body: &Value) -> String {
    let text = body.to_string();
    let at = text.rfind("[a.py#").unwrap_or_else(|| panic!("a.py was not read: {text}"));
    text[at..].split_inclusive(']').next().expect("it has an end").to_owned()
}

/// A server of this protocol, and a sandbox whose user has it as a custom provider.
fn work(protocol: &'static str, sandbox: &mut Sandbox) -> (tokio::runtime::Runtime, ModelServer) {
    work_with(mind(protocol), protocol, false, sandbox)
}

fn work_with(
    mind: impl FnMut(&Received) -> Reply + Send + 'static,
    protocol: &str,
    images: bool,
    sandbox: &mut Sandbox,
) -> (tokio::runtime::Runtime, ModelServer) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let server = runtime.block_on(ModelServer::answering(mind)).expect("the model server");
    let directory = sandbox.home().join("config");
    std::fs::create_dir_all(&directory).expect("the configuration's folder");
    let models = format!(
        "[providers.mine]\nprotocol = \"{protocol}\"\nbase_url = \"{}\"\napi_key_env = [\"MINE_KEY\"]\ndefault = \"tiny\"\n\
         [providers.mine.models.tiny]\nimages = {images}\n",
        server.base_url()
    );
    std::fs::write(directory.join("models.toml"), models).expect("the catalogue");
    let settings = "hashline.line_checks = false\npolicy.mode = \"permissive\"\ntools.discovery = \"off\"\n\
                    model.default = \"mine/tiny\"\n";
    std::fs::write(directory.join("config.toml"), settings).expect("the settings");
    sandbox.variables.insert("MINE_KEY".to_owned(), KEY.to_owned());
    (runtime, server)
}

/// Checks that each request contains the result of the tool call before it.
#[track_caller]
fn seen(protocol: &str, server: &ModelServer, diagnosed: &str) {
    let bodies: Vec<String> = server.received().iter().map(|it| it.body.to_string()).collect();
    assert_eq!(bodies.len(), 6, "{protocol}: {}", bodies.last().map_or("", String::as_str));
    for (at, part) in
        [(1, "def greet()"), (2, "welcome"), (3, "def welcome()"), (4, "# edited"), (5, diagnosed)]
    {
        assert!(
            !bodies[at - 1].contains(part) && bodies[at].contains(part),
            "{protocol}: {part:?} in {}",
            bodies[at]
        );
    }
    for received in server.received() {
        let sent = received.headers.iter().any(|(_, value)| value.ends_with(KEY));
        assert!(sent && !received.body.to_string().contains(KEY), "{protocol}: {:?}", received.headers);
    }
}

/// Checks that no session, log, journal or index contains the key.
#[track_caller]
fn keeps_no_key(sandbox: &Sandbox) {
    let kept = crate::models::files(&sandbox.home());
    assert!(
        kept.iter().any(|(path, _)| path.extension().is_some_and(|it| it == "jsonl")),
        "there is a session"
    );
    for (path, bytes) in kept {
        assert!(!String::from_utf8_lossy(&bytes).contains(&KEY[..14]), "the key is in {}", path.display());
    }
}

fn range(line: u32, start: u32, end: u32) -> Value {
    json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": end}})
}

fn protocols() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.into_iter().filter(|name| *name != "pilcrow-proxy")
}

#[test]
fn each_protocol_sends_images_to_models_that_accept_them() {
    for (protocol, images) in protocols().flat_map(|protocol| [(protocol, true), (protocol, false)]) {
        let mut sandbox = Sandbox::with(&[]);
        sandbox.write("shot.png", PNG);
        let mut is_first = true;
        let mind = move |_: &Received| match std::mem::replace(&mut is_first, false) {
            true => {
                let call = ModelOutput::call("c1", "read", json!({"path": "shot.png"}));
                protocols::reply(protocol, &[call])
            }
            false => protocols::reply(protocol, &[ModelOutput::text(DONE)]),
        };
        let (_runtime, server) = work_with(mind, protocol, images, &mut sandbox);
        sandbox.run(&["run", "look at @shot.png.", "--yes"]).expect(0);
        let bodies: Vec<String> = server.received().iter().map(|it| it.body.to_string()).collect();
        let sent: Vec<usize> = bodies.iter().map(|body| body.matches(PNG_BASE64).count()).collect();
        assert_eq!(sent, if images { [1, 2] } else { [0, 0] }, "{protocol}: {bodies:?}");
        let line = "shot.png: image/png, 1 × 1 pixels, 67 bytes";
        let line = if images { line.to_owned() } else { format!("{line} (the model accepts no images)") };
        assert!(bodies[1].contains(&line), "{protocol}: {}", bodies[1]);
    }
}

#[test]
fn a_damaged_image_is_not_sent() {
    for protocol in protocols().take(1) {
        let mut sandbox = Sandbox::with(&[]);
        sandbox.write("cut.png", &PNG[..60]);
        let mut is_first = true;
        let mind = move |_: &Received| match std::mem::replace(&mut is_first, false) {
            true => {
                protocols::reply(protocol, &[ModelOutput::call("c1", "read", json!({"path": "cut.png"}))])
            }
            false => protocols::reply(protocol, &[ModelOutput::text(DONE)]),
        };
        let (_runtime, server) = work_with(mind, protocol, true, &mut sandbox);
        sandbox.run(&["run", "look", "--yes"]).expect(0);
        let body = server.received()[1].body.to_string();
        let line = "cut.png: image/png, 1 × 1 pixels, 60 bytes (not attached";
        assert!(body.contains(line) && !body.contains(&PNG_BASE64[..40]), "{body}");
    }
}

#[test]
fn each_protocol_reads_renames_edits_diagnoses_and_answers() {
    for protocol in protocols() {
        let mut sandbox = Sandbox::with(&[("a.py", BEFORE)]);
        let edit = |line, start, end| json!({"range": range(line, start, end), "newText": "welcome"});
        let document = json!({"textDocument": {"uri": "${root}/a.py", "version": null}, "edits": [edit(0, 4, 9), edit(1, 0, 5)]});
        let symbol =
            json!({"name": "greet", "kind": 12, "range": range(0, 0, 16), "selectionRange": range(0, 4, 9)});
        let wrong = json!({"range": range(0, 4, 11), "severity": 2, "message": WRONG, "code": "W1"});
        let nothing = json!([{"result": {"kind": "full", "items": []}}]);
        let found = json!([{"result": {"kind": "full", "items": [wrong]}}]);
        let script = json!({"methods": {
            "textDocument/documentSymbol": [[{"result": [symbol]}]],
            "textDocument/rename": [[{"result": {"documentChanges": [document]}}]],
            // The requests are after the rename and the edit, and then the requested diagnostics.
            "textDocument/diagnostic": [nothing, nothing, found],
        }});
        let _scripted = Scripted::install(&mut sandbox, &[script]);
        let (_runtime, server) = work(protocol, &mut sandbox);
        let ran = sandbox.run(&["run", "rename it, and say so", "--yes"]).expect(0);
        assert!(ran.stdout.trim().ends_with(DONE), "{protocol}: {ran:?}");
        assert_eq!(sandbox.read("a.py"), AFTER, "{protocol}: {ran:?}");
        seen(protocol, &server, WRONG);
        assert!(!ran.all().contains(KEY), "{protocol}: {ran:?}");
        keeps_no_key(&sandbox);
    }
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_is_served_by_each_protocol() {
    let _alone = alone();
    for protocol in protocols() {
        let mut sandbox = Sandbox::with(&[("a.py", BEFORE)]);
        sandbox.make_repository();
        let (_runtime, server) = work(protocol, &mut sandbox);
        let neovim = Neovim::start(&sandbox, Setup::Plugin, &["a.py"]);
        neovim.wait_lua(
            "the server knows the file",
            "return #vim.lsp.get_clients({ name = 'pilcrow', bufnr = 0 }) == 1",
        );
        neovim.lua("require('pilcrow').prompt('rename it, and say so'); return true");
        neovim.wait_lua(
            &format!("{protocol}: the answer"),
            &format!("return vim.fn.execute('messages'):find('{DONE}') ~= nil or vim.fn.bufnr('pilcrow://answer') ~= -1 and table.concat(vim.fn.getbufline('pilcrow://answer', 1, '$'), '\\n'):find('{DONE}') ~= nil"),
        );
        neovim.wait_text("a.py", protocol, |text| format!("{}\n", text.trim_end()) == AFTER);
        assert_eq!(sandbox.read("a.py"), BEFORE, "{protocol}: what is open is not saved");
        // The results of the edits have the problems too, but not the counts.
        seen(protocol, &server, "0 hints in 1 file");
        assert!(!neovim.messages().contains(KEY) && !neovim.server_log().contains(KEY), "{protocol}");
        keeps_no_key(&sandbox);
    }
}
