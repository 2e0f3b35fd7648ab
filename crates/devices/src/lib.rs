//! Storage devices as two latencies and a rating: built in, from a user's file, or a bare pair.
//!
//! Times are per 4 KiB page at queue depth 1. Every figure has a low, a typical and a high value;
//! runs use the typical value, which is the geometric mean of the range unless the file gives it.
//! `devices/*.toml` is the list of built-in devices; docs/devices.md describes the file format.

mod error;
mod sized;

pub use error::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// `BUILTIN`: the name and text of each file of the folder `devices`, as the build script found them.
include!(concat!(env!("OUT_DIR"), "/builtin_devices.rs"));

/// Longest latency accepted, in microseconds: 1000 s. Keeps every product of counts inside `u128`
/// and catches a mistaken unit.
const LATENCY_US_MAX: f64 = 1e9;

/// Largest queue depth accepted. NVMe allows 65,536 commands in a queue; simulations keep an entry for each unit.
const QUEUE_DEPTH_MAX: f64 = 65536.0;

/// Origin of a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Provenance {
    /// Source that measured or stated it.
    pub source: String,
    /// The date of the measurement or of the source, in ISO form.
    pub date: String,
    /// False if the number was recalled or assumed and not checked.
    pub verified: bool,
}

/// The time one operation on one page takes, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Latency {
    /// The best value of the source.
    #[serde(rename = "low")]
    pub low_ns: u64,
    /// The value that runs use.
    #[serde(rename = "typical")]
    pub typical_ns: u64,
    /// The worst value of the source.
    #[serde(rename = "high")]
    pub high_ns: u64,
    /// Origin of the figures.
    #[serde(flatten)]
    pub provenance: Provenance,
}

/// Size of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Capacity {
    /// Bytes.
    pub bytes: u64,
    /// Origin of the figure.
    #[serde(flatten)]
    pub provenance: Provenance,
}

/// A figure of a device other than a time, with its range.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// The lowest value of the source.
    #[schemars(range(min = 0))]
    pub low: f64,
    /// The value that runs use.
    #[schemars(range(min = 0))]
    pub typical: f64,
    /// The highest value of the source.
    #[schemars(range(min = 0))]
    pub high: f64,
    /// Origin of the figures.
    #[serde(flatten)]
    pub provenance: Provenance,
}

/// Time of reading, or writing, any number of bytes: a set-up plus a time for every byte.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Transfer {
    /// The part of a read that does not depend on its size.
    #[serde(rename = "setup_ns")]
    pub setup: Latency,
    /// Read bandwidth after the set-up, in megabytes (10^6 bytes) per second.
    pub bandwidth_mb_s: Figure,
    /// Write bandwidth, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bandwidth_mb_s: Option<Figure>,
}

/// A storage device.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Device {
    /// Name in the catalog, or the text that described the device.
    pub name: String,
    /// One line that describes the device.
    pub summary: String,
    /// Further facts that matter for its figures; may be empty.
    pub note: String,
    /// Reading one page.
    #[serde(rename = "read_ns")]
    pub read: Latency,
    /// Writing one page.
    #[serde(rename = "write_ns")]
    pub write: Latency,
    /// Reading any number of bytes, if known.
    pub transfer: Option<Transfer>,
    /// Capacity, if it has one of its own.
    pub capacity: Option<Capacity>,
    /// Endurance, if writing wears the device and the figure is known: how often every byte may be
    /// written.
    pub rated_cycles: Option<Figure>,
    /// Only for a device that is the board's own memory: bytes of pages it holds for each
    /// byte of memory it takes, 1 without compression.
    pub compression: Option<Figure>,
    /// Operations on a page that the device serves at the same time, if known: its rate at a deep queue times its
    /// latency at queue depth 1. This is not the number of commands that its queue holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<Figure>,
    /// Whether the device consists only of two latencies that the caller gave.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_exact: bool,
}

impl Latency {
    fn at(&self, figure: fn(&Latency) -> u64) -> Latency {
        Latency { typical_ns: figure(self), ..self.clone() }
    }

    fn has_range(&self) -> bool {
        self.low_ns != self.typical_ns || self.high_ns != self.typical_ns
    }
}

impl Device {
    /// This device with another figure of each latency's range as the typical one.
    #[must_use]
    pub fn at(&self, figure: fn(&Latency) -> u64) -> Device {
        Device { read: self.read.at(figure), write: self.write.at(figure), ..self.clone() }
    }

    /// Whether low, typical and high latencies differ.
    pub fn has_range(&self) -> bool {
        self.read.has_range() || self.write.has_range()
    }

    /// Operations that the device serves at the same time: its queue depth as a whole number; 1 if that is unknown.
    pub fn units(&self) -> usize {
        self.queue_depth.as_ref().map_or(1, |depth| (depth.typical.round() as usize).max(1))
    }

