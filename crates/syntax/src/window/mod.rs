//! Errors that an edit introduces, from the lines around it, for very large texts.
//!
//! The parser gets at most 600 lines before and after the edit. They are cut where constructs
//! begin, preceded by the lines that open the blocks around the cut and followed by their closers,
//! so that valid code parses. If it does not, other cuts are tried. An error far from the edit is
//! not found, and neither is one that only the omitted lines would show.

pub(crate) mod cuts;
pub(crate) mod parts;

use std::ops::Range;

use text::TextEdit;

use crate::window::cuts::{Header, Line};
use crate::{Comparison, Language, Stop, Stopped, SyntaxError, Tree};

/// Maximum number of lines to parse, excluding those that the edits replace.
const LINES: usize = 600;
/// Maximum number of distant places that are checked together.
const PLACES: usize = 6;
/// Minimum distance in bytes between edits of different places.
const APART: usize = 4_000;
/// Maximum number of bytes searched for a cut, on each side of a place.
const REACH: usize = 64 << 10;
/// Maximum number of cuts to try until the text before the edit parses.
const TRIES: usize = 4;

impl Comparison {
    /// Compares as [`Comparison::of`] does, using only the lines around the edits.
    ///
    /// The edits refer to `before`, are in order of position and do not overlap. Errors have
    /// positions in the whole text after them. Returns `None` if the edits are too many or the
    /// lines too long, and for HTML. `was_broken` means that the lines around the edits did not
    /// parse before.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if `stop` returned true.
    pub fn of_window(
        language: Language,
        before: &str,
        edits: &[TextEdit],
        stop: Stop<'_>,
    ) -> Result<Option<Self>, Stopped> {
        let places = places(before, edits);
        // A tag of HTML may close much later, or never, so a piece proves nothing about it.
        if places.is_empty() || places.len() > PLACES || language == Language::Html {
            return Ok(None);
        }
        let budget = LINES / places.len() / 2;
        let mut best: Option<(Window, Tree, Vec<SyntaxError>)> = None;
        for attempt in 0..TRIES {
            let Some(window) = Window::cut(language, before, &places, budget, attempt) else { continue };
            if best.as_ref().is_some_and(|(best, ..)| best.text == window.text) {
                continue;
            }
            let tree = Tree::parse(language, &window.text, stop)?;
            let errors = tree.errors(&window.text);
            let is_clean = errors.is_empty();
            if best.as_ref().is_none_or(|(.., best)| errors.len() < best.len()) {
                best = Some((window, tree, errors));
            }
            if is_clean {
                break;
            }
        }
        let Some((window, tree, old)) = best else { return Ok(None) };
        let Ok(after) = text::apply(&window.text, &window.edits) else { return Ok(None) };
        let new = tree.reparse(&window.text, &window.edits, &after, stop)?;
        // At the cut, a body or its continuation may be missing.
        let was_broken = !tree.parse_errors(&window.text).is_empty();
        let mut comparison = Self::of_errors(&old, &window.edits, || new.errors(&after));
        comparison.was_broken = was_broken;
        if new.errors(&after).len() <= old.len() {
            // The cut was not suitable, so errors found in it are unreliable.
            comparison.new_errors.retain(|_| !comparison.was_broken);
        }
        for error in &mut comparison.new_errors {
            error.range = window.place(&error.range);
        }
        Ok(Some(comparison))
    }
}

/// Edits that are close together, and the lines they touch.
struct EditGroup<'a> {
    edits: &'a [TextEdit],
    lines: Range<usize>,
}

fn places<'a>(before: &str, edits: &'a [TextEdit]) -> Vec<EditGroup<'a>> {
    let mut places: Vec<EditGroup<'a>> = Vec::new();
    let mut first = 0;
    for at in 1..=edits.len() {
        let ends = edits.get(at).is_none_or(|next| next.range.start - edits[at - 1].range.end > APART);
        if ends {
            let edits = &edits[first..at];
            let (start, end) = (edits[0].range.start, edits[edits.len() - 1].range.end);
            places.push(EditGroup {
                edits,
                lines: cuts::line_start(before, start)..cuts::line_end(before, end),
            });
            first = at;
        }
    }
    places
}

/// Pieces of a text combined so that they may parse by themselves.
struct Window {
    text: String,
    edits: Vec<TextEdit>,
    pieces: Vec<Piece>,
}

/// The place of a piece after the edits: in the window and in the whole text.
struct Piece {
    window: Range<usize>,
    whole: usize,
    /// The place, in the whole text, to report for an error outside all pieces.
    edited: usize,
}

