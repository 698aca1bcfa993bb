//! Settings of a git repository that may run programs or lead git elsewhere.
//!
//! New versions of git have new settings, so a list names the harmless ones.

use std::collections::BTreeMap;

use super::acting_option;

/// Sections with keys that are harmless; without keys, all of them.
///
/// Only sections of [`NAMED`] may have a name (`[branch "main"]`).
const HARMLESS: &[(&str, &[&str])] = &[
    ("advice", &[]),
    ("author", &[]),
    ("branch", &[]),
    ("color", &[]),
    ("column", &[]),
    ("commit", &["gpgsign", "cleanup", "status", "verbose"]),
    ("committer", &[]),
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "checkstat",
            "commitgraph",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "multipackindex",
            "precomposeunicode",
            "preloadindex",
            "protecthfs",
            "protectntfs",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "splitindex",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
        ],
    ),
    (
        "diff",
        &["algorithm", "colormoved", "mnemonicprefix", "noprefix", "renames", "renamelimit", "submodule"],
    ),
    ("extensions", &[]),
    ("feature", &[]),
    ("fetch", &[]),
    ("gc", &["auto", "autodetach", "autopacklimit", "pruneexpire", "worktreepruneexpire"]),
    ("index", &[]),
    ("init", &["defaultbranch"]),
    ("lfs", &["access", "locksverify", "repositoryformatversion"]),
    ("log", &[]),
    ("maintenance", &["auto", "strategy"]),
    ("merge", &["conflictstyle", "ff", "renames", "renamelimit"]),
    ("pack", &[]),
    ("pull", &[]),
    ("push", &["autosetupremote", "default", "followtags", "recursesubmodules", "useforceifincludes"]),
    ("rebase", &["autosquash", "autostash", "updaterefs"]),
    (
        "remote",
        &[
            "fetch",
            "gh-resolved",
            "mirror",
            "partialclonefilter",
            "promisor",
            "prune",
            "push",
            "pushdefault",
            "pushurl",
            "tagopt",
            "url",
        ],
    ),
    ("rerere", &[]),
    ("status", &[]),
    ("submodule", &["active", "branch", "ignore", "recurse", "url"]),
    ("tag", &["gpgsign", "sort"]),
    ("user", &["email", "name", "signingkey", "useconfigonly"]),
];

/// Sections whose names are of the user's choice.
const NAMED: [&str; 5] = ["branch", "color", "lfs", "remote", "submodule"];

/// Subcommands that an alias may have.
const ALIASED: &[&str] = &[
    "add",
    "blame",
    "branch",
    "checkout",
    "cherry-pick",
    "commit",
    "describe",
    "diff",
    "fetch",
    "log",
    "ls-files",
    "merge",
    "pull",
    "push",
    "remote",
    "reset",
    "restore",
    "rev-parse",
    "shortlog",
    "show",
    "stash",
    "status",
    "switch",
    "tag",
    "worktree",
];

/// The keys of `config` that are not known to be harmless, in order.
///
/// A text that this parser does not understand is one of them.
pub fn unsafe_settings(config: &[u8]) -> Vec<String> {
    match parse(config) {
        Some(entries) => {
            let named = entries.iter().filter(|(key, values)| !is_harmless(key, values));
            named.map(|(key, _)| render(key)).collect()
        }
        None => vec!["a line that cannot be parsed".to_owned()],
    }
}

/// The settings, as `section.name.key` and value.
///
/// `None` if the text cannot be parsed.
pub fn git_settings(config: &[u8]) -> Option<Vec<(String, String)>> {
    let entries = parse(config)?.into_iter();
    let settings = entries.flat_map(|(key, values)| {
        let value = |value: Option<String>| value.unwrap_or_else(|| TRUE.to_owned());
        values.into_iter().map(move |it| (render(&key), value(it)))
    });
    Some(settings.collect())
}

