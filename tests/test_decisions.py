"""How long one decision of live tiers takes: a server of swap requests must answer soon."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INSTRUCTIONS_MAX = 20_000

NEEDED = [name for name in ("qemu-x86_64", "cc", "cargo") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        platform.machine() != "x86_64" or bool(NEEDED),
        reason=f"needs x86-64, qemu-user, cc and cargo; missing: {NEEDED or 'x86-64'}",
    ),
]


def test_no_decision_runs_more_than_20_000_instructions(tmp_path: Path) -> None:
    """Every architecture and option that can be served, with 1 GiB of swap and 256 MiB in front."""
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
    )
    if "plugin" in done.stderr and done.returncode != 0:
        pytest.skip(f"this QEMU takes no plugin of version 1: {done.stderr.strip()}")
    forms = done.stdout.splitlines()[:-1]
    counts = [int(count) for count in re.findall(r"^(\d+) of \d+$", done.stderr, re.MULTILINE)]
    assert len(forms) > 20 and len(counts) == len(forms), (done.stdout, done.stderr)
    largest = dict(zip(forms, counts, strict=True))
    too_long = {form: count for form, count in largest.items() if count > INSTRUCTIONS_MAX}
    assert not too_long, too_long
