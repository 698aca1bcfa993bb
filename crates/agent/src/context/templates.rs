//! Prompt templates: Markdown files that expand `/NAME arguments` to a prompt.

use std::sync::LazyLock;

use paths::AbsPath;
use regex::{Captures, Regex};

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
                self.note(format!("ignored {project}: the workspace is not trusted; run `pilcrow trust`"));
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
            Ok(text) if text.cut => Err(format!("{path} has more than {MOST} bytes; shorten it")),
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
        let expand = |place: &Captures<'_>| {
            let number = |name: &str| Some(place.name(name)?.as_str().parse::<usize>().unwrap_or(usize::MAX));
            let one = number("one").or(number("bare"));
            let first = one.or(number("from")).map_or(0, |number| number - 1).min(words.len());
            let count = one.map(|_| 1).or(number("count")).unwrap_or(usize::MAX);
            let chosen = words[first..first.saturating_add(count).min(words.len())].join(" ");
            let default = place.name("default").filter(|_| chosen.is_empty());
            default.map_or(chosen, |default| default.as_str().to_owned())
        };
        PLACE.replace_all(&self.body, expand).into_owned()
    }
}

static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    let braced = r"\{(?:(?:@|ARGUMENTS|(?<one>[1-9]\d*))(?::-(?<default>[^}]*))?|@:(?<from>[1-9]\d*)(?::(?<count>\d+))?)\}";
    Regex::new(&format!(r"\$(?:{braced}|@|ARGUMENTS\b|(?<bare>[1-9]\d*))")).expect("the pattern is valid")
});

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
