//! The life of a phone: apps that are launched, used, swapped out and killed, over memory with
//! watermarks and any swap architecture of the lab (spec sheet S0, S1 Fig. 5, S2.6). docs/lifecycle.md
//! lists every rule and constant with its source.
//!
//! `memory` decides which page leaves, `storage` computes the cost, `dying` frees a victim's memory over
//! time, `killer` chooses victims from the state in `seen`, `machine` puts them on one clock, `apps` lists
//! the touches of a visit, and `rereads` has the order of those that come back to a page.

mod apps;
#[cfg(test)]
mod differential;
mod dying;
mod killer;
mod machine;
mod memory;
mod outcome;
mod phone;
mod rereads;
mod seen;
mod stalls;
mod storage;

pub use outcome::{LaunchKind, LifeOutcome, Parts, SimulatedKill, Trigger, Visit};
pub use phone::{Again, App, Costs, KillOrder, KillRule, KillerSpec, Library, Phone};
pub use seen::Seen;

use crate::Error;
use crate::analysis::Spectrum;
use crate::swap::SimulateRequest;
use machine::Machine;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use types::Progress;

/// Simulates every visit of `phone`, with the architecture and devices of `below` underneath.
///
/// # Errors
/// `Usage`: a parameter out of its range, by name; an architecture that does not exist or must know
/// the future. `Cancelled` if `progress` cancels.
pub fn live(
    phone: &Phone,
    below: &SimulateRequest,
    progress: &dyn Progress,
) -> Result<LifeOutcome, Error> {
    let total = phone.visits.len() as u64;
    live_counting(phone, below, &|done| Ok(progress.advance(done, total)?))
}

/// Memory of a life per page of its phone: the machine's 32 bytes, and 64 of the architecture below.
const BYTES_PER_PAGE: u64 = 96;

/// Simulates many lives on all cores; the outcomes are in order and do not depend on the number of cores.
/// The lives that run at once hold at most `room_bytes`; at least one runs.
///
/// # Errors
/// The first error of a life, as for `live`.
pub fn live_all(
    lives: &[(Phone, SimulateRequest)],
    room_bytes: u64,
    progress: &dyn Progress,
) -> Result<Vec<LifeOutcome>, Error> {
    let total = lives.iter().map(|(phone, _)| phone.visits.len() as u64).sum();
    let done = AtomicU64::new(0);
    let one_more = |_| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(progress.advance(done, total)?)
    };
    let live = |(phone, below): &(Phone, SimulateRequest)| live_counting(phone, below, &one_more);
    let mut outcomes = Vec::with_capacity(lives.len());
    while let rest @ [_, ..] = &lives[outcomes.len()..] {
        let part = rest[..fitting(rest, room_bytes)].par_iter().map(live);
        outcomes.extend(part.collect::<Result<Vec<LifeOutcome>, Error>>()?);
    }
    Ok(outcomes)
}

/// How many of the first lives fit into memory together; at least one.
fn fitting(lives: &[(Phone, SimulateRequest)], room_bytes: u64) -> usize {
    let held = lives.iter().scan(0, |held, (phone, _)| {
        *held += BYTES_PER_PAGE * phone.pages();
        Some(*held)
    });
    held.take_while(|held| *held <= room_bytes).count().max(1)
}

/// `live`, which reports the number of finished visits after each.
fn live_counting(
    phone: &Phone,
    below: &SimulateRequest,
    report: &dyn Fn(u64) -> Result<(), Error>,
) -> Result<LifeOutcome, Error> {
    phone.check()?;
    let mut machine = Machine::new(phone, below)?;
    let mut visits = Vec::with_capacity(phone.visits.len());
    for (done, &app) in (1..).zip(&phone.visits) {
        visits.push(machine.visit(app));
        report(done)?;
    }
    let (frames, slots) = machine.size();
    let watermarks = machine.watermarks();
    let (kills, traffic, options) = machine.into_results();
    let spectrum = Spectrum::new(traffic.into_iter());
    Ok(LifeOutcome {
        schema: outcome::SCHEMA,
        architecture: below.architecture.clone(),
        options,
        fast_bytes: below.fast_bytes,
        fast_device: below.fast.name.clone(),
        slow_device: below.slow.name.clone(),
        frames: frames as u64,
        slots: slots as u64,
        watermarks,
        visits,
        kills,
        storage_pages: spectrum.pages,
        storage_accesses: spectrum.accesses,
        skew: spectrum.skew(),
    })
}
