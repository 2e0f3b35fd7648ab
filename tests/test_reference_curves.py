"""Curves of references: counts against memories that see every reference, JSON, and refusals."""

import json
import random
from collections import OrderedDict
from pathlib import Path

import numpy
import pytest

import pagewise
from pagewise import cli
from pagewise.errors import UnreadableInput, UsageError
from pagewise.reference_curves import EXACT_FROM, KINDS, PAGE_SIZES
from pagewise.references import import_references

LETTERS = {"I": "instruction", " L": "read", " S": "write", " M": "write"}
Reference = tuple[str, int, int]


def program(length: int, seed: int = 7) -> list[Reference]:
    """References as lackey's letter, address and bytes; some cross a page."""
    dice = random.Random(seed)
    references: list[Reference] = []
    for index in range(length):
        letter = dice.choice(["I", "I", " L", " S", " M"])
        scattered = dice.randrange(1 << 18) * dice.randrange(1 << 12) // 300
        address = 0x400000 + (index * 5 % 90_000 if letter == "I" else scattered)
        references.append((letter, address, dice.choice([1, 4, 8, 64])))
    return references


@pytest.fixture(scope="module")
def references() -> list[Reference]:
    return program(20_000)


@pytest.fixture(scope="module")
def path(references: list[Reference], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("references")
    text = folder / "lackey.txt"
    lines = (f"{letter:2} {address:x},{size}\n" for letter, address, size in references)
    text.write_text("".join(lines))
    import_references(text, folder / "program.pwf")
    return folder / "program.pwf"


def misses(references: list[Reference], page_bytes: int, frames: int) -> dict[str, int]:
    """Misses by kind of an LRU memory that sees every reference."""
    held: OrderedDict[int, None] = OrderedDict()
    counts = dict.fromkeys(KINDS, 0)
    for letter, address, size in references:
        for page in range(address // page_bytes, (address + size - 1) // page_bytes + 1):
            if page in held:
                held.move_to_end(page)
                continue
            counts[LETTERS[letter]] += 1
            held[page] = None
            if len(held) > frames:
                held.popitem(last=False)
    return counts


def test_counts_equal_those_of_memories_that_see_every_reference(
    path: Path, references: list[Reference]
) -> None:
    curves = pagewise.curves(path)
    assert tuple(curves.sizes) == PAGE_SIZES
    assert curves.references == len(references)
    assert curves.instructions == sum(letter == "I" for letter, _, _ in references)
    assert curves.steps == curves.sizes[512].faults(64)
    sizes = [64, 100, 700, 10**9]
    for page_bytes in (512, 4096, 65536, 2 << 20):
        curve = curves.sizes[page_bytes]
        expected = [misses(references, page_bytes, frames) for frames in sizes]
        for kind in KINDS:
            counts = [by_kind[kind] for by_kind in expected]
            assert curve.faults(sizes, kind=kind).tolist() == counts
            assert curve.tlb_misses(sizes, kind=kind).tolist() == counts
            assert curve.cold_by_kind[kind] == counts[-1]
        assert curve.faults(sizes).tolist() == [sum(counts.values()) for counts in expected]
        assert curve.pages == curve.cold == sum(expected[-1].values())


def test_few_frames_give_a_lower_bound(path: Path, references: list[Reference]) -> None:
    curve = pagewise.curves(path, page_sizes=4096).sizes[4096]
    few = int(curve.faults(EXACT_FROM // 2))
    assert int(curve.faults(EXACT_FROM)) <= few
    assert few < sum(misses(references, 4096, EXACT_FROM // 2).values())


def associative_misses(
    references: list[Reference], page_bytes: int, entries: int, ways: int
) -> int:
    """Misses of a TLB in sets that sees every reference."""
    sets: list[list[int]] = [[] for _ in range(entries // ways)]
    count = 0
    for _, address, size in references:
        for page in range(address // page_bytes, (address + size - 1) // page_bytes + 1):
            held = sets[page % len(sets)]
            count += page not in held
            if page in held:
                held.remove(page)
            held.insert(0, page)
            del held[ways:]
    return count


def test_set_associative_tlbs_are_counted_or_bounded_from_below(
    path: Path, references: list[Reference], capsys: pytest.CaptureFixture[str]
) -> None:
    curves = pagewise.curves(path, page_sizes=[4096, 2 << 20], tlb=["64x4", "128x64", "64"])
    for size, curve in curves.sizes.items():
        wide = associative_misses(references, size, 128, 64)
        assert not curves.is_lower_bound(size, "128x64")
        assert curve.misses_of_tlb("128x64") == wide
        assert curve.misses_of_tlb("64") == curve.tlb_misses(64)
        exact = associative_misses(references, size, 64, 4)
        assert curve.misses_of_tlb("64x4") <= exact
        if not curves.is_lower_bound(size, "64x4"):
            assert curve.misses_of_tlb("64x4") == exact
    assert curves.is_lower_bound(4096, "64x4")
    with pytest.raises(UsageError, match="no TLB of 32x4"):
        curve.misses_of_tlb("32x4")
    words = ["curves", str(path), "--frames", "64", "--page-sizes", "4096", "--tlb", "64x4,128x64"]
    assert cli.run(words) == 0
    assert f"{curves.sizes[4096].misses_of_tlb('64x4'):,}+" in capsys.readouterr().out
    assert cli.run([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["lower_bounds"] == {"4096": ["64x4"]} and result["minor_faults"] is None
    assert result["tlb_misses"]["4096"]["128x64"] == curves.sizes[4096].misses_of_tlb("128x64")


def test_the_start_of_a_trace_can_be_left_out(
    path: Path, references: list[Reference], capsys: pytest.CaptureFixture[str]
) -> None:
    start = 5000
    curves = pagewise.curves(path, page_sizes=4096, from_reference=start)
    curve, whole = curves.sizes[4096], pagewise.curves(path, page_sizes=4096).sizes[4096]
    assert curves.references == len(references) - start and curve.pages == whole.pages
    for frames in (64, 700):
        before = sum(misses(references[:start], 4096, frames).values())
        assert curve.faults(frames) == whole.faults(frames) - before
    assert 0 < curve.cold < whole.cold
    words = ["curves", str(path), "--frames", "64", "--from-reference", str(len(references))]
    assert cli.run(words) == 2
    assert f"has {len(references)} references" in capsys.readouterr().err


def test_counts_are_arrays_in_the_shape_of_the_question(path: Path) -> None:
    curve = pagewise.curves(path, page_sizes="4KiB").sizes[4096]
    table = curve.faults(numpy.array([[64, 65], [700, 10**9]]))
    assert table.shape == (2, 2) and table[1, 1] == curve.cold
    assert curve.misses[64] == table[0, 0]
    assert curve.write_backs(64) > curve.write_backs(10**9) == 0


def test_json_has_the_fields_that_others_rely_on(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--page-sizes", "512,4KiB", "--frames", "64,1MiB", "--tlb", "64,512"]
    options = [*sizes, "--second-tlb", "1536x12"]
    assert cli.run(["curves", str(path), *options, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    curves = pagewise.curves(path, page_sizes=[512, 4096], second_tlb="1536x12")
    assert result["schema"] == "pagewise.curves/1"
    assert result["references"] == curves.references
    assert result["exact_from"] == EXACT_FROM
    assert list(result["faults"]) == ["512", "4096"]
    assert list(result["faults"]["512"]) == ["64", "2048"]
    assert list(result["faults"]["4096"]) == ["64", "256"]
    for size, curve in curves.sizes.items():
        of = str(size)
        assert result["cold"][of] == curve.cold
        assert result["faults"][of]["64"] == curve.faults(64)
        assert result["tlb_misses"][of] == {
            "64": curve.tlb_misses(64),
            "512": curve.tlb_misses(512),
        }
        assert curve.cold <= result["second_tlb_misses"][of]["1536x12"] <= curve.tlb_misses(64)
        by_kind = [result["by_kind"][kind]["faults"][of]["64"] for kind in KINDS]
        assert sum(by_kind) == result["faults"][of]["64"] and min(by_kind) > 0


def test_the_text_is_a_table(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["curves", str(path), "--frames", "64,1MiB"]) == 0
    heads, *rows = capsys.readouterr().out.splitlines()[1:]
    assert "faults in 1MiB" in heads and len(rows) == len(PAGE_SIZES)
    assert rows[3].startswith("4 KiB") and "+" not in rows[3]
    # 1 MiB holds 32 pages of 32 KiB, and no page of 2 MiB.
    assert "+" in rows[6] and "-" in rows[12]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"page_sizes": 3000}, "3000"),
        ({"page_sizes": "4MiB"}, "4194304"),
        ({"page_sizes": []}, "page size"),
        ({"second_tlb": "1536"}, "1536"),
        ({"second_tlb": "10x4"}, "sets of 4"),
    ],
)
def test_unknown_sizes_and_policies_are_refused(
    path: Path, options: dict[str, object], named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        pagewise.curves(path, **options)  # type: ignore[arg-type]


def test_a_memory_without_frames_and_an_unknown_kind_are_refused(path: Path) -> None:
    curve = pagewise.curves(path, page_sizes=512).sizes[512]
    with pytest.raises(UsageError, match="at least one frame"):
        curve.faults([64, 0])
    with pytest.raises(UsageError, match="jump"):
        curve.faults(64, kind="jump")
    assert cli.run(["curves", str(path), "--frames", "0"]) == 2


@pytest.mark.parametrize(
    "options",
    [["--tlb", "1.5"], ["--tlb", "64KiB"], ["--frames", "1.5"], ["--read-ahead", "2.5"]],
)
def test_numbers_must_be_whole(
    path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["curves", str(path), "--frames", "64", *options]) == 2
    assert f"not a whole number: '{options[1]}'" in capsys.readouterr().err


def test_other_files_are_refused_as_reference_traces(tmp_path: Path) -> None:
    text = tmp_path / "lackey.txt"
    text.write_text("I  400000,4\n")
    with pytest.raises(UnreadableInput, match="import --as refs"):
        pagewise.curves(text)


def test_policies_and_read_ahead_use_the_requested_memories(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--page-sizes", "512,4KiB", "--frames", "32,64,1MiB"]
    options = [*sizes, "--policy", "clock,two-list", "--read-ahead", "1,8"]
    assert cli.run(["curves", str(path), *options, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    curves = pagewise.curves(path, page_sizes="512,4KiB")
    for size, memories in {"512": ["64", "2048"], "4096": ["64", "256"]}.items():
        curve = curves.sizes[int(size)]
        assert list(result["policy_faults"][size]) == ["clock", "two-list"]
        for counts in result["policy_faults"][size].values():
            assert list(counts) == memories
            assert all(faults >= curve.cold for faults in counts.values())
        for frames in memories:
            plain = result["read_ahead"][size]["1"][frames]
            assert plain == {
                "faults": curve.faults(int(frames)),
                "cold": curve.cold,
                "brought": 0,
                "unused": 0,
            }
            eight = result["read_ahead"][size]["8"][frames]
            assert eight["cold"] < curve.cold and eight["unused"] <= eight["brought"]
    assert cli.run(["curves", str(path), *options]) == 0
    output, diagnostics = capsys.readouterr()
    assert "8 pages at a time" in output and "close, not exact" in diagnostics


def test_policies_and_read_ahead_need_memories(path: Path) -> None:
    with pytest.raises(UsageError, match="need memory sizes"):
        pagewise.curves(path, policy="clock")
    with pytest.raises(UsageError, match="lru"):
        pagewise.curves(path, policy="lru", frames=64)
    with pytest.raises(UsageError, match="window"):
        pagewise.curves(path, read_ahead=6, frames=64)


def test_a_repeated_name_counts_once(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def table(frames: str, tlb: str, second_tlb: str, policies: str, windows: str) -> str:
        options = ["--page-sizes", "4096", "--frames", frames, "--tlb", tlb]
        options += ["--second-tlb", second_tlb, "--policy", policies, "--read-ahead", windows]
        assert cli.run(["curves", str(path), *options]) == 0
        return capsys.readouterr().out

    once = table("64", "64", "1536x12", "clock", "4")
    twice = table("64,64", "64,64", "1536x12,1536x12", "clock,clock", "4,4")
    assert twice == once and once.count("faults in 64") == 1


def test_huge_numbers_are_refused_or_hold_every_page(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["curves", str(path), "--page-sizes", "4096", "--frames", "64TiB,9223372036854775807"]
    assert cli.run(asked) == 0
    assert capsys.readouterr().err == ""
    for more in (["--policy", "clock"], ["--read-ahead", "4"], ["--second-tlb", f"{2**21}x4"]):
        assert cli.run([*asked, *more]) == 2
        assert "is too large" in capsys.readouterr().err
