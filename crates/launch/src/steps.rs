//! What a plan changes on a machine, step by step, and why a machine must not run it. Decides only:
//! [`crate::changes`] does it.

use std::fmt;
use std::path::{Path, PathBuf};

use linux::groups::Layout;
use linux::system::Machine;
use linux::{Root, Setting, counters, delays, swap};
use types::Bytes;

use crate::Error;
use crate::plan::{Mode, Plan};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A value for the time of the run; the file gets back what it held.
    Set(Setting),
    /// A value, and the one that undoes it.
    Toggle(Setting, Setting),
    /// A compressed device of its own in memory, used as swap.
    Zram {
        /// By the kernel's name.
        compressor: Option<String>,
        /// Its uncompressed size.
        size: Bytes,
        /// Among swap areas.
        priority: i32,
    },
    /// A file, used as swap.
    SwapFile {
        /// Where.
        path: PathBuf,
        /// How large.
        size: Bytes,
        /// Among swap areas.
        priority: i32,
    },
    /// Groups for all applications, with their settings, which end with them.
    Groups {
        /// One folder per application, and the one with the limit.
        folders: Vec<PathBuf>,
        /// The limit, and how the group swaps.
        settings: Vec<Setting>,
    },
    /// Clean file pages leave memory, so that runs begin alike.
    DropCaches,
}

/// What is known of a machine before a run.
#[derive(Clone, Debug)]
pub struct Situation {
    /// The machine.
    pub machine: Machine,
    /// Bytes that the kernel can give without swapping.
    pub available_bytes: u64,
    /// Areas in use.
    pub areas: Vec<swap::Area>,
}

impl Situation {
    /// This machine, now.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn now(root: &Root) -> Result<Situation, Error> {
        let memory = counters::meminfo(root)?;
        Ok(Situation {
            machine: Machine::this(root)?,
            available_bytes: memory.get("MemAvailable").copied().unwrap_or(0),
            areas: swap::areas(root)?,
        })
    }

    /// Bytes that a run must leave to everything else.
    pub fn reserve_bytes(&self) -> u64 {
        const ENOUGH: u64 = 8 << 30;
        ENOUGH.min(self.machine.memory_bytes / 3)
    }

    /// Bytes that a run may take.
    fn spare_bytes(&self) -> u64 {
        self.available_bytes.saturating_sub(self.reserve_bytes())
    }

    /// zswap takes its size in whole percent of the memory.
    fn percent(&self, size: Bytes) -> u64 {
        (size.0 * 100).div_ceil(self.machine.memory_bytes.max(1)).clamp(1, 100)
    }
}

/// The steps of `plan`, in order; undone in the opposite one.
///
/// # Errors
/// What the operating system refuses to tell.
pub fn steps(
    plan: &Plan,
    situation: &Situation,
    root: &Root,
    layout: &dyn Layout,
    folder: &Path,
) -> Result<Vec<Step>, Error> {
    let mut steps = swap_steps(plan, situation, folder);
    if root.exists(delays::SWITCH) {
        steps.push(Step::Set(Setting::new(delays::SWITCH, 1)));
    }
    for (change, undo) in layout.preparation(root)? {
        steps.push(Step::Toggle(change, undo));
    }
    // Without a limit of its own the run still may not take what the machine needs.
    let limit_bytes = budget(plan).map_or(situation.spare_bytes(), |budget| budget.0);
    let mut settings = layout.limit(limit_bytes);
    if matches!(plan.mode, Mode::Kill | Mode::Minfree | Mode::NoLimit) {
        settings.extend(layout.without_swap(root, limit_bytes));
    } else {
        let swappiness = layout.swappiness(plan.swappiness);
        match swappiness.path.starts_with(layout.memory()) {
            true => settings.push(swappiness),
            false => steps.push(Step::Set(swappiness)),
        }
    }
    if plan.balloon.is_some() {
        settings.extend(layout.nested_limits());
    }
    if plan.mode == Mode::Minfree {
        // What applications begin with: that of whoever is visited.
        steps.push(Step::Set(Setting::new("/proc/self/oom_score_adj", 0)));
    }
    let programs = plan.applications.keys().map(|name| layout.programs().join(name));
    let folders = std::iter::once(layout.memory().to_owned()).chain(programs).collect();
    steps.push(Step::Groups { folders, settings });
    steps.push(Step::DropCaches);
    Ok(steps)
}

