//! A plan: the applications of a run, their order, and their memory. docs/launch-lab.md describes each
//! entry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use types::Bytes;

use crate::{Error, size, text};

mod check;

pub use crate::balloon::Balloon;
pub use crate::killd::Minfree;
pub use crate::storage::Storage;
pub use crate::tiers::Tiers;

/// The entries of a plan file, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The name of the plan, for output.
    pub name: String,
    /// A file with more applications, relative to the plan. Not written: what it has is filled in.
    #[serde(skip_serializing)]
    pub include: Option<PathBuf>,
    /// The applications of a round, in order; if empty, the order of `include`.
    #[serde(default)]
    pub order: Vec<String>,
    /// The number of rounds; a round has a visit per entry of `order`.
    #[serde(default = "default_rounds")]
    pub rounds: u32,
    /// The seed of all random draws.
    #[serde(default)]
    pub seed: u64,
    /// How memory is limited, and what happens when it runs short.
    pub mode: Mode,
    /// The limit of all applications together.
    #[serde(default, with = "size::optional", skip_serializing_if = "Option::is_none")]
    pub budget: Option<Bytes>,
    /// Size of the swap file, or of the swap area of mode tiers.
    #[serde(default, with = "size::optional", skip_serializing_if = "Option::is_none")]
    pub swap_size: Option<Bytes>,
    /// The uncompressed size of the zram device; in mode zswap, the largest size of its pool.
    #[serde(default, with = "size::optional", skip_serializing_if = "Option::is_none")]
    pub zram_size: Option<Bytes>,
    /// The kernel's name of the compressor of zram or zswap; None for the kernel's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressor: Option<String>,
    /// The swap area of mode tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Tiers>,
    /// The kernel's swappiness, 0 to 200.
    #[serde(default = "swappiness")]
    pub swappiness: u32,
    /// Whether relaunchd freezes and thaws the applications, and prefetches what a visit is expected to use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefetch: bool,
    /// The order in which relaunchd reads pages; None for its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch_order: Option<relaunch::Order>,
    /// Whether relaunchd, when it freezes an application, pages out the pages that it does not predict.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefetch_page_out: bool,
    /// Whether relaunchd, when it freezes an application, makes the pages that stay in memory cold, so that the kernel
    /// reclaims them first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefetch_cold: bool,
    /// The storage that files are read from; None for the machine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// The order of visits.
    #[serde(default)]
    pub schedule: Schedule,
    /// The killer of mode kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<KillSettings>,
    /// The killer of mode minfree.
    #[serde(default, skip_serializing_if = "Minfree::is_default")]
    pub minfree: Minfree,
    /// The balloon of mode minfree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balloon: Option<Balloon>,
    /// How long the lab waits for an application.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The pause after an answer.
    #[serde(default)]
    pub pause: Pause,
    /// The applications by name.
    #[serde(default)]
    pub applications: BTreeMap<String, Application>,
}

/// How memory is limited, and what happens when it runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// No budget: as much memory as the machine can spare, and no swap.
    NoLimit,
    /// A budget and a swap file.
    SwapFile,
    /// A budget and zram.
    Zram,
    /// A budget, zram, and a swap file for when zram is full.
    #[serde(rename = "zram+file")]
    ZramFile,
    /// A budget, and a swap file behind zswap.
    Zswap,
    /// A budget, and a swap area of two tiers that swapd serves.
    Tiers,
    /// A budget and no swap: the lab kills the application used longest ago.
    Kill,
    /// A budget, of which a balloon may hold a part, and no swap: killd kills by Android's minfree levels.
    Minfree,
}

/// The order of visits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// `order`, repeated each round.
    #[default]
    RoundRobin,
    /// Random draws: the i-th entry of `order` has the weight 1/i^exponent.
    Zipf {
        /// The exponent; 0 is uniform.
        exponent: f64,
    },
    /// A usage log: a name per line, after the header `app`.
    Log {
        /// The path of the log, relative to the plan.
        file: PathBuf,
    },
}

/// The settings for the killer of mode kill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillSettings {
    /// The share of the budget in anonymous memory above which it kills.
    pub threshold: f64,
}

/// How long the lab waits for an application before it kills it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// From the start of its program until it is ready.
    #[serde(with = "humantime_serde")]
    pub ready: Duration,
    /// From a request to its answer.
    #[serde(with = "humantime_serde")]
    pub answer: Duration,
}

/// The pause after an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pause {
    /// From the answer until the application is frozen.
    #[serde(with = "humantime_serde")]
    pub visit: Duration,
}

