//! Numbers of a given byte order.

/// The byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The unsigned number that `bytes`, at most eight, are.
    pub(super) fn number(self, bytes: &[u8]) -> u64 {
        let add = |sum: u64, &byte: &u8| sum << 8 | u64::from(byte);
        match self {
            ByteOrder::Little => bytes.iter().rev().fold(0, add),
            ByteOrder::Big => bytes.iter().fold(0, add),
        }
    }

    /// The 32-bit number at `at`; `None` if `bytes` is too short.
    #[inline]
    pub(super) fn word(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(match self {
            ByteOrder::Little => u32::from_le_bytes(word),
            ByteOrder::Big => u32::from_be_bytes(word),
        })
    }
}

/// The signed number of `size` bytes whose bits are the low bits of `number`.
pub(super) fn signed(number: u64, size: usize) -> i64 {
    let unused = 64 - 8 * size.clamp(1, 8) as u32;
    (number << unused) as i64 >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_orders_and_signs_are_read() {
        assert_eq!(ByteOrder::Little.number(&[1, 2, 3]), 0x03_0201);
        assert_eq!(ByteOrder::Big.number(&[1, 2, 3]), 0x01_0203);
        assert_eq!(ByteOrder::Big.number(&[0xff; 8]), u64::MAX);
        assert_eq!(ByteOrder::Little.word(&[0, 1, 0, 0, 0], 1), Some(1));
        assert_eq!(ByteOrder::Big.word(&[0, 1, 0, 0], 1), None);
        assert_eq!((signed(0xff, 1), signed(0x7f, 1), signed(u64::MAX, 8)), (-1, 127, -1));
        assert_eq!(signed(0xffff_fffe, 4), -2);
    }
}
