//! Decision whether and when a request that does not stream yet is retried.
//!
//! The module is pure.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use serde_json::Value;

/// Limits of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts after the first; 5 by default.
    pub max_retries: u32,
    /// Delay before the first retry, doubled for each further one; 1 s by default.
    pub delay: Duration,
    /// Maximum delay; a server that asks for a longer one is not retried.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { max_retries: 5, delay: Duration::from_secs(1), max_delay: Duration::from_secs(60) }
    }
}

/// A random number from 0 to 1, so that clients do not retry simultaneously.
///
/// It does not come from the clock, whose resolution is too coarse on some systems.
#[must_use]
pub fn random() -> f64 {
    let bits = RandomState::new().hash_one(0_u8);
    f64::from((bits >> 32) as u32) / f64::from(u32::MAX)
}

/// Retry headers of a failed request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RetryHeaders {
    pub should_retry: Option<bool>,
    pub after: Option<Duration>,
}

impl RetryHeaders {
    /// Parses `x-should-retry`, `retry-after-ms` and `retry-after`.
    ///
    /// `retry-after` is in seconds or an HTTP date (RFC 9110 §5.6.7).
    pub fn read<'a>(header: impl Fn(&str) -> Option<&'a str>, now: jiff::Timestamp) -> RetryHeaders {
        let should_retry = match header("x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        let seconds = |text: &str| Duration::try_from_secs_f64(text.trim().parse().ok()?).ok();
        let milliseconds = header("retry-after-ms").and_then(seconds).map(|it| it / 1000);
        let after = milliseconds.or_else(|| {
            let text = header("retry-after")?;
            seconds(text).or_else(|| {
                let date = http_date(text.trim())?;
                Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
            })
        });
        RetryHeaders { should_retry, after }
    }
}

fn http_date(text: &str) -> Option<jiff::Timestamp> {
    const OLD: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let of_old = |form: &&str| {
        let date = jiff::civil::DateTime::strptime(form, text).ok()?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let date = jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp());
    date.or_else(|| OLD.iter().find_map(of_old))
}

/// The delay requested in a body, as by Google (`"retryDelay": "26s"`).
pub(crate) fn asked_delay(body: &str) -> Option<Duration> {
    let body: Value = serde_json::from_str(body).ok()?;
    // Google wraps an error in a list of one.
    let body = if body.is_array() { &body[0] } else { &body };
    let delay = body["error"]["details"].as_array()?.iter().find_map(|it| it["retryDelay"].as_str())?;
    Duration::try_from_secs_f64(delay.trim().strip_suffix('s')?.parse().ok()?).ok()
}

/// Whether an answer with this status is retryable.
///
/// The server's header decides; else 408, 409, 429 and 5xx are retryable, unless a quota is
/// exhausted.
pub(crate) fn is_retryable(status: u16, headers: &RetryHeaders, body: &str) -> bool {
    if let Some(should_retry) = headers.should_retry {
        return should_retry;
    }
    (matches!(status, 408 | 409 | 429) || status >= 500) && !is_quota_exhausted(body)
}

/// Whether an error reports an exhausted quota, for which retries are useless.
pub fn is_quota_exhausted(body: &str) -> bool {
    // A limit per minute passes, whatever the message says about plans and billing.
    const PASSES: [&str; 4] = ["perminute", "per minute", "rate_limit_exceeded", "rate limit reached"];
    const USED_UP: [&str; 12] = [
        "insufficient_quota",
        "exceeded your current quota",
        "monthly quota",
        "billing_hard_limit",
        "billing hard limit",
        "billing_not_active",
        "out of budget",
        "usage limit reached",
        "usage limit exceeded",
        "reached your usage limit",
        "insufficient balance",
        "available balance",
    ];
    let body = body.to_ascii_lowercase();
    // Gemini names every exceeded limit; the daily one lasts longest.
    body.contains("perday")
        || !PASSES.iter().any(|words| body.contains(words))
            && USED_UP.iter().any(|words| body.contains(words))
}

