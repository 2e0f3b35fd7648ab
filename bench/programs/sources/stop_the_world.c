/* A collector that stops the world as those of Boehm, SBCL and Mono: a signal suspends each thread at any instruction,
   even inside malloc or munmap. The collector then maps and unmaps memory, and must not wait for a suspended thread.
   It calls libc's mmap, munmap, mremap and madvise, and never takes malloc's own lock.
   Usage: stop_the_world ROUNDS */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 4, KEPT = 6, SUSPEND = SIGUSR1, RESUME = SIGUSR2 };

static sem_t acknowledged;
static atomic_int stopped_world; /* the number of the stop, 0 while the world runs */
static atomic_int is_over;
static atomic_long operations;

/* Waits inside the handler until the world runs again, as Boehm's GC_suspend_handler does. */
static void suspended(int number)
{
    int saved = errno, stop = atomic_load(&stopped_world);
    sigset_t all_but_resume;
    (void)number;
    sem_post(&acknowledged);
    sigfillset(&all_but_resume);
    sigdelset(&all_but_resume, RESUME);
    while (stop != 0 && atomic_load(&stopped_world) == stop)
        sigsuspend(&all_but_resume);
    sem_post(&acknowledged);
    errno = saved;
}

static void resumed(int number)
{
    (void)number;
}

static void fail(const char *what)
{
    fprintf(stderr, "stop_the_world: %s\n", what);
    _exit(1);
}

static void *map(size_t size)
{
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap refuses");
    if (memory[0] != 0 || memory[size - 1] != 0)
        fail("a mapping is not zero");
    return memory;
}

static void *mutate(void *argument)
{
    unsigned state = (unsigned)(size_t)argument * 77 + 1;
    char *kept[KEPT] = {0};
    size_t sizes[KEPT] = {0};
    while (!atomic_load(&is_over)) {
        state = state * 1103515245 + 12345;
        size_t size = 65536 + (state >> 8) % 400000, at = (state >> 4) % KEPT;
        if (kept[at] != NULL && kept[at][sizes[at] - 1] != (char)at)
            fail("a block has changed");
        switch ((state >> 16) & 3) {
        case 0: {
            char *mapped = map(size);
            mapped[0] = mapped[size - 1] = 1;
            if (munmap(mapped, size) != 0)
                fail("munmap refuses");
            continue;
        }
        case 1:
            kept[at] = realloc(kept[at], size);
            break;
        case 2:
            free(kept[at]);
            kept[at] = calloc(1, size);
            if (kept[at] == NULL || kept[at][size / 2] != 0)
                fail("calloc gives no zeros");
            break;
        default:
            free(kept[at]);
            kept[at] = malloc(size);
        }
        if (kept[at] == NULL)
            fail("no memory");
        kept[at][0] = kept[at][size - 1] = (char)at;
        sizes[at] = size;
        atomic_fetch_add(&operations, 1);
    }
    for (int at = 0; at < KEPT; at++)
        free(kept[at]);
    return NULL;
}

/* What a collector does while no other thread runs. */
static void collect(int round)
{
    size_t size = (1 << 20) + (size_t)(round % 7) * 65536;
    char *memory = map(size);
    memory[5] = 1;
    memory = mremap(memory, size, 2 * size, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED || memory[5] != 1)
        fail("mremap loses memory");
    if (madvise(memory, 4096, MADV_DONTNEED) != 0 || memory[5] != 0)
        fail("madvise keeps memory");
    if (mprotect(memory, size, PROT_READ) != 0 || munmap(memory, 2 * size) != 0)
        fail("munmap refuses");
}

static void signal_all(const pthread_t *threads, int number)
{
    for (int at = 0; at < THREADS; at++)
        pthread_kill(threads[at], number);
    for (int at = 0; at < THREADS; at++)
        while (sem_wait(&acknowledged) != 0)
            continue;
}

int main(int count, char **words)
{
    int rounds = count > 1 ? atoi(words[1]) : 300;
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = suspended, .sa_flags = SA_RESTART};
    sem_init(&acknowledged, 0, 0);
    sigfillset(&action.sa_mask);
    sigaction(SUSPEND, &action, NULL);
    action.sa_handler = resumed;
    sigaction(RESUME, &action, NULL);
    for (size_t at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, mutate, (void *)at);
    for (int round = 1; round <= rounds; round++) {
        /* The threads get some way between two stops. */
        long seen = atomic_load(&operations);
        while (atomic_load(&operations) < seen + 8)
            usleep(50);
        atomic_store(&stopped_world, round);
        signal_all(threads, SUSPEND);
        collect(round);
        atomic_store(&stopped_world, 0);
        signal_all(threads, RESUME);
    }
    atomic_store(&is_over, 1);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    printf("finished %d\n", rounds);
    return 0;
}
