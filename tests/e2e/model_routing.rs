//! Choice of model and key, and replay of a recorded session.
//!
//! Covers roles, paths, fallbacks, several keys, keys from commands, discovery, costs, and proxies.

use std::io::{BufRead as _, BufReader};

use expect_test::expect;
use serde_json::{Value, json};
use testing::model::{ModelServer, Received, Reply};
use tests::editor::uri;
use tests::sandbox::{DEADLINE, Ran, finish};
use tests::{Editor, Sandbox, check_output, line_with};

/// Runs with a server that answers each request by its content.
///
/// The sandbox has these settings and models, in which `{server}` is its address.
fn with(
    settings: &str,
    models: &str,
    mind: impl FnMut(&Received) -> Reply + Send + 'static,
    work: impl FnOnce(&Sandbox, &ModelServer),
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(ModelServer::answering(mind)).expect("the model server");
    let sandbox = Sandbox::with(&[("a.txt", "one\n"), ("docs/b.md", "two\n")]);
    let config = sandbox.home().join("config");
    std::fs::create_dir_all(&config).expect("the configuration's folder");
    for (file, text) in [("config.toml", settings), ("models.toml", models)] {
        std::fs::write(config.join(file), text.replace("{server}", &server.base_url()))
            .expect("the test's own file");
    }
    work(&sandbox, &server);
}

fn run(sandbox: &Sandbox, args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = sandbox.command(args);
    command.envs(variables.iter().copied());
    finish(command.spawn().expect("pilcrow starts"), DEADLINE)
}

fn keys(server: &ModelServer) -> Vec<String> {
    let header = |it: &Received| {
        it.headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| value.clone())
    };
    server.received().iter().map(|it| header(it).unwrap_or_default().replace("Bearer ", "")).collect()
}

fn models(server: &ModelServer) -> Vec<String> {
    server.received().iter().map(|it| it.body["model"].as_str().unwrap_or_default().to_owned()).collect()
}

const MINE: &str = "[providers.mine]\nbase_url = '{server}'\ndefault = 'usual'\n";

#[test]
fn a_refused_key_falls_back_to_another() {
    let settings = "[model]\ndefault = 'mine'\n[providers.mine]\napi_keys = ['${FIRST}', '${SECOND}']\n";
    let mind = |received: &Received| {
        let refused = received.headers.iter().any(|(_, value)| value.contains("key-one-11111"));
        match refused {
            true => Reply::status(429)
                .body("{\"error\": {\"message\": \"key-one-11111 has no quota, insufficient_quota\"}}"),
            false => Reply::text("answered"),
        }
    };
    with(settings, MINE, mind, |sandbox, server| {
        let variables = [("FIRST", "key-one-11111"), ("SECOND", "key-two-22222")];
        // Either key may come first; later runs remember the refused one.
        for _ in 0..4 {
            let ran = run(sandbox, &["run", "hi", "--yes"], &variables).expect(0);
            assert_eq!(ran.stdout.trim(), "answered");
            assert!(!ran.all().contains("key-one-11111"), "{ran:?}");
        }
        let used = keys(server);
        assert_eq!(used.iter().filter(|key| *key == "key-two-22222").count(), 4, "{used:?}");
        assert!(used.len() <= 5, "{used:?}");
        let ran = run(sandbox, &["run", "hi", "--yes"], &variables[..1]).expect(2);
        check_output(
            line_with(&ran.all(), "SECOND"),
            &expect!["pilcrow: the key of mine needs the variable SECOND; set it"],
        );
        let shown = sandbox.run(&["config", "show"]).expect(0).stdout;
        assert!(shown.contains("${FIRST}") && !shown.contains("key-one"), "{shown}");
    });
    // The provider refuses both: the run ends and reports it without the keys.
    let mind = |received: &Received| {
        let key =
            received.headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| value.clone());
        Reply::status(401)
            .body(json!({"error": {"message": format!("bad {}", key.unwrap_or_default())}}).to_string())
    };
    with(settings, MINE, mind, |sandbox, server| {
        let variables = [("FIRST", "key-one-11111"), ("SECOND", "key-two-22222")];
        let ran = run(sandbox, &["run", "hi", "--yes"], &variables).expect(1);
        check_output(
            line_with(&ran.all(), "API key"),
            &expect![
                "pilcrow: mine answered 401 Unauthorized: bad Bearer [redacted:api-key]; check the API key"
            ],
        );
        assert!(!ran.all().contains("key-"), "{ran:?}");
        assert_eq!(keys(server).len(), 2);
    });
}

