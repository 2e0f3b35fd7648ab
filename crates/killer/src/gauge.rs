//! The state of memory as policies see it. Figures that the kernel does not report are absent.

use linux::Root;
use linux::cgroup::MemoryGroup;
use linux::gauge::{self, MemoryState};
use policy::kill::{Memory, PressureShares, Stall, Watermarks};
use types::Bytes;

use crate::Error;

/// Reads the state of memory of the machine or of a group.
#[derive(Debug)]
pub struct Gauge {
    gauge: gauge::Gauge,
    is_of_group: bool,
}

impl Gauge {
    /// Opens the kernel's files about the memory of `group`, or of the machine.
    ///
    /// # Errors
    /// The operating system refuses, or does not report how much memory is available.
    pub fn open(root: &Root, group: Option<&MemoryGroup>) -> Result<Gauge, Error> {
        Ok(Gauge { gauge: gauge::Gauge::open(root, group)?, is_of_group: group.is_some() })
    }

    /// Checks that the kernel reports memory stalls.
    ///
    /// # Errors
    /// The kernel does not report memory stalls.
    pub fn require_pressure(&self) -> Result<(), Error> {
        match (self.gauge.tells_pressure(), self.is_of_group) {
            (true, _) => Ok(()),
            (false, false) => Err(Error::Refused(
                "this kernel reports no memory stalls: boot it with psi=1 (/proc/pressure/memory)"
                    .to_owned(),
            )),
            (false, true) => Err(Error::Refused(
                "the kernel reports no memory stalls of this cgroup: use cgroups of version 2, or \
                 the whole machine"
                    .to_owned(),
            )),
        }
    }

    /// Reads the state of memory; with `is_near` also the figures that explain why memory is short. None once
    /// the group is removed.
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
        pressure: state.pressure.map(|pressure| PressureShares {
            some_basis_points: pressure.some_basis_points,
            full_basis_points: pressure.full_basis_points,
        }),
        scanned_directly: state.scanned_directly,
        scanned_by_kswapd: state.scanned_by_kswapd,
        file_refaults: state.file_refaults,
        stall: Stall::None,
    }
}
