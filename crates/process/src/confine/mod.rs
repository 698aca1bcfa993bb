//! Confinement of commands: `pilcrow __confine PROGRAM ARGUMENTS…`.
//!
//! The helper is Pilcrow's own executable, started for one command, with one thread. It reads a
//! [`Spec`] from its standard input, applies it, and executes the command in its place, so that process id,
//! group and streams stay those of the child that the owner knows. Limits cannot be removed, and hold for
//! all processes that the command starts.
//!
//! Levels, the best that works here:
//! - `bwrap`: bubblewrap gives the command its own view of the files, in which all but the writable ones
//!   are read-only, and its own process ids. seccomp denies system calls that lead out of it.
//! - `landlock`: the kernel's Landlock denies writes and hidden files, with seccomp.
//! - `none`: the command runs with the user's rights.

#[cfg(target_os = "linux")]
mod bwrap;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod seccomp;

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use paths::AbsPath;
use policy::{GitChanges, Network, SandboxProfile};
use serde::{Deserialize, Serialize};
use shell::CommandLine;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::process::ChildStdin;

/// Name of the helper's subcommand.
pub const SUBCOMMAND: &str = "__confine";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    Bwrap,
    Landlock,
    None,
}

impl SandboxLevel {
    pub(crate) const BEST_FIRST: [Self; 2] = [Self::Bwrap, Self::Landlock];

    /// The name for users and models.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::Landlock => "Landlock",
            Self::None => "none",
        }
    }
}

/// The sandbox that works here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxStatus {
    pub level: SandboxLevel,
    /// Whether commands can have a network of their own, and so a proxy.
    has_network: bool,
    /// One line for the user: the sandbox, and why it is not a better one.
    pub detail: String,
}

impl SandboxStatus {
    /// Whether confined programs can have a network of their own.
    pub fn has_network(&self) -> bool {
        self.has_network
    }

    pub fn none(reason: &str) -> Self {
        Self { level: SandboxLevel::None, has_network: false, detail: reason.to_owned() }
    }

    pub(crate) fn new(level: SandboxLevel, without_network: Option<String>, reasons: &[String]) -> Self {
        let has_network = without_network.is_none();
        let offline = without_network.map(|why| format!("commands have no network: {why}"));
        let reasons: String = offline.iter().chain(reasons).map(|reason| format!("; {reason}")).collect();
        Self { level, has_network, detail: format!("{} and seccomp{reasons}", level.name()) }
    }
}

/// The confinement of one command, as the helper reads it.
///
/// Format: JSON after a line with its length in bytes. The command's own input follows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pub(crate) level: SandboxLevel,
    /// The directory in which the command starts.
    pub(crate) cwd: AbsPath,
    /// Whether the command has no input; else it is the rest of the helper's.
    pub(crate) no_input: bool,
    pub(crate) profile: SandboxProfile,
}

impl Spec {
    /// Renders the spec; an error if a path is not Unicode.
    fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        let mut bytes = format!("{}\n", json.len()).into_bytes();
        bytes.extend(json);
        Ok(bytes)
    }

    /// Reads a spec, and no byte after it.
    fn read(mut input: impl Read) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot read the sandbox profile: {error}");
        let mut length = 0;
        loop {
            let mut byte = [0];
            input.read_exact(&mut byte).map_err(|error| failed(&error))?;
            match byte[0] {
                b'\n' => break,
                digit @ b'0'..=b'9' if length < 1 << 20 => length = length * 10 + usize::from(digit - b'0'),
                _ => return Err(failed(&"it has no length")),
            }
        }
        let mut json = vec![0; length];
        input.read_exact(&mut json).map_err(|error| failed(&error))?;
        serde_json::from_slice(&json).map_err(|error| failed(&error))
    }
}

/// Sockets in the network of confined programs, used from outside.
#[derive(Debug)]
pub struct SandboxSockets {
    /// Listens on a port of the loopback interface, until it is taken.
    pub listener: Option<TcpListener>,
    unconnected: std::net::TcpStream,
}

impl SandboxSockets {
    /// Connects to a port of a confined program, once.
    ///
    /// A failed attempt may be repeated.
    ///
    /// # Errors
    /// The system's error, such as for a port that is not open yet.
    pub async fn connect(&self, port: u16) -> std::io::Result<TcpStream> {
        self.unconnected.set_nonblocking(true)?;
        // Both descriptors are one socket, which stays usable after a refused attempt.
        let socket = TcpSocket::from_std_stream(self.unconnected.try_clone()?);
        socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
    }
}

/// Pilcrow's end of the socket that is the standard input of a helper.
///
/// The helper gets its spec there, then the command its input, and passes the listener of its proxy.
#[derive(Debug)]
pub(crate) struct HelperSocket(UnixStream);

