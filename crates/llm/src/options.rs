//! Options of a request: thinking level, tool choice, caching.

use serde::{Deserialize, Serialize};

/// Amount of thinking, least first.
///
/// An unsupported level becomes the next lower one ([`crate::Thinking::at`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// No thinking, if the model supports that.
    #[default]
    #[serde(alias = "none")]
    Off,
    /// As little thinking as possible.
    Minimal,
    Low,
    Medium,
    High,
    /// More than `high`.
    Xhigh,
    /// As much thinking as possible.
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

    /// The level of this name in any case; `none` is `off`.
    pub fn named(name: &str) -> Option<ThinkingLevel> {
        let name = if name.eq_ignore_ascii_case("none") { "off" } else { name };
        ThinkingLevel::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

/// The tool that a model may or must call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    Any,
    /// The model calls no tool, although tools are sent.
    None,
    /// The model must call the tool of this name.
    Tool(String),
}

/// Time for which a provider caches the start of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheRetention {
    /// Requests no caching.
    None,
    /// Caches for the provider's default, usually minutes.
    #[default]
    Short,
    /// Caches for an hour or a day, if offered.
    Long,
}
