//! Carries out a policy's decision: measures the victims once more, kills them and watches them.

use daemon::log::{put, put_words};
use linux::process::Finished;
use policy::kill::search::{Chosen, Part};
use policy::kill::{Candidate, CandidateIndex, Memory};
use rustix::io::Errno;
use types::Nanos;

use super::{Cause, Killer, WOULD_AGAIN};
use crate::hooks::Occasion;
use crate::notes::VictimNotes;
use crate::victims::Victim;
use crate::{Config, Statistics, Victims};

/// How long the killer waits for the weight of a victim.
const WAIT_VICTIM: std::time::Duration = std::time::Duration::from_millis(150);

impl Killer {
    /// Kills the first `count` of the ranking, and with victims "group" also the other processes of their groups.
    /// Returns the memory as it will be once theirs is back.
    pub(super) fn act(&mut self, cause: Cause, count: usize) -> Memory {
        let chosen = self.choose(cause.now, count);
        let mut memory = cause.memory;
        for &(index, part) in chosen.victims() {
            let Candidate { resident, swapped, .. } = *self.table.candidate(index);
            if self.kill(index, part, cause) {
                memory = memory.once_back(resident, swapped);
            }
        }
        // The ranking is of a table that is out of date now.
        self.refreshed = None;
        self.spared = None;
        memory
    }

    fn choose(&mut self, now: Nanos, count: usize) -> Chosen {
        let Killer { table, ranking, config, search, .. } = self;
        let (candidates, sharers) = table.with_sharers(now);
        let named = &ranking.ranked()[..count];
        let chosen = search.choose(named, candidates, sharers, config.victims == Victims::Group);
        // A protected process uses their memory, too.
        chosen.refused().iter().for_each(|&index| table.mark_refused(index, now));
        chosen
    }

    /// Measures a victim once more; returns whether its end frees what it was chosen for.
    fn confirm(&mut self, index: CandidateIndex, part: Part, now: Nanos) -> bool {
        let Killer { table, weigher, .. } = self;
        let promised = table.candidate(index).bytes();
        if part == Part::Named {
            table.weigh_one(weigher, now, WAIT_VICTIM, index);
        }
        weigher.wait_while_reading(table.candidate(index).process, WAIT_VICTIM);
        if !table.confirm(index, now) {
            return false;
        }
        if part == Part::OfFamily {
            table.count_share(index);
        }
        part.is_worth_it(promised, index, table.candidates())
    }

    /// Kills a process, if it may still be killed; returns whether it did.
    fn kill(&mut self, index: CandidateIndex, part: Part, cause: Cause) -> bool {
        if !self.confirm(index, part, cause.now) || self.has_recovered(&cause.memory) {
            return false;
        }
        if self.config.is_dry_run {
            self.note_would_kill(index, cause);
            return false;
        }
        let occasion = self.occasion(index, cause.why);
        let event = match self.hooks.run(occasion) {
            Finished::Well => None,
            Finished::Late => Some("hook-late"),
            Finished::Wrong => Some("hook-failed"),
        };
        if let Some(event) = event {
            self.output.say(|line| {
                put(line, "event", event)?;
                put(line, "process", occasion.process)
            });
        }
        if self.victims.is_empty()
            && let Some((_, free)) = self.read_free()
        {
            self.victims.begin(free);
        }
        let entry = self.table.entry(index);
        // Written before the kill, so that the next killer can finish what this one cannot.
        let note = self
            .notes
            .as_ref()
            .and_then(|notes| VictimNotes::victim(notes, entry.process.number(), entry.start));
        // A second descriptor is for the reapers, a third to watch the victim.
        let (sent, watched) = (entry.process.try_clone(), entry.process.try_clone());
        match entry.process.kill() {
            Ok(()) => {}
            Err(Errno::SRCH) => {
                self.table.mark_dying(index, cause.now);
                return false;
            }
            Err(error) => {
                self.note_refusal(index, cause.now, error);
                return false;
            }
        }
        if let Ok(process) = sent {
            let Config { reclaim, grace, .. } = self.config;
            self.reapers.send(process, entry.is_slow, reclaim, grace, note);
        }
        let seen = entry.seen;
        // The victim may have grown until the signal arrived: on busy processors for milliseconds.
        if let Some((_, free)) = self.read_free() {
            self.victims.lower(free);
        }
        let had = self.table.candidate(index).resident.0;
        if let Ok(process) = watched {
            let killed = Nanos(self.began.elapsed().as_nanos() as i64);
            let mut victim = Victim::new(process, occasion.name, cause.why, killed, had, seen);
            victim.is_joint = part != Part::Named || self.table.has_borrower(index);
            victim.grow();
            self.victims.push(victim);
        }
        Statistics::add(&self.statistics.kills, 1);
        self.say_kill("kill", index, cause);
        self.table.mark_dying(index, cause.now);
        true
    }

    /// Whether memory is no longer short: since it was read another process may have ended.
    fn has_recovered(&mut self, memory: &Memory) -> bool {
        if !self.victims.is_empty() || self.policy.margin(memory).0 > 0 {
            return false;
        }
        let fresh = self.gauge.read(self.is_near);
        fresh.is_some_and(|fresh| self.policy.margin(&fresh).0 > 0)
    }

    fn note_would_kill(&mut self, index: CandidateIndex, cause: Cause) {
        Statistics::add(&self.statistics.would_kill, 1);
        self.say_kill("would-kill", index, cause);
        // Does not name the next victim yet: once this one had died, there might be enough memory.
        self.quiet_until = Nanos(cause.now.0 + WOULD_AGAIN.0);
    }

    fn occasion(&self, index: CandidateIndex, why: &'static str) -> Occasion {
        let entry = self.table.entry(index);
        let (process, name) = (entry.process.number(), entry.name);
        Occasion { is_before: true, process, name, why, freed_bytes: 0 }
    }

    fn note_refusal(&mut self, index: CandidateIndex, now: Nanos, error: Errno) {
        Statistics::add(&self.statistics.refused, 1);
        let process = self.table.candidate(index).process;
        self.table.mark_refused(index, now);
        self.output.say(|line| {
            put(line, "event", "refused")?;
            put(line, "process", process)?;
            put_words(line, "why", error)
        });
    }
}
