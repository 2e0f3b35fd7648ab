"""Programs that a library with its own thread and lock could break: they end the main thread, enter
namespaces, forbid system calls, cancel threads, or fork with handlers."""

import os
import subprocess
from pathlib import Path

import pytest
from lazy_programs import AGENT, HUNG_S, NEEDED, compiled, status

pytestmark = NEEDED

# Frees so much that the library starts its thread at the next call.
FREES = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void free_some(void)
{
    for (int round = 0; round < 20; round++) {
        char *volatile block = malloc((4 + round % 3) << 20);
        memset(block, 1, 4 << 20);
        free(block);
    }
}
"""

MAIN_ENDS = r"""
static void *work(void *unused)
{
    free_some();
    usleep(1000);
    free_some();
    return unused;
}
int main(int count, char **words)
{
    pthread_t thread;
    free_some();
    if (words[1][0] == 'c') {
        pid_t child = fork();
        int ended;
        if (child > 0)
            return waitpid(child, &ended, 0) != child || ended != 0;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        free_some();
    }
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        return count;
    pthread_exit(NULL);
}
"""


@pytest.mark.parametrize("who", ["program", "child"])
def test_a_program_ends_with_its_last_thread(tmp_path: Path, who: str) -> None:
    program = compiled(FREES + MAIN_ENDS, tmp_path / "ends")
    assert status(program, who) == (0, "")


NAMESPACES = r"""
int main(void)
{
    int mounts = open("/proc/self/ns/mnt", O_RDONLY);
    free_some();
    int is_refused = getenv("LD_PRELOAD") == NULL ? 9 : 1;
    if (setns(mounts, CLONE_NEWNS) != 0)
        return is_refused;
    free_some();
    return unshare(CLONE_NEWUSER) == 0 ? 0 : is_refused;
}
"""


def test_a_program_with_one_thread_enters_namespaces(tmp_path: Path) -> None:
    program = compiled(FREES + NAMESPACES, tmp_path / "namespaces")
    if status(program, SWITCH="off")[0] != 0:
        pytest.skip("no namespaces here: needs root, or a kernel that allows them to users")
    assert status(program) == (0, "")


# Two children in which no fork handler runs: the first has its own memory, the second the parent's.
RAW_CHILDREN = r"""
static void confine(int kinds)
{
    alarm(60);
    _exit(unshare(kinds) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0);
}
static int ends_well(pid_t child)
{
    int ended;
    return child > 0 && waitpid(child, &ended, 0) == child && ended == 0;
}
int main(void)
{
    free_some();
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        confine(CLONE_VM);
    if (!ends_well(child))
        return 2;
    child = vfork();
    if (child == 0)
        confine(0);
    if (!ends_well(child))
        return 3;
    free_some();
    return 0;
}
"""


def test_a_child_made_without_fork_handlers_gives_up_rights(tmp_path: Path) -> None:
    program = compiled(FREES + RAW_CHILDREN, tmp_path / "children")
    assert status(program) == (0, "")


CONFINED = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#define KILLS(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
int main(int count, char **words)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILLS(mincore), KILLS(openat), KILLS(clone), KILLS(clone3), KILLS(ppoll), KILLS(prctl),
        KILLS(pread64), KILLS(close), KILLS(close_range), KILLS(eventfd2), KILLS(gettid),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (words[1][0] == 'l')
        free_some();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        return 9;
    free_some();
    usleep(1200000);
    free_some();
    _exit(count != 2);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["at first", "later"])
def test_a_program_that_forbids_system_calls_keeps_running(tmp_path: Path, when: str) -> None:
    program = compiled(FREES + CONFINED, tmp_path / "confined")
    ended, diagnostics = status(program, "first" if when == "at first" else "later")
    if ended == 9:
        pytest.skip("the kernel has no filters of system calls")
    assert (ended, diagnostics) == (0, "")


CANCELLED = r"""
static int is_ready[2];
static void *block;
static void *work(void *unused)
{
    char byte;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    if (read(is_ready[0], &byte, 1) != 1)
        return unused;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    block = malloc(1 << 20);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return &block;
}
int main(void)
{
    pthread_t thread;
    void *ended;
    if (pipe(is_ready) != 0 || pthread_create(&thread, NULL, work, NULL) != 0)
        return 2;
    pthread_cancel(thread);
    if (write(is_ready[1], "", 1) != 1 || pthread_join(thread, &ended) != 0)
        return 3;
    free_some();
    return ended != &block || block == NULL;
}
"""


def test_no_thread_is_cancelled_while_it_asks_for_memory(tmp_path: Path) -> None:
    program = compiled(FREES + CANCELLED, tmp_path / "cancelled")
    assert status(program) == (0, "")


# A library that registers its handlers before the preload library's constructor runs.
HANDLERS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { SIZE = 100000 };
static char *block;
pthread_mutex_t handlers_lock = PTHREAD_MUTEX_INITIALIZER;
static void use(void)
{
    block = realloc(block, 2 * SIZE);
    if (block == NULL || block[SIZE - 1] != 5)
        _exit(6);
    block = realloc(memset(block, 5, SIZE), SIZE);
}
static void prepare(void)
{
    pthread_mutex_lock(&handlers_lock);
    use();
}
static void release(void)
{
    use();
    pthread_mutex_unlock(&handlers_lock);
}
void start(void)
{
    block = memset(malloc(SIZE), 5, SIZE);
}
__attribute__((constructor)) static void watch(void)
{
    pthread_atfork(prepare, release, release);
}
"""
FORKS = r"""
extern void start(void);
extern pthread_mutex_t handlers_lock;
static int is_over;
static void *work(void *unused)
{
    int is_last = 0;
    while (!is_last) {
        pthread_mutex_lock(&handlers_lock);
        char *volatile block = malloc(100000);
        block[5] = 1;
        free(block);
        is_last = is_over;
        pthread_mutex_unlock(&handlers_lock);
    }
    return unused;
}
int main(void)
{
    pthread_t thread;
    start();
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        return 2;
    for (int round = 0; round < 200; round++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        int ended;
        if (waitpid(child, &ended, 0) != child || ended != 0)
            return 3;
    }
    pthread_mutex_lock(&handlers_lock);
    is_over = 1;
    pthread_mutex_unlock(&handlers_lock);
    return pthread_join(thread, NULL);
}
"""


