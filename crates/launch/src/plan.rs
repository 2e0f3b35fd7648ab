//! A plan: which applications run, in what order, under how much memory. docs/launch-lab.md tells
//! what each entry means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use types::Bytes;

use crate::{Error, size, text};

mod check;

pub use crate::balloon::Balloon;
pub use crate::killd::Minfree;

/// What a plan file says, defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name, for people.
    pub name: String,
    /// A file with more applications, relative to the plan's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<PathBuf>,
    /// The applications of a round, in order; without, that of `include`.
    #[serde(default)]
    pub order: Vec<String>,
    /// How many rounds, each of as many visits as `order` has entries.
    #[serde(default = "one")]
    pub rounds: u32,
    /// What every draw starts from.
    #[serde(default)]
    pub seed: u64,
    /// What applications have for memory when it runs short.
    pub mode: Mode,
    /// The limit of all applications together.
    #[serde(default, with = "size::optional", skip_serializing_if = "Option::is_none")]
    pub budget: Option<Bytes>,
    /// Size of the swap file.
    #[serde(default, with = "size::optional", skip_serializing_if = "Option::is_none")]
    pub swap_size: Option<Bytes>,
    /// Uncompressed size of the zram device; in mode zswap the largest size of its pool.
    #[serde(default, with = "size::optional", skip_serializing_if = "Option::is_none")]
    pub zram_size: Option<Bytes>,
    /// The compressor of zram or zswap, by the kernel's name; the kernel's default without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressor: Option<String>,
    /// How readily the kernel swaps, 0 to 200.
    #[serde(default = "swappiness")]
    pub swappiness: u32,
    /// Who is visited when.
    #[serde(default)]
    pub schedule: Schedule,
    /// The killer of mode kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<Kill>,
    /// The killer of mode minfree.
    #[serde(default, skip_serializing_if = "Minfree::is_default")]
    pub minfree: Minfree,
    /// What makes memory scarce in mode minfree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balloon: Option<Balloon>,
    /// How long an application is waited for.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// How long a user stays.
    #[serde(default)]
    pub pause: Pause,
    /// The applications by name.
    #[serde(default)]
    pub applications: BTreeMap<String, Application>,
}

/// What applications have for memory when it runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// As much as the machine can spare.
    NoLimit,
    /// A budget, and a file to swap to.
    SwapFile,
    /// A budget, and compressed swap in memory.
    Zram,
    /// A budget, compressed swap in memory, and a file to swap to when that is full.
    #[serde(rename = "zram+file")]
    ZramFile,
    /// A budget, and a file to swap to with a compressed cache in front of it.
    Zswap,
    /// A budget and no swap: the application used longest ago is killed.
    Kill,
    /// A budget, of which a balloon may hold a part, and no swap: killd kills by Android's table.
    Minfree,
}

/// Who is visited when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// The order, round after round.
    #[default]
    RoundRobin,
    /// Drawn: the i-th entry of the order with a weight of 1/i to the exponent.
    Zipf {
        /// 0 is uniform.
        exponent: f64,
    },
    /// As somebody used them: one name a line after the header `app`.
    Log {
        /// Relative to the plan.
        file: PathBuf,
    },
}

/// When the killer of mode kill acts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// Share of the budget that anonymous memory may take.
    pub threshold: f64,
}

/// How long an application is waited for before it is killed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// From the start of its program until it can be used.
    #[serde(with = "humantime_serde")]
    pub ready: Duration,
    /// From a request to its answer.
    #[serde(with = "humantime_serde")]
    pub answer: Duration,
}

/// How long a user stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pause {
    /// From the answer until the application is left and frozen.
    #[serde(with = "humantime_serde")]
    pub visit: Duration,
}

/// One application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What people are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Names the program that several applications run and share file pages of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// How it is spoken with.
    pub interface: Interface,
    /// line: how the line of output begins that says it can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// http: where it answers once it can be used; `url` without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_url: Option<String>,
    /// line: the line that it is sent; devtools: the expression that is awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// line: how the line of output begins that answers a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// http: what is fetched as a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// devtools: the page that it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Variables added to its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

/// How an application is spoken with.
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

/// What an included file may hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Included {
    #[serde(default)]
    order: Vec<String>,
    applications: BTreeMap<String, Application>,
}

fn one() -> u32 {
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
            Mode::Kill => "kill",
            Mode::Minfree => "minfree",
        })
    }
}

impl Mode {
    /// Whether it brings a swap file.
    pub fn has_swap_file(self) -> bool {
        matches!(self, Mode::SwapFile | Mode::ZramFile | Mode::Zswap)
    }

    /// Whether it brings a zram device.
    pub fn has_zram(self) -> bool {
        matches!(self, Mode::Zram | Mode::ZramFile)
    }
}

impl Plan {
    /// The plan in the file at `path` with what it includes, checked.
    ///
    /// # Errors
    /// What cannot be read, or makes no sense, with its place.
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
                    let what = format!("[applications.{name}] stands in {file} as well: keep one");
                    return Err(at(path, what));
                }
            }
        }
        // Those that are not run need not be there: several plans include the same file.
        plan.applications.retain(|name, _| plan.order.contains(name));
        if let Schedule::Log { file } = &mut plan.schedule {
            *file = beside(path, file);
        }
        plan.check().map_err(|what| at(path, what))?;
        Ok(plan)
    }

    /// The program that the application runs.
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
    fn what_makes_no_sense_is_refused_with_its_place() {
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
            ("order", "balloon = { size = '1MiB' }\norder", "mode swap-file has none"),
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
                "expected one such as http://127",
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
    fn an_included_file_gives_applications_and_what_is_not_run_is_left_out() {
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
        assert!(error.contains("stands in more.toml as well"), "{error}");
    }
}
