//! Numbers and words in lines of bytes, without allocation and without ever panicking.

/// Nanoseconds per second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// The unsigned decimal number that `text` begins with, and what follows it.
#[inline]
pub fn take_decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    let mut length = 0;
    while let Some(digit) = text.get(length).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        // Nineteen digits always fit; only beyond them is a check needed.
        number = if length < 19 {
            number.wrapping_mul(10).wrapping_add(u64::from(digit))
        } else {
            number.checked_mul(10)?.checked_add(u64::from(digit))?
        };
        length += 1;
    }
    (length > 0).then(|| (number, &text[length..]))
}

/// `text` as an unsigned decimal number, nothing before or after it.
#[inline]
pub fn decimal(text: &[u8]) -> Option<u64> {
    take_decimal(text).and_then(|(number, rest)| rest.is_empty().then_some(number))
}

/// `text` as an unsigned number, decimal or hexadecimal after `0x`.
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

/// The time that `text` begins with, and what follows it: a decimal number of units of `unit_ns`
/// nanoseconds (a power of ten up to a second) with any number of fraction digits, rounded to the
/// nearest nanosecond.
#[inline]
pub fn take_time(text: &[u8], unit_ns: u64) -> Option<(i64, &[u8])> {
    let (whole, mut rest) = take_decimal(text)?;
    let mut nanos = whole.checked_mul(unit_ns)?;
    if let [b'.', fraction @ ..] = rest {
        let mut part = 0u64;
        let mut place = unit_ns;
        let mut length = 0;
        let digit_at = |place: usize| fraction.get(place).map(|byte| byte.wrapping_sub(b'0'));
        while let Some(digit) = digit_at(length)
            && digit < 10
            && place > 1
        {
            part = part.wrapping_mul(10).wrapping_add(u64::from(digit));
            place /= 10;
            length += 1;
        }
        let is_up = digit_at(length).is_some_and(|digit| (5..10).contains(&digit));
        while digit_at(length).is_some_and(|digit| digit < 10) {
            length += 1;
        }
        // Below a whole unit, rounded up to it at most.
        nanos = nanos.checked_add(part * place + u64::from(is_up))?;
        rest = &fraction[length..];
    }
    Some((i64::try_from(nanos).ok()?, rest))
}

/// `text` as a time in units of `unit_ns` nanoseconds; a sign and an exponent are understood.
pub fn time(text: &[u8], unit_ns: u64) -> Option<i64> {
    match take_time(text, unit_ns) {
        Some((nanos, [])) => Some(nanos),
        _ => {
            // Spreadsheets and numpy write 1e-05 and -0.5: rare, so precision to a float's 15
            // digits is enough.
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

/// The word that `text` begins with once blanks are skipped, and what follows it; none at the end.
#[inline]
pub fn take_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = skip_blanks(text);
    let length = text.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    (length > 0).then(|| text.split_at(length))
}

/// `text` for people: what is not UTF-8 is replaced, control characters are dropped.
pub fn readable(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().filter(|letter| !letter.is_control()).collect()
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
        fn every_number_is_read_back(number: u64) {
            prop_assert_eq!(decimal(number.to_string().as_bytes()), Some(number));
            prop_assert_eq!(decimal_or_hex(format!("0x{number:x}").as_bytes()), Some(number));
        }

        #[test]
        fn every_time_is_read_back(seconds in 0i64..9_000_000_000, nanos in 0i64..1_000_000_000) {
            let text = format!("{seconds}.{nanos:09}");
            prop_assert_eq!(time(text.as_bytes(), SECOND_NS), Some(seconds * 1_000_000_000 + nanos));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = (time(&bytes, SECOND_NS), decimal_or_hex(&bytes), take_word(&bytes));
        }
    }
}
