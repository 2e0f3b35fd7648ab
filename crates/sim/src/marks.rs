//! Positions in time that may carry a mark, appended at the end and cleared anywhere, with a fast count of
//! the marks before a position: the basis of stack distances.

/// Marked positions, appended at the end and cleared anywhere.
///
/// Invariant, for every word, line and group up to the one before `end`: its counter is the number
/// of marks before it in its line, in its group, or overall.
pub struct Marks {
    /// One bit per position.
    words: Vec<u64>,
    before_word: Vec<u16>,
    before_line: Vec<u16>,
    before_group: Vec<u32>,
    /// Number of positions in use.
    end: u32,
    positions: u32,
}

/// Words of a line and lines of a group: few enough for counters of 16 bits, which are adjusted
/// eight at a time.
const FAN_OUT: usize = 32;
const WORD_SHIFT: u32 = u64::BITS.trailing_zeros();
const LINE_SHIFT: u32 = WORD_SHIFT + FAN_OUT.trailing_zeros();
const GROUP_SHIFT: u32 = LINE_SHIFT + FAN_OUT.trailing_zeros();

impl Marks {
    /// An empty set with room for `positions` or a few more.
    pub fn new(positions: usize) -> Marks {
        let positions = positions.next_multiple_of(1 << LINE_SHIFT).min(1 << 31);
        let groups = positions.div_ceil(1 << GROUP_SHIFT);
        Marks {
            words: vec![0; positions >> WORD_SHIFT],
            before_word: vec![0; positions >> WORD_SHIFT],
            before_line: vec![0; groups * FAN_OUT],
            before_group: vec![0; groups],
            end: 0,
            positions: positions as u32,
        }
    }

    /// Number of positions left to append.
    pub fn free(&self) -> usize {
        (self.positions - self.end) as usize
    }

    /// The position that `append` marks next.
    #[inline(always)]
    pub fn next(&self) -> u32 {
        self.end
    }

    /// Marks the next position, which must be free.
    #[inline(always)]
    pub fn append(&mut self) {
        if self.end.is_multiple_of(u64::BITS) {
            self.begin_word();
        }
        self.words[(self.end >> WORD_SHIFT) as usize] |= 1 << (self.end % u64::BITS);
        self.end += 1;
    }

    /// Clears the mark at `position` and returns the number of marks up to and including it.
    #[inline(always)]
    pub fn take(&mut self, position: u32) -> u32 {
        let count = self.count_through(position);
        let (word, line, group) = places(position);
        self.words[word] &= !(1 << (position % u64::BITS));
        // Counters of words and lines that have not begun are garbage, and set when they begin.
        subtract(fan(&mut self.before_word, word), &AFTER[word % FAN_OUT]);
        subtract(fan(&mut self.before_line, line), &AFTER[line % FAN_OUT]);
        let last_group = (self.end >> GROUP_SHIFT) as usize;
        if group < last_group {
            let last_begun = last_group.min(self.before_group.len() - 1);
            for before in &mut self.before_group[group + 1..=last_begun] {
                *before = before.wrapping_sub(1);
            }
        }
        count
    }

    /// The number of marks up to `position` and including it.
    #[inline(always)]
    pub fn count_through(&self, position: u32) -> u32 {
        let (word, line, group) = places(position);
        let through = self.words[word] << (u64::BITS - 1 - position % u64::BITS);
        through.count_ones()
            + u32::from(self.before_word[word])
            + u32::from(self.before_line[line])
            + self.before_group[group]
    }

    /// Sets the counters of the word, and of the line and group if they begin at `end` too.
    #[cold]
    fn begin_word(&mut self) {
        let (word, line, group) = places(self.end);
        let before = if self.end == 0 { 0 } else { self.count_through(self.end - 1) };
        if word.is_multiple_of(FAN_OUT) && line.is_multiple_of(FAN_OUT) {
            self.before_group[group] = before;
        }
        if word.is_multiple_of(FAN_OUT) {
            self.before_line[line] = (before - self.before_group[group]) as u16;
        }
        let before_in_line = before - self.before_group[group] - u32::from(self.before_line[line]);
        self.before_word[word] = before_in_line as u16;
    }
}

/// The word, line and group of a position.
#[inline(always)]
fn places(position: u32) -> (usize, usize, usize) {
    let at = |shift| (position >> shift) as usize;
    (at(WORD_SHIFT), at(LINE_SHIFT), at(GROUP_SHIFT))
}

/// One fan of counters.
type Fan = [u16; FAN_OUT];

/// For each place in a fan, 1 for the places after it: the decrements when a mark there is cleared. A
/// table, because comparing would be three quarters of the work.
static AFTER: [Fan; FAN_OUT] = {
    let mut after = [[0; FAN_OUT]; FAN_OUT];
    let mut place = 0;
    while place < FAN_OUT {
        let mut other = place + 1;
        while other < FAN_OUT {
            after[place][other] = 1;
            other += 1;
        }
        place += 1;
    }
    after
};

/// The counters in the fan of `index`.
#[inline(always)]
fn fan(counters: &mut [u16], index: usize) -> &mut Fan {
    let start = index / FAN_OUT * FAN_OUT;
    (&mut counters[start..start + FAN_OUT]).try_into().expect("a slice as long as a fan")
}

#[inline(always)]
fn subtract(counters: &mut Fan, less: &Fan) {
    let before = *counters;
    *counters = std::array::from_fn(|place| before[place].wrapping_sub(less[place]));
}
