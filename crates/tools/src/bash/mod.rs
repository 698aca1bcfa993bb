//! The tool `bash`: runs command lines that the policy allows.
//!
//! It records their changes for `undo`.

mod denials;
mod diagnostics;
mod jobs;
mod log;
mod network;
mod run;
mod sandbox;
mod scrub;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::events::{Update, UpdateKind};
use agent::{ToolCx, ToolResult};
pub(crate) use denials::find as find_denials;
use jobs::Job;
pub(crate) use network::CommandHosts;
use paths::AbsPath;
use policy::{COMMANDS, Confinement, Effects, ErrorCode, Writes};
use process::{SandboxLevel, deadlines};
pub(crate) use sandbox::describe_reverted;
use serde::Deserialize;
use serde_json::{Value, json};
use shell::CommandLine;
use workspace::{CommandChanges, CommandSnapshot, ProtectedFiles};

use crate::described::{BuiltIn, Described, count, flag, text};
use crate::verify::Verdict;
use crate::{Failure, ToolContext, arguments};
pub use jobs::Shell;
use log::NOTE;
use run::{EndReason, JobEnd, Running};
pub(crate) use sandbox::{confinement, status as sandbox_status};

/// Default and maximum timeout, in seconds.
const TIMEOUT: u64 = 120;
const MAX_TIMEOUT: u64 = 3_600;
/// Time for which a background call waits, to report an early exit.
const EARLY_EXIT: Duration = Duration::from_millis(500);

/// Maximum number of changed files that a result names.
const MAX_NAMED: usize = 20;

pub struct Bash {
    context: Arc<ToolContext>,
    program: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    command: Option<String>,
    timeout: Option<i64>,
    #[serde(default)]
    background: bool,
    sandbox: Option<bool>,
    job: Option<String>,
    offset: Option<usize>,
    #[serde(default)]
    stop: bool,
}

/// Converts a timeout to a duration of at most [`MAX_TIMEOUT`].
fn seconds(requested: i64) -> Duration {
    Duration::from_secs(u64::try_from(requested).unwrap_or_default().min(MAX_TIMEOUT))
}

impl Bash {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let properties = json!({
            "command": text("the command line"),
            "timeout": count("seconds; default 120; with `job`: time to wait for its end"),
            "background": flag("for servers: return a job's name at once"),
            "sandbox": flag("false asks to run unsandboxed"),
            "job": text("instead of `command`: this job's new output"),
            "offset": count("with `job`: from this line on"),
            "stop": flag("with `job`: end it"),
        });
        let (about, tool) = (include_str!("bash.md"), Self { context, program: shell() });
        Described::new("bash", "Run a command", about, properties, &[], tool).at_start()
    }

    fn command(&self, line: &str) -> CommandLine {
        // Keeps programs from prompting, colouring and paging.
        let quiet = [
            ("TERM", "dumb"),
            ("NO_COLOR", "1"),
            ("PAGER", "cat"),
            ("GIT_PAGER", "cat"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_EDITOR", "true"),
        ];
        CommandLine {
            program: self.program.clone(),
            args: vec!["-c".to_owned(), line.to_owned()],
            env: quiet.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            cwd: self.context.workspace.root().clone(),
        }
    }
}

/// Finds bash, else sh.
fn shell() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = ["/bin", "/usr/bin"].map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    let bash = directories.map(|directory| directory.join("bash")).find(|program| program.is_file());
    bash.unwrap_or_else(|| Path::new("/bin/sh").to_owned())
}

impl BuiltIn for Bash {
    fn effects(&self, args: &Value) -> Effects {
        match args["command"].as_str() {
            Some(line) => Effects { reads: true, writes: Writes::Unknown, exec: Some(self.command(line)) },
            None => Effects { reads: true, ..Effects::default() },
        }
    }

    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        // With `job`, 0 reads the status without waiting.
        let least = i64::from(args.job.is_none());
        if args.timeout.is_some_and(|seconds| seconds < least) {
            return Err(Failure::invalid(format!("`timeout` must be at least {least} (seconds)")));
        }
        match (&args.command, &args.job) {
            (Some(command), None) if !command.trim().is_empty() => self.run(command, &args, cx).await,
            (None, Some(job)) => self.read_job(job, &args, cx).await,
            _ => Err(Failure::invalid("give either `command` or `job`")),
        }
    }
}