#[test]
fn a_key_from_a_command_is_cached_for_a_time() {
    let settings = "[model]\ndefault = 'mine'\n[providers.mine]\napi_key = { command = ['/bin/sh', '-c', \
                    'echo x >> \"$COUNT\"; echo \"token-$(wc -l < \"$COUNT\")\"'], ttl = '1h', env = ['COUNT'] }\n";
    let mut turn = 0;
    let mind = move |_: &Received| {
        turn += 1;
        match turn {
            1 => Reply::call("c1", "read", &json!({"path": "a.txt"})),
            _ => Reply::text("read"),
        }
    };
    with(settings, MINE, mind, |sandbox, server| {
        let count = sandbox.beside("count");
        let ran = run(sandbox, &["run", "hi", "--yes"], &[("COUNT", &count.display().to_string())]).expect(0);
        assert_eq!(ran.stdout.trim(), "read");
        let used: Vec<String> = keys(server).iter().map(|key| key.replace(' ', "")).collect();
        assert_eq!(used, ["token-1", "token-1"], "the command runs once");
    });
    // A tool that reads the key does not show it.
    const PRINTED: &str = "words-that-a-command-printed";
    let settings = format!(
        "[model]\ndefault = 'mine'\n[providers.mine]\napi_key = {{ command = ['/bin/echo', '{PRINTED}'], ttl = '1h' }}\n"
    );
    let mut turn = 0;
    let mind = move |_: &Received| {
        turn += 1;
        match turn {
            1 => Reply::call("c1", "read", &json!({"path": "a.txt"})),
            _ => Reply::text("read"),
        }
    };
    with(&settings, MINE, mind, |sandbox, server| {
        sandbox.write("a.txt", format!("it is {PRINTED}\n"));
        let ran = run(sandbox, &["run", "hi", "--yes", "--json"], &[]).expect(0);
        assert_eq!(keys(server), [PRINTED; 2]);
        assert!(!ran.all().contains(PRINTED) && ran.all().contains("[redacted:api-key]"), "{ran:?}");
        for (path, bytes) in crate::models::files(&sandbox.home()) {
            let is_ours = !path.ends_with("config.toml");
            assert!(!is_ours || !String::from_utf8_lossy(&bytes).contains(PRINTED), "{}", path.display());
        }
    });
    let settings = "[model]\ndefault = 'mine'\n[providers.mine]\napi_key = { command = ['/bin/sh', '-c', 'echo no login >&2; exit 3'] }\n";
    with(
        settings,
        MINE,
        |_| Reply::text("x"),
        |sandbox, server| {
            let ran = run(sandbox, &["run", "hi", "--yes"], &[]).expect(1);
            check_output(
                line_with(&ran.all(), "the key of mine"),
                &expect!["pilcrow: the command for the key of mine failed: exit status: 3: no login"],
            );
            assert!(ran.all().contains("no login"), "{ran:?}");
            assert_eq!(server.received().len(), 0);
        },
    );
}