    /// Resolves `text`: one of `names()`, or a pair `READ/WRITE` such as `90/40us` or
    /// `4us/1.5ms` (units ns, us, ms, s; the read takes the write's unit if it has none). The caller reads
    /// device files, with `from_toml`.
    ///
    /// # Errors
    /// `Usage` for an unknown device, with the list of names.
    pub fn resolve(text: &str) -> Result<Device, Error> {
        if let Some(device) = builtin().find(|device| device.name == text) {
            return Ok(device);
        }
        if text.starts_with(|first: char| first.is_ascii_digit() || first == '.')
            && let Some(device) = parse_pair(text)?
        {
            return Ok(device);
        }
        Err(Error::usage(format!(
            "no device is called '{text}'; known are {}; or give READ/WRITE such as 90/40us, \
             or the path of a .toml file",
            names().collect::<Vec<_>>().join(", ")
        )))
    }

    /// Parses a TOML description of a device; `origin` names the text in errors.
    ///
    /// # Errors
    /// `Device`, with the field that is missing or invalid.
    pub fn from_toml(text: &str, origin: &str) -> Result<Device, Error> {
        let refuse = |reason: String| Error::new(ErrorKind::Device, format!("{origin}: {reason}"));
        let file: DeviceFile = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        Ok(Device {
            read: file.read.latency().map_err(|reason| refuse(format!("[read] {reason}")))?,
            write: file.write.latency().map_err(|reason| refuse(format!("[write] {reason}")))?,
            transfer: file
                .transfer
                .map(TransferFile::transfer)
                .transpose()
                .map_err(|reason| refuse(format!("[transfer.{reason}")))?,
            rated_cycles: file
                .rated_cycles
                .map(FigureFile::figure)
                .transpose()
                .map_err(|reason| refuse(format!("[rated_cycles] {reason}")))?,
            compression: file
                .compression
                .map(FigureFile::figure)
                .transpose()
                .map_err(|reason| refuse(format!("[compression] {reason}")))?,
            queue_depth: file
                .queue_depth
                .map(FigureFile::queue_depth)
                .transpose()
                .map_err(|reason| refuse(format!("[queue_depth] {reason}")))?,
            capacity: file.capacity.map(CapacityFile::capacity),
            name: file.name,
            summary: file.summary,
            note: file.note,
            is_exact: false,
        })
    }

    /// A device with exactly these latencies, without range or rating.
    pub fn exact(name: impl Into<String>, read_ns: u64, write_ns: u64) -> Device {
        let latency = |ns| Latency {
            low_ns: ns,
            typical_ns: ns,
            high_ns: ns,
            provenance: Provenance {
                source: "given by the caller".to_owned(),
                date: String::new(),
                verified: true,
            },
        };
        Device {
            name: name.into(),
            summary: "latencies given by the caller".to_owned(),
            note: String::new(),
            read: latency(read_ns),
            write: latency(write_ns),
            transfer: None,
            capacity: None,
            rated_cycles: None,
            compression: None,
            queue_depth: None,
            is_exact: true,
        }
    }

    /// The fast device of a latency-ratio sweep: it reads `ratio.slow_to_fast_read` times as fast as
    /// this device, and a write takes it `ratio.write_to_read` times as long as a read.
    pub fn faster_by(&self, ratio: LatencyRatio) -> Device {
        let read_ns = self.read.typical_ns as f64 / ratio.slow_to_fast_read;
        let name =
            format!("{} read/{} write*{}", self.name, ratio.slow_to_fast_read, ratio.write_to_read);
        Device::exact(name, read_ns.round() as u64, (read_ns * ratio.write_to_read).round() as u64)
    }
}

/// One point of a latency-ratio sweep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyRatio {
    /// How many times longer a read of the slow tier takes than one of the fast tier.
    pub slow_to_fast_read: f64,
    /// How many times longer a write of the fast tier takes than a read of it.
    pub write_to_read: f64,
}

/// The sweep over which a conclusion must hold (anchors, section 2.2): read ratios 5, 15, 50 and
/// write-to-read ratios 1, 2, 8 (the last for the literature's 6-10).
pub fn latency_ratios() -> Vec<LatencyRatio> {
    [5.0, 15.0, 50.0]
        .into_iter()
        .flat_map(|slow_to_fast_read| {
            [1.0, 2.0, 8.0].map(|write_to_read| LatencyRatio { slow_to_fast_read, write_to_read })
        })
        .collect()
}

/// The names of the built-in devices, quickest first.
pub fn names() -> impl Iterator<Item = String> {
    builtin().map(|device| device.name)
}

/// The built-in devices, quickest first: by the time of one read and one write.
pub fn builtin() -> impl Iterator<Item = Device> {
    let parse = |(name, text): &(&str, &str)| {
        Device::from_toml(text, name).expect("a test parses every file of the folder devices")
    };
    let mut devices: Vec<Device> = BUILTIN.iter().map(parse).collect();
    devices.sort_by_key(|device| device.read.typical_ns + device.write.typical_ns);
    devices.into_iter()
}

