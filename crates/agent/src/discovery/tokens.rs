//! Words of names and sentences, for the tools' index and whoever searches as it does. Pure.

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    /// A letter that is neither, as in scripts without case.
    Letter,
    Number,
    Mark,
    Other,
}

/// Calls `take` with each word of `text`, in order: compatibility decomposed (NFKD), without combining
/// marks, in lower case. What is neither letter nor digit parts tokens, and so do `fooBar` and `HTTPServer`;
/// nothing else does (`utf8` is one token).
pub fn each_word(text: &str, take: impl FnMut(&str)) {
    if text.is_ascii() { each_ascii_word(text, take) } else { each_any_word(text, take) }
}

/// The same of what nearly all names and descriptions are, without a look at each character's properties: a word that is in lower case
/// already is handed on as it stands.
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
    let kinds = |at: usize| text.as_bytes().get(at).map_or(Kind::Other, |byte| kind(char::from(*byte)));
    let (mut begin, mut before, mut now) = (0, Kind::Other, kinds(0));
    for at in 0..text.len() {
        let next = kinds(at + 1);
        if begins(before, now, next) || now == Kind::Other {
            give(&text[begin..at]);
            begin = at + usize::from(now == Kind::Other);
        }
        (before, now) = (now, next);
    }
    give(&text[begin..]);
}

/// Whether a word begins at a character of this kind between these two.
fn begins(before: Kind, kind: Kind, next: Kind) -> bool {
    kind == Kind::Upper
        && (matches!(before, Kind::Lower | Kind::Number) || before == Kind::Upper && next == Kind::Lower)
}

fn each_any_word(text: &str, mut take: impl FnMut(&str)) {
    let text = DecomposingNormalizerBorrowed::new_nfkd().normalize(text);
    let mut chars = text.chars().map(|c| (c, kind(c))).filter(|(_, kind)| *kind != Kind::Mark).peekable();
    let (mut token, mut before) = (String::new(), Kind::Other);
    while let Some((c, kind)) = chars.next() {
        let next = chars.peek().map_or(Kind::Other, |(_, kind)| *kind);
        if (begins(before, kind, next) || kind == Kind::Other) && !token.is_empty() {
            take(&token);
            token.clear();
        }
        if kind != Kind::Other {
            token.extend(c.to_lowercase());
        }
        before = kind;
    }
    if !token.is_empty() {
        take(&token);
    }
}

fn kind(c: char) -> Kind {
    match c {
        'a'..='z' => return Kind::Lower,
        'A'..='Z' => return Kind::Upper,
        '0'..='9' => return Kind::Number,
        c if c.is_ascii() => return Kind::Other,
        _ => {}
    }
    match CodePointMapData::<GeneralCategory>::new().get(c) {
        GeneralCategory::UppercaseLetter => Kind::Upper,
        GeneralCategory::LowercaseLetter => Kind::Lower,
        GeneralCategory::TitlecaseLetter | GeneralCategory::ModifierLetter | GeneralCategory::OtherLetter => {
            Kind::Letter
        }
        GeneralCategory::DecimalNumber | GeneralCategory::LetterNumber | GeneralCategory::OtherNumber => {
            Kind::Number
        }
        GeneralCategory::NonspacingMark | GeneralCategory::SpacingMark | GeneralCategory::EnclosingMark => {
            Kind::Mark
        }
        _ => Kind::Other,
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
    fn ascii_is_parted_as_any_text_is() {
        // Every text of six characters of these kinds.
        let letters = ['a', 'b', 'A', 'B', '7', '_'];
        for number in 0..6_usize.pow(6) {
            let text: String = (0..6).map(|at| letters[number / 6_usize.pow(at) % 6]).collect();
            let mut any = Vec::new();
            super::each_any_word(&text, |token| any.push(token.to_owned()));
            assert_eq!(tokens(&text), any, "{text}");
        }
    }

    #[test]
    fn names_and_sentences_are_parted_as_documented() {
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