/// The budget of a plan, where its mode has one.
fn budget(plan: &Plan) -> Option<Bytes> {
    plan.budget.filter(|_| plan.mode != Mode::NoLimit)
}

/// The swap that a plan brings.
fn swap_steps(plan: &Plan, situation: &Situation, folder: &Path) -> Vec<Step> {
    let mut steps = Vec::new();
    let zram_size = plan.zram_size.unwrap_or_default();
    if plan.mode == Mode::Zswap {
        let parameter = |name: &str| format!("/sys/module/zswap/parameters/{name}");
        if let Some(compressor) = &plan.compressor {
            steps.push(Step::Set(Setting::new(parameter("compressor"), compressor)));
        }
        let percent = situation.percent(zram_size);
        steps.push(Step::Set(Setting::new(parameter("max_pool_percent"), percent)));
        steps.push(Step::Set(Setting::new(parameter("enabled"), "Y")));
    }
    // Before every area that the machine has: its own swap is not to be part of the experiment.
    let mut priority = swap::PRIORITY_MAX;
    if plan.mode.has_zram() {
        let compressor = plan.compressor.clone();
        steps.push(Step::Zram { compressor, size: zram_size, priority });
        priority -= 1;
    }
    if plan.mode.has_swap_file() {
        let size = plan.swap_size.unwrap_or_default();
        steps.push(Step::SwapFile { path: folder.join("swap"), size, priority });
    }
    steps
}

