//! Changes of files on the disk, and the notification of servers.

pub(crate) mod deleted_files;
pub(crate) mod external_changes;
pub(crate) mod file_filter;
pub(crate) mod file_poll;
pub(crate) mod watchers;
