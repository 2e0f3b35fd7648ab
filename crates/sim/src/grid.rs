//! Cells by time and address in bounded memory.
//!
//! Time and addresses are divided into bins whose sizes are powers of two. What does not fit doubles the bins.
//! Addresses with no cell take no row.

/// Largest number of bins of time.
pub(crate) const BINS_MAX: usize = 64;

/// Bits of the first bin of time where there is a clock: 2^20 ns, about a millisecond.
pub(crate) const TIME_BITS: u32 = 20;

/// What a map counts in a cell.
pub(crate) trait Tally: Copy + Default {
    /// Adds what another cell counted.
    fn add(&mut self, other: Self);
}

impl Tally for u64 {
    fn add(&mut self, other: u64) {
        *self += other;
    }
}

/// The bins of time that all rows of a map share.
#[derive(Debug)]
pub(crate) struct TimeBins {
    bits: u32,
    used: usize,
}

impl TimeBins {
    /// No bin yet, the first of which will have 2^`bits` units of time.
    pub(crate) fn new(bits: u32) -> TimeBins {
        TimeBins { bits, used: 0 }
    }

    /// The bin of a time since the first event. Calls `double` whenever the bins double; it must double the bins of all
    /// rows.
    pub(crate) fn bin(&mut self, time: u64, mut double: impl FnMut()) -> usize {
        while time >> self.bits >= BINS_MAX as u64 {
            self.bits += 1;
            self.used = self.used.div_ceil(2);
            double();
        }
        let bin = (time >> self.bits) as usize;
        self.used = self.used.max(bin + 1);
        bin
    }

    /// Length of a bin.
    pub(crate) fn length(&self) -> u64 {
        1 << self.bits
    }

    /// Number of bins up to the last in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

/// Rows of cells, in the order of their space and addresses.
#[derive(Debug)]
pub(crate) struct Rows<C> {
    /// Addresses of a row, as a power of two.
    bits: u32,
    /// Space and number of each row; an address is in row address >> `bits`.
    keys: Vec<(u64, u64)>,
    cells: Vec<[C; BINS_MAX]>,
    /// Place of the latest row: accesses come in runs.
    last: usize,
}

impl<C: Tally> Rows<C> {
    /// No row yet, each of which will have 2^`bits` addresses.
    pub(crate) fn new(bits: u32) -> Rows<C> {
        Rows { bits, keys: Vec::new(), cells: Vec::new(), last: 0 }
    }

    /// Adds to a bin of the row with this address.
    pub(crate) fn add(&mut self, space: u64, address: u64, bin: usize, cell: C) {
        let key = (space, address >> self.bits);
        if self.keys.get(self.last) != Some(&key) {
            self.last = match self.keys.binary_search(&key) {
                Ok(place) => place,
                Err(place) => {
                    self.keys.insert(place, key);
                    self.cells.insert(place, [C::default(); BINS_MAX]);
                    place
                }
            };
        }
        self.cells[self.last][bin].add(cell);
    }

    /// Joins rows in pairs.
    pub(crate) fn double_addresses(&mut self) {
        self.bits += 1;
        let (mut keys, mut cells): (Vec<_>, Vec<[C; BINS_MAX]>) = (Vec::new(), Vec::new());
        for (&(space, row), row_cells) in self.keys.iter().zip(&self.cells) {
            let key = (space, row >> 1);
            match cells.last_mut().filter(|_| keys.last() == Some(&key)) {
                Some(both) => both.iter_mut().zip(row_cells).for_each(|(sum, cell)| sum.add(*cell)),
                None => {
                    keys.push(key);
                    cells.push(*row_cells);
                }
            }
        }
        (self.keys, self.cells, self.last) = (keys, cells, 0);
    }

    /// Joins bins of time in pairs.
    pub(crate) fn double_time(&mut self) {
        for cells in &mut self.cells {
            for bin in 0..BINS_MAX {
                let mut both = cells.get(2 * bin).copied().unwrap_or_default();
                both.add(cells.get(2 * bin + 1).copied().unwrap_or_default());
                cells[bin] = both;
            }
        }
    }

    /// Drops the last row.
    pub(crate) fn drop_last(&mut self) {
        self.keys.pop();
        self.cells.pop();
        self.last = 0;
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Addresses of a row, as a power of two.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Space, number and cells of each row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, &[C; BINS_MAX])> {
        self.keys.iter().zip(&self.cells).map(|(&(space, row), cells)| (space, row, cells))
    }
}
