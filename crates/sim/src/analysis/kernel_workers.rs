//! Kernel threads, by the names that Linux gives them (Linux 5.10 to 6.18, including Android's).
//!
//! A recording has no other mark of them, so a program with such a name counts as a kernel thread.

/// Complete names.
const WHOLE: [&str; 13] = [
    "dmcrypt_write",
    "ext4lazyinit",
    "kauditd",
    "kblockd",
    "kdevtmpfs",
    "khugepaged",
    "khungtaskd",
    "kintegrityd",
    "ksmd",
    "kthreadd",
    "oom_reaper",
    "psimon",
    "writeback",
];

/// Prefixes that a number follows.
const NUMBERED: [&str; 6] = ["kcompactd", "kdamond.", "kswapd", "loop", "mmcqd/", "nbd"];

/// Prefixes that anything may follow: a processor, a device, a kind of work.
const BEGINNINGS: [&str; 24] = [
    "blkcg_",
    "btrfs-",
    "cpuhp/",
    "dmcrypt_write/",
    "ext4-rsv-conver",
    "f2fs_ckpt-",
    "f2fs_discard-",
    "f2fs_flush-",
    "f2fs_gc-",
    "flush-",
    "irq/",
    "jbd2/",
    "kcryptd",
    "kdmflush",
    "ksoftirqd/",
    "kworker/",
    "migration/",
    "rcu_",
    "rcuog/",
    "rcuop/",
    "scsi_eh_",
    "swapper",
    "xfs-",
    "xfsaild/",
];

/// Whether a process of this name is a kernel thread.
pub(super) fn is_kernel_worker(name: &str) -> bool {
    let goes_on_with_number = |rest: &str| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
    };
    WHOLE.contains(&name)
        || NUMBERED.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(goes_on_with_number))
        || BEGINNINGS.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_are_distinguished_from_programs() {
        for name in [
            "kworker/u17:3",
            "kworker/0:1H",
            "kswapd0",
            "kcompactd1",
            "jbd2/sda3-8",
            "f2fs_discard-25",
            "loop40",
            "kdamond.3",
            "kthreadd",
            "ksoftirqd/2",
            "rcu_preempt",
        ] {
            assert!(is_kernel_worker(name), "{name}");
        }
        for name in
            ["", "kworker", "kswapd", "kswapdemo", "loop", "loops", "ksmtuned", "dmd", "init"]
        {
            assert!(!is_kernel_worker(name), "{name}");
        }
    }
}
