//! Line operations as byte edits of one text.
//!
//! Each line keeps its own line end, and new lines take their nearest neighbour's. A missing final line end
//! stays missing. No byte outside the named lines changes, with one exception: if the last lines are deleted
//! and had no line end, the line before them loses its own. In a text without a final line end, an empty last
//! row is that line end and nothing more.

use std::ops::Range;

use text::TextEdit;

use crate::Lines;

/// Rows for one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk {
    pub place: HunkPlace,
    /// New rows without line ends; empty for a deletion.
    pub rows: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HunkPlace {
    /// Replaces these lines, both included.
    Lines {
        first: usize,
        last: usize,
    },
    Before(usize),
    After(usize),
    Head,
    End,
}

impl HunkPlace {
    /// The lines that must exist; none for an end of the file.
    pub(crate) fn lines(&self) -> Option<(usize, usize)> {
        match *self {
            Self::Lines { first, last } => Some((first, last)),
            Self::Before(line) | Self::After(line) => Some((line, line)),
            Self::Head | Self::End => None,
        }
    }

    /// Order in the text.
    ///
    /// Gap `n` lies after line `n`. Within a gap come insertions after the line above, then insertions before
    /// the line below, then that line's replacement.
    fn order(&self, count: usize) -> (usize, u8) {
        match *self {
            Self::After(line) => (line, 0),
            Self::End if count > 0 => (count, 0),
            Self::Before(line) => (line.saturating_sub(1), 1),
            Self::Head | Self::End => (0, 1),
            Self::Lines { first, .. } => (first.saturating_sub(1), 2),
        }
    }

    /// The lines just above and below; 0 and `count + 1` mean none.
    pub(crate) fn beside(&self, count: usize) -> (usize, usize) {
        match *self {
            Self::Lines { first, last } => (first - 1, last + 1),
            Self::Before(line) => (line - 1, line),
            Self::After(line) => (line, line + 1),
            Self::Head => (0, 1),
            Self::End => (count, count + 1),
        }
    }

    /// The line to name in messages.
    pub(crate) fn line(&self, count: usize) -> usize {
        match *self {
            Self::Lines { first, .. } => first,
            Self::Before(line) | Self::After(line) => line,
            Self::Head => 1,
            Self::End => count.max(1),
        }
    }
}

/// The indexes of two hunks that claim the same lines, if any.
pub(crate) fn overlap(hunks: &[Hunk], count: usize) -> Option<(usize, usize)> {
    let sorted = sorted(hunks, count);
    // The replacement that ends last so far; its lines are taken.
    let mut taken: Option<(usize, usize)> = None;
    for (index, hunk) in sorted {
        let gap = hunk.place.order(count).0;
        if let Some((other, last)) = taken
            && gap < last
        {
            return Some((other.min(index), other.max(index)));
        }
        if let HunkPlace::Lines { last, .. } = hunk.place {
            taken = Some((index, last));
        }
    }
    None
}

/// The line above the hunk's place, and the number of lines it removes.
pub(crate) fn extent(place: &HunkPlace, count: usize) -> (usize, usize) {
    let removed = match *place {
        HunkPlace::Lines { first, last } => last + 1 - first,
        _ => 0,
    };
    (place.order(count).0, removed)
}

/// The hunks in order of place, each with its index.
pub(crate) fn sorted(hunks: &[Hunk], count: usize) -> Vec<(usize, &Hunk)> {
    let mut sorted: Vec<(usize, &Hunk)> = hunks.iter().enumerate().collect();
    sorted.sort_by_key(|(_, hunk)| hunk.place.order(count));
    sorted
}

/// Rows that replace the lines `after` (exclusive) to `to` (inclusive).
///
/// Each row has the number of the line whose line end it takes.
pub(crate) struct Region<'a> {
    pub after: usize,
    pub to: usize,
    pub rows: Vec<(&'a str, usize)>,
}

/// The edits of `lines` that the hunks make, in order of position, none empty.
///
/// The hunks must not overlap and must be in the text. Rows equal to the lines they replace are not
/// touched.
pub(crate) fn edits(lines: &Lines, hunks: &[Hunk]) -> Vec<TextEdit> {
    let mut regions: Vec<Region<'_>> = Vec::new();
    for (_, hunk) in sorted(hunks, lines.count()) {
        let region = region(lines, hunk);
        if region.after == region.to && region.rows.is_empty() {
            continue;
        }
        match regions.last_mut() {
            Some(last) if last.to == region.after => {
                last.to = region.to;
                last.rows.extend(region.rows);
            }
            _ => regions.push(region),
        }
    }
    // Joined regions may restore the old text.
    let changes = |edit: &TextEdit| lines.text()[edit.range.clone()] != edit.new_text;
    regions.iter().map(|region| edit(lines, region)).filter(changes).collect()
}

