//! Programs that users have run before and after a kill, in a thread of their own: the killer waits
//! for the first no longer than allowed, and for the second not at all. Here memory is asked for: a
//! program cannot be started without.

use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Error;

const STACK: usize = 64 << 10;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What users have run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Before a kill: a program and its arguments, or nothing.
    pub before: Vec<String>,
    /// After memory is back.
    pub after: Vec<String>,
    /// How long either may take; it is ended then.
    pub time_max: Duration,
}

/// What a hook is told, by variables of its environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion {
    pub is_before: bool,
    pub process: u32,
    pub name: [u8; 16],
    pub why: &'static str,
    pub freed_bytes: u64,
}

/// The thread that runs them. Dropped, it ends with the hook that runs.
pub(crate) struct HookRunner {
    sender: Option<SyncSender<(u64, Occasion)>>,
    /// The number of the last hook that was done in time, counted from 1 as those sent.
    done: Arc<(Mutex<u64>, Condvar)>,
    sent: u64,
    time_max: Duration,
    has_before: bool,
    has_after: bool,
    thread: Option<JoinHandle<()>>,
}

impl HookRunner {
    /// Starts the thread, if there is any hook.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn start(hooks: &Hooks) -> Result<HookRunner, Error> {
        let (has_before, has_after) = (!hooks.before.is_empty(), !hooks.after.is_empty());
        let done = Arc::new((Mutex::new(0), Condvar::new()));
        let time_max = hooks.time_max;
        let mut runner = HookRunner {
            sender: None,
            done,
            sent: 0,
            time_max,
            has_before,
            has_after,
            thread: None,
        };
        if has_before || has_after {
            let (sender, receiver) = sync_channel(8);
            let (hooks, done) = (hooks.clone(), Arc::clone(&runner.done));
            let thread = std::thread::Builder::new().name("hooks".to_owned()).stack_size(STACK);
            let thread = thread.spawn(move || serve(&hooks, &receiver, &done));
            runner.thread = Some(thread.map_err(|error| Error::refused("start a thread", error))?);
            runner.sender = Some(sender);
        }
        Ok(runner)
    }

    /// Runs the hook for `occasion`, waiting for the one before a kill; false where it was not done
    /// in time.
    pub(crate) fn run(&mut self, occasion: Occasion) -> bool {
        let is_wanted = if occasion.is_before { self.has_before } else { self.has_after };
        let Some(sender) = self.sender.as_ref().filter(|_| is_wanted) else { return true };
        if sender.try_send((self.sent + 1, occasion)).is_err() {
            return false;
        }
        self.sent += 1;
        if !occasion.is_before {
            return true;
        }
        let (last, came) = &*self.done;
        let last = last.lock().expect("no holder of this lock panics");
        let sent = self.sent;
        let waited = came.wait_timeout_while(last, self.time_max, |last| *last < sent);
        !waited.expect("no holder of this lock panics").1.timed_out()
    }
}

impl Drop for HookRunner {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(hooks: &Hooks, occasions: &Receiver<(u64, Occasion)>, done: &(Mutex<u64>, Condvar)) {
    // Ends with the sender.
    for (number, occasion) in occasions {
        if run_hook(hooks, &occasion) {
            *done.0.lock().expect("no holder of this lock panics") = number;
            done.1.notify_all();
        }
    }
}

/// Runs one, and ends it with all that it started when its time is over; false then. A hook that
/// cannot be run keeps nobody alive.
fn run_hook(hooks: &Hooks, occasion: &Occasion) -> bool {
    let words = if occasion.is_before { &hooks.before } else { &hooks.after };
    let Some((program, arguments)) = words.split_first() else { return true };
    let end = occasion.name.iter().position(|&byte| byte == 0).unwrap_or(occasion.name.len());
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("PAGEWISE_PROCESS", occasion.process.to_string())
        .env("PAGEWISE_NAME", String::from_utf8_lossy(&occasion.name[..end]).as_ref())
        .env("PAGEWISE_WHY", occasion.why)
        .env("PAGEWISE_FREED_BYTES", occasion.freed_bytes.to_string())
        .stdin(std::process::Stdio::null());
    let Ok(mut child) = linux::process::start_ordinary(&mut command) else { return true };
    let late = Instant::now() + hooks.time_max;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= late {
            end_hook(&mut child);
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

/// Ends a hook with all that it started. It is looked for a while until it is dead, and else left to
/// whoever reaps orphans.
fn end_hook(child: &mut Child) {
    linux::process::kill_group(child.id());
    for _ in 0..100 {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OCCASION: Occasion = Occasion {
        is_before: true,
        process: 77,
        name: *b"victim\0\0\0\0\0\0\0\0\0\0",
        why: "a test",
        freed_bytes: 0,
    };

    fn hooks(script: &str, time_max: Duration) -> Hooks {
        let before = ["sh", "-c", script].map(str::to_owned).to_vec();
        Hooks { before, after: Vec::new(), time_max }
    }

    #[test]
    fn a_hook_knows_who_dies_and_why_and_has_ordinary_rank() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told");
        let script = format!(
            "echo $PAGEWISE_PROCESS $PAGEWISE_NAME $PAGEWISE_WHY $(cat /proc/self/oom_score_adj) \
             > {}",
            path.display()
        );
        let mut runner = HookRunner::start(&hooks(&script, Duration::from_secs(60))).unwrap();
        assert!(runner.run(OCCASION));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "77 victim a test 0\n");
        assert!(runner.run(Occasion { is_before: false, ..OCCASION }), "none is wanted");
    }

    #[test]
    fn a_hook_that_hangs_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("child");
        let script = format!("sleep 1000 & echo $! > {}; wait", path.display());
        let mut time_max = Duration::from_millis(100);
        let late = Instant::now() + Duration::from_secs(60);
        // On a busy machine a hook may be ended before it has come to start anything.
        let child: u32 = loop {
            assert!(!HookRunner::start(&hooks(&script, time_max)).unwrap().run(OCCASION));
            let told = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(number) = told.strip_suffix('\n') {
                break number.parse().unwrap();
            }
            assert!(Instant::now() < late, "the hook never starts a child");
            time_max *= 2;
        };
        let root = linux::Root::system();
        let stat = || std::fs::read_to_string(format!("/proc/{child}/stat"));
        while linux::process::name(&root, child).is_some()
            && !stat().is_ok_and(|text| text.contains(") Z"))
        {
            assert!(Instant::now() < late, "the child of the hook lives on");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn a_hook_that_is_not_there_stops_nobody() {
        let missing = Hooks {
            before: vec!["/no/such/program".to_owned()],
            after: Vec::new(),
            time_max: Duration::from_secs(60),
        };
        assert!(HookRunner::start(&missing).unwrap().run(OCCASION));
        assert!(HookRunner::start(&Hooks::default()).unwrap().run(OCCASION));
    }
}
