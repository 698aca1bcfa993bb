//! The languages with a grammar, and the detection of a file's language.
//!
//! The detection uses the extension, then the name, then the first line. A wrong answer is harmless
//! but useless: a text that did not parse before an edit is not checked.

/// A language with a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    Bash,
    C,
    Cpp,
    Css,
    Go,
    Html,
    Java,
    JavaScript,
    Json,
    /// JSON with comments and trailing commas.
    JsonC,
    Lua,
    Markdown,
    Python,
    Rust,
    Toml,
    Tsx,
    TypeScript,
    Yaml,
}

pub(crate) mod kinds;

use Language::*;

const EXTENSIONS: &[(&str, Language)] = &[
    ("bash", Bash),
    ("sh", Bash),
    ("bats", Bash),
    ("c", C),
    ("h", C),
    ("cc", Cpp),
    ("cpp", Cpp),
    ("cxx", Cpp),
    ("c++", Cpp),
    ("hh", Cpp),
    ("hpp", Cpp),
    ("hxx", Cpp),
    ("h++", Cpp),
    ("inl", Cpp),
    ("ipp", Cpp),
    ("css", Css),
    ("go", Go),
    ("html", Html),
    ("htm", Html),
    ("xhtml", Html),
    ("java", Java),
    ("js", JavaScript),
    ("cjs", JavaScript),
    ("mjs", JavaScript),
    ("jsx", JavaScript),
    ("json", Json),
    ("geojson", Json),
    ("webmanifest", Json),
    ("ipynb", Json),
    ("jsonc", JsonC),
    ("code-workspace", JsonC),
    ("lua", Lua),
    ("rockspec", Lua),
    ("md", Markdown),
    ("markdown", Markdown),
    ("py", Python),
    ("pyi", Python),
    ("pyw", Python),
    ("rs", Rust),
    ("toml", Toml),
    ("tsx", Tsx),
    ("ts", TypeScript),
    ("cts", TypeScript),
    ("mts", TypeScript),
    ("yaml", Yaml),
    ("yml", Yaml),
    ("clang-format", Yaml),
    ("clang-tidy", Yaml),
    ("clangd", Yaml),
    ("bashrc", Bash),
    ("bash_profile", Bash),
    ("bash_aliases", Bash),
    ("profile", Bash),
    ("eslintrc", JsonC),
    ("swcrc", JsonC),
    ("babelrc", JsonC),
];

const NAMES: &[(&str, Language)] = &[
    ("Cargo.lock", Toml),
    ("poetry.lock", Toml),
    ("uv.lock", Toml),
    ("Pipfile", Toml),
    ("APKBUILD", Bash),
    ("PKGBUILD", Bash),
    ("SConstruct", Python),
    ("SConscript", Python),
    ("wscript", Python),
    ("composer.lock", Json),
    ("flake.lock", Json),
    ("Pipfile.lock", Json),
    ("devcontainer.json", JsonC),
    (".eslintrc.json", JsonC),
    ("language-configuration.json", JsonC),
];

const INTERPRETERS: &[(&str, Language)] = &[
    ("bash", Bash),
    ("sh", Bash),
    ("dash", Bash),
    ("ksh", Bash),
    ("python", Python),
    ("node", JavaScript),
    ("deno", TypeScript),
    ("bun", TypeScript),
    ("lua", Lua),
    ("luajit", Lua),
];

impl Language {
    pub const ALL: [Self; 18] = [
        Bash, C, Cpp, Css, Go, Html, Java, JavaScript, Json, JsonC, Lua, Markdown, Python, Rust, Toml, Tsx,
        TypeScript, Yaml,
    ];

    /// The language of a file, by its path or else its text; `None` without a grammar.
    pub fn of(path: &str, text: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let in_table = |table: &[(&str, Self)], wanted: &str| {
            table.iter().find(|(word, _)| *word == wanted).map(|(_, language)| *language)
        };
        if let Some(language) = in_table(NAMES, name) {
            return Some(language);
        }
        let Some((stem, extension)) = name.rsplit_once('.') else { return by_first_line(text) };
        let language = in_table(EXTENSIONS, &extension.to_ascii_lowercase())?;
        Some(match language {
            C if extension == "h" && looks_like_cpp(text) => Cpp,
            C if extension == "C" => Cpp,
            Json if is_read_with_comments(path, stem) => JsonC,
            language => language,
        })
    }

