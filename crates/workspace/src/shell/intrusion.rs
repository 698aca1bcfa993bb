//! What hands the machine to others: shells for them, code from them, more rights, keys.

use super::dangers::Hit;
use super::inner::{self, is_shell};
use super::script::{self, Command, Input};
use super::word::{UNKNOWN, Variables, Word};
use super::{Seen, Tier};
use crate::protected;

type Tell<'a> = &'a mut dyn FnMut(Hit);

/// Programs that bring something from elsewhere.
const FETCHERS: &[&str] = &[
    "curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "links", "w3m", "nc", "ncat", "netcat",
    "telnet", "ftp", "GET", "axel",
];

/// Programs that talk to a host as they are told.
const TALKERS: &[&str] = &["nc", "ncat", "netcat", "telnet", "socat"];

/// The commands that write what `command` reads, those before them included.
fn upstream<'a>(seen: &'a Seen<'_>, command: &'a Command) -> Vec<&'a Command> {
    let mut found = Vec::new();
    let mut ranges = vec![command.input.clone()];
    while let Some(input) = ranges.pop() {
        let Input::Pipe(range) = input else { continue };
        for writer in seen.script.commands.get(range).unwrap_or_default() {
            ranges.push(writer.input.clone());
            found.push(writer);
            if found.len() > 200 {
                return found;
            }
        }
    }
    found
}

pub(super) fn reverse_shell(seen: &Seen<'_>, tell: Tell<'_>) {
    for command in &seen.script.commands {
        let name = command.name();
        let socket = command
            .redirects
            .iter()
            .any(|it| it.to.text.starts_with("/dev/tcp/") || it.to.text.starts_with("/dev/udp/"));
        if socket && (is_shell(name) || name == "exec") {
            tell(Hit::of(command, "joins a shell to a connection"));
        }
        let args = || command.args().iter().map(|word| word.text.as_str());
        let runs = match name {
            "nc" | "ncat" | "netcat" => {
                // With `-z` it only looks whether somebody listens.
                !command.has('z', "")
                    && (command.has('e', "exec")
                        || command.has('c', "")
                        || args().any(|arg| arg.starts_with("--sh-exec")))
            }
            "socat" => args().any(|arg| {
                let arg = arg.to_ascii_uppercase();
                arg.starts_with("EXEC:") || arg.starts_with("SYSTEM:") || arg.contains(",EXEC:")
            }),
            _ => false,
        };
        if runs {
            tell(Hit::of(command, "gives a connection a program to talk to"));
        }
        if TALKERS.contains(&name) && upstream(seen, command).iter().any(|writer| is_shell(writer.name())) {
            tell(Hit::of(command, "sends what a shell writes to another host"));
        }
        if let Some(code) = inner::code(command) {
            let has = |any: &[&str]| any.iter().any(|part| code.text.contains(part));
            let talks = has(&["socket", "Socket", "fsockopen", "/inet/tcp", "net.connect", "TCPSocket"]);
            let shell = has(&["/bin/sh", "/bin/bash", "dup2", "pty.spawn", "\"sh\"", "'sh'", "cmd.exe"]);
            if talks && shell {
                tell(Hit::of(command, "joins a shell to a connection"));
            }
        }
    }
}

/// Whether a script, seen by itself, brings something from elsewhere.
fn fetches(script: &str) -> bool {
    let script = script::read(script, "/work", Variables::default());
    script.commands.iter().any(|command| FETCHERS.contains(&command.name()))
}

/// Whether a command turns what it reads into something that could not be read before.
fn decodes(command: &Command) -> bool {
    match command.name() {
        "base64" | "base32" | "basenc" | "uudecode" => {
            command.has('d', "decode") || command.has('D', "") || command.name() == "uudecode"
        }
        "xxd" => command.has('r', "revert"),
        "openssl" => command.has('d', "") || command.args().iter().any(|word| word.text == "base64"),
        "gpg" => command.has('d', "decrypt"),
        "gunzip" | "zcat" | "bzcat" | "xzcat" | "unxz" | "bunzip2" | "zstdcat" | "rev" | "tr" => true,
        "gzip" | "xz" | "bzip2" | "zstd" => command.has('d', "decompress"),
        _ => false,
    }
}

