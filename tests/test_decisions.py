"""How long one decision of live tiers takes: a server of swap requests must answer soon."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INSTRUCTIONS_MAX = 20_000
# Visits of 64 slots or frames, in two tables, and those of the decision itself.
ADDRESSES_MAX = 150

NEEDED = [name for name in ("qemu-x86_64", "cc", "cargo") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        platform.machine() != "x86_64" or bool(NEEDED),
        reason=f"needs x86-64, qemu-user, cc and cargo; missing: {NEEDED or 'x86-64'}",
    ),
]


def test_decisions_are_bounded_in_instructions_and_addresses(tmp_path: Path) -> None:
    """Every architecture and option that can be served, with 2 GiB of swap and 512 MiB in front."""
    plugin = tmp_path / "decision_instructions.so"
    source = ROOT / "tests" / "decision_instructions.c"
    compiler = ["cc", "-std=c17", "-O2", "-fPIC", "-shared", str(source), "-o", str(plugin)]
    subprocess.run(compiler, check=True, timeout=60)
    example = ["--quiet", "-p", "policy", "--example", "decisions"]
    subprocess.run(["cargo", "build", "--release", *example], check=True, cwd=ROOT, timeout=900)
    program = ROOT / "target" / "release" / "examples" / "decisions"
    done = subprocess.run(
        ["qemu-x86_64", "-plugin", str(plugin), str(program)],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        # The tables are what malloc gets by mmap: a byte of each slot, or four of each frame, is
        # 512 KiB. Smaller memory does not count: a bit of each slot is 64 KiB, and the lists of
        # `adaptive`, one for each age and kind of page, are 324 KiB.
        env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "400000"},
    )
    if "plugin" in done.stderr and done.returncode != 0:
        pytest.skip(f"this QEMU takes no plugin of version 1: {done.stderr.strip()}")
    forms = done.stdout.splitlines()[:-1]
    lines = re.findall(r"^(\d+) and (\d+) of \d+$", done.stderr, re.MULTILINE)
    assert len(forms) > 20 and len(lines) == len(forms), (done.stdout, done.stderr)
    counts = [(int(instructions), int(addresses)) for instructions, addresses in lines]
    largest = dict(zip(forms, counts, strict=True))
    # Every architecture finds something in its tables.
    assert all(addresses > 0 for _, addresses in counts), largest
    too_large = {
        form: (instructions, addresses)
        for form, (instructions, addresses) in largest.items()
        if instructions > INSTRUCTIONS_MAX or addresses > ADDRESSES_MAX
    }
    assert not too_large, too_large
