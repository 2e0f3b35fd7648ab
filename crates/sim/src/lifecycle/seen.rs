//! The killer's view of the phone: its memory, and the memory that victims will free.

use super::dying::Deaths;
use super::memory::{Memory, Watermarks};
use super::stalls::Stalls;
use policy::kill;
use schemars::JsonSchema;
use serde::Serialize;
use types::{Bytes, PAGE_BYTES};

/// Memory at one instant, in pages; memory that earlier victims still hold counts as held, and
/// is also listed separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SeenMemory")]
pub struct Seen {
    /// Free frames.
    pub free_pages: u64,
    /// Pages available without swapping, by the kernel's formula.
    pub available_pages: u64,
    /// Pages of files in memory.
    pub file_pages: u64,
    /// Anonymous pages in memory.
    pub anonymous_pages: u64,
    /// Free slots of the swap area.
    pub swap_free_pages: u64,
    /// Pages in memory that victims still dying will free.
    pub coming_pages: u64,
    /// Slots of the swap area that victims still dying will free.
    pub coming_swap_pages: u64,
}

impl Seen {
    /// The state of `memory` with watermarks `marks`, of which the victims of `deaths` still hold a part.
    pub(super) fn of(memory: &Memory, marks: Watermarks, deaths: &Deaths) -> Seen {
        let (free, files) = (memory.free() as u64, memory.files() as u64);
        // si_mem_available of mm/show_mem.c, never below the free frames.
        let cache = files - (files / 2).min(marks.low as u64);
        let available = (free + cache).saturating_sub(marks.high as u64).max(free);
        let owned = || deaths.apps().map(|app| memory.owned(app));
        Seen {
            free_pages: free,
            available_pages: available,
            file_pages: files,
            anonymous_pages: memory.anonymous() as u64,
            swap_free_pages: memory.swap().1 as u64,
            coming_pages: owned().map(|owned| u64::from(owned.resident)).sum(),
            coming_swap_pages: owned().map(|owned| u64::from(owned.slots)).sum(),
        }
    }

    /// The state after the victims have freed what they hold.
    pub(super) fn once_back(self) -> Seen {
        Seen {
            free_pages: self.free_pages + self.coming_pages,
            available_pages: self.available_pages + self.coming_pages,
            anonymous_pages: self.anonymous_pages - self.coming_pages,
            swap_free_pages: self.swap_free_pages + self.coming_swap_pages,
            coming_pages: 0,
            coming_swap_pages: 0,
            ..self
        }
    }

    /// The policy's view of a phone of `frames` with `slots` of swap area.
    pub(super) fn for_policy(
        self,
        (frames, slots): (usize, usize),
        marks: Watermarks,
        stalls: &Stalls,
        now_ns: u64,
    ) -> kill::Memory {
        let bytes = |pages: u64| Bytes(pages * PAGE_BYTES);
        let swap = (bytes(slots as u64), bytes(self.swap_free_pages));
        let Watermarks { min, low, high } = marks;
        kill::Memory {
            total: bytes(frames as u64),
            free: bytes(self.free_pages),
            available: bytes(self.available_pages),
            reserved: bytes(high as u64),
            files: bytes(self.file_pages),
            swap_total: swap.0,
            swap_free: swap.1,
            disk_swap_total: swap.0,
            disk_swap_free: swap.1,
            watermarks: Some(kill::Watermarks {
                min: bytes(min as u64),
                low: bytes(low as u64),
                high: bytes(high as u64),
            }),
            pressure: Some(stalls.pressure(now_ns)),
            scanned_directly: Some(stalls.scanned_directly),
            scanned_by_kswapd: Some(stalls.scanned_in_background),
            file_refaults: Some(stalls.file_refaults),
            stall: stalls.recent(now_ns),
        }
    }
}
