"""glibc's own tests of malloc, mmap and mremap, unmodified, under the preload library.

They come from Debian's package of glibc's sources, fetched by apt into ``build/glibc`` without
touching the machine's own packages, and are built against the C library of this machine.
"""

import os
import platform
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lazy_programs import CC, NEEDED, loaded

from pagewise.errors import Missing

sys.path.insert(0, str(Path(__file__).with_name("vm")))

import guest

pytestmark = [NEEDED, pytest.mark.slow]

HUNG_S = 300
MALLOC = (
    *("calloc", "free-errno", "mallinfo2", "malloc", "malloc-backtrace", "malloc-check"),
    *("malloc-fork-deadlock", "malloc-stats-cancellation", "malloc-tcache-leak"),
    *("malloc-thread-exit", "malloc-thread-fail", "malloc-too-large"),
    *("malloc_info", "mallocfork", "mallocfork3", "mallopt", "memalign"),
    *("mxfast", "obstack", "posix_memalign", "pvalloc", "realloc", "reallocarray"),
    *("tcfree1", "tcfree2", "tcfree3", "trim1", "valloc"),
)
# linux-mremap1 is left out: it maps an address that it has just unmapped, which stays mapped here.
TESTS = {
    **{name: f"malloc/tst-{name}.c" for name in MALLOC},
    **{name: f"posix/tst-{name}.c" for name in ("mmap", "mmap-offset")},
    **{name: f"misc/tst-{name}.c" for name in ("mremap1", "mremap2")},
    **{
        name: f"libio/tst-{name}.c"
        for name in ("mmap-eofsync", "mmap-fflushsync", "mmap-offend", "mmap2-eofsync")
    },
    "mlock2": "sysdeps/unix/sysv/linux/tst-mlock2.c",
}
MODES = ("fast", "guarded")
# The internal headers of glibc that the tests include; more would hide headers of the machine.
HEADERS = (
    *("include/libc-diag.h", "include/libc-pointer-arith.h", "include/intprops.h"),
    *("include/array_length.h", "sysdeps/x86_64/stackinfo.h"),
    *("sysdeps/generic/mmap_info.h", "sysdeps/unix/sysv/linux/mremap-failure.h"),
)
WANTED = ("support/", "malloc/", "posix/tst-mmap", "misc/tst-mremap", "libio/tst-mmap")
# The settings that glibc's build passes to its test support.
ROOTS = "srcdir_root objdir_root install_prefix libdir_prefix bindir_prefix sbindir_prefix"
TEXTS = ("NAME_MAX=255", "TIMEOUTFACTOR=10", "MODULE_NAME=testsuite", "libc_hidden_proto(x)=")


class Sources:
    """glibc's sources, and the part of its test support that this machine compiles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        archive = next(guest.package("glibc-source", "amd64").glob("usr/src/glibc/*.tar.xz"))
        with tarfile.open(archive) as sources:
            # Debian 12's Python 3.11.2 has no filters yet.
            sources.extraction_filter = getattr(tarfile, "data_filter", None)
            sources.extractall(folder, members=list(self.wanted(sources)))
        self.root = next(folder.glob("glibc-*"))
        self.headers = folder / "headers"
        self.headers.mkdir()
        for header in HEADERS:
            (self.root / header).rename(self.headers / Path(header).name)
        self.support = folder / "support.a"
        self.compile_support()

    def wanted(self, sources: tarfile.TarFile) -> list[tarfile.TarInfo]:
        """The needed members of the archive, without their common folder."""

        def is_wanted(path: str) -> bool:
            return path.startswith(WANTED) or path in (*HEADERS, *TESTS.values(), "test-skeleton.c")

        return [each for each in sources if is_wanted(each.name.partition("/")[2])]

    def compiled(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """The result of the compiler."""
        places = [f"-idirafter{self.root / name}" for name in ("", "support", "malloc")]
        options = ["-O1", "-w", "-std=gnu11", "-fno-builtin", "-D_GNU_SOURCE", f"-I{self.headers}"]
        command = [str(CC), *options, *(f"-D{text}" for text in TEXTS), *places, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S)

    def compile_support(self) -> None:
        """Compiles the test support, except parts that need more of glibc than headers.

        No test here uses these parts.
        """
        objects = self.folder / "objects"
        objects.mkdir()
        roots = objects / "roots.c"
        roots.write_text("".join(f'const char support_{name}[] = "/";\n' for name in ROOTS.split()))
        files = [roots, *(self.root / "support").glob("*.c")]
        kept = [file for file in files if not file.stem.startswith(("tst-", "test-"))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(
                pool.map(
                    lambda file: self.compiled("-c", file, "-o", objects / f"{file.stem}.o"), kept
                )
            )
        built = sorted(objects.glob("*.o"))
        command = ["ar", "rcs", self.support, *built]
        subprocess.run(command, check=True, capture_output=True, timeout=HUNG_S)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    if platform.machine() != "x86_64":
        pytest.skip("the sources' headers are chosen for x86-64")
    if missing := [name for name in ("apt-get", "dpkg-deb", "ar") if shutil.which(name) is None]:
        pytest.skip(f"needs {' and '.join(missing)}")
    try:
        return Sources(tmp_path_factory.mktemp("glibc"))
    except Missing as error:
        pytest.skip(f"glibc-source cannot be fetched: {error}")


def status(program: Path, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Runs a test and returns its exit status and output; kills a test that hangs."""
    done = subprocess.run(
        [program],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=HUNG_S,
    )
    return done.returncode, (done.stdout + done.stderr)[-1000:]


LONG = ("mallocfork3", "malloc-tcache-leak")
"""The first waits most of a minute."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in TESTS],
)
def test_a_test_of_glibc_passes(sources: Sources, tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    built = sources.compiled(sources.root / TESTS[name], sources.support, "-o", program, "-pthread")
    assert built.returncode == 0, built.stderr
    for mode in MODES:
        ended, diagnostics = status(program, tmp_path, loaded(MODE=mode))
        if ended != 0 and status(program, tmp_path, dict(os.environ))[0] != 0:
            pytest.skip(f"fails here without the library, too: {diagnostics}")
        assert ended == 0, (mode, diagnostics)
