//! The stalls for memory that a ring looks at: those of the recorded cgroup, or of the machine if the kernel reports
//! none for the cgroup.

use linux::Root;
use linux::cgroup::{MemoryGroup, Version};
use linux::gauge::Gauge;
use linux::pressure::{self, Pressure};
use trace::recording::Missing;

use crate::Error;

/// The source of the stalls, which stays the same during a recording.
pub struct Stalls {
    /// The cgroup; None for the machine.
    group: Option<Gauge>,
    missing: Option<Missing>,
}

impl Stalls {
    /// Chooses the stalls of `group` if the kernel reports them, else those of the machine.
    ///
    /// # Errors
    /// `Usage` if the kernel reports no stalls at all: it would never trigger.
    pub fn open(root: &Root, group: Option<&MemoryGroup>) -> Result<Stalls, Error> {
        let of_group = group.and_then(|group| Gauge::open(root, Some(group)).ok());
        if let Some(mut gauge) = of_group
            && gauge.read(true).is_some_and(|memory| memory.pressure.is_some())
        {
            return Ok(Stalls { group: Some(gauge), missing: None });
        }
        if of_machine(root).is_none() {
            return Err(Error::Usage(
                "--keep-on psi: the kernel does not report stalls for memory (PSI); boot it with psi=1, or \
                 choose other triggers"
                    .to_owned(),
            ));
        }
        let missing = group.map(|group| Missing {
            what: "stalls of the cgroup".to_owned(),
            why: match group.version {
                Version::V1 => "the kernel reports none for cgroups of version 1",
                Version::V2 => "the kernel reports none for this cgroup; see its cgroup.pressure",
            }
            .to_owned()
                + "; psi= looks at those of the machine",
        });
        Ok(Stalls { group: None, missing })
    }

    /// What the recording lacks if the machine takes the place of the cgroup.
    pub fn missing(&self) -> Option<&Missing> {
        self.missing.as_ref()
    }

    /// The stalls so far; None if the cgroup was removed.
    pub fn read(&mut self, root: &Root) -> Option<Pressure> {
        match &mut self.group {
            Some(gauge) => gauge.read(true)?.pressure,
            None => of_machine(root),
        }
    }
}

fn of_machine(root: &Root) -> Option<Pressure> {
    pressure::of_machine(root, "memory").ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Root, path: &str, text: &str) {
        let path = root.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn group(version: Version) -> MemoryGroup {
        MemoryGroup { folder: "/group".into(), version, id: 1, level: 1 }
    }

    #[test]
    fn the_machine_takes_the_place_of_a_group_without_stalls_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        write(&root, "/proc/meminfo", "MemTotal: 1024 kB\nMemFree: 512 kB\n");
        write(&root, "/group/memory.current", "4096\n");
        write(&root, "/group/memory.usage_in_bytes", "4096\n");
        let refusal = |group: Option<&MemoryGroup>| Stalls::open(&root, group).err().unwrap();
        for group in [None, Some(&group(Version::V2))] {
            assert!(
                matches!(refusal(group), Error::Usage(why) if why.contains("boot it with psi=1"))
            );
        }

        write(
            &root,
            "/proc/pressure/memory",
            "some avg10=12.00 total=9\nfull avg10=5.00 total=1\n",
        );
        let mut machine = Stalls::open(&root, None).unwrap();
        assert_eq!(machine.missing(), None);
        assert_eq!(machine.read(&root).unwrap().some_basis_points, 1200);
        for (version, why) in [(Version::V1, "of version 1"), (Version::V2, "cgroup.pressure")] {
            let mut stalls = Stalls::open(&root, Some(&group(version))).unwrap();
            let missing = stalls.missing().unwrap();
            assert_eq!(missing.what, "stalls of the cgroup");
            assert!(missing.why.contains(why) && missing.why.contains("of the machine"));
            assert_eq!(stalls.read(&root).unwrap().some_basis_points, 1200);
        }

        write(
            &root,
            "/group/memory.pressure",
            "some avg10=1.00 total=8\nfull avg10=0.50 total=4\n",
        );
        let mut own = Stalls::open(&root, Some(&group(Version::V2))).unwrap();
        assert_eq!(own.missing(), None);
        assert_eq!(own.read(&root).unwrap().some_basis_points, 100);
    }
}
