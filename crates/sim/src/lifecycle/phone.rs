//! A phone, its apps and the costs of its kernel: the input of a simulated life.
//! docs/lifecycle.md gives the source of every default.

use crate::Error;
use crate::regions::MIB_PAGES;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An app: its memory, and the times of its launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// Name in results.
    pub name: String,
    /// Anonymous memory, which the end of the app frees.
    pub anonymous_mib: u32,
    /// Files that no other app maps.
    #[serde(default)]
    pub file_mib: u32,
    /// Names of the libraries that the app maps.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// Threads that a kill has to end.
    #[serde(default = "default_threads")]
    pub threads: u32,
    /// Time of a cold launch with ample memory and all files in memory, in milliseconds.
    pub cold_ms: f64,
    /// Time of a launch of the running app with everything in memory, in milliseconds.
    pub warm_ms: f64,
    /// Share of its memory and files that a visit of the running app uses, in percent; absent: the
    /// phone's value.
    #[serde(default)]
    pub used_percent: Option<u32>,
    /// Share of its files and of what it uses of libraries that a visit of the running app uses, in
    /// percent; absent: `used_percent` of its files, and all that it uses of libraries.
    #[serde(default)]
    pub file_percent: Option<u32>,
    /// Touches of files that a cold launch repeats.
    #[serde(default)]
    pub cold_again: Vec<Again>,
    /// Touches of files that a launch of the running app repeats.
    #[serde(default)]
    pub warm_again: Vec<Again>,
}

/// Repeated touches of files within one launch, all at one reuse distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Again {
    /// MiB of other file pages that the launch touched since it last touched the page.
    pub mib: u32,
    /// Number of these touches, in percent of the file pages that the launch touches.
    pub percent: u32,
}

fn default_threads() -> u32 {
    // Between the 13 and 41 of the paper's two victims (S2.4): their geometric mean.
    23
}

/// Files that several apps map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// Name that apps use.
    pub name: String,
    /// Size in MiB.
    pub mib: u32,
    /// Share of it that each app uses, drawn at random per app, in percent.
    #[serde(default = "all_percent")]
    pub linked_percent: u32,
}

fn all_percent() -> u32 {
    100
}

/// How the memory of victims is freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KillOrder {
    /// One victim at a time, freed as its last thread exits: Android's driver of 2014.
    #[default]
    Serial,
    /// As many victims at once as free the wanted memory, and the next when all are gone.
    Batch,
    /// One at a time; the killer frees its pages while its threads still exit (process_mrelease).
    ReclaimFirst,
    /// One at each call, even if the memory of earlier victims is not free yet: killers that wait only for
    /// a time. It serves as a comparison.
    Impatient,
}

/// The killer, and its rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, tag = "by")]
pub enum KillRule {
    /// No killer; only the kernel kills, if it finds nothing to reclaim.
    None,
    /// The launch lab's rule: the app used longest ago, while anonymous memory is above this share.
    Threshold {
        /// Share of memory, above 0 and up to 1.
        share: f64,
    },
    /// A policy of the catalog of kill policies.
    Policy {
        /// Name in the catalog.
        name: String,
        /// Options that are set, by name.
        #[serde(default)]
        options: BTreeMap<String, String>,
    },
}

/// The killer of a phone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillerSpec {
    /// Rule of the killer.
    pub rule: KillRule,
    /// The order in which the killer chooses its victims.
    #[serde(default)]
    pub order: KillOrder,
    /// Interval between its calls, in milliseconds; it is also called when memory is reclaimed.
    #[serde(default = "default_poll")]
    pub poll_ms: f64,
}

fn default_poll() -> f64 {
    // lmkd polls every 10 ms while memory is short (PSI_POLL_PERIOD_SHORT_MS of its lmkd.cpp).
    10.0
}

/// Times of the kernel's work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// Delivery of a kill, per thread of the victim.
    pub signal_ns_per_thread: u64,
    /// Exit of a thread.
    pub exit_ns_per_thread: u64,
    /// Unmapping and freeing a page of a victim.
    pub free_ns_per_page: u64,
    /// Judging a page in reclaim.
    pub judge_ns_per_page: u64,
    /// Evicting a page: unmap it, and start its write or drop it.
    pub evict_ns_per_page: u64,
    /// Reading a page of a file together with its neighbours; null: the slow device's time.
    pub file_read_ns_per_page: Option<u64>,
}

