//! `pagewise-agent record --ring`: the options of the ring, and what it reports while it runs.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use clap::Args;
use humantime::format_duration;
use recorder::Stop;
use recorder::ring::{Cause, KeptFile, News, RingOptions, RingStop, RingTrigger};
use serde_json::json;
use signal_hook::consts::SIGUSR1;
use signal_hook::flag;
use trace::recording::Missing;
use types::Bytes;

use crate::arguments::parse_time;
use crate::ending::Ending;
use crate::exit::Exit;
use crate::interrupt::refused;
use crate::output::say;

/// Bounds of --ring.
const LENGTH_MIN: Duration = Duration::from_secs(1);
const LENGTH_MAX: Duration = Duration::from_secs(240 * 3600);
/// The default of --after for a ring that is not shorter.
const AFTER: Duration = Duration::from_secs(30);
/// Bounds of --ring-bytes.
const BYTES_MIN: u64 = 1 << 20;
const BYTES_MAX: u64 = 16 << 30;

/// The options of a ring.
#[derive(Args)]
pub struct RingArguments {
    /// Run until Ctrl-C with only the last TIME in memory, and write it to a file in the folder -o at a trigger: by
    /// default when a process gets SIGKILL, or record gets SIGUSR1.
    #[arg(long = "ring", value_name = "TIME", value_parser = parse_time)]
    length: Option<Duration>,
    /// The most memory for the events of --ring, at least twice --buffer; a busy machine fills it in less than TIME.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", requires = "length")]
    ring_bytes: Bytes,
    /// What makes --ring write a file, separated by commas: kill (SIGKILL from any sender), oom-kill (the kernel's OOM
    /// killer), psi=some:20% or psi=full:5% (stalls for memory in the last 10 s), signal (only SIGUSR1, which always
    /// triggers).
    #[arg(
        long,
        value_name = "TRIGGERS",
        value_delimiter = ',',
        default_value = "kill",
        requires = "length"
    )]
    keep_on: Vec<RingTrigger>,
    /// How long a file continues after the last trigger, at most the time of --ring. Further triggers prolong a file,
    /// but never beyond the time of --ring after its first trigger. The default is 30s, or the time of --ring if that
    /// is shorter.
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "length")]
    after: Option<Duration>,
    /// The most files to keep. After each further file, the oldest file of this run is removed.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..),
        requires = "length"
    )]
    keep: u32,
    /// Write no file that would leave less than this free on its disk.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "length")]
    leave_free: Bytes,
}

impl RingArguments {
    /// Whether there is a ring for which kills are a trigger.
    pub fn waits_for_kills(&self) -> bool {
        let is_of_kills =
            |trigger: &RingTrigger| matches!(trigger, RingTrigger::Kill | RingTrigger::OomKill);
        self.length.is_some() && self.keep_on.iter().any(is_of_kills)
    }

    /// The options of the ring, if there is to be one, for a buffer of `buffer` bytes.
    pub fn options(&self, buffer: u32) -> Result<Option<RingOptions>, Exit> {
        let Some(length) = self.length else { return Ok(None) };
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&length) {
            return Err(Exit::Usage("--ring: expected a time from 1s to 240h".to_owned()));
        }
        let after = self.after.unwrap_or(AFTER.min(length));
        if after > length {
            let (after, length) = (format_duration(after), format_duration(length));
            return Err(Exit::Usage(format!(
                "--after {after}: a file continues for at most {length} after its trigger, the time of --ring; \
                 give a shorter --after or a longer --ring"
            )));
        }
        let Bytes(bytes) = self.ring_bytes;
        // What the full buffer holds must fit beside older events.
        let bytes_min = BYTES_MIN.max(2 * u64::from(buffer));
        let bytes = (bytes_min..=BYTES_MAX)
            .contains(&bytes)
            .then(|| usize::try_from(bytes).ok())
            .flatten()
            .ok_or_else(|| {
                let bytes_min = Bytes(bytes_min);
                Exit::Usage(format!(
                    "--ring-bytes: expected a size from {bytes_min} to 16GiB; it must be at least \
                     twice --buffer"
                ))
            })?;
        Ok(Some(RingOptions {
            length,
            bytes,
            triggers: self.keep_on.clone(),
            after,
            files_max: self.keep as usize,
            free_bytes: self.leave_free.0,
        }))
    }
}