/// Whether the setting `section.name.key` is known to be harmless with this value.
pub(super) fn is_harmless_setting(setting: &str, value: &str) -> bool {
    let Some((section, rest)) = setting.split_once('.') else { return false };
    let (name, key) = rest.rsplit_once('.').map_or((None, rest), |(name, key)| (Some(name.to_owned()), key));
    let key = (section.to_ascii_lowercase(), name, key.to_ascii_lowercase());
    is_harmless(&key, &vec![Some(value.to_owned())])
}

/// The value of a key without one.
const TRUE: &str = "true";

fn is_harmless((section, name, key): &Key, values: &Values) -> bool {
    let keys = HARMLESS.iter().find(|(known, _)| known == section).map(|(_, keys)| *keys);
    let is_known = keys.is_some_and(|keys| keys.is_empty() || keys.contains(&key.as_str()))
        && name.as_ref().is_none_or(|_| NAMED.contains(&section.as_str()));
    let is_harmless_value = |value: &str| match (section.as_str(), name, key.as_str()) {
        _ if names_helper(value) || key.ends_with("url") && value.starts_with('-') => false,
        ("core", None, "fsmonitor") | ("pager", None, _) => {
            let switches = ["", "0", "1", "false", "no", "off", "on", TRUE, "yes"];
            switches.contains(&value.to_ascii_lowercase().as_str())
        }
        ("alias", None, _) => is_harmless_alias(value),
        ("submodule", Some(_), "update") => ["checkout", "merge", "none", "rebase"].contains(&value),
        _ => is_known,
    };
    values.iter().all(|value| is_harmless_value(value.as_deref().unwrap_or(TRUE)))
}

fn is_harmless_alias(value: &str) -> bool {
    let words: Vec<String> =
        std::iter::once("git").chain(value.split_whitespace()).map(str::to_owned).collect();
    let subcommand = words.get(1).map_or("", String::as_str);
    // Quoted words would need another parser.
    ALIASED.contains(&subcommand) && !value.contains(['\'', '"', '\\']) && acting_option(&words).is_none()
}

fn render((section, name, key): &Key) -> String {
    match name {
        Some(name) => format!("{section}.{name}.{key}"),
        None => format!("{section}.{key}"),
    }
}

/// The harmless entries of `config`; `None` if it cannot be parsed.
pub fn harmless_part(config: &[u8]) -> Option<Vec<u8>> {
    let mut text = String::new();
    for (key, values) in parse(config)? {
        if is_harmless(&key, &values) {
            let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let name = key.1.map(|name| format!(" {}", quote(&name))).unwrap_or_default();
            text.push_str(&format!("[{}{name}]\n", key.0));
            // A key without a value is true.
            for value in values {
                let value =
                    value.map(|it| format!(" = {}", quote(&it).replace('\n', "\\n"))).unwrap_or_default();
                text.push_str(&format!("\t{}{value}\n", key.2));
            }
        }
    }
    Some(text.into_bytes())
}

/// Whether a change leaves all unsafe settings as they are.
///
/// The addresses of remotes are unsafe too, unless `may_change_addresses`.
pub fn is_harmless_change(before: &[u8], after: &[u8], may_change_addresses: bool) -> bool {
    let (Some(old), Some(new)) = (parse(before), parse(after)) else { return false };
    let is_fixed = |key @ (section, _, name): &Key| {
        !may_change_addresses && section == "remote" && name.ends_with("url") && old.contains_key(key)
    };
    new.iter().all(|(key, values)| old.get(key) == Some(values) || is_harmless(key, values) && !is_fixed(key))
}

/// Values of a key in order; `None` without `=`.
type Values = Vec<Option<String>>;

/// Section, name of the section, and key. The name alone is case-sensitive.
type Key = (String, Option<String>, String);

/// Whether an address names a program that fetches from it (`ext::sh -c …`).
fn names_helper(address: &str) -> bool {
    let scheme = address.split_once("::").map(|(scheme, _)| scheme);
    let is_scheme = |it: &str| it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    scheme.is_some_and(is_scheme)
}

