//! Commands that run other commands given in their arguments.

use super::command_line::quote;
use super::script::{Command, Input};
use super::word::{self, UNKNOWN, Word};

/// Commands and code that a command runs.
pub(super) enum Inner {
    None,
    Command(Vec<Word>),
    Commands(Vec<Vec<Word>>),
    /// Shell code.
    Script(Word),
}

/// A command that runs the command in its last words.
struct Wrapper {
    names: &'static [&'static str],
    /// Options that take the next word as value.
    valued: &'static [&'static str],
    /// Number of words before the command.
    operands: usize,
    /// Whether words with `=` before the command are variables.
    assigns: bool,
}

const fn wrapper(
    names: &'static [&'static str],
    valued: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { names, valued, operands, assigns: false }
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["sudo", "doas"],
        valued: &[
            "-u", "-g", "-h", "-p", "-C", "-r", "-t", "-U", "-D", "-R", "-T", "--user", "--group", "--host",
            "--prompt", "--chdir", "--chroot",
        ],
        operands: 0,
        assigns: true,
    },
    Wrapper { names: &["env"], valued: &["-u", "-C", "--unset", "--chdir"], operands: 0, assigns: true },
    wrapper(
        &[
            "command",
            "builtin",
            "nohup",
            "setsid",
            "busybox",
            "toybox",
            "then",
            "do",
            "else",
            "!",
            "coproc",
            "eatmydata",
            "unbuffer",
            "caffeinate",
            "firejail",
            "systemd-inhibit",
        ],
        &[],
        0,
    ),
    wrapper(&["exec"], &["-a"], 0),
    // The keyword `time` accepts assignments.
    Wrapper { names: &["time"], valued: &["-f", "-o", "--format", "--output"], operands: 0, assigns: true },
    wrapper(&["pkexec", "run0"], &["-u", "--user"], 0),
    wrapper(&["nice", "ionice", "chrt"], &["-n", "-c", "-p", "--adjustment", "--class", "--classdata"], 0),
    wrapper(&["stdbuf"], &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    wrapper(
        &["strace", "ltrace"],
        &["-a", "-b", "-e", "-E", "-I", "-l", "-n", "-o", "-O", "-p", "-P", "-s", "-S", "-u", "-X"],
        0,
    ),
    wrapper(&["proxychains", "proxychains4"], &["-f"], 0),
    wrapper(&["systemd-run"], &["-p", "-u", "-M", "-H", "--unit", "--property", "--uid", "--gid"], 0),
    wrapper(
        &["timeout", "gosu", "chroot", "taskset", "su-exec", "setarch", "flock"],
        &["-k", "-s", "--kill-after", "--signal", "-w", "--timeout"],
        1,
    ),
    wrapper(&["unshare", "nsenter", "bwrap"], &["-t", "--target", "-S", "-G"], 0),
    wrapper(
        &["xargs"],
        &[
            "-a",
            "-d",
            "-E",
            "-I",
            "-L",
            "-n",
            "-P",
            "-s",
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-procs",
            "--max-chars",
        ],
        0,
    ),
    wrapper(&["parallel"], &["-j", "-a", "--jobs", "--arg-file"], 0),
    wrapper(&["watch"], &["-n", "--interval"], 0),
];

/// Programs that run shell code.
pub(super) const SHELLS: &[&str] =
    &["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "yash", "rbash", "pwsh"];

/// Programs that run code of their own language, and the options that pass it.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("python", &["-c"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("node", &["-e", "-p", "--eval", "--print"]),
    ("nodejs", &["-e", "-p", "--eval", "--print"]),
    ("deno", &["eval"]),
    ("bun", &["-e"]),
    ("php", &["-r"]),
    ("lua", &["-e"]),
    ("awk", &[]),
    ("gawk", &[]),
    ("mawk", &[]),
    ("nawk", &[]),
    ("original-awk", &[]),
    ("osascript", &["-e"]),
    ("Rscript", &["-e"]),
    ("tclsh", &[]),
];

/// Whether the program is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Whether the program reads shell code.
pub(super) fn is_shell_or_source(name: &str) -> bool {
    is_shell(name) || matches!(name, "source" | ".")
}

/// The interpreter of that name, whatever its version: `python3.12`.
fn interpreter(name: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find(|(known, _)| *known == plain || *known == name)
}

/// Whether the program runs any code.
pub(super) fn runs_code(name: &str) -> bool {
    is_shell(name) || interpreter(name).is_some()
}

