//! Prepares a run: decides everything before the run changes the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linux::groups::{self, Layout};
use linux::probe::{self, Grant};
use linux::{Root, process, program};

use crate::plan::{Application, Mode, Plan};
use crate::schedule::{self, Visit};
use crate::steps::{self, ChangeStep, Situation};
use crate::{Error, changes};

/// The beginning of the names of runs' groups; the PID follows.
const GROUP_PREFIX: &str = "pagewise-launch-";

/// A plan, prepared for this machine.
#[derive(Debug)]
pub struct Preparation {
    /// The plan.
    pub plan: Plan,
    /// The visits of the run.
    pub visits: Vec<Visit>,
    /// The machine.
    pub situation: Situation,
    /// The changes of the run.
    pub steps: Vec<ChangeStep>,
    /// The folder of the results.
    pub folder: PathBuf,
    /// The folder that replaces `{lab}`.
    pub(crate) lab: PathBuf,
    pub(crate) layout: Arc<dyn Layout>,
}

impl Preparation {
    /// Reads the plan at `path`, and decides the visits and steps of a run with results in `folder`.
    ///
    /// # Errors
    /// The plan is invalid, the name of the folder is not UTF-8, or the machine lacks the cgroups.
    pub fn new(root: &Root, path: &Path, folder: &Path) -> Result<Preparation, Error> {
        let plan = Plan::read(path)?;
        let visits = schedule::visits(&plan)?;
        let situation = Situation::now(root)?;
        let name = format!("{GROUP_PREFIX}{}", std::process::id());
        let layout: Arc<dyn Layout> = groups::layout(root, &name)?.into();
        let folder =
            std::path::absolute(folder).map_err(|error| Error::file("created", folder, &error))?;
        if folder.to_str().is_none() {
            // Reports, run.toml and the undo log are text.
            let folder = folder.display();
            let what = format!("{folder}: its name is not UTF-8: give another folder");
            return Err(Error::Refused(what));
        }
        let steps = steps::steps(&plan, &situation, root, layout.as_ref(), &folder)?;
        let lab = lab(path);
        Ok(Preparation { plan, visits, situation, steps, folder, lab, layout })
    }

    /// The reasons why this machine cannot run the plan now; empty if it can.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn refusals(&self, root: &Root) -> Result<Vec<String>, Error> {
        let mut refusals = Vec::new();
        if !process::is_root() {
            refusals.push("cgroups and swap areas need root: run as root".to_owned());
        }
        refusals.extend(self.needs().into_iter().filter_map(|need| refusal(root, need)));
        if self.plan.mode == Mode::Tiers {
            // swapd takes the first carrier that the kernel grants.
            let refused: Vec<_> =
                CARRIERS.iter().filter_map(|carrier| refusal(root, carrier)).collect();
            refusals.extend((refused.len() == CARRIERS.len()).then(|| refused.join("; ")));
        }
        refusals.extend(steps::risk(&self.plan, &self.situation));
        refusals.extend(self.missing_programs());
        if fs::read_dir(&self.folder).is_ok_and(|mut entries| entries.next().is_some()) {
            let folder = self.folder.display();
            refusals.push(format!("{folder}: the folder is not empty: give a new folder"));
        }
        if changes::undo_log(root).exists() {
            return Ok(refusals);
        }
        for left in groups::left_over(root, GROUP_PREFIX)? {
            let left = left.display();
            refusals
                .push(format!("{left}: left by an earlier launch; remove it with: rmdir {left}"));
        }
        Ok(refusals)
    }

    /// The checks of `doctor` that the plan needs.
    fn needs(&self) -> Vec<&'static str> {
        let mode = self.plan.mode;
        let all = [
            ("memory-cgroup", true),
            ("freezer", true),
            ("swapon", mode.has_swap()),
            ("zram", mode.has_zram()),
            ("zswap", mode == Mode::Zswap),
        ];
        all.iter().filter(|(_, is_needed)| *is_needed).map(|(name, _)| *name).collect()
    }

    fn missing_programs(&self) -> Vec<String> {
        let missing = |(name, application): (&String, &Application)| {
            let program = application.command[0].replace("{lab}", &self.lab.display().to_string());
            let is_missing = program::find(&program).is_none();
            is_missing.then(|| {
                format!("applications.{name}: {program}: the program does not exist: install it")
            })
        };
        self.plan.applications.iter().filter_map(missing).collect()
    }
}

/// The checks of `doctor` for the carriers of swapd.
const CARRIERS: [&str; 3] = ["ublk", "nbd", "fuse-loop"];

fn refusal(root: &Root, name: &str) -> Option<String> {
    let check = probe::CATALOG.iter().find(|check| check.name == name)?;
    match (check.ask)(root) {
        Grant::Given(_) => None,
        Grant::Refused(why) => Some(format!("{name}: {why}")),
    }
}

/// The nearest folder `lab` beside or above the plan.
fn lab(plan: &Path) -> PathBuf {
    let plan = std::path::absolute(plan).unwrap_or_else(|_| plan.to_owned());
    let found = plan.ancestors().skip(1).map(|folder| folder.join("lab")).find(|lab| lab.is_dir());
    found.unwrap_or_else(|| plan.with_file_name("lab"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn the_nearest_folder_named_lab_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        assert_eq!(lab(&at("alone/plan.toml")), at("alone/lab"));
        fs::create_dir_all(at("lab/plans")).unwrap();
        for plan in ["plan.toml", "plans/plan.toml", "lab/plan.toml", "lab/plans/plan.toml"] {
            assert_eq!(lab(&at(plan)), at("lab"), "{plan}");
        }
    }

    #[test]
    fn missing_kernel_features_are_refused_before_any_change() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path("/proc/self")).unwrap();
        let mounts = "a /memory cgroup rw,memory 0 0\nb /freezer cgroup rw,freezer 0 0\n";
        fs::write(root.path("/proc/self/mounts"), mounts).unwrap();
        let memory = "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\n";
        fs::write(root.path("/proc/meminfo"), memory).unwrap();
        fs::create_dir_all(root.path("/freezer/pagewise-launch-1")).unwrap();
        let plan = folder.path().join("plan.toml");
        let text = "name = 'a'\norder = ['notes']\nmode = 'zswap'\nbudget = '1GiB'\n\
                    swap_size = '1GiB'\nzram_size = '64MiB'\n[applications.notes]\n\
                    command = ['{lab}/none']\ninterface = 'line'\n\
                    ready = 'r'\nrequest = 'r'\nanswer = 'a'\n";
        fs::write(&plan, text).unwrap();
        let output = folder.path().join("run");
        let preparation = Preparation::new(&root, &plan, &output).unwrap();
        let refusals = preparation.refusals(&root).unwrap().join("\n");
        for expected in [
            "swapon: the kernel was built without swap",
            "zswap: the kernel was built without it",
            "must keep 1.3GiB",
            "/lab/none: the program does not exist",
            "remove it with: rmdir /freezer/pagewise-launch-1",
        ] {
            assert!(refusals.contains(expected), "{expected} is not in {refusals}");
        }
        assert!(!refusals.contains("freezer:") && !output.exists());

        let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"run\xff"));
        let error = Preparation::new(&root, &plan, &odd).unwrap_err().to_string();
        assert!(error.contains("not UTF-8"), "{error}");
    }
}
