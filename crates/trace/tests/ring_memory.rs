//! A ring takes the memory that it was given, however long it runs.

use std::fs::File;
use std::io;

use testkit::counting::{Counting, bytes_held_most};
use trace::recording::{About, FileName, Mark, Record, Ring, Sample, Writer, kind};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The limit of the ring.
const RING_BYTES: usize = 2 << 20;

/// What the writer needs besides: the state of zstd, and a block that is packed.
const WRITER_BYTES: usize = 4 << 20;

/// Records `seconds` of 20,000 events each, with names of files, into a ring of ten minutes.
fn record(seconds: u64) -> io::Result<()> {
    let ring: Ring<File> = Ring::new(RING_BYTES, 600_000_000_000);
    let mut writer = Writer::new(ring, &About::default())?;
    for second in 0..seconds {
        let time_ns = second * 1_000_000_000;
        if writer.output_mut().is_due(time_ns) {
            writer.flush()?;
            let now = Mark { time_ns, recorded: writer.recorded(), lost: 0 };
            writer.output_mut().begin(now);
            writer.output_mut().end_snapshot(0);
        }
        for index in 0..20_000 {
            // Addresses that do not compress.
            let number = second << 32 | index;
            let address = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let address = (address ^ address >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            let record = Record { kind: kind::FILE_ADDED, time_ns, address, ..Record::default() };
            writer.push(record)?;
        }
        let name = |inode| FileName { device: 1, inode, path: format!("/lib/{inode}.so") };
        let names: Vec<FileName> = (second * 100..second * 100 + 100).map(name).collect();
        writer.name_files(&names)?;
        writer.sample(&Sample { time_ns, ..Sample::default() })?;
        writer.output_mut().expire(time_ns);
    }
    assert!(writer.output_mut().bytes() <= RING_BYTES);
    assert!(writer.output_mut().names_forgotten() > 0);
    Ok(())
}

#[test]
fn a_ring_stays_within_its_bytes() {
    let short = bytes_held_most(|| record(60).expect("a ring takes every block"));
    let long = bytes_held_most(|| record(600).expect("a ring takes every block"));
    assert!(short <= RING_BYTES + WRITER_BYTES, "{short}");
    assert!(long <= RING_BYTES + WRITER_BYTES, "{long}");
    assert!(short >= RING_BYTES / 2, "{short}");
}
