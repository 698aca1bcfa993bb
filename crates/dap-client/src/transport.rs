//! Starts an adapter and connects to it.
//!
//! The connection uses its standard streams, a port that it prints or that Pilcrow chooses, a port
//! on which Pilcrow listens, or a Unix socket. Uses the loopback network only.
//!
//! Invariants: a wait ends when the deadline passes or the adapter ends; the returned or dropped
//! [`Process`] owns everything that was started.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use paths::StateDir;
use policy::SpawnGrant;
use process::deadlines;
use process::{HostGate, Process, Processes, SandboxSockets};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;
use wire::local;
use workspace::ProtectedFiles;

use crate::error::{DapError, Result};
use crate::launch::LaunchPlan;
use adapters::Transport;

/// First and longest pause between two attempts to connect.
///
/// No event reports an open port, so Pilcrow polls.
const RETRY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(15));
/// Ports of adapters in the network of the sandbox.
const SANDBOX_PORTS: Range<u16> = 20_000..30_000;
/// Maximum number of bytes of an adapter's output that are searched for its port.
const HEAD: usize = 64 * 1024;

pub(crate) struct Connection {
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// The adapter, if it was started for this connection.
    pub process: Option<Process>,
    /// Address at which another connection can be opened.
    pub address: Option<Address>,
    /// The adapter's standard output, if the program shares it.
    pub stdout: Option<mpsc::Receiver<String>>,
    /// Files that the adapter and its programs must leave as they are.
    pub protected: Option<ProtectedFiles>,
}

#[derive(Debug, Clone)]
pub(crate) enum Address {
    Port(u16),
    /// The socket file is removed with the last holder.
    Socket(Arc<local::Reserved>),
}

/// The loopback network of an adapter: the machine's, or that of the sandbox.
pub(crate) struct Loopback(Option<SandboxSockets>);

impl Loopback {
    /// The network of programs that run under `grant`.
    pub(crate) async fn of(processes: &Processes, grant: &SpawnGrant) -> std::io::Result<Self> {
        Ok(Self(match processes.has_sandbox_network(grant).await {
            true => Some(processes.sandbox_sockets().await?),
            false => None,
        }))
    }

    /// Listens on a free port; must be called once.
    async fn listen(&mut self) -> std::io::Result<TcpListener> {
        match &mut self.0 {
            Some(sockets) => sockets
                .listener
                .take()
                .ok_or_else(|| std::io::Error::other("the sandbox has one listener, which is taken")),
            None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
        }
    }

    /// A port at which an adapter will listen.
    async fn free_port(&self) -> std::io::Result<u16> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        match &self.0 {
            // Below the kernel's ephemeral ports, one of which the adapter's proxy has.
            Some(_) => {
                Ok(SANDBOX_PORTS.start + NEXT.fetch_add(1, Ordering::Relaxed) % SANDBOX_PORTS.len() as u16)
            }
            None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr().map(|it| it.port()),
        }
    }

    async fn connect(&self, port: u16) -> std::io::Result<TcpStream> {
        match &self.0 {
            Some(sockets) => sockets.connect(port).await,
            None => TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await,
        }
    }
}

/// Opens another connection to an adapter that already serves a session.
pub(crate) async fn reconnect(
    adapter: &str,
    address: &Address,
    processes: &Processes,
    grant: &SpawnGrant,
    deadline: Instant,
) -> Result<Connection> {
    match address {
        Address::Port(port) => {
            let failed = |error| DapError::Crashed { adapter: adapter.to_owned(), why: no_port(&error) };
            let network = Loopback::of(processes, grant).await.map_err(failed)?;
            let connect = || network.connect(*port);
            connect_in_time(adapter, || format!("127.0.0.1:{port}"), connect, deadline).await
        }
        Address::Socket(name) => {
            let why = "it did not accept another connection in time";
            let late = || DapError::Late { adapter: adapter.to_owned(), why: why.to_owned() };
            let stream = timeout_at(deadline, open_socket(name)).await.map_err(|_| late())?;
            Ok(over_socket(stream, None, name))
        }
    }
}

