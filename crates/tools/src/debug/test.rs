//! The action `test`: runs a test, or those of a file, under the debugger up to the first failure.
//!
//! `runners` defines the start of a runner, the adapter's definition the stop at its failure.

use std::path::PathBuf;
use std::sync::Arc;

use adapters::TestRule;
use agent::ToolResult;
use dap_client::{Clock, End, Frame, LaunchSpec, ProgramOutput, Session, State, Stop, Target};
use paths::AbsPath;
use policy::ErrorCode;
use serde_json::{Value, json};
use shell::CommandLine;
use workspace::ProtectedFiles;

use super::actions::TestArguments;
use super::caught_exceptions::{self, StackPlace, StopVerdict};
use super::launch::SessionGrants;
use super::runners::{self, CargoTest, Start, TestRun, last_lines};
use super::test_discovery::{TestFile, is_javascript};
use super::{Answer, Cx, Debug, cargo_tests, needs, signals, test_search};
use crate::Failure;
use crate::bash::{self, CommandHosts};

/// Maximum number of ignored stops.
const MAX_IGNORED_STOPS: usize = 1_000;
const FRAMES: u64 = 60;

impl Debug {
    pub(super) async fn test(&self, args: &TestArguments, cx: Cx<'_>) -> Answer {
        if let Some(on) = args.on.as_deref().filter(|on| *on != "failure") {
            let message = format!("unknown `on: {on}`; a test stops on `failure` or at `breakpoints`");
            return Err(Failure::invalid(message));
        }
        let (title, run) = self.runner(args, cx).await?;
        let spec = self.test_spec(args, cx, &run).await?;
        let mut plan = self.plan(spec).await?;
        plan.title = title.clone();
        let rule = plan.adapter.tests.get(run.runner.rule()).cloned().unwrap_or_default();
        let TestRule { exceptions, functions, .. } = rule;
        functions.iter().for_each(|name| plan.breakpoints.add_function(name));
        // Exceptions named by the call take precedence.
        let asked = plan.breakpoints.exceptions.is_some();
        plan.breakpoints.exceptions = plan.breakpoints.exceptions.take().or(exceptions);
        let overrides = super::launch::json_text(args.launch.arguments.as_deref())?;
        let session = self.begin(&plan, overrides, cx).await?;
        let mut repeated = "";
        let (mut at, mut stop, passed) = self.to_failure(&session, &run, asked, None, cx.clock).await?;
        if let Some((index, is_reported)) = self.failing_stop(&at, &passed) {
            let root = self.context.debug.root_of(&at);
            let grants = SessionGrants::new(&root.adapter.name, cx, SessionGrants::confinement(&root));
            let again = self.context.debug.relaunch(&root, grants.clone(), cx.clock).await?;
            self.remember_hosts(&again, &grants);
            again.started_by(cx.starter.clone());
            (at, stop, _) = self.to_failure(&again, &run, asked, Some(index), cx.clock).await?;
            repeated = "it failed in a first run, and this is the second\n";
            stop = stop.map(|verdict| if is_reported { StopVerdict::Fails } else { verdict });
        }
        let runner = run.runner.name;
        // The snapshot waits for the last events of an end, which the outcome needs.
        let shown = self.snapshot(&at, cx).await?;
        let status = match at.state() {
            State::Stopped(_) => match stop {
                None => format!("test {title} ({runner}) is at a breakpoint\n"),
                Some(StopVerdict::Fails) => format!("test {title} ({runner}) fails here\n"),
                Some(_) => {
                    format!(
                        "test {title} ({runner}) stopped here, which may be handled; `continue` shows whether it fails\n"
                    )
                }
            },
            State::Terminated(_) => self.outcome(&title, &run, &at, &shown)?,
            _ => format!("test {title} ({runner}) still runs\n"),
        };
        let note = run.note.iter().map(|note| format!("{note}\n")).collect::<String>();
        let note = note + if stop.is_none() { repeated } else { "" };
        let mut details = shown.details.clone();
        super::inspect::merge(&mut details, json!({ "test": title, "runner": runner }));
        Ok(super::advanced::prepend(&format!("{status}{note}"), shown).with_details(details))
    }

