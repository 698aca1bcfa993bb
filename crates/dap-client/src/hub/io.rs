//! The streams around a hub: one task owns the machine, one reads and one writes for each stream.
//!
//! What must stay true: a client that does not read holds up nobody and its queue is bounded, and one that is
//! sent away has left, for the hub too; an adapter that writes faster than the agent reads is read more slowly;
//! all tasks end with the session.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::StreamExt;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Encoder, FramedRead};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use wire::{Frame, Framing, Limits, MessageCodec};

use super::{ClientId, Envelope, Hub, Input, Kind, Options, Output, Shared, Who};

/// Messages that wait for the hub; more are left in their streams.
const INPUTS: usize = 256;
/// Messages that wait for one client.
const QUEUE: usize = 8192;
/// Messages that wait for an adapter that does not read.
const UNREAD: usize = 4096;
/// When it is said of a request that found no room there. At once, whatever it leads to would come at once too.
const NO_ROOM: Duration = Duration::from_secs(1);
/// Bytes between the hub and the agent.
const PIPE: usize = 256 * 1024;
/// Deadlines that are kept before those of what was answered are dropped.
const DEADLINES: usize = 8192;
/// How long a client that is sent nothing more may take to read what it was sent.
const LAST: Duration = Duration::from_secs(10);
/// The agent is the first client.
const AGENT: ClientId = 0;

/// A hub that runs. Cheap to clone; ends by [`HubHandle::close`] or with the adapter's stream.
#[derive(Clone)]
pub struct HubHandle {
    inputs: mpsc::Sender<Act>,
    shared: watch::Receiver<Shared>,
    next: Arc<AtomicU64>,
    tracker: TaskTracker,
    closed: CancellationToken,
    name: Arc<str>,
}

enum Act {
    Take(Input),
    Join(ClientId, Mailbox),
    /// What persons have set; with [`Input::Relaunching`], where it is for that.
    OfPersons {
        relaunch: bool,
        tell: oneshot::Sender<Vec<(&'static str, Value)>>,
    },
    Close(String),
}

impl HubHandle {
    /// Starts a hub over the adapter's streams. Gives the agent's end, to be spoken to as an adapter is.
    pub fn spawn(
        name: &str,
        options: Options,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        tracker: &TaskTracker,
    ) -> (Self, DuplexStream) {
        let (inputs, receiver) = mpsc::channel(INPUTS);
        let (shares, shared) = watch::channel(Shared::default());
        let closed = CancellationToken::new();
        let name: Arc<str> = name.into();
        let edge = Self {
            inputs,
            shared,
            next: Arc::new(AtomicU64::new(AGENT + 1)),
            tracker: tracker.clone(),
            closed: closed.clone(),
            name: Arc::clone(&name),
        };
        let (to_adapter, outgoing) = mpsc::channel(UNREAD);
        tracker.spawn(write_all(writer, outgoing));
        let (agent, own) = tokio::io::duplex(PIPE);
        let (own_reader, own_writer) = tokio::io::split(own);
        let (mailbox, gone) = Mailbox::open(own_writer, tracker);
        let mut hub = Hub::new(options);
        hub.take(Input::Joined { client: AGENT, who: Who::Agent });
        edge.read(
            own_reader,
            gone,
            |message| Input::Client { client: AGENT, message },
            |_| Input::Left { client: AGENT },
        );
        edge.read(reader, CancellationToken::new(), Input::Adapter, |why| Input::Gone { why });
        let actor = Actor {
            hub,
            name,
            clients: HashMap::from([(AGENT, mailbox)]),
            to_adapter: Some(to_adapter),
            shares,
            closed,
            deadlines: BTreeSet::new(),
        };
        tracker.spawn(actor.run(receiver));
        (edge, agent)
    }

    /// Who has control, and how many look on; with every change.
    pub fn shared(&self) -> watch::Receiver<Shared> {
        self.shared.clone()
    }