/// The delay before retry `attempt` (from 0).
///
/// This is the server's delay, else the policy's doubled delay, reduced by up to a quarter by
/// `random` (0 to 1). `Err` has the server's delay if it is too long.
pub(crate) fn delay(
    policy: &RetryPolicy,
    headers: &RetryHeaders,
    attempt: u32,
    random: f64,
) -> Result<Duration, Duration> {
    match headers.after {
        Some(after) if after > policy.max_delay => Err(after),
        Some(after) => Ok(after),
        None => {
            let doubled = policy.delay.saturating_mul(2_u32.saturating_pow(attempt));
            Ok(doubled.min(policy.max_delay).mul_f64(1.0 - 0.25 * random.clamp(0.0, 1.0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_differ_and_lie_between_0_and_1() {
        let drawn: Vec<f64> = (0..50).map(|_| random()).collect();
        assert!(drawn.iter().all(|it| (0.0..=1.0).contains(it)), "{drawn:?}");
        assert!(drawn.iter().any(|it| *it < 0.5) && drawn.iter().any(|it| *it >= 0.5), "{drawn:?}");
    }

    fn headers(pairs: &[(&str, &'static str)]) -> RetryHeaders {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        RetryHeaders::read(|name| pairs.iter().find(|(it, _)| *it == name).map(|(_, value)| *value), now)
    }

    #[test]
    fn retry_after_is_parsed_in_its_three_forms() {
        let after = |pairs| headers(pairs).after;
        assert_eq!(after(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
        assert_eq!(
            after(&[("retry-after", "2"), ("retry-after-ms", "1500.5")]),
            Some(Duration::from_micros(1_500_500))
        );
        assert_eq!(after(&[("retry-after", "Fri, 02 Jan 2026 03:04:10 GMT")]), Some(Duration::from_secs(5)));
        assert_eq!(after(&[("retry-after", "Fri, 02 Jan 2026 03:04:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(after(&[("retry-after", "Friday, 02-Jan-26 03:04:10 GMT")]), Some(Duration::from_secs(5)));
        assert_eq!(after(&[("retry-after", "Fri Jan  2 03:04:10 2026")]), Some(Duration::from_secs(5)));
        assert_eq!(after(&[("retry-after", "soon")]), None);
        assert_eq!(after(&[("retry-after", "-1")]), None);
    }

    #[test]
    fn the_retry_header_precedes_the_status() {
        let none = RetryHeaders::default();
        for (status, expected) in [
            (400, false),
            (401, false),
            (404, false),
            (408, true),
            (409, true),
            (429, true),
            (500, true),
            (529, true),
        ] {
            assert_eq!(is_retryable(status, &none, ""), expected, "{status}");
        }
        assert!(!is_retryable(429, &none, r#"{"error":{"code":"insufficient_quota"}}"#));
        assert!(is_retryable(400, &headers(&[("x-should-retry", "true")]), ""));
        assert!(!is_retryable(503, &headers(&[("x-should-retry", "false")]), ""));
    }

    #[test]
    fn a_limit_per_minute_is_not_an_exhausted_quota() {
        let groq = r#"{"error":{"message":"Rate limit reached for `m` on tokens per minute (TPM): Limit 6000.
            Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing",
            "type":"tokens","code":"rate_limit_exceeded"}}"#;
        let asked = "You exceeded your current quota, please check your plan and billing details.";
        let gemini = format!(
            r#"{{"error":{{"code":429,"message":"{asked}","details":[
                {{"violations":[{{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}}]}},
                {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"26s"}}]}}}}"#
        );
        for body in [groq, &gemini, "Quota exceeded for requests", "see https://example.com/billing"] {
            assert!(!is_quota_exhausted(body), "{body}");
            assert!(is_retryable(429, &RetryHeaders::default(), body), "{body}");
        }
        for body in [asked, "billing_not_active", "Billing hard limit has been reached", "monthly quota"] {
            assert!(is_quota_exhausted(body), "{body}");
        }
        let both = gemini
            .replace("RequestsPerMinute", "RequestsPerDayPerProject\"},{\"quotaId\":\"RequestsPerMinute");
        assert!(is_quota_exhausted(&both) && !is_retryable(429, &RetryHeaders::default(), &both), "{both}");
        assert_eq!(asked_delay(&gemini), Some(Duration::from_secs(26)));
        let listed = format!("[{}]", gemini.replace("26s", "1.5s"));
        assert_eq!(asked_delay(&listed), Some(Duration::from_millis(1500)));
        assert_eq!(asked_delay(&gemini.replace("26s", "soon")), None);
        assert_eq!(asked_delay("slow down"), None);
    }

    #[test]
    fn delays_double_up_to_a_limit() {
        let policy = RetryPolicy::default();
        let none = RetryHeaders::default();
        let millis = |attempt, random| delay(&policy, &none, attempt, random).unwrap().as_millis();
        assert_eq!(
            [millis(0, 0.0), millis(1, 0.0), millis(4, 0.0), millis(30, 0.0)],
            [1000, 2000, 16_000, 60_000]
        );
        assert_eq!(millis(0, 1.0), 750);
        let asked = headers(&[("retry-after", "61")]);
        assert_eq!(delay(&policy, &asked, 0, 0.0), Err(Duration::from_secs(61)));
    }
}