    /// Continues past stops that are not the failure.
    ///
    /// These are the ignored ones, and those that the program may handle but for number `until`.
    /// Returns the session and the verdict on its stop, which is `None` at the user's breakpoint; and the
    /// exceptions of the stops that the program may have handled.
    async fn to_failure(
        &self,
        session: &Arc<Session>,
        run: &TestRun,
        asked: bool,
        until: Option<usize>,
        clock: &Clock,
    ) -> Result<(Arc<Session>, Option<StopVerdict>, Vec<String>), Failure> {
        let mut at = Arc::clone(session);
        let mut passed = Vec::new();
        for _ in 0..MAX_IGNORED_STOPS {
            at = self.context.debug.wait_for_stop(&at, clock).await?;
            let State::Stopped(stop) = at.state() else {
                // The end of a child process is not the end of the test.
                let program = self.context.debug.program_of(&at);
                let is_ended = |it: &Session| matches!(it.state(), State::Terminated(_));
                if is_ended(&at) && !is_ended(&program) {
                    at = program;
                    continue;
                }
                return Ok((at, None, passed));
            };
            if ["step", "pause", "entry", "goto"].contains(&stop.reason.as_str())
                || (stop.reason == "breakpoint" && self.is_at_breakpoint(&at, clock).await?)
            {
                return Ok((at, None, passed));
            }
            let verdict = self.verdict(&at, &stop, run, asked, clock).await?;
            let may_pass = verdict == StopVerdict::MayBeHandled && !asked && !signals::is_signal(&stop);
            if may_pass && until != Some(passed.len()) {
                let (name, said) = at.exception(clock).await.ok().flatten().unwrap_or_default();
                let said = [said, name].into_iter().find_map(|it| it.lines().next().map(str::to_owned));
                passed.push(said.unwrap_or_default());
            } else if verdict != StopVerdict::Ignored {
                return Ok((at, Some(verdict), passed));
            }
            at.run("continue", stop.thread, clock).await?;
        }
        Ok((at, Some(StopVerdict::MayBeHandled), passed))
    }

    /// The stop of a failed test among those that the program might have handled.
    ///
    /// It is the last one whose exception the runner reports, else the last. Returns its number, and whether it
    /// is reported.
    fn failing_stop(&self, at: &Arc<Session>, passed: &[String]) -> Option<(usize, bool)> {
        let last = passed.len().checked_sub(1)?;
        let (ended, output) = self.end_and_output(at);
        let failed = ended.is_some_and(|end| end.signal.is_some() || end.exit_code.is_some_and(|it| it != 0));
        // Node names the exception before its text: `TypeError: no such thing`.
        let texts = |said: &String| [said.clone(), said.split_once(": ").unwrap_or_default().1.to_owned()];
        let is_in = |text: &String| !text.trim().is_empty() && output.contains(text.trim());
        let reported = passed.iter().rposition(|said| texts(said).iter().any(is_in));
        failed.then_some((reported.unwrap_or(last), reported.is_some()))
    }

    /// The end of a test's program, if it has ended, and all its output.
    fn end_and_output(&self, at: &Arc<Session>) -> (Option<End>, String) {
        let debug = &self.context.debug;
        let tree = debug.tree(&debug.root_of(at));
        let pieces =
            tree.iter().filter(|session| !session.shares_output()).flat_map(|it| it.output(0).pieces);
        let ended = debug.end_of(&debug.program_of(at)).or_else(|| debug.end_of(at));
        (ended, pieces.map(|piece| piece.text).collect())
    }

