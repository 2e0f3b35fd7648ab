//! Numbers and words in lines of bytes, without allocation and panics.

/// Nanoseconds per second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// U+FEFF in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The unsigned decimal number that `text` begins with, and the rest of the text.
#[inline(always)]
pub fn take_decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let Some(&head) = text.first_chunk() else {
        return take_decimal_from(0, 0, text);
    };
    match leading_digits(head) {
        (_, 0) => None,
        (number, HEAD_BYTES) => take_longer_decimal(number, text),
        (number, length) => Some((number, text.get(length..)?)),
    }
}

/// Bytes that are processed in one step.
const HEAD_BYTES: usize = size_of::<u64>();

/// The number in the leading digits of `head`, and the count of these digits. It handles all eight
/// bytes in one step, because numbers of varying length would each cost a branch misprediction.
/// Without a digit, the number is arbitrary.
#[inline(always)]
fn leading_digits(head: [u8; HEAD_BYTES]) -> (u64, usize) {
    const ZEROS: u64 = u64::from_le_bytes([b'0'; HEAD_BYTES]);
    /// Added to a byte above 9, it sets the highest bit.
    const ABOVE_NINE: u64 = u64::from_le_bytes([0x80 - 10; HEAD_BYTES]);
    const HIGHEST: u64 = u64::from_le_bytes([0x80; HEAD_BYTES]);
    let digits = u64::from_le_bytes(head) ^ ZEROS;
    // A carry affects only bytes after the first non-digit.
    let others = (digits.wrapping_add(ABOVE_NINE) | digits) & HIGHEST;
    let bits = others.trailing_zeros() & !7;
    // Shift zeros in front of the number, then join neighbours: digits, pairs, quadruples. No value can
    // overflow into its neighbour.
    let digits = digits.wrapping_shl(u64::BITS - bits);
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let number = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    (number, bits as usize / 8)
}

/// Continues a number whose first eight digits are read.
#[inline]
fn take_longer_decimal(head: u64, text: &[u8]) -> Option<(u64, &[u8])> {
    let rest = &text[HEAD_BYTES..];
    if let Some(&next) = rest.first_chunk() {
        match leading_digits(next) {
            (_, 0) => return Some((head, rest)),
            (number, length @ 1..HEAD_BYTES) => {
                return Some((head * POWERS[length] + number, &rest[length..]));
            }
            _ => {}
        }
    }
    take_decimal_from(head, HEAD_BYTES, text)
}

/// Powers of ten, up to a second's nanoseconds.
const POWERS: [u64; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, SECOND_NS];

/// Continues a number whose first `length` digits are read.
fn take_decimal_from(mut number: u64, mut length: usize, text: &[u8]) -> Option<(u64, &[u8])> {
    while let Some(digit) = text.get(length).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        // Nineteen digits always fit; further digits need a check.
        number = if length < 19 {
            number.wrapping_mul(10).wrapping_add(u64::from(digit))
        } else {
            number.checked_mul(10)?.checked_add(u64::from(digit))?
        };
        length += 1;
    }
    (length > 0).then(|| (number, &text[length..]))
}

/// All of `text` as an unsigned decimal number.
#[inline]
pub fn decimal(text: &[u8]) -> Option<u64> {
    take_decimal(text).and_then(|(number, rest)| rest.is_empty().then_some(number))
}

/// All of `text` as an unsigned number, decimal or hexadecimal after `0x`.
pub fn decimal_or_hex(text: &[u8]) -> Option<u64> {
    match text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) {
        Some(digits) if !digits.is_empty() && digits.len() <= 16 => {
            digits.iter().try_fold(0u64, |number, &digit| {
                Some((number << 4) | u64::from((digit as char).to_digit(16)?))
            })
        }
        Some(_) => None,
        None => decimal(text),
    }
}

/// The time that `text` begins with, and the rest of the text. A time is a decimal number of units of
/// `unit_ns` nanoseconds (a power of ten up to a second) with any number of fraction digits, rounded
/// to the nearest nanosecond.
#[inline]
pub fn take_time(text: &[u8], unit_ns: u64) -> Option<(i64, &[u8])> {
    let (whole, rest) = take_decimal(text)?;
    let nanos = whole.checked_mul(unit_ns)?;
    let (fraction_ns, rest) = match rest {
        [b'.', fraction @ ..] => take_fraction(fraction, unit_ns),
        _ => (0, rest),
    };
    Some((i64::try_from(nanos.checked_add(fraction_ns)?).ok()?, rest))
}

