//! Line operations as byte edits of one text.
//!
//! Each line keeps its own line end and new lines take their nearest neighbour's; a missing final
//! line end stays missing; no byte outside the lines named changes, but for one case: when the
//! last lines go and had no line end, the line before them gives up its own. In a text without
//! final line end an empty last row is that line end and nothing more.

use std::ops::Range;

use text::TextEdit;

use crate::Lines;

/// Rows that go to one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk {
    pub place: Place,
    /// Without line ends; none for a deletion.
    pub rows: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Instead of these lines, both included.
    Lines {
        first: usize,
        last: usize,
    },
    Before(usize),
    After(usize),
    Head,
    End,
}

impl Place {
    /// The lines it needs to be there: none at an end of the file.
    pub(crate) fn lines(&self) -> Option<(usize, usize)> {
        match *self {
            Self::Lines { first, last } => Some((first, last)),
            Self::Before(line) | Self::After(line) => Some((line, line)),
            Self::Head | Self::End => None,
        }
    }

    /// Order in the text. Gap `n` lies after line `n`; at one gap comes what is inserted after the
    /// line above, then what is inserted before the line below, then that line's replacement.
    fn order(&self, count: usize) -> (usize, u8) {
        match *self {
            Self::After(line) => (line, 0),
            Self::End if count > 0 => (count, 0),
            Self::Before(line) => (line.saturating_sub(1), 1),
            Self::Head | Self::End => (0, 1),
            Self::Lines { first, .. } => (first.saturating_sub(1), 2),
        }
    }

    /// The line at which it goes in, for messages.
    pub(crate) fn line(&self, count: usize) -> usize {
        match *self {
            Self::Lines { first, .. } => first,
            Self::Before(line) | Self::After(line) => line,
            Self::Head => 1,
            Self::End => count.max(1),
        }
    }
}

/// Two hunks of the list that claim the same lines, by index; `None` when there are none.
pub(crate) fn overlap(hunks: &[Hunk], count: usize) -> Option<(usize, usize)> {
    let sorted = sorted(hunks, count);
    // The replacement that reaches farthest so far: lines up to and with it are taken.
    let mut taken: Option<(usize, usize)> = None;
    for (index, hunk) in sorted {
        let gap = hunk.place.order(count).0;
        if let Some((other, last)) = taken
            && gap < last
        {
            return Some((other.min(index), other.max(index)));
        }
        if let Place::Lines { last, .. } = hunk.place {
            taken = Some((index, last));
        }
    }
    None
}

/// Line above the hunk's place, and number of lines it takes away.
pub(crate) fn extent(place: &Place, count: usize) -> (usize, usize) {
    let removed = match *place {
        Place::Lines { first, last } => last + 1 - first,
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

/// Lines `after` (exclusive) to `to` (inclusive) give way to rows; each row knows whose line end
/// it takes.
pub(crate) struct Region<'a> {
    pub after: usize,
    pub to: usize,
    pub rows: Vec<(&'a str, usize)>,
}

/// The edits of `lines` that the hunks, which must not overlap and must lie in the text, amount to:
/// in order of place, none empty. Rows equal to the lines they replace are not touched.
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
    // Joined regions may come to what was there.
    let changes = |edit: &TextEdit| lines.text()[edit.range.clone()] != edit.new_text;
    regions.iter().map(|region| edit(lines, region)).filter(changes).collect()
}

/// What a hunk changes: rows equal to the first or last lines that they replace change nothing.
pub(crate) fn region<'a>(lines: &Lines, hunk: &'a Hunk) -> Region<'a> {
    let insertion = |gap: usize, line: usize| Region {
        after: gap,
        to: gap,
        rows: hunk.rows.iter().map(|row| (row.as_str(), line)).collect(),
    };
    let count = lines.count();
    let (first, last) = match hunk.place {
        Place::After(line) => return insertion(line, line),
        Place::Before(line) => return insertion(line.saturating_sub(1), line),
        Place::Head => return insertion(0, 1),
        Place::End => return insertion(count, count),
        Place::Lines { first, last } => (first, last),
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
        // The region's last line, or the one before it, ends without line end; so shall the result.
        if rows.is_empty() {
            let start = if after == 0 { lines.start(1) } else { lines.content_range(after).end };
            return TextEdit::replace(start..len, "");
        }
        let mut new_text = String::new();
        for (at, (row, line)) in rows.iter().enumerate() {
            // Appended rows are each led in by a line end, others are parted by one.
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
        // The last line end stays where it is.
        new_text.truncate(new_text.len() - lines.ending(to).len());
        range.end -= lines.ending(to).len();
    }
    TextEdit::replace(range, new_text)
}

