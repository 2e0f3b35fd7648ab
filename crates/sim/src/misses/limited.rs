//! Miss counts in bounded memory, for `--memory-limit`: policies and sizes are counted in several passes over the trace
//! if they do not fit into memory beside each other.

use super::{MissCounts, Room, choose_all, count, without_repeats};
use crate::Error;
use crate::passes::InPass;
use policy::eviction::{Build, Choice};
use trace::Source;
use types::Progress;

/// The most memory of a page with one size of a policy, if the number of pages is known beforehand;
/// crates/sim/tests/limited_memory.rs measures it. LRU takes this much for all sizes together.
fn bytes_of_a_size(choice: &Choice) -> Result<u64, Error> {
    if let Build::Offline(_) = choice.build {
        let why = format!(
            "{} keeps every access, so its memory has no limit; leave it out, or use --sample instead of \
             --memory-limit",
            choice.label
        );
        return Err(Error::usage(why));
    }
    Ok(match choice.row.name {
        "lru" | "fifo" | "clock" | "sieve" | "s3-fifo" | "two-list" | "arc" | "random" => 16,
        "lirs" | "two-queue" => 24,
        _ => 64,
    })
}

/// Whether one counter serves all sizes.
fn is_one_counter(choice: &Choice) -> bool {
    choice.row.name == "lru"
}

/// The least memory of [`run_within`] for each page of a trace, in bytes.
///
/// # Errors
/// An unknown policy or option, or a policy that knows the future, whose memory grows with the accesses.
pub fn bytes_per_page(policies: &[&str]) -> Result<u64, Error> {
    let mut most = 0;
    for choice in choose_all(policies)? {
        most = bytes_of_a_size(&choice)?.max(most);
    }
    Ok(most)
}

/// Policies and sizes that one pass counts.
struct Pass {
    policies: Vec<String>,
    frames: Vec<u32>,
}

/// The passes in which all policies and sizes fit into `room` bytes for each page, if that is possible.
fn passes(policies: &[&str], frames: &[u32], room: u64) -> Result<Vec<Pass>, Error> {
    let (choices, frames) = (choose_all(policies)?, without_repeats(frames));
    let mut bytes = 0;
    for choice in &choices {
        let counters = if is_one_counter(choice) { 1 } else { frames.len() as u64 };
        bytes += counters * bytes_of_a_size(choice)?;
    }
    if bytes <= room || frames.is_empty() {
        let policies = policies.iter().map(|&policy| policy.to_owned()).collect();
        return Ok(vec![Pass { policies, frames }]);
    }
    let mut passes = Vec::new();
    for choice in &choices {
        let at_once = match is_one_counter(choice) {
            true => frames.len(),
            false => (room / bytes_of_a_size(choice)?).max(1) as usize,
        };
        passes.extend(
            frames.chunks(at_once).map(|frames| Pass {
                policies: vec![choice.label.clone()],
                frames: frames.to_vec(),
            }),
        );
    }
    Ok(passes)
}

/// Counts as [`super::run`] does, with at most `room` bytes for each page, or with [`bytes_per_page`] if those are
/// more. `open` opens the trace once for each pass; its header must know the number of pages. Also returns the source
/// that was read last.
///
/// # Errors
/// Errors of [`super::run`] and [`bytes_per_page`].
pub fn run_within(
    open: &mut dyn FnMut() -> Result<Box<dyn Source>, Error>,
    policies: &[&str],
    frames: &[u32],
    room: u64,
    progress: &dyn Progress,
) -> Result<(MissCounts, Box<dyn Source>), Error> {
    let plan = passes(policies, frames, room)?;
    let passes = plan.len();
    let mut counted: Option<(MissCounts, Box<dyn Source>)> = None;
    for (pass, Pass { policies, frames }) in plan.into_iter().enumerate() {
        // Closes the source of the pass before: its page numbers would take memory beside those of the next.
        let earlier = counted.take().map(|(counts, _)| counts);
        let mut source = open()?;
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let progress = InPass { progress, pass, passes };
        let counts = count(&mut *source, &policies, &frames, Room::Scarce, &progress)?;
        let counts = match earlier {
            Some(mut earlier) => {
                earlier.append(counts);
                earlier
            }
            None => counts,
        };
        counted = Some((counts, source));
    }
    Ok(counted.expect("there is at least one pass"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(policies: &[&str], frames: &[u32], room: u64) -> Vec<(String, Vec<u32>)> {
        let passes = passes(policies, frames, room).unwrap();
        passes.into_iter().map(|pass| (pass.policies.join("+"), pass.frames)).collect()
    }

    #[test]
    fn what_fits_is_counted_in_one_pass_and_else_size_by_size() {
        let all = |names: &str, frames: &[u32]| (names.to_owned(), frames.to_vec());
        assert_eq!(planned(&["lru", "arc"], &[8, 9], 48), [all("lru+arc", &[8, 9])]);
        let by_policy = [all("lru", &[8, 9]), all("arc", &[8, 9])];
        assert_eq!(planned(&["lru", "arc"], &[8, 9], 47), by_policy);
        let by_size = [all("lru", &[8, 9]), all("arc", &[8]), all("arc", &[9])];
        assert_eq!(planned(&["lru", "arc"], &[8, 9], 31), by_size);
        // Less than one size needs: the caller refuses it before.
        assert_eq!(planned(&["lru-k:k=3"], &[8], 1), [all("lru-k:k=3", &[8])]);
    }
}
