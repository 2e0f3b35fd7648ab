//! Makes a quick tier as slow as another device: says when each of its operations would have ended there.
//!
//! The device has a number of units that work at the same time, and each serves one operation after the other.
//! The time of an operation on one page is drawn from the device's range: half of the times lie below the typical
//! figure and half above, evenly in the logarithm. Each further page adds its transfer.

use devices::{Device, Latency};
use types::random::Stream;

use crate::Error;

/// The time of an operation on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Shortest time.
    pub low_ns: u64,
    /// Median.
    pub typical_ns: u64,
    /// Longest time.
    pub high_ns: u64,
}

/// Figures of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Reading a page.
    pub read: Range,
    /// Writing a page.
    pub write: Range,
    /// Reading each further page of the same operation.
    pub further_read_ns: u64,
    /// Writing each further page of the same operation.
    pub further_write_ns: u64,
    /// Operations served at the same time.
    pub depth: usize,
}

impl Figures {
    /// The figures of a device. One without a known queue depth serves one operation at a time.
    pub fn of(device: &Device) -> Figures {
        let range = |latency: &Latency| Range {
            low_ns: latency.low_ns,
            typical_ns: latency.typical_ns,
            high_ns: latency.high_ns,
        };
        let two_pages = device.with_pages_of(2 * types::PAGE_BYTES);
        let further =
            |two: &Latency, single: &Latency| two.typical_ns.saturating_sub(single.typical_ns);
        Figures {
            read: range(&device.read),
            write: range(&device.write),
            further_read_ns: further(&two_pages.read, &device.read),
            further_write_ns: further(&two_pages.write, &device.write),
            depth: device.units(),
        }
    }

    /// Refuses figures that are quicker than what really takes `read_ns` and `write_ns`; `what` names it.
    ///
    /// # Errors
    /// A wanted latency is shorter; the text has both figures.
    pub fn check(&self, what: &str, read_ns: u64, write_ns: u64) -> Result<(), Error> {
        let pairs = [("read", self.read.low_ns, read_ns), ("write", self.write.low_ns, write_ns)];
        for (operation, wanted_ns, taken_ns) in pairs {
            if wanted_ns < taken_ns {
                return Err(Error::Refused(format!(
                    "cannot emulate a {operation} of {:.1} us: {what} takes {:.1} us here; choose a \
                     slower device",
                    wanted_ns as f64 / 1e3,
                    taken_ns as f64 / 1e3
                )));
            }
        }
        Ok(())
    }
}

/// Whether an operation reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the tier.
    Read,
    /// To the tier.
    Write,
}

/// An emulated device.
#[derive(Debug)]
pub struct Emulated {
    figures: Figures,
    /// When each unit has served its last operation.
    busy_until_ns: Vec<u64>,
    random: Stream,
    /// Time that a request takes on its way through the carrier and back: an operation ends so much earlier, so that
    /// the program waits as long as for the device.
    carrier_ns: u64,
}

impl Emulated {
    /// A device with these figures, whose times are drawn from a stream named `name`.
    pub fn new(figures: Figures, name: &str) -> Emulated {
        let busy_until_ns = vec![0; figures.depth.max(1)];
        Emulated { figures, busy_until_ns, random: Stream::named(0, name), carrier_ns: 0 }
    }

    /// Lets each operation end so much earlier as requests take on their way through the carrier and back. The units
    /// are busy as long as before.
    pub fn set_carrier_ns(&mut self, carrier_ns: u64) {
        self.carrier_ns = carrier_ns;
    }

    /// When an operation on `pages` pages that arrives at `now_ns` ends.
    pub fn ends_ns(&mut self, now_ns: u64, direction: Direction, pages: u32) -> u64 {
        let (range, further_ns) = match direction {
            Direction::Read => (self.figures.read, self.figures.further_read_ns),
            Direction::Write => (self.figures.write, self.figures.further_write_ns),
        };
        let further_ns = u64::from(pages.saturating_sub(1)) * further_ns;
        let time_ns = range.draw(&mut self.random) + further_ns;
        let units = self.busy_until_ns.iter_mut();
        let unit = units.min_by_key(|until_ns| **until_ns).expect("there is at least one unit");
        *unit = now_ns.max(*unit) + time_ns;
        unit.saturating_sub(self.carrier_ns).max(now_ns)
    }
}