#[test]
fn roles_are_chosen_by_name_or_path_with_fallbacks() {
    let settings = "[model]\ndefault = 'mine/usual'\n[roles.slow]\nmodel = 'mine/deep'\n[roles.docs]\nmodel = 'mine/words'\n\
                    fallbacks = ['mine/spare']\n[[roles.paths]]\nglob = 'docs/**'\nrole = 'docs'\n\
                    [retry.fallback_chains]\n'mine/deep' = ['unknown/x', 'mine/spare']\n";
    let mind = |received: &Received| match received.body["model"].as_str() {
        Some("words") => Reply::status(402).body("{\"error\": {\"message\": \"out of credit\"}}"),
        Some(model) => Reply::text(&format!("I am {model}.")),
        None => Reply::status(400),
    };
    with(settings, MINE, mind, |sandbox, server| {
        for (args, asked, notes) in [
            (vec!["run", "hi"], vec!["usual"], ""),
            (vec!["run", "hi", "--model", "slow"], vec!["deep"], "unknown/x cannot take over"),
            (vec!["run", "hi", "--model", "plan"], vec!["usual"], ""),
            (vec!["run", "look at docs/b.md."], vec!["words", "spare"], "out of credit"),
            (vec!["run", "look at docs/b.md.", "--model", "mine/usual"], vec!["usual"], ""),
            (vec!["run", "look at a.txt"], vec!["usual"], ""),
        ] {
            let before = server.received().len();
            let ran = run(sandbox, &args, &[]).expect(0);
            assert_eq!(models(server)[before..], asked, "{args:?}");
            assert_eq!(ran.stdout.trim(), format!("I am {}.", asked[asked.len() - 1]));
            assert!(ran.stderr.contains(notes), "{ran:?}");
        }
        // The file edited last counts if the prompt names none.
        let shown = sandbox.run(&["read", "docs/b.md"]).expect(0).stdout;
        let head = shown.lines().next().expect("a head");
        sandbox.run_with_input(&["edit"], &format!("{head}\nPUT 1:\n+three\n")).expect(0);
        let before = server.received().len();
        run(sandbox, &["run", "go on"], &[]).expect(0);
        assert_eq!(models(server)[before..], ["words", "spare"]);
    });
}

#[test]
fn files_named_by_a_request_choose_the_role_first() {
    let settings = "[model]\ndefault = 'mine/usual'\n[roles.docs]\nmodel = 'mine/words'\n\
                    [[roles.paths]]\nglob = 'docs/**'\nrole = 'docs'\n";
    let mind = |_: &Received| Reply::text("Read.");
    with(settings, MINE, mind, |sandbox, server| {
        let mut editor = Editor::start(sandbox);
        let (other, docs) = (uri(sandbox, "a.txt"), uri(sandbox, "docs/b.md"));
        editor.open(&other, "plaintext", "one\n");
        editor.open(&docs, "markdown", "two\n");
        for (text, at, expected) in [
            ("look at docs/b.md", &other, "words"),
            ("look at a.txt", &docs, "usual"),
            ("look here", &docs, "words"),
            ("look here", &other, "usual"),
        ] {
            let session = editor.run("pilcrow.prompt", json!({"text": text, "uri": at}));
            assert_eq!(editor.ended(&session), "done");
            assert_eq!(models(server).last().map(String::as_str), Some(expected), "{text}");
        }
        editor.shut_down();
    });
}

#[test]
fn a_role_with_a_level_names_the_fallback_used() {
    let settings = "[model]\ndefault = 'mine/usual'\n[roles.deep]\nmodel = 'mine/deep:low'\nfallbacks = ['mine/spare']\n\
                    [[roles.paths]]\nglob = 'docs/**'\nrole = 'nowhere'\n";
    let models_file =
        format!("{MINE}[providers.mine.models.deep]\nthinking = {{ low = 'low', high = 'high' }}\n");
    let mind = |received: &Received| match received.body["model"].as_str() {
        Some("deep") => Reply::status(403).body("{\"error\": {\"message\": \"usage limit reached\"}}"),
        _ => Reply::text("I am another."),
    };
    with(settings, &models_file, mind, |sandbox, server| {
        let ran = run(sandbox, &["run", "hi", "--model", "deep:OFF"], &[]).expect(0);
        assert_eq!(models(server), ["deep", "spare"]);
        for words in ["switched to mine/spare", "mine/deep has no thinking level `off`; using `low`"] {
            assert!(ran.stderr.contains(words), "{ran:?}");
        }
        let ran = run(sandbox, &["run", "look at docs/b.md"], &[]).expect(2);
        check_output(
            line_with(&ran.stderr, "[[roles.paths]]"),
            &expect![
                "pilcrow: [[roles.paths]] names the role `nowhere` for `docs/**`: unknown provider or model `nowhere`; did you mean one of `azure`, `google`, `together`?"
            ],
        );
        let ran = run(sandbox, &["run", "hi", "--model", "mine/deep:"], &[]).expect(2);
        check_output(
            line_with(&ran.stderr, "minimal"),
            &expect![
                "pilcrow: unknown thinking level after `mine/deep:`; use one of off, minimal, low, medium, high, xhigh, max"
            ],
        );
    });
}