/// Why running `plan` would risk the machine's own memory; none where it would not.
pub fn risk(plan: &Plan, situation: &Situation) -> Option<String> {
    let budget = budget(plan).unwrap_or_default();
    let has_pool = plan.mode.has_zram() || plan.mode == Mode::Zswap;
    let compressed = plan.zram_size.filter(|_| has_pool).unwrap_or_default();
    let wanted = budget.0 + compressed.0;
    if wanted <= situation.spare_bytes() {
        return None;
    }
    Some(format!(
        "the plan may take {} of memory (budget {budget}, compressed swap {compressed}), the \
         machine has {} available and must keep {}: make the budget smaller, or end other programs",
        Bytes(wanted),
        Bytes(situation.available_bytes),
        Bytes(situation.reserve_bytes()),
    ))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Set(Setting { path, value }) => {
                write!(f, "write {value} to {}; then restore it", path.display())
            }
            Step::Toggle(Setting { path, value }, undo) => {
                write!(f, "write {value} to {}; then {}", path.display(), undo.value)
            }
            Step::Zram { compressor, size, priority } => {
                let compressor = compressor.as_deref().unwrap_or("the kernel's compressor");
                write!(f, "add a zram device of {size} ({compressor}), swap priority {priority}")
            }
            Step::SwapFile { path, size, priority } => {
                write!(f, "swap to the file {} of {size}, priority {priority}", path.display())
            }
            Step::Groups { folders, settings } => {
                write!(f, "make {} cgroups below {}", folders.len(), folders[0].display())?;
                settings.iter().try_for_each(|Setting { path, value }| {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    write!(f, ", {name} {value}")
                })
            }
            Step::DropCaches => f.write_str("drop the page cache"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::groups::{V1, V2};

    const GIB: u64 = 1 << 30;

    fn plan(mode: &str) -> Plan {
        let text = format!(
            "name = 'a'\norder = ['notes']\nmode = '{mode}'\nbudget = '1GiB'\n\
             swap_size = '2GiB'\nzram_size = '3GiB'\nswappiness = 150\n\
             [applications.notes]\ncommand = ['cat']\ninterface = 'line'\n"
        );
        toml::from_str(&text).unwrap()
    }

    fn situation(memory_gib: u64, available_gib: u64) -> Situation {
        let machine = Machine {
            kernel: String::new(),
            architecture: String::new(),
            processors: 1,
            memory_bytes: memory_gib * GIB,
            page_bytes: 4096,
        };
        Situation { machine, available_bytes: available_gib * GIB, areas: Vec::new() }
    }

    fn steps_of(mode: &str, layout: &dyn Layout) -> Vec<String> {
        let root = Root::at("/no/such/system");
        let steps = steps(&plan(mode), &situation(32, 30), &root, layout, Path::new("/run/1"));
        steps.unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_mode_has_its_steps() {
        let layout = V1::new(Path::new("/memory"), Path::new("/freezer"), "launch");
        let groups = |settings: &str| format!("make 2 cgroups below /memory/launch, {settings}");
        let budget = "memory.limit_in_bytes 1073741824, memory.swappiness";
        let file = |priority| format!("swap to the file /run/1/swap of 2GiB, priority {priority}");
        let zram = "add a zram device of 3GiB (the kernel's compressor), swap priority 32767";
        let drop = "drop the page cache";
        let swapping = groups(&format!("{budget} 150"));
        assert_eq!(steps_of("swap-file", &layout), [&*file(32767), &swapping, drop]);
        assert_eq!(steps_of("zram+file", &layout), [zram, &file(32766), &swapping, drop]);
        assert_eq!(steps_of("kill", &layout), [&*groups(&format!("{budget} 0")), drop]);
        // All that is available but the 8 GiB that stay.
        let spare = groups(&format!("memory.limit_in_bytes {}, memory.swappiness 0", 22 * GIB));
        assert_eq!(steps_of("no-limit", &layout), [&*spare, drop]);
        // 3 of 32 GiB are 9.4 %.
        let percent = "write 10 to /sys/module/zswap/parameters/max_pool_percent; then restore it";
        assert_eq!(steps_of("zswap", &layout)[0], percent);
    }

    #[test]
    fn mode_minfree_gives_applications_an_adj_and_the_balloon_a_limit() {
        let root = Root::at("/no/such/system");
        let balloon = toml::from_str("size = '300MiB'").unwrap();
        let plan = Plan { balloon: Some(balloon), ..plan("minfree") };
        let steps_of = |layout: &dyn Layout| -> Vec<String> {
            let steps = steps(&plan, &situation(32, 30), &root, layout, Path::new("/run/1"));
            steps.unwrap().iter().map(ToString::to_string).collect()
        };
        let adj = "write 0 to /proc/self/oom_score_adj; then restore it";
        let one = V1::new(Path::new("/memory"), Path::new("/freezer"), "launch");
        assert_eq!(steps_of(&one)[0], adj);
        let two = steps_of(&V2::new(Path::new("/cgroup"), "launch"));
        assert_eq!(two[1], adj);
        assert!(two[2].ends_with("memory.swap.max 0, cgroup.subtree_control +memory"), "{two:?}");
    }

    #[test]
    fn version_2_sets_the_swappiness_of_the_machine() {
        let steps = steps_of("swap-file", &V2::new(Path::new("/cgroup"), "launch"));
        assert_eq!(steps[1], "write +memory to /cgroup/cgroup.subtree_control; then -memory");
        assert_eq!(steps[2], "write 150 to /proc/sys/vm/swappiness; then restore it");
        assert_eq!(steps[3], "make 2 cgroups below /cgroup/launch, memory.max 1073741824");
    }

    #[test]
    fn a_third_of_the_memory_or_8_gib_stay_free() {
        assert_eq!(risk(&plan("swap-file"), &situation(32, 9)), None);
        assert!(risk(&plan("swap-file"), &situation(32, 8)).unwrap().contains("must keep 8GiB"));
        assert_eq!(risk(&plan("swap-file"), &situation(12, 5)), None);
        // The compressed area takes memory beside the budget.
        let refusal = risk(&plan("zram"), &situation(32, 11)).unwrap();
        assert!(refusal.contains("may take 4GiB"), "{refusal}");
        assert_eq!(risk(&plan("no-limit"), &situation(32, 9)), None);
    }
}
