//! Kills one process, with only SIGKILL or as the killer does, and prints when its memory was back:
//! `kill_time plain|reap PID USAGE_FILE`. bench/killer.py runs it.

use std::time::{Duration, Instant};

use killer::{DEFAULT_GRACE, Reaper};
use linux::Root;
use linux::held_process::{HeldProcess, open_processes};
use linux::kernel_file::KernelFile;

/// Memory is back when at most one part in this many of the group's initial usage is left.
const REST: u64 = 10;
/// After this time, the memory counts as never back.
const NEVER_AFTER: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_micros(50);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, process, usage] = &arguments[..] else {
        return Err("usage: kill_time plain|reap PID USAGE_FILE".into());
    };
    let root = Root::system();
    let victim = HeldProcess::open(&open_processes(&root)?, process.parse()?)?;
    let watched = victim.try_clone()?;
    let mut usage = KernelFile::open(&root, usage, 64)?.ok_or("no such usage file")?;
    let reaper = Reaper::new(&root);
    let is_plain = way == "plain";
    let had = usage.number().ok_or("no usage")?;
    let began = Instant::now();
    // The reaping thread keeps the ordinary priority, as the killer's reapers do.
    let reaping = std::thread::spawn(move || match is_plain {
        true => victim.kill().map(|()| "not asked".to_owned()).map_err(|error| error.to_string()),
        false => reaper
            .reap(&victim, DEFAULT_GRACE)
            .map(|reaped| format!("{reaped:?}"))
            .map_err(|error| error.to_string()),
    });
    // The watching thread must not wait for a processor.
    linux::process::rank_this_thread(-10)?;
    let (mut back, mut ended) = (None, None);
    while (back.is_none() || ended.is_none()) && began.elapsed() < NEVER_AFTER {
        let time = began.elapsed().as_micros();
        if back.is_none() && usage.number().is_some_and(|left| left <= had / REST) {
            back = Some(time);
        }
        if ended.is_none() && watched.has_ended(Duration::ZERO) {
            ended = Some(time);
        }
        // The memory is back but the process lives on, such as in a wait for a device: do not wait for its exit.
        if back.is_some_and(|back| time > back * 2 + 100_000) {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let how = if reaping.is_finished() {
        reaping.join().map_err(|_| "it panicked")??
    } else {
        "?".into()
    };
    let number = |time: Option<u128>| time.map_or("null".to_owned(), |time| time.to_string());
    println!(
        "{{\"had_bytes\":{had},\"back_us\":{},\"ended_us\":{},\"how\":\"{how}\"}}",
        number(back),
        number(ended)
    );
    Ok(())
}
