//! Makes the table of the built-in server definitions: each file of `adapters/servers` with the patterns
//! of its languages, so that opening a project reads none of them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

#[expect(clippy::disallowed_methods, reason = "a build script writes into its own folder")]
fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/servers");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let mut table = format!("static BUILT_IN: [BuiltIn; {}] = [\n", files.len());
    for file in &files {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.file_stem().expect("it has an extension, so a stem").to_string_lossy();
        let patterns = patterns(&text).unwrap_or_else(|reason| panic!("{}: {reason}", file.display()));
        let place = format!("/../../adapters/servers/{name}.toml");
        let text = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {place:?}))");
        writeln!(table, "    BuiltIn::new({name:?}, {text}, &{patterns:?}),").expect("a string takes all");
    }
    table.push_str("];\n");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("built_in.rs"), table).expect("cargo made the folder");
}

fn patterns(text: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let languages = table.get("languages").and_then(toml::Value::as_array).ok_or("no languages")?;
    let patterns = languages.iter().flat_map(|it| it.get("patterns").and_then(toml::Value::as_array));
    let texts = patterns.flatten().map(|it| it.as_str().map(str::to_owned).ok_or("a pattern is no text"));
    Ok(texts.collect::<Result<_, _>>()?)
}
