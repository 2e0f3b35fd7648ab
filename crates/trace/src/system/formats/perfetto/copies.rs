//! Packets that a file has twice, as when a trace is joined with itself: same writer, time and contents.

use std::collections::HashSet;

use twox_hash::XxHash3_64;

/// Packets that are remembered: the first ones, since a copy begins as its original does. They take about 1 MiB.
const PACKETS_MAX: usize = 1 << 16;

/// A shorter packet without a time, such as one of an empty buffer, may occur twice.
const UNTIMED_BYTES_MIN: usize = 32;

/// Bytes of a packet that are compared, besides its length; they hold the writer and the first times.
const BYTES_COMPARED: usize = 512;

/// Fingerprints of packets.
#[derive(Default)]
pub struct Copies {
    seen: HashSet<(u64, usize)>,
}

impl Copies {
    /// Whether the same packet came before. `has_time` says whether the packet has a time of its own.
    pub fn is_copy(&mut self, packet: &[u8], has_time: bool) -> bool {
        if !has_time && packet.len() < UNTIMED_BYTES_MIN {
            return false;
        }
        let compared = &packet[..packet.len().min(BYTES_COMPARED)];
        let fingerprint = (XxHash3_64::oneshot(compared), packet.len());
        if self.seen.len() < PACKETS_MAX {
            !self.seen.insert(fingerprint)
        } else {
            self.seen.contains(&fingerprint)
        }
    }
}
