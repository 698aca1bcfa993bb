//! Checks for commands that give others access: shells, code, privileges, keys.

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use paths::{AbsPath, Sensitive, sensitive_name};

use super::inner::{self, is_shell};
use super::script::{self, Command, Input};
use super::word::{UNKNOWN, Variables, Word};
use super::{CheckContext, Hit, Tier};

type Report<'a> = &'a mut dyn FnMut(Hit);

/// Programs that download.
const FETCHERS: &[&str] = &[
    "curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "links", "w3m", "nc", "ncat", "netcat",
    "telnet", "ftp", "GET", "axel",
];

/// Programs that connect to any host.
const TALKERS: &[&str] = &["nc", "ncat", "netcat", "telnet", "socat"];

/// The commands that write the input of `command`, and those before them.
fn upstream<'a>(cx: &'a CheckContext<'_>, command: &'a Command) -> Vec<&'a Command> {
    let mut found = Vec::new();
    let mut ranges = vec![command.input.clone()];
    while let Some(input) = ranges.pop() {
        let Input::Pipe(range) = input else { continue };
        for writer in cx.script.commands.get(range).unwrap_or_default() {
            ranges.push(writer.input.clone());
            found.push(writer);
            if found.len() > 200 {
                return found;
            }
        }
    }
    found
}

pub(super) fn reverse_shell(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        let name = command.name();
        let socket = command
            .redirects
            .iter()
            .any(|it| it.to.text.starts_with("/dev/tcp/") || it.to.text.starts_with("/dev/udp/"));
        if socket && (is_shell(name) || name == "exec") {
            report(Hit::of(command, "connects a shell to the network"));
        }
        let args = || command.args().iter().map(|word| word.text.as_str());
        let runs = match name {
            "nc" | "ncat" | "netcat" => {
                // With `-z` the command only scans for a listener.
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
            report(Hit::of(command, "connects a program to the network"));
        }
        if TALKERS.contains(&name) && upstream(cx, command).iter().any(|writer| is_shell(writer.name())) {
            report(Hit::of(command, "sends a shell's output to another host"));
        }
        if let Some(code) = inner::code(command) {
            let has = |any: &[&str]| any.iter().any(|part| code.text.contains(part));
            let talks = has(&["socket", "Socket", "fsockopen", "/inet/tcp", "net.connect", "TCPSocket"]);
            let shell = has(&["/bin/sh", "/bin/bash", "dup2", "pty.spawn", "\"sh\"", "'sh'", "cmd.exe"]);
            if talks && shell {
                report(Hit::of(command, "connects a shell to the network"));
            }
        }
    }
}

/// Whether a script by itself downloads a file.
fn fetches(script: &str) -> bool {
    let script = script::read(script, "/work", Variables::default());
    script.commands.iter().any(|command| FETCHERS.contains(&command.name()))
}

/// Whether a command decodes its input.
fn decodes(command: &Command) -> bool {
    match command.name() {
        "base64" | "base32" | "basenc" | "uudecode" => {
            command.has('d', "decode") || command.has('D', "") || command.name() == "uudecode"
        }
        "xxd" => command.has('r', "revert"),
        "openssl" => command.has('d', "") || command.args().iter().any(|word| word.text == "base64"),
        "gpg" => command.has('d', "decrypt"),
        // Unpacking hides nothing: an archive is an ordinary file.
        "rev" | "tr" => true,
        _ => false,
    }
}

