//! Finds the process and the name of each thread: of the threads at the start, of processes that join a cgroup,
//! and of unknown threads in events.

use std::collections::BTreeSet;

use linux::cgroup::MemoryGroup;
use linux::{Root, process};
use trace::kills::Task;

use super::Scope;
use crate::Error;

/// The threads that were found so far.
pub struct Tasks {
    group: Option<MemoryGroup>,
    /// Processes whose threads were listed.
    listed: BTreeSet<u32>,
    /// Unknown threads that were looked up.
    asked: BTreeSet<u32>,
    begins_with: Vec<u32>,
}

impl Tasks {
    /// Lists the processes of a scope.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new(root: &Root, scope: &Scope) -> Result<Tasks, Error> {
        let (group, begins_with) = match scope {
            Scope::All => (None, process::all(root)?),
            Scope::Process(process) => (None, vec![*process]),
            Scope::Group(group) => (Some(group.clone()), group.processes(root)?),
        };
        Ok(Tasks { group, listed: BTreeSet::new(), asked: BTreeSet::new(), begins_with })
    }

    /// The threads at the start of the recording.
    pub fn present(&mut self, root: &Root) -> Vec<Task> {
        let processes = std::mem::take(&mut self.begins_with);
        processes.into_iter().flat_map(|process| self.list(root, process)).collect()
    }

    /// Finds new processes of the group, and looks up the threads `strangers`; `name_of` returns the name of a thread
    /// that has ended.
    pub fn look(
        &mut self,
        root: &Root,
        strangers: &[u32],
        name_of: impl Fn(u32) -> Option<String>,
    ) -> Vec<Task> {
        let members = match &self.group {
            // A removed group has no processes.
            Some(group) => group.processes(root).unwrap_or_default(),
            None => Vec::new(),
        };
        let mut found: Vec<Task> = members
            .into_iter()
            .filter(|process| !self.listed.contains(process))
            .collect::<Vec<u32>>()
            .into_iter()
            .flat_map(|process| self.list(root, process))
            .collect();
        for &thread in strangers.iter().filter(|&&thread| self.asked.insert(thread)) {
            let process = process::of_thread(root, thread);
            let name = process::name(root, thread).or_else(|| name_of(thread));
            if process.is_some() || name.is_some() {
                let process = process.unwrap_or(thread);
                found.push(Task { thread, process, name, is_member: false });
            }
        }
        found
    }

    fn list(&mut self, root: &Root, process: u32) -> Vec<Task> {
        self.listed.insert(process);
        let task = |thread| Task {
            thread,
            process,
            name: process::name(root, thread),
            is_member: self.group.is_some(),
        };
        process::threads(root, process).into_iter().map(task).collect()
    }
}
