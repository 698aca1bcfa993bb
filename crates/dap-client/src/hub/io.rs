//! I/O tasks of a hub: one owns the state machine, and each stream has a reader and a writer.
//!
//! Invariants: a client that does not read blocks no other client, and its queue is bounded; a
//! disconnected client has also left the hub; an adapter that writes faster than the agent reads is
//! throttled; all tasks end with the session.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::StreamExt;
use process::deadlines;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use wire::Frame;

use super::{BreakpointRequest, ClientId, Envelope, Hub, HubOptions, HubStatus, Input, Kind, Output, Role};
use crate::client::{frames, write_messages};

/// Maximum number of messages that wait for the hub; more stay in their streams.
const COMMAND_QUEUE: usize = 256;
/// Maximum number of messages that wait for one client.
const CLIENT_QUEUE: usize = 8192;
/// Maximum number of messages that wait for an adapter that does not read.
const ADAPTER_QUEUE: usize = 4096;
/// Delay of the refusal when the adapter's queue is full.
///
/// Without it, refused clients would retry in a loop.
const FULL_QUEUE_DEADLINE: Duration = Duration::from_secs(1);
/// Size of the pipe between the hub and the agent, in bytes.
const AGENT_PIPE: usize = 256 * 1024;
/// Number of stored deadlines at which those of answered requests are dropped.
const MAX_DEADLINES: usize = 8192;
/// Id of the agent, the first client.
const AGENT: ClientId = 0;

/// Handle to a running hub.
///
/// The hub ends by [`HubHandle::close`] or with the adapter's stream.
#[derive(Clone)]
pub struct HubHandle {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<HubStatus>,
    next: Arc<AtomicU64>,
    tracker: TaskTracker,
    closed: CancellationToken,
    name: Arc<str>,
}

enum Command {
    Handle(Input),
    Join(ClientId, Mailbox),
    /// Returns the user's breakpoints.
    ///
    /// With `relaunch`, also handles [`Input::Relaunching`].
    UserBreakpoints {
        relaunch: bool,
        reply: oneshot::Sender<Vec<BreakpointRequest>>,
    },
    Close(String),
}

impl HubHandle {
    /// Starts a hub over the adapter's streams.
    ///
    /// Returns the agent's end, which behaves like an adapter.
    pub fn spawn(
        name: &str,
        mut options: HubOptions,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        tracker: &TaskTracker,
    ) -> (Self, DuplexStream) {
        let (commands, receiver) = mpsc::channel(COMMAND_QUEUE);
        let (status_sender, status) = watch::channel(HubStatus::default());
        let closed = CancellationToken::new();
        let name: Arc<str> = name.into();
        let handle = Self {
            commands,
            status,
            next: Arc::new(AtomicU64::new(AGENT + 1)),
            tracker: tracker.clone(),
            closed: closed.clone(),
            name: Arc::clone(&name),
        };
        let (to_adapter, outgoing) = mpsc::channel(ADAPTER_QUEUE);
        tracker.spawn(write_to("a debug adapter", writer, outgoing));
        let (agent, own) = tokio::io::duplex(AGENT_PIPE);
        let (own_reader, own_writer) = tokio::io::split(own);
        let (mailbox, closed_writer) = Mailbox::open(own_writer, tracker);
        let end_program = options.end_program.take();
        let mut hub = Hub::new(options);
        hub.handle(Input::Joined { client: AGENT, role: Role::Agent });
        handle.read(
            own_reader,
            closed_writer,
            |message| Input::Client { client: AGENT, message },
            |_| Input::Left { client: AGENT },
        );
        handle
            .read(reader, CancellationToken::new(), Input::Adapter, |reason| Input::AdapterClosed { reason });
        let actor = Actor {
            hub,
            name,
            clients: HashMap::from([(AGENT, mailbox)]),
            to_adapter: Some(to_adapter),
            status_sender,
            closed,
            deadlines: BTreeSet::new(),
            end_program,
        };
        tracker.spawn(actor.run(receiver));
        (handle, agent)
    }

    /// The hub's status, updated with every change.
    pub fn status(&self) -> watch::Receiver<HubStatus> {
        self.status.clone()
    }

