//! The start of a server: command, permission, process, and delay after failures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use paths::AbsPath;
use policy::{ProgramFiles, SpawnGrant, SpawnRequest, Subject};
use process::deadlines;
use process::{Process, SpawnError};
use shell::CommandLine;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::ServerPool;
use super::hosts::ServerHosts;
use super::reload::CHANGED;
use super::slot::{InUse, Slot};
use crate::error::{Result, ServerError, StartCause};
use crate::server::core::Core;
use crate::server::{Clock, Server, last_lines};
use adapters::{Definition, ServerDefinition, expand, expand_text};

/// A permitted command.
struct Granted {
    command: CommandLine,
    grant: SpawnGrant,
    /// The probe, which must succeed before the command is used.
    probe: Option<CommandLine>,
}

fn failure(command: &CommandLine, reason: &str) -> String {
    format!("{} does not work: {reason}", command.program.display())
}

impl ServerPool {
    /// The server of a slot, started if it does not run.
    pub(super) async fn start_in(self: &Arc<Self>, slot: &Arc<Slot>, clock: Clock<'_>) -> Result<InUse> {
        if let Some(server) = slot.take_use() {
            return Ok(server);
        }
        let name = &slot.name;
        let late = |cause| ServerError::Starting { server: name.clone(), cause };
        let start = async {
            let permit = Arc::clone(&slot.starting).acquire_owned().await;
            let permit = permit.map_err(|_| late(StartCause::ShuttingDown))?;
            if let Some(server) = slot.take_use() {
                return Ok(server);
            }
            if let Some(dead) = slot.take_ended() {
                dead.process.end(deadlines::FINISHED_PROGRAM).await;
            }
            let not_before = slot.state().not_before.take();
            if let Some(not_before) = not_before.filter(|at| *at > Instant::now()) {
                if not_before > clock.until {
                    slot.state().not_before = Some(not_before);
                    let wait = not_before.saturating_duration_since(Instant::now());
                    let state = slot.state();
                    let (failures, stderr_tail) = (state.failures, last_lines(&state.stderr_tail, 5));
                    return Err(late(StartCause::Crashing { failures, wait, stderr_tail }));
                }
                tokio::time::sleep_until(not_before.into()).await;
            }
            let commands = self.commands(slot).await?;
            self.launch(slot, commands, permit, clock).await
        };
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            () = self.stop.cancelled() => Err(late(StartCause::ShuttingDown)),
            server = tokio::time::timeout(clock.left(), start) => {
                server.unwrap_or_else(|_| Err(late(StartCause::Initializing)))
            }
        }
    }

    /// Every command that could start the server, best first.
    async fn commands(&self, slot: &Slot) -> Result<Vec<CommandLine>> {
        let definition = &slot.definition();
        let programs = self.limits.search.find(definition, &slot.root, self.workspace.root());
        if programs.is_empty() {
            return Err(self.missing(definition, String::new()));
        }
        let variables = self.variables(slot);
        let mut env: Vec<(String, String)> = definition
            .command
            .env
            .iter()
            .map(|(name, value)| (name.clone(), expand_text(value, &variables)))
            .collect();
        for (name, pattern) in &definition.command.env_glob {
            if std::env::var_os(name).is_none()
                && let Some(found) = adapters::matches(pattern).last()
            {
                env.push((name.clone(), found.display().to_string()));
            }
        }
        if let Some(path) = self.limits.search.path_variable() {
            env.push(("PATH".to_owned(), path.to_string_lossy().into_owned()));
        }
        let args: Vec<String> =
            definition.command.args.iter().map(|arg| expand_text(arg, &variables)).collect();
        let command =
            |program| CommandLine { program, args: args.clone(), env: env.clone(), cwd: slot.root.clone() };
        Ok(programs.into_iter().map(command).collect())
    }

    fn missing(&self, definition: &ServerDefinition, detail: String) -> ServerError {
        ServerError::Missing {
            server: definition.name.clone(),
            install: definition.install.hint(&definition.name),
            detail,
        }
    }

    fn variables(&self, slot: &Slot) -> Vec<(&'static str, String)> {
        vec![
            ("root", slot.root.to_string()),
            ("workspace", self.workspace.root().to_string()),
            ("state", self.state_of(slot).to_string()),
        ]
    }

    /// The server's own directory for the workspace.
    fn state_of(&self, slot: &Slot) -> AbsPath {
        self.workspace.state().path().join("server-data").join(&slot.name)
    }

    /// Starts the process and initializes it in a task of the pool.
    ///
    /// The start continues for other callers if this one is dropped.
    async fn launch(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        commands: Vec<CommandLine>,
        permit: OwnedSemaphorePermit,
        clock: Clock<'_>,
    ) -> Result<InUse> {
        let granted = self.granted(slot, commands, clock).await?;
        self.start_janitor();
        self.make_room(&slot.name, clock).await?;
        let (sender, receiver) = oneshot::channel();
        let (this, slot) = (Arc::clone(self), Arc::clone(slot));
        self.tracker.spawn(async move {
            let result = tokio::select! {
                // Dropping the start drops the process, which ends its group.
                () = this.stop.cancelled() => Err(ServerError::Cancelled),
                result = this.start(&slot, granted) => result,
            };
            let result = {
                let mut state = slot.state();
                let result = match result {
                    Ok(server) if !Arc::ptr_eq(&server.core.definition, &state.definition) => {
                        this.end_now(server, CHANGED);
                        let cause = StartCause::DefinitionChanged;
                        Err(ServerError::Starting { server: slot.name.clone(), cause })
                    }
                    result => result,
                };
                match &result {
                    Ok(server) => {
                        // The first request opens them.
                        server.core.file_poller.reopen_later(std::mem::take(&mut state.open).iter());
                        state.server = Some(Arc::clone(server));
                    }
                    Err(
                        ServerError::Missing { .. } | ServerError::Cancelled | ServerError::Starting { .. },
                    ) => {}
                    Err(_) => state.failed(Duration::ZERO),
                }
                result.as_ref().map(InUse::new).map_err(Clone::clone)
            };
            drop(permit);
            if sender.send(result).is_err() {
                tracing::debug!(server = slot.name, "started after all callers were dropped");
            }
        });
        receiver.await.unwrap_or(Err(ServerError::Cancelled))
    }

    /// The permitted commands, best first, each with its probe.
    async fn granted(
        &self,
        slot: &Slot,
        commands: Vec<CommandLine>,
        clock: Clock<'_>,
    ) -> Result<Vec<Granted>> {
        let definition = &slot.definition();
        let mut granted = Vec::new();
        let mut failures = Vec::new();
        for command in commands {
            let args = definition.command.probe.clone();
            let mut probe = args.map(|args| CommandLine { args, ..command.clone() });
            // The policy asks about each command of a project separately, and a permission covers
            // those arguments alone. A probe is a command of its own, and unused candidates cause
            // no prompt.
            if let Some(probe) = probe.take_if(|_| definition.from_project) {
                let name = format!("{} (probe of {})", definition.name, command.program.display());
                let grant = self.grant(slot, definition, name, &probe, clock).await?;
                if let Err(reason) = self.probe(&probe, &grant).await {
                    failures.push(failure(&command, &reason));
                    continue;
                }
            }
            let grant = self.grant(slot, definition, definition.name.clone(), &command, clock).await?;
            let last = probe.is_none();
            granted.push(Granted { command, grant, probe });
            if last {
                break;
            }
        }
        if granted.is_empty() {
            return Err(self.missing(definition, failures.join("; ")));
        }
        Ok(granted)
    }

    async fn grant(
        &self,
        slot: &Slot,
        definition: &ServerDefinition,
        name: String,
        command: &CommandLine,
        clock: Clock<'_>,
    ) -> Result<SpawnGrant> {
        let directories = definition.writes.iter().filter(|name| name.ends_with('/'));
        let request = SpawnRequest {
            subject: subject(definition, &name),
            definition: name,
            root: slot.root.clone(),
            command: command.clone(),
            changes: Some(ProgramFiles {
                state: Some(self.state_of(slot)),
                project: definition.writes.iter().map(|name| slot.root.join(name)).collect(),
                created: directories.map(|name| slot.root.join(name)).collect(),
                unix_sockets: false,
            }),
            is_command: false,
        };
        let grant = self.policy.grant_spawn(&request, &*self.approver, clock.cancel).await;
        grant.map_err(|denied| ServerError::Denied { server: definition.name.clone(), denied })
    }

    async fn start(&self, slot: &Slot, granted: Vec<Granted>) -> Result<Arc<Server>> {
        let definition = &slot.definition();
        let mut failures = Vec::new();
        for Granted { command, grant, probe } in &granted {
            if let Some(probe) = probe
                && let Err(reason) = self.probe(probe, grant).await
            {
                failures.push(failure(command, &reason));
                continue;
            }
            let process = self.spawn(definition, command, grant).await?;
            let mut variables = self.variables(slot);
            if let Some(modules) = adapters::modules_of(&command.program) {
                variables.push(("modules", modules.display().to_string()));
            }
            let core = Core::new(
                Arc::clone(definition),
                slot.root.clone(),
                self.workspace.clone(),
                Arc::clone(&self.host),
                self.limits.search.clone(),
                expand(&definition.settings, &variables),
                self.requests,
            );
            *core.folders() = slot.state().folders.clone();
            return Server::start(core, process, &variables, self.limits.start, &self.tracker).await;
        }
        Err(self.missing(definition, failures.join("; ")))
    }

    async fn spawn(
        &self,
        definition: &ServerDefinition,
        command: &CommandLine,
        grant: &SpawnGrant,
    ) -> Result<Process> {
        let spawned = self.processes.spawn_gated(command, grant, self.hosts(&definition.name)).await;
        spawned.map_err(|error| match error {
            SpawnError::MissingProgram { program } => {
                self.missing(definition, format!("{program} does not exist"))
            }
            error => ServerError::Start { server: definition.name.clone(), reason: error.to_string() },
        })
    }

    fn hosts(&self, server: &str) -> Arc<ServerHosts> {
        Arc::new(ServerHosts::new(server, Arc::clone(&self.policy)))
    }

    async fn probe(&self, command: &CommandLine, grant: &SpawnGrant) -> Result<(), String> {
        let spawned = self.processes.spawn_gated(command, grant, self.hosts(grant.definition())).await;
        let mut process = spawned.map_err(|error| error.to_string())?;
        // The probe's output is dropped only after its end, because a closed pipe could make it
        // fail. A server that is probed by its own command ends at the end of its input.
        drop(process.take_stdin());
        let _output = process.take_stdout();
        match tokio::time::timeout(Duration::from_secs(15), process.exited()).await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let tail = last_lines(&process.stderr_tail(), 1);
                Err(if tail.is_empty() { status.to_string() } else { tail })
            }
            Err(_) => {
                process.end(deadlines::FAILED_PROGRAM).await;
                Err("it did not exit".to_owned())
            }
        }
    }
}

/// The trust that a command of the project's definition needs.
pub(super) fn subject(definition: &ServerDefinition, name: &str) -> Option<Subject> {
    let subject = || Subject::new(ServerDefinition::DIRECTORY, name, definition.source());
    definition.from_project.then(subject)
}
