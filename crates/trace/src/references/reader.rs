//! Reads the steps of a `.pwf` file.

use std::path::Path;

use types::{ReferenceStep, ReferenceTotals};
use zstd::bulk::Decompressor;

use super::file::{
    END, Ending, FILTER_BLOCKS_MIN, MAGIC, MAPPINGS, ORIGIN, ORIGIN_BYTES_MAX, Origin, STEPS,
    VERSION, VERSION_UNCHECKED,
};
use super::frame::{self, FRAME_BYTES_MAX, Streams};
use super::mappings::{self, MappingChange};
use super::slots::{SlotStep, Slots};
use crate::checksum::{WRONG_HEAD, head_sum};
use crate::input::Input;
use crate::{Error, ErrorKind, Position};

/// Bytes of a length, and of the checksum after it.
const WORD_BYTES: usize = size_of::<u32>();

/// Reads a trace of references a frame at a time, in bounded memory.
///
/// It checks that a filter can make these steps, but not that a block that enters was not held before.
pub struct Reader {
    input: Input,
    /// Whether lengths have a checksum.
    is_checked: bool,
    origin: Origin,
    decompressor: Decompressor<'static>,
    packed: Vec<u8>,
    frame: Vec<u8>,
    streams: Streams,
    slots: Slots,
    steps: Vec<SlotStep>,
    changes: Vec<MappingChange>,
    totals: ReferenceTotals,
    /// References of all steps so far.
    references: u64,
    ending: Option<Ending>,
}

impl Reader {
    /// Opens the trace at `path`, or on standard input if that is `-`.
    ///
    /// # Errors
    /// If the file cannot be read or is no trace of references.
    pub fn open(path: &Path) -> Result<Reader, Error> {
        Reader::of_input(Input::open(path, false)?)
    }

