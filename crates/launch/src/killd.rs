//! The killer of mode minfree: `pagewise-agent killd` for the group of the run. It takes the importance of
//! applications from their adj; its log is RUNDIR/killd.log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use killer::{Kills, Reclaim};
use linux::groups::{self, Layout};
use linux::{KernelSetting, Root, process};
use policy::kill;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The names of its settings and its log in the folder of the results.
const SETTINGS: &str = "killd.toml";
const LOG: &str = "killd.log";
/// A killd that does not start in this time hangs.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The settings for the killer of mode minfree; killd's defaults apply to all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Minfree {
    /// `PAGES:ADJ,...`: below this number of free pages, processes with at least this adj may die.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<String>,
    /// Whether pages of files must be below the level, too.
    pub file_cache_counts: bool,
    /// Whether victims die one after the other, or in batches.
    pub kills: Kills,
    /// When the memory of victims is reclaimed.
    pub reclaim: Reclaim,
}

impl Default for Minfree {
    fn default() -> Minfree {
        Minfree {
            levels: None,
            file_cache_counts: true,
            kills: Kills::default(),
            reclaim: Reclaim::default(),
        }
    }
}

impl Minfree {
    pub(crate) fn is_default(&self) -> bool {
        *self == Minfree::default()
    }

    /// Checks the levels.
    ///
    /// # Errors
    /// The policy does not accept them.
    pub(crate) fn check(&self) -> Result<(), String> {
        let row = kill::find("minfree").expect("the catalog has it");
        let levels = self.levels.as_deref().map(|levels| ("minfree_levels", levels));
        let options: Vec<(&str, &str)> = levels.into_iter().collect();
        row.build(&options).map(|_| ())
    }

    /// The file of settings for killd. It protects the visited application and the balloon, which have adj 0.
    fn settings(&self) -> Result<String, Error> {
        let mut options = toml::Table::new();
        options.insert("file_cache_counts".to_owned(), self.file_cache_counts.into());
        if let Some(levels) = &self.levels {
            options.insert("minfree_levels".to_owned(), levels.as_str().into());
        }
        let settings = Settings {
            policy: "minfree",
            kills: self.kills,
            reclaim: self.reclaim,
            options,
            rule: [Rule { adj: [kill::ADJ_NEVER, 0], is: "protected" }],
        };
        toml::to_string(&settings)
            .map_err(|error| Error::Refused(format!("{SETTINGS} cannot be written: {error}")))
    }
}

#[derive(Serialize)]
struct Settings {
    policy: &'static str,
    kills: Kills,
    reclaim: Reclaim,
    options: toml::Table,
    rule: [Rule; 1],
}

#[derive(Serialize)]
struct Rule {
    adj: [i16; 2],
    is: &'static str,
}

/// An event of killd's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// killd killed a process.
    Kill { process: u32, at_ns: u64 },
    /// The memory of a victim is back, or killd no longer waits for it.
    Back { process: u32, at_ns: u64, freed_bytes: u64, time: Duration },
}

/// A running killd. When dropped, it is killed. It also ends with this program, however that ends.
pub(crate) struct Killd {
    child: Child,
    log: BufReader<File>,
    /// The incomplete last line.
    line: Vec<u8>,
}

