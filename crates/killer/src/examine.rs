//! Checks whether a killer with these settings can start on this machine. `killd` and `killd check` call the
//! same function; `killd` then uses what it opened.

use std::path::PathBuf;

use linux::Root;
use linux::cgroup::MemoryGroup;
use policy::kill::{KillPolicy, Memory};
use types::Bytes;

use crate::gauge::Gauge;
use crate::scope::{OWN_DESCRIPTORS, Scope};
use crate::sockets;
use crate::{Config, Error};

/// The smallest table of candidates that is worth a start.
const ROOM_MIN: usize = 16;

/// What a killer starts with.
pub struct Examined {
    pub(crate) group: Option<MemoryGroup>,
    pub(crate) gauge: Gauge,
    pub(crate) policy: Box<dyn KillPolicy>,
    pub(crate) room: usize,
    /// Sockets of the settings at which a running killd answers.
    pub running_at: Vec<PathBuf>,
    /// Features that the killer runs without.
    pub absent: Vec<String>,
}

/// Examines settings on this machine, for the machine or a group.
///
/// # Errors
/// The first reason for which `killd` would not start, except a running killd at the same sockets, which is
/// in `running_at`.
pub fn examine(root: &Root, scope: &Scope, config: &Config) -> Result<Examined, Error> {
    let mut absent = Vec::new();
    let room = room(config.candidates_max, &mut absent)?;
    let group = match scope {
        Scope::Machine => None,
        Scope::Group(path) => Some(MemoryGroup::at(root, path)?),
    };
    let mut gauge = Gauge::open(root, group.as_ref())?;
    let policy = build_policy(config, &mut gauge)?;
    let mut running_at = Vec::new();
    for path in [&config.sockets.statistics, &config.sockets.metrics].into_iter().flatten() {
        if sockets::is_killd_at(path)? {
            running_at.push(path.clone());
        }
    }
    Ok(Examined { group, gauge, policy, room, running_at, absent })
}

/// Room for candidates, which need two descriptors each: `wanted`, or fewer if the limit of open files is too low.
fn room(wanted: usize, absent: &mut Vec<String>) -> Result<usize, Error> {
    let most = linux::process::raise_descriptors(2 * wanted + OWN_DESCRIPTORS);
    let room = wanted.min(most.saturating_sub(OWN_DESCRIPTORS) / 2);
    if room < ROOM_MIN {
        let least = 2 * ROOM_MIN + OWN_DESCRIPTORS;
        let what = format!(
            "{most} open files are too few, {least} are needed: raise the limit (ulimit -n, or \
             LimitNOFILE= of the unit)"
        );
        return Err(Error::Refused(what));
    }
    if room < wanted {
        absent.push(format!(
            "room for {wanted} processes: {most} open files are enough for the {room} largest; raise \
             the limit (ulimit -n, or LimitNOFILE= of the unit)"
        ));
    }
    Ok(room)
}

/// The policy, unless it would kill even if all memory were free.
pub(crate) fn build_policy(
    config: &Config,
    gauge: &mut Gauge,
) -> Result<Box<dyn KillPolicy>, Error> {
    let policy = config.build_policy()?;
    let Some(memory) = gauge.read(true).filter(|memory| memory.total.0 > 0) else {
        return Ok(policy);
    };
    let total = memory.total;
    let all_free = Memory { free: total, available: total, files: Bytes(0), ..memory };
    match policy.margin(&all_free).0 {
        0 => Err(Error::Refused(format!(
            "{} would kill every process: it requires more free memory than the {total} of memory; \
             lower its thresholds",
            config.policy
        ))),
        _ => Ok(policy),
    }
}
