//! A set of request times that finds its largest in a few steps, at any distance between them.

/// Numbers below a fixed bound, as bits. Each level above has a bit per non-empty word, up to a
/// level of one word.
pub(super) struct TimeSet {
    levels: Vec<Vec<u64>>,
    length: usize,
}

const WORD_SHIFT: u32 = u64::BITS.trailing_zeros();

impl TimeSet {
    /// A set for times below `bound`.
    pub(super) fn new(bound: usize) -> TimeSet {
        let mut levels = Vec::new();
        let mut words = bound;
        while levels.is_empty() || words > 1 {
            words = words.div_ceil(u64::BITS as usize).max(1);
            levels.push(vec![0; words]);
        }
        TimeSet { levels, length: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Adds `time`, which is not in the set.
    #[inline(always)]
    pub(super) fn insert(&mut self, time: u32) {
        self.length += 1;
        let mut place = time;
        for level in &mut self.levels {
            let word = &mut level[(place >> WORD_SHIFT) as usize];
            let was_empty = *word == 0;
            *word |= 1 << (place % u64::BITS);
            if !was_empty {
                return;
            }
            place >>= WORD_SHIFT;
        }
    }

    #[inline(always)]
    pub(super) fn contains(&self, time: u32) -> bool {
        self.levels[0][(time >> WORD_SHIFT) as usize] >> (time % u64::BITS) & 1 != 0
    }

    /// Removes `time`, which is in the set.
    #[inline(always)]
    pub(super) fn remove(&mut self, time: u32) {
        self.length -= 1;
        let mut place = time;
        for level in &mut self.levels {
            let word = &mut level[(place >> WORD_SHIFT) as usize];
            *word &= !(1 << (place % u64::BITS));
            if *word != 0 {
                return;
            }
            place >>= WORD_SHIFT;
        }
    }

    /// Removes and returns the largest time.
    #[inline(always)]
    pub(super) fn pop_last(&mut self) -> Option<u32> {
        if self.length == 0 {
            return None;
        }
        let mut place = 0;
        for level in self.levels.iter().rev() {
            let word = level[place as usize];
            place = place << WORD_SHIFT | (u64::BITS - 1 - word.leading_zeros());
        }
        self.remove(place);
        Some(place)
    }
}
