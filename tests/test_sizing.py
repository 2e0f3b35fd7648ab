"""The rules for the size of the fast tier."""

from hypothesis import given
from hypothesis import strategies as st

from pagewise.models.sizing import WITHIN, ladder, reaching, surpluses, worth_buying

MIB = 2**20


@given(st.integers(min_value=1, max_value=2**45))
def test_a_ladder_climbs_in_pages_to_the_footprint(footprint_bytes: int):
    sizes = ladder(footprint_bytes)
    assert sizes == sorted(set(sizes))
    assert all(size % 4096 == 0 for size in sizes)
    assert sizes[-1] >= footprint_bytes
    assert all(size < footprint_bytes for size in sizes[:-1])
    assert len(sizes) <= 17


def test_the_knee_of_a_curve_with_one_bend():
    # No saving below 64 MiB, all of it at 64 MiB, and no more above.
    curve = {size * MIB: 10.0 if size < 64 else 1.0 for size in (16, 32, 64, 128, 256)}
    assert worth_buying(curve, 10.0) == 64 * MIB
    assert max(surpluses(curve, 10.0).values()) == surpluses(curve, 10.0)[64 * MIB]


def test_a_straight_line_has_no_knee_and_is_worth_its_whole_length():
    curve = {size * MIB: 10.0 * (1 - size / 256) for size in (16, 32, 64, 128, 256)}
    assert worth_buying(curve, 10.0) == 256 * MIB


def test_a_size_that_saves_nothing_is_not_worth_buying():
    assert worth_buying({16 * MIB: 10.5, 32 * MIB: 9.95}, 10.0) is None
    assert worth_buying({}, 10.0) is None
    assert worth_buying({16 * MIB: 0.0}, 0.0) is None


@given(
    st.lists(st.floats(min_value=0.0, max_value=2.0), min_size=2, max_size=12),
)
def test_the_size_worth_buying_is_the_smallest_near_the_knee(shares: list[float]):
    curve = {(index + 1) * MIB: share for index, share in enumerate(shares)}
    chosen = worth_buying(curve, 1.0)
    if chosen is None:
        assert min(shares) > 0.98
        return
    surplus = surpluses(curve, 1.0)
    best = max(surplus.values())
    if best >= 0.01:
        assert surplus[chosen] >= WITHIN * best
        assert all(surplus[size] < WITHIN * best for size in curve if size < chosen)


def test_a_size_reaches_a_limit_only_if_all_larger_ones_do():
    pages = {1: 100, 2: 40, 3: 60, 4: 30, 5: 20}
    assert reaching(pages, 50) == 4
    assert reaching(pages, 100) == 1
    assert reaching(pages, 10) is None
