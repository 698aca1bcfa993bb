//! Definitions of language servers, debug adapters and editors, and their programs.
//!
//! Finds and installs programs. Starts only package managers, and speaks no protocol. Invariants: no code
//! selects a server, an adapter or an editor by its name; an installation happens as a whole or not at all.

#[cfg(test)]
mod built_in_tests;
mod debugger;
mod definitions;
mod editor;
mod format;
mod install;
mod roots;
mod search_path;
mod server;
mod values;

pub use debugger::{
    DebuggerCommand, DebuggerDefinition, ExceptionNames, Executable, Hits, Quirks, TestRule, Transport, Wrap,
};
pub use definitions::{
    BuiltIn, DebuggerDefinitions, Definition, Definitions, Parse, ServerDefinitions, Summary,
};
pub use editor::{EditorDefinition, LongMessage, MessageForm, QuestionForm};
pub use format::{DefinitionError, Globs, Verified};
pub use install::{
    How, Install, InstallError, InstallLock, InstallPlan, Installed, Installer, Locked, PlanProblem,
    Progress, Step,
};
pub use roots::{find_package, find_root, matches, matches_below};
pub use search_path::{ProjectPrograms, SearchPath, modules_of};
pub use server::{
    CheckRule, CleanRule, CommandRule, DiagnosticsRule, Feature, FileStatusRule, Language,
    LanguageVersionRule, MoveRule, Prefer, ReadyRule, RecheckRule, RootRule, ServerDefinition, WatchRule,
};
pub use values::{expand, expand_text, fill, merge, names_venv, section, unfold, with_venv};

include!(concat!(env!("OUT_DIR"), "/built_in.rs"));
