//! Requests in two generated monorepos, by Pilcrow and by a bare client.
//!
//! Both use the same server and ask in turn, so that other load of the machine is the same for both. Prints the
//! cost of Pilcrow, the aim that follows from the bare client, and how often both found the same places.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tests::processes::Mark;
use tests::{Batch, Sandbox, give};

use super::raw_client::{RawClient, file_uri};
use super::{Times, row};

const PACKAGES: usize = 60;
/// Files of a package, with the one that exports the others.
const FILES: usize = 50;
/// Packages that the requests are about.
const ASKED: [usize; 6] = [3, 12, 21, 30, 39, 48];
const TIMES: usize = 5;
const STARTS: usize = 3;

/// Action, request, and the aim.
///
/// The aim is a factor of the bare client's time, and milliseconds more.
const ACTIONS: [(&str, &str, f64, f64); 5] = [
    ("hover", "textDocument/hover", 1.2, 5.0),
    ("definition", "textDocument/definition", 1.2, 5.0),
    ("references", "textDocument/references", 1.3, 0.0),
    ("callers", "textDocument/prepareCallHierarchy", 1.3, 0.0),
    ("implementation", "textDocument/implementation", 1.3, 0.0),
];

struct Language {
    id: &'static str,
    /// The server's command; the other programs are those that it needs.
    programs: &'static [&'static str],
    options: Value,
    settings: Value,
    /// The path of a file of a package.
    file: fn(usize, usize) -> String,
    text: fn(usize, usize) -> String,
}

pub(crate) fn projects() {
    // The commands and settings are those of the built-in definitions.
    let typescript = Language {
        id: "typescript",
        programs: &["typescript-language-server", "tsc"],
        options: json!({"tsserver": {"useSyntaxServer": "never"}}),
        settings: json!({}),
        file: |package, file| match file {
            0 => format!("packages/p{package}/src/index.ts"),
            _ => format!("packages/p{package}/src/f{file}.ts"),
        },
        text: typescript,
    };
    let python = Language {
        id: "python",
        programs: &["basedpyright-langserver"],
        options: json!({}),
        settings: json!({"python": {}, "basedpyright": {"analysis": {
            "diagnosticMode": "openFilesOnly", "autoSearchPaths": true, "useLibraryCodeForTypes": true,
        }}}),
        file: |package, file| match file {
            0 => format!("p{package}/__init__.py"),
            _ => format!("p{package}/f{file}.py"),
        },
        text: python,
    };
    for language in [typescript, python] {
        let sandbox = language.generate();
        language.cold(&sandbox);
        language.questions(&sandbox);
    }
}

impl Language {
    fn generate(&self) -> Sandbox {
        let mut sandbox = Sandbox::new();
        give(&mut sandbox, self.programs);
        let root = sandbox.project();
        for package in 0..PACKAGES {
            for file in 0..FILES {
                sandbox.write(&(self.file)(package, file), (self.text)(package, file));
            }
            if self.id == "typescript" {
                let at = format!("packages/p{package}");
                let manifest =
                    json!({"name": format!("@mono/p{package}"), "version": "1.0.0", "types": "src/index.ts"});
                sandbox.write(&format!("{at}/package.json"), manifest.to_string());
                let references: Vec<Value> =
                    (package.max(1) - 1..package).map(|it| json!({"path": format!("../p{it}")})).collect();
                let config = json!({"extends": "../../tsconfig.base.json", "include": ["src"], "references": references});
                sandbox.write(&format!("{at}/tsconfig.json"), config.to_string());
                fs::create_dir_all(root.join("node_modules/@mono")).unwrap();
                let link = root.join(format!("node_modules/@mono/p{package}"));
                std::os::unix::fs::symlink(format!("../../{at}"), link).unwrap();
            }
        }
        if self.id == "typescript" {
            sandbox.write("package.json", json!({"private": true, "workspaces": ["packages/*"]}).to_string());
            let options =
                json!({"strict": true, "composite": true, "module": "nodenext", "target": "es2022"});
            sandbox.write("tsconfig.base.json", json!({"compilerOptions": options}).to_string());
        } else {
            sandbox.write("pyproject.toml", "[project]\nname = \"mono\"\nversion = \"1\"\n");
        }
        sandbox
    }

