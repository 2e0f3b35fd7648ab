//! How much memory there is, as policies see it. What the kernel does not tell is absent.

use linux::Root;
use linux::cgroup::MemoryGroup;
use linux::gauge::{self, MemoryState};
use policy::kill::{Memory, Pressure, Stall, Watermarks};
use types::Bytes;

use crate::Error;

/// The memory of a machine or of a group, to be looked at.
#[derive(Debug)]
pub struct Gauge {
    gauge: gauge::Gauge,
    is_of_group: bool,
}

impl Gauge {
    /// Opens what tells of the memory of `group`, or of the machine.
    ///
    /// # Errors
    /// What the operating system refuses; a machine that tells nothing.
    pub fn open(root: &Root, group: Option<&MemoryGroup>) -> Result<Gauge, Error> {
        Ok(Gauge { gauge: gauge::Gauge::open(root, group)?, is_of_group: group.is_some() })
    }

    /// # Errors
    /// Stalls are not told of here.
    pub fn require_pressure(&self) -> Result<(), Error> {
        match (self.gauge.tells_pressure(), self.is_of_group) {
            (true, _) => Ok(()),
            (false, false) => Err(Error::Refused(
                "this kernel tells no stalls: start it with psi=1 (/proc/pressure/memory)"
                    .to_owned(),
            )),
            (false, true) => Err(Error::Refused(
                "no stalls are told of this cgroup: that needs cgroups of version 2, or the whole \
                 machine"
                    .to_owned(),
            )),
        }
    }

    /// The memory now; with `is_near` also what tells why it is short. None once the group is gone.
    pub fn read(&mut self, is_near: bool) -> Option<Memory> {
        self.gauge.read(is_near).map(|state| memory(&state))
    }

    /// Bytes of shared memory and tmpfs files of the group or the machine; None if the kernel does not report them.
    pub(crate) fn shared(&mut self) -> Option<u64> {
        self.gauge.shared()
    }
}

fn memory(state: &MemoryState) -> Memory {
    Memory {
        total: Bytes(state.total),
        free: Bytes(state.free),
        available: Bytes(state.available),
        reserved: Bytes(state.zones.map_or(0, |zones| zones.reserved_bytes)),
        files: Bytes(state.files),
        swap_total: Bytes(state.swap_total),
        swap_free: Bytes(state.swap_free),
        disk_swap_total: Bytes(state.disk_swap_total),
        disk_swap_free: Bytes(state.disk_swap_free),
        watermarks: state.zones.map(|zones| Watermarks {
            min: Bytes(zones.min_bytes),
            low: Bytes(zones.low_bytes),
            high: Bytes(zones.high_bytes),
        }),
        pressure: state.pressure.map(|pressure| Pressure {
            some_basis_points: pressure.some_basis_points,
            full_basis_points: pressure.full_basis_points,
        }),
        scanned_directly: state.scanned_directly,
        scanned_by_kswapd: state.scanned_by_kswapd,
        file_refaults: state.file_refaults,
        stall: Stall::None,
    }
}
