//! Merging of sources into values with origins.

use std::time::Duration;

use expect_test::{expect, expect_file};
use hashline::Dialect;
use policy::Mode;
use serde_json::json;

use super::keys::{Class, keys};
use super::source::Sources;
use super::types::{Choice, Integer, Time};
use super::*;
use crate::project;

fn path(name: &str) -> AbsPath {
    AbsPath::new(name).unwrap()
}

fn texts(words: &[&str]) -> Vec<Text> {
    words.iter().map(|word| Text((*word).to_owned())).collect()
}

#[derive(Default)]
struct Inputs {
    user: &'static str,
    editor: serde_json::Value,
    project: &'static str,
    environment: &'static [(&'static str, &'static str)],
    flags: &'static [(&'static str, &'static str, &'static str)],
}

impl Inputs {
    fn merge(&self) -> Result<Config, ConfigErrors> {
        let mut sources = Sources::default();
        sources.toml(&path("/home/config.toml"), self.user, &[], |path, line| Origin::User { path, line });
        sources.editor(&self.editor);
        let project = path("/w/.pilcrow/config.toml");
        sources.toml(&project, self.project, &[], |path, line| Origin::Project { path, line });
        sources.environment(self.environment.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let flag = |(name, key, value): &(&str, &str, &str)| Flag {
            name: (*name).into(),
            key: (*key).into(),
            value: (*value).into(),
        };
        sources.flags(&self.flags.iter().map(flag).collect::<Vec<_>>());
        merge::merge(sources)
    }

    #[track_caller]
    fn errors(&self, expected: &[&str]) {
        let errors = self.merge().map(|_| ()).unwrap_err().to_string();
        assert_eq!(errors.lines().collect::<Vec<_>>(), expected);
    }
}

fn shown(config: &Config, key: &str) -> (serde_json::Value, String) {
    let shown = config.show().into_iter().find(|shown| shown.key == key).unwrap();
    (shown.value, shown.origins.join(" "))
}

#[test]
fn every_key_is_complete_and_its_default_is_the_programs() {
    let config = Inputs::default().merge().unwrap();
    let values = &config.values;
    assert_eq!(config.default_model(), None);
    assert!(values.providers.is_empty());
    assert_eq!(values.edit.wait, Time(Duration::from_millis(300)));
    assert_eq!(values.edit.parse_regression.0, hashline::ParseRegression::Warn);
    assert_eq!(project::tool_settings(&config).view, hashline::View::default());
    let snapshots = &values.hashline.snapshots;
    assert_eq!([snapshots.paths.0, snapshots.versions.0, snapshots.bytes.0], [256, 8, 64 << 20]);
    assert_eq!(values.policy.mode.0, Mode::Prompt);
    assert_eq!(values.exec.options(), policy::ExecOptions::default());
    assert!(config.rules().is_empty());
    assert_eq!(values.lsp.idle_stop, Time(Duration::from_secs(600)));
    assert_eq!(values.lsp.max_warm, Integer(4));
    assert_eq!(values.run.turn_limit, Integer(200));
    assert_eq!(values.model.context_window.0 as u64, agent::compaction::Limits::default().window);
    assert_eq!((&values.tools.enable[..], &values.tools.disable[..]), (&[][..], &[][..]));
    assert_eq!(values.log.filter.0, "info");
    let variables: Vec<_> = keys().iter().filter_map(|key| key.variable.as_ref()).collect();
    assert_eq!(variables.iter().collect::<BTreeSet<_>>().len(), variables.len());
    for key in keys() {
        let (name, doc) = (key.name(), key.schema["description"].as_str().unwrap());
        assert!(doc.ends_with('.') && !doc.contains('\n'), "{name}");
        assert!(key.variable.as_ref().is_none_or(|name| name.starts_with("PILCROW_")), "{name}");
        assert!(!(key.class == Class::Personal && name.starts_with("policy.")), "{name}");
    }
}

#[test]
fn the_strongest_source_decides_a_free_key() {
    let mut inputs = Inputs { user: "run.turn_limit = 10\n", ..Inputs::default() };
    let check = |inputs: &Inputs, limit: usize, origin: &str| {
        let config = inputs.merge().unwrap();
        assert_eq!(config.values.run.turn_limit, Integer(limit));
        assert_eq!(shown(&config, "run.turn_limit"), (limit.into(), origin.into()));
    };
    check(&inputs, 10, "/home/config.toml:1");
    inputs.project = "\n[run]\nturn_limit = 20\n";
    check(&inputs, 20, "/w/.pilcrow/config.toml:3");
    inputs.environment = &[("PILCROW_RUN_TURN_LIMIT", "30"), ("PILCROW_HOME", "/p"), ("PILCROW_MODEL", "")];
    check(&inputs, 30, "PILCROW_RUN_TURN_LIMIT");
    inputs.flags = &[("--turns", "run.turn_limit", "40")];
    check(&inputs, 40, "--turns");
}

#[test]
fn the_strictest_value_decides_a_policy_key() {
    let mode = |user: &'static str, project: &'static str, flag: Option<&'static str>| {
        let flags: &'static [_] = match flag {
            Some("permissive") => &[("--mode", "policy.mode", "permissive")],
            Some(_) => &[("--mode", "policy.mode", "strict")],
            None => &[],
        };
        let config = Inputs { user, project, flags, ..Inputs::default() }.merge().unwrap();
        (config.values.policy.mode.0, shown(&config, "policy.mode").1)
    };
    let permissive = "policy.mode = 'permissive'";
    let strict = "policy.mode = 'strict'";
    assert_eq!(mode("", "", None), (Mode::Prompt, "default".into()));
    assert_eq!(mode(permissive, "", None), (Mode::Permissive, "/home/config.toml:1".into()));
    assert_eq!(mode("", permissive, None), (Mode::Prompt, "default".into()));
    assert_eq!(mode("", strict, None), (Mode::Strict, "/w/.pilcrow/config.toml:1".into()));
    assert_eq!(mode(permissive, strict, None), (Mode::Strict, "/w/.pilcrow/config.toml:1".into()));
    assert_eq!(mode(strict, permissive, Some("permissive")), (Mode::Strict, "/home/config.toml:1".into()));
    assert_eq!(mode("", strict, Some("permissive")).0, Mode::Strict);
    assert_eq!(mode("", "", Some("permissive")), (Mode::Permissive, "--mode".into()));
}

