//! Languages of scripts, configuration and data, from shell to justfiles.

use super::lab::{Case, check};

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn bash_features_work() {
    check(&Case {
        server: "bash-language-server",
        programs: &["bash-language-server", "shellcheck", "shfmt"],
        version: None,
        files: &[
            ("shapes.sh", "#!/bin/bash\n\n# The area of a square.\narea() {\n  echo $(($1 * $1))\n}\n"),
            ("main.sh", "#!/bin/bash\nsource ./shapes.sh\n\narea 2\n"),
            ("broken.sh", "#!/bin/bash\ncd /tmp\n"),
            ("ugly.sh", "if true;then\necho   a\nfi\n"),
        ],
        used: ("main.sh", 4, "area"),
        symbols: Some(("shapes.sh", &["area"])),
        definition: Some(("shapes.sh", "area() {")),
        references: Some(&[("main.sh", "area 2"), ("shapes.sh", "area() {")]),
        implementation: None,
        hover: Some("The area of a square."),
        mistake: Some(("broken.sh", "SC2164", "cd /tmp", "cd /tmp || exit")),
        rename: Some(("surface", &[("main.sh", "surface 2"), ("shapes.sh", "surface() {")])),
        rename_file: None,
        action: Some(("broken.sh", 2, "SC2164")),
        format: Some(("ugly.sh", "if true; then")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn fish_features_work() {
    check(&Case {
        server: "fish-lsp",
        programs: &["fish-lsp"],
        version: None,
        files: &[
            (
                "functions/area.fish",
                "# The area of a square.\nfunction area -a side\n    math $side x $side\nend\n",
            ),
            ("config.fish", "source functions/area.fish\narea 2\n"),
            ("broken.fish", "if true\n    echo 1 # end\n"),
            ("ugly.fish", "if true\necho    a\nend\n"),
        ],
        used: ("config.fish", 2, "area"),
        symbols: Some(("functions/area.fish", &["area", "area.side"])),
        definition: Some(("functions/area.fish", "function area -a side")),
        references: Some(&[("config.fish", "area 2"), ("functions/area.fish", "function area -a side")]),
        implementation: Some((("config.fish", 2, "area"), &[("functions/area.fish", 2)])),
        hover: Some("function area -a side"),
        mistake: Some(("broken.fish", "missing closing token", "    echo 1 # end", "end")),
        rename: Some((
            "surface",
            &[("config.fish", "surface 2"), ("functions/area.fish", "function surface -a side")],
        )),
        rename_file: None,
        action: Some(("broken.fish", 1, "Add missing \"end\"")),
        format: Some(("ugly.fish", "if true\n    echo a\nend\n")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn vim_script_features_work() {
    check(&Case {
        server: "vimls",
        programs: &["vim-language-server"],
        version: None,
        files: &[
            (
                "shapes.vim",
                "\" The area of a square.\nfunction! Area(side) abort\n  return a:side * a:side\nendfunction\n",
            ),
            ("main.vim", "source shapes.vim\necho Area(2)\n"),
            ("plugin/other.vim", "call Area(3)\n"),
            ("broken.vim", "if 1\n  echo 1\n\" ends\n"),
        ],
        used: ("main.vim", 2, "Area"),
        symbols: Some(("shapes.vim", &["Area"])),
        definition: Some(("shapes.vim", "function! Area(side) abort")),
        references: Some(&[("main.vim", "echo Area(2)"), ("plugin/other.vim", "call Area(3)")]),
        implementation: None,
        hover: Some("Area"),
        mistake: Some(("broken.vim", "E171: Missing :endif", "\" ends", "endif")),
        rename: Some((
            "Surface",
            &[
                ("main.vim", "echo Surface(2)"),
                ("plugin/other.vim", "call Surface(3)"),
                ("shapes.vim", "function! Surface(side) abort"),
            ],
        )),
        rename_file: None,
        action: None,
        format: None,
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn yaml_features_work() {
    check(&Case {
        server: "yaml-language-server",
        programs: &["yaml-language-server"],
        version: None,
        files: &[
            ("main.yaml", "defaults: &defaults\n  size: 1\n\nlarge:\n  <<: *defaults\n  size: 2\n"),
            ("broken.yaml", "a: 1\na: 2\n"),
            ("ugly.yaml", "a:   1\nb:    2\n"),
            ("unused.yaml", "a: &size 1\nb: 2\n"),
        ],
        used: ("main.yaml", 5, "defaults"),
        symbols: Some(("main.yaml", &["defaults", "large"])),
        definition: Some(("main.yaml", "size: 1")),
        references: None,
        implementation: None,
        hover: Some("size: 1"),
        mistake: Some(("broken.yaml", "unique", "a: 2", "b: 2")),
        rename: Some(("usual", &[("main.yaml", "defaults: &usual"), ("main.yaml", "<<: *usual")])),
        rename_file: None,
        action: Some(("unused.yaml", 1, "unused anchor")),
        format: Some(("ugly.yaml", "a: 1\nb: 2\n")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn json_features_work() {
    check(&Case {
        server: "vscode-json-language-server",
        programs: &["vscode-json-language-server"],
        version: None,
        files: &[
            ("package.json", "{}\n"),
            (
                "schema.json",
                "{\"type\": \"object\", \"properties\": {\"size\": {\"type\": \"number\", \"description\": \"How large it is\"}}}\n",
            ),
            ("main.json", "{\n  \"$schema\": \"./schema.json\",\n  \"size\": 1\n}\n"),
            ("broken.json", "{\n  \"$schema\": \"./schema.json\",\n  \"size\": \"large\"\n}\n"),
            ("ugly.json", "{\"a\":1}\n"),
        ],
        used: ("main.json", 3, "size"),
        symbols: Some(("main.json", &["$schema", "size"])),
        definition: None,
        references: None,
        implementation: None,
        hover: Some("How large it is"),
        mistake: Some(("broken.json", "number", "  \"size\": \"large\"", "  \"size\": 2")),
        rename: None,
        rename_file: None,
        action: None,
        format: Some(("ugly.json", "{\n    \"a\": 1\n}")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn toml_features_work() {
    check(&Case {
        server: "tombi",
        programs: &["tombi"],
        version: None,
        files: &[
            ("main.toml", "[server]\nport = 80\n"),
            ("broken.toml", "[server]\nport = 80\nport = 81\n"),
            ("ugly.toml", "a   =   1\n"),
        ],
        used: ("main.toml", 2, "port"),
        symbols: Some(("main.toml", &["server", "server.port"])),
        definition: None,
        references: None,
        implementation: None,
        hover: Some("port"),
        mistake: Some(("broken.toml", "uplicate", "port = 81", "host = 81")),
        rename: None,
        rename_file: None,
        action: None,
        format: Some(("ugly.toml", "a = 1")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn dockerfile_features_work() {
    check(&Case {
        server: "dockerfile-language-server",
        programs: &["docker-langserver"],
        version: None,
        files: &[
            ("Dockerfile", "FROM alpine AS build\nRUN echo a\n\nFROM scratch\nCOPY --from=build /a /a\n"),
            ("broken.dockerfile", "FROM scratch\nEXPOSE none\n"),
            ("ugly.dockerfile", "FROM alpine\nRUN echo a \\\necho b\n"),
        ],
        used: ("Dockerfile", 5, "build"),
        symbols: Some(("Dockerfile", &["FROM", "COPY"])),
        definition: Some(("Dockerfile", "FROM alpine AS build")),
        references: None,
        implementation: None,
        hover: None,
        mistake: Some(("broken.dockerfile", "Invalid containerPort", "EXPOSE none", "EXPOSE 80")),
        rename: Some((
            "builder",
            &[("Dockerfile", "FROM alpine AS builder"), ("Dockerfile", "--from=builder /a")],
        )),
        rename_file: None,
        action: None,
        format: Some(("ugly.dockerfile", "RUN echo a \\\n    echo b")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn cmake_features_work() {
    check(&Case {
        server: "cmake-language-server",
        programs: &["cmake-language-server"],
        version: None,
        files: &[(
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.20)\nproject(shapes NONE)\nmessage(STATUS \"a\")\n",
        )],
        used: ("CMakeLists.txt", 3, "message"),
        symbols: None,
        definition: None,
        references: None,
        implementation: None,
        hover: Some("message text"),
        mistake: None,
        rename: None,
        rename_file: None,
        action: None,
        format: None,
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn protocol_buffers_features_work() {
    check(&Case {
        server: "buf",
        programs: &["buf"],
        version: None,
        files: &[
            ("buf.yaml", "version: v2\n"),
            (
                "shapes.proto",
                "syntax = \"proto3\";\n\npackage shapes.v1;\n\n// A shape.\nmessage Shape {\n  int32 side = 1;\n}\n",
            ),
            (
                "main.proto",
                "syntax = \"proto3\";\n\npackage shapes.v1;\n\nimport \"shapes.proto\";\n\nmessage Drawing {\n  repeated Shape shapes = 1;\n}\n",
            ),
            ("ugly.proto", "syntax = \"proto3\";\n\npackage shapes.v1;\n\nmessage   Ugly {}\n"),
        ],
        used: ("main.proto", 8, "Shape"),
        symbols: Some(("shapes.proto", &["shapes.v1.Shape", "shapes.v1.Shape.side"])),
        definition: Some(("shapes.proto", "message Shape {")),
        references: Some(&[
            ("main.proto", "  repeated Shape shapes = 1;"),
            ("shapes.proto", "message Shape {"),
        ]),
        implementation: None,
        hover: Some("A shape."),
        mistake: None,
        rename: Some((
            "Figure",
            &[("main.proto", "  repeated Figure shapes = 1;"), ("shapes.proto", "message Figure {")],
        )),
        rename_file: None,
        action: None,
        format: Some(("ugly.proto", "message Ugly {}")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn just_features_work() {
    check(&Case {
        server: "just-lsp",
        programs: &["just-lsp"],
        version: None,
        files: &[
            (
                "justfile",
                "# Says hello.\nhello name='you':\n    echo hello {{name}}\n\nall: hello\n    echo done\n",
            ),
            ("broken/justfile", "all: nothing\n    echo done\n"),
        ],
        used: ("justfile", 5, "hello"),
        symbols: Some(("justfile", &["hello", "all"])),
        definition: Some(("justfile", "hello name='you':")),
        references: Some(&[("justfile", "all: hello"), ("justfile", "hello name='you':")]),
        implementation: None,
        hover: Some("echo hello"),
        mistake: Some(("broken/justfile", "Recipe `nothing` not found", "all: nothing", "all:")),
        rename: Some(("greet", &[("justfile", "all: greet"), ("justfile", "greet name='you':")])),
        rename_file: None,
        action: Some(("broken/justfile", 1, "all")),
        format: None,
    });
}
