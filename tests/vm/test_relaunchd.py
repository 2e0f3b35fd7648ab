"""relaunchd on an application in a group of version 2, on kernels without and with PAGEMAP_SCAN.

The guests have no cgroups of version 1, so one group freezes the application, limits its memory and
has its own memory.reclaim. Linux 6.1 has no PAGEMAP_SCAN: relaunchd reads its page maps entry by
entry. The application checks every page that it visits.
"""

import functools
import json
from collections.abc import Callable
from pathlib import Path

import guest
import pytest
from carriers import GROUP, swapping

pytestmark = pytest.mark.slow

AGENT = guest.AGENT
PAGES_OF_MIB = 256
PROGRAM_MIB, SHORT_MIB, KEEP_FREE_MIB = 32, 20, 8
PAGES = PROGRAM_MIB * PAGES_OF_MIB
BOOT_S = 900
KERNELS = {"6.1": guest.Machine(), "6.12": guest.Machine(suite="bookworm-backports")}

SETTINGS = f"""\
keep_free = "{KEEP_FREE_MIB}MiB"
[[app]]
name = "notes"
cgroup = "{GROUP}"
[sockets]
control = "/run/control.sock"
"""

SCRIPT = f"""
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir {GROUP}
mkdir -p /run /tmp
dd if=/dev/zero of=/disk/swap bs=1M count={3 * PROGRAM_MIB} 2>/dev/null
chmod 600 /disk/swap
mkswap /disk/swap >/dev/null
swapon /disk/swap

{swapping(PROGRAM_MIB)}
# Waits until relaunchd has logged $2 events with the name $1.
logged() {{
    until [ $(grep -c "^event=$1 " /result/log) -ge $2 ]; do
        sleep 0.1
        kill -0 $relaunchd || exit 1
    done
}}
# Bytes of anonymous memory that is mapped. A page that was read back may keep its slot in swap.
mapped() {{ sed -n 's/^anon //p' {GROUP}/memory.stat; }}
# Moves the memory of the frozen application to swap.
reclaim() {{
    for turn in $(seq 100); do
        [ $(mapped) -le {1 << 20} ] && return
        echo {PROGRAM_MIB}M >{GROUP}/memory.reclaim 2>/dev/null
    done
    exit 1
}}
faults() {{ cut -d' ' -f12 /proc/$program/stat; }}
# Visit $1 reads every page; writes its major faults.
visit() {{
    first=$(faults)
    ask all $1 || exit 1
    echo $(($(faults) - first)) >>/result/faults
}}
# Freezes and thaws as another program would, which only a notice tells relaunchd.
frozen() {{ echo 1 >{GROUP}/cgroup.freeze; logged frozen $1; }}
thawed() {{ echo 0 >{GROUP}/cgroup.freeze; logged thawed $1; }}

start_program /result/answers
until grep -q ready /result/answers; do sleep 0.1; done
# Without the program's input, which would stay open otherwise.
pagewise-agent relaunchd --config /relaunchd.toml --json >/result/report 2>/result/log 3>&- &
relaunchd=$!
logged start 1

for round in 1 2; do
    frozen $round
    reclaim
    thawed $round
    visit $round
done
# There is no room for all of it.
frozen 3
reclaim
echo {SHORT_MIB}M >{GROUP}/memory.max
thawed 3
echo max >{GROUP}/memory.max
visit 3
# By request.
pagewise-agent relaunchd freeze notes --socket /run/control.sock --json >/result/freeze || exit 1
grep frozen {GROUP}/cgroup.events >/result/events
logged frozen 4
reclaim
pagewise-agent relaunchd thaw notes --socket /run/control.sock --json >/result/thaw || exit 1
visit 4
exec 3>&-
wait $program || exit 1
kill -TERM $relaunchd
wait $relaunchd
"""


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The results of the guest with a kernel, which boots once."""
    return functools.cache(lambda kernel: boot(kernel, tmp_path_factory.mktemp("guest")))


@pytest.fixture(params=KERNELS)
def results(request: pytest.FixtureRequest, booted: Callable[[str], Path]) -> Path:
    return booted(request.param)


def boot(kernel: str, folder: Path) -> Path:
    machine = KERNELS[kernel]
    guest.need_agent(machine)
    program = guest.compiled(folder / "swapping", Path(__file__).with_name("swapping.c"), "-static")
    files: dict[str, Path | str] = {
        **guest.with_libraries(AGENT),
        "bin/swapping": program,
        "relaunchd.toml": SETTINGS,
    }
    answer = guest.boot(machine, SCRIPT, files, folder, timeout_s=BOOT_S)
    log = answer.results / "log"
    logged = log.read_text() if log.exists() else ""
    assert answer.status == 0, answer.output + logged + answer.console[-3000:]
    return answer.results


def events(results: Path, name: str) -> list[dict[str, str]]:
    """The log lines of an event, each as its pairs of key and value."""
    lines = [
        line
        for line in (results / "log").read_text().splitlines()
        if line.startswith(f"event={name} ")
    ]
    return [
        dict(word.split("=", 1) for word in line.split() if "=" in word) | {"line": line}
        for line in lines
    ]


def test_the_application_finds_every_page_as_it_was(results: Path) -> None:
    assert (results / "answers").read_text().split("\n")[:-1] == [
        "ready",
        *[f"checked {PAGES}"] * 4,
    ]


def test_the_second_visit_finds_what_the_first_used(results: Path) -> None:
    first, second = events(results, "thawed")[:2]
    assert (first["by"], first["prefetched_pages"]) == ("kernel", "0")
    assert second["by"] == "kernel" and int(second["prefetched_pages"]) >= 0.95 * PAGES
    ended = events(results, "frozen")[2]
    assert int(ended["used_pages"]) >= 0.95 * int(second["prefetched_pages"])
    # Without a prefetch, readahead brings at most eight pages with a fault.
    faults = [int(line) for line in (results / "faults").read_text().split()]
    assert faults[0] >= PAGES / 8 / 2 and faults[1] <= faults[0] / 10, faults


def test_the_limit_of_the_group_bounds_a_prefetch(results: Path) -> None:
    third = events(results, "thawed")[2]
    assert int(third["wanted_pages"]) >= 0.95 * PAGES
    read, most = int(third["prefetched_pages"]), (SHORT_MIB - KEEP_FREE_MIB) * PAGES_OF_MIB
    assert 0 < read <= most, third
    assert f"memory is short in {GROUP}: no room for" in third["line"]


def test_requests_work_in_version_2_too(results: Path) -> None:
    assert (results / "events").read_text() == "frozen 1\n"
    freeze, thaw = (json.loads((results / name).read_text()) for name in ("freeze", "thaw"))
    assert freeze["is_frozen"] and not thaw["is_frozen"]
    assert thaw["prefetched_pages"] >= 0.95 * PAGES
    assert events(results, "thawed")[3]["by"] == "command"


def test_the_counters_have_all_visits(results: Path) -> None:
    report = json.loads((results / "report").read_text())
    assert report["schema"] == "pagewise.relaunchd/1"
    (notes,) = report["applications"]
    prefetched = sum(int(event["prefetched_pages"]) for event in events(results, "thawed"))
    # The last visit has not ended.
    assert (notes["visits"], notes["prefetched_pages"]) == (3, prefetched)
    assert notes["predicted_pages"] >= 3 * 0.95 * PAGES and notes["unaffordable_pages"] > 0
    # The first visit was predicted by nothing.
    assert notes["missed_pages"] >= 0.95 * PAGES
