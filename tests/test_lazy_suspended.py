"""Programs that suspend their threads by signals and then map memory, as garbage collectors do."""

import pytest
from lazy_programs import NEEDED, compiled, status

pytestmark = NEEDED

# Threads allocate and map in a loop. The collector suspends them at any instruction, makes every
# memory call, and resumes them. If a call waits for a suspended thread, SIGALRM ends the program.
COLLECTOR = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { THREADS = 4, LENGTH = 1 << 20 };
static sem_t reports;
static atomic_int is_stopped;
static void suspend(int signal)
{
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, SIGUSR2);
    sem_post(&reports);
    while (atomic_load(&is_stopped))
        sigsuspend(&others);
    sem_post(&reports);
}
static void resume(int signal) { }
static char *map(void *place, size_t length, int flags)
{
    return mmap(place, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}
static void *mutate(void *seed)
{
    unsigned state = (unsigned)(long)seed * 77 + 1;
    for (;;) {
        state = state * 1103515245 + 12345;
        size_t length = 65536 + (state >> 8) % 400000;
        char *data = state >> 3 & 1 ? malloc(length) : map(NULL, length, 0);
        data[0] = data[length - 1] = 1;
        if (state >> 3 & 1)
            free(data);
        else
            munmap(data, length);
    }
    return NULL;
}
static void wait_for_threads(void)
{
    for (int thread = 0; thread < THREADS; thread++)
        while (sem_wait(&reports) != 0)
            ;
}
static void check(int is_right, int line)
{
    if (!is_right)
        _exit(line % 100 + 100);
}
#define CHECK(condition) check(condition, __LINE__)
static void collect(void)
{
    char *data = map(NULL, LENGTH, 0);
    CHECK(data != MAP_FAILED && data[LENGTH - 1] == 0);
    memset(data, 7, LENGTH);
    CHECK(mprotect(data, LENGTH / 2, PROT_READ) == 0);
    CHECK(madvise(data + LENGTH / 2, LENGTH / 4, MADV_DONTNEED) == 0 && data[LENGTH / 2] == 0);
    CHECK(map(data + LENGTH / 4, LENGTH / 4, MAP_FIXED) == data + LENGTH / 4);
    CHECK(data[0] == 7 && data[LENGTH / 4] == 0);
    char *moved = mremap(data, LENGTH / 4, LENGTH / 2, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && moved[0] == 7 && moved[LENGTH / 2 - 1] == 0);
    CHECK(munmap(data, LENGTH) == 0 || moved == data);
    /* The unmapped range is free, so it can be mapped again at the same address. */
    if (moved < data || moved >= data + LENGTH) {
        CHECK(map(data, LENGTH / 2, MAP_FIXED) == data && data[0] == 0);
        memset(data, 9, LENGTH / 2);
        CHECK(data[LENGTH / 2 - 1] == 9 && munmap(data, LENGTH / 2) == 0);
        CHECK(munmap(moved, LENGTH / 2) == 0);
    }
}
int main(int count, char **words)
{
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = suspend, .sa_flags = SA_RESTART};
    sem_init(&reports, 0, 0);
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGALRM);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = resume;
    sigaction(SIGUSR2, &action, NULL);
    for (long thread = 0; thread < THREADS; thread++)
        pthread_create(&threads[thread], NULL, mutate, (void *)thread);
    for (int round = 0; round < atoi(words[1]); round++) {
        alarm(60);
        atomic_store(&is_stopped, 1);
        for (int thread = 0; thread < THREADS; thread++)
            pthread_kill(threads[thread], SIGUSR1);
        wait_for_threads();
        collect();
        atomic_store(&is_stopped, 0);
        for (int thread = 0; thread < THREADS; thread++)
            pthread_kill(threads[thread], SIGUSR2);
        wait_for_threads();
    }
    _exit(0);
}
"""

SETTINGS = {
    "fast": {},
    "guarded": {"MODE": "guarded"},
    "thp": {"MODE": "thp"},
    "faithful": {"PROFILE": "faithful"},
    "hasty": {"HOT_MAX": "1MiB", "LAZY_AFTER": "1ms", "DISCARD_AFTER": "3ms", "HELPER": "off"},
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_collector_maps_memory_without_waiting_for_suspended_threads(
    tmp_path_factory: pytest.TempPathFactory, setting: str
) -> None:
    program = compiled(COLLECTOR, tmp_path_factory.getbasetemp() / "collector")
    assert status(program, "300", **SETTINGS[setting]) == (0, "")
