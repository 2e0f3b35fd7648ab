//! Compresses pages as zram does, and measures their sizes and the CPU time.

use std::time::Duration;

use linux::page_buffers::PageBuffers;
use linux::system::processor_time;
use linux::{Root, zram};
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};
use zstd::bulk::{Compressor, Decompressor};

use super::device::OwnDevice;
use crate::exit::Exit;

/// The level of zstd that zram uses: `ZSTD_defaultCLevel` (drivers/block/zram/backend_zstd.c, Linux 6.18).
const ZSTD_LEVEL: i32 = 3;

/// What compresses the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel: a zram device of our own.
    Zram,
    /// A library in this program.
    Library,
}

impl Source {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Source::Zram => "zram",
            Source::Library => "library",
        }
    }
}

/// CPU time of a batch of pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// CPU time to compress all pages of the batch.
    pub compress: Duration,
    /// CPU time to decompress them.
    pub decompress: Duration,
}

/// An algorithm, ready to compress pages.
pub struct Codec {
    name: String,
    page_bytes: usize,
    packed: Vec<u8>,
    engine: Engine,
}

enum Engine {
    Lz4(Box<CompressTable>),
    Zstd(Box<(Compressor<'static>, Decompressor<'static>)>),
    Zram(Box<ZramCodec>),
}

/// A zram device, and the CPU time of its requests without compression.
struct ZramCodec {
    own: OwnDevice,
    write: Duration,
    read: Duration,
}

impl Codec {
    /// The algorithm `name`: by a zram device where that is possible, or else by a library.
    ///
    /// # Errors
    /// The kernel's zram has no such algorithm, or is not available, and no library here has it.
    pub fn new(
        root: &Root,
        name: &str,
        batch: usize,
        page_bytes: usize,
        source: Option<Source>,
    ) -> Result<Codec, Exit> {
        let by_zram = match source {
            Some(Source::Library) => Err(Exit::Usage(format!("no library here has {name}"))),
            _ => ZramCodec::new(root, name, batch, page_bytes)
                .map(|device| Engine::Zram(device.into())),
        };
        let engine = match (by_zram, name) {
            (Ok(engine), _) => engine,
            (Err(error), _) if source == Some(Source::Zram) => return Err(error),
            (Err(_), "lz4") => Engine::Lz4(Box::new(CompressTable::small())),
            (Err(_), "zstd") => {
                let refused = |error| Exit::Refused(format!("zstd cannot be prepared: {error}"));
                let compressor = Compressor::new(ZSTD_LEVEL).map_err(refused)?;
                let decompressor = Decompressor::new().map_err(refused)?;
                Engine::Zstd(Box::new((compressor, decompressor)))
            }
            (Err(error), _) => return Err(error),
        };
        // lz4 asks for a tenth and 20 bytes beyond the page.
        let packed = vec![0; batch * (page_bytes + page_bytes / 8 + 64)];
        Ok(Codec { name: name.to_owned(), page_bytes, packed, engine })
    }

    /// The name of the algorithm.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What compresses the pages.
    pub fn source(&self) -> Source {
        match self.engine {
            Engine::Zram(_) => Source::Zram,
            _ => Source::Library,
        }
    }

    /// Compresses the pages of `which` buffers, appends their sizes to `sizes`, and decompresses them. A page that does
    /// not become smaller has the size of a page or more.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn measure(
        &mut self,
        pages: &mut PageBuffers,
        which: &[usize],
        sizes: &mut Vec<usize>,
    ) -> Result<Times, Exit> {
        let Codec { packed, engine, page_bytes, .. } = self;
        if let Engine::Zram(device) = engine {
            return device.measure(pages, which, sizes);
        }
        let begin = sizes.len();
        let room = packed.len() / which.len().max(1);
        let started = processor_time();
        for (&number, target) in which.iter().zip(packed.chunks_mut(room.max(1))) {
            sizes.push(compress(engine, pages.get(number), target).unwrap_or(*page_bytes));
        }
        let compressed = processor_time();
        for ((&number, packed), &bytes) in
            which.iter().zip(packed.chunks(room.max(1))).zip(&sizes[begin..])
        {
            if bytes < *page_bytes {
                decompress(engine, &packed[..bytes], pages.get_mut(number));
            }
        }
        let ended = processor_time();
        Ok(Times { compress: compressed - started, decompress: ended - compressed })
    }
}

fn compress(engine: &mut Engine, page: &[u8], target: &mut [u8]) -> Option<usize> {
    match engine {
        Engine::Lz4(table) => compress_into_with_table(page, target, table).ok(),
        Engine::Zstd(both) => both.0.compress_to_buffer(page, target).ok(),
        Engine::Zram(_) => None,
    }
}

fn decompress(engine: &mut Engine, packed: &[u8], target: &mut [u8]) -> Option<usize> {
    match engine {
        Engine::Lz4(_) => decompress_into(packed, target).ok(),
        Engine::Zstd(both) => both.1.decompress_to_buffer(packed, target).ok(),
        Engine::Zram(_) => None,
    }
}

