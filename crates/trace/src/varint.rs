//! Numbers of variable length: seven bits a byte, the lowest first, with the eighth bit set if more bytes
//! follow (LEB128). Signed numbers have their sign in the lowest bit (zigzag).

/// Encodes a signed difference so that values near zero become small numbers.
#[inline(always)]
pub const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

/// Decodes the result of `zigzag`.
#[inline(always)]
pub const fn unzigzag(code: u64) -> u64 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

/// Appends a number.
pub fn put_varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number off the front of `bytes`; `None` if they end or the number has more than 64 bits.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_back_and_every_cut_is_refused(number: u64, shift in 0u32..64) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            put_varint(number, &mut bytes);
            prop_assert_eq!(take_varint(&mut &bytes[..]), Some(number));
            for length in 0..bytes.len() {
                prop_assert_eq!(take_varint(&mut &bytes[..length]), None);
            }
            prop_assert_eq!(unzigzag(zigzag(number)), number);
        }
    }

    #[test]
    fn differences_near_zero_are_small_and_more_than_64_bits_are_refused() {
        assert_eq!([0, 1, -1, 2, -2].map(|near: i64| zigzag(near as u64)), [0, 2, 1, 4, 3]);
        let mut long = vec![0xff; 9];
        long.push(2);
        assert_eq!(take_varint(&mut &long[..]), None);
        assert_eq!(take_varint(&mut &[0x80; 20][..]), None);
    }
}
