//! Parses files with a `name number` per line: `/proc/vmstat`, `memory.stat`.

use std::collections::BTreeMap;

use crate::{Error, Root};

/// Numbers by the kernel's own names.
pub type Counters = BTreeMap<String, u64>;

/// Parses counters; skips lines of another format.
pub fn parse(text: &str) -> Counters {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Reads every counter of `/proc/vmstat`; in pages unless the name says otherwise.
///
/// # Errors
/// The operating system refuses.
pub fn vmstat(root: &Root) -> Result<Counters, Error> {
    Ok(root.read("/proc/vmstat")?.map(|text| parse(&text)).unwrap_or_default())
}

/// Reads every value of `/proc/meminfo`, in bytes except for plain counts.
///
/// # Errors
/// The operating system refuses.
pub fn meminfo(root: &Root) -> Result<Counters, Error> {
    let text = root.read("/proc/meminfo")?.unwrap_or_default();
    let line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        let bytes = match value.strip_suffix(" kB") {
            Some(kibibytes) => kibibytes.parse::<u64>().ok()? * 1024,
            None => value.parse().ok()?,
        };
        Some((name.to_owned(), bytes))
    };
    Ok(text.lines().filter_map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_another_format_are_skipped() {
        let counters = parse("pswpin 12\npswpout 7\n\nnot a number x\nthp -\n");
        assert_eq!(counters, [("pswpin".to_owned(), 12), ("pswpout".to_owned(), 7)].into());
    }

    #[test]
    fn the_running_kernel_has_the_counters_of_paging() {
        let counters = vmstat(&Root::system()).unwrap();
        assert!(counters.contains_key("pgfault") && counters.contains_key("pgmajfault"));
        assert!(meminfo(&Root::system()).unwrap()["MemTotal"] > 1 << 20);
    }
}
