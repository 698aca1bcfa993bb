//! Texts that nest deeper than a grammar's scanner can hold.
//!
//! A hand-written scanner keeps its state in 1,024 bytes. Those of Python and YAML write their whole stack of
//! indentation there: tree-sitter 0.27 ends the process if that does not fit (tree-sitter-yaml 0.7.2 from 254
//! levels on, tree-sitter-python 0.25.0 from 505). The estimate here is never below what the scanner would
//! hold, also during its error recovery; it may be above.

use crate::Language;

/// Maximum number of levels in Python, each of which takes two bytes.
const PYTHON: usize = 400;
/// Maximum number of levels in YAML, each of which takes four bytes.
///
/// A mapping and its sequence may begin at one column.
const YAML: usize = 120;

/// Whether a text nests too deeply for its grammar.
pub(crate) fn is_too_deep(language: Language, text: &str) -> bool {
    match language {
        Language::Python => columns(text, PYTHON, |_, _, _| {}),
        Language::Yaml => columns(text, YAML, nested_in_line),
        _ => false,
    }
}

/// Whether more than `most` columns are ever open.
///
/// Each line closes the columns at and right of its first letter. `inside` opens the columns that a
/// line nests.
fn columns(text: &str, most: usize, inside: impl Fn(&str, usize, &mut Vec<usize>)) -> bool {
    let mut open: Vec<usize> = Vec::new();
    let bytes = text.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        let end = memchr::memchr2(b'\n', b'\r', &bytes[start..]).map_or(bytes.len(), |at| start + at);
        let line = &text[start..end];
        start = end + 1;
        let mut column = 0;
        let mut blank = 0;
        for byte in line.bytes() {
            match byte {
                b' ' => column += 1,
                b'\t' => column += 8,
                b'\x0c' => column = 0,
                _ => break,
            }
            blank += 1;
        }
        if blank == line.len() {
            continue;
        }
        let rest = open.partition_point(|at| *at < column);
        open.truncate(rest);
        open.push(column);
        inside(&line[blank..], column, &mut open);
        if open.len() > most {
            return true;
        }
    }
    false
}

/// Opens the columns after `- `, `? ` and `: `, where a nested value may begin.
fn nested_in_line(line: &str, column: usize, open: &mut Vec<usize>) {
    let bytes = line.as_bytes();
    for at in memchr::memchr3_iter(b'-', b'?', b':', bytes) {
        let after = &bytes[at + 1..];
        let blanks = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if blanks > 0 || after.is_empty() {
            open.push(column + at + 1 + blanks.max(1));
        }
    }
}