    /// Classifies a stop.
    ///
    /// If the call named exceptions (`asked`), only those outside the project are ignored.
    async fn verdict(
        &self,
        at: &Session,
        stop: &Stop,
        run: &TestRun,
        asked: bool,
        clock: &Clock,
    ) -> Result<StopVerdict, Failure> {
        if signals::is_signal(stop) {
            let signal = signals::find(at, stop, clock).await;
            return Ok(signals::verdict(signal.as_deref(), at));
        }
        let (frames, _) = at.stack(stop.thread, 0, FRAMES, clock).await?;
        let is_own = |frame: &Frame| super::snapshot::is_own(&self.context, frame);
        let own: Vec<&Frame> = frames.iter().filter(|frame| is_own(frame)).collect();
        if stop.reason == "exception"
            && (own.is_empty() || own.iter().any(|frame| self.is_of_another(frame, run)))
        {
            return Ok(StopVerdict::Ignored);
        }
        let exception = match stop.reason.as_str() {
            "exception" => at.exception(clock).await.ok().flatten().map(|(name, _)| name),
            _ => None,
        };
        // `module.KeyError (with a note)`.
        let exception = exception.as_deref().and_then(|name| name.split_whitespace().next());
        let exception = exception.and_then(|name| name.trim_end_matches(':').rsplit('.').next());
        let is_outcome =
            exception.is_some_and(|name| run.runner.outcomes.iter().any(|outcome| outcome == name));
        let places = frames.iter().map(|frame| StackPlace {
            name: &frame.name,
            is_left: frame.is_marked,
            is_own: is_own(frame),
            is_label: frame.path.is_none() && frame.source.is_none() && frame.line == 0,
        });
        let places: Vec<StackPlace<'_>> = places.collect();
        let title = run.known_as.last().map(String::as_str);
        let may_be_handled = run.runner.stops_at_handled || run.expects_failure || self.leaves_with(&frames);
        let title = title.filter(|_| !may_be_handled);
        Ok(match caught_exceptions::verdict(title, may_be_handled, &places) {
            _ if is_outcome && !asked => StopVerdict::Ignored,
            StopVerdict::Ignored if asked => StopVerdict::MayBeHandled,
            verdict => verdict,
        })
    }

    /// Whether an exception leaves a `with` of Python, such as `pytest.raises`.
    ///
    /// debugpy takes only `try` for a handler.
    fn leaves_with(&self, frames: &[Frame]) -> bool {
        let left = frames.iter().find(|frame| frame.is_marked);
        left.is_some_and(|frame| {
            let document = frame.path.as_ref().and_then(|path| self.context.workspace.document(path).ok());
            document.is_some_and(|it| super::python_tests::is_in_with(&it.text, frame.line))
        })
    }

    /// Whether a frame belongs to another JavaScript test.
    ///
    /// Such a test runs together with the requested one.
    fn is_of_another(&self, frame: &Frame, run: &TestRun) -> bool {
        let test_at = || {
            let path = frame.path.as_ref()?;
            let text = self.context.workspace.document(path).ok()?.text;
            let tests = TestFile::parse(path.as_path(), &text).filter(|file| is_javascript(file.language))?;
            tests.test_at(frame.line).map(|item| item.path())
        };
        !run.known_as.is_empty()
            && test_at()
                .is_some_and(|path| !path.starts_with(&run.known_as) && !run.known_as.starts_with(&path))
    }

    /// Whether the session stopped at a line breakpoint.
    ///
    /// A breakpoint on a function that failures call does not count.
    async fn is_at_breakpoint(&self, session: &Session, clock: &Clock) -> Result<bool, Failure> {
        let (frames, _) = session.stack(None, 0, 1, clock).await?;
        let breakpoints = session.breakpoints();
        let is_at = |at: &dap_client::Frame| {
            breakpoints.list().any(|(it, placed)| {
                Some(&it.path) == at.path.as_ref() && placed.line.unwrap_or(it.line) == at.line
            })
        };
        Ok(frames.first().is_some_and(is_at))
    }

    /// Describes the outcome of a test that did not stop.
    ///
    /// Fails if the runner is not installed.
    fn outcome(
        &self,
        title: &str,
        run: &TestRun,
        at: &Arc<Session>,
        shown: &ToolResult,
    ) -> Result<String, Failure> {
        let below = shown.details["output"].as_str().unwrap_or_default();
        let (ended, output) = self.end_and_output(at);
        let runner = run.runner;
        let name = runner.name;
        if runner.found_none(ended.as_ref().and_then(|end| end.exit_code), &output) {
            return Ok(format!("{name} found no test {title}\n"));
        }
        if let Some(module) = runner.missing_module(&output) {
            let message = format!("{module} is not installed for the project's Python; install it there");
            return Err(Failure::new(ErrorCode::MissingTool, message));
        }
        Ok(match ended {
            Some(end) if end.exit_code.is_none_or(|code| code == 0) && runner.left_out(&output) => {
                let report = runners::quoted(&last_lines(&output), below);
                format!("test {title} ({name}) was skipped or expected to fail{report}\n")
            }
            Some(end) if end.exit_code == Some(0) => {
                format!("test {title} ({name}) passed: there was no failure to stop at\n")
            }
            Some(end)
                if end.exit_code.is_none()
                    && !end.after_signal
                    && end.signal.is_none()
                    && end.failure.is_none() =>
            {
                format!("test {title} ({name}) ended without a stop\n")
            }
            _ => {
                let report = runners::quoted(&runner.failure(&output), below);
                // Another of the tests that the runner cannot distinguish may have failed.
                let others = if run.note.is_some() { ", or another of that title," } else { "" };
                format!("test {title} ({name}){others} failed; the debugger did not stop{report}\n")
            }
        })
    }