pub(super) fn unseen_code(seen: &Seen<'_>, tell: Tell<'_>) {
    let mut fetched: Vec<String> = Vec::new();
    for command in &seen.script.commands {
        let name = command.name();
        let is_source = matches!(name, "source" | ".");
        if inner::reads_script(command) {
            let writers = upstream(seen, command);
            if writers.iter().any(|writer| FETCHERS.contains(&writer.name())) {
                tell(Hit::of(command, "runs what comes from the network"));
            } else if writers.iter().any(|writer| decodes(writer)) {
                tell(Hit::of(command, "runs what was made unreadable"));
            } else if !writers.is_empty() && !writers.iter().all(|writer| inner::written(writer).is_some()) {
                tell(Hit::of(command, "runs what other commands write").sure(false));
            } else if let Input::File(file) = &command.input
                && file.scripts.iter().any(|script| fetches(script))
            {
                tell(Hit::of(command, "runs what comes from the network"));
            }
        }
        let takes_code = inner::runs_code(name) || is_source || matches!(name, "eval" | "trap");
        if takes_code {
            let scripts = command.args().iter().flat_map(|word| &word.scripts);
            if scripts.into_iter().any(|script| fetches(script)) {
                tell(Hit::of(command, "runs what comes from the network"));
            }
        }
        let program = command.words[0].text.as_str();
        let mut run = Vec::new();
        if takes_code {
            run.extend(command.operands().map(|word| word.text.as_str()));
        }
        if program.contains('/') {
            run.push(program);
        }
        if run.iter().any(|path| fetched.contains(&seen.places.absolute(path, &command.cwd))) {
            tell(Hit::of(command, "runs what comes from the network"));
        }
        if FETCHERS.contains(&name) {
            fetched.extend(kept_as(command).iter().map(|path| seen.places.absolute(path, &command.cwd)));
        }
    }
}

/// Where a command that fetches puts what it gets.
fn kept_as(command: &Command) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    let args = command.args();
    for (at, word) in args.iter().enumerate() {
        let next = || args.get(at + 1).map(|word| word.text.clone());
        match word.text.as_str() {
            "-o" | "--output" | "-O" | "--output-document" => files.extend(next()),
            text => {
                let value = text
                    .split_once('=')
                    .filter(|(name, _)| matches!(*name, "--output" | "--output-document"));
                files.extend(value.map(|(_, file)| file.to_owned()));
                let is_url = text.contains("://") && !text.starts_with('-');
                files.extend(is_url.then(|| text.rsplit('/').next().unwrap_or_default().to_owned()));
            }
        }
    }
    files.extend(command.redirects.iter().filter(|it| it.writes).map(|it| it.to.text.clone()));
    files.retain(|file| !file.is_empty() && file != "-" && !file.contains(UNKNOWN));
    files
}

pub(super) fn shutdown(seen: &Seen<'_>, tell: Tell<'_>) {
    for command in &seen.script.commands {
        let first = command.operands().next().map(|word| word.text.as_str()).unwrap_or_default();
        let ends = match command.name() {
            "shutdown" | "reboot" | "halt" | "poweroff" => !command.has('c', "help"),
            "init" | "telinit" => matches!(first, "0" | "1" | "6" | "s" | "S"),
            "systemctl" | "loginctl" => matches!(
                first,
                "poweroff"
                    | "reboot"
                    | "halt"
                    | "kexec"
                    | "soft-reboot"
                    | "suspend"
                    | "hibernate"
                    | "hybrid-sleep"
                    | "rescue"
                    | "emergency"
                    | "isolate"
                    | "exit"
            ),
            _ => command.redirects.iter().any(|it| it.writes && it.to.text.ends_with("/sysrq-trigger")),
        };
        if ends {
            tell(Hit::of(command, "stops the machine"));
        }
    }
}

/// Files whose change gives rights.
const RIGHTS: &[&str] = &[
    "/etc/sudoers",
    "/etc/passwd",
    "/etc/shadow",
    "/etc/group",
    "/etc/ld.so.preload",
    "/etc/crontab",
    "/etc/cron",
    "/etc/pam.d",
    "/etc/polkit",
    "/etc/systemd",
    "/var/spool/cron",
];

