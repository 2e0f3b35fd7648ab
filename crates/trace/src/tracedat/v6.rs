//! The metadata of version 6 (trace-cmd.dat.v6(5)): one part after the other.

use super::contents::{CPUS_MAX, Compression, Contents, CpuPart, option};
use super::cursor::Cursor;
use crate::Error;
use crate::whole::Whole;

/// The words of ten bytes that begin the parts behind the names of tasks.
const OPTIONS: &[u8; 10] = b"options  \0";
const LATENCY: &[u8; 10] = b"latency  \0";
const FLYRECORD: &[u8; 10] = b"flyrecord\0";

/// Reads the metadata from behind the initial header on.
pub(super) fn read(
    whole: &Whole,
    cursor: &mut Cursor,
    page_bytes: usize,
    contents: &mut Contents,
) -> Result<(), Error> {
    contents.read_header_info(cursor)?;
    contents.formats.read_tracers(cursor)?;
    contents.formats.read_systems(cursor)?;
    for what in ["the symbols of the kernel", "the formats of trace_printk"] {
        let length = cursor.number(4)?;
        cursor.skip(length, what)?;
    }
    contents.read_comms(cursor)?;
    let cpus = cursor.u32()?;
    let mut instances = Vec::new();
    let mut word = [0; 10];
    cursor.fill(&mut word)?;
    if &word == OPTIONS {
        read_options(cursor, contents, &mut instances)?;
        cursor.fill(&mut word)?;
    }
    if &word == LATENCY {
        return Err(cursor.holds_text());
    }
    if &word != FLYRECORD {
        return Err(cursor.corrupt("expected `flyrecord` or `latency`"));
    }
    let top = contents.add_instance(b"");
    read_cpus(cursor, contents, cpus, page_bytes, top)?;
    for (offset, name) in instances {
        let mut cursor = Cursor::new(whole, offset, cursor.order);
        cursor.fill(&mut word)?;
        if &word != FLYRECORD {
            return Err(cursor.corrupt("expected `flyrecord` of an instance"));
        }
        let instance = contents.add_instance(&name);
        read_cpus(&mut cursor, contents, cpus, page_bytes, instance)?;
    }
    Ok(())
}

/// Reads the options up to the end mark; `instances` gets the offset and the name of each instance.
fn read_options(
    cursor: &mut Cursor,
    contents: &mut Contents,
    instances: &mut Vec<(u64, Vec<u8>)>,
) -> Result<(), Error> {
    loop {
        let id = cursor.number(2)?;
        if id == option::DONE {
            return Ok(());
        }
        let length = cursor.number(4)?;
        let data = cursor.block(length, "an option")?;
        if id != option::BUFFER {
            contents.take_option(id, &data);
            continue;
        }
        let Some((offset, name)) = data.split_first_chunk::<8>() else {
            return Err(cursor.corrupt("expected 8 bytes and a name of an instance"));
        };
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        instances.push((cursor.order.number(offset), name.to_vec()));
    }
}

/// Reads offset and length of the events of each CPU.
fn read_cpus(
    cursor: &mut Cursor,
    contents: &mut Contents,
    cpus: u32,
    page_bytes: usize,
    instance: u32,
) -> Result<(), Error> {
    if contents.parts.len() as u64 + u64::from(cpus) > CPUS_MAX {
        return Err(cursor.corrupt(format!("{cpus} CPUs; at most {CPUS_MAX} in all instances")));
    }
    for cpu in 0..cpus {
        let (offset, length) = (cursor.number(8)?, cursor.number(8)?);
        let compression = Compression::None;
        let part = CpuPart { cpu, instance, page_bytes, offset, length, compression };
        contents.add_part(part, cursor)?;
    }
    Ok(())
}
