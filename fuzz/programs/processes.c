// Operations with children, threads, signals, limits and the C library's own use of memory.
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH_MAX = 2, BACKGROUND_MAX = 4 };
extern char **environ;

static int status_of(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) != child)
        if (errno != EINTR)
            return -1;
    return status;
}

// The child checks its inherited memory and runs the next operations of the script; then the parent runs
// the same operations.
static void act_fork(Worker *worker, const uint64_t *numbers)
{
    if (worker->depth == DEPTH_MAX)
        return;
    pid_t child = fork();
    if (child == 0) {
        worker->depth++;
        report_memory(worker);
        forget_not_inherited(worker->memory);
        run_next(worker, numbers[1] % 12);
        report_memory(worker);
        if (numbers[3] % 2)
            release_memory(worker);
        if (numbers[3] % 8 == 7)
            abort();
        if (numbers[3] % 3)
            _exit((int)(numbers[2] % 50));
        exit((int)(numbers[2] % 50));
    }
    report("status %d", status_of(child));
}

// Several children at the same time, each with its own blocks.
static void act_family(Worker *worker, const uint64_t *numbers)
{
    pid_t children[4];
    for (int child = 0; child < 4; child++)
        if ((children[child] = fork()) == 0) {
            for (size_t round = 0; round < numbers[1] % 20; round++) {
                size_t bytes = 1000 + (numbers[2] >> round) % 300000;
                char *block = calloc(1, bytes);
                if (block == NULL || block[bytes - 1] != 0)
                    _exit(1);
                memset(block, 1, bytes);
                free(block);
            }
            _exit(10 + child);
        }
    for (int child = 0; child < 4; child++)
        report("status %d", status_of(children[child]));
    report_memory(worker);
}

static void act_spawn(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    char bytes[24];
    snprintf(bytes, sizeof bytes, "%lu", 1 + numbers[1] % 1000000);
    char *words[] = {(char *)own_path, "child", bytes, NULL};
    if (numbers[2] % 3 == 0) {
        pid_t child = vfork();
        if (child == 0) {
            if (numbers[2] % 2)
                execl("/bin/true", "true", (char *)NULL);
            _exit((int)(numbers[3] % 100));
        }
        return report("status %d", status_of(child));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1 /* O_WRONLY */, 0);
    pid_t child;
    int result = posix_spawn(&child, own_path, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    report("result %d, status %d", result, result == 0 ? status_of(child) : 0);
}

typedef struct {
    Worker *worker;
    const uint64_t *numbers;
} Started;

static pthread_key_t thread_block;

static void make_key(void) { pthread_key_create(&thread_block, free); }

static void *run_thread(void *argument)
{
    Started *started = argument;
    Worker *worker = started->worker;
    self = worker;
    pthread_setspecific(thread_block, malloc(started->numbers[2] % 500000));
    run_next(worker, started->numbers[1] % 10);
    return (void *)(started->numbers[3] % 7);
}

// The next operations run in a new thread, on a stack of the program or of the C library.
static void act_thread(Worker *worker, const uint64_t *numbers)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    size_t bytes = (size_t)(64 + numbers[3] % 200) * PAGE;
    void *stack = NULL;
    if (numbers[3] % 2) {
        stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        pthread_attr_setstack(&attributes, stack, bytes);
    }
    Started started = {worker, numbers};
    pthread_t thread;
    void *result = NULL;
    int code = pthread_create(&thread, &attributes, run_thread, &started);
    pthread_attr_destroy(&attributes);
    if (code == 0)
        code = pthread_join(thread, &result);
    if (stack != NULL)
        munmap(stack, bytes);
    report("code %d, result %ld", code, (long)result);
}

static void map_in_handler(int signal)
{
    int before = errno;
    size_t bytes = (size_t)(signal == SIGALRM ? 20 : 100) * PAGE;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || memory[bytes / 2] != 0)
        _exit(5);
    memory[bytes / 2] = 1;
    if (munmap(memory, bytes) != 0)
        _exit(6);
    errno = before;
}

static void act_signal(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    struct sigaction action = {.sa_handler = map_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGWINCH, &action, NULL);
    for (size_t times = 0; times < numbers[1] % 5; times++)
        raise(SIGWINCH);
    report("%zu signals", (size_t)(numbers[1] % 5));
}

// A signal whose handler runs on a region, as in programs that survive a stack overflow.
static void act_other_stack(Worker *worker, const uint64_t *numbers)
{
    Region *region = &worker->memory->regions[numbers[0] % SLOTS];
    map_region(region, 32, 6, PROT_READ | PROT_WRITE);
    stack_t stack = {.ss_sp = region->at, .ss_size = 32 * PAGE}, before;
    struct sigaction action = {.sa_handler = map_in_handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGURG, &action, NULL);
    int result = sigaltstack(&stack, &before);
    raise(SIGURG);
    stack.ss_flags = SS_DISABLE;
    report("errno %d, and %d", error_of(result), error_of(sigaltstack(&stack, NULL)));
    unmap_region(region);
}

