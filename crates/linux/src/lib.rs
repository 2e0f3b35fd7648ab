//! Safe interfaces to the kernel's files and system calls. This crate must not know recordings, traces or
//! policies.
//!
//! Contract: every path below `/proc` and `/sys` is resolved through a [`Root`], which tests set to a folder of
//! their own. A missing file is a result (`None` or an empty list); a refusal by the operating system is an
//! [`Error`] with the call and its reason.

pub mod address_space;
pub mod backing;
pub mod cgroup;
pub mod confinement;
pub mod counters;
pub mod delays;
pub mod disk;
pub mod disk_queue;
mod error;
pub mod extents;
pub mod features;
pub mod file_changes;
pub mod frames;
pub mod freezer;
pub mod fuse;
pub mod gauge;
pub mod group_counts;
pub mod groups;
pub mod guard;
pub mod held_process;
pub mod idle_pages;
pub mod inherited;
pub mod kernel_file;
pub mod local_socket;
pub mod log_file;
pub mod loop_device;
pub mod membership;
pub mod mounts;
pub mod nbd;
pub mod own_memory;
pub mod page_buffers;
pub mod passed_on;
pub mod polling;
pub mod pressure;
pub mod private_folder;
pub mod probe;
pub mod process;
pub mod program;
mod root;
mod setting;
mod shared_words;
pub mod stat;
pub mod swap;
pub mod system;
pub mod terminal;
pub mod text_file;
pub mod times;
pub mod tracefs;
pub mod ublk;
pub mod users;
pub mod wakeups;
pub mod weigher;
pub mod weight;
pub mod zones;
pub mod zram;
pub mod zram_trial;
pub mod zsmalloc;

pub use error::Error;
pub use root::Root;
pub(crate) use root::unescape;
pub use setting::KernelSetting;
pub use shared_words::SharedWords;