/// Connects to a running adapter.
///
/// Retries until `deadline`, because its port may not be open yet.
pub(crate) async fn connect_to(
    adapter: &str,
    host: &str,
    port: u16,
    deadline: Instant,
) -> Result<Connection> {
    let connect = || TcpStream::connect((host, port));
    connect_in_time(adapter, || format!("{host}:{port}"), connect, deadline).await
}

async fn connect_in_time<F: Future<Output = std::io::Result<TcpStream>>>(
    adapter: &str,
    address: impl Fn() -> String,
    attempt: impl Fn() -> F,
    deadline: Instant,
) -> Result<Connection> {
    let mut last = String::new();
    let mut pause = Pause(RETRY.0);
    let connect = async {
        loop {
            match attempt().await {
                Ok(stream) => return stream,
                Err(error) => last = error.to_string(),
            }
            pause.wait().await;
        }
    };
    match timeout_at(deadline, connect).await {
        Ok(stream) => Ok(over_tcp(adapter, stream, None)),
        Err(_) => Err(DapError::Unreachable { adapter: adapter.to_owned(), address: address(), why: last }),
    }
}

fn no_port(error: &std::io::Error) -> String {
    format!("no loopback port is available: {error}")
}

struct Pause(Duration);

impl Pause {
    /// Sleeps, and doubles the next pause.
    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(RETRY.1);
    }
}

fn over_tcp(adapter: &str, stream: TcpStream, process: Option<Process>) -> Connection {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(adapter, %error, "cannot disable the delay of small messages");
    }
    let address = stream.peer_addr().ok().map(|address| Address::Port(address.port()));
    let (reader, writer) = stream.into_split();
    let (reader, writer) = (Box::new(reader), Box::new(writer));
    Connection { reader, writer, process, address, stdout: None, protected: None }
}

fn over_socket(stream: local::Stream, process: Option<Process>, name: &Arc<local::Reserved>) -> Connection {
    let (reader, writer) = stream.split();
    let address = Some(Address::Socket(Arc::clone(name)));
    let (reader, writer) = (Box::new(reader), Box::new(writer));
    Connection { reader, writer, process, address, stdout: None, protected: None }
}

/// Reserves a path for an adapter's socket.
///
/// Uses `directory`, which is private, else the temporary directory.
fn reserve(directory: Option<&StateDir>) -> Result<local::Reserved, local::LocalError> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("pilcrow-{}-{number}.adapter", std::process::id());
    let own =
        directory.and_then(|directory| Some(PathBuf::from(directory.make().ok()?.join(&name).as_path())));
    match own.map(local::Reserved::new) {
        Some(Ok(reserved)) => Ok(reserved),
        // The path in `directory` is too long for a socket.
        _ => local::Reserved::new(std::env::temp_dir().join(&name)),
    }
}

/// Connects as soon as the adapter accepts connections.
async fn open_socket(name: &local::Reserved) -> local::Stream {
    let mut pause = Pause(RETRY.0);
    loop {
        match name.connect().await {
            Ok(stream) => return stream,
            Err(error) => tracing::trace!(%error, "not open yet"),
        }
        pause.wait().await;
    }
}

