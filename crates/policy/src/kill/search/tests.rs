//! Tests of the search: families, shared memory, kills in vain, and the victims of a decision.

use super::*;
use crate::kill::{Ranked, Score, Standing};

const MIB: u64 = 1 << 20;

fn mib(count: u64) -> Bytes {
    Bytes(count * MIB)
}

/// A candidate that frees `own_mib`, and shares `share_mib` if that is not 0.
fn row(process: u32, parent: u32, own_mib: u64, share_mib: u64) -> (Candidate, Sharer) {
    let candidate = Candidate { process, resident: mib(own_mib), ..Candidate::default() };
    let sharer = Sharer {
        parent,
        process_group: 10,
        mapped: mib(100),
        is_weighed: true,
        share: (share_mib > 0).then(|| mib(share_mib)),
        ..Sharer::default()
    };
    (candidate, sharer)
}

/// A server of 90 MiB with two forks, and another process.
fn server(own_mib: u64) -> (Vec<Candidate>, Vec<Sharer>) {
    let forks = [row(10, 1, 1, 31), row(11, 10, 1, 30), row(12, 10, 1, 30)];
    forks.into_iter().chain([row(13, 1, own_mib, 0)]).unzip()
}

fn find(
    search: &mut HolderSearch,
    rows: &(Vec<Candidate>, Vec<Sharer>),
    shared_mib: u64,
) -> Holder {
    search.begin();
    search.find(&mut rows.0.clone(), &rows.1, || mib(shared_mib));
    search.holder()
}

/// A batch that gained `gained_kib` of the 10 MiB that were expected of each victim.
fn batch(victims: u32, gained_kib: u64) -> Batch {
    let had = mib(10 * u64::from(victims));
    Batch { victims, had, gained: Bytes(gained_kib << 10) }
}

fn memory() -> Memory {
    Memory { total: mib(1000), ..Memory::default() }
}

fn named(index: usize) -> Ranked {
    let (score, standing) = (Score::default(), Standing::Neutral);
    Ranked { candidate: CandidateIndex(index), score, standing }
}

#[test]
fn a_family_holds_the_memory_if_it_has_four_times_what_the_best_process_frees() {
    let mut search = HolderSearch::with_room(8);
    assert_eq!(find(&mut search, &server(23), 0), Holder::Processes);
    let family = Family { key: 10, root: CandidateIndex(0), processes: 3, bytes: mib(91) };
    assert_eq!(find(&mut search, &server(22), 0), Holder::Family(family));
    let (mut candidates, sharers) = server(22);
    search.find(&mut candidates, &sharers, || Bytes(0));
    let bytes = |index: usize| candidates[index].resident;
    assert_eq!([0, 1, 2, 3].map(bytes), [mib(91), mib(0), mib(0), mib(22)]);
    // A policy that names the root kills the whole family, and no other process.
    let chosen = search.choose(&[named(0)], &mut candidates, &sharers, false);
    let victims: Vec<usize> = chosen.victims().iter().map(|(index, _)| index.0).collect();
    assert_eq!(victims, [0, 1, 2]);
    assert!(chosen.victims().iter().all(|&(_, part)| part == Part::OfFamily));
    // A protected member protects the family.
    let mut rows = server(22);
    rows.0[2].standing = Standing::Protected;
    assert_eq!(find(&mut search, &rows, 0), Holder::Processes);
}

#[test]
fn forks_that_only_map_the_memory_of_their_parent_die_with_it() {
    let mut search = HolderSearch::with_room(8);
    let parent = row(10, 1, 0, 90);
    let mut rows: (Vec<Candidate>, Vec<Sharer>) =
        [parent, row(11, 10, 0, 0), row(12, 10, 0, 0), row(13, 1, 5, 0)].into_iter().unzip();
    assert_eq!(find(&mut search, &rows, 0), Holder::Processes, "no shared memory without a name");
    rows.1[0].shared = mib(90);
    let family = Family { key: 10, root: CandidateIndex(0), processes: 3, bytes: mib(90) };
    assert_eq!(find(&mut search, &rows, 0), Holder::Family(family));
    // A child that runs another program maps none of it.
    rows.1[1].name[0] = b'x';
    let family = Family { processes: 2, ..family };
    assert_eq!(find(&mut search, &rows, 0), Holder::Family(family));
}

#[test]
fn shared_memory_of_no_process_spares_all() {
    let mut search = HolderSearch::default();
    let mut rows = server(30);
    assert_eq!(find(&mut search, &rows, 480), Holder::Processes);
    assert_eq!(search.reason_to_spare(&rows.0, &rows.1), None);
    assert_eq!(find(&mut search, &rows, 497), Holder::Unowned(mib(497)));
    assert_eq!(search.reason_to_spare(&rows.0, &rows.1), Some(UNOWNED));
    // The end of candidates frees a part.
    rows.1[3].shared = mib(20);
    assert_eq!(find(&mut search, &rows, 497), Holder::Processes);
}

