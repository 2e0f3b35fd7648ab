//! Follows what the kernel writes to the swap area on a device and reads from it, or which pages faults take out of
//! swap, while it happens.

use std::time::Duration;

use trace::recording::{Missing, Record, kind};

use crate::backend::{Backend, BackendChoice};
use crate::sources::{CATALOG, Source};
use crate::{Error, EventFilter, bpf};

/// The size of the buffer between kernel and follower.
const BUFFER_BYTES: u32 = 8 << 20;

/// The size of the buffer of swap-ins: drained every 20 ms, it holds 800,000 events a second.
const SWAP_IN_BUFFER_BYTES: u32 = 1 << 20;

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

/// What [`follow_swap_ins`] passes on.
#[derive(Clone, Copy, Debug)]
pub struct SwapIns<'a> {
    /// Records of kind `SWAP_IN`, oldest first.
    pub records: &'a [Record],
    /// Events lost since the start because the buffer was full.
    pub lost: u64,
    /// The name of the backend: `bpf` or `tracefs`.
    pub backend: &'static str,
}

/// Passes the faults of all processes that took a page out of swap to `take`, until it returns false. The first call has
/// no records: from then on no event is missed. `take` itself waits before it returns; events that come meanwhile wait
/// in a buffer of 1 MiB, and are lost once it is full.
///
/// # Errors
/// The kernel refuses both BPF and text events, or its text events lack most faults.
pub fn follow_swap_ins(take: &mut dyn FnMut(SwapIns<'_>) -> bool) -> Result<(), Error> {
    let faults: Vec<&Source> = CATALOG.iter().filter(|source| source.name == "faults").collect();
    let (mut object, filter) = (bpf::object(), EventFilter::default());
    let choice = BackendChoice::Any;
    let mut backend =
        Backend::attach(choice, &mut object, &faults, &filter, None, SWAP_IN_BUFFER_BYTES)?;
    if let Backend::Text(text) = &backend {
        check_text_faults(&faults, &text.absent)?;
    }
    let name = backend.name();
    let (mut records, mut lost) = (Vec::<Record>::new(), 0);
    while take(SwapIns { records: &records, lost, backend: name }) {
        records.clear();
        let mut is_empty = true;
        backend.drain(|batch| {
            is_empty &= batch.records.is_empty();
            records.extend(batch.records.iter().filter(|record| record.kind == kind::SWAP_IN));
            Ok(())
        })?;
        // An empty buffer has lost none, and text events have this count in files.
        if !is_empty {
            lost = backend.lost();
        }
    }
    Ok(())
}

/// Checks that text events report each fault that takes a page out of swap.
fn check_text_faults(faults: &[&Source], absent: &[Missing]) -> Result<(), Error> {
    let is_event = |what: &str| {
        faults.iter().flat_map(|source| source.text_events).any(|(event, _)| *event == what)
    };
    let is_needed = |missing: &&Missing| missing.what == "most faults" || is_event(&missing.what);
    match absent.iter().find(is_needed) {
        Some(missing) => {
            let bpf = absent.iter().find(|missing| missing.what == "BPF");
            let bpf = bpf.map_or(String::new(), |bpf| format!("; and BPF: {}", bpf.why));
            Err(Error::Tracefs(format!("{}{bpf}", missing.why)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_events_without_each_fault_are_refused() {
        let faults: Vec<&Source> =
            CATALOG.iter().filter(|source| source.name == "faults").collect();
        assert_eq!(faults.len(), 1);
        let missing = |what: &str, why: &str| Missing { what: what.into(), why: why.into() };
        let bpf = missing("BPF", "no BTF");
        let owners = missing("owners of swapped pages", "none");
        assert!(check_text_faults(&faults, &[bpf.clone(), owners.clone()]).is_ok());
        for what in ["most faults", "kmem/rss_stat", "exceptions/page_fault_user"] {
            let absent = [owners.clone(), missing(what, "once in 64"), bpf.clone()];
            let error = check_text_faults(&faults, &absent).unwrap_err().to_string();
            assert_eq!(error, "text events: once in 64; and BPF: no BTF");
        }
    }
}
