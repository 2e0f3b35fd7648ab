"""The comparison of allocators: its store, its counts and its conclusions."""

import json
import mmap
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from lazy.allocators import GLIBC, ComparedAllocator
from lazy.backing import BACKED_BYTES
from lazy.claims import Claim, at_most, exchange, identity
from lazy.counters import Traps
from lazy.document import document, gain
from lazy.part import Part, run
from lazy.parts.exchange import PROGRAMS as EXCHANGES
from lazy.parts.swipe import ONE_PROCESSOR, display
from lazy.places import PROGRAMS, SYSTEM_PYTHON
from lazy.programs.page import SCRIPT
from lazy.result import result
from lazy.running import Failed, Finish, start
from lazy.store import Figures, Measurement, Store, build_of
from lazy.summary import Summary, field

from pagewise import layouts

PAGES = 256


def part(act: Callable[[str, str], Figures | Finish]) -> Part:
    def start(program: str, allocator: ComparedAllocator) -> Figures | Finish:
        return act(program, allocator.name)

    return Part("churn", ("malloc",), start, rounds=2, allocators=("glibc", "fast"))


def figures(cpu_s: float) -> Figures:
    return {"traps": 100, "cpu_s": cpu_s, "peak_bytes": 9, "freed_bytes": 5, "idle_bytes": 2}


def test_an_interrupted_comparison_continues_where_it_stopped(tmp_path: Path) -> None:
    done: list[str] = []

    def act(_: str, name: str) -> Figures:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(name)
        return figures(1.0)

    file = tmp_path / "runs.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(part(act), Store(file, "a build"), ("glibc", "fast"), 2)
    done.clear()
    run(part(act), Store(file, "a build"), ("glibc", "fast"), 2)
    assert done == ["fast"]
    assert len(Store(file, "a build").runs) == 4
    assert Store(file, "another build").runs == []


def test_a_failed_run_is_reported_without_figures(tmp_path: Path) -> None:
    def act(_: str, name: str) -> Figures | Finish:
        if name == "fast":
            raise Failed(-11, "")
        return lambda: figures(1.0)

    store = Store(tmp_path / "runs.jsonl", "a build")
    run(part(act), store, ("glibc", "fast"), 1)
    summary = Summary(store.runs)
    assert summary.failure("churn", "malloc", "fast") == "status -11"
    assert summary.spread("churn", "malloc", "fast", field("cpu_s")) is None
    found = result(summary, "here")
    jsonschema.validate(json.loads(json.dumps(found)), layouts.schema("bench-lazy"))
    page = document(found)
    assert "| `fast` (failed: status -11) |" in page
    assert "| `glibc` | 100 | 1,000 (1,000 to 1,000) |" in page


def test_a_loss_is_not_called_a_tie() -> None:
    less = {"low": 0.4, "typical": 0.5, "high": 0.8}
    more = {"low": 1.2, "typical": 2.0, "high": 3.0}
    tie = {"low": 0.4, "typical": 0.5, "high": 1.1}
    expected = "`fast` takes **0.5x** (0.4 to 0.8) the CPU time of `glibc`."
    assert gain(less) == expected
    assert gain(more).endswith("(1.2 to 3) the CPU time of `glibc`: more, beyond the spread.")
    assert "no difference beyond the spread" in gain(tie)
    assert gain(None) == ""


def test_the_page_compares_pairs_of_the_same_round() -> None:
    cpu_s = {"glibc": [1.0, 4.0, 2.0], "fast": [0.5, 2.0, 3.0]}
    runs = [
        Measurement("churn", "malloc", name, number, figures(value))
        for name, rounds in cpu_s.items()
        for number, value in enumerate(rounds)
    ]
    found = result(Summary(runs), "here")
    jsonschema.validate(json.loads(json.dumps(found)), layouts.schema("bench-lazy"))
    # Both medians are 2, so the ratio of the medians would be 1.
    assert "`fast` takes **0.5x** (0.5 to 1.5) the CPU time of `glibc`" in document(found)