/// The code of another language among a command's words.
pub(super) fn code(command: &Command) -> Option<&Word> {
    let (_, options) = interpreter(command.name())?;
    if options.is_empty() {
        return command.operands().next();
    }
    let args = command.args();
    // The option may be among other letters (`-ne`), or have the code in the same word (`-e'…'`).
    let letters = |text: &str| text.len() <= 6 && text[1..].chars().all(|c| c.is_ascii_alphabetic());
    let is_option = |text: &str| {
        letters(text) && options.iter().any(|option| option.len() == 2 && text.ends_with(&option[1..]))
    };
    let attached = |text: &str| {
        options.iter().any(|option| option.len() == 2 && text.starts_with(option) && text.len() > 2)
    };
    let first = args.iter().position(|word| !word.text.starts_with('-')).unwrap_or(args.len());
    for (at, word) in args.iter().enumerate() {
        let text = word.text.as_str();
        if options.contains(&text) || at < first && is_option(text) {
            return args.get(at + 1);
        }
        if at < first && attached(text) {
            return Some(word);
        }
    }
    None
}

/// Calls of other languages that start commands.
const STARTS: &[&str] = &[
    "system",
    "popen",
    "Popen",
    "popen2",
    "popen3",
    "getoutput",
    "getstatusoutput",
    "check_call",
    "check_output",
    "subprocess.run",
    "subprocess.call",
    "create_subprocess_shell",
    "create_subprocess_exec",
    "pty.spawn",
    "exec",
    "execl",
    "execlp",
    "execv",
    "execvp",
    "execSync",
    "execFile",
    "execFileSync",
    "spawn",
    "spawnSync",
    "capture2",
    "capture2e",
    "capture3",
    "shell_exec",
    "passthru",
    "proc_open",
    "os.execute",
    "Deno.Command",
    "do shell script",
];

/// Command lines that code of another language starts with literal words.
///
/// The flag is true if the code also starts command lines that are not literal.
pub(super) fn started(command: &Command, code: &str) -> (Vec<Word>, bool) {
    let language = interpreter(command.name()).map_or("", |(name, _)| name);
    let (mut lines, mut is_unknown) = (Vec::new(), false);
    for name in STARTS {
        // Python's `exec` runs code of Python.
        if *name == "exec" && language == "python" {
            continue;
        }
        for (at, _) in code.match_indices(name) {
            let before = code[..at].chars().next_back();
            let rest = &code[at + name.len()..];
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            if before.is_some_and(is_part) || rest.chars().next().is_none_or(is_part) {
                continue;
            }
            let words = literals(rest);
            match words.as_slice() {
                // The match is a word in a text, a function that is only named, or another harmless
                // use.
                [] if !rest.trim_start().starts_with('(')
                    || rest.trim_start()[1..].trim_start().starts_with(')') => {}
                [] => is_unknown = true,
                [line] => lines.push(Word::known(line)),
                words => lines
                    .push(Word::known(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))),
            }
        }
    }
    // `"command" | getline`, `print x | "command"`.
    if language.ends_with("awk") && code.replace("||", "").contains('|') {
        lines.extend(code.split('"').skip(1).step_by(2).map(Word::known));
    }
    if matches!(language, "perl" | "ruby" | "php") {
        lines.extend(code.split('`').skip(1).step_by(2).map(Word::known));
    }
    (lines, is_unknown)
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The string literals at the start of a function's arguments.
fn literals(given: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = given;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | ','));
        // `b'…'`, `r'…'`; one with interpolation (`f'…'`) is unknown.
        let start = rest.strip_prefix(['b', 'r']).filter(|it| it.starts_with(['\'', '"'])).unwrap_or(rest);
        let Some(quote) = start.chars().next().filter(|c| matches!(c, '\'' | '"')) else { return words };
        let mut word = String::new();
        let mut characters = start[1..].char_indices();
        let end = loop {
            match characters.next() {
                Some((_, '\\')) => word.extend(characters.next().map(|(_, c)| c)),
                Some((at, c)) if c == quote => break at + 2,
                Some((_, c)) => word.push(c),
                None => return words,
            }
        };
        words.push(word);
        rest = &start[end..];
        // A concatenated word is unknown.
        if rest.trim_start().starts_with(['+', '%', '.', '~']) {
            return Vec::new();
        }
    }
}

