//! What the kernel's zram can do, as its first device shows.

use linux::{Root, zram};
use serde::Serialize;

/// The abilities of the kernel's zram; null where there is no device to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelZram {
    /// The algorithms.
    pub algorithms: Option<Vec<String>>,
    /// Whether pages can be compressed again by another algorithm (CONFIG_ZRAM_MULTI_COMP).
    pub has_recompression: Option<bool>,
    /// Whether pages can be written to a backing device (CONFIG_ZRAM_WRITEBACK).
    pub has_writeback: Option<bool>,
}

/// Asks the first zram device; none is added for this.
pub fn kernel_zram(root: &Root) -> KernelZram {
    let Some(name) = zram::devices(root).unwrap_or_default().into_iter().next() else {
        return KernelZram::default();
    };
    let exists = |file: &str| Some(root.exists(format!("/sys/block/{name}/{file}")));
    KernelZram {
        algorithms: zram::algorithms(root, &name).ok().flatten(),
        has_recompression: exists("recompress"),
        has_writeback: exists("backing_dev"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_are_those_of_the_first_device() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(kernel_zram(&root), KernelZram::default());
        let block = folder.path().join("sys/block/zram0");
        std::fs::create_dir_all(&block).unwrap();
        std::fs::write(block.join("comp_algorithm"), "lzo [lz4]\n").unwrap();
        std::fs::write(block.join("recompress"), "").unwrap();
        let expected = KernelZram {
            algorithms: Some(vec!["lzo".to_owned(), "lz4".to_owned()]),
            has_recompression: Some(true),
            has_writeback: Some(false),
        };
        assert_eq!(kernel_zram(&root), expected);
    }
}
