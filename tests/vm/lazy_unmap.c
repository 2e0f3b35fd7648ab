// Exercises lazy unmapping in a guest's kernel. Built statically: no library takes part.
//
//     lazy_unmap run COMMAND ARGUMENTS   runs a command with the pool on
//     lazy_unmap CASE                    runs a case by itself, with the pool on; exits with 0 if it holds,
//                                        with 2 if the kernel has no pool
//     lazy_unmap plain CASE              the same without the pool; for cases that hold on any kernel
//
// Of a case that fails, prints the line that failed.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20, SET_LAZY_UNMAP = 0x4c5a554d, GET_LAZY_UNMAP = 0x4c5a5547 };

#define CHECK(holds)                                                                                 \
    do {                                                                                             \
        if (!(holds)) {                                                                              \
            printf("%s:%d: not true: %s (%s)\n", __FILE__, __LINE__, #holds, strerror(errno));       \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

static char *map(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static char *filled(size_t bytes)
{
    char *memory = map(bytes);
    memset(memory, 0xa5, bytes);
    return memory;
}

static int is_zero(const char *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at++)
        if (memory[at])
            return 0;
    return 1;
}

// The number after a word in a file of /proc.
static long number(const char *file, const char *word)
{
    static char text[65536];
    FILE *stream = fopen(file, "r");
    CHECK(stream != NULL);
    text[fread(text, 1, sizeof text - 1, stream)] = 0;
    fclose(stream);
    const char *found = strstr(text, word);
    CHECK(found != NULL);
    return atol(found + strlen(word));
}

static long held_kib(void) { return number("/proc/self/status", "LazyUnmapped:"); }
static long counted(const char *name) { return number("/proc/vmstat", name); }
static long faults(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

static sigjmp_buf landing;
static void on_fault(int signal)
{
    (void)signal;
    siglongjmp(landing, 1);
}

static int faults_at(volatile char *address, int is_write)
{
    if (sigsetjmp(landing, 1))
        return 1;
    if (is_write)
        *address = 1;
    else
        (void)*address;
    return 0;
}

static void reuse(void)
{
    char *first = filled(MIB);
    long before_kib = held_kib();
    munmap(first, MIB);
    CHECK(held_kib() == before_kib + 1024);
    long before = faults();
    char *second = map(MIB);
    CHECK(second == first);
    CHECK(is_zero(second, MIB));
    memset(second, 1, MIB);
    CHECK(faults() - before <= 2);
    CHECK(held_kib() == before_kib);
}

static void off(void)
{
    char *first = filled(MIB);
    munmap(first, MIB);
    CHECK(held_kib() > 0);
    CHECK(prctl(SET_LAZY_UNMAP, 0, 0, 0, 0) == 0);
    CHECK(prctl(GET_LAZY_UNMAP, 0, 0, 0, 0) == 0);
    CHECK(held_kib() == 0);
    munmap(filled(MIB), MIB);
    CHECK(held_kib() == 0);
    CHECK(prctl(SET_LAZY_UNMAP, 2, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(prctl(SET_LAZY_UNMAP, 1, 1, 0, 0) == -1 && errno == EINVAL);
}

static void segv(void)
{
    signal(SIGSEGV, on_fault);
    for (int round = 0; round < 20; round++) {
        char *memory = filled(MIB);
        munmap(memory, MIB);
        CHECK(held_kib() >= 1024);
        for (int at = 0; at < MIB; at += 64 * PAGE) {
            CHECK(faults_at(memory + at, 0));
            CHECK(faults_at(memory + at, 1));
        }
    }
}

// What a system call says of a range in the pool is what it says of a hole.
static void hole(void)
{
    char *memory = filled(MIB);
    unsigned char seen[256];
    char buffer[PAGE];
    munmap(memory, MIB);
    CHECK(held_kib() >= 1024);
    CHECK(mincore(memory, MIB, seen) == -1 && errno == ENOMEM);
    CHECK(mprotect(memory, MIB, PROT_READ) == -1 && errno == ENOMEM);
    CHECK(madvise(memory, MIB, MADV_DONTNEED) == -1 && errno == ENOMEM);
    CHECK(madvise(memory, MIB, MADV_FREE) == -1 && errno == ENOMEM);
    CHECK(mlock(memory, MIB) == -1 && errno == ENOMEM);
    CHECK(mremap(memory, MIB, 2 * MIB, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
    CHECK(msync(memory, MIB, MS_ASYNC) == -1 && errno == ENOMEM);
    struct iovec to = {buffer, PAGE}, from = {memory, PAGE};
    CHECK(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == -1 && errno == EFAULT);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], memory, PAGE) == -1 && errno == EFAULT);

    char line[512], start[32];
    snprintf(start, sizeof start, "%lx-", (unsigned long)memory);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        CHECK(strncmp(line, start, strlen(start)) != 0);
    fclose(maps);
    CHECK(munmap(memory, MIB) == 0);
}

static void fixed(void)
{
    char *memory = filled(MIB);
    munmap(memory, MIB);
    char *again = mmap(memory + MIB / 2, PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(again == memory + MIB / 2);
    CHECK(is_zero(again, PAGE));
    CHECK(held_kib() < 1024);
    munmap(again, PAGE);

    memory = filled(MIB);
    munmap(memory, MIB);
    again = mmap(memory, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(again == memory);
    CHECK(is_zero(again, MIB));
}

// Cuts, merges and moves ranges next to mappings in use, which must keep their contents.
static void ranges(void)
{
    enum { PARTS = 16, PART = 128 * 1024 };
    char *all = filled(PARTS * PART);
    for (int part = 0; part < PARTS; part += 2)
        munmap(all + part * PART, PART);
    CHECK(held_kib() == PARTS / 2 * PART / 1024);
    for (int part = 1; part < PARTS; part += 2)
        for (int at = 0; at < PART; at++)
            CHECK(all[part * PART + at] == (char)0xa5);
    for (int part = 1; part < PARTS; part += 2)
        munmap(all + part * PART, PART);
    CHECK(held_kib() == PARTS * PART / 1024);
    long hits = counted("lazy_unmap_hit ");
    char *whole = map(PARTS * PART);
    CHECK(counted("lazy_unmap_hit ") == hits + 1);
    CHECK(whole == all && is_zero(whole, PARTS * PART));
    memset(whole, 1, PARTS * PART);
    munmap(whole, PARTS * PART);
    char *part = map(3 * PART);
    CHECK(part == all && is_zero(part, 3 * PART));
    CHECK(held_kib() == (PARTS - 3) * PART / 1024);
    char *moved = mremap(part, 3 * PART, 4 * PART, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && is_zero(moved, 4 * PART));
}

static void forks(void)
{
    char *shared = filled(MIB), *own = filled(MIB);
    munmap(own, MIB);
    long held = held_kib();
    CHECK(held >= 1024);
    pid_t child = fork();
    if (child == 0) {
        CHECK(prctl(GET_LAZY_UNMAP, 0, 0, 0, 0) == 1);
        CHECK(held_kib() == 0);
        signal(SIGSEGV, on_fault);
        CHECK(faults_at(own, 0));
        munmap(shared, MIB);
        CHECK(held_kib() == 0);
        reuse();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(held_kib() == held);
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    // Memory that a child still shares is not kept, and the child keeps it.
    munmap(shared, MIB);
    CHECK(held_kib() == held);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

// Random sizes and parts; every new byte is zero, every byte in use keeps its value.
static void zeros(void)
{
    enum { LIVE = 24, ROUNDS = 3000 };
    struct { char *at; size_t bytes; char value; } live[LIVE] = {0};
    unsigned long state = 88172645463325252UL;
    for (int round = 0; round < ROUNDS; round++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        int place = (int)((state >> 8) % LIVE);
        if (live[place].at) {
            for (size_t at = 0; at < live[place].bytes; at += 509)
                CHECK(live[place].at[at] == live[place].value);
            size_t kept = 0;
            // Some lose only their end.
            if ((state >> 16) % 4 == 0 && live[place].bytes > 64 * PAGE)
                kept = live[place].bytes / 2 / PAGE * PAGE;
            CHECK(munmap(live[place].at + kept, live[place].bytes - kept) == 0);
            live[place].bytes = kept;
            if (kept == 0)
                live[place].at = NULL;
            continue;
        }
        size_t bytes = PAGE * (1 + (state >> 24) % 300);
        live[place].at = map(bytes);
        live[place].bytes = bytes;
        live[place].value = (char)(1 + round % 100);
        CHECK(is_zero(live[place].at, bytes));
        memset(live[place].at, live[place].value, bytes);
    }
}

// Frees 64 MiB; takes memory by a way that the pool cannot serve.
static void pressure(const char *mib)
{
    enum { BLOCKS = 64 };
    char *blocks[BLOCKS];
    for (int block = 0; block < BLOCKS; block++)
        blocks[block] = filled(MIB);
    for (int block = 0; block < BLOCKS; block++)
        munmap(blocks[block], MIB);
    printf("held_kib=%ld\n", held_kib());
    char *burst = mmap(NULL, (size_t)atoi(mib) * MIB, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(burst != MAP_FAILED);
    memset(burst, 1, (size_t)atoi(mib) * MIB);
    printf("held_after_kib=%ld\n", held_kib());
    char *again = map(8 * MIB);
    CHECK(is_zero(again, 8 * MIB));
}

// Writes each request to the kernel's trace, beside the decisions that its tracepoints write. A third of
// the blocks are touched to less than a half: the kernel does not keep these. The others are touched
// whole, so that ranges in the pool have all their pages, which is what its limit counts.
static void replay(void)
{
    enum { LIVE = 12, ROUNDS = 800 };
    struct { char *at; size_t pages, touched; } live[LIVE] = {0};
    unsigned long state = 88172645463325252UL;
    FILE *marker = fopen("/sys/kernel/tracing/trace_marker", "w");
    CHECK(marker != NULL);
    setvbuf(marker, NULL, _IOLBF, 0);
    for (int round = 0; round < ROUNDS; round++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        int place = (int)((state >> 8) % LIVE);
        if (live[place].at) {
            fprintf(marker, "free %lx %zu %zu\n", (unsigned long)live[place].at, live[place].pages,
                    live[place].touched);
            munmap(live[place].at, live[place].pages * PAGE);
            live[place].at = NULL;
            continue;
        }
        size_t pages = 16 + (state >> 24) % 240;
        live[place].pages = pages;
        live[place].touched = (state >> 40) % 3 ? pages : 1 + (state >> 44) % (pages / 2 - 1);
        live[place].at = map(pages * PAGE);
        for (size_t page = 0; page < live[place].touched; page++)
            live[place].at[page * PAGE] = 1;
        fprintf(marker, "map %lx %zu\n", (unsigned long)live[place].at, pages);
    }
}

// A range that was hardly touched is not kept, nor are the next seven of its size, touched or not.
// Pages from the pool count as touched only if the program touched them.
static void sparse(void)
{
    char *memory = map(MIB);
    memory[0] = 1;
    munmap(memory, MIB);
    CHECK(held_kib() == 0);
    munmap(filled(2 * MIB), 2 * MIB);
    CHECK(held_kib() == 2048);
    CHECK(prctl(SET_LAZY_UNMAP, 0, 0, 0, 0) == 0 && prctl(SET_LAZY_UNMAP, 1, 0, 0, 0) == 0);
    for (int passed = 0; passed < 7; passed++) {
        munmap(filled(MIB), MIB);
        CHECK(held_kib() == 0);
    }
    munmap(filled(MIB), MIB);
    CHECK(held_kib() == 1024);
    memory = map(MIB);
    CHECK(held_kib() == 0);
    memset(memory, 1, MIB / 2 - PAGE);
    munmap(memory, MIB);
    CHECK(held_kib() == 0);
    for (int passed = 0; passed < 7; passed++)
        munmap(filled(MIB), MIB);
    munmap(filled(MIB), MIB);
    CHECK(held_kib() == 1024);
    memory = map(MIB);
    memset(memory, 1, MIB / 2);
    munmap(memory, MIB);
    CHECK(held_kib() == 1024);
}

// Memory that brk gave back is not kept: mmap would take it, and brk could then not grow again.
static void heap(void)
{
    long before = held_kib();
    char *start = sbrk(0);
    CHECK(sbrk(8 * MIB) == start);
    memset(start, 0xa5, 8 * MIB);
    CHECK(sbrk(-6 * MIB) != (void *)-1);
    CHECK(held_kib() == before);
    char *block = map(MIB);
    CHECK(block < start || block >= start + 8 * MIB);
    CHECK(sbrk(6 * MIB) == start + 2 * MIB);
    CHECK(is_zero(start + 2 * MIB + PAGE, 6 * MIB - PAGE));

    // What brk cuts off may begin with a hole; its rest is not kept either.
    char *cut = (char *)(((size_t)start + 2 * MIB + PAGE - 1) & ~(size_t)(PAGE - 1));
    memset(start, 0xa5, 8 * MIB);
    CHECK(munmap(cut, 2 * MIB) == 0);
    CHECK(sbrk(-6 * MIB) != (void *)-1);
    CHECK(held_kib() == before);
    CHECK(sbrk(6 * MIB) == start + 2 * MIB);
}

static void set(const char *file, const char *value)
{
    FILE *stream = fopen(file, "w");
    CHECK(stream != NULL && fputs(value, stream) >= 0 && fclose(stream) == 0);
}

// process_mrelease frees the pool of a killed process that cannot end, here because it is frozen.
static void mrelease(void)
{
    enum { HELD = 32 * MIB };
    char text[16] = "";
    int ready[2], status;
    CHECK(mkdir("/freezer", 0755) == 0 && mount("none", "/freezer", "cgroup", 0, "freezer") == 0);
    CHECK(mkdir("/freezer/victim", 0755) == 0 && pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        munmap(filled(HELD), HELD);
        CHECK(write(ready[1], "r", 1) == 1);
        pause();
    }
    CHECK(read(ready[0], text, 1) == 1);
    snprintf(text, sizeof text, "%d", child);
    set("/freezer/victim/cgroup.procs", text);
    set("/freezer/victim/freezer.state", "FROZEN");
    do {
        FILE *state = fopen("/freezer/victim/freezer.state", "r");
        CHECK(state != NULL && fgets(text, sizeof text, state) != NULL && fclose(state) == 0);
    } while (strcmp(text, "FROZEN\n") != 0);
    long held = number("/proc/meminfo", "LazyUnmapped:");
    CHECK(held >= HELD / 1024);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(syscall(SYS_process_mrelease, syscall(SYS_pidfd_open, child, 0), 0) == 0);
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    CHECK(number("/proc/meminfo", "LazyUnmapped:") <= held - HELD / 1024);
    set("/freezer/victim/freezer.state", "THAWED");
    CHECK(waitpid(child, &status, 0) == child);
}

static void age(void)
{
    munmap(filled(4 * MIB), 4 * MIB);
    CHECK(held_kib() == 4096);
    sleep(8);
    CHECK(held_kib() == 0);
    char *again = map(4 * MIB);
    CHECK(is_zero(again, 4 * MIB));
}

static void limits(void)
{
    struct rlimit limit = {512UL * MIB, 512UL * MIB};
    long size = number("/proc/self/status", "VmSize:");
    for (int round = 0; round < 8; round++)
        munmap(filled(32 * MIB), 32 * MIB);
    CHECK(number("/proc/self/status", "VmSize:") <= size + 64);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    munmap(filled(32 * MIB), 32 * MIB);
    // All of the limit can be mapped, whatever the pool holds.
    char *most = mmap(NULL, 480UL * MIB, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(most != MAP_FAILED);
    CHECK(mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
          MAP_FAILED);
}

// A process with a full pool dumps core: the kernel counts only what is mapped.
static void core(void)
{
    int status;
    set("/proc/sys/kernel/core_pattern", "/core");
    pid_t child = fork();
    if (child == 0) {
        struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_CORE, &all);
        munmap(filled(MIB), MIB);
        CHECK(map(PAGE) != NULL);
        munmap(filled(4 * MIB), 4 * MIB);
        CHECK(held_kib() > 0);
        abort();
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WCOREDUMP(status));
    FILE *file = fopen("/core", "r");
    Elf64_Ehdr header;
    uint64_t end = 0;
    CHECK(file != NULL && fread(&header, sizeof header, 1, file) == 1 && header.e_phnum > 3);
    for (int at = 0; at < header.e_phnum; at++) {
        Elf64_Phdr part;
        CHECK(fseek(file, header.e_phoff + at * sizeof part, SEEK_SET) == 0);
        CHECK(fread(&part, sizeof part, 1, file) == 1);
        if (part.p_type == PT_NOTE)
            continue;
        // Headers that were never set are not in the order of their addresses.
        CHECK(part.p_type == PT_LOAD && part.p_memsz > 0 && part.p_vaddr >= end);
        end = part.p_vaddr + part.p_memsz;
    }
    fclose(file);
}

// userfaultfd counts on new mappings without pages.
static void uffd(void)
{
    munmap(filled(2 * MIB), 2 * MIB);
    CHECK(held_kib() == 2048);
    int descriptor = syscall(SYS_userfaultfd, 0);
    CHECK(descriptor >= 0 && held_kib() == 0);
    munmap(filled(2 * MIB), 2 * MIB);
    CHECK(held_kib() == 0);
    CHECK(close(descriptor) == 0 && prctl(SET_LAZY_UNMAP, 1, 0, 0, 0) == 0);
    munmap(filled(2 * MIB), 2 * MIB);
    CHECK(held_kib() == 0);
}

static long mappings(void)
{
    long lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL);
    for (int letter; (letter = fgetc(file)) != EOF;)
        lines += letter == '\n';
    fclose(file);
    return lines;
}

// Ranges in the pool do not count as mappings.
static void counts(void)
{
    enum { RANGES = 40, STEP = 18 * PAGE };
    char text[16], *memory = filled(RANGES * STEP);
    for (int at = 0; at < RANGES; at++)
        CHECK(mprotect(memory + at * STEP, PAGE, PROT_NONE) == 0);
    for (int at = 0; at < RANGES; at++)
        CHECK(munmap(memory + at * STEP + PAGE, STEP - PAGE) == 0);
    CHECK(held_kib() == RANGES * (STEP - PAGE) / 1024);
    snprintf(text, sizeof text, "%ld", mappings() + 4);
    set("/proc/sys/vm/max_map_count", text);
    int made = 0;
    while (made < 16 && mmap(NULL, PAGE, made % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0) != MAP_FAILED)
        made++;
    set("/proc/sys/vm/max_map_count", "65530");
    CHECK(made >= 2 && made < 16);
    CHECK(held_kib() == RANGES * (STEP - PAGE) / 1024);
}

// What mmap without an address would never return is not kept.
static void null(void)
{
    long before = held_kib();
    char *low = mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(low == NULL);
    for (size_t at = 0; at < 32; at++)
        ((volatile char *)low)[at * PAGE] = 1;
    CHECK(munmap(low, 32 * PAGE) == 0);
    CHECK(held_kib() == before);
    CHECK(map(32 * PAGE) != NULL);
}

// A range above the limit of the pool does not push out the others; a block that moves is not sparse.
static void sizes(void)
{
    set("/proc/sys/vm/lazy_unmap_max_kbytes", "4096");
    munmap(filled(2 * MIB), 2 * MIB);
    CHECK(held_kib() == 2048);
    munmap(filled(8 * MIB), 8 * MIB);
    CHECK(held_kib() == 2048);
    set("/proc/sys/vm/lazy_unmap_max_kbytes", "65536");

    char *block = map(6 * MIB);
    CHECK(mprotect(block + 3 * MIB, 3 * MIB, PROT_READ) == 0);
    memset(block, 1, 3 * MIB);
    char *moved = mremap(block, 3 * MIB, 5 * MIB, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && moved != block);
    CHECK(held_kib() == 2048);
    munmap(filled(3 * MIB), 3 * MIB);
    CHECK(held_kib() == 2048 + 3072);
}

int main(int count, char **words)
{
    static const struct { const char *name; void (*run)(void); } cases[] = {
        {"reuse", reuse}, {"off", off},     {"segv", segv},   {"hole", hole}, {"fixed", fixed},
        {"ranges", ranges}, {"forks", forks}, {"zeros", zeros}, {"age", age},   {"limits", limits},
        {"replay", replay}, {"sparse", sparse}, {"heap", heap},
        {"mrelease", mrelease}, {"core", core}, {"uffd", uffd}, {"counts", counts}, {"null", null},
        {"sizes", sizes},
    };
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count == 3 && strcmp(words[1], "plain") == 0) {
        words++;
    } else if (count < 2 || prctl(SET_LAZY_UNMAP, 1, 0, 0, 0) != 0) {
        perror("lazy_unmap: prctl");
        return 2;
    }
    if (strcmp(words[1], "run") == 0 && count > 2) {
        execvp(words[2], words + 2);
        perror(words[2]);
        return 127;
    }
    if (strcmp(words[1], "pressure") == 0 && count == 3) {
        pressure(words[2]);
        return 0;
    }
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++)
        if (strcmp(words[1], cases[at].name) == 0) {
            cases[at].run();
            printf("%s holds\n", words[1]);
            return 0;
        }
    fprintf(stderr, "lazy_unmap: no case named %s\n", words[1]);
    return 2;
}
