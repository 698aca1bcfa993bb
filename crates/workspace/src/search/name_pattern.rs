//! A name in the form that a user types: a part of it, or a glob.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::GlobError;

/// A pattern for names; case-sensitive if it has an upper-case letter.
#[derive(Debug, Clone)]
pub struct NamePattern {
    form: Form,
    directories_only: bool,
    any_case: bool,
}

#[derive(Debug, Clone)]
enum Form {
    /// A glob for the last name, or with a `/` for the relative path.
    ///
    /// The path is relative to the root or to the searched directory.
    Glob {
        glob: Box<GlobMatcher>,
        is_path: bool,
        /// The pattern as a part of a name, if only brackets make it a glob.
        part: Option<String>,
    },
    Part(String),
}

/// The quality of a match; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// The pattern is the name, or a glob that matches it.
    Exact,
    /// The pattern is the name before its first dot.
    Stem,
    Start,
    Part,
}

impl NamePattern {
    /// Parses a glob if `text` has one of `*?[{`, else a part of a name.
    ///
    /// A pattern with `/` matches paths, and must reach into the last name; one that ends in `/` matches
    /// directories. Brackets also match themselves, so that `app/[id]` finds the directory of that name.
    ///
    /// # Errors
    /// [`GlobError`].
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        let trimmed = text.trim_end_matches('/');
        let directories_only = trimmed.len() < text.len();
        let pattern = trimmed.strip_prefix("./").unwrap_or(trimmed);
        let any_case = !pattern.chars().any(char::is_uppercase);
        let part = || if any_case { pattern.to_lowercase() } else { pattern.to_owned() };
        if !pattern.contains(['*', '?', '[', '{']) {
            return Ok(Self { form: Form::Part(part()), directories_only, any_case });
        }
        let glob = GlobBuilder::new(&super::brackets::both(pattern.trim_start_matches('/')))
            .literal_separator(true)
            .backslash_escape(true)
            .case_insensitive(any_case)
            .build()
            .map_err(|error| GlobError { glob: text.to_owned(), reason: error.kind().to_string() })?
            .compile_matcher();
        let is_path = pattern.contains('/');
        let part = (!pattern.contains(['*', '?', '{', '\\'])).then(part);
        Ok(Self { form: Form::Glob { glob: Box::new(glob), is_path, part }, directories_only, any_case })
    }

    /// Rates the match of a path, if it matches.
    ///
    /// `below` is relative to the searched directory, `from_root` to the workspace's root.
    pub fn fit(&self, below: &Path, from_root: &Path, is_directory: bool) -> Option<Fit> {
        if self.directories_only && !is_directory {
            return None;
        }
        let name = below.file_name()?;
        let (is_match, part) = match &self.form {
            Form::Glob { glob, is_path: true, part } => {
                (glob.is_match(below) || glob.is_match(from_root), part.as_deref())
            }
            Form::Glob { glob, is_path: false, part } => (glob.is_match(name), part.as_deref()),
            Form::Part(part) => (false, Some(part.as_str())),
        };
        if is_match {
            return Some(Fit::Exact);
        }
        self.fit_part(part?, &name.to_string_lossy(), &from_root.to_string_lossy())
    }

    fn fit_part(&self, part: &str, name: &str, path: &str) -> Option<Fit> {
        let (name, path) = if self.any_case {
            (name.to_lowercase(), path.to_lowercase())
        } else {
            (name.to_owned(), path.to_owned())
        };
        if let Some((directories, last)) = part.rsplit_once('/') {
            // The pattern's last `/` matches the path's last.
            let parent = &path[..path.len().saturating_sub(name.len() + 1)];
            let in_directory = match directories.strip_prefix('/') {
                Some(whole) => parent == whole,
                None if part.starts_with('/') => parent.is_empty(),
                None => parent.ends_with(directories),
            };
            return if in_directory { fit_name(last, &name).filter(|fit| *fit < Fit::Part) } else { None };
        }
        fit_name(part, &name)
    }
}

