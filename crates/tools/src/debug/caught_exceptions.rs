//! Classification of a stop in a test: its failure, or a handled exception.
//!
//! Pure. Invariants: the verdict `Fails` requires that only the project's code is between the stop and the
//! runner, and that the debugger does not stop at handled exceptions.

/// Meaning of a stop for a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopVerdict {
    Fails,
    /// The program, the runner or a caller may handle the exception.
    MayBeHandled,
    /// The stop is not the test's failure, so the program continues.
    Ignored,
}

/// The parts of a frame that the verdict needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackPlace<'a> {
    pub name: &'a str,
    /// Whether an exception leaves the frame.
    pub is_left: bool,
    /// Whether the frame is in code of the project.
    pub is_own: bool,
    /// Whether this is a label between asynchronous parts of a stack, not a frame.
    pub is_label: bool,
}

/// Classifies a stop of the test `title`; `frames` start at the top.
pub(super) fn verdict(title: Option<&str>, may_be_handled: bool, frames: &[StackPlace<'_>]) -> StopVerdict {
    // debugpy lists the cause of an exception below it; those frames are not callers.
    let is_boundary = |place: &StackPlace<'_>| place.is_label || place.name.starts_with("[Chained Exc:");
    let called = &frames[..frames.iter().position(is_boundary).unwrap_or(frames.len())];
    let own: Vec<usize> = (0..called.len()).filter(|at| called[*at].is_own).collect();
    let (Some(first), Some(last)) = (own.first(), own.last()) else { return StopVerdict::Ignored };
    // debugpy stops for each function that an exception leaves; only the last stop counts.
    let left = called.iter().position(|place| place.is_left);
    if left.is_some_and(|left| left < *last) {
        return StopVerdict::Ignored;
    }
    let through_others = last - first + 1 > own.len();
    // An exception in another thread is handled by the thread that joins it.
    let in_test = title.is_none_or(|title| own.iter().any(|at| has_word(called[*at].name, title)));
    match may_be_handled || through_others || !in_test {
        true => StopVerdict::MayBeHandled,
        false => StopVerdict::Fails,
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::StopVerdict::{Fails, Ignored, MayBeHandled};
    use super::*;

    /// Frames by name; `own:` marks frames of the project, `--` a label.
    ///
    /// `^` marks the frame that an exception leaves.
    #[track_caller]
    fn check(frames: &[&str], expected: StopVerdict) {
        let frames = frames.iter().map(|name| StackPlace {
            name: name.trim_start_matches("own:").trim_end_matches('^'),
            is_left: name.ends_with('^'),
            is_own: name.starts_with("own:"),
            is_label: *name == "--",
        });
        let frames: Vec<StackPlace<'_>> = frames.collect();
        assert_eq!(verdict(Some("test_it"), false, &frames), expected);
    }

    #[test]
    fn an_exception_that_leaves_the_test_fails_it() {
        check(&["own:boom", "own:test_it^", "run"], Fails);
        check(&["rust_panic", "own:a::tests::test_it", "catch_unwind"], Fails);
        check(&["testing.(*common).Fail", "own:a.test_it.func1", "testing.tRunner"], Fails);
        check(&["own:test_it^", "[Chained Exc: no] test_it", "own:x"], Fails);
    }

    #[test]
    fn an_exception_through_other_code_may_be_handled() {
        check(&["own:work^", "map", "pool"], MayBeHandled);
        check(&["own:div", "catch_unwind", "own:a::tests::test_it"], MayBeHandled);
        check(&["rust_panic", "own:a::work"], MayBeHandled);
        check(&["own:boom", "throws", "own:test_it", "--", "own:x"], MayBeHandled);
    }

    #[test]
    fn only_the_last_function_that_an_exception_leaves_counts() {
        check(&["own:work^", "own:test_it"], Ignored);
        check(&["own:module^", "importlib", "own:test_it"], Ignored);
        check(&["run", "select"], Ignored);
    }
}
