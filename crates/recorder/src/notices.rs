//! Notices of kills: the victim's memory and the free memory at the instant of the signal (bpf/notice.h). A notice
//! from text events has only the process and the time.

use linux::system;

/// Bytes of `struct notice`.
pub const BYTES: usize = 96;
const NAME_AT: usize = 80;

/// A notice that a process got SIGKILL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// CLOCK_MONOTONIC, as in the record of the kill.
    pub time_ns: u64,
    /// The number of the victim.
    pub process: u32,
    /// The victim's memory; None with text events.
    pub victim: Option<Victim>,
    /// Bytes that the noted group used.
    pub used: Option<u64>,
    /// Free bytes of the machine, as its zones count them.
    pub free: Option<u64>,
}

/// A victim before it frees anything; its memory is in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Victim {
    /// The name of the victim, at most 15 bytes.
    pub name: String,
    /// The start time of the victim, in clock ticks since boot.
    pub start: u64,
    /// `oom_score_adj`.
    pub adj: i16,
    /// All its memory.
    pub resident: u64,
    /// The anonymous part of its memory.
    pub anonymous: u64,
    /// The victim's memory in swap.
    pub swapped: u64,
    /// Pages that it has read from storage.
    pub major_faults: u64,
}

impl Notice {
    /// Parses a notice from the kernel; None if it has the wrong length.
    pub fn from_kernel(bytes: &[u8]) -> Option<Notice> {
        if bytes.len() != BYTES {
            return None;
        }
        let word = |index: usize| {
            u64::from_ne_bytes(bytes[index * 8..][..8].try_into().expect("the range has 8 bytes"))
        };
        let page = rustix::param::page_size() as u64;
        let known = |index| i64::try_from(word(index)).ok();
        let pages =
            |index: usize| known(index).filter(|&pages| pages >= 0).map(|p| p as u64 * page);
        let held = |index: usize| pages(index).unwrap_or(0);
        let [files, anonymous, swapped, shared] = [3, 4, 5, 6].map(held);
        let tick_ns = system::tick().as_nanos() as u64;
        let name = bytes[NAME_AT..].split(|&byte| byte == 0).next().unwrap_or_default();
        let half = |at: usize| {
            u32::from_ne_bytes(bytes[at..][..4].try_into().expect("the range has 4 bytes"))
        };
        Some(Notice {
            time_ns: word(0),
            process: half(72),
            victim: Some(Victim {
                name: String::from_utf8_lossy(name).into_owned(),
                start: word(1) / tick_ns,
                adj: half(76) as i32 as i16,
                resident: files + anonymous + shared,
                anonymous,
                swapped,
                major_faults: word(2),
            }),
            used: pages(7),
            free: pages(8),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_of_the_kernel_is_parsed() {
        let words: [i64; 9] = [5, 1_230_000_000, 7, 10, 20, 30, 40, 1000, -1];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(4711_u32.to_ne_bytes());
        bytes.extend((-17_i32).to_ne_bytes());
        bytes.extend(b"tail\0garbage....");
        let page = rustix::param::page_size() as u64;
        let victim = Victim {
            name: "tail".to_owned(),
            start: 1_230_000_000 / system::tick().as_nanos() as u64,
            adj: -17,
            resident: 70 * page,
            anonymous: 20 * page,
            swapped: 30 * page,
            major_faults: 7,
        };
        let expected = Notice {
            time_ns: 5,
            process: 4711,
            victim: Some(victim),
            used: Some(1000 * page),
            free: None,
        };
        assert_eq!(Notice::from_kernel(&bytes), Some(expected));
        assert_eq!(Notice::from_kernel(&bytes[1..]), None);
    }
}
