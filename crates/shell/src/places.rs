//! Paths that a command must not delete or write, by their spelling alone.

use super::word::UNKNOWN;

/// Directories that must not be deleted, themselves or as a whole. `*` is one name.
const DIRECTORIES: &[&str] = &[
    "/",
    "/home",
    "/home/*",
    "/root",
    "/Users",
    "/Users/*",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/db",
    "/opt",
    "/srv",
    "/mnt",
    "/media",
    "/run",
    "/nix",
    "/nix/store",
    "/snap",
    "/Applications",
    "/Volumes",
    "/c",
    "/mnt/c",
];

/// System directories, which no command may damage.
const SYSTEM: &[&str] = &[
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/boot",
    "/dev",
    "/sys",
    "/proc",
    "/System",
    "/Library",
    "/var/lib/dpkg",
    "/var/lib/rpm",
];

/// The directory in which the command runs, and the user's home.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub root: String,
    pub home: Option<String>,
}

/// A path that must not be deleted.
pub(super) struct Precious {
    pub what: String,
    /// Whether it is that path whatever its unknown parts are.
    pub sure: bool,
}

impl Places {
    /// Whether a pattern such as `~/.ss?/*` may name credentials in the home directory.
    pub(super) fn may_name_credential(&self, pattern: &str) -> bool {
        let Some(home) = self.home.as_deref().filter(|_| pattern.contains("/.")) else { return false };
        paths::credential_paths().any(|name| {
            let path = format!("{home}/{name}");
            like(pattern, &path) || like(pattern, &format!("{path}/*"))
        })
    }

    /// The [`Precious`] path that `path`, in the directory `cwd`, is or may be.
    ///
    /// Its deletion would be a disaster.
    pub fn precious(&self, path: &str, cwd: &str) -> Option<Precious> {
        let path = absolute(path, cwd);
        let sure = !path.contains(UNKNOWN);
        let fits = |known: &str| like(&path, known);
        let root = self.root.as_str();
        if sure && !root.is_empty() && root != "/" && is_below(&path, root) {
            return None;
        }
        // The known part of the path is in a directory whose loss does no harm.
        let before = path.split(UNKNOWN).next().unwrap_or_default();
        let harmless = [root, "/tmp", "/var/tmp", "/private/tmp"];
        let stays = |directory: &&str| {
            !directory.is_empty() && *directory != "/" && before.starts_with(&format!("{directory}/"))
        };
        if !sure && harmless.iter().any(stays) {
            return None;
        }
        let found = |what: String| Some(Precious { what, sure });
        if fits("/") {
            return found("the root of the file system".to_owned());
        }
        if let Some(home) = self.home.as_deref().filter(|home| fits(home)) {
            return found(format!("the home directory {home}"));
        }
        if !root.is_empty() && ancestors(root).any(fits) {
            return found(format!("the workspace {root} or a parent directory of it"));
        }
        let directory = DIRECTORIES.iter().find(|known| fits(known));
        let system = SYSTEM.iter().find(|known| fits(known) || is_below(&path, known));
        directory.or(system).map(|known| Precious { what: format!("the system path {known}"), sure })
    }

    /// Whether `path` is the workspace itself, and neither the root nor the home.
    pub fn is_project(&self, path: &str, cwd: &str) -> bool {
        let path = absolute(path, cwd);
        path == self.root && path != "/" && self.home.as_deref() != Some(path.as_str())
    }

    /// The absolute spelling of `path` in `cwd`.
    pub fn absolute(&self, path: &str, cwd: &str) -> String {
        absolute(path, cwd)
    }
}

/// Directories of `/dev` that contain no disk.
const NO_DISKS: &[&str] = &[
    "bus",
    "char",
    "cpu",
    "dma_heap",
    "dri",
    "fd",
    "hugepages",
    "infiniband",
    "input",
    "mqueue",
    "net",
    "pts",
    "serial",
    "shm",
    "snd",
    "tcp",
    "udp",
    "usb",
    "v4l",
    "vfio",
];

/// Whether `path` is a disk or memory device; `None` if unknown.
pub(super) fn device(path: &str) -> Option<bool> {
    let Some(name) = absolute(path, "/work").strip_prefix("/dev/").map(str::to_owned) else {
        return if path.starts_with(UNKNOWN) { None } else { Some(false) };
    };
    if let Some((directory, _)) = name.split_once('/') {
        // Other directories contain disks by other names (`disk/by-id`, `mapper`) or those of a
        // volume group.
        return if directory.contains(UNKNOWN) { None } else { Some(!NO_DISKS.contains(&directory)) };
    }
    let starts = [
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "nbd", "mem", "kmem",
        "port", "loop", "sr", "zd", "ram", "pmem", "mtd", "mtdblock", "bcache", "drbd", "rbd", "zram",
    ];
    // `/dev/stdout` and `/dev/shm` are not disks.
    let is_disk = starts.iter().any(|start| {
        name.strip_prefix(start).is_some_and(|rest| {
            let first = rest.chars().next();
            match *start {
                "sd" | "hd" | "vd" | "xvd" => {
                    first.is_some_and(|c| c.is_ascii_lowercase() || "*?[\0".contains(c))
                        && !rest.starts_with("hm")
                }
                "mem" | "kmem" | "port" => rest.is_empty(),
                "dm-" => true,
                _ => first.is_some_and(|c| c.is_ascii_digit() || "*?[\0".contains(c)),
            }
        })
    });
    if is_disk {
        Some(true)
    } else if name.starts_with(UNKNOWN) {
        None
    } else {
        Some(false)
    }
}