    /// Opens a trace in memory; `name` replaces its path.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Reader, Error> {
        Reader::of_input(Input::from_bytes(name, bytes)?)
    }

    /// Opens a trace from an input at its beginning.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn of_input(input: Input) -> Result<Reader, Error> {
        let decompressor = Decompressor::new().map_err(|error| {
            Error::new(ErrorKind::Io, input.path(), format!("cannot decompress: {error}"))
        })?;
        let mut reader = Reader {
            input,
            is_checked: true,
            origin: Origin::new("", Vec::new()),
            decompressor,
            packed: Vec::new(),
            frame: Vec::new(),
            streams: Streams::default(),
            slots: Slots::new(types::FILTER_BLOCKS),
            steps: Vec::new(),
            changes: Vec::new(),
            totals: ReferenceTotals::default(),
            references: 0,
            ending: None,
        };
        reader.read_head()?;
        Ok(reader)
    }

    /// The path as it was opened.
    pub fn path(&self) -> &Path {
        self.input.path()
    }

    /// The origin of the trace.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// References at least up to the last step read; all references after `next_steps` returns false.
    pub fn totals(&self) -> ReferenceTotals {
        self.totals
    }

    /// How the trace ends, known after `next_steps` returns false; `None` if the file was cut.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Bytes read, and length of the file (0 if unknown).
    pub fn progress(&self) -> (u64, u64) {
        (self.input.meter().bytes(), self.input.file_bytes())
    }

    /// Changes of mappings that the last batch came with. They are among the steps of that batch or of later ones.
    pub fn changes(&self) -> &[MappingChange] {
        &self.changes
    }

    /// Replaces `steps` by the next batch, which may be empty; false at the end of the trace, or after the last complete
    /// frame of a cut file.
    ///
    /// # Errors
    /// If the file cannot be read or violates the layout, with the offset.
    pub fn next_steps(&mut self, steps: &mut Vec<ReferenceStep>) -> Result<bool, Error> {
        steps.clear();
        self.changes.clear();
        if self.ending.is_some() {
            return Ok(false);
        }
        let start = self.input.offset();
        if !self.next_frame(FRAME_BYTES_MAX)? {
            return match self.totals.all() {
                Some(0) => {
                    Err(self.corrupt(start, "the file was cut off before its first complete frame"))
                }
                _ => Ok(false),
            };
        }
        let answer = match self.frame.first() {
            Some(&STEPS) => self.take_steps(steps),
            Some(&MAPPINGS) => mappings::decode(&self.frame, &mut self.changes)
                .map_err(|what| format!("found {what}")),
            Some(&END) => self.take_end(),
            _ => Err("expected a frame of steps, or the end".to_owned()),
        };
        answer.map_err(|what| self.corrupt(start, &what))?;
        if self.ending.is_some() && !self.input.fill()?.is_empty() {
            return Err(self.input.corrupt("expected nothing after the end"));
        }
        Ok(self.ending.is_none())
    }

    fn take_steps(&mut self, steps: &mut Vec<ReferenceStep>) -> Result<(), String> {
        let totals = frame::decode(&self.frame, &mut self.streams, &mut self.steps)
            .map_err(|what| format!("found {what}"))?;
        for &step in &self.steps {
            let references = self.references.checked_add(step.references);
            self.references = references.ok_or("found more references than 64 bits can count")?;
            let step = self.slots.enter(step).ok_or("found a step that no filter makes")?;
            steps.push(step);
        }
        self.take_totals(totals)
    }

    fn take_end(&mut self) -> Result<(), String> {
        let ending: Ending = serde_json::from_slice(&self.frame[1..])
            .map_err(|error| format!("its end is damaged: {error}"))?;
        self.take_totals(ending.totals())?;
        self.ending = Some(ending);
        Ok(())
    }

    fn take_totals(&mut self, totals: ReferenceTotals) -> Result<(), String> {
        let (before, now) = (self.totals, totals);
        let is_more = now.instructions >= before.instructions
            && now.reads >= before.reads
            && now.writes >= before.writes;
        if !is_more || now.all().is_none_or(|all| all < self.references) {
            return Err("found totals that contradict the steps".to_owned());
        }
        self.totals = now;
        Ok(())
    }

    fn read_head(&mut self) -> Result<(), Error> {
        let mut head = [0; MAGIC.len() + 2];
        let count = self.input.read_into(&mut head)?;
        let expected = "expected a trace of references, as `pagewise capture` and `pagewise import \
                        --as refs` write";
        if count < head.len() || head[..MAGIC.len()] != *MAGIC {
            let error = Error::new(ErrorKind::UnknownFormat, self.path(), expected);
            return Err(error.at(Position::Byte(0)));
        }
        let [.., v0, v1] = head;
        let version = u16::from_le_bytes([v0, v1]);
        if version != VERSION && version != VERSION_UNCHECKED {
            let message = format!(
                "is of version {version}; this pagewise reads versions {VERSION_UNCHECKED} and \
                 {VERSION}"
            );
            return Err(self.corrupt(MAGIC.len() as u64, &message));
        }
        self.is_checked = version == VERSION;
        let start = self.input.offset();
        let origin = if self.is_checked { self.first_frame()? } else { self.bare_origin()? };
        let origin = origin.ok_or_else(|| self.corrupt(start, "ends within its origin"))?;
        self.origin = serde_json::from_slice(&origin)
            .map_err(|error| self.corrupt(start, &format!("its origin is damaged: {error}")))?;
        let (blocks, bytes) = (self.origin.filter_blocks, self.origin.block_bytes);
        let is_known = (FILTER_BLOCKS_MIN..=types::FILTER_BLOCKS).contains(&blocks);
        if !is_known || bytes != types::BLOCK_BYTES {
            let message = format!(
                "its filter holds {blocks} blocks of {bytes} bytes; this pagewise reads {FILTER_BLOCKS_MIN} to {} of {}",
                types::FILTER_BLOCKS,
                types::BLOCK_BYTES
            );
            return Err(self.corrupt(start, &message));
        }
        self.slots = Slots::new(blocks);
        Ok(())
    }

    /// The origin as JSON; `None` if the file ends within it.
    fn first_frame(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let start = self.input.offset();
        if !self.next_frame(ORIGIN_BYTES_MAX)? {
            return Ok(None);
        }
        match self.frame.split_first() {
            Some((&ORIGIN, json)) => Ok(Some(json.to_vec())),
            _ => Err(self.corrupt(start, "expected its origin")),
        }
    }

    /// The origin of a file without checksums of lengths; `None` if the file ends within it.
    fn bare_origin(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut length = [0; WORD_BYTES];
        if self.input.read_into(&mut length)? < length.len() {
            return Ok(None);
        }
        let length = u32::from_le_bytes(length) as usize;
        let mut origin = vec![0; length.min(ORIGIN_BYTES_MAX)];
        let is_whole = length == self.input.read_into(&mut origin)?;
        Ok(is_whole.then_some(origin))
    }

    /// Unpacks the next frame, of at most `bytes_max`; false at the end of the file or within a frame.
    fn next_frame(&mut self, bytes_max: usize) -> Result<bool, Error> {
        let start = self.input.offset();
        let mut head = [0; 2 * WORD_BYTES];
        let head = &mut head[..if self.is_checked { 2 * WORD_BYTES } else { WORD_BYTES }];
        if self.input.read_into(head)? < head.len() {
            return Ok(false);
        }
        let (length, sum) = head.split_at(WORD_BYTES);
        if self.is_checked && *sum != head_sum(start, length).to_le_bytes() {
            return Err(self.corrupt(start, WRONG_HEAD));
        }
        let length = u32::from_le_bytes(length.try_into().expect("a word")) as usize;
        // zstd expands incompressible bytes only slightly.
        if length > bytes_max + bytes_max / 128 {
            return Err(self.corrupt(start, &format!("expected a frame, found {length} bytes")));
        }
        let mut packed = std::mem::take(&mut self.packed);
        packed.resize(length, 0);
        let count = self.input.read_into(&mut packed)?;
        self.packed = packed;
        if count < length {
            return Ok(false);
        }
        self.frame.clear();
        self.frame.reserve(bytes_max);
        self.decompressor.decompress_to_buffer(&self.packed, &mut self.frame).map_err(|error| {
            self.corrupt(start, &format!("a frame of {length} bytes is damaged: {error}"))
        })?;
        Ok(true)
    }

    fn corrupt(&self, offset: u64, message: &str) -> Error {
        Error::new(ErrorKind::Corrupt, self.path(), message).at(Position::Byte(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::filter::tests::references;
    use crate::references::{Filter, Stop, Writer};

    /// A trace of more steps than a frame holds, those steps, and its totals.
    fn stored() -> (Vec<u8>, Vec<ReferenceStep>, ReferenceTotals) {
        let (expected, references) = references(3, 400_000);
        assert!(expected.len() > frame::STEPS_MAX, "{}", expected.len());
        let origin = Origin::new("capture", vec!["true".to_owned()]);
        let mut writer = Writer::new(Vec::new(), &origin).unwrap();
        let (mut filter, mut steps) = (Filter::new(), Vec::new());
        references.into_iter().for_each(|reference| filter.refer(reference, &mut steps));
        writer.write(&steps, filter.totals()).unwrap();
        let ending = Ending::new(filter.totals(), Stop::Limit, None);
        (writer.finish(&ending).unwrap(), expected, filter.totals())
    }

    fn read(bytes: &[u8]) -> Result<(Vec<ReferenceStep>, Reader), Error> {
        let mut reader = Reader::from_bytes("t", bytes.to_vec())?;
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while reader.next_steps(&mut batch)? {
            all.append(&mut batch);
        }
        Ok((all, reader))
    }

    #[test]
    fn a_written_trace_is_read_back() {
        let (whole, expected, totals) = stored();
        let (steps, reader) = read(&whole).unwrap();
        assert_eq!(steps, expected);
        assert_eq!(reader.totals(), totals);
        assert_eq!(reader.origin().command, ["true"]);
        assert_eq!(reader.ending(), Some(&Ending::new(totals, Stop::Limit, None)));
    }

    #[test]
    fn a_cut_file_is_read_up_to_its_last_complete_frame() {
        let (whole, expected, _) = stored();
        for left in [1, 100, whole.len() / 4, whole.len() / 2] {
            let (steps, reader) = read(&whole[..whole.len() - left]).unwrap();
            assert_eq!(steps, expected[..steps.len()]);
            assert!(steps.len() % frame::STEPS_MAX == 0 || steps.len() == expected.len());
            assert!(reader.ending().is_none());
        }
    }

    #[test]
    fn a_file_without_a_complete_frame_is_refused() {
        let (whole, ..) = stored();
        for length in [400, 1000, 5000] {
            let error = read(&whole[..length]).err().unwrap().to_string();
            assert!(error.contains("cut off before its first complete frame"), "{length}: {error}");
        }
    }

    #[test]
    fn errors_have_the_offset_of_the_damage() {
        let (whole, ..) = stored();
        let wrong = |bytes: &[u8]| read(bytes).err().unwrap();
        for at in [0, 7, 20, 2000, whole.len() / 2, whole.len() - 3] {
            let mut spoilt = whole.clone();
            spoilt[at] ^= 0x55;
            assert!(wrong(&spoilt).to_string().starts_with("t at byte "), "{}", wrong(&spoilt));
        }
        let longer = [&whole[..], b"x"].concat();
        let message = format!("t at byte {}: expected nothing after the end", whole.len());
        assert_eq!(wrong(&longer).to_string(), message);
        assert_eq!(wrong(b"").to_string(), "t at byte 0: is empty");
        assert_eq!(wrong(b"I  0400,4\n I 1").kind(), ErrorKind::UnknownFormat);
    }
}
