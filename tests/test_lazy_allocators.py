"""Programs with their own allocator or a sanitizer, under the preload library."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from lazy_programs import AGENT, LIBRARY, NEEDED, compiled, counters, loaded, running

pytestmark = NEEDED

LIBRARIES = Path(f"/usr/lib/{os.uname().machine}-linux-gnu")
ALLOCATORS = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
}
MODES = [("MODE", "fast"), ("MODE", "guarded"), ("MODE", "thp"), ("SWITCH", "off")]


FAMILY = r"""
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *taken(int how, size_t size)
{
    void *block = NULL;
    switch (how) {
    case 0: return malloc(size);
    case 1: return calloc(3, size / 3 + 1);
    case 2: return memalign(256, size);
    case 3: return aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    case 4: return posix_memalign(&block, 64, size) == 0 ? block : NULL;
    case 5: return valloc(size);
    case 6: return reallocarray(NULL, size, 2);
    /* No pvalloc: jemalloc has none, so its blocks would be libc's. */
    default: return realloc(malloc(100), size);
    }
}
static void use(void)
{
    /* Functions that only jemalloc has. */
    void *(*mallocx)(size_t, int) = (void *(*)(size_t, int))dlsym(RTLD_DEFAULT, "mallocx");
    void (*dallocx)(void *, int) = (void (*)(void *, int))dlsym(RTLD_DEFAULT, "dallocx");
    for (int how = 0; how < 8; how++)
        for (size_t size = 1; size < 10 << 20; size = size * 3 + 5) {
            char *block = taken(how, size);
            block[0] = block[size - 1] = how;
            /* The room of mimalloc's aligned blocks depends on the blocks before them. */
            size_t room = malloc_usable_size(block);
            printf("%d %zu %zu\n", how, size, how >= 2 && how <= 5 ? room >= size : room);
            block = how % 2 ? realloc(block, size * 2) : block;
            if (block[size - 1] != how)
                abort();
            if (mallocx && dallocx && how % 3 == 0) {
                dallocx(block, 0);
                free(mallocx(size, 0));
            } else
                free(block);
        }
}
int main(int count, char **words)
{
    if (count > 1) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            use();
            fflush(stdout);
            execl(words[0], words[0], NULL);
        }
        int status;
        return waitpid(child, &status, 0) != child || status != 0;
    }
    use();
    return 0;
}
"""

OWN = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
/* Never reuses memory, and traps if the program frees a block of another allocator. */
enum { HEAD = 64, MARK = 0x5eed };
static char *heap;
static size_t used;
static void *take(size_t alignment, size_t size)
{
    if (!heap)
        heap = mmap(NULL, 4UL << 30, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    used = (used + HEAD + alignment - 1) / alignment * alignment;
    char *block = heap + used;
    used += size;
    ((size_t *)block)[-1] = size;
    ((size_t *)block)[-2] = MARK;
    return block;
}
void *malloc(size_t size) { return take(64, size); }
void *calloc(size_t count, size_t size) { return take(64, count * size); }
void *memalign(size_t alignment, size_t size)
{
    return take(alignment < 64 ? 64 : alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
void *valloc(size_t size) { return memalign(4096, size); }
void *pvalloc(size_t size) { return memalign(4096, (size + 4095) / 4096 * 4096); }
int posix_memalign(void **place, size_t alignment, size_t size)
{
    *place = memalign(alignment, size);
    return 0;
}
size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-1] : 0; }
void free(void *block)
{
    if (block && ((size_t *)block)[-2] != MARK)
        __builtin_trap();
}
void *realloc(void *block, size_t size)
{
    free(block);
    void *other = malloc(size);
    size_t old = malloc_usable_size(block);
    return block ? memcpy(other, block, old < size ? old : size) : other;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("allocators")


def allocator(name: str, folder: Path) -> Path:
    """The path of the allocator's library."""
    if name == "own":
        return compiled(OWN, folder / "libown.so", "-shared", "-fPIC", "-fno-builtin")
    path = LIBRARIES / ALLOCATORS[name]
    if not path.exists():
        pytest.skip(f"needs {path.name}: tools/prerequisites.sh test")
    return path


