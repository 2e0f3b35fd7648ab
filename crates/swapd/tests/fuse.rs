//! The FUSE carrier below real programs: a server that keeps everything in memory, and a program in a small memory
//! cgroup that checks each of its pages. Needs root, FUSE, loop devices and memory cgroups; a skipped test says what
//! is missing.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linux::cgroup::{Hierarchy, MemoryGroup, Version};
use linux::{Root, groups, polling, swap};
use rustix::process::Signal;
use swapd::area::{self, ServedArea};
use swapd::carrier::fuse::FuseCarrier;
use swapd::carrier::granted::{CarrierKind, GrantedCarrier};
use swapd::carrier::{Carrier, NewDevice, Operation, SLOT_BYTES};
use swapd::{Error, undo};

const MIB: u64 = 1 << 20;
/// The variable that makes `hog` a memory hog: mebibytes, accesses.
const HOG: &str = "PAGEWISE_TEST_HOG";
/// The variable with the numbers for `measure`: mebibytes, accesses.
const MEASURE: &str = "PAGEWISE_TEST_MEASURE";
/// The variable that makes `server` a server of an area of this many mebibytes.
const SERVER: &str = "PAGEWISE_TEST_SERVER";
/// The variable that makes `helper` enable or disable an area: `on DEVICE BYTES` or `off DEVICE`.
const HELPER: &str = "PAGEWISE_TEST_HELPER";
/// Above areas without a priority, so that pages of other programs come here only if they have no other area.
const PRIORITY: i32 = 0;
/// How long the server polls after a request before it sleeps.
const POLL: Duration = Duration::from_micros(100);
/// A step that takes longer hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// Requests that were sent before the server ended have come by then.
const LAST_REQUEST_AFTER: Duration = Duration::from_secs(1);
/// Accesses that take longer had a page to fetch.
const FAULT_US: f64 = 5.0;

/// What the server has done.
#[derive(Default)]
struct Counts {
    reads: AtomicU64,
    writes: AtomicU64,
    discarded: AtomicU64,
}

/// A server that keeps all slots in memory, in a thread of its own.
struct Server {
    is_over: Arc<AtomicBool>,
    counts: Arc<Counts>,
    /// Gives the memory back, and how many requests it took without an answer.
    thread: JoinHandle<Result<(Vec<u8>, usize), Error>>,
}

impl Server {
    fn start(carrier: impl Carrier + Send + 'static, slots: u32) -> Server {
        Server::over(carrier, vec![0; slots as usize * SLOT_BYTES], 0)
    }

    /// Serves until the end, and then takes up to `left` requests that it never answers.
    fn over(
        mut carrier: impl Carrier + Send + 'static,
        mut memory: Vec<u8>,
        left: usize,
    ) -> Server {
        let is_over = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Counts::default());
        let (over, seen) = (Arc::clone(&is_over), Arc::clone(&counts));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                serve(&mut carrier, &mut memory, &seen)?;
                polling::is_readable(carrier.descriptor(), Duration::from_millis(20));
            }
            let (mut unanswered, mut patience) = (0, HANGS_AFTER);
            while unanswered < left && polling::is_readable(carrier.descriptor(), patience) {
                unanswered += usize::from(carrier.next()?.is_some());
                // A program that waits for a page sends no further request.
                patience = LAST_REQUEST_AFTER;
            }
            Ok((memory, unanswered))
        });
        Server { is_over, counts, thread }
    }

    fn stop(self) -> Result<(Vec<u8>, usize), Error> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the server does not panic")
    }
}