#[test]
fn rules_add_up_and_those_of_a_project_only_tighten() {
    let inputs = Inputs {
        user: "[policy]\nrules = [\n  'allow write docs/**',\n  'deny exec git push',\n]\n",
        project: "policy.rules = ['allow write src/**', 'deny write *.lock']\n",
        environment: &[("PILCROW_POLICY_RULES", "ask http; deny read x y")],
        ..Inputs::default()
    };
    let config = inputs.merge().unwrap();
    let rules = config.rules();
    let lines: Vec<_> = rules.iter().map(|rule| format!("{} ({})", rule.text(), rule.source())).collect();
    assert_eq!(
        lines,
        [
            "allow write docs/** (/home/config.toml:3)",
            "deny exec git push (/home/config.toml:4)",
            "deny write *.lock (/w/.pilcrow/config.toml:1)",
            "ask http (PILCROW_POLICY_RULES)",
            "deny read x y (PILCROW_POLICY_RULES)",
        ]
    );
    assert_eq!(config.warnings.len(), 1);
    let warning = &config.warnings[0];
    assert!(
        warning.starts_with("/w/.pilcrow/config.toml:1: the rule `allow write src/**` is ignored"),
        "{warning}"
    );
    assert!(
        config.render().contains("    \"deny exec git push\",  # /home/config.toml:4\n"),
        "{}",
        config.render()
    );
}