    /// Finds the test that the arguments name; returns its title and how to run it.
    pub(super) async fn runner(
        &self,
        args: &TestArguments,
        cx: Cx<'_>,
    ) -> Result<(String, TestRun), Failure> {
        let root = self.context.workspace.root().clone();
        let cwd = args.launch.cwd.as_deref().map(|it| self.context.workspace.resolve(it)).transpose()?;
        let runner = runners::runner("executable")?;
        let executable = |path: AbsPath, words: Vec<String>, cwd: AbsPath| TestRun {
            args: words,
            ..runner.start(Start::Program(path), cwd, &[])
        };
        if let Some(program) = &args.launch.program {
            let path = self.context.workspace.resolve(program)?;
            return Ok((program.clone(), executable(path, args.launch.args.clone(), cwd.unwrap_or(root))));
        }
        if let (Some(name), None) = (&args.launch.name, &args.launch.file)
            && let Some(folder) = ctest_directory(&root, cwd.as_ref())
            && let Some(CTest { words, cwd, env }) = self.ctest(name, &folder, cx).await?
        {
            let (program, words) = words.split_first().ok_or_else(|| needs("test", "program"))?;
            let path = self.context.workspace.resolve(program)?;
            let run = executable(path, words.to_vec(), cwd.unwrap_or(folder));
            return Ok((name.clone(), TestRun { env, ..run }));
        }
        let context = Arc::clone(&self.context);
        let (name, file, line) = (args.launch.name.clone(), args.launch.file.clone(), args.line);
        let found = tokio::task::spawn_blocking(move || {
            let found = test_search::find(&context, name.as_deref(), file.as_deref(), line)?;
            let run = runners::run(&context, &found)?;
            let title = match found.name.as_str() {
                "" => format!("file {}", context.display_path(&found.file)),
                name => format!("{name}{}", found.case),
            };
            Ok::<_, Failure>((title, run))
        });
        let found = found.await.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
        let (title, mut run) = found?;
        if let Some(titles) = run.titles.take() {
            let version = match titles.needs_version() {
                true => self.node_version(args, &run.cwd, cx).await,
                false => None,
            };
            let chosen = titles.node_filter(version);
            run.variables = runners::options(chosen.words);
            run.note = chosen.note;
        }
        Ok((title, run))
    }

    /// Determines the major and minor version of Node, if possible.
    async fn node_version(&self, args: &TestArguments, cwd: &AbsPath, cx: Cx<'_>) -> Option<(u32, u32)> {
        let given =
            super::launch::json_text(args.launch.arguments.as_deref()).ok().flatten().unwrap_or_default();
        let program = given["runtimeExecutable"].as_str().unwrap_or("node");
        let mut query = command(program, &["--version"], cwd);
        query.env = args.launch.env.clone().unwrap_or_default().into_iter().collect();
        let version = self.run_program(&query, cx).await.ok().filter(|it| it.success)?.stdout;
        let mut parts = version.trim().strip_prefix('v')?.split('.').map(|it| it.parse().ok());
        Some((parts.next()??, parts.next()??))
    }

