//! Marks behind what a program wrote. An adapter that reads its program's output in a thread of its own tells
//! a stop or the end before the last of that output; one that can be made to write into the same pipe is
//! asked to write a mark, and when that comes back, all before it has come.
//!
//! Pure. What must stay true: no mark is ever shown.

const BEGIN: &str = "[pilcrow:";
const END: &str = "]\n";

/// What is evaluated so that mark `number` is written: `code` is the definition's, with `${mark}`.
pub(crate) fn code(code: &str, number: u64) -> String {
    code.replace("${mark}", &format!("{BEGIN}{number}]"))
}

/// A text without the first mark in it, and that mark's number; `None` where there is none.
pub(crate) fn take(text: &str) -> Option<(String, u64)> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (number, after) = rest.split_once(END)?;
    Some((format!("{before}{after}"), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_taken_out_of_what_the_program_wrote() {
        let written = code("write ${mark}", 12).replace("write ", "");
        assert_eq!(take(&format!("part{written}\n")), Some(("part".to_owned(), 12)));
        assert_eq!(take(&format!("{written}\nnext\n")), Some(("next\n".to_owned(), 12)));
        assert_eq!(take("[pilcrow:x]\n"), None);
        assert_eq!(take("all [pilcrow:1"), None);
    }
}
