"""Programs with an allocator of their own: linked, preloaded and in children."""

from __future__ import annotations

from programs.building import Built, c
from programs.program import Program

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
HAND_MADE = c("libhand_made.so", "-shared", "-fPIC", source="hand_made.c")
ALLOCATORS = {
    "jemalloc": (f"{LIBRARIES}/libjemalloc.so.2", "-ljemalloc", "libjemalloc2"),
    "mimalloc": (f"{LIBRARIES}/libmimalloc.so.2", "-lmimalloc", "libmimalloc2.0"),
    "tcmalloc": (
        f"{LIBRARIES}/libtcmalloc_minimal.so.4",
        "-ltcmalloc_minimal",
        "libtcmalloc-minimal4",
    ),
    "hand-made": (str(HAND_MADE.path), "", ""),
}
MIXES = c("mixes", source="mixes.cc", compiler="g++")


def linked(name: str) -> Built:
    """The program that makes all calls, linked with the allocator."""
    option = ALLOCATORS[name][1]
    output = f"mixes-{name}"
    if option:
        return c(output, option, source="mixes.cc", compiler="g++")
    # The allocator is part of the executable, as in chromium.
    words = [
        "sh",
        "-euc",
        "gcc -O2 -g -c BIN/../../../bench/programs/sources/hand_made.c -o OUTPUT.o",
    ]
    words[2] += " && g++ -O2 -g -pthread -rdynamic SOURCE OUTPUT.o -o OUTPUT"
    return Built(output, "mixes.cc", words, ["gcc", "g++"])


def rows(name: str) -> list[Program]:
    """One allocator: linked, preloaded and in children."""
    path, _, package = ALLOCATORS[name]
    version = ["dpkg-query", "-W", package] if package else []
    needs = [path] if package else []
    what = (
        "all calls of the malloc family and of C++ in three threads and a child; owners of blocks"
    )
    own = [HAND_MADE] if not package else []
    expects = rf"owner {name}\nowner {name}\n(.*\n)*finished [0-9]+"
    return [
        Program(
            name=f"{name} linked",
            what=f"{what}; linked with {name}",
            words=[f"BIN/mixes-{name}"],
            expects=expects,
            version=version,
            needs=needs,
            built=[linked(name)],
            allocates_large=True,
            is_served=False,
        ),
        Program(
            name=f"{name} preloaded",
            what=f"the same with LD_PRELOAD={name}, to which the library is added",
            words=["BIN/mixes"],
            expects=expects,
            needs=needs,
            built=[MIXES, *own],
            variables={"LD_PRELOAD": path},
            allocates_large=True,
            is_served=False,
        ),
        Program(
            name=f"{name} in children",
            what=f"sh starts the program linked with {name}, and with it preloaded first or last",
            words=["sh", "SOURCES/allocator_children.sh", f"BIN/mixes-{name}", "BIN/mixes", path],
            expects=expects,
            needs=needs,
            built=[linked(name), MIXES, *own],
            allocates_large=True,
            is_served=False,
            is_quick=True,
        ),
    ]


PROGRAMS = tuple(row for name in ALLOCATORS for row in rows(name))
