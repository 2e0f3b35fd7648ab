//! What slices, counters and log lines of Android mean: launches of activities, and kills by lmkd.
//!
//! Names are those of Android 10 to 15: ActivityMetricsLogger (frameworks/base), lmkd (system/memory/lmkd),
//! and the queries of Perfetto's standard library (android.startup, android.memory.lmk).

use super::{Kind, Name};
use crate::text::decimal;

/// The process and the name of a slice that begins, or of something that happened, which versions of Android use
/// for the same marks; `None` if the event is neither.
pub fn mark(kind: &Kind) -> Option<(u32, Name)> {
    match *kind {
        Kind::SliceBegin { pid, name } | Kind::Instant { pid, name, .. } => Some((pid, name)),
        _ => None,
    }
}

/// How an app was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchClass {
    /// The process had to be made.
    Cold,
    /// The process existed, the activity had to be made.
    Warm,
    /// The activity existed.
    Hot,
}

impl LaunchClass {
    /// The name of the class in results.
    pub const fn name(self) -> &'static str {
        match self {
            LaunchClass::Cold => "cold",
            LaunchClass::Warm => "warm",
            LaunchClass::Hot => "hot",
        }
    }
}

/// What a slice of system_server says about a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch<'name> {
    /// The asynchronous slice of a launch, from Android 13 (and late 12): `launchingActivity#ID`.
    Running {
        /// Number of the launch.
        id: u64,
    },
    /// A slice without duration at the end: `launchingActivity#ID:completed-CLASS:PACKAGE`.
    Completed {
        /// Number of the launch.
        id: u64,
        /// The class; `None` if the name has none, as in the first versions.
        class: Option<LaunchClass>,
        /// Package of the app.
        package: &'name [u8],
    },
    /// The asynchronous slice of a launch up to Android 12: `launching: PACKAGE`.
    RunningPackage {
        /// Package of the app.
        package: &'name [u8],
    },
}

/// The launch that the name of a slice stands for.
pub fn launch(name: &[u8]) -> Option<Launch<'_>> {
    if let Some(package) = name.strip_prefix(b"launching: ") {
        return Some(Launch::RunningPackage { package });
    }
    let rest = name.strip_prefix(b"launchingActivity#")?;
    let Some(colon) = memchr::memchr(b':', rest) else {
        return Some(Launch::Running { id: decimal(rest)? });
    };
    let id = decimal(&rest[..colon])?;
    let rest = rest[colon + 1..].strip_prefix(b"completed")?;
    let colon = memchr::memchr(b':', rest)?;
    let class = match &rest[..colon] {
        b"" => None,
        b"-cold" => Some(LaunchClass::Cold),
        b"-warm" => Some(LaunchClass::Warm),
        b"-hot" => Some(LaunchClass::Hot),
        // A launch within the same process is none.
        _ => return None,
    };
    Some(Launch::Completed { id, class, package: &rest[colon + 1..] })
}

/// A kill by lmkd, as the slice `lmk,PID,REASON,ADJ...` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LmkdKill {
    /// Process that is killed.
    pub pid: u32,
    /// lmkd's number of the reason; -1 if it has none. [`lmkd_reason`] names it.
    pub reason: i32,
    /// The victim's oom_score_adj.
    pub adj: i32,
}

/// The kill that the name of a slice or an instant of lmkd stands for.
pub fn lmkd_kill(name: &[u8]) -> Option<LmkdKill> {
    let mut parts = name.strip_prefix(b"lmk,")?.split(|&byte| byte == b',');
    let mut next = || {
        let part = std::str::from_utf8(parts.next()?).ok()?;
        part.trim().parse::<i32>().ok()
    };
    let pid = u32::try_from(next()?).ok()?;
    Some(LmkdKill { pid, reason: next()?, adj: next()? })
}

/// lmkd's name of a reason (enum kill_reasons in system/memory/lmkd/include/lmkd.h, Android 14).
pub const fn lmkd_reason(reason: i32) -> &'static str {
    match reason {
        -1 => "none",
        0 => "pressure_after_kill",
        1 => "not_responding",
        2 => "low_swap_and_thrashing",
        3 => "low_mem_and_swap",
        4 => "low_mem_and_thrashing",
        5 => "direct_recl_and_thrashing",
        6 => "low_mem_and_swap_util",
        7 => "low_filecache_after_thrashing",
        8 => "low_mem",
        9 => "direct_recl_stuck",
        _ => "unknown",
    }
}

/// The counter in which earlier versions of lmkd report the pid of the victim, and 0 when it is killed.
pub const LMKD_KILL_COUNTER: &[u8] = b"kill_one_process";

/// Beginnings of names that analyses need. `Names` keeps room for them in the largest traces.
const NEEDED: [&[u8]; 12] = [
    b"launching",
    b"lmk",
    LMKD_KILL_COUNTER,
    b"MetricsLogger:",
    b"bindApplication",
    b"activityStart",
    b"activityResume",
    b"performCreate:",
    b"performResume:",
    b"Start proc",
    b"reportFullyDrawn",
    b"Choreographer#doFrame",
];

/// Whether an analysis needs slices or counters of this name.
pub fn is_needed(name: &[u8]) -> bool {
    NEEDED.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_of_all_versions_are_read() {
        assert_eq!(launch(b"launching: com.a"), Some(Launch::RunningPackage { package: b"com.a" }));
        assert_eq!(launch(b"launchingActivity#28"), Some(Launch::Running { id: 28 }));
        let completed = |class| Some(Launch::Completed { id: 3, class, package: b"com.a" });
        for (name, class) in [
            (&b"launchingActivity#3:completed:com.a"[..], None),
            (b"launchingActivity#3:completed-cold:com.a", Some(LaunchClass::Cold)),
            (b"launchingActivity#3:completed-warm:com.a", Some(LaunchClass::Warm)),
            (b"launchingActivity#3:completed-hot:com.a", Some(LaunchClass::Hot)),
        ] {
            assert_eq!(launch(name), completed(class));
        }
        for other in [
            &b"launchingActivity#3:completed-same-process:com.a"[..],
            b"launchingActivity#x",
            b"launchingActivity#3:completed",
            b"Launching: com.a",
            b"",
        ] {
            assert_eq!(launch(other), None);
        }
    }

    #[test]
    fn kills_of_lmkd_are_read() {
        let kill = Some(LmkdKill { pid: 4242, reason: 2, adj: 905 });
        assert_eq!(lmkd_kill(b"lmk,4242,2,905"), kill);
        assert_eq!(lmkd_kill(b"lmk,4242,2,905,-1,0"), kill);
        for other in [&b"lmk,1,2"[..], b"lmk,-1,2,3", b"lmk,99999999999,1,1", b"lmkd,1,2,3", b""] {
            assert_eq!(lmkd_kill(other), None);
        }
        assert_eq!(lmkd_reason(8), "low_mem");
    }
}
