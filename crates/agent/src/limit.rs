//! Results that are too large for the model: cut, with the whole in a file that the result names.

use llm::{Content, Message};

use crate::compaction::PICTURE;
use crate::run::RunCx;
use crate::transcript::Transcript;

/// The results of one batch have room for so many tokens together, however full the context is.
const LEAST: u64 = 500;
/// Stands in the place of a picture.
const NO_PICTURE: &str = "[a picture is left out: the context has no room for it; ask for it again, by itself or in a new conversation]";
/// What holds no more characters is not cut: the words that name its file are no shorter.
const SMALL: usize = 200;

/// How many tokens the results of a batch that begins now may hold together.
pub(crate) fn room(cx: &RunCx, transcript: &Transcript) -> u64 {
    crate::compaction::limits(cx).threshold().saturating_sub(transcript.tokens()).max(LEAST)
}

/// The result as it goes into the transcript: no more than a quarter of the model's window, and no more than the `room` that is left of
/// its batch's.
pub(crate) fn fitting(
    cx: &RunCx,
    transcript: &mut Transcript,
    call_id: &str,
    content: Vec<Content>,
    room: u64,
) -> Vec<Content> {
    let quarter = crate::compaction::limits(cx).window / 4;
    // One picture may be shown in a small window too.
    let (content, left) = with_pictures(content, quarter.max(PICTURE).min(room));
    let most = usize::try_from(quarter.max(LEAST).min(left) * 4).unwrap_or(usize::MAX).max(SMALL);
    let texts = content.iter().map(|block| match block {
        Content::Text { text, .. } => text.len(),
        _ => 0,
    });
    // A character has at least a byte, so this is never too little.
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
        Some(Ok(path)) => format!("the whole is in {path}"),
        Some(Err(error)) => {
            tracing::warn!(%error, "the whole of a result is not kept");
            "the rest could not be kept".to_owned()
        }
        None => "the rest is not kept".to_owned(),
    };
    let text = shortened(&whole, count, most, &place);
    let others = content.into_iter().filter(|block| !matches!(block, Content::Text { .. }));
    std::iter::once(Content::text(text)).chain(others).collect()
}

/// The content with those of its pictures that fit, and the tokens that are left.
fn with_pictures(content: Vec<Content>, most: u64) -> (Vec<Content>, u64) {
    let mut left = most;
    let fits = |block: Content| match block {
        Content::Image { .. } => match left.checked_sub(PICTURE) {
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

/// Two thirds of what there is room for from the beginning, one third from the end, each to a line's end where there is one.
fn shortened(text: &str, count: usize, most: usize, place: &str) -> String {
    let byte = |nth: usize| text.char_indices().nth(nth).map_or(text.len(), |(at, _)| at);
    let (mut head, mut tail) = (byte(most * 2 / 3), byte(count - most / 3));
    head = text[..head].rfind('\n').filter(|at| *at > head / 2).map_or(head, |at| at + 1);
    tail =
        text[tail..].find('\n').filter(|at| *at < (text.len() - tail) / 2).map_or(tail, |at| tail + at + 1);
    let left_out = text[head..tail].chars().count();
    format!(
        "{}\n[… {left_out} of {count} characters left out; {place} …]\n{}",
        text[..head].trim_end(),
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_stay_with_whole_lines() {
        let text: String = (0..100).map(|at| format!("line {at} é\n")).collect();
        let cut = shortened(&text, text.chars().count(), 300, "HERE");
        assert!(cut.starts_with("line 0 é\nline 1 é\n") && cut.ends_with("line 99 é\n"), "{cut}");
        assert!(cut.contains("characters left out; HERE …]\nline 9"), "{cut}");
        let one_line = "é".repeat(1_000);
        let cut = shortened(&one_line, 1_000, 90, "HERE");
        assert_eq!(cut.chars().filter(|it| *it == 'é').count(), 90);
    }
}
