//! Skills: folders with a `SKILL.md`, of which a model is told name, purpose and place, and reads the rest when it needs it.

use std::collections::VecDeque;

use workspace::AbsPath;

use super::{Look, frontmatter};

/// The file that makes a folder a skill.
const FILE: &str = "SKILL.md";
/// Bytes of it that are read.
const MOST: u64 = 256 << 10;
/// Skills, folders that are looked into for them, and how deep.
const MOST_SKILLS: usize = 100;
const MOST_FOLDERS: usize = 1_000;
const MOST_DEPTH: usize = 6;
/// Characters of a name and of a description.
const NAME: usize = 64;
const DESCRIPTION: usize = 1_024;

/// One skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What it is called by: `/skill:NAME`.
    pub name: String,
    /// What it is for, in one line.
    pub description: String,
    /// Its `SKILL.md`.
    pub path: AbsPath,
    /// What stands there, after the frontmatter.
    pub body: String,
    /// Whether a model is told of it; else only the person calls it.
    pub offered: bool,
}

impl Look<'_> {
    /// Every skill: the person's, then the project's, the nearest first.
    pub(super) fn skills(&mut self) -> Vec<Skill> {
        let sources = self.sources;
        let mut roots: Vec<AbsPath> = sources.person.iter().map(|folder| folder.join("skills")).collect();
        roots.extend(sources.shared_skills.clone());
        let own = sources.root.join(".pilcrow/skills");
        let below = |folder: &AbsPath| folder.starts_with(&sources.root);
        let near = sources.cwd.as_path().ancestors().filter_map(AbsPath::new).take_while(below);
        let projects: Vec<AbsPath> =
            std::iter::once(own).chain(near.map(|it| it.join(".agents/skills"))).collect();
        if sources.trusted {
            roots.extend(projects);
        } else {
            for folder in projects {
                self.stamps.add(&folder);
                if folder.as_path().is_dir() {
                    self.note(format!(
                        "{folder} is not looked into: the workspace is not trusted (`pilcrow trust`)"
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
                    self.note(format!(
                        "{path}: the skill {name} is left out, since {first} has the same name"
                    ));
                }
                None if skills.len() == MOST_SKILLS => {
                    self.note(format!("{path} is left out: there are more than {MOST_SKILLS} skills"));
                }
                None => skills.push(skill),
            }
        }
        skills.sort_by(|a, b| a.name.cmp(&b.name));
        skills
    }

    /// The `SKILL.md` files below a folder, in order; a skill's own folders are not looked into.
    fn skill_files(&mut self, root: &AbsPath) -> Vec<AbsPath> {
        let mut found = Vec::new();
        let mut open = VecDeque::from([(root.clone(), 0)]);
        let mut seen = 0;
        while let Some((folder, depth)) = open.pop_front() {
            self.stamps.add(&folder);
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            seen += 1;
            if seen > MOST_FOLDERS {
                self.note(format!(
                    "{root}: not all is looked into, since there are more than {MOST_FOLDERS} folders"
                ));
                break;
            }
            let file = folder.join(FILE);
            self.stamps.add(&file);
            if file.as_path().is_file() {
                found.push(file);
                continue;
            }
            let mut names: Vec<String> = entries
                .filter_map(Result::ok)
                // Links too: people keep their skills elsewhere. What goes round in circles ends at the bounds.
                .filter(|entry| entry.path().is_dir())
                .filter_map(|entry| entry.file_name().into_string().ok())
                .filter(|name| !name.starts_with('.') && name != "node_modules")
                .collect();
            names.sort();
            if depth < MOST_DEPTH {
                open.extend(names.iter().map(|name| (folder.join(name), depth + 1)));
            }
        }
        found
    }

    fn skill(&mut self, path: &AbsPath) -> Option<Skill> {
        let read = match self.text(path, MOST)? {
            Ok(text) if text.cut => Err(format!("{path} has more than {MOST} bytes")),
            Ok(text) => parse(path, &text.text),
            Err(why) => Err(format!("{path} cannot be read: {why}")),
        };
        match read {
            Ok(skill) => Some(skill),
            Err(why) => {
                let old = self.old.and_then(|old| old.skills.iter().find(|it| it.path == *path).cloned());
                let becomes = if old.is_some() { "the skill stays as it was" } else { "it is no skill" };
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
