//! The arguments of bubblewrap.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{Seek, Write};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};

use paths::AbsPath;
use policy::Network;
use rustix::thread::CapabilitySet;
use seccompiler::BpfProgram;

use super::Spec;

/// Places of the program; a directory of PATH may belong to a project.
const PLACES: [&str; 4] =
    ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

/// Devices besides the usual ones, for computation and virtual machines.
const DEVICES: [&str; 3] = ["/dev/dri", "/dev/kfd", "/dev/kvm"];

/// Settings of the whole system in `/proc`.
const SYSTEM: [&str; 7] =
    ["/proc/acpi", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/mtrr", "/proc/sys", "/proc/sysrq-trigger"];

/// Capabilities that root keeps: those over files and its own processes.
pub(super) const ROOT_KEEPS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

pub(super) fn find() -> Option<&'static Path> {
    PLACES.into_iter().map(Path::new).find(|place| place.is_file())
}

/// The devices of [`DEVICES`] and of graphics cards that exist.
pub(super) fn devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_card = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("nvidia"))
    };
    DEVICES
        .into_iter()
        .map(PathBuf::from)
        .filter(|path| path.exists())
        .chain(entries.filter(is_card))
        .collect()
}

/// The arguments with which bwrap runs the command of `spec`.
///
/// They are read from a file, so that lists of processes show only the command.
pub(super) fn arguments(
    spec: &Spec,
    sockets: &BTreeSet<PathBuf>,
    filter: &BpfProgram,
    program: &OsStr,
    args: &[OsString],
) -> Result<Vec<OsString>, String> {
    let mut options = Options(Vec::new());
    options.add(["--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
    if rustix::process::geteuid().is_root() {
        // In a user namespace, root could not use the files of other users.
        options.add(["--cap-drop", "ALL"]);
        for (name, _) in ROOT_KEEPS.iter_names() {
            options.add(["--cap-add", &format!("CAP_{name}")]);
        }
    } else {
        options.add(["--unshare-user"]);
    }
    if spec.profile.network == Network::None {
        options.add(["--unshare-net"]);
    }
    // The id is 0 where the session's leader is in another namespace, which rustix does not expect.
    if nix::unistd::getsid(None) != Ok(nix::unistd::getpid()) {
        // Away from the terminal. The leader of a session has none, and must stay in the owner's group.
        options.add(["--new-session"]);
    }
    options.add(["--ro-bind", "/", "/", "--dev", "/dev"]);
    devices().iter().for_each(|device| options.map("--dev-bind-try", device));
    options.add(["--proc", "/proc"]);
    // Root may write these by their owner alone. bwrap itself covers only some.
    SYSTEM.iter().for_each(|path| options.map("--ro-bind-try", Path::new(path)));
    options.files(spec, sockets)?;
    options.add([OsStr::new("--chdir"), spec.cwd.as_path().as_os_str()]);

    let mut bytes = Vec::new();
    for instruction in filter {
        bytes.extend(instruction.code.to_ne_bytes());
        bytes.extend([instruction.jt, instruction.jf]);
        bytes.extend(instruction.k.to_ne_bytes());
    }
    options.add(["--seccomp", &inherited("filter", &bytes)?]);
    let options = options.0.iter().flat_map(|option| option.as_encoded_bytes().iter().chain(&[0]));
    let mut words =
        vec!["--args".into(), inherited("options", &options.copied().collect::<Vec<u8>>())?.into()];
    words.extend(["--".into(), program.to_owned()]);
    words.extend(args.iter().cloned());
    Ok(words)
}

struct Options(Vec<OsString>);

impl Options {
    fn add<S: AsRef<OsStr>>(&mut self, options: impl IntoIterator<Item = S>) {
        self.0.extend(options.into_iter().map(|option| option.as_ref().to_owned()));
    }

    /// Adds an option that shows `path` at its own place.
    fn map(&mut self, option: &str, path: &Path) {
        self.add([OsStr::new(option), path.as_os_str(), path.as_os_str()]);
    }

    /// Adds the limits on files; a later one covers an earlier one.
    fn files<'a>(&mut self, spec: &'a Spec, sockets: &BTreeSet<PathBuf>) -> Result<(), String> {
        let profile = &spec.profile;
        // A link cannot be a mount.
        let is_mount = |path: &&Path| path.exists() && !path.is_symlink();
        let paths = |of: &'a [AbsPath]| of.iter().map(|path| path.as_path()).filter(is_mount);
        let (writable, protected) = (paths(&profile.writable), paths(&profile.protected));
        // In this order, parents are first: a later mount of the parent would cover the child.
        let mut mounts: BTreeMap<&Path, &str> = writable.map(|path| (path, "--bind")).collect();
        let protected = protected.chain(paths(&profile.read_only));
        mounts.extend(protected.clone().map(|path| (path, "--ro-bind")));
        // A directory that is a mount cannot be renamed, with a changed copy put in its place.
        let is_writable = |path: &&Path| path.ancestors().find_map(|it| mounts.get(it)) == Some(&"--bind");
        let above = protected.flat_map(|path| path.ancestors().skip(1)).filter(is_writable);
        let above: Vec<&Path> = above.collect();
        mounts.extend(above.into_iter().map(|path| (path, "--bind")));
        mounts.iter().for_each(|(path, option)| self.map(option, path));
        for socket in sockets {
            self.add([OsStr::new("--ro-bind"), OsStr::new("/dev/null"), socket.as_os_str()]);
        }
        for hidden in profile.hidden.iter().filter(|path| path.as_path().exists()) {
            let path = hidden.as_path();
            if !path.is_dir() {
                if paths::has_settings(hidden) {
                    self.add([
                        OsStr::new("--ro-bind-data"),
                        inherited("empty", &[])?.as_ref(),
                        path.as_os_str(),
                    ]);
                    continue;
                }
                self.add([OsStr::new("--ro-bind"), OsStr::new("/dev/null"), path.as_os_str()]);
                continue;
            }
            self.add([OsStr::new("--tmpfs"), path.as_os_str()]);
            for shown in profile.readable.iter().filter(|shown| shown.as_path().starts_with(path)) {
                let is_writable = profile.writable.contains(shown);
                self.map(if is_writable { "--bind-try" } else { "--ro-bind-try" }, shown.as_path());
            }
            self.add([OsStr::new("--remount-ro"), path.as_os_str()]);
        }
        Ok(())
    }
}

/// A file in memory for the next program; returns the number of its descriptor.
fn inherited(name: &str, bytes: &[u8]) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::empty());
    let mut file = std::fs::File::from(file.map_err(|error| failed(error.into()))?);
    file.write_all(bytes).and_then(|()| file.rewind()).map_err(failed)?;
    // It stays open until the next program has read it.
    Ok(file.into_raw_fd().to_string())
}