    /// Lets a person join over a stream. When the hub is over the stream is closed at once.
    pub async fn join(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        let client = self.next.fetch_add(1, Ordering::Relaxed);
        let (mailbox, gone) = Mailbox::open(writer, &self.tracker);
        if self.inputs.send(Act::Join(client, mailbox)).await.is_ok() {
            self.read(
                reader,
                gone,
                move |message| Input::Client { client, message },
                move |_| Input::Left { client },
            );
        }
    }

    /// The editor that holds the session is there; what it and the adapter say is told with [`HubHandle::heard`].
    pub(crate) async fn beside(&self) -> ClientId {
        let client = self.next.fetch_add(1, Ordering::Relaxed);
        self.act(Act::Take(Input::Beside { client })).await;
        client
    }

    /// One thing that was heard, in the order of hearing.
    pub(crate) async fn heard(&self, input: Input) {
        self.act(Act::Take(input)).await;
    }

    /// Gives control back to the agent.
    pub async fn hand_back(&self) {
        self.act(Act::Take(Input::HandBack)).await;
    }

    /// The agent's work was stopped: its breakpoints go, and a person who is there has control.
    pub async fn forget_agent(&self) {
        self.act(Act::Take(Input::ForgetAgent)).await;
    }

    /// Persons whose editors can are asked to join a child session.
    pub async fn child(&self, configuration: Value) {
        self.act(Act::Take(Input::Child { configuration })).await;
    }

    /// A child session is over: nobody is asked to join it any more.
    pub async fn child_over(&self, configuration: Value) {
        self.act(Act::Take(Input::ChildOver { configuration })).await;
    }

    /// The program is about to be launched again: persons are told of the end with [`HubHandle::relaunched`],
    /// which must come. What they have set is given, by request.
    pub(crate) async fn relaunching(&self) -> Vec<(&'static str, Value)> {
        self.ask_of_persons(true).await
    }

    /// What persons have set now, by request.
    pub(crate) async fn of_persons(&self) -> Vec<(&'static str, Value)> {
        self.ask_of_persons(false).await
    }

    async fn ask_of_persons(&self, relaunch: bool) -> Vec<(&'static str, Value)> {
        let (tell, told) = oneshot::channel();
        self.act(Act::OfPersons { relaunch, tell }).await;
        // An error means that the hub is over, and with it what was set.
        told.await.unwrap_or_default()
    }

    /// It was launched again and is joined by `configuration`, or it was not.
    pub(crate) async fn relaunched(&self, configuration: Option<Value>) {
        self.act(Act::Take(Input::Relaunched { configuration })).await;
    }

    /// Ends the hub: whoever is there is told.
    pub async fn close(&self, why: &str) {
        self.act(Act::Close(why.to_owned())).await;
    }

    /// Ends when the hub has. Cancel-safe.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    async fn act(&self, act: Act) {
        if self.inputs.send(act).await.is_err() {
            tracing::trace!(hub = &*self.name, "it is over");
        }
    }

    /// Reads a stream to its end, or until nothing is written to it any more.
    fn read(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        gone: CancellationToken,
        message: impl Fn(Envelope) -> Input + Send + 'static,
        end: impl FnOnce(String) -> Input + Send + 'static,
    ) {
        let (inputs, closed, name) = (self.inputs.clone(), self.closed.clone(), Arc::clone(&self.name));
        self.tracker.spawn(async move {
            let codec = MessageCodec::new(Framing::ContentLength, Limits::default());
            let mut frames = FramedRead::with_capacity(reader, codec, 64 * 1024);
            let why = loop {
                let frame = tokio::select! {
                    // Nobody wants what would be read.
                    () = closed.cancelled() => return,
                    () = gone.cancelled() => break "nothing can be written to it".to_owned(),
                    frame = frames.next() => frame,
                };
                match frame {
                    None => break "it closed its stream".to_owned(),
                    Some(Err(error)) => break format!("reading from it failed: {error}"),
                    Some(Ok(Frame::Skipped(skipped))) => tracing::warn!(hub = &*name, "skipped {skipped}"),
                    Some(Ok(Frame::Body(body))) => match Envelope::parse(&body) {
                        Err(malformed) => tracing::warn!(hub = &*name, "skipped {malformed}"),
                        Ok(read) => {
                            if inputs.send(Act::Take(message(read))).await.is_err() {
                                return;
                            }
                        }
                    },
                }
            };
            // Err means that the hub is over already.
            inputs.send(Act::Take(end(why))).await.ok();
        });
    }
}

