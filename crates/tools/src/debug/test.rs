//! `test`: one test under the debugger, to where it fails.
//!
//! What a runner is started with is `runners`', where an adapter stops at its failure is its definition's.

use std::path::PathBuf;
use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use dap_client::{Clock, Frame, LaunchSpec, Ran, Session, State, Stop, Target, TestRule};
use serde_json::{Map, Value, json};
use workspace::{AbsPath, CommandLine, ErrorCode};

use super::expected::{self, Place, Verdict};
use super::runners::{self, Run, Start};
use super::{Arguments, Debug, needs, signals};
use crate::{Failure, counted};

/// Stops in code of others that are passed at most.
const PASSED: usize = 1_000;
const FRAMES: u64 = 60;

impl Debug {
    pub(super) async fn test(
        &self,
        args: &Arguments,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<ToolResult, Failure> {
        if let Some(on) = args.on.as_deref().filter(|on| *on != "failure") {
            let message =
                format!("`on: {on}` is not known; a test is stopped on `failure`, or at `breakpoints`");
            return Err(Failure::new(ErrorCode::InvalidArguments, message));
        }
        let (title, run) = self.runner(args, cx, clock).await?;
        let spec = self.test_spec(args, cx, &run, clock).await?;
        let mut plan = self.plan(spec).await?;
        plan.title = title.clone();
        let rule = plan.adapter.tests.get(run.rule).cloned().unwrap_or_default();
        let TestRule { exceptions, functions, .. } = rule;
        functions.iter().for_each(|name| plan.breakpoints.add_function(name));
        // Where the person says at which exceptions it stops, it stops there.
        let asked = plan.breakpoints.exceptions.is_some();
        plan.breakpoints.exceptions = plan.breakpoints.exceptions.take().or(exceptions);
        let over = super::launch::json_text(args.arguments.as_deref())?;
        let session = self.begin(&plan, over, cx, clock).await?;
        let (at, stop, passed) = self.to_failure(&session, &title, &run, asked, clock).await?;
        let runner = run.runner;
        let said = match at.state() {
            State::Stopped(_) => match stop {
                None => format!("test {title} ({runner}) is at a breakpoint\n"),
                Some(Verdict::Fails) => format!("test {title} ({runner}) fails here\n"),
                Some(_) => {
                    format!(
                        "test {title} ({runner}) stopped here; `continue` tells whether it fails by this\n"
                    )
                }
            },
            State::Terminated(_) => self.outcome(&title, &run, &at, passed),
            _ => format!("test {title} ({runner}) still runs\n"),
        };
        let said = match passed {
            0 => said,
            // A failure may be among them, which the runner then tells.
            _ => format!("{said}{} that something waits for passed over\n", counted(passed, "stop")),
        };
        let shown = self.snapshot(&at, cx, clock).await?;
        let mut details = shown.details.clone();
        super::look::merge(&mut details, json!({ "test": title, "runner": runner, "passed_over": passed }));
        Ok(super::more::before(&said, shown).with_details(details))
    }

    /// Goes on past what stops in the code of others, and what somebody waits to catch: where it then is, what
    /// that stop is to the test (`None` at a breakpoint of the person's), and how many were passed that
    /// somebody waits for.
    async fn to_failure(
        &self,
        session: &Arc<Session>,
        title: &str,
        run: &Run,
        asked: bool,
        clock: &Clock,
    ) -> Result<(Arc<Session>, Option<Verdict>, usize), Failure> {
        let mut at = Arc::clone(session);
        let mut passed = 0;
        for _ in 0..PASSED {
            at = self.kit.debug.settled(&at, clock).await?;
            let State::Stopped(stop) = at.state() else { return Ok((at, None, passed)) };
            if ["step", "pause", "entry", "goto"].contains(&stop.reason.as_str())
                || (stop.reason == "breakpoint" && self.is_at_breakpoint(&at, clock).await?)
            {
                return Ok((at, None, passed));
            }
            let verdict = self.verdict(&at, &stop, title, run, clock).await?;
            let others = verdict.is_none();
            let verdict = verdict.unwrap_or(Verdict::Expected);
            if verdict != Verdict::Expected || (asked && !others) {
                let verdict = if asked && verdict == Verdict::Expected { Verdict::Unsure } else { verdict };
                return Ok((at, Some(verdict), passed));
            }
            passed += usize::from(!others);
            at.run("continue", stop.thread, clock).await?;
        }
        Ok((at, Some(Verdict::Unsure), passed))
    }

    /// What a stop is to the test; `None` for one in the code of others alone.
    async fn verdict(
        &self,
        at: &Session,
        stop: &Stop,
        title: &str,
        run: &Run,
        clock: &Clock,
    ) -> Result<Option<Verdict>, Failure> {
        if signals::is_signal(stop) {
            let signal = signals::of(at, stop, clock).await;
            return Ok(Some(signals::verdict(signal.as_deref(), at)));
        }
        let (frames, _) = at.stack(stop.thread, 0, FRAMES, clock).await?;
        let is_own = |it: &Frame| super::snapshot::is_own(&self.kit, it);
        if stop.reason == "exception" && !frames.iter().any(is_own) {
            return Ok(None);
        }
        if run.rule == "executable" {
            // No stop of ours: what is thrown may be caught.
            return Ok(Some(Verdict::Unsure));
        }
        let exception = match stop.reason.as_str() {
            "exception" => at.exception(clock).await.ok().flatten().map(|(name, _)| name),
            _ => None,
        };
        let text = |it: &Frame| {
            let path = it.path.as_ref().filter(|_| is_own(it))?;
            self.kit.workspace.document(path).ok().map(|it| it.text)
        };
        let texts: Vec<_> = frames.iter().map(text).collect();
        let places = frames.iter().zip(&texts).map(|(frame, text)| Place {
            name: &frame.name,
            own: text.as_deref(),
            line: frame.line,
            column: frame.column,
            label: frame.path.is_none() && frame.source.is_none() && frame.line == 0,
        });
        let places: Vec<Place<'_>> = places.collect();
        Ok(Some(expected::verdict(run.runner, title, exception.as_deref(), &places)))
    }

    /// Whether it is at a breakpoint of the person's rather than one on a function that failures run into.
    async fn is_at_breakpoint(&self, session: &Session, clock: &Clock) -> Result<bool, Failure> {
        let (frames, _) = session.stack(None, 0, 1, clock).await?;
        let breakpoints = session.breakpoints();
        let here = |at: &dap_client::Frame| {
            breakpoints.list().any(|(it, placed)| {
                Some(&it.path) == at.path.as_ref() && placed.line.unwrap_or(it.line) == at.line
            })
        };
        Ok(frames.first().is_some_and(here))
    }

    fn outcome(&self, title: &str, run: &Run, at: &Arc<Session>, passed: usize) -> String {
        let debug = &self.kit.debug;
        let wrote: String = debug
            .tree(&debug.root_of(at))
            .iter()
            .flat_map(|it| it.output(0).pieces)
            .map(|piece| piece.text)
            .collect();
        let runner = run.runner;
        if run.nothing.iter().any(|it| wrote.contains(it)) {
            return format!("{runner} found no test {title}\n");
        }
        match debug.end_of(at) {
            Some(end) if end.exit_code.is_none_or(|code| code == 0) && left_out(&wrote) => {
                format!(
                    "test {title} ({runner}) did not run as others do; {runner} says:\n{}\n",
                    last(&wrote)
                )
            }
            Some(end) if end.exit_code == Some(0) => {
                format!("test {title} ({runner}) passed: there was no failure to stop at\n")
            }
            Some(end)
                if end.exit_code.is_none()
                    // One that was passed over is one that the program handles.
                    && (!end.after_signal || passed > 0)
                    && end.signal.is_none()
                    && end.failure.is_none() =>
            {
                let stop = if passed > 0 { "another stop" } else { "a stop" };
                format!("test {title} ({runner}) came to its end without {stop}\n")
            }
            _ => format!(
                "{runner} did not succeed with test {title}, and the debugger did not stop it; the last that was written:\n{}\n",
                last(&wrote)
            ),
        }
    }

    /// What runs the test that the arguments name, with its title.
    async fn runner(&self, args: &Arguments, cx: &ToolCx, clock: &Clock) -> Result<(String, Run), Failure> {
        let root = self.kit.workspace.root().clone();
        let cwd = args.cwd.as_deref().map(|it| self.kit.workspace.resolve(it)).transpose()?;
        let executable = |path: AbsPath, words: Vec<String>, cwd: AbsPath| Run {
            runner: "executable",
            rule: "executable",
            over: None,
            start: Start::Program(path),
            args: words,
            cwd,
            env: Vec::new(),
            more: Map::new(),
            nothing: &[],
        };
        if let Some(program) = &args.program {
            let path = self.kit.workspace.resolve(program)?;
            return Ok((program.clone(), executable(path, args.args.clone(), cwd.unwrap_or(root))));
        }
        if let (Some(name), None) = (&args.name, &args.file)
            && let Some(folder) = ctest_folder(&root, cwd.as_ref())
            && let Some(words) = self.ctest(name, &folder, cx, clock).await?
        {
            let (program, words) = words.split_first().ok_or_else(|| needs("test", "program"))?;
            let path = self.kit.workspace.resolve(program)?;
            return Ok((name.clone(), executable(path, words.to_vec(), folder)));
        }
        let kit = Arc::clone(&self.kit);
        let (name, file, line) = (args.name.clone(), args.file.clone(), args.line);
        let found = tokio::task::spawn_blocking(move || {
            let found = runners::find(&kit, name.as_deref(), file.as_deref(), line)?;
            let run = runners::run(&kit, &found)?;
            Ok::<_, Failure>((found.name, run))
        });
        found.await.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?
    }

    async fn test_spec(
        &self,
        args: &Arguments,
        cx: &ToolCx,
        run: &Run,
        clock: &Clock,
    ) -> Result<LaunchSpec, Failure> {
        let mut words = run.args.clone();
        let target = match &run.start {
            Start::Program(path) => Target::Program(path.clone()),
            Start::Module(name) => Target::Module((*name).to_owned()),
            Start::Cargo(name) => {
                let (path, full) = self.cargo(name, args.file.as_deref(), &run.cwd, cx, clock).await?;
                words.insert(0, full);
                Target::Program(path)
            }
        };
        let mut breakpoints = dap_client::Breakpoints::default();
        self.add(&mut breakpoints, args)?;
        let given = super::launch::json_text(args.arguments.as_deref())?;
        let arguments = match (run.over.clone(), given) {
            (Some(mut over), Some(given)) => {
                dap_client::merge(&mut over, given);
                Some(over)
            }
            (over, given) => over.or(given),
        };
        let mut env = run.env.clone();
        let mut given: Vec<(String, String)> = args.env.clone().unwrap_or_default().into_iter().collect();
        given.sort();
        env.extend(given);
        Ok(LaunchSpec {
            target,
            adapter: args.adapter.clone(),
            root: self.kit.workspace.root().clone(),
            args: words,
            cwd: run.cwd.clone(),
            env,
            stop_on_entry: false,
            breakpoints,
            arguments,
            test: Some(run.rule.to_owned()),
            more: run.more.clone(),
        })
    }

    /// Builds a package's tests; the executable that has the test, and the test's full name.
    async fn cargo(
        &self,
        name: &str,
        file: Option<&str>,
        package: &AbsPath,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<(AbsPath, String), Failure> {
        let words = ["test", "--no-run", "--message-format=json"];
        let built = self.ran(&command("cargo", &words, package), cx, clock).await?;
        if !built.success {
            let tail = last(&built.stderr);
            return Err(Failure::new(
                ErrorCode::NotApplied,
                format!("cargo did not build the tests:\n{tail}"),
            ));
        }
        let file = file.map(|it| self.kit.workspace.resolve(it)).transpose()?;
        for executable in executables(&built.stdout, file.as_ref()) {
            let program = executable.to_string();
            let listed = self
                .ran(&command(&program, &[name, "--list", "--format", "terse"], package), cx, clock)
                .await?;
            let mut tests = listed.stdout.lines().filter_map(|it| it.strip_suffix(": test"));
            let is_it = |it: &&str| *it == name || it.ends_with(&format!("::{name}"));
            if let Some(full) = tests.find(is_it) {
                return Ok((executable, full.to_owned()));
            }
        }
        Err(Failure::new(
            ErrorCode::NotFound,
            format!("no test executable of {} has a test {name}", self.kit.shown(package)),
        ))
    }

    /// The command of a test of a C project's build folder; `None` where it has none of that name.
    async fn ctest(
        &self,
        name: &str,
        folder: &AbsPath,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<Option<Vec<String>>, Failure> {
        let listed = self.ran(&command("ctest", &["--show-only=json-v1"], folder), cx, clock).await?;
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        let mut tests = listed["tests"].as_array().into_iter().flatten();
        let test = tests.find(|it| it["name"] == name);
        let words = test.and_then(|it| it["command"].as_array());
        Ok(words.map(|it| it.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()))
    }

    /// Runs a program of the person's to its end, after they were asked.
    async fn ran(&self, command: &CommandLine, cx: &ToolCx, clock: &Clock) -> Result<Ran, Failure> {
        let grant = cx.asker().grant_run("debug", command, &cx.cancel).await?;
        Ok(self.kit.debug.run(command, &grant, clock).await?)
    }
}

fn command(program: &str, args: &[&str], cwd: &AbsPath) -> CommandLine {
    let args = args.iter().map(|it| (*it).to_owned()).collect();
    CommandLine { program: PathBuf::from(program), args, env: Vec::new(), cwd: cwd.clone() }
}

fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Whether what a runner wrote last counts tests that it skipped, or expected to fail.
fn left_out(wrote: &str) -> bool {
    const WORDS: &[&str] = &["skipped", "xfailed", "xpassed", "ignored", "todo"];
    let some = |it: &str| it.parse::<u64>().is_ok_and(|count| count > 0);
    // `1 skipped` of pytest and others, `skipped=1` of unittest, `skipped 1` of Node.
    last(wrote).lines().any(|line| {
        let words: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        words.windows(2).any(|pair| {
            (some(pair[0]) && WORDS.contains(&pair[1])) || (WORDS.contains(&pair[0]) && some(pair[1]))
        })
    })
}

/// The build folder of a C project: the one named, the root, or a folder `build*` in it.
fn ctest_folder(root: &AbsPath, named: Option<&AbsPath>) -> Option<AbsPath> {
    let has = |folder: &AbsPath| folder.join("CTestTestfile.cmake").as_path().is_file();
    let below = std::fs::read_dir(root.as_path()).into_iter().flatten().flatten();
    let below = below.filter(|it| it.file_name().to_string_lossy().contains("build"));
    let mut below: Vec<AbsPath> = below.filter_map(|it| AbsPath::new(it.path())).collect();
    below.sort();
    named.into_iter().chain([root]).cloned().chain(below).find(has)
}

/// Test executables that cargo tells of; where a file is named, those that are made of it.
fn executables(messages: &str, file: Option<&AbsPath>) -> Vec<AbsPath> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found: Vec<(bool, AbsPath)> = artifacts
        .filter(|it| it["reason"] == "compiler-artifact" && it["profile"]["test"] == true)
        .filter_map(|it| {
            let executable = AbsPath::new(it["executable"].as_str()?)?;
            let source = AbsPath::new(it["target"]["src_path"].as_str()?)?;
            let is_it = file.is_none_or(|file| {
                source == *file || source.parent().is_some_and(|folder| file.starts_with(&folder))
            });
            Some((is_it, executable))
        })
        .collect();
    found.sort_by_key(|(is_it, _)| !is_it);
    found.into_iter().map(|(_, executable)| executable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_was_skipped_is_told_from_one_that_passed() {
        for wrote in [
            "s  [100%]\n1 skipped in 0.01s\n",
            "===== 1 xfailed in 0.05s =====\n",
            "OK (skipped=1)\n",
            "# pass 0\n# skipped 1\n# todo 0\n",
            "test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured\n",
        ] {
            assert!(left_out(wrote), "{wrote}");
        }
        for wrote in [
            "1 passed in 0.01s\n",
            "# pass 1\n# skipped 0\n# todo 0\n# duration_ms 7\n",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n",
            "",
        ] {
            assert!(!left_out(wrote), "{wrote}");
        }
    }

    #[test]
    fn the_executable_that_is_made_of_the_file_is_first() {
        let artifact = |source: &str, executable: &str, test: bool| {
            json!({"reason": "compiler-artifact", "executable": executable, "profile": {"test": test},
                "target": {"src_path": source}})
            .to_string()
        };
        let messages = [
            artifact("/p/src/lib.rs", "/t/lib", true),
            artifact("/p/src/main.rs", "/t/main", false),
            artifact("/p/tests/it.rs", "/t/it", true),
            "{\"reason\": \"build-finished\"}".to_owned(),
            "no JSON".to_owned(),
        ];
        let file = AbsPath::new("/p/tests/it.rs");
        let names = |file: Option<&AbsPath>| -> Vec<String> {
            executables(&messages.join("\n"), file).iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(file.as_ref()), ["/t/it", "/t/lib"]);
        assert_eq!(names(None), ["/t/lib", "/t/it"]);
    }
}
