//! Processes, from `/proc`.

use crate::{Error, Root};

/// Numbers of all processes, in order.
///
/// # Errors
/// What the operating system refuses.
pub fn all(root: &Root) -> Result<Vec<u32>, Error> {
    let mut processes: Vec<u32> =
        root.list("/proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    processes.sort_unstable();
    Ok(processes)
}

/// The command name of a process, at most 15 bytes; none once it has ended.
pub fn name(root: &Root, process: u32) -> Option<String> {
    // A process may end between being listed and being read; its file then refuses.
    let text = root.read(format!("/proc/{process}/comm")).ok()??;
    Some(text.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_listed_and_has_a_name() {
        let root = Root::system();
        let this = std::process::id();
        assert!(all(&root).unwrap().contains(&this));
        assert!(!name(&root, this).unwrap().is_empty());
        assert_eq!(name(&root, u32::MAX), None);
    }
}
