//! The two widths of numbers in the file.

/// A number that Parquet stores. Arithmetic wraps in its own width, as the format requires.
pub(in crate::store) trait Number: Copy + Ord + Default {
    /// 1 if `is_one`, otherwise 0.
    fn small(is_one: bool) -> Self;
    fn minus(self, other: Self) -> Self;
    /// `self` and `count` times `step`, which is 0 or 1.
    fn advanced(self, step: Self, count: usize) -> Self;
    /// The bits of the number, zero-extended.
    fn bits(self) -> u64;
    fn widened(self) -> i64;
}

impl Number for i32 {
    fn small(is_one: bool) -> i32 {
        i32::from(is_one)
    }
    #[inline(always)]
    fn minus(self, other: i32) -> i32 {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn advanced(self, step: i32, count: usize) -> i32 {
        self.wrapping_add(step.wrapping_mul(count as i32))
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self as u32)
    }
    fn widened(self) -> i64 {
        i64::from(self)
    }
}

impl Number for i64 {
    fn small(is_one: bool) -> i64 {
        i64::from(is_one)
    }
    #[inline(always)]
    fn minus(self, other: i64) -> i64 {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn advanced(self, step: i64, count: usize) -> i64 {
        self.wrapping_add(step.wrapping_mul(count as i64))
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self as u64
    }
    fn widened(self) -> i64 {
        self
    }
}