impl HelperSocket {
    /// Sends the spec; returns the socket and the helper's standard input.
    ///
    /// `namespaces` are those of earlier commands.
    pub(crate) fn send(spec: &Spec, namespaces: &[OwnedFd]) -> std::io::Result<(Self, Stdio)> {
        let (own, input) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        #[cfg(target_os = "linux")]
        {
            let passed: Vec<BorrowedFd<'_>> = namespaces.iter().map(AsFd::as_fd).collect();
            network::send(&own, &spec.to_bytes()?, &passed)?;
        }
        #[cfg(not(target_os = "linux"))]
        {
            drop(namespaces);
            (&own).write_all(&spec.to_bytes()?)?;
        }
        Ok((Self(own), OwnedFd::from(input).into()))
    }

    /// The writer of the command's input, which follows the spec.
    ///
    /// Must be called in a tokio runtime.
    pub(crate) fn input(&self) -> std::io::Result<ChildStdin> {
        ChildStdin::from_std(OwnedFd::from(self.0.try_clone()?).into())
    }

    /// Waits for the sockets in the network and the namespaces for later commands.
    ///
    /// Must be called in a tokio runtime.
    #[cfg(target_os = "linux")]
    pub(crate) async fn receive(self) -> std::io::Result<Option<(SandboxSockets, Vec<OwnedFd>)>> {
        let socket = tokio::net::UnixStream::from_std(self.0)?;
        let received = socket.async_io(tokio::io::Interest::READABLE, || network::receive(&socket));
        let (_, mut passed) = tokio::time::timeout(PROBE_TIME, received).await??;
        if passed.len() < 2 {
            return Ok(None);
        }
        let listener = std::net::TcpListener::from(passed.remove(0));
        listener.set_nonblocking(true)?;
        let sockets = SandboxSockets {
            listener: Some(TcpListener::from_std(listener)?),
            unconnected: passed.remove(0).into(),
        };
        Ok(Some((sockets, passed)))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) async fn receive(self) -> std::io::Result<Option<(SandboxSockets, Vec<OwnedFd>)>> {
        Ok(None)
    }
}

/// The helper's command for `program`, without the program's arguments.
///
/// Without a program, the helper only passes the sockets in the network.
pub(crate) fn helper(program: &Path) -> tokio::process::Command {
    // The running version, also after an update replaced its file.
    let mut command = tokio::process::Command::new("/proc/self/exe");
    command.arg0("pilcrow").arg(SUBCOMMAND);
    if !program.as_os_str().is_empty() {
        command.arg(program);
    }
    command
}

/// Time for a first try of the sandbox.
pub(crate) const PROBE_TIME: Duration = Duration::from_secs(5);
pub(crate) const PROBE_ANSWER: &str = "pilcrow-is-confined";

/// A file that everyone may read outside of a sandbox.
const PROBED: &str = "/etc/passwd";

/// Why the sandbox cannot work, before it is tried.
pub(crate) fn missing(level: SandboxLevel) -> Option<&'static str> {
    #[cfg(target_os = "linux")]
    return (level == SandboxLevel::Bwrap && bwrap::find().is_none()).then_some("bwrap is not installed");
    #[cfg(not(target_os = "linux"))]
    (level != SandboxLevel::None).then_some("there is no sandbox on this system")
}

/// A command that prints [`PROBE_ANSWER`] if files and calls are limited.
pub(crate) fn probe(level: SandboxLevel, network: Network) -> (CommandLine, Spec) {
    let script = format!(
        "while read name value; do [ \"$name $value\" = 'Seccomp: 2' ] && filtered=1; done </proc/self/status\n\
         read line 2>/dev/null <{PROBED} || [ -z \"$filtered\" ] || echo {PROBE_ANSWER}"
    );
    let cwd = AbsPath::new("/").expect("the path is absolute");
    let command = CommandLine {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script],
        env: Vec::new(),
        cwd: cwd.clone(),
    };
    let profile = SandboxProfile {
        writable: Vec::new(),
        created: Vec::new(),
        read_only: Vec::new(),
        protected: Vec::new(),
        git: GitChanges::default(),
        nested: None,
        hidden: AbsPath::new(PROBED).into_iter().collect(),
        readable: Vec::new(),
        network,
        unix_sockets: false,
        required: false,
    };
    (command, Spec { level, cwd, no_input: true, profile })
}

/// Runs the helper: confines this process and executes the command `words`.
///
/// Must be called before the process starts a thread. Returns if there is no command.
///
/// # Errors
/// The reason why the command does not start.
pub fn confine_main(words: Vec<OsString>) -> Result<(), String> {
    confine(&words).map_err(|error| format!("cannot start the command in its sandbox: {error}"))
}

