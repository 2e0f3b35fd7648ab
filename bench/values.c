/* Threads of one process that write whole pages at random and compare them: values MEBIBYTES THREADS SECONDS SEED.
 * Pages belong to the threads in turn, so neighbours have different ones. Every page holds a value and words that
 * follow from it; an access compares all of them, and one in three writes new ones. At the end each page is compared
 * once more. Prints JSON: wrong pages, compared pages, and the process's major faults.
 * bench/swapd.py runs it in a memory group smaller than MEBIBYTES. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

enum { WORDS = 4096 / sizeof(uint64_t), MOST = 64 };

struct part {
    pthread_t thread;
    size_t first;
    uint64_t state;
    long wrong, compared;
};

static uint64_t (*pages)[WORDS];
static uint64_t *values;
static size_t page_count, thread_count;
static long seconds;

static long now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* Half of a page is noise, the other half repeats its value, so it compresses to about a half. */
static uint64_t word(uint64_t value, size_t place, uint64_t *noise)
{
    return place < WORDS / 2 ? next(noise) : value;
}

static void write_page(size_t page, uint64_t value)
{
    uint64_t noise = value;
    values[page] = value;
    for (size_t place = 0; place < WORDS; place++)
        pages[page][place] = word(value, place, &noise);
}

static int is_wrong(size_t page)
{
    uint64_t noise = values[page];
    const volatile uint64_t *content = pages[page];
    int wrong = 0;
    for (size_t place = 0; place < WORDS; place++)
        wrong |= content[place] != word(values[page], place, &noise);
    return wrong;
}

static void *work(void *argument)
{
    struct part *part = argument;
    size_t own = (page_count - part->first + thread_count - 1) / thread_count;
    for (size_t at = 0; at < own; at++)
        write_page(part->first + at * thread_count, next(&part->state) | 1);
    for (long end = now_s() + seconds, access = 0; now_s() < end; access++, part->compared++) {
        size_t page = part->first + next(&part->state) % own * thread_count;
        part->wrong += is_wrong(page);
        if (access % 3 == 0)
            write_page(page, next(&part->state) | 1);
    }
    for (size_t at = 0; at < own; at++, part->compared++)
        part->wrong += is_wrong(part->first + at * thread_count);
    return NULL;
}

int main(int count, char **words)
{
    static struct part parts[MOST];
    if (count != 5)
        return 2;
    page_count = ((size_t)atol(words[1]) << 20) / sizeof *pages;
    thread_count = (size_t)atol(words[2]);
    seconds = atol(words[3]);
    if (thread_count < 1 || thread_count > MOST || page_count < thread_count)
        return 2;
    size_t bytes = page_count * sizeof *pages;
    pages = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    values = malloc(page_count * sizeof *values);
    if (pages == MAP_FAILED || !values)
        return 3;
    madvise(pages, bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < thread_count; at++) {
        parts[at].first = at;
        parts[at].state = 88172645463325252u + (uint64_t)atol(words[4]) * MOST + at;
        if (pthread_create(&parts[at].thread, NULL, work, &parts[at]) != 0)
            return 3;
    }
    long wrong = 0, compared = 0;
    for (size_t at = 0; at < thread_count; at++) {
        pthread_join(parts[at].thread, NULL);
        wrong += parts[at].wrong;
        compared += parts[at].compared;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"wrong\": %ld, \"compared\": %ld, \"faults\": %ld}\n", wrong, compared, usage.ru_majflt);
    return wrong != 0;
}