def outcome(command: list[str | Path], **variables: str) -> tuple[int, str, str]:
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", [[], ["child"]], ids=["itself", "child"])
@pytest.mark.parametrize("how", ["linked", "preloaded", "preloaded first"])
@pytest.mark.parametrize("name", [*ALLOCATORS, "own"])
def test_another_allocator_serves_the_whole_malloc_family(
    folder: Path, name: str, how: str, arguments: list[str]
) -> None:
    library = allocator(name, folder)
    if how == "linked":
        program = compiled(
            FAMILY, folder / f"family-{name}", "-xnone", str(library), f"-Wl,-rpath,{folder}"
        )
        plain = outcome([program, *arguments])
    else:
        program = compiled(FAMILY, folder / "family")
        plain = outcome([program, *arguments], LD_PRELOAD=str(library))
    assert plain[0] == 0 and plain[1].count("\n") > 100
    chain = {
        "linked": f"{LIBRARY}",
        "preloaded": f"{LIBRARY}:{library}",
        "preloaded first": f"{library}:{LIBRARY}",
    }[how]
    for knob, value in MODES:
        variables = {f"PAGEWISE_LAZY_{knob}": value}
        served = outcome([program, *arguments], LD_PRELOAD=chain, **variables)
        assert served == plain, (knob, value)


OPERATORS = r"""
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <new>
int main()
{
    for (size_t size = 1; size < 10 << 20; size = size * 3 + 5) {
        char *block = static_cast<char *>(::operator new(size));
        std::printf("%zu\n", malloc_usable_size(block));
        ::operator delete(block, size);
        block = static_cast<char *>(::operator new(size, std::align_val_t(256)));
        std::printf("%zu\n", malloc_usable_size(block));
        ::operator delete(block, size, std::align_val_t(256));
        block = new char[size];
        std::free(block);
        ::operator delete(std::malloc(size));
    }
}
"""


@pytest.mark.parametrize("name", ALLOCATORS)
def test_another_allocator_serves_the_operators_of_cpp(folder: Path, name: str) -> None:
    library = allocator(name, folder)
    program = folder / f"operators-{name}"
    source = folder / "operators.cpp"
    source.write_text(OPERATORS)
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    command = ["g++", "-O1", "-std=c++17", source, "-o", program, library]
    subprocess.run(command, check=True, timeout=300)
    plain = outcome([program])
    assert plain[0] == 0
    for knob, value in MODES:
        variables = {f"PAGEWISE_LAZY_{knob}": value}
        assert outcome([program], LD_PRELOAD=str(LIBRARY), **variables) == plain


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp", "off"])
def test_a_server_that_is_linked_to_jemalloc_prints_its_version(mode: str) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server: tools/prerequisites.sh test")
    knob = {"PAGEWISE_LAZY_SWITCH": "off"} if mode == "off" else {"PAGEWISE_LAZY_MODE": mode}
    status, text, error = outcome([AGENT, "lazy", "--", "redis-server", "--version"], **knob)
    assert (status, error) == (0, "") and "malloc=jemalloc" in text


