//! Settings of a git repository that may run programs or lead git elsewhere.
//!
//! New versions of git have new settings, so a list names the harmless ones.

use std::collections::BTreeMap;

/// Sections with harmless keys; without keys, all of them.
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
    ("lfs", &["repositoryformatversion"]),
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
const NAMED: [&str; 4] = ["branch", "color", "remote", "submodule"];

/// The keys of `config` that are not known to be harmless, in order.
///
/// A text that this parser does not understand is one of them.
pub(super) fn unsafe_keys(config: &[u8]) -> Vec<String> {
    match parse(config) {
        Some(entries) => unsafe_keys_of(&entries),
        None => vec!["a line that cannot be parsed".to_owned()],
    }
}

fn unsafe_keys_of(entries: &BTreeMap<Key, Values>) -> Vec<String> {
    let unsafe_entries = entries.iter().filter(|((section, name, key), values)| {
        let keys = HARMLESS.iter().find(|(known, _)| known == section).map(|(_, keys)| *keys);
        let is_known = keys.is_some_and(|keys| keys.is_empty() || keys.contains(&key.as_str()));
        let has_name = name.as_ref().is_none_or(|_| NAMED.contains(&section.as_str()));
        !is_known
            || !has_name
            || key.ends_with("url") && values.iter().flatten().any(|value| names_helper(value))
    });
    let render = |(section, name, key): &Key| match name {
        Some(name) => format!("{section}.{name}.{key}"),
        None => format!("{section}.{key}"),
    };
    unsafe_entries.map(|(key, _)| render(key)).collect()
}

/// The harmless entries of `config`; `None` if it cannot be parsed.
pub(super) fn harmless_part(config: &[u8]) -> Option<Vec<u8>> {
    let mut text = String::new();
    for (key, values) in parse(config)? {
        if unsafe_keys_of(&BTreeMap::from([(key.clone(), values.clone())])).is_empty() {
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

/// Whether a change leaves all addresses and unsafe keys as they are.
pub(super) fn is_harmless_change(before: &[u8], after: &[u8]) -> bool {
    let (Some(old), Some(new)) = (parse(before), parse(after)) else { return false };
    let allowed = unsafe_keys(before);
    let changed = new.iter().filter(|(key, values)| old.get(*key) != Some(*values));
    let is_address = |(section, _, key): &Key| section == "remote" && key.ends_with("url");
    unsafe_keys(after).iter().all(|key| allowed.contains(key))
        && changed.map(|(key, _)| key).all(|key| {
            let is_known = unsafe_keys_of(&BTreeMap::from([(key.clone(), new[key].clone())])).is_empty();
            is_known && !(is_address(key) && old.contains_key(key))
        })
}

/// Values of a key in order; `None` without `=`.
type Values = Vec<Option<String>>;

/// Section, name of the section, and key. The name alone is case-sensitive.
type Key = (String, Option<String>, String);

/// Whether an address names a program that fetches from it (`ext::sh -c …`).
fn names_helper(address: &str) -> bool {
    let scheme = address.split_once("::").map(|(scheme, _)| scheme);
    let is_scheme = |it: &str| it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    address.starts_with('-') || scheme.is_some_and(is_scheme)
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
        let with = |text: &str| is_harmless_change(before.as_bytes(), format!("{before}{text}").as_bytes());
        assert!(with("[user]\nname = a\n[branch \"main\"]\nremote = o\n[remote \"p\"]\nurl = /x\n"));
        for text in
            ["[core]\nfsmonitor = b", "[alias]\na = !x", "[remote \"o\"]\nurl = https://example.com", "["]
        {
            assert!(!with(text), "{text}");
        }
        assert!(is_harmless_change(before.as_bytes(), b""));
    }

    #[test]
    fn programs_in_settings_are_found() {
        let harmless = "\u{feff}[core]\n\trepositoryformatversion = 0\n\tfilemode = true # x\n[remote \"o]r\\\"igin\"]\n\
            url = git@example.org:a/b.git\r\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[user] name = \"A; \\\"B\\\"\" ; c\n\
            [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[submodule \"x\"]\n\tactive\n\turl = https://[::1]/x\n";
        assert_eq!(unsafe_keys(harmless.as_bytes()), Vec::<String>::new());
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
            ("[core", &["a line that cannot be parsed"]),
            ("name = a", &["a line that cannot be parsed"]),
            ("[user]\nname = \"a\nb\"", &["a line that cannot be parsed"]),
        ] {
            assert_eq!(unsafe_keys(config.as_bytes()), keys, "{config}");
        }
        let part = harmless_part(format!("{harmless}[core]\nfsmonitor = x").as_bytes()).unwrap();
        assert_eq!(parse(&part), parse(harmless.as_bytes()));
        assert_eq!(unsafe_keys(b"[user]\nname = \xff"), ["a line that cannot be parsed"]);
    }
}