    fn bare(&self, sandbox: &Sandbox, root: &Path) -> RawClient {
        let server = Path::new(&sandbox.variables["PILCROW_TOOLS"]).join("bin").join(self.programs[0]);
        let mut command = Command::new(server);
        command.arg("--stdio");
        RawClient::start(sandbox, command, root, &self.options, self.settings.clone())
    }

    /// The time from the start of a server to the first answer.
    fn cold(&self, sandbox: &Sandbox) {
        let (mut bare, mut ours) = (Times::default(), Times::default());
        for _ in 0..STARTS {
            let started = Instant::now();
            let mut client = self.bare(sandbox, &sandbox.project());
            self.ask_bare(&mut client, &sandbox.project(), ACTIONS[1], 3);
            bare.add(started.elapsed());
            drop(client);
            let started = Instant::now();
            let mut batch = Batch::start(sandbox);
            self.ask(&mut batch, ACTIONS[1], 3);
            ours.add(started.elapsed());
            batch.end();
        }
        let meaning = format!("definition from a process just started, bare {:.0} ms", bare.percentile(50));
        let aim = format!("{:.0} ms", bare.percentile(50) * 1.2);
        row(&self.figure("cold"), format!("{:.0} ms", ours.percentile(50)), &aim, &meaning);
    }

    fn questions(&self, sandbox: &Sandbox) {
        // The same project with other homes: a mark counts the processes of one client only.
        let mut other = Sandbox::new();
        other.variables = sandbox.variables.clone();
        let root = sandbox.project();
        let mut client = self.bare(&other, &root);
        let mut batch = Batch::start(sandbox);
        let mut rows: [(Times, Times, usize, BTreeSet<String>); ACTIONS.len()] = Default::default();
        for package in ASKED {
            for (action, row) in ACTIONS.into_iter().zip(&mut rows) {
                for _ in 0..TIMES {
                    let started = Instant::now();
                    let expected = self.ask_bare(&mut client, &root, action, package);
                    row.0.add(started.elapsed());
                    let started = Instant::now();
                    let found = self.ask(&mut batch, action, package);
                    row.1.add(started.elapsed());
                    row.2 += usize::from(expected == found);
                    if expected != found {
                        row.3.insert(format!("{} and {}", brief(&expected), brief(&found)));
                    }
                }
            }
        }
        for ((action, _, factor, more), (bare, ours, same, others)) in ACTIONS.into_iter().zip(rows) {
            let (base, own) = (bare.percentile(50), ours.percentile(50));
            let mut meaning = format!(
                "{:.2} times bare {base:.1} ms; p95 {:.0} and {:.0} ms; the same in {same} of {}",
                own / base,
                bare.percentile(95),
                ours.percentile(95),
                ASKED.len() * TIMES
            );
            for (bare, ours) in others.iter().take(2).filter_map(|it| it.split_once(" and ")) {
                write!(meaning, "; bare {bare}, Pilcrow {ours}").unwrap();
            }
            let aim = format!("{:.1} ms", base * factor + more);
            row(&self.figure(action), format!("{own:.1} ms"), &aim, &meaning);
        }
        let (bare, ours) = (Usage::of(other.mark()), Usage::of(sandbox.mark()));
        row(
            &self.figure("CPU"),
            format!("{:.1} s", ours.cpu),
            &format!("{:.1} s", bare.cpu),
            "of all processes; aim: bare",
        );
        row(
            &self.figure("memory"),
            format!("{:.0} MiB", ours.peak),
            &format!("{:.0} MiB", bare.peak),
            "sum of the processes' peaks (VmHWM); aim: bare",
        );
        row(
            &self.figure("processes"),
            ours.processes.to_string(),
            &bare.processes.to_string(),
            "at the end, Pilcrow's own included; aim: bare",
        );
        batch.end();
    }

