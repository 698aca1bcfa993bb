//! Which model is asked and with which key: roles, paths, fallbacks, several keys, keys of commands, what is found, what it costs, and
//! through a proxy; a recorded session is played again.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};
use testing::model::{ModelServer, Received, Reply};
use tests::Sandbox;
use tests::sandbox::{DEADLINE, Ran, finish};

/// A server that answers each request by what it holds, beside a sandbox with these settings and models, in which `{server}` is
/// its address.
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
            .expect("a file of ours");
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
fn a_key_that_is_refused_gives_way_to_another() {
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
        // Whichever it begins with.
        for _ in 0..4 {
            let ran = run(sandbox, &["run", "hi", "--yes"], &variables).expect(0);
            assert_eq!(ran.stdout.trim(), "answered");
            assert!(!ran.all().contains("key-one-11111"), "{ran:?}");
        }
        let used = keys(server);
        assert_eq!(used.iter().filter(|key| *key == "key-two-22222").count(), 4, "{used:?}");
        let ran = run(sandbox, &["run", "hi", "--yes"], &variables[..1]).expect(2);
        assert!(ran.all().contains("SECOND is not set"), "{ran:?}");
        let shown = sandbox.run(&["config", "show"]).expect(0).stdout;
        assert!(shown.contains("${FIRST}") && !shown.contains("key-one"), "{shown}");
    });
    // Both are refused: it ends, and says so without the keys.
    let mind = |received: &Received| {
        let key =
            received.headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| value.clone());
        Reply::status(401)
            .body(json!({"error": {"message": format!("bad {}", key.unwrap_or_default())}}).to_string())
    };
    with(settings, MINE, mind, |sandbox, server| {
        let variables = [("FIRST", "key-one-11111"), ("SECOND", "key-two-22222")];
        let ran = run(sandbox, &["run", "hi", "--yes"], &variables).expect(1);
        assert!(ran.all().contains("check the API key") && !ran.all().contains("key-"), "{ran:?}");
        assert_eq!(keys(server).len(), 2);
    });
}

#[test]
fn a_command_gives_a_key_that_lasts_for_a_time() {
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
        assert_eq!(used, ["token-1", "token-1"], "it is asked once");
    });
    let settings = "[model]\ndefault = 'mine'\n[providers.mine]\napi_key = { command = ['/bin/sh', '-c', 'echo no login >&2; exit 3'] }\n";
    with(
        settings,
        MINE,
        |_| Reply::text("x"),
        |sandbox, server| {
            let ran = run(sandbox, &["run", "hi", "--yes"], &[]).expect(1);
            assert!(
                ran.all().contains("the command for the key of mine failed")
                    && ran.all().contains("no login"),
                "{ran:?}"
            );
            assert_eq!(server.received().len(), 0);
        },
    );
}

