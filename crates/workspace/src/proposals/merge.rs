//! Three-way merge of a proposed text onto the user's current text.

use std::ops::Range;

use text::TextEdit;

/// The outcome of a merge.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Merge {
    /// The user's text with the changes that fit.
    pub text: String,
    /// The proposed changes that the user's text lacks, in order of position.
    pub changes: Vec<Change>,
}

/// A proposed change of lines, as byte ranges of the three texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub base: Range<usize>,
    pub proposed: Range<usize>,
    /// The lines that it replaces, or the user's lines that it conflicts with.
    pub current: Range<usize>,
    /// Whether the user did not change its lines.
    pub fits: bool,
}

/// Applies the changes from `base` to `proposed` to `current`.
///
/// Where the user changed the same lines, the user's lines stay.
pub(super) fn merge(base: &str, proposed: &str, current: &str) -> Merge {
    let users = text::diff_lines(base, current);
    let is_open = |text: &str| !text.is_empty() && !text.ends_with('\n');
    let mut changes = Vec::new();
    for (lines, with) in text::diff_lines(base, proposed) {
        let new = &proposed[with.clone()];
        if users.iter().any(|(user, now)| *user == lines && current[now.clone()] == *new) {
            continue;
        }
        // A line of the user that is inserted at the same place stays before the change.
        let before = users.iter().take_while(|(user, _)| user.end <= lines.start);
        let (gone, added) =
            before.fold((0, 0), |(gone, added), (user, now)| (gone + user.len(), added + now.len()));
        let start = lines.start + added - gone;
        let overlaps = |(user, _): &&(Range<usize>, Range<usize>)| {
            lines.start < user.end && user.start < lines.end || base.is_empty()
        };
        let mut touched = users.iter().filter(overlaps).map(|(_, now)| now);
        let (place, fits) = match touched.next() {
            Some(first) => (first.start..touched.next_back().unwrap_or(first).end, false),
            None => {
                // A line without a newline must not join the next one.
                let place = start..start + lines.len();
                let joins = is_open(&current[..place.start]) || is_open(new) && place.end < current.len();
                (place, !joins)
            }
        };
        changes.push(Change { base: lines, proposed: with, current: place, fits });
    }
    let fitting = changes.iter().filter(|change| change.fits);
    let edits = edits_of(fitting, proposed, |it| (&it.current, &it.proposed));
    let text = text::apply(current, &edits).unwrap_or_else(|error| {
        tracing::debug!(%error, "no proposed change fits");
        changes.iter_mut().for_each(|change| change.fits = false);
        current.to_owned()
    });
    Merge { text, changes }
}

/// The edits of one side of these changes; the other one is of `with`.
pub(super) fn edits_of<'a>(
    changes: impl Iterator<Item = &'a Change>,
    with: &str,
    sides: impl Fn(&Change) -> (&Range<usize>, &Range<usize>),
) -> Vec<TextEdit> {
    let edit = |change: &Change| {
        let (range, new) = sides(change);
        TextEdit::replace(range.clone(), &with[new.clone()])
    };
    changes.map(edit).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged(base: &str, proposed: &str, current: &str) -> (String, Vec<String>) {
        let Merge { text, changes } = merge(base, proposed, current);
        let conflicts = changes.into_iter().filter(|change| !change.fits);
        (text, conflicts.map(|it| format!("{}|{}", &current[it.current], &proposed[it.proposed])).collect())
    }

    #[test]
    fn changes_of_other_lines_are_merged() {
        assert_eq!(merged("a\nb\nc\n", "a\nB\nc\n", "x\na\nb\nc\ny\n"), ("x\na\nB\nc\ny\n".into(), vec![]));
        assert_eq!(merged("a\nb\n", "a\nnew\nb\n", "A\nb\n"), ("A\nnew\nb\n".into(), vec![]));
        assert_eq!(merged("a\nb\n", "a\nnew\nb\n", "a\nmine\nb\n"), ("a\nmine\nnew\nb\n".into(), vec![]));
        assert_eq!(merged("a\nb\n", "a\nB\n", "a\nB\n"), ("a\nB\n".into(), vec![]));
    }

    #[test]
    fn the_users_lines_win_over_the_proposed_ones() {
        let conflict = vec!["mine\n|B\n".to_owned()];
        assert_eq!(merged("a\nb\nc\n", "a\nB\nc\n", "a\nmine\nc\n"), ("a\nmine\nc\n".into(), conflict));
        assert_eq!(merged("", "one\n", "two\n"), ("two\n".into(), vec!["two\n|one\n".into()]));
        // Lines do not join.
        let conflict = vec!["|new\n".to_owned()];
        assert_eq!(merged("a\n", "a\nnew\n", "a"), ("a".into(), conflict));
        let conflict = vec!["b\n|new".to_owned()];
        assert_eq!(merged("a\nb\n", "a\nnew", "a\nb\nc\n"), ("a\nb\nc\n".into(), conflict));
        assert_eq!(merged("a\n", "a\nnew", "b\na\n"), ("b\na\nnew".into(), vec![]));
    }

    proptest! {
        #[test]
        fn a_merge_keeps_the_users_text(
            base in "[ab}\n]{0,12}", proposed in "[abc}\n]{0,12}", current in "[abd}\n]{0,12}"
        ) {
            let merged = merge(&base, &proposed, &current);
            prop_assert_eq!(merge(&base, &base, &current).text, current.clone());
            prop_assert_eq!(merge(&base, &proposed, &base).text, proposed.clone());
            // The lines that the user added are all there.
            let count = |text: &str, line: &str| text.split_inclusive('\n').filter(|it| *it == line).count();
            for line in current.split_inclusive('\n').filter(|line| line.contains('d')) {
                prop_assert!(count(&merged.text, line) >= count(&current, line), "{merged:?}");
            }
            for change in &merged.changes {
                prop_assert!(current.get(change.current.clone()).is_some());
            }
        }
    }
}
