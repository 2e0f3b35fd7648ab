//! The BPF programs in the kernel, and the ring buffer that they fill.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, PrintLevel, RingBuffer, RingBufferBuilder};
use linux::cgroup::Version;
use trace::recording::Record;

use crate::batch::Batch;
use crate::sources::Source;
use crate::{Error, Filter, file_names};
use skeleton::{RecorderSkel, RecorderSkelBuilder};

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

/// Programs that are loaded and attached. Dropped, they leave the kernel.
pub struct Programs<'object> {
    skeleton: RecorderSkel<'object>,
    buffer: RingBuffer<'static>,
    /// Batches that a full buffer makes.
    batches_max: u32,
    /// What the buffer held when it was last looked at.
    drained: Rc<RefCell<Batch>>,
}

/// So few records that a batch stays in the processor's cache.
const BATCH_RECORDS: usize = 4096;

/// Bytes of a record in the buffer, its head included.
const RECORD_BYTES: usize = 48;

/// Where the programs live; made before them and dropped after them.
pub type Object = MaybeUninit<libbpf_rs::OpenObject>;

/// Room for programs.
pub fn object() -> Object {
    MaybeUninit::uninit()
}

impl<'object> Programs<'object> {
    /// Loads the programs of `sources` and attaches them. `buffer_bytes` is the room for records
    /// that wait to be read, a power of two of at least a page; `object` is where they live.
    ///
    /// # Errors
    /// What the kernel refuses: BPF needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF.
    pub fn attach(
        object: &'object mut Object,
        sources: &[&Source],
        filter: &Filter,
        buffer_bytes: u32,
    ) -> Result<Programs<'object>, Error> {
        // What libbpf has to say arrives in errors; its own printing would disturb a user.
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
        let mut open = RecorderSkelBuilder::default().open(object).map_err(refused)?;
        let root = linux::Root::system();
        let is_by_task = linux::system::counts_pages_by_task(&root)?;
        let wanted: Vec<&str> = sources
            .iter()
            .flat_map(|source| source.programs)
            .copied()
            .filter(|name| tells_swap_ins(name).is_none_or(|by_task| by_task == is_by_task))
            .collect();
        for mut program in open.open_object_mut().progs_mut() {
            let is_wanted = program.name().to_str().is_some_and(|name| wanted.contains(&name));
            program.set_autoload(is_wanted);
        }
        let constants = open
            .maps
            .rodata_data
            .as_deref_mut()
            .ok_or_else(|| Error::Bpf("the programs have no constants to set".to_owned()))?;
        if let Some(group) = &filter.group {
            constants.only_cgroup = group.id;
            constants.cgroup_level = group.level;
            constants.uses_memory_controller = group.version == Version::V1;
        }
        constants.only_process = filter.process.unwrap_or(0);
        open.maps.records.set_max_entries(buffer_bytes).map_err(refused)?;
        let mut skeleton = open.load().map_err(refused)?;
        let drained = Rc::new(RefCell::new(Batch::default()));
        let mounts = linux::mounts::by_device(&root)?;
        let buffer = ring(&skeleton, mounts, Rc::clone(&drained)).map_err(refused)?;
        skeleton.attach().map_err(refused)?;
        let batches_max = buffer_bytes / (BATCH_RECORDS * RECORD_BYTES) as u32 + 1;
        Ok(Programs { skeleton, buffer, batches_max, drained })
    }

    /// Hands what the buffer holds to `take`, a batch at a time, and empties it; what comes
    /// meanwhile may wait for the next time.
    ///
    /// # Errors
    /// What the kernel refuses, or `take`.
    pub fn drain(&self, mut take: impl FnMut(&Batch) -> Result<(), Error>) -> Result<(), Error> {
        for _ in 0..self.batches_max {
            let count = self.buffer.consume_raw_n(BATCH_RECORDS);
            if count < 0 {
                return Err(refused(libbpf_rs::Error::from_raw_os_error(-count)));
            }
            let mut batch = self.drained.borrow_mut();
            let taken = take(&batch);
            batch.clear();
            taken?;
            if (count as usize) < BATCH_RECORDS {
                break;
            }
        }
        Ok(())
    }

    /// Records that found the buffer full so far.
    pub fn lost(&self) -> u64 {
        let key = 0u32.to_ne_bytes();
        let value = self.skeleton.maps.lost.lookup(&key, MapFlags::ANY).ok().flatten();
        value.and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?))).unwrap_or(0)
    }
}

/// Of a program that tells swap-ins: whether it does so where each task counts its own pages.
/// None of the others. What tells them there is function tracing, which newer kernels may refuse.
fn tells_swap_ins(program: &str) -> Option<bool> {
    match program {
        "swapped_pages_change" => Some(false),
        "swap_in_begins" | "swap_in_ends" => Some(true),
        _ => None,
    }
}

fn refused(error: libbpf_rs::Error) -> Error {
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        let what = "the kernel refuses it; run as root, or with CAP_BPF and CAP_PERFMON";
        return Error::Bpf(format!("{what} ({error:#})"));
    }
    Error::Bpf(format!("{error:#}"))
}

/// The buffer of the programs, which puts what it holds into `drained` when it is consumed.
fn ring(
    skeleton: &RecorderSkel,
    mounts: HashMap<u32, String>,
    drained: Rc<RefCell<Batch>>,
) -> Result<RingBuffer<'static>, libbpf_rs::Error> {
    let mut builder = RingBufferBuilder::new();
    builder.add(&skeleton.maps.records, move |bytes| {
        let mut batch = drained.borrow_mut();
        // The kernel's side writes whole records, and names of files, which differ in length.
        match bytes.try_into() {
            Ok(bytes) => batch.records.push(Record::from_kernel(bytes)),
            Err(_) => batch.files.extend(file_names::from_kernel(bytes, &mounts)),
        }
        0
    })?;
    builder.build()
}
