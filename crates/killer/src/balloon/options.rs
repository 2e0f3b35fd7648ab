//! What a balloon is asked for: how much memory, of which kind, for how long.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use types::Bytes;

/// The size of the pieces in which memory is taken and freed.
pub(super) const PIECE_BYTES: u64 = 1 << 20;

/// How much memory a balloon takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalloonTarget {
    /// This number of bytes.
    Bytes(u64),
    /// This percentage of all memory.
    Percent(u64),
    /// All but this number of available bytes; the balloon shrinks to keep them available.
    Available(u64),
    /// As much as it takes to make some task stall for this percentage of ten seconds.
    Pressure(u64),
}

impl FromStr for BalloonTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<BalloonTarget, String> {
        let percent = |number: &str| {
            let number = number.strip_suffix('%').and_then(|number| number.parse().ok());
            number.filter(|number| (1..=100).contains(number))
        };
        let bytes = |size: &str| size.parse::<Bytes>().ok().map(|Bytes(bytes)| bytes);
        let target = match text.split_once(':') {
            Some(("pressure", number)) => percent(number).map(BalloonTarget::Pressure),
            Some(("available", size)) => bytes(size).map(BalloonTarget::Available),
            Some(_) => None,
            None if text.ends_with('%') => percent(text).map(BalloonTarget::Percent),
            None => bytes(text).filter(|&bytes| bytes >= PIECE_BYTES).map(BalloonTarget::Bytes),
        };
        target.ok_or_else(|| {
            format!(
                "{text:?}: expected 300MiB (1MiB or more), 40%, available:200MiB or pressure:20%"
            )
        })
    }
}

/// The kind of memory that a balloon takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Private anonymous memory.
    Anon,
    /// Clean pages of a file, which are read again and again.
    File,
    /// Dirty pages of a file.
    Dirty,
    /// Shared memory.
    Shared,
}

/// The options of a balloon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much memory it takes.
    pub target: BalloonTarget,
    /// The kind of memory.
    pub kind: Kind,
    /// The most memory that it takes per second; None for no limit.
    pub rate: Option<Bytes>,
    /// Percentage of each page that is zero, and so compresses well.
    pub compressible_percent: u64,
    /// Percentage of its memory that it touches again each second.
    pub touched_percent: u64,
    /// Number of threads that take the memory.
    pub threads: usize,
    /// The `oom_score_adj` of the balloon: 1000 makes it the first victim of every killer.
    pub adj: i16,
    /// The limit of its cgroup; None for the target plus a sixteenth.
    pub limit: Option<Bytes>,
    /// The cgroup in which it creates its own; None for the root of the hierarchy.
    pub within: Option<PathBuf>,
    /// The available memory below which the balloon ends; None for a sixteenth of all memory.
    pub floor: Option<Bytes>,
    /// The folder for its files.
    pub folder: PathBuf,
    /// How long the balloon holds the memory; None for no limit.
    pub time: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_four_forms() {
        assert_eq!("300MiB".parse(), Ok(BalloonTarget::Bytes(300 << 20)));
        assert_eq!("40%".parse(), Ok(BalloonTarget::Percent(40)));
        assert_eq!("available:200MiB".parse(), Ok(BalloonTarget::Available(200 << 20)));
        assert_eq!("available:0B".parse(), Ok(BalloonTarget::Available(0)));
        assert_eq!("pressure:20%".parse(), Ok(BalloonTarget::Pressure(20)));
        let wrong = ["0%", "101%", "40", "0MiB", "1023KiB", "1e30GiB", "-5MiB", "available:5%"];
        for text in wrong.into_iter().chain(["available:", "pressure:x", "swap:3%", ""]) {
            assert!(text.parse::<BalloonTarget>().unwrap_err().contains("pressure:20%"), "{text}");
        }
    }
}