/// Keeps open files of this process's parents from the command.
///
/// A file that is open already is not subject to the sandbox.
#[cfg(target_os = "linux")]
fn close_inherited() -> Result<(), String> {
    let entries = std::fs::read_dir("/proc/self/fd").map_err(|error| format!("/proc/self/fd: {error}"))?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for number in numbers.filter(|number: &libc::c_int| *number > 2) {
        #[expect(unsafe_code, reason = "a file that this process has not opened has no other owner")]
        // SAFETY: the call reads no memory, and sets a flag that this process's own files have already.
        unsafe {
            libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn close_inherited() -> Result<(), String> {
    Ok(())
}

fn confine(words: &[OsString]) -> Result<(), String> {
    close_inherited()?;
    // Unbuffered: the rest of the input is the command's.
    let input = std::fs::File::from(
        rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(|error| error.to_string())?,
    );
    let (first, namespaces) = first_byte(&input).map_err(|error| format!("no sandbox profile: {error}"))?;
    let spec = Spec::read(first.as_slice().chain(&input))?;
    let [program, args @ ..] = words else { return pass_sockets(&input, &namespaces) };
    if spec.no_input {
        let null = std::fs::File::open("/dev/null").map_err(|error| format!("/dev/null: {error}"))?;
        rustix::stdio::dup2_stdin(&null).map_err(|error| format!("/dev/null: {error}"))?;
    }
    std::env::set_current_dir(&spec.cwd).map_err(|error| format!("{}: {error}", spec.cwd))?;
    for directory in &spec.profile.created {
        // The command reports it if it needs a directory that cannot be created.
        std::fs::create_dir_all(directory).ok();
    }
    apply(&spec, &input, &namespaces, program, args).map(|never| match never {})
}

#[cfg(target_os = "linux")]
fn pass_sockets(input: &std::fs::File, namespaces: &[OwnedFd]) -> Result<(), String> {
    network::enter(input.as_fd(), namespaces).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn pass_sockets(_: &std::fs::File, _: &[OwnedFd]) -> Result<(), String> {
    Err("there is no sandbox on this system".to_owned())
}

/// The first byte of the input; a socket brings the namespaces with it.
fn first_byte(input: &std::fs::File) -> std::io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    #[cfg(target_os = "linux")]
    match network::receive(input) {
        Err(error)
            if error.kind() == std::io::ErrorKind::Other || error.raw_os_error() == Some(libc::ENOTSOCK) => {}
        received => return received.map(|(byte, passed)| (byte.into_iter().collect(), passed)),
    }
    let _ = input;
    Ok(Default::default())
}

/// Executes a program in place of this one; returns the reason if that fails.
fn execute(program: &OsStr, args: &[OsString], variables: &[(&str, String)]) -> String {
    let variables = variables.iter().map(|(name, value)| (name, value));
    let error = std::process::Command::new(program).args(args).envs(variables).exec();
    format!("{}: {error}", program.display())
}

#[cfg(target_os = "linux")]
fn apply(
    spec: &Spec,
    input: &std::fs::File,
    namespaces: &[OwnedFd],
    program: &OsStr,
    args: &[OsString],
) -> Result<Infallible, String> {
    let filter = match spec.level {
        SandboxLevel::None => return Err(execute(program, args, &[])),
        level => seccomp::filter(level, &spec.profile)?,
    };
    let (mut sockets, mut variables) = Default::default();
    if spec.profile.network == Network::Proxy {
        sockets = network::sockets();
        variables = network::variables(network::enter(input.as_fd(), namespaces)?);
    }
    match spec.level {
        SandboxLevel::Bwrap => {
            let bwrap = bwrap::find().ok_or("bwrap is not installed")?;
            let args = bwrap::arguments(spec, &sockets, &filter, program, args)?;
            Err(execute(bwrap.as_os_str(), &args, &variables))
        }
        _ => {
            landlock::restrict(&spec.profile)?;
            ::seccompiler::apply_filter(&filter).map_err(|error| format!("seccomp: {error}"))?;
            Err(execute(program, args, &variables))
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn apply(
    _: &Spec,
    _: &std::fs::File,
    _: &[OwnedFd],
    program: &OsStr,
    args: &[OsString],
) -> Result<Infallible, String> {
    Err(execute(program, args, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_read_without_the_input_after_it() {
        let profile = SandboxProfile {
            writable: vec![AbsPath::new("/w").unwrap()],
            created: Vec::new(),
            read_only: Vec::new(),
            protected: Vec::new(),
            git: GitChanges::default(),
            nested: None,
            hidden: Vec::new(),
            readable: Vec::new(),
            network: Network::None,
            unix_sockets: false,
            required: false,
        };
        let cwd = AbsPath::new("/w").unwrap();
        let spec = Spec { level: SandboxLevel::Landlock, cwd, no_input: false, profile };
        let mut bytes = spec.to_bytes().unwrap();
        bytes.extend(b"input");
        let mut input = bytes.as_slice();
        assert_eq!(Spec::read(&mut input).unwrap().profile, spec.profile);
        assert_eq!(input, b"input");
        for wrong in ["", "x\n", "9\n{}", "2\n{}", "99999999999999999999999\n"] {
            assert!(Spec::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
