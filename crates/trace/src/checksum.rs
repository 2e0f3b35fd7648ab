//! The checksum of our own files: the low 32 bits of XXH3, the 64-bit hash, as zstd keeps those of XXH64.

use twox_hash::XxHash3_64;

/// The checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u32 {
    XxHash3_64::oneshot(bytes) as u32
}

/// The checksum of the head of a block that begins `offset` bytes behind the beginning of its file.
/// Because of the offset, a block that is missing, doubled or moved does not go unnoticed.
pub fn head_sum(offset: u64, head: &[u8]) -> u32 {
    checksum(&[&offset.to_le_bytes(), head].concat())
}

/// What a wrong checksum of a head means, and what to do.
pub const WRONG_HEAD: &str = "the head of a block is damaged, or blocks before it are missing, \
                              doubled or moved: copy the file again, or make it again";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sum_that_other_tools_compute() {
        // The last eight digits that `xxhsum -H3` prints.
        assert_eq!(checksum(b""), 0x38d3_94c2);
        assert_eq!(checksum(b"abc"), 0x892f_3950);
    }
}
