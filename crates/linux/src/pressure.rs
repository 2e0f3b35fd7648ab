//! Pressure stall information (PSI): `/proc/pressure`, and the files of the same format in cgroups.

use crate::{Error, Root};

/// How long tasks stalled for a resource, in total and in the last ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Microseconds in which some task stalled.
    pub some_us: u64,
    /// Microseconds in which every task stalled; 0 if the kernel has no such line.
    pub full_us: u64,
    /// Share of the last ten seconds in which some task stalled, in hundredths of a percent.
    pub some_basis_points: u32,
    /// Share of the last ten seconds in which every task stalled, in hundredths of a percent; 0 if the kernel has no
    /// such line.
    pub full_basis_points: u32,
}

/// The resources of `/proc/pressure`.
pub const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// Parses the kernel's text; None if it has another format. Allocates nothing.
pub fn parse(text: &str) -> Option<Pressure> {
    let of = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name));
        let percent: f64 = field("avg10=")?.parse().ok()?;
        Some((field("total=")?.parse().ok()?, (percent * 100.0).round() as u32))
    };
    let (some_us, some_basis_points) = of("some ")?;
    let (full_us, full_basis_points) = of("full ").unwrap_or((0, 0));
    Some(Pressure { some_us, full_us, some_basis_points, full_basis_points })
}

/// The pressure of `resource` on the whole machine; None if the kernel does not report it. It needs
/// CONFIG_PSI, and `psi=1` on the kernel's command line if PSI is off by default.
///
/// # Errors
/// The operating system refuses.
pub fn of_machine(root: &Root, resource: &str) -> Result<Option<Pressure>, Error> {
    match root.read(format!("/proc/pressure/{resource}")) {
        Ok(text) => Ok(text.and_then(|text| parse(&text))),
        // If PSI is compiled in but off, the files exist but cannot be opened.
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
        let only_some = Pressure { some_us: 1234, some_basis_points: 1234, ..Pressure::default() };
        assert_eq!(parse(some), Some(only_some));
        let both = Pressure { full_us: 99, full_basis_points: 500, ..only_some };
        assert_eq!(parse(&format!("{some}{full}")), Some(both));
        assert_eq!(parse("nothing"), None);
    }
}
