//! Local sockets at their boundary: names in a folder, processes of this user and of another.

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
const NOBODY: u32 = 65534;

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
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
async fn two_processes_meet_and_the_name_goes_with_the_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.sock");
    let listener = Listener::bind(&path).unwrap();
    let mode = std::fs::symlink_metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    greet(&listener, &path).await;
    assert_eq!(names(folder.path()), ["1.sock"]);
    drop(listener);
    assert_eq!(names(folder.path()), [""; 0]);
    assert!(matches!(Stream::connect(&path).await, Err(LocalError::Dead { .. })));
}

#[tokio::test]
async fn what_a_dead_process_left_is_removed_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.sock");
    // The standard library's listener leaves its name, as a killed process does.
    drop(StdListener::bind(&path).unwrap());
    assert!(matches!(Stream::connect(&path).await, Err(LocalError::Dead { .. })));
    assert_eq!(names(folder.path()), [""; 0]);
    drop(StdListener::bind(&path).unwrap());
    drop(StdListener::bind(folder.path().join(".1.sock.new")).unwrap());
    let listener = Listener::bind(&path).unwrap();
    greet(&listener, &path).await;
    assert_eq!(names(folder.path()), ["1.sock"]);
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.sock");
    std::fs::write(&path, "kept").unwrap();
    assert!(Stream::connect(&path).await.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
}

#[tokio::test]
async fn a_listener_removes_its_own_name_and_not_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.sock");
    let first = Listener::bind(&path).unwrap();
    let second = Listener::bind(&path).unwrap();
    drop(first);
    greet(&second, &path).await;
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_path_longer_than_the_system_takes_is_reached_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("deep".repeat(20)).join("er".repeat(40));
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

/// Not a test: what the other user's process does, which is this program once more.
#[test]
fn other_user() {
    let Ok(path) = std::env::var("LOCAL_TEST_PATH") else { return };
    match std::env::var("LOCAL_TEST_DOES").unwrap().as_str() {
        "listen" => {
            // Under its name only when it listens: who is refused before that removes the name.
            let raw = format!("{path}.new");
            let listener = StdListener::bind(&raw).unwrap();
            std::fs::set_permissions(&raw, PermissionsExt::from_mode(0o777)).unwrap();
            std::fs::rename(&raw, &path).unwrap();
            // Until it is ended.
            loop {
                drop(listener.accept().unwrap());
            }
        }
        _ => {
            // Refused: the stream ends, and nothing is read from it.
            let mut stream = StdStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let read = stream.read(&mut [0; 16]);
            assert!(matches!(&read, Ok(0)) || read.is_err_and(|error| error.raw_os_error() == Some(104)));
        }
    }
}

/// This program as another user, in a folder that all can enter. `None` without the rights for it.
fn as_nobody(does: &str) -> Option<(tempfile::TempDir, PathBuf, Command)> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can act as another user");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = folder.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let path = folder.path().join("1.sock");
    let mut command = Command::new(program);
    command.args(["--exact", "other_user"]).uid(NOBODY).gid(NOBODY).current_dir("/");
    command.env("LOCAL_TEST_PATH", &path).env("LOCAL_TEST_DOES", does).stdout(Stdio::null());
    Some((folder, path, command))
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test]
async fn another_users_listener_is_not_spoken_with() {
    let Some((_folder, path, mut command)) = as_nobody("listen") else { return };
    let _other = Ended(command.spawn().unwrap());
    let refused = tokio::time::timeout(LONG, async {
        loop {
            match Stream::connect(&path).await {
                // Not there yet, or not open to us yet.
                Err(LocalError::Dead { .. } | LocalError::Io { .. }) => tokio::task::yield_now().await,
                other => break other,
            }
        }
    });
    match refused.await.unwrap() {
        Err(LocalError::Foreign { found, own, .. }) => assert_eq!((found, own), (Some(NOBODY), 0)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn another_users_connection_is_not_accepted() {
    let Some((_folder, path, mut command)) = as_nobody("connect") else { return };
    let listener = Listener::bind(&path).unwrap();
    // More than our own code ever gives.
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    let other = tokio::task::spawn_blocking(move || Ended(command.spawn().unwrap()).0.wait().unwrap());
    let accepted = tokio::select! {
        accepted = listener.accept() => panic!("{accepted:?}"),
        other = other => other.unwrap(),
    };
    assert!(accepted.success());
    greet(&listener, &path).await;
}
