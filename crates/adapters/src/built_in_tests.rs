//! Tests of the built-in definitions and of their JSON schemas.

use std::path::Path;

use serde_json::Value;

use crate::*;

const SERVER_SCHEMA: &str = include_str!("../../../docs/formats/server-definition.schema.json");
const DEBUGGER_SCHEMA: &str = include_str!("../../../docs/formats/adapter-definition.schema.json");

fn files(directory: &str) -> Vec<(String, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters").join(directory);
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let value: toml::Table = toml::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        (name, serde_json::to_value(value).unwrap())
    };
    files.iter().map(read).collect()
}

#[test]
fn every_definition_file_is_built_in() {
    let names = |directory| -> Vec<String> { files(directory).into_iter().map(|(name, _)| name).collect() };
    let servers: Vec<String> = ServerDefinitions::built_in().list().map(|it| it.name.clone()).collect();
    assert_eq!(servers, names("servers"));
    let debuggers: Vec<String> = DebuggerDefinitions::built_in().list().map(|it| it.name.clone()).collect();
    assert_eq!(debuggers, names("debuggers"));
}

#[test]
fn every_definition_file_follows_its_schema() {
    for (schema, directory) in [(SERVER_SCHEMA, "servers"), (DEBUGGER_SCHEMA, "debuggers")] {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for (name, value) in files(directory) {
            let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new(), "{name}");
            // An untested definition names a page; a tested one says how to install it.
            assert!(value["verified"].is_object() || value["install"]["page"].is_string(), "{name}");
        }
        let wrong = serde_json::json!({"name": "x", "languages": [], "nmae": 1});
        assert!(validator.iter_errors(&wrong).count() >= 2);
    }
}

/// Checks that the schema and the parser know the same keys.
///
/// The parser's error for an unknown key lists the keys that it knows.
#[track_caller]
fn check_keys<D: Parse>(schema: &str, small: &str, tables: &[&str]) {
    let schema: Value = serde_json::from_str(schema).unwrap();
    for table in tables {
        let key = if table.is_empty() { "nothing".to_owned() } else { format!("{table}.nothing") };
        let error = D::parse(&format!("{key} = 1\n{small}"), "s", false).err().unwrap().to_string();
        let (_, listed) = error.split_once("expected one of ").unwrap_or_else(|| panic!("{key}: {error}"));
        let mut listed: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
        let steps = table.split('.').filter(|step| !step.is_empty());
        let pointer: String = steps.map(|step| format!("/properties/{step}")).collect();
        let found = schema.pointer(&format!("{pointer}/properties")).unwrap().as_object().unwrap();
        // The parser reads `format` before the other keys.
        let mut known: Vec<&str> =
            found.keys().map(String::as_str).filter(|key| *key != "format" || !table.is_empty()).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known, "{key}");
    }
}

#[test]
fn the_schemas_list_the_keys_that_are_parsed() {
    let server = "name = \"s\"\nlanguages = []\ncommand.candidates = [\"s\"]\ninstall.how = \"page\"\n\
        install.page = \"x\"\n";
    let tables = [
        "",
        "root",
        "ready",
        "diagnostics",
        "diagnostics.clean",
        "features",
        "requires",
        "command",
        "watch",
        "install",
    ];
    check_keys::<ServerDefinition>(SERVER_SCHEMA, server, &tables);
    let debugger = "name = \"a\"\nverified = false\ncommand.candidates = [\"a\"]\nlaunch = {}\n\
        install.how = \"page\"\ninstall.page = \"x\"\n";
    check_keys::<DebuggerDefinition>(DEBUGGER_SCHEMA, debugger, &["", "command", "quirks", "install"]);
}

#[test]
fn the_best_server_of_each_feature_comes_first() {
    let definitions = ServerDefinitions::built_in();
    let best = |path: &str, feature| -> Vec<String> {
        let found = definitions.for_feature(Path::new(path), feature);
        found.iter().map(|definition| definition.name.clone()).collect()
    };
    assert_eq!(best("/a.py", Feature::Rename)[..3], ["basedpyright", "pyright", "ty"]);
    assert_eq!(best("/a.py", Feature::Format)[0], "ruff");
    assert_eq!(best("/a.py", Feature::Diagnostics)[..3], ["basedpyright", "pyright", "ruff"]);
    assert_eq!(best("/a.rs", Feature::Rename), ["rust-analyzer"]);
    assert!(best("/a.txt", Feature::Rename).is_empty());
}

#[test]
fn members_of_an_impl_block_belong_to_its_type() {
    let definitions = ServerDefinitions::built_in();
    let pattern = definitions.get("rust-analyzer").unwrap().container_pattern.clone().unwrap();
    for (name, expected) in [
        ("impl Buffer", Some("Buffer")),
        ("impl Clone for Buffer", Some("Buffer")),
        ("impl<T: Into<u8>, const N: usize> From<[T; N]> for deep::Set<T, N>", Some("Set")),
        ("impl<'a> Iterator for &'a mut Rows", Some("Rows")),
        ("impl_Integer", None),
        ("impl", None),
        ("Implementer", None),
    ] {
        let found = pattern.captures(name).and_then(|found| found.get(1)).map(|name| name.as_str());
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn definitions_of_format_1_are_read() {
    let server = "name = \"s\"\nopens_holders = true\ntwins = [[\"a\", \"b\"]]\n[root]\nlone_markers = [\"m\"]\n\
        [ready]\nbesides = [\"check\"]\n[watch]\ngone = \"x/y\"\n[diagnostics]\nagain_by_change = true\n\
        check = { method = \"c\", progress = \"p\", settle_ms = 7 }\n[[languages]]\nid = \"x\"\npatterns = [\"*.x\"]\n\
        [command]\ncandidates = [\"s\"]\n[install]\nhow = \"page\"\npage = \"x\"\n";
    let server = ServerDefinition::parse(server, "s.toml", false).unwrap();
    assert!(server.open_candidates && server.stub_extensions.len() == 1);
    assert_eq!(
        (server.root.fallback_markers, server.ready.ignored_progress),
        (vec!["m".into()], vec!["check".into()])
    );
    assert_eq!(server.watch.deletion_probe.as_deref(), Some("x/y"));
    assert_eq!(server.diagnostics.check.unwrap().debounce_ms, 7);
    assert!(server.diagnostics.recheck.unwrap().params.is_empty());
    let debugger = "format = 1\nname = \"a\"\nfolders = true\nverified = false\nlaunch = {}\n\
        [quirks]\nexit_says = [\"status \"]\nown_lines = [\"l\"]\nown_endings = [\"e\"]\ntells_signal = \"s\"\n\
        completes_after = \"p \"\nlogs_in_program = true\noutput_of_program = true\n\
        [quirks.wrap]\nprogram = \"by\"\nwords = \"args\"\nusual = \"node\"\nwith = [\"sh\"]\nsays = \"${code}\"\n\
        [command]\ncandidates = [\"a\"]\n[install]\nhow = \"page\"\npage = \"x\"\n";
    let debugger = DebuggerDefinition::parse(debugger, "a.toml", false).unwrap();
    let quirks = debugger.quirks;
    assert!(debugger.directories && quirks.logpoints_write_to_program && quirks.shares_program_output);
    assert_eq!((&quirks.exit_code_text[0][..], &quirks.adapter_lines[0][..]), ("status ", "l"));
    assert_eq!(
        (quirks.signal_command.unwrap(), quirks.completion_prefix.unwrap()),
        ("s".into(), "p ".into())
    );
    assert_eq!(quirks.wrap.unwrap().command, ["sh"]);
}
