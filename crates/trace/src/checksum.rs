//! The checksum of our own files: the low 32 bits of the 64-bit hash XXH3. zstd does the same with XXH64.

use twox_hash::XxHash3_64;

/// The checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u32 {
    XxHash3_64::oneshot(bytes) as u32
}

/// The checksum of the head of a block that begins at byte `offset` of its file. The offset makes
/// missing, duplicated and moved blocks fail the check.
pub fn head_sum(offset: u64, head: &[u8]) -> u32 {
    checksum(&[&offset.to_le_bytes(), head].concat())
}

/// The message for a head with a wrong checksum: its cause, and what to do.
pub const WRONG_HEAD: &str = "the head of a block is damaged, or blocks before it are missing, \
                              duplicated or moved: copy or create the file again";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_equals_that_of_xxhsum() {
        // The last eight digits of the output of `xxhsum -H3`.
        assert_eq!(checksum(b""), 0x38d3_94c2);
        assert_eq!(checksum(b"abc"), 0x892f_3950);
    }
}
