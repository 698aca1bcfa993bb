//! One request, carried out on an open project: the same code for a command that opened the project
//! itself and for an owner that does it for one. It prints nothing.

use std::sync::Arc;
use std::time::Duration;

use agent::store::{EntryBody, LoadedSession, SessionStore};
use agent::{
    CompactionLimits, EventSink, Limits, Registry, ReplayModel, RunOutcome, Session, SessionError,
    Standalone, TerminationReason, ToolCx, ToolResult, Toolset, call_tool,
};
use llm::Content;
use serde_json::{Value, json};
use tokio::sync::{Mutex, broadcast};
use tokio_util::sync::CancellationToken;
use tools::Kit;
use workspace::{Approver, Commit, CommitId, Homes, Policy, RunId, Undo};

use crate::around::{Around, Begin, ChooseModel};
use crate::beside::Beside;
use crate::commands::Exit;
use crate::config::Config;
use crate::models::{self, Chosen};
use crate::owner::{Call, Ran, Reply, Request, TakeBack};
use crate::project::{Guest, Project};
use crate::unsaved::{self, Unsaved};

/// How long servers of one request get to end.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// The entry that says as which agent a session goes on.
const AGENT: &str = "agent";

/// A project and the permission to work on it.
pub struct Worker {
    project: Arc<Project>,
    policy: Arc<Policy>,
    approver: Arc<dyn Approver>,
    kit: Arc<Kit>,
    registry: Registry,
    guests: Option<Guests>,
    /// Whose programs are meant where a call names none.
    starter: RunId,
}

/// Language servers of this request alone; the project's have to hear what was committed meanwhile.
struct Guests {
    servers: Arc<lsp_client::ServerPool>,
    commits: Mutex<broadcast::Receiver<Arc<Commit>>>,
}

impl Worker {
    /// For the process that opened the project, with its permission.
    pub fn own(project: Arc<Project>) -> Self {
        Self {
            policy: Arc::clone(&project.policy),
            approver: Arc::clone(&project.approver),
            kit: Arc::clone(&project.kit),
            registry: project.registry.clone(),
            project,
            guests: None,
            starter: RunId::new(),
        }
    }

    /// For a request that came from elsewhere, with the permission that came with it.
    pub fn guest(
        project: Arc<Project>,
        homes: &Homes,
        yes: bool,
        keep: bool,
        approver: Arc<dyn Approver>,
    ) -> anyhow::Result<Self> {
        let commits = Mutex::new(project.workspace.subscribe());
        let Guest { policy, kit, registry, servers } = project.guest(homes, yes, keep, &approver)?;
        let guests = servers.map(|servers| Guests { servers, commits });
        Ok(Self { project, policy, approver, kit, registry, guests, starter: RunId::new() })
    }

    /// The project.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// Calls one tool.
    pub async fn call(&self, call: Call, cancel: &CancellationToken) -> Reply<ToolResult> {
        let Call { name, arguments, invoked, named } = call;
        if named && self.registry.get(&name).is_none() {
            let names = self.registry.names().join(", ");
            return Reply::Usage(format!("there is no tool `{name}`; there are: {names}"));
        }
        let arguments: Value = if arguments.is_null() { json!({}) } else { arguments };
        let (cx, mut unsaved) = (self.context(cancel, invoked), Unsaved::watch(&self.project.workspace));
        let result = call_tool(&self.registry, &name, arguments, &cx).await;
        self.tell_others().await;
        Reply::Done(with_unsaved(result, &unsaved.files(&cx.run)))
    }

    /// Takes back the last run, one commit, or the last undo.
    pub async fn take_back(&self, what: TakeBack, cancel: &CancellationToken) -> Reply<ToolResult> {
        let which = match what.commit {
            _ if what.redo => None,
            Some(id) => Some(Undo::Commit(CommitId(id))),
            None => Some(Undo::LastRun),
        };
        let (cx, mut unsaved) = (self.context(cancel, true), Unsaved::watch(&self.project.workspace));
        let result = tools::take_back(&self.kit, &cx, which.as_ref()).await.unwrap_or_else(Into::into);
        self.tell_others().await;
        Reply::Done(with_unsaved(result, &unsaved.files(&cx.run)))
    }

