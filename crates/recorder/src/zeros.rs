//! Decides whether a recording marks pages of zeros. Since Linux 6.12 the kernel swaps such a page out by setting
//! a bit, so that no device writes it or reads it back; the BPF programs see a page-out without a write.
//! docs/decisions/0015-pages-of-zeros.md gives the reasons.

use linux::{Root, features};
use trace::recording::Missing;

use crate::Error;
use crate::sources::Source;

/// How a recording on this machine treats pages of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// Like all other pages: the kernel writes them, or page-outs are not recorded.
    Plain,
    /// Page-outs of pages of zeros are marked.
    Marked,
    /// Page-outs of pages of zeros cannot be marked, for this reason.
    Unmarked(&'static str),
}

impl Zeros {
    /// How a recording of `sources` with this backend treats them.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn here(root: &Root, backend: &str, sources: &[&Source]) -> Result<Zeros, Error> {
        let has_page_outs = sources.iter().any(|source| source.name == "swap");
        Ok(if !has_page_outs || !features::keeps_zeros_out(root)? {
            Zeros::Plain
        } else if backend == "tracefs" {
            Zeros::Unmarked("text events show only pages that a device writes or reads")
        } else if features::zswap(root)? == Some(true) {
            Zeros::Unmarked(
                "zswap is on, and no device writes its pages either; to mark them, switch zswap off before \
                 you record: echo N > /sys/module/zswap/parameters/enabled",
            )
        } else {
            Zeros::Marked
        })
    }

    /// The part that the recording lacks because of it.
    pub fn missing(self) -> Option<Missing> {
        let Zeros::Unmarked(why) = self else { return None };
        Some(Missing { what: "pages of zeros".to_owned(), why: why.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::CATALOG;

    /// The treatment of zeros with these texts of vmstat and of zswap's switch.
    fn zeros(vmstat: &str, zswap: Option<&str>, backend: &str, sources: &[&str]) -> Zeros {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/vmstat", vmstat);
        zswap.into_iter().for_each(|text| write("sys/module/zswap/parameters/enabled", text));
        let sources: Vec<&Source> =
            CATALOG.iter().filter(|source| sources.contains(&source.name)).collect();
        Zeros::here(&Root::at(folder.path()), backend, &sources).unwrap()
    }

    #[test]
    fn zeros_are_marked_if_no_other_page_leaves_without_a_write() {
        let (newer, both) = ("pswpout 1\nswpout_zero 0\n", ["swap", "faults"]);
        assert_eq!(zeros(newer, None, "bpf", &both), Zeros::Marked);
        assert_eq!(zeros(newer, Some("N\n"), "bpf", &both), Zeros::Marked);
        for (zswap, backend, reason) in [(Some("Y\n"), "bpf", "zswap"), (None, "tracefs", "text")] {
            let missing = zeros(newer, zswap, backend, &both).missing().unwrap();
            assert!(missing.why.contains(reason), "{}", missing.why);
        }
    }

    #[test]
    fn nothing_is_missing_if_the_kernel_writes_zeros_or_no_page_out_is_recorded() {
        assert_eq!(zeros("pswpout 1\n", Some("Y\n"), "bpf", &["swap"]), Zeros::Plain);
        assert_eq!(zeros("swpout_zero 0\n", Some("Y\n"), "bpf", &["kills"]), Zeros::Plain);
        assert_eq!(Zeros::Plain.missing(), None);
    }
}
