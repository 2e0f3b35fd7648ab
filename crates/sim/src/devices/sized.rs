//! What a device takes for pages of another size than 4 KiB.
//!
//! A read takes what one of 4 KiB takes, and the further bytes at the bandwidth of `[transfer]`; a
//! write likewise, where the file has a bandwidth of writes. What the file does not tell lies between
//! bounds: as long as the further bytes take to be read, or no longer than one operation of 4 KiB
//! where that is unknown too, and as long as so many operations one after another. The typical figure
//! is then the geometric mean.

use super::{Device, Figure, Latency, Provenance};
use types::PAGE_BYTES;

impl Device {
    /// The same device, whose times are those of a page of `page_bytes`. Two latencies that the
    /// caller gave are those of such a page already.
    #[must_use]
    pub fn with_pages_of(&self, page_bytes: u64) -> Device {
        if self.is_exact || page_bytes == PAGE_BYTES {
            return self.clone();
        }
        let transfer = self.transfer.as_ref();
        let reads = transfer.map(|transfer| &transfer.bandwidth_mb_s);
        let writes = transfer.and_then(|transfer| transfer.write_bandwidth_mb_s.as_ref());
        let read = match reads {
            Some(bandwidth) => longer(&self.read, bandwidth, page_bytes),
            None => bounded(&self.read, self.read.low_ns, page_bytes),
        };
        let write = match (writes, reads) {
            (Some(bandwidth), _) => longer(&self.write, bandwidth, page_bytes),
            (None, Some(bandwidth)) => {
                let low_ns = longer(&self.write, bandwidth, page_bytes).low_ns;
                bounded(&self.write, low_ns, page_bytes)
            }
            (None, None) => bounded(&self.write, self.write.low_ns, page_bytes),
        };
        Device { read, write, ..self.clone() }
    }
}

/// The time for a page of `page_bytes`, those beyond 4 KiB at this bandwidth.
fn longer(latency: &Latency, bandwidth_mb_s: &Figure, page_bytes: u64) -> Latency {
    let further = (page_bytes - PAGE_BYTES) as f64;
    let with = |ns: u64, mb_s: f64| ns + (further / mb_s * 1e3).round() as u64;
    let source = format!(
        "{}; the bytes of a page beyond 4 KiB: {}",
        latency.provenance.source, bandwidth_mb_s.provenance.source
    );
    let verified = latency.provenance.verified && bandwidth_mb_s.provenance.verified;
    Latency {
        low_ns: with(latency.low_ns, bandwidth_mb_s.high),
        typical_ns: with(latency.typical_ns, bandwidth_mb_s.typical),
        high_ns: with(latency.high_ns, bandwidth_mb_s.low),
        provenance: Provenance { source, verified, ..latency.provenance.clone() },
    }
}

/// From `low_ns` to as many operations of 4 KiB as the page has parts.
fn bounded(latency: &Latency, low_ns: u64, page_bytes: u64) -> Latency {
    let parts = page_bytes / PAGE_BYTES;
    let high_ns = (latency.high_ns * parts).max(low_ns);
    let typical_ns = (low_ns as f64 * high_ns as f64).sqrt().round() as u64;
    let source = format!(
        "{}; a page of {page_bytes} bytes takes at most {parts} operations one after another",
        latency.provenance.source
    );
    let provenance = Provenance { source, verified: false, ..latency.provenance.clone() };
    Latency { low_ns, typical_ns, high_ns, provenance }
}
