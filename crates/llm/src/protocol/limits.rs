//! Estimate of the tokens that are left for an answer.

use crate::endpoint::Endpoint;
use crate::image::image_tokens;
use crate::message::{Content, Message};
use crate::model::Request;

/// Tokens reserved in addition to the estimated input.
const MARGIN: u64 = 4096;
/// Room below which the margin shrinks before the answer does.
const ROOM: u64 = 32_768;

/// The output tokens to request.
///
/// This is the smaller of the request's and the model's limit, and at most the rest of the window;
/// `None` if nothing is known.
pub(super) fn max_output(api: &str, endpoint: &Endpoint, request: &Request) -> Option<u64> {
    let wanted = [request.max_tokens, endpoint.max_output].into_iter().flatten().min()?;
    Some(wanted.min(room(api, endpoint, request)))
}

/// Tokens left for the answer, at least 1; [`u64::MAX`] if unknown.
pub(super) fn room(api: &str, endpoint: &Endpoint, request: &Request) -> u64 {
    let Some(window) = endpoint.context_window else { return u64::MAX };
    let input = tokens(api, request);
    // A small window has a proportional margin.
    let least = MARGIN.min(window / 8);
    let margin = least.max(input / 100 * 15);
    let mut room = window.saturating_sub(input.saturating_add(margin));
    if room < ROOM {
        room = ROOM.min(window.saturating_sub(input.saturating_add(least)));
    }
    room.max(1)
}

/// Estimated tokens of a request.
///
/// The estimate is the last answer's count, plus one token for 3.5 characters of the rest and
/// the cost of its images.
pub(super) fn tokens(api: &str, request: &Request) -> u64 {
    let known = request.messages.iter().enumerate().rev().find_map(|(at, message)| match message {
        Message::Assistant(message) if !message.failed() && message.usage.total_tokens > 0 => {
            Some((at, message.usage.total_tokens))
        }
        _ => None,
    });
    let (after, known) = known.map_or((0, None), |(at, tokens)| (at + 1, Some(tokens)));
    let (mut characters, mut images) = (0, 0);
    for content in request.messages[after..].iter().flat_map(Message::content) {
        match content {
            Content::Image { data, .. } => images += image_tokens(api, data),
            content => characters += size(content),
        }
    }
    if known.is_none() {
        characters += request.system.chars().count();
        let tools = request.tools.iter();
        characters += tools.map(|it| it.description.len() + it.parameters.to_string().len()).sum::<usize>();
    }
    known.unwrap_or(0).saturating_add(images).saturating_add((characters as u64 * 2).div_ceil(7))
}

fn size(content: &Content) -> usize {
    match content {
        Content::Text { text, .. } => text.chars().count(),
        Content::Thinking { thinking, .. } => thinking.chars().count(),
        Content::Image { .. } => 0,
        Content::ToolCall(call) => {
            call.name.len() + serde_json::to_string(&call.arguments).map_or(0, |it| it.chars().count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(input: usize, wanted: Option<u64>, window: Option<u64>, most: Option<u64>) -> Option<u64> {
        let endpoint =
            Endpoint { context_window: window, max_output: most, ..Endpoint::new("p", "http://x", "m") };
        let request = Request {
            messages: vec![Message::user("x".repeat(input))].into(),
            max_tokens: wanted,
            ..Request::default()
        };
        max_output("a", &endpoint, &request)
    }

    #[test]
    fn the_answer_fits_into_the_window() {
        assert_eq!(asked(35, None, None, None), None);
        assert_eq!(asked(35, Some(100), None, Some(64)), Some(64));
        assert_eq!(asked(35, Some(100), Some(200_000), Some(64_000)), Some(100));
        assert_eq!(asked(350_000, None, Some(200_000), Some(64_000)), Some(64_000));
        assert_eq!(
            asked(630_000, None, Some(200_000), Some(64_000)),
            Some(15_904),
            "180,000 and 4,096 are taken"
        );
        assert_eq!(
            asked(3_500, None, Some(4_500), Some(2_000)),
            Some(2_000),
            "a small window has a margin of 562"
        );
        assert_eq!(asked(10_500, None, Some(4_500), Some(2_000)), Some(938));
        assert_eq!(asked(900_000, Some(100), Some(200_000), None), Some(1));
    }
}