/// Parses `READ/WRITE`; none if `text` does not have that shape.
fn parse_pair(text: &str) -> Result<Option<Device>, Error> {
    let Some((read, write)) = text.split_once('/') else { return Ok(None) };
    let refuse = || {
        Error::usage(format!(
            "'{text}' is not READ/WRITE: expected two times of at most 1000 s such as 90/40us or \
             4us/1.5ms (units ns, us, ms, s)"
        ))
    };
    let (write_number, unit) = split_unit(write);
    let (read_number, read_unit) = split_unit(read);
    let read_unit = if read_unit.is_empty() { unit } else { read_unit };
    let read_ns = time_ns(read_number, read_unit).ok_or_else(refuse)?;
    let write_ns = time_ns(write_number, unit).ok_or_else(refuse)?;
    Ok(Some(Device::exact(text, read_ns, write_ns)))
}

fn split_unit(text: &str) -> (&str, &str) {
    let end =
        text.find(|symbol: char| !symbol.is_ascii_digit() && symbol != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn time_ns(number: &str, unit: &str) -> Option<u64> {
    let us_per_unit = match unit {
        "ns" => 1e-3,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    us_to_ns(number.parse::<f64>().ok()? * us_per_unit)
}

/// Whole nanoseconds, if the time is valid for a device.
fn us_to_ns(us: f64) -> Option<u64> {
    (us.is_finite() && (0.0..=LATENCY_US_MAX).contains(&us)).then(|| (us * 1e3).round() as u64)
}

/// The TOML file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    name: String,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    note: String,
    read: LatencyFile,
    write: LatencyFile,
    transfer: Option<TransferFile>,
    capacity: Option<CapacityFile>,
    rated_cycles: Option<FigureFile>,
    compression: Option<FigureFile>,
    queue_depth: Option<FigureFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyFile {
    low_us: f64,
    typical_us: Option<f64>,
    high_us: f64,
    source: String,
    date: String,
    verified: bool,
}

impl LatencyFile {
    fn latency(self) -> Result<Latency, String> {
        let typical_us = self.typical_us.unwrap_or((self.low_us * self.high_us).sqrt());
        let [low_ns, typical_ns, high_ns] =
            [("low_us", self.low_us), ("typical_us", typical_us), ("high_us", self.high_us)].map(
                |(field, us)| {
                    us_to_ns(us).ok_or(format!("{field} must be between 0 and {LATENCY_US_MAX}"))
                },
            );
        let (low_ns, typical_ns, high_ns) = (low_ns?, typical_ns?, high_ns?);
        if low_ns > typical_ns || typical_ns > high_ns {
            return Err("must have low_us <= typical_us <= high_us".to_owned());
        }
        let provenance =
            Provenance { source: self.source, date: self.date, verified: self.verified };
        Ok(Latency { low_ns, typical_ns, high_ns, provenance })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransferFile {
    setup: LatencyFile,
    bandwidth_mb_s: FigureFile,
    write_bandwidth_mb_s: Option<FigureFile>,
}

impl TransferFile {
    fn transfer(self) -> Result<Transfer, String> {
        let setup = self.setup.latency().map_err(|reason| format!("setup] {reason}"))?;
        let bandwidth_mb_s =
            self.bandwidth_mb_s.figure().map_err(|reason| format!("bandwidth_mb_s] {reason}"))?;
        let write_bandwidth_mb_s = self
            .write_bandwidth_mb_s
            .map(FigureFile::figure)
            .transpose()
            .map_err(|reason| format!("write_bandwidth_mb_s] {reason}"))?;
        Ok(Transfer { setup, bandwidth_mb_s, write_bandwidth_mb_s })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CapacityFile {
    bytes: u64,
    source: String,
    date: String,
    verified: bool,
}

impl CapacityFile {
    fn capacity(self) -> Capacity {
        let provenance =
            Provenance { source: self.source, date: self.date, verified: self.verified };
        Capacity { bytes: self.bytes, provenance }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureFile {
    low: f64,
    typical: Option<f64>,
    high: f64,
    source: String,
    date: String,
    verified: bool,
}

impl FigureFile {
    fn figure(self) -> Result<Figure, String> {
        let typical = self.typical.unwrap_or((self.low * self.high).sqrt());
        let is_ordered = self.low > 0.0 && self.low <= typical && typical <= self.high;
        if !is_ordered || !self.high.is_finite() {
            return Err("must have 0 < low <= typical <= high".to_owned());
        }
        let provenance =
            Provenance { source: self.source, date: self.date, verified: self.verified };
        Ok(Figure { low: self.low, typical, high: self.high, provenance })
    }

    fn queue_depth(self) -> Result<Figure, String> {
        let figure = self.figure()?;
        if figure.high > QUEUE_DEPTH_MAX {
            return Err(format!("must be at most {QUEUE_DEPTH_MAX}"));
        }
        Ok(figure)
    }
}

#[cfg(test)]
mod tests;