/// Answers requests until none has come for a while.
fn serve(carrier: &mut impl Carrier, memory: &mut [u8], counts: &Counts) -> Result<(), Error> {
    let mut last = Instant::now();
    while last.elapsed() < POLL {
        let Some(request) = carrier.next()? else {
            std::hint::spin_loop();
            continue;
        };
        let begin = request.first as usize * SLOT_BYTES;
        let slots = &mut memory[begin..begin + request.slots as usize * SLOT_BYTES];
        let data = carrier.data(request.tag);
        match request.operation {
            Operation::Read => {
                data.copy_from_slice(slots);
                counts.reads.fetch_add(1, Ordering::Relaxed);
            }
            Operation::Write => {
                assert_eq!(data.as_ptr() as usize % SLOT_BYTES, 0);
                slots.copy_from_slice(data);
                counts.writes.fetch_add(1, Ordering::Relaxed);
            }
            Operation::Discard => {
                slots.fill(0);
                counts.discarded.fetch_add(u64::from(request.slots), Ordering::Relaxed);
            }
            Operation::Flush => {}
        }
        carrier.finish(request.tag, Ok(()))?;
        last = Instant::now();
    }
    Ok(())
}

/// A memory cgroup; when dropped, it is removed with its processes.
struct Group(PathBuf);

