//! Threads of the kernel, by the names that Linux gives them (Linux 5.10 to 6.18, Android's included).
//!
//! A recording has no other mark of them. A program that takes such a name is taken for one.

/// Names that end here.
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

/// Names that go on with a number.
const NUMBERED: [&str; 6] = ["kcompactd", "kdamond.", "kswapd", "loop", "mmcqd/", "nbd"];

/// Names that go on with anything: a processor, a device, a kind of work.
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

/// Whether a process of this name is a thread of the kernel.
pub(super) fn is_kernel_worker(name: &str) -> bool {
    let goes_on_with_number = |rest: &str| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
    };
    WHOLE.contains(&name)
        || NUMBERED.iter().any(|one| name.strip_prefix(one).is_some_and(goes_on_with_number))
        || BEGINNINGS.iter().any(|one| name.starts_with(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_told_from_programs() {
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
