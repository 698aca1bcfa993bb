//! Prices as published by providers, and the cost of used tokens.
//!
//! Unknown costs stay unknown and are never 0.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::message::{AssistantMessage, Usage};
use crate::protocol::{Decoder, Mapped};
use crate::stream::StreamEvent;

/// US dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Uncached input.
    pub input: f64,
    /// Output including reasoning.
    pub output: f64,
    /// Input read from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Input written to the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Input written to the cache for an hour, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<f64>,
    /// Higher prices of long requests, by input size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<PriceTier>,
}

/// The price of long requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTier {
    /// Input tokens above which it applies, including cached input.
    pub tokens: u64,
    /// Replacement for the value in [`Price`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    /// Replacement for the value in [`Price`], if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
    /// Replacement for the value in [`Price`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Replacement for the value in [`Price`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Replacement for the value in [`Price`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<f64>,
}

impl Price {
    /// The cost of these tokens; `None` if a price is unknown.
    pub fn of(&self, usage: &Usage) -> Option<Cost> {
        let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let above = self.above.iter().filter(|it| input > it.tokens).max_by_key(|it| it.tokens);
        let (input, output, cache_read, cache_write, for_an_hour) = match above {
            Some(it) => (it.input, it.output, it.cache_read, it.cache_write, it.cache_write_1h),
            None => {
                (Some(self.input), Some(self.output), self.cache_read, self.cache_write, self.cache_write_1h)
            }
        };
        let parts = [
            (usage.input, input),
            (usage.output, output),
            (usage.cache_read, cache_read),
            (usage.cache_write.saturating_sub(usage.cache_write_1h), cache_write),
            (usage.cache_write_1h, for_an_hour),
        ];
        let mut dollars = 0.0;
        for (tokens, price) in parts {
            if tokens > 0 {
                dollars += tokens as f64 * price? / 1e6;
            }
        }
        Some(Cost::dollars(dollars))
    }
}

/// US dollars to the billionth, so that sums are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cost(u64);

impl Cost {
    /// A cost in dollars; negative values become zero.
    pub(crate) fn dollars(dollars: f64) -> Cost {
        // A cast from a float saturates.
        Cost((dollars * 1e9).round() as u64)
    }

    pub fn in_dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }

    pub fn plus(self, other: Cost) -> Cost {
        Cost(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Cost {
    /// Formats as `$1.25`, with more digits below a cent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("$0"),
            1..10_000_000 => write!(f, "${}", format!("{:.6}", self.in_dollars()).trim_end_matches('0')),
            _ => write!(f, "${:.2}", self.in_dollars()),
        }
    }
}

/// The `cost` field of session files.
#[derive(Serialize, Deserialize)]
struct Stored {
    total: f64,
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored { total: self.in_dollars() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cost, D::Error> {
        Stored::deserialize(deserializer).map(|stored| Cost::dollars(stored.total))
    }
}

/// Wraps `inner` so that the final message has its cost.
pub(crate) fn priced(inner: Box<dyn Decoder>, price: Option<&Price>) -> Box<dyn Decoder> {
    let Some(price) = price.cloned() else { return inner };
    Mapped::wrap(inner, move |event| {
        if let StreamEvent::Done { message } | StreamEvent::Error { message } = event {
            let message: &mut AssistantMessage = std::sync::Arc::make_mut(message);
            // A cost reported by the provider takes precedence.
            let usage = &message.usage;
            if usage.cost.is_none() && usage.total_tokens > 0 && !usage.uncounted {
                message.usage.cost = price.of(&message.usage);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64, cache_read: u64) -> Usage {
        Usage { input, output, cache_read, ..Usage::default() }.summed()
    }

    #[test]
    fn unknown_prices_are_not_free() {
        let price = Price {
            input: 4.0,
            output: 20.0,
            cache_read: None,
            cache_write: Some(5.0),
            cache_write_1h: None,
            above: vec![PriceTier {
                tokens: 200_000,
                input: Some(8.0),
                output: Some(30.0),
                cache_read: Some(0.8),
                cache_write: None,
                cache_write_1h: None,
            }],
        };
        let stored = |hour| Usage { cache_write: 100, cache_write_1h: hour, ..usage(0, 0, 0) };
        assert_eq!(price.of(&stored(0)), Some(Cost::dollars(0.0005)));
        assert_eq!(price.of(&stored(1)), None, "caching for an hour costs more, but the price is unknown");
        let hourly = Price { cache_write_1h: Some(8.0), ..price.clone() };
        assert_eq!(hourly.of(&stored(100)), Some(Cost::dollars(0.0008)));
        assert_eq!(price.of(&usage(1000, 100, 0)), Some(Cost::dollars(0.006)));
        assert_eq!(price.of(&usage(1000, 100, 1)), None, "cached input has no price");
        assert_eq!(price.of(&usage(1000, 100, 200_000)), Some(Cost::dollars(0.008 + 0.003 + 0.16)));
        assert_eq!(price.of(&usage(0, 0, 0)), Some(Cost::default()));
    }

    #[test]
    fn a_sum_with_an_unknown_part_is_unknown() {
        let known = Usage { cost: Some(Cost::dollars(0.5)), ..usage(1, 1, 0) };
        let unknown = usage(1, 1, 0);
        assert_eq!(known.plus(known).cost, Some(Cost::dollars(1.0)));
        assert_eq!(known.plus(unknown).cost, None);
        assert_eq!(known.plus(unknown).plus(known).cost, None, "it stays unknown");
        assert_eq!(Usage::default().plus(known).cost, Some(Cost::dollars(0.5)), "zero tokens are free");
        assert_eq!(Usage::default().plus(Usage::default()).cost, None);
        let uncounted = Usage { uncounted: true, ..Usage::default() };
        assert_eq!(known.plus(uncounted).plus(known).cost, None, "uncounted tokens are not free");
    }

    #[test]
    fn costs_are_shown_and_stored_in_dollars() {
        for (dollars, shown) in [(0.0, "$0"), (0.000_42, "$0.00042"), (0.25, "$0.25"), (12.0, "$12.00")] {
            assert_eq!(Cost::dollars(dollars).to_string(), shown);
        }
        let stored = serde_json::to_string(&Cost::dollars(0.000_421)).unwrap();
        assert_eq!(stored, r#"{"total":0.000421}"#);
        let more = r#"{"input":1,"total":0.000421}"#;
        assert_eq!(serde_json::from_str::<Cost>(more).unwrap(), Cost::dollars(0.000_421));
    }
}
