//! What a balloon is asked for: how much memory, of which kind, for how long.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use types::Bytes;

/// Memory is taken and given back in pieces of this size.
pub(super) const PIECE_BYTES: u64 = 1 << 20;

/// How much is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// So many bytes.
    Bytes(u64),
    /// A share of all memory, in per cent.
    Percent(u64),
    /// All but so many available bytes, which it gives way for.
    Available(u64),
    /// Until some task stalls for this share of ten seconds, in per cent.
    Pressure(u64),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let percent = |number: &str| {
            let number = number.strip_suffix('%').and_then(|number| number.parse().ok());
            number.filter(|number| (1..=100).contains(number))
        };
        let bytes = |size: &str| size.parse::<Bytes>().ok().map(|Bytes(bytes)| bytes);
        let target = match text.split_once(':') {
            Some(("pressure", number)) => percent(number).map(Target::Pressure),
            Some(("available", size)) => bytes(size).map(Target::Available),
            Some(_) => None,
            None if text.ends_with('%') => percent(text).map(Target::Percent),
            None => bytes(text).filter(|&bytes| bytes >= PIECE_BYTES).map(Target::Bytes),
        };
        target.ok_or_else(|| {
            format!(
                "{text:?}: expected 300MiB (1MiB or more), 40%, available:200MiB or pressure:20%"
            )
        })
    }
}

/// What kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Private memory of its own.
    Anon,
    /// Pages of a file that storage has, read again and again.
    File,
    /// Pages of a file that storage has not yet.
    Dirty,
    /// Shared memory.
    Shared,
}

/// What a balloon does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much.
    pub target: Target,
    /// What kind.
    pub kind: Kind,
    /// Bytes a second at most; none is as fast as it goes.
    pub rate: Option<Bytes>,
    /// Share of each page that is zero, in per cent: what compresses well.
    pub compressible_percent: u64,
    /// Share of its memory that is used again each second, in per cent.
    pub touched_percent: u64,
    /// Threads that take it.
    pub threads: usize,
    /// Its adj: 1000 makes it the first victim of every killer.
    pub adj: i16,
    /// The limit of its cgroup; none is the target and a sixteenth more.
    pub limit: Option<Bytes>,
    /// Where its cgroup is made; none is below the root of the hierarchy.
    pub within: Option<PathBuf>,
    /// Available memory of the machine below which it ends at once.
    pub floor: Option<Bytes>,
    /// Where files are made.
    pub folder: PathBuf,
    /// How long it stays; none is until it is told to end.
    pub time: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_four_forms() {
        assert_eq!("300MiB".parse(), Ok(Target::Bytes(300 << 20)));
        assert_eq!("40%".parse(), Ok(Target::Percent(40)));
        assert_eq!("available:200MiB".parse(), Ok(Target::Available(200 << 20)));
        assert_eq!("available:0B".parse(), Ok(Target::Available(0)));
        assert_eq!("pressure:20%".parse(), Ok(Target::Pressure(20)));
        let wrong = ["0%", "101%", "40", "0MiB", "1023KiB", "1e30GiB", "-5MiB", "available:5%"];
        for text in wrong.into_iter().chain(["available:", "pressure:x", "swap:3%", ""]) {
            assert!(text.parse::<Target>().unwrap_err().contains("pressure:20%"), "{text}");
        }
    }
}