/// The fraction digits in nanoseconds, at most a whole unit, and the rest of the text.
#[inline]
fn take_fraction(fraction: &[u8], unit_ns: u64) -> (u64, &[u8]) {
    if let Some((digits, rest)) = take_decimal(fraction)
        && let Some(&parts) = POWERS.get(fraction.len() - rest.len())
        && parts <= unit_ns
    {
        return (digits * (unit_ns / parts), rest);
    }
    // More digits than a nanosecond needs, or none.
    let mut part = 0u64;
    let mut worth = unit_ns;
    let mut length = 0;
    let digit_at = |index: usize| fraction.get(index).map(|byte| byte.wrapping_sub(b'0'));
    while let Some(digit) = digit_at(length)
        && digit < 10
        && worth > 1
    {
        part = part.wrapping_mul(10).wrapping_add(u64::from(digit));
        worth /= 10;
        length += 1;
    }
    let is_up = digit_at(length).is_some_and(|digit| (5..10).contains(&digit));
    while digit_at(length).is_some_and(|digit| digit < 10) {
        length += 1;
    }
    // Less than a unit, at most rounded up to a whole unit.
    (part * worth + u64::from(is_up), &fraction[length..])
}

/// All of `text` as a time in units of `unit_ns` nanoseconds, optionally with a sign and an exponent.
pub fn time(text: &[u8], unit_ns: u64) -> Option<i64> {
    match take_time(text, unit_ns) {
        Some((nanos, [])) => Some(nanos),
        _ => {
            // Spreadsheets and numpy write 1e-05 and -0.5. These are rare, so the 15 digits of a float
            // are precise enough.
            let nanos = std::str::from_utf8(text).ok()?.parse::<f64>().ok()? * unit_ns as f64;
            (nanos.abs() < i64::MAX as f64).then_some(nanos.round() as i64)
        }
    }
}

/// `text` without spaces and tabs at its start.
#[inline]
pub fn skip_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    text
}

/// The first word of `text` after blanks, and the rest of the text; `None` at the end.
#[inline]
pub fn take_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = skip_blanks(text);
    let length = match text.first_chunk().map(|&head| first_blank(head)) {
        Some(length @ ..HEAD_BYTES) => length,
        _ => text.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(text.len()),
    };
    if length == 0 { None } else { text.split_at_checked(length) }
}

/// Index of the first space or tab in `head`; its length if there is none.
#[inline(always)]
fn first_blank(head: [u8; HEAD_BYTES]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; HEAD_BYTES]);
    const HIGHEST: u64 = u64::from_le_bytes([0x80; HEAD_BYTES]);
    let head = u64::from_le_bytes(head);
    let [spaces, tabs] = [b' ', b'\t'].map(|blank| {
        // A blank becomes zero; a borrow affects only bytes after the first zero.
        let others = head ^ u64::from_le_bytes([blank; HEAD_BYTES]);
        others.wrapping_sub(ONES) & !others & HIGHEST
    });
    (spaces | tabs).trailing_zeros() as usize / 8
}

/// The field that `text` begins with, without the quotes around it, and the text after the delimiter. A
/// doubled quote within quotes does not end the field, and stays doubled.
#[inline]
pub(crate) fn take_field(text: &[u8], delimiter: u8) -> (&[u8], Option<&[u8]>) {
    if let [b'"', quoted @ ..] = text
        && let Some(close) = closing_quote(quoted)
        && quoted.get(close + 1).is_none_or(|&byte| byte == delimiter)
    {
        return (&quoted[..close], quoted.get(close + 2..));
    }
    let length = text.iter().position(|&byte| byte == delimiter).unwrap_or(text.len());
    (&text[..length], text.get(length + 1..))
}

