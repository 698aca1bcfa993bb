//! Classes of dangerous commands with their tiers and checks.

use super::{CheckContext, Hit, Tier, destruction, intrusion, publication};

/// A class of dangerous commands, with its check.
pub(super) struct Danger {
    pub class: &'static str,
    pub tier: Tier,
    pub check: Check,
}

/// A check, which reports its hits in a script.
type Check = fn(&CheckContext<'_>, &mut dyn FnMut(Hit));

pub(super) const ALL: &[Danger] = &[
    danger("recursive delete", Tier::Critical, destruction::recursive_delete),
    danger("device write", Tier::Critical, destruction::device_write),
    danger("disk wipe", Tier::Critical, destruction::disk_wipe),
    danger("fork bomb", Tier::Critical, destruction::fork_bomb),
    danger("reverse shell", Tier::Critical, intrusion::reverse_shell),
    danger("unseen code into an interpreter", Tier::High, intrusion::unseen_code),
    danger("shutdown", Tier::High, intrusion::shutdown),
    danger("permission escalation", Tier::High, intrusion::escalation),
    danger("killing Pilcrow or its parent", Tier::High, intrusion::killing),
    danger("credential files", Tier::High, intrusion::credentials),
    danger("history rewriting and force push", Tier::Medium, publication::history),
    danger("package publish", Tier::Medium, publication::publish),
    danger("remote destruction", Tier::Medium, publication::remote_destruction),
    danger("persistence", Tier::Medium, publication::persistence),
];

const fn danger(class: &'static str, tier: Tier, check: Check) -> Danger {
    Danger { class, tier, check }
}
