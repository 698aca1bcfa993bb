//! The streams around a hub: one task owns the machine, one reads and one writes for each stream.
//!
//! What must stay true: a client that does not read holds up nobody and its queue is bounded; an adapter
//! that writes faster than the agent reads is read more slowly; all tasks end with the session.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::StreamExt;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Encoder, FramedRead};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Frame, Framing, Limits, MessageCodec};

use super::{ClientId, Envelope, Hub, Input, Kind, Options, Output, Shared, Who};

/// Messages that wait for the hub; more are left in their streams.
const INPUTS: usize = 256;
/// Messages that wait for one client.
const QUEUE: usize = 8192;
/// Bytes between the hub and the agent.
const PIPE: usize = 256 * 1024;
/// How long an adapter may take to answer a request that ends its program.
const END: Duration = Duration::from_secs(2);
/// The agent is the first client.
const AGENT: ClientId = 0;

/// A hub that runs. Cheap to clone; ends by [`Edge::close`] or with the adapter's stream.
#[derive(Clone)]
pub struct Edge {
    inputs: mpsc::Sender<Act>,
    shared: watch::Receiver<Shared>,
    next: Arc<AtomicU64>,
    tracker: TaskTracker,
    closed: CancellationToken,
    name: Arc<str>,
}

enum Act {
    Take(Input),
    Join(ClientId, mpsc::Sender<Vec<u8>>),
    /// [`Input::Relaunching`], with what persons have set.
    Relaunch(oneshot::Sender<Vec<(&'static str, Value)>>),
    Close(String),
}

impl Edge {
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
        // Bounded by the requests that may wait of each client.
        let (to_adapter, outgoing) = mpsc::unbounded_channel();
        tracker.spawn(write_all(writer, outgoing));
        let (agent, own) = tokio::io::duplex(PIPE);
        let (own_reader, own_writer) = tokio::io::split(own);
        let (to_agent, for_agent) = mpsc::channel(QUEUE);
        tracker.spawn(write_some(own_writer, for_agent));
        let mut hub = Hub::new(options);
        hub.take(Input::Joined { client: AGENT, who: Who::Agent });
        edge.read(
            own_reader,
            |message| Input::Client { client: AGENT, message },
            |_| Input::Left { client: AGENT },
        );
        edge.read(reader, Input::Adapter, |why| Input::Gone { why });
        let actor = Actor {
            hub,
            name,
            clients: HashMap::from([(AGENT, Mailbox { sender: to_agent, lost: 0 })]),
            to_adapter: Some(to_adapter),
            shares,
            closed,
            inputs: edge.inputs.downgrade(),
            tracker: tracker.clone(),
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
        let (sender, outgoing) = mpsc::channel(QUEUE);
        self.tracker.spawn(write_some(writer, outgoing));
        if self.inputs.send(Act::Join(client, sender)).await.is_ok() {
            self.read(
                reader,
                move |message| Input::Client { client, message },
                move |_| Input::Left { client },
            );
        }
    }

    /// The editor that holds the session is there; what it and the adapter say is told with [`Edge::heard`].
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

    /// The program is about to be launched again: persons are told of the end with [`Edge::relaunched`],
    /// which must come. What they have set is given, by request.
    pub(crate) async fn relaunching(&self) -> Vec<(&'static str, Value)> {
        let (tell, told) = oneshot::channel();
        self.act(Act::Relaunch(tell)).await;
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

    /// Reads a stream to its end.
    fn read(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
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

struct Mailbox {
    sender: mpsc::Sender<Vec<u8>>,
    /// Pieces of output that found no room.
    lost: u64,
}

struct Actor {
    hub: Hub,
    name: Arc<str>,
    clients: HashMap<ClientId, Mailbox>,
    to_adapter: Option<mpsc::UnboundedSender<Vec<u8>>>,
    shares: watch::Sender<Shared>,
    closed: CancellationToken,
    inputs: mpsc::WeakSender<Act>,
    tracker: TaskTracker,
}

impl Actor {
    async fn run(mut self, mut inputs: mpsc::Receiver<Act>) {
        while let Some(act) = inputs.recv().await {
            let (input, last) = match act {
                Act::Take(input) => {
                    let last = matches!(input, Input::Gone { .. } | Input::Relaunched { .. });
                    (input, last)
                }
                Act::Join(client, sender) => {
                    self.clients.insert(client, Mailbox { sender, lost: 0 });
                    (Input::Joined { client, who: Who::Person }, false)
                }
                Act::Relaunch(tell) => {
                    // An error means that nobody waits for it any more.
                    tell.send(self.hub.of_persons()).ok();
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
        for output in self.hub.take(input) {
            match output {
                Output::Adapter(message) => {
                    // Err means that writing failed, which reading tells too.
                    if let Some(to_adapter) = &self.to_adapter {
                        to_adapter.send(message.bytes()).ok();
                    }
                }
                Output::Client { client, message } => self.tell(client, &message).await,
                Output::Close { client } => drop(self.clients.remove(&client)),
                Output::Deadline { number } => {
                    let (inputs, closed) = (self.inputs.clone(), self.closed.clone());
                    self.tracker.spawn(async move {
                        tokio::select! {
                            () = closed.cancelled() => {}
                            // Err means that the hub is over.
                            () = tokio::time::sleep(END) => {
                                if let Some(inputs) = inputs.upgrade() {
                                    inputs.send(Act::Take(Input::Late { number })).await.ok();
                                }
                            }
                        }
                    });
                }
                Output::Log(text) => tracing::debug!(hub = &*self.name, "{text}"),
            }
        }
    }

    async fn tell(&mut self, client: ClientId, message: &Envelope) {
        let Some(mailbox) = self.clients.get_mut(&client) else { return };
        if client == AGENT {
            // It reads whatever else it does, so this waits for nobody but the reader.
            mailbox.sender.send(message.bytes()).await.ok();
            return;
        }
        let is_output = message.kind == Kind::Event && message.name == "output";
        // Room is kept for what must not be lost.
        if is_output && mailbox.sender.capacity() < QUEUE / 4 {
            mailbox.lost += 1;
            return;
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
        if mailbox.sender.try_send(message.bytes()).is_err() {
            tracing::warn!(hub = &*self.name, client, "a client that does not read is sent away");
            self.clients.remove(&client);
        }
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

async fn write_all(writer: impl AsyncWrite + Unpin, mut messages: mpsc::UnboundedReceiver<Vec<u8>>) {
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
