//! Checks whether a walk would omit a path, without a walk.

use std::path::Path;

use ignore::IncrementalIgnore;
use paths::AbsPath;

use super::Scope;
use super::walk::has_readable_rules;
use crate::Workspace;

/// The ignore rules below one directory.
pub(super) struct Ignored {
    root: AbsPath,
    rules: Option<IncrementalIgnore>,
}

impl Ignored {
    /// Creates the rules of `scope` without its globs.
    pub fn new(workspace: &Workspace, scope: &Scope) -> Self {
        Self { root: scope.at.clone(), rules: workspace.walker(scope, |_| true).0.build_matchers().pop() }
    }

    /// Whether a walk omits `path`, which may not exist, or a directory above it.
    pub(crate) fn leaves_out(&mut self, path: &AbsPath, is_directory: bool) -> bool {
        let (Some(rules), Some(relative)) = (&mut self.rules, path.strip_prefix(&self.root)) else {
            return false;
        };
        let mut ancestors: Vec<&Path> =
            relative.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()).collect();
        ancestors.reverse();
        let root = self.root.as_path();
        let mut is_omitted = |directory: &Path| {
            rules.matched(directory, true).is_ignore() || !has_readable_rules(&root.join(directory))
        };
        ancestors.iter().any(|directory| is_omitted(directory))
            || rules.matched(relative, is_directory).is_ignore()
    }
}