impl Group {
    fn new(name: &str, bytes: u64) -> Result<Group, String> {
        let root = Root::system();
        let hierarchy = Hierarchy::required(&root, "memory").map_err(|error| error.to_string())?;
        if hierarchy.version != Version::V1 {
            return Err("needs memory cgroups of version 1".to_owned());
        }
        let folder =
            hierarchy.mount.join(format!("pagewise-swapd-test-{}-{name}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Group(folder);
        let made = MemoryGroup::at(&root, &group.0);
        made.and_then(|made| made.limit(bytes).apply(&root)).map_err(|error| error.to_string())?;
        Ok(group)
    }

    fn hog(&self, mebibytes: u64, accesses: u64) -> Child {
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        command.args(["hog", "--exact", "--nocapture"]);
        command.env(HOG, format!("{mebibytes} {accesses}")).stdout(Stdio::piped());
        let entrance = self.0.join("cgroup.procs");
        linux::process::start(&Root::system(), &mut command, &[entrance]).expect("it starts")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = groups::remove_group(&Root::system(), &self.0);
    }
}

/// Not a test of its own: the program that the others run in a cgroup. It fills memory, reads at random, and prints
/// the wrong values and the latencies of its faults.
#[test]
fn hog() {
    let Ok(numbers) = env::var(HOG) else { return };
    let (mebibytes, accesses) = parse(&numbers);
    const WORDS: usize = SLOT_BYTES / 8;
    let pages = (mebibytes * MIB) as usize / SLOT_BYTES;
    let value = |page: usize| (page as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut memory = vec![0u64; pages * WORDS];
    (0..pages).for_each(|page| memory[page * WORDS] = value(page));
    let (mut wrong, mut state, mut faults) = (0u64, 1u64, Vec::new());
    for access in 0..accesses {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let page = ((state >> 33) as usize) % pages;
        let word = std::hint::black_box(&mut memory[page * WORDS]);
        let begun = Instant::now();
        let found = *std::hint::black_box(&*word);
        let microseconds = begun.elapsed().as_secs_f64() * 1e6;
        faults.extend((microseconds > FAULT_US).then_some(microseconds));
        wrong += u64::from(found != value(page));
        if access % 3 == 0 {
            *word = std::hint::black_box(found);
        }
    }
    faults.sort_by(f64::total_cmp);
    let at = |share: f64| faults.get((faults.len() as f64 * share) as usize).unwrap_or(&0.0);
    println!(
        "\nhog: wrong {wrong} faults {} of {accesses}, p50 {:.1} us, p99 {:.1} us",
        faults.len(),
        at(0.5),
        at(0.99)
    );
}

fn parse(numbers: &str) -> (u64, u64) {
    let mut numbers = numbers.split(' ').map(|number| number.parse().expect("a number"));
    (numbers.next().expect("two numbers"), numbers.next().expect("two numbers"))
}

/// The line of a hog.
fn line(hog: Child) -> String {
    let output = hog.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("hog: "));
    line.unwrap_or_else(|| panic!("{}: {text}", output.status)).to_owned()
}

/// A served area of `mebibytes`, or None if the test is skipped.
fn area(mebibytes: u64) -> Option<(Server, ServedArea)> {
    if let Some(why) = refusal() {
        testkit::skipped(&why);
        return None;
    }
    let slots = area::slots(mebibytes * MIB).unwrap();
    match area::make(&Root::system(), NewDevice { slots, content: None }, &[CarrierKind::Fuse]) {
        Ok((carrier, area)) => Some((Server::start(carrier, slots), area)),
        Err(error) => {
            testkit::skipped(&error.to_string());
            None
        }
    }
}

/// Not a test of its own: enables or disables an area in another process than the server's.
#[test]
fn helper() {
    let Ok(wish) = env::var(HELPER) else { return };
    match wish.split(' ').collect::<Vec<_>>()[..] {
        ["on", device, bytes] => {
            let bytes = bytes.parse().unwrap();
            let (root, device) = (Root::system(), Path::new(device));
            area::enable(&root, device, bytes, PRIORITY, 0, || Ok(())).unwrap();
        }
        ["off", device] => swap::off(Path::new(device)).unwrap(),
        _ => panic!("{wish}"),
    }
}

fn in_helper(wish: &str) -> Result<(), Error> {
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command.args(["helper", "--exact"]).env(HELPER, wish).stdout(Stdio::null());
    let status = command.status().expect("it starts");
    status.success().then_some(()).ok_or_else(|| Error::Refused(format!("{wish}: {status}")))
}

fn swapon(device: &Path, bytes: u64) -> Result<(), Error> {
    in_helper(&format!("on {} {bytes}", device.display()))
}

fn swapoff(device: &Path) -> Result<(), Error> {
    in_helper(&format!("off {}", device.display()))
}

/// Why areas cannot be tested now: the kernel shares pages out among all areas.
fn refusal() -> Option<String> {
    let areas = swap::areas(&Root::system()).unwrap();
    match areas.first() {
        _ if !linux::process::is_root() => Some("needs root".to_owned()),
        Some(area) => Some(format!("{} is in use as a swap area", area.path.display())),
        None => None,
    }
}

/// One area at a time: the kernel shares pages out among those of the same priority.
static TURN: Mutex<()> = Mutex::new(());

#[test]
#[ignore = "slow"]
fn programs_find_their_pages_again() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((server, mut area)) = area(256) else { return };
    let group = match Group::new("values", 40 * MIB) {
        Ok(group) => group,
        Err(why) => return testkit::skipped(&why),
    };
    assert!(area.discard_bytes_max().unwrap() > 0);
    area.on(|device| swapon(device, 256 * MIB)).unwrap();
    let line = line(group.hog(120, 20_000));
    assert!(line.starts_with("hog: wrong 0 faults "), "{line}");
    assert_eq!(area.missing_bytes().unwrap(), 0);
    area.off(swapoff).unwrap();
    let (reads, writes) = (&server.counts.reads, &server.counts.writes);
    assert!(reads.load(Ordering::Relaxed) > 1000 && writes.load(Ordering::Relaxed) > 100);
    assert!(server.counts.discarded.load(Ordering::Relaxed) > 0);
    server.stop().unwrap();
}

/// Not a test of its own: a server that another test kills. It prints its device.
#[test]
fn server() {
    let Ok(mebibytes) = env::var(SERVER) else { return };
    let mebibytes = mebibytes.parse().unwrap();
    let (server, mut area) = area(mebibytes).expect("the caller may serve");
    area.on(|device| swapon(device, mebibytes * MIB)).unwrap();
    println!("\nserver: on");
    server.thread.join().unwrap().unwrap();
}

#[test]
fn a_killed_server_leaves_no_area_and_programs_never_get_other_data() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Whether this machine can serve.
    let Some((own, mut unused)) = area(1) else { return };
    unused.off(swapoff).unwrap();
    own.stop().unwrap();
    let group = match Group::new("killed", 40 * MIB) {
        Ok(group) => group,
        Err(why) => return testkit::skipped(&why),
    };
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["server", "--exact", "--nocapture"]).env(SERVER, "256").stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "server: on"));
    // It runs until the server is gone, or longer.
    let hog = group.hog(120, 3_000_000);
    let is_full = |area: &swap::Area| area.priority == PRIORITY && area.bytes_used > 40 * MIB;
    while !swap::areas(&Root::system()).unwrap().iter().any(is_full) {
        thread::yield_now();
    }
    // With room for all its pages, it reads those that the server has.
    let limit = MemoryGroup::at(&Root::system(), &group.0).unwrap().limit(400 * MIB);
    limit.apply(&Root::system()).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let output = hog.wait_with_output().unwrap();
    let begun = Instant::now();
    let undone = undo::left(&Root::system());
    eprintln!("the hog: {}; undone in {} ms", output.status, begun.elapsed().as_millis());
    assert_eq!(undone.unwrap(), 2);
    assert!(!swap::areas(&Root::system()).unwrap().iter().any(is_full));
    // SIGKILL if the limit was still too low: then the OOM killer comes, since pages can go nowhere any more.
    let signals = [Signal::BUS, Signal::KILL].map(|signal| Some(signal.as_raw()));
    assert!(signals.contains(&output.status.signal()), "{output:?}");
}

