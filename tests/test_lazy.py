"""The preload library in unmodified programs, and the command that loads it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from lazy_programs import (
    AGENT,
    HOLDER,
    LIBRARY,
    MIB,
    NEEDED,
    compiled,
    counters,
    holder,
    loaded,
    running,
    status,
)

CALLS = Path(__file__).with_name("lazy_calls.c")
pytestmark = NEEDED

# Retention that decides often: few pages stay hot, and freed memory is returned soon.
HASTY = {"HOT_MAX": "1MiB", "LAZY_AFTER": "1ms", "DISCARD_AFTER": "3ms", "ZERO_MAX": "1MiB"}
SETTINGS: dict[str, dict[str, str]] = {
    "fast": {},
    "guarded": {"MODE": "guarded"},
    "thp": {"MODE": "thp"},
    "faithful": {"PROFILE": "faithful"},
    "hasty": HASTY,
    "hasty guarded": {**HASTY, "MODE": "guarded", "HELPER": "off"},
}
SETTING = pytest.mark.parametrize("setting", SETTINGS)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lazy")


@SETTING
@pytest.mark.parametrize(("threads", "forks"), [(1, 4), (3, 2)])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_call_returns_the_right_answer(
    folder: Path, setting: str, threads: int, forks: int, seed: int
) -> None:
    program = compiled(CALLS.read_text(), folder / "calls")
    arguments = [str(number) for number in (seed, 1500 // threads, threads, forks)]
    assert status(program, *arguments, **SETTINGS[setting]) == (0, "")


FREED = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int count, char **words)
{
    size_t size = words[1][0] == 'f' ? 1 << 20 : 9 << 20;
    volatile char *data = words[1][0] != 'm' ? malloc(size)
        : mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t page = -(size_t)data & 4095;
    if (words[1][0] == 'a')
        madvise((char *)data + page + (4 << 20), 3 << 20, MADV_HUGEPAGE);
    memset((char *)data, 1, size);
    if (words[1][0] != 'm')
        free((void *)data);
    else
        munmap((void *)data, size);
    return data[size / 2] + count > 100;
}
"""


@pytest.mark.parametrize("how", ["free", "munmap", "advised"])
@pytest.mark.parametrize("setting", ["fast", "guarded", "faithful"])
def test_use_after_free_ends_the_program_where_memory_is_guarded(
    folder: Path, setting: str, how: str
) -> None:
    program = compiled(FREED, folder / "freed")
    ended, _ = status(program, how, **SETTINGS[setting])
    assert ended == (0 if setting == "fast" else -signal.SIGSEGV)


def test_an_option_overrides_the_environment_which_overrides_the_file(
    folder: Path, tmp_path: Path
) -> None:
    program = compiled(FREED, folder / "freed")
    (tmp_path / "lazy.conf").write_text("mode = guarded\n")
    file = {"PAGEWISE_LAZY_FILE": str(tmp_path / "lazy.conf")}
    guarded, fast = {"PAGEWISE_LAZY_MODE": "guarded"}, {"PAGEWISE_LAZY_MODE": "fast"}

    def ended(variables: dict[str, str], *options: str) -> int:
        command = [AGENT, "lazy", *options, "--", program, "free"]
        return subprocess.run(command, env={**os.environ, **variables}, timeout=300).returncode

    asked = ended(file), ended(guarded), ended({**file, **fast}), ended(guarded, "--mode", "fast")
    assert asked == (-signal.SIGSEGV, -signal.SIGSEGV, 0, 0)


