//! Times of a device for pages of another size than 4 KiB.
//!
//! A read takes the time of a 4 KiB read, plus the further bytes at the bandwidth of `[transfer]`; a
//! write likewise, if the file has a bandwidth of writes. Otherwise the time is between two
//! bounds: at least the time to read the further bytes, or that of one 4 KiB operation
//! if that bandwidth is unknown too, and at most that of one 4 KiB operation per 4 KiB in turn. The typical
//! figure is then the geometric mean.

use super::{Device, Figure, Latency, Provenance};
use types::PAGE_BYTES;

impl Device {
    /// This device with the times of a page of `page_bytes`. Two latencies that the
    /// caller gave apply to such a page already.
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

/// The time for a page of `page_bytes`, with the bytes beyond 4 KiB at this bandwidth.
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

/// A range from `low_ns` to the time of one 4 KiB operation per 4 KiB of the page.
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
