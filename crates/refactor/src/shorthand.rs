//! Shorthand properties in a rename.
//!
//! `{ total }` names a key and a variable, and a rename means one of them.
//!
//! The key is what other code reads. TypeScript's servers rename both unless they are configured to write
//! `export { sum as total }` too, and then imports in other files keep the old name.

use std::ops::Range;
use std::sync::Arc;

use syntax::{Language, Role, Stop, Tree};
use text::TextEdit;
use workspace::{Operation, Workspace, WorkspaceEdit};

/// Keeps, in each `{ total }`, the name that is not renamed.
///
/// Ambiguous places stay as the server wrote them. Parses the files that it changes.
pub(crate) fn keep_other_name(workspace: &Workspace, edit: &mut WorkspaceEdit, old: &str, new: &str) {
    let texts: Vec<Option<Arc<str>>> =
        edit.operations.iter().map(|operation| text_of(workspace, operation)).collect();
    let places = || {
        edit.operations.iter().zip(&texts).enumerate().filter_map(|(number, (operation, text))| {
            let Operation::Edit { path, edits, .. } = operation else { return None };
            Some((number, path, edits, text.as_ref()?))
        })
    };
    if !places().any(|(_, _, edits, text)| edits.iter().any(|edit| may_be_shorthand(text, &edit.range))) {
        return;
    }
    let mut found = Vec::new();
    for (number, path, edits, text) in places() {
        let language = Language::of(&path.to_string(), text);
        let Some(tree) = language.and_then(|language| Tree::parse(language, text, Stop::NEVER).ok()) else {
            continue;
        };
        for (which, TextEdit { range, new_text }) in edits.iter().enumerate() {
            if new_text == new && text.get(range.clone()) == Some(old) {
                found.extend(tree.role(range.clone()).map(|role| (role, number, which)));
            }
        }
    }
    let Some(expanded) = expanded(found.iter().map(|(role, ..)| *role), old, new) else { return };
    for (_, number, which) in found.iter().filter(|(role, ..)| *role == Role::Shorthand) {
        if let Some(Operation::Edit { edits, .. }) = edit.operations.get_mut(*number) {
            edits[*which].new_text.clone_from(&expanded);
        }
    }
}

/// The text that an operation edits.
fn text_of(workspace: &Workspace, operation: &Operation) -> Option<Arc<str>> {
    let Operation::Edit { path, expected, .. } = operation else { return None };
    let document = workspace.document(path).ok()?;
    (document.version == *expected).then_some(document.text)
}

/// Whether the text around a name allows a shorthand.
///
/// Most renames touch none, and need no parsing.
fn may_be_shorthand(text: &str, range: &Range<usize>) -> bool {
    let before = text.get(..range.start).and_then(|part| part.trim_end().chars().next_back());
    let after = text.get(range.end..).and_then(|part| part.trim_start().chars().next());
    matches!(before, Some('{' | ',' | '/')) && matches!(after, Some('}' | ',' | '=' | '/'))
}

/// Expands `{ old }` for the rename of a variable or of a property.
///
/// The places of the rename show which of them changes.
///
/// `None` if it is both (a parameter property, a destructuring pattern), if no place shows it, or if a module's
/// `exports.total` may be renamed.
fn expanded(roles: impl Iterator<Item = Role> + Clone, old: &str, new: &str) -> Option<String> {
    let has = |expected: Role| roles.clone().any(|role| role == expected);
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
        let expand = |roles: &[Role]| expanded(roles.iter().copied(), "total", "sum");
        assert_eq!(expand(&[Variable, Shorthand]).as_deref(), Some("total: sum"));
        // `exports.total`, and elsewhere `const { total } = require(…)` with its uses: all of it is renamed.
        assert_eq!(expand(&[Variable, Member, Shorthand]), None);
        for roles in [&[Property, Shorthand][..], &[Property, Member, Shorthand], &[Member, Shorthand]] {
            assert_eq!(expand(roles).as_deref(), Some("sum: total"));
        }
        assert_eq!(expand(&[Variable, Property, Shorthand]), None);
        assert_eq!(expand(&[Role::Both, Member, Shorthand]), None);
        assert_eq!(expand(&[Shorthand]), None);
    }
}