    pub(super) async fn test_spec(
        &self,
        args: &TestArguments,
        cx: Cx<'_>,
        run: &TestRun,
    ) -> Result<LaunchSpec, Failure> {
        let mut words = run.args.clone();
        let mut env = run.env.clone();
        let target = match &run.start {
            Start::Program(path) => Target::Program(path.clone()),
            Start::Module(name) => Target::Module(name.clone()),
            Start::Cargo(wanted) => {
                let built = self.cargo(wanted, &run.cwd, cx).await?;
                words.splice(0..0, built.words);
                env.extend(built.env);
                Target::Program(built.program)
            }
        };
        let mut breakpoints = dap_client::Breakpoints::default();
        self.add(&mut breakpoints, &args.launch.points)?;
        let given = super::launch::json_text(args.launch.arguments.as_deref())?;
        let arguments = match (run.runner.launch().cloned(), given) {
            (Some(mut over), Some(given)) => {
                adapters::merge(&mut over, given);
                Some(over)
            }
            (over, given) => over.or(given),
        };
        let mut given: Vec<(String, String)> =
            args.launch.env.clone().unwrap_or_default().into_iter().collect();
        given.sort();
        if let Some(path) = &run.python_path {
            const NAME: &str = "PYTHONPATH";
            let at = given.iter().position(|(name, _)| name == NAME);
            let before = at.map(|at| given.remove(at).1).or_else(|| std::env::var(NAME).ok());
            let before = before.filter(|it| !it.is_empty()).unwrap_or_default();
            let parts = std::iter::once(path.as_path().to_owned()).chain(std::env::split_paths(&before));
            if let Ok(all) = std::env::join_paths(parts) {
                given.push((NAME.to_owned(), all.to_string_lossy().into_owned()));
            }
        }
        env.extend(given);
        Ok(LaunchSpec {
            target,
            adapter: args.launch.adapter.clone(),
            root: self.context.workspace.root().clone(),
            args: words,
            cwd: run.cwd.clone(),
            env,
            stop_on_entry: false,
            stdin: None,
            breakpoints,
            arguments,
            test: Some(run.runner.rule().to_owned()),
            more: run.variables.clone(),
        })
    }

    /// Builds the tests of a package.
    ///
    /// Returns the executable with the test, and the test's name in it.
    async fn cargo(&self, wanted: &CargoTest, package: &AbsPath, cx: Cx<'_>) -> Result<Built, Failure> {
        let words = ["test", "--no-run", "--message-format=json"];
        let built = self.run_program(&command("cargo", &words, package), cx).await?;
        if !built.success {
            let tail = last_lines(&built.stderr);
            return Err(Failure::new(
                ErrorCode::NotApplied,
                format!("cargo failed to build the tests:\n{tail}"),
            ));
        }
        let text = |path: &AbsPath| {
            let is_file = path.as_path().is_file();
            is_file
                .then(|| self.context.workspace.document(path).ok().map(|it| it.text.to_string()))
                .flatten()
        };
        let mut found = Vec::new();
        for it in cargo_tests::executables(&built.stdout, &wanted.file) {
            let mut list =
                command(&it.program.to_string(), &[&wanted.name, "--list", "--format", "terse"], package);
            if it.needs_library {
                let query = command("rustc", &["--print", "target-libdir"], package);
                let directory = self.run_program(&query, cx).await?.stdout;
                list.env.push(("LD_LIBRARY_PATH".to_owned(), directory.trim().to_owned()));
            }
            let listed = self.run_program(&list, cx).await?;
            let candidates = cargo_tests::candidates(&listed.stdout, wanted, &it, &text);
            let is_there = candidates.iter().any(cargo_tests::Candidate::is_it);
            found.extend(
                candidates.into_iter().map(|candidate| ((it.program.clone(), list.env.clone()), candidate)),
            );
            if is_there {
                break;
            }
        }
        let chosen = cargo_tests::choose(found, wanted)?;
        let built = chosen.map(|((program, env), words)| Built { program, words, env });
        built.ok_or_else(|| {
            let name = format!("{}{}", wanted.name, wanted.case);
            Failure::new(
                ErrorCode::NotFound,
                format!(
                    "no test executable of {} has the test {name} of {};\ntests disabled on this system or \
                    without a feature are not built",
                    self.context.display_path(package),
                    self.context.display_path(&wanted.file)
                ),
            )
        })
    }

    /// Finds a test by name in the build directory of a C project.
    async fn ctest(&self, name: &str, folder: &AbsPath, cx: Cx<'_>) -> Result<Option<CTest>, Failure> {
        let listed = self.run_program(&command("ctest", &["--show-only=json-v1"], folder), cx).await?;
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        Ok(CTest::read(&listed, name))
    }

