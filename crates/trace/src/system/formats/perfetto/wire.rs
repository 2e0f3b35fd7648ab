//! The wire format of protocol buffers: fields of a message, one after the other
//! (protobuf.dev/programming-guides/encoding). Nothing is copied or allocated.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'bytes> {
    /// A number of variable length, or of 4 or 8 bytes.
    Number(u64),
    /// A string, a message or packed numbers.
    Bytes(&'bytes [u8]),
}

impl<'bytes> Value<'bytes> {
    /// The number; 0 for bytes.
    pub fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Bytes(_) => 0,
        }
    }

    /// The bytes; empty for a number.
    pub fn bytes(self) -> &'bytes [u8] {
        match self {
            Value::Number(_) => b"",
            Value::Bytes(bytes) => bytes,
        }
    }
}

/// Takes a number of variable length off the front. `None` if the bytes end or it has more than ten bytes.
#[inline]
pub fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    if let Some((&byte, rest)) = bytes.split_first()
        && byte < 0x80
    {
        *bytes = rest;
        return Some(u64::from(byte));
    }
    take_longer_number(bytes)
}

fn take_longer_number(bytes: &mut &[u8]) -> Option<u64> {
    if let Some(&word) = bytes.first_chunk()
        && let Some((number, length)) = number_in_word(u64::from_le_bytes(word))
    {
        *bytes = &bytes[length..];
        return Some(number);
    }
    take_number_by_bytes(bytes)
}

/// The number that begins at the lowest byte of a word, and its length; `None` if it has more than eight bytes.
fn number_in_word(word: u64) -> Option<(u64, usize)> {
    let last = !word & 0x8080_8080_8080_8080;
    if last == 0 {
        return None;
    }
    // Of each byte up to the last of the number, seven bits; then these bits moved together, by 1, 2 and 4 places.
    let bits = word & (last ^ (last - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let bits = (bits & 0x007f_007f_007f_007f) | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let bits = (bits & 0x0000_3fff_0000_3fff) | (bits & 0x3fff_0000_3fff_0000) >> 2;
    let bits = (bits & 0x0000_0000_0fff_ffff) | (bits & 0x0fff_ffff_0000_0000) >> 4;
    Some((bits, last.trailing_zeros() as usize / 8 + 1))
}

fn take_number_by_bytes(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for (place, &byte) in bytes.iter().enumerate().take(10) {
        // As in Google's reader, bits beyond 64 are dropped.
        number |= u64::from(byte & 0x7f).wrapping_shl(7 * place as u32);
        if byte < 0x80 {
            *bytes = &bytes[place + 1..];
            return Some(number);
        }
    }
    None
}

/// The fields of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'bytes> {
    rest: &'bytes [u8],
    is_damaged: bool,
}

impl<'bytes> Message<'bytes> {
    /// The fields of a message with these bytes.
    pub fn new(bytes: &'bytes [u8]) -> Message<'bytes> {
        Message { rest: bytes, is_damaged: false }
    }

    /// The bytes that are not read yet.
    pub fn rest(&self) -> &'bytes [u8] {
        self.rest
    }

    /// Whether the last field could not be read; the fields before it could.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, Value<'bytes>)> {
        let key = take_number(&mut self.rest)?;
        let number = u32::try_from(key >> 3).ok().filter(|&number| number != 0)?;
        let value = match key & 7 {
            0 => Value::Number(take_number(&mut self.rest)?),
            1 => Value::Number(u64::from_le_bytes(*self.take_bytes(8)?.first_chunk()?)),
            2 => {
                let length = usize::try_from(take_number(&mut self.rest)?).ok()?;
                Value::Bytes(self.take_bytes(length)?)
            }
            5 => Value::Number(u64::from(u32::from_le_bytes(*self.take_bytes(4)?.first_chunk()?))),
            // Groups are not in use.
            _ => return None,
        };
        Some((number, value))
    }

    #[inline]
    fn take_bytes(&mut self, length: usize) -> Option<&'bytes [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }
}

impl<'bytes> Iterator for Message<'bytes> {
    type Item = (u32, Value<'bytes>);

    #[inline]
    fn next(&mut self) -> Option<(u32, Value<'bytes>)> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.take();
        if field.is_none() {
            self.is_damaged = true;
            self.rest = b"";
        }
        field
    }
}

/// The last value of a field, as proto2 defines it for a field that occurs several times.
pub fn last_of(message: &[u8], field: u32) -> Option<Value<'_>> {
    Message::new(message).filter(|&(number, _)| number == field).last().map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_of_all_wire_types_are_read() {
        let bytes =
            [8, 0x96, 1, 0x12, 2, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let fields: Vec<_> = Message::new(&bytes).collect();
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Number(1)),
            (4, Value::Number(2)),
        ];
        assert_eq!(fields, expected);
        assert_eq!(last_of(&[8, 1, 8, 2], 1), Some(Value::Number(2)));
        let mut cut = Message::new(&bytes[..6]);
        assert_eq!(cut.by_ref().count(), 1);
        assert!(cut.is_damaged());
        let negative = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(last_of(&negative, 1), Some(Value::Number(u64::MAX)));
    }

    proptest! {
        #[test]
        fn numbers_are_the_same_a_word_and_a_byte_at_a_time(
            number: u64,
            shift in 0u32..64,
            after in proptest::collection::vec(any::<u8>(), 0..10),
        ) {
            let mut bytes = Vec::new();
            crate::varint::put_varint(number >> shift, &mut bytes);
            bytes.extend(after);
            let (mut by_word, mut by_bytes) = (&bytes[..], &bytes[..]);
            prop_assert_eq!(take_number(&mut by_word), Some(number >> shift));
            prop_assert_eq!(take_number_by_bytes(&mut by_bytes), Some(number >> shift));
            prop_assert_eq!(by_word, by_bytes);
        }

        #[test]
        fn any_bytes_are_the_same_number_a_word_and_a_byte_at_a_time(
            bytes in proptest::collection::vec(prop_oneof![3 => 0x80u8..=0xff, 1 => any::<u8>()], 0..12),
        ) {
            let (mut by_word, mut by_bytes) = (&bytes[..], &bytes[..]);
            prop_assert_eq!(take_number(&mut by_word), take_number_by_bytes(&mut by_bytes));
            prop_assert_eq!(by_word, by_bytes);
        }

        #[test]
        fn arbitrary_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut message = Message::new(&bytes);
            prop_assert!(message.by_ref().count() <= bytes.len());
            prop_assert!(message.rest().is_empty());
        }
    }
}