/// The part that a hunk changes, without rows equal to the lines they replace.
pub(crate) fn region<'a>(lines: &Lines, hunk: &'a Hunk) -> Region<'a> {
    let insertion = |gap: usize, line: usize| Region {
        after: gap,
        to: gap,
        rows: hunk.rows.iter().map(|row| (row.as_str(), line)).collect(),
    };
    let count = lines.count();
    let (first, last) = match hunk.place {
        HunkPlace::After(line) => return insertion(line, line),
        HunkPlace::Before(line) => return insertion(line.saturating_sub(1), line),
        HunkPlace::Head => return insertion(0, 1),
        HunkPlace::End => return insertion(count, count),
        HunkPlace::Lines { first, last } => (first, last),
    };
    let (old, rows) = (last + 1 - first, &hunk.rows);
    let same = |line: usize, row: usize| lines.content(line) == rows[row];
    let head = (0..old.min(rows.len())).take_while(|by| same(first + by, *by)).count();
    let tail = (0..old.min(rows.len()) - head).take_while(|by| same(last - by, rows.len() - 1 - by)).count();
    let rows = rows[..rows.len() - tail].iter().enumerate().skip(head);
    Region {
        after: first - 1 + head,
        to: last - tail,
        rows: rows.map(|(at, row)| (row.as_str(), (first + at).min(last))).collect(),
    }
}

fn edit(lines: &Lines, region: &Region<'_>) -> TextEdit {
    let Region { after, to, ref rows } = *region;
    let len = lines.text().len();
    if to == lines.count() && lines.lacks_final_ending() {
        // The region's last line, or the one before it, has no line end; neither does the result.
        if rows.is_empty() {
            let start = if after == 0 { lines.start(1) } else { lines.content_range(after).end };
            return TextEdit::replace(start..len, "");
        }
        let mut new_text = String::new();
        for (at, (row, line)) in rows.iter().enumerate() {
            // A line end precedes each appended row, and separates other rows.
            if after == to || at > 0 {
                new_text.push_str(ending(lines, if after == to { *line } else { rows[at - 1].1 }));
            }
            new_text.push_str(row);
        }
        return TextEdit::replace(lines.start(after + 1)..len, new_text);
    }
    let mut new_text = String::new();
    for (row, line) in rows {
        new_text.push_str(row);
        new_text.push_str(ending(lines, *line));
    }
    let mut range: Range<usize> = lines.start(after + 1)..lines.start(to + 1).max(lines.start(after + 1));
    if let Some((_, line)) = rows.last()
        && to > after
        && ending(lines, *line) == lines.ending(to)
    {
        // The last line end stays at its place.
        new_text.truncate(new_text.len() - lines.ending(to).len());
        range.end -= lines.ending(to).len();
    }
    TextEdit::replace(range, new_text)
}

