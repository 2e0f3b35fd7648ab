//! Hooks: programs of the user that run before and after a kill, from a separate thread. The killer waits for
//! the first up to a limit, and never for the second. This thread allocates memory, because starting a
//! program needs it.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use linux::process::{self, Finished};

use crate::table::Name;
use crate::{Error, Statistics};

const STACK: usize = 64 << 10;
const UNPOISONED: &str = "no holder of this lock panics";

/// The hooks of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// The program to run before a kill, with its arguments; empty for none.
    pub before: Vec<String>,
    /// The program to run after the memory is back, with its arguments; empty for none.
    pub after: Vec<String>,
    /// A hook that takes longer than this is killed.
    pub time_max: Duration,
}

/// The event for which a hook runs; it gets these values as environment variables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion {
    pub is_before: bool,
    pub process: u32,
    pub name: Name,
    pub why: &'static str,
    pub freed_bytes: u64,
}

/// The thread that runs hooks. When dropped, it kills a running hook and ends.
pub(crate) struct HookRunner {
    sender: Option<SyncSender<(Occasion, Arc<Hooks>)>>,
    hooks: Arc<Hooks>,
    shared: Arc<Shared>,
    sent: u64,
    thread: Option<JoinHandle<()>>,
}

/// The state that the thread shares with the killer.
struct Shared {
    /// The number of finished hooks, and the result of the last one.
    done: Mutex<(u64, Finished)>,
    came: Condvar,
    is_over: AtomicBool,
    statistics: Arc<Statistics>,
}

impl HookRunner {
    /// Starts the thread, if there is any hook.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn start(hooks: &Hooks, statistics: &Arc<Statistics>) -> Result<HookRunner, Error> {
        let shared = Shared {
            done: Mutex::new((0, Finished::Well)),
            came: Condvar::new(),
            is_over: AtomicBool::new(false),
            statistics: Arc::clone(statistics),
        };
        let mut runner = HookRunner {
            sender: None,
            hooks: Arc::default(),
            shared: Arc::new(shared),
            sent: 0,
            thread: None,
        };
        runner.set(hooks)?;
        Ok(runner)
    }

    /// Replaces the hooks; a running hook continues.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn set(&mut self, hooks: &Hooks) -> Result<(), Error> {
        self.hooks = Arc::new(hooks.clone());
        if self.thread.is_none() && !(hooks.before.is_empty() && hooks.after.is_empty()) {
            let (sender, receiver) = sync_channel(8);
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("hooks".to_owned()).stack_size(STACK);
            let thread = thread.spawn(move || shared.serve(&receiver));
            self.thread = Some(thread.map_err(|error| Error::refused("start a thread", error))?);
            self.sender = Some(sender);
        }
        Ok(())
    }

    /// Runs the hook for `occasion`, and waits for it if it runs before a kill. `Well` also if there is no hook, or
    /// the killer does not wait for it.
    pub(crate) fn run(&mut self, occasion: Occasion) -> Finished {
        let is_wanted = !self.hooks.of(&occasion).is_empty();
        let Some(sender) = self.sender.as_ref().filter(|_| is_wanted) else {
            return Finished::Well;
        };
        if sender.try_send((occasion, Arc::clone(&self.hooks))).is_err() {
            return Finished::Late;
        }
        self.sent += 1;
        if !occasion.is_before {
            return Finished::Well;
        }
        let done = self.shared.done.lock().expect(UNPOISONED);
        let sent = self.sent;
        let waited =
            self.shared
                .came
                .wait_timeout_while(done, self.hooks.time_max, |(count, _)| *count < sent);
        match waited.expect(UNPOISONED) {
            (_, time) if time.timed_out() => Finished::Late,
            (done, _) => done.1,
        }
    }
}

impl Drop for HookRunner {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Runs hooks until the sender is dropped.
    fn serve(&self, occasions: &Receiver<(Occasion, Arc<Hooks>)>) {
        for (occasion, hooks) in occasions {
            let finished = self.run_hook(&hooks, &occasion);
            if finished != Finished::Well {
                Statistics::add(&self.statistics.hooks_failed, 1);
            }
            let mut done = self.done.lock().expect(UNPOISONED);
            *done = (done.0 + 1, finished);
            self.came.notify_all();
        }
    }