/// The files that a command runs as code.
///
/// The words after such a file are only its arguments.
pub(super) fn code_files(command: &Command) -> Vec<&Word> {
    let (name, args) = (command.name(), command.args());
    if is_shell(name) {
        let started = |pair: &[Word]| matches!(pair[0].text.as_str(), "--rcfile" | "--init-file");
        let runs_word = args.iter().any(|word| is_code_option(&word.text));
        let file = first_script(command).filter(|_| !runs_word);
        return args.windows(2).filter(|pair| started(pair)).map(|pair| &pair[1]).chain(file).collect();
    }
    if matches!(name, "source" | ".") {
        return command.operands().next().into_iter().collect();
    }
    let Some((name, _)) = interpreter(name) else { return command.operands().collect() };
    let loads: &[&str] = match *name {
        "node" | "nodejs" | "bun" => &["-r", "--require", "--import", "--loader"],
        "ruby" => &["-r"],
        "php" | "awk" | "gawk" => &["-f", "--file"],
        _ => &[],
    };
    let mut files = Vec::new();
    let mut has_script = code(command).is_some();
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let text = word.text.as_str();
        at += 1;
        if loads.contains(&text) {
            files.extend(args.get(at));
            has_script |= matches!(text, "-f" | "--file");
            at += 1;
        } else if text == "-m" && *name == "python" {
            has_script = true;
        } else if matches!((*name, text), ("python", "-W" | "-X") | ("perl" | "ruby", "-I") | ("php", "-d")) {
            at += 1;
        } else if text.starts_with('-') && text.len() > 1 || matches!((*name, text), ("deno" | "bun", "run"))
        {
        } else {
            files.extend(Some(word).filter(|_| !has_script));
            break;
        }
    }
    files
}

/// Whether the command runs code from its standard input.
pub(super) fn reads_script(command: &Command) -> bool {
    let name = command.name();
    if matches!(name, "source" | ".") {
        return command.operands().next().is_some_and(|word| is_stdin(&word.text));
    }
    if is_shell(name) {
        return !command.args().iter().any(|word| is_code_option(&word.text))
            && match first_script(command) {
                Some(file) => is_stdin(&file.text) || command.has('s', ""),
                None => true,
            };
    }
    match interpreter(name) {
        Some((name, _)) if !name.ends_with("awk") => {
            code(command).is_none()
                && !command
                    .args()
                    .iter()
                    .any(|word| matches!(word.text.as_str(), "-m" | "--version" | "-V" | "-h" | "--help"))
                && command.operands().next().is_none_or(|file| is_stdin(&file.text))
        }
        _ => false,
    }
}

fn is_stdin(file: &str) -> bool {
    matches!(file, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// The script file of a shell.
fn first_script(command: &Command) -> Option<&Word> {
    let mut args = command.args().iter();
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file" => {
                args.next();
            }
            text if text.len() > 1 && text.starts_with(['-', '+']) => {}
            _ => return Some(word),
        }
    }
    None
}

/// Whether an option is `-c`, also among other letters: `-lc`.
fn is_code_option(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|letters| {
        letters.contains('c') && !letters.starts_with('-') && letters.chars().all(|c| c.is_ascii_alphabetic())
    })
}

