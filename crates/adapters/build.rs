//! Embeds every definition of `adapters/` with its file patterns.
//!
//! Opening a project then parses only the definitions that may apply to it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let servers = table(
        "servers",
        "static SERVERS",
        "BuiltIn<ServerDefinition>",
        Some(&|table| {
            let languages = table.get("languages").and_then(toml::Value::as_array).ok_or("no languages")?;
            languages.iter().map(patterns).collect::<Result<Vec<_>, _>>().map(|lists| lists.concat())
        }),
    );
    let debuggers =
        table("debuggers", "static DEBUGGERS", "BuiltIn<DebuggerDefinition>", Some(&|table| patterns(table)));
    let editors = table("editors", "static EDITORS", "BuiltIn<EditorDefinition>", Some(&|_| Ok(Vec::new())));
    let runners = table("runners", "pub static RUNNERS", "(&str, &str)", None);
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    #[expect(clippy::disallowed_methods, reason = "a build script writes into its own directory")]
    std::fs::write(Path::new(&out).join("built_in.rs"), servers + &debuggers + &editors + &runners)
        .expect("cargo made the directory");
}

type Patterns<'a> = &'a dyn Fn(&toml::Value) -> Result<Vec<String>, String>;

/// Renders the Rust source of a table of the definitions in one directory, by name.
///
/// Without `patterns`, an entry holds the name and the text.
fn table(directory: &str, constant: &str, kind: &str, patterns: Option<Patterns<'_>>) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters").join(directory);
    println!("cargo:rerun-if-changed={}", directory.display());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let mut table = format!("{constant}: [{kind}; {}] = [\n", files.len());
    for file in &files {
        let fail = |reason: String| -> ! { panic!("{}: {reason}", file.display()) };
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| fail(error.to_string()));
        let parsed: toml::Table = toml::from_str(&text).unwrap_or_else(|error| fail(error.to_string()));
        let name = file.file_stem().expect("a file with an extension has a stem").to_string_lossy();
        let text = format!("include_str!({:?})", file.display());
        let written = match patterns.map(|patterns| patterns(&toml::Value::Table(parsed))) {
            Some(Ok(patterns)) => writeln!(table, "    BuiltIn::new({name:?}, {text}, &{patterns:?}),"),
            Some(Err(reason)) => fail(reason),
            None => writeln!(table, "    ({name:?}, {text}),"),
        };
        written.expect("writing to a string cannot fail");
    }
    table.push_str("];\n");
    table
}

fn patterns(table: &toml::Value) -> Result<Vec<String>, String> {
    let patterns = table.get("patterns").and_then(toml::Value::as_array);
    let texts = patterns.into_iter().flatten();
    texts
        .map(|text| text.as_str().map(str::to_owned).ok_or_else(|| "a pattern is not a string".to_owned()))
        .collect()
}