pub(super) fn escalation(seen: &Seen<'_>, tell: Tell<'_>) {
    for command in &seen.script.commands {
        let args = || command.args().iter().map(|word| word.text.as_str());
        let (name, recursive) = (command.name(), command.has('R', "recursive"));
        let precious = || {
            command
                .operands()
                .skip(1)
                .any(|path| seen.places.precious(&path.text, &command.cwd).is_some_and(|it| it.sure))
        };
        let about = match name {
            "sudo" | "su" | "doas" | "pkexec" | "run0" | "gosu" | "su-exec" | "visudo" | "vipw" => {
                "runs with the rights of another"
            }
            "chmod" => {
                let mode = command.operands().next().map(|word| word.text.as_str()).unwrap_or_default();
                let sets = (mode.contains('s') && mode.contains('+') || mode.contains("=s"))
                    || (mode.len() >= 4
                        && mode.chars().all(|c| c.is_digit(8))
                        && mode.trim_start_matches('0').len() == 4
                        && !mode.trim_start_matches('0').starts_with('1'));
                if sets {
                    "gives a program the rights of its owner"
                } else if recursive && precious() {
                    "opens what the system protects"
                } else {
                    continue;
                }
            }
            "chown" | "chgrp" | "setfacl" if recursive && precious() => "gives away what the system owns",
            "setcap" | "setpriv" => "gives a program more rights",
            "usermod" | "gpasswd" | "adduser" | "groupmems"
                if args().any(|arg| matches!(arg, "sudo" | "wheel" | "root" | "admin" | "docker")) =>
            {
                "gives a user more rights"
            }
            "passwd" | "chpasswd" => "changes who may log in",
            "nsenter" => "enters another process's world",
            "docker" | "podman"
                if args().any(|arg| {
                    arg == "--privileged"
                        || arg.starts_with("/:/")
                        || arg.starts_with("-v/:")
                        || arg == "--pid=host"
                }) =>
            {
                "gives a container the machine"
            }
            _ => {
                let target = command.redirects.iter().filter(|it| it.writes).map(|it| &it.to);
                let copied = matches!(name, "tee" | "cp" | "mv" | "install" | "ln" | "sed")
                    .then(|| command.operands().last())
                    .flatten();
                let mut written =
                    target.chain(copied).map(|word| seen.places.absolute(&word.text, &command.cwd));
                if !written.any(|path| RIGHTS.iter().any(|file| path.starts_with(file))) {
                    continue;
                }
                "changes who may do what"
            }
        };
        tell(Hit::of(command, about));
    }
}

/// What must not be ended by name.
fn is_vital(name: &str) -> bool {
    let name = name.trim_matches(|c: char| "^$\\.*[]".contains(c));
    matches!(name, "init" | "systemd" | "launchd" | "pilcrow" | "sshd" | "dbus-daemon")
}

pub(super) fn killing(seen: &Seen<'_>, tell: Tell<'_>) {
    for command in &seen.script.commands {
        match command.name() {
            "kill" => {
                if command.has('l', "list") || command.has('L', "table") {
                    continue;
                }
                let mut args = command.args().iter().peekable();
                // The first word with a stroke is the signal.
                match args.peek().map(|word| word.text.as_str()) {
                    Some("-s" | "-n" | "--signal") => {
                        args.next();
                        args.next();
                    }
                    Some("--") => {}
                    Some(text) if text.starts_with('-') => {
                        args.next();
                    }
                    _ => {}
                }
                for word in args.filter(|word| word.text != "--") {
                    let number = word.text.parse::<i64>().ok();
                    let is_own =
                        number.is_some_and(|n| seen.own.iter().any(|own| i64::from(*own) == n.abs()));
                    let is_vital = matches!(number, Some(-1..=1)) || is_own;
                    if is_vital || word.scripts.iter().any(|script| names_vital(script)) {
                        tell(Hit::of(command, "ends what this runs in"));
                    } else if !word.is_known() {
                        tell(
                            Hit::of(
                                command,
                                "ends a process that is not known, which may be one that this runs in",
                            )
                            .sure(false),
                        );
                    }
                }
            }
            "killall" | "pkill" | "skill" => {
                if command.operands().any(|word| is_vital(&word.text)) {
                    tell(Hit::of(command, "ends what this runs in"));
                } else if command.operands().any(|word| !word.is_known()) {
                    tell(Hit::of(command, "ends processes that are not known").sure(false));
                }
            }
            "killall5" => tell(Hit::of(command, "ends every process")),
            "systemctl" | "service" => {
                let operands: Vec<&str> = command.operands().map(|word| word.text.as_str()).collect();
                if operands.iter().any(|it| matches!(*it, "stop" | "kill" | "restart" | "disable"))
                    && operands.iter().any(|it| is_vital(it.trim_end_matches(".service")))
                {
                    tell(Hit::of(command, "ends what this runs in"));
                }
            }
            _ => {}
        }
    }
}