/// What waits for a client. Dropped, that is still written, for as long as [`LAST`].
struct Mailbox {
    sender: mpsc::Sender<Vec<u8>>,
    /// Pieces of output that found no room.
    lost: u64,
    _end: DropGuard,
}

impl Mailbox {
    /// With the task that writes to the client; what is given ends with that.
    fn open(
        writer: impl AsyncWrite + Send + Unpin + 'static,
        tracker: &TaskTracker,
    ) -> (Self, CancellationToken) {
        let (sender, messages) = mpsc::channel(QUEUE);
        let (end, gone) = (CancellationToken::new(), CancellationToken::new());
        let (ended, written) = (end.clone(), gone.clone().drop_guard());
        tracker.spawn(async move {
            let mut writes = std::pin::pin!(write_some(writer, messages));
            tokio::select! {
                () = &mut writes => {}
                // It goes on below.
                () = ended.cancelled() => {
                    if tokio::time::timeout(LAST, writes).await.is_err() {
                        tracing::debug!("a client of a debug session left unread what it was sent");
                    }
                }
            }
            drop(written);
        });
        (Self { sender, lost: 0, _end: end.drop_guard() }, gone)
    }
}

struct Actor {
    hub: Hub,
    name: Arc<str>,
    clients: HashMap<ClientId, Mailbox>,
    to_adapter: Option<mpsc::Sender<Vec<u8>>>,
    shares: watch::Sender<Shared>,
    closed: CancellationToken,
    /// When the adapter has to have answered what, by its number.
    deadlines: BTreeSet<(Instant, i64)>,
}

impl Actor {
    async fn run(mut self, mut inputs: mpsc::Receiver<Act>) {
        loop {
            let due = self.deadlines.first().map(|(at, _)| *at);
            let act = tokio::select! {
                biased;
                // First, so that an adapter that floods us is late all the same. Both are cancel-safe.
                () = until(due) => self.deadlines.pop_first().map(|(_, number)| Act::Take(Input::Late { number })),
                act = inputs.recv() => act,
            };
            let Some(act) = act else { break };
            let (input, last) = match act {
                Act::Take(input) => {
                    let last = matches!(input, Input::Gone { .. } | Input::Relaunched { .. });
                    (input, last)
                }
                Act::Join(client, mailbox) => {
                    self.clients.insert(client, mailbox);
                    (Input::Joined { client, who: Who::Person }, false)
                }
                Act::OfPersons { relaunch, tell } => {
                    // An error means that nobody waits for it any more.
                    tell.send(self.hub.of_persons()).ok();
                    if !relaunch {
                        continue;
                    }
                    (Input::Relaunching, false)
                }
                Act::Close(why) => (Input::Gone { why }, true),
            };
            self.take(input).await;
            let shared = self.hub.shared();
            self.shares.send_if_modified(|it| {
                let changed = *it != shared;
                *it = shared;
                changed
            });
            if last && !self.hub.is_relaunching() {
                break;
            }
        }
        self.closed.cancel();
    }