    /// Works out a prompt and tells `sink` what happens.
    ///
    /// # Errors
    /// When our own folders fail.
    pub async fn run(
        &self,
        request: Request,
        person_file: &str,
        sink: Arc<dyn EventSink>,
        stop: Stop<'_>,
    ) -> anyhow::Result<Reply<Ran>> {
        let project = &self.project;
        let found = match request.model {
            Some(_) => None,
            None => models::find_local(&project.config, person_file).await,
        };
        let files = models::files_about(&request.prompt, project, &request.folder, None);
        let asking = models::Asking {
            project,
            config: &project.config,
            folder: &request.folder,
            found: found.as_deref(),
            files: &files,
        };
        let store = project.sessions()?;
        let resumed = match &request.resume {
            None => None,
            Some(id) => match store.load_to_write(id) {
                Ok(loaded) => Some(loaded),
                Err(error) if error.is_wrong_use() => return Ok(Reply::Usage(error.to_string())),
                Err(error) => return Err(error.into()),
            },
        };
        // The model that answered last stays, also where settings change.
        let had = resumed.as_ref().filter(|_| request.model.is_none()).and_then(models::had);
        let chosen = match &request.model {
            Some(name) => asking.choose(Some(name)),
            None => asking.go_on(had.as_deref()),
        };
        let Chosen { model, fallbacks, summarizer, notes } = match chosen {
            Ok(chosen) => chosen,
            Err(error) => return Ok(Reply::Usage(format!("{error:#}"))),
        };
        // Who a session was begun as has what that one may: it is not gone on with as somebody else unasked.
        let acting = Acting::of(request.agent.clone(), resumed.as_ref());
        let begin = Begin {
            policy: &self.policy,
            kit: &self.kit,
            agent: acting.name.as_deref(),
            choose: request.model.is_none().then(|| {
                let (folder, project, found) = (request.folder.clone(), Arc::clone(project), found.clone());
                let (files, had) = (files.clone(), had.clone());
                Box::new(move |config: &Config| {
                    let (project, folder, found) = (&project, &folder, found.as_deref());
                    let asking = models::Asking { project, config, folder, found, files: &files };
                    Ok(asking.go_on(had.as_deref())?.model)
                }) as ChooseModel
            }),
            cwd: Some(&request.folder),
        };
        let around = match Around::new(project, begin) {
            Ok(around) => Arc::new(around),
            Err(error) => return Ok(Reply::Usage(format!("{error:#}"))),
        };
        notes.into_iter().for_each(|note| around.tell(note));
        acting.told(request.agent.as_deref()).into_iter().for_each(|note| around.tell(note));
        if let Some(name) = found.filter(|name| *name == model.info().name()) {
            around.tell(format!("no model is set; {name} was found on this machine and is asked"));
        }
        let wishes = compaction(&request.prompt);
        if wishes.is_some() && resumed.is_none() {
            let way = "pilcrow sessions compact ID";
            return Ok(Reply::Usage(format!("there is no conversation yet to put into fewer words; {way}")));
        }
        let mut prompts = match recorded(&request, &store)? {
            Some(prompts) => prompts.into_iter(),
            None => match around.prompt(&request.prompt) {
                Ok(prompt) => vec![prompt].into_iter(),
                Err(error) => return Ok(Reply::Usage(error.to_string())),
            },
        };
        let config = around.config();
        let builder = Session::builder(model, around.registry()?)
            .fallbacks(fallbacks)
            .summarizer(summarizer)
            .system(around.instructions())
            .surroundings(around.clone())
            .cwd(project.workspace.root().to_string())
            .store(store)
            .sink(sink)
            .policy(Arc::new(self.policy.beside_reading(&around.readable())))
            .approver(Arc::clone(&self.approver))
            .searches_tools(config.searches_tools())
            .queues(config.steering(), config.drain())
            .limits(limits(&config))
            .commits(project.workspace.subscribe())
            .disconnected(stop.gone.clone());
        // A run is stopped by its own token, which knows who stops it.
        let builder = if wishes.is_some() { builder.cancel(stop.cancel.clone()) } else { builder };
        let session = match resumed {
            Some(loaded) => builder.resume(loaded).build(),
            None => builder.build(),
        };
        acting.note(&session).await?;
        let mut unsaved = Unsaved::watch(&project.workspace);
        // Whoever asks for something lets the agent work again.
        project.kit.debug.hand_back().await;
        if let Some(wishes) = wishes {
            let compacted = session.compact(wishes).await;
            session.close(Duration::from_millis(200)).await;
            return Ok(Reply::Done(told_of_compaction(compacted)));
        }
        let beside = Beside::tell(&session, &self.kit);
        let mut outcome = stop.prompt(&session, prompts.next().unwrap_or_default()).await;
        for prompt in prompts {
            if outcome.reason != TerminationReason::NoToolCalls {
                break;
            }
            outcome = stop.prompt(&session, prompt).await;
        }
        drop(beside);
        if was_stopped(outcome.reason) {
            project.kit.debug.stop(&outcome.run, SHUTDOWN).await;
        }
        session.close(Duration::from_millis(200)).await;
        self.tell_others().await;
        let exit = match outcome.reason {
            _ if outcome.denied_for_lack_of_asker => Exit::Denied,
            _ if ended_well(&outcome) => Exit::Done,
            _ => Exit::Failed,
        };
        let why = outcome.error.unwrap_or_else(|| reason(outcome.reason).to_owned());
        let unsaved = unsaved.files(&outcome.run);
        Ok(Reply::Done(Ran { exit, why: (exit != Exit::Done).then_some(why), unsaved }))
    }

