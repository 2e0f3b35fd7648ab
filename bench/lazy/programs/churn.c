// Allocates and frees large blocks: 128 KiB to 8 MiB, log-uniform, eight alive, every line written.
//
//     churn malloc|calloc BLOCKS IDLE_SECONDS
//
// Prints one JSON object after the work, and one after an idle time without any call.
#include "figures.h"

#include <math.h>

enum { LIVE = 8, SMALLEST = 128 << 10, LINE = 64 };
static const double DOUBLINGS = 6;

static unsigned long draw(void)
{
    static unsigned long state = 88172645463325252UL;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void work(int is_cleared, long blocks, char *live[LIVE])
{
    for (long block = 0; block < blocks; block++) {
        unsigned long drawn = draw();
        size_t bytes = (size_t)(SMALLEST * exp2(DOUBLINGS * (double)(drawn % 4096) / 4096));
        char **place = &live[(drawn >> 20) % LIVE];
        free(*place);
        *place = is_cleared ? calloc(1, bytes) : malloc(bytes);
        require(*place != NULL, "allocating");
        for (size_t at = 0; at < bytes; at += LINE)
            ((volatile char *)*place)[at] = (char)at;
    }
}

int main(int count, char **words)
{
    require(count == 4, "usage: churn malloc|calloc BLOCKS IDLE_SECONDS");
    char *live[LIVE] = {0};
    int counter = open_trap_counter();
    long traps = traps_of(counter);
    double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID), user = user_s(), wall = clock_s(CLOCK_MONOTONIC);
    work(strcmp(words[1], "calloc") == 0, atol(words[2]), live);
    wall = clock_s(CLOCK_MONOTONIC) - wall;
    cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    user = user_s() - user;
    traps = traps_of(counter) - traps;
    long huge = huge_bytes();
    for (int place = 0; place < LIVE; place++)
        free(live[place]);
    printf("{\"traps\": %ld, \"cpu_s\": %.6f, \"user_s\": %.6f, \"wall_s\": %.6f, "
           "\"peak_bytes\": %ld, \"huge_bytes\": %ld, \"freed_bytes\": %ld}\n",
           traps, cpu, user, wall, peak_bytes(), huge, resident_bytes());
    fflush(stdout);
    usleep((useconds_t)(atof(words[3]) * 1e6));
    printf("{\"idle_bytes\": %ld}\n", resident_bytes());
}
