//! Decides which changes a plan needs on a machine, and whether a machine must not run it. [`crate::changes`]
//! makes the changes.

use std::fmt;
use std::path::{Path, PathBuf};

use linux::groups::Layout;
use linux::system::Machine;
use linux::{KernelSetting, Root, counters, delays, swap};
use types::Bytes;

use crate::Error;
use crate::plan::{Mode, Plan, Tiers};
use crate::storage::Throttle;

/// A change.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeStep {
    /// Writes a value for the time of the run; the undo restores the old value.
    Set(KernelSetting),
    /// Writes a value; the second value undoes it.
    Toggle(KernelSetting, KernelSetting),
    /// Adds a zram device, and uses it as swap.
    Zram {
        /// The kernel's name of the compressor.
        compressor: Option<String>,
        /// The uncompressed size of the device.
        size: Bytes,
        /// The swap priority of the device.
        priority: i32,
    },
    /// Creates a swap file, and uses it.
    SwapFile {
        /// The path of the swap file.
        path: PathBuf,
        /// The size of the swap file.
        size: Bytes,
        /// The swap priority of the swap file.
        priority: i32,
    },
    /// Serves a swap area of two tiers.
    Serve {
        /// The tiers.
        tiers: Tiers,
        /// The folder of the slow tier and of swapd's files.
        folder: PathBuf,
        /// The size of the swap area.
        size: Bytes,
        /// The swap priority of the area.
        priority: i32,
    },
    /// Creates the groups for all applications, and applies their settings.
    Groups {
        /// The folder of the group with the limit, then one per application.
        folders: Vec<PathBuf>,
        /// The limit, and how the group swaps.
        settings: Vec<KernelSetting>,
    },
    /// Slows down reads of files.
    Slow {
        /// How.
        throttle: Throttle,
        /// The device to be as slow as.
        device: String,
    },
    /// Drops clean file pages from memory, so that all runs begin alike.
    DropCaches,
}

/// The state of a machine before a run.
#[derive(Clone, Debug)]
pub struct Situation {
    /// The machine.
    pub machine: Machine,
    /// Bytes that can be allocated without swapping.
    pub available_bytes: u64,
    /// Swap areas in use.
    pub areas: Vec<swap::Area>,
}

impl Situation {
    /// Reads the state of this machine.
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

    /// Bytes that a run must leave to the rest of the machine.
    pub fn reserve_bytes(&self) -> u64 {
        const ENOUGH: u64 = 8 << 30;
        ENOUGH.min(self.machine.memory_bytes / 3)
    }

    /// Bytes that a run may use.
    fn spare_bytes(&self) -> u64 {
        self.available_bytes.saturating_sub(self.reserve_bytes())
    }

    /// The size of zswap's pool in whole percent of the memory, rounded up.
    fn percent(&self, size: Bytes) -> u64 {
        (size.0 * 100).div_ceil(self.machine.memory_bytes.max(1)).clamp(1, 100)
    }
}

/// The steps of `plan`, in order; they are undone in reverse order.
///
/// # Errors
/// The operating system refuses.
pub fn steps(
    plan: &Plan,
    situation: &Situation,
    root: &Root,
    layout: &dyn Layout,
    folder: &Path,
) -> Result<Vec<ChangeStep>, Error> {
    let mut steps = swap_steps(plan, situation, folder);
    if root.exists(delays::SWITCH) {
        steps.push(ChangeStep::Set(KernelSetting::new(delays::SWITCH, 1)));
    }
    for (change, undo) in layout.preparation(root)? {
        steps.push(ChangeStep::Toggle(change, undo));
    }
    // Without a budget, the limit still leaves the machine its reserve.
    let limit_bytes = plan.limit().map_or(situation.spare_bytes(), |budget| budget.0);
    let mut settings = layout.limit(limit_bytes);
    if matches!(plan.mode, Mode::Kill | Mode::Minfree | Mode::NoLimit) {
        settings.extend(layout.without_swap(root, limit_bytes));
    } else {
        let swappiness = layout.swappiness(plan.swappiness);
        match swappiness.path.starts_with(layout.memory()) {
            true => settings.push(swappiness),
            false => steps.push(ChangeStep::Set(swappiness)),
        }
    }
    if plan.balloon.is_some() {
        settings.extend(layout.nested_limits());
    }
    if plan.mode == Mode::Minfree {
        // Applications inherit it: the adj of the visited application.
        steps.push(ChangeStep::Set(KernelSetting::new("/proc/self/oom_score_adj", 0)));
    }
    let storage = plan.storage.as_ref().map(|storage| {
        let throttle = storage.throttle(root, layout)?;
        Ok::<_, Error>(ChangeStep::Slow { throttle, device: storage.files.clone() })
    });
    let storage = storage.transpose()?;
    if let Some(ChangeStep::Slow { throttle, .. }) = &storage
        && let Some((change, undo)) = throttle.preparation.clone()
    {
        steps.push(ChangeStep::Toggle(change, undo));
    }
    let programs = plan.applications.keys().map(|name| layout.programs().join(name));
    let folders = std::iter::once(layout.memory().to_owned()).chain(programs).collect();
    steps.push(ChangeStep::Groups { folders, settings });
    steps.extend(storage);
    steps.push(ChangeStep::DropCaches);
    Ok(steps)
}

