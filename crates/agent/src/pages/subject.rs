//! What is sampled: a process, and the steps by which its pages are counted.

/// Steps of the distribution of sizes in a page.
pub const STEPS: usize = 64;

/// A process to sample.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The PID.
    pub pid: u32,
    /// The command name.
    pub name: String,
    /// Anonymous bytes in memory, as the kernel reports them.
    pub anonymous: u64,
}