/// Starts the adapter of `plan` and connects to it.
///
/// `directory` may hold its socket. `gate` permits its connections if the sandbox limits them.
pub(crate) async fn open(
    processes: &Arc<Processes>,
    plan: &LaunchPlan,
    grant: &SpawnGrant,
    gate: Option<Arc<dyn HostGate>>,
    directory: Option<&StateDir>,
    deadline: Instant,
    tracker: &TaskTracker,
) -> Result<Connection> {
    let adapter = &plan.adapter.name;
    let failed = |why: String| DapError::Crashed { adapter: adapter.clone(), why };
    let socket = |error: std::io::Error| failed(no_port(&error));
    let mut network = match &plan.adapter.transport {
        Transport::Stdio | Transport::Socket => Loopback(None),
        Transport::Listen | Transport::Connect { .. } => {
            Loopback::of(processes, grant).await.map_err(socket)?
        }
    };
    let (listener, port) = match &plan.adapter.transport {
        Transport::Stdio | Transport::Connect { announces: Some(_) } | Transport::Socket => (None, None),
        Transport::Connect { announces: None } => (None, Some(network.free_port().await.map_err(socket)?)),
        Transport::Listen => {
            let listener = network.listen().await.map_err(socket)?;
            let port = listener.local_addr().map_err(socket)?.port();
            (Some(listener), Some(port))
        }
    };
    let reserved = match plan.adapter.transport {
        Transport::Socket => {
            // The sandbox hides Pilcrow's own directories.
            let directory = directory.filter(|_| grant.sandbox().is_none());
            Some(Arc::new(reserve(directory).map_err(|error| failed(error.to_string()))?))
        }
        _ => None,
    };
    let port_text = port.map(|port| port.to_string()).unwrap_or_default();
    let socket_text = reserved.as_ref().map(|it| it.path().to_string_lossy().into_owned());
    let later = [
        ("${port}", port_text),
        ("${host}", "127.0.0.1".to_owned()),
        ("${socket}", socket_text.unwrap_or_default()),
    ];
    let protected = ProtectedFiles::before(grant, processes).await;
    let spawned = processes.spawn_apart(&plan.command, grant, &later, gate).await;
    let mut process = spawned.map_err(|source| DapError::Spawn { adapter: adapter.clone(), source })?;
    let (Some(stdin), Some(stdout)) = (process.take_stdin(), process.take_stdout()) else {
        return Err(failed("it has no pipes".to_owned()));
    };
    let (sender, receiver) = mpsc::channel(64);
    let (output, stdout_text) =
        if plan.adapter.quirks.shares_program_output { (Some(sender), Some(receiver)) } else { (None, None) };
    let stream = match &plan.adapter.transport {
        Transport::Stdio => {
            let (reader, writer) = (Box::new(stdout), Box::new(stdin));
            let process = Some(process);
            return Ok(Connection { reader, writer, process, address: None, stdout: None, protected });
        }
        Transport::Connect { announces } => {
            // Some adapters end when their input closes.
            let printed = drain(stdout, stdin, announces.clone(), output, tracker);
            connect(&process, &network, printed, port, deadline).await.map(AdapterStream::Port)
        }
        Transport::Listen => {
            drop(drain(stdout, stdin, None, output, tracker));
            match listener {
                Some(listener) => accept(&process, listener, deadline).await.map(AdapterStream::Port),
                None => Err(ConnectFailure::Failed("it has no open port".to_owned())),
            }
        }
        Transport::Socket => {
            drop(drain(stdout, stdin, None, output, tracker));
            match reserved {
                Some(name) => {
                    let reach = async { Ok(open_socket(&name).await) };
                    let stream =
                        before_exit(&process, reach, deadline, "it did not open its socket in time").await;
                    stream.map(|stream| AdapterStream::Socket(stream, name))
                }
                None => Err(ConnectFailure::Failed("it has no named socket".to_owned())),
            }
        }
    };
    match stream {
        Ok(reached) => {
            let mut connection = match reached {
                AdapterStream::Port(stream) => over_tcp(adapter, stream, Some(process)),
                AdapterStream::Socket(stream, name) => over_socket(stream, Some(process), &name),
            };
            // An adapter that connected to Pilcrow does not listen at its own port.
            connection.stdout = stdout_text;
            connection.protected = protected;
            connection.address = connection.address.filter(|_| plan.adapter.transport != Transport::Listen);
            Ok(connection)
        }
        Err(failure) => {
            let status = process.end(deadlines::FAILED_PROGRAM).await;
            tracing::debug!(adapter, %status, "ending an adapter that did not connect");
            let tail = process.stderr_tail();
            Err(match failure {
                ConnectFailure::Failed(why) => failed(with_tail(&why, &tail)),
                ConnectFailure::Late(why) => {
                    DapError::Late { adapter: adapter.clone(), why: with_tail(why, &tail) }
                }
            })
        }
    }
}

/// The stream to a started adapter.
enum AdapterStream {
    Port(TcpStream),
    Socket(local::Stream, Arc<local::Reserved>),
}

/// Appends the last lines of `stderr` to `why`.
pub(crate) fn with_tail(why: &str, stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(12)..].join("\n  ");
    if tail.is_empty() { why.to_owned() } else { format!("{why}; its last output:\n  {tail}") }
}

