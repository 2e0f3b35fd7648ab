//! Values that several commands take: how they are written on the command line.

use std::time::Duration;

use types::Bytes;

/// Parses the bytes of the buffer of all processors together: a power of two of at least a page.
pub fn parse_size(text: &str) -> Result<u32, String> {
    let Bytes(bytes) = text.parse()?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| bytes.is_power_of_two() && (1 << 12..=1 << 30).contains(bytes))
        .ok_or_else(|| format!("{text}: expected a power of two from 4KiB to 1GiB"))
}

/// Parses a time such as 60s.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number with ms, s, min or h, such as 60s".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(digits.ok_or_else(expected)?);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| expected())
}
