// Frees 1 MiB blocks, then needs memory that no cache of freed blocks can serve.
//
//     pressure FREED_MIB BURST_MIB
//
// The burst is mapped by a direct system call, so it must come from the kernel. Prints its
// time, and whether calloc returns zeros afterwards. If the kernel kills the program, it prints nothing.
#include "figures.h"

#include <sys/mman.h>

enum { MIB = 1 << 20, STEP_MIB = 4, BLOCKS_MAX = 4096, CLEARED = 8 * MIB };

static void fill_and_free(int blocks)
{
    static char *block[BLOCKS_MAX];
    require(blocks <= BLOCKS_MAX, "too many blocks");
    for (int at = 0; at < blocks; at++) {
        block[at] = malloc(MIB);
        require(block[at] != NULL, "allocating");
        memset(block[at], 7, MIB);
    }
    for (int at = 0; at < blocks; at++)
        free(block[at]);
}

static void burst(int mib)
{
    for (int done = 0; done < mib; done += STEP_MIB) {
        char *piece = (char *)syscall(SYS_mmap, NULL, STEP_MIB * MIB, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
        require(piece != MAP_FAILED, "mapping");
        memset(piece, 1, STEP_MIB * MIB);
    }
}

static int is_cleared(void)
{
    char *block = calloc(1, CLEARED);
    require(block != NULL, "allocating");
    for (int at = 0; at < CLEARED; at++)
        if (block[at])
            return 0;
    return 1;
}

int main(int count, char **words)
{
    require(count == 3, "usage: pressure FREED_MIB BURST_MIB");
    fill_and_free(atoi(words[1]));
    double wall = clock_s(CLOCK_MONOTONIC), cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    burst(atoi(words[2]));
    wall = clock_s(CLOCK_MONOTONIC) - wall;
    cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"burst_s\": %.6f, \"burst_cpu_s\": %.6f, \"is_cleared\": %s}\n", wall, cpu,
           is_cleared() ? "true" : "false");
}