/// The entries with their values; `None` if the text is not in git's format.
fn parse(config: &[u8]) -> Option<BTreeMap<Key, Values>> {
    let text = std::str::from_utf8(config).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let mut entries: BTreeMap<Key, Values> = BTreeMap::new();
    let (mut section, mut rest) = (None, text.trim_start());
    while let Some(first) = rest.chars().next() {
        if first == '#' || first == ';' {
            rest = rest.find('\n').map_or("", |at| &rest[at..]);
        } else if first == '[' {
            let (found, after) = parse_section(&rest[1..])?;
            (section, rest) = (Some(found), after);
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
            let key = rest[..end].to_ascii_lowercase();
            let after = rest[end..].trim_start_matches([' ', '\t']);
            let (value, after) = match after.strip_prefix('=') {
                Some(value) => parse_value(value).map(|(value, after)| (Some(value), after))?,
                None if after.is_empty() || after.starts_with(['\n', '#', ';']) => (None, after),
                None => return None,
            };
            let (name, sub) = section.clone().filter(|_| !key.is_empty())?;
            entries.entry((name, sub, key)).or_default().push(value);
            rest = after;
        }
        rest = rest.trim_start();
    }
    Some(entries)
}

/// Parses `branch "main"]`, and returns the text after it.
fn parse_section(text: &str) -> Option<((String, Option<String>), &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.')?;
    let (name, rest) = (text[..end].to_ascii_lowercase(), text[end..].trim_start_matches([' ', '\t']));
    if let Some(after) = rest.strip_prefix(']') {
        // The old form `[branch.main]`.
        return Some(match name.split_once('.') {
            Some((name, sub)) => ((name.to_owned(), Some(sub.to_owned())), after),
            None => ((name, None), after),
        });
    }
    let (mut sub, mut chars) = (String::new(), rest.strip_prefix('"')?.chars());
    loop {
        match chars.next()? {
            '"' => break,
            '\n' => return None,
            '\\' => sub.push(chars.next()?),
            other => sub.push(other),
        }
    }
    Some(((name, Some(sub)), chars.as_str().strip_prefix(']')?))
}

