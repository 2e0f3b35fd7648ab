//! How long processes waited, by the kernel's delay accounting: taskstats over generic netlink
//! (include/uapi/linux/taskstats.h; Documentation/accounting/delay-accounting.rst). The kernel accounts
//! processes that began while `kernel.task_delayacct` was on, and requires CAP_NET_ADMIN.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::{Error, Root};

/// The file that turns delay accounting on.
pub const SWITCH: &str = "/proc/sys/kernel/task_delayacct";

const HEADER_BYTES: usize = 16;
const GENERIC_HEADER_BYTES: usize = 4;
/// Message types, commands and attributes of linux/genetlink.h and linux/taskstats.h.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET: u8 = 1;
const GET_PROCESS: u16 = 2;
const OF_PROCESS: u16 = 5;
const STATISTICS: u16 = 3;
/// Offsets in `struct taskstats`, which grows at its end; only version 15 moved the fields after the first.
const VERSION_MOVED: u16 = 15;
const STORAGE_AT: usize = 40;
const SWAP_AT: usize = 56;
const RECLAIM_AT: usize = 320;
const REFAULT_AT: usize = 336;
/// The kernel answers at once; after this time something hangs.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// How long threads waited, added up over all threads. A wait may count in two fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Waits for direct reclaim, of the machine or of their group.
    pub reclaim: Duration,
    /// Waits for refaults of recently evicted pages (thrashing).
    pub refault: Duration,
    /// Waits for pages from swap.
    pub swap_in: Duration,
    /// Waits for storage.
    pub storage: Duration,
}

impl Delays {
    /// The difference to the earlier delays `before`.
    pub fn since(self, before: Delays) -> Delays {
        self.with(before, Duration::saturating_sub)
    }

    fn with(self, other: Delays, of: impl Fn(Duration, Duration) -> Duration) -> Delays {
        Delays {
            reclaim: of(self.reclaim, other.reclaim),
            refault: of(self.refault, other.refault),
            swap_in: of(self.swap_in, other.swap_in),
            storage: of(self.storage, other.storage),
        }
    }
}

impl std::iter::Sum for Delays {
    fn sum<I: Iterator<Item = Delays>>(all: I) -> Delays {
        all.fold(Delays::default(), |sum, next| sum.with(next, |a, b| a + b))
    }
}

/// Asks the kernel for delays.
#[derive(Debug)]
pub struct Teller {
    socket: OwnedFd,
    family: u16,
}

impl Teller {
    /// Opens the netlink socket; None if the kernel does not account delays, or refuses to report them.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn open(root: &Root) -> Result<Option<Teller>, Error> {
        if root.read(SWITCH)?.is_none_or(|switch| switch.trim() != "1") {
            return Ok(None);
        }
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::RAW;
        let protocol = Some(netlink::GENERIC);
        let Ok(socket) = socket_with(AddressFamily::NETLINK, kind, flags, protocol) else {
            return Ok(None);
        };
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWERS_WITHIN))
            .map_err(|error| Error::call("setsockopt", error))?;
        let mut teller = Teller { socket, family: CONTROL };
        let family = teller.ask(GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0");
        let family = family.as_deref().and_then(|answer| attribute(answer, FAMILY_ID));
        let Some(&[low, high]) = family else { return Ok(None) };
        teller.family = u16::from_ne_bytes([low, high]);
        Ok(teller.of(std::process::id()).is_some().then_some(teller))
    }

    /// The delays of all threads of a process so far; None once it has ended.
    pub fn of(&self, process: u32) -> Option<Delays> {
        let answer = self.ask(GET, GET_PROCESS, &process.to_ne_bytes())?;
        delays(attribute(attribute(&answer, OF_PROCESS)?, STATISTICS)?)
    }

    /// Sends a command with one attribute; returns the attributes of the answer, or None if it is refused.
    fn ask(&self, command: u8, kind: u16, value: &[u8]) -> Option<Vec<u8>> {
        const REQUEST: u16 = 1;
        let attribute_bytes = 4 + value.len();
        let padding = attribute_bytes.next_multiple_of(4) - attribute_bytes;
        let length = HEADER_BYTES + GENERIC_HEADER_BYTES + attribute_bytes + padding;
        let mut message = Vec::with_capacity(length);
        message.extend((length as u32).to_ne_bytes());
        message.extend([self.family, REQUEST].map(u16::to_ne_bytes).concat());
        // No sequence number and no sender: each question waits for its answer.
        message.extend([0; 8]);
        message.extend([command, 1, 0, 0]);
        message.extend([attribute_bytes as u16, kind].map(u16::to_ne_bytes).concat());
        message.extend(value);
        message.extend(vec![0; padding]);
        send(&self.socket, &message, SendFlags::empty()).ok()?;
        let mut answer = vec![0; 8 << 10];
        let (length, _) = recv(&self.socket, &mut answer[..], RecvFlags::empty()).ok()?;
        let is_answer = u16::from_ne_bytes([*answer.get(4)?, *answer.get(5)?]) == self.family;
        answer.truncate(length);
        is_answer.then(|| answer.split_off(length.min(HEADER_BYTES + GENERIC_HEADER_BYTES)))
    }
}

/// The value of the first attribute of this kind.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    const FLAGS: u16 = 0xc000;
    loop {
        let &[a, b, c, d, ..] = attributes else { return None };
        let (length, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = attributes.get(4..length)?;
        if kind & !FLAGS == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Parses the delays of a `struct taskstats`.
fn delays(statistics: &[u8]) -> Option<Delays> {
    let &[low, high, ..] = statistics else { return None };
    if u16::from_ne_bytes([low, high]) == VERSION_MOVED {
        return None;
    }
    let time = |at: usize| {
        let bytes = statistics.get(at..at + 8)?.try_into().ok()?;
        Some(Duration::from_nanos(u64::from_ne_bytes(bytes)))
    };
    Some(Delays {
        reclaim: time(RECLAIM_AT)?,
        refault: time(REFAULT_AT)?,
        swap_in: time(SWAP_AT)?,
        storage: time(STORAGE_AT)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_parsed_and_absent_from_a_short_structure() {
        let mut statistics = vec![0; 416];
        statistics[0] = 13;
        for (place, nanoseconds) in
            [(STORAGE_AT, 1_u64), (SWAP_AT, 2), (RECLAIM_AT, 3), (REFAULT_AT, 4)]
        {
            statistics[place..place + 8].copy_from_slice(&nanoseconds.to_ne_bytes());
        }
        let found = delays(&statistics).unwrap();
        let times = [found.storage, found.swap_in, found.reclaim, found.refault];
        assert_eq!(times, [1, 2, 3, 4].map(Duration::from_nanos));
        assert_eq!(delays(&statistics[..REFAULT_AT + 7]), None);
        statistics[0] = VERSION_MOVED as u8;
        assert_eq!(delays(&statistics), None);
    }

    #[test]
    fn attributes_are_found_but_never_beyond_the_end() {
        let bytes = |words: &[u16]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        // Kind 1 with two bytes and padding; kind 2, flagged as nested, with four bytes.
        let answer = bytes(&[6, 1, 7, 0, 8, 0x8002, 8, 9]);
        assert_eq!(attribute(&answer, 1), Some(&bytes(&[7])[..]));
        assert_eq!(attribute(&answer, 2), Some(&bytes(&[8, 9])[..]));
        assert_eq!(attribute(&answer, 3), None);
        for cut in 0..answer.len() {
            assert_eq!(attribute(&answer[..cut], 2), None);
        }
        // A length that is too small ends the search.
        assert_eq!(attribute(&bytes(&[0, 1, 0, 0]), 2), None);
    }
}