    /// Adds a client over a stream. If the hub has ended, the stream is closed at once.
    pub async fn join(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        let client = self.next.fetch_add(1, Ordering::Relaxed);
        let (mailbox, closed_writer) = Mailbox::open(writer, &self.tracker);
        if self.commands.send(Command::Join(client, mailbox)).await.is_ok() {
            self.read(
                reader,
                closed_writer,
                move |message| Input::Client { client, message },
                move |_| Input::Left { client },
            );
        }
    }

    /// Handles an input, in the order of calls.
    pub async fn handle(&self, input: Input) {
        self.send(Command::Handle(input)).await;
    }

    /// Adds the editor that owns the session.
    ///
    /// [`HubHandle::handle`] receives its messages.
    pub(crate) async fn join_external(&self) -> ClientId {
        let client = self.next.fetch_add(1, Ordering::Relaxed);
        self.handle(Input::ExternalClientJoined { client }).await;
        client
    }

    /// Announces a relaunch and returns the user's breakpoints.
    ///
    /// [`Input::Relaunched`] must follow; it reports the end to joined clients.
    pub(crate) async fn begin_relaunch(&self) -> Vec<BreakpointRequest> {
        self.request_user_breakpoints(true).await
    }

    pub(crate) async fn user_breakpoints(&self) -> Vec<BreakpointRequest> {
        self.request_user_breakpoints(false).await
    }

    async fn request_user_breakpoints(&self, relaunch: bool) -> Vec<BreakpointRequest> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::UserBreakpoints { relaunch, reply }).await;
        // An error means that the hub and its breakpoints have ended.
        answer.await.unwrap_or_default()
    }

    /// Ends the hub and informs its clients.
    pub async fn close(&self, why: &str) {
        self.send(Command::Close(why.to_owned())).await;
    }

    /// Waits until the hub has ended. Cancel-safe.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    async fn send(&self, command: Command) {
        if self.commands.send(command).await.is_err() {
            tracing::trace!(hub = &*self.name, "the hub has ended");
        }
    }

    /// Reads a stream until it ends or its writer is closed.
    fn read(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        closed_writer: CancellationToken,
        message: impl Fn(Envelope) -> Input + Send + 'static,
        end: impl FnOnce(String) -> Input + Send + 'static,
    ) {
        let (commands, closed, name) = (self.commands.clone(), self.closed.clone(), Arc::clone(&self.name));
        self.tracker.spawn(async move {
            let mut frames = frames(reader);
            let why = loop {
                let frame = tokio::select! {
                    // The hub has ended and needs no input.
                    () = closed.cancelled() => return,
                    () = closed_writer.cancelled() => break "nothing can be written to it".to_owned(),
                    frame = frames.next() => frame,
                };
                match frame {
                    None => break "it closed its stream".to_owned(),
                    Some(Err(error)) => break format!("reading from it failed: {error}"),
                    Some(Ok(Frame::Skipped(skipped))) => tracing::warn!(hub = &*name, "skipped {skipped}"),
                    Some(Ok(Frame::Body(body))) => match Envelope::parse(&body) {
                        Err(malformed) => tracing::warn!(hub = &*name, "skipped {malformed}"),
                        Ok(read) => {
                            if commands.send(Command::Handle(message(read))).await.is_err() {
                                return;
                            }
                        }
                    },
                }
            };
            // An error means that the hub has ended already.
            commands.send(Command::Handle(end(why))).await.ok();
        });
    }
}

/// Queue of messages to a client.
///
/// After a drop, the rest is written within [`deadlines::JOINED_CLIENT`].
struct Mailbox {
    sender: mpsc::Sender<Vec<u8>>,
    /// Pieces of output dropped because the queue was full.
    lost: u64,
    _end: DropGuard,
}