    /// Ends what was started for this request alone; the project goes on.
    pub async fn leave(&self) {
        if let Some(guests) = &self.guests {
            guests.servers.shutdown(SHUTDOWN).await;
        }
    }

    async fn tell_others(&self) {
        let Some(guests) = &self.guests else { return };
        let mut commits = guests.commits.lock().await;
        loop {
            match commits.try_recv() {
                Ok(commit) => self.project.servers.did_commit(&commit).await,
                // What was missed the servers find in their next sweep.
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return,
            }
        }
    }

    /// What a call outside a run is given. `invoked` when the person's command named the change itself.
    fn context(&self, cancel: &CancellationToken, invoked: bool) -> ToolCx {
        ToolCx::standalone(Standalone {
            call_id: "call".to_owned(),
            run: RunId::new(),
            starter: self.starter.clone(),
            cancel: cancel.clone(),
            policy: Arc::clone(&self.policy),
            approver: Arc::clone(&self.approver),
            tools: Arc::new(Toolset::searched(Arc::new(self.registry.clone()))),
            invoked,
            on_update: Box::new(|_| {}),
        })
    }
}

/// What ends a run before it is done.
#[derive(Clone, Copy)]
pub struct Stop<'a> {
    /// Fires when somebody stops it, and when its surface went away.
    pub cancel: &'a CancellationToken,
    /// Fires before `cancel` when its surface went away.
    pub gone: &'a CancellationToken,
}

impl Stop<'_> {
    /// Runs with this prompt. A session whose surface went away ends by itself, as disconnected.
    pub async fn prompt(self, session: &Session, prompt: String) -> RunOutcome {
        let stopped = CancellationToken::new();
        let run = session.prompt_messages(vec![llm::Message::user(prompt)], stopped.clone());
        let mut run = std::pin::pin!(run);
        tokio::select! {
            outcome = &mut run => return outcome,
            // The run goes on, to its end.
            () = self.cancel.cancelled() => {}
        }
        if !self.gone.is_cancelled() {
            stopped.cancel();
        }
        run.await
    }
}

/// Whether a run came to its end, with an answer that is whole.
pub fn ended_well(outcome: &RunOutcome) -> bool {
    matches!(outcome.reason, TerminationReason::NoToolCalls | TerminationReason::TerminatedByTools)
        && outcome.error.is_none()
}

/// Whether a run was ended by somebody, and not by itself.
pub fn was_stopped(reason: TerminationReason) -> bool {
    matches!(reason, TerminationReason::Aborted | TerminationReason::Disconnected)
}

