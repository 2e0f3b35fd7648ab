"""Capturing memory references beside valgrind's lackey, on the same job in one run.

python bench/run.py capture      needs mutool (mupdf-tools), valgrind and qemu-user; minutes

The job: mutool draws pages of text that this script writes. Lackey prints its trace to /dev/null;
ours is written to disk, filtered and packed. CPU seconds are those of all processes of a command,
including the start of Python. Cachegrind counts the instructions.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import traces
from measure import Claim

from pagewise.references import references_info

PAGES = 16
LINES = 60
WORDS = 12
LETTERS = "etaoinshrdlucmfwypvbgk"
RATE_TIMES = 25
BITS_MAX = 1.0
DIFFERENCE_MAX = 0.005


@dataclass(frozen=True)
class Sample:
    """One capture beside lackey: CPU seconds of each."""

    lackey_s: float
    ours_s: float

    @property
    def ratio(self) -> float:
        """Lackey's CPU seconds divided by ours."""
        return self.lackey_s / self.ours_s


def run(rounds: int) -> list[Claim]:
    """The three claims."""
    job = ["mutool", "draw", "-q", "-r", "100", "-F", "ppm", "-o", os.devnull, str(document())]
    trace = traces.FOLDER / "capture.pwf"
    lackey = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={os.devnull}", *job]
    capture = [sys.executable, "-m", "pagewise", "capture", "--force", "-o", str(trace)]
    samples = []
    for _ in range(rounds):
        samples.append(Sample(cpu_s(lackey), cpu_s([*capture, "--", *job])))
        print(f"  {samples[-1]}", file=sys.stderr, flush=True)
    info = references_info(trace)
    bits = 8 * info["file_bytes"] / info["references"]
    counted = instructions(job)
    difference = info["instructions"] / counted - 1
    ratios = [sample.ratio for sample in samples]
    ours, theirs = (
        median(getattr(sample, name) for sample in samples) for name in ("ours_s", "lackey_s")
    )
    references = info["references"] / 1e6
    return [
        Claim(
            f"CPU time of capturing {references:.0f} M references, lackey / ours",
            f"at least {RATE_TIMES}x",
            f"**{median(ratios):.1f}x** ({min(ratios):.1f} to {max(ratios):.1f}): "
            f"ours {references / ours:.0f}, theirs {references / theirs:.1f} M a second",
            median(ratios) >= RATE_TIMES,
        ),
        Claim(
            "bits per reference on disk",
            f"at most {BITS_MAX:g}",
            f"**{bits:.3f}**: {info['file_bytes'] / 1e6:.1f} MB, {info['steps'] / 1e6:.2f} M steps",
            bits <= BITS_MAX,
        ),
        Claim(
            "instructions, compared with cachegrind",
            f"within {DIFFERENCE_MAX:.1%}",
            f"**{difference:+.2%}**: ours {info['instructions']:,}, theirs {counted:,}",
            abs(difference) <= DIFFERENCE_MAX,
        ),
    ]


def document() -> Path:
    """A PDF of generated words, equal on every machine except for the date inside."""
    path = traces.FOLDER / "capture.pdf"
    if not path.exists():
        traces.FOLDER.mkdir(parents=True, exist_ok=True)
        pages = [traces.FOLDER / f"capture-{page}.txt" for page in range(PAGES)]
        generator = random.Random(42)
        for page in pages:
            page.write_text(content(generator))
        traces.save(
            path,
            lambda aside: subprocess.run(["mutool", "create", "-o", aside, *pages], check=True),
        )
    return path


def content(generator: random.Random) -> str:
    """A page of text in the format of `mutool create`."""
    lines = [
        " ".join(
            "".join(generator.choices(LETTERS, k=generator.randint(2, 9))) for _ in range(WORDS)
        )
        for _ in range(LINES)
    ]
    shown = "\n".join(f"({line}) Tj 0 -12 Td" for line in lines)
    head = "%%MediaBox 0 0 595 842\n%%Font Body Times-Roman\n"
    return f"{head}BT /Body 10 Tf 40 800 Td\n{shown}\nET\n"


def cpu_s(command: Sequence[str]) -> float:
    """CPU seconds of a command and of its children."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime


def instructions(job: Sequence[str]) -> int:
    """Number of instructions of a job, by cachegrind."""
    cachegrind = ["valgrind", "--tool=cachegrind", f"--cachegrind-out-file={os.devnull}", *job]
    errors = subprocess.run(cachegrind, capture_output=True, text=True, check=True).stderr
    found = re.search(r"I\s+refs:\s+([\d,]+)", errors)
    assert found, errors
    return int(found[1].replace(",", ""))
