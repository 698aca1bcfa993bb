//! Sources in, values with origins out.

use serde_json::json;

use super::keys::{Class, KEYS};
use super::source::Sources;
use super::value::Kind;
use super::*;

fn path(name: &str) -> AbsPath {
    AbsPath::new(name).unwrap()
}

#[derive(Default)]
struct Given {
    person: &'static str,
    editor: serde_json::Value,
    project: &'static str,
    environment: &'static [(&'static str, &'static str)],
    flags: &'static [(&'static str, &'static str, &'static str)],
}

impl Given {
    fn merge(&self) -> Result<Config, ConfigErrors> {
        let mut sources = Sources::default();
        sources.toml(&path("/home/config.toml"), self.person, |path, line| Origin::Person { path, line });
        sources.editor(&self.editor);
        sources.toml(&path("/w/.pilcrow/config.toml"), self.project, |path, line| Origin::Project {
            path,
            line,
        });
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
fn every_key_is_whole_and_its_default_is_what_the_program_uses() {
    let config = Given::default().merge().unwrap();
    assert_eq!(config.model(), None);
    assert_eq!(config.providers(), BTreeMap::new());
    assert_eq!(config.diagnostics_wait(), Duration::from_secs(3));
    assert_eq!(config.parse_regression(), ParseRegression::Warn);
    assert_eq!(config.view(), hashline::View::default());
    assert_eq!([config.snapshot_paths(), config.snapshot_versions()], [256, 8]);
    assert_eq!(config.snapshot_bytes(), 64 << 20);
    assert_eq!(config.mode(), Mode::Prompt);
    assert!(config.rules().is_empty());
    assert_eq!(config.idle_stop(), Duration::from_secs(600));
    assert_eq!(config.max_warm(), 4);
    assert_eq!(config.turn_limit(), 200);
    assert_eq!(config.context_window(), agent::compaction::Limits::default().window);
    assert_eq!((config.enabled_tools(), config.disabled_tools()), (Vec::new(), Vec::new()));
    assert_eq!(config.log_filter(), "info");
    let mut variables: Vec<_> = KEYS.iter().filter_map(|key| key.variable).collect();
    variables.sort_unstable();
    variables.dedup();
    assert_eq!(variables.len(), KEYS.iter().filter(|key| key.variable.is_some()).count());
    for key in KEYS {
        assert!(key.doc.ends_with('.') && !key.doc.contains('\n'), "{}", key.name);
        assert!(key.variable.is_none_or(|name| name.starts_with("PILCROW_")), "{}", key.name);
        assert!(!(key.class == Class::Personal && key.name.starts_with("policy.")), "{}", key.name);
    }
}

#[test]
fn free_keys_go_by_precedence() {
    let mut given = Given { person: "run.turn_limit = 10\n", ..Given::default() };
    let check = |given: &Given, limit: usize, origin: &str| {
        let config = given.merge().unwrap();
        assert_eq!(config.turn_limit(), limit);
        assert_eq!(shown(&config, "run.turn_limit"), (limit.into(), origin.into()));
    };
    check(&given, 10, "/home/config.toml:1");
    given.project = "\n[run]\nturn_limit = 20\n";
    check(&given, 20, "/w/.pilcrow/config.toml:3");
    given.environment = &[("PILCROW_RUN_TURN_LIMIT", "30"), ("PILCROW_HOME", "/p"), ("PILCROW_MODEL", "")];
    check(&given, 30, "PILCROW_RUN_TURN_LIMIT");
    given.flags = &[("--turns", "run.turn_limit", "40")];
    check(&given, 40, "--turns");
}

#[test]
fn of_a_policy_key_the_strictest_counts() {
    let mode = |person: &'static str, project: &'static str, flag: Option<&'static str>| {
        let flags: &'static [_] = match flag {
            Some("permissive") => &[("--mode", "policy.mode", "permissive")],
            Some(_) => &[("--mode", "policy.mode", "strict")],
            None => &[],
        };
        let config = Given { person, project, flags, ..Given::default() }.merge().unwrap();
        (config.mode(), shown(&config, "policy.mode").1)
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
fn rules_add_up_and_a_projects_only_tighten() {
    let given = Given {
        person: "[policy]\nrules = [\n  'allow write docs/**',\n  'deny exec git push',\n]\n",
        project: "policy.rules = ['allow write src/**', 'deny write *.lock']\n",
        environment: &[("PILCROW_POLICY_RULES", "ask http; deny read x y")],
        ..Given::default()
    };
    let config = given.merge().unwrap();
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
fn a_project_sets_nothing_personal() {
    let given = Given {
        person: "[providers.local]\nbase_url = 'http://localhost:1/v1/'\napi_key_env = 'LOCAL_KEY'\n",
        project: "[providers.local]\nbase_url = 'http://evil/v1'\n[providers.other]\napi_key_env = 'HOME'\n",
        ..Given::default()
    };
    let config = given.merge().unwrap();
    let local = Provider {
        base_url: Some("http://localhost:1/v1".into()),
        api_key_env: Some("LOCAL_KEY".into()),
        keys: vec![],
    };
    assert_eq!(config.providers(), BTreeMap::from([("local".to_owned(), local)]));
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
fn the_editor_may_do_what_a_project_may() {
    let given = Given {
        person: "run.turn_limit = 7\n[policy]\nmode = 'prompt'\n",
        editor: json!({
            "path": "/usr/bin/pilcrow", "trace": { "server": "off" },
            "run": { "turn_limit": 9 }, "lsp.max_warm": 3, "model": { "default": null },
            "editor": { "request_markers": ["TODO(pilcrow)"] },
            "policy": { "mode": "permissive", "rules": ["allow write", "deny write a/**"] },
            "providers": { "x": { "base_url": "http://evil/v1" } },
            "edit": { "diagnostic_wait": "3s" }, "hashline": { "line_checks": "no" },
        }),
        project: "lsp.max_warm = 2\n",
        ..Given::default()
    };
    let config = given.merge().unwrap();
    assert_eq!((config.turn_limit(), config.max_warm(), config.mode()), (9, 2, Mode::Prompt));
    assert_eq!(config.request_markers(), ["TODO(pilcrow)"]);
    assert_eq!(shown(&config, "run.turn_limit"), (9.into(), "editor".to_owned()));
    assert_eq!(config.rules().iter().map(Rule::text).collect::<Vec<_>>(), ["deny write a/**"]);
    assert_eq!((config.model(), config.providers()), (None, BTreeMap::new()));
    let starts = [
        "editor: `providers.x.base_url` is ignored",
        "editor: there is no key `edit.diagnostic_wait`; the nearest is `edit.diagnostics_wait`",
        "editor: `hashline.line_checks` cannot have this value and is ignored",
        "editor: the rule `allow write` is ignored: the editor's settings can only ask or deny",
    ];
    assert_eq!(config.warnings.len(), starts.len(), "{:?}", config.warnings);
    for (warning, start) in config.warnings.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning}");
    }
    let given = Given { editor: json!({ "policy": { "mode": "strict" } }), ..Given::default() };
    assert_eq!(given.merge().unwrap().mode(), Mode::Strict);
}

#[test]
fn a_misspelt_variable_is_told_with_the_nearest() {
    let given = Given {
        environment: &[
            ("PILCROW_HOME", "/p"),
            ("PILCROW_RUN_TURNLIMIT", "30"),
            ("PILCROW_SOMETHING_ELSE", "1"),
            ("PILCROW_model", "m"),
        ],
        ..Given::default()
    };
    let config = given.merge().unwrap();
    let expected = [
        "there is no setting for the variable PILCROW_RUN_TURNLIMIT; the nearest is PILCROW_RUN_TURN_LIMIT",
        "there is no setting for the variable PILCROW_model; the nearest is PILCROW_MODEL",
    ];
    assert_eq!(config.warnings, expected);
}

#[test]
fn an_unknown_key_is_named_with_the_nearest() {
    let given = Given {
        person: "[edit]\ndiagnostic_wait = '3s'\n[hashline]\nsnapshot.paths = 3\n[provider.x]\nurl = 1\n",
        flags: &[("--max-warm", "lsp.maxwarm", "3")],
        ..Given::default()
    };
    given.errors(&[
        "/home/config.toml:2: there is no key `edit.diagnostic_wait`; the nearest is `edit.diagnostics_wait`",
        "/home/config.toml:4: there is no key `hashline.snapshot`; the nearest is `hashline.snapshots.paths`",
        "/home/config.toml:5: there is no key `provider`; the nearest is `providers.NAME.base_url`",
        "--max-warm: there is no key `lsp.maxwarm`; the nearest is `lsp.max_warm`",
    ]);
}

#[test]
fn a_wrong_value_says_what_is_right() {
    let given = Given {
        person: "run.turn_limit = 0\nedit.diagnostics_wait = 3\nhashline.line_checks = 'yes'\nlog.filter = 'a=b=c'\n\
                 lsp.idle_stop = '5 minutes'\npolicy.rules = ['permit all']\nproviders.x.api_key_env = 'sk-123'\n\
                 providers.x.base_url = 'ftp://x'\nmodel = 'x'\n",
        environment: &[("PILCROW_LSP_MAX_WARM", "many")],
        ..Given::default()
    };
    let errors = given.merge().unwrap_err().to_string();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 10, "{errors}");
    for (line, parts) in lines.iter().zip([
        ["/home/config.toml:1: `run.turn_limit`", "from 1 to 100000, not 0"],
        ["/home/config.toml:2: `edit.diagnostics_wait`", "\"3s\""],
        ["/home/config.toml:3: `hashline.line_checks`", "true or false"],
        ["/home/config.toml:4: `log.filter`", "a filter such as"],
        ["/home/config.toml:5: `lsp.idle_stop`", "not \"5 minutes\""],
        ["/home/config.toml:6: `policy.rules`", "allow, ask or deny"],
        ["/home/config.toml:7: `providers.x.api_key_env`", "name of a variable"],
        ["/home/config.toml:8: `providers.x.base_url`", "http://"],
        ["/home/config.toml:9: there is no key `model`", "`model.default`"],
        ["PILCROW_LSP_MAX_WARM: `lsp.max_warm`", "not \"many\""],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}\n{parts:?}");
    }
}

#[test]
fn a_number_in_quotes_is_told_as_such() {
    let person = "run.turn_limit = '40'\nedit.verify_policy = 'x'\nlsp.max_warm = 'two'\n";
    let errors = Given { person, ..Given::default() }.merge().map(|_| ()).unwrap_err().to_string();
    let lines: Vec<&str> = errors.lines().collect();
    assert!(lines[0].contains("not \"40\"; leave out the quotes"), "{errors}");
    assert!(lines[2].ends_with("not \"two\""), "{errors}");
}

#[test]
fn formats_and_syntax() {
    Given { person: "format = 1\n", ..Given::default() }.merge().unwrap();
    Given { person: "format = 2\nnew_key = 1\n", ..Given::default() }
        .errors(&["/home/config.toml has format 2, this program knows up to 1; use a newer Pilcrow"]);
    Given { person: "format = 'x'\n", ..Given::default() }
        .errors(&["/home/config.toml:1: `format` cannot have this value: it must be a whole number from 1"]);
    let errors = Given { person: "a = 1\nb = [\n\n\n", ..Given::default() }.merge().unwrap_err();
    let [ConfigError::Syntax { line, .. }] = &errors.0[..] else { panic!("{errors}") };
    assert!(*line >= 2, "{errors}");
}

#[test]
fn files_are_read_where_they_belong() {
    let temp = tempfile::tempdir().unwrap();
    let (home, root) = (path("/").join(temp.path().join("home")), path("/").join(temp.path().join("root")));
    let files = [
        (home.join("config.toml"), "lsp.max_warm = 1\n"),
        (root.join(".pilcrow/config.toml"), "lsp.max_warm = 2\n"),
    ];
    assert_eq!(Config::load(&home, None, Some(&root), true, &[]).unwrap().max_warm(), 4);
    for (path, text) in &files {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let config = Config::load(&home, None, Some(&root), true, &[]).unwrap();
    assert_eq!((config.max_warm(), config.warnings), (2, Vec::new()));
    let config = Config::load(&home, None, Some(&root), false, &[]).unwrap();
    assert_eq!(config.max_warm(), 1);
    assert!(config.warnings[0].contains("not trusted"), "{:?}", config.warnings);
    assert_eq!(Config::load(&home, None, None, false, &[]).unwrap().warnings, Vec::<String>::new());
    // What is there but cannot be read is an error, not a default.
    std::fs::remove_file(&files[0].0).unwrap();
    std::fs::create_dir(&files[0].0).unwrap();
    let errors = Config::load(&home, None, Some(&root), true, &[]).unwrap_err();
    assert!(matches!(errors.0[..], [ConfigError::Read { .. }]), "{errors}");
}

#[test]
fn passwords_are_not_shown() {
    let given =
        Given { person: "providers.'p.q'.base_url = 'https://me:hunter22@host/v1'\n", ..Given::default() };
    let rendered = given.merge().unwrap().render();
    assert!(
        rendered.contains("[redacted:url-password]@host") && !rendered.contains("hunter22"),
        "{rendered}"
    );
}

#[test]
fn the_settings_of_hashline_are_used() {
    let choices = KEYS.iter().find(|key| key.name == "hashline.dialect").unwrap().kind;
    assert!(
        matches!(choices, Kind::Choice(words) if words == hashline::Dialect::ALL.map(hashline::Dialect::as_str))
    );
    let person = "hashline.dialect = 'json'\n[hashline.snapshots]\npaths = 30\nversions = 4\nbytes = 70000\n";
    const ENVIRONMENT: [(&str, &str); 1] = [("PILCROW_HASHLINE_LINE_CHECKS", "false")];
    let config = Given { person, environment: &ENVIRONMENT, ..Given::default() }.merge().unwrap();
    assert_eq!(config.view(), hashline::View { dialect: hashline::Dialect::Json, checks: false });
    assert_eq!(
        [config.snapshot_paths(), config.snapshot_versions(), config.snapshot_bytes()],
        [30, 4, 70_000]
    );
}

#[test]
fn the_schema_has_every_key_with_its_default() {
    let schema = schema();
    for key in KEYS {
        let pointer = key.name.split('.').fold(String::new(), |pointer, part| match part {
            "NAME" => pointer + "/additionalProperties",
            part => format!("{pointer}/properties/{part}"),
        });
        let property = schema.pointer(&pointer).unwrap_or_else(|| panic!("{}: no {pointer}", key.name));
        assert_eq!(property["description"], key.doc);
        assert_eq!(property["x-pilcrow-class"], key.class.name());
        assert_eq!(property.get("default").is_some(), key.default.is_some(), "{}", key.name);
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["providers"]["additionalProperties"]["additionalProperties"], false);
}

/// The page lists what the table says.
#[test]
fn the_page_of_the_format_names_every_key() {
    let page = include_str!("../../../../docs/formats/config.md");
    for key in KEYS {
        let default = key.default.map_or_else(|| "–".to_owned(), |default| format!("`{default}`"));
        let variable = key.variable.map_or_else(|| "–".to_owned(), |name| format!("`{name}`"));
        let row = format!("| `{}` | {} | {default} | {variable} | {} |", key.name, key.class.name(), key.doc);
        assert!(page.contains(&row), "docs/formats/config.md lacks the row\n{row}");
    }
}

#[test]
fn an_agents_tools_count_over_files_and_below_variables() {
    let temp = tempfile::tempdir().unwrap();
    let folder = path("/").join(temp.path());
    let file = folder.join("tools.toml");
    let given = || Given {
        person: "tools.disable = ['undo']\ntools.discovery = 'on'\n",
        environment: &[("PILCROW_TOOLS_ENABLE", "bash")],
        ..Given::default()
    };
    let config = given().merge().unwrap();
    assert_eq!(config.for_agent(&folder).unwrap().disabled_tools(), ["undo"], "the file need not be there");
    let text = "format = 1\nenable = ['ls']\ndisable = ['write']\ndiscovery = 'off'\n";
    std::fs::write(&file, text).unwrap();
    let agents = config.for_agent(&folder).unwrap();
    assert_eq!(
        (agents.enabled_tools(), agents.disabled_tools()),
        (vec!["bash".into()], vec!["write".into()])
    );
    assert!(!agents.searches_tools());
    assert_eq!(shown(&agents, "tools.disable").1, format!("{file}:3"));
    assert_eq!(config.differences(&agents), ["tools.disable", "tools.discovery"]);
    std::fs::write(&file, "fsync = 'on'\n").unwrap();
    let errors = config.for_agent(&folder).unwrap_err().to_string();
    assert!(errors.starts_with(&format!("{file}:1: there is no key `tools.fsync`")), "{errors}");
}

#[test]
fn keys_are_never_written_and_never_shown() {
    let given = Given {
        person: "[providers.a]\napi_key = '${A_KEY}'\n[providers.b]\napi_keys = ['${B1}', 'x-${B2}']\n\
                 [providers.c]\napi_key = { command = ['pass', 'show', 'c'], ttl = '90s', env = ['PASS_TOKEN'] }\n\
                 [proxy]\nurl = 'http://127.0.0.1:1/'\ntoken = '${T}'\n",
        project: "[providers.a]\napi_key = '${HOME}'\n[proxy]\nurl = 'http://evil'\n",
        ..Given::default()
    };
    let config = given.merge().unwrap();
    let variable = |text: &str| Secret::Variables(text.to_owned());
    let providers = config.providers();
    assert_eq!(providers["a"].keys, [variable("${A_KEY}")]);
    assert_eq!(providers["b"].keys, [variable("${B1}"), variable("x-${B2}")]);
    let command = KeyCommand {
        command: vec!["pass".into(), "show".into(), "c".into()],
        ttl: Duration::from_secs(90),
        env: vec!["PASS_TOKEN".into()],
    };
    assert_eq!(providers["c"].keys, [Secret::Command(command)]);
    assert_eq!(config.proxy(), Some(("http://127.0.0.1:1".into(), vec![variable("${T}")])));
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
        let error = Given { person: wrong, ..Given::default() }.merge().unwrap_err().to_string();
        assert!(!error.contains("sk-a-real-key") && !error.contains("12345678"), "{error}");
        assert!(error.contains("/home/config.toml:1") && error.contains("auth set"), "{error}");
    }
}

#[test]
fn roles_are_read_with_their_fallbacks_and_paths() {
    let given = Given {
        person: "[roles.smol]\nmodel = 'a/b'\nfallbacks = ['c']\n[[roles.paths]]\nglob = 'docs/**'\nrole = 'smol'\n\
                 [[roles.paths]]\nglob = '*.rs'\nrole = 'slow'\n[retry.fallback_chains]\n'openai/gpt-5.5' = ['a/b']\n\
                 [thinking.budgets]\nlow = 2000\n",
        ..Given::default()
    };
    let config = given.merge().unwrap();
    let smol = Role { model: Some("a/b".into()), fallbacks: vec!["c".into()] };
    assert_eq!(config.roles(), BTreeMap::from([("smol".to_owned(), smol)]));
    let paths = [("docs/**".to_owned(), "smol".to_owned()), ("*.rs".to_owned(), "slow".to_owned())];
    assert_eq!(config.role_paths(), paths);
    assert_eq!(config.fallback_chain("openai/gpt-5.5"), ["a/b"]);
    assert_eq!(config.thinking_budgets(), BTreeMap::from([(llm::ThinkingLevel::Low, 2000)]));
    for wrong in
        ["[[roles.paths]]\nglob = 'a'\n", "[[roles.paths]]\nglob = '['\nrole = 'x'\n", "roles.paths = 'a'\n"]
    {
        assert!(Given { person: wrong, ..Given::default() }.merge().is_err(), "{wrong}");
    }
}
