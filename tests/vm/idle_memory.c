/* Fills two ranges of MIB MiB of anonymous memory each: a busy one with random words, and an idle one with words that
 * compress well. Then it writes to every page of the busy range, again and again for SECONDS.
 * Usage: idle_memory MIB SECONDS huge|small */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    size_t bytes = strtoul(words[1], NULL, 10) << 20;
    double end = now() + strtod(words[2], NULL);
    int advice = strcmp(words[3], "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE;
    char *memory = mmap(NULL, 2 * bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    memory += -(uintptr_t)memory % HUGE_PAGE;
    madvise(memory, 2 * bytes, advice);
    uint64_t *busy = (uint64_t *)memory, *idle = (uint64_t *)(memory + bytes);
    uint64_t random = 88172645463325252;
    for (size_t at = 0; at < bytes / sizeof *busy; at++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        busy[at] = random;
        idle[at] = at / 64;
    }
    puts("ready");
    fflush(stdout);
    while (now() < end)
        for (size_t place = 0; place < bytes; place += PAGE)
            memory[place]++;
    return 0;
}
