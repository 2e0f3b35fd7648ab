//! Compares every eviction policy of the catalog with its naive model. The first byte chooses the number
//! of frames; each other byte is a request.

#![no_main]

use libfuzzer_sys::fuzz_target;
use policy::eviction::{Build, CATALOG, Future, Residency};
use std::sync::Arc;
use testkit::eviction::model;
use types::PageId;

/// Pages that a byte can name.
const PAGES: usize = 256;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, requests)) = bytes.split_first() else { return };
    // Mostly small memories, and some beyond 200 frames, where LIRS has more than one cold frame.
    let frames = if first < 200 { u32::from(first) % 32 + 1 } else { u32::from(first) };
    let requests: Vec<PageId> = requests.iter().map(|&page| PageId(u32::from(page))).collect();
    for row in CATALOG {
        let mut misses: Box<dyn FnMut(PageId) -> u64> = match row.build(&[]).expect("defaults are valid") {
            Build::Online(build) => {
                let (mut policy, mut memory) = (build(frames), Residency::new(frames));
                Box::new(move |page| policy.replay(&[page], PAGES, &mut memory))
            }
            Build::Offline(build) => {
                let mut policy = build(frames, Arc::new(Future::new(requests.clone(), PAGES)));
                Box::new(move |_| policy.replay(1))
            }
        };
        let mut model = model(row.name, frames as usize, &requests).expect("policies have models");
        for (index, &page) in requests.iter().enumerate() {
            let is_missed = misses(page) == 1;
            assert_eq!(is_missed, !model.request(page), "{} at request {index}", row.name);
        }
    }
});
