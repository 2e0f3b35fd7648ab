//! The metadata of version 7 (trace-cmd.dat.v7(5)): sections, which options name.

use super::chunk::unpack;
use super::contents::{CPUS_MAX, Compression, Contents, CpuPart, option};
use super::cursor::Cursor;
use crate::Error;
use crate::whole::Whole;

/// Flag of a section that is compressed.
const COMPRESSED: u64 = 1;

/// The most sections of options. Each names the next, so that damage could make a circle.
const OPTION_SECTIONS_MAX: usize = 1000;

/// Reads the metadata from behind the initial header on. The order of the sections in the file is free,
/// so the options are read first.
pub(super) fn read(
    whole: &Whole,
    cursor: &mut Cursor,
    contents: &mut Contents,
) -> Result<(), Error> {
    let name = cursor.string()?;
    let _version = cursor.string()?;
    let compression = match name.as_slice() {
        b"none" => Compression::None,
        b"zlib" => Compression::Zlib,
        b"zstd" => Compression::Zstd,
        other => {
            let other = String::from_utf8_lossy(other);
            return Err(cursor.corrupt(format!(
                "compressed by `{other}`: only zstd, zlib and none are read; \
                 `trace-cmd convert --compression none` unpacks it"
            )));
        }
    };
    let first = cursor.number(8)?;
    let file = File { whole, order: cursor.order, compression };
    let (mut sections, mut buffers) = ([None; 7], Vec::new());
    let mut next = first;
    for _ in 0..OPTION_SECTIONS_MAX {
        next = file.read_options(next, contents, &mut sections, &mut buffers)?;
        if next == 0 {
            break;
        }
    }
    if next != 0 {
        let message = format!("more than {OPTION_SECTIONS_MAX} sections of options");
        return Err(whole.corrupt(next, message));
    }
    // By their distance from HEADER_INFO; the symbols of the kernel and the formats of trace_printk are
    // not needed.
    if let Some(at) = sections[0] {
        contents.read_header_info(&mut file.section(at, option::HEADER_INFO)?.0)?;
    }
    if let Some(at) = sections[1] {
        contents.formats.read_tracers(&mut file.section(at, option::FTRACE_EVENTS)?.0)?;
    }
    if let Some(at) = sections[2] {
        contents.formats.read_systems(&mut file.section(at, option::EVENT_FORMATS)?.0)?;
    }
    if let Some(at) = sections[5] {
        contents.read_comms(&mut file.section(at, option::CMDLINES)?.0)?;
    }
    if buffers.is_empty() && sections[6].is_some() {
        return Err(cursor.holds_text());
    }
    for mut buffer in buffers {
        file.read_buffer(&mut buffer, contents)?;
    }
    Ok(())
}

/// The file, and what all its sections share.
struct File<'file> {
    whole: &'file Whole,
    order: super::order::ByteOrder,
    compression: Compression,
}

impl File<'_> {
    /// The header of the section at `at`: a cursor behind it, its flags and its length.
    fn header(&self, at: u64, wanted: u64) -> Result<(Cursor, u64, u64), Error> {
        let mut cursor = Cursor::new(self.whole, at, self.order);
        let id = cursor.number(2)?;
        let flags = cursor.number(2)?;
        let _description = cursor.u32()?;
        let length = cursor.number(8)?;
        if id != wanted {
            return Err(self.whole.corrupt(at, format!("expected section {wanted}, found {id}")));
        }
        Ok((cursor, flags, length))
    }

    /// The unpacked content of the section at `at`, and its length.
    fn section(&self, at: u64, wanted: u64) -> Result<(Cursor, u64), Error> {
        let (mut cursor, flags, length) = self.header(at, wanted)?;
        if flags & COMPRESSED == 0 {
            return Ok((cursor, length));
        }
        let packed = cursor.number(4)?;
        let unpacked = cursor.number(4)?;
        let bytes = cursor.block(packed, "a compressed section")?;
        let bytes = unpack(self.compression, &bytes, unpacked)
            .map_err(|message| self.whole.corrupt(at, message))?;
        let length = bytes.len() as u64;
        Ok((Cursor::within(self.whole, at, bytes, self.order), length))
    }

    /// Reads the options of the section at `at` and returns the offset of the next such section, or 0.
    fn read_options(
        &self,
        at: u64,
        contents: &mut Contents,
        sections: &mut [Option<u64>; 7],
        buffers: &mut Vec<Cursor>,
    ) -> Result<u64, Error> {
        let (mut cursor, _) = self.section(at, option::DONE)?;
        loop {
            let id = cursor.number(2)?;
            let length = cursor.number(4)?;
            let data = cursor.block(length, "an option")?;
            let offset = || self.order.number(&data[..data.len().min(8)]);
            match id {
                option::DONE => return Ok(offset()),
                option::BUFFER => {
                    buffers.push(Cursor::within(self.whole, at, data, self.order));
                    if buffers.len() as u64 > CPUS_MAX {
                        return Err(cursor.corrupt(format!("more than {CPUS_MAX} instances")));
                    }
                }
                option::HEADER_INFO..=option::BUFFER_TEXT => {
                    let place = (id - option::HEADER_INFO) as usize;
                    sections[place] = Some(offset());
                }
                _ => contents.take_option(id, &data),
            }
        }
    }

    /// Reads the option that describes an instance: the offset of its section, its name, its clock, and
    /// where the events of each CPU lie.
    fn read_buffer(&self, option: &mut Cursor, contents: &mut Contents) -> Result<(), Error> {
        let section = option.number(8)?;
        let name = option.string()?;
        let clock = option.string()?;
        let page_bytes = option.u32()? as usize;
        let cpus = option.u32()?;
        let (_, flags, _) = self.header(section, option::BUFFER)?;
        let is_packed = flags & COMPRESSED != 0;
        let compression = if is_packed { self.compression } else { Compression::None };
        if contents.clock.name.is_empty() {
            contents.clock.name = String::from_utf8_lossy(&clock).into_owned();
        }
        let instance = contents.add_instance(&name);
        if contents.parts.len() as u64 + u64::from(cpus) > CPUS_MAX {
            return Err(option.corrupt(format!("{cpus} CPUs; at most {CPUS_MAX} in all instances")));
        }
        for _ in 0..cpus {
            let cpu = option.u32()?;
            let (offset, length) = (option.number(8)?, option.number(8)?);
            let part = CpuPart { cpu, instance, page_bytes, offset, length, compression };
            contents.add_part(part, option)?;
        }
        Ok(())
    }
}
