//! The filter of system calls: it denies those that lead out of the sandbox.
//!
//! A denied call fails with EPERM.

use std::collections::BTreeMap;

use policy::{Network, SandboxProfile};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

use super::SandboxLevel;

/// Calls that no command may make.
const DENIED: &[libc::c_long] = &[
    // It makes other calls past the filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // These change what files the sandbox consists of.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    // The kernel itself, and the keys that it holds for the user.
    libc::SYS_bpf,
    libc::SYS_kexec_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
];

/// Requests that type into a terminal.
const TYPING: [libc::c_ulong; 2] = [libc::TIOCSTI, 0x541C];

pub(super) fn filter(level: SandboxLevel, profile: &SandboxProfile) -> Result<BpfProgram, String> {
    build(level, profile).map_err(|error| format!("seccomp: {error}"))
}

fn build(level: SandboxLevel, profile: &SandboxProfile) -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    let typing = TYPING.map(|request| equal(1, request).and_then(|it| Ok(SeccompRule::new(vec![it])?)));
    rules.insert(libc::SYS_ioctl, typing.into_iter().collect::<Result<_, seccompiler::Error>>()?);
    if level != SandboxLevel::Bwrap {
        // The limits of other processes; bwrap hides them.
        let set = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
        let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
        rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![other, set])?]);
    }
    let family = |family: libc::c_int| equal(0, u64::from(family.unsigned_abs()));
    let mut sockets = vec![
        SeccompRule::new(vec![family(libc::AF_VSOCK)?])?,
        SeccompRule::new(vec![family(libc::AF_PACKET)?])?,
        // Programs list network interfaces by NETLINK_ROUTE, which is 0.
        SeccompRule::new(vec![
            family(libc::AF_NETLINK)?,
            SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?,
        ])?,
    ];
    match (profile.network, level) {
        // bwrap covers the socket files of other programs.
        (Network::Allowed, _) | (Network::Proxy, SandboxLevel::Bwrap) => {}
        (Network::Proxy, _) if profile.unix_sockets => {}
        // The command has a network of its own, and services on this machine listen at files.
        (Network::Proxy, _) | (Network::None, SandboxLevel::Bwrap) => {
            sockets.push(SeccompRule::new(vec![family(libc::AF_UNIX)?])?)
        }
        // No sockets, except pairs, which are another call.
        (Network::None, _) => sockets.clear(),
    }
    rules.insert(libc::SYS_socket, sockets);
    let (allow, deny) = (SeccompAction::Allow, SeccompAction::Errno(libc::EPERM.unsigned_abs()));
    let architecture = std::env::consts::ARCH.try_into()?;
    let filter: BpfProgram = SeccompFilter::new(rules, allow, deny, architecture)?.try_into()?;
    Ok(if cfg!(target_arch = "x86_64") { without_x32(filter) } else { filter })
}

fn equal(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::Error> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?)
}

/// Denies the calls of the x32 interface, which have other numbers.
fn without_x32(filter: BpfProgram) -> BpfProgram {
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let load_number = instruction(0x20, 0, 0, 0);
    let skip_if_smaller = instruction(0x35, 0, 1, 0x4000_0000);
    let deny = instruction(0x06, 0, 0, 0x0005_0000 | libc::ENOSYS.unsigned_abs());
    [load_number, skip_if_smaller, deny].into_iter().chain(filter).collect()
}
