//! Shell, YAML, JSON, TOML, Dockerfiles, CMake.

use super::lab::{Case, check};

#[test]
fn bash() {
    check(
        "bash",
        &Case {
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
            hover: Some("The area of a square."),
            mistake: Some(("broken.sh", "SC2164", "cd /tmp", "cd /tmp || exit")),
            rename: Some(("surface", &[("main.sh", "surface 2"), ("shapes.sh", "surface() {")])),
            rename_file: None,
            action: Some(("broken.sh", 2, "SC2164")),
            format: Some(("ugly.sh", "if true; then")),
        },
    );
}

#[test]
fn yaml() {
    check(
        "yaml",
        &Case {
            server: "yaml-language-server",
            programs: &["yaml-language-server"],
            version: None,
            files: &[
                ("main.yaml", "defaults: &defaults\n  size: 1\n\nlarge:\n  <<: *defaults\n  size: 2\n"),
                ("broken.yaml", "a: 1\na: 2\n"),
                ("ugly.yaml", "a:   1\nb:    2\n"),
            ],
            used: ("main.yaml", 5, "defaults"),
            symbols: Some(("main.yaml", &["defaults", "large"])),
            definition: Some(("main.yaml", "size: 1")),
            references: None,
            hover: Some("size: 1"),
            mistake: Some(("broken.yaml", "unique", "a: 2", "b: 2")),
            rename: Some(("usual", &[("main.yaml", "defaults: &usual"), ("main.yaml", "<<: *usual")])),
            rename_file: None,
            action: None,
            format: Some(("ugly.yaml", "a: 1\nb: 2\n")),
        },
    );
}

#[test]
fn json() {
    check(
        "json",
        &Case {
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
            hover: Some("How large it is"),
            mistake: Some(("broken.json", "number", "  \"size\": \"large\"", "  \"size\": 2")),
            rename: None,
            rename_file: None,
            action: None,
            format: Some(("ugly.json", "{\n    \"a\": 1\n}")),
        },
    );
}

#[test]
fn toml() {
    check(
        "toml",
        &Case {
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
            hover: Some("port"),
            mistake: Some(("broken.toml", "uplicate", "port = 81", "host = 81")),
            rename: None,
            rename_file: None,
            action: None,
            format: Some(("ugly.toml", "a = 1")),
        },
    );
}

#[test]
fn dockerfile() {
    check(
        "dockerfile",
        &Case {
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
            hover: None,
            mistake: Some(("broken.dockerfile", "Invalid containerPort", "EXPOSE none", "EXPOSE 80")),
            rename: Some((
                "builder",
                &[("Dockerfile", "FROM alpine AS builder"), ("Dockerfile", "--from=builder /a")],
            )),
            rename_file: None,
            action: None,
            format: Some(("ugly.dockerfile", "RUN echo a \\\n    echo b")),
        },
    );
}

#[test]
fn cmake() {
    check(
        "cmake",
        &Case {
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
            hover: Some("message text"),
            mistake: None,
            rename: None,
            rename_file: None,
            action: None,
            format: None,
        },
    );
}
