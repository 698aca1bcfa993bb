//! Tools for the conversation: questions, the plan, places, and other tools.

mod ask;
mod plan;
mod search_tools;
mod show;

pub(crate) use ask::Ask;
pub(crate) use plan::Plan;
pub(crate) use search_tools::SearchTools;
pub(crate) use show::ShowTool;
