//! Traces that other editors leave beside a file they have open. What we do not know to be open in
//! the person's editor may still be: Vim keeps a swap file, Emacs a lock.

use crate::{AbsPath, disk};

/// Who seems to hold `path`, and what to do about it; `None` when nothing shows.
pub(crate) fn holder(path: &AbsPath) -> Option<String> {
    let name = path.file_name();
    let folder = path.parent()?;
    let there = |name: &str| disk::stat(&folder.join(name)).is_ok_and(|meta| meta.is_some());
    // Vim adds no second dot to a hidden file's name.
    let dot = if name.starts_with('.') { "" } else { "." };
    for letter in ['p', 'o', 'n', 'm'] {
        let swap = format!("{dot}{name}.sw{letter}");
        if there(&swap) {
            return Some(format!(
                "Vim has it open or ended without closing it ({swap}); close it there, or remove that file"
            ));
        }
    }
    let lock = format!(".#{name}");
    there(&lock)
        .then(|| format!("Emacs has unsaved changes of it ({lock}); save it there, or remove that file"))
}
