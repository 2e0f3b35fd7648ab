//! Loads the BPF programs of recorder.bpf.c, and reads the rings that they fill.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use linux::cgroup::{Hierarchy, MemoryGroup, Version};
use linux::system::Machine;
use linux::{Root, SharedWords, probe};
use trace::recording::{FileName, Missing};

use crate::batch::Batch;
use crate::notices::Notice;
use crate::refusals::{check_page_size, keep_prints, refused};
use crate::rings::{RingSizes, Rings};
use crate::sources::Source;
use crate::zeros::Zeros;
use crate::{Error, EventFilter, file_names};
use skeleton::{OpenRecorderSkel, RecorderSkel, RecorderSkelBuilder};

#[allow(
    missing_docs,
    unsafe_code,
    clippy::all,
    clippy::unwrap_used,
    clippy::allow_attributes_without_reason,
    reason = "generated from recorder.bpf.c"
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/recorder.skel.rs"));
}

/// Loaded and attached programs. Dropping them unloads them from the kernel.
pub struct Programs<'object> {
    _skeleton: RecorderSkel<'object>,
    rings: Rings<SharedWords>,
    /// The ring buffer of file names, and the names that were read from it.
    names: RingBuffer<'static>,
    named: Rc<RefCell<Vec<FileName>>>,
    /// The ring buffer of notices of kills, and the notices that were not taken yet.
    notices: RingBuffer<'static>,
    noticed: Rc<RefCell<Vec<Notice>>>,
    batch: Batch,
    /// Whether page-outs of pages of zeros are marked.
    pub marks_zeros: bool,
    /// Parts that the recording lacks although the kernel permits BPF.
    pub absent: Vec<Missing>,
}

/// The most records of a batch: few enough to stay in the processor's cache.
const BATCH_RECORDS: usize = 4096;

/// Storage for the programs; it must outlive them.
pub type Object = MaybeUninit<libbpf_rs::OpenObject>;

/// Storage for programs.
pub fn object() -> Object {
    MaybeUninit::uninit()
}

impl<'object> Programs<'object> {
    /// Loads and attaches the programs of `sources`. Notices of kills contain the usage of the group `noted`.
    /// `buffer_bytes` is the size of the rings; `object` is the storage of the programs.
    ///
    /// # Errors
    /// The kernel refuses: BPF needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF.
    pub fn attach(
        object: &'object mut Object,
        sources: &[&Source],
        filter: &EventFilter,
        noted: Option<&MemoryGroup>,
        buffer_bytes: u32,
    ) -> Result<Programs<'object>, Error> {
        let root = Root::system();
        probe::btf(&root).map_err(Error::Bpf)?;
        let machine = Machine::this(&root)?;
        check_page_size(machine.page_bytes)?;
        keep_prints();
        let mut open = RecorderSkelBuilder::default().open(object).map_err(refused)?;
        load_only(&mut open, &programs_of(sources, &root)?);
        let processors = machine.processors as usize;
        let sizes = RingSizes::of(buffer_bytes as usize, processors);
        let zeros = Zeros::here(&root, "bpf", sources)?;
        let threads = threads_max(&root)?;
        set_constants(&mut open, filter, noted, sizes, threads, zeros == Zeros::Marked)?;
        size_maps(&mut open, sources, sizes, threads)?;
        let mut skeleton = open.load().map_err(refused)?;
        let rings = Rings::new(
            sizes,
            SharedWords::of(skeleton.maps.rings.as_fd(), sizes.position_words())?,
            SharedWords::of(skeleton.maps.records.as_fd(), sizes.record_words())?,
        );
        let named = Rc::default();
        let mounts = linux::mounts::by_device(&root)?;
        let names = names(&skeleton, mounts, Rc::clone(&named)).map_err(refused)?;
        let noticed = Rc::default();
        let notices = notices(&skeleton, Rc::clone(&noticed)).map_err(refused)?;
        skeleton.attach().map_err(refused)?;
        let batch = Batch::default();
        let absent = zeros.missing().into_iter().collect();
        Ok(Programs {
            _skeleton: skeleton,
            rings,
            names,
            named,
            notices,
            noticed,
            batch,
            marks_zeros: zeros == Zeros::Marked,
            absent,
        })
    }

    /// Waits until it is time to drain, or until a kill is noticed.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait(&mut self) -> Result<(), Error> {
        match self.notices.poll(self.drain_every()) {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => Ok(()),
            polled => polled.map_err(refused),
        }
    }

    /// The notices of kills since the last call, oldest first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn notices(&mut self) -> Result<Vec<Notice>, Error> {
        self.notices.consume().map_err(refused)?;
        Ok(std::mem::take(&mut self.noticed.borrow_mut()))
    }

    /// Passes the records in the rings to `take` in batches, and removes them. Records that arrive meanwhile wait
    /// for the next call, so that the records of all processors stay in order.
    ///
    /// # Errors
    /// The kernel refuses, or `take` fails.
    pub fn drain(
        &mut self,
        mut take: impl FnMut(&Batch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let until_ns = linux::system::monotonic_ns();
        loop {
            self.batch.clear();
            self.rings.take(until_ns, BATCH_RECORDS, &mut self.batch.records);
            // Read after the records, because the programs write a name before the first record that needs it.
            self.names.consume().map_err(refused)?;
            self.batch.files.append(&mut self.named.borrow_mut());
            take(&self.batch)?;
            if self.batch.records.len() < BATCH_RECORDS {
                return Ok(());
            }
        }
    }

    /// How often to drain the rings.
    fn drain_every(&self) -> Duration {
        self.rings.read_every()
    }

    /// Events whose record found the buffer full so far.
    pub fn lost(&self) -> u64 {
        self.rings.lost()
    }
}

