//! Words of names and sentences, for search indexes.
//!
//! The module is pure.

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharKind {
    Upper,
    Lower,
    /// A letter without case.
    Letter,
    Number,
    Mark,
    Other,
}

/// Calls `take` with each word of `text`, in order.
///
/// Words are compatibility decomposed (NFKD), without combining marks, in lower case. They end at characters
/// other than letters and digits, and within `fooBar` and `HTTPServer`; `utf8` is one word.
pub fn each_word(text: &str, take: impl FnMut(&str)) {
    if text.is_ascii() { each_ascii_word(text, take) } else { each_any_word(text, take) }
}

/// Splits ASCII as [`each_word`] does, without Unicode tables.
///
/// Does not copy lowercase words.
fn each_ascii_word(text: &str, mut take: impl FnMut(&str)) {
    let mut lower = String::new();
    let mut give = |word: &str| {
        if word.is_empty() {
        } else if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            lower.clear();
            lower.push_str(word);
            lower.make_ascii_lowercase();
            take(&lower);
        } else {
            take(word);
        }
    };
    let kinds = |at: usize| text.as_bytes().get(at).map_or(CharKind::Other, |byte| kind(char::from(*byte)));
    let (mut begin, mut before, mut now) = (0, CharKind::Other, kinds(0));
    for at in 0..text.len() {
        let next = kinds(at + 1);
        if begins(before, now, next) || now == CharKind::Other {
            give(&text[begin..at]);
            begin = at + usize::from(now == CharKind::Other);
        }
        (before, now) = (now, next);
    }
    give(&text[begin..]);
}

/// Whether a word begins at a character of this kind between these two.
fn begins(before: CharKind, kind: CharKind, next: CharKind) -> bool {
    kind == CharKind::Upper
        && (matches!(before, CharKind::Lower | CharKind::Number)
            || before == CharKind::Upper && next == CharKind::Lower)
}

fn each_any_word(text: &str, mut take: impl FnMut(&str)) {
    let text = DecomposingNormalizerBorrowed::new_nfkd().normalize(text);
    let mut chars = text.chars().map(|c| (c, kind(c))).filter(|(_, kind)| *kind != CharKind::Mark).peekable();
    let (mut token, mut before) = (String::new(), CharKind::Other);
    while let Some((c, kind)) = chars.next() {
        let next = chars.peek().map_or(CharKind::Other, |(_, kind)| *kind);
        if (begins(before, kind, next) || kind == CharKind::Other) && !token.is_empty() {
            take(&token);
            token.clear();
        }
        if kind != CharKind::Other {
            token.extend(c.to_lowercase());
        }
        before = kind;
    }
    if !token.is_empty() {
        take(&token);
    }
}

fn kind(c: char) -> CharKind {
    match c {
        'a'..='z' => return CharKind::Lower,
        'A'..='Z' => return CharKind::Upper,
        '0'..='9' => return CharKind::Number,
        c if c.is_ascii() => return CharKind::Other,
        _ => {}
    }
    match CodePointMapData::<GeneralCategory>::new().get(c) {
        GeneralCategory::UppercaseLetter => CharKind::Upper,
        GeneralCategory::LowercaseLetter => CharKind::Lower,
        GeneralCategory::TitlecaseLetter | GeneralCategory::ModifierLetter | GeneralCategory::OtherLetter => {
            CharKind::Letter
        }
        GeneralCategory::DecimalNumber | GeneralCategory::LetterNumber | GeneralCategory::OtherNumber => {
            CharKind::Number
        }
        GeneralCategory::NonspacingMark | GeneralCategory::SpacingMark | GeneralCategory::EnclosingMark => {
            CharKind::Mark
        }
        _ => CharKind::Other,
    }
}

#[cfg(test)]
mod tests {
    fn tokens(text: &str) -> Vec<String> {
        let mut tokens = Vec::new();
        super::each_word(text, |token| tokens.push(token.to_owned()));
        tokens
    }

    #[test]
    fn ascii_is_split_like_other_text() {
        // The loop builds every text of six characters of these kinds.
        let letters = ['a', 'b', 'A', 'B', '7', '_'];
        for number in 0..6_usize.pow(6) {
            let text: String = (0..6).map(|at| letters[number / 6_usize.pow(at) % 6]).collect();
            let mut any = Vec::new();
            super::each_any_word(&text, |token| any.push(token.to_owned()));
            assert_eq!(tokens(&text), any, "{text}");
        }
    }

    #[test]
    fn names_and_sentences_are_split_as_documented() {
        for (text, expected) in [
            ("read_file", vec!["read", "file"]),
            ("readFile", vec!["read", "file"]),
            ("HTTPServer", vec!["http", "server"]),
            ("parseHTTPServer2Go", vec!["parse", "http", "server2", "go"]),
            ("ABcDEf", vec!["a", "bc", "d", "ef"]),
            ("utf8", vec!["utf8"]),
            ("v2API", vec!["v2", "api"]),
            ("mcp__git-hub.create/PR", vec!["mcp", "git", "hub", "create", "pr"]),
            ("Café naïve", vec!["cafe", "naive"]),
            ("ﬁle ＡＢ①", vec!["file", "ab1"]),
            ("Größe ÀÉcole", vec!["große", "a", "ecole"]),
            ("İstanbul", vec!["istanbul"]),
            ("検索 ツール", vec!["検索", "ツール"]),
            ("it's 3.5×", vec!["it", "s", "3", "5"]),
            ("  \u{0301}—", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }
}