#[test]
fn two_kills_in_vain_in_a_row_start_a_wide_search() {
    let rows = server(50);
    let family = |search: &mut HolderSearch| matches!(find(search, &rows, 0), Holder::Family(_));
    // The second batch gains an eighth of what was expected.
    for (gained, is_wide) in [([0, 0], true), ([1279, 1279], true), ([0, 1280], false)] {
        let mut search = HolderSearch::default();
        for gained in gained {
            assert!(!search.begin() && !family(&mut search));
            search.note_batch(&batch(1, gained), None, &memory());
        }
        assert_eq!(search.begin(), is_wide, "{gained:?}");
        assert_eq!(family(&mut search), is_wide);
        // Until memory is no longer short.
        search.end();
        assert!(!search.begin() && !family(&mut search));
    }
    // A gain below 1/4096 of memory is not worth a kill.
    let small = |gained_kib| Batch { had: Bytes(9), ..batch(2, gained_kib) };
    for (gained_kib, is_wide) in [(249, true), (251, false)] {
        let mut search = HolderSearch::default();
        search.note_batch(&small(gained_kib), None, &memory());
        assert_eq!(search.begin(), is_wide);
    }
}

#[test]
fn processes_that_look_like_a_victim_in_vain_free_nothing() {
    let looks = Lookalike { name: [7; 16], mapped: mib(100) };
    let rows = |other_mib| {
        let mut rows: (Vec<Candidate>, Vec<Sharer>) =
            [row(10, 1, 100, 0), row(11, 1, 100, 0), row(13, 1, other_mib, 0)].into_iter().unzip();
        rows.1[0].name = [7; 16];
        (rows.1[1].name, rows.1[1].mapped) = ([7; 16], mib(104));
        rows
    };
    let found = |other_mib| {
        let mut search = HolderSearch::default();
        search.note_batch(&batch(2, 0), Some(looks), &memory());
        search.begin();
        let (mut candidates, sharers) = rows(other_mib);
        let best = search.find(&mut candidates, &sharers, || Bytes(0));
        (best, candidates[0].resident, candidates[1].resident)
    };
    assert_eq!(found(13), (mib(100), mib(0), mib(100)), "another size");
    // If no other process has much memory, nothing changes.
    let (mut candidates, mut sharers) = rows(1);
    sharers[1].mapped = mib(100);
    sharing::discount(&mut candidates, &sharers, looks);
    assert_eq!(candidates[0].resident, mib(100));
    // Without a weight, a sixteenth more or less is the same size.
    (sharers[1].mapped, sharers[1].is_weighed) = (mib(104), false);
    candidates[2].resident = mib(13);
    sharing::discount(&mut candidates, &sharers, looks);
    assert_eq!(candidates[1].resident, mib(0));
}

#[test]
fn a_child_that_uses_its_parents_memory_dies_with_it_or_protects_it() {
    let search = HolderSearch::default();
    let (mut candidates, mut sharers) = server(200);
    sharers[1].is_borrowed = true;
    let both = [named(0), named(3)];
    let chosen = search.choose(&both, &mut candidates, &sharers, false);
    let [parent, child, other] = [0, 1, 3].map(CandidateIndex);
    let expected = [(parent, Part::Named), (child, Part::Borrower(parent)), (other, Part::Named)];
    assert_eq!((chosen.victims(), chosen.refused()), (&expected[..], &[][..]));
    // The child is worth its kill once its parent dies.
    assert!(!Part::Borrower(parent).is_worth_it(mib(1), child, &candidates));
    candidates[0].standing = Standing::Dying;
    assert!(Part::Borrower(parent).is_worth_it(mib(1), child, &candidates));
    candidates[0].standing = Standing::Neutral;
    candidates[1].standing = Standing::Protected;
    let chosen = search.choose(&both, &mut candidates, &sharers, false);
    assert_eq!((chosen.victims(), chosen.refused()), (&expected[2..], &[parent][..]));
    assert_eq!(candidates[0].standing, Standing::Refused);
}

#[test]
fn a_group_dies_with_the_named_process_and_a_victim_that_shrank_is_spared() {
    let (mut candidates, sharers) = server(200);
    (candidates[2].group, candidates[3].group) = (5, 5);
    let search = HolderSearch::default();
    let chosen = search.choose(&[named(3)], &mut candidates, &sharers, true);
    let victims: Vec<usize> = chosen.victims().iter().map(|(index, _)| index.0).collect();
    assert_eq!(victims, [3, 2]);
    for (promised, is_worth_it) in [(400, true), (402, false)] {
        let part = Part::Named.is_worth_it(mib(promised), CandidateIndex(3), &candidates);
        assert_eq!(part, is_worth_it);
    }
}

#[test]
fn a_process_that_is_ending_is_awaited_if_it_frees_half_of_the_best() {
    let search = HolderSearch::default();
    let (candidates, mut sharers) = server(100);
    for (ending, is_awaited) in [(49, false), (50, true)] {
        sharers[0].ending = mib(ending);
        let reason = search.reason_to_spare(&candidates, &sharers);
        assert_eq!(reason, is_awaited.then_some(ENDING));
    }
}

#[test]
fn a_weight_is_valid_for_a_second_and_longer_while_the_size_stays() {
    let ms = |count: i64| Nanos(count * 1_000_000);
    for (age, is_similar, is_valid) in
        [(999, false, true), (1000, false, false), (9_999, true, true), (10_000, true, false)]
    {
        assert_eq!(is_weight_valid(ms(age), VALID_SHORT, is_similar), is_valid, "{age}");
    }
}
