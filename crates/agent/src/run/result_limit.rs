//! Limits on results that are too large for the model.
//!
//! A file has the full text of a cut result.

use llm::{Content, Message};

use crate::run::context::RunCx;
use crate::transcript::Transcript;

/// Minimum tokens for the results of one batch, however full the context is.
const LEAST: u64 = 500;
/// Text that replaces a picture.
const NO_PICTURE: &str =
    "[picture omitted: the context has no room for it; request it alone or in a new conversation]";
/// Length in characters up to which results are not cut.
///
/// The note about the file would be as long.
const SMALL: usize = 200;

/// Tokens available for the results of a new batch.
pub(crate) fn room(cx: &RunCx, transcript: &Transcript) -> u64 {
    cx.compaction_limits().threshold().saturating_sub(transcript.tokens()).max(LEAST)
}

/// Returns the result as added to the transcript.
///
/// It takes at most a quarter of the model's window, and at most the `room` that is left for its batch.
pub(crate) fn fitting(
    cx: &RunCx,
    transcript: &mut Transcript,
    call_id: &str,
    content: Vec<Content>,
    room: u64,
) -> Vec<Content> {
    let quarter = cx.compaction_limits().window / 4;
    let (content, left) = with_pictures(content, transcript.api(), quarter, room);
    let most = usize::try_from(quarter.max(LEAST).min(left) * 4).unwrap_or(usize::MAX).max(SMALL);
    let texts = content.iter().map(|block| match block {
        Content::Text { text, .. } => text.len(),
        _ => 0,
    });
    // A character has at least one byte, so this is never too small.
    if texts.sum::<usize>() <= most {
        return content;
    }
    let whole = joined(&content);
    let count = whole.chars().count();
    if count <= most {
        return content;
    }
    let kept = transcript.file().map(|file| file.keep_output(call_id, &whole));
    let place = match kept {
        Some(Ok(path)) => format!("the full output is in {path}"),
        Some(Err(error)) => {
            tracing::warn!(%error, "cannot store the full text of a result");
            "the rest could not be stored".to_owned()
        }
        None => "the rest is not stored".to_owned(),
    };
    let text = shortened(&whole, count, most, &place);
    let others = content.into_iter().filter(|block| !matches!(block, Content::Text { .. }));
    std::iter::once(Content::text(text)).chain(others).collect()
}

/// The content with the pictures that fit, and the remaining tokens.
///
/// One picture fits into a small window too.
fn with_pictures(content: Vec<Content>, api: &str, quarter: u64, room: u64) -> (Vec<Content>, u64) {
    let cost = |block: &Content| match block {
        Content::Image { data, .. } => llm::image_tokens(api, data),
        _ => 0,
    };
    let mut left = quarter.max(content.iter().map(cost).max().unwrap_or(0)).min(room);
    let fits = |block: Content| match block {
        Content::Image { .. } => match left.checked_sub(cost(&block)) {
            Some(rest) => {
                left = rest;
                block
            }
            None => Content::text(NO_PICTURE),
        },
        other => other,
    };
    (content.into_iter().map(fits).collect(), left)
}

fn joined(content: &[Content]) -> String {
    let message = Message::User(llm::UserMessage { content: content.to_vec(), timestamp: 0 });
    message.text()
}

/// Keeps two thirds from the start and one third from the end of a text.
///
/// Cuts at line ends if possible.
fn shortened(text: &str, count: usize, most: usize, place: &str) -> String {
    let byte = |nth: usize| text.char_indices().nth(nth).map_or(text.len(), |(at, _)| at);
    let (mut head, mut tail) = (byte(most * 2 / 3), byte(count - most / 3));
    head = text[..head].rfind('\n').filter(|at| *at > head / 2).map_or(head, |at| at + 1);
    tail =
        text[tail..].find('\n').filter(|at| *at < (text.len() - tail) / 2).map_or(tail, |at| tail + at + 1);
    let left_out = text[head..tail].chars().count();
    format!(
        "{}\n[… {left_out} of {count} characters omitted; {place} …]\n{}",
        text[..head].trim_end(),
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn whole_lines_of_the_beginning_and_end_are_kept() {
        let text: String = (0..100).map(|at| format!("line {at} é\n")).collect();
        let cut = shortened(&text, text.chars().count(), 300, "HERE");
        expect![[r#"
            line 0 é
            line 1 é
            line 2 é
            line 3 é
            line 4 é
            line 5 é
            line 6 é
            line 7 é
            line 8 é
            line 9 é
            line 10 é
            line 11 é
            line 12 é
            line 13 é
            line 14 é
            line 15 é
            line 16 é
            line 17 é
            line 18 é
            line 19 é
            line 20 é
            [… 700 of 990 characters omitted; HERE …]
            line 91 é
            line 92 é
            line 93 é
            line 94 é
            line 95 é
            line 96 é
            line 97 é
            line 98 é
            line 99 é
        "#]]
        .assert_eq(&cut);
        let one_line = "é".repeat(1_000);
        let cut = shortened(&one_line, 1_000, 90, "HERE");
        assert_eq!(cut.chars().filter(|it| *it == 'é').count(), 90);
    }
}
