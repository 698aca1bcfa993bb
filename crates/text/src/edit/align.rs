//! The same change, expressed in whole lines.
//!
//! Neovim compares texts from both ends to report a change. It reports removing `line 20\n` before
//! `line 21\n` as the removal of `0\nline 2`. The text is right, but line 21 appears to be touched.

use crate::TextEdit;

/// An equivalent edit of `text` that removes or inserts whole lines, if possible.
///
/// Otherwise only the common beginning and end are removed from `edit`.
pub fn align_to_lines(text: &str, edit: &TextEdit) -> TextEdit {
    let edit = trimmed(text, edit);
    let (start, end) = (edit.range.start, edit.range.end);
    let moved = if edit.new_text.is_empty() { &text[start..end] } else { edit.new_text.as_str() };
    let is_one_kind = start == end || edit.new_text.is_empty();
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line_start..start];
    let Some(rest) = moved.strip_suffix(before).filter(|_| is_one_kind && !before.is_empty()) else {
        return edit;
    };
    // The skipped text moves before the rest, and the whole must end with a line end.
    if !rest.ends_with('\n') {
        return edit;
    }
    let new_text = if start == end { format!("{before}{rest}") } else { String::new() };
    TextEdit { range: line_start..end - before.len(), new_text }
}

/// The edit without the common beginning and end.
fn trimmed(text: &str, edit: &TextEdit) -> TextEdit {
    let (old, new) = (&text[edit.range.clone()], edit.new_text.as_str());
    let same = |pair: &(char, char)| pair.0 == pair.1;
    let head: usize = old.chars().zip(new.chars()).take_while(same).map(|(c, _)| c.len_utf8()).sum();
    let (old, new) = (&old[head..], &new[head..]);
    let pairs = old.chars().rev().zip(new.chars().rev());
    let tail: usize = pairs.take_while(same).map(|(c, _)| c.len_utf8()).sum();
    TextEdit::replace(edit.range.start + head..edit.range.end - tail, &new[..new.len() - tail])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply;

    #[track_caller]
    fn check(text: &str, edit: TextEdit, expected: TextEdit) {
        let aligned = align_to_lines(text, &edit);
        assert_eq!(aligned, expected);
        assert_eq!(apply(text, &[aligned]), apply(text, &[edit]), "it is another change");
    }

    #[test]
    fn line_changes_are_aligned_to_lines() {
        let text = "line 19\nline 20\nline 21\n";
        check(text, TextEdit::replace(14..22, ""), TextEdit::replace(8..16, ""));
        check(text, TextEdit::insert(13, "1é\nline "), TextEdit::insert(8, "line 1é\n"));
        check(text, TextEdit::replace(8..16, ""), TextEdit::replace(8..16, ""));
        check("é\né1\n", TextEdit::replace(2..5, ""), TextEdit::replace(0..3, ""));
        // Equal text at both ends is not a change.
        check(text, TextEdit::replace(0..16, "line 19\n"), TextEdit::replace(8..16, ""));
    }

    #[test]
    fn other_changes_stay_in_place() {
        let text = "aab\naac\n";
        check(text, TextEdit::replace(1..2, ""), TextEdit::replace(1..2, ""));
        check(text, TextEdit::insert(2, "x\ny"), TextEdit::insert(2, "x\ny"));
        check(text, TextEdit::replace(2..3, "d"), TextEdit::replace(2..3, "d"));
        check(text, TextEdit::insert(3, "\nnew"), TextEdit::insert(3, "\nnew"));
        check("", TextEdit::insert(0, ""), TextEdit::insert(0, ""));
    }
}