    fn figure(&self, name: &str) -> String {
        format!("{}, {name}", self.id)
    }

    /// The file, line (from 0) and name that a request for an action is about.
    fn place(&self, action: &str, package: usize) -> (String, usize, String) {
        let (file, name) = match action {
            "implementation" => (1, format!("Shape{package}")),
            "references" | "callers" => (1, format!("scale{package}")),
            _ => (2, format!("scale{package}")),
        };
        let text = (self.text)(package, file);
        let declared = [
            format!("function {name}("),
            format!("def {name}("),
            format!("interface {name} "),
            format!("class {name}("),
        ];
        let used = format!("return {name}(");
        let is_it = |line: &str| line.contains(&used) || declared.iter().any(|it| line.contains(it));
        let line = text.lines().position(is_it).expect("the name is in the generated text");
        ((self.file)(package, file), line, name)
    }

    fn ask_bare(
        &self,
        client: &mut RawClient,
        root: &Path,
        (action, method, ..): (&str, &str, f64, f64),
        package: usize,
    ) -> BTreeSet<String> {
        let (file, line, name) = self.place(action, package);
        client.open(&file, self.id);
        let text = fs::read_to_string(root.join(&file)).unwrap();
        let character = text.lines().nth(line).and_then(|it| it.find(&name)).unwrap();
        let params = json!({
            "textDocument": {"uri": file_uri(&root.join(&file))},
            "position": {"line": line, "character": character},
            "context": {"includeDeclaration": true},
        });
        let base = format!("{}/", file_uri(root));
        let place = |uri: &Value, range: &Value| {
            let path = uri.as_str().unwrap_or_default().trim_start_matches(&base).to_owned();
            format!("{path}:{}", range["start"]["line"].as_u64().unwrap_or_default() + 1)
        };
        let result = match client.request(method, &params) {
            Ok(result) => result,
            Err(error) => return [format!("error {}", error["code"])].into(),
        };
        let list = |value: Value| match value {
            Value::Array(list) => list,
            Value::Null => Vec::new(),
            one => vec![one],
        };
        match action {
            "hover" => list(result).iter().map(|_| "text".to_owned()).collect(),
            "callers" => {
                let items = list(result);
                let calls = items.iter().flat_map(|item| {
                    list(
                        client
                            .request("callHierarchy/incomingCalls", &json!({"item": item}))
                            .unwrap_or_default(),
                    )
                });
                let lines = |call: Value| {
                    list(call["fromRanges"].clone())
                        .iter()
                        .map(|it| place(&call["from"]["uri"], it))
                        .collect::<Vec<_>>()
                };
                calls.collect::<Vec<_>>().into_iter().flat_map(lines).collect()
            }
            _ => list(result)
                .iter()
                .map(|it| match it.get("targetUri") {
                    Some(uri) => place(uri, &it["targetSelectionRange"]),
                    None => place(&it["uri"], &it["range"]),
                })
                .collect(),
        }
    }

    fn ask(
        &self,
        batch: &mut Batch,
        (action, ..): (&str, &str, f64, f64),
        package: usize,
    ) -> BTreeSet<String> {
        let (file, line, name) = self.place(action, package);
        let arguments = json!({"action": action, "file": file, "line": line + 1, "symbol": name});
        let answer = batch.call("lsp", &arguments);
        if let Some(code) = answer.error() {
            return [format!("error {code}")].into();
        }
        let details = &answer.value["details"];
        let place = |it: &Value| format!("{}:{}", it["path"].as_str().unwrap_or_default(), it["line"]);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        match action {
            "hover" => details["hover"].as_str().map(|_| "text".to_owned()).into_iter().collect(),
            "callers" => {
                let functions = list(&details["functions"]);
                functions.iter().flat_map(|it| list(&it["calls"])).map(|it| place(&it)).collect()
            }
            _ => list(&details["locations"]).iter().map(place).collect(),
        }
    }
}

