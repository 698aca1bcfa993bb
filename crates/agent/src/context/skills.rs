//! Skills: directories with a `SKILL.md`.
//!
//! A model receives the name, purpose and path, and reads the rest when needed.

use std::collections::VecDeque;

use paths::AbsPath;

use super::{ContextReader, frontmatter};

/// The file that marks a directory as a skill.
const FILE: &str = "SKILL.md";
/// Maximum bytes of a `SKILL.md`.
const MOST: u64 = 256 << 10;
/// Maximum number of skills, of scanned directories, and scan depth.
const MOST_SKILLS: usize = 100;
const MOST_DIRECTORIES: usize = 1_000;
const MOST_DEPTH: usize = 6;
/// Maximum characters of a name and of a description.
const NAME: usize = 64;
const DESCRIPTION: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Name in `/skill:NAME`.
    pub name: String,
    /// Purpose, in one line.
    pub description: String,
    pub path: AbsPath,
    /// The text after the frontmatter.
    pub body: String,
    /// Whether a model receives it; otherwise only the user can call it.
    pub offered: bool,
}

impl ContextReader<'_> {
    /// All skills: the user's, then the project's, the nearest first.
    pub(super) fn skills(&mut self) -> Vec<Skill> {
        let sources = self.sources;
        let mut roots: Vec<AbsPath> = sources.user.iter().map(|directory| directory.join("skills")).collect();
        roots.extend(sources.shared_skills.clone());
        let own = sources.root.join(".pilcrow/skills");
        let below = |directory: &AbsPath| directory.starts_with(&sources.root);
        let near = sources.cwd.as_path().ancestors().filter_map(AbsPath::new).take_while(below);
        let projects: Vec<AbsPath> =
            std::iter::once(own).chain(near.map(|it| it.join(".agents/skills"))).collect();
        if sources.trusted {
            roots.extend(projects);
        } else {
            for directory in projects {
                self.stamps.add(&directory);
                if directory.as_path().is_dir() {
                    self.note(format!(
                        "ignored {directory}: the workspace is not trusted; run `pilcrow trust`"
                    ));
                }
            }
        }
        let mut skills: Vec<Skill> = Vec::new();
        for path in roots.iter().flat_map(|root| self.skill_files(root)).collect::<Vec<_>>() {
            let Some(skill) = self.skill(&path) else { continue };
            match skills.iter().find(|other| other.name == skill.name) {
                Some(first) if first.path == skill.path => {}
                Some(first) => {
                    let (name, first) = (&skill.name, &first.path);
                    self.note(format!("{path}: ignored the skill {name}; {first} has the same name"));
                }
                None if skills.len() == MOST_SKILLS => {
                    self.note(format!("ignored {path}: there are more than {MOST_SKILLS} skills"));
                }
                None => skills.push(skill),
            }
        }
        skills.sort_by(|a, b| a.name.cmp(&b.name));
        skills
    }

    /// The `SKILL.md` files below a directory, in order; skills are not nested.
    fn skill_files(&mut self, root: &AbsPath) -> Vec<AbsPath> {
        let mut found = Vec::new();
        let mut open = VecDeque::from([(root.clone(), 0)]);
        let mut seen = 0;
        while let Some((directory, depth)) = open.pop_front() {
            self.stamps.add(&directory);
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            seen += 1;
            if seen > MOST_DIRECTORIES {
                self.note(format!(
                    "{root}: scanned only the first {MOST_DIRECTORIES} directories for skills"
                ));
                break;
            }
            let file = directory.join(FILE);
            self.stamps.add(&file);
            if file.as_path().is_file() {
                found.push(file);
                continue;
            }
            let mut names: Vec<String> = entries
                .filter_map(Result::ok)
                // The scan follows links, since users keep skills elsewhere; the limits end cycles.
                .filter(|entry| entry.path().is_dir())
                .filter_map(|entry| entry.file_name().into_string().ok())
                .filter(|name| !name.starts_with('.') && name != "node_modules")
                .collect();
            names.sort();
            if depth < MOST_DEPTH {
                open.extend(names.iter().map(|name| (directory.join(name), depth + 1)));
            }
        }
        found
    }

    fn skill(&mut self, path: &AbsPath) -> Option<Skill> {
        let read = match self.text(path, MOST)? {
            Ok(text) if text.cut => Err(format!("{path} has more than {MOST} bytes; shorten it")),
            Ok(text) => parse(path, &text.text),
            Err(why) => Err(format!("{path} cannot be read: {why}")),
        };
        match read {
            Ok(skill) => Some(skill),
            Err(why) => {
                let old = self.old.and_then(|old| old.skills.iter().find(|it| it.path == *path).cloned());
                let becomes =
                    if old.is_some() { "the previous version of the skill is still used" } else { "ignored" };
                self.note(format!("{why}; {becomes}"));
                old
            }
        }
    }
}

fn parse(path: &AbsPath, text: &str) -> Result<Skill, String> {
    let matter = frontmatter::parse(text).map_err(|(line, why)| format!("{path}:{line}: {why}"))?;
    let name = matter.get("name").unwrap_or_default().trim();
    let fits = !name.is_empty()
        && name.len() <= NAME
        && name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if !fits {
        return Err(format!(
            "{path}: `name` must be 1 to {NAME} of a-z, 0-9 and single inner hyphens, not {name:?}"
        ));
    }
    let description = matter.get("description").unwrap_or_default();
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    if description.is_empty() || description.chars().count() > DESCRIPTION {
        return Err(format!("{path}: `description` must have 1 to {DESCRIPTION} characters"));
    }
    Ok(Skill {
        name: name.to_owned(),
        description,
        path: path.clone(),
        body: matter.body.trim().to_owned(),
        offered: matter.get("disable-model-invocation").is_none_or(|value| value.trim() != "true"),
    })
}