    async fn take(&mut self, input: Input) {
        let mut outputs = VecDeque::from(self.hub.take(input));
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Adapter(message) => {
                    // Where it is closed writing failed, which reading tells too.
                    let sent = self.to_adapter.as_ref().map(|it| it.try_send(message.bytes()));
                    if let Some(Err(mpsc::error::TrySendError::Full(_))) = sent {
                        tracing::warn!(
                            hub = &*self.name,
                            "the adapter does not read: `{}` is not sent",
                            message.name
                        );
                        if let (Kind::Request, Some(number)) = (message.kind, message.value("seq").as_i64()) {
                            self.deadlines.insert((Instant::now() + NO_ROOM, number));
                        }
                    }
                }
                Output::Client { client, message } => {
                    if !self.tell(client, &message).await {
                        outputs.extend(self.hub.take(Input::Left { client }));
                    }
                }
                Output::Close { client } => drop(self.clients.remove(&client)),
                Output::Deadline { number, after } => {
                    if self.deadlines.len() >= DEADLINES {
                        self.deadlines.retain(|(_, number)| self.hub.waits_for(*number));
                    }
                    self.deadlines.insert((Instant::now() + after, number));
                }
                Output::Log(text) => tracing::debug!(hub = &*self.name, "{text}"),
            }
        }
    }

    /// Whether it is still there then.
    async fn tell(&mut self, client: ClientId, message: &Envelope) -> bool {
        let Some(mailbox) = self.clients.get_mut(&client) else { return true };
        if client == AGENT {
            // It reads whatever else it does, so this waits for nobody but the reader.
            mailbox.sender.send(message.bytes()).await.ok();
            return true;
        }
        let is_output = message.kind == Kind::Event && message.name == "output";
        // Room is kept for what must not be lost.
        if is_output && mailbox.sender.capacity() < QUEUE / 4 {
            mailbox.lost += 1;
            return true;
        }
        if mailbox.lost > 0 && mailbox.sender.capacity() > QUEUE / 2 {
            let text =
                format!("{} pieces of output left out: they came faster than they were read\n", mailbox.lost);
            let note = self.hub.take(Input::Note { client, text });
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
            tracing::warn!(hub = &*self.name, client, "a client that does not read is sent away");
            self.clients.remove(&client);
        }
        is_there
    }
}

