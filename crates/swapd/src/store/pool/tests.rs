//! A pool against a map of pages, whatever moment its server is killed at.

use std::collections::HashMap;
use std::os::fd::AsFd;

use linux::frames::Layout;
use types::random::Stream;

use super::*;

const FRAMES: u32 = 80;
const POOL_PAGES: usize = 24;

type Page = [u8; SLOT_BYTES];

fn memory() -> Frames {
    let layout = Layout { words: 1, double_words: FRAMES as usize, frames: POOL_PAGES };
    Frames::new("test-pool", layout).unwrap()
}

/// What a successor maps, after the end of the process that had `memory`.
fn inherited(memory: Frames) -> Frames {
    let file = memory.as_fd().try_clone_to_owned().unwrap();
    drop(memory);
    let layout = Layout { words: 1, double_words: FRAMES as usize, frames: POOL_PAGES };
    Frames::of(file, layout).unwrap()
}

/// A page that is filled, does not compress, or compresses more or less.
fn page(random: &mut Stream) -> Page {
    let mut page = [0; SLOT_BYTES];
    let random_bytes = match random.below(6) {
        0 => 0,
        1 => {
            let word = random.below(u32::MAX).to_le_bytes();
            page.as_chunks_mut().0.fill(word);
            0
        }
        2 => SLOT_BYTES,
        _ => random.below(SLOT_BYTES as u32) as usize,
    };
    page[..random_bytes].fill_with(|| random.below(256) as u8);
    page
}

/// Pages by frame: what a pool must hold.
#[derive(Default)]
struct Model(HashMap<u32, Page>);

impl Model {
    fn check(&self, pool: &mut Pool, memory: &Frames) {
        let mut content = [0xa5; SLOT_BYTES];
        for frame in 0..FRAMES {
            let found = pool.get(memory, frame, &mut content);
            match self.0.get(&frame) {
                Some(page) => assert!(found.is_ok() && content == *page, "frame {frame}"),
                None => assert_eq!(found, Err(Damaged), "frame {frame}"),
            }
        }
        let counts = pool.counts();
        let is_filled = |page: &&Page| repeated_word(&page[..]).is_some();
        assert_eq!(counts.pages, self.0.len() as u64);
        assert_eq!(counts.filled_pages, self.0.values().filter(is_filled).count() as u64);
        assert!(counts.bytes <= (POOL_PAGES * FRAME_BYTES) as u64);
        if self.0.is_empty() {
            assert_eq!(counts, PoolCounts::default());
        }
    }
}

#[test]
fn a_pool_holds_what_was_put_whenever_its_server_is_killed() {
    for (seed, algorithm) in (1..).zip(Algorithm::ALL) {
        let mut random = Stream::named(seed, "pool");
        let mut memory = memory();
        let mut pool = Pool::over(&memory, algorithm, |_| false).unwrap();
        let (mut model, mut refused, mut raw) = (Model::default(), 0, 0);
        for _ in 0..6_000 {
            let frame = random.below(FRAMES);
            match random.below(20) {
                0..12 => {
                    let page = page(&mut random);
                    match pool.put(&mut memory, frame, &page) {
                        Ok(()) => drop(model.0.insert(frame, page)),
                        Err(Full) => {
                            assert_eq!(pool.room(), 0, "a page found no room although there is");
                            refused += 1;
                        }
                    }
                    raw = raw.max(pool.counts().raw_pages);
                }
                12..18 => {
                    pool.free(&memory, frame);
                    model.0.remove(&frame);
                }
                what => {
                    // Pieces are written, but no frame has them yet.
                    let written = pool.write(&mut memory, &page(&mut random));
                    if what == 19
                        && let Ok(blob) = written
                    {
                        // A frame has them, but nothing names it: what it held before is named no more.
                        pool.replace(&memory, frame, blob);
                        model.0.remove(&frame);
                    }
                    memory = inherited(memory);
                    let is_named = |frame: usize| model.0.contains_key(&(frame as u32));
                    pool = Pool::over(&memory, algorithm, is_named).unwrap();
                    model.check(&mut pool, &memory);
                }
            }
        }
        assert!(refused > 50 && raw > 3, "{algorithm:?}: {refused} refused, {raw} raw");
        model.check(&mut pool, &memory);
        (0..FRAMES).for_each(|frame| pool.free(&memory, frame));
        Model::default().check(&mut pool, &memory);
        assert_eq!(pool.free.len(), pool.pieces);
    }
}

#[test]
fn an_overwritten_frame_has_its_old_page_until_it_has_the_new_one() {
    for algorithm in Algorithm::ALL {
        let mut memory = memory();
        let mut pool = Pool::over(&memory, algorithm, |_| false).unwrap();
        let [old, new] = [7, 9].map(|seed| page_of(seed, 3000));
        pool.put(&mut memory, 5, &old).unwrap();
        let blob = pool.write(&mut memory, &new).unwrap();
        let is_named = |frame| frame == 5;
        let found = |memory: &Frames| {
            let mut content = [0; SLOT_BYTES];
            let mut successor = Pool::over(memory, algorithm, is_named).unwrap();
            successor.get(memory, 5, &mut content).unwrap();
            content
        };
        assert!(found(&memory) == old);
        pool.replace(&memory, 5, blob);
        assert!(found(&memory) == new);
    }
}

