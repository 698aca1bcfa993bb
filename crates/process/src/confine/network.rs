//! The network of confined commands: a namespace with nothing but its loopback interface.
//!
//! All commands of a process share one namespace, so that they reach each other's servers. The helper listens
//! there for the command's proxy and passes the listener to Pilcrow, which serves it from outside: a socket
//! stays in the namespace in which it was opened. It also passes a socket by which Pilcrow can connect to a
//! server inside.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::sched::CloneFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Maximum number of passed descriptors: two sockets and two namespaces.
const MAX_PASSED: usize = 4;

/// Enters the namespace, or makes one; returns the port of the command's proxy.
///
/// `known` is the namespace of earlier commands: of the network, and of users unless root made it.
pub(super) fn enter(socket: BorrowedFd<'_>, known: &[OwnedFd]) -> Result<u16, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("network: {what}: {error}");
    match known {
        [] => make().map_err(|error| failed("cannot make a namespace", &error))?,
        [network, users @ ..] => {
            for (namespace, kind) in users.iter().map(|it| (it, CloneFlags::CLONE_NEWUSER)) {
                nix::sched::setns(namespace, kind).map_err(|error| failed("setns", &error))?;
            }
            nix::sched::setns(network, CloneFlags::CLONE_NEWNET).map_err(|error| failed("setns", &error))?;
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| failed("cannot listen", &error))?;
    let port = listener.local_addr().map_err(|error| failed("cannot listen", &error))?.port();
    let open = |name: &str| File::open(format!("/proc/self/ns/{name}")).map_err(|error| failed(name, &error));
    let (network, users) = (open("net")?, open("user")?);
    let flags = SocketFlags::CLOEXEC;
    let unconnected = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
        .map_err(|error| failed("cannot open a socket", &error))?;
    let mut passed = vec![listener.as_fd(), unconnected.as_fd(), network.as_fd()];
    if !rustix::process::geteuid().is_root() {
        passed.push(users.as_fd());
    }
    send(socket, b"n", &passed).map_err(|error| failed("cannot pass the listener", &error))?;
    Ok(port)
}

fn make() -> std::io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() {
        nix::sched::unshare(CloneFlags::CLONE_NEWNET)?;
    } else {
        nix::sched::unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
        let set = |name: &str, text: String| {
            File::options().write(true).open(format!("/proc/self/{name}"))?.write_all(text.as_bytes())
        };
        set("setgroups", "deny".to_owned())?;
        set("uid_map", format!("{0} {0} 1", user.as_raw()))?;
        set("gid_map", format!("{0} {0} 1", group.as_raw()))?;
    }
    raise_loopback()
}

/// Switches the loopback interface on, which is off in a new namespace.
fn raise_loopback() -> std::io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_WITH_ANSWER: u16 = 5;
    const UP: u32 = 1;
    let mut request = Vec::new();
    request.extend(32_u32.to_ne_bytes());
    request.extend(NEW_LINK.to_ne_bytes());
    request.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    request.extend([0; 8]);
    // Family and type are not given; the first interface is the loopback.
    request.extend([0; 4]);
    request.extend([1_u32, UP, UP].iter().flat_map(|number| number.to_ne_bytes()));
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::io::write(&socket, &request)?;
    let mut answer = [0; 64];
    rustix::io::read(&socket, &mut answer)?;
    let code = answer[16..20].try_into().map_or(-1, i32::from_ne_bytes);
    if code == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(-code)) }
}

/// The socket files of programs outside, which a network namespace does not hide.
pub(super) fn sockets() -> BTreeSet<PathBuf> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let paths = table.lines().filter_map(|line| line.split_once(" /").map(|(_, path)| format!("/{path}")));
    paths.filter_map(|path| std::fs::canonicalize(path).ok()).collect()
}

/// Sends all bytes with descriptors.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], passed: &[BorrowedFd<'_>]) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_PASSED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !passed.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(passed));
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    let is_whole = sent == bytes.len();
    if is_whole { Ok(()) } else { Err(std::io::Error::other("the sandbox profile is too long")) }
}

/// Receives one byte with its descriptors; no byte at the end of the stream.
pub(super) fn receive(socket: impl AsFd) -> std::io::Result<(Option<u8>, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_PASSED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let messages = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(passed) => Some(passed),
        _ => None,
    });
    Ok(((received.bytes == 1).then_some(byte[0]), messages.flatten().collect()))
}

/// The variables by which programs find the proxy.
pub(super) fn variables(port: u16) -> Vec<(&'static str, String)> {
    const PROXY: [&str; 8] = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "npm_config_proxy",
        "npm_config_https_proxy",
    ];
    let direct = ["NO_PROXY", "no_proxy"].map(|name| (name, "localhost,127.0.0.1,::1".to_owned()));
    let proxy = PROXY.map(|name| (name, format!("http://127.0.0.1:{port}")));
    // For the `fetch` of Node.
    proxy.into_iter().chain(direct).chain([("NODE_USE_ENV_PROXY", "1".to_owned())]).collect()
}