/// Ends then; without a time never.
async fn until(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn write_some(writer: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Vec<u8>>) {
    let mut writer = Writer::new(writer);
    while let Some(message) = messages.recv().await {
        if let Err(error) = writer.write(&message, messages.is_empty()).await {
            return tracing::debug!(%error, "a client of a debug session does not read any more");
        }
    }
    writer.end().await;
}

async fn write_all(writer: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Vec<u8>>) {
    let mut writer = Writer::new(writer);
    while let Some(message) = messages.recv().await {
        if let Err(error) = writer.write(&message, messages.is_empty()).await {
            return tracing::debug!(%error, "a debug adapter does not read any more");
        }
    }
    writer.end().await;
}

struct Writer<W> {
    writer: W,
    codec: MessageCodec,
    buffer: BytesMut,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    fn new(writer: W) -> Self {
        let codec = MessageCodec::new(Framing::ContentLength, Limits::default());
        Self { writer, codec, buffer: BytesMut::new() }
    }

    async fn write(&mut self, message: &[u8], last: bool) -> std::io::Result<()> {
        self.codec.encode(message, &mut self.buffer)?;
        self.writer.write_all(&self.buffer).await?;
        self.buffer.clear();
        if last { self.writer.flush().await } else { Ok(()) }
    }

    async fn end(mut self) {
        if let Err(error) = self.writer.shutdown().await {
            tracing::trace!(%error, "it was closed there first");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use serde_json::json;
    use tokio::io::AsyncReadExt;
    use tokio_util::codec::Decoder;

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

        /// Reads until a message of this name.
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
            tokio::time::timeout(6 * LAST, found).await.unwrap_or_else(|_| panic!("no {name} came"))
        }
    }

    fn options() -> Options {
        Options {
            or: None,
            exception_names: None,
            marks: false,
            wrap: None,
            same: Box::new(str::to_owned),
            about: json!({}),
            former: Vec::new(),
        }
    }

    /// An adapter, the agent, and a person who has joined and has control, and a breakpoint.
    async fn joined(tracker: &TaskTracker) -> (HubHandle, Peer, Peer, Peer) {
        let (adapter, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let (edge, agent) = HubHandle::spawn("test", options(), reader, writer, tracker);
        let (mut adapter, mut agent) = (Peer::new(adapter), Peer::new(agent));
        agent.send(1, Envelope::request("initialize", json!({}))).await;
        let asked = adapter.until("initialize").await;
        adapter.answer(&asked).await;
        adapter.send(2, Envelope::event("initialized", json!({}))).await;
        let (person, theirs) = tokio::io::duplex(1 << 12);
        let (reader, writer) = tokio::io::split(theirs);
        edge.join(reader, writer).await;
        let mut person = Peer::new(person);
        person.send(1, Envelope::request("initialize", json!({}))).await;
        person.send(2, Envelope::request("attach", json!({}))).await;
        person.until("initialized").await;
        let own = json!({ "source": { "path": "/p/a" }, "breakpoints": [{ "line": 1 }] });
        person.send(3, Envelope::request("setBreakpoints", own)).await;
        let asked = adapter.until("setBreakpoints").await;
        adapter.answer(&asked).await;
        person.send(4, Envelope::request("configurationDone", json!({}))).await;
        person.send(5, Envelope::request("pause", json!({ "threadId": 1 }))).await;
        adapter.until("pause").await;
        (edge, adapter, agent, person)
    }

    impl Peer {
        async fn answer(&mut self, asked: &Envelope) {
            let mut answer = Envelope::answer(&asked.name, json!({}));
            answer.set("request_seq", &asked.value("seq"));
            self.send(100, answer).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_sent_away_has_left_and_its_stream_is_closed() {
        let tracker = TaskTracker::new();
        let (edge, mut adapter, mut agent, mut person) = joined(&tracker).await;
        let mut shared = edge.shared();
        assert_eq!((edge.shared().borrow().persons, edge.shared().borrow().controller.name()), (1, "person"));
        let tasks = tracker.len();
        let flood = async {
            // More than its queue and its stream have room for; it reads nothing.
            for seq in 0..2 * QUEUE as i64 {
                adapter.send(seq, Envelope::event("x/noise", json!({ "text": "0123456789" }))).await;
            }
            adapter.send(0, Envelope::event("x/last", json!({}))).await;
        };
        let begin = tokio::time::Instant::now();
        tokio::join!(flood, agent.until("x/last"));
        let left = shared.wait_for(|it| it.persons == 0).await.unwrap().controller;
        assert!(begin.elapsed() < LAST, "it has left at once");
        assert_eq!(left.name(), "agent", "control is given back");
        // Its breakpoints go with it.
        assert_eq!(adapter.until("setBreakpoints").await.content()["breakpoints"], json!([]));
        let since = tokio::time::Instant::now();
        while tracker.len() > tasks - 2 {
            tokio::time::advance(Duration::from_millis(100)).await;
            assert!(since.elapsed() < 2 * LAST, "its tasks are still there");
        }
        let mut rest = Vec::new();
        person.0.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() <= 1 << 12, "{}", rest.len());
    }

    /// What was refused as late still waits to be written, so it is not bounded by what waits for an answer.
    #[tokio::test(start_paused = true)]
    async fn what_waits_for_an_adapter_that_does_not_read_is_bounded() {
        let tracker = TaskTracker::new();
        let (_edge, _adapter, _agent, mut person) = joined(&tracker).await;
        let asks = || Envelope::request("source", json!({ "sourceReference": 1, "text": "x".repeat(1024) }));
        let asked_at_once = 500;
        for round in 0..12 {
            for seq in 0..asked_at_once {
                person.send(10 + round * asked_at_once + seq, asks()).await;
            }
            tokio::time::sleep(5 * LAST).await;
            for _ in 0..asked_at_once {
                assert!(!person.until("source").await.success());
            }
        }
        let begin = Instant::now();
        person.send(10_000, asks()).await;
        let refused = person.until("source").await;
        assert!(begin.elapsed() < LAST && !refused.success(), "{:?}", begin.elapsed());
    }

    /// One that is slow is still told all that it was sent before it left.
    #[tokio::test(start_paused = true)]
    async fn what_was_sent_before_the_end_is_still_written() {
        let tracker = TaskTracker::new();
        let (_edge, _adapter, _agent, mut person) = joined(&tracker).await;
        person.send(6, Envelope::request("disconnect", json!({}))).await;
        tokio::time::advance(LAST / 2).await;
        assert!(person.until("disconnect").await.success());
        assert_eq!(person.0.read_buf(&mut person.2).await.unwrap(), 0);
    }
}