def test_a_pipe_as_the_file_of_knobs_does_not_block_a_program(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert status(Path("/bin/true"), FILE=str(tmp_path / "pipe"))[0] == 0


REUSE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static long use(void)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int round = 0; round < 8; round++) {
        char *volatile data = malloc(16 << 20);
        memset(data, 1, 16 << 20);
        free(data);
    }
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
}
int main(void)
{
    int pipes[2];
    /* Makes each fault a single page, with any huge-page setting of the machine. */
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0 || pipe(pipes) != 0)
        return 2;
    long first = use(), again = use();
    pid_t child = fork();
    if (child == 0) {
        close(pipes[1]);
        _exit(read(pipes[0], &first, 1) != 0);
    }
    long forked = use();
    close(pipes[1]);
    int status;
    waitpid(child, &status, 0);
    printf("%ld %ld %ld\n", first, again, forked);
    return status;
}
"""


def test_freed_memory_is_used_again_without_faults_and_a_fork_keeps_little(folder: Path) -> None:
    program = compiled(REUSE, folder / "reuse")
    pages = 16 * MIB // 4096
    # The helper is off, since it returns all memory when other programs need it.
    environment = loaded(LAZY_AFTER="1000s", HELPER="off")
    answer = subprocess.check_output([program], env=environment, text=True, timeout=300)
    first, again, forked = map(int, answer.split())
    assert pages <= first < 1.1 * pages
    assert again < 0.1 * pages
    # A fork keeps little, so that little is copied; the next use faults on fresh pages.
    assert forked < 1.2 * pages


def test_the_command_passes_everything_through(tmp_path: Path) -> None:
    script = 'import sys; print(sys.argv[1:], sys.stdin.read()); print("e", file=sys.stderr)'
    command = [AGENT, "lazy", "--", sys.executable, "-c", script + "; sys.exit(7)", "a b", "--c"]
    done = subprocess.run(command, input="in", capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (7, "['a b', '--c'] in\n", "e\n")
    killed = subprocess.run([AGENT, "lazy", "--", "sh", "-c", "kill -TERM $$"], timeout=300)
    assert killed.returncode == -signal.SIGTERM


def test_counters_of_a_running_program_are_read() -> None:
    with holder(LAZY_AFTER="1000s", DISCARD_AFTER="1000s", HELPER="off") as child:
        report = counters(child.pid)
        text = subprocess.check_output(
            [AGENT, "lazy", "--stats", str(child.pid)], text=True, timeout=300
        )
    assert report["schema"] == "pagewise.lazy/1" and report["allocations"] >= 20
    assert report["hot_pages"] + report["lazy_pages"] >= 20 * MIB // 4096
    rows = [line.split() for line in text.splitlines()]
    assert [row[0] for row in rows] == list(report)[3:]
    assert [int(row[1]) for row in rows] == list(report.values())[3:], "numbers, not sizes"
    assert f"pages held hot now: {report['hot_pages'] / 256:.1f} MiB" in text


def test_counters_of_a_wrapper_name_the_child_with_the_library() -> None:
    command: list[str | Path] = [AGENT, "lazy", "--", "sh", "-c", '"$@"; :', "sh"]
    with running([*command, sys.executable, "-c", HOLDER], loaded(HELPER="off")) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        (child,) = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
        done = subprocess.run(
            [AGENT, "lazy", "--stats", str(shell.pid)], capture_output=True, text=True, timeout=300
        )
    if done.returncode == 3 and "denied" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0
    assert f"process {shell.pid}, but has served none of its allocations" in done.stderr
    assert f"children that have it loaded: {child};" in done.stderr


def test_idle_memory_is_given_back_without_a_call_of_the_program() -> None:
    with holder(LAZY_AFTER="10ms", DISCARD_AFTER="20ms") as child:
        for _ in range(600):
            report = counters(child.pid)
            if report["hot_pages"] + report["lazy_pages"] == 0:
                break
            time.sleep(0.1)
        assert report["hot_pages"] + report["lazy_pages"] == 0
        assert report["discarded_pages"] >= 20 * MIB // 4096


def test_a_program_without_the_library_has_no_counters() -> None:
    done = subprocess.run(
        [AGENT, "lazy", "--stats", str(os.getpid())], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 3
    assert "pagewise-agent lazy -- PROGRAM" in done.stderr or "denied" in done.stderr


def test_a_missing_process_is_named() -> None:
    command = [AGENT, "lazy", "--stats", "4294967295"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    message = "pagewise-agent: process 4294967295: there is no such process\n"
    assert (done.returncode, done.stderr) == (3, message)


EMPTY = "int main(void) { return 0; }"
OWN_MALLOC = r"""
#include <stddef.h>
static char heap[1 << 20];
static size_t used;
void *malloc(size_t size)
{
    used += 16;
    used += size / 16 * 16;
    return heap + used - 16 - size / 16 * 16;
}
void free(void *pointer) { (void)pointer; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *pointer, size_t size) { (void)pointer; return malloc(size); }
int main(void) { return malloc(100000) == NULL; }
"""


@pytest.mark.parametrize(
    ("name", "source", "options", "reason"),
    [
        ("static", EMPTY, ["-static"], "statically"),
        ("own", OWN_MALLOC, ["-rdynamic", "-fno-builtin"], "own malloc"),
        ("asan", EMPTY, ["-fsanitize=address"], "own malloc|sanitizer"),
    ],
)
def test_the_library_stands_aside_and_says_why(
    folder: Path, name: str, source: str, options: list[str], reason: str
) -> None:
    program = compiled(source, folder / name, *options)
    command = [AGENT, "lazy", "--verbose", "--", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert any(word in done.stderr for word in reason.split("|")), done.stderr


def test_invalid_knobs_are_reported_and_ignored(folder: Path) -> None:
    program = compiled(EMPTY, folder / "empty")
    ended, diagnostics = status(program, HOT_MAX="much")
    assert ended == 0
    expected = "PAGEWISE_LAZY_HOT_MAX=much: expected a size such as 32MiB; ignored"
    assert diagnostics == f"pagewise-lazy: {expected}\n"
    ended, diagnostics = status(program, SWITCH="off")
    assert (ended, diagnostics) == (0, "pagewise-lazy: stands aside: PAGEWISE_LAZY_SWITCH is off\n")
    settings = folder / "lazy.conf"
    settings.write_text("# comment\nmode = guarded\nspeed = high\n")
    _, diagnostics = status(program, FILE=str(settings))
    assert diagnostics.startswith(f"pagewise-lazy: {settings}: speed=high: expected a name of docs")


def test_a_smallest_request_above_the_largest_is_reported_and_ignored(folder: Path) -> None:
    program = compiled(FREED, folder / "freed")
    ended, diagnostics = status(program, "free", MODE="guarded", BLOCK_MIN="8MiB", BLOCK_MAX="4MiB")
    assert ended == -signal.SIGSEGV, "a block of 1 MiB was not served"
    names = "PAGEWISE_LAZY_BLOCK_MIN is above PAGEWISE_LAZY_BLOCK_MAX"
    assert diagnostics == f"pagewise-lazy: {names}; both ignored\n"


def test_the_shell_runs_a_script_that_names_no_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('case "$LD_PRELOAD" in *pagewise_lazy*) echo "$1" ;; esac\n')
    script.chmod(0o755)
    command = [AGENT, "lazy", "--verbose", "--", script, "an argument"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "an argument\n", "")


def test_the_library_stands_aside_if_address_space_is_limited(folder: Path) -> None:
    program = compiled(EMPTY, folder / "empty")
    limit = f"ulimit -v {512 << 10}; exec {program}"
    done = subprocess.run(
        [
            "sh",
            "-c",
            f"LD_PRELOAD={LIBRARY} PAGEWISE_LAZY_VERBOSE=on; export LD_PRELOAD "
            f"PAGEWISE_LAZY_VERBOSE; {limit}",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and "RLIMIT_AS" in done.stderr


# Each script frees a block first, so that the arena exists when it loses its address space.
RETIRED = {
    "a limit of address space": """
