//! Common rules for recordings of block requests: the spellings of an operation, and the longest request.

use crate::ledger::Ledger;
use crate::record::Operation;

/// The longest request accepted. The kernel's own limit is 4 GiB, devices take far less, and every 4 KiB
/// of a request becomes an event.
pub const REQUEST_BYTES_MAX: u64 = 1 << 30;

/// Bytes per sector in every interface of the Linux block layer.
pub const SECTOR_BYTES: u64 = 512;

/// The message for a line whose request is too long or too far.
pub const EXPECTED_LENGTH: &str = "a request of at most 1 GiB";

/// The length of `sectors` in bytes, if a request may be that long. Discards may be longer because they
/// are never split.
pub fn sectors_to_bytes(sectors: u64, operation: Operation) -> Option<u64> {
    let bytes = sectors.checked_mul(SECTOR_BYTES)?;
    let is_split = matches!(operation, Operation::Read | Operation::Write);
    (!is_split || bytes <= REQUEST_BYTES_MAX).then_some(bytes)
}

/// The operation of a request of `bytes`. A read or write that is too long becomes a passthrough, and
/// `ledger` counts it as a loss.
pub fn believed(operation: Operation, bytes: u64, ledger: &mut Ledger) -> Operation {
    let is_split = matches!(operation, Operation::Read | Operation::Write);
    if !is_split || bytes <= REQUEST_BYTES_MAX {
        return operation;
    }
    ledger.lose("requests of more than 1 GiB", 1);
    Operation::Passthrough
}

/// The kernel's device number as blkparse(1) prints it; its low 20 bits are the minor number.
pub fn device_name(device: u32) -> String {
    format!("{},{}", device >> 20, device & 0xf_ffff)
}

/// The operation of the kernel's rwbs letters: an optional F (flush before), then R, W, D (discard),
/// F (flush), N (none) or Z (zone command), then modifiers (`blk_fill_rwbs`, kernel/trace/blktrace.c).
#[inline]
pub fn operation_of_rwbs(letters: &[u8]) -> Option<Operation> {
    match letters {
        [b'R', ..] | [b'F', b'R', ..] => Some(Operation::Read),
        [b'W', ..] | [b'F', b'W', ..] => Some(Operation::Write),
        [b'D', ..] | [b'F', b'D', ..] => Some(Operation::Discard),
        [b'F', ..] => Some(Operation::Flush),
        [b'N', ..] | [b'Z', ..] => Some(Operation::Passthrough),
        _ => None,
    }
}

/// The operation of any spelling in CSV files: words, cache commands, rwbs letters, SCSI
/// operation codes in hexadecimal.
#[inline(always)]
pub fn operation_of_word(word: &[u8]) -> Option<Operation> {
    match word {
        [b'R' | b'r'] => Some(Operation::Read),
        [b'W' | b'w'] => Some(Operation::Write),
        _ => operation_of_longer_word(word),
    }
}

fn operation_of_longer_word(word: &[u8]) -> Option<Operation> {
    let (lowered, length) = lowercase(word)?;
    let word_lower = &lowered[..length];
    let code = word_lower.strip_prefix(b"0x").unwrap_or(word_lower);
    match code {
        b"read" | b"reads" | b"get" | b"gets" => Some(Operation::Read),
        b"write" | b"writes" | b"set" | b"add" | b"put" | b"replace" | b"cas" | b"append"
        | b"prepend" | b"incr" | b"decr" => Some(Operation::Write),
        b"discard" | b"trim" | b"unmap" | b"delete" => Some(Operation::Discard),
        b"flush" | b"sync" | b"synchronize" => Some(Operation::Flush),
        // SCSI: READ and WRITE of 6, 10, 12 and 16 bytes; WRITE SAME; UNMAP; SYNCHRONIZE CACHE.
        b"8" | b"08" | b"28" | b"a8" | b"88" => Some(Operation::Read),
        b"a" | b"0a" | b"2a" | b"aa" | b"8a" | b"2e" | b"8e" => Some(Operation::Write),
        b"41" | b"93" | b"42" => Some(Operation::Discard),
        b"35" | b"91" => Some(Operation::Flush),
        _ => operation_of_rwbs(word).filter(|_| is_rwbs(word)),
    }
}

fn lowercase(word: &[u8]) -> Option<([u8; 16], usize)> {
    let mut lowered = [0; 16];
    lowered.get_mut(..word.len())?.copy_from_slice(word);
    lowered.make_ascii_lowercase();
    Some((lowered, word.len()))
}

fn is_rwbs(word: &[u8]) -> bool {
    word.iter().all(|letter| b"RWDFNAESMVZ".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_operation_is_read() {
        for read in ["R", "r", "RA", "RSM", "read", "Read", "READ", "28", "0x88", "get", "Gets"] {
            assert_eq!(operation_of_word(read.as_bytes()), Some(Operation::Read), "{read}");
        }
        for write in ["W", "WS", "FWFS", "FWS", "write", "Write", "2a", "2A", "0x8A", "Set"] {
            assert_eq!(operation_of_word(write.as_bytes()), Some(Operation::Write), "{write}");
        }
        for other in ["", "x", "Reader", "1", "averyveryverylongword"] {
            assert_eq!(operation_of_word(other.as_bytes()), None, "{other}");
        }
        assert_eq!(operation_of_word(b"FF"), Some(Operation::Flush));
        assert_eq!(operation_of_word(b"N"), Some(Operation::Passthrough));
        assert_eq!(operation_of_word(b"DS"), Some(Operation::Discard));
    }

    #[test]
    fn only_requests_that_are_split_are_bounded() {
        assert_eq!(sectors_to_bytes(8, Operation::Read), Some(4096));
        assert_eq!(sectors_to_bytes(1 << 21, Operation::Write), Some(REQUEST_BYTES_MAX));
        assert_eq!(sectors_to_bytes((1 << 21) + 1, Operation::Write), None);
        assert_eq!(sectors_to_bytes(1 << 40, Operation::Discard), Some(1 << 49));
        assert_eq!(sectors_to_bytes(u64::MAX, Operation::Discard), None);
    }
}