impl Default for Costs {
    /// The costs of a kill are laws of killtrace (docs/lifecycle.md; Linux 6.18, 2026-11-22; 135 kills on a quiet machine
    /// for the threads, 105 for the pages): 2.16 and 8.98 us per thread, 68.6 us per MiB. Their intercepts, 32, 76
    /// and -131 us, sum to -22 us per kill, which is omitted (S2.6: about 0).
    fn default() -> Costs {
        Costs {
            signal_ns_per_thread: 2_160,
            exit_ns_per_thread: 8_980,
            free_ns_per_page: 268,
            judge_ns_per_page: 200,
            evict_ns_per_page: 1_000,
            file_read_ns_per_page: None,
        }
    }
}

/// A phone and its user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phone {
    /// Memory that apps, libraries and services share.
    pub memory_mib: u32,
    /// Size of the swap area; 0 is swap off.
    #[serde(default)]
    pub swap_mib: u32,
    /// Whether memory is that of a machine, with watermarks and a background reclaimer, or the limit of a
    /// memory cgroup, which has neither.
    #[serde(default = "yes")]
    pub is_machine: bool,
    /// Number of processors.
    #[serde(default = "default_cores")]
    pub cores: u32,
    /// Threads that a launching app keeps busy.
    #[serde(default = "default_busy")]
    pub busy_threads: u32,
    /// The apps.
    pub apps: Vec<App>,
    /// Libraries that the apps share.
    #[serde(default)]
    pub libraries: Vec<Library>,
    /// Anonymous memory of the system's services; every visit uses a part of it.
    #[serde(default)]
    pub services_mib: u32,
    /// The app of every visit, by its index.
    pub visits: Vec<u32>,
    /// How long an app is used after its launch, in milliseconds.
    #[serde(default)]
    pub use_ms: f64,
    /// Whether this use reads pages that were evicted again. If not, it marks those in memory as used.
    #[serde(default = "yes")]
    pub is_use_reading: bool,
    /// Share of its memory that a visit of a running app uses, in percent.
    #[serde(default = "default_used")]
    pub used_percent: u32,
    /// Share of the used pages that are the same at every visit, in percent.
    #[serde(default = "default_core")]
    pub core_percent: u32,
    /// Share of the touched anonymous pages that are written, in percent.
    #[serde(default = "default_write")]
    pub write_percent: u32,
    /// Whether file pages pass through the architecture's tiers, or bypass them to the slow device.
    #[serde(default)]
    pub tiers_hold_files: bool,
    /// The killer.
    pub killer: KillerSpec,
    /// Costs of the kernel's work.
    #[serde(default)]
    pub costs: Costs,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
}

fn yes() -> bool {
    true
}

fn default_cores() -> u32 {
    // Nexus 5, Odroid-Q and Pixel have four (S0.2, S2.1).
    4
}

fn default_busy() -> u32 {
    2
}

fn default_used() -> u32 {
    30
}

fn default_core() -> u32 {
    80
}

fn default_write() -> u32 {
    34
}

/// Longest time in a phone's parameters, in milliseconds: a day.
const MS_MAX: f64 = 86_400_000.0;

/// Most repeated touches of a launch, in percent of the file pages it touches: they take memory and time.
const AGAIN_PERCENT_MAX: u64 = 10_000;

impl Phone {
    /// Pages of all apps, libraries and services together.
    pub(super) fn pages(&self) -> u64 {
        let of_apps = self.apps.iter().flat_map(|app| [app.anonymous_mib, app.file_mib]);
        let of_libraries = self.libraries.iter().map(|library| library.mib);
        let mib = of_apps.chain(of_libraries).chain([self.services_mib]).map(u64::from);
        mib.sum::<u64>() * u64::from(MIB_PAGES)
    }