/// Ends a ring as any recording ends, and prints its news to standard error.
pub struct RingEnding {
    ending: Ending,
    is_asked: Arc<AtomicBool>,
    /// The files that were kept so far.
    pub kept: KeptFiles,
}

/// The files of a ring that were not removed.
#[derive(Default)]
pub struct KeptFiles {
    files: VecDeque<KeptFile>,
    /// Files that were written, also those that were removed.
    count: u64,
    /// Triggers for which no file could be written.
    pub not_kept: u64,
}

impl RingEnding {
    /// Listens for SIGUSR1 from now on.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new(ending: Ending) -> Result<RingEnding, Exit> {
        let is_asked = Arc::new(AtomicBool::new(false));
        flag::register(SIGUSR1, Arc::clone(&is_asked)).map_err(refused)?;
        Ok(RingEnding { ending, is_asked, kept: KeptFiles::default() })
    }
}

impl Stop for RingEnding {
    fn ready(&mut self, absent: &[Missing]) {
        self.ending.ready(absent);
    }

    fn start(&mut self) -> std::io::Result<()> {
        self.ending.start()
    }

    fn is_over(&mut self) -> Option<Option<i32>> {
        self.ending.is_over()
    }
}

impl RingStop for RingEnding {
    fn asks_to_keep(&mut self) -> bool {
        self.is_asked.swap(false, Ordering::Relaxed)
    }

    fn report(&mut self, news: &News) {
        match news {
            News::Started(unspared) => {
                if let Some(why) = unspared {
                    say(format_args!(
                        "warning: the kernel's OOM killer may choose the recorder, with all it has \
                         in memory: oom_score_adj cannot be set: {why}"
                    ));
                }
                say("recording into memory; SIGUSR1 writes a file, Ctrl-C ends");
            }
            News::Missing(Missing { what, why }) => {
                say(format_args!("not recorded: {what}: {why}"))
            }
            News::Begun(path, cause) => {
                say(format_args!("{}: begun because of {}", path.display(), in_words(cause)));
            }
            News::Kept(file) => {
                say(line_of(file));
                self.kept.count += 1;
                self.kept.files.push_back(file.clone());
            }
            News::NotKept(cause, why) => {
                say(format_args!("not kept: {}: {why}", in_words(cause)));
                self.kept.not_kept += 1;
            }
            News::Removed(path) => {
                say(format_args!("{}: removed, as the oldest file (--keep)", path.display()));
                self.kept.files.retain(|file| file.path != *path);
            }
        }
    }
}

impl KeptFiles {
    /// The line about all files that is printed at the end.
    pub fn summary(&self) -> String {
        let KeptFiles { files, count, not_kept } = self;
        let removed = count - files.len() as u64;
        format!("files: {} kept, {removed} older removed, {not_kept} not written", files.len())
    }

    /// The files that were not removed, oldest first.
    pub fn files(&self) -> serde_json::Value {
        let file = |file: &KeptFile| {
            json!({
                "path": file.path.display().to_string(),
                "trigger": file.cause.trigger,
                "process": file.cause.process,
                "time": time_of(file),
                "before_s": seconds(file.before_ns),
                "after_s": seconds(file.after_ns),
                "records": file.records,
                "lost": file.lost,
                "bytes": file.bytes,
                "failure": file.failure,
            })
        };
        self.files.iter().map(file).collect()
    }
}

fn line_of(file: &KeptFile) -> String {
    let path: &Path = &file.path;
    let ended = match &file.failure {
        Some(why) => format!("; ended early: {why}"),
        None => String::new(),
    };
    format!(
        "{}: {} records, {:.1} s before and {:.1} s after {} at {}, {} lost{ended}",
        path.display(),
        file.records,
        seconds(file.before_ns),
        seconds(file.after_ns),
        in_words(&file.cause),
        time_of(file),
        file.lost,
    )
}