pub(super) fn unseen_code(cx: &CheckContext<'_>, report: Report<'_>) {
    let mut fetched: Vec<String> = Vec::new();
    for command in &cx.script.commands {
        let name = command.name();
        let is_source = matches!(name, "source" | ".");
        if inner::reads_script(command) {
            let writers = upstream(cx, command);
            if writers.iter().any(|writer| FETCHERS.contains(&writer.name())) {
                report(Hit::of(command, "runs code from the network"));
            } else if writers.iter().any(|writer| decodes(writer)) {
                report(Hit::of(command, "runs decoded code"));
            } else if !writers.is_empty() && !writers.iter().all(|writer| inner::written(writer).is_some()) {
                report(Hit::of(command, "runs the output of other commands").sure(false));
            } else if let Input::File(file) = &command.input
                && fetched.contains(&cx.places.absolute(&file.text, &command.cwd))
            {
                report(Hit::of(command, "runs code from the network"));
            }
        }
        let takes_code = inner::runs_code(name) || is_source || matches!(name, "eval" | "trap");
        if takes_code {
            let scripts = command.args().iter().flat_map(|word| &word.scripts);
            if scripts.into_iter().any(|script| fetches(script)) {
                report(Hit::of(command, "runs code from the network"));
            }
            let files = inner::code_files(command).into_iter().filter(|it| it.text.starts_with("/dev/fd/"));
            for script in files.flat_map(|word| &word.scripts).filter(|script| !fetches(script)) {
                let writers = script::read(script, "/work", Variables::default()).commands;
                if writers.iter().any(decodes) {
                    report(Hit::of(command, "runs decoded code"));
                } else if !writers.iter().all(|writer| inner::written(writer).is_some()) {
                    report(Hit::of(command, "runs the output of other commands").sure(false));
                }
            }
        }
        let program = command.words[0].text.as_str();
        let mut run = Vec::new();
        if takes_code {
            run.extend(inner::code_files(command).into_iter().map(|word| word.text.as_str()));
        }
        if program.contains('/') {
            run.push(program);
        }
        if run.iter().any(|path| fetched.contains(&cx.places.absolute(path, &command.cwd))) {
            report(Hit::of(command, "runs code from the network"));
        }
        let kept = if FETCHERS.contains(&name) {
            kept_as(command)
        } else if name == "tee" && upstream(cx, command).iter().any(|it| FETCHERS.contains(&it.name())) {
            command.operands().map(|word| word.text.clone()).collect()
        } else {
            Vec::new()
        };
        fetched.extend(kept.iter().map(|path| cx.places.absolute(path, &command.cwd)));
    }
}

/// Files into which a downloading command writes.
fn kept_as(command: &Command) -> Vec<String> {
    // This letter is the option that names the file. With curl's `-O`, the address names it.
    let letter = if command.name() == "wget" { 'O' } else { 'o' };
    let own_name = match command.name() {
        "curl" => command.has('O', "remote-name") || command.has('\0', "remote-name-all"),
        name => !matches!(name, "nc" | "ncat" | "netcat"),
    };
    let mut files: Vec<String> = Vec::new();
    let args = command.args();
    for (at, word) in args.iter().enumerate() {
        let next = || args.get(at + 1).map(|word| word.text.clone());
        let text = word.text.as_str();
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if matches!(name, "output" | "output-document") {
                files.extend(value.map(str::to_owned).or_else(next));
            }
        } else if let Some(letters) = text.strip_prefix('-')
            && let Some(place) = letters.find(letter)
        {
            let attached = &letters[place + letter.len_utf8()..];
            files.extend(if attached.is_empty() { next() } else { Some(attached.to_owned()) });
        } else if !text.starts_with('-') && (own_name || text.contains("://")) {
            let plain = text.split(['?', '#']).next().unwrap_or_default();
            files.extend(plain.rsplit('/').next().map(str::to_owned));
        }
    }
    files.extend(command.redirects.iter().filter(|it| it.writes).map(|it| it.to.text.clone()));
    files.retain(|file| !file.is_empty() && file != "-" && !file.contains(UNKNOWN));
    files
}

pub(super) fn shutdown(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        let first = command.operands().next().map(|word| word.text.as_str()).unwrap_or_default();
        let ends = match command.name() {
            "shutdown" | "reboot" | "halt" | "poweroff" => !command.has('c', "help"),
            "init" | "telinit" => matches!(first, "0" | "1" | "6" | "s" | "S"),
            "systemctl" | "loginctl" => [
                "poweroff",
                "reboot",
                "halt",
                "kexec",
                "soft-reboot",
                "suspend",
                "hibernate",
                "hybrid-sleep",
                "rescue",
                "emergency",
                "isolate",
                "exit",
            ]
            .contains(&first),
            _ => command.redirects.iter().any(|it| it.writes && it.to.text.ends_with("/sysrq-trigger")),
        };
        if ends {
            report(Hit::of(command, "shuts the machine down"));
        }
    }
}

/// Files that grant rights when changed.
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

