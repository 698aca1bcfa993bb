//! Fences in a program's output.
//!
//! An adapter that reads the output in its own thread reports a stop or the end before the last
//! output. If it can write into the same pipe, Pilcrow asks it to write a fence. Once the fence
//! comes back, all output before it has arrived.
//!
//! Pure. Invariants: no fence is ever shown.

const BEGIN: &str = "[pilcrow:";
const END: &str = "]\n";

/// Code that writes fence `number`.
///
/// `code` is the definition's, with `${mark}`.
pub(crate) fn code(code: &str, number: u64) -> String {
    code.replace("${mark}", &format!("{BEGIN}{number}]"))
}

/// The text without its first fence, and the fence's number.
///
/// `None` if it has no fence.
pub(crate) fn take(text: &str) -> Option<(String, u64)> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (number, after) = rest.split_once(END)?;
    Some((format!("{before}{after}"), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_removed_from_the_output() {
        let written = code("write ${mark}", 12).replace("write ", "");
        assert_eq!(take(&format!("part{written}\n")), Some(("part".to_owned(), 12)));
        assert_eq!(take(&format!("{written}\nnext\n")), Some(("next\n".to_owned(), 12)));
        assert_eq!(take("[pilcrow:x]\n"), None);
        assert_eq!(take("all [pilcrow:1"), None);
    }
}