impl Bash {
    async fn run(&self, line: &str, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let context = &self.context;
        let unsaved = crate::unsaved::confirm(&self.context, line, cx).await?;
        let command = self.command(line);
        let status = sandbox::status(&context.shell, args.sandbox.unwrap_or(true), cx).await;
        let confinement = match sandbox::confinement(status.as_ref()) {
            Confinement::Sandbox if !args.background => Confinement::SandboxAlone,
            other => other,
        };
        let grant = cx.grant_line("bash", &command, confinement).await?;
        let Some(job) = context.shell.open(line) else {
            let message = "too many commands are running; stop one with {\"job\": …, \"stop\": true}";
            return Err(Failure::new(ErrorCode::WrongState, message));
        };
        // Ends the job's waiters if this call is dropped.
        let mut ends = EndsJob(Some(&job));
        // Changes of a background command cannot be distinguished from those of others.
        let (shell, records) = (Arc::clone(&context.shell), !args.background && shell::may_write(line));
        let label = format!("bash: {}", short(&context.shell.redactor().redact(line)));
        let (text, run, name) = (line.to_owned(), cx.run.clone(), label.clone());
        let mut before = blocking(move || {
            shell.prune();
            records.then(|| shell.snapshots.before(&text, &run, &name, &shell.processes)).transpose()
        })
        .await?
        .map_err(|error| {
            let message = format!("the command did not run, because undo could not revert it: {error}");
            Failure::new(ErrorCode::WrongState, message)
        })?;
        let mut sandbox = sandbox::Report::new(&context.shell, status, cx);
        let protected = ProtectedFiles::before(&grant, &context.shell.processes).await;
        sandbox.note_unprotected(ProtectedFiles::unprotected(protected.as_ref()));
        let hosts = CommandHosts::new(COMMANDS, cx, job.stop.clone());
        let (process, output) = context.shell.processes.spawn_merged(&command, &grant, hosts.clone()).await?;
        before.iter_mut().for_each(CommandSnapshot::mark_running);
        let mut running = Running::new(process, output, context.shell.redactor());
        let timeout = args.timeout.map(seconds);
        if args.background {
            ends.0 = None;
            context.shell.supervise(Arc::clone(&job), running, timeout, protected, cx.event_reporter());
            job.wait(EARLY_EXIT, &cx.cancel).await;
            return Ok(self.render_result(
                &job,
                &unsaved,
                true,
                &CommandChanges::default(),
                &Verdict::nothing(),
                &sandbox,
            ));
        }
        let stop = cx.cancel.clone();
        let deadline = tokio::time::Instant::now() + timeout.unwrap_or(Duration::from_secs(TIMEOUT));
        let on_output = |content| {
            let update = Update { update_type: UpdateKind::Stdout, content, progress_percent: None };
            cx.update(update)
        };
        let ended = running.follow(&job.log, Some(deadline), &stop, on_output).await;
        running.finish(&job.log).await;
        job.end(ended);
        drop(ends);
        let reverted = ProtectedFiles::after(protected).await;
        sandbox.note_reverted(&reverted, |path| context.display_path(path));
        if let Some(profile) = grant.sandbox().filter(|_| sandbox.level != SandboxLevel::None).cloned() {
            let (job, cwd) = (Arc::clone(&job), command.cwd.clone());
            let has_mounts = sandbox.level == SandboxLevel::Bwrap;
            let has_succeeded = job.has_succeeded();
            let find = move || denials::find(&job.log.excerpt(), &cwd, &profile, has_mounts);
            // A command that succeeded may print any text.
            let mut denied = if has_succeeded { Vec::new() } else { blocking(find).await? };
            denied.extend(hosts.denied());
            sandbox.note_denied(denied);
        }
        if let Some(note) = grant.note().filter(|_| !job.has_succeeded()) {
            sandbox.note(note);
        }
        let wrote = match before {
            Some(before) => self.compare(before, label, cx).await?,
            None => CommandChanges::default(),
        };
        let verdict = diagnostics::compare(context, &wrote, cx).await;
        Ok(self.render_result(&job, &unsaved, false, &wrote, &verdict, &sandbox))
    }

    /// Commits the command's changes to the journal, even if the call is dropped.
    async fn compare(
        &self,
        before: CommandSnapshot,
        label: String,
        cx: &ToolCx,
    ) -> Result<CommandChanges, Failure> {
        let (shell, run) = (Arc::clone(&self.context.shell), cx.run.clone());
        let work = async move { shell.snapshots.after(before, &run, &label, &shell.processes).await };
        let failed = |error| Failure::new(ErrorCode::Internal, format!("{error}; please report this"));
        let wrote = self.context.shell.spawn(work).await.map_err(failed)?;
        Ok(wrote.unwrap_or_else(|error| {
            let why = format!(
                "cannot write the journal: {error}; the backup of files outside git is reported at the next start"
            );
            CommandChanges { lost: vec![(self.context.workspace.root().clone(), why)], ..CommandChanges::default() }
        }))
    }