impl Window {
    fn cut(
        language: Language,
        before: &str,
        places: &[EditGroup<'_>],
        budget: usize,
        attempt: usize,
    ) -> Option<Self> {
        let mut window = Self { text: String::new(), edits: Vec::new(), pieces: Vec::new() };
        // The growth by the edits so far, the same in the whole text and in the window.
        let mut grown = 0isize;
        // Blocks that are open at the end of the window.
        let mut open: Vec<Header> = Vec::new();
        let mut reached = 0;
        for place in places {
            let above = cuts::above(before, place.lines.start, budget, REACH);
            let below = cuts::below(before, place.lines.end, budget, REACH);
            let start = upper(language, before, &above, attempt)?;
            let end = lower(language, before, &below, attempt)?;
            if start < reached {
                // The pieces overlap: they continue as one.
                let shift = window.text.len() as isize - reached as isize;
                window.text.push_str(&before[reached.min(end)..end]);
                window.push_edits(place, shift);
                grown += growth(place);
                let to = window.text.len().saturating_add_signed(grown);
                window.pieces.last_mut()?.window.end = to;
                reached = reached.max(end);
                open = cuts::open_at(language, before, reached);
                continue;
            }
            let headers = cuts::open_at(language, before, start);
            let common = open.iter().zip(&headers).take_while(|(a, b)| a.start == b.start).count();
            window.text.push_str(&cuts::closers(language, &open[common..]));
            for header in &headers[common..] {
                window.text.push_str(&header.text);
            }
            let shift = window.text.len() as isize - start as isize;
            let from = window.text.len().saturating_add_signed(grown);
            let whole = start.saturating_add_signed(grown);
            let edited = place.edits[0].range.start.saturating_add_signed(grown);
            window.text.push_str(&before[start..end]);
            window.push_edits(place, shift);
            grown += growth(place);
            let to = window.text.len().saturating_add_signed(grown);
            window.pieces.push(Piece { window: from..to, whole, edited });
            reached = end;
            open = cuts::open_at(language, before, end);
        }
        window.text.push_str(&cuts::closers(language, &open));
        Some(window)
    }

    fn push_edits(&mut self, place: &EditGroup<'_>, shift: isize) {
        self.edits.extend(place.edits.iter().map(|edit| {
            let start = edit.range.start.saturating_add_signed(shift);
            TextEdit::replace(start..start + edit.range.len(), edit.new_text.clone())
        }));
    }

    /// Maps a range of the window after the edits to the whole text after them.
    fn place(&self, range: &Range<usize>) -> Range<usize> {
        let holds = |piece: &&Piece| piece.window.start <= range.start && range.start < piece.window.end;
        match self.pieces.iter().find(holds) {
            Some(piece) => {
                let start = piece.whole + range.start - piece.window.start;
                start..start + range.len()
            }
            // The error is in an opener before the window or a closer after it: the edit caused it.
            None => {
                let before = self.pieces.iter().rfind(|piece| piece.window.end <= range.start);
                let at = before.or(self.pieces.first()).map_or(0, |piece| piece.edited);
                at..at
            }
        }
    }
}

fn growth(place: &EditGroup<'_>) -> isize {
    place.edits.iter().map(TextEdit::growth).sum()
}

/// The cut above the edit; `lines` go up from the edit.
///
/// `None` without a line to cut at.
fn upper(language: Language, text: &str, lines: &[Line], attempt: usize) -> Option<usize> {
    if attempt == 0 && lines.last().is_none_or(|line| line.start == 0) {
        return Some(0);
    }
    let mut good = cuts::candidates(language, text, lines);
    if lines.last().is_none_or(|line| line.start == 0) {
        good.insert(0, 0);
    }
    pick(&good, attempt)
}

/// The cut below the edit; `lines` go down from the edit.
fn lower(language: Language, text: &str, lines: &[Line], attempt: usize) -> Option<usize> {
    let is_end = lines.last().is_none_or(|line| line.end == text.len());
    if attempt == 0 && is_end {
        return Some(text.len());
    }
    let mut good = cuts::candidates(language, text, lines);
    if is_end {
        good.insert(0, text.len());
    }
    pick(&good, attempt)
}

/// Picks the farthest cut first, then nearer ones.
fn pick(good: &[usize], attempt: usize) -> Option<usize> {
    let at = match attempt {
        0 => 0,
        1 => good.len() / 4,
        2 => good.len() / 2,
        _ => good.len().saturating_sub(1),
    };
    good.get(at).copied()
}