/// An application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The name of the program, if several applications run the same program and share its file pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The interface by which the application is started and used.
    pub interface: Interface,
    /// line: the beginning of the line of output that reports that it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// http: the URL that answers when it is ready; None for `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_url: Option<String>,
    /// line: the line that is sent; devtools: the expression that is evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// line: the beginning of the line of output that answers a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// http: the URL of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// devtools: the page that it opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Variables added to its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

/// The interface between the lab and an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// Lines of standard input and output.
    Line,
    /// HTTP over a local port.
    Http,
    /// The DevTools protocol of Chromium over a local port.
    Devtools,
}

/// The entries of an included file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Included {
    #[serde(default)]
    order: Vec<String>,
    applications: BTreeMap<String, Application>,
}

fn default_rounds() -> u32 {
    1
}

fn swappiness() -> u32 {
    100
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let time = Duration::from_secs(60);
        Timeouts { ready: time, answer: time }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::NoLimit => "no-limit",
            Mode::SwapFile => "swap-file",
            Mode::Zram => "zram",
            Mode::ZramFile => "zram+file",
            Mode::Zswap => "zswap",
            Mode::Tiers => "tiers",
            Mode::Kill => "kill",
            Mode::Minfree => "minfree",
        })
    }
}

impl Mode {
    /// Whether the mode uses a swap file.
    pub fn has_swap_file(self) -> bool {
        matches!(self, Mode::SwapFile | Mode::ZramFile | Mode::Zswap)
    }

    /// Whether the mode uses swap.
    pub fn has_swap(self) -> bool {
        self.has_swap_file() || self.has_zram() || self == Mode::Tiers
    }

    /// Whether the mode uses a zram device.
    pub fn has_zram(self) -> bool {
        matches!(self, Mode::Zram | Mode::ZramFile)
    }
}

impl Plan {
    /// The budget, if the mode has one.
    pub fn limit(&self) -> Option<Bytes> {
        self.budget.filter(|_| self.mode != Mode::NoLimit)
    }

    /// Reads and checks the plan in the file at `path` and in the file that it includes.
    ///
    /// # Errors
    /// A file cannot be read, or an entry is invalid; with the place.
    pub fn read(path: &Path) -> Result<Plan, Error> {
        let mut plan: Plan = parse(path)?;
        if let Some(include) = &plan.include {
            let included: Included = parse(&beside(path, include))?;
            if plan.order.is_empty() {
                plan.order = included.order;
            }
            for (name, application) in included.applications {
                if plan.applications.insert(name.clone(), application).is_some() {
                    let file = include.display();
                    let what = format!("[applications.{name}] is also in {file}: remove one");
                    return Err(at(path, what));
                }
            }
        }
        // Several plans include the same file, so drop the applications that this plan does not run.
        plan.applications.retain(|name, _| plan.order.contains(name));
        if let Schedule::Log { file } = &mut plan.schedule {
            *file = beside(path, file);
        }
        plan.check().map_err(|what| at(path, what))?;
        Ok(plan)
    }

    /// The name of the program that the application runs.
    pub fn program(&self, name: &str) -> String {
        let program =
            self.applications.get(name).and_then(|application| application.program.clone());
        program.unwrap_or_else(|| name.to_owned())
    }
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    toml::from_str(&text::read(path)?).map_err(|error| at(path, error.to_string().trim_end()))
}

fn at(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::Plan(format!("{}: {what}", path.display()))
}

