// Holds MIB MiB of pages with unique contents, and checks every page that it visits again.
// Usage: swapping MIB [MILLISECONDS]
//
// With MILLISECONDS, standard error gets a line for each wait of at least that long: when it began and when it ended, in
// milliseconds since boot (/proc/uptime). One visit is a wait, and so is the printing of an answer.
//
// For each line "COUNT" of standard input it visits COUNT pages: three of four visits are to the hot
// eighth of all pages, and half of the visits write new contents. "all" checks every page once.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096, WORDS = PAGE / sizeof(uint64_t) };

static uint64_t drawn = 1;

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t first(size_t page, uint32_t version)
{
    return (page + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)version << 32 ^ 0x5bd1e995u;
}

static void fill(uint64_t *words, size_t page, uint32_t version)
{
    uint64_t state = first(page, version);
    for (size_t word = 0; word < WORDS; word++)
        words[word] = next(&state);
}

static void check(const uint64_t *words, size_t page, uint32_t version)
{
    uint64_t state = first(page, version);
    for (size_t word = 0; word < WORDS; word++)
        if (words[word] != next(&state)) {
            printf("page %zu is not as it was written\n", page);
            exit(1);
        }
}

static uint64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Notes what took at least `least` milliseconds until now. Returns the time now.
static uint64_t noted(uint64_t since, uint64_t least)
{
    uint64_t now = milliseconds();
    if (now - since >= least)
        fprintf(stderr, "%" PRIu64 " %" PRIu64 "\n", since, now);
    return now;
}

int main(int count, char **arguments)
{
    size_t pages = (count > 1 ? strtoul(arguments[1], NULL, 10) : 1) << 8;
    // 0: no clock is read, so that the instructions of a visit stay the same.
    uint64_t least = count > 2 ? strtoul(arguments[2], NULL, 10) : 0;
    uint64_t *memory = aligned_alloc(PAGE, pages * PAGE);
    uint32_t *versions = calloc(pages, sizeof *versions);
    char line[64];
    if (!memory || !versions)
        return 1;
    for (size_t page = 0; page < pages; page++)
        fill(memory + page * WORDS, page, 0);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int is_all = !strncmp(line, "all", 3);
        size_t visits = is_all ? pages : strtoul(line, NULL, 10);
        uint64_t since = least ? milliseconds() : 0;
        for (size_t visit = 0; visit < visits; visit++) {
            uint64_t dice = next(&drawn);
            size_t page = is_all ? visit : dice % 4 ? dice / 4 % (pages / 8) : dice / 4 % pages;
            check(memory + page * WORDS, page, versions[page]);
            if (!is_all && dice >> 63)
                fill(memory + page * WORDS, page, ++versions[page]);
            if (least)
                since = noted(since, least);
        }
        printf("checked %zu\n", visits);
        fflush(stdout);
        if (least)
            noted(since, least);
    }
    return 0;
}
