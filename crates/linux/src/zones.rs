//! Watermarks and reserves from `/proc/zoneinfo`, added up over all zones.

use crate::{Error, Root};

/// Levels of free memory at which the kernel acts, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// Below this level only the kernel may allocate.
    pub min_bytes: u64,
    /// Below this level the kernel wakes `kswapd`.
    pub low_bytes: u64,
    /// Above this level `kswapd` sleeps.
    pub high_bytes: u64,
    /// Memory that programs cannot use: `totalreserve_pages` (`calculate_totalreserve_pages` in
    /// mm/page_alloc.c), the sum of the high watermark and the largest protection of each zone.
    pub reserved_bytes: u64,
}

/// Reads the sums over all zones; None if the kernel does not report them.
///
/// # Errors
/// The operating system refuses.
pub fn zones(root: &Root) -> Result<Option<Zones>, Error> {
    let page = rustix::param::page_size() as u64;
    Ok(root.read("/proc/zoneinfo")?.map(|text| parse(&text, page)))
}

fn parse(text: &str, page_bytes: u64) -> Zones {
    let mut zones = Zones::default();
    let (mut high, mut managed) = (0, 0);
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        let (Some(name), Some(value)) = (fields.next(), fields.next()) else { continue };
        let number: u64 = value.parse().unwrap_or(0);
        match name {
            "min" => zones.min_bytes += number * page_bytes,
            "low" => zones.low_bytes += number * page_bytes,
            "high" => {
                zones.high_bytes += number * page_bytes;
                high = number;
            }
            "managed" => managed = number,
            "protection:" => {
                let numbers = line.split(['(', ')', ',', ' ']).filter_map(|word| word.parse().ok());
                let kept: u64 = numbers.max().unwrap_or(0_u64) + high;
                zones.reserved_bytes += kept.min(managed) * page_bytes;
            }
            _ => {}
        }
    }
    zones
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_added_up() {
        let zone = |min: u64, protection: &str| {
            format!(
                "Node 0, zone DMA\n  pages free 3\n        min      {min}\n        low      {}\n\
                 \x20       high     {}\n        managed  100\n        protection: ({protection})\n\
                 \x20   pagesets\n      high:  77\n",
                min + 10,
                min + 20
            )
        };
        let text = zone(5, "0, 30, 60") + &zone(60, "0, 0, 90");
        let zones = parse(&text, 4096);
        let pages = |pages: u64| pages * 4096;
        assert_eq!(zones.min_bytes, pages(65));
        assert_eq!((zones.low_bytes, zones.high_bytes), (pages(85), pages(105)));
        // 60 + 25 pages of the first zone, and 100 of the second, which has no more.
        assert_eq!(zones.reserved_bytes, pages(185));
        assert!(super::zones(&Root::system()).unwrap().is_some());
    }
}
