//! Local sockets: names in a directory, processes of this user and of another.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests, which start programs")]

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::local::{Listener, LocalError, Stream};

const LONG: Duration = Duration::from_secs(120);
/// A user that owns nothing.
const OTHER_USER: u32 = 65534;

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Greets over a connection made at `path`.
async fn greet(listener: &Listener, path: &Path) {
    let (there, here) = tokio::join!(listener.accept(), Stream::connect(path));
    let (there, here) = (there.unwrap(), here.unwrap());
    assert_eq!([there.process(), here.process()], [Some(std::process::id()); 2]);
    let (mut reader, _writing) = there.split();
    let (reading, mut writer) = here.split();
    writer.write_all(b"hello").await.unwrap();
    drop((writer, reading));
    let mut text = String::new();
    reader.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello");
}

#[tokio::test]
async fn the_name_is_removed_with_the_listener() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sock");
    let listener = Listener::bind(&path).unwrap();
    let mode = std::fs::symlink_metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    greet(&listener, &path).await;
    assert_eq!(names(directory.path()), ["1.sock"]);
    drop(listener);
    assert_eq!(names(directory.path()), [""; 0]);
    assert!(matches!(Stream::connect(&path).await, Err(LocalError::Dead { .. })));
}

#[tokio::test]
async fn a_stale_socket_is_removed_or_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sock");
    // The standard library's listener leaves its name, as a killed process does.
    drop(StdListener::bind(&path).unwrap());
    assert!(matches!(Stream::connect(&path).await, Err(LocalError::Dead { .. })));
    assert_eq!(names(directory.path()), [""; 0]);
    drop(StdListener::bind(&path).unwrap());
    drop(StdListener::bind(directory.path().join(".1.sock.new")).unwrap());
    let listener = Listener::bind(&path).unwrap();
    greet(&listener, &path).await;
    assert_eq!(names(directory.path()), ["1.sock"]);
}

#[tokio::test]
async fn a_file_that_is_not_a_socket_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sock");
    std::fs::write(&path, "kept").unwrap();
    assert!(Stream::connect(&path).await.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
}

#[tokio::test]
async fn a_listener_keeps_its_successors_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sock");
    let first = Listener::bind(&path).unwrap();
    let second = Listener::bind(&path).unwrap();
    drop(first);
    greet(&second, &path).await;
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_path_beyond_the_system_limit_is_reachable() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("deep".repeat(20)).join("er".repeat(40));
    std::fs::create_dir_all(&deep).unwrap();
    let path = deep.join("12345.sock");
    assert!(path.as_os_str().len() > 160);
    let listener = Listener::bind(&path).unwrap();
    greet(&listener, &path).await;
    drop(listener);
    assert!(matches!(Stream::connect(&path).await, Err(LocalError::Dead { .. })));
    assert_eq!(names(&deep), [""; 0]);
    let name = deep.join(format!("{}.sock", "1".repeat(120)));
    assert!(matches!(Listener::bind(&name), Err(LocalError::TooLong { .. })));
}

/// Plays the other user when this program runs as that user. Not a test.
#[test]
fn other_user() {
    let Ok(path) = std::env::var("LOCAL_TEST_PATH") else { return };
    match std::env::var("LOCAL_TEST_DOES").unwrap().as_str() {
        "listen" => {
            // The real name appears only once it listens: a client refused earlier removes the
            // name.
            let raw = format!("{path}.new");
            let listener = StdListener::bind(&raw).unwrap();
            std::fs::set_permissions(&raw, PermissionsExt::from_mode(0o777)).unwrap();
            std::fs::rename(&raw, &path).unwrap();
            // The process waits until it is killed.
            loop {
                drop(listener.accept().unwrap());
            }
        }
        _ => {
            // The connection is refused: the stream ends without data.
            let mut stream = StdStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let read = stream.read(&mut [0; 16]);
            assert!(matches!(&read, Ok(0)) || read.is_err_and(|error| error.raw_os_error() == Some(104)));
        }
    }
}

/// Runs this program as another user in a world-writable directory.
fn as_other_user(does: &str) -> (tempfile::TempDir, PathBuf, Command) {
    assert!(rustix::process::geteuid().is_root(), "only root can act as another user");
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = directory.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let path = directory.path().join("1.sock");
    let mut command = Command::new(program);
    command.args(["--exact", "other_user"]).uid(OTHER_USER).gid(OTHER_USER).current_dir("/");
    command.env("LOCAL_TEST_PATH", &path).env("LOCAL_TEST_DOES", does).stdout(Stdio::null());
    (directory, path, command)
}

/// Starts the copied program.
///
/// It is busy while the child of another thread holds the copy open for writing.
fn spawn(command: &mut Command) -> Ended {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            child => return Ended(child.unwrap()),
        }
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test]
#[ignore = "needs root; cargo xtask test runs it"]
async fn another_users_listener_is_refused() {
    let (_directory, path, mut command) = as_other_user("listen");
    let _other = spawn(&mut command);
    let refused = tokio::time::timeout(LONG, async {
        loop {
            match Stream::connect(&path).await {
                // The socket does not exist yet, or is not accessible yet.
                Err(LocalError::Dead { .. } | LocalError::Io { .. }) => tokio::task::yield_now().await,
                other => break other,
            }
        }
    });
    match refused.await.unwrap() {
        Err(LocalError::Foreign { found, own, .. }) => assert_eq!((found, own), (Some(OTHER_USER), 0)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs root; cargo xtask test runs it"]
async fn another_users_connection_is_refused() {
    let (_directory, path, mut command) = as_other_user("connect");
    let listener = Listener::bind(&path).unwrap();
    // The mode is wider than any that Pilcrow grants.
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    let other = tokio::task::spawn_blocking(move || spawn(&mut command).0.wait().unwrap());
    let accepted = tokio::select! {
        accepted = listener.accept() => panic!("{accepted:?}"),
        other = other => other.unwrap(),
    };
    assert!(accepted.success());
    greet(&listener, &path).await;
}
