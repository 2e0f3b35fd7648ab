"""`pagewise-agent pages --idle` on a program whose idle half is known, in a guest.

No kernel of Debian tracks idle pages, so the guest has the one that `make kernel` builds.
"""

import functools
from pathlib import Path
from typing import Any

import guest
import pytest

pytestmark = pytest.mark.slow

KERNEL = Path(__file__).parents[2] / "build" / "kernel"
MACHINE = guest.Machine(
    kernel=str(KERNEL / "root"),
    processors=1,
    memory_mib=512,
)
BOOT_S = 600
HALF_MIB, IDLE_S = 48, 4
KINDS = ("small", "huge")
ALGORITHMS = "lz4,zstd"
SCRIPT = f"""
# The kernel has huge pages off if there is little memory.
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
echo madvise >/sys/kernel/mm/transparent_hugepage/defrag
for kind in {" ".join(KINDS)}; do
    idle_memory {HALF_MIB} 600 $kind >/tmp/$kind &
    program=$!
    until grep -q ready /tmp/$kind; do sleep 0.2; done
    pagewise-agent pages --pid $program --idle {IDLE_S}s --algorithms {ALGORITHMS} --by library \\
        --json >/result/$kind.json 2>/result/$kind.errors
    echo $? >/result/$kind.status
    grep AnonHugePages /proc/$program/smaps_rollup >/result/$kind.memory
    [ $kind = huge ] || pagewise-agent pages --pid $program --idle 1s --algorithms lz4 \\
        --by library >/result/text 2>&1
    kill $program
    wait $program
done
true
"""


@functools.cache
def results(folder: Path) -> Path:
    if not (KERNEL / "bzImage").exists():
        pytest.skip("no kernel that tracks idle pages in build/kernel: make kernel")
    guest.need_agent(MACHINE)
    source = Path(__file__).with_name("idle_memory.c")
    program = guest.compiled(folder / "idle_memory", source, "-static")
    files = guest.with_libraries(guest.AGENT) | {"bin/idle_memory": program}
    answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output + answer.console[-2000:]
    return answer.results


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guest")


@pytest.mark.parametrize("kind", KINDS)
def test_the_idle_half_is_shown_apart(kind: str, folder: Path) -> None:
    found = guest.answered(results(folder), kind)
    huge_kib = int((results(folder) / f"{kind}.memory").read_text().split()[1])
    assert (huge_kib > HALF_MIB << 10) == (kind == "huge"), f"{huge_kib} KiB of huge pages"
    assert found["idle"]["why"] is None and IDLE_S <= found["idle"]["seconds"] < IDLE_S + 30
    total, (process,) = found["total"], found["processes"]
    half = HALF_MIB * 256
    assert found["idle"]["pages"] == pytest.approx(half, rel=0.05)
    for part in (total, process):
        assert part["idle"]["share"] == pytest.approx(0.5, abs=0.03)
        assert part["idle"]["same_filled_share"] < 0.01
        for name in ALGORITHMS.split(","):
            idle, all_pages = part["idle"]["algorithms"][name], part["algorithms"][name]
            assert incompressible(all_pages) == pytest.approx(0.5, abs=0.03), name
            assert incompressible(idle) < 0.03, name
            assert idle["bytes_per_page"] < 0.2 * all_pages["bytes_per_page"], name


def incompressible(figures: dict[str, Any]) -> float:
    share: float = figures["incompressible_share"]
    return share


def test_the_terminal_shows_the_idle_pages(folder: Path) -> None:
    text = (results(folder) / "text").read_text()
    assert "% of the pages were idle for 1 s" in text, text
    assert text.count("      lz4 ") == 2, text