/// Index of the quote that ends the quoted text at the start of `quoted`.
fn closing_quote(quoted: &[u8]) -> Option<usize> {
    let mut quotes = memchr::memchr_iter(b'"', quoted);
    while let Some(quote) = quotes.next() {
        if quoted.get(quote + 1) != Some(&b'"') {
            return Some(quote);
        }
        quotes.next();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_end_where_digits_end() {
        assert_eq!(take_decimal(b"12 x"), Some((12, &b" x"[..])));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(decimal(b"99999999999999999999999999"), None);
        assert_eq!(decimal(b"00000000000000000000000007"), Some(7));
        assert_eq!(decimal(b""), None);
        assert_eq!(decimal(b"-1"), None);
        assert_eq!(decimal_or_hex(b"0xFfffFfffFfffFfff"), Some(u64::MAX));
        assert_eq!(decimal_or_hex(b"0x"), None);
        assert_eq!(decimal_or_hex(b"0x10000000000000000"), None);
    }

    #[test]
    fn times_round_to_the_nearest_nanosecond() {
        assert_eq!(time(b"48750.608267999996", SECOND_NS), Some(48_750_608_268_000));
        assert_eq!(time(b"1827.265853", SECOND_NS), Some(1_827_265_853_000));
        assert_eq!(time(b"7", SECOND_NS), Some(7_000_000_000));
        assert_eq!(time(b"1.5", 1_000), Some(1_500));
        assert_eq!(time(b"1.5", 1), Some(2));
        assert_eq!(time(b"1e-05", SECOND_NS), Some(10_000));
        assert_eq!(time(b"-0.5", SECOND_NS), Some(-500_000_000));
        assert_eq!(time(b"9223372036.854775807", SECOND_NS), Some(i64::MAX));
        assert_eq!(time(b"9223372036.9", SECOND_NS), None);
        assert_eq!(time(b"inf", SECOND_NS), None);
        assert_eq!(time(b"", SECOND_NS), None);
    }

    proptest! {
        #[test]
        fn shown_text_has_no_escape_sequence(text in "[\u{1b}\u{9b}\u{9d}\u{7}\\[\\]\\\\;mñ1 \n\u{202e}]{0,20}") {
            let left: String = types::shown(&text).collect();
            prop_assert!(!left.contains(['\u{1b}', '\u{9b}', '\u{9d}', '\u{202e}']), "{left:?}");
        }

        #[test]
        fn numbers_end_where_digits_end(number in "[0-9]{0,21}", rest in "[^0-9]?.{0,9}") {
            let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
            let text = format!("{number}{rest}");
            let expected = number.parse::<u64>().ok().map(|number| (number, rest.as_bytes()));
            prop_assert_eq!(take_decimal(text.as_bytes()), expected);
        }

        #[test]
        fn words_end_at_blanks(word in "[!-~]{0,20}", rest in "([ \t][ -~\t]{0,9})?") {
            let text = format!(" \t{word}{rest}");
            let expected = (word.as_bytes(), rest.as_bytes());
            let found = take_word(text.as_bytes());
            prop_assert_eq!(found.filter(|_| !word.is_empty()), (!word.is_empty()).then_some(expected));
        }

        #[test]
        fn every_number_is_read_back(number: u64) {
            prop_assert_eq!(decimal(number.to_string().as_bytes()), Some(number));
            prop_assert_eq!(decimal_or_hex(format!("0x{number:x}").as_bytes()), Some(number));
        }

        #[test]
        fn a_fraction_may_end_the_text(
            seconds in 0u64..1_000_000_000, fraction in "[0-9]{1,9}", rest in "[^0-9]{0,2}",
        ) {
            let text = format!("{seconds}.{fraction}{rest}");
            let nanos: i64 = format!("{seconds}{fraction:0<9}").parse().unwrap();
            let expected = Some((nanos, rest.as_bytes()));
            prop_assert_eq!(take_time(text.as_bytes(), SECOND_NS), expected);
        }

        #[test]
        fn every_time_is_read_back(seconds in 0i64..9_000_000_000, nanos in 0i64..1_000_000_000) {
            let text = format!("{seconds}.{nanos:09}");
            prop_assert_eq!(time(text.as_bytes(), SECOND_NS), Some(seconds * 1_000_000_000 + nanos));
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes: Vec<u8>) {
            let _ = (time(&bytes, SECOND_NS), decimal_or_hex(&bytes), take_word(&bytes));
        }
    }
}
