//! The files below a folder that is no workspace, as ignore files leave them.

use ignore::WalkBuilder;

use crate::AbsPath;

/// The regular files below `folder`, in order of path: hidden ones, those that ignore files name, and
/// what links lead to are left out. Walks as it is asked, and blocks.
pub fn files_below(folder: &AbsPath) -> impl Iterator<Item = AbsPath> + use<> {
    let mut walker = WalkBuilder::new(folder);
    walker.require_git(false);
    files_of(walker)
}

/// The regular files that a walk meets, in order of path.
pub(crate) fn files_of(mut walker: WalkBuilder) -> impl Iterator<Item = AbsPath> + use<> {
    walker
        .sort_by_file_path(|a, b| a.cmp(b))
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter_map(|entry| AbsPath::new(entry.path()))
}
