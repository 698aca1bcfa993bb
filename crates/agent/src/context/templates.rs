//! Prompt templates: Markdown files that expand `/NAME arguments` to a prompt.

use std::ops::Range;

use paths::AbsPath;

use super::{ContextReader, frontmatter};

/// Maximum bytes of a template, and templates in a directory.
const MOST: u64 = 64 << 10;
const MOST_TEMPLATES: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The file name without `.md`.
    pub name: String,
    pub description: String,
    pub argument_hint: String,
    pub path: AbsPath,
    /// The text with placeholders for the arguments.
    pub body: String,
}

impl ContextReader<'_> {
    /// All templates: the user's, then the project's.
    pub(super) fn templates(&mut self) -> Vec<Template> {
        let sources = self.sources;
        let project = sources.root.join(".pilcrow/prompts");
        let mut directories: Vec<AbsPath> =
            sources.user.iter().map(|directory| directory.join("prompts")).collect();
        if sources.trusted {
            directories.push(project);
        } else {
            self.stamps.add(&project);
            if project.as_path().is_dir() {
                self.note(format!("ignored {project}: the workspace is not trusted (`pilcrow trust`)"));
            }
        }
        let mut templates: Vec<Template> = Vec::new();
        for directory in directories {
            self.stamps.add(&directory);
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            let mut names: Vec<String> = entries
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| name.ends_with(".md") && !name.starts_with('.'))
                .collect();
            names.sort();
            if names.len() > MOST_TEMPLATES {
                names.truncate(MOST_TEMPLATES);
                self.note(format!("{directory}: read only the first {MOST_TEMPLATES} templates"));
            }
            for name in names {
                let Some(template) = self.template(&directory.join(&name), name.trim_end_matches(".md"))
                else {
                    continue;
                };
                match templates.iter().find(|other| other.name == template.name) {
                    Some(first) => {
                        let (path, first) = (&template.path, &first.path);
                        self.note(format!("ignored {path}: {first} has the same name"));
                    }
                    None => templates.push(template),
                }
            }
        }
        templates.sort_by(|a, b| a.name.cmp(&b.name));
        templates
    }

    fn template(&mut self, path: &AbsPath, name: &str) -> Option<Template> {
        let read = match self.text(path, MOST)? {
            Ok(text) if text.cut => Err(format!("{path} has more than {MOST} bytes")),
            Ok(text) => parse(path, name, &text.text),
            Err(why) => Err(format!("{path} cannot be read: {why}")),
        };
        match read {
            Ok(template) => Some(template),
            Err(why) => {
                let old = self.old.and_then(|old| old.templates.iter().find(|it| it.path == *path).cloned());
                let becomes = if old.is_some() {
                    "the previous version of the template is still used"
                } else {
                    "ignored"
                };
                self.note(format!("{why}; {becomes}"));
                old
            }
        }
    }
}

fn parse(path: &AbsPath, name: &str, text: &str) -> Result<Template, String> {
    if name.is_empty() || name.contains(|it: char| it.is_whitespace() || it == '/' || it == ':') {
        return Err(format!("{path}: a template's name must not contain whitespace, a slash or a colon"));
    }
    if super::prompt::RESERVED.contains(&name) {
        return Err(format!("{path}: /{name} is a command of Pilcrow; rename the template"));
    }
    let matter = frontmatter::parse(text).map_err(|(line, why)| format!("{path}:{line}: {why}"))?;
    let field = |name: &str| matter.get(name).unwrap_or_default().trim().to_owned();
    Ok(Template {
        name: name.to_owned(),
        description: field("description"),
        argument_hint: field("argument-hint"),
        path: path.clone(),
        body: matter.body.trim().to_owned(),
    })
}

impl Template {
    /// Expands the template with these arguments.
    ///
    /// Placeholders are `$1`, `$@` or `$ARGUMENTS` (all), `${1:-default}`, `${@:-default}`, `${@:2}` (from
    /// the second) and `${@:2:3}` (three from the second). Any other `$` stays. Arguments are inserted
    /// verbatim.
    pub fn fill(&self, arguments: &str) -> String {
        let words = words(arguments);
        let mut out = String::with_capacity(self.body.len() + arguments.len());
        let mut rest = self.body.as_str();
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let (place, length) = match place(&rest[at..]) {
                Some(found) => found,
                None => {
                    out.push('$');
                    rest = &rest[at + 1..];
                    continue;
                }
            };
            let chosen = words.get(place.words(words.len())).unwrap_or_default().join(" ");
            out.push_str(if chosen.is_empty() { place.default } else { &chosen });
            rest = &rest[at + length..];
        }
        out + rest
    }
}

