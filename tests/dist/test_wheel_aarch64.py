"""The wheel for aarch64, and the Debian package of `pagewise` for arm64, under QEMU.

They answer with the same bytes as the wheel for x86-64.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from roots import HUNG_S, PYTHONS, REPOSITORY, bare, built, built_for, refusal

QEMU = "qemu-aarch64-static"
SUITE = "bookworm"
PYTHON = ("python3.11", "libstdc++6")
LIBRARIES = ("libblas3", "liblapack3", "python3-numpy", "python3-scipy")
MATHEMATICS = "/usr/lib/aarch64-linux-gnu"
"""The folder above those of BLAS and LAPACK, to which an installation makes links."""
RECORDING = REPOSITORY / "examples/phone-1g/phone-1g.pgr"
REFERENCES = REPOSITORY / "examples/page-size/photo.pwf"
SYSTEM_TRACE = REPOSITORY / "examples/phone.perfetto-trace.gz"
QUESTIONS = {
    "analyze": ("analyze", RECORDING),
    "misses": ("misses", RECORDING, "--policy", "lru,arc,s3-fifo,tinylfu", "--frames", "64MiB"),
    "simulate": (
        *("simulate", RECORDING, "--architecture", "hierarchical", "--fast-tier", "64MiB"),
        *("--fast", "zram-lz4", "--slow", "emmc-5.1"),
    ),
    "curves": ("curves", REFERENCES, "--page-sizes", "4KiB,16KiB,64KiB", "--frames", "64,1MiB"),
    "launches": ("launches", SYSTEM_TRACE),
    "pressure": ("pressure", SYSTEM_TRACE),
}


def lacking() -> str | None:
    if reason := refusal():
        return reason
    return None if shutil.which(QEMU) else f"{QEMU} is not installed: tools/dist_setup.sh"


pytestmark = pytest.mark.skipif(lacking() is not None, reason=lacking() or "")


def installed(site: Path, wheel: Path, *options: str) -> None:
    """Puts a wheel into a folder, where no program of its processor has to run."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", site]
    ran = subprocess.run([*pip, *options, wheel], capture_output=True, text=True, timeout=HUNG_S)
    if ran.returncode != 0:
        pytest.skip(f"the registry gives no dependencies: {ran.stderr.splitlines()[-3:]}")


class Front:
    """The command `pagewise` of a wheel that is unpacked in a folder."""

    def __init__(self, python: list[str | Path], site: Path) -> None:
        self.python = python
        self.site = site

    def answer(self, *words: str | Path) -> str:
        """What a command prints as JSON."""
        ran = subprocess.run(
            [*self.python, "-m", "pagewise", *words, "--json"],
            cwd=self.site,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(self.site), "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=HUNG_S,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Front:
    """The wheel for x86-64, with the dependencies of this environment."""
    site = tmp_path_factory.mktemp("x86_64")
    installed(site, built("pagewise_*x86_64.whl"), "--no-deps")
    return Front([sys.executable], site)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """The wheel for aarch64 with Debian's Python for it."""
    wheel, folder = built("pagewise_*aarch64.whl"), tmp_path_factory.mktemp("aarch64")
    site = folder / "site"
    version = f"--python-version={PYTHONS[SUITE]}"
    installed(site, wheel, "--only-binary=:all:", version, *built_for("aarch64"))
    with bare(SUITE, PYTHON, folder, "arm64") as root:
        yield Front([QEMU, "-L", root, root / "usr/bin/python3.11"], site)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """The Debian package of `pagewise` for arm64, with Debian's Python, numpy and scipy."""
    package, folder = built("pagewise-memory_*_arm64.deb"), tmp_path_factory.mktemp("arm64")
    linked = ":".join(f"{MATHEMATICS}/{name}" for name in ("blas", "lapack"))
    with bare(SUITE, (*PYTHON, *LIBRARIES), folder, "arm64") as root:
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True, timeout=HUNG_S)
        search = f"LD_LIBRARY_PATH={linked}"
        emulated = [QEMU, "-E", search, "-L", root, root / "usr/bin/python3.11"]
        yield Front(emulated, root / "usr/lib/pagewise/python")


def test_both_are_of_the_same_sources(here: Front, there: Front) -> None:
    versions = json.loads(there.answer("--version"))
    assert versions["front"] == {"name": "pagewise-memory", "version": versions["core"]}
    assert json.loads(here.answer("--version"))["core"] == versions["core"]


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_has_the_same_bytes(name: str, here: Front, there: Front) -> None:
    answer = there.answer(*QUESTIONS[name])
    assert len(json.loads(answer)) > 3
    assert answer == here.answer(*QUESTIONS[name])


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_of_the_package_has_the_same_bytes(
    name: str, here: Front, packaged: Front
) -> None:
    assert packaged.answer(*QUESTIONS[name]) == here.answer(*QUESTIONS[name])
