//! Measures how long a store takes for a page, one at a time: for policies that weigh the tiers, and to refuse
//! emulating a device that is quicker than the real one.

use std::hint::black_box;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::io::{Errno, pread, pwrite};
use types::random::Stream;

use crate::Error;
use crate::carrier::SLOT_BYTES;
use crate::emulation::Figures;
use crate::store::SlowTier;

/// Operations of each kind that are measured.
const OPERATIONS: usize = 200;

/// Median times of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A read.
    pub read_ns: u64,
    /// A write.
    pub write_ns: u64,
}

impl Times {
    /// The typical times of a device.
    pub fn of(figures: &Figures) -> Times {
        Times { read_ns: figures.read.typical_ns, write_ns: figures.write.typical_ns }
    }
}

/// Measures reads at random places of a slow tier. Writes follow only in a file of ours, with the zeros that it has;
/// a device keeps its content, so its writes count as long as its reads.
///
/// # Errors
/// The disk refuses a read or write.
pub fn disk(slow: &SlowTier, slots: u32) -> Result<Times, Error> {
    let refused = |error: Errno| Error::refused("measure the slow tier", error);
    // Direct I/O needs an aligned buffer.
    let mut memory = vec![0_u8; 2 * SLOT_BYTES];
    let begin = memory.as_ptr().align_offset(SLOT_BYTES);
    let page = &mut memory[begin..begin + SLOT_BYTES];
    let mut random = Stream::named(0, "probe");
    let mut offset = || u64::from(random.below(slots)) * SLOT_BYTES as u64;
    let file = slow.file.as_fd();
    let read_ns = median(|| pread(file, &mut *page, offset()).map(drop)).map_err(refused)?;
    if slow.is_device {
        return Ok(Times { read_ns, write_ns: read_ns });
    }
    page.fill(0);
    let write_ns = median(|| pwrite(file, page, offset()).map(drop)).map_err(refused)?;
    Ok(Times { read_ns, write_ns })
}

/// Measures copies of a page in memory.
pub fn memory() -> Times {
    let from = vec![1_u8; SLOT_BYTES];
    let mut to = vec![0_u8; SLOT_BYTES];
    let copied = median(|| {
        black_box(&mut to).copy_from_slice(black_box(&from));
        Ok(())
    });
    let copy_ns = copied.unwrap_or_default().max(1);
    Times { read_ns: copy_ns, write_ns: copy_ns }
}

fn median(mut operation: impl FnMut() -> Result<(), Errno>) -> Result<u64, Errno> {
    let mut times = Vec::with_capacity(OPERATIONS);
    for _ in 0..OPERATIONS {
        let begun = Instant::now();
        operation()?;
        times.push(begun.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    Ok(times[OPERATIONS / 2])
}

/// Refuses a device that is quicker than what really takes `taken`.
///
/// # Errors
/// A wanted latency is shorter; the text has both figures.
pub fn check_emulated(figures: &Figures, taken: Times) -> Result<(), Error> {
    let pairs = [
        ("read", figures.read.low_ns, taken.read_ns),
        ("write", figures.write.low_ns, taken.write_ns),
    ];
    for (operation, wanted_ns, taken_ns) in pairs {
        if wanted_ns < taken_ns {
            return Err(Error::Refused(format!(
                "cannot emulate a {operation} of {:.1} us: it takes {:.1} us here; choose a slower device",
                wanted_ns as f64 / 1e3,
                taken_ns as f64 / 1e3
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulation::Range;

    #[test]
    fn a_device_quicker_than_the_real_one_is_refused_with_both_figures() {
        let range = Range { low_ns: 80_000, typical_ns: 90_000, high_ns: 100_000 };
        let (further_read_ns, further_write_ns, depth) = (0, 0, 1);
        let figures =
            Figures { read: range, write: range, further_read_ns, further_write_ns, depth };
        check_emulated(&figures, Times { read_ns: 80_000, write_ns: 10 }).unwrap();
        let error = check_emulated(&figures, Times { read_ns: 10, write_ns: 95_500 }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("write of 80.0 us: it takes 95.5 us"), "{text}");
    }
}