    /// The language's usual name.
    pub fn name(self) -> &'static str {
        match self {
            Bash => "Bash",
            C => "C",
            Cpp => "C++",
            Css => "CSS",
            Go => "Go",
            Html => "HTML",
            Java => "Java",
            JavaScript => "JavaScript",
            Json => "JSON",
            JsonC => "JSON with comments",
            Lua => "Lua",
            Markdown => "Markdown",
            Python => "Python",
            Rust => "Rust",
            Toml => "TOML",
            Tsx => "TSX",
            TypeScript => "TypeScript",
            Yaml => "YAML",
        }
    }

    /// Approximate parsing time in nanoseconds per byte.
    ///
    /// Measured on real files, on one core of a server of 2025.
    pub fn parse_nanos_per_byte(self) -> usize {
        match self {
            Json | JsonC => 25,
            Bash => 80,
            Python | Lua => 120,
            Java | JavaScript | Toml | Tsx | TypeScript => 130,
            C | Css | Go | Html | Rust => 150,
            Cpp => 170,
            Yaml => 220,
            Markdown => 250,
        }
    }

    /// Approximate memory of a tree in bytes per byte of text.
    ///
    /// Measured: 22 to 27 for texts of a megabyte; small ones take more.
    pub fn tree_bytes_per_byte(self) -> usize {
        if self == Yaml { 60 } else { 27 }
    }

    pub(crate) fn grammar(self) -> tree_sitter::Language {
        match self {
            Bash => tree_sitter_bash::LANGUAGE,
            C => tree_sitter_c::LANGUAGE,
            Cpp => tree_sitter_cpp::LANGUAGE,
            Css => tree_sitter_css::LANGUAGE,
            Go => tree_sitter_go::LANGUAGE,
            Html => tree_sitter_html::LANGUAGE,
            Java => tree_sitter_java::LANGUAGE,
            JavaScript => tree_sitter_javascript::LANGUAGE,
            Json | JsonC => tree_sitter_json::LANGUAGE,
            Lua => tree_sitter_lua::LANGUAGE,
            Markdown => tree_sitter_md::LANGUAGE,
            Python => tree_sitter_python::LANGUAGE,
            Rust => tree_sitter_rust::LANGUAGE,
            Toml => tree_sitter_toml_ng::LANGUAGE,
            Tsx => tree_sitter_typescript::LANGUAGE_TSX,
            TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Yaml => tree_sitter_yaml::LANGUAGE,
        }
        .into()
    }
}

fn by_first_line(text: &str) -> Option<Language> {
    let line = text.lines().next()?.strip_prefix("#!")?;
    let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let program = words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
    let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|(name, _)| *name == program).map(|(_, language)| *language)
}

fn looks_like_cpp(text: &str) -> bool {
    const WORDS: [&str; 7] =
        ["class ", "namespace ", "template", "using ", "public:", "private:", "extern \"C\""];
    text.lines().any(|line| WORDS.iter().any(|word| line.trim_start().starts_with(word)))
}

/// Whether readers of a `.json` file accept comments and trailing commas.
fn is_read_with_comments(path: &str, stem: &str) -> bool {
    stem.starts_with("tsconfig")
        || stem.starts_with("jsconfig")
        || path.split('/').any(|part| part == ".vscode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_selects_the_language() {
        for (path, text, language) in [
            ("src/lib.rs", "", Some(Rust)),
            ("a/b.TS", "", Some(TypeScript)),
            ("x.d.ts", "", Some(TypeScript)),
            ("a.h", "int f(void);\n", Some(C)),
            ("a.h", "#pragma once\nnamespace a {\n}\n", Some(Cpp)),
            ("Cargo.lock", "", Some(Toml)),
            (".vscode/settings.json", "", Some(JsonC)),
            ("tsconfig.build.json", "", Some(JsonC)),
            ("package.json", "", Some(Json)),
            ("bin/run", "#!/usr/bin/env -S python3.12 -u\n", Some(Python)),
            ("bin/run", "#!/bin/sh\n", Some(Bash)),
            ("bin/run", "#!/usr/bin/perl\n", None),
            ("LICENSE", "text", None),
            ("a.txt", "#!/bin/sh\n", None),
            (".bashrc", "", Some(Bash)),
            ("", "", None),
        ] {
            assert_eq!(Language::of(path, text), language, "{path}");
        }
    }

    #[test]
    fn every_grammar_loads() {
        for language in Language::ALL {
            assert!(
                tree_sitter::Parser::new().set_language(&language.grammar()).is_ok(),
                "{}",
                language.name()
            );
        }
    }
}