    /// Runs a hook, and kills its process group when its time is over.
    fn run_hook(&self, hooks: &Hooks, occasion: &Occasion) -> Finished {
        let Some((program, arguments)) = hooks.of(occasion).split_first() else {
            return Finished::Well;
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        // Standard output is only for the killer's log.
        command.stdout(std::io::stderr());
        occasion.set_environment(&mut command);
        if self.is_over.load(Relaxed) {
            return Finished::Late;
        }
        match process::start_ordinary(&mut command) {
            Ok(child) => process::finish(child, hooks.time_max, || self.is_over.load(Relaxed)),
            Err(_) => Finished::Wrong,
        }
    }
}

impl Hooks {
    fn of(&self, occasion: &Occasion) -> &[String] {
        if occasion.is_before { &self.before } else { &self.after }
    }
}

impl Occasion {
    fn set_environment(&self, command: &mut Command) {
        command
            .env("PAGEWISE_PROCESS", self.process.to_string())
            .env("PAGEWISE_NAME", self.name.text())
            .env("PAGEWISE_WHY", self.why)
            .env("PAGEWISE_FREED_BYTES", self.freed_bytes.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const OCCASION: Occasion = Occasion {
        is_before: true,
        process: 77,
        name: Name(*b"victim\0\0\0\0\0\0\0\0\0\0"),
        why: "a test",
        freed_bytes: 0,
    };

    fn start(hooks: &Hooks) -> HookRunner {
        HookRunner::start(hooks, &Arc::default()).unwrap()
    }

    fn hooks(script: &str, time_max: Duration) -> Hooks {
        let before = ["sh", "-c", script].map(str::to_owned).to_vec();
        Hooks { before, after: Vec::new(), time_max }
    }

    #[test]
    fn a_hook_gets_the_victim_and_the_reason_and_runs_with_adj_0() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let script = format!(
            "echo $PAGEWISE_PROCESS $PAGEWISE_NAME $PAGEWISE_WHY $(cat /proc/self/oom_score_adj) \
             > {}",
            path.display()
        );
        let mut runner = start(&hooks(&script, Duration::from_secs(60)));
        assert_eq!(runner.run(OCCASION), Finished::Well);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "77 victim a test 0\n");
        let after = Occasion { is_before: false, ..OCCASION };
        assert_eq!(runner.run(after), Finished::Well, "there is no such hook");
    }

    #[test]
    fn a_hook_that_hangs_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("child");
        let script = format!("sleep 1000 & echo $! > {}; wait", path.display());
        let mut time_max = Duration::from_millis(100);
        let late = Instant::now() + Duration::from_secs(60);
        // On a busy machine a hook may be killed before it starts its child.
        let child: u32 = loop {
            assert_eq!(start(&hooks(&script, time_max)).run(OCCASION), Finished::Late);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(number) = text.strip_suffix('\n') {
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
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_missing_or_failing_hook_is_reported_as_failed() {
        let missing = Hooks {
            before: vec!["/no/such/program".to_owned()],
            after: Vec::new(),
            time_max: Duration::from_secs(60),
        };
        assert_eq!(start(&missing).run(OCCASION), Finished::Wrong);
        assert_eq!(start(&hooks("exit 3", Duration::from_secs(60))).run(OCCASION), Finished::Wrong);
        assert_eq!(start(&Hooks::default()).run(OCCASION), Finished::Well);
    }

    #[test]
    fn new_hooks_apply_at_once_and_drop_waits_for_no_hook() {
        let after = vec!["sleep".to_owned(), "1000".to_owned()];
        let hour = Duration::from_secs(3600);
        let mut runner = start(&Hooks { after, time_max: hour, ..Hooks::default() });
        runner.run(Occasion { is_before: false, ..OCCASION });
        runner.set(&Hooks { time_max: hour, ..Hooks::default() }).unwrap();
        assert_eq!(runner.run(OCCASION), Finished::Well, "there is no such hook");
        let statistics = Arc::clone(&runner.shared.statistics);
        drop(runner);
        assert_eq!(statistics.hooks_failed.load(Relaxed), 1);
    }
}