#[test]
fn roles_are_chosen_by_name_by_path_and_give_way_to_their_fallbacks() {
    let settings = "[model]\ndefault = 'mine/usual'\n[roles.slow]\nmodel = 'mine/deep'\n[roles.docs]\nmodel = 'mine/words'\n\
                    fallbacks = ['mine/spare']\n[[roles.paths]]\nglob = 'docs/**'\nrole = 'docs'\n\
                    [retry.fallback_chains]\n'mine/deep' = ['nobody/x', 'mine/spare']\n";
    let mind = |received: &Received| match received.body["model"].as_str() {
        Some("words") => Reply::status(402).body("{\"error\": {\"message\": \"out of credit\"}}"),
        Some(model) => Reply::text(&format!("I am {model}.")),
        None => Reply::status(400),
    };
    with(settings, MINE, mind, |sandbox, server| {
        for (args, asked, notes) in [
            (vec!["run", "hi"], vec!["usual"], ""),
            (vec!["run", "hi", "--model", "slow"], vec!["deep"], "nobody/x cannot take over"),
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
    });
}

#[test]
fn a_model_is_found_by_its_key_and_on_this_machine() {
    let models_file = "[providers.ollama]\nbase_url = '{server}'\n[providers.lmstudio]\nbase_url = 'http://127.0.0.1:1/v1'\n\
                       [providers.llamacpp]\nbase_url = 'http://127.0.0.1:1/v1'\n[providers.anthropic]\nbase_url = '{server}'\n\
                       protocol = 'openai-completions'\n";
    let mind = |received: &Received| match received.target.as_str() {
        "GET /v1/models" => Reply::status(200)
            .header("content-type", "application/json")
            .body("{\"data\": [{\"id\": \"qwen3:8b\"}]}"),
        _ => Reply::text("found"),
    };
    with("", models_file, mind, |sandbox, server| {
        let on = ("PILCROW_MODEL_DISCOVERY", "on");
        let ran = run(sandbox, &["run", "hi"], &[on]).expect(0);
        assert!(ran.stdout.contains("found") && ran.stderr.contains("ollama/qwen3:8b was found"), "{ran:?}");
        assert_eq!(models(server)[1], "qwen3:8b");
        let ran = run(sandbox, &["run", "hi"], &[on, ("ANTHROPIC_API_KEY", "sk-ant-1234567")]).expect(0);
        assert!(ran.stdout.contains("found"), "{ran:?}");
        assert!(
            models(server).last().is_some_and(|model| model.starts_with("claude-")),
            "{:?}",
            models(server)
        );
        let ran = run(sandbox, &["run", "hi"], &[("ANTHROPIC_API_KEY", "sk-ant-1234567")]).expect(1);
        assert!(ran.all().contains("No model is configured"), "{ran:?}");
        let shown = run(sandbox, &["models", "list"], &[]).expect(0).stdout;
        assert!(
            shown.contains("ollama/qwen3:8b  (answers)") && shown.contains("(nobody answers there)"),
            "{shown}"
        );
    });
}

#[test]
fn what_a_run_costs_is_told_and_unknown_is_not_nothing() {
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
        assert!(ran.stderr.contains("1000 tokens in (0 cached), 50 out, $0.0025"), "{ran:?}");
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
fn a_proxy_asks_with_its_own_keys() {
    let mind = |received: &Received| {
        let has_result = received.body.to_string().contains("tool_call_id");
        match has_result {
            false => Reply::call("c1", "read", &json!({"path": "a.txt"})),
            true => Reply::text("It says one."),
        }
    };
    let settings = "[providers.mine]\napi_key = '${MINE_KEY}'\n";
    with(settings, MINE, mind, |sandbox, server| {
        let mut command = sandbox.command(&["proxy", "--listen", "127.0.0.1:0"]);
        command.env("MINE_KEY", "the-proxys-own-key").env("PILCROW_PROXY_TOKEN", "a-token-of-the-proxy");
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
            run(&client, &["run", "what does a.txt say?", "--yes"], &[("TOKEN", "a-token-of-the-proxy")])
                .expect(0);
        assert_eq!(ran.stdout.trim(), "It says one.");
        assert_eq!(keys(server), ["the-proxys-own-key"; 2]);
        let ran = run(&client, &["run", "hi"], &[("TOKEN", "another-token")]).expect(1);
        assert!(ran.all().contains("401") && !ran.all().contains("another-token"), "{ran:?}");
        let ran = run(&client, &["run", "hi", "--model", "anthropic"], &[("TOKEN", "a-token-of-the-proxy")])
            .expect(1);
        assert!(ran.all().contains("there is no key of anthropic"), "{ran:?}");
        assert_eq!(server.received().len(), 2);
        proxy.kill().expect("it is ended");
        proxy.wait().expect("it has ended");
    });
    let sandbox = Sandbox::with(&[]);
    assert!(sandbox.run(&["proxy"]).expect(2).all().contains("PILCROW_PROXY_TOKEN"));
}

#[test]
fn a_session_is_played_again_on_the_code_as_it_is_now() {
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
fn without_a_keyring_keys_are_not_kept_and_it_is_said_why() {
    let sandbox = Sandbox::with(&[]);
    let ran = sandbox.run_with_input(&["auth", "set", "anthropic"], "sk-ant-not-to-be-shown\n").expect(1);
    assert!(ran.all().contains("no session bus") && !ran.all().contains("not-to-be-shown"), "{ran:?}");
    let ran = sandbox.run_with_input(&["auth", "set", "antropic"], "sk-ant-not-to-be-shown\n").expect(2);
    assert!(ran.all().contains("`anthropic`"), "{ran:?}");
    let ran = run(&sandbox, &["auth", "list"], &[("GEMINI_API_KEY", "sk-not-to-be-shown")]).expect(0);
    assert_eq!(ran.stdout.trim(), "google  from the variable GEMINI_API_KEY");
}