/// Checks whether the kernel permits BPF programs to trace functions: attaches one and detaches it.
///
/// # Errors
/// The reason why it does not.
pub fn probe_function_entry() -> Result<(), Error> {
    probe::btf(&Root::system()).map_err(Error::Bpf)?;
    keep_prints();
    let mut object = object();
    let mut open = RecorderSkelBuilder::default().open(&mut object).map_err(refused)?;
    load_only(&mut open, &["function_entry"]);
    open.load().map_err(refused)?.attach().map_err(refused)
}

/// Makes libbpf load only the programs `wanted`.
fn load_only(open: &mut OpenRecorderSkel, wanted: &[&str]) {
    for mut program in open.open_object_mut().progs_mut() {
        let is_wanted = program.name().to_str().is_some_and(|name| wanted.contains(&name));
        program.set_autoload(is_wanted);
    }
}

/// The programs of `sources` that this kernel needs.
fn programs_of(sources: &[&Source], root: &Root) -> Result<Vec<&'static str>, Error> {
    let is_by_task = linux::system::counts_pages_by_task(root)?;
    let has_faults = has_fault_tracepoints()?;
    let programs = sources.iter().flat_map(|source| source.programs).copied();
    let is_needed = |name: &&str| {
        needs_counts_by_task(name).is_none_or(|by_task| by_task == is_by_task)
            && needs_fault_tracepoints(name).is_none_or(|needed| needed == has_faults)
    };
    Ok(programs.filter(is_needed).collect())
}