pub(super) fn escalation(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        let args = || command.args().iter().map(|word| word.text.as_str());
        let (name, recursive) = (command.name(), command.has('R', "recursive"));
        // The project may change all of its own files.
        let precious = || {
            command.operands().skip(1).any(|path| {
                !cx.places.is_project(&path.text, &command.cwd)
                    && cx.places.precious(&path.text, &command.cwd).is_some_and(|it| it.sure)
            })
        };
        let about = match name {
            "sudo" | "su" | "doas" | "pkexec" | "run0" | "gosu" | "su-exec" | "visudo" | "vipw" => {
                "runs as another user"
            }
            "chmod" => {
                let mode = command.operands().next().map(|word| word.text.as_str()).unwrap_or_default();
                if sets_owner(mode) {
                    "makes a program run as its owner"
                } else if recursive && precious() {
                    "lets other users change system files"
                } else {
                    continue;
                }
            }
            "install" if mode_of(command).is_some_and(sets_owner) => "makes a program run as its owner",
            "chown" | "chgrp" | "setfacl" if recursive && precious() => "changes the owner of system files",
            "setcap" | "setpriv" => "adds privileges to a program",
            "usermod" | "gpasswd" | "adduser" | "groupmems"
                if args().any(|arg| matches!(arg, "sudo" | "wheel" | "root" | "admin" | "docker")) =>
            {
                "adds privileges to a user"
            }
            "passwd" | "chpasswd" => "changes a password",
            "nsenter" => "enters another process's namespaces",
            "docker" | "podman" if gives_machine(command) => "gives a container access to the host",
            _ => {
                let target = command.redirects.iter().filter(|it| it.writes).map(|it| &it.to);
                let copied = matches!(name, "tee" | "cp" | "mv" | "install" | "ln" | "sed")
                    .then(|| command.operands().last())
                    .flatten();
                let onto = command.args().iter().filter(|_| name == "dd");
                let onto = onto.filter_map(|word| word.text.strip_prefix("of=")).map(Word::known);
                let onto: Vec<Word> = onto.collect();
                let mut written = target
                    .chain(copied)
                    .chain(&onto)
                    .map(|word| cx.places.absolute(&word.text, &command.cwd));
                if !written.any(|path| RIGHTS.iter().any(|file| path.starts_with(file))) {
                    continue;
                }
                "changes files that grant privileges"
            }
        };
        report(Hit::of(command, about));
    }
}

/// The mode argument of `install`.
fn mode_of(command: &Command) -> Option<&str> {
    let args = command.args();
    let at = args.iter().position(|word| word.text.starts_with("-m") || word.text.starts_with("--mode"))?;
    let text = args[at].text.as_str();
    let attached =
        text.strip_prefix("--mode=").or_else(|| text.strip_prefix("-m")).filter(|it| !it.is_empty());
    attached.or_else(|| args.get(at + 1).map(|word| word.text.as_str()))
}

/// Whether a mode of `chmod` sets the setuid bit.
///
/// Shared directories use setgid, which does not count.
fn sets_owner(mode: &str) -> bool {
    if mode.chars().all(|c| c.is_digit(8)) {
        let digits = mode.trim_start_matches('0');
        return digits.len() == 4 && digits.starts_with(['4', '5', '6', '7']);
    }
    mode.split(',').any(|part| {
        let Some(at) = part.find(['+', '=']) else { return false };
        let (who, what) = part.split_at(at);
        what.contains('s') && (who.is_empty() || who.contains(['u', 'a']))
    })
}

/// Whether a container gets the host's rights, or its root file system.
fn gives_machine(command: &Command) -> bool {
    let args: Vec<&str> = command.args().iter().map(|word| word.text.as_str()).collect();
    let value = |names: &[&str]| {
        let mut values = Vec::new();
        for (at, arg) in args.iter().copied().enumerate() {
            if names.contains(&arg) {
                values.extend(args.get(at + 1).copied());
            }
            values.extend(names.iter().find_map(|name| {
                let rest = arg.strip_prefix(name).filter(|rest| !rest.is_empty())?;
                if name.starts_with("--") {
                    rest.strip_prefix('=')
                } else {
                    Some(rest.trim_start_matches('='))
                }
            }));
        }
        values
    };
    // Access to the container server's socket is access to the machine.
    let root = |path: &str| {
        path.ends_with("docker.sock")
            || path.ends_with("podman.sock")
            || !path.is_empty() && path.chars().all(|c| "/.".contains(c)) && path.starts_with('/')
    };
    let volumes = value(&["-v", "--volume"]);
    let mounts = value(&["--mount"]);
    let mut sources = mounts
        .iter()
        .flat_map(|mount| mount.split(','))
        .filter_map(|part| part.strip_prefix("source=").or_else(|| part.strip_prefix("src=")));
    args.contains(&"--privileged")
        || value(&["--pid", "--userns"]).contains(&"host")
        || value(&["--cap-add"]).iter().any(|it| {
            let name = it.to_ascii_uppercase();
            matches!(name.trim_start_matches("CAP_"), "ALL" | "SYS_ADMIN")
        })
        || volumes.iter().any(|volume| volume.split_once(':').is_some_and(|(from, _)| root(from)))
        || sources.any(root)
}