/// The line end of a line, or of its nearest neighbour.
fn ending(lines: &Lines, line: usize) -> &str {
    let line = line.clamp(1, lines.count().max(1));
    [line, line - 1]
        .into_iter()
        .map(|line| lines.ending(line))
        .find(|ending| !ending.is_empty())
        .unwrap_or("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, hunks: &[(HunkPlace, &str)], expected: &str) {
        let hunks: Vec<Hunk> = hunks
            .iter()
            .map(|(place, rows)| Hunk {
                place: *place,
                rows: rows.split_terminator('|').map(str::to_owned).collect(),
            })
            .collect();
        let lines = Lines::new(text.into());
        assert_eq!(overlap(&hunks, lines.count()), None);
        let edits = edits(&lines, &hunks);
        assert_eq!(text::normalize(text, &edits).as_ref(), Ok(&edits), "in order");
        assert_eq!(text::apply(text, &edits).unwrap(), expected);
    }

    const fn at(first: usize, last: usize) -> HunkPlace {
        HunkPlace::Lines { first, last }
    }

    #[test]
    fn lines_keep_their_line_ends_and_new_lines_inherit_one() {
        let text = "a\r\nb\nc\rd\r\n";
        check(text, &[(at(2, 3), "B|C")], "a\r\nB\nC\rd\r\n");
        check(text, &[(at(1, 1), "A|x")], "A\r\nx\r\nb\nc\rd\r\n");
        check(text, &[(at(1, 3), "A")], "A\r\nd\r\n");
        check(text, &[(HunkPlace::After(2), "x|y")], "a\r\nb\nx\ny\nc\rd\r\n");
        check(text, &[(HunkPlace::Before(1), "x")], "x\r\na\r\nb\nc\rd\r\n");
        check(text, &[(HunkPlace::End, "x")], "a\r\nb\nc\rd\r\nx\r\n");
    }

    #[test]
    fn a_missing_final_line_end_stays_missing() {
        check("a\r\nb", &[(at(2, 2), "B")], "a\r\nB");
        check("a\r\nb", &[(at(2, 2), "B|x")], "a\r\nB\r\nx");
        check("a\r\nb", &[(HunkPlace::End, "x|y")], "a\r\nb\r\nx\r\ny");
        check("a\r\nb", &[(HunkPlace::After(2), "x")], "a\r\nb\r\nx");
        check("a\r\nb", &[(at(2, 2), "")], "a");
        check("a\r\nb", &[(at(1, 1), ""), (at(2, 2), "")], "");
        check("a\r\nb", &[(at(1, 1), "A"), (at(2, 2), "")], "A");
        check("a", &[(HunkPlace::End, "x")], "a\nx");
        check("a", &[(HunkPlace::Head, "x")], "x\na");
        check("a", &[(at(1, 1), "x|y")], "x\ny");
        check("a\r\nb\nc", &[(at(2, 3), "x|y|z")], "a\r\nx\ny\nz");
        check("a\nb", &[(at(1, 2), "b")], "b");
    }

    #[test]
    fn edits_apply_at_the_ends_of_a_file() {
        check("", &[(HunkPlace::Head, "x"), (HunkPlace::End, "y")], "x\ny\n");
        check("\u{feff}", &[(HunkPlace::Head, "x")], "\u{feff}x\n");
        check("\u{feff}a\n", &[(HunkPlace::Head, "x")], "\u{feff}x\na\n");
        check("\u{feff}a\n", &[(at(1, 1), "x")], "\u{feff}x\n");
        check("\u{feff}a\n", &[(at(1, 1), "")], "\u{feff}");
        check("\u{feff}a", &[(at(1, 1), "")], "\u{feff}");
        check("a\n", &[(HunkPlace::End, "x")], "a\nx\n");
        check("\n", &[(at(1, 1), "x")], "x\n");
    }

    #[test]
    fn edits_at_one_place_are_ordered() {
        check(
            "a\nb\nc\n",
            &[
                (HunkPlace::After(2), "5"),
                (at(2, 2), "B"),
                (HunkPlace::Before(2), "3"),
                (HunkPlace::After(1), "1"),
                (HunkPlace::Before(2), "4"),
                (HunkPlace::After(1), "2"),
                (HunkPlace::Before(3), "6"),
            ],
            "a\n1\n2\n3\n4\nB\n5\n6\nc\n",
        );
        check("a\n", &[(at(1, 1), ""), (HunkPlace::After(1), "y"), (HunkPlace::Head, "x")], "x\ny\n");
        check("a\nb\n", &[(at(1, 1), "a|x"), (HunkPlace::After(1), "y")], "a\nx\ny\nb\n");
        check("a\nb\n", &[(at(2, 2), "x|b"), (HunkPlace::Before(2), "w")], "a\nw\nx\nb\n");
    }

    #[test]
    fn unchanged_lines_are_not_touched() {
        let lines = Lines::new("a\nb\nc\nd\n".into());
        let hunk = |rows: &[&str]| {
            [Hunk { place: at(1, 4), rows: rows.iter().map(|row| (*row).to_owned()).collect() }]
        };
        assert_eq!(edits(&lines, &hunk(&["a", "x", "c", "d"])), [TextEdit::replace(2..3, "x")]);
        assert_eq!(edits(&lines, &hunk(&["a", "b", "c", "d"])), []);
        assert_eq!(edits(&lines, &hunk(&["a", "b", "x", "c", "d"])), [TextEdit::insert(4, "x\n")]);
        assert_eq!(edits(&lines, &hunk(&["a", "d"])), [TextEdit::replace(2..6, "")]);
        let same = [
            Hunk { place: at(2, 2), rows: vec![] },
            Hunk { place: HunkPlace::Before(3), rows: vec!["b".into()] },
        ];
        assert_eq!(edits(&lines, &same), []);
    }

    #[test]
    fn overlaps_are_detected() {
        let hunk = |place| Hunk { place, rows: vec!["x".into()] };
        let overlaps = |a, b| overlap(&[hunk(a), hunk(b)], 9).is_some();
        assert!(overlaps(at(2, 4), at(4, 5)));
        assert!(overlaps(at(2, 2), at(2, 2)));
        assert!(overlaps(at(2, 9), at(3, 4)));
        assert!(overlaps(at(2, 4), HunkPlace::After(2)));
        assert!(overlaps(at(2, 4), HunkPlace::After(3)));
        assert!(overlaps(at(2, 4), HunkPlace::Before(3)));
        assert!(overlaps(at(2, 4), HunkPlace::Before(4)));
        assert!(!overlaps(at(2, 4), HunkPlace::Before(2)));
        assert!(!overlaps(at(2, 4), HunkPlace::After(4)));
        assert!(!overlaps(at(2, 4), at(5, 5)));
        assert!(!overlaps(at(1, 9), HunkPlace::Head));
        assert!(!overlaps(at(1, 9), HunkPlace::End));
    }
}