fn brief(places: &BTreeSet<String>) -> String {
    match places.first() {
        Some(one) if places.len() == 1 => one.clone(),
        _ => format!("{} places", places.len()),
    }
}

/// The cost of all processes with a mark.
struct Usage {
    /// Seconds on a processor, with children that ended.
    cpu: f64,
    /// MiB.
    peak: f64,
    processes: usize,
}

impl Usage {
    fn of(mark: &Mark) -> Usage {
        let living = mark.living();
        let mut usage = Usage { cpu: 0.0, peak: 0.0, processes: living.len() };
        for found in living {
            let file =
                |name: &str| fs::read_to_string(format!("/proc/{}/{name}", found.pid)).unwrap_or_default();
            let stat = file("stat");
            // utime, stime, cutime, cstime (proc(5)); the name before them may hold blanks.
            let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(4);
            usage.cpu += fields.filter_map(|it| it.parse::<f64>().ok()).sum::<f64>() / 100.0;
            usage.peak += super::memory(&file("status"), "VmHWM:");
        }
        usage
    }
}

fn filler(rows: &mut String, row: impl Fn(usize) -> String) {
    (0..12).for_each(|number| rows.push_str(&row(number)));
}

fn typescript(package: usize, file: usize) -> String {
    let before = package.max(1) - 1;
    if file == 0 {
        return (1..FILES).map(|it| format!("export * from \"./f{it}.js\";\n")).collect();
    }
    let mut text = match file {
        1 => format!(
            "export interface Shape{package} {{\n  area(factor: number): number;\n}}\n\
             export abstract class Base{package} implements Shape{package} {{\n  area(factor: number): number {{\n    return factor;\n  }}\n}}\n\
             export function scale{package}(factor: number): number {{\n  return factor * {package};\n}}\n"
        ),
        _ => {
            let other = match before == package {
                true => String::new(),
                false => format!("import {{ scale{before} }} from \"@mono/p{before}\";\n"),
            };
            format!(
                "import {{ Base{package}, scale{package}, type Shape{package} }} from \"./f1.js\";\n{other}\
                 export class C{package}x{file} extends Base{package} {{\n  override area(factor: number): number {{\n    return scale{package}(factor) + scale{before}({file});\n  }}\n}}\n\
                 export function use{package}x{file}(shape: Shape{package}): number {{\n  return shape.area({file});\n}}\n"
            )
        }
    };
    filler(&mut text, |it| {
        format!(
            "export function step{package}x{file}x{it}(value: number): number {{\n  const more = value + {it};\n  return more * 2;\n}}\n"
        )
    });
    text
}

fn python(package: usize, file: usize) -> String {
    let before = package.max(1) - 1;
    if file == 0 {
        return String::new();
    }
    let mut text = match file {
        1 => format!(
            "from abc import ABC, abstractmethod\n\n\n\
             class Shape{package}(ABC):\n    @abstractmethod\n    def area(self, factor: int) -> int: ...\n\n\n\
             class Base{package}(Shape{package}):\n    def area(self, factor: int) -> int:\n        return factor\n\n\n\
             def scale{package}(factor: int) -> int:\n    return factor * {package}\n"
        ),
        _ => {
            let other = match before == package {
                true => String::new(),
                false => format!("from p{before}.f1 import scale{before}\n"),
            };
            format!(
                "from p{package}.f1 import Base{package}, Shape{package}, scale{package}\n{other}\n\n\
                 class C{package}x{file}(Base{package}):\n    def area(self, factor: int) -> int:\n        return scale{package}(factor) + scale{before}({file})\n\n\n\
                 def use{package}x{file}(shape: Shape{package}) -> int:\n    return shape.area({file})\n"
            )
        }
    };
    filler(&mut text, |it| {
        format!(
            "\n\ndef step{package}x{file}x{it}(value: int) -> int:\n    more = value + {it}\n    return more * 2\n"
        )
    });
    text
}
