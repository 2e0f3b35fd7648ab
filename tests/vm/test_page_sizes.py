"""Guests of one host, each started with the page size that `pagewise pagesize apply` chooses.

Each guest prints its page size, and a program in it has as many faults as its memory has pages of
that size. Debian has kernels for arm64 with pages of 4 and 16 KiB, but not of 64 KiB.
"""

import random
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import guest
import pytest

from pagewise.guests.apply import apply
from pagewise.reference_curves import curves
from pagewise.references import import_references

pytestmark = pytest.mark.slow

MIB = 1 << 20
TOUCHED_MIB = 32
# The first Debian kernels with a switch for each size of transparent huge pages.
SUITE = "bookworm-backports"
SMALL = guest.Machine("arm64", SUITE, "linux-image-cloud-arm64", processors=1)
LARGE = replace(SMALL, kernel="linux-image-arm64-16k")
X86 = guest.Machine("amd64", SUITE, "linux-image-cloud-amd64", processors=1)
COMPILERS = {"arm64": "aarch64-linux-gnu-gcc", "amd64": "x86_64-linux-gnu-gcc"}

SCRIPT = f"""
touch_memory {TOUCHED_MIB}
grep -l '\\[always\\]' /sys/kernel/mm/transparent_hugepage/hugepages-*/enabled
true
"""


def refusal() -> str | None:
    """Why the guests cannot be booted here; None if they can."""
    for machine in (SMALL, LARGE, X86):
        if shutil.which(COMPILERS[machine.architecture]) is None:
            return f"no {COMPILERS[machine.architecture]}: tools/prerequisites.sh test"
        if reason := guest.refusal(machine):
            return reason
    return None


def workloads(folder: Path) -> None:
    """Workloads of 8 MiB: one touches a contiguous range, the other pages that lie far apart."""
    blocks = range(0, 8 * MIB, 512)
    pages = list(range(0, 128 * MIB, 65536))
    random.Random(1).shuffle(pages)
    for name, round_of in {"dense": blocks, "scattered": pages}.items():
        text = folder / f"{name}.csv"
        text.write_text("address\n" + 5 * "".join(f"{place:#x}\n" for place in round_of))
        import_references(text, folder / f"{name}.pwf")


def host_file(folder: Path) -> Path:
    """A host with a guest that gains from larger pages, one that does not, and one of x86."""
    workloads(folder)
    path = folder / "host.toml"
    path.write_text(
        f"""
storage = "optane-ssd"
system_memory = "512MiB"

[kernels.arm64]
"4KiB" = "{guest.image(SMALL)}"
"16KiB" = "{guest.image(LARGE)}"

[kernels.x86-64]
"4KiB" = "{guest.image(X86)}"
"""
        + "".join(
            f"""
[[vm]]
name = "{name}"
workload = "{workload}.pwf"
memory = "80%"
architecture = "{architecture}"
kernel_arguments = "{guest.basic_arguments(machine)}"
"""
            for name, workload, architecture, machine in [
                ("gains", "dense", "arm64", LARGE),
                ("stays", "scattered", "arm64", SMALL),
                ("gains-x86", "dense", "x86-64", X86),
            ]
        )
    )
    return path


def booted(machine: guest.Machine, arguments: Path, folder: Path) -> tuple[dict[str, int], str]:
    """The program's output in a guest with these arguments, and the sizes set to ``always``."""
    folder.mkdir()
    program = folder / "touch_memory"
    source = Path(__file__).with_name("touch_memory.c")
    compiler = COMPILERS[machine.architecture]
    subprocess.run([compiler, "-O1", "-static", "-o", program, source], check=True, timeout=300)
    started = replace(machine, start=tuple(shlex.split(arguments.read_text())))
    (folder / "guest").mkdir()
    answer = guest.boot(started, SCRIPT, {"bin/touch_memory": program}, folder / "guest")
    assert answer.status == 0, answer.output
    base, faults, *always = answer.output.splitlines()
    return {
        name: int(number) for name, number in (line.split() for line in (base, faults))
    }, "\n".join(always)


def test_guests_have_their_page_sizes_and_the_expected_faults(tmp_path: Path) -> None:
    if reason := refusal():
        pytest.skip(reason)
    output = tmp_path / "out"
    result = apply(host_file(tmp_path), output, curves)
    chosen = {each["name"]: each["page_bytes"] for each in result["guests"]}
    assert (chosen["gains"], chosen["stays"]) == (16384, 4096)
    assert chosen["gains-x86"] >= 16384
    for name, machine in [("gains", LARGE), ("stays", SMALL), ("gains-x86", X86)]:
        printed, always = booted(machine, output / name / "qemu.args", tmp_path / name)
        is_base = machine.architecture == "arm64"
        assert printed["base_bytes"] == (chosen[name] if is_base else 4096), name
        folder = f"hugepages-{chosen[name] // 1024}kB/"
        assert (folder in always) != is_base and len(always.split()) == (not is_base), name
        expected = TOUCHED_MIB * MIB // chosen[name]
        assert printed["faults"] == pytest.approx(expected, rel=0.02), name
