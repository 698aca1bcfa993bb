//! Parser of search queries. Every text is a valid query.

/// Maximum length of a word in bytes; longer ones are data.
pub(crate) const LONGEST: usize = 200;

/// A search query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub wanted: Vec<Part>,
    /// Parts that must not occur.
    pub unwanted: Vec<Part>,
}

/// A word, or several adjacent words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub words: Vec<String>,
    /// The compound of the words, if they are one name.
    pub joined: Option<String>,
}

impl Query {
    pub fn parse(text: &str) -> Query {
        let mut query = Query::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (is_unwanted, from) = match rest.strip_prefix('-') {
                Some(after) => (true, after),
                None => (false, rest),
            };
            let (part, after) = match from.strip_prefix('"') {
                // An unclosed quote extends to the end.
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => from.split_at(from.find(char::is_whitespace).unwrap_or(from.len())),
            };
            let (mut words, mut runs) = (Vec::new(), 0);
            each_run(part, |run| {
                words.extend(parts(run));
                runs += 1;
            });
            if !words.is_empty() {
                let joined = joined(&words).filter(|_| runs == 1);
                let part = Part { words, joined };
                if is_unwanted { &mut query.unwanted } else { &mut query.wanted }.push(part);
            }
            rest = after.trim_start();
        }
        query
    }

    /// All words that are searched.
    pub fn words(&self) -> Vec<&str> {
        self.wanted
            .iter()
            .flat_map(|part| part.words.iter().chain(&part.joined))
            .map(String::as_str)
            .collect()
    }
}

/// Calls `take` with each run of `text` between spaces and ASCII punctuation.
pub(crate) fn each_run<'a>(text: &'a str, take: impl FnMut(&'a str)) {
    let divides = |c: char| c.is_whitespace() || c.is_ascii() && !c.is_ascii_alphanumeric();
    text.split(divides).filter(|run| !run.is_empty()).for_each(take);
}

/// The words of a run.
pub(crate) fn parts(run: &str) -> Vec<String> {
    let mut parts = Vec::new();
    agent::discovery::each_word(run, |word| parts.push(word.to_owned()));
    parts
}

/// The compound of a run's words.
///
/// `None` for one word, and for a run that is not a name.
pub(crate) fn joined(parts: &[String]) -> Option<String> {
    let length: usize = parts.iter().map(String::len).sum();
    (parts.len() > 1 && length <= LONGEST).then(|| parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_have_words_names_quotes_and_exclusions() {
        let parsed = |text: &str| {
            let Query { wanted, unwanted } = Query::parse(text);
            let join = |all: Vec<Part>| all.iter().map(|it| it.words.join(" ")).collect::<Vec<_>>().join("|");
            format!("{} - {}", join(wanted), join(unwanted))
        };
        for (text, expected) in [
            ("rename parseHeader", "rename|parse header - "),
            ("\"two words\" -not -\"nor these\"", "two words - not|nor these"),
            ("\"open", "open - "),
            ("a:b^2 (c AND d)~ é", "a b 2|c|and|d|e - "),
            (" - -- \"\" ", " - "),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }
}
