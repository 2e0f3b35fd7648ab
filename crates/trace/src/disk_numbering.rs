//! Numbers the pages of a recording in bounded memory, with lists on disk.
//!
//! A first reading writes the identity of each event's page to the list of its part; a hash chooses the part.
//! Each part is then numbered with a table of its own, one after the other, which turns its list into one of
//! numbers within the part, in the order of the events. A second reading takes the next number from the list
//! of each event's part. A number that a part has for the first time belongs to a new page, so pages get the
//! same numbers as in memory: in order of first appearance.
//!
//! The lists are unnamed files, which the kernel removes however the process ends.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use types::random::mixed;
use types::{EventKind, Events, PageId, Progress};

use crate::renumber::Renumber;
use crate::source::batch_of_rows;
use crate::store::page_key_of;
use crate::{Error, ErrorKind, Header, Rows, Source};

/// Number of parts, each with an open file.
const PARTS: usize = 128;
/// Bytes buffered for each part.
const BUFFER_BYTES: usize = 32 << 10;
/// Identities of pages numbered at a time.
const KEYS: usize = 1 << 14;

/// The numbers of a recording's pages, on disk. Disk: 4 bytes for each event, and while numbering 8 more.
pub struct PageNumbers {
    path: PathBuf,
    /// The numbers within each part, in the order of the events, and how many there are.
    parts: Vec<(File, usize)>,
    pages: u32,
}

/// A source whose pages were numbered on disk. `Header::pages` is known before the first event. Memory: 4 bytes for each
/// page, and 4 MiB.
pub struct DiskNumbered {
    source: Box<dyn Source>,
    header: Header,
    path: PathBuf,
    parts: Vec<Part>,
    /// Number of the next new page.
    next: u32,
}

/// What is left of a part: its numbers in the order of the events, and the page of each number seen.
struct Part {
    numbers: BufReader<File>,
    pages: Vec<u32>,
    count: usize,
}

impl PageNumbers {
    /// Numbers the pages of `source`, the recording at `path`. A table takes at most `table_bytes`: 22 to 40 bytes for
    /// each page of a part, of which there are 128. The lists are in the folder for temporary files.
    ///
    /// # Errors
    /// If the recording cannot be read, a list cannot be written, or a part does not fit into its table;
    /// `Cancelled` if `progress` asks to stop.
    pub fn of(
        source: &mut dyn Source,
        path: &Path,
        table_bytes: usize,
        progress: &dyn Progress,
    ) -> Result<PageNumbers, Error> {
        let on_disk = |error: io::Error| on_disk(path, &error);
        let lists = list_keys(path, source, progress)?;
        let mut parts = Vec::with_capacity(PARTS);
        for list in lists {
            let cancelled = |_| Error::cancelled(path);
            progress.advance(parts.len() as u64, PARTS as u64).map_err(cancelled)?;
            let mut renumber = Renumber::with_limit(table_bytes);
            let list = list.into_inner().map_err(|error| on_disk(error.into_error()))?;
            let numbers = number(path, list, &mut renumber)?;
            parts.push((numbers, renumber.len()));
        }
        let pages: usize = parts.iter().map(|(_, count)| count).sum();
        let pages =
            u32::try_from(pages).ok().filter(|&pages| pages <= 1 << 31).ok_or_else(|| {
                Error::new(ErrorKind::Usage, path, "has more than 2,147,483,648 pages")
            })?;
        Ok(PageNumbers { path: path.to_owned(), parts, pages })
    }

    /// `source`, the same recording from its beginning, with these numbers. Only one such source may be read at a time.
    ///
    /// # Errors
    /// If a list cannot be read.
    pub fn apply_to(&self, mut source: Box<dyn Source>) -> Result<DiskNumbered, Error> {
        let part = |&(ref file, count): &(File, usize)| {
            let mut numbers = file.try_clone()?;
            numbers.rewind()?;
            let numbers = BufReader::with_capacity(BUFFER_BYTES, numbers);
            Ok(Part { numbers, pages: Vec::with_capacity(count), count })
        };
        let parts = self.parts.iter().map(part).collect::<io::Result<_>>();
        let parts = parts.map_err(|error| on_disk(&self.path, &error))?;
        source.omit_numbering_and_count();
        let header = Header { pages: Some(self.pages), ..source.header().clone() };
        Ok(DiskNumbered { source, header, path: self.path.clone(), parts, next: 0 })
    }
}

impl DiskNumbered {
    /// The number of the page of the next event in this part.
    fn page(&mut self, part: usize) -> Result<PageId, Error> {
        let part = &mut self.parts[part];
        let mut bytes = [0; 4];
        part.numbers.read_exact(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(&self.path),
            _ => on_disk(&self.path, &error),
        })?;
        let number = u32::from_le_bytes(bytes) as usize;
        if number == part.pages.len() && number < part.count {
            part.pages.push(self.next);
            self.next += 1;
        }
        part.pages.get(number).map(|&page| PageId(page)).ok_or_else(|| changed(&self.path))
    }
}

impl Source for DiskNumbered {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, events: &mut Events) -> Result<bool, Error> {
        batch_of_rows(self, events)
    }

    fn next_rows(&mut self, rows: &mut Rows) -> Result<bool, Error> {
        if !self.source.next_rows(rows)? {
            let pages = self.header.pages;
            self.header = Header { pages, ..self.source.header().clone() };
            return Ok(false);
        }
        let mut pages = std::mem::take(&mut rows.events.page);
        pages.clear();
        for (index, &kind) in rows.events.kind.iter().enumerate() {
            pages.push(if kind == EventKind::Exit {
                PageId(0)
            } else {
                let key = page_key_of(self.header.kind, rows.space[index], rows.address[index]);
                self.page(part_of(key))?
            });
        }
        rows.events.page = pages;
        Ok(true)
    }
}

