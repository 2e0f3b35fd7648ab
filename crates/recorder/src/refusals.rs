//! Finds the reason why the kernel refused a BPF program in the output of libbpf.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::PrintLevel;
use linux::{Root, process};

use crate::Error;

/// Bytes of a page in the BPF programs.
const PAGE_BYTES: u64 = 4096;

/// The output of libbpf since the last call of [`keep_prints`].
static PRINTED: Mutex<String> = Mutex::new(String::new());

/// Keeps the output of libbpf for [`refused`] instead of printing it on the terminal.
pub fn keep_prints() {
    PRINTED.lock().unwrap_or_else(PoisonError::into_inner).clear();
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        PRINTED.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
    })));
}

/// Refuses kernels whose pages the BPF programs do not know: they count in pages of 4 KiB.
///
/// # Errors
/// The pages are larger; the text has their size.
pub fn check_page_size(page_bytes: u64) -> Result<(), Error> {
    match page_bytes {
        PAGE_BYTES => Ok(()),
        larger => Err(Error::Bpf(format!(
            "its programs count in pages of 4 KiB, and this kernel has pages of {} KiB",
            larger / 1024
        ))),
    }
}

/// The error for a refusal by libbpf or the kernel, with advice.
pub fn refused(error: libbpf_rs::Error) -> Error {
    let what = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied if process::may_load_bpf(&Root::system()) => {
            "the kernel refuses it although this process has the capabilities; the reason can be a security \
             module, lockdown or a seccomp filter: "
        }
        libbpf_rs::ErrorKind::PermissionDenied => {
            "the kernel refuses it; run as root, or with CAP_BPF and CAP_PERFMON: "
        }
        _ => "",
    };
    let printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    let why = verifier_message(&printed).map(|why| format!(" ({why})")).unwrap_or_default();
    Error::Bpf(format!("{what}{error:#}{why}"))
}

/// The program that the kernel's verifier refused, and the last line of its log.
fn verifier_message(printed: &str) -> Option<String> {
    let (head, rest) = printed.split_once("-- BEGIN PROG LOAD LOG --")?;
    let program = head.rsplit_once("prog '")?.1.split_once('\'')?.0;
    let log = rest.split_once("-- END PROG LOAD LOG --").map_or(rest, |(log, _)| log);
    let is_count = |line: &str| {
        ["processed ", "verification time ", "stack depth "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let reason =
        log.lines().rev().map(str::trim).find(|line| !line.is_empty() && !is_count(line))?;
    Some(format!("program {program}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The output of libbpf 1.7 on Linux 6.1.
    const PRINTED: &str = "libbpf: prog 'kill': BPF program load failed: Invalid argument\n\
        libbpf: prog 'kill': -- BEGIN PROG LOAD LOG --\n\
        571: R1_w=1 refs=20\n\
        617: <invalid CO-RE relocation>\n\
        failed to resolve CO-RE relocation <byte_off> [186] struct mm_struct\n\
        verification time 10145 usec\n\
        stack depth 72\n\
        processed 410 insns (limit 1000000) max_states_per_insn 3\n\
        -- END PROG LOAD LOG --\n\
        libbpf: prog 'kill': failed to load: -22\n";

    #[test]
    fn larger_pages_are_refused() {
        assert!(check_page_size(4096).is_ok());
        let error = check_page_size(16 << 10).unwrap_err().to_string();
        assert!(error.contains("this kernel has pages of 16 KiB"), "{error}");
    }

    #[test]
    fn the_last_line_of_the_verifiers_log_is_the_reason() {
        let reason =
            "program kill: failed to resolve CO-RE relocation <byte_off> [186] struct mm_struct";
        assert_eq!(verifier_message(PRINTED).as_deref(), Some(reason));
        assert_eq!(verifier_message("libbpf: failed to open object\n"), None);
        assert_eq!(
            verifier_message("prog 'kill': -- BEGIN PROG LOAD LOG --\nstack depth 72\n"),
            None
        );
    }
}