import resource
keep = bytearray(b"x" * (3 << 20))
del x
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, resource.RLIM_INFINITY))
""",
    "a limit by prlimit": """
import resource
keep = bytearray(b"x" * (3 << 20))
del x
resource.prlimit(0, resource.RLIMIT_AS, (1 << 29, resource.RLIM_INFINITY))
""",
    "mlockall": """
import ctypes
keep = bytearray(b"x" * (3 << 20))
del x
if ctypes.CDLL(None, use_errno=True).mlockall(3) != 0:
    raise SystemExit(9)
""",
}


@pytest.mark.parametrize("setting", ["fast", "guarded"])
@pytest.mark.parametrize("what", RETIRED)
def test_the_arena_gives_up_address_space_that_the_program_needs(what: str, setting: str) -> None:
    script = f"""
x = bytearray(9 << 20)
{RETIRED[what]}
y = [bytearray(2 << 20) for _ in range(60)]
y[7][5] = 1
del y[:30]
keep += b"y" * (5 << 20)
assert keep[:3] == b"xxx" and keep[-1:] == b"y" and len(keep) == 8 << 20
size, resident = (int(pages) * 4096 for pages in open("/proc/self/statm").read().split()[:2])
assert size < 1 << 30, size
assert resident < 1 << 29, resident
"""
    command, environment = [sys.executable, "-c", script], loaded(**SETTINGS[setting])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode == 9:
        pytest.skip("mlockall is not granted")
    assert (done.returncode, done.stderr) == (0, "")


# Takes all mappings that the kernel grants except the number in the first word, then uses blocks
# and checks their content. Exits with 9 if the kernel grants more than the program takes.
SHORT = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { PAGE = 4096, PAGES = 200000, PLACES = 64 };
static int protect(char *page, int protection)
{
    return syscall(SYS_mprotect, page, PAGE, protection);
}
static void take_mappings(long left)
{
    char *field = (char *)syscall(SYS_mmap, 0, (size_t)PAGES * PAGE, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    long page = 1;
    while (page < PAGES && protect(field + page * PAGE, PROT_READ) == 0)
        page += 2;
    if (page >= PAGES)
        _exit(9);
    for (long back = 0; back < left; back += 2)
        protect(field + (back + 1) * PAGE, PROT_NONE);
}
int main(int count, char **words)
{
    static char *blocks[PLACES];
    static size_t sizes[PLACES];
    unsigned long state = 88172645463325252UL;
    free(malloc(1 << 20));
    take_mappings(atol(words[1]));
    for (int step = 0; step < 2000; step++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        int place = state % PLACES, is_cleared = state >> 40 & 1;
        size_t size = (64UL << 10) << (state >> 8) % 6;
        for (size_t at = 0; at < sizes[place]; at += PAGE)
            if (blocks[place][at] != (char)place)
                return 3;
        free(blocks[place]);
        char *block = is_cleared ? calloc(1, size) : malloc(size);
        if (block == NULL)
            return 4;
        for (size_t at = 0; is_cleared && at < size; at += 512)
            if (block[at] != 0)
                return 5;
        blocks[place] = memset(block, place, size);
        sizes[place] = size;
    }
    return 0;
}
"""


