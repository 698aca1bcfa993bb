//! Which version a section's numbers belong to.
//!
//! A fresh tag with numbers from before the model's own last edit is the commonest mistake, so
//! the numbers are tried in every version kept. They are believed only where nothing else fits.

use crate::chain::Chain;
use crate::patch::{Anchor, Section};
use crate::store::{History, Version};
use crate::{Reason, View};

/// How far from its number a line with the right check is looked for, to be shown.
const NEAR: usize = 64;

/// Index of the version whose lines the section names: the tagged one, or an earlier one from
/// which our own edits lead to it.
///
/// `view`: where the model was shown checks, an anchor without one may be a number from another
/// version.
pub(crate) fn resolve(
    history: &History,
    tagged: usize,
    section: &Section,
    view: View,
) -> Result<usize, (Reason, String)> {
    let anchors = section.anchors();
    let version = &history.versions[tagged];
    let others = history.versions.iter().enumerate().filter(|(at, _)| *at != tagged);
    if agrees(version, &anchors) {
        let proven = view.shows_checks() || anchors.iter().any(|anchor| anchor.check.is_some());
        if !proven {
            return Ok(tagged);
        }
        for (at, other) in others {
            if was_shown(other, &anchors)
                && agrees(other, &anchors)
                && let Some(anchor) = differing(history, at, tagged, &anchors)
            {
                let message = format!(
                    "`{}` fits two versions of this file that were shown (tags {} and {}) and means different lines in them; name every line by its number and check as below",
                    view.anchor(*anchor),
                    version.snapshot.tag(),
                    other.snapshot.tag()
                );
                return Err((Reason::Ambiguous, message));
            }
        }
        return Ok(tagged);
    }
    // Numbers alone prove nothing about an earlier version.
    let all_checked = anchors.iter().all(|anchor| anchor.check.is_some());
    let candidates: Vec<usize> = others
        .filter(|(at, other)| {
            *at < tagged && all_checked && was_shown(other, &anchors) && agrees(other, &anchors)
        })
        .map(|(at, _)| at)
        .collect();
    let mismatch = || (Reason::CheckMismatch, mismatch(version, &anchors, view));
    let mut found: Option<(usize, Vec<usize>)> = None;
    for at in candidates {
        let places = mapped(history, at, tagged, &anchors).ok_or_else(mismatch)?;
        match &found {
            Some((_, other)) if *other != places => {
                let message = "the numbers fit two earlier versions and mean different lines; name the lines by the numbers and checks below";
                return Err((Reason::Ambiguous, message.to_owned()));
            }
            // The newest of those that agree.
            _ => found = Some((at, places)),
        }
    }
    found.map(|(at, _)| at).ok_or_else(mismatch)
}

fn agrees(version: &Version, anchors: &[Anchor]) -> bool {
    let lines = version.snapshot.lines();
    anchors.iter().all(|anchor| {
        anchor.line <= lines.count() && anchor.check.is_none_or(|check| check == lines.check(anchor.line))
    })
}

/// A number can only come from a version in which it was shown.
fn was_shown(version: &Version, anchors: &[Anchor]) -> bool {
    anchors.iter().all(|anchor| version.seen.contains(anchor.line))
}

fn mapped(history: &History, from: usize, to: usize, anchors: &[Anchor]) -> Option<Vec<usize>> {
    let (old, new) = (history.versions[from].snapshot.lines(), history.versions[to].snapshot.lines());
    let chain = Chain::new(old.text(), new.text(), history.steps(from, to)?)?;
    anchors.iter().map(|anchor| chain.line(old, new, anchor.line, anchor.line)).collect()
}

/// The first anchor whose number means different lines in two versions: by our own edits where we
/// made one of the other, else by what a line diff leaves alone.
fn differing<'a>(history: &History, a: usize, b: usize, anchors: &'a [Anchor]) -> Option<&'a Anchor> {
    let lines = |at: usize| history.versions[at].snapshot.lines();
    let moved = |chain: &Chain, from: usize, to: usize| {
        anchors
            .iter()
            .find(|anchor| chain.line(lines(from), lines(to), anchor.line, anchor.line) != Some(anchor.line))
    };
    for (from, to) in [(a, b), (b, a)] {
        let chain =
            history.steps(from, to).and_then(|steps| Chain::new(lines(from).text(), lines(to).text(), steps));
        if let Some(chain) = chain {
            return moved(&chain, from, to);
        }
    }
    if lines(a).same_lines(lines(b)) {
        return None;
    }
    let edits = text::diff_edits(lines(a).text(), lines(b).text());
    match Chain::new(lines(a).text(), lines(b).text(), [edits.as_slice()]) {
        Some(chain) => moved(&chain, a, b),
        None => anchors.first(),
    }
}

fn mismatch(version: &Version, anchors: &[Anchor], view: View) -> String {
    let lines = version.snapshot.lines();
    let mut messages = Vec::new();
    for anchor in anchors {
        if anchor.line > lines.count() {
            messages.push(format!("line {} does not exist, the text has {}", anchor.line, lines.count()));
            continue;
        }
        let Some(check) = anchor.check.filter(|check| *check != lines.check(anchor.line)) else { continue };
        let near = anchor.line.saturating_sub(NEAR).max(1)..=(anchor.line + NEAR).min(lines.count());
        let found: Vec<usize> = near.filter(|line| lines.check(*line) == check).take(2).collect();
        let hint = match found[..] {
            [line] => format!(" (`{}` stands at line {line})", view.check(check)),
            _ => String::new(),
        };
        messages.push(format!(
            "`{}` is not a line of this text, whose line {} is `{}`{hint}",
            view.anchor(*anchor),
            anchor.line,
            view.anchor(Anchor { check: Some(lines.check(anchor.line)), ..*anchor }),
        ));
    }
    messages.truncate(4);
    format!("{}; use the numbers and checks below", messages.join("; "))
}
