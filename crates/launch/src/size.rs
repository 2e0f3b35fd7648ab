//! Sizes as users write them: `650MiB`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A number of bytes that reads and prints with its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let expected = || format!("{text:?}: expected a size such as 650MiB or 1.5GiB");
        let (unit, scale) =
            UNITS.iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(expected)?;
        let number = text.trim_end_matches(unit).trim();
        let number: f64 = number.parse().map_err(|_| expected())?;
        let bytes = number * *scale as f64;
        // Beyond 2^53 a number would not be the one that was written.
        match (0.0..9e15).contains(&bytes) {
            true => Ok(Size(bytes as u64)),
            false => Err(expected()),
        }
    }
}

impl fmt::Display for Size {
    /// In the largest unit that it is a whole number of; large odd ones with one digit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size(bytes) = *self;
        let whole = UNITS.iter().find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale));
        match whole {
            Some((unit, scale)) if bytes / scale < 10_000 => write!(f, "{}{unit}", bytes / scale),
            _ if bytes >= 1 << 30 => write!(f, "{:.1}GiB", bytes as f64 / f64::from(1 << 30)),
            _ if bytes >= 1 << 20 => write!(f, "{:.1}MiB", bytes as f64 / f64::from(1 << 20)),
            _ => write!(f, "{bytes}B"),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> String {
        // The exact number, whatever people are shown.
        match UNITS.iter().find(|(_, scale)| size.0 >= *scale && size.0.is_multiple_of(*scale)) {
            Some((unit, scale)) => format!("{}{unit}", size.0 / scale),
            None => format!("{}B", size.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print_with_their_unit() {
        for (text, bytes) in
            [("650MiB", 650 << 20), ("1.5GiB", 3 << 29), ("0B", 0), ("7 KiB", 7 << 10)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        for text in ["650", "650MB", "-1GiB", "GiB", "1e30GiB", "nanB"] {
            assert!(text.parse::<Size>().unwrap_err().contains("such as 650MiB"), "{text}");
        }
        assert_eq!(Size(650 << 20).to_string(), "650MiB");
        assert_eq!(Size((8 << 30) + 1).to_string(), "8.0GiB");
        assert_eq!(String::from(Size((8 << 30) + 1)), "8589934593B");
    }
}
