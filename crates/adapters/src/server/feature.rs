//! Features of language servers, by the names in definitions.

use serde::Deserialize;

/// A feature of a language server, such as `hover` or `rename`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    Definition,
    Declaration,
    TypeDefinition,
    Implementation,
    References,
    Hover,
    Signature,
    Highlights,
    CallHierarchy,
    TypeHierarchy,
    Symbols,
    WorkspaceSymbols,
    Rename,
    RenameFile,
    CodeAction,
    OrganizeImports,
    FixAll,
    Format,
    Completion,
    InlayHints,
    Diagnostics,
}

impl Feature {
    pub const ALL: [Self; 21] = [
        Self::Definition,
        Self::Declaration,
        Self::TypeDefinition,
        Self::Implementation,
        Self::References,
        Self::Hover,
        Self::Signature,
        Self::Highlights,
        Self::CallHierarchy,
        Self::TypeHierarchy,
        Self::Symbols,
        Self::WorkspaceSymbols,
        Self::Rename,
        Self::RenameFile,
        Self::CodeAction,
        Self::OrganizeImports,
        Self::FixAll,
        Self::Format,
        Self::Completion,
        Self::InlayHints,
        Self::Diagnostics,
    ];

    /// Returns the feature whose priority applies if this one is not listed.
    pub(super) fn like(self) -> Option<Self> {
        match self {
            Self::Declaration | Self::TypeDefinition | Self::Implementation | Self::TypeHierarchy => {
                Some(Self::Definition)
            }
            Self::CallHierarchy => Some(Self::References),
            Self::Signature | Self::Highlights | Self::Completion | Self::InlayHints => Some(Self::Hover),
            Self::FixAll => Some(Self::CodeAction),
            _ => None,
        }
    }
}

impl std::fmt::Display for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Definition => "definition",
            Self::Declaration => "declaration",
            Self::TypeDefinition => "type definition",
            Self::Implementation => "implementation",
            Self::Signature => "signature help",
            Self::Highlights => "highlights",
            Self::CallHierarchy => "call hierarchy",
            Self::TypeHierarchy => "type hierarchy",
            Self::FixAll => "fix all",
            Self::Completion => "completion",
            Self::InlayHints => "inlay hints",
            Self::References => "references",
            Self::Hover => "hover",
            Self::Symbols => "symbols",
            Self::WorkspaceSymbols => "workspace symbols",
            Self::Rename => "rename",
            Self::RenameFile => "file rename",
            Self::OrganizeImports => "organize imports",
            Self::Format => "format",
            Self::Diagnostics => "diagnostics",
            Self::CodeAction => "code actions",
        })
    }
}