fn part_of(key: u64) -> usize {
    mixed(key) as usize % PARTS
}

/// Writes the identity of each event's page to the list of its part.
fn list_keys(
    path: &Path,
    source: &mut dyn Source,
    progress: &dyn Progress,
) -> Result<Vec<BufWriter<File>>, Error> {
    let mut lists = (0..PARTS)
        .map(|_| Ok(BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile()?)))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| on_disk(path, &error))?;
    source.omit_numbering_and_count();
    let (mut rows, mut done) = (Rows::default(), 0);
    while source.next_rows(&mut rows)? {
        done += rows.len() as u64;
        let total = source.header().events.max(done);
        progress.advance(done, total).map_err(|_| Error::cancelled(path))?;
        for (index, &kind) in rows.events.kind.iter().enumerate() {
            if kind != EventKind::Exit {
                let key = page_key_of(source.header().kind, rows.space[index], rows.address[index]);
                lists[part_of(key)]
                    .write_all(&key.to_le_bytes())
                    .map_err(|error| on_disk(path, &error))?;
            }
        }
    }
    Ok(lists)
}

/// The list of the numbers of the pages in `list`.
fn number(path: &Path, mut list: File, renumber: &mut Renumber) -> Result<File, Error> {
    let on_disk = |error: io::Error| on_disk(path, &error);
    list.rewind().map_err(on_disk)?;
    let mut numbered = BufWriter::new(tempfile::tempfile().map_err(on_disk)?);
    let mut bytes = vec![0; KEYS * size_of::<u64>()];
    let (mut keys, mut numbers) = (Vec::with_capacity(KEYS), Vec::with_capacity(KEYS));
    loop {
        let held = fill(&mut list, &mut bytes).map_err(on_disk)?;
        if held == 0 {
            break;
        }
        keys.clear();
        numbers.clear();
        let (chunks, _) = bytes[..held].as_chunks();
        keys.extend(chunks.iter().map(|&chunk| u64::from_le_bytes(chunk)));
        renumber.number_batch(&keys, &mut numbers).map_err(|_| {
            let why = "has more pages than can be numbered within the memory limit; give a larger \
                       --memory-limit, or use --sample";
            Error::new(ErrorKind::Usage, path, why)
        })?;
        for number in &numbers {
            numbered.write_all(&number.to_le_bytes()).map_err(on_disk)?;
        }
    }
    numbered.into_inner().map_err(|error| on_disk(error.into_error()))
}

/// Reads until `bytes` is full or the file ends, and returns the number of bytes read.
fn fill(file: &mut File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut held = 0;
    while held < bytes.len() {
        match file.read(&mut bytes[held..]) {
            Ok(0) => break,
            Ok(read) => held += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(held)
}

fn on_disk(path: &Path, error: &io::Error) -> Error {
    let folder = std::env::temp_dir();
    let why = format!(
        "cannot be numbered on disk, in {} (TMPDIR chooses another folder): {error}",
        folder.display()
    );
    Error::new(ErrorKind::Io, path, why)
}

fn changed(path: &Path) -> Error {
    Error::new(ErrorKind::Io, path, "changed while it was read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::ImportOptions;
    use types::NoProgress;

    /// A CSV file of accesses to these pages.
    fn recording(pages: &[u64]) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        let mut text = String::from("time,id\n");
        for (index, page) in pages.iter().enumerate() {
            text += &format!("{index},{page}\n");
        }
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn pages_of(mut source: Box<dyn Source>) -> (Vec<PageId>, Option<u32>) {
        let (mut found, mut rows) = (Vec::new(), Rows::default());
        while source.next_rows(&mut rows).unwrap() {
            found.extend_from_slice(&rows.events.page);
        }
        (found, source.header().pages)
    }

    #[test]
    fn pages_have_the_same_numbers_as_in_memory() {
        let mut random = types::random::Stream::named(1, "pages");
        let pages: Vec<u64> = (0..30_000).map(|_| u64::from(random.below(9000)) << 20).collect();
        let file = recording(&pages);
        let open = || crate::open(file.path(), &ImportOptions::default());
        let found = PageNumbers::of(&mut *open().unwrap(), file.path(), 1 << 20, &NoProgress);
        let numbers = found.unwrap();
        for _ in 0..2 {
            let numbered = numbers.apply_to(open().unwrap()).unwrap();
            assert_eq!(pages_of(Box::new(numbered)), pages_of(open().unwrap()));
        }
    }

    #[test]
    fn a_recording_that_changes_between_its_readings_is_an_error() {
        let file = recording(&[1, 2, 3]);
        let longer = recording(&[1, 2, 3, 4, 1]);
        let open = |path: &Path| crate::open(path, &ImportOptions::default()).unwrap();
        let found = PageNumbers::of(&mut *open(file.path()), file.path(), 1 << 20, &NoProgress);
        let mut numbered = found.unwrap().apply_to(open(longer.path())).unwrap();
        let error = numbered.next_rows(&mut Rows::default()).unwrap_err();
        assert!(error.to_string().contains("changed while it was read"), "{error}");
    }

    #[test]
    fn a_part_beyond_its_table_is_an_error() {
        // Pages of one part, in the smallest table.
        let pages: Vec<u64> = (0..4_000_000).filter(|&page| part_of(page) == 7).collect();
        let file = recording(&pages);
        let mut source = crate::open(file.path(), &ImportOptions::default()).unwrap();
        let error = PageNumbers::of(&mut *source, file.path(), 0, &NoProgress).err().unwrap();
        assert!(error.to_string().contains("memory limit"), "{error}");
    }
}
