//! The version that a section refers to.
//!
//! A tag names it. Without one (as the json dialect allows) the section refers to the newest
//! version of the path that this session knows, and only the checks prove the lines.

use crate::format::patch::Section;
use crate::{Reason, SnapshotStore, Tag};

/// The tag of the version whose lines `section` names, or the problem.
pub(crate) fn tag(section: &Section, store: &mut SnapshotStore) -> Result<Tag, (Reason, String)> {
    if let Some(tag) = section.tag {
        return Ok(tag);
    }
    let proven = |op: &crate::Op| {
        let anchors = op.anchors();
        !anchors.is_empty() && anchors.iter().all(|anchor| anchor.check.is_some())
    };
    if section.ops.is_empty() || !section.ops.iter().all(proven) {
        let message =
            "without a tag every line must be named with its check; add the tag or the checks as shown below";
        return Err((Reason::InvalidPatch, message.to_owned()));
    }
    match store.newest(&section.path) {
        Some(newest) => Ok(newest.tag()),
        None => Err((
            Reason::UnknownTag,
            "nothing of this file was shown; use the lines and the tag below".to_owned(),
        )),
    }
}
