//! The context apart from the conversation: instructions, files, skills, templates.
//!
//! One read collects all of it from the disk, as one value; the caller decides when. Files of the project
//! count only if the user trusts it, since a model follows them. Sizes are bounded, and notes report
//! everything cut or left out.

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

use paths::AbsPath;

pub use files::ContextFile;
pub use prompt::ExpandError;
pub use skills::Skill;
pub use stamp::Stamps;
pub use templates::Template;

/// Directories from which context is read.
#[derive(Clone)]
pub struct ContextSources {
    /// The user's directory of instruction files, skills and prompts.
    ///
    /// It may have `AGENTS.md`, `SYSTEM.md`, `APPEND_SYSTEM.md`, `skills/` and `prompts/`.
    pub user: Option<AbsPath>,
    /// Directory of the agent that was requested by name.
    ///
    /// Its `SYSTEM.md` and `APPEND_SYSTEM.md` take precedence.
    pub agent: Option<AbsPath>,
    /// Directory of skills shared with other programs (`~/.agents/skills`).
    pub shared_skills: Option<AbsPath>,
    pub root: AbsPath,
    /// The working directory; the root if it is not below the root.
    pub cwd: AbsPath,
    /// Whether the model may follow files of the workspace.
    pub trusted: bool,
    /// Whether a file of the workspace may be shown to a model; takes canonical paths.
    pub may_read: Arc<dyn Fn(&AbsPath) -> bool + Send + Sync>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    /// `SYSTEM.md`, which replaces the built-in instructions.
    pub system: Option<ContextFile>,
    /// `resources/` of the requested agent, which its `SYSTEM.md` refers to.
    pub resources: Option<AbsPath>,
    /// `APPEND_SYSTEM.md`, appended to the instructions.
    pub append: Option<ContextFile>,
    /// `AGENTS.md` and its equivalents, the user's first, the nearest last.
    pub files: Vec<ContextFile>,
    /// Skills by name; the first skill found under a name counts.
    pub skills: Vec<Skill>,
    pub templates: Vec<Template>,
    /// Notes for users about files that were cut, ignored or are unreadable.
    pub notes: Vec<String>,
}

impl Context {
    /// Reads all context; blocks.
    ///
    /// A file that became unreadable keeps its content from `old`, with a note. The stamps detect later
    /// changes.
    pub fn load(sources: &ContextSources, old: Option<&Context>) -> (Context, Stamps) {
        let mut reader = ContextReader { sources, old, stamps: Stamps::default(), notes: Vec::new() };
        let (system, append) = (reader.instructions("SYSTEM.md"), reader.instructions("APPEND_SYSTEM.md"));
        let files = reader.context_files();
        let skills = reader.skills();
        let templates = reader.templates();
        let agent = sources.agent.as_ref().filter(|agent| {
            system.as_ref().is_some_and(|system: &ContextFile| system.path.starts_with(agent))
        });
        let resources = agent.map(|agent| agent.join("resources"));
        if let Some(directory) = &resources {
            reader.stamps.add(directory);
        }
        let resources = resources.filter(|directory| directory.as_path().is_dir());
        let context = Context { system, resources, append, files, skills, templates, notes: reader.notes };
        (context, reader.stamps)
    }
}

/// The state of one read of the context.
struct ContextReader<'a> {
    sources: &'a ContextSources,
    old: Option<&'a Context>,
    stamps: Stamps,
    notes: Vec<String>,
}

impl ContextReader<'_> {
    /// The text of a file that may not exist; `Err` when it exists and is unreadable.
    fn text(&mut self, path: &AbsPath, most: u64) -> Option<Result<FileText, String>> {
        self.stamps.add(path);
        let meta = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some(self.read(path, meta.len(), most))
    }

    fn read(&self, path: &AbsPath, size: u64, most: u64) -> Result<FileText, String> {
        use std::io::Read as _;
        if let Ok(real) = path.as_path().canonicalize()
            && let Some(real) = AbsPath::new(real)
        {
            let in_workspace = path.starts_with(&self.sources.root);
            let allowed =
                !in_workspace || (real.starts_with(&self.sources.root) && (self.sources.may_read)(&real));
            if !allowed {
                return Err(format!(
                    "it is a link to {real}, which must not be shown to a model without asking"
                ));
            }
        }
        let mut bytes = Vec::new();
        let (file, _) = paths::open_file(path, true).map_err(|error| error.to_string())?;
        // One more byte shows whether the file is cut.
        file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let cut = bytes.len() as u64 > most;
        bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            // The cut may split a character.
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
        Ok(FileText { text: text.to_owned(), size, cut })
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Text read from a file.
struct FileText {
    text: String,
    /// Size of the whole file in bytes.
    size: u64,
    cut: bool,
}
