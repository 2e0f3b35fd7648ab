"""The OOM killer and killd spare swapd, its guard and its successors, in a guest.

There root may lower an `oom_score_adj`, which a container refuses.
"""

import re
from pathlib import Path

import guest
import pytest

pytestmark = pytest.mark.slow

AGENT = guest.AGENT
BOOT_S = 300
# A killed server has a successor through FUSE only from Linux 6.9 on.
MACHINE = guest.Machine(suite="bookworm-backports", modules=("fuse", "loop"))

# Would kill the largest process at once, whatever memory is available.
SETTINGS = """\
policy = "largest"
[options]
memory_percent = 99
swap_percent = 100
"""

SCRIPT = """
mkdir -p /run /tmp /disk/results
results=/disk/results
trap 'cp $results/* /result/' EXIT

# The servers and guards, each with its adj.
list() {
    for process in $(pidof pagewise-agent); do
        echo $process $(cat /proc/$process/oom_score_adj)
    done
}
# Processes that killd would kill, at a time when no other killd runs.
search() {
    list >$results/$1.processes
    pagewise-agent killd --dry-run --config /killd.toml >$results/$1.log 2>$results/$1.errors &
    killd=$!
    for turn in $(seq 300); do
        sleep 0.1
        grep -q would-kill $results/$1.log && break
    done
    kill -TERM $killd
    wait $killd
}

# A process that can be killed: `tail` holds its input, because it cannot write it to `sleep`.
head -c 60000000 /dev/zero | tail -c 60000000 | sleep 10000 &
pagewise-agent swapd --size 64MiB --fast 32MiB --slow /disk/slow --policy hierarchical \\
    --priority 0 --only-swap >$results/served 2>$results/errors &
server=$!
until grep -q serving $results/served; do
    sleep 0.1
    kill -0 $server || exit 1
done
search first || exit 1
kill -9 $server
until grep -q 'was killed' $results/errors; do sleep 0.1; done
# The successor starts a guard of its own, which protects itself.
until [ $(list | grep -c ' -1000$') -ge 2 ]; do sleep 0.1; done
search successor || exit 1
for process in $(pidof pagewise-agent); do echo 0 >/proc/$process/oom_score_adj; done
search unprotected || exit 1
kill -TERM $(sed -n 's/.*process \\([0-9]*\\) serves.*/\\1/p' $results/errors)
while grep -q /dev/loop /proc/swaps; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    guest.need_agent(MACHINE)
    files = {**guest.with_libraries(AGENT), "killd.toml": SETTINGS}
    folder = tmp_path_factory.mktemp("guest")
    answer = guest.boot(MACHINE, SCRIPT, files, folder, timeout_s=BOOT_S)
    assert answer.status == 0, answer.output + answer.console[-3000:]
    return answer.results


def processes(results: Path, when: str) -> dict[str, str]:
    """The adj of server and guard, by process."""
    lines = (results / f"{when}.processes").read_text().splitlines()
    return dict(line.split() for line in lines)


def named(results: Path, when: str) -> set[str]:
    """The processes that killd ranked: the first of each ranking, and the victims."""
    lines = (results / f"{when}.log").read_text().splitlines()
    found = [line for line in lines if line.startswith("event=would-kill ")]
    assert found, lines
    return {
        process for line in found for process in re.findall(r'(?:process=|"|,)(\d+)(?=[: ])', line)
    }


@pytest.mark.parametrize("when", ["first", "successor"])
def test_a_server_and_its_guard_are_no_victims(results: Path, when: str) -> None:
    served = processes(results, when)
    assert list(served.values()) == ["-1000", "-1000"]
    assert not named(results, when) & set(served)


def test_killd_finds_a_server_that_is_not_protected(results: Path) -> None:
    """Without this, the test above could pass because killd overlooks them."""
    served = processes(results, "unprotected")
    assert list(served.values()) == ["0", "0"]
    assert set(served) <= named(results, "unprotected")


def test_the_protection_was_not_refused(results: Path) -> None:
    assert "oom_score_adj" not in (results / "errors").read_text()