fn fit_name(part: &str, name: &str) -> Option<Fit> {
    let at = name.find(part)?;
    Some(match (at, name[at + part.len()..].chars().next()) {
        (0, None) => Fit::Exact,
        (0, Some('.')) => Fit::Stem,
        (0, Some(_)) => Fit::Start,
        _ => Fit::Part,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, path: &str, expected: Option<Fit>) {
        let is_directory = path.ends_with('/');
        let path = Path::new(path.trim_end_matches('/'));
        let below = path.strip_prefix("src").unwrap_or(path);
        assert_eq!(NamePattern::parse(pattern).unwrap().fit(below, path, is_directory), expected);
    }

    #[test]
    fn a_part_of_a_name_is_found_in_every_directory() {
        check("config.rs", "src/x/config.rs", Some(Fit::Exact));
        check("config", "src/x/config.rs", Some(Fit::Stem));
        check("conf", "src/x/config.rs", Some(Fit::Start));
        check("fig", "src/x/config.rs", Some(Fit::Part));
        check("config", "src/config/x.rs", None);
        check("config", "src/config/", Some(Fit::Exact));
        check("readme", "README.md", Some(Fit::Stem));
        check("README", "readme.md", None);
        check("a b", "src/a b.txt", Some(Fit::Stem));
    }

    #[test]
    fn a_part_of_a_path_reaches_into_the_name() {
        check("x/config", "src/x/config.rs", Some(Fit::Stem));
        check("src/x/config.rs", "src/x/config.rs", Some(Fit::Exact));
        check("/src/conf", "src/config.rs", Some(Fit::Start));
        check("/x/conf", "src/x/config.rs", None);
        check("/config", "src/config.rs", None);
        check("/README", "README.md", Some(Fit::Stem));
        check("x/fig", "src/x/config.rs", None);
        check("x/config", "src/x/config/y.rs", None);
    }

    #[test]
    fn globs_and_directories_match_by_their_patterns() {
        check("*.rs", "src/x/a.rs", Some(Fit::Exact));
        check("*.RS", "src/x/a.rs", None);
        check("test_*.{py,rs}", "src/test_a.py", Some(Fit::Exact));
        check("src/**/a.rs", "src/x/a.rs", Some(Fit::Exact));
        check("x/*.rs", "src/x/a.rs", Some(Fit::Exact));
        check("*/a.rs", "src/y/x/a.rs", None);
        check("x*/", "src/xy/", Some(Fit::Exact));
        check("x*/", "src/xy", None);
        check("x/", "src/x/", Some(Fit::Exact));
        // Next.js gives directories names with brackets.
        check("app/[id]/page.tsx", "app/[id]/page.tsx", Some(Fit::Exact));
        check("app/[id]", "app/[id]/", Some(Fit::Exact));
        check("[user-id]", "app/[user-id]/", Some(Fit::Exact));
        check("[id].tsx", "app/[id].tsx", Some(Fit::Exact));
        check("[id]", "app/[id].tsx", Some(Fit::Stem));
        check("[[...slug]]/*", "app/[[...slug]]/page.tsx", None);
        check("**/[[...slug]]/*.{ts,tsx}", "app/[[...slug]]/page.tsx", Some(Fit::Exact));
        check("[[...slug]]", "app/[[...slug]]/", Some(Fit::Exact));
        check("{[id],x}*", "app/[id].tsx", Some(Fit::Exact));
        check("[A-C].rs", "src/B.rs", Some(Fit::Exact));
        check("[!a].rs", "src/a.rs", None);
        check("[!a].rs", "src/b.rs", Some(Fit::Exact));
        check(r"\[id\]", "src/[id]/", Some(Fit::Exact));
        check(r"\[id\]", "src/i/", None);
        expect_test::expect![[r#"`{a` is not a glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?); use *, **, ?, [a-z] and {a,b}, and \ to escape one of these"#]].assert_eq(&NamePattern::parse("{a").unwrap_err().to_string());
    }
}
