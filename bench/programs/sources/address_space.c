/* Allocates blocks of 1 MiB until RLIMIT_AS refuses, frees them, and repeats:
   address_space own|given. With "own" it sets the limit itself, after its first blocks.
   It prints the count of blocks in eighths of the limit, since libraries take address space, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { MOST = 1024 };
static void *blocks[MOST];

static size_t mapped_bytes(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%zu", &pages) != 1)
        exit(3);
    fclose(file);
    return pages * 4096;
}

static void fill(size_t room)
{
    int count = 0;
    errno = 0;
    while (count < MOST && (blocks[count] = malloc(1 << 20)) != NULL)
        memset(blocks[count++], 1, 1 << 20);
    printf("refused: %s\n", strerror(errno));
    /* The last mebibytes go to mappings of libraries, of stdio and of the allocator. */
    printf("eighths %d\n", (int)(((size_t)count + room / 16) * 8 / (room ? room : 1)));
    void *mapped = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("mmap %s\n", mapped == MAP_FAILED ? strerror(errno) : "succeeds");
    while (count > 0)
        free(blocks[--count]);
}

int main(int count, char **words)
{
    struct rlimit limit;
    size_t room = 96;
    if (count > 1 && strcmp(words[1], "own") == 0) {
        for (int at = 0; at < 40; at++)
            blocks[at] = malloc(1 << 20);
        for (int at = 0; at < 40; at++)
            free(blocks[at]);
        limit.rlim_cur = limit.rlim_max = (80 << 20) + (room << 20);
        if (setrlimit(RLIMIT_AS, &limit) != 0)
            return 2;
    }
    getrlimit(RLIMIT_AS, &limit);
    room = limit.rlim_cur > mapped_bytes() ? (limit.rlim_cur - mapped_bytes()) >> 20 : 0;
    for (int round = 0; round < 3; round++)
        fill(room);
    return 0;
}
