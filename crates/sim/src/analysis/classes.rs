//! The classes of the busiest pages.

use super::skew::share;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use types::{Event, EventFlags, EventKind, PageClass};

/// Kinds of pages that recordings distinguish. The first four are numbered by the two bits below;
/// the others are file pages whose class the recording has.
const CLASSES: [&str; 8] = [
    "anonymous",
    "anonymous_shared",
    "file",
    "file_shared",
    PageClass::SharedLibrary.name(),
    PageClass::OwnFile.name(),
    PageClass::Service.name(),
    PageClass::Other.name(),
];
const SHARED_BIT: u8 = 1;
const FILE_BIT: u8 = 2;
const KNOWN_FROM: u8 = 4;

/// Classes of the busiest pages; in JSON an object {class: {pages, accesses}}.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes(Vec<(&'static str, ClassShare)>);

/// Shares of one class among the busiest pages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClassShare {
    /// Share of those pages.
    #[schemars(range(min = 0, max = 1))]
    pub pages: f64,
    /// Share of their accesses.
    #[schemars(range(min = 0, max = 1))]
    pub accesses: f64,
}

/// Remembers the class of each page.
#[derive(Default)]
pub(super) struct PageClasses(Vec<u8>);

impl PageClasses {
    pub(super) fn add(&mut self, event: Event) {
        if event.page.index() >= self.0.len() {
            self.0.resize(event.page.index() + 1, 0);
        }
        let is_file = matches!(event.kind, EventKind::Evict | EventKind::Request)
            || event.flags.contains(EventFlags::FILE);
        let is_shared = event.flags.contains(EventFlags::SHARED);
        let class = &mut self.0[event.page.index()];
        let known = match event.flags.class() {
            PageClass::Unknown | PageClass::Anonymous => None,
            known => Some(KNOWN_FROM + known as u8 - PageClass::SharedLibrary as u8),
        };
        if let Some(known) = known {
            *class = known;
            return;
        }
        *class |= (u8::from(is_file) * FILE_BIT) | (u8::from(is_shared) * SHARED_BIT);
    }

    /// Classes of the `top` pages with the most accesses; of equals, those that appeared first.
    pub(super) fn of_busiest(&self, accesses: &[u32], top: u64) -> Classes {
        let mut pages: Vec<usize> = (0..accesses.len()).collect();
        let rank = |&page: &usize| (Reverse(accesses[page]), page);
        let top = (top as usize).min(pages.len());
        if top < pages.len() {
            pages.select_nth_unstable_by_key(top, rank);
        }
        let mut counts = [(0_u64, 0_u64); CLASSES.len()];
        for &page in &pages[..top] {
            let class = usize::from(self.0.get(page).copied().unwrap_or(0));
            counts[class].0 += 1;
            counts[class].1 += u64::from(accesses[page]);
        }
        let all_accesses = counts.iter().map(|&(_, accesses)| accesses).sum();
        let present = CLASSES.into_iter().zip(counts).filter(|&(_, (pages, _))| pages > 0);
        Classes(
            present
                .map(|(class, (pages, accesses))| {
                    let pages = share(pages, top as u64);
                    (class, ClassShare { pages, accesses: share(accesses, all_accesses) })
                })
                .collect(),
        )
    }
}

impl Serialize for Classes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(class, share)| (class, share)))
    }
}

impl JsonSchema for Classes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Classes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <BTreeMap<String, ClassShare>>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{PageId, ProcessId};

    #[test]
    fn the_busiest_pages_are_counted_by_class() {
        let mut classes = PageClasses::default();
        let mut add = |kind, flags, page| {
            classes.add(Event { kind, flags, page: PageId(page), process: ProcessId(0) });
        };
        add(EventKind::SwapOut, EventFlags::DIRTY, 0);
        add(EventKind::Request, EventFlags::SHARED, 1);
        add(EventKind::SwapOut, EventFlags::SHARED, 2);
        add(EventKind::SwapIn, EventFlags::default(), 2);
        let busiest = classes.of_busiest(&[5, 15, 5], 2);
        let expected = [
            ("anonymous", ClassShare { pages: 0.5, accesses: 0.25 }),
            ("file_shared", ClassShare { pages: 0.5, accesses: 0.75 }),
        ];
        assert_eq!(busiest, Classes(expected.to_vec()));
        let all = classes.of_busiest(&[5, 15, 5], 3);
        assert!(serde_json::to_string(&all).unwrap().contains("anonymous_shared"));
    }
}
