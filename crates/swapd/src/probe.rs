//! How long reads and writes of a page take: of a tier's disk, and of the way through a carrier.

use std::os::fd::OwnedFd;
use std::time::Instant;

use linux::page_buffers::PageBuffers;
use rustix::io::{Errno, pread, pwrite};

use crate::Error;
use crate::carrier::SLOT_BYTES;

/// Reads and writes that are measured.
const PROBES: usize = 64;

/// The times in nanoseconds of reads and writes of a page below which `share` of all are. They are spread over `blocks`
/// blocks of a file that was opened with O_DIRECT. One that may not be written is only read: its writes then count as
/// long as its reads. `what` names it in errors.
///
/// # Errors
/// A read or write fails.
pub fn times_ns(
    file: &OwnedFd,
    blocks: u64,
    may_write: bool,
    share: f64,
    what: &str,
) -> Result<[f64; 2], Error> {
    let mut page = PageBuffers::new(1, SLOT_BYTES)?;
    let refused = |error: Errno| Error::refused(&format!("measure {what}"), error);
    let offset = |number: usize| {
        let step = (blocks / PROBES as u64).max(1);
        (number as u64 * step % blocks) * SLOT_BYTES as u64
    };
    let (mut reads, mut writes) = ([0.0; PROBES], [0.0; PROBES]);
    for number in 0..PROBES {
        if may_write {
            let begun = Instant::now();
            pwrite(file, page.get(0), offset(number)).map_err(refused)?;
            writes[number] = begun.elapsed().as_nanos() as f64;
        }
        let begun = Instant::now();
        pread(file, page.get_mut(0), offset(number)).map_err(refused)?;
        reads[number] = begun.elapsed().as_nanos() as f64;
    }
    let quantile = |times: &mut [f64; PROBES]| {
        times.sort_by(f64::total_cmp);
        times[(share * PROBES as f64) as usize]
    };
    let read = quantile(&mut reads);
    Ok([read, if may_write { quantile(&mut writes) } else { read }])
}