    /// Runs a program of the project to its end, in the sandbox of commands.
    ///
    /// The policy or the user permits the run first.
    pub(super) async fn run_program(
        &self,
        command: &CommandLine,
        cx: Cx<'_>,
    ) -> Result<ProgramOutput, Failure> {
        let status = bash::sandbox_status(&self.context.shell, true, &cx).await;
        let confinement = bash::confinement(status.as_ref());
        let grant = cx.grant_requester().grant_run("debug", command, confinement, &cx.cancel).await?;
        let hosts = CommandHosts::new(policy::COMMANDS, &cx, cx.cancel.clone());
        let protected = ProtectedFiles::before(&grant, &self.context.shell.processes).await;
        let output = self.context.debug.run(command, &grant, hosts, cx.clock).await;
        let reverted = ProtectedFiles::after(protected).await;
        let reverted = bash::describe_reverted(&reverted, |path| self.context.display_path(path));
        let mut output = output?;
        if !reverted.is_empty() {
            tracing::warn!("{command} changed protected files\n{reverted}");
            output.stderr = format!("{reverted}{}", output.stderr);
        }
        Ok(output)
    }
}

/// A test executable of cargo, with the arguments for one test.
struct Built {
    program: AbsPath,
    words: Vec<String>,
    env: Vec<(String, String)>,
}

/// A test that ctest lists.
#[derive(Debug, PartialEq, Eq)]
struct CTest {
    words: Vec<String>,
    /// Working directory, if set.
    cwd: Option<AbsPath>,
    env: Vec<(String, String)>,
}

impl CTest {
    fn read(listed: &Value, name: &str) -> Option<Self> {
        let test = listed["tests"].as_array()?.iter().find(|it| it["name"] == name)?;
        let texts = |it: &Value| -> Vec<String> {
            it.as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
        };
        let property = |name: &str| {
            let all = test["properties"].as_array().into_iter().flatten();
            all.into_iter().find(|it| it["name"] == name).map(|it| &it["value"])
        };
        let pair = |it: String| it.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Some(Self {
            words: test["command"].as_array().map(|_| texts(&test["command"]))?,
            cwd: property("WORKING_DIRECTORY").and_then(|it| AbsPath::new(it.as_str()?)),
            env: property("ENVIRONMENT")
                .map(texts)
                .unwrap_or_default()
                .into_iter()
                .filter_map(pair)
                .collect(),
        })
    }
}

fn command(program: &str, args: &[&str], cwd: &AbsPath) -> CommandLine {
    let args = args.iter().map(|it| (*it).to_owned()).collect();
    CommandLine { program: PathBuf::from(program), args, env: Vec::new(), cwd: cwd.clone() }
}

/// Finds the build directory of a C project.
///
/// It is the named directory, else the root, else a directory `*build*` in it.
fn ctest_directory(root: &AbsPath, named: Option<&AbsPath>) -> Option<AbsPath> {
    let has_tests = |directory: &AbsPath| directory.join("CTestTestfile.cmake").as_path().is_file();
    let below = std::fs::read_dir(root.as_path()).into_iter().flatten().flatten();
    let below = below.filter(|it| it.file_name().to_string_lossy().contains("build"));
    let mut below: Vec<AbsPath> = below.filter_map(|it| AbsPath::new(it.path())).collect();
    below.sort();
    named.into_iter().chain([root]).cloned().chain(below).find(has_tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ctest_entry_gives_command_directory_and_environment() {
        let listed = json!({"tests": [
            {"name": "other", "command": ["/b/o"]},
            {"name": "it", "command": ["/b/t", "a b"], "properties": [
                {"name": "WORKING_DIRECTORY", "value": "/p/data"}, {"name": "ENVIRONMENT", "value": ["A=1=2", "B="]}]},
        ]});
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let it = CTest::read(&listed, "it").unwrap();
        assert_eq!((it.words, it.cwd), (vec!["/b/t".to_owned(), "a b".to_owned()], AbsPath::new("/p/data")));
        assert_eq!(it.env, [pair("A", "1=2"), pair("B", "")]);
        assert_eq!(CTest::read(&listed, "none"), None);
    }
}