/// A placeholder for arguments.
struct Placeholder<'a> {
    /// The first word, from 0, and the number of words; `None` for all that follow.
    first: usize,
    count: Option<usize>,
    default: &'a str,
}

impl Placeholder<'_> {
    fn words(&self, there: usize) -> Range<usize> {
        let first = self.first.min(there);
        let end = self.count.map_or(there, |count| first.saturating_add(count).min(there));
        first..end
    }
}

/// The placeholder at the start of the text, and its length.
fn place(text: &str) -> Option<(Placeholder<'_>, usize)> {
    let rest = &text[1..];
    let all = Placeholder { first: 0, count: None, default: "" };
    let one = |number: &str| {
        let first = number.parse::<usize>().ok()?.checked_sub(1)?;
        Some(Placeholder { first, count: Some(1), default: "" })
    };
    if let Some(inner) = rest.strip_prefix('{') {
        let end = inner.find('}')?;
        let (what, length) = (&inner[..end], end + 3);
        if let Some((name, default)) = what.split_once(":-") {
            let place = if name == "@" || name == "ARGUMENTS" { all } else { one(name)? };
            return Some((Placeholder { default, ..place }, length));
        }
        if let Some(part) = what.strip_prefix("@:") {
            let (first, count) = match part.split_once(':') {
                Some((first, count)) => (first, Some(count.parse().ok()?)),
                None => (part, None),
            };
            return Some((Placeholder { count, ..one(first)? }, length));
        }
        let place = if what == "@" || what == "ARGUMENTS" { all } else { one(what)? };
        return Some((place, length));
    }
    if rest.starts_with('@') {
        return Some((all, 2));
    }
    if let Some(after) = rest.strip_prefix("ARGUMENTS") {
        let ends = !after.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '_');
        return ends.then_some((all, 10));
    }
    let digits = rest.len() - rest.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    Some((one(&rest[..digits])?, digits + 1))
}

/// Splits a line into words as a shell does.
///
/// An apostrophe within a word is literal, and so is a quote without its end.
pub(super) fn words(line: &str) -> Vec<String> {
    let all: Vec<char> = line.chars().collect();
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut at = 0;
    while at < all.len() {
        let it = all[at];
        at += 1;
        match it {
            _ if it.is_whitespace() => words.extend(word.take()),
            '\\' if at < all.len() => {
                word.get_or_insert_default().push(all[at]);
                at += 1;
            }
            '"' | '\'' if it == '"' || word.as_ref().is_none_or(String::is_empty) => {
                match all[at..].iter().position(|other| *other == it) {
                    Some(end) => {
                        word.get_or_insert_default().extend(&all[at..at + end]);
                        at += end + 1;
                    }
                    None => word.get_or_insert_default().push(it),
                }
            }
            _ => word.get_or_insert_default().push(it),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_by_a_shell() {
        let check = |line: &str, expected: &[&str]| assert_eq!(words(line), expected, "{line}");
        check("  a  b ", &["a", "b"]);
        check("'a b' \"c  d\" e\\ f", &["a b", "c  d", "e f"]);
        check("don't do 'that thing'", &["don't", "do", "that thing"]);
        check("it's \"open", &["it's", "\"open"]);
        check("'' x", &["", "x"]);
        check("", &[]);
    }

    #[test]
    fn arguments_replace_their_placeholders() {
        let check = |body: &str, arguments: &str, expected: &str| {
            let path = AbsPath::new("/t.md").unwrap();
            let template = Template {
                name: "t".to_owned(),
                description: String::new(),
                argument_hint: String::new(),
                path,
                body: body.to_owned(),
            };
            assert_eq!(template.fill(arguments), expected, "{body} with {arguments}");
        };
        check("fix $1 in $2", "a 'b c'", "fix a in b c");
        check("$1-$2.", "a", "a-.");
        check("$@|$ARGUMENTS", "a b", "a b|a b");
        check("${1:-x} ${2:-y z}", "a", "a y z");
        check("${@:-none}", "", "none");
        check("${@:2} ${@:2:1} ${@:9}!", "a b c", "b c b !");
        check("$10 $0 $x ${x} $ 5$", "a b c d e f g h i j", "j $0 $x ${x} $ 5$");
        check("$1", "$2 x", "$2");
        check("$ARGUMENTS_X", "a", "$ARGUMENTS_X");
    }
}
