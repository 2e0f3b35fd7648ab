//! Sizes as users write them: `650MiB`.

use std::fmt;
use std::str::FromStr;

use crate::Bytes;

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The units that users may write for short, as in systemd's settings and in `mkfs`.
const SHORT_UNITS: [(&str, u64); 3] = [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let expected = || format!("{text:?}: expected a size such as 650MiB, 64M or 1.5GiB");
        let mut units = UNITS.iter().chain(&SHORT_UNITS);
        let parts = units.find_map(|(unit, scale)| Some((text.strip_suffix(*unit)?, *scale)));
        let (number, scale) = parts.ok_or_else(expected)?;
        let number: f64 = number.trim().parse().map_err(|_| expected())?;
        let bytes = number * scale as f64;
        // Beyond 2^53 a double does not hold every integer.
        match (0.0..9e15).contains(&bytes) {
            true => Ok(Bytes(bytes as u64)),
            false => Err(expected()),
        }
    }
}

impl fmt::Display for Bytes {
    /// Prints whole numbers of the largest unit that divides the size, and other large sizes with one
    /// decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bytes(bytes) = *self;
        match self.whole() {
            Some((number, unit)) if number < 10_000 => write!(f, "{number}{unit}"),
            _ if bytes >= 1 << 30 => write!(f, "{:.1}GiB", bytes as f64 / f64::from(1 << 30)),
            _ if bytes >= 1 << 20 => write!(f, "{:.1}MiB", bytes as f64 / f64::from(1 << 20)),
            _ => write!(f, "{bytes}B"),
        }
    }
}

impl Bytes {
    /// The size as text that parses to exactly this size.
    pub fn exact(self) -> String {
        let (number, unit) = self.whole().unwrap_or((self.0, "B"));
        format!("{number}{unit}")
    }

    /// The size as a whole number of the largest unit that divides it, with that unit; `None` for 0.
    fn whole(self) -> Option<(u64, &'static str)> {
        let of = |scale: &u64| self.0 >= *scale && self.0.is_multiple_of(*scale);
        let (unit, scale) = UNITS.iter().find(|(_, scale)| of(scale))?;
        Some((self.0 / scale, unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print_with_their_unit() {
        for (text, bytes) in [
            ("650MiB", 650 << 20),
            ("1.5GiB", 3 << 29),
            ("0B", 0),
            ("7 KiB", 7 << 10),
            ("64M", 64 << 20),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
        }
        for text in ["650", "650MB", "-1GiB", "GiB", "1e30GiB", "nanB", "GM", "64MM", "1BB"] {
            assert!(text.parse::<Bytes>().unwrap_err().contains("such as 650MiB"), "{text}");
        }
        assert_eq!(Bytes(650 << 20).to_string(), "650MiB");
        assert_eq!(Bytes((8 << 30) + 1).to_string(), "8.0GiB");
        assert_eq!(Bytes((8 << 30) + 1).exact(), "8589934593B");
        assert_eq!((Bytes(0).to_string(), Bytes(0).exact()), ("0B".to_owned(), "0B".to_owned()));
    }
}