/// `name` relative to the folder of the file at `path`.
fn beside(path: &Path, name: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SMALL: &str = r#"
name = "small"
order = ["notes"]
mode = "swap-file"
budget = "64MiB"
swap_size = "1GiB"
[applications.notes]
command = ["cat"]
interface = "line"
ready = "ready"
request = "visit {round}"
answer = "done"
"#;

    fn read(text: &str) -> Result<Plan, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, text).unwrap();
        Plan::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_filled_in() {
        let plan = read(SMALL).unwrap();
        assert_eq!((plan.rounds, plan.swappiness, plan.seed), (1, 100, 0));
        assert_eq!(plan.schedule, Schedule::RoundRobin);
        assert_eq!(plan.timeouts.answer, Duration::from_secs(60));
        assert_eq!(plan.program("notes"), "notes");
        let again: Plan = toml::from_str(&toml::to_string(&plan).unwrap()).unwrap();
        assert_eq!(again, plan);
    }

    #[test]
    fn an_invalid_entry_is_refused_with_its_place() {
        for (from, to, expected) in [
            ("\"notes\"]\n", "\"maps\"]\n", "\"maps\" has no [applications.maps]"),
            ("\"notes\"]\n", "\"../notes\"]\n", "letters, digits"),
            ("[\"notes\"]\n", "[]\n", "order: name at least one"),
            ("order", "rounds = 0\norder", "rounds: 0: expected 1 to 100000"),
            ("order", "rounds = 4000000000\norder", "rounds: 4000000000: expected"),
            ("order", "colour = 'red'\norder", "unknown field `colour`"),
            ("\"swap-file\"", "\"swap\"", "unknown variant `swap`"),
            ("budget = \"64MiB\"", "", "mode swap-file needs `budget`"),
            ("\"64MiB\"", "\"64\"", "expected a size such as 650MiB"),
            ("\"64MiB\"", "\"64KiB\"", "budget: 64KiB: expected 1MiB or more"),
            ("swap_size = \"1GiB\"", "", "mode swap-file needs `swap_size`"),
            ("\"swap-file\"", "\"zram\"", "mode zram needs `zram_size`"),
            ("\"swap-file\"", "\"kill\"", "mode kill needs [kill]"),
            ("\"swap-file\"", "\"tiers\"", "mode tiers needs `tiers`"),
            (
                "\"swap-file\"",
                "\"tiers\"\ntiers = { policy = 'flash', fast = '4MiB', emulate = { disk = 'hdd' } }",
                "tiers.emulate: disk: expected fast or slow",
            ),
            (
                "\"swap-file\"",
                "\"tiers\"\ntiers = { policy = 'flash', fast = '4MiB', through = 'zram' }",
                "tiers.through: zram: expected any, ublk, nbd or fuse",
            ),
            (
                "order",
                "balloon = { size = '1MiB' }\norder",
                "only mode minfree has one, not mode swap-file",
            ),
            (
                "\"swap-file\"",
                "\"minfree\"\nballoon = { size = '64MiB' }",
                "balloon.size: 64MiB: expected 1MiB or more, and less than budget 64MiB",
            ),
            ("\"swap-file\"", "\"minfree\"\nminfree = { levels = 'low' }", "minfree_levels"),
            (
                "\"swap-file\"",
                "\"minfree\"\nminfree = { kills = 'all' }",
                "expected `serial` or `batch`",
            ),
            ("order", "swappiness = 201\norder", "swappiness: 201: expected 0 to 200"),
            ("order", "prefetch_order = 'use'\norder", "prefetch_order needs `prefetch = true`"),
            ("order", "prefetch_page_out = true\norder", "prefetch_page_out needs `prefetch"),
            ("order", "prefetch_cold = true\norder", "prefetch_cold needs `prefetch = true`"),
            ("order", "schedule = { kind = 'zipf' }\norder", "missing field `exponent`"),
            ("visit {round}", "a\\nb", "applications.notes: request: \"a\\nb\": expected one line"),
            ("[\"cat\"]", "['cat', \"\\u0000\"]", "command: \"\\0\": expected no NUL"),
            (
                "answer =",
                "environment = { 'A=B' = 'c' }\nanswer =",
                "environment: \"A=B\": expected",
            ),
            (
                "answer =",
                "url = 'http://example.org/'\nanswer =",
                "expected a local URL such as http://127",
            ),
            ("order", "timeouts = { ready = 'soon' }\norder", "soon"),
            ("[\"cat\"]", "[]", "applications.notes: command: expected a program"),
            ("ready = \"ready\"", "", "applications.notes: interface line needs `ready`"),
            ("\"line\"", "\"http\"", "applications.notes: interface http needs `url`"),
        ] {
            let error = read(&SMALL.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains("plan.toml") && error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn an_included_file_adds_only_the_applications_that_run() {
        let folder = tempfile::tempdir().unwrap();
        let (head, application) = SMALL.split_at(SMALL.find("[applications").unwrap());
        let more = application.replace("notes", "maps");
        fs::write(folder.path().join("more.toml"), format!("{application}{more}")).unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, format!("include = 'more.toml'\n{head}")).unwrap();
        let plan = Plan::read(&path).unwrap();
        assert_eq!(plan.applications.keys().collect::<Vec<_>>(), ["notes"]);
        let more = format!("order = ['maps']\n{application}{more}");
        fs::write(folder.path().join("more.toml"), more).unwrap();
        assert_eq!(Plan::read(&path).unwrap().order, ["notes"]);
        let without = head.replace("order = [\"notes\"]\n", "");
        fs::write(&path, format!("include = 'more.toml'\n{without}")).unwrap();
        assert_eq!(Plan::read(&path).unwrap().order, ["maps"]);
        fs::write(&path, format!("include = 'more.toml'\n{SMALL}")).unwrap();
        let error = Plan::read(&path).unwrap_err().to_string();
        assert!(error.contains("is also in more.toml"), "{error}");
    }
}
