//! A file's content as a value: text, bytes that are not text, or a link.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::ContentHash;

/// The byte order mark, in UTF-8.
pub(crate) const BOM: &str = "\u{feff}";

/// The content of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// UTF-8, without the byte order mark.
    Text {
        text: Arc<str>,
        bom: bool,
    },
    Bytes(Arc<[u8]>),
    /// A symbolic link, only inside directories that move: paths are canonical.
    Link(PathBuf),
}

/// A content with its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub content: Content,
    pub hash: ContentHash,
    /// Permission bits; `None` for a new file, which gets the default ones.
    pub mode: Option<u32>,
}

impl Content {
    /// Creates the image of a text file; a leading byte order mark becomes the file's.
    pub fn text(text: &str, bom: bool) -> Self {
        match text.strip_prefix(BOM) {
            Some(rest) if !bom => Self::Text { text: rest.into(), bom: true },
            _ => Self::Text { text: text.into(), bom },
        }
    }

    /// Creates a content: text if `bytes` are UTF-8, else bytes.
    pub fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::text(&text, false),
            Err(error) => Self::Bytes(error.into_bytes().into()),
        }
    }

    /// The file's bytes, or a link's target.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Text { text, bom: false } => Cow::Borrowed(text.as_bytes()),
            Self::Text { text, bom: true } => Cow::Owned([BOM.as_bytes(), text.as_bytes()].concat()),
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::Link(target) => Cow::Borrowed(target.as_os_str().as_bytes()),
        }
    }

    /// The text; `None` for any other content.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Bytes(_) | Self::Link(_) => None,
        }
    }

    pub fn is_link(&self) -> bool {
        matches!(self, Self::Link(_))
    }
}

impl Image {
    pub fn new(content: Content, mode: Option<u32>) -> Self {
        let hash = ContentHash::of(&content.bytes());
        Self { content, hash, mode }
    }

    /// Whether the contents are equal, whatever the permissions.
    pub(crate) fn same_content(&self, other: &Self) -> bool {
        self.hash == other.hash && self.content.is_link() == other.content.is_link()
    }
}