/// As which agent a session goes on.
pub struct Acting {
    /// Its name; none for the usual one.
    pub name: Option<String>,
    /// The one that the session was begun as.
    was: Option<String>,
}

impl Acting {
    /// The one that is named, else the one that the session was begun as: who that is has what that one may.
    pub fn of(named: Option<String>, resumed: Option<&LoadedSession>) -> Self {
        let was = resumed.and_then(begun_as);
        Self { name: named.or_else(|| was.clone()), was }
    }

    /// The same, as `usual` where it was begun as nobody.
    pub fn or(self, usual: Option<&String>) -> Self {
        Self { name: self.name.or_else(|| usual.cloned()), ..self }
    }

    /// What the person is told where it is not what they named now.
    pub fn told(&self, named: Option<&str>) -> Option<String> {
        let was = self.was.as_ref().filter(|_| named.is_none())?;
        Some(format!("it goes on as the agent `{was}`, as it began"))
    }

    /// Writes it into the session, where it does not say so.
    pub async fn note(&self, session: &Session) -> Result<(), SessionError> {
        match self.name.as_ref().filter(|name| self.was.as_ref() != Some(name)) {
            Some(name) => session.append_custom(AGENT, json!({ "name": name })).await,
            None => Ok(()),
        }
    }
}

/// The agent, by name, that a session was begun as.
fn begun_as(session: &LoadedSession) -> Option<String> {
    let custom = session.entries.iter().rev().filter(|entry| entry.kind == "custom");
    custom.filter_map(|entry| session.body(entry).ok()).find_map(|body| match body {
        EntryBody::Custom { kind, data } if kind == AGENT => data["name"].as_str().map(str::to_owned),
        _ => None,
    })
}

/// What the person said in a session that is played again, where nothing else is to be said.
fn recorded(request: &Request, store: &SessionStore) -> anyhow::Result<Option<Vec<String>>> {
    let id = request.model.as_deref().and_then(|name| name.strip_prefix("replay:"));
    match id.filter(|_| request.prompt.trim().is_empty()) {
        Some(id) => Ok(Some(ReplayModel::new(&store.load(id)?).prompts().to_vec())),
        None => Ok(None),
    }
}

/// The bounds of a run.
pub fn limits(config: &Config) -> Limits {
    let usual = Limits::default();
    Limits {
        turns: u32::try_from(config.turn_limit()).unwrap_or(u32::MAX),
        sequential_tools: !config.runs_tools_at_once(),
        compaction: CompactionLimits { window: config.context_window(), ..usual.compaction },
        ..usual
    }
}

/// What `/compact WISHES` wishes for the summary; `None` for any other prompt.
pub fn compaction(prompt: &str) -> Option<&str> {
    let rest = prompt.trim().strip_prefix("/compact")?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

/// How putting a conversation into fewer words ended, as a run is told.
fn told_of_compaction(compacted: Result<bool, SessionError>) -> Ran {
    let (exit, why) = match compacted {
        Ok(true) => (Exit::Done, None),
        Ok(false) => (Exit::Done, Some("nothing was put into fewer words: it is short as it is".to_owned())),
        Err(error) => (Exit::Failed, Some(error.to_string())),
    };
    Ran { exit, why, unsaved: Vec::new() }
}

/// The result with the files that the disk does not have as it says.
fn with_unsaved(mut result: ToolResult, files: &[String]) -> ToolResult {
    if let Some(words) = unsaved::words(files) {
        result.content.push(Content::text(words));
        if let Value::Object(details) = &mut result.details {
            details.insert("not_saved".to_owned(), json!(files));
        }
    }
    result
}

fn reason(reason: TerminationReason) -> &'static str {
    match reason {
        TerminationReason::Aborted => "stopped",
        TerminationReason::Disconnected => "the surface went away",
        TerminationReason::TimeoutTotal | TerminationReason::TimeoutIdle => "it took too long",
        TerminationReason::TurnLimit => "the limit of turns was reached",
        _ => "the run failed",
    }
}