/// Names of processes that must not be ended.
const VITAL: &[&str] = &["init", "systemd", "launchd", "pilcrow", "sshd", "dbus-daemon"];

fn is_vital(name: &str) -> bool {
    // With `-f` a pattern names the command line.
    let name = name.split_whitespace().next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    VITAL.contains(&name.trim_matches(|c: char| "^$\\.*[]".contains(c)))
}

/// Whether a pattern of `pkill` matches one of the `VITAL` names.
///
/// `exact`: the pattern must match all of the name.
fn finds_vital(pattern: &str, exact: bool) -> bool {
    if is_vital(pattern) {
        return true;
    }
    let pattern = if exact { format!("^(?:{pattern})$") } else { pattern.to_owned() };
    RegexMatcher::new(&pattern).is_ok_and(|pattern| {
        VITAL.iter().any(|name| pattern.is_match(name.as_bytes()).is_ok_and(|found| found))
    })
}

/// Patterns of `pkill` and `killall`, without option values.
///
/// The flag is true if the command names a user.
fn looked_for(command: &Command) -> (Vec<&Word>, bool) {
    const VALUED: &[&str] = &[
        "-F",
        "-G",
        "-P",
        "-U",
        "-c",
        "-d",
        "-g",
        "-n",
        "-o",
        "-s",
        "-t",
        "-u",
        "-y",
        "-Z",
        "--signal",
        "--pidfile",
        "--group",
        "--parent",
        "--uid",
        "--euid",
        "--user",
        "--session",
        "--terminal",
        "--pgroup",
        "--older-than",
        "--younger-than",
        "--context",
        "--ns",
        "--nslist",
        "--env",
    ];
    // Some of these letters are flags of one program and take a value in the other.
    let flags: &[&str] =
        if command.name() == "killall" { &["-c", "-F", "-d", "-g"] } else { &["-n", "-o", "-c"] };
    let (mut found, mut whose, mut args) = (Vec::new(), false, command.args().iter());
    while let Some(word) = args.next() {
        let text = word.text.as_str();
        let name = text.split('=').next().unwrap_or_default();
        whose |=
            matches!(name, "--uid" | "--euid" | "--user") || text.starts_with("-u") || text.starts_with("-U");
        if VALUED.contains(&text) && !flags.contains(&text) {
            args.next();
        } else if !text.starts_with('-') {
            found.push(word);
        }
    }
    (found, whose)
}

