//! What a model is told besides the conversation: the instructions, the context files of the person and the project, and the skills
//! and templates that there are. Read from the disk whole, as one value; what is read when is decided elsewhere.
//!
//! A project's own files count only where the person trusts it: what stands in them is followed, not only read. Everything is bounded,
//! and what was cut or left out is said.

mod files;
mod frontmatter;
mod prompt;
mod skills;
mod stamp;
mod templates;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they need")]
mod tests;

use std::sync::Arc;

use workspace::AbsPath;

pub use files::ContextFile;
pub use prompt::ExpandError;
pub use skills::Skill;
pub use stamp::Stamps;
pub use templates::Template;

/// Where things are looked for.
#[derive(Clone)]
pub struct ContextSources {
    /// The person's folder: `AGENTS.md`, `SYSTEM.md`, `APPEND_SYSTEM.md`, `skills/`, `prompts/`.
    pub person: Option<AbsPath>,
    /// The folder of an agent that was asked for by name; its `SYSTEM.md` and `APPEND_SYSTEM.md` come before all others.
    pub agent: Option<AbsPath>,
    /// A folder of skills that other programs of the person share (`~/.agents/skills`).
    pub shared_skills: Option<AbsPath>,
    /// The workspace, canonical.
    pub root: AbsPath,
    /// The working directory; the root where it is not below it.
    pub cwd: AbsPath,
    /// Whether what is in the workspace may be followed.
    pub trusted: bool,
    /// Whether a model may be told what a file of the workspace says; asked with canonical paths.
    pub may_read: Arc<dyn Fn(&AbsPath) -> bool + Send + Sync>,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    /// `SYSTEM.md`, in place of the instructions that come with the program.
    pub system: Option<ContextFile>,
    /// `resources/` of the agent that was asked for by name, which its `SYSTEM.md` names files of.
    pub resources: Option<AbsPath>,
    /// `APPEND_SYSTEM.md`, after them.
    pub append: Option<ContextFile>,
    /// `AGENTS.md` and its like, the person's first, the nearest last.
    pub files: Vec<ContextFile>,
    /// By name; of two of one name the first that was found.
    pub skills: Vec<Skill>,
    /// The same.
    pub templates: Vec<Template>,
    /// What was cut, left out or cannot be read, and where, for people.
    pub notes: Vec<String>,
}

impl Context {
    /// Reads everything; blocks. What cannot be read any more stays as it was in `old`, with a note. The stamps tell later whether
    /// anything has changed since.
    pub fn load(sources: &ContextSources, old: Option<&Context>) -> (Context, Stamps) {
        let mut look = Look { sources, old, stamps: Stamps::default(), notes: Vec::new() };
        let (system, append) = (look.instructions("SYSTEM.md"), look.instructions("APPEND_SYSTEM.md"));
        let files = look.context_files();
        let skills = look.skills();
        let templates = look.templates();
        let agent = sources.agent.as_ref().filter(|agent| {
            system.as_ref().is_some_and(|system: &ContextFile| system.path.starts_with(agent))
        });
        let resources = agent.map(|agent| agent.join("resources"));
        if let Some(folder) = &resources {
            look.stamps.add(folder);
        }
        let resources = resources.filter(|folder| folder.as_path().is_dir());
        let context = Context { system, resources, append, files, skills, templates, notes: look.notes };
        (context, look.stamps)
    }
}

/// A reading that is going on.
struct Look<'a> {
    sources: &'a ContextSources,
    old: Option<&'a Context>,
    stamps: Stamps,
    notes: Vec<String>,
}

impl Look<'_> {
    /// The text of a file that may not be there. `Err` says why one that is there cannot be read.
    fn text(&mut self, path: &AbsPath, most: u64) -> Option<Result<Text, String>> {
        self.stamps.add(path);
        let meta = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some(self.read(path, meta.len(), most))
    }

    fn read(&self, path: &AbsPath, size: u64, most: u64) -> Result<Text, String> {
        use std::io::Read as _;
        if let Ok(real) = path.as_path().canonicalize()
            && let Some(real) = AbsPath::new(real)
        {
            let in_workspace = path.starts_with(&self.sources.root);
            let allowed = match in_workspace {
                true => real.starts_with(&self.sources.root) && (self.sources.may_read)(&real),
                false => true,
            };
            if !allowed {
                return Err(format!("it leads to {real}, which a model is not shown unasked"));
            }
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
        // One more than is kept tells whether something is cut.
        file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let cut = bytes.len() as u64 > most;
        bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            // The cut may go through a character.
            Err(error) if cut && error.error_len().is_none() => {
                std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(error) => {
                let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
                return Err(format!("line {line} is not UTF-8"));
            }
        };
        let text = match text.rfind('\n') {
            Some(end) if cut => &text[..=end],
            _ => text,
        };
        Ok(Text { text: text.to_owned(), size, cut })
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// What was read of a file.
struct Text {
    text: String,
    /// Bytes of the whole.
    size: u64,
    cut: bool,
}
