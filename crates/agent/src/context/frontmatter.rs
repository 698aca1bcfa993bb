//! Parses the YAML frontmatter of a Markdown file.
//!
//! The module is pure.

use yaml_rust2::parser::{Event, Parser};

/// Maximum bytes of frontmatter.
const MOST: usize = 16 << 10;

/// A Markdown file split into frontmatter and body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frontmatter<'a> {
    /// The fields with scalar values, in order.
    pub fields: Vec<(String, String)>,
    pub body: &'a str,
}

impl Frontmatter<'_> {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// Splits a file. `Err` has the line, from 1, and the problem.
pub(super) fn parse(text: &str) -> Result<Frontmatter<'_>, (usize, String)> {
    let none = Frontmatter { fields: Vec::new(), body: text };
    let Some(after) = text.strip_prefix("---").map(|rest| rest.trim_start_matches([' ', '\t', '\r'])) else {
        return Ok(none);
    };
    let Some(yaml) = after.strip_prefix('\n') else { return Ok(none) };
    let mut end = None;
    let mut at = 0;
    for line in yaml.split_inclusive('\n') {
        if line.trim_end() == "---" {
            end = Some((at, at + line.len()));
            break;
        }
        at += line.len();
    }
    let Some((end, body)) = end else {
        return Err((1, "the frontmatter is not closed; add a line `---`".to_owned()));
    };
    if end > MOST {
        return Err((1, format!("the frontmatter has more than {MOST} bytes; shorten it")));
    }
    let fields = fields(&yaml[..end])?;
    Ok(Frontmatter { fields, body: &yaml[body..] })
}

/// Parses the scalar fields of a mapping.
///
/// Reads parser events one by one, so that neither depth nor aliases cost anything.
fn fields(yaml: &str) -> Result<Vec<(String, String)>, (usize, String)> {
    let mut parser = Parser::new_from_str(yaml);
    let mut fields = Vec::new();
    let mut key: Option<String> = None;
    let mut depth = 0_usize;
    loop {
        let (event, mark) = parser.next_token().map_err(|error| {
            // The opening `---` is the line before.
            (error.marker().line() + 1, error.info().to_owned())
        })?;
        let wrong = || (mark.line() + 1, "the frontmatter must be a mapping".to_owned());
        match event {
            Event::StreamEnd | Event::DocumentEnd => return Ok(fields),
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                if depth == 0 && matches!(event, Event::SequenceStart(..)) {
                    return Err(wrong());
                }
                depth += 1;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                depth = depth.saturating_sub(1);
                if depth == 1 {
                    key = None;
                }
            }
            Event::Scalar(text, ..) if depth == 0 && text != "~" && !text.is_empty() => return Err(wrong()),
            Event::Scalar(text, ..) if depth == 1 => match key.take() {
                None => key = Some(text),
                Some(key) => fields.push((key, text)),
            },
            Event::Alias(_) if depth <= 1 => {
                return Err((mark.line() + 1, "aliases are not supported; repeat the value".to_owned()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, fields: &[(&str, &str)], body: &str) {
        let matter = parse(text).unwrap();
        let found: Vec<(&str, &str)> =
            matter.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!((found.as_slice(), matter.body), (fields, body), "{text}");
    }

    #[test]
    fn scalar_fields_are_read_and_others_skipped() {
        check("no matter\n---\n", &[], "no matter\n---\n");
        check("---\r\nname: a\r\n---\r\nbody", &[("name", "a")], "body");
        check("---\n---\nbody\n", &[], "body\n");
        check(
            "---\nname: \"a: b\"\nmetadata:\n  version: [1, 2]\n  x: {y: z}\ndescription: >\n  two\n  lines\nflag: true\n---\n",
            &[("name", "a: b"), ("description", "two lines\n"), ("flag", "true")],
            "",
        );
        check("---\nlist:\n- a\n- b\nname: c\n---\n", &[("name", "c")], "");
    }

    #[test]
    fn errors_have_their_line() {
        assert_eq!(parse("---\nname: a\n").unwrap_err().0, 1);
        assert_eq!(parse("---\nname: a\nb: \"open\n---\n").unwrap_err().0, 3);
        assert_eq!(parse("---\n- a\n---\n").unwrap_err().0, 2);
        assert_eq!(parse("---\njust words\n---\n").unwrap_err().0, 2);
        let deep = format!("---\na: {}\n---\n", "[".repeat(8000));
        assert!(parse(&deep).is_err(), "deep, and not closed");
        let bomb = "---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\nname: n\n---\n";
        assert_eq!(parse(bomb).unwrap().get("name"), Some("n"));
    }
}