/// Parses a value up to the end of its line, and returns the text after it.
fn parse_value(text: &str) -> Option<(String, &str)> {
    let (mut value, mut is_quoted, mut chars) = (String::new(), false, text.chars());
    loop {
        let rest = chars.as_str();
        match chars.next() {
            None if is_quoted => return None,
            None => break,
            Some('\n') if is_quoted => return None,
            Some('\n' | '#' | ';') if !is_quoted => {
                return Some((value.trim().to_owned(), rest.find('\n').map_or("", |at| &rest[at..])));
            }
            Some('"') => is_quoted = !is_quoted,
            Some('\\') => match chars.next()? {
                '\n' => {}
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'b' => drop(value.pop()),
                other @ ('\\' | '"') => value.push(other),
                _ => return None,
            },
            Some(other) => value.push(other),
        }
    }
    Some((value.trim().to_owned(), ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_addresses_or_programs_is_not_harmless() {
        let before = "[core]\nfsmonitor = a\n[remote \"o\"]\nurl = https://example.org\n";
        let with =
            |text: &str| is_harmless_change(before.as_bytes(), format!("{before}{text}").as_bytes(), false);
        assert!(with("[user]\nname = a\n[branch \"main\"]\nremote = o\n[remote \"p\"]\nurl = /x\n"));
        for text in
            ["[core]\nfsmonitor = b", "[alias]\na = !x", "[remote \"o\"]\nurl = https://example.com", "["]
        {
            assert!(!with(text), "{text}");
        }
        assert!(is_harmless_change(before.as_bytes(), b"", false));
        let moved = before.replace("org", "com");
        assert!(is_harmless_change(before.as_bytes(), moved.as_bytes(), true));
        let helper = before.replace("https", "ext::https");
        assert!(!is_harmless_change(before.as_bytes(), helper.as_bytes(), true));
    }

    #[test]
    fn programs_in_settings_are_found() {
        let harmless = "\u{feff}[core]\n\trepositoryformatversion = 0\n\tfilemode = true # x\n[remote \"o]r\\\"igin\"]\n\
            url = git@example.org:a/b.git\r\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[user] name = \"A; \\\"B\\\"\" ; c\n\
            [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[submodule \"x\"]\n\tactive\n\turl = https://[::1]/x\n";
        assert_eq!(unsafe_settings(harmless.as_bytes()), Vec::<String>::new());
        for (config, keys) in [
            ("[core] fsmonitor = ./x", &["core.fsmonitor"][..]),
            ("[CORE]\nhooks\\\nPath = x", &["a line that cannot be parsed"]),
            ("[core]\n  HooksPath = x\n[user]name=a\n[alias]\nst=!x", &["alias.st", "core.hookspath"]),
            ("[user]\nname = a\\\n[core]\nfsmonitor = x", &["user.fsmonitor"]),
            ("[user]\nname = \"a # \"\n[core]\nfsmonitor = x", &["core.fsmonitor"]),
            ("# a \\\n[core]\nsshCommand", &["core.sshcommand"]),
            ("[diff.x]\ntextconv = x", &["diff.x.textconv"]),
            ("[merge \"x\"]\nff = x", &["merge.x.ff"]),
            ("[remote \"a\"]\nurl = ext::sh -c x\nuploadpack = x", &["remote.a.uploadpack", "remote.a.url"]),
            ("[include]\npath = x", &["include.path"]),
            ("[submodule \"x\"]\nupdate = !x", &["submodule.x.update"]),
            ("[submodule \"x\"]\nupdate = none", &[]),
            ("[core]\nfsmonitor", &[]),
            ("[core]\nfsmonitor = false\\\n/x", &["core.fsmonitor"]),
            ("[core]\nfsmonitor = \"\"./x", &["core.fsmonitor"]),
            ("[core]\nbare = false # a \\\nfsmonitor = ./x", &["core.fsmonitor"]),
            ("[a] [core] fsmonitor = ./x", &["core.fsmonitor"]),
            ("[pager]\nlog = off\nshow = x", &["pager.show"]),
            ("[alias]\nco = checkout", &[]),
            ("[alias]\nst = submodule foreach ls", &["alias.st"]),
            ("[alias]\nst = fetch --upload-pack=x", &["alias.st"]),
            ("[alias]\nst = fetch '--upload-pack=x'", &["alias.st"]),
            ("[branch \"x\"]\nremote = ext::x", &["branch.x.remote"]),
            ("[credential]\nhelper = store --file=x", &["credential.helper"]),
            ("[core]\ngitProxy = x", &["core.gitproxy"]),
            ("[diff]\nexternal = x", &["diff.external"]),
            ("[filter \"a\"]\nclean = x", &["filter.a.clean"]),
            ("[merge \"a\"]\ndriver = x", &["merge.a.driver"]),
            ("[gpg \"ssh\"]\nprogram = x", &["gpg.ssh.program"]),
            ("[includeIf \"gitdir:/\"]\npath = x", &["includeif.gitdir:/.path"]),
            ("[url \"ext::x\"]\ninsteadOf = a", &["url.ext::x.insteadof"]),
            ("[protocol \"ext\"]\nallow = always", &["protocol.ext.allow"]),
            ("[init]\ntemplateDir = x", &["init.templatedir"]),
            ("[hook \"a\"]\nevent = pre-push", &["hook.a.event"]),
            ("[lfs \"customtransfer.a\"]\npath = x", &["lfs.customtransfer.a.path"]),
            ("[core", &["a line that cannot be parsed"]),
            ("name = a", &["a line that cannot be parsed"]),
            ("[user]\nname = \"a\nb\"", &["a line that cannot be parsed"]),
        ] {
            assert_eq!(unsafe_settings(config.as_bytes()), keys, "{config}");
        }
        let part = harmless_part(format!("{harmless}[core]\nfsmonitor = x").as_bytes()).unwrap();
        assert_eq!(parse(&part), parse(harmless.as_bytes()));
        assert_eq!(unsafe_settings(b"[user]\nname = \xff"), ["a line that cannot be parsed"]);
    }
}
