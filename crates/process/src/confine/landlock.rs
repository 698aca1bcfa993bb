//! Limits on files by Landlock, the kernel's rules for unprivileged processes.
//!
//! Landlock only allows: it has no rule for a path inside an allowed directory. So hidden paths are left out
//! of what may be read, entry by entry, and protected ones stay writable. Metadata is not limited.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};
use paths::AbsPath;
use policy::{Network, SandboxProfile};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

use super::bwrap;

/// Devices that every program may use.
const DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

/// Restricts this process and all that it starts.
pub(super) fn restrict(profile: &SandboxProfile) -> Result<(), String> {
    let rest = CapabilitySet::all().difference(bwrap::ROOT_KEEPS);
    if rustix::process::geteuid().is_root() {
        for capability in rest.iter() {
            // An error means that the kernel does not know it, or that a container's root may drop none.
            remove_capability_from_bounding_set(capability).ok();
        }
    }
    limit(profile).map_err(|error| format!("Landlock: {error}"))
}

fn limit(profile: &SandboxProfile) -> Result<(), RulesetError> {
    // Before version 2, files cannot be moved between directories at all.
    let required = AccessFs::from_all(ABI::V2);
    let all = required | AccessFs::Truncate;
    let mut scopes: BitFlags<Scope> = Scope::Signal.into();
    if profile.network != Network::Allowed {
        scopes |= Scope::AbstractUnixSocket;
    }
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(required)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::Truncate)?
        .scope(scopes)?
        .create()?;
    let writable = profile.writable.iter().map(|path| path.as_path().to_owned());
    let devices = DEVICES.into_iter().map(PathBuf::from).chain(bwrap::devices());
    let shown = profile.readable.iter().map(|path| path.as_path().to_owned());
    let read = AccessFs::ReadFile | AccessFs::Execute;
    ruleset
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(visible(profile).into_iter().chain(shown), read))?
        .add_rules(path_beneath_rules(writable.chain(devices), all))?
        .restrict_self()?;
    Ok(())
}

/// The largest subtrees without a hidden path.
///
/// An entry that appears later beside a hidden path is not among them.
fn visible(profile: &SandboxProfile) -> Vec<PathBuf> {
    // A writable directory can be read, with all below it.
    let is_open = |path: &AbsPath| profile.writable.iter().any(|open| path.starts_with(open));
    let hidden = profile.hidden.iter().filter(|path| !is_open(path)).map(|path| path.as_path());
    let hidden: Vec<&Path> = hidden.filter(|path| path.exists()).collect();
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::from("/")];
    while let Some(path) = pending.pop() {
        if hidden.contains(&path.as_path()) {
            continue;
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            found.push(path);
            continue;
        }
        // A link would allow what it leads to.
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let is_link = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|it| it.is_symlink());
        pending.extend(entries.filter(|entry| !is_link(entry)).map(|entry| entry.path()));
    }
    found
}
