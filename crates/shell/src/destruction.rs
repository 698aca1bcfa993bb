//! Checks for commands that destroy files, disks, or the machine's time.

use super::inner;
use super::places;
use super::word::{UNKNOWN, Word};
use super::{CheckContext, Hit};

type Report<'a> = &'a mut dyn FnMut(Hit);

/// Checks for the deletion of directories that must not be deleted.
pub(super) fn recursive_delete(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        let precious = |path: &str| cx.places.precious(path, &command.cwd);
        let mut all_of = |path: &str| {
            if let Some(found) = precious(path) {
                let about = if found.sure {
                    format!("deletes {}", found.what)
                } else {
                    format!("may delete {}", found.what)
                };
                report(Hit::of(command, about).sure(found.sure));
            }
        };
        match command.name() {
            "rm" | "rimraf" | "del-cli" | "srm" | "trash" => {
                let recursive =
                    command.name() != "rm" || command.has('r', "recursive") || command.has('R', "");
                // An unknown word may be the option that deletes recursively.
                if recursive {
                    command.operands().for_each(|path| all_of(&path.text));
                }
            }
            "find" | "fd" | "fdfind" => {
                let args = command.args();
                let deletes = args.iter().any(|word| word.text == "-delete")
                    || args.windows(2).any(|pair| {
                        matches!(pair[0].text.as_str(), "-exec" | "-execdir" | "-x" | "-X")
                            && matches!(
                                pair[1].text.rsplit('/').next(),
                                Some("rm" | "unlink" | "shred" | "srm")
                            )
                    });
                if deletes {
                    let here = [Word::known(".")];
                    let starts = args.iter().take_while(|word| !word.text.starts_with(['-', '(', '!']));
                    let starts: Vec<_> = starts.collect();
                    let starts = if starts.is_empty() { here.iter().collect() } else { starts };
                    // A predicate limits the match to a part of the directory. Below the workspace
                    // or its parents this is usual.
                    let narrowed = args.iter().any(|word| {
                        [
                            "-name",
                            "-iname",
                            "-path",
                            "-regex",
                            "-mtime",
                            "-newer",
                            "-empty",
                            "-size",
                            "-mmin",
                            "-amin",
                            "-atime",
                            "-cmin",
                            "-ctime",
                            "-group",
                            "-inum",
                            "-ipath",
                            "-iregex",
                            "-nogroup",
                            "-nouser",
                            "-perm",
                            "-user",
                            "-wholename",
                            "-xtype",
                        ]
                        .contains(&word.text.as_str())
                    });
                    for start in starts {
                        let is_home = cx.places.home.as_ref() == Some(&start.text);
                        if narrowed && (is_home || !start.text.starts_with(['/', UNKNOWN])) {
                            continue;
                        }
                        all_of(&start.text);
                    }
                }
            }
            "rsync" if command.args().iter().any(|word| word.text.starts_with("--del")) => {
                if let Some(target) = command.operands().last().filter(|target| !target.text.contains(':')) {
                    all_of(&target.text);
                }
            }
            "mv" if command.operands().last().is_some_and(|to| to.text.starts_with("/dev/")) => {
                command.operands().for_each(|path| all_of(&path.text));
            }
            "mv" => {
                let paths: Vec<_> = command.operands().collect();
                for path in paths.iter().take(paths.len().saturating_sub(1)) {
                    let is_project = cx.places.is_project(&path.text, &command.cwd);
                    if !is_project && precious(&path.text).is_some_and(|found| found.sure) {
                        report(Hit::of(command, "moves a protected directory"));
                    }
                }
            }
            _ => {
                let Some(code) = inner::code(command) else { continue };
                if ["rmtree(", "rmSync(", "rm_rf", "remove_tree("].iter().any(|call| code.text.contains(call))
                {
                    for path in code.text.split(['\'', '"']).skip(1).step_by(2) {
                        if path.starts_with(['/', '~']) {
                            let home = cx.places.home.as_deref().unwrap_or("~");
                            all_of(&path.replacen('~', home, 1));
                        }
                    }
                }
            }
        }
    }
}

