//! The resident memory of a dying process over time.

/// Number of kinds of pages: file, anonymous, swapped, shared.
const MEMBERS: usize = 4;

/// The kind that is not resident.
const SWAPPED: u32 = 2;

/// Largest number of points; beyond it every second point is dropped.
const POINTS_MAX: usize = 256;

/// Resident bytes over time, in bounded memory.
///
/// `points` are those of every `stride`-th event, and the last.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Per kind: the first and the latest value.
    members: [Option<(u64, u64)>; MEMBERS],
    points: Vec<(u64, [Option<u64>; MEMBERS])>,
    last: Option<(u64, [Option<u64>; MEMBERS])>,
    stride: u64,
    seen: u64,
}

impl Curve {
    /// Adds that `bytes` of kind `member` are left at `time_ns`.
    pub fn push(&mut self, time_ns: u64, member: u32, bytes: u64) {
        let Some(slot) = self.members.get_mut(member as usize).filter(|_| member != SWAPPED) else {
            return;
        };
        *slot = Some((slot.map_or(bytes, |(first, _)| first), bytes));
        let now = (time_ns, self.members.map(|member| member.map(|(_, bytes)| bytes)));
        self.stride = self.stride.max(1);
        if self.seen.is_multiple_of(self.stride) {
            if self.points.len() == POINTS_MAX {
                let mut keeps = false;
                self.points.retain(|_| {
                    keeps = !keeps;
                    keeps
                });
                self.stride *= 2;
            }
            self.points.push(now);
        }
        self.seen += 1;
        self.last = Some(now);
    }

    /// Resident bytes at the beginning. The first value of each kind comes after the first emptied page
    /// table, so up to 2 MiB of each kind are missing. `None` without any value.
    pub fn first_bytes(&self) -> Option<u64> {
        let firsts: Vec<u64> = self.members.iter().flatten().map(|&(first, _)| first).collect();
        (!firsts.is_empty())
            .then(|| firsts.iter().fold(0u64, |sum, &first| sum.saturating_add(first)))
    }

    /// Times in nanoseconds, with resident bytes. Before its first value, a kind counts with that value.
    pub fn points(&self) -> Vec<(u64, u64)> {
        let total = |bytes: &[Option<u64>; MEMBERS]| {
            let each = bytes.iter().zip(&self.members);
            each.filter_map(|(now, member)| now.or_else(|| Some((*member)?.0)))
                .fold(0, u64::saturating_add)
        };
        let mut points: Vec<(u64, u64)> =
            self.points.iter().map(|(time_ns, bytes)| (*time_ns, total(bytes))).collect();
        if let Some((time_ns, bytes)) = self.last
            && points.last().is_none_or(|&(last_ns, _)| last_ns < time_ns)
        {
            points.push((time_ns, total(&bytes)));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_bytes_are_the_sum_of_all_kinds_but_swap() {
        let mut curve = Curve::default();
        assert_eq!((curve.first_bytes(), curve.points()), (None, vec![]));
        for (time_ns, member, bytes) in
            [(1, 1, 700), (2, 2, 5000), (3, 0, 100), (4, 1, 0), (5, 0, 0)]
        {
            curve.push(time_ns, member, bytes);
        }
        curve.push(6, 9, 1);
        assert_eq!(curve.first_bytes(), Some(800));
        assert_eq!(curve.points(), [(1, 800), (3, 800), (4, 100), (5, 0)]);
    }

    #[test]
    fn a_long_curve_keeps_its_first_and_last_point() {
        let mut curve = Curve::default();
        for step in 0..=100_000 {
            curve.push(step, 1, 100_000 - step);
        }
        let points = curve.points();
        assert!(points.len() <= POINTS_MAX + 1 && points.len() > POINTS_MAX / 2 - 1);
        assert_eq!((points[0], points.last()), ((0, 100_000), Some(&(100_000, 0))));
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1));
    }
}
