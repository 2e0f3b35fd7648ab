/* Touches pages of its memory at random and measures each major fault: faults MEBIBYTES ACCESSES SEED.
 * Every page has a value of its own, which is checked at each access; one access in three writes a new one.
 * Prints JSON: wrong values, major faults, and their times in ns at the median, 99 % and 99.9 %.
 * bench/swapd.py runs it in a memory group smaller than MEBIBYTES. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

enum { PAGE = 4096 };

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static long major_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_majflt;
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static int compare(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return first < second ? -1 : first > second;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    size_t pages = ((size_t)atol(words[1]) << 20) / PAGE;
    long accesses = atol(words[2]);
    uint64_t state = 88172645463325252u + (uint64_t)atol(words[3]);
    char *memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *values = malloc(pages * sizeof *values), *times = malloc((size_t)accesses * sizeof *times);
    if (memory == MAP_FAILED || !values || !times)
        return 3;
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    uint64_t noise = state;
    for (size_t page = 0; page < pages; page++) {
        uint64_t *content = (uint64_t *)(memory + page * PAGE);
        *(volatile uint64_t *)content = values[page] = page * 2654435761u + 1;
        /* The other half stays zero, so the page compresses to about a half. */
        for (size_t word = 1; word < PAGE / sizeof noise / 2; word++)
            content[word] = next(&noise);
    }
    long wrong = 0, faults = 0;
    for (long access = 0; access < accesses; access++) {
        size_t page = next(&state) % pages;
        volatile uint64_t *place = (volatile uint64_t *)(memory + page * PAGE);
        long before = major_faults();
        uint64_t begun = now_ns(), found = *place, ended = now_ns();
        if (major_faults() > before)
            times[faults++] = ended - begun;
        wrong += found != values[page];
        if (access % 3 == 0)
            *place = values[page] = next(&state) | 1;
    }
    qsort(times, (size_t)faults, sizeof *times, compare);
    uint64_t half = faults ? times[faults / 2] : 0, most = faults ? times[faults * 99 / 100] : 0;
    uint64_t nearly_all = faults ? times[faults * 999 / 1000] : 0;
    printf("{\"wrong\": %ld, \"faults\": %ld, \"p50\": %lu, \"p99\": %lu, \"p999\": %lu}\n", wrong, faults, half,
           most, nearly_all);
    return wrong != 0;
}
