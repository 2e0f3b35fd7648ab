"""The choice of a page size, on programs whose answer is known."""

import pytest
from hand_curves import HandCurve, HandCurves, dense, scattered

from pagewise.advice.page_size.advise import advise_page_size
from pagewise.errors import UsageError
from pagewise.models.page_size import BASE_BYTES, IDEAL_BYTES, choose
from pagewise.models.page_size_time import (
    PAPER,
    Hardware,
    Machine,
    Storage,
    Terms,
    Walk,
    storage_of,
)
from pagewise.probe import LARGE_BYTES, Times, device_file, transfer

MIB = 2**20
OPTANE = storage_of("optane-ssd")


def flat(setup_ns: float, ns_per_byte: float = 0.0) -> Storage:
    """Storage without a range."""
    return Storage(
        "flat",
        dict.fromkeys(("low", "typical", "high"), setup_ns),
        dict.fromkeys(("low", "typical", "high"), ns_per_byte),
    )


def test_the_formula_gives_the_figures_computed_by_hand():
    # Of 100 references, 8 miss the TLB and 4 fault; 2 of these are first touches that write.
    curve = HandCurve(pages=3, depths={70: 1, 65: 4}, cold_written=2)
    curves = HandCurves({4096: curve}, references=1000, steps=100)
    hardware = Hardware(tlb_ns=1, dram_ns=50, fault_ns=1000, zero_ns_per_byte=0.25)
    machine = Machine(flat(9000, 1.0), hardware, PAPER)
    times = machine.times(machine.rates(curves, 4096, 66 * 4096), 4096)
    assert times.translation_ns == pytest.approx(1 + 0.08 * 50)
    assert times.data_ns == pytest.approx(50 + 0.04 * (1000 + 9000 + 4096))
    everything = Machine(
        flat(9000, 1.0), hardware, Terms(references="cpu", cold="file-only", tlb_levels=1)
    )
    times = everything.times(everything.rates(curves, 4096, 66 * 4096), 4096)
    assert times.translation_ns == pytest.approx(1 + 0.008 * 50)
    assert times.data_ns == pytest.approx(50 + 0.002 * (1000 + 13096) + 0.002 * (1000 + 1024))


def test_a_second_tlb_level_is_used_on_misses_of_the_first():
    curves = HandCurves({4096: HandCurve(10, {100: 20, 2000: 5})}, steps=100)
    machine = Machine(OPTANE, Hardware(), Terms(tlb_levels=2))
    rates = machine.rates(curves, 4096, 8 * MIB)
    assert (rates.first_tlb, rates.last_tlb) == (0.35, 0.15)
    assert machine.times(rates, 4096).translation_ns == pytest.approx(1 + 0.35 * 7 + 0.15 * 50)


@pytest.mark.parametrize(
    ("walk", "cached", "accesses"),
    [("native", 3, 1), ("native", 0, 4), ("nested", 3, 3), ("nested", 2, 8), ("nested", 0, 24)],
)
def test_a_page_walk_takes_the_accesses_of_its_levels(
    walk: Walk, cached: int, accesses: int
) -> None:
    terms = Terms(tlb_levels=1, walk=walk, cached_levels=cached)
    assert terms.walk_accesses == accesses
    curves = HandCurves({4096: HandCurve(10, {100: 20})}, steps=100)
    machine = Machine(OPTANE, Hardware(), terms)
    rates = machine.rates(curves, 4096, 8 * MIB)
    assert machine.times(rates, 4096).translation_ns == pytest.approx(1 + 0.3 * accesses * 50)


def test_a_five_level_walk_is_possible_and_more_or_no_level_refused() -> None:
    assert Terms(walk="nested", walk_levels=5, cached_levels=0).walk_accesses == 35
    for levels, cached in ((0, 0), (6, 3), (4, 4), (4, -1)):
        with pytest.raises(UsageError, match="level"):
            Terms(walk_levels=levels, cached_levels=cached)


def test_nested_walks_make_larger_pages_gain_more_and_ask_for_the_hosts() -> None:
    curves = dense()
    gains, notes = [], []
    for terms in (Terms(), Terms(walk="nested"), Terms(walk="nested", cached_levels=0)):
        found = advise_page_size(
            curves, memory="100%", storage="optane-ssd", target="x86-mthp", terms=terms
        )
        gains.append(found["gain"]["typical"])
        notes.append([note for note in found["notes"] if "the host must hold" in note])
        wanted = found["page_bytes"] if terms.walk == "nested" else None
        assert found.get("host_page_bytes") == wanted
    assert gains[0] < gains[1] < gains[2]
    assert [bool(note) for note in notes] == [False, True, True]