fn names_vital(script: &str) -> bool {
    let script = script::read(script, "/work", Variables::default());
    script.commands.iter().any(|command| {
        matches!(command.name(), "pgrep" | "pidof") && command.operands().any(|word| is_vital(&word.text))
    })
}

/// Programs that read, copy, send or change the files that they are given. A word of another may be
/// anything.
const READERS: &[&str] = &[
    "cat", "tac", "nl", "less", "more", "head", "tail", "cp", "mv", "scp", "rsync", "tar", "zip", "7z",
    "gzip", "base64", "base32", "xxd", "od", "hexdump", "strings", "sort", "uniq", "cut", "paste", "awk",
    "gawk", "sed", "grep", "egrep", "fgrep", "rg", "ag", "vi", "vim", "nano", "emacs", "code", "bat", "curl",
    "wget", "http", "openssl", "gpg", "dd", "tee", "ln", "rm", "shred", "install", "source", ".", "jq", "yq",
    "diff", "cmp", "wc", "rev", "python", "python3", "perl", "ruby", "node", "xargs", "nc", "sftp", "aws",
    "gsutil", "pbcopy", "xclip", "truncate", "split",
];

pub(super) fn credentials(seen: &Seen<'_>, tell: Tell<'_>) {
    for command in &seen.script.commands {
        let reads = READERS.contains(&command.name());
        let searches = matches!(
            command.name(),
            "grep" | "egrep" | "fgrep" | "rg" | "ag" | "sed" | "awk" | "gawk" | "jq" | "yq"
        );
        // The first word of a search is what is searched for.
        let pattern = searches.then(|| command.operands().next()).flatten();
        let words =
            command.args().iter().filter(|word| reads && !pattern.is_some_and(|it| std::ptr::eq(it, *word)));
        let redirected = command.redirects.iter().map(|it| &it.to);
        let mut done = false;
        for word in words.chain(redirected) {
            if done {
                break;
            }
            for path in paths_in(word) {
                let absolute = seen.places.absolute(path, &command.cwd);
                if let Some((what, tier)) = secret(seen, &absolute) {
                    tell(
                        Hit::of(command, format!("touches {} ({what})", path.replace(UNKNOWN, "…")))
                            .tier(tier),
                    );
                    done = true;
                    break;
                }
            }
        }
    }
}

/// The paths that a word may hold: itself, and what stands after the signs of `-F f=@path`.
fn paths_in(word: &Word) -> impl Iterator<Item = &str> {
    let text = word.text.as_str();
    let rest = text
        .find(['=', '@', ':'])
        .map(|at| text[at + 1..].trim_start_matches(['@', '=']))
        .filter(|rest| !rest.is_empty());
    std::iter::once(text).chain(rest)
}

fn secret(seen: &Seen<'_>, path: &str) -> Option<(&'static str, Tier)> {
    if ["/etc/shadow", "/etc/gshadow", "/etc/sudoers"].iter().any(|file| path.starts_with(file)) {
        return Some(("who may log in", Tier::High));
    }
    // A login's own folder, where something may be in it that is a key.
    let clean = path.replace(UNKNOWN, "");
    let path = crate::AbsPath::new(&clean)?;
    let root = crate::AbsPath::new(&seen.places.root).or_else(|| crate::AbsPath::new("/"))?;
    let (what, is_login) = protected::secrets(&path, &root)?;
    Some((what, if is_login { Tier::High } else { Tier::Medium }))
}
