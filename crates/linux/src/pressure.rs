//! Pressure stall information: `/proc/pressure` and the files of the same form in cgroups.

use crate::{Error, Root};

/// Time in which tasks stalled for one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Microseconds in which some task stalled.
    pub some_us: u64,
    /// Microseconds in which every task stalled; 0 where the kernel gives no such line.
    pub full_us: u64,
}

/// The resources of `/proc/pressure`.
pub const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// The pressure in a text of the kernel's; none if it is not of that form.
pub fn parse(text: &str) -> Option<Pressure> {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        line.split_whitespace().find_map(|field| field.strip_prefix("total=")?.parse().ok())
    };
    Some(Pressure { some_us: total("some ")?, full_us: total("full ").unwrap_or(0) })
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
    fn totals_are_read() {
        let text = "some avg10=0.00 avg60=0.10 avg300=0.00 total=1234\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";
        assert_eq!(parse(text), Some(Pressure { some_us: 1234, full_us: 99 }));
        assert_eq!(parse("some total=5\n"), Some(Pressure { some_us: 5, full_us: 0 }));
        assert_eq!(parse("nothing"), None);
    }
}
