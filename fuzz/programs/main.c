// Reads a script and runs its operations in threads: one after the other (`serial`), or all threads at
// the same time (`parallel`), while a collector stops all threads now and then.
//
//     program SCRIPT
//
// The first line of a script is "serial|parallel WORKERS COLLECTIONS", each other line "INDEX WORKER KIND
// NUMBERS".
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OPERATIONS_MAX = 20000, SCRIPT_MAX = 2 << 20 };

int is_serial, leaves_main_thread;
const char *own_path;
__thread Worker *self;

static char script[SCRIPT_MAX];
static Operation operations[OPERATIONS_MAX];
static size_t operation_count;
static Worker workers[WORKERS_MAX];
static Memory memories[WORKERS_MAX];
static int worker_count;
static long collections;

static __thread sigjmp_buf escape;
static __thread volatile sig_atomic_t is_guarded;
static __thread Outcome outcome;
static __thread const char *accessed;

void report(const char *format, ...)
{
    char line[512];
    const Operation *current = self->current;
    int length = snprintf(line, sizeof line, "%d.%d %d %s: ", self->number, self->depth,
                          current ? current->index : OPERATIONS_MAX,
                          current ? current->kind->name : "end");
    va_list values;
    va_start(values, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, values);
    va_end(values);
    line[length++] = '\n';
    int before = errno;
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(3);
    errno = before;
}

uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15;
    return hash ^ hash >> 29;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (!is_guarded) {
        // An access that must not fault: the exit status has the signal.
        report("unexpected signal %d, code %d", signal, info->si_code);
        struct sigaction usual = {.sa_handler = SIG_DFL};
        sigaction(signal, &usual, NULL);
        raise(signal);
        return;
    }
    outcome = (Outcome){signal, info->si_code, (const char *)info->si_addr - accessed};
    siglongjmp(escape, 1);
}

Outcome load(const char *address, uint64_t *value)
{
    accessed = address;
    outcome = (Outcome){0};
    if (sigsetjmp(escape, 0) == 0) {
        is_guarded = 1;
        *value = *(const volatile uint64_t *)address;
    }
    is_guarded = 0;
    return outcome;
}

Outcome store(char *address, uint64_t value)
{
    accessed = address;
    outcome = (Outcome){0};
    if (sigsetjmp(escape, 0) == 0) {
        is_guarded = 1;
        *(volatile uint64_t *)address = value;
    }
    is_guarded = 0;
    return outcome;
}

// The kind of operation with this name, from the tables of all files.
static const Kind *kind_of(const char *name)
{
    const Kind *const families[] = {BLOCK_KINDS, MAP_KINDS, HOLE_KINDS, PROCESS_KINDS};
    for (size_t family = 0; family < sizeof families / sizeof *families; family++)
        for (const Kind *kind = families[family]; kind->name != NULL; kind++)
            if (strcmp(kind->name, name) == 0)
                return kind;
    dprintf(STDERR_FILENO, "unknown operation %s\n", name);
    exit(2);
}

static void read_script(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, script, sizeof script - 1);
    char pace[16], name[32];
    char *line = strtok(script, "\n");
    if (length <= 0 || sscanf(line, "%15s %d %ld", pace, &worker_count, &collections) != 3 ||
        worker_count < 1 || worker_count > WORKERS_MAX) {
        dprintf(STDERR_FILENO, "no script in %s\n", path);
        exit(2);
    }
    close(file);
    is_serial = strcmp(pace, "serial") == 0;
    while ((line = strtok(NULL, "\n")) != NULL && operation_count < OPERATIONS_MAX) {
        Operation *next = &operations[operation_count];
        uint64_t *numbers = next->numbers;
        if (sscanf(line, "%d %d %31s %lu %lu %lu %lu", &next->index, &next->worker, name,
                   &numbers[0], &numbers[1], &numbers[2], &numbers[3]) != 7)
            exit(2);
        next->worker %= worker_count;
        next->kind = kind_of(name);
        operation_count++;
    }
}

static void act(Worker *worker, const Operation *operation)
{
    worker->current = operation;
    self = worker;
    operation->kind->act(worker, operation->numbers);
}

// The worker's next operation after the current one.
static const Operation *next_of(const Worker *worker)
{
    const Operation *next = worker->current ? worker->current + 1 : operations;
    while (next < operations + operation_count && !is_serial && next->worker != worker->number)
        next++;
    return next < operations + operation_count ? next : NULL;
}

void run_next(Worker *worker, size_t count)
{
    const Operation *next;
    for (; count > 0 && (next = next_of(worker)) != NULL; count--)
        act(worker, next);
}

