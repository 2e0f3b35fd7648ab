//! Numbers for the memory cgroups of processes.

use linux::membership;

/// The path of the memory cgroup; `groups` is the text of `/proc/PID/cgroup`.
pub(super) fn memory_group(groups: &[u8]) -> &[u8] {
    membership::memory_group(groups).unwrap_or(b"/")
}

/// FNV-1a, so that equal paths have one number.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
