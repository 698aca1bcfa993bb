//! Literal brackets in globs, as in the directories `[id]` and `[[...slug]]`.
//!
//! A glob like `app/[id]/page.tsx` rarely means one of two letters. So the search reads such a group both
//! ways, and the wrong reading usually finds nothing.

use globset::GlobBuilder;

/// Extends the glob so that each bracket group also matches itself.
///
/// A group that is not a character class, such as `[user-id]`, matches only itself.
pub(super) fn both(glob: &str) -> String {
    let mut out = String::with_capacity(glob.len());
    let mut rest = glob;
    while let Some(at) = rest.find(['[', '\\']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let escaped = from.strip_prefix('\\').map(|it| 1 + it.chars().next().map_or(0, char::len_utf8));
        let Some(end) = escaped.or_else(|| class_end(from)) else {
            // The glob's parser reports the unclosed bracket.
            out.push_str(from);
            return out;
        };
        let (group, after) = from.split_at(end);
        match escaped {
            Some(_) => out.push_str(group),
            None if is_class(group) => out.push_str(&format!("{{{group},{}}}", literal(group))),
            None => out.push_str(&literal(group)),
        }
        rest = after;
    }
    out + rest
}

/// Finds the end of a class: the first `]` that is not its first character.
///
/// A group with a `/` is not a class.
fn class_end(from: &str) -> Option<usize> {
    let inner = from.strip_prefix('[')?;
    let inner = inner.strip_prefix(['!', '^']).unwrap_or(inner);
    let inner = inner.strip_prefix(']').unwrap_or(inner);
    let end = from.len() - inner.len() + inner.find([']', '/'])?;
    from[end..].starts_with(']').then_some(end + 1)
}

fn is_class(group: &str) -> bool {
    GlobBuilder::new(group).build().is_ok()
}

fn literal(group: &str) -> String {
    group.chars().flat_map(|c| (!c.is_alphanumeric()).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bracket_groups_are_literals_and_classes() {
        for (glob, read) in [
            ("a/*.rs", "a/*.rs"),
            ("[id]", r"{[id],\[id\]}"),
            ("[user-id]/x", r"\[user\-id\]/x"),
            ("[[...s]]", r"{[[...s],\[\[\.\.\.s\]}]"),
            ("[!a,b]", r"{[!a,b],\[\!a\,b\]}"),
            (r"\[id]", r"\[id]"),
            ("a[b", "a[b"),
            ("[a/b]", "[a/b]"),
            ("[é]x\\", "{[é],\\[é\\]}x\\"),
        ] {
            assert_eq!(both(glob), read);
        }
    }
}