/// The line end of a line, or the nearest one there is.
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
    fn check(text: &str, hunks: &[(Place, &str)], expected: &str) {
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

    const fn at(first: usize, last: usize) -> Place {
        Place::Lines { first, last }
    }

    #[test]
    fn each_line_keeps_its_line_end_and_new_lines_take_a_neighbours() {
        let text = "a\r\nb\nc\rd\r\n";
        check(text, &[(at(2, 3), "B|C")], "a\r\nB\nC\rd\r\n");
        check(text, &[(at(1, 1), "A|x")], "A\r\nx\r\nb\nc\rd\r\n");
        check(text, &[(at(1, 3), "A")], "A\r\nd\r\n");
        check(text, &[(Place::After(2), "x|y")], "a\r\nb\nx\ny\nc\rd\r\n");
        check(text, &[(Place::Before(1), "x")], "x\r\na\r\nb\nc\rd\r\n");
        check(text, &[(Place::End, "x")], "a\r\nb\nc\rd\r\nx\r\n");
    }

    #[test]
    fn a_missing_final_line_end_stays_missing() {
        check("a\r\nb", &[(at(2, 2), "B")], "a\r\nB");
        check("a\r\nb", &[(at(2, 2), "B|x")], "a\r\nB\r\nx");
        check("a\r\nb", &[(Place::End, "x|y")], "a\r\nb\r\nx\r\ny");
        check("a\r\nb", &[(Place::After(2), "x")], "a\r\nb\r\nx");
        check("a\r\nb", &[(at(2, 2), "")], "a");
        check("a\r\nb", &[(at(1, 1), ""), (at(2, 2), "")], "");
        check("a\r\nb", &[(at(1, 1), "A"), (at(2, 2), "")], "A");
        check("a", &[(Place::End, "x")], "a\nx");
        check("a", &[(Place::Head, "x")], "x\na");
        check("a", &[(at(1, 1), "x|y")], "x\ny");
        check("a\r\nb\nc", &[(at(2, 3), "x|y|z")], "a\r\nx\ny\nz");
        check("a\nb", &[(at(1, 2), "b")], "b");
    }

    #[test]
    fn the_ends_of_a_file() {
        check("", &[(Place::Head, "x"), (Place::End, "y")], "x\ny\n");
        check("\u{feff}", &[(Place::Head, "x")], "\u{feff}x\n");
        check("\u{feff}a\n", &[(Place::Head, "x")], "\u{feff}x\na\n");
        check("\u{feff}a\n", &[(at(1, 1), "x")], "\u{feff}x\n");
        check("\u{feff}a\n", &[(at(1, 1), "")], "\u{feff}");
        check("\u{feff}a", &[(at(1, 1), "")], "\u{feff}");
        check("a\n", &[(Place::End, "x")], "a\nx\n");
        check("\n", &[(at(1, 1), "x")], "x\n");
    }

    #[test]
    fn at_one_place_order_is_before_replacement_after_as_written() {
        check(
            "a\nb\nc\n",
            &[
                (Place::After(2), "5"),
                (at(2, 2), "B"),
                (Place::Before(2), "3"),
                (Place::After(1), "1"),
                (Place::Before(2), "4"),
                (Place::After(1), "2"),
                (Place::Before(3), "6"),
            ],
            "a\n1\n2\n3\n4\nB\n5\n6\nc\n",
        );
        check("a\n", &[(at(1, 1), ""), (Place::After(1), "y"), (Place::Head, "x")], "x\ny\n");
        check("a\nb\n", &[(at(1, 1), "a|x"), (Place::After(1), "y")], "a\nx\ny\nb\n");
        check("a\nb\n", &[(at(2, 2), "x|b"), (Place::Before(2), "w")], "a\nw\nx\nb\n");
    }

    #[test]
    fn lines_that_stay_the_same_are_not_touched() {
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
            Hunk { place: Place::Before(3), rows: vec!["b".into()] },
        ];
        assert_eq!(edits(&lines, &same), []);
    }

    #[test]
    fn overlap_is_found() {
        let hunk = |place| Hunk { place, rows: vec!["x".into()] };
        let overlaps = |a, b| overlap(&[hunk(a), hunk(b)], 9).is_some();
        assert!(overlaps(at(2, 4), at(4, 5)));
        assert!(overlaps(at(2, 2), at(2, 2)));
        assert!(overlaps(at(2, 9), at(3, 4)));
        assert!(overlaps(at(2, 4), Place::After(2)));
        assert!(overlaps(at(2, 4), Place::After(3)));
        assert!(overlaps(at(2, 4), Place::Before(3)));
        assert!(overlaps(at(2, 4), Place::Before(4)));
        assert!(!overlaps(at(2, 4), Place::Before(2)));
        assert!(!overlaps(at(2, 4), Place::After(4)));
        assert!(!overlaps(at(2, 4), at(5, 5)));
        assert!(!overlaps(at(1, 9), Place::Head));
        assert!(!overlaps(at(1, 9), Place::End));
    }
}