/// A page whose first bytes are random and whose others are zeros.
fn page_of(seed: u64, random_bytes: usize) -> Page {
    let (mut random, mut page) = (Stream::named(seed, "page"), [0; SLOT_BYTES]);
    page[..random_bytes].fill_with(|| random.below(256) as u8);
    page
}

#[test]
fn a_page_takes_the_pieces_that_its_content_needs() {
    for algorithm in Algorithm::ALL {
        let mut memory = memory();
        let mut pool = Pool::over(&memory, algorithm, |_| false).unwrap();
        let mut pieces = |page: &Page| {
            pool.put(&mut memory, 0, page).unwrap();
            let PoolCounts { bytes, pages, filled_pages, raw_pages } = pool.counts();
            assert_eq!(pages, 1);
            (bytes / PIECE_BYTES as u64, filled_pages, raw_pages)
        };
        assert_eq!(pieces(&[0; SLOT_BYTES]), (0, 1, 0));
        assert_eq!(pieces(&[0x5a; SLOT_BYTES]), (0, 1, 0));
        assert_eq!(pieces(&page_of(1, 4)), (1, 0, 0));
        let (half, ..) = pieces(&page_of(1, 2048));
        assert!((17..20).contains(&half), "{half}");
        assert_eq!(pieces(&page_of(1, SLOT_BYTES)), (34, 0, 1));
        assert_eq!(pieces(&page_of(1, SLOT_BYTES - 100)), (34, 0, 1));
    }
}

#[test]
fn damaged_chains_are_refused() {
    let mut memory = memory();
    let mut pool = Pool::over(&memory, Algorithm::Lz4, |_| false).unwrap();
    for frame in 0..2 {
        pool.put(&mut memory, frame, &page_of(u64::from(frame), 1000)).unwrap();
    }
    let is_named = |frame| frame < 2;
    let words: Vec<u64> =
        memory.double_words()[..2].iter().map(|word| word.load(Relaxed)).collect();
    let opened = |memory: &Frames| Pool::over(memory, Algorithm::Lz4, is_named);
    assert!(opened(&memory).is_ok());
    let bytes = 1 << 32;
    for word in [
        0,                      // no blob
        words[0],               // the pieces of the other frame
        words[1] + 1,           // a chain that begins in the middle
        words[1] ^ 1 << 31,     // a piece that does not exist
        words[1] + 200 * bytes, // a longer chain
        words[1] - 200 * bytes, // a shorter one
        words[1] + (1 << 51),   // no kind
    ] {
        memory.double_words()[1].store(word, Relaxed);
        let error = opened(&memory).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{word:x}: {error}");
    }
    memory.double_words()[1].store(words[1], Relaxed);
    // A chain that leads into itself.
    let first = words[1] as u32;
    piece_of_mut(&mut memory, first)[..4].copy_from_slice(&first.to_le_bytes());
    assert!(opened(&memory).is_err());
    // A server that finds it cannot read the page, and loses the pieces.
    piece_of_mut(&mut memory, first)[..4].copy_from_slice(&(1_u32 << 30).to_le_bytes());
    assert_eq!(pool.get(&memory, 1, &mut [0; SLOT_BYTES]), Err(Damaged));
    let used = pool.counts().bytes;
    pool.lose(&memory, 1);
    assert_eq!(pool.counts(), PoolCounts { bytes: used, pages: 1, ..PoolCounts::default() });
    pool.free(&memory, 0);
    assert!(pool.counts().bytes > 0 && pool.counts().bytes < used);
}

#[test]
fn the_mean_size_of_the_pages_says_how_many_fit() {
    let mut memory = memory();
    let mut pool = Pool::over(&memory, Algorithm::Lz4, |_| false).unwrap();
    let raw_pages = (POOL_PAGES * PIECES_PER_FRAME / PIECES_MAX) as u64;
    assert_eq!(pool.fitting_pages(), raw_pages);
    for frame in 0..40 {
        pool.put(&mut memory, frame, &page_of(u64::from(frame), 500)).unwrap();
    }
    let (large, used) = (pool.fitting_pages(), pool.counts().bytes);
    assert!(large > raw_pages && used < (POOL_PAGES * FRAME_BYTES) as u64, "{large} {used}");
    for frame in 0..40 {
        pool.put(&mut memory, frame, &[1; SLOT_BYTES]).unwrap();
    }
    assert!(pool.fitting_pages() > large);
}

#[test]
fn no_context_grows_while_pages_are_compressed() {
    for algorithm in Algorithm::ALL {
        let mut codec = Codec::new(algorithm).unwrap();
        let before = codec.foreign_bytes();
        let mut random = Stream::named(3, "codec");
        for _ in 0..500 {
            let (page, mut packed) = (page(&mut random), [0; PACKED_BYTES]);
            let bytes = codec.pack(&page, &mut packed).unwrap();
            let mut found = [0; SLOT_BYTES];
            assert!(codec.unpack(&packed[..bytes], &mut found) && found == page);
            assert!(!codec.unpack(&packed[..bytes - 1], &mut found), "{algorithm:?}: a part");
        }
        assert_eq!(codec.foreign_bytes(), before, "{algorithm:?}");
    }
}