/// The memory that is touched before the first visit: as much as the applications may take, or a part of it if the
/// plan has no limit.
pub fn touched_bytes(plan: &Plan, situation: &Situation) -> u64 {
    const WITHOUT_LIMIT: u64 = 4 << 30;
    plan.limit().map_or(WITHOUT_LIMIT, |budget| budget.0).min(situation.spare_bytes())
}

/// The steps for the swap of a plan.
fn swap_steps(plan: &Plan, situation: &Situation, folder: &Path) -> Vec<ChangeStep> {
    let mut steps = Vec::new();
    let zram_size = plan.zram_size.unwrap_or_default();
    if plan.mode == Mode::Zswap {
        let parameter = |name: &str| format!("/sys/module/zswap/parameters/{name}");
        if let Some(compressor) = &plan.compressor {
            steps.push(ChangeStep::Set(KernelSetting::new(parameter("compressor"), compressor)));
        }
        let percent = situation.percent(zram_size);
        steps.push(ChangeStep::Set(KernelSetting::new(parameter("max_pool_percent"), percent)));
        steps.push(ChangeStep::Set(KernelSetting::new(parameter("enabled"), "Y")));
    }
    // A higher priority than all swap areas of the machine, so that the experiment does not use those.
    let mut priority = swap::PRIORITY_MAX;
    if plan.mode.has_zram() {
        let compressor = plan.compressor.clone();
        steps.push(ChangeStep::Zram { compressor, size: zram_size, priority });
        priority -= 1;
    }
    if let (Mode::Tiers, Some(tiers)) = (plan.mode, &plan.tiers) {
        let size = plan.swap_size.unwrap_or_default();
        let (tiers, folder) = (tiers.clone(), folder.to_owned());
        steps.push(ChangeStep::Serve { tiers, folder, size, priority });
    }
    if plan.mode.has_swap_file() {
        let size = plan.swap_size.unwrap_or_default();
        steps.push(ChangeStep::SwapFile { path: folder.join("swap"), size, priority });
    }
    steps
}

/// The reason why `plan` would use memory that the machine needs; None if it would not.
pub fn risk(plan: &Plan, situation: &Situation) -> Option<String> {
    let budget = plan.limit().unwrap_or_default();
    let has_pool = plan.mode.has_zram() || plan.mode == Mode::Zswap;
    let compressed = plan.zram_size.filter(|_| has_pool).unwrap_or_default();
    let locked = plan.tiers.as_ref().filter(|_| plan.mode == Mode::Tiers);
    let locked = locked.map_or(Bytes(0), |tiers| tiers.fast);
    let wanted = budget.0 + compressed.0 + locked.0;
    if wanted <= situation.spare_bytes() {
        return None;
    }
    Some(format!(
        "the plan may take {} of memory (budget {budget}, compressed swap {compressed}, fast \
         tier {locked}), the machine has {} available and must keep {}: make the budget smaller, or end other programs",
        Bytes(wanted),
        Bytes(situation.available_bytes),
        Bytes(situation.reserve_bytes()),
    ))
}

impl fmt::Display for ChangeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeStep::Set(KernelSetting { path, value }) => {
                write!(f, "write {value} to {}; then restore it", path.display())
            }
            ChangeStep::Toggle(KernelSetting { path, value }, undo) => {
                write!(f, "write {value} to {}; then {}", path.display(), undo.value)
            }
            ChangeStep::Zram { compressor, size, priority } => {
                let compressor = compressor.as_deref().unwrap_or("the kernel's compressor");
                write!(f, "add a zram device of {size} ({compressor}), swap priority {priority}")
            }
            ChangeStep::SwapFile { path, size, priority } => {
                write!(f, "swap to the file {} of {size}, priority {priority}", path.display())
            }
            ChangeStep::Serve { tiers, size, priority, .. } => {
                write!(
                    f,
                    "serve a swap area of {size} with {} in memory, policy {}, priority {priority}",
                    tiers.fast, tiers.policy
                )
            }
            ChangeStep::Groups { folders, settings } => {
                write!(f, "make {} cgroups below {}", folders.len(), folders[0].display())?;
                settings.iter().try_for_each(|KernelSetting { path, value }| {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    write!(f, ", {name} {value}")
                })
            }
            ChangeStep::Slow { throttle, device } => {
                write!(f, "slow down reads of files to those of {device}")?;
                throttle.settings.iter().try_for_each(|KernelSetting { path, value }| {
                    write!(f, ", {} {value}", path.display())
                })
            }
            ChangeStep::DropCaches => f.write_str("drop the page cache"),
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
        // All available memory but the reserve of 8 GiB.
        let spare = groups(&format!("memory.limit_in_bytes {}, memory.swappiness 0", 22 * GIB));
        assert_eq!(steps_of("no-limit", &layout), [&*spare, drop]);
        // 3 GiB of 32 GiB are 9.4 %.
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
        let v1 = V1::new(Path::new("/memory"), Path::new("/freezer"), "launch");
        assert_eq!(steps_of(&v1)[0], adj);
        let v2 = steps_of(&V2::new(Path::new("/cgroup"), "launch"));
        assert_eq!(v2[1], adj);
        assert!(v2[2].ends_with("memory.swap.max 0, cgroup.subtree_control +memory"), "{v2:?}");
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
        // Compressed swap takes memory in addition to the budget.
        let refusal = risk(&plan("zram"), &situation(32, 11)).unwrap();
        assert!(refusal.contains("may take 4GiB"), "{refusal}");
        assert_eq!(risk(&plan("no-limit"), &situation(32, 9)), None);
    }
}
