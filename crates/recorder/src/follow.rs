//! Follows what the kernel writes to the swap area on a device and reads from it, while it happens.

use std::time::Duration;

use trace::recording::{Record, kind};

use crate::backend::{Backend, BackendChoice};
use crate::sources::Source;
use crate::{Error, EventFilter, bpf};

/// The size of the buffer between kernel and follower.
const BUFFER_BYTES: u32 = 8 << 20;

/// The transfers of swap areas. No row of the catalog, because a recording also needs the owners of the pages.
const TRANSFERS: Source = Source {
    name: "transfers",
    summary: "what swap devices read and write",
    programs: &["swap_transfer"],
    text_events: &[("block/block_bio_queue", "")],
    is_default: false,
};

/// Passes the transfers of swap on the device with this number of the kernel to `take` in order, with the number of
/// events that were lost so far, until it returns None; else it returns how long to wait for the next ones. The first
/// call has no transfers: from then on no event is missed. The device may become a swap area later.
///
/// # Errors
/// The kernel refuses both BPF and text events.
pub fn follow(
    device: u32,
    take: &mut dyn FnMut(&[Record], u64) -> Option<Duration>,
) -> Result<(), Error> {
    let (mut object, filter) = (bpf::object(), EventFilter::default());
    let choice = BackendChoice::Any;
    let mut backend =
        Backend::attach(choice, &mut object, &[&TRANSFERS], &filter, None, BUFFER_BYTES)?;
    if let Backend::Text(text) = &mut backend {
        text.add_area(device);
        // Without its only event nothing would ever be heard.
        let event = TRANSFERS.text_events[0].0;
        if let Some(absent) = text.absent.iter().find(|absent| absent.what == event) {
            return Err(Error::Tracefs(absent.why.clone()));
        }
    }
    let is_transfer = |record: &&Record| {
        record.device == device && matches!(record.kind, kind::SWAP_READ | kind::SWAP_WRITE)
    };
    let (mut transfers, mut lost) = (Vec::<Record>::new(), 0);
    while let Some(wait) = take(&transfers, lost) {
        std::thread::sleep(wait);
        transfers.clear();
        backend.drain(|batch| {
            transfers.extend(batch.records.iter().filter(is_transfer).copied());
            Ok(())
        })?;
        // An idle area loses none, and text events have this count in files.
        if !transfers.is_empty() {
            lost = backend.lost();
        }
    }
    Ok(())
}