/// The output of a command, where its words determine it.
pub(super) fn written(command: &Command) -> Option<Word> {
    match command.name() {
        "echo" => {
            let is_option = |word: &&Word| matches!(word.text.as_str(), "-n" | "-e" | "-ne" | "-en" | "-E");
            let escapes = command.args().iter().take_while(is_option).any(|word| word.text.contains('e'));
            let text = join(command.args().iter().skip_while(is_option));
            Some(if escapes { Word { text: word::unescaped(&text.text), ..text } } else { text })
        }
        "printf" => {
            let skipped = command.args().iter().take_while(|word| word.text == "--").count();
            let words = &command.args()[skipped..];
            Some(Word { text: printed(words), ..join(words.iter()) })
        }
        "cat" | "tee" => match &command.input {
            Input::Text(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Maximum length of a text that `printf` repeats, in bytes.
///
/// A longer one is partly unknown.
const MAX_PRINTED: usize = 64 << 10;

/// The text that `printf` prints.
///
/// It uses the format again until it has taken all arguments.
fn printed(words: &[Word]) -> String {
    let Some((format, args)) = words.split_first() else { return String::new() };
    let format = word::unescaped(&format.text);
    let mut args = args.iter();
    let mut text = String::new();
    loop {
        let before = args.len();
        let mut rest = format.as_str();
        while let Some((plain, directive)) = rest.split_once('%') {
            text.push_str(plain);
            let letter = directive.trim_start_matches(|c: char| "-+ #.*".contains(c) || c.is_ascii_digit());
            // A width or precision that is an argument.
            let flags = &directive[..directive.len() - letter.len()];
            for _ in flags.matches('*') {
                args.next();
            }
            match letter.chars().next() {
                Some('%') => text.push('%'),
                Some('b') => text.extend(args.next().map(|arg| word::unescaped(&arg.text))),
                _ => text.extend(args.next().map(|arg| arg.text.clone())),
            }
            rest = letter.get(1..).unwrap_or_default();
        }
        text.push_str(rest);
        if text.len() > MAX_PRINTED {
            text.push(UNKNOWN);
            return text;
        }
        if args.len() == 0 || args.len() == before {
            return text;
        }
    }
}

fn join<'a>(words: impl Iterator<Item = &'a Word>) -> Word {
    let mut out = Word::default();
    for word in words {
        if !out.text.is_empty() {
            out.text.push(' ');
        }
        out.text.push_str(&word.text);
        out.scripts.extend(word.scripts.iter().cloned());
    }
    out
}

/// The commands and code that `command` runs.
pub(super) fn of(command: &Command) -> Inner {
    let (name, args) = (command.name(), command.args());
    if is_shell(name) {
        let Some(at) = args.iter().position(|word| is_code_option(&word.text)) else { return Inner::None };
        // The code is the first word after all options.
        let code =
            args[at + 1..].iter().find(|word| !(word.text.len() > 1 && word.text.starts_with(['-', '+'])));
        return code.map_or(Inner::None, |code| Inner::Script(code.clone()));
    }
    match name {
        "eval" => return Inner::Script(join(args.iter())),
        "trap" => return command.operands().next().map_or(Inner::None, |code| Inner::Script(code.clone())),
        "su" | "runuser" | "script" | "sg" | "ssh" => return script_after(command),
        "find" | "fd" | "fdfind" => return found(command),
        "git" => return git_alias(command),
        "flock" => {
            let at = args.iter().position(|word| matches!(word.text.as_str(), "-c" | "--command"));
            if let Some(code) = at.and_then(|at| args.get(at + 1)) {
                return Inner::Script(code.clone());
            }
        }
        "make" | "vim" | "vi" | "ed" => return Inner::None,
        _ => {}
    }
    let Some(wrapper) = WRAPPERS.iter().find(|it| it.names.contains(&name)) else { return Inner::None };
    if matches!(name, "command")
        && command.args().first().is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V"))
    {
        return Inner::None;
    }
    let Some(mut inner) = wrapped(wrapper, args) else { return Inner::None };
    if name == "env"
        && let Some(at) =
            args.iter().position(|word| word.text == "-S" || word.text.starts_with("--split-string"))
    {
        let split = args[at].text.split_once('=').map(|(_, text)| text.to_owned());
        let text = split.or_else(|| args.get(at + 1).map(|word| word.text.clone())).unwrap_or_default();
        return Inner::Script(Word::known(text));
    }
    match name {
        // Input is appended to the words.
        "xargs" | "parallel" => {
            let replaced =
                args.iter().any(|word| word.text.starts_with("-I") || word.text.starts_with("--replace"));
            for word in &mut inner {
                word.text = word.text.replace("{}", &UNKNOWN.to_string());
            }
            if !replaced || name == "parallel" {
                inner.push(Word::known(UNKNOWN));
            }
            if name == "parallel" && inner.len() == 2 && inner[0].text.contains(' ') {
                return Inner::Script(inner.swap_remove(0));
            }
            Inner::Command(inner)
        }
        "watch" => Inner::Script(join(inner.iter())),
        _ => Inner::Command(inner),
    }
}

/// Command lines that an unknown program may run.
///
/// These are its words from each one on, and single words with spaces. For git only settings count.
pub(super) fn hidden(command: &Command) -> Vec<String> {
    let (name, args) = (command.name(), command.args());
    let is_known = !matches!(of(command), Inner::None) || is_shell_or_source(name) || runs_code(name);
    let is_blank = |text: &str| text.contains(char::is_whitespace);
    let value = |word: &Word| Some(word.text.split_once('=')?.1.to_owned()).filter(|it| is_blank(it));
    if name == "git" {
        let after = args.windows(2).filter(|pair| pair[0].text == "-c");
        let bisect = args.windows(2).position(|pair| pair[0].text == "bisect" && pair[1].text == "run");
        let run = bisect.map(|at| line(&args[at + 2..]));
        return after.filter_map(|pair| value(&pair[1])).chain(run).collect();
    }
    if is_known || super::runs_nothing(name) {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (at, word) in args.iter().enumerate().take(MOST_HIDDEN) {
        if is_blank(&word.text) {
            all.push(value(word).filter(|_| word.text.starts_with('-')).unwrap_or_else(|| word.text.clone()));
        } else if !word.text.starts_with('-') && word.text != "." {
            all.push(line(&args[at..]));
        }
    }
    all
}

/// Maximum number of words of a program that may be commands.
const MOST_HIDDEN: usize = 12;

/// Words as a command line.
fn line(words: &[Word]) -> String {
    let words = words.iter().map(|word| quote(&word.text.replace(UNKNOWN, "?")).into_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// The directory in which `env -C` runs its command.
pub(super) fn directory(command: &Command) -> Option<String> {
    let args = command.args().iter().map(|word| word.text.as_str());
    let mut args = args.skip_while(|text| !text.starts_with("-C") && !text.starts_with("--chdir"));
    let option = args.next().filter(|_| command.name() == "env")?;
    let attached = option.strip_prefix("--chdir=").or_else(|| option.strip_prefix("-C"));
    attached.filter(|to| !to.is_empty()).or_else(|| args.next()).map(str::to_owned)
}

/// The words after a wrapper's own words.
fn wrapped(wrapper: &Wrapper, args: &[Word]) -> Option<Vec<Word>> {
    let mut at = 0;
    let mut operands = wrapper.operands;
    while let Some(word) = args.get(at) {
        let text = word.text.as_str();
        if text == "--" {
            at += 1;
            break;
        }
        if wrapper.valued.contains(&text) {
            at += 2;
        } else if (text.len() > 1 && text.starts_with('-') && !text.starts_with("-\0"))
            || (wrapper.assigns && text.split_once('=').is_some_and(|(name, _)| is_variable(name)))
        {
            at += 1;
        } else if operands > 0 {
            operands -= 1;
            at += 1;
        } else {
            break;
        }
    }
    args.get(at..).filter(|words| !words.is_empty()).map(<[Word]>::to_vec)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The code of `su -c CODE` or `ssh HOST CODE`.
fn script_after(command: &Command) -> Inner {
    let args = command.args();
    if command.name() == "ssh" {
        let host = Wrapper {
            names: &[],
            valued: &[
                "-p", "-i", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-E", "-m", "-S", "-W",
            ],
            operands: 1,
            assigns: false,
        };
        return wrapped(&host, args).map_or(Inner::None, |code| Inner::Script(join(code.iter())));
    }
    let at = args.iter().position(|word| word.text == "--command" || is_code_option(&word.text));
    match at.and_then(|at| args.get(at + 1)) {
        Some(code) => Inner::Script(code.clone()),
        None => Inner::None,
    }
}

/// The commands of `find -exec`.
fn found(command: &Command) -> Inner {
    let args = command.args();
    let starts = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
    let mut all = Vec::new();
    for (at, word) in args.iter().enumerate() {
        if !starts.contains(&word.text.as_str()) {
            continue;
        }
        let words = args[at + 1..].iter().take_while(|word| !matches!(word.text.as_str(), ";" | "+"));
        // Each found file is below the searched directory.
        let below = command.operands().next().map(|start| start.text.as_str()).unwrap_or(".");
        let file =
            if below.ends_with('/') { format!("{below}{UNKNOWN}") } else { format!("{below}/{UNKNOWN}") };
        let put = |word: &Word| Word { text: word.text.replace("{}", &file), scripts: word.scripts.clone() };
        all.push(words.map(put).collect::<Vec<_>>());
    }
    all.retain(|words| !words.is_empty());
    if all.is_empty() { Inner::None } else { Inner::Commands(all) }
}

/// The alias that `git -c alias.x='…' x` runs.
fn git_alias(command: &Command) -> Inner {
    let mut all = Vec::new();
    for word in command.args() {
        let Some((_, value)) = word.text.strip_prefix("alias.").and_then(|rest| rest.split_once('=')) else {
            continue;
        };
        match value.strip_prefix('!') {
            Some(code) => return Inner::Script(Word::known(code)),
            None => {
                let words = std::iter::once("git").chain(value.split_whitespace());
                all.push(words.map(Word::known).collect());
            }
        }
    }
    if all.is_empty() { Inner::None } else { Inner::Commands(all) }
}