/// Whether the kernel has tracepoints of page faults, which arm64 lacks.
fn has_fault_tracepoints() -> Result<bool, Error> {
    let types = Btf::from_vmlinux().map_err(refused)?;
    Ok(types.type_by_name::<Typedef<'_>>("btf_trace_page_fault_user").is_some())
}

/// For a program that detects the begin of a fault: whether it is for kernels with tracepoints of page faults. The
/// other uses function tracing. None for other programs.
fn needs_fault_tracepoints(program: &str) -> Option<bool> {
    match program {
        "user_fault" | "kernel_fault" => Some(true),
        "fault_entered" => Some(false),
        _ => None,
    }
}

/// Sets the constants of the programs.
fn set_constants(
    open: &mut OpenRecorderSkel,
    filter: &EventFilter,
    noted: Option<&MemoryGroup>,
    sizes: RingSizes,
    threads: u32,
    marks_zeros: bool,
) -> Result<(), Error> {
    let constants = open
        .maps
        .rodata_data
        .as_deref_mut()
        .ok_or_else(|| Error::Bpf("the programs have no constants to set".to_owned()))?;
    if let Some(group) = &filter.group {
        constants.only_cgroup = group.id;
        constants.cgroup_level = group.level;
    }
    if let Some(group) = noted {
        constants.noted_cgroup = group.id;
        constants.noted_level = group.level;
    }
    constants.nodes = linux::system::memory_nodes(&Root::system());
    let memory = Hierarchy::of(&Root::system(), "memory")?;
    constants.uses_memory_controller = memory.is_some_and(|found| found.version == Version::V1);
    constants.only_process = filter.process.unwrap_or(0);
    constants.ring_mask = sizes.rings as u32 - 1;
    constants.record_mask = sizes.records as u32 - 1;
    constants.thread_mask = threads - 1;
    constants.marks_zeros = marks_zeros;
    Ok(())
}

/// Sets the sizes of the maps. The kernel allocates the whole of most maps, however few entries are used, so maps that
/// no source needs are left out or made as small as possible.
fn size_maps(
    open: &mut OpenRecorderSkel,
    sources: &[&Source],
    sizes: RingSizes,
    threads: u32,
) -> Result<(), Error> {
    let has = |name| sources.iter().any(|source| source.name == name);
    let maps = &mut open.maps;
    let mut set = || {
        maps.rings.set_max_entries(sizes.rings as u32)?;
        maps.records.set_max_entries((sizes.rings * sizes.records) as u32)?;
        maps.faults.set_max_entries(threads)?;
        maps.written_folios.set_max_entries(threads)?;
        if !has("files") {
            maps.named_files.set_autocreate(false)?;
            maps.names.set_max_entries(linux::system::page_bytes() as u32)?;
        }
        if !has("block") {
            maps.requeued.set_autocreate(false)?;
        }
        Ok(())
    };
    set().map_err(refused)
}

/// `THREADS_MAX` of recorder.bpf.c.
const THREADS_MAX: u32 = 1 << 16;

/// The number of entries in the tables of threads: a power of two, and no more than pid_max, the kernel's bound of
/// thread IDs, needs. In a PID namespace of its own, pid_max may be that of the namespace (Linux 6.14), while BPF programs see
/// all threads.
fn threads_max(root: &Root) -> Result<u32, Error> {
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace != std::path::Path::new(FIRST_PID_NAMESPACE) {
        return Ok(THREADS_MAX);
    }
    let most = root.read("/proc/sys/kernel/pid_max")?;
    let most = most.and_then(|text| text.trim().parse::<u32>().ok());
    Ok(most.map_or(THREADS_MAX, |most| most.clamp(1, THREADS_MAX).next_power_of_two()))
}

/// The PID namespace in which the kernel started (`PROC_PID_INIT_INO` in include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// For a program that detects swap-ins: whether it is for kernels on which each task counts its own pages. Those
/// programs use function tracing, which newer kernels may refuse. None for other programs.
fn needs_counts_by_task(program: &str) -> Option<bool> {
    match program {
        "swapped_pages_change" => Some(false),
        "swap_in_begins" | "swap_in_ends" => Some(true),
        _ => None,
    }
}

/// The ring buffer of file names; consuming it appends the names to `named`.
fn names(
    skeleton: &RecorderSkel,
    mounts: HashMap<u32, String>,
    named: Rc<RefCell<Vec<FileName>>>,
) -> Result<RingBuffer<'static>, libbpf_rs::Error> {
    let mut builder = RingBufferBuilder::new();
    builder.add(&skeleton.maps.names, move |bytes| {
        named.borrow_mut().extend(file_names::from_kernel(bytes, &mounts));
        0
    })?;
    builder.build()
}

/// The ring buffer of notices; consuming it appends the notices to `noticed`.
fn notices(
    skeleton: &RecorderSkel,
    noticed: Rc<RefCell<Vec<Notice>>>,
) -> Result<RingBuffer<'static>, libbpf_rs::Error> {
    let mut builder = RingBufferBuilder::new();
    builder.add(&skeleton.maps.notices, move |bytes| {
        noticed.borrow_mut().extend(Notice::from_kernel(bytes));
        0
    })?;
    builder.build()
}