#[test]
fn a_project_cannot_set_personal_keys() {
    let inputs = Inputs {
        user: "[providers.local]\nbase_url = 'http://localhost:1/v1/'\napi_key_env = 'LOCAL_KEY'\n",
        project: "[providers.local]\nbase_url = 'http://evil/v1'\n[providers.other]\napi_key_env = 'HOME'\n",
        ..Inputs::default()
    };
    let config = inputs.merge().unwrap();
    assert_eq!(config.values.providers.keys().collect::<Vec<_>>(), ["local"]);
    let local = &config.values.providers["local"];
    assert_eq!(local.base_url.as_ref().unwrap().0, "http://localhost:1/v1");
    assert_eq!(local.api_key_env.as_ref().unwrap().0, "LOCAL_KEY");
    assert_eq!(local.keys(), []);
    let starts = [
        "/w/.pilcrow/config.toml:2: `providers.local.base_url` is ignored",
        "/w/.pilcrow/config.toml:4: `providers.other.api_key_env` is ignored",
    ];
    assert_eq!(config.warnings.len(), 2);
    for (warning, start) in config.warnings.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning}");
    }
}

#[test]
fn editor_settings_count_as_a_projects() {
    let inputs = Inputs {
        user: "run.turn_limit = 7\n[policy]\nmode = 'prompt'\n",
        editor: json!({
            "path": "/usr/bin/pilcrow", "trace": { "server": "off" },
            "run": { "turn_limit": 9 }, "lsp.max_warm": 3, "model": { "default": null },
            "editor": { "request_markers": ["TODO(pilcrow)"] },
            "policy": { "mode": "permissive", "rules": ["allow write", "deny write a/**"] },
            "providers": { "x": { "base_url": "http://evil/v1" } },
            "edit": { "waits": "3s" }, "hashline": { "line_checks": "no" },
        }),
        project: "lsp.max_warm = 2\n",
        ..Inputs::default()
    };
    let config = inputs.merge().unwrap();
    let Settings { run, lsp, policy, editor, .. } = &config.values;
    assert_eq!((run.turn_limit.0, lsp.max_warm.0, policy.mode.0), (9, 2, Mode::Prompt));
    assert_eq!(editor.request_markers, [Text("TODO(pilcrow)".into())]);
    assert_eq!(shown(&config, "run.turn_limit"), (9.into(), "editor".to_owned()));
    assert_eq!(config.rules().iter().map(Rule::text).collect::<Vec<_>>(), ["deny write a/**"]);
    assert!(config.default_model().is_none() && config.values.providers.is_empty());
    let starts = [
        "editor: `providers.x.base_url` is ignored",
        "editor: there is no key `edit.waits`; the nearest is `edit.wait`",
        "editor: `hashline.line_checks` cannot have this value and is ignored",
        "editor: the rule `allow write` is ignored: the editor's settings can only ask or deny",
    ];
    assert_eq!(config.warnings.len(), starts.len(), "{:?}", config.warnings);
    for (warning, start) in config.warnings.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning}");
    }
    let inputs = Inputs { editor: json!({ "policy": { "mode": "strict" } }), ..Inputs::default() };
    assert_eq!(inputs.merge().unwrap().values.policy.mode.0, Mode::Strict);
}

#[test]
fn a_misspelt_variable_is_a_warning() {
    let inputs = Inputs {
        environment: &[
            ("PILCROW_HOME", "/p"),
            ("PILCROW_RUN_TURNLIMIT", "30"),
            ("PILCROW_SOMETHING_ELSE", "1"),
            ("PILCROW_model", "m"),
        ],
        ..Inputs::default()
    };
    let config = inputs.merge().unwrap();
    let expected = [
        "there is no setting for the variable PILCROW_RUN_TURNLIMIT; the nearest is PILCROW_RUN_TURN_LIMIT",
        "there is no setting for the variable PILCROW_model; the nearest is PILCROW_MODEL",
    ];
    assert_eq!(config.warnings, expected);
}