impl Killd {
    /// Starts killd for the group of `layout`. Its settings and log are in `folder`, its other output is in `logs`.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn start(
        minfree: &Minfree,
        layout: &dyn Layout,
        folder: &Path,
        logs: &Path,
    ) -> Result<Killd, Error> {
        let (settings, log) = (folder.join(SETTINGS), folder.join(LOG));
        let create = |path: &Path| {
            File::create_new(path).map_err(|error| Error::file("created", path, &error))
        };
        create(&settings)?
            .write_all(minfree.settings()?.as_bytes())
            .map_err(|error| Error::file("written", &settings, &error))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("killd").arg("--cgroup").arg(layout.memory()).arg("--config").arg(&settings);
        command.stdin(Stdio::null()).stdout(create(&log)?).stderr(create(&logs.join("killd.txt"))?);
        let child = process::start_bound(&mut command)?;
        let file = File::open(&log).map_err(|error| Error::file("read", &log, &error))?;
        let mut killd = Killd { child, log: BufReader::new(file), line: Vec::new() };
        killd.wait_until_started(&log)?;
        Ok(killd)
    }

    /// Waits for the event in its log that it has started.
    fn wait_until_started(&mut self, log: &Path) -> Result<(), Error> {
        let late = Instant::now() + BEGINS_WITHIN;
        while !fs::read_to_string(log).is_ok_and(|text| text.contains("event=start ")) {
            if self.has_ended() || Instant::now() > late {
                let what = "killd did not start; its output is in logs/killd.txt";
                return Err(Error::Refused(what.to_owned()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Whether killd has ended, although the run continues.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The events in its log since the last call.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while self.log.read_until(b'\n', &mut self.line).is_ok_and(|length| length > 0) {
            // An incomplete line is completed later.
            if !self.line.ends_with(b"\n") {
                break;
            }
            events.extend(parse(&String::from_utf8_lossy(&self.line)));
            self.line.clear();
        }
        events
    }
}

impl Drop for Killd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses a line of the log; None for other events.
fn parse(line: &str) -> Option<Event> {
    let mut words = line.split_whitespace();
    let event = words.next()?.strip_prefix("event=")?;
    // In the line of a kill, its numbers come before the name, which the process has chosen.
    let mut number = |key: &str| -> Option<u64> {
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?.parse().ok()
    };
    let process = u32::try_from(number("process")?).ok()?;
    let at_ns = number("at_ns")?;
    match event {
        "kill" => Some(Event::Kill { process, at_ns }),
        "back" | "late" => Some(Event::Back {
            process,
            at_ns,
            freed_bytes: number("freed_bytes")?,
            time: Duration::from_micros(number("time_us")?),
        }),
        _ => None,
    }
}

/// Sets the adj of every process of every application, by how many applications were visited since.
pub(crate) fn rank(root: &Root, layout: &dyn Layout, last_visits: &BTreeMap<String, u64>) {
    for (name, visit) in last_visits {
        let later = last_visits.values().filter(|&other| other > visit).count();
        let adj = kill::adj_by_use(later);
        let folder = layout.programs().join(name);
        for process in groups::processes(root, &folder).unwrap_or_default() {
            // A process that has ended is ignored.
            let _ = KernelSetting::new(format!("/proc/{process}/oom_score_adj"), adj).apply(root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn killd_gets_the_settings_of_the_plan_and_a_rule_that_protects_adj_0() {
        let minfree = Minfree {
            levels: Some("2560:0,5120:900".to_owned()),
            file_cache_counts: false,
            kills: Kills::Batch,
            reclaim: Reclaim::First,
        };
        minfree.check().unwrap();
        assert_eq!(
            minfree.settings().unwrap(),
            "policy = \"minfree\"\nkills = \"batch\"\nreclaim = \"first\"\n\n[options]\n\
             file_cache_counts = false\nminfree_levels = \"2560:0,5120:900\"\n\n[[rule]]\n\
             adj = [-1000, 0]\nis = \"protected\"\n"
        );
        let wrong = Minfree { levels: Some("low".to_owned()), ..Minfree::default() };
        assert!(wrong.check().unwrap_err().contains("minfree_levels"));
    }

    #[test]
    fn log_lines_are_parsed_even_with_hostile_process_names() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join(LOG);
        let mut writer = File::create(&log).unwrap();
        let child = process::start_bound(Command::new("sleep").arg("1000")).unwrap();
        let reader = BufReader::new(File::open(&log).unwrap());
        let mut killd = Killd { child, log: reader, line: Vec::new() };
        let mut write = |bytes: &[u8]| std::io::Write::write_all(&mut writer, bytes).unwrap();
        write(b"event=start policy=minfree\nevent=kill process=7 at_ns=9 name=\xff) process=8");
        assert_eq!(killd.events(), []);
        write(b" why=\"x\"\nevent=back process=7 at_ns=2000009 freed_bytes=4096 gained_bytes=8192 time_us=2000\n");
        let back = Event::Back {
            process: 7,
            at_ns: 2_000_009,
            freed_bytes: 4096,
            time: Duration::from_millis(2),
        };
        assert_eq!(killd.events(), [Event::Kill { process: 7, at_ns: 9 }, back]);
        assert_eq!(killd.events(), []);
        assert!(!killd.has_ended());
    }

    #[test]
    fn the_application_used_longest_ago_has_the_highest_adj() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let layout = groups::V2::of(Path::new("/groups"));
        let mut visits = BTreeMap::new();
        for (name, process, visit) in [("a", 11, 9), ("b", 12, 2), ("c", 13, 8), ("d", 14, 3)] {
            fs::create_dir_all(root.path(format!("/groups/{name}"))).unwrap();
            fs::create_dir_all(root.path(format!("/proc/{process}"))).unwrap();
            // Process 15 has ended.
            let text = format!("{process}\n15\n");
            fs::write(root.path(format!("/groups/{name}/cgroup.procs")), text).unwrap();
            fs::write(root.path(format!("/proc/{process}/oom_score_adj")), "").unwrap();
            visits.insert(name.to_owned(), visit);
        }
        rank(&root, &layout, &visits);
        let adj = |process| root.read(format!("/proc/{process}/oom_score_adj")).unwrap().unwrap();
        assert_eq!([11, 12, 13, 14].map(adj), ["0", "910", "700", "900"]);
    }
}
