//! Globs that select files, in the syntax of ignore files.

use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use paths::AbsPath;

/// The globs that select names; without globs, all names are selected.
#[derive(Debug, Clone, Default)]
pub struct Globs {
    inner: Option<Arc<WorkspaceState>>,
}

#[derive(Debug)]
struct WorkspaceState {
    include: Vec<Gitignore>,
    exclude: Vec<Gitignore>,
    /// Whether any glob includes.
    includes: bool,
}

/// The error of a malformed glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{glob}` is not a glob: {reason}; use *, **, ?, [a-z] and {{a,b}}, and \\ to escape one of these")]
pub struct GlobError {
    /// The glob as written.
    pub glob: String,
    pub reason: String,
}

impl Globs {
    /// Parses globs separated by commas, as in an ignore file.
    ///
    /// A glob without `/` matches names in every directory, one with `/` a path below `root` or `at`; a
    /// directory that it matches includes everything below it. A leading `!` excludes. Brackets also match
    /// themselves: `app/[id]/*` matches the entries of the directory of that name.
    ///
    /// # Errors
    /// [`GlobError`].
    pub fn parse(globs: &str, root: &AbsPath, at: &AbsPath) -> Result<Self, GlobError> {
        let mut bases = vec![GlobBase::new(root)];
        if at != root {
            bases.push(GlobBase::new(at));
        }
        let mut includes = false;
        for glob in split(globs) {
            let (glob, is_excluded) = match glob.strip_prefix('!') {
                Some(rest) => (rest, true),
                None => (glob, false),
            };
            let glob = glob.trim();
            if glob.is_empty() {
                continue;
            }
            includes |= !is_excluded;
            for base in &mut bases {
                base.add(glob, is_excluded)?;
            }
        }
        let mut inner = WorkspaceState { include: Vec::new(), exclude: Vec::new(), includes };
        for base in bases {
            let (include, exclude) =
                base.build().map_err(|reason| GlobError { glob: globs.into(), reason })?;
            inner.include.push(include);
            inner.exclude.push(exclude);
        }
        Ok(Self { inner: Some(Arc::new(inner)) })
    }

    /// Whether the globs select a path below both of their directories.
    pub fn take(&self, path: &Path, is_directory: bool) -> bool {
        let Some(inner) = &self.inner else { return true };
        let is_included = !inner.includes
            || inner
                .include
                .iter()
                .any(|set| set.matched_path_or_any_parents(path, is_directory).is_ignore());
        is_included && !self.excludes(path, is_directory)
    }

    /// Whether the globs exclude a path, and with a directory all below it.
    pub(super) fn excludes(&self, path: &Path, is_directory: bool) -> bool {
        let Some(inner) = &self.inner else { return false };
        inner.exclude.iter().any(|set| set.matched_path_or_any_parents(path, is_directory).is_ignore())
    }
}

/// Globs relative to one directory.
struct GlobBase {
    root: AbsPath,
    include: GitignoreBuilder,
    exclude: GitignoreBuilder,
}

impl GlobBase {
    fn new(root: &AbsPath) -> Self {
        let builder = || GitignoreBuilder::new(root);
        Self { root: root.clone(), include: builder(), exclude: builder() }
    }

    fn add(&mut self, glob: &str, is_excluded: bool) -> Result<(), GlobError> {
        // An absolute path is one only below the root; elsewhere a leading `/` is the directory's.
        let absolute = self.root.as_path().to_str().and_then(|root| glob.strip_prefix(root));
        let relative = absolute.filter(|rest| rest.starts_with('/')).unwrap_or(glob);
        let relative = relative.strip_prefix("./").map_or_else(|| relative.into(), |it| format!("/{it}"));
        // In an ignore file `#` would begin a comment.
        let line = if relative.starts_with('#') { format!("\\{relative}") } else { relative };
        let line = super::brackets::both(&line);
        let set = if is_excluded { &mut self.exclude } else { &mut self.include };
        set.add_line(None, &line).map(|_| ()).map_err(|error| {
            let reason = match &error {
                ignore::Error::Glob { err, .. } => err.clone(),
                other => other.to_string(),
            };
            GlobError { glob: glob.to_owned(), reason }
        })
    }

    fn build(self) -> Result<(Gitignore, Gitignore), String> {
        let built = |builder: GitignoreBuilder| builder.build().map_err(|error| error.to_string());
        Ok((built(self.include)?, built(self.exclude)?))
    }
}

/// Splits at commas outside braces, brackets and escapes.
fn split(globs: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut escaped) = (Vec::new(), 0, 0usize, false);
    for (at, c) in globs.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(globs[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(globs[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(globs: &str, taken: &[&str], left: &[&str]) {
        let root = AbsPath::new("/w").unwrap();
        let globs = Globs::parse(globs, &root, &root.join("src")).unwrap();
        for path in taken {
            assert!(globs.take(root.join(path).as_path(), false), "{path} is not taken");
        }
        for path in left {
            assert!(!globs.take(root.join(path).as_path(), false), "{path} is taken");
        }
    }

    #[test]
    fn globs_match_as_in_ignore_files() {
        check("*.rs", &["src/a.rs", "src/x/y.rs"], &["src/a.rss", "src/rs"]);
        check("*.{ts,tsx}, *.css", &["src/a.ts", "src/x/a.tsx", "src/a.css"], &["src/a.js"]);
        check("src/**/*.rs", &["src/a.rs", "src/x/a.rs"], &["src/a.py"]);
        // The glob matches below the searched directory.
        check("x/*.rs", &["src/x/a.rs"], &["src/y/x/a.rs", "src/a.rs"]);
        check("x/", &["src/x/a.rs", "src/x/y/a.rs"], &["src/a.rs", "src/x"]);
        check("x", &["src/y/x/a.rs", "src/x"], &["src/a.rs"]);
        check("!*.min.js", &["src/a.js"], &["src/a.min.js"]);
        check("*.js,!vendor", &["src/a.js"], &["src/vendor/a.js", "src/a.css"]);
        check("./src/a.rs", &["src/a.rs"], &["src/src/b.rs"]);
        check("/w/src/*.rs", &["src/a.rs"], &["src/x/a.rs"]);
        check("#x", &["src/#x"], &["src/a"]);
        check("a[,]b", &["src/a,b"], &["src/ab"]);
        check(" ", &["src/a"], &[]);
        check("app/[id]/x.tsx", &["src/app/[id]/x.tsx", "src/app/i/x.tsx"], &["src/app/[x]/x.tsx"]);
        check("app/[user-id]", &["src/app/[user-id]/x.tsx"], &["src/app/u/x.tsx"]);
        check("[[...slug]]/*.tsx,[id]", &["src/[[...slug]]/a.tsx", "src/x/[id]"], &["src/slug/a.tsx"]);
        check("!**/[id]/**", &["src/a.ts"], &["src/[id]/a.ts"]);
    }

    #[test]
    fn invalid_patterns_are_explained() {
        let root = AbsPath::new("/w").unwrap();
        let error = Globs::parse("*.{rs", &root, &root).unwrap_err();
        assert!(error.to_string().starts_with("`*.{rs` is not a glob: "), "{error}");
    }
}