FAULTY = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static int shared;
static void *add(void *unused) { shared++; return unused; }
int main(int count, char **words)
{
    char *block = malloc(200000), *map = mmap(0, 1 << 20, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(block, 1, 200000);
    memset(map, 1, 1 << 20);
    munmap(map, 1 << 20);
    if (count > 1 && words[1][0] == 'f') {
        free(block);
        return ((volatile char *)block)[5];
    }
    if (count > 1 && words[1][0] == 'r') {
        pthread_t threads[2];
        for (int at = 0; at < 2; at++)
            pthread_create(&threads[at], NULL, add, NULL);
        for (int at = 0; at < 2; at++)
            pthread_join(threads[at], NULL);
    }
    free(block);
    puts("done");
    return 0;
}
"""


def normalised(text: str) -> str:
    """A sanitizer's report without process numbers, addresses and thread numbers."""
    text = re.sub(r"==\d+==|pid=\d+|tid=\d+|\bT\d+\b", "", text)
    return re.sub(r"0x[0-9a-f]+|\+0x\w+", "", text)


# At a fixed address, pointers to functions of libraries point to entries in the program itself.
FIXED = r"""
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    void *(*volatile take)(size_t) = malloc;
    void *(*volatile take_zeroed)(size_t, size_t) = calloc;
    void *(*volatile take_more)(void *, size_t) = realloc;
    void (*volatile give_back)(void *) = free;
    void *(*volatile map)(void *, size_t, int, int, int, off_t) = mmap;
    int (*volatile unmap)(void *, size_t) = munmap;
    const char *(*volatile version)(void) = gnu_get_libc_version;
    for (int round = 0; round < 4; round++) {
        char *block = memset(take(1 << 20), 1, 1 << 20), *zeroed = take_zeroed(3, 1 << 18);
        block = take_more(block, 3 << 20);
        char *mapped = map(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block[(1 << 20) - 1] != 1 || zeroed[(3 << 18) - 1] || mapped[0] || !version()[0])
            abort();
        mapped[0] = 1;
        give_back(block);
        give_back(zeroed);
        unmap(mapped, 1 << 20);
    }
    puts("done");
    return fflush(stdout) || getchar() == EOF;
}
"""
FIXED_OPTIONS = ["-no-pie", "-fno-pie", "-fno-builtin"]


def served(folder: Path, program: str | Path, *arguments: str, **knobs: str) -> int:
    """How many allocations of a program are served until its first line, its only output."""
    command: list[str | Path] = [AGENT, "lazy", "--verbose", "--", program, *arguments]
    errors = folder / "errors"
    with errors.open("w") as stream, running(command, loaded(**knobs), stderr=stream) as child:
        assert child.stdout is not None
        assert (child.stdout.readline(), errors.read_text()) == ("done\n", "")
        count: int = counters(child.pid)["allocations"]
    assert (child.returncode, errors.read_text()) == (0, "")
    return count


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
@pytest.mark.parametrize("hash_style", ["gnu", "sysv"])
@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_a_program_at_a_fixed_address_is_served(
    folder: Path, linker: str, hash_style: str, binding: str
) -> None:
    if shutil.which(f"ld.{linker}") is None:
        pytest.skip(f"needs ld.{linker}")
    link = [f"-fuse-ld={linker}", f"-Wl,--hash-style={hash_style}", f"-Wl,-z,{binding}"]
    name = f"fixed-{linker}-{hash_style}-{binding}"
    program = compiled(FIXED, folder / name, *FIXED_OPTIONS, *link)
    assert served(folder, program) >= 4


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp"])
@pytest.mark.parametrize("program", ["python3", "node"])
def test_programs_of_debian_at_a_fixed_address_are_served(
    folder: Path, program: str, mode: str
) -> None:
    path = Path("/usr/bin", program)
    if not path.exists():
        pytest.skip(f"needs {path}: tools/bench_programs_setup.sh")
    source = {
        "python3": "[bytearray(1 << 20) for _ in range(8)]; print('done', flush=True); input()",
        "node": "for (let at = 0; at < 8; at++) Buffer.alloc(1 << 20); console.log('done');"
        "process.stdin.once('data', () => process.exit(0))",
    }[program]
    assert served(folder, path, "-c" if program == "python3" else "-e", source, MODE=mode) >= 8


@pytest.mark.parametrize("how", ["linked", "preloaded first", "child"])
def test_a_program_at_a_fixed_address_keeps_its_own_malloc(folder: Path, how: str) -> None:
    own = allocator("own", folder)
    chain = [LIBRARY]
    if how == "preloaded first":
        program = compiled(FAMILY, folder / "fixed-family", *FIXED_OPTIONS)
        plain = outcome([program], LD_PRELOAD=str(own))
        chain = [own, LIBRARY]
    else:
        program = folder / "fixed-own"
        source = folder / "own.c"
        source.write_text(OWN)
        # The allocator lies in the program itself, beside pointers to its functions.
        compiled(FAMILY, program, *FIXED_OPTIONS, str(source))
        plain = outcome([program])
    assert plain[0] == 0 and plain[1].count("\n") > 100
    command = ["sh", "-c", str(program)] if how == "child" else [program]
    for knob, value in MODES:
        variables = {f"PAGEWISE_LAZY_{knob}": value, "PAGEWISE_LAZY_VERBOSE": "on"}
        preload = ":".join(map(str, chain))
        status, text, error = outcome(command, LD_PRELOAD=preload, **variables)
        assert (status, text) == plain[:2]
        reason = "PAGEWISE_LAZY_SWITCH is off" if value == "off" else "brings its own malloc"
        assert reason in error.splitlines()[-1]


def test_the_command_leaves_the_library_out_of_a_program_with_its_own_malloc(folder: Path) -> None:
    source = folder / "own.c"
    source.write_text(OWN)
    for options in [FIXED_OPTIONS, []]:
        program = compiled(FAMILY, folder / f"own-{len(options)}", *options, str(source))
        _, _, errors = outcome([AGENT, "lazy", "--verbose", "--", program])
        assert "runs without the library: it has its own malloc" in errors


COUNTING = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void __libc_free(void *);
static int count;
void free(void *block) { count += block != 0; __libc_free(block); }
int main(void)
{
    int before = count;
    for (size_t size = 1000; size < 8 << 20; size *= 3)
        free(memset(malloc(size), 1, size));
    printf("%d\n", count - before);
    return 0;
}
"""


@pytest.mark.parametrize("options", [FIXED_OPTIONS, []], ids=["fixed", "pie"])
def test_a_program_with_a_free_of_its_own_frees_only_blocks_of_libc(
    folder: Path, options: list[str]
) -> None:
    program = compiled(COUNTING, folder / f"counting-{len(options)}", *options, "-fno-builtin")
    assert outcome([program]) == (0, "9\n", "")
    for knob, value in MODES:
        variables = {f"PAGEWISE_LAZY_{knob}": value}
        assert outcome([program], LD_PRELOAD=str(LIBRARY), **variables) == (0, "9\n", "")


RUNS_OF_A_RACE = 5
"""Runs without and with the library, in turn, until one report is the same."""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(("kind", "fault"), [("address", "freed"), ("thread", "race")])
def test_programs_with_a_sanitizer_run_as_children(
    folder: Path, compiler: str, kind: str, fault: str
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    program, source = folder / f"{compiler}-{kind}", folder / "faulty.c"
    source.write_text(FAULTY)
    command = [compiler, "-g", "-O1", f"-fsanitize={kind}", source, "-o", program, "-pthread"]
    if subprocess.run(command, capture_output=True, timeout=300).returncode != 0:
        pytest.skip(f"{compiler} has no runtime of this sanitizer")
    for argument in "nothing", fault:
        shell = ["sh", "-c", f"{program} {argument}; echo status $?"]
        status, text, error = outcome(shell)
        if argument == "nothing" and "done" not in text:
            pytest.skip(f"the sanitizer does not run here: {error[:200]}")
        # Which thread comes first, and so the report of a race, may differ between runs.
        stock = {(status, text, normalised(error))}
        for knob, value in MODES:
            variables = {f"PAGEWISE_LAZY_{knob}": value}
            for _ in range(RUNS_OF_A_RACE):
                served = outcome([AGENT, "lazy", "--", *shell], **variables)
                seen = (*served[:2], normalised(served[2]))
                if seen in stock:
                    break
                status, text, error = outcome(shell)
                stock.add((status, text, normalised(error)))
            assert seen in stock, (seen, stock)


@pytest.mark.slow
def test_valgrind_runs_as_a_child(folder: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    program = compiled(FAULTY, folder / "faulty", "-g")
    shell = ["sh", "-c", f"valgrind --error-exitcode=7 {program} freed; echo status $?"]
    served = outcome([AGENT, "lazy", "--", *shell])
    assert "status 7" in served[1] and "Invalid read of size 1" in served[2], served


def system_calls(program: Path, folder: Path, environment: dict[str, str]) -> list[str]:
    """The system calls of the program by name, and the files it opens."""
    log = folder / "strace.log"
    environment = {**os.environ, **environment}
    variables = [
        f"--env={name}={value}" for name, value in environment.items() if "\n" not in value
    ]
    subprocess.run(["strace", "-o", log, *variables, program], check=True, timeout=300)
    return re.findall(r"^\w+(?:\(AT_FDCWD, \"[^\"]*\")?", log.read_text(), re.MULTILINE)


PLUGIN = r"""
#include <stdlib.h>
void *take(void *block, size_t size)
{
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
}
"""

# Only the program's own DT_RUNPATH finds the plugin, so dlopen must see the program as its caller.
HOST = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
static void *(*take)(void *, size_t);
#ifdef EARLY
__attribute__((constructor))
#endif
static void load(void)
{
    void *plugin = dlopen("libplugin.so", RTLD_NOW | RTLD_DEEPBIND);
    if (plugin)
        take = (void *(*)(void *, size_t))dlsym(plugin, "take");
}
int main(void)
{
    char *kept = malloc(300000);
    memset(kept, 1, 300000);
    load();
    if (!take)
        return 2;
    for (size_t size = 1000; size < 8 << 20; size *= 3) {
        char *block = memset(malloc(size), 2, size);
        block = take(block, 2 * size);
        take(block, 0);
        free(memset(take(0, size), 3, size));
    }
    kept = realloc(kept, 900000);
    int is_kept = kept[299999] == 1;
    free(kept);
    return is_kept ? 0 : 3;
}
"""


@pytest.mark.parametrize("mode", ["fast", "guarded", "thp"])
@pytest.mark.parametrize("when", ["EARLY", "LATE"])
def test_a_plugin_with_its_own_libc_binding_frees_the_programs_blocks(
    tmp_path: Path, mode: str, when: str
) -> None:
    compiled(PLUGIN, tmp_path / "libplugin.so", "-shared", "-fPIC")
    runpath = "-Wl,--enable-new-dtags,-rpath,$ORIGIN"
    host = compiled(HOST, tmp_path / "host", f"-D{when}", runpath, "-ldl")
    assert subprocess.run([host], timeout=60).returncode == 0
    ended = subprocess.run([host], env=loaded(MODE=mode), timeout=60)
    assert ended.returncode == 0


def beyond(plain: list[str], calls: list[str]) -> list[str]:
    """The calls that come on top of plain ones."""
    more = list(calls)
    for call in plain:
        if call in more:
            more.remove(call)
    return more


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_library_makes_no_system_calls_if_switched_off(folder: Path) -> None:
    program = compiled(FAULTY, folder / "faulty", "-g")
    plain = system_calls(program, folder, {})
    off = {"LD_PRELOAD": str(LIBRARY), "PAGEWISE_LAZY_SWITCH": "off"}
    more = beyond(plain, system_calls(program, folder, off))
    empty = compiled("int empty;", folder / "empty.so", "-shared", "-fPIC")
    one_library = beyond(plain, system_calls(program, folder, {"LD_PRELOAD": str(empty)}))
    # Calls of the loader that load the library, and another library that it needs besides libc.
    assert len(more) <= 2 * len(one_library), (more, one_library)
    loading = {"read", "pread64", "newfstatat", "fstat", "mmap", "mprotect", "close"}
    others = [call for call in more if call not in loading]
    assert all(call.startswith("openat") and ".so" in call for call in others), others
    assert sum(call.startswith("openat") for call in others) <= 2