impl Range {
    /// Always the same time.
    pub fn exact(time_ns: u64) -> Range {
        Range { low_ns: time_ns, typical_ns: time_ns, high_ns: time_ns }
    }

    /// The time below which `share` of the times lie.
    pub fn quantile_ns(self, share: f64) -> u64 {
        let (from, to, part) = match share < 0.5 {
            true => (self.low_ns, self.typical_ns, 2.0 * share),
            false => (self.typical_ns, self.high_ns, 2.0 * share - 1.0),
        };
        let (from, to) = (from.max(1) as f64, to.max(1) as f64);
        (from * (to / from).powf(part)).round() as u64
    }

    fn draw(self, random: &mut Stream) -> u64 {
        if self.low_ns == self.high_ns {
            return self.low_ns;
        }
        self.quantile_ns(random.next_bits() as f64 / (u64::MAX as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range { low_ns: 100_000, typical_ns: 150_000, high_ns: 300_000 };

    fn figures(depth: usize) -> Figures {
        let write = Range::exact(1000);
        Figures { read: RANGE, write, further_read_ns: 10, further_write_ns: 20, depth }
    }

    #[test]
    fn times_have_the_range_and_the_median_of_the_device() {
        let mut device = Emulated::new(figures(1), "test");
        let mut times: Vec<u64> = (0..10_001_u64)
            .map(|number| number * 1_000_000)
            .map(|now_ns| device.ends_ns(now_ns, Direction::Read, 1) - now_ns)
            .collect();
        times.sort_unstable();
        assert!(times[0] >= RANGE.low_ns && times[10_000] <= RANGE.high_ns);
        assert!(times[5000].abs_diff(RANGE.typical_ns) < 3000, "{}", times[5000]);
        let p99 = times[9900].abs_diff(RANGE.quantile_ns(0.99));
        assert!(p99 < 3000, "{} and {}", times[9900], RANGE.quantile_ns(0.99));
    }

    #[test]
    fn a_device_has_the_times_of_its_file() {
        let emmc = Figures::of(&Device::resolve("emmc-5.1").unwrap());
        assert_eq!((emmc.read.low_ns, emmc.read.high_ns, emmc.depth), (150_000, 250_000, 2));
        let ufs = Figures::of(&Device::resolve("ufs-3.1").unwrap());
        // 4096 bytes at 1,733 MB/s.
        assert_eq!((ufs.further_read_ns, ufs.depth), (2364, 9));
        let exact = Figures::of(&Device::resolve("90/40us").unwrap());
        assert_eq!(exact.write, Range::exact(40_000));
        assert_eq!((exact.further_write_ns, exact.depth), (0, 1));
    }

    #[test]
    fn a_device_quicker_than_the_real_one_is_refused_with_both_figures() {
        figures(1).check("the disk", 100_000, 900).unwrap();
        let error = figures(1).check("the disk", 99_999, 1500).unwrap_err().to_string();
        assert!(error.contains("write of 1.0 us: the disk takes 1.5 us"), "{error}");
    }

    #[test]
    fn operations_beyond_the_depth_wait_for_a_unit() {
        let mut device = Emulated::new(figures(2), "test");
        let ends: Vec<u64> = (0..4).map(|_| device.ends_ns(50, Direction::Write, 3)).collect();
        assert_eq!(ends, [1090, 1090, 2130, 2130]);
        assert_eq!(device.ends_ns(5000, Direction::Write, 1), 6000);
    }

    #[test]
    fn the_time_through_the_carrier_is_a_part_of_the_device_s() {
        let mut device = Emulated::new(figures(1), "test");
        device.set_carrier_ns(400);
        // The unit is busy for 1000 ns each time.
        let ends: Vec<u64> = (0..2).map(|_| device.ends_ns(9000, Direction::Write, 1)).collect();
        assert_eq!(ends, [9600, 10_600]);
        device.set_carrier_ns(4000);
        assert_eq!(device.ends_ns(20_000, Direction::Write, 1), 20_000);
    }
}