/// Uses secrets in the user's files, the environment, and addresses.
#[test]
fn no_failure_shows_a_secret() {
    const SECRETS: [&str; 6] = [
        "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
        "value-of-my-token",
        "key%2Bof%2Fmine%3D",
        "pw-of-an-address",
        "key-of-an-address",
        "key-of-a-header",
    ];
    let models_file = format!(
        "{MINE}api_key_env = ['MINE_KEY']\nheaders = {{ X-Api-Key = 'key-of-a-header' }}\n[providers.away]\n\
         base_url = 'http://me:pw-of-an-address@127.0.0.1:1/v1?key=key-of-an-address'\n"
    );
    let mind = |_: &Received| {
        Reply::status(400).body(json!({"error": {"message": SECRETS.join(" and ")}}).to_string())
    };
    with("[model]\ndefault = 'mine'\n", &models_file, mind, |sandbox, _| {
        let variables = [("MINE_KEY", "key+of/mine="), ("MY_TOKEN", "value-of-my-token")];
        let shows = |ran: &Ran, what: &str| {
            for secret in SECRETS.into_iter().chain(["key+of/mine="]) {
                assert!(!ran.all().contains(secret), "{what} shows {secret}: {ran:?}");
            }
        };
        let ran = run(sandbox, &["run", "hi", "--yes"], &variables).expect(1);
        assert!(ran.stderr.contains("400") && ran.stderr.contains("[redacted:"), "{ran:?}");
        shows(&ran, "an answer");
        let ran = run(sandbox, &["run", "hi", "--yes", "--model", "away/x"], &variables).expect(1);
        assert!(ran.stderr.contains(" http://127.0.0.1:1/v1"), "{ran:?}");
        shows(&ran, "an address");
        for args in [
            vec!["models", "show", "away/x"],
            vec!["models", "list", "--json"],
            vec!["models", "list", "away"],
        ] {
            let ran = run(sandbox, &args, &variables).expect(0);
            assert!(
                ran.stdout.contains("me:[redacted:url-password]@127.0.0.1:1/v1?key=[redacted:api-key]"),
                "{ran:?}"
            );
            shows(&ran, "the catalogue");
        }
        for (path, bytes) in files(&sandbox.home().join("state")) {
            let text = String::from_utf8_lossy(&bytes);
            let secret = SECRETS.iter().find(|secret| text.contains(**secret));
            assert_eq!(secret, None, "{}", path.display());
        }
    });
}

/// Every file below a directory, with its content.
fn files(directory: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.extend(std::fs::read(&path).ok().map(|bytes| (path, bytes))),
        }
    }
    found
}

/// Accepts one connection as a SOCKS5 proxy (RFC 1928) and forwards it to `port`.
///
/// Returns the requested name.
fn socks(port: u16) -> (u16, std::thread::JoinHandle<String>) {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").port();
    let carry = |mut from: TcpStream, mut to: TcpStream| {
        std::io::copy(&mut from, &mut to).ok();
        to.shutdown(Shutdown::Write).ok();
    };
    let serving = std::thread::spawn(move || {
        let mut client = listener.accept().expect("a client").0;
        let mut read = |count: usize| {
            let mut bytes = vec![0; count];
            client.read_exact(&mut bytes).expect("the client sends its methods");
            bytes
        };
        let methods = read(2)[1];
        read(methods.into());
        let mut client_out = client.try_clone().expect("its other side");
        client_out.write_all(&[5, 0]).expect("no password is needed");
        let mut read = |count: usize| {
            let mut bytes = vec![0; count];
            client.read_exact(&mut bytes).expect("the client sends its request");
            bytes
        };
        let (kind, length) = (read(4)[3], read(1)[0]);
        assert_eq!(kind, 3, "the client requests a name");
        let name = String::from_utf8(read(length.into())).expect("a name");
        read(2);
        client_out.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).expect("it is connected");
        let server = TcpStream::connect(("127.0.0.1", port)).expect("the server");
        let back = (server.try_clone().expect("its other side"), client_out);
        let out = std::thread::spawn(move || carry(client, server));
        carry(back.0, back.1);
        out.join().ok();
        name
    });
    (at, serving)
}