/// Returns `path` from the root, without `.`, `..` and doubled slashes.
///
/// A pattern at its end means the directory itself.
fn absolute(path: &str, cwd: &str) -> String {
    let whole = if path.starts_with('/') || path.starts_with(UNKNOWN) {
        path.to_owned()
    } else {
        format!("{cwd}/{path}")
    };
    let mut names: Vec<&str> = Vec::new();
    for name in whole.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    // The pattern covers all entries of a directory, hidden or not.
    while let Some(last) = names.last() {
        let all = last.chars().all(|c| "*.?[]!".contains(c)) && last.contains('*');
        if !all {
            break;
        }
        names.pop();
    }
    let joined = names.join("/");
    if joined.starts_with(UNKNOWN) { joined } else { format!("/{joined}") }
}

fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(parent, _)| parent))
        .filter(|it| !it.is_empty())
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
}

/// Whether the pattern `pattern` may name `path`.
///
/// `*` and `?` match within a name, an unknown part across directories. A `*` in `path` is any one
/// name.
fn like(pattern: &str, path: &str) -> bool {
    // An unknown part followed by text that `path` lacks belongs to another path; no unknown part
    // is omitted.
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let mut next = vec![false; path.len() + 1];
        let c = pattern[at];
        let set_end = (c == '[').then(|| pattern[at..].iter().position(|c| *c == ']')).flatten();
        match c {
            UNKNOWN | '*' => {
                let mut on = false;
                for (i, slot) in next.iter_mut().enumerate() {
                    on |= reached[i];
                    *slot = on;
                    if c == '*' && path.get(i) == Some(&'/') {
                        on = false;
                    }
                }
            }
            _ => {
                for i in 0..path.len() {
                    let any = c == '?' || set_end.is_some();
                    let same = path[i] == c || (any && path[i] != '/');
                    // Any name in the path matches the pattern's text at this position.
                    if path[i] == '*' && c != '/' {
                        next[i] |= reached[i];
                        next[i + 1] |= reached[i];
                    } else if same {
                        next[i + 1] |= reached[i];
                    }
                }
                at += set_end.unwrap_or(0);
            }
        }
        at += 1;
        reached = next;
    }
    reached[path.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precious_places_are_recognized() {
        let places = Places { root: "/home/me/work/p".into(), home: Some("/home/me".into()) };
        let sure = |path: &str| places.precious(path, &places.root).map(|it| it.sure);
        for path in [
            "/",
            "//",
            "/.",
            "/../",
            "/*",
            "/.*",
            "/home/me",
            "/home/other/",
            "/et*",
            "/???",
            "/etc/nginx",
            "/usr/lib/x",
            "../..",
            "../../..",
            ".",
            "..",
            "*",
            "/home/me/work",
            "/[eu]tc",
        ] {
            assert_eq!(sure(path), Some(true), "{path}");
        }
        for path in ["\0", "\0/", "/\0", "/home/\0", "\0/x", "/usr/\0"] {
            assert_eq!(sure(path), Some(false), "{path}");
        }
        for path in [
            "node_modules",
            "./target",
            "build/*",
            "../q",
            "/tmp/x",
            "/home/me/x/y",
            "./\0",
            "/tmp/\0",
            "sub/..x",
        ] {
            assert_eq!(sure(path), None, "{path}");
        }
    }

    #[test]
    fn devices_are_recognized() {
        for (path, expected) in [
            ("/dev/sda", Some(true)),
            ("/dev/../dev//sda1", Some(true)),
            ("/dev/sd*", Some(true)),
            ("/dev/nvme0n1", Some(true)),
            ("/dev/disk/by-id/ata-x", Some(true)),
            ("/dev/mapper/vg-root", Some(true)),
            ("/dev/vg0/root", Some(true)),
            ("/dev/disk2", Some(true)),
            ("/dev/fd/3", Some(false)),
            ("/dev/tcp/host/80", Some(false)),
            ("/dev/random", Some(false)),
            ("/dev/null", Some(false)),
            ("/dev/stdout", Some(false)),
            ("/dev/shm/x", Some(false)),
            ("./test.img", Some(false)),
            ("/dev/\0", None),
            ("\0", None),
        ] {
            assert_eq!(device(path), expected, "{path}");
        }
    }
}
