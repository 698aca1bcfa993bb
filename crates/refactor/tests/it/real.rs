//! Moves and callers with real servers.

use std::time::Duration;

use adapters::{SearchPath, ServerDefinitions};
use paths::AbsPath;
use refactor::FileMove;

use crate::bench::{Bench, cx, open};

const DEADLINE: Duration = Duration::from_secs(150);

fn real(servers: &[&str], files: &[(&str, &str)]) -> Bench {
    let built_in = ServerDefinitions::built_in();
    let mut definitions = ServerDefinitions::default();
    for name in servers {
        definitions.insert((**built_in.get(name).unwrap()).clone());
    }
    let directory = tempfile::tempdir().unwrap();
    let search = |limits: &mut lsp_client::PoolLimits| limits.search = SearchPath::from_env();
    open(directory, files, definitions, |options| options.yes = true, search)
}

async fn moved(bench: &Bench, from: &AbsPath, to: &AbsPath) -> FileMove {
    refactor::move_file(&bench.workspace, &bench.pool, from, to, &cx(DEADLINE)).await.unwrap()
}

/// A package that its settings name, with tests and an example outside of it.
///
/// The example has no settings of its own.
const CLAIMED: &[(&str, &str)] = &[
    ("pyproject.toml", "[tool.pyright]\ninclude = [\"src\"]\n"),
    ("src/pkg/__init__.py", "from .signals import started as started\n"),
    ("src/pkg/signals.py", "started = 1\n"),
    ("src/pkg/core.py", "from .signals import started\n\nx = started\n"),
    ("tests/test_core.py", "from pkg.signals import started\n\nassert started\n"),
    ("examples/one/pyproject.toml", "[project]\nname = \"one\"\nversion = \"0\"\n"),
    ("examples/one/app.py", "from pkg.core import x\n\nprint(x)\n"),
];

/// Moves a module after different earlier requests.
///
/// The server was just started, or knows an example.
#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn a_module_moves_with_its_imports() {
    let expected = [
        "src/pkg/__init__.py: from .sigs import started as started\n",
        "src/pkg/core.py: from .sigs import started\n\nx = started\n",
        "src/pkg/sigs.py: started = 1\n",
        "tests/test_core.py: from pkg.sigs import started\n\nassert started\n",
    ];
    for asks in [&[][..], &["src/pkg/core.py", "examples/one/app.py"]] {
        let bench = real(&["basedpyright"], CLAIMED);
        for name in asks {
            let known = bench.pool.diagnostics(&bench.doc(name), &cx(DEADLINE)).await.unwrap();
            assert!(known.value.pending.is_empty(), "{name}: {known:?}");
            // The server checks the shown file again.
            let look = lsp_client::CheckRole::Dependent;
            let known = bench.pool.check(&bench.doc(name), look, &cx(DEADLINE)).await;
            assert!(known[0].known.is_ok(), "{name}: {known:?}");
        }
        let (from, to) = (bench.path("src/pkg/signals.py"), bench.path("src/pkg/sigs.py"));
        let moved = moved(&bench, &from, &to).await;
        assert!(moved.notes.is_empty(), "{asks:?}: {:?}", moved.notes);
        assert_eq!(bench.outcome(moved.edit), expected, "{asks:?}");
        bench.pool.shutdown(Duration::from_secs(10)).await;
    }
}