@pytest.mark.parametrize("mode", ["fast", "guarded"])
def test_handlers_of_forks_may_allocate_and_wait_for_threads_that_allocate(
    tmp_path: Path, mode: str
) -> None:
    library = compiled(HANDLERS, tmp_path / "libhandlers.so", "-shared", "-fPIC")
    found = [f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", f"-l{library.stem.removeprefix('lib')}"]
    program = compiled(FREES + FORKS, tmp_path / "forks", *found)
    assert status(program, MODE=mode) == (0, "")


# What a caller may do before it starts a command.
CALLERS = {
    "nothing": ":",
    "no SIGPIPE": "trap '' PIPE",
    "no signals": "trap '' HUP INT QUIT TERM",
    "no input": "exec <&-",
    "no output": "exec >&-",
    "no errors": "exec 2>&-",
    "nothing open": "trap '' PIPE; exec <&- >&- 2>&-",
}
# The digits of signals 1 to 28: what posix_spawn starts ignores signals 32 and 33.
REPORT = """
grep SigIgn /proc/$$/status | grep -o '.......$' >report
for stream in 0 1 2; do test ! -e /proc/$$/fd/$stream || echo $stream >>report; done
"""
STARTS = [
    ["lazy", "--"],
    ["lazy", "--mode", "guarded", "--"],
    ["record", "--allocations", "-o", "recorded", "--"],
    ["record", "--allocations", "--json", "-o", "recorded", "--"],
]


def report_of(folder: Path, caller: str, start: list[str], switch: str = "on") -> list[str]:
    """The signals that a command ignores, and its standard streams, if started so."""
    script = f'{CALLERS[caller]}; exec "$@" sh -c "$REPORT"'
    subprocess.run(
        ["sh", "-c", script, "sh", *start],
        cwd=folder,
        env={**os.environ, "REPORT": REPORT, "PAGEWISE_LAZY_SWITCH": switch},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=HUNG_S,
    )
    return (folder / "report").read_text().split()


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("start", STARTS, ids=" ".join)
@pytest.mark.parametrize("switch", ["on", "off"])
def test_a_command_gets_ignored_signals_and_streams_as_its_caller_left_them(
    tmp_path: Path, caller: str, start: list[str], switch: str
) -> None:
    expected = report_of(tmp_path, caller, ["env"])
    assert (expected == report_of(tmp_path, "nothing", ["env"])) == (caller == "nothing")
    given = report_of(tmp_path, caller, [str(AGENT), *start], switch)
    if "--json" in start:
        # The report needs standard output, so the command has standard error in its place.
        expected = [expected[0], *sorted({*expected[1:], "1"})]
    assert given == expected
