//! Storage for the pages of every size: binary trees over neighbouring blocks, found by address.

use super::stack::Page;
use std::ops::Range;
use trace::renumber::Renumber;

/// Levels of a tree below its root.
const TREE_LEVELS: usize = 6;
const LEAVES: usize = 1 << TREE_LEVELS;
/// Trees of blocks, and trees above them whose leaves are the roots of those.
pub const LEVELS: usize = 2 * TREE_LEVELS + 1;

/// The pages in one stretch of memory: leaf `i` at node `LEAVES + i`, and at node `n`
/// the page whose halves are nodes `2 n` and `2 n + 1`. In a tree of blocks node 1 is not used: its
/// page is a leaf of the tree above.
#[derive(Clone)]
struct Tree([Page; 2 * LEAVES]);

/// Trees of 64 blocks (32 KiB), and above them trees of 64 of those (2 MiB), for the memory used.
pub struct Trees {
    numbers: Renumber,
    trees: Vec<Tree>,
    /// For each tree, the number of its parent tree.
    above: Vec<u32>,
    numbers_above: Renumber,
    trees_above: Vec<Tree>,
    /// Scratch of `find`.
    stretches: Vec<u64>,
}

impl Trees {
    pub fn new() -> Trees {
        Trees {
            numbers: Renumber::unlimited(),
            trees: Vec::new(),
            above: Vec::new(),
            numbers_above: Renumber::unlimited(),
            trees_above: Vec::new(),
            stretches: Vec::new(),
        }
    }

    /// Replaces `found` by the number of the tree of each of `blocks`; creates missing trees.
    pub fn find(&mut self, blocks: impl Iterator<Item = u64>, found: &mut Vec<u32>) {
        self.stretches.clear();
        self.stretches.extend(blocks.map(|block| block / LEAVES as u64));
        found.clear();
        number(&mut self.numbers, &self.stretches, found);
        self.add_new();
    }

    fn add_new(&mut self) {
        let stretches = &self.numbers.ids()[self.trees.len()..];
        let stretches: Vec<u64> = stretches.iter().map(|id| id / LEAVES as u64).collect();
        self.trees.resize(self.numbers.len(), Tree::EMPTY);
        number(&mut self.numbers_above, &stretches, &mut self.above);
        self.trees_above.resize(self.numbers_above.len(), Tree::EMPTY);
    }

    /// Visits the pages of every size that contain `block`, in this tree, smallest first, until `visit`
    /// stops; returns how many it let pass.
    #[inline(always)]
    pub fn walk(
        &mut self,
        tree: u32,
        block: u64,
        mut visit: impl FnMut(usize, &mut Page) -> bool,
    ) -> usize {
        let (tree, block) = (tree as usize, block as usize);
        let pages = &mut self.trees[tree].0;
        for level in 0..TREE_LEVELS {
            let node = (LEAVES + block % LEAVES) >> level;
            if !visit(level, &mut pages[node]) {
                return level;
            }
        }
        let pages = &mut self.trees_above[self.above[tree] as usize].0;
        for level in TREE_LEVELS..LEVELS {
            let node = (LEAVES + block / LEAVES % LEAVES) >> (level - TREE_LEVELS);
            if !visit(level, &mut pages[node]) {
                return level;
            }
        }
        LEVELS
    }

    /// Every page of one size, in no particular order.
    pub fn pages(&self, level: usize) -> impl Iterator<Item = &Page> {
        let (is_below, nodes) = nodes(level);
        let trees = if is_below { &self.trees } else { &self.trees_above };
        trees.iter().flat_map(move |tree| &tree.0[nodes.clone()])
    }

    /// Every page of one size, mutable, in no particular order.
    pub fn pages_mut(&mut self, level: usize) -> impl Iterator<Item = &mut Page> {
        let (is_below, nodes) = nodes(level);
        let trees = if is_below { &mut self.trees } else { &mut self.trees_above };
        trees.iter_mut().flat_map(move |tree| &mut tree.0[nodes.clone()])
    }
}

impl Tree {
    const EMPTY: Tree = Tree([Page::NEVER; 2 * LEAVES]);
}

/// Whether the pages of this size are in the trees of blocks, and their nodes in each tree.
fn nodes(level: usize) -> (bool, Range<usize>) {
    let is_below = level < TREE_LEVELS;
    let height = if is_below { level } else { level - TREE_LEVELS };
    (is_below, LEAVES >> height..(2 * LEAVES) >> height)
}

fn number(numbers: &mut Renumber, keys: &[u64], out: &mut Vec<u32>) {
    numbers.number_batch(keys, out).expect("memory ends before 2^31 trees of a kilobyte");
}
