// A filler like lab/python/need.py, for guests without Python: 70 % of its memory is private, the
// rest are pages of a file that it maps and reads. It is launched once it holds all of it.
//
//   filler make FILE KIB        writes the file of a filler of that size, with unique content
//   filler launch KIB FILE      takes the memory, and prints what that took as words NAME=VALUE
//   filler hold KIB ADJ THREADS takes private memory only, prints "ready", and keeps it
//   filler leave KIB ADJ THREADS does the same, but its first thread exits, not the others
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, KIB = 1024, WORDS = PAGE / 8 };

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

// Content that differs from page to page.
static void fill(uint64_t *page, uint64_t number) {
    uint64_t state = number * 0x9e3779b97f4a7c15ull + 1;
    for (int word = 0; word < WORDS; word++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        page[word] = state;
    }
}

static size_t file_bytes(size_t kib) { return kib * 3 / 10 / 4 * PAGE; }

static void make(const char *path, size_t kib) {
    static uint64_t page[WORDS];
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0) fail(path);
    for (size_t at = 0; at < file_bytes(kib); at += PAGE) {
        fill(page, at);
        if (write(file, page, PAGE) != PAGE) fail(path);
    }
    if (fsync(file)) fail(path);
}

// Copies a page into each of its own, so that the time is that of taking memory.
static void take(size_t bytes) {
    static uint64_t seed[WORDS];
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    fill(seed, 0);
    for (size_t at = 0; at + PAGE <= bytes; at += PAGE) {
        memcpy(memory + at, seed, PAGE);
        *(uint64_t *)(memory + at) = at;
    }
}

static uint64_t sum_of(const char *path, size_t bytes) {
    int file = open(path, O_RDONLY);
    if (file < 0) fail(path);
    const uint64_t *words = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (words == MAP_FAILED) fail(path);
    uint64_t sum = 0;
    for (size_t at = 0; at < bytes / 8; at++) sum += words[at];
    return sum;
}

// How long this process ran, and waited for the processor, in nanoseconds.
static void scheduled(uint64_t *run_ns, uint64_t *queue_ns) {
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (!file || fscanf(file, "%lu %lu", run_ns, queue_ns) != 2) fail("schedstat");
    fclose(file);
}

static void launch(size_t kib, const char *path) {
    uint64_t begin_ns = now_ns(), run_ns, queue_ns;
    struct rusage usage;
    take(kib * KIB - file_bytes(kib));
    uint64_t private_ns = now_ns(), sum = sum_of(path, file_bytes(kib)), end_ns = now_ns();
    scheduled(&run_ns, &queue_ns);
    if (getrusage(RUSAGE_SELF, &usage)) fail("getrusage");
    printf("process=%d launch_ns=%lu private_ns=%lu run_ns=%lu queue_ns=%lu major_faults=%ld "
           "minor_faults=%ld sum=%lx\n",
           getpid(), end_ns - begin_ns, private_ns - begin_ns, run_ns, queue_ns, usage.ru_majflt,
           usage.ru_minflt, sum);
}

static void *sleep_on(void *unused) {
    for (;;) pause();
    return unused;
}

static void hold(size_t kib, const char *adj, long threads, int leaves) {
    FILE *file = fopen("/proc/self/oom_score_adj", "w");
    if (!file || fputs(adj, file) < 0 || fclose(file)) fail("oom_score_adj");
    for (long more = 1; more < threads; more++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, sleep_on, NULL)) fail("pthread_create");
    }
    take(kib * KIB);
    puts("ready");
    fflush(stdout);
    if (leaves) syscall(SYS_exit, 0);
    sleep_on(NULL);
}

int main(int count, char **words) {
    const char *task = count > 1 ? words[1] : "";
    if (!strcmp(task, "make") && count == 4) make(words[2], atol(words[3]));
    else if (!strcmp(task, "launch") && count == 4) launch(atol(words[2]), words[3]);
    else if (!strcmp(task, "hold") && count == 5)
        hold(atol(words[2]), words[3], atol(words[4]), 0);
    else if (!strcmp(task, "leave") && count == 5)
        hold(atol(words[2]), words[3], atol(words[4]), 1);
    else return fputs("usage: see the head of filler.c\n", stderr), 2;
    return 0;
}