// The library must not open a file descriptor that the program could notice.
static void act_descriptor(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    if (!is_serial)
        return;
    int first = open("/dev/null", O_RDONLY | O_CLOEXEC);
    void *block = malloc(65536 + numbers[1] % 4000000);
    int second = dup(first);
    free(block);
    report("descriptors %d and %d", first, second);
    close(first);
    close(second);
}

static void *churn(void *argument)
{
    uint64_t state = (uintptr_t)argument;
    for (int round = 0; round < 500; round++) {
        state = mix(state, (uint64_t)round);
        size_t bytes = 60000 + state % 300000;
        char *block = state % 3 ? malloc(bytes) : calloc(1, bytes);
        if (block == NULL || (state % 3 == 0 && block[bytes - 1] != 0))
            abort();
        block[0] = block[bytes - 1] = 1;
        free(block);
    }
    return NULL;
}

// A thread without a join: it runs during the other operations and the end of the program.
static void act_background(Worker *worker, const uint64_t *numbers)
{
    static atomic_int started;
    if (is_serial || worker->depth > 0 || atomic_fetch_add(&started, 1) >= BACKGROUND_MAX)
        return;
    pthread_t thread;
    if (pthread_create(&thread, NULL, churn, (void *)numbers[1]) == 0)
        pthread_detach(thread);
}

static void act_leave(Worker *worker, const uint64_t *numbers)
{
    (void)numbers;
    leaves_main_thread |= worker->depth == 0;
}

// Signals at any moment, until the program ends or the next operation of this kind.
static void act_timer(Worker *worker, const uint64_t *numbers)
{
    // Not in serial scripts: a handler in another thread may map addresses that the script just unmapped.
    if (worker->depth > 0 || is_serial)
        return;
    struct sigaction action = {.sa_handler = map_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct timeval period = {.tv_usec = numbers[1] % 3 ? 700 + (suseconds_t)(numbers[2] % 500) : 0};
    struct itimerval timer = {period, period};
    setitimer(ITIMER_REAL, &timer, NULL);
}

// A limit of address space. With a limit below the present use, no further mapping succeeds; the block is
// larger than any free block of an allocator. With a limit above it, calls work as before.
static void act_limit(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    if (!is_serial)
        return;
    struct rlimit before, limit;
    getrlimit(RLIMIT_AS, &before);
    limit = before;
    int is_wide = numbers[3] % 2;
    limit.rlim_cur = is_wide ? (rlim_t)5 << 29 : PAGE;
    setrlimit(RLIMIT_AS, &limit);
    errno = 0;
    void *block = malloc((is_wide ? 70000 : 100u << 20) + numbers[1] % 4096);
    int block_errno = errno;
    void *pages = mmap(NULL, (16 + numbers[2] % 999) * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0);
    int pages_errno = error_of((long)pages);
    if (pages_errno == 0)
        munmap(pages, (16 + numbers[2] % 999) * PAGE);
    setrlimit(RLIMIT_AS, &before);
    report("block %d, errno %d; pages: errno %d", block != NULL, block_errno, pages_errno);
    free(block);
}

static void act_lock_all(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    if (!is_serial)
        return;
    int result = mlockall(numbers[1] % 2 ? MCL_CURRENT : MCL_FUTURE);
    char *block = malloc(70000 + numbers[2] % 900000);
    block[0] = 1;
    free(block);
    report("errno %d, and %d", error_of(result), error_of(munlockall()));
}

static int ascending(const void *left, const void *right)
{
    int first = *(const int *)left, second = *(const int *)right;
    return (first > second) - (first < second);
}

// Functions of the C library that allocate memory.
static void act_library(Worker *worker, const uint64_t *numbers)
{
    (void)worker;
    size_t count = 1000 + numbers[2] % 60000, bytes;
    char *text;
    switch (numbers[1] % 3) {
    case 0: {
        int *values = malloc(count * sizeof *values);
        for (size_t at = 0; at < count; at++)
            values[at] = (int)mix(numbers[3], at);
        qsort(values, count, sizeof *values, ascending);
        report("sorted %d to %d", values[0], values[count - 1]);
        return free(values);
    }
    case 1: {
        FILE *stream = open_memstream(&text, &bytes);
        for (size_t at = 0; at < count; at++)
            fprintf(stream, "%zu ", at);
        fclose(stream);
        report("%zu characters, the last %d", bytes, text[bytes - 2]);
        return free(text);
    }
    default: {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        report("loaded %d, closed %d", library != NULL, dlclose(library));
    }
    }
}

const Kind PROCESS_KINDS[] = {
    {"fork", act_fork}, {"family", act_family}, {"spawn", act_spawn}, {"thread", act_thread},
    {"signal", act_signal}, {"timer", act_timer}, {"limit", act_limit},
    {"lock_all", act_lock_all}, {"library", act_library}, {"other_stack", act_other_stack},
    {"descriptor", act_descriptor},
    {"background", act_background}, {"leave", act_leave}, {NULL, NULL},
};
