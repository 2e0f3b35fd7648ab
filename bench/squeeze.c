/* Programs that hold memory in ways that mislead a low-memory killer. Each prints "ready" once it holds the
 * memory, then waits.
 *
 *   hog MIB [KIB_PER_MS]      private memory, at a rate
 *   headless MIB KIB_PER_MS   private memory, taken by a thread after the main thread has ended
 *   server MIB FORKS          private memory, then forks that share it
 *   crew MIB FORKS            takes its memory in FORKS steps, and forks after each
 *   shared MIB FORKS          shared memory without a name, then forks that map it
 *   pieces MIB KIB_PER_MS     shared memory without a name, in pieces of 1 MiB
 *   pool MIB FORKS            as shared, but a thread forks, after 8 children that run another program, and
 *                             half a GiB of shared memory stays untouched
 *   vfork MIB                 private memory, then a child between vfork and exec
 *   siblings MIB COUNT        private memory, and siblings that share the address space
 *   respawn MIB KIB_PER_MS    a parent whose child takes private memory; restarts a killed child
 *   file PATH MIB [KIB_PER_MS]
 *                             a file, for instance in tmpfs
 *   crowd COUNT KIB           COUNT processes, each with its own private memory
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void ready(void)
{
    if (write(1, "ready\n", 6) != 6)
        exit(1);
}

static void wait_forever(void)
{
    for (;;)
        pause();
}

static char *mapped(size_t bytes, int flags)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

#define STEP (64 << 10)

/* The pause after each step of memory. A rate of 0 means as fast as possible. */
static void pause_after_step(size_t kib_per_ms)
{
    if (kib_per_ms > 0) {
        struct timespec pause = {0, (long)((STEP >> 10) * 1000000 / kib_per_ms)};
        nanosleep(&pause, NULL);
    }
}

static void fill(char *at, size_t bytes, size_t kib_per_ms)
{
    for (size_t done = 0; done < bytes; done += STEP) {
        memset(at + done, 1, bytes - done < STEP ? bytes - done : STEP);
        pause_after_step(kib_per_ms);
    }
}

static void hold(size_t bytes, size_t kib_per_ms)
{
    fill(mapped(bytes, MAP_PRIVATE), bytes, kib_per_ms);
}

struct amount {
    size_t bytes, kib_per_ms;
};

static void *hold_in_thread(void *amount)
{
    struct amount *wanted = amount;
    hold(wanted->bytes, wanted->kib_per_ms);
    wait_forever();
    return NULL;
}

static void headless(size_t bytes, size_t kib_per_ms)
{
    static struct amount wanted;
    pthread_t thread;
    wanted = (struct amount){bytes, kib_per_ms};
    if (pthread_create(&thread, NULL, hold_in_thread, &wanted) != 0)
        fail("pthread_create");
    ready();
    pthread_exit(NULL);
}

static void idle_forks(int count)
{
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0)
            wait_forever();
    }
}

static void *fork_in_thread(void *count)
{
    idle_forks(*(int *)count);
    wait_forever();
    return NULL;
}

static void pool(size_t bytes, int count)
{
    static int forks;
    pthread_t thread;
    fill(mapped(bytes, MAP_SHARED), bytes, 0);
    for (int i = 0; i < 8; i++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            execlp("sleep", "sleep", "1000", NULL);
            fail("sleep");
        }
    }
    forks = count;
    if (pthread_create(&thread, NULL, fork_in_thread, &forks) != 0)
        fail("pthread_create");
    mapped(512 << 20, MAP_SHARED);
    /* Until then the programs have started, and the forks wait. */
    usleep(300000);
}

static int sibling(void *unused)
{
    (void)unused;
    wait_forever();
    return 0;
}

static void siblings(int count)
{
    for (int i = 0; i < count; i++) {
        char *stack = mapped(64 << 10, MAP_PRIVATE | MAP_STACK);
        if (clone(sibling, stack + (64 << 10), CLONE_VM | CLONE_PARENT | SIGCHLD, NULL) < 0)
            fail("clone");
    }
}

/* Each child takes the memory once; the parent restarts a killed child. */
static void respawn(size_t bytes, size_t kib_per_ms)
{
    ready();
    for (;;) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            hold(bytes, kib_per_ms);
            wait_forever();
        }
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
        /* A supervisor pauses before a restart, too. */
        usleep(200000);
    }
}

static void write_file(const char *path, size_t bytes, size_t kib_per_ms)
{
    static char block[STEP];
    memset(block, 1, sizeof block);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0)
        fail(path);
    for (size_t done = 0; done < bytes; done += sizeof block) {
        if (write(file, block, sizeof block) < 0)
            fail(path);
        pause_after_step(kib_per_ms);
    }
}

int main(int count, char **words)
{
    const char *role = count > 2 ? words[1] : "";
    size_t mib = count > 2 ? strtoul(words[2], NULL, 10) : 0;
    size_t more = count > 3 ? strtoul(words[3], NULL, 10) : 0;
    if (!strcmp(role, "hog")) {
        hold(mib << 20, more);
    } else if (!strcmp(role, "headless")) {
        headless(mib << 20, more);
    } else if (!strcmp(role, "server")) {
        hold(mib << 20, 0);
        idle_forks((int)more);
    } else if (!strcmp(role, "crew")) {
        for (size_t fork_number = 0; fork_number < more; fork_number++) {
            hold((mib << 20) / more, 8192);
            idle_forks(1);
        }
    } else if (!strcmp(role, "shared")) {
        fill(mapped(mib << 20, MAP_SHARED), mib << 20, more ? 0 : 8192);
        idle_forks((int)more);
    } else if (!strcmp(role, "pieces")) {
        for (size_t piece = 0; piece < mib; piece++)
            fill(mapped(1 << 20, MAP_SHARED), 1 << 20, more);
    } else if (!strcmp(role, "pool")) {
        pool(mib << 20, (int)more);
    } else if (!strcmp(role, "vfork")) {
        hold(mib << 20, 0);
        ready();
        if (vfork() == 0)
            wait_forever();
    } else if (!strcmp(role, "siblings")) {
        hold(mib << 20, 0);
        siblings((int)more);
    } else if (!strcmp(role, "respawn")) {
        respawn(mib << 20, more);
    } else if (!strcmp(role, "file") && count > 3) {
        write_file(words[2], more << 20, count > 4 ? strtoul(words[4], NULL, 10) : 0);
    } else if (!strcmp(role, "crowd")) {
        for (size_t i = 0; i < mib; i++) {
            pid_t child = fork();
            if (child < 0)
                fail("fork");
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                hold(more << 10, 0);
                wait_forever();
            }
        }
    } else {
        fprintf(stderr, "usage: see the head of squeeze.c\n");
        return 2;
    }
    ready();
    wait_forever();
}
