//! Pressure stall information: `/proc/pressure` and the files of the same form in cgroups.

use crate::{Error, Root};

/// How long tasks stalled for one resource, so far and of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Microseconds in which some task stalled.
    pub some_us: u64,
    /// Microseconds in which every task stalled; 0 where the kernel gives no such line.
    pub full_us: u64,
    /// Share of the last ten seconds in which some task stalled, in hundredths of a per cent.
    pub some_basis_points: u32,
    /// The same of every task; 0 where the kernel gives no such line.
    pub full_basis_points: u32,
}

/// The resources of `/proc/pressure`.
pub const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// The pressure in a text of the kernel's; none if it is not of that form. Nothing is allocated.
pub fn parse(text: &str) -> Option<Pressure> {
    let of = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name));
        let per_cent: f64 = field("avg10=")?.parse().ok()?;
        Some((field("total=")?.parse().ok()?, (per_cent * 100.0).round() as u32))
    };
    let (some_us, some_basis_points) = of("some ")?;
    let (full_us, full_basis_points) = of("full ").unwrap_or((0, 0));
    Some(Pressure { some_us, full_us, some_basis_points, full_basis_points })
}

/// The pressure of `resource` on the whole machine; none where the kernel does not tell: it needs
/// CONFIG_PSI, and `psi=1` on the kernel's command line where it is off by default.
///
/// # Errors
/// What the operating system refuses.
pub fn of_machine(root: &Root, resource: &str) -> Result<Option<Pressure>, Error> {
    match root.read(format!("/proc/pressure/{resource}")) {
        Ok(text) => Ok(text.and_then(|text| parse(&text))),
        // The files are there and refuse to open where PSI is compiled in and off.
        Err(error) if error.io_kind() == Some(std::io::ErrorKind::Unsupported) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_shares_are_read() {
        let some = "some avg10=12.34 avg60=0.10 avg300=0.00 total=1234\n";
        let full = "full avg10=5.00 avg60=0.00 avg300=0.00 total=99\n";
        let alone = Pressure { some_us: 1234, some_basis_points: 1234, ..Pressure::default() };
        assert_eq!(parse(some), Some(alone));
        let both = Pressure { full_us: 99, full_basis_points: 500, ..alone };
        assert_eq!(parse(&format!("{some}{full}")), Some(both));
        assert_eq!(parse("nothing"), None);
    }
}
