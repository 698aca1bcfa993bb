//! `{ total }` after a rename. It names a key and a variable at once, and a rename means one of them: the
//! key is what goes over the wire, and what others read. TypeScript's servers rename both unless they are
//! told to write `export { sum as total }` too, and then what other files import keeps its old name.

use std::ops::Range;
use std::sync::Arc;

use syntax::{Language, Role, Stop, Tree};
use text::TextEdit;
use workspace::{Operation, WorkspaceEdit};

use crate::Kit;

/// Has the edits of a rename keep, in each `{ total }`, the name that was not meant. What cannot be told
/// apart is left as the server wrote it. Parses the files that it changes.
pub(super) fn keep(kit: &Kit, edit: &mut WorkspaceEdit, old: &str, new: &str) {
    let texts: Vec<Option<Arc<str>>> = edit.operations.iter().map(|it| text_of(kit, it)).collect();
    let places = || {
        edit.operations.iter().zip(&texts).enumerate().filter_map(|(number, (operation, text))| {
            let Operation::Edit { path, edits, .. } = operation else { return None };
            Some((number, path, edits, text.as_ref()?))
        })
    };
    if !places().any(|(_, _, edits, text)| edits.iter().any(|edit| is_perhaps_one(text, &edit.range))) {
        return;
    }
    let mut found = Vec::new();
    for (number, path, edits, text) in places() {
        let language = Language::of(&path.to_string(), text);
        let Some(tree) = language.and_then(|it| Tree::parse(it, text, Stop::NEVER).ok()) else { continue };
        for (which, TextEdit { range, new_text }) in edits.iter().enumerate() {
            if new_text == new && text.get(range.clone()) == Some(old) {
                found.extend(tree.role(range.clone()).map(|role| (role, number, which)));
            }
        }
    }
    let Some(written) = written(found.iter().map(|(role, ..)| *role), old, new) else { return };
    for (_, number, which) in found.iter().filter(|(role, ..)| *role == Role::Shorthand) {
        if let Some(Operation::Edit { edits, .. }) = edit.operations.get_mut(*number) {
            edits[*which].new_text.clone_from(&written);
        }
    }
}

/// The text that the edits of an operation are for.
fn text_of(kit: &Kit, operation: &Operation) -> Option<Arc<str>> {
    let Operation::Edit { path, expected, .. } = operation else { return None };
    let document = kit.workspace.document(path).ok()?;
    (document.version == *expected).then_some(document.text)
}

/// Whether what stands around a name lets it be a shorthand: most renames touch none, and parse nothing.
fn is_perhaps_one(text: &str, range: &Range<usize>) -> bool {
    let before = text.get(..range.start).and_then(|part| part.trim_end().chars().next_back());
    let after = text.get(range.end..).and_then(|part| part.trim_start().chars().next());
    matches!(before, Some('{' | ',' | '/')) && matches!(after, Some('}' | ',' | '=' | '/'))
}

/// What `{ old }` is to become, where the places of a rename tell whether a variable or a property is
/// renamed; `None` where it is both, as in a parameter that is a property or where a pattern makes a variable
/// of it, where nothing tells, or where a module's `exports.total` may be what is renamed.
fn written(roles: impl Iterator<Item = Role> + Clone, old: &str, new: &str) -> Option<String> {
    let has = |wanted: Role| roles.clone().any(|role| role == wanted);
    if has(Role::Both) {
        return None;
    }
    match (has(Role::Variable), has(Role::Property), has(Role::Member)) {
        (true, false, false) => Some(format!("{old}: {new}")),
        (false, true, _) | (false, false, true) => Some(format!("{new}: {old}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_keeps_the_key_and_a_property_the_variable() {
        use Role::{Member, Property, Shorthand, Variable};
        let said = |roles: &[Role]| written(roles.iter().copied(), "total", "sum");
        assert_eq!(said(&[Variable, Shorthand]).as_deref(), Some("total: sum"));
        // `exports.total`, and elsewhere `const { total } = require(…)` with its uses: all of it is renamed.
        assert_eq!(said(&[Variable, Member, Shorthand]), None);
        for roles in [&[Property, Shorthand][..], &[Property, Member, Shorthand], &[Member, Shorthand]] {
            assert_eq!(said(roles).as_deref(), Some("sum: total"));
        }
        assert_eq!(said(&[Variable, Property, Shorthand]), None);
        assert_eq!(said(&[Role::Both, Member, Shorthand]), None);
        assert_eq!(said(&[Shorthand]), None);
    }
}