#[test]
fn an_unknown_key_is_an_error_with_a_suggestion() {
    let inputs = Inputs {
        user: "[edit]\nwaits = '3s'\n[hashline]\nsnapshot.paths = 3\n[provider.x]\nurl = 1\n",
        flags: &[("--max-warm", "lsp.maxwarm", "3")],
        ..Inputs::default()
    };
    inputs.errors(&[
        "/home/config.toml:2: there is no key `edit.waits`; the nearest is `edit.wait`",
        "/home/config.toml:4: there is no key `hashline.snapshot`; the nearest is `hashline.snapshots.paths`",
        "/home/config.toml:5: there is no key `provider`; the nearest is `providers.NAME.base_url`",
        "--max-warm: there is no key `lsp.maxwarm`; the nearest is `lsp.max_warm`",
    ]);
}

#[test]
fn an_error_names_the_accepted_values() {
    let inputs = Inputs {
        user: "run.turn_limit = 0\nedit.wait = 3\nhashline.line_checks = 'yes'\nlog.filter = 'a=b=c'\n\
                 lsp.idle_stop = '5 minutes'\npolicy.rules = ['permit all']\nproviders.x.api_key_env = 'sk-123'\n\
                 providers.x.base_url = 'ftp://x'\nmodel = 'x'\n",
        environment: &[("PILCROW_LSP_MAX_WARM", "many")],
        ..Inputs::default()
    };
    let errors = inputs.merge().unwrap_err().to_string();
    expect![[r#"
        /home/config.toml:1: `run.turn_limit` cannot have this value: it must be a whole number from 1 to 100000, not 0
        /home/config.toml:2: `edit.wait` cannot have this value: it must be a time such as "500ms", "3s" or "10m", at most 300s, not 3
        /home/config.toml:3: `hashline.line_checks` cannot have this value: it must be true or false, not "yes"
        /home/config.toml:4: `log.filter` cannot have this value: it must be a filter such as "info" or "info,lsp_client=debug", not "a=b=c"
        /home/config.toml:5: `lsp.idle_stop` cannot have this value: it must be a time such as "500ms", "3s" or "10m", at most 86400s, not "5 minutes"
        /home/config.toml:6: `policy.rules` cannot have this value: the rule "permit all" cannot be used: it must begin with allow, ask or deny
        /home/config.toml:7: `providers.x.api_key_env` cannot have this value: it must be the name of an environment variable, not a key itself, not "sk-123"
        /home/config.toml:8: `providers.x.base_url` cannot have this value: it must be a URL that begins with http:// or https://, not "ftp://x"
        /home/config.toml:9: there is no key `model`; the nearest is `model.default`
        PILCROW_LSP_MAX_WARM: `lsp.max_warm` cannot have this value: it must be a whole number from 1 to 64, not "many""#]].assert_eq(&errors);
}

#[test]
fn an_error_suggests_to_remove_quotes() {
    let user =
        "run.turn_limit = '40'\nedit.verify_policy = 'x'\nlsp.max_warm = 'two'\ntools.enable = 'bash'\n";
    let errors = Inputs { user, ..Inputs::default() }.merge().map(|_| ()).unwrap_err().to_string();
    expect![[r#"
        /home/config.toml:1: `run.turn_limit` cannot have this value: it must be a whole number from 1 to 100000, not "40"; leave out the quotes
        /home/config.toml:2: `edit.verify_policy` cannot have this value: it must be one of report, ask, no_new_errors, not "x"
        /home/config.toml:3: `lsp.max_warm` cannot have this value: it must be a whole number from 1 to 64, not "two"
        /home/config.toml:4: `tools.enable` cannot have this value: invalid type: string "bash", expected a list"#]].assert_eq(&errors);
}

#[test]
fn newer_formats_and_syntax_errors_are_refused() {
    Inputs { user: "format = 1\n", ..Inputs::default() }.merge().unwrap();
    Inputs { user: "format = 2\nnew_key = 1\n", ..Inputs::default() }
        .errors(&["/home/config.toml has format 2; this version reads up to 1; use a newer Pilcrow"]);
    Inputs { user: "format = 'x'\n", ..Inputs::default() }
        .errors(&["/home/config.toml:1: `format` cannot have this value: it must be a whole number from 1"]);
    let errors = Inputs { user: "a = 1\nb = [\n\n\n", ..Inputs::default() }.merge().unwrap_err();
    let [ConfigError::Syntax { line, .. }] = &errors.0[..] else { panic!("{errors}") };
    assert!(*line >= 2, "{errors}");
}

#[test]
fn a_projects_file_needs_trust() {
    let temp = tempfile::tempdir().unwrap();
    let (home, root) = (path("/").join(temp.path().join("home")), path("/").join(temp.path().join("root")));
    let files = [
        (home.join("config.toml"), "lsp.max_warm = 1\n"),
        (root.join(".pilcrow/config.toml"), "lsp.max_warm = 2\n"),
    ];
    assert_eq!(Config::load(&home, None, Some(&root), true, &[]).unwrap().values.lsp.max_warm.0, 4);
    for (path, text) in &files {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let config = Config::load(&home, None, Some(&root), true, &[]).unwrap();
    assert_eq!((config.values.lsp.max_warm.0, config.warnings), (2, Vec::new()));
    let config = Config::load(&home, None, Some(&root), false, &[]).unwrap();
    assert_eq!(config.values.lsp.max_warm.0, 1);
    assert!(config.warnings[0].contains("not trusted"), "{:?}", config.warnings);
    assert_eq!(Config::load(&home, None, None, false, &[]).unwrap().warnings, Vec::<String>::new());
    // An unreadable file is an error.
    std::fs::remove_file(&files[0].0).unwrap();
    std::fs::create_dir(&files[0].0).unwrap();
    let errors = Config::load(&home, None, Some(&root), true, &[]).unwrap_err();
    assert!(matches!(errors.0[..], [ConfigError::Read { .. }]), "{errors}");
}

#[test]
fn show_redacts_passwords() {
    let inputs =
        Inputs { user: "providers.'p.q'.base_url = 'https://me:hunter22@host/v1'\n", ..Inputs::default() };
    let rendered = inputs.merge().unwrap().render();
    assert!(
        rendered.contains("[redacted:url-password]@host") && !rendered.contains("hunter22"),
        "{rendered}"
    );
}

#[test]
fn hashline_settings_are_applied() {
    assert_eq!(Dialect::VALUES, Dialect::ALL.map(|dialect| (dialect.as_str(), dialect)));
    let user = "hashline.dialect = 'json'\n[hashline.snapshots]\npaths = 30\nversions = 4\nbytes = 70000\n";
    const ENVIRONMENT: [(&str, &str); 1] = [("PILCROW_HASHLINE_LINE_CHECKS", "false")];
    let config = Inputs { user, environment: &ENVIRONMENT, ..Inputs::default() }.merge().unwrap();
    assert_eq!(
        project::tool_settings(&config).view,
        hashline::View { dialect: hashline::Dialect::Json, checks: false }
    );
    let snapshots = &config.values.hashline.snapshots;
    assert_eq!([snapshots.paths.0, snapshots.versions.0, snapshots.bytes.0], [30, 4, 70_000]);
}

#[test]
fn the_schema_has_every_key() {
    let schema = schema();
    for key in keys() {
        let pointer = key.path.iter().fold(String::new(), |pointer, part| match part.as_str() {
            "NAME" => pointer + "/additionalProperties",
            part => format!("{pointer}/properties/{part}"),
        });
        let property = schema.pointer(&pointer).unwrap_or_else(|| panic!("no {pointer}"));
        assert_eq!(property, &key.schema);
        assert_eq!(property["x-pilcrow-class"], key.class.name());
    }
    let names = keys().iter().map(|key| format!("{}\n", key.name())).collect::<String>();
    expect![[r#"
        model.default
        model.context_window
        model.discovery
        providers.NAME.base_url
        providers.NAME.api_key_env
        providers.NAME.api_key
        providers.NAME.api_keys
        roles.paths
        roles.NAME.model
        roles.NAME.fallbacks
        retry.count
        retry.delay
        retry.max_delay
        retry.idle
        retry.fallback_chains.NAME
        thinking.budgets.minimal
        thinking.budgets.low
        thinking.budgets.medium
        thinking.budgets.high
        thinking.budgets.xhigh
        thinking.budgets.max
        proxy.url
        proxy.token
        edit.mode
        edit.wait
        edit.parse_regression
        edit.verify
        edit.verify_wait
        edit.verify_policy
        hashline.dialect
        hashline.line_checks
        hashline.snapshots.paths
        hashline.snapshots.versions
        hashline.snapshots.bytes
        tools.discovery
        tools.parallel
        tools.enable
        tools.disable
        sessions.fsync
        editor.request_markers
        policy.mode
        policy.rules
        exec.enabled
        exec.deny_threshold
        exec.audit_all
        exec.sandbox
        exec.max_memory
        lsp.idle_stop
        lsp.max_warm
        lsp.max_memory
        lsp.timeout
        lsp.start
        run.turn_limit
        run.steering
        run.queue
        run.on_unsaved
        log.filter
    "#]]
    .assert_eq(&names);
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["providers"]["additionalProperties"]["additionalProperties"], false);
}

#[test]
fn the_formats_page_lists_every_key() {
    const HEADER: &str = "| key | class | default | variable | meaning |\n|---|---|---|---|---|\n";
    let page = include_str!("../../../../docs/formats/config.md");
    let (before, rest) = page.split_once(HEADER).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let rows = keys().iter().map(|key| {
        let cell = |text: Option<String>| text.map_or_else(|| "–".to_owned(), |text| format!("`{text}`"));
        let default = cell(key.schema.get("default").map(ToString::to_string));
        let (variable, doc) = (cell(key.variable.clone()), key.schema["description"].as_str().unwrap());
        format!("| `{}` | {} | {default} | {variable} | {doc} |\n", key.name(), key.class.name())
    });
    let rows: String = rows.collect();
    expect_file!["../../../../docs/formats/config.md"].assert_eq(&format!("{before}{HEADER}{rows}\n{after}"));
}

#[test]
fn agent_tools_override_files_but_not_variables() {
    let temp = tempfile::tempdir().unwrap();
    let directory = path("/").join(temp.path());
    let file = directory.join("tools.toml");
    let inputs = || Inputs {
        user: "tools.disable = ['undo']\ntools.discovery = 'on'\n",
        environment: &[("PILCROW_TOOLS_ENABLE", "bash")],
        ..Inputs::default()
    };
    let config = inputs().merge().unwrap();
    assert_eq!(config.for_agent(&directory).unwrap().values.tools.disable, texts(&["undo"]), "no file");
    let text = "format = 1\nenable = ['ls']\ndisable = ['write']\ndiscovery = 'off'\n";
    std::fs::write(&file, text).unwrap();
    let agents = config.for_agent(&directory).unwrap();
    assert_eq!(
        (&agents.values.tools.enable, &agents.values.tools.disable),
        (&texts(&["bash"]), &texts(&["write"]))
    );
    assert!(!agents.values.tools.discovery.0);
    assert_eq!(shown(&agents, "tools.disable").1, format!("{file}:3"));
    assert_eq!(config.differences(&agents), ["tools.disable", "tools.discovery"]);
    std::fs::write(&file, "fsync = 'on'\n").unwrap();
    let errors = config.for_agent(&directory).unwrap_err().to_string();
    assert!(errors.starts_with(&format!("{file}:1: there is no key `tools.fsync`")), "{errors}");
}

#[test]
fn api_keys_in_files_are_refused_and_not_shown() {
    let inputs = Inputs {
        user: "[providers.a]\napi_key = '${A_KEY}'\n[providers.b]\napi_keys = ['${B1}', 'x-${B2}']\n\
                 [providers.c]\napi_key = { command = ['pass', 'show', 'c'], ttl = '90s', env = ['PASS_TOKEN'] }\n\
                 [proxy]\nurl = 'http://127.0.0.1:1/'\ntoken = '${T}'\n",
        project: "[providers.a]\napi_key = '${HOME}'\n[proxy]\nurl = 'http://evil'\n",
        ..Inputs::default()
    };
    let config = inputs.merge().unwrap();
    let variable = |text: &str| Secret::Variables(text.to_owned());
    let providers = &config.values.providers;
    assert_eq!(providers["a"].keys(), [variable("${A_KEY}")]);
    assert_eq!(providers["b"].keys(), [variable("${B1}"), variable("x-${B2}")]);
    let command = KeyCommand {
        command: vec!["pass".into(), "show".into(), "c".into()],
        ttl: Time(Duration::from_secs(90)),
        env: vec!["PASS_TOKEN".into()],
    };
    assert_eq!(providers["c"].keys(), [Secret::Command(command)]);
    let proxy = &config.values.proxy;
    assert_eq!(proxy.url.as_ref().unwrap().0, "http://127.0.0.1:1");
    assert_eq!(proxy.token, Some(variable("${T}")));
    for wrong in [
        "providers.a.api_key = 'sk-a-real-key'\n",
        "providers.a.api_key = 'sk-a-real-key${'\n",
        "providers.a.api_keys = ['${X}', 'sk-a-real-key']\n",
        "providers.a.api_key = { command = [] }\n",
        "providers.a.api_key = { command = ['x'], ttl = 'soon' }\n",
        "providers.a.api_key = 12345678\n",
        "providers.a.api_key = ['sk-a-real-key']\n",
        "providers.a.api_key = { command = 'sk-a-real-key' }\n",
        "providers.a.api_key = { command = ['x'], ttl = 'sk-a-real-key' }\n",
        "providers.a.api_keys = 'sk-a-real-key'\n",
        "proxy.token = 'sk-a-real-key'\n",
    ] {
        let error = Inputs { user: wrong, ..Inputs::default() }.merge().unwrap_err().to_string();
        assert!(!error.contains("sk-a-real-key") && !error.contains("12345678"), "{error}");
        assert!(error.contains("/home/config.toml:1") && error.contains("auth set"), "{error}");
    }
}

#[test]
fn roles_have_fallbacks_and_paths() {
    let inputs = Inputs {
        user: "[roles.smol]\nmodel = 'a/b'\nfallbacks = ['c']\n[[roles.paths]]\nglob = 'docs/**'\nrole = 'smol'\n\
                 [[roles.paths]]\nglob = '*.rs'\nrole = 'slow'\n[retry.fallback_chains]\n'openai/gpt-5.5' = ['a/b']\n\
                 [thinking.budgets]\nlow = 2000\n",
        ..Inputs::default()
    };
    let config = inputs.merge().unwrap();
    let values = &config.values;
    assert_eq!(values.roles.named.keys().collect::<Vec<_>>(), ["smol"]);
    let smol = &values.roles.named["smol"];
    assert_eq!((smol.model.as_ref().unwrap().0.as_str(), &smol.fallbacks), ("a/b", &texts(&["c"])));
    let paths: Vec<_> = values.roles.paths.iter().map(|rule| (&*rule.glob.0, &*rule.role)).collect();
    assert_eq!(paths, [("docs/**", "smol"), ("*.rs", "slow")]);
    assert_eq!(values.retry.fallback_chains["openai/gpt-5.5"].0, texts(&["a/b"]));
    assert_eq!(values.thinking.budgets.by_level(), BTreeMap::from([(llm::ThinkingLevel::Low, 2000)]));
    for wrong in
        ["[[roles.paths]]\nglob = 'a'\n", "[[roles.paths]]\nglob = '['\nrole = 'x'\n", "roles.paths = 'a'\n"]
    {
        assert!(Inputs { user: wrong, ..Inputs::default() }.merge().is_err(), "{wrong}");
    }
}