/// `a kill of 4711`.
fn in_words(cause: &Cause) -> String {
    match (cause.trigger, cause.process) {
        ("kill", Some(process)) => format!("a kill of {process}"),
        ("oom-kill", Some(process)) => format!("a kill of {process} by the kernel"),
        ("psi", _) => "stalls for memory".to_owned(),
        ("signal", _) => "SIGUSR1".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// The time of the cause, such as `2026-11-28T02:15:03Z`.
fn time_of(file: &KeptFile) -> String {
    let since_1970 = Duration::from_nanos(file.realtime_ns.max(0) as u64);
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since_1970).to_string()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        ring: RingArguments,
    }

    /// The options of the ring with these words on the command line, and a buffer of 8 MiB.
    fn options(words: &str) -> Result<Option<RingOptions>, String> {
        let words = std::iter::once("record").chain(words.split_whitespace());
        let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        program.ring.options(8 << 20).map_err(|error| error.to_string())
    }

    #[test]
    fn a_ring_keeps_ten_minutes_on_kills_by_default() {
        assert!(options("").unwrap().is_none());
        let found = options("--ring 10min").unwrap().unwrap();
        assert_eq!((found.length.as_secs(), found.after.as_secs()), (600, 30));
        assert_eq!((found.bytes, found.files_max, found.free_bytes), (64 << 20, 8, 256 << 20));
        assert_eq!(found.triggers, [RingTrigger::Kill]);
        let found = options("--ring 20s --keep-on oom-kill,psi=full:5% --keep 1").unwrap().unwrap();
        assert_eq!((found.triggers.len(), found.files_max, found.after.as_secs()), (2, 1, 20));
        assert_eq!(options("--ring 20s --after 20s").unwrap().unwrap().after.as_secs(), 20);
    }

    #[test]
    fn options_out_of_bounds_are_refused_with_what_is_expected() {
        for (words, expected) in [
            ("--ring 0s", "from 1s to 240h"),
            ("--ring 241h", "from 1s to 240h"),
            ("--ring 20s --after 1min", "--after 1m: a file continues for at most 20s"),
            ("--after 1s", "--ring <TIME>"),
            ("--ring 1min --ring-bytes 15MiB", "from 16MiB to 16GiB"),
            ("--ring 1min --ring-bytes 17GiB", "from 16MiB to 16GiB"),
            ("--ring 1min --keep 0", "0 is not in 1.."),
            ("--ring 1min --keep-on never", "expected kill"),
            ("--keep 3", "--ring <TIME>"),
            ("--keep-on kill", "--ring <TIME>"),
            ("--leave-free 1GiB", "--ring <TIME>"),
        ] {
            let message = options(words).err().unwrap();
            assert!(message.contains(expected), "{words}: {message}");
        }
    }

    #[test]
    fn kills_are_recorded_only_if_a_ring_waits_for_them() {
        for (words, expected) in [
            ("", false),
            ("--ring 1min", true),
            ("--ring 1min --keep-on psi=some:20%,oom-kill", true),
            ("--ring 1min --keep-on psi=some:20%", false),
            ("--ring 1min --keep-on signal", false),
        ] {
            let words = std::iter::once("record").chain(words.split_whitespace());
            let program = Program::parse_from(words);
            assert_eq!(program.ring.waits_for_kills(), expected);
        }
    }

    #[test]
    fn removed_files_are_not_listed() {
        let file = |path: &str| KeptFile {
            path: path.into(),
            cause: Cause { trigger: "oom-kill", time_ns: 5, process: Some(7) },
            realtime_ns: 1_795_832_103_000_000_000,
            before_ns: 600_000_000_000,
            after_ns: 30_000_000_000,
            records: 9,
            lost: 1,
            bytes: 99,
            failure: Some("the disk is full".to_owned()),
        };
        let expected = "/a: 9 records, 600.0 s before and 30.0 s after a kill of 7 by the kernel at \
                        2026-11-28T02:15:03Z, 1 lost; ended early: the disk is full";
        assert_eq!(line_of(&file("/a")), expected);
        let mut kept = KeptFiles { files: [file("/a"), file("/b")].into(), count: 3, not_kept: 2 };
        kept.files.retain(|file| file.path != Path::new("/a"));
        assert_eq!(kept.summary(), "files: 1 kept, 2 older removed, 2 not written");
        let files = kept.files();
        assert_eq!(files.as_array().unwrap().len(), 1);
        assert_eq!((&files[0]["path"], &files[0]["before_s"]), (&json!("/b"), &json!(600.0)));
    }
}
