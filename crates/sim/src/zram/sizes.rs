//! The memory that each page takes in zram's pool: drawn once for each page, by the seed and the page's number, from the
//! distribution that was measured for its owner.

use std::collections::BTreeMap;

use serde::Deserialize;
use types::random::Stream;
use types::{PageId, ProcessId};

/// The sizes of the pages of an owner.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The share of pages whose words are all equal, which take no memory.
    pub same_filled_share: f64,
    /// Of the other pages: bytes in the pool, and the share of pages of this size.
    pub pool_bytes: Vec<(f64, f64)>,
}

/// The sizes of all pages by an algorithm.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// The sizes of the pages of processes by their names.
    pub owners: BTreeMap<String, Distribution>,
    /// The sizes of the pages of other processes.
    pub others: Distribution,
}

/// A distribution to draw from: rising sums of shares, each with its bytes.
#[derive(Clone, Debug)]
struct Table(Vec<(f64, f64)>);

/// The size of every page.
pub struct PageSizes<'a> {
    seed: u64,
    names: BTreeMap<&'a str, usize>,
    /// The first is that of other processes.
    tables: Vec<Table>,
    /// By process.
    of_process: Vec<usize>,
}

impl Table {
    fn new(given: &Distribution, page_bytes: u64) -> Result<Table, String> {
        let same = given.same_filled_share;
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if !is_share(same) {
            return Err(format!("same_filled_share is {same}: expected 0 to 1"));
        }
        let total: f64 = given.pool_bytes.iter().map(|(_, share)| share).sum();
        let mut sums = vec![(same, 0.0)];
        let mut sum = same;
        for &(bytes, share) in &given.pool_bytes {
            if !(bytes > 0.0 && bytes <= page_bytes as f64 && is_share(share)) {
                return Err(format!(
                    "pool_bytes has {share} of pages with {bytes} bytes: expected a share from 0 to 1, \
                     and more than 0 and at most {page_bytes} bytes"
                ));
            }
            sum += share / total * (1.0 - same);
            sums.push((sum, bytes));
        }
        if total <= 0.0 && same < 1.0 {
            return Err(
                "pool_bytes has no sizes: measure pages that are not same-filled".to_owned()
            );
        }
        Ok(Table(sums))
    }

    /// The bytes at a place from 0 up to 1 of the distribution.
    fn at(&self, place: f64) -> f64 {
        let number = self.0.partition_point(|&(sum, _)| sum <= place);
        self.0[number.min(self.0.len() - 1)].1
    }
}

impl<'a> PageSizes<'a> {
    /// The sizes for pages of `page_bytes`.
    ///
    /// # Errors
    /// The reason why a distribution is invalid.
    pub fn new(sizes: &'a Sizes, seed: u64, page_bytes: u64) -> Result<PageSizes<'a>, String> {
        let mut tables = vec![Table::new(&sizes.others, page_bytes)?];
        let mut names = BTreeMap::new();
        for (name, given) in &sizes.owners {
            let table = Table::new(given, page_bytes).map_err(|why| format!("{name}: {why}"))?;
            names.insert(name.as_str(), tables.len());
            tables.push(table);
        }
        Ok(PageSizes { seed, names, tables, of_process: Vec::new() })
    }

    /// Names the processes of a trace in their order; those that are known keep their sizes.
    pub fn name<'name>(&mut self, names: impl Iterator<Item = &'name str>) {
        let known = self.of_process.len();
        let tables = names.skip(known).map(|name| self.names.get(name).copied().unwrap_or(0));
        self.of_process.extend(tables);
    }

    /// The bytes that a page of this process takes in the pool; 0 if all its words are equal.
    pub fn of(&self, page: PageId, process: ProcessId) -> f64 {
        let table = self.of_process.get(process.index()).copied().unwrap_or(0);
        // The same place for all algorithms: a page that one compresses badly, others do too.
        let bits = Stream::named(self.seed ^ u64::from(page.0) << 20, "zram").next_bits();
        const PLACES: f64 = (1_u64 << 53) as f64;
        self.tables[table].at((bits >> 11) as f64 / PLACES)
    }
}
