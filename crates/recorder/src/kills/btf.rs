//! Receives the events of kills from BPF programs on typed tracepoints, without tracefs (bpf/kills.bpf.c).

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use linux::system::Symbols;
use linux::{Root, probe};
use trace::kills::{CATALOG, EVENT_BYTES, Event, typed_event};
use trace::recording::Missing;

use crate::Error;
use crate::bpf::Object;
use crate::refusals::{check_page_size, keep_prints, refused};
use skeleton::{KillsSkel, KillsSkelBuilder};

#[allow(
    missing_docs,
    unsafe_code,
    clippy::all,
    clippy::unwrap_used,
    clippy::allow_attributes_without_reason,
    reason = "generated from kills.bpf.c"
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/kills.skel.rs"));
}

/// Loaded and attached programs. Dropping them unloads them from the kernel.
pub struct Programs<'object> {
    skeleton: KillsSkel<'object>,
    ring: RingBuffer<'static>,
    heard: Rc<RefCell<Vec<Event>>>,
    /// Parts that the recording lacks on this kernel.
    pub absent: Vec<Missing>,
}

impl<'object> Programs<'object> {
    /// Loads and attaches the programs whose tracepoints this kernel has.
    ///
    /// # Errors
    /// The kernel refuses: BPF needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF.
    pub fn attach(
        root: &Root,
        object: &'object mut Object,
        buffer_bytes: u32,
    ) -> Result<Programs<'object>, Error> {
        probe::btf(root).map_err(Error::Bpf)?;
        check_page_size(linux::system::page_bytes())?;
        keep_prints();
        let mut open = KillsSkelBuilder::default().open(object).map_err(refused)?;
        let symbols = Symbols::read(root)?;
        let mut absent = Vec::new();
        for mut program in open.open_object_mut().progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let name = section.rsplit('/').next().unwrap_or_default();
            if !symbols.has(&format!("__traceiter_{name}")) {
                program.set_autoload(false);
                absent.push(missing(name));
            }
        }
        let constants = open
            .maps
            .rodata_data
            .as_deref_mut()
            .ok_or_else(|| Error::Bpf("the programs have no constants to set".to_owned()))?;
        constants.system_calls = linux::system::kill_calls();
        open.maps.events.set_max_entries(buffer_bytes).map_err(refused)?;
        let mut skeleton = open.load().map_err(refused)?;
        let heard = Rc::default();
        let ring = ring(&skeleton, Rc::clone(&heard)).map_err(refused)?;
        skeleton.attach().map_err(refused)?;
        Ok(Programs { skeleton, ring, heard, absent })
    }

    /// The events since the last call.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn drain(&mut self) -> Result<Vec<Event>, Error> {
        self.ring.consume().map_err(refused)?;
        Ok(std::mem::take(&mut self.heard.borrow_mut()))
    }

    /// Disables the events that matter only while a process dies.
    pub fn disarm(&mut self) {
        if let Some(data) = self.skeleton.maps.bss_data.as_deref_mut() {
            data.is_armed = 0;
        }
    }

    /// Events that found the buffer full so far.
    pub fn lost(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |data| data.lost)
    }
}

/// The part that the recording lacks without the tracepoint `name`.
fn missing(name: &str) -> Missing {
    let is_it = |event: &str| event.rsplit('/').next() == Some(name);
    let row = CATALOG.iter().find(|row| is_it(row.event));
    let what = row.map_or("when a signal's delivery began", |row| row.without_it);
    let why = format!("this kernel has no tracepoint {name}");
    Missing { what: what.to_owned(), why }
}

/// The ring buffer of events; consuming it appends the events to `heard`.
fn ring(
    skeleton: &KillsSkel,
    heard: Rc<RefCell<Vec<Event>>>,
) -> Result<RingBuffer<'static>, libbpf_rs::Error> {
    let mut builder = RingBufferBuilder::new();
    builder.add(&skeleton.maps.events, move |bytes| {
        let event: Option<&[u8; EVENT_BYTES]> = bytes.try_into().ok();
        heard.borrow_mut().extend(event.and_then(typed_event));
        0
    })?;
    builder.build()
}