/// Reads the adapter's output and searches it for the port.
///
/// The adapter would block if its output were not read.
fn drain(
    mut stdout: impl AsyncRead + Send + Unpin + 'static,
    stdin: impl Send + 'static,
    announces: Option<String>,
    mut output: Option<mpsc::Sender<String>>,
    tracker: &TaskTracker,
) -> watch::Receiver<Option<u16>> {
    let (found, port) = watch::channel(None);
    tracker.spawn(async move {
        let _stdin = stdin;
        let mut head = Vec::new();
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(count @ 1..) = stdout.read(&mut buffer).await {
            if head.len() < HEAD && found.borrow().is_none() {
                head.extend_from_slice(&buffer[..count]);
                if let Some(announces) = &announces {
                    let port = port_in(&String::from_utf8_lossy(&head), announces);
                    found.send_if_modified(|found| {
                        *found = port;
                        port.is_some()
                    });
                }
            }
            let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
            // Without a receiver the output is still read, so that the adapter never blocks.
            if let Some(sender) = &output
                && sender.send(text).await.is_err()
            {
                output = None;
            }
        }
    });
    port
}

/// The port after `announces`.
///
/// The last number of `HOST:PORT` or a number alone, once its end was printed.
fn port_in(text: &str, announces: &str) -> Option<u16> {
    let (_, after) = text.split_once(announces)?;
    let after = after.trim_start_matches([' ', '\t', ':', '[']);
    let word = &after[..after.find(char::is_whitespace)?];
    let digits = |c: char| !c.is_ascii_digit();
    let number = word.trim_end_matches(digits).rsplit(digits).next()?;
    number.parse().ok()
}

/// Failure to connect to a started adapter.
enum ConnectFailure {
    Failed(String),
    Late(&'static str),
}

async fn connect(
    process: &Process,
    network: &Loopback,
    mut printed: watch::Receiver<Option<u16>>,
    chosen: Option<u16>,
    deadline: Instant,
) -> Result<TcpStream, ConnectFailure> {
    let reach = async {
        let port = match chosen {
            Some(port) => port,
            None => match printed.wait_for(Option::is_some).await.map(|port| *port) {
                Ok(Some(port)) => port,
                _ => return Err("it closed its output without printing its port".to_owned()),
            },
        };
        let mut pause = Pause(RETRY.0);
        loop {
            match network.connect(port).await {
                Ok(stream) => return Ok(stream),
                Err(error) => tracing::trace!(port, %error, "not open yet"),
            }
            pause.wait().await;
        }
    };
    before_exit(process, reach, deadline, "it did not open its port in time").await
}

async fn accept(
    process: &Process,
    listener: TcpListener,
    deadline: Instant,
) -> Result<TcpStream, ConnectFailure> {
    let reach = async {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        accepted.map_err(|error| format!("it could not connect: {error}"))
    };
    before_exit(process, reach, deadline, "it did not connect in time").await
}

/// Waits for `reach`, until the adapter ends or the deadline passes.
async fn before_exit<S>(
    process: &Process,
    reach: impl Future<Output = Result<S, String>>,
    deadline: Instant,
    late: &'static str,
) -> Result<S, ConnectFailure> {
    tokio::select! {
        // Dropping either future loses only the attempt.
        status = process.exited() => {
            Err(ConnectFailure::Failed(format!("it ended before it could be reached ({status})")))
        }
        stream = timeout_at(deadline, reach) => match stream {
            Ok(reached) => reached.map_err(ConnectFailure::Failed),
            Err(_) => Err(ConnectFailure::Late(late)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_read_when_all_of_it_was_printed() {
        let port = |text: &str| port_in(text, "listening at");
        assert_eq!(port("DAP server listening at: 127.0.0.1:40"), None);
        assert_eq!(port("x\nDAP server listening at: 127.0.0.1:4021\n"), Some(4021));
        assert_eq!(port("nothing here\n"), None);
        assert_eq!(port_in("Debug server listening at ::1:8123\n", "listening at"), Some(8123));
    }

    #[test]
    fn the_last_lines_are_appended() {
        assert_eq!(with_tail("it ended", " \n"), "it ended");
        let long: String = (0..40).map(|number| format!("line {number}\n")).collect();
        let text = with_tail("it ended", &long);
        assert!(text.contains("line 39") && text.contains("line 28") && !text.contains("line 27"), "{text}");
    }
}
