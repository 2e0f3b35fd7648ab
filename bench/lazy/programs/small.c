// Small blocks only, which the preload library passes to the C library.
//
//     small replace THREADS STEPS     random sizes at random places of a table, as alloc-test
//     small order BYTES STEPS         blocks of one size, freed in the order of the array, as
//                                     glibc's bench-malloc-simple
//     small thread THREADS STEPS      a table of 1,024 blocks of 4 bytes to 32 KiB, small ones the
//                                     most, as glibc's bench-malloc-thread
//
// A step is one allocation and one free. Prints one JSON object.
#include "figures.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>

enum { THREADS_MAX = 64, REPLACED = 1 << 14, HELD = 1024, SIZES = 1 << 12 };

static long steps;
static uint32_t sizes[SIZES];

static uint64_t drawn(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// Sizes from `smallest` on; each doubling has the same probability.
static void prepare_sizes(double smallest, double largest)
{
    for (int at = 0; at < SIZES; at++)
        sizes[at] = (uint32_t)(smallest * exp2(log2(largest / smallest) * at / SIZES));
}

static void step_at(void **place, size_t bytes)
{
    free(*place);
    *place = malloc(bytes);
    require(*place != NULL, "allocating");
    *(volatile char *)*place = 1;
}

static void work_on(void **table, uint64_t places, uint64_t state)
{
    for (long step = 0; step < steps; step++) {
        uint64_t number = drawn(&state);
        step_at(&table[(number >> 32) % places], sizes[number % SIZES]);
    }
    for (uint64_t place = 0; place < places; place++)
        free(table[place]);
}

static void *replace(void *number)
{
    void **table = calloc(REPLACED, sizeof *table);
    require(table != NULL, "allocating");
    work_on(table, REPLACED, 88172645463325252UL * ((uintptr_t)number * 2 + 1));
    free(table);
    return NULL;
}

static void *hold(void *number)
{
    void *table[HELD] = {0};
    work_on(table, HELD, 88172645463325252UL * ((uintptr_t)number * 2 + 1));
    return NULL;
}

static void in_order(size_t bytes)
{
    static const int lengths[] = {25, 100, 400, 1600};
    static void *array[1600];
    for (int length = 0; length < 4; length++)
        for (long round = 0; round < steps / 4 / lengths[length]; round++) {
            for (int at = 0; at < lengths[length]; at++) {
                array[at] = malloc(bytes);
                *(volatile char *)array[at] = 1;
            }
            for (int at = 0; at < lengths[length]; at++)
                free(array[at]);
        }
}

static void in_threads(void *(*work)(void *), long count)
{
    if (count == 1) {
        work(NULL);
        return;
    }
    pthread_t threads[THREADS_MAX];
    for (long thread = 0; thread < count; thread++)
        pthread_create(&threads[thread], NULL, work, (void *)thread);
    for (long thread = 0; thread < count; thread++)
        pthread_join(threads[thread], NULL);
}

int main(int count, char **words)
{
    require(count == 4, "usage: small replace|order|thread THREADS|BYTES STEPS");
    long number = atol(words[2]);
    steps = atol(words[3]);
    int is_replace = strcmp(words[1], "replace") == 0, is_order = strcmp(words[1], "order") == 0;
    prepare_sizes(is_replace ? 1 : 4, is_replace ? 1000 : 32 << 10);
    double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    if (is_order)
        in_order((size_t)number);
    else
        in_threads(is_replace ? replace : hold, number < THREADS_MAX ? number : THREADS_MAX);
    wall = clock_s(CLOCK_MONOTONIC) - wall;
    long all = is_order ? steps : steps * number;
    cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"cpu_s\": %.6f, \"steps_per_s\": %.1f, \"peak_bytes\": %ld}\n", cpu,
           (double)all / wall, peak_bytes());
}
