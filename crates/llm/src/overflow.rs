//! Detects requests longer than the model's window, by errors or by counts.
//!
//! The module is pure.

use crate::message::{AssistantMessage, ErrorKind, StopReason};

/// Phrases of such errors, in lower case; `#` stands for a number.
const WORDS: [&str; 30] = [
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "request_too_large",
    "input is too long for requested model",
    "exceeds the context window",
    "exceeds maximum context length of",
    "exceeds the maximum context length",
    "exceeds the model's maximum context length",
    "exceeded max context length",
    "exceeds max context length",
    "exceed context limit",
    "exceeded context length",
    "context window exceeded",
    "context window exceeds limit",
    "exceeds the maximum number of tokens",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "maximum context length is # token",
    "exceeds the maximum allowed input length",
    "is longer than the model's context length",
    "exceeds the limit of #",
    "exceeds the available context size",
    "greater than the context length",
    "exceeded model token limit",
    "too large for model with # maximum context length",
    "but the configured context size is",
    "model_context_window_exceeded",
    "context_length_exceeded",
    "range of input length should be",
];

/// Phrases of similar errors that are not an overflow.
const NOT: [&str; 4] = ["rate limit", "too many requests", "throttling", "service unavailable"];

/// Whether an error answer with this status and body reports an overflow.
pub(crate) fn is_overflow_response(status: u16, body: &str) -> bool {
    status == 413 || (status != 429 && mentions_overflow(body))
}

pub(crate) fn mentions_overflow(text: &str) -> bool {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars().flat_map(char::to_lowercase) {
        match character {
            // `1,048,576` is one number.
            '0'..='9' if shown.ends_with('#') => {}
            ',' if shown.ends_with('#') => {}
            '0'..='9' => shown.push('#'),
            other => shown.push(other),
        }
    }
    !NOT.iter().any(|it| shown.contains(it)) && WORDS.iter().any(|it| shown.contains(it))
}

/// Whether the request was longer than the model's window.
///
/// Uses the provider's error, or the counts of a provider that truncates silently.
pub fn is_overflow(message: &AssistantMessage, context_window: Option<u64>) -> bool {
    let usage = &message.usage;
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    match message.stop_reason {
        StopReason::Error => {
            message.error_kind == Some(ErrorKind::ContextOverflow)
                || message.error_kind == Some(ErrorKind::Provider)
                    && message.error_message.as_deref().is_some_and(mentions_overflow)
        }
        StopReason::Stop => context_window.is_some_and(|window| input > window),
        StopReason::Length => {
            message.usage.output == 0
                && context_window.is_some_and(|window| input > 0 && input >= window - window / 100)
        }
        StopReason::ToolUse | StopReason::Aborted => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Usage;

    #[test]
    fn overflow_messages_of_providers_are_recognized() {
        for body in [
            "prompt is too long: 213,462 tokens > 200000 maximum",
            "This model's maximum context length is 8192 tokens. However, you requested 9,001 tokens",
            r#"{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model"}}"#,
            "the request exceeds the available context size, try increasing it",
            "Please reduce the length of the messages or completion.",
            "input length and `max_tokens` exceed context limit: 197000 + 8192 > 200000",
        ] {
            assert!(is_overflow_response(400, body), "{body}");
        }
        assert!(is_overflow_response(413, ""));
        for (status, body) in [
            (429, "Too many tokens, rate limit: the prompt is too long for your tier"),
            (400, "Throttling: prompt is too long"),
            (400, "max_tokens is too large"),
        ] {
            assert!(!is_overflow_response(status, body), "{body}");
        }
    }

    #[test]
    fn silent_truncation_is_detected_by_counts() {
        let message = |stop_reason, input, output| AssistantMessage {
            stop_reason,
            usage: Usage { input, output, ..Usage::default() },
            ..AssistantMessage::empty("a", "p", "m")
        };
        assert!(is_overflow(&message(StopReason::Stop, 1001, 5), Some(1000)));
        assert!(is_overflow(&message(StopReason::Length, 990, 0), Some(1000)));
        for other in [
            message(StopReason::Stop, 999, 5),
            message(StopReason::Length, 990, 1),
            message(StopReason::ToolUse, 2000, 5),
        ] {
            assert!(!is_overflow(&other, Some(1000)), "{other:?}");
        }
        assert!(!is_overflow(&message(StopReason::Stop, 1001, 5), None));
    }
}
