//! The killer of mode minfree: `pagewise-agent killd`, confined to the group of the run. It learns
//! how important applications are from their adj, and says what it does in RUNDIR/killd.log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use killer::{Kills, Reclaim};
use linux::groups::{self, Layout};
use linux::{Root, Setting, process};
use policy::kill;
use serde::{Deserialize, Serialize};

use crate::Error;

/// What it is told, and what it says, beside the other results.
const SETTINGS: &str = "killd.toml";
const LOG: &str = "killd.log";
/// One that does not begin in this time hangs.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// When the killer of mode minfree acts, and how; what is not said is as in killd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Minfree {
    /// `PAGES:ADJ,...`: below so many free pages, whoever has at least this adj.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<String>,
    /// Whether files in memory must be below the level, too.
    pub file_cache_counts: bool,
    /// Whether victims die one after the other.
    pub kills: Kills,
    /// When the memory of victims is taken.
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

    /// # Errors
    /// A table that the policy does not take.
    pub(crate) fn check(&self) -> Result<(), String> {
        let row = kill::find("minfree").expect("the catalog has it");
        let levels = self.levels.as_deref().map(|levels| ("minfree_levels", levels));
        let options: Vec<(&str, &str)> = levels.into_iter().collect();
        row.build(&options).map(|_| ())
    }

    /// The file of settings for killd. Whoever is visited has adj 0, as has the balloon.
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
            .map_err(|error| Error::Refused(format!("{SETTINGS} cannot be made: {error}")))
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

/// What it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It killed a process.
    Kill { process: u32, at_ns: u64 },
    /// The memory of one that it killed is back, or is waited for no longer.
    Back { process: u32, at_ns: u64, freed_bytes: u64, time: Duration },
}

/// A killer that runs. Dropped, it has ended; it ends with this program, too, however that ends.
pub(crate) struct Killd {
    child: Child,
    log: BufReader<File>,
    /// The line that is being read.
    line: Vec<u8>,
}

impl Killd {
    /// Starts it on the group of `layout`; its files lie in `folder`, what else it says in `logs`.
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
        let made =
            |path: &Path| File::create_new(path).map_err(|error| Error::file("made", path, &error));
        made(&settings)?
            .write_all(minfree.settings()?.as_bytes())
            .map_err(|error| Error::file("written", &settings, &error))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("killd").arg("--cgroup").arg(layout.memory()).arg("--config").arg(&settings);
        command.stdin(Stdio::null()).stdout(made(&log)?).stderr(made(&logs.join("killd.txt"))?);
        let child = process::start_bound(&mut command)?;
        let file = File::open(&log).map_err(|error| Error::file("read", &log, &error))?;
        let mut killd = Killd { child, log: BufReader::new(file), line: Vec::new() };
        killd.wait_until_it_looks(&log)?;
        Ok(killd)
    }

    /// It says so when it begins to look.
    fn wait_until_it_looks(&mut self, log: &Path) -> Result<(), Error> {
        let late = Instant::now() + BEGINS_WITHIN;
        while !fs::read_to_string(log).is_ok_and(|text| text.contains("event=start ")) {
            if self.has_ended() || Instant::now() > late {
                let what = "killd did not begin to look; what it says is in logs/killd.txt";
                return Err(Error::Refused(what.to_owned()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Whether it has ended, which nobody asked it for.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it said since this was asked last.
    pub(crate) fn heard(&mut self) -> Vec<Said> {
        let mut heard = Vec::new();
        while self.log.read_until(b'\n', &mut self.line).is_ok_and(|length| length > 0) {
            // Half a line is completed later.
            if !self.line.ends_with(b"\n") {
                break;
            }
            heard.extend(said(&String::from_utf8_lossy(&self.line)));
            self.line.clear();
        }
        heard
    }
}

impl Drop for Killd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of the log; none where it is of another event.
fn said(line: &str) -> Option<Said> {
    let mut words = line.split_whitespace();
    let event = words.next()?.strip_prefix("event=")?;
    let mut number = |key: &str| -> Option<u64> {
        words.next()?.strip_prefix(key)?.strip_prefix('=')?.parse().ok()
    };
    let process = u32::try_from(number("process")?).ok()?;
    let at_ns = number("at_ns")?;
    match event {
        "kill" => Some(Said::Kill { process, at_ns }),
        "back" | "late" => Some(Said::Back {
            process,
            at_ns,
            freed_bytes: number("freed_bytes")?,
            time: Duration::from_micros(number("time_us")?),
        }),
        _ => None,
    }
}

/// Gives every process of applications its adj, by the visits since their own.
pub(crate) fn rank(root: &Root, layout: &dyn Layout, last_visits: &BTreeMap<String, u64>) {
    for (name, visit) in last_visits {
        let later = last_visits.values().filter(|&other| other > visit).count();
        let adj = kill::adj_by_use(later);
        let folder = layout.programs().join(name);
        for process in groups::processes(root, &folder).unwrap_or_default() {
            // One that ended meanwhile needs none.
            let _ = Setting::new(format!("/proc/{process}/oom_score_adj"), adj).apply(root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_say_what_the_plan_says_and_who_is_spared() {
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
    fn lines_are_read_as_they_come_whatever_processes_are_called() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join(LOG);
        let mut writer = File::create(&log).unwrap();
        let child = process::start_bound(Command::new("sleep").arg("1000")).unwrap();
        let reader = BufReader::new(File::open(&log).unwrap());
        let mut killd = Killd { child, log: reader, line: Vec::new() };
        let mut write = |bytes: &[u8]| std::io::Write::write_all(&mut writer, bytes).unwrap();
        write(b"event=start policy=minfree\nevent=kill process=7 at_ns=9 name=\xff) process=8");
        assert_eq!(killd.heard(), []);
        write(b" why=\"x\"\nevent=back process=7 at_ns=2000009 freed_bytes=4096 time_us=2000\n");
        let back = Said::Back {
            process: 7,
            at_ns: 2_000_009,
            freed_bytes: 4096,
            time: Duration::from_millis(2),
        };
        assert_eq!(killd.heard(), [Said::Kill { process: 7, at_ns: 9 }, back]);
        assert_eq!(killd.heard(), []);
        assert!(!killd.has_ended());
    }

    #[test]
    fn who_was_used_longest_ago_is_least_important() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let layout = groups::V2::of(Path::new("/groups"));
        let mut visits = BTreeMap::new();
        for (name, process, visit) in [("a", 11, 9), ("b", 12, 2), ("c", 13, 8), ("d", 14, 3)] {
            fs::create_dir_all(root.path(format!("/groups/{name}"))).unwrap();
            fs::create_dir_all(root.path(format!("/proc/{process}"))).unwrap();
            // 15 ended meanwhile.
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