@pytest.mark.parametrize("left", ["40", "100", "1000"])
@pytest.mark.parametrize("setting", ["fast", "guarded", "faithful"])
def test_a_program_short_of_mappings_is_served(folder: Path, setting: str, left: str) -> None:
    program = compiled(SHORT, folder / "short")
    ended, diagnostics = status(program, left, HOT_MAX="8MiB", HELPER="off", **SETTINGS[setting])
    if ended == 9:
        pytest.skip("the kernel grants more than 100,000 mappings (vm.max_map_count)")
    assert (ended, diagnostics) == (0, "")


def test_running_out_of_memory_is_an_error_as_in_libc() -> None:
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for function in (libc.malloc, libc.calloc, libc.memalign, libc.aligned_alloc, libc.pvalloc):
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2
huge = (1 << 63) - 1
assert libc.malloc(huge, 0) is None and ctypes.get_errno() == 12
assert libc.calloc(huge, 4) is None and ctypes.get_errno() == 12
assert libc.memalign(4096, huge) is None and ctypes.get_errno() == 12
assert libc.pvalloc((1 << 64) - 1, 0) is None and ctypes.get_errno() == 12
place = ctypes.c_void_p()
assert libc.posix_memalign(ctypes.byref(place), 24, ctypes.c_size_t(1 << 20)) == 22
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=loaded(), capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")