impl Mailbox {
    /// Spawns the task that writes to the client.
    ///
    /// The returned token fires when it ends.
    fn open(
        writer: impl AsyncWrite + Send + Unpin + 'static,
        tracker: &TaskTracker,
    ) -> (Self, CancellationToken) {
        let (sender, messages) = mpsc::channel(CLIENT_QUEUE);
        let (end, closed_writer) = (CancellationToken::new(), CancellationToken::new());
        let (ended, written) = (end.clone(), closed_writer.clone().drop_guard());
        tracker.spawn(async move {
            let mut writes = std::pin::pin!(write_to("a client of a debug session", writer, messages));
            tokio::select! {
                () = &mut writes => {}
                // The task below writes the rest.
                () = ended.cancelled() => {
                    if tokio::time::timeout(deadlines::JOINED_CLIENT, writes).await.is_err() {
                        tracing::debug!("a client of a debug session did not read its last messages");
                    }
                }
            }
            drop(written);
        });
        (Self { sender, lost: 0, _end: end.drop_guard() }, closed_writer)
    }
}

struct Actor {
    hub: Hub,
    name: Arc<str>,
    clients: HashMap<ClientId, Mailbox>,
    to_adapter: Option<mpsc::Sender<Vec<u8>>>,
    status_sender: watch::Sender<HubStatus>,
    closed: CancellationToken,
    /// Deadlines of requests, with their numbers.
    deadlines: BTreeSet<(Instant, i64)>,
    end_program: Option<Box<dyn Fn() + Send>>,
}

impl Actor {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let due = self.deadlines.first().map(|(at, _)| *at);
            let command = tokio::select! {
                biased;
                // Deadlines come first, so that they pass even if an adapter floods the hub. Both
                // are cancel-safe.
                () = wait_until(due) => self.deadlines.pop_first().map(|(_, number)| Command::Handle(Input::DeadlinePassed { number })),
                command = commands.recv() => command,
            };
            let Some(command) = command else { break };
            let (input, last) = match command {
                Command::Handle(input) => {
                    let last = matches!(input, Input::AdapterClosed { .. } | Input::Relaunched { .. });
                    (input, last)
                }
                Command::Join(client, mailbox) => {
                    self.clients.insert(client, mailbox);
                    (Input::Joined { client, role: Role::User }, false)
                }
                Command::UserBreakpoints { relaunch, reply } => {
                    // An error means that the caller has stopped waiting.
                    reply.send(self.hub.user_breakpoints()).ok();
                    if !relaunch {
                        continue;
                    }
                    (Input::Relaunching, false)
                }
                Command::Close(reason) => (Input::AdapterClosed { reason }, true),
            };
            self.handle(input).await;
            let status = self.hub.status();
            self.status_sender.send_if_modified(|it| {
                let changed = *it != status;
                *it = status;
                changed
            });
            if last && !self.hub.is_relaunching() {
                break;
            }
        }
        self.closed.cancel();
    }

    async fn handle(&mut self, input: Input) {
        let mut outputs = VecDeque::from(self.hub.handle(input));
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Adapter(message) => {
                    // If the queue is closed, writing failed, which the reader also reports.
                    let sent = self.to_adapter.as_ref().map(|it| it.try_send(message.bytes()));
                    if let Some(Err(mpsc::error::TrySendError::Full(_))) = sent {
                        tracing::warn!(
                            hub = &*self.name,
                            "the adapter does not read; `{}` is not sent",
                            message.name
                        );
                        if let (Kind::Request, Some(number)) = (message.kind, message.value("seq").as_i64()) {
                            self.deadlines.insert((Instant::now() + FULL_QUEUE_DEADLINE, number));
                        }
                    }
                }
                Output::Client { client, message } => {
                    if !self.send_to_client(client, &message).await {
                        outputs.extend(self.hub.handle(Input::Left { client }));
                    }
                }
                Output::Close { client } => drop(self.clients.remove(&client)),
                Output::Deadline { number, after } => {
                    if self.deadlines.len() >= MAX_DEADLINES {
                        self.deadlines.retain(|(_, number)| self.hub.waits_for(*number));
                    }
                    self.deadlines.insert((Instant::now() + after, number));
                }
                Output::EndProgram => {
                    if let Some(end) = &self.end_program {
                        end();
                    }
                }
                Output::Log(text) => tracing::debug!(hub = &*self.name, "{text}"),
            }
        }
    }

    /// Sends a message; returns whether the client is still connected.
    async fn send_to_client(&mut self, client: ClientId, message: &Envelope) -> bool {
        let Some(mailbox) = self.clients.get_mut(&client) else { return true };
        if client == AGENT {
            // The agent always reads, so this waits only for its reader.
            mailbox.sender.send(message.bytes()).await.ok();
            return true;
        }
        let is_output = message.kind == Kind::Event && message.name == "output";
        // Reserves room for messages that must not be lost.
        if is_output && mailbox.sender.capacity() < CLIENT_QUEUE / 4 {
            mailbox.lost += 1;
            return true;
        }
        if mailbox.lost > 0 && mailbox.sender.capacity() > CLIENT_QUEUE / 2 {
            let text =
                format!("{} pieces of output left out: they came faster than they were read\n", mailbox.lost);
            let note = self.hub.handle(Input::ConsoleMessage { client, text });
            let notes = note.into_iter().filter_map(|it| match it {
                Output::Client { message, .. } => Some(message.bytes()),
                _ => None,
            });
            if notes.map(|note| mailbox.sender.try_send(note)).all(|sent| sent.is_ok()) {
                mailbox.lost = 0;
            }
        }
        let is_there = mailbox.sender.try_send(message.bytes()).is_ok();
        if !is_there {
            tracing::warn!(hub = &*self.name, client, "disconnected a client that does not read");
            self.clients.remove(&client);
        }
        is_there
    }
}