#[test]
fn a_socks_proxy_is_used() {
    let models_file = "[providers.away]\nbase_url = 'http://models.invalid/v1'\n";
    with(
        "",
        models_file,
        |_| Reply::text("through it"),
        |sandbox, server| {
            let (port, serving) = socks(server.port());
            let proxy = format!("socks5h://127.0.0.1:{port}");
            let ran = run(sandbox, &["run", "hi", "--model", "away/x"], &[("http_proxy", &proxy)]).expect(0);
            assert_eq!(ran.stdout.trim(), "through it");
            assert_eq!(serving.join().expect("the proxy"), "models.invalid");
        },
    );
}

#[test]
fn models_are_found_by_key_and_on_this_machine() {
    let models_file = "[providers.ollama]\nbase_url = '{server}'\n[providers.lmstudio]\nbase_url = 'http://127.0.0.1:1/v1'\n\
                       [providers.llamacpp]\nbase_url = 'http://127.0.0.1:1/v1'\n[providers.anthropic]\nbase_url = '{server}'\n\
                       protocol = 'openai-completions'\n[providers.groq]\nbase_url = '{server}'\n";
    let mind = |received: &Received| match received.target.as_str() {
        "GET /v1/models" => Reply::status(200)
            .header("content-type", "application/json")
            .body("{\"data\": [{\"id\": \"qwen3:8b\"}]}"),
        _ => Reply::text("found"),
    };
    with("", models_file, mind, |sandbox, server| {
        let on = ("PILCROW_MODEL_DISCOVERY", "on");
        let ran = run(sandbox, &["run", "hi"], &[on]).expect(0);
        assert!(ran.stdout.contains("found") && ran.stderr.contains("using ollama/qwen3:8b"), "{ran:?}");
        assert_eq!(models(server)[1], "qwen3:8b");
        let ran = run(sandbox, &["run", "hi"], &[on, ("ANTHROPIC_API_KEY", "sk-ant-1234567")]).expect(0);
        assert!(ran.stdout.contains("found"), "{ran:?}");
        assert!(
            models(server).last().is_some_and(|model| model.starts_with("claude-")),
            "{:?}",
            models(server)
        );
        let ran = run(sandbox, &["run", "hi"], &[on, ("GROQ_API_KEY", "gsk-1234567")]).expect(0);
        assert!(ran.stdout.contains("found"), "{ran:?}");
        assert_eq!(models(server).last().map(String::as_str), Some("openai/gpt-oss-120b"));
        let ran = run(sandbox, &["run", "hi"], &[("ANTHROPIC_API_KEY", "sk-ant-1234567")]).expect(1);
        check_output(
            line_with(&ran.all(), "built-in planner"),
            &expect![[
                r#"pilcrow: The built-in planner does not understand this; it can rename, move, find, describe, check, fix, format, debug and test."#
            ]],
        );
        let shown = run(sandbox, &["models", "list"], &[]).expect(0).stdout;
        check_output(line_with(&shown, "ollama/qwen3:8b"), &expect!["  ollama/qwen3:8b  (answers)"]);
        check_output(line_with(&shown, "no server"), &expect!["  (no server answers there)"]);
    });
}

#[test]
fn an_unsupported_thinking_level_is_reported() {
    with(
        "",
        MINE,
        |_| Reply::text("x"),
        |sandbox, server| {
            let lost = "the thinking levels of mine/other are unknown, so `high` is not used";
            let key = [("MINE_KEY", "the-key-of-mine")];
            for (model, is_lost) in
                [("mine/other:high", true), ("mine/other:off", false), ("mine/other", false)]
            {
                let ran = run(sandbox, &["run", "hi", "--yes", "--model", model], &key).expect(0);
                assert_eq!(ran.all().contains(lost), is_lost, "{model}: {ran:?}");
            }
            assert!(server.received().iter().all(|it| it.body.get("reasoning_effort").is_none()));
        },
    );
}