STREAMS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static atomic_int is_over;
static void *read_line(void *path)
{
    FILE *file = fopen(path, "r");
    while (file && !is_over) {
        char *line = NULL;
        size_t size = 0;
        rewind(file);
        usleep(1000);
        if (getline(&line, &size, file) < 300000)
            abort();
        free(line);
    }
    return file;
}
static void *flush(void *unused)
{
    while (!is_over) {
        fflush(NULL);
        usleep(1000);
    }
    return unused;
}
int main(int count, char **words)
{
    pthread_t threads[3];
    alarm(200);
    for (int at = 0; at < 3; at++)
        pthread_create(&threads[at], NULL, at == 0 ? flush : read_line, words[1]);
    for (int round = 0; round < 100 * count; round++) {
        pid_t child = fork();
        if (child == 0)
            _exit(fflush(NULL) != 0);
        int ended;
        if (waitpid(child, &ended, 0) < 0 || ended != 0)
            return 2;
    }
    is_over = 1;
    for (int at = 0; at < 3; at++)
        pthread_join(threads[at], NULL);
    return 0;
}
"""


@pytest.mark.parametrize("mode", ["fast", "guarded"])
def test_forks_beside_streams_that_need_memory_do_not_hang(folder: Path, mode: str) -> None:
    program = compiled(STREAMS, folder / "streams")
    (folder / "line").write_text("x" * 300_000 + "\n")
    assert status(program, str(folder / "line"), MODE=mode) == (0, "")


MODULES = (
    "test_mmap",
    pytest.param("test_threading", marks=pytest.mark.long),
    pytest.param("test_subprocess", marks=pytest.mark.long),
)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_pythons_own_tests_pass(module: str, tmp_path: Path) -> None:
    known = subprocess.run(
        [sys.executable, "-c", f"import test.{module}"], capture_output=True, timeout=300
    )
    if known.returncode != 0:
        pytest.skip("this Python comes without its tests")
    command = [sys.executable, "-m", "test", module]
    options: dict[str, Any] = {
        "cwd": tmp_path,
        "capture_output": True,
        "text": True,
        "timeout": 600,
    }
    done = subprocess.run(command, env=loaded(), **options)
    if done.returncode != 0 and subprocess.run(command, **options).returncode != 0:
        pytest.skip(f"{module} fails here without the library, too")
    assert done.returncode == 0, done.stdout[-2000:]


PROGRAMS = {
    "git": 'git -C "$ROOT" log --stat -20',
    "perl": "perl -e 'my $x = \"a\" x 20000000; $x =~ tr/a/b/; print length $x'",
    "sqlite3": "sqlite3 :memory: 'create table t(x); with recursive c(i) as (select 1 union all "
    "select i+1 from c where i < 50000) insert into t select hex(i*i) from c; "
    "select count(*), sum(length(x)) from t order by 1;'",
    "node": "node -e 'let a = []; for (let i = 0; i < 40; i++) { a.push(Buffer.alloc(1 << 20, i)); "
    "if (a.length > 5) a.shift() } console.log(a[0][9])'",
    "sort": "seq 1 300000 | sort -n -S 40M | cksum",
    "xz": "seq 1 200000 | xz -T2 -c | cksum",
    "java": "java -version",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("setting", ["fast", "guarded", "faithful"])
def test_programs_write_the_same_bytes(name: str, setting: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}")
    root = {"ROOT": str(CALLS.parents[1])}
    command = ["sh", "-c", PROGRAMS[name]]
    plain = subprocess.run(command, env={**os.environ, **root}, capture_output=True, timeout=300)
    served = subprocess.run(
        command, env={**loaded(**SETTINGS[setting]), **root}, capture_output=True, timeout=300
    )
    assert (served.returncode, served.stdout) == (plain.returncode, plain.stdout), served.stderr