/// Checks for writes to a disk that bypass its file system.
pub(super) fn device_write(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        let mut to = |path: &str, unknown_counts: bool| match places::device(
            &cx.places.absolute(path, &command.cwd),
        ) {
            Some(true) => report(Hit::of(command, format!("writes to {}", path.replace(UNKNOWN, "…")))),
            None if unknown_counts => {
                report(Hit::of(command, "writes to an unknown target, which may be a disk").sure(false));
            }
            _ => {}
        };
        for redirect in command.redirects.iter().filter(|it| it.writes) {
            to(&redirect.to.text, true);
        }
        match command.name() {
            "dd" => {
                for word in command.args() {
                    if let Some(path) = word.text.strip_prefix("of=") {
                        to(path, true);
                    }
                }
            }
            "tee" | "truncate" | "fallocate" | "badblocks" | "sponge" => {
                command.operands().for_each(|path| to(&path.text, false))
            }
            "cp" | "mv" | "install" | "ln" | "rsync" => {
                if let Some(path) = command.operands().last() {
                    to(&path.text, false);
                }
            }
            _ => {}
        }
    }
}

/// Checks for the creation and removal of file systems.
pub(super) fn disk_wipe(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        let name = command.name();
        let args = || command.args().iter().map(|word| word.text.as_str());
        let has = |wanted: &[&str]| args().any(|arg| wanted.contains(&arg));
        let wipes = match name {
            "wipefs" => command.has('a', "all") || command.has('o', "offset"),
            "blkdiscard" | "shred" | "mke2fs" | "mkswap" | "fdformat" | "newfs" | "nwipe" | "scrub" => true,
            "sgdisk" | "gdisk" => command.has('Z', "zap-all") || command.has('o', "clear"),
            "fdisk" | "cfdisk" | "sfdisk" | "parted" => !command.has('l', "list") && !has(&["print"]),
            "cryptsetup" => has(&["luksFormat", "erase", "luksErase", "reencrypt"]),
            "hdparm" => args().any(|arg| arg.starts_with("--security-erase") || arg.starts_with("--trim")),
            "nvme" => has(&["format", "sanitize"]),
            "diskutil" => args()
                .any(|arg| arg.starts_with("erase") || arg.starts_with("partition") || arg == "zeroDisk"),
            "pvremove" | "vgremove" | "lvremove" => true,
            "zpool" | "zfs" => has(&["destroy", "labelclear"]),
            _ => name.starts_with("mkfs"),
        };
        if !wipes {
            continue;
        }
        // These words name no device.
        if matches!(name, "pvremove" | "vgremove" | "lvremove" | "zpool" | "zfs" | "diskutil") {
            report(Hit::of(command, "removes a file system"));
            continue;
        }
        for word in command.args().iter().filter(|word| !word.text.starts_with('-')) {
            match places::device(&cx.places.absolute(&word.text, &command.cwd)) {
                Some(true) => report(Hit::of(command, format!("wipes {}", word.shown()))),
                None => report(Hit::of(command, "wipes an unknown target, which may be a disk").sure(false)),
                Some(false) => {}
            }
        }
    }
}

/// Checks for commands that start themselves without end.
pub(super) fn fork_bomb(cx: &CheckContext<'_>, report: Report<'_>) {
    for bomb in &cx.script.bombs {
        let why = format!("`{bomb}` starts itself more than once");
        report(Hit { why, sure: true, words: None, tier: None });
    }
    for command in &cx.script.commands {
        let Some(code) = inner::code(command) else { continue };
        let text = &code.text;
        if text.contains("fork while") || (text.contains("while") && text.contains("fork()")) {
            report(Hit::of(command, "starts processes without end"));
        }
    }
}