static void finish(Worker *worker)
{
    self = worker;
    worker->current = NULL;
    report_memory(worker);
    release_memory(worker);
}

// ----- parallel, and the collector -----

static sem_t acknowledged;
static atomic_int is_world_stopped;
static pthread_t threads[WORKERS_MAX];
static pthread_barrier_t all_done;

static void stop_here(int signal)
{
    (void)signal;
    int before = errno;
    sem_post(&acknowledged);
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, SIGUSR2);
    while (atomic_load(&is_world_stopped))
        sigsuspend(&others);
    sem_post(&acknowledged);
    errno = before;
}

static void wake_up(int signal) { (void)signal; }

static void await_all(void)
{
    for (int worker = 0; worker < worker_count; worker++)
        while (sem_wait(&acknowledged) != 0) {}
}

// Like a garbage collector: stops all threads at any point while it maps memory.
static void collect(long round)
{
    atomic_store(&is_world_stopped, 1);
    for (int worker = 0; worker < worker_count; worker++)
        pthread_kill(threads[worker], SIGUSR1);
    await_all();
    size_t bytes = (size_t)PAGE << (round % 10);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(4);
    memory[bytes - 1] = 1;
    if (round % 3 == 0)
        mprotect(memory, bytes, PROT_READ);
    if (round % 3 == 1)
        memory = mremap(memory, bytes, 2 * bytes, MREMAP_MAYMOVE), bytes *= 2;
    if (memory == MAP_FAILED || madvise(memory, bytes, MADV_DONTNEED) != 0)
        _exit(4);
    munmap(memory, bytes);
    atomic_store(&is_world_stopped, 0);
    for (int worker = 0; worker < worker_count; worker++)
        pthread_kill(threads[worker], SIGUSR2);
    await_all();
}

static void *run_parallel(void *argument)
{
    Worker *worker = argument;
    self = worker;
    run_next(worker, OPERATIONS_MAX);
    finish(worker);
    pthread_barrier_wait(&all_done);
    return NULL;
}

static void parallel(void)
{
    sem_init(&acknowledged, 0, 0);
    pthread_barrier_init(&all_done, NULL, (unsigned)worker_count + 1);
    struct sigaction action = {.sa_handler = stop_here, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = wake_up;
    sigaction(SIGUSR2, &action, NULL);
    for (int worker = 0; worker < worker_count; worker++)
        if (pthread_create(&threads[worker], NULL, run_parallel, &workers[worker]) != 0)
            _exit(4);
    for (long round = 0; round < collections; round++)
        collect(round);
    pthread_barrier_wait(&all_done);
    for (int worker = 0; worker < worker_count; worker++)
        pthread_join(threads[worker], NULL);
}

// ----- serial: each operation in its worker's thread, all on the same memory -----

static struct {
    pthread_mutex_t lock;
    pthread_cond_t has_changed;
    const Operation *next;
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER, .has_changed = PTHREAD_COND_INITIALIZER};

static void *run_serial(void *argument)
{
    Worker *worker = argument;
    const Operation *end = operations + operation_count;
    pthread_mutex_lock(&turn.lock);
    while (turn.next < end) {
        if (turn.next->worker != worker->number) {
            pthread_cond_wait(&turn.has_changed, &turn.lock);
            continue;
        }
        act(worker, turn.next);
        // An operation may have run further operations.
        turn.next = worker->current + 1;
        pthread_cond_broadcast(&turn.has_changed);
    }
    pthread_mutex_unlock(&turn.lock);
    return NULL;
}

static void serial(void)
{
    turn.next = operations;
    for (int worker = 1; worker < worker_count; worker++)
        if (pthread_create(&threads[worker], NULL, run_serial, &workers[worker]) != 0)
            _exit(4);
    run_serial(&workers[0]);
    for (int worker = 1; worker < worker_count; worker++)
        pthread_join(threads[worker], NULL);
    finish(&workers[0]);
}

int main(int count, char **words)
{
    own_path = words[0];
    if (count == 3)  // A child of the operation `spawn`.
        return puts("child") == EOF || malloc(strtoul(words[2], NULL, 10)) == NULL;
    if (count != 2)
        return 2;
    read_script(words[1]);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    for (int worker = 0; worker < worker_count; worker++)
        workers[worker] = (Worker){.number = worker, .memory = &memories[is_serial ? 0 : worker]};
    (is_serial ? serial : parallel)();
    if (leaves_main_thread)
        pthread_exit(NULL);
    return 0;
}