    /// Reads the output or the status of a job.
    async fn read_job(&self, name: &str, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let Some(job) = self.context.shell.job(name) else {
            let names = self.context.shell.names().join(", ");
            let known_jobs =
                if names.is_empty() { "there are no jobs".to_owned() } else { format!("jobs: {names}") };
            return Err(Failure::new(ErrorCode::NotFound, format!("no job {name:?}; {known_jobs}")));
        };
        if args.stop {
            job.stop.cancel();
            job.wait(deadlines::STOPPED_JOB, &cx.cancel).await;
        } else if let Some(wait) = args.timeout {
            job.wait(seconds(wait), &cx.cancel).await;
        }
        let (offset, reader) = (args.offset, Arc::clone(&job));
        let page = blocking(move || reader.log.from(offset)).await?;
        let mut text = format!("{}: {} ({})\n{}", job.name, short(&job.command), job.status(), page.text);
        if let Some(next) = page.next {
            text = format!("{}\n{NOTE}continues at line {next}", text.trim_end_matches('\n'));
        }
        Ok(ToolResult::text(text).with_details(details(&job)))
    }

    fn render_result(
        &self,
        job: &Job,
        unsaved: &[String],
        background: bool,
        wrote: &CommandChanges,
        verdict: &Verdict,
        sandbox: &sandbox::Report,
    ) -> ToolResult {
        let mut text = job.log.render(&job.name);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let ended = *job.ended.borrow();
        if background && ended.is_none() {
            text.push_str(&format!(
                "{NOTE}{} is running; {{\"job\": {:?}}} shows its output, with \"stop\": true stops it",
                job.name, job.name
            ));
            text.push_str("\nnot undoable: its later changes");
        } else {
            text.push_str(&format!("{NOTE}{}", job.status()));
        }
        if !unsaved.is_empty() {
            text.push_str(&format!("\nnot saved: {}", unsaved.join(", ")));
        }
        if let Some(note) = self.context.proposed_note() {
            text.push_str(&format!("\n{note}"));
        }
        text.push_str(&self.render_changes(wrote));
        if !verdict.text.is_empty() {
            text.push_str(&format!("\n{}", verdict.text.trim_end()));
        }
        text.push_str(&sandbox.text);
        let (code, is_error) = match ended {
            Some(JobEnd { reason: EndReason::TimedOut, .. }) => (ErrorCode::Timeout, true),
            Some(JobEnd { reason: EndReason::Stopped, .. }) => (ErrorCode::Cancelled, true),
            _ => (ErrorCode::Internal, false),
        };
        let result = if is_error { ToolResult::error(code, text) } else { ToolResult::text(text) };
        let mut details = details(job);
        details["not_saved"] = json!(unsaved);
        details["commit"] = json!(wrote.commit);
        details["changed"] =
            json!(wrote.files.iter().map(|path| self.context.display_path(path)).collect::<Vec<_>>());
        details["diagnostics"] = verdict.details.clone();
        details["sandbox"] = json!(sandbox.level.name());
        details["reverted"] = json!(sandbox.reverted);
        details["denied"] = json!(sandbox.denied);
        details["unprotected"] = json!(sandbox.unprotected);
        result.with_details(details)
    }

    /// Lists changed files, and those that `undo` cannot revert.
    fn render_changes(&self, wrote: &CommandChanges) -> String {
        let mut text = String::new();
        if !wrote.files.is_empty() {
            let names: Vec<String> =
                wrote.files.iter().take(MAX_NAMED).map(|path| self.context.display_path(path)).collect();
            text.push_str(&format!("\nchanged: {}{}", names.join(", "), more(wrote.files.len())));
        }
        if !wrote.lost.is_empty() {
            let render =
                |(path, why): &(AbsPath, String)| format!("{} ({why})", self.context.display_path(path));
            let names: Vec<String> = wrote.lost.iter().take(MAX_NAMED).map(render).collect();
            text.push_str(&format!("\nnot undoable: {}{}", names.join(", "), more(wrote.lost.len())));
        }
        text
    }
}

fn more(count: usize) -> String {
    if count > MAX_NAMED { format!(" and {} more", count - MAX_NAMED) } else { String::new() }
}

/// Marks a job stopped when its call is dropped: the process ends with the call.
struct EndsJob<'a>(Option<&'a Job>);

impl Drop for EndsJob<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.0.filter(|job| job.is_running()) {
            job.end(JobEnd { reason: EndReason::Stopped, left_processes: false });
        }
    }
}

fn details(job: &Job) -> Value {
    let (bytes, lines) = job.log.size();
    let exit_code = match *job.ended.borrow() {
        Some(JobEnd { reason: EndReason::Exited(status), .. }) => status.code(),
        _ => None,
    };
    json!({
        "job": job.name, "command": job.command, "running": job.is_running(), "exit_code": exit_code,
        "bytes": bytes, "lines": lines, "file": job.log.file(),
    })
}

fn short(command: &str) -> String {
    const MAX: usize = 60;
    let line = command.lines().next().unwrap_or_default();
    let cut = line.chars().count() > MAX || line.len() < command.trim_end().len();
    let line: String = line.chars().take(MAX).collect();
    if cut { format!("{line}…") } else { line }
}

/// Runs blocking `work` on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let failed = |error| Failure::new(ErrorCode::Internal, format!("{error}; please report this"));
    tokio::task::spawn_blocking(work).await.map_err(failed)
}