def test_a_cluster_read_ahead_makes_faults_those_of_the_cluster():
    curves = dense()
    plain, clustered = (
        Machine(OPTANE, Hardware(), Terms(cold="counted", readahead_bytes=size))
        for size in (0, 32768)
    )
    assert clustered.rates(curves, 4096, 64 * MIB).read == plain.rates(curves, 32768, 64 * MIB).read
    assert clustered.rates(curves, 4096, 64 * MIB).first_tlb > 0
    assert not clustered.can_judge(4096, MIB) and plain.can_judge(4096, MIB)


def test_dense_programs_take_the_largest_page_and_scattered_ones_the_smallest():
    choice = choose(dense(), 16 * MIB, OPTANE, terms=PAPER)
    assert (choice.page_bytes, choice.ideal_bytes, choice.regret) == (32768, 32768, 0)
    assert choice.footprint_factor == 1 and choice.gain > 0.1
    choice = choose(scattered(), 2 * MIB, OPTANE, terms=PAPER)
    assert choice.page_bytes == 1024
    assert choice.footprint_factor == 0.25


def test_a_restriction_costs_what_the_ideal_would_have_saved():
    curves = dense()
    ideal = choose(curves, 16 * MIB, OPTANE, terms=PAPER)
    within = choose(curves, 16 * MIB, OPTANE, terms=PAPER, sizes=(4096, 16384))
    assert (within.page_bytes, within.ideal_bytes) == (16384, 32768)
    assert within.regret == pytest.approx(ideal.gain - within.gain)
    assert within.regret > 0


def test_sizes_with_too_few_frames_are_not_judged():
    choice = choose(dense(), 16 * MIB, OPTANE, sizes=(4096, 65536, 2 * MIB))
    assert choice.unjudged == (2 * MIB,) and 2 * MIB not in choice.times
    with pytest.raises(UsageError, match="too small"):
        choose(dense(), 64 * 4096, OPTANE)


def test_a_small_gain_is_not_worth_a_change():
    # The page sizes differ only by one TLB miss in a thousand references.
    curves = HandCurves(
        {size: HandCurve(1, {100: 9 if size == 4096 else 1}) for size in IDEAL_BYTES}, steps=100_000
    )
    assert choose(curves, 64 * MIB, OPTANE).page_bytes == BASE_BYTES
    assert choose(curves, 64 * MIB, OPTANE, least_gain=0).page_bytes != BASE_BYTES


def test_the_interval_holds_the_gain_and_knows_a_cliff():
    # 16 KiB pages need 8 MiB; with one page less, every reference to a new page faults.
    curves = HandCurves(
        {
            size: HandCurve(64, {512 if size == 16384 else 100: 1000 if size != 4096 else 1100})
            for size in IDEAL_BYTES
        },
        steps=100_000,
    )
    choice = choose(curves, 8 * MIB, flat(5000), terms=PAPER, sizes=(4096, 16384))
    assert choice.page_bytes == 4096 and choice.gain == 0 and choice.regret > 0
    choice = choose(curves, 8 * MIB, flat(5000), terms=PAPER, sizes=(16384,))
    low, high = choice.gain_interval
    assert low < 0 < choice.gain <= high
    daring = choose(
        curves, 8 * MIB, flat(5000), terms=PAPER, sizes=(4096, 16384), margin=0, least_gain=0
    )
    assert daring.page_bytes == 16384 and daring.time_ns < daring.base_ns


def test_the_file_of_a_probe_is_storage(tmp_path):
    path = tmp_path / "mine.toml"
    times = Times(1, 2, 4)
    path.write_text(device_file("mine", times, times, transfer([5, 5, 6], [105, 205, 5]), "fio"))
    mine = storage_of(str(path))
    us_per_byte = 100 / (LARGE_BYTES - 4096)
    assert mine.read_ns(4096, "low") == pytest.approx(1e3 * (5 - 4096 * us_per_byte), rel=1e-3)
    assert transfer([5], [5]) is None


def test_a_device_without_a_transfer_is_refused():
    with pytest.raises(UsageError, match="sd-a1"):
        storage_of("sd-a1")


def test_a_page_of_4_kib_takes_what_the_device_says():
    assert storage_of("hdd").read_ns(4096) == pytest.approx(9.8e6, rel=0.01)
    low, typical, high = (OPTANE.read_ns(4096, level) for level in ("low", "typical", "high"))
    assert low < typical < high
