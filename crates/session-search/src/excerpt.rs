//! Excerpts: one line of a text around the matched words.

use crate::query::{each_run, joined, parts};

const BEFORE: usize = 6;
const WORDS: usize = 28;
const CHARS: usize = 200;

/// The words around the first position with the most matches.
pub(crate) fn of(text: &str, wanted: &[&str]) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let marks: Vec<u64> = words
        .iter()
        .map(|word| {
            let mut mark = 0;
            let mut look = |token: &str| {
                if let Some(at) = wanted.iter().position(|it| *it == token) {
                    mark |= 1 << (at % 64);
                }
            };
            each_run(word, |run| {
                let parts = parts(run);
                parts.iter().chain(&joined(&parts)).for_each(|token| look(token));
            });
            mark
        })
        .collect();
    let count = |at: usize| {
        let end = (at + WORDS - BEFORE).min(words.len());
        marks[at..end].iter().fold(0, |all, mark| all | mark).count_ones()
    };
    // `rev` makes the earliest of the best positions win.
    let best = (0..words.len()).filter(|at| marks[*at] != 0).rev().max_by_key(|at| count(*at)).unwrap_or(0);
    let from = best.saturating_sub(BEFORE);
    let to = (from + WORDS).min(words.len());
    let line = words[from..to].join(" ");
    let cut: String = line.chars().take(CHARS).collect();
    let before = if from > 0 { "… " } else { "" };
    let after = if to < words.len() || cut.len() < line.len() { " …" } else { "" };
    format!("{before}{cut}{after}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_position_with_the_most_words_is_shown() {
        let filler = "lorem ipsum ".repeat(40);
        let text = format!("alpha {filler} beta\n\tAlpha gamma {filler} alpha beta");
        let excerpt = super::of(&text, &["alpha", "beta"]);
        expect_test::expect!["… lorem ipsum lorem ipsum lorem ipsum beta Alpha gamma lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem …"].assert_eq(&excerpt);
        assert_eq!(super::of("short", &["absent"]), "short");
        assert_eq!(super::of("", &["absent"]), "");
        let long = super::of(&"ä".repeat(5_000), &["a"]);
        assert_eq!(long.chars().count(), 202);
    }
}