#[test]
fn the_cost_of_a_run_is_reported_or_unknown() {
    let priced = format!("{MINE}[providers.mine.models.usual]\nprice = {{ input = 2.0, output = 10.0 }}\n");
    let mind = |_: &Received| {
        let chunk = |choices: Value, usage: Value| {
            format!("data: {}\n\n", json!({"choices": choices, "usage": usage}))
        };
        let text = chunk(json!([{"delta": {"content": "hi"}, "finish_reason": "stop"}]), Value::Null);
        let usage = chunk(json!([]), json!({"prompt_tokens": 1000, "completion_tokens": 50}));
        Reply::stream(format!("{text}{usage}data: [DONE]\n\n"), 9)
    };
    with("[model]\ndefault = 'mine'\n", &priced, mind, |sandbox, _| {
        let ran = run(sandbox, &["run", "hi"], &[]).expect(0);
        check_output(
            line_with(&ran.stderr, "$0.0025"),
            &expect!["· 1000 tokens in (0 cached), 50 out, $0.0025"],
        );
        run(sandbox, &["run", "hi", "--model", "mine/other"], &[]).expect(0);
        let shown = sandbox.run(&["sessions", "list", "--json"]).expect(0).stdout;
        let costs: Vec<Value> = shown
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["cost"].clone())
            .collect();
        assert_eq!(costs, [Value::Null, json!(0.0025)], "{shown}");
        let shown = sandbox.run(&["sessions", "show"]).expect(0).all();
        assert!(shown.contains("cost unknown"), "{shown}");
    });
}

#[test]
fn tokens_that_were_not_counted_are_not_free() {
    let priced = format!("{MINE}[providers.mine.models.usual]\nprice = {{ input = 2.0, output = 10.0 }}\n");
    for (usage, expected) in [
        (json!({"completion_tokens": 5}), "0 tokens in (0 cached), 5 out, cost unknown"),
        (Value::Null, "the provider reported no usage; cost unknown"),
    ] {
        let mind = move |_: &Received| {
            let choices = json!([{"delta": {"content": "hi"}, "finish_reason": "stop"}]);
            let chunk = json!({"choices": choices, "usage": usage});
            Reply::stream(format!("data: {chunk}\n\ndata: [DONE]\n\n"), usize::MAX)
        };
        with("[model]\ndefault = 'mine'\n", &priced, mind, |sandbox, _| {
            let ran = run(sandbox, &["run", "hi"], &[]).expect(0);
            assert!(ran.stderr.contains(expected), "{ran:?}");
            let listed = sandbox.run(&["sessions", "list"]).expect(0).stdout;
            assert!(listed.contains("cost unknown"), "{listed}");
        });
    }
}

