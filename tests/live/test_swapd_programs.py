"""Real programs short of memory on swapd: each must print what it prints with enough memory.

Needs root, FUSE, loop devices and memory cgroups; a skipped test says what is missing.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import AGENT, refusal
from groups import HANGS_AFTER_S, MIB, Group, entering

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vm"))
import guest

GUESTS = Path(guest.__file__).parent

pytestmark = [
    pytest.mark.skipif(
        refusal("fuse-loop", "memory-cgroup") is not None,
        reason=str(refusal("fuse-loop", "memory-cgroup")),
    ),
    pytest.mark.skipif(
        len(Path("/proc/swaps").read_text().splitlines()) > 1,
        reason="this machine has another swap area",
    ),
]

SQLITE = """\
create table numbers(id integer primary key, word text);
with recursive count(n) as (values(1) union all select n + 1 from count where n < 24000)
insert into numbers select n, printf('%08d', n * 7919 % 24000) || hex(zeroblob(400)) from count;
create index words on numbers(word);
update numbers set word = word || id where id % 3 = 0;
select count(*), sum(length(word)), min(word) from numbers;
select sum(id * length(word)) from (select id, word from numbers order by word);
pragma integrity_check;
"""

# Saves the data from a fork, too, and reads it back.
REDIS = """\
set -eu
cd "$(mktemp -d)"
redis-server --port 0 --unixsocket "$PWD/redis" --enable-debug-command local --save "" >log &
server=$!
trap 'kill $server; wait $server; rm -r "$PWD"' EXIT
redis() { redis-cli -s "$PWD/redis" "$@"; }
until redis ping 2>&1 | grep -q PONG; do sleep 0.05; done
redis debug populate 60000 key 500
redis debug digest
redis bgsave >log.save
while redis info persistence | grep -q rdb_bgsave_in_progress:1; do sleep 0.05; done
redis info persistence | grep rdb_last_bgsave_status
redis debug reload
redis debug digest
"""

# Parent and child write to the same pages after a fork.
PYTHON = """\
import hashlib
import os
import random

pieces = [random.Random(seed).randbytes(4096) for seed in range(12_000)]
child = os.fork()
for at in range(child > 0, len(pieces), 2):
    pieces[at] = pieces[at][::-1]
found = hashlib.sha256(b"".join(pieces)).hexdigest()
if child:
    assert os.waitpid(child, 0)[1] == 0
print(found)
"""

JAVA = """\
import java.util.ArrayList;
import java.util.Random;

class Pieces {
    public static void main(String[] words) {
        var pieces = new ArrayList<int[]>();
        for (int round = 0; round < 6; round++) {
            var random = new Random(round);
            for (int piece = 0; piece < 1500; piece++)
                pieces.add(random.ints(4096).toArray());
            // Half of the pieces become garbage.
            var left = new ArrayList<int[]>();
            for (int at = round % 2; at < pieces.size(); at += 2) left.add(pieces.get(at));
            pieces = left;
            long sum = 0;
            for (var piece : pieces) for (int number : piece) sum = sum * 31 + number;
            System.out.println(pieces.size() + " " + sum);
        }
    }
}
"""

# A guest that fills a file in its memory.
QEMU = f"""\
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, {str(GUESTS)!r})
import guest

script = "seq 1 5000000 >/tmp/numbers && md5sum </tmp/numbers && md5sum </tmp/numbers"
with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
    answer = guest.boot(guest.Machine(processors=1, memory_mib=192), script, {{}}, Path(folder))
print(answer.output)
sys.exit(answer.status)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a disk: pytest's own may lie in memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


def java(folder: Path) -> list[str]:
    source = folder / "Pieces.java"
    source.write_text(JAVA)
    subprocess.run(["javac", source], check=True, timeout=HANGS_AFTER_S)
    return ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", str(folder), "Pieces"]


COMMANDS = {
    "sqlite": ("sqlite3", lambda _: ["sqlite3", ":memory:", SQLITE]),
    "redis": ("redis-server", lambda _: ["sh", "-c", REDIS]),
    "python": (sys.executable, lambda _: [sys.executable, "-c", PYTHON]),
    "java": ("javac", java),
    "qemu": ("qemu-system-x86_64", lambda _: [sys.executable, "-c", QEMU]),
}
LONG = ("sqlite", "redis", "qemu")
LIMIT_MIB = {"sqlite": 32, "redis": 32, "python": 40, "java": 72, "qemu": 120}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in COMMANDS],
)
def test_a_program_short_of_memory_prints_the_same_on_swapd(folder: Path, name: str) -> None:
    program, command_in = COMMANDS[name]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is missing")
    if name == "qemu" and (reason := guest.refusal(guest.Machine())) is not None:
        pytest.skip(reason)
    command = command_in(folder)
    run = {"capture_output": True, "text": True, "timeout": 2 * HANGS_AFTER_S}
    wanted = subprocess.run(command, **run)
    assert wanted.returncode == 0, wanted.stderr
    printed = folder / "printed"
    into_file = ["sh", "-c", 'exec "$@" >"$0"', str(printed)]
    with Group(LIMIT_MIB[name] * MIB) as group:
        swapd = [AGENT, "swapd", "--size", "512MiB", "--fast", "16MiB", "--policy", "adaptive"]
        swapd += ["--slow", folder / "slow", "--only-swap", "--verify", "--json", "--"]
        found = subprocess.run([*swapd, *entering(group.folder), *into_file, *command], **run)
    assert found.returncode == 0, found.stderr
    assert printed.read_text() == wanted.stdout
    result = json.loads(found.stdout)
    assert result["errors"] == {"fast": 0, "slow": 0, "checksum": 0}
    # Pages went both ways through both tiers.
    assert min(*result["fast"].values(), *result["slow"].values()) > 0, result