/// Moves a directory and checks the references to the files in it.
async fn directory_moves(server: &str, files: &[(&str, &str)], (from, to): (&str, &str), expected: &[&str]) {
    let bench = real(&[server], files);
    let answer = moved(&bench, &bench.path(from), &bench.path(to)).await;
    println!("{server}: {:?}", answer.notes);
    let outcome = bench.outcome(answer.edit);
    for expected in expected {
        assert!(outcome.iter().any(|it| it == expected), "{server}: {expected}\n---\n{outcome:#?}");
    }
    assert_eq!(outcome.len(), expected.len(), "{server}: {outcome:#?}");
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn directories_move_with_references_to_them() {
    let tsconfig = ("tsconfig.json", "{ \"compilerOptions\": { \"strict\": true } }\n");
    directory_moves(
        "typescript-language-server",
        &[
            tsconfig,
            ("src/old/a.ts", "import { c } from '../c';\nexport const a = c;\n"),
            ("src/old/b.ts", "import { a } from './a';\nexport const b = a;\n"),
            ("src/c.ts", "export const c = 1;\n"),
            ("src/main.ts", "import { b } from './old/b';\nconsole.log(b);\n"),
        ],
        ("src/old", "src/new"),
        &[
            "src/main.ts: import { b } from './new/b';\nconsole.log(b);\n",
            "src/new/a.ts: import { c } from '../c';\nexport const a = c;\n",
            "src/new/b.ts: import { a } from './a';\nexport const b = a;\n",
        ],
    )
    .await;
    directory_moves(
        "basedpyright",
        &[
            ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"1\"\n"),
            ("old/__init__.py", ""),
            ("old/a.py", "A = 1\n"),
            ("main.py", "from old.a import A\nimport old.a\n\nprint(A, old.a.A)\n"),
        ],
        ("old", "new"),
        &[
            "main.py: from new.a import A\nimport new.a\n\nprint(A, new.a.A)\n",
            "new/__init__.py: ",
            "new/a.py: A = 1\n",
        ],
    )
    .await;
    directory_moves(
        "rust-analyzer",
        &[
            ("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.0.0\"\nedition = \"2021\"\n"),
            ("src/lib.rs", "pub mod old;\npub use old::a::A;\n"),
            ("src/old/mod.rs", "pub mod a;\n"),
            ("src/old/a.rs", "pub struct A;\n"),
        ],
        ("src/old", "src/new"),
        &[
            "src/lib.rs: pub mod new;\npub use new::a::A;\n",
            "src/new/a.rs: pub struct A;\n",
            "src/new/mod.rs: pub mod a;\n",
        ],
    )
    .await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn typescript_language_server_finds_callers_in_other_packages() {
    const TSCONFIG: &str =
        "{ \"compilerOptions\": { \"strict\": true, \"module\": \"commonjs\" }, \"include\": [\"src\"] }\n";
    let files = [
        ("package.json", "{ \"private\": true, \"workspaces\": [\"a\", \"b\", \"c\"] }\n"),
        ("a/package.json", "{ \"name\": \"a\" }\n"),
        ("a/tsconfig.json", TSCONFIG),
        (
            "a/src/index.ts",
            "export interface Shape { area(): number }\nexport function use(s: Shape) { return s.area(); }\n",
        ),
        ("b/package.json", "{ \"name\": \"b\" }\n"),
        ("b/tsconfig.json", TSCONFIG),
        (
            "b/src/index.ts",
            "import { Shape, use } from \"../../a/src/index\";\nexport class Square implements Shape {\n  area() {\n    \
             return 1;\n  }\n}\nexport function b() {\n  return use(new Square());\n}\n",
        ),
        ("c/package.json", "{ \"name\": \"c\" }\n"),
        ("c/tsconfig.json", TSCONFIG),
        (
            "c/src/index.ts",
            "export interface Shape { other: string }\nexport class Other implements Shape {\n  other = \"\";\n}\n",
        ),
    ];
    let bench = real(&["typescript-language-server"], &files);
    let doc = bench.doc("a/src/index.ts");
    let at = doc.text.find("use").unwrap();
    let found = refactor::callers(&bench.workspace, &bench.pool, &doc, at, &cx(DEADLINE)).await.unwrap();
    let reported = |call: &lsp_client::Call| {
        let lines: Vec<usize> = call.places.iter().map(|place| place.line).collect();
        (bench.workspace.relative(&call.symbol.file), call.symbol.name.clone(), lines)
    };
    let calls: Vec<_> = found.calls.iter().map(reported).collect();
    assert_eq!(calls, [("b/src/index.ts".to_owned(), "b".to_owned(), vec![8])], "{:?}", found.notes);
    bench.pool.shutdown(Duration::from_secs(10)).await;
}
