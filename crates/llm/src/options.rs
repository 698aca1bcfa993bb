//! What a request asks for besides an answer: how hard to think, which tool to call, what to cache.

use serde::{Deserialize, Serialize};

/// How hard a model thinks, least first. A level that a model lacks becomes the next lower one
/// ([`crate::Thinking::at`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all, where the model can be told so.
    #[default]
    #[serde(alias = "none")]
    Off,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// More than `high`.
    Xhigh,
    /// As much as it can.
    Max,
}

impl ThinkingLevel {
    /// All levels, least first.
    pub const ALL: [ThinkingLevel; 7] = [
        ThinkingLevel::Off,
        ThinkingLevel::Minimal,
        ThinkingLevel::Low,
        ThinkingLevel::Medium,
        ThinkingLevel::High,
        ThinkingLevel::Xhigh,
        ThinkingLevel::Max,
    ];

    /// The name it is written by.
    pub fn name(self) -> &'static str {
        match self {
            ThinkingLevel::Off => "off",
            ThinkingLevel::Minimal => "minimal",
            ThinkingLevel::Low => "low",
            ThinkingLevel::Medium => "medium",
            ThinkingLevel::High => "high",
            ThinkingLevel::Xhigh => "xhigh",
            ThinkingLevel::Max => "max",
        }
    }

    /// The level of this name in any case (`none` is `off`); `None` for any other.
    pub fn named(name: &str) -> Option<ThinkingLevel> {
        let name = if name.eq_ignore_ascii_case("none") { "off" } else { name };
        ThinkingLevel::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

/// Which tool a model may or must call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// Any or none, as the model likes.
    #[default]
    Auto,
    /// At least one.
    Any,
    /// None, though it is told of them.
    None,
    /// The one of this name.
    Tool(String),
}

/// How long a provider is asked to keep the start of a request for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheRetention {
    /// Nothing is asked for.
    None,
    /// As long as the provider does by itself, some minutes.
    #[default]
    Short,
    /// An hour or a day, where the provider offers it.
    Long,
}