/// Waits until a time; forever without one.
async fn wait_until(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn write_to(peer: &'static str, writer: impl AsyncWrite + Unpin, messages: mpsc::Receiver<Vec<u8>>) {
    if let Err(error) = write_messages(writer, messages).await {
        tracing::debug!(%error, "{peer} no longer reads");
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::bytes::BytesMut;
    use tokio_util::codec::{Decoder, Encoder};
    use wire::{Framing, Limits, MessageCodec};

    use super::*;

    /// One end of a stream of messages.
    struct Peer(Pin<Box<dyn Io>>, MessageCodec, BytesMut);

    trait Io: AsyncRead + AsyncWrite + Send {}

    impl<T: AsyncRead + AsyncWrite + Send> Io for T {}

    impl Peer {
        fn new(stream: DuplexStream) -> Self {
            let codec = MessageCodec::new(Framing::ContentLength, Limits::default());
            Self(Box::pin(stream), codec, BytesMut::new())
        }

        async fn send(&mut self, seq: i64, mut message: Envelope) {
            message.set("seq", &json!(seq));
            let mut bytes = BytesMut::new();
            self.1.encode(&message.bytes(), &mut bytes).unwrap();
            self.0.write_all(&bytes).await.unwrap();
        }

        /// Reads until a message of this name arrives.
        async fn until(&mut self, name: &str) -> Envelope {
            let found = async {
                loop {
                    while let Some(Frame::Body(body)) = self.1.decode(&mut self.2).unwrap() {
                        let message = Envelope::parse(&body).unwrap();
                        if message.name == name {
                            return message;
                        }
                    }
                    let read = self.0.read_buf(&mut self.2).await.unwrap();
                    assert!(read > 0, "the stream ended before {name}");
                }
            };
            tokio::time::timeout(6 * deadlines::JOINED_CLIENT, found)
                .await
                .unwrap_or_else(|_| panic!("no {name} came"))
        }
    }

    fn options() -> HubOptions {
        HubOptions {
            or_operator: None,
            exception_names: None,
            has_output_fence: false,
            wrap: None,
            canonical_path: Box::new(str::to_owned),
            session_info: json!({}),
            initial_breakpoints: Vec::new(),
            known_requests: Vec::new(),
            runs_in_terminal_itself: false,
            end_program: None,
        }
    }

    /// An adapter, the agent, and a joined user with control and a breakpoint.
    async fn joined(tracker: &TaskTracker) -> (HubHandle, Peer, Peer, Peer) {
        let (adapter, remote) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(remote);
        let (hub, agent) = HubHandle::spawn("test", options(), reader, writer, tracker);
        let (mut adapter, mut agent) = (Peer::new(adapter), Peer::new(agent));
        agent.send(1, Envelope::request("initialize", json!({}))).await;
        let asked = adapter.until("initialize").await;
        adapter.answer(&asked).await;
        adapter.send(2, Envelope::event("initialized", json!({}))).await;
        let (user, remote) = tokio::io::duplex(1 << 12);
        let (reader, writer) = tokio::io::split(remote);
        hub.join(reader, writer).await;
        let mut user = Peer::new(user);
        user.send(1, Envelope::request("initialize", json!({}))).await;
        user.send(2, Envelope::request("attach", json!({}))).await;
        user.until("initialized").await;
        let own = json!({ "source": { "path": "/p/a" }, "breakpoints": [{ "line": 1 }] });
        user.send(3, Envelope::request("setBreakpoints", own)).await;
        let asked = adapter.until("setBreakpoints").await;
        adapter.answer(&asked).await;
        user.send(4, Envelope::request("configurationDone", json!({}))).await;
        user.send(5, Envelope::request("pause", json!({ "threadId": 1 }))).await;
        adapter.until("pause").await;
        (hub, adapter, agent, user)
    }

    impl Peer {
        async fn answer(&mut self, asked: &Envelope) {
            let mut answer = Envelope::answer(&asked.name, json!({}));
            answer.set("request_seq", &asked.value("seq"));
            self.send(100, answer).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disconnected_client_has_left_and_its_stream_is_closed() {
        let tracker = TaskTracker::new();
        let (hub, mut adapter, mut agent, mut user) = joined(&tracker).await;
        let mut status = hub.status();
        assert_eq!(
            (hub.status().borrow().joined_clients, hub.status().borrow().controller.name()),
            (1, "person")
        );
        let tasks = tracker.len();
        let flood = async {
            // More bytes than the client's queue and stream can hold; the client reads nothing.
            for seq in 0..2 * CLIENT_QUEUE as i64 {
                adapter.send(seq, Envelope::event("x/noise", json!({ "text": "0123456789" }))).await;
            }
            adapter.send(0, Envelope::event("x/last", json!({}))).await;
        };
        let begin = tokio::time::Instant::now();
        tokio::join!(flood, agent.until("x/last"));
        let left = status.wait_for(|it| it.joined_clients == 0).await.unwrap().controller;
        assert!(begin.elapsed() < deadlines::JOINED_CLIENT, "it has left at once");
        assert_eq!(left.name(), "agent", "control returns to the agent");
        // Its breakpoints are removed.
        assert_eq!(adapter.until("setBreakpoints").await.content()["breakpoints"], json!([]));
        let since = tokio::time::Instant::now();
        while tracker.len() > tasks - 2 {
            tokio::time::advance(Duration::from_millis(100)).await;
            assert!(since.elapsed() < 2 * deadlines::JOINED_CLIENT, "its tasks still run");
        }
        let mut rest = Vec::new();
        user.0.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() <= 1 << 12, "{}", rest.len());
    }

    /// Limits the refused requests that wait to be written.
    ///
    /// The limit on unanswered requests does not count them.
    #[tokio::test(start_paused = true)]
    async fn the_queue_of_an_adapter_that_does_not_read_is_bounded() {
        let tracker = TaskTracker::new();
        let (_edge, _adapter, _agent, mut user) = joined(&tracker).await;
        let asks = || Envelope::request("source", json!({ "sourceReference": 1, "text": "x".repeat(1024) }));
        let asked_at_once = 500;
        for round in 0..12 {
            for seq in 0..asked_at_once {
                user.send(10 + round * asked_at_once + seq, asks()).await;
            }
            tokio::time::sleep(5 * deadlines::JOINED_CLIENT).await;
            for _ in 0..asked_at_once {
                assert!(!user.until("source").await.success());
            }
        }
        let begin = Instant::now();
        user.send(10_000, asks()).await;
        let refused = user.until("source").await;
        assert!(begin.elapsed() < deadlines::JOINED_CLIENT && !refused.success(), "{:?}", begin.elapsed());
    }

    /// Sends a slow client all messages from before it left.
    #[tokio::test(start_paused = true)]
    async fn messages_sent_before_the_end_are_still_written() {
        let tracker = TaskTracker::new();
        let (_edge, _adapter, _agent, mut user) = joined(&tracker).await;
        user.send(6, Envelope::request("disconnect", json!({}))).await;
        tokio::time::advance(deadlines::JOINED_CLIENT / 2).await;
        assert!(user.until("disconnect").await.success());
        assert_eq!(user.0.read_buf(&mut user.2).await.unwrap(), 0);
    }
}
