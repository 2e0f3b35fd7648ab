//! The kernel's decisions about freed memory (docs/kernel.md), compared with `policy::retention`.
//!
//! `data/kernel-decisions.txt` has the requests of a program in a guest, and after each what the kernel
//! decided: `take` before the `map` that the pool served, `keep` and `discard` after a `free`. Each line
//! has the first page and the number of pages, and `free` the number of pages that the program touched
//! since `map`. `tests/vm/test_lazy_unmap.py` checks that the kernel still decides so. The limit was 4 MiB, and no range was discarded by age.
//!
//! The kernel merges ranges only if they have the same anon_vma. New memory has that of mapped memory
//! beside it, or else a new one; the test follows these as numbers.

use policy::retention::{Action, Admission, Entry, Retention, Rules, Span};
use std::collections::BTreeMap;
use types::{Bytes, Nanos};

const DECISIONS: &str = include_str!("data/kernel-decisions.txt");

/// The pool's limit. The kernel discards what is above it: it has no stage between.
const RULES: Rules = Rules {
    hot_bytes: Bytes(4 << 20),
    part_pages: None,
    lazy_bytes: Some(Bytes(0)),
    held_bytes: None,
    lazy_after: None,
    discard_after: None,
};

/// Pages and anon_vma by first page.
type Ranges = BTreeMap<u32, (u32, usize)>;

/// Free ranges, whose first page is also the index of their span, and mapped memory.
struct Pool {
    admission: Admission,
    retention: Retention,
    entries: Vec<Entry>,
    ranges: Ranges,
    mapped: Ranges,
    anon_vmas: usize,
}

impl Pool {
    /// Takes the front of the shortest range that is long enough; returns its first page.
    fn take(&mut self, pages: u32) -> Option<u32> {
        let fits = self.ranges.iter().filter(|&(_, &(length, _))| length >= pages);
        let (&first, &(length, anon_vma)) =
            fits.min_by_key(|&(&first, &(length, _))| (length, first))?;
        self.ranges.remove(&first);
        if length == pages {
            self.retention.take(&mut self.entries, Span(first));
        } else {
            let (rest, left) = (first + pages, length - pages);
            self.retention.replace(&mut self.entries, Span(first), Span(rest), left);
            self.ranges.insert(rest, (left, anon_vma));
        }
        self.mapped.insert(first, (pages, anon_vma));
        Some(first)
    }

    /// Maps new memory where the kernel did.
    fn map(&mut self, first: u32, pages: u32) {
        let before = self.mapped.range(..first).next_back();
        let before = before.filter(|&(&other, &(length, _))| other + length == first);
        let beside = before.map(|(_, range)| range).or_else(|| self.mapped.get(&(first + pages)));
        let anon_vma = beside.map_or(self.anon_vmas, |&(_, anon_vma)| anon_vma);
        self.anon_vmas += 1;
        self.mapped.insert(first, (pages, anon_vma));
    }

    /// Adds a freed range, merged with its neighbours; returns the ranges discarded then. None: it is
    /// unmapped as usual.
    fn free(&mut self, mut first: u32, mut pages: u32, touched: u32) -> Option<Vec<(u32, u32)>> {
        let (_, anon_vma) = self.mapped.remove(&first).expect("it is mapped");
        if !self.admission.looks(pages) || !self.admission.keeps(pages, touched) {
            return None;
        }
        let before = self.ranges.range(..first).next_back();
        let before = before.map(|(&other, &(length, other_vma))| (other, length, other_vma));
        let after = self.ranges.get(&(first + pages)).copied();
        if let Some((length, _)) = after.filter(|&(_, other_vma)| other_vma == anon_vma) {
            self.remove(first + pages);
            pages += length;
        }
        if let Some((other, length, _)) = before
            .filter(|&(other, length, other_vma)| other + length == first && other_vma == anon_vma)
        {
            self.remove(other);
            (first, pages) = (other, pages + length);
        }
        self.ranges.insert(first, (pages, anon_vma));
        self.retention.deposit(&mut self.entries, Span(first), pages, Nanos(0));
        let mut discarded = Vec::new();
        while let Some(action) = self.retention.next_action(&mut self.entries, Nanos(0)) {
            let Action::Discard(Span(oldest)) = action else { panic!("unexpected {action:?}") };
            discarded.extend(self.ranges.remove(&oldest).map(|(pages, _)| (oldest, pages)));
        }
        Some(discarded)
    }

    fn remove(&mut self, first: u32) {
        self.ranges.remove(&first);
        self.retention.take(&mut self.entries, Span(first));
    }
}

#[test]
fn the_kernel_decides_as_the_rules_do() {
    let lines: Vec<(&str, u32, u32, u32)> = DECISIONS
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: usize| words.get(word).map_or(0, |text| text.parse().unwrap());
            (words[0], number(1), number(2), number(3))
        })
        .collect();
    let mut pool = Pool {
        admission: Admission::new(),
        retention: Retention::new(RULES),
        entries: vec![Entry::default(); 1 << 16],
        ranges: Ranges::new(),
        mapped: Ranges::new(),
        anon_vmas: 0,
    };
    let (mut taken, mut discarded, mut unmapped) = (0, 0, 0);
    let mut at = 0;
    while let Some(&(what, first, pages, touched)) = lines.get(at) {
        let place = format!("line {}: {what} {first} {pages}", at + 1);
        at += 1;
        match what {
            "take" => {
                assert_eq!(lines.get(at), Some(&("map", first, pages, 0)), "{place}");
                let ranges = pool.ranges.clone();
                assert_eq!(pool.take(pages), Some(first), "{place}: {ranges:?}");
                taken += 1;
                at += 1;
            }
            "map" => {
                assert_eq!(pool.take(pages), None, "{place}");
                pool.map(first, pages);
            }
            "free" => {
                let is_kept = lines.get(at) == Some(&("keep", first, pages, 0));
                at += usize::from(is_kept);
                let rest = lines[at..].iter().take_while(|(what, ..)| *what == "discard");
                let kernel: Vec<(u32, u32)> =
                    rest.map(|&(_, first, pages, _)| (first, pages)).collect();
                at += kernel.len();
                discarded += kernel.len();
                unmapped += usize::from(!is_kept);
                let rules = pool.free(first, pages, touched);
                assert_eq!(rules, is_kept.then_some(kernel), "{place}");
            }
            _ => panic!("{place}: unexpected"),
        }
    }
    let seen = format!("{taken} taken, {discarded} discarded, {unmapped} not kept");
    assert!(taken > 50 && discarded > 10 && unmapped > 50, "{seen}");
}
