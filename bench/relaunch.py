"""Launches of frozen applications from a swap file, with relaunchd and without, in turn.

    python bench/relaunch.py [--repeats 3] [--rounds 8] [--budget-percent 25] [--setting NAME=VALUE]

Needs root, the memory and freezer controllers of version 1, node and a JDK. In each run the
applications of the lab start in a memory cgroup and are frozen. Then the group gets a limit below
what they hold, with a swap file of its own, and the applications are visited in rounds: thaw, one
request, freeze, pause. A launch is the time from the thaw to the answer. Runs with and without
relaunchd alternate, and the first rounds of each, in which relaunchd learns, do not count. Major
faults are those of the applications; bytes read are their pages that came back from swap, whether
by faults, readahead or prefetches.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
LAB = ROOT / "lab"
AGENT = Path(sys.executable).parent / "pagewise-agent"
MEMORY = Path("/sys/fs/cgroup/memory")
FREEZER = Path("/sys/fs/cgroup/freezer")
LIBC = ctypes.CDLL(None, use_errno=True)
PREFERRED = 0x8000 | 32767
HANGS_AFTER_S = 600
LEARNING_ROUNDS = 2
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def commands(classes: Path) -> dict[str, list[str]]:
    """The applications: their names and commands."""
    java = ["java", "-XX:+UseSerialGC", "-Xmx400m", "-cp", str(classes)]
    python = ["/usr/bin/python3", str(LAB / "python" / "library.py")]
    node = ["node", str(LAB / "node" / "notes.js")]
    return {
        "music-library": python,
        "notes": node,
        "text-index": [*java, "TextIndex"],
        "accounts": [*java, "Accounts"],
        "music-library-2": python,
    }


@dataclass
class Visits:
    """The measurements of one application in one run."""

    launch_s: list[float] = field(default_factory=list)
    major_faults: list[int] = field(default_factory=list)
    bytes_read: list[int] = field(default_factory=list)


class Application:
    """An application of the lab in its groups."""

    def __init__(self, name: str, command: list[str], mark: str) -> None:
        self.name = name
        self.freezer = FREEZER / f"{mark}-{name}"
        self.freezer.mkdir()
        script = (
            'for group in "$1" "$2"; do echo $$ > "$group/cgroup.procs"; done; shift 2; exec "$@"'
        )
        groups = [str(MEMORY / mark), str(self.freezer)]
        self.process = subprocess.Popen(
            ["sh", "-c", script, "sh", *groups, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin and self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout
        assert self.output.readline().startswith("ready"), name

    def visit(self, number: int) -> None:
        """One request and its answer."""
        self.input.write(f"visit {number}\n")
        self.input.flush()
        assert self.output.readline().startswith("done"), self.name

    def set_frozen(self, is_frozen: bool) -> None:
        """Freezes it and waits until it is, or thaws it."""
        state = "FROZEN" if is_frozen else "THAWED"
        (self.freezer / "freezer.state").write_text(state)
        while is_frozen and (self.freezer / "freezer.state").read_text() != "FROZEN\n":
            time.sleep(0.001)

    def major_faults(self) -> int:
        """Of all its processes so far."""
        total = 0
        for process in (self.freezer / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{process}/stat").read_text()
                total += int(stat.rpartition(")")[2].split()[9])
        return total

    def end(self) -> None:
        """Ends it and removes its group."""
        self.process.kill()
        self.set_frozen(False)
        self.process.wait(HANGS_AFTER_S)
        for stream in (self.input, self.output):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        removed(self.freezer)


def removed(folder: Path) -> None:
    """Removes a group, as soon as the kernel permits it."""
    late = time.monotonic() + HANGS_AFTER_S
    while True:
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() > late:
                raise
        time.sleep(0.01)


def pages_read(mark: str) -> int:
    """Pages of the group that came back from swap, by faults, readahead and prefetches."""
    lines = (MEMORY / mark / "memory.stat").read_text().splitlines()
    found = (line.split()[1] for line in lines if line.startswith("total_workingset_refault_anon"))
    return int(next(found))


class Relaunchd:
    """A running relaunchd."""

    def __init__(self, folder: Path, apps: list[Application], settings: list[str]) -> None:
        control = folder / "control.sock"
        text = "".join(f"{setting}\n" for setting in settings)
        for app in apps:
            text += f'[[app]]\nname = "{app.name}"\ncgroup = "{app.freezer}"\n'
        (folder / "relaunchd.toml").write_text(f'{text}[sockets]\ncontrol = "{control}"\n')
        command = [AGENT, "relaunchd", "--json", "--config", folder / "relaunchd.toml"]
        self.log = (folder / "relaunchd.log").open("w")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.socket = socket.socket(socket.AF_UNIX)
        late = time.monotonic() + 60
        while True:
            try:
                self.socket.connect(str(control))
                break
            except OSError:
                if time.monotonic() > late or self.process.poll() is not None:
                    raise
            time.sleep(0.01)
        self.answers = self.socket.makefile()

    def do(self, what: str, name: str) -> dict[str, object]:
        """Freezes or thaws an application."""
        self.socket.sendall(json.dumps({what: name}).encode() + b"\n")
        answer = json.loads(self.answers.readline())
        assert answer["ok"], answer
        assert isinstance(answer, dict)
        return answer

    def end(self) -> list[dict[str, object]]:
        """Ends relaunchd and returns the counters of all applications."""
        self.answers.close()
        self.socket.close()
        self.process.terminate()
        text, _ = self.process.communicate(timeout=HANGS_AFTER_S)
        self.log.close()
        rows = json.loads(text)["applications"]
        assert isinstance(rows, list)
        return rows


@contextlib.contextmanager
def swap_file(folder: Path, size: int) -> Iterator[None]:
    path = folder / "swap"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    path.chmod(0o600)
    subprocess.run(["mkswap", "-q", path], check=True)
    if LIBC.swapon(str(path).encode(), PREFERRED) != 0:
        raise OSError(ctypes.get_errno(), "swapon")
    try:
        yield
    finally:
        assert LIBC.swapoff(str(path).encode()) == 0, os.strerror(ctypes.get_errno())
        path.unlink()


@contextlib.contextmanager
def started(mark: str, classes: Path) -> Iterator[list[Application]]:
    """The applications, frozen, in a memory group without a limit."""
    (MEMORY / mark).mkdir()
    apps: list[Application] = []
    try:
        (MEMORY / mark / "memory.swappiness").write_text("100")
        for name, command in commands(classes).items():
            apps.append(Application(name, command, mark))
            apps[-1].visit(0)
            apps[-1].set_frozen(True)
        yield apps
    finally:
        for app in apps:
            app.end()
        removed(MEMORY / mark)


def run(
    folder: Path, classes: Path, arguments: argparse.Namespace, is_with: bool
) -> tuple[dict[str, Visits], int, list[dict[str, object]]]:
    mark = f"pagewise-bench-{os.getpid()}-{time.monotonic_ns() % 10**9}"
    with started(mark, classes) as apps:
        for app in apps:
            app.set_frozen(False)
        usage = int((MEMORY / mark / "memory.usage_in_bytes").read_text())
        limit = arguments.budget_mib * MIB or usage * arguments.budget_percent // 100
        arguments.budget_mib = limit // MIB
        relaunchd = Relaunchd(folder, apps, arguments.setting) if is_with else None
        for app in apps:
            relaunchd.do("freeze", app.name) if relaunchd else app.set_frozen(True)
        (MEMORY / mark / "memory.limit_in_bytes").write_text(str(limit))
        found = {app.name: Visits() for app in apps}
        rows: list[dict[str, object]] = []
        try:
            for round_ in range(arguments.rounds):
                for app in apps:
                    faults, read = app.major_faults(), pages_read(mark)
                    begun = time.perf_counter()
                    relaunchd.do("thaw", app.name) if relaunchd else app.set_frozen(False)
                    app.visit(round_ + 1)
                    took = time.perf_counter() - begun
                    if round_ >= LEARNING_ROUNDS:
                        visits = found[app.name]
                        visits.launch_s.append(took)
                        visits.major_faults.append(app.major_faults() - faults)
                        visits.bytes_read.append((pages_read(mark) - read) * PAGE)
                    relaunchd.do("freeze", app.name) if relaunchd else app.set_frozen(True)
                    time.sleep(arguments.pause)
        finally:
            # The swap file is turned off before the applications end, so memory must suffice.
            (MEMORY / mark / "memory.limit_in_bytes").write_text("-1")
            rows = relaunchd.end() if relaunchd else []
    return found, limit, rows


def all_of(runs: list[dict[str, Visits]], name: str | None, what: str) -> list[float]:
    rows = (row for found in runs for app, row in found.items() if name in (None, app))
    return [float(value) for row in rows for value in getattr(row, what)]


def ratios(with_: list[dict[str, Visits]], without: list[dict[str, Visits]]) -> None:
    print("application\twithout ms\twith ms\tfaster\tfaults\tbytes read")
    for name in [*with_[0], None]:
        cells = [median(all_of(runs, name, "launch_s")) * 1000 for runs in (without, with_)]
        more = [
            sum(all_of(with_, name, what)) / max(1, sum(all_of(without, name, what)))
            for what in ("major_faults", "bytes_read")
        ]
        print(
            f"{name or 'all'}\t{cells[0]:.0f}\t{cells[1]:.0f}\t{cells[0] / cells[1]:.2f}\t"
            f"{more[0]:.2f}\t{more[1]:.2f}",
            flush=True,
        )
    each = [
        median(all_of([b], None, "launch_s")) / median(all_of([a], None, "launch_s"))
        for a, b in zip(with_, without, strict=True)
    ]
    print(f"faster, each pair of runs: {' '.join(f'{ratio:.2f}' for ratio in each)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--budget-percent", type=int, default=25)
    parser.add_argument("--budget-mib", type=int, default=0)
    parser.add_argument("--pause", type=float, default=1.0)
    parser.add_argument("--setting", action="append", default=[])
    parser.add_argument("--log", type=Path, help="keep the log of the last run with relaunchd here")
    arguments = parser.parse_args()
    # Ended from outside, it still thaws, kills and removes what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        folder = Path(name)
        classes = folder / "java"
        classes.mkdir()
        sources = sorted((LAB / "java").glob("*.java"))
        subprocess.run(["javac", "-d", classes, *sources], check=True)
        with_, without = [], []
        with swap_file(folder, 2048 * MIB):
            for _ in range(arguments.repeats):
                found, limit, _ = run(folder, classes, arguments, False)
                without.append(found)
                found, _, rows = run(folder, classes, arguments, True)
                with_.append(found)
                if arguments.log:
                    shutil.copy(folder / "relaunchd.log", arguments.log)
                print(f"budget {limit // MIB} MiB, load {os.getloadavg()[0]:.1f}")
                for row in rows:
                    keys = ("predicted", "prefetched", "used", "missed", "paged_out")
                    counts = ", ".join(f"{key} {row[f'{key}_pages']}" for key in keys)
                    print(f"  {row['name']}: {counts}, prefetch {row['prefetch_s']:.2f} s")
                ratios(with_, without)


if __name__ == "__main__":
    main()
