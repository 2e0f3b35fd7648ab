//! Everything behind a carrier, made from options: the tiers, the stores and what they emulate.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use linux::disk_queue::DiskQueue;
use policy::placement::Latencies;
use policy::tiers::{Live, LiveRequest, serve};

use crate::Error;
use crate::carrier::SLOT_BYTES;
use crate::emulation::{Emulated, Figures};
use crate::engine::{CLUSTER_BYTES, Parts};
use crate::probe::{self, Times};
use crate::record::Recorder;
use crate::statistics::Statistics;
use crate::store::{FastStore, open_slow};

/// Frames beyond those that the policy fills: while demotions write, so many newcomers need not wait.
pub const SPARE_FRAMES: usize = 256;
/// Buffers of the slow tier's disk, half of them for reads.
const BUFFERS: usize = 32;

/// What is wanted behind a carrier.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Slots of the swap area.
    pub slots: u32,
    /// Size of the fast tier.
    pub fast_bytes: u64,
    /// Block device of the slow tier, or the file to make.
    pub slow: PathBuf,
    /// Whether the slow file keeps its name, for a successor.
    pub keeps_slow: bool,
    /// Name of the policy.
    pub policy: String,
    /// Named set of options, if any.
    pub profile: Option<String>,
    /// Options of the policy.
    pub options: BTreeMap<String, String>,
    /// Times by which policies weigh the tiers; `None` to measure them.
    pub latencies: Option<Latencies>,
    /// The device that the fast tier is slowed to.
    pub emulate_fast: Option<Figures>,
    /// The device that the slow tier is slowed to.
    pub emulate_slow: Option<Figures>,
    /// Whether each slot has a checksum.
    pub verifies: bool,
}

/// Stores and tiers without a carrier.
pub struct Backing {
    disk: DiskQueue,
    fast: FastStore,
    tiers: Box<dyn Live>,
    emulated_fast: Option<Emulated>,
    emulated_slow: Option<Emulated>,
    /// Every option of the policy with its value in effect.
    pub options: BTreeMap<&'static str, String>,
    /// The times that the policy weighs.
    pub latencies: Latencies,
    /// The times of the slow tier's disk, as measured at the start.
    pub slow_times: Times,
}

impl Backing {
    /// Makes the stores, locks all memory and measures the slow tier. The options are checked before anything is made.
    ///
    /// # Errors
    /// An unknown policy or option, or one that a block device cannot offer; what [`open_slow`] refuses; too little
    /// memory; an emulated device that is quicker than the disk.
    pub fn make(wanted: &Wanted) -> Result<Backing, Error> {
        let frames = wanted.fast_bytes / SLOT_BYTES as u64;
        if !wanted.fast_bytes.is_multiple_of(SLOT_BYTES as u64) || frames >= u64::from(wanted.slots)
        {
            return Err(Error::Usage(format!(
                "a fast tier of {} bytes: expected a multiple of {SLOT_BYTES}, smaller than the swap area",
                wanted.fast_bytes
            )));
        }
        // The latencies change no option, so any will do to check the others.
        let unmeasured =
            Latencies { slow_read: 1.0, slow_write: 1.0, fast_read: 1.0, fast_write: 1.0 };
        tiers(wanted, frames, wanted.latencies.unwrap_or(unmeasured))?;

        let slow = open_slow(&wanted.slow, wanted.slots, wanted.keeps_slow)?;
        let slow_times = probe::disk(&slow, wanted.slots)?;
        if let Some(figures) = &wanted.emulate_slow {
            probe::check_emulated(figures, slow_times)?;
        }
        let latencies = wanted.latencies.unwrap_or_else(|| {
            let (fast, slow) = (
                wanted.emulate_fast.map_or(probe::memory(), |figures| Times::of(&figures)),
                wanted.emulate_slow.map_or(slow_times, |figures| Times::of(&figures)),
            );
            Latencies {
                slow_read: slow.read_ns as f64,
                slow_write: slow.write_ns as f64,
                fast_read: fast.read_ns as f64,
                fast_write: fast.write_ns as f64,
            }
        });
        let (tiers, options) = tiers(wanted, frames, latencies)?;
        let mut tiers = tiers;
        tiers.grow(wanted.slots as usize);
        let frames = frames as usize + SPARE_FRAMES;
        Ok(Backing {
            disk: DiskQueue::new(slow.file, BUFFERS, CLUSTER_BYTES, BUFFERS)?,
            fast: FastStore::new(wanted.slots as usize, frames, wanted.verifies)?,
            tiers,
            emulated_fast: wanted.emulate_fast.map(|figures| Emulated::new(figures, "fast")),
            emulated_slow: wanted.emulate_slow.map(|figures| Emulated::new(figures, "slow")),
            options,
            latencies,
            slow_times,
        })
    }

    /// What an engine works with.
    pub fn into_parts<C>(
        self,
        carrier: C,
        statistics: Arc<Statistics>,
        recorder: Option<Recorder>,
    ) -> Parts<C, DiskQueue> {
        Parts {
            carrier,
            disk: self.disk,
            fast: self.fast,
            tiers: self.tiers,
            emulated_fast: self.emulated_fast,
            emulated_slow: self.emulated_slow,
            statistics,
            recorder,
        }
    }
}

type TiersAndOptions = (Box<dyn Live>, BTreeMap<&'static str, String>);

fn tiers(wanted: &Wanted, frames: u64, latencies: Latencies) -> Result<TiersAndOptions, Error> {
    let request = LiveRequest {
        architecture: &wanted.policy,
        profile: wanted.profile.as_deref(),
        options: &wanted.options,
        capacity: frames,
        latencies,
    };
    let served = serve(&request).map_err(Error::Usage)?;
    Ok((served.tiers, served.options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_are_refused_before_anything_is_made() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let slow = folder.path().join("slow");
        let wanted = Wanted {
            slots: 1024,
            fast_bytes: 1 << 20,
            slow: slow.clone(),
            policy: "hybrid".to_owned(),
            ..Wanted::default()
        };
        let refused = |wanted: Wanted, expected: &str| {
            let error = Backing::make(&wanted).err().unwrap();
            assert!(matches!(error, Error::Usage(_)), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!slow.exists());
        };
        refused(Wanted { policy: "lru".to_owned(), ..wanted.clone() }, "known are");
        let options = BTreeMap::from([("slot_on_swapin".to_owned(), "free".to_owned())]);
        refused(Wanted { options, ..wanted.clone() }, "slot_on_swapin=free");
        refused(Wanted { fast_bytes: 1000, ..wanted.clone() }, "1000 bytes");
        refused(Wanted { fast_bytes: 8 << 20, ..wanted.clone() }, "smaller than");
        let made = Backing::make(&wanted).unwrap();
        assert!(made.latencies.slow_read > made.latencies.fast_read);
        assert!(!slow.exists() && !made.options.is_empty());
    }
}
