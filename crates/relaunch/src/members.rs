//! The address spaces of an application: opened once and held, so that each has a key that no later one gets.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use linux::address_space::{AddressSpace, Advised, AnonymousPages, MemoryAdvice};
use linux::held_process::open_processes;
use linux::{Error as LinuxError, Root};
use rustix::io::Errno;

use crate::ranges::{Key, Ranges};

/// The most processes of one application: each takes three descriptors.
pub(crate) const PROCESSES_MAX: usize = 512;

/// The held address spaces of an application, by PID.
#[derive(Debug)]
pub(crate) struct Members {
    processes: OwnedFd,
    held: BTreeMap<u32, (Key, AddressSpace)>,
    next: u64,
    /// Address spaces that ended or that `exec` replaced, so far.
    pub voided: u64,
}

/// What a look at all address spaces found.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub present: Vec<(Key, AnonymousPages)>,
    /// The process of each address space that is present.
    pub processes: Vec<(u32, Key)>,
    /// Processes beyond [`PROCESSES_MAX`].
    pub overlooked: usize,
    /// Why the first process that could not be read was refused.
    pub refused: Option<(u32, Errno)>,
}

impl Members {
    /// No processes yet.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn new(root: &Root) -> Result<Members, LinuxError> {
        let processes = open_processes(root)?;
        Ok(Members { processes, held: BTreeMap::new(), next: 0, voided: 0 })
    }

    /// Reads the page maps of the processes with these PIDs.
    pub(crate) fn look(&mut self, numbers: &[u32]) -> Look {
        let mut look = Look::default();
        let before = self.held.len();
        self.held.retain(|number, (_, space)| {
            numbers.binary_search(number).is_ok() && space.is_in_use()
        });
        self.voided += (before - self.held.len()) as u64;
        for &number in numbers {
            if self.held.len() >= PROCESSES_MAX && !self.held.contains_key(&number) {
                look.overlooked += 1;
            } else if let Err(error) = self.add(number, &mut look) {
                // One that has ended is no refusal.
                if error != Errno::SRCH && error != Errno::NOENT {
                    look.refused.get_or_insert((number, error));
                }
            }
        }
        look
    }

    fn add(&mut self, number: u32, look: &mut Look) -> Result<(), Errno> {
        if !self.held.contains_key(&number) {
            let space = AddressSpace::open(&self.processes, number)?;
            self.held.insert(number, (Key(self.next), space));
            self.next += 1;
        }
        if let Some((key, space)) = self.held.get(&number) {
            look.present.push((*key, space.anonymous()?));
            look.processes.push((number, *key));
        }
        Ok(())
    }

    /// Gives advice about ranges; calls `refused` with each address space that could not be advised.
    pub(crate) fn advise(
        &self,
        ranges: &Ranges,
        advice: MemoryAdvice,
        mut refused: impl FnMut(Key, Errno),
    ) -> Advised {
        let mut all = Advised::default();
        for (key, ranges) in ranges {
            let Some((_, space)) = self.held.values().find(|(other, _)| other == key) else {
                refused(*key, Errno::SRCH);
                continue;
            };
            match space.advise(ranges, advice) {
                Ok(advised) => {
                    all.pages += advised.pages;
                    all.refused += advised.refused;
                }
                Err(error) => refused(*key, error),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Sleeper;

    #[test]
    fn a_process_has_a_key_until_it_ends() {
        let mut members = Members::new(&Root::system()).unwrap();
        let mut sleeper = Sleeper::start();
        let number = sleeper.0.id();
        let key = |look: &Look| look.present.first().map(|(key, _)| *key);
        let first = members.look(&[number]);
        assert_eq!(key(&first), key(&members.look(&[number])));
        let range = first.present[0].1.resident.clone();
        let ranges = vec![(key(&first).unwrap(), range), (Key(77), vec![])];
        let mut refused = Vec::new();
        let advised =
            members.advise(&ranges, MemoryAdvice::Cold, |key, error| refused.push((key, error)));
        if !refused.contains(&(key(&first).unwrap(), Errno::PERM)) {
            assert!(advised.pages > 0);
        }
        assert!(refused.contains(&(Key(77), Errno::SRCH)));
        // A process that has left the group, and comes back, is known no more.
        assert_eq!(key(&members.look(&[])), None);
        assert_ne!(key(&members.look(&[number])), key(&first));
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        let look = members.look(&[number, u32::MAX]);
        assert!(look.present.is_empty() && look.refused.is_none(), "{look:?}");
        assert_eq!(members.voided, 2);
    }
}
