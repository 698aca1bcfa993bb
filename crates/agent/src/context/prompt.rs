//! Rendering of the context: instructions, and expansion of `/` prompts.
//!
//! The module is pure.

use std::fmt::Write as _;

use super::{Context, ContextFile};
use crate::suggestion::nearest;

/// Names reserved for commands of surfaces.
pub(super) const RESERVED: [&str; 1] = ["compact"];

/// The reason why a `/` prompt cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    #[error("there is no skill {name:?}{}", nearest.as_ref().map(|it| format!("; the nearest is {it}")).unwrap_or_default())]
    NoSkill {
        name: String,
        /// The closest existing skill.
        nearest: Option<String>,
    },
    /// The template expands to nothing.
    #[error("the template /{name} expands to nothing; add text to it")]
    Empty { name: String },
}

impl Context {
    /// The instructions of every request; `built_in` come with the program.
    pub fn instructions(&self, built_in: &str) -> String {
        let mut out = self.system.as_ref().map_or(built_in, |file| &file.text).trim().to_owned();
        if let Some(resources) = &self.resources {
            // Writing to a String cannot fail.
            write!(out, "\n\nPaths above that begin with resources/ are in {resources}: read them there.")
                .ok();
        }
        if let Some(append) = &self.append {
            out.push_str("\n\n");
            out.push_str(append.text.trim());
        }
        if !self.files.is_empty() {
            out.push_str(
                "\n\nThe following files contain the user's and the project's instructions. Follow them; a later file takes precedence over \
                 an earlier one, and the user's request over all of them.",
            );
            self.files.iter().for_each(|file| file_part(&mut out, file));
        }
        let mut offered = self.skills.iter().filter(|skill| skill.offered).peekable();
        if offered.peek().is_some() {
            out.push_str(
                "\n\nSkills: instructions for certain tasks. Before a task that one is for, read its file; paths in it are relative to its directory.\n<skills>",
            );
            for skill in offered {
                let (name, path) = (&skill.name, &skill.path);
                let description = plain(&skill.description);
                write!(out, "\n- {name}: {description} ({path})").ok();
            }
            out.push_str("\n</skills>");
        }
        out
    }

    /// Returns the parts of the instructions for display: name and text.
    pub fn parts(&self, built_in: &str) -> Vec<(String, String)> {
        let mut parts = Vec::new();
        let name = |file: &ContextFile| file.path.to_string();
        parts.push(match &self.system {
            Some(file) => (name(file), file.text.trim().to_owned()),
            None => ("instructions".to_owned(), built_in.trim().to_owned()),
        });
        parts.extend(
            self.append.iter().chain(&self.files).map(|file| (name(file), file.text.trim().to_owned())),
        );
        let mut rest = self.instructions(built_in);
        for (_, text) in parts.iter().filter(|(_, text)| !text.is_empty()) {
            if let Some(at) = rest.find(text.as_str()) {
                rest.replace_range(at..at + text.len(), "");
            }
        }
        if !rest.is_empty() {
            parts.push(("skills and markers".to_owned(), rest));
        }
        parts
    }

    /// Expands `/skill:NAME words` and `/NAME arguments`.
    ///
    /// `None` for a prompt that is neither. `Err` for an unknown skill, and for a template that expands to
    /// nothing.
    pub fn expand(&self, prompt: &str) -> Result<Option<String>, ExpandError> {
        let Some(command) = prompt.trim_start().strip_prefix('/') else { return Ok(None) };
        let end = command.find(char::is_whitespace).unwrap_or(command.len());
        let (name, arguments) = (&command[..end], command[end..].trim());
        if let Some(name) = name.strip_prefix("skill:") {
            let Some(skill) = self.skills.iter().find(|skill| skill.name == name) else {
                let known = self.skills.iter().map(|skill| skill.name.as_str());
                let nearest = nearest(name, known).map(str::to_owned);
                return Err(ExpandError::NoSkill { name: name.to_owned(), nearest });
            };
            let directory = skill.path.parent().unwrap_or_else(|| skill.path.clone());
            let (path, body) = (&skill.path, closed(&skill.body, "skill"));
            let mut text = format!(
                "<skill name=\"{name}\" path=\"{}\">\nPaths here are relative to {directory}.\n\n{body}\n</skill>",
                attribute(&path.to_string())
            );
            if !arguments.is_empty() {
                text.push_str("\n\n");
                text.push_str(arguments);
            }
            return Ok(Some(text));
        }
        // A path is not a template: `/usr/bin is full`.
        let template = self.templates.iter().find(|template| template.name == name);
        match template.map(|template| template.fill(arguments)) {
            Some(text) if text.trim().is_empty() => Err(ExpandError::Empty { name: name.to_owned() }),
            filled => Ok(filled),
        }
    }
}

fn file_part(out: &mut String, file: &ContextFile) {
    let ContextFile { path, text, size, cut } = file;
    let cut =
        if *cut { format!("\n(This is the beginning; the file has {size} bytes.)") } else { String::new() };
    let text = closed(text.trim(), "instructions");
    let path = attribute(&path.to_string());
    write!(out, "\n\n<instructions path=\"{path}\">\n{text}{cut}\n</instructions>").ok();
}

/// The text with closing tags of `element` escaped.
fn closed(text: &str, element: &str) -> String {
    text.replace(&format!("</{element}"), &format!("<\\/{element}"))
}

/// The text with markup characters replaced.
fn plain(text: &str) -> String {
    text.replace('<', "‹").replace('>', "›")
}

fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace(['\n', '\r'], " ")
}
