//! A caller's request to the simulator.

use crate::devices::Device;
use crate::error::Error;
use std::collections::BTreeMap;
use types::PAGE_BYTES;

/// The largest page size: 1 GiB.
const PAGE_BYTES_MAX: u64 = 1 << 30;

/// How reads of pages other than the faulting one are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readahead {
    /// Reads of pages other than the faulting one are ignored, and every swap-in reads its page.
    #[default]
    Off,
    /// Recorded ones count as reads, and swap-ins that found their page in memory read nothing.
    Recorded,
    /// As recorded, but by the rules of the kernel's readahead by slot instead of the recording's.
    Kernel,
}

impl Readahead {
    /// Name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Readahead::Off => "off",
            Readahead::Recorded => "recorded",
            Readahead::Kernel => "kernel",
        }
    }
}

impl std::str::FromStr for Readahead {
    type Err = Error;

    fn from_str(text: &str) -> Result<Readahead, Error> {
        match text {
            "off" => Ok(Readahead::Off),
            "recorded" => Ok(Readahead::Recorded),
            "kernel" => Ok(Readahead::Kernel),
            _ => Err(Error::usage(format!(
                "readahead cannot be '{text}'; it is off, recorded or kernel"
            ))),
        }
    }
}

/// How drops of clean pages, which leave no event, are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanEvictions {
    /// Only recorded page-outs count.
    #[default]
    None,
    /// A clean page-out is assumed just before a swap-in that follows a swap-in of the page.
    Inferred,
}

impl CleanEvictions {
    /// Name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            CleanEvictions::None => "none",
            CleanEvictions::Inferred => "inferred",
        }
    }
}

impl std::str::FromStr for CleanEvictions {
    type Err = Error;

    fn from_str(text: &str) -> Result<CleanEvictions, Error> {
        match text {
            "none" => Ok(CleanEvictions::None),
            "inferred" => Ok(CleanEvictions::Inferred),
            _ => Err(Error::usage(format!(
                "clean_evictions cannot be '{text}'; it is none or inferred"
            ))),
        }
    }
}

/// One cell of a grid: an architecture with its options on two devices.
#[derive(Clone, Debug)]
pub struct SimulateRequest {
    /// Name of the architecture in the catalog.
    pub architecture: String,
    /// Size of the fast tier in bytes; whole pages of it are used.
    pub fast_bytes: u64,
    /// Bytes of a page; the trace must have pages of this size.
    pub page_bytes: u64,
    /// The small, quick device, with the times of pages of this size.
    pub fast: Device,
    /// The large, slow device.
    pub slow: Device,
    /// Options set by hand, by name.
    pub options: BTreeMap<String, String>,
    /// Options set together, before those set by hand.
    pub profile: Option<String>,
    /// Treatment of readahead.
    pub readahead: Readahead,
    /// Whether operations wait while the slow device is busy.
    pub queueing: bool,
    /// Treatment of dropped clean pages.
    pub clean_evictions: CleanEvictions,
    /// Whether to replay an architecture that decides by latency also with all latencies low and all high,
    /// which triples the time of the run. Without that its ranges are absent.
    pub replays_range: bool,
}

impl SimulateRequest {
    /// A request for an architecture with its defaults, and pages of 4 KiB.
    pub fn new(
        architecture: impl Into<String>,
        fast_bytes: u64,
        fast: Device,
        slow: Device,
    ) -> SimulateRequest {
        SimulateRequest {
            architecture: architecture.into(),
            fast_bytes,
            page_bytes: PAGE_BYTES,
            fast,
            slow,
            options: BTreeMap::new(),
            profile: None,
            readahead: Readahead::default(),
            queueing: false,
            clean_evictions: CleanEvictions::default(),
            replays_range: false,
        }
    }

    /// This request with pages of this size, and with the times of such a page.
    ///
    /// # Errors
    /// `Usage` unless the size is a power of two from 4 KiB to 1 GiB.
    pub fn with_pages_of(self, page_bytes: u64) -> Result<SimulateRequest, Error> {
        if !page_bytes.is_power_of_two() || !(PAGE_BYTES..=PAGE_BYTES_MAX).contains(&page_bytes) {
            return Err(Error::usage(format!(
                "page_bytes cannot be {page_bytes}; it is a power of two from {PAGE_BYTES} to \
                 {PAGE_BYTES_MAX}"
            )));
        }
        let (fast, slow) =
            (self.fast.with_pages_of(page_bytes), self.slow.with_pages_of(page_bytes));
        Ok(SimulateRequest { page_bytes, fast, slow, ..self })
    }
}
