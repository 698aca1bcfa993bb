//! Decides how to recover from a failed response.
//!
//! The module is pure.

use std::time::Duration;

use llm::{AssistantMessage, ErrorKind, StopReason, is_overflow, is_quota_exhausted};

/// The limits and delays of retries of a failed turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Maximum retries; 5 by default.
    pub max: u32,
    /// Delay before the first retry, doubled for each further one; 1 s by default.
    pub delay: Duration,
    /// Maximum delay; 60 s by default.
    pub max_delay: Duration,
    /// Delay from which the run switches to the next fallback model; 5 s by default.
    pub patience: Duration,
}

impl Default for Retries {
    fn default() -> Retries {
        let seconds = Duration::from_secs;
        Retries { max: 5, delay: seconds(1), max_delay: seconds(60), patience: seconds(5) }
    }
}

/// Attempts since the last successful turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Episode {
    /// Retries with this model, by its transport and by the run.
    pub attempts: u32,
    /// Whether the run retried, and has not reported the end.
    pub retried: bool,
    /// Whether the context was compacted.
    pub compacted: bool,
    /// Whether images were removed.
    pub without_images: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    GiveUp,
    /// Retries after this delay.
    Wait(Duration),
    /// Retries with the next model, at once.
    NextModel,
    /// Compacts the context and retries.
    Compact,
    /// Removes images and retries.
    RemoveImages,
}

/// Whether the context filled the window.
///
/// Some providers report this by counts only.
pub(crate) fn leaves_no_room(response: &AssistantMessage, context_window: Option<u64>) -> bool {
    response.stop_reason == StopReason::Length && is_overflow(response, context_window)
}

/// The recovery from `response`, which failed.
///
/// The model's transport has already retried a request that never streamed. `random` (0 to 1) removes up to a
/// quarter of the delay, so that simultaneous failures do not retry simultaneously.
pub(crate) fn recovery(
    response: &AssistantMessage,
    streamed: bool,
    has_fallback: bool,
    episode: Episode,
    retries: &Retries,
    random: f64,
) -> Recovery {
    use ErrorKind::{ContextOverflow, Network, Protocol, Provider, RateLimit, Timeout, Unavailable};
    if response.stop_reason != StopReason::Error {
        return Recovery::GiveUp;
    }
    match response.error_kind {
        Some(ContextOverflow) if episode.compacted => Recovery::GiveUp,
        Some(ContextOverflow) => Recovery::Compact,
        Some(Provider) if !episode.without_images && mentions_image(response) => Recovery::RemoveImages,
        Some(Network | Protocol | RateLimit | Timeout | Unavailable) => {
            let doubled = retries.delay.saturating_mul(2_u32.saturating_pow(episode.attempts));
            let delay = doubled.min(retries.max_delay);
            let used_up = response.error_message.as_deref().is_some_and(is_quota_exhausted);
            let spent = !streamed || used_up || episode.attempts >= retries.max;
            match (has_fallback, spent) {
                (true, true) => Recovery::NextModel,
                (true, false) if delay > retries.patience => Recovery::NextModel,
                (_, false) => Recovery::Wait(delay.mul_f64(1.0 - 0.25 * random.clamp(0.0, 1.0))),
                (false, true) => Recovery::GiveUp,
            }
        }
        _ => Recovery::GiveUp,
    }
}

/// Whether the error names an image, which the provider then refused.
fn mentions_image(response: &AssistantMessage) -> bool {
    response.error_message.as_deref().is_some_and(|words| words.to_ascii_lowercase().contains("image"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: ErrorKind) -> AssistantMessage {
        let empty = AssistantMessage::empty("a", "p", "m");
        AssistantMessage { stop_reason: StopReason::Error, error_kind: Some(kind), ..empty }
    }

    #[test]
    fn an_exhausted_quota_is_not_retried() {
        let error_message = Some("insufficient_quota: you are out of credit".to_owned());
        let response = AssistantMessage { error_message, ..failed(ErrorKind::RateLimit) };
        let recovered = |has_fallback| {
            recovery(&response, true, has_fallback, Episode::default(), &Retries::default(), 0.0)
        };
        assert_eq!(recovered(true), Recovery::NextModel);
        assert_eq!(recovered(false), Recovery::GiveUp);
    }

    #[test]
    fn delays_double_from_1_to_60_seconds_for_five_retries() {
        let retries = Retries { max: 9, ..Retries::default() };
        let delay = |attempts| {
            let episode = Episode { attempts, ..Episode::default() };
            recovery(&failed(ErrorKind::Network), true, false, episode, &retries, 0.0)
        };
        let hurried = recovery(&failed(ErrorKind::Network), true, false, Episode::default(), &retries, 1.0);
        assert_eq!(hurried, Recovery::Wait(Duration::from_millis(750)));
        let seconds = [1, 2, 4, 8, 16, 32, 60].map(|it| Recovery::Wait(Duration::from_secs(it)));
        assert_eq!([0, 1, 2, 3, 4, 5, 8].map(delay), seconds);
        assert_eq!(delay(9), Recovery::GiveUp);
        assert_eq!(Retries::default().max, 5);
    }

    #[test]
    fn transient_failures_retry_and_overflows_compact_once() {
        let check = |kind, streamed, has_fallback, compacted, expected| {
            let episode = Episode { compacted, ..Episode::default() };
            let found = recovery(&failed(kind), streamed, has_fallback, episode, &Retries::default(), 0.5);
            assert_eq!(found, expected, "{kind:?} {streamed} {has_fallback} {compacted}");
        };
        let first = Recovery::Wait(Duration::from_millis(875));
        use ErrorKind::{
            Authentication, Network, Protocol, Provider, RateLimit, Script, Timeout, Unavailable,
        };
        for kind in [Network, Protocol, RateLimit, Timeout, Unavailable] {
            check(kind, true, false, false, first);
            check(kind, false, false, false, Recovery::GiveUp);
            check(kind, false, true, false, Recovery::NextModel);
        }
        for kind in [Provider, Authentication, Script] {
            check(kind, true, true, false, Recovery::GiveUp);
        }
        check(ErrorKind::ContextOverflow, false, true, false, Recovery::Compact);
        check(ErrorKind::ContextOverflow, false, false, true, Recovery::GiveUp);
        let patient = Retries::default();
        let fourth = Episode { attempts: 3, ..Episode::default() };
        assert_eq!(
            recovery(&failed(ErrorKind::Network), true, true, fourth, &patient, 0.0),
            Recovery::NextModel
        );
        let aborted = AssistantMessage { stop_reason: StopReason::Aborted, ..failed(ErrorKind::Network) };
        assert_eq!(recovery(&aborted, true, true, Episode::default(), &patient, 0.0), Recovery::GiveUp);
    }
}