impl ZramCodec {
    fn new(root: &Root, name: &str, batch: usize, page_bytes: usize) -> Result<ZramCodec, Exit> {
        if zram::offers(root, name)? == Some(false) {
            return Err(Exit::Usage(format!(
                "{name}: the kernel's zram does not have this algorithm; \
                 /sys/block/zram0/comp_algorithm lists those it has"
            )));
        }
        let own = OwnDevice::add(root, name, batch as u64, page_bytes as u64)?;
        let mut device = ZramCodec { own, write: Duration::ZERO, read: Duration::ZERO };
        // zram does not compress pages of equal words, so these requests cost what any request costs without
        // compression. A whole batch, as in `measure`, does not stay in the processor's caches either.
        let mut pages = PageBuffers::new(batch, page_bytes)?;
        let which: Vec<usize> = (0..batch).collect();
        which.iter().for_each(|&number| pages.get_mut(number).fill(1));
        // The first requests find nothing in the processor's caches.
        for _ in 0..2 {
            let times = device.requests(&mut pages, &which, |place| place as u64)?;
            device.write = times.compress / batch as u32;
            device.read = times.decompress / batch as u32;
        }
        Ok(device)
    }

    fn measure(
        &mut self,
        pages: &mut PageBuffers,
        which: &[usize],
        sizes: &mut Vec<usize>,
    ) -> Result<Times, Exit> {
        let trial = self.own.trial();
        trial.clear()?;
        // A single page at a time: the device then holds the bytes of this page only.
        for &number in which {
            trial.write(0, pages.get(number))?;
            sizes.push(trial.compressed_bytes()? as usize);
        }
        trial.clear()?;
        let times = self.requests(pages, which, |place| place as u64)?;
        self.own.trial().clear()?;
        let count = which.len() as u32;
        Ok(Times {
            compress: times.compress.saturating_sub(self.write * count),
            decompress: times.decompress.saturating_sub(self.read * count),
        })
    }

    /// Stores buffers in the slots that `slot` gives by place, and reads them back.
    fn requests(
        &mut self,
        pages: &mut PageBuffers,
        which: &[usize],
        slot: impl Fn(usize) -> u64,
    ) -> Result<Times, Exit> {
        let trial = self.own.trial();
        let started = processor_time();
        for (place, &number) in which.iter().enumerate() {
            trial.write(slot(place), pages.get(number))?;
        }
        let compressed = processor_time();
        for (place, &number) in which.iter().enumerate() {
            trial.read(slot(place), pages.get_mut(number))?;
        }
        let ended = processor_time();
        Ok(Times { compress: compressed - started, decompress: ended - compressed })
    }
}

/// Whether all words of a page are equal: zram keeps the word, and the page takes no memory (`page_same_filled` in
/// drivers/block/zram/zram_drv.c).
pub fn is_same_filled(page: &[u8]) -> bool {
    let (words, rest) = page.as_chunks::<{ size_of::<usize>() }>();
    rest.is_empty() && words.windows(2).all(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_same_filled_if_all_words_are_equal() {
        let mut page = [7; 4096];
        assert!(is_same_filled(&page) && is_same_filled(&[0; 4096]));
        page[4095] = 8;
        assert!(!is_same_filled(&page));
        let words: Vec<u8> = (0..8).cycle().take(4096).collect();
        assert!(is_same_filled(&words));
        let halves: Vec<u8> = (0..16).cycle().take(4096).collect();
        assert!(!is_same_filled(&halves));
    }

    #[test]
    fn libraries_get_pages_back_and_see_what_compresses() {
        let root = Root::system();
        let page_bytes = 4096;
        let mut pages = PageBuffers::new(2, page_bytes).unwrap();
        let mut stream = types::random::Stream::named(5, "test");
        let text = b"the same line again and again\n".iter().cycle();
        pages.get_mut(0).iter_mut().zip(text).for_each(|(byte, &letter)| *byte = letter);
        pages.get_mut(1).iter_mut().for_each(|byte| *byte = stream.next_bits() as u8);
        let before: Vec<Vec<u8>> = (0..2).map(|number| pages.get(number).to_vec()).collect();
        for name in ["lz4", "zstd"] {
            let mut codec = Codec::new(&root, name, 4, page_bytes, Some(Source::Library)).unwrap();
            let mut sizes = Vec::new();
            codec.measure(&mut pages, &[0, 1], &mut sizes).unwrap();
            assert!(sizes[0] < 300 && sizes[1] >= 4096, "{name}: {sizes:?}");
            for (number, page) in before.iter().enumerate() {
                assert_eq!(pages.get(number), page, "{name} {number}");
            }
        }
        let none = Codec::new(&root, "lzo-rle", 4, page_bytes, Some(Source::Library));
        assert!(none.is_err());
    }
}