@pytest.mark.parametrize(("ours", "is_reached"), [(0.4, True), (0.6, False)])
def test_a_claim_is_judged_by_the_median_ratio(ours: float, is_reached: bool) -> None:
    def claim(values: dict[str, list[float]]) -> Claim:
        runs = [
            Measurement("churn", "malloc", name, number, figures(value))
            for name, rounds in values.items()
            for number, value in enumerate(rounds)
        ]
        where = ("churn", "malloc")
        return at_most(Summary(runs), where, "CPU", "fast", "glibc", field("cpu_s"), 0.5)

    judged = claim({"glibc": [1.0, 2.0, 1.0], "fast": [ours, 2 * ours, 5.0]})
    assert judged.is_reached is is_reached
    assert judged.measured.startswith(f"**{ours}x**")
    assert claim({"glibc": [1.0]}).is_reached is None


def test_every_pattern_of_exchange_has_targets_of_throughput_and_memory() -> None:
    targets = {claim.what: claim.target for claim in exchange(Summary([]))}
    for mode in "fast", "guarded", "thp":
        for pattern in EXCHANGES:
            what = f"exchange {pattern}: steps a second, {mode} over glibc"
            assert targets.pop(what) == "at least 0.8x"
            what = f"exchange {pattern}: peak memory, {mode} over glibc"
            assert targets.pop(what) == "at most 2x"
    assert all("CPU" in what for what in targets)


def test_saving_more_than_the_paper_s_identity_stays_visible() -> None:
    def swiped(name: str, traps: int, response_s: float) -> Measurement:
        swipe = {"traps": traps, "response_s": response_s, "fault_s": 0.25, "call_s": 0.0625}
        return Measurement("swipe", "WebKitGTK", name, 0, {"swipes": [swipe]})

    answer = identity(Summary([swiped("glibc fixed", 100, 1.0), swiped("fast", 40, 0.75)]))
    assert answer.target == "interval reaches down to 15.0% (mapping calls take another 6.2%)"
    assert answer.measured == "**25.0%** (25.0% to 25.0%)" and answer.is_reached is False


def test_a_build_is_named_by_its_bytes(tmp_path: Path) -> None:
    library = tmp_path / "library"
    absent = build_of([library])
    library.write_bytes(b"one")
    assert len({absent, build_of([library])}) == 2


@pytest.fixture
def traps() -> Traps:
    try:
        return Traps(os.getpid())
    except OSError as error:
        pytest.skip(f"no counter of page faults: {error}")


def test_touched_pages_are_traps_and_populated_ones_are_not(traps: Traps) -> None:
    def added(flags: int) -> int:
        before = traps.count()
        memory = mmap.mmap(-1, PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | flags)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(PAGES):
            memory[page * mmap.PAGESIZE] = 1
        return traps.count() - before

    assert added(mmap.MAP_ANONYMOUS) >= PAGES
    assert added(mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE) < PAGES / 2


def test_memory_is_touched_and_freed_before_each_program() -> None:
    def resident(line: str) -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split(f"{line}:")[1].split()[0]) << 10

    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = resident("VmRSS")
    assert start(ComparedAllocator(GLIBC, "as it comes"), ["echo", '{"traps": 1}'])() == {
        "traps": 1
    }
    assert resident("VmHWM") - before > 0.9 * BACKED_BYTES
    assert resident("VmRSS") - before < 0.1 * BACKED_BYTES


PAGE = f"<title>ready</title><body style='height: 9000px'>Text<script>{SCRIPT}</script>"


@pytest.mark.slow
def test_a_swipe_scrolls_the_page(tmp_path: Path, traps: Traps) -> None:
    if shutil.which("Xvfb") is None or not Path(SYSTEM_PYTHON).exists():
        pytest.skip("needs Xvfb and Debian's python3: tools/bench_lazy_setup.sh")
    (tmp_path / "page.html").write_text(PAGE)
    words = [str(PROGRAMS / "swipe.py"), str(tmp_path / "page.html"), "1", "0", "0"]
    with display() as name:
        done = subprocess.run(
            [*ONE_PROCESSOR, SYSTEM_PYTHON, *words],
            env={**os.environ, "DISPLAY": name},
            capture_output=True,
            text=True,
            timeout=300,
        )
    if "ImportError" in done.stderr or "not available" in done.stderr:
        pytest.skip(f"tools/bench_lazy_setup.sh: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    answer: Figures = {}
    for line in done.stdout.splitlines():
        answer |= json.loads(line)
    [swipe] = answer["swipes"]
    assert swipe["frames"] > 10 and swipe["traps"] > 0 and swipe["response_s"] > 0
    assert len(answer["timeline"]["timeline"]) == answer["timeline"]["frames"]
    assert answer["idle_bytes"] > 0