#[test]
fn a_proxy_asks_with_its_own_keys() {
    let mind = |received: &Received| {
        let has_result = received.body.to_string().contains("tool_call_id");
        match has_result {
            false => {
                Reply::call("c1", "write", &json!({"path": "b.txt", "content": "the-databases-password\n"}))
            }
            // This provider quotes the key.
            true => {
                let header = received.headers.iter().find(|(name, _)| name == "authorization");
                let key = header.map(|(_, value)| value.replace("Bearer ", "")).unwrap_or_default();
                Reply::text(&format!("It says one, {key}."))
            }
        }
    };
    let settings = "[providers.mine]\napi_keys = ['${MINE_KEY}', '${MINE_OTHER}']\n";
    with(settings, MINE, mind, |sandbox, server| {
        let mut command = sandbox.command(&["proxy", "--listen", "127.0.0.1:0"]);
        command
            .env("MINE_KEY", "the-proxys-own-key")
            .env("MINE_OTHER", "the-proxys-other-key")
            .env("DB_PASSWORD", "the-databases-password")
            .env("PILCROW_PROXY_TOKEN", "a-token-of-the-proxy");
        let mut proxy = command.spawn().expect("the proxy starts");
        let mut line = String::new();
        BufReader::new(proxy.stdout.take().expect("its output")).read_line(&mut line).expect("its address");
        let url = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
        let client = Sandbox::with(&[("a.txt", "one\n")]);
        std::fs::create_dir_all(client.home().join("config")).expect("the configuration's folder");
        let settings =
            format!("[model]\ndefault = 'mine/usual'\n[proxy]\nurl = '{url}'\ntoken = '${{TOKEN}}'\n");
        std::fs::write(client.home().join("config/config.toml"), settings).expect("the configuration");
        std::fs::write(
            client.home().join("config/models.toml"),
            MINE.replace("{server}", "http://127.0.0.1:1/v1"),
        )
        .expect("the catalogue");
        let ran =
            run(&client, &["run", "write b.txt", "--yes"], &[("TOKEN", "a-token-of-the-proxy")]).expect(0);
        assert!(ran.stdout.starts_with("It says one, [redacted:api-key]"), "{ran:?}");
        let written = std::fs::read_to_string(client.project().join("b.txt")).expect("the requested call");
        assert_eq!(written, "the-databases-password\n", "a call is executed with its own arguments");
        for (path, bytes) in files(&client.home()) {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("the-proxys-"), "the client has it in {}", path.display());
        }
        // One session uses one key, since the provider's cache belongs to the key.
        let used = keys(server);
        assert!(used[0].starts_with("the-proxys-") && used == [used[0].clone(), used[0].clone()], "{used:?}");
        let ran = run(&client, &["run", "hi"], &[("TOKEN", "another-token")]).expect(1);
        assert!(ran.all().contains("401") && !ran.all().contains("another-token"), "{ran:?}");
        let ran = run(&client, &["run", "hi", "--model", "anthropic"], &[("TOKEN", "a-token-of-the-proxy")])
            .expect(1);
        check_output(
            line_with(&ran.all(), "key for anthropic"),
            &expect![
                "pilcrow: anthropic answered 404 Not Found: no API key for anthropic: set ANTHROPIC_API_KEY (system keyring unavailable: there is no session bus (DBUS_SESSION_BUS_ADDRESS)); check the base URL and the model's name"
            ],
        );
        assert_eq!(server.received().len(), 2);
        let refused = by_hand(&url, "bearer a-token-of-the-proxy", "[]");
        assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
        check_output(
            refused.lines().last().unwrap_or_default(),
            &expect![[r#"{"error":{"message":"the request is not a JSON object"}}"#]],
        );
        let request =
            json!({"model": "mine/usual", "context": {"messages": [{"role": "user", "content": "hi"}]}});
        for _ in 0..4 {
            let answer = by_hand(&url, "bearer a-token-of-the-proxy", &request.to_string());
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        let used = keys(server)[2..].to_vec();
        assert!(used[0] != used[1] && used[..2] == used[2..], "without a session: {used:?}");
        proxy.kill().expect("the process can be killed");
        proxy.wait().expect("the process has ended");
    });
    let sandbox = Sandbox::with(&[]);
    assert!(sandbox.run(&["proxy"]).expect(2).all().contains("PILCROW_PROXY_TOKEN"));
    let short = sandbox.command(&["proxy"]).env("PILCROW_PROXY_TOKEN", "fifteen-letters").output().unwrap();
    assert_eq!(short.status.code(), Some(2));
    expect![[r#"
        pilcrow: PILCROW_PROXY_TOKEN has 15 characters, which can be guessed; set at least 16 random ones, such as those of `openssl rand -hex 16`
    "#]].assert_eq(&String::from_utf8_lossy(&short.stderr));
}

/// The answer to one request.
fn by_hand(url: &str, authorization: &str, body: &str) -> String {
    use std::io::{Read as _, Write as _};
    let address = url.strip_prefix("http://").expect("an address");
    let mut stream = std::net::TcpStream::connect(address).expect("the proxy");
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    let length = body.len();
    let head = format!(
        "POST /api/stream HTTP/1.1\r\nhost: {address}\r\nauthorization: {authorization}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).expect("the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer");
    answer
}

#[test]
fn a_session_is_replayed_on_the_current_code() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let script = sandbox.beside("script.jsonl");
    let lines = [
        json!({"tool_calls": [{"name": "write", "arguments": {"path": "b.txt", "content": "made\n"}}], "text": "I make it."}),
        json!({"text": "Made."}),
    ];
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(&script, text.join("\n")).expect("the script");
    sandbox.run(&["run", "make b", "--yes", "--model", &format!("script:{}", script.display())]).expect(0);
    let listed = sandbox.run(&["sessions", "list", "--json"]).expect(0).stdout;
    let id = serde_json::from_str::<Value>(listed.lines().next().expect("one")).expect("JSON")["id"].clone();
    sandbox.run(&["undo"]).expect(0);
    assert!(!sandbox.project().join("b.txt").exists());
    let model = format!("replay:{}", id.as_str().expect("an id"));
    let ran = sandbox.run(&["run", "--yes", "--model", &model]).expect(0);
    assert_eq!(ran.stdout.trim(), "I make it.\nMade.");
    assert_eq!(sandbox.read("b.txt"), "made\n");
    let ran = sandbox.run(&["run", "--model", "replay:nothing"]).expect(2);
    assert!(ran.all().contains("nothing"), "{ran:?}");
}

#[test]
fn without_a_keyring_keys_are_refused_with_the_reason() {
    let sandbox = Sandbox::with(&[]);
    let ran = sandbox.run_with_input(&["auth", "set", "anthropic"], "sk-ant-not-to-be-shown\n").expect(1);
    check_output(
        &ran.all(),
        &expect![[r#"
            pilcrow: system keyring unavailable: there is no session bus (DBUS_SESSION_BUS_ADDRESS); set an environment variable instead
        "#]],
    );
    let ran = sandbox.run_with_input(&["auth", "set", "antropic"], "sk-ant-not-to-be-shown\n").expect(2);
    assert!(ran.all().contains("`anthropic`"), "{ran:?}");
    let ran = run(&sandbox, &["auth", "list"], &[("GEMINI_API_KEY", "sk-not-to-be-shown")]).expect(0);
    assert_eq!(ran.stdout.trim(), "google  from the variable GEMINI_API_KEY");
}

#[test]
fn doctor_reports_whether_configured_keys_exist() {
    let sandbox = Sandbox::with(&[]);
    std::fs::create_dir_all(sandbox.home().join("config")).expect("the configuration's directory");
    let settings = "[providers.openai]\napi_keys = ['${WORK_ONE}', '${WORK_TWO}']\n";
    std::fs::write(sandbox.home().join("config/config.toml"), settings).expect("the configuration");
    let both = [("WORK_ONE", "sk-not-to-be-shown-1"), ("WORK_TWO", "sk-not-to-be-shown-2")];
    // The provider's own variable is ignored if the settings name others.
    let one = [both[0], ("OPENAI_API_KEY", "sk-not-to-be-shown-3")];
    let missing = "no key: the settings need WORK_TWO, which is not set";
    for (variables, kept, found) in
        [(&both, "from the settings", "key from the settings"), (&one, missing, missing)]
    {
        let ran = run(&sandbox, &["auth", "list"], variables).expect(0);
        assert!(ran.stdout.contains(&format!("openai  {kept}\n")) && !ran.all().contains("sk-"), "{ran:?}");
        let ran = run(&sandbox, &["models", "list", "openai"], variables).expect(0);
        let first = ran.stdout.lines().next().expect("the provider");
        assert!(first.starts_with("openai  ") && first.ends_with(&format!(", {found}")), "{first}");
        let ran = run(&sandbox, &["models", "list", "openai", "--json"], variables).expect(0);
        let listed: Value = serde_json::from_str(ran.stdout.trim()).expect("JSON");
        assert_eq!(listed["key"], kept == "from the settings", "{listed}");
    }
}

#[test]
fn interrupting_a_key_prompt_restores_the_echo() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&near).and_then(|()| unlockpt(&near)).expect("the terminal can be opened");
    let name = ptsname(&near, Vec::new()).expect("its name");
    let far = std::fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(rustix::fs::OFlags::NOCTTY.bits() as i32)
        .open(std::ffi::OsStr::from_bytes(name.to_bytes()))
        .expect("its other end");
    let echoes = || tcgetattr(&far).expect("its modes").local_modes.contains(LocalModes::ECHO);
    assert!(echoes());
    let sandbox = Sandbox::with(&[]);
    let mut command = sandbox.command(&["auth", "set", "anthropic"]);
    let child = command.stdin(far.try_clone().expect("its other end")).spawn().expect("it starts");
    assert!(tests::processes::wait_for(DEADLINE, || !echoes()), "the typed key is not shown");
    tests::processes::kill(child.id(), rustix::process::Signal::INT);
    let ran = tests::sandbox::finish(child, DEADLINE).expect(1);
    check_output(
        &ran.all(),
        &expect![[r#"
            API key of anthropic (not shown):
            pilcrow: no key was stored
        "#]],
    );
    assert!(echoes(), "{ran:?}");
}