#[test]
#[ignore = "slow"]
fn a_successor_answers_what_its_predecessor_left_open() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = refusal() {
        return testkit::skipped(&why);
    }
    let slots = area::slots(256 * MIB).unwrap();
    let (carrier, mut area) =
        match area::make(&Root::system(), NewDevice { slots, content: None }, &[CarrierKind::Fuse])
        {
            Ok(made) => made,
            Err(error) => return testkit::skipped(&error.to_string()),
        };
    let group = match Group::new("successor", 40 * MIB) {
        Ok(group) => group,
        Err(why) => return testkit::skipped(&why),
    };
    let GrantedCarrier::Fuse(carrier) = carrier else { panic!("the carrier is FUSE") };
    let handles = carrier.handles().map(|handle| handle.try_clone_to_owned().unwrap());
    let (file, device) = (carrier.file().clone(), carrier.device().to_owned());
    let server = Server::over(*carrier, vec![0; slots as usize * SLOT_BYTES], 3);
    area.on(|device| swapon(device, 256 * MIB)).unwrap();
    let hog = group.hog(120, 20_000);
    while server.counts.reads.load(Ordering::Relaxed) < 1000 {
        thread::yield_now();
    }
    // Its carrier is gone, but the handles keep the connection, as those of a guard process do.
    let (memory, unanswered) = server.stop().unwrap();
    assert!(unanswered > 0);
    let [channel, mount] = handles;
    let begun = Instant::now();
    let adopted = match FuseCarrier::adopt(channel, mount, file, device) {
        Ok(adopted) => adopted,
        Err(error) => return testkit::skipped(&error.to_string()),
    };
    eprintln!("taken over in {} us with {unanswered} open", begun.elapsed().as_micros());
    let successor = Server::over(adopted, memory, 0);
    let line = line(hog);
    assert!(line.starts_with("hog: wrong 0 faults "), "{line}");
    area.off(swapoff).unwrap();
    successor.stop().unwrap();
}

/// With `PAGEWISE_TEST_MEASURE="400 60000"`: prints the latency of faults beside those of a swap file.
#[test]
fn measure() {
    let Ok(numbers) = env::var(MEASURE) else { return };
    let (mebibytes, accesses) = parse(&numbers);
    let (server, mut area) = area(2 * mebibytes).expect("this machine has FUSE and loop devices");
    let group = Group::new("measure", 100 * MIB).unwrap();
    area.on(|device| swapon(device, 2 * mebibytes * MIB)).unwrap();
    eprintln!("fuse {}", line(group.hog(mebibytes, accesses)));
    area.off(swapoff).unwrap();
    server.stop().unwrap();
    let folder = tempfile::tempdir_in(env::temp_dir()).unwrap();
    let path = folder.path().join("swap");
    swap::create_file(&path, 2 * mebibytes * MIB).unwrap();
    swap::on(&path, swap::PRIORITY_MAX).unwrap();
    eprintln!("file {}", line(group.hog(mebibytes, accesses)));
    swap::off(&path).unwrap();
}
