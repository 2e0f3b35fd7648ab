//! What the decoders of events and markers need beside the fields.

/// The context of an event that its fields do not have.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The thread that ran (common_pid).
    pub tid: u32,
}
