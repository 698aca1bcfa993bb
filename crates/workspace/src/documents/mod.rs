//! Values of texts and bytes on the disk, with operations to read and write them.

pub(crate) mod anchor;
pub(crate) mod content;
pub(crate) mod disk;
pub(crate) mod disk_copy;
pub(crate) mod document;
pub(crate) mod failpoints;
pub(crate) mod foreign_locks;
pub(crate) mod hash;
pub(crate) mod read_cache;
pub(crate) mod stamp;
pub(crate) mod write;

pub use disk_copy::{DiskCopy, plain_hash};
pub use document::{Document, Owner, ReadError, Version};
pub use hash::ContentHash;
pub use read_cache::ReadCache;