pub(super) fn killing(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        match command.name() {
            "kill" => {
                let texts = || command.args().iter().map(|word| word.text.as_str());
                // The letters of a signal's name are not options, and signal 0 only tests.
                if texts().any(|it| matches!(it, "-l" | "-L" | "--list" | "--table"))
                    || texts()
                        .next()
                        .is_some_and(|it| matches!(it, "-0" | "-EXIT" | "-SIGEXIT" | "--signal=0"))
                    || texts().next().is_some_and(|it| matches!(it, "-s" | "-n" | "--signal"))
                        && texts().nth(1).is_some_and(|it| matches!(it, "0" | "EXIT" | "SIGEXIT"))
                {
                    continue;
                }
                let mut args = command.args().iter().peekable();
                // The first word that begins with a hyphen is the signal.
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
                    let is_own = number.is_some_and(|n| cx.own.iter().any(|own| i64::from(*own) == n.abs()));
                    let is_vital = matches!(number, Some(-1..=1)) || is_own;
                    if is_vital || word.scripts.iter().any(|script| names_vital(script)) {
                        report(Hit::of(command, "ends Pilcrow or the editor"));
                    } else if !word.is_known() {
                        report(
                            Hit::of(command, "ends an unknown process, which may be Pilcrow or the editor")
                                .sure(false),
                        );
                    }
                }
            }
            "killall" | "pkill" | "skill" => {
                let name = command.name();
                let exact = name != "pkill" && !command.has('r', "regexp") || command.has('x', "exact");
                let (found, whose) = looked_for(command);
                if found.iter().any(|word| word.is_known() && finds_vital(&word.text, exact))
                    || (whose && found.is_empty())
                {
                    report(Hit::of(command, "ends Pilcrow or the editor"));
                } else if command.operands().any(|word| !word.is_known()) {
                    report(Hit::of(command, "ends unknown processes").sure(false));
                }
            }
            "killall5" => report(Hit::of(command, "ends every process")),
            "systemctl" | "service" => {
                let operands: Vec<&str> = command.operands().map(|word| word.text.as_str()).collect();
                if operands.iter().any(|it| matches!(*it, "stop" | "kill" | "restart" | "disable"))
                    && operands.iter().any(|it| is_vital(it.trim_end_matches(".service")))
                {
                    report(Hit::of(command, "ends Pilcrow or the editor"));
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

/// Programs that do not read the files in their arguments.
///
/// Programs in neither list may read, copy or send the user's keys: the policy asks.
const NO_READERS: &[&str] = &[
    "[",
    "[[",
    "basename",
    "cargo",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "command",
    "dirname",
    "du",
    "echo",
    "export",
    "file",
    "find",
    "fd",
    "git",
    "go",
    "ls",
    "make",
    "mkdir",
    "npm",
    "npx",
    "printf",
    "pytest",
    "readlink",
    "realpath",
    "rmdir",
    "ssh",
    "ssh-add",
    "ssh-agent",
    "ssh-copy-id",
    "ssh-keygen",
    "stat",
    "test",
    "touch",
    "tree",
    "type",
    "which",
];

/// Programs that read, copy, send or change the files in their arguments.
///
/// For settings with secrets only these count: an argument of another program may not be a file.
const READERS: &[&str] = &[
    "cat", "tac", "nl", "less", "more", "head", "tail", "cp", "mv", "scp", "rsync", "tar", "zip", "7z",
    "gzip", "base64", "base32", "xxd", "od", "hexdump", "strings", "sort", "uniq", "cut", "paste", "awk",
    "gawk", "sed", "grep", "egrep", "fgrep", "rg", "ag", "vi", "vim", "nano", "emacs", "code", "bat", "curl",
    "wget", "http", "openssl", "gpg", "dd", "tee", "ln", "rm", "shred", "install", "source", ".", "jq", "yq",
    "diff", "cmp", "wc", "rev", "python", "python3", "perl", "ruby", "node", "xargs", "nc", "sftp", "aws",
    "gsutil", "pbcopy", "xclip", "truncate", "split", "pr", "fold", "iconv",
];

pub(super) fn credentials(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        if prints_login(command) {
            report(Hit::of(command, "reads credentials"));
            continue;
        }
        let compares = command.name() == "git" && command.args().iter().any(|word| word.text == "--no-index");
        let first = command.operands().next().map(|word| word.text.as_str());
        let stores = command.name() == "git" && first == Some("hash-object");
        let reads = compares || stores || READERS.contains(&command.name());
        let may_read = reads || !command.is_hidden && !NO_READERS.contains(&command.name());
        for path in found_and_read(command) {
            if let Some((what, tier)) = secret(cx, &cx.places.absolute(&path, &command.cwd)) {
                let about = format!("searches for {} ({what}) to read it", path.replace(UNKNOWN, "…"));
                report(Hit::of(command, about).tier(tier));
            }
        }
        let searches = matches!(
            command.name(),
            "grep" | "egrep" | "fgrep" | "rg" | "ag" | "sed" | "awk" | "gawk" | "jq" | "yq"
        );
        // The first word of a search command is the pattern.
        let pattern = searches.then(|| command.operands().next()).flatten();
        let words = command
            .args()
            .iter()
            .filter(|word| may_read && !pattern.is_some_and(|it| std::ptr::eq(it, *word)));
        let words = words.map(|word| (word, reads));
        // A redirection certainly opens its file.
        let redirected = command.redirects.iter().map(|it| (&it.to, true));
        let mut done = false;
        let public = |word: &Word| names_no_key(command, word);
        for (word, is_read) in words.chain(redirected) {
            if done {
                break;
            }
            if public(word) {
                continue;
            }
            for path in paths_in(word) {
                let absolute = cx.places.absolute(path, &command.cwd);
                if let Some((what, tier)) =
                    secret(cx, &absolute).filter(|(_, tier)| is_read || *tier == Tier::High)
                {
                    report(
                        Hit::of(command, format!("touches {} ({what})", path.replace(UNKNOWN, "…")))
                            .sure(is_read)
                            .tier(tier),
                    );
                    done = true;
                    break;
                }
            }
        }
    }
}

/// Whether a command prints the credentials of a program.
fn prints_login(command: &Command) -> bool {
    let mut operands = command.operands().map(|word| word.text.as_str());
    let words = (operands.next().unwrap_or_default(), operands.next().unwrap_or_default());
    match command.name() {
        "gh" => words == ("auth", "token"),
        "gpg" | "gpg2" => command.args().iter().any(|word| word.text.starts_with("--export-secret")),
        "gcloud" => words.0 == "auth" && words.1.starts_with("print-"),
        _ => false,
    }
}

/// The files that `find` searches by name and passes to a program that reads them.
fn found_and_read(command: &Command) -> Vec<String> {
    let args = command.args();
    let is_any = |word: &Word, any: &[&str]| any.contains(&word.text.as_str());
    let reads = args.windows(2).any(|pair| {
        is_any(&pair[0], &["-exec", "-execdir", "-ok", "-okdir"]) && READERS.contains(&pair[1].text.as_str())
    });
    if command.name() != "find" || !reads {
        return Vec::new();
    }
    let start = args.first().filter(|word| !word.text.starts_with('-')).map_or(".", |word| &word.text);
    let names = args.windows(2).filter(|pair| is_any(&pair[0], &["-name", "-iname", "-path", "-wholename"]));
    names.map(|pair| format!("{start}/{}", pair[1].text)).collect()
}

/// Ends of the paths of files in which programs store credentials.
const LOGINS: &[&str] = &["/gh/hosts.yml"];

/// Whether a word is a pattern of names, or a certificate, which is public.
fn names_no_key(command: &Command, word: &Word) -> bool {
    let args = command.args();
    let before = args
        .iter()
        .position(|it| std::ptr::eq(it, word))
        .and_then(|at| at.checked_sub(1))
        .map(|at| args[at].text.as_str())
        .unwrap_or_default();
    let text = word.text.as_str();
    let option = text.split_once('=').map_or(before, |(option, _)| option);
    let is_pattern =
        matches!(
            option,
            "--include" | "--exclude" | "--include-dir" | "--exclude-dir" | "--glob" | "--iglob" | "-g"
        ) && matches!(command.name(), "grep" | "egrep" | "fgrep" | "rg" | "ag" | "tar" | "rsync" | "zip");
    let is_authority = matches!(option, "--cacert" | "--ca-certificate" | "-CAfile" | "-CApath");
    let first = command.operands().next().map(|word| word.text.as_str());
    // A new key or certificate is written here.
    let is_new = command.name() == "openssl" && matches!(option, "-out" | "-keyout" | "-pubout");
    let is_certificate = command.name() == "openssl"
        && matches!(first, Some("x509" | "verify" | "crl"))
        && !matches!(option, "-key" | "-signkey" | "-CAkey" | "-force_pubkey" | "-passin")
        && text.ends_with(".pem")
        && !text.contains("key");
    is_pattern || is_authority || is_new || is_certificate
}

/// Paths that a word may contain.
///
/// These are the word itself, and the parts after the signs of `-F f=@path`.
fn paths_in(word: &Word) -> impl Iterator<Item = &str> {
    let text = word.text.as_str();
    let parts =
        text.find(['=', '@', ':']).map(|at| (&text[..at], text[at + 1..].trim_start_matches(['@', '='])));
    let parts = parts.into_iter().flat_map(|(before, rest)| [before, rest]).filter(|part| !part.is_empty());
    std::iter::once(text).chain(parts)
}

fn secret(cx: &CheckContext<'_>, path: &str) -> Option<(&'static str, Tier)> {
    if ["/etc/shadow", "/etc/gshadow", "/etc/sudoers"].iter().any(|file| path.starts_with(file)) {
        return Some(("system accounts and passwords", Tier::High));
    }
    if LOGINS.iter().any(|end| path.ends_with(end)) {
        return Some(("keys and logins", Tier::High));
    }
    if path.starts_with("/proc/") && path.ends_with("/environ") && path != "/proc/self/environ" {
        return Some(("the variables of a process", Tier::High));
    }
    if path.contains(['*', '?', '[']) && cx.places.may_name_credential(path) {
        return Some(("keys and logins", Tier::High));
    }
    // The directory of a credential counts if it may contain a key.
    let clean = path.replace(UNKNOWN, "");
    let path = AbsPath::new(&clean)?;
    let root = AbsPath::new(&cx.places.root).or_else(|| AbsPath::new("/"))?;
    let (kind, _) = sensitive_name(&path, &root)?;
    match kind {
        Sensitive::Credentials => Some((kind.description(), Tier::High)),
        Sensitive::Environment => Some((kind.description(), Tier::Medium)),
        Sensitive::VersionControl | Sensitive::Settings | Sensitive::Executed => None,
    }
}