    /// # Errors
    /// `Usage`: the first parameter out of its range, by name.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.check_ranges()?;
        self.check_times()?;
        for app in &self.apps {
            for name in &app.libraries {
                if !self.libraries.iter().any(|library| library.name == *name) {
                    let known: Vec<&str> =
                        self.libraries.iter().map(|library| library.name.as_str()).collect();
                    return Err(Error::usage(format!(
                        "phone: app {} maps the library {name}; there are: {}",
                        app.name,
                        known.join(", ")
                    )));
                }
            }
        }
        if let Some(visit) = self.visits.iter().find(|&&visit| visit as usize >= self.apps.len()) {
            return Err(Error::usage(format!(
                "phone: a visit of app {visit}, of {} apps counted from 0",
                self.apps.len()
            )));
        }
        Ok(())
    }

    fn check_ranges(&self) -> Result<(), Error> {
        let mut ranges = vec![
            ("memory_mib", u64::from(self.memory_mib), 16, 65_536),
            ("swap_mib", u64::from(self.swap_mib), 0, 1 << 20),
            ("cores", u64::from(self.cores), 1, 1024),
            ("busy_threads", u64::from(self.busy_threads), 1, 1024),
            ("number of apps", self.apps.len() as u64, 1, 1000),
            ("number of visits", self.visits.len() as u64, 0, 1_000_000),
            ("services_mib", u64::from(self.services_mib), 0, 65_536),
            ("used_percent", u64::from(self.used_percent), 1, 100),
            ("core_percent", u64::from(self.core_percent), 1, 100),
            ("write_percent", u64::from(self.write_percent), 0, 100),
        ];
        for library in &self.libraries {
            ranges.push(("mib of a library", u64::from(library.mib), 0, 65_536));
            ranges.push(("linked_percent", u64::from(library.linked_percent), 0, 100));
        }
        let mut mib = u64::from(self.services_mib);
        mib += self.libraries.iter().map(|library| u64::from(library.mib)).sum::<u64>();
        for app in &self.apps {
            ranges.push(("anonymous_mib of an app", u64::from(app.anonymous_mib), 0, 65_536));
            ranges.push(("file_mib of an app", u64::from(app.file_mib), 0, 65_536));
            let used_percent = u64::from(app.used_percent.unwrap_or(self.used_percent));
            ranges.push(("used_percent of an app", used_percent, 1, 100));
            ranges.push(("threads of an app", u64::from(app.threads), 1, 100_000));
            ranges.push((
                "file_percent of an app",
                u64::from(app.file_percent.unwrap_or(100)),
                1,
                100,
            ));
            for again in [&app.cold_again, &app.warm_again] {
                ranges.extend(
                    again.iter().map(|again| ("mib of again", u64::from(again.mib), 1, 65_536)),
                );
                let percent = again.iter().map(|again| u64::from(again.percent)).sum();
                ranges.push((
                    "percent of again, summed over a launch,",
                    percent,
                    0,
                    AGAIN_PERCENT_MAX,
                ));
            }
            mib += u64::from(app.anonymous_mib) + u64::from(app.file_mib);
        }
        // Page numbers are 32 bits; this is 1 TiB.
        ranges.push(("MiB of all apps", mib, 0, 1 << 20));
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                let why = format!("phone: {name} = {value} is not between {least} and {most}");
                return Err(Error::usage(why));
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), Error> {
        let of_apps = self.apps.iter().flat_map(|app| [app.cold_ms, app.warm_ms]);
        for ms in of_apps.chain([self.use_ms, self.killer.poll_ms]) {
            if !(0.0..=MS_MAX).contains(&ms) {
                let why = format!("phone: {ms} ms is not between 0 and {MS_MAX}");
                return Err(Error::usage(why));
            }
        }
        if self.killer.poll_ms <= 0.0 {
            return Err(Error::usage("phone: the killer's poll_ms must be above 0"));
        }
        if let KillRule::Threshold { share } = self.killer.rule
            && !(share > 0.0 && share <= 1.0)
        {
            let why = format!("phone: the killer's share {share} is not above 0 and up to 1");
            return Err(Error::usage(why));
        }
        Ok(())
    }
}

/// Milliseconds as whole nanoseconds; `check` keeps them in range.
pub(super) fn nanos(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}
