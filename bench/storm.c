// Fixed work in swap: holds MIB MiB and, for each line, writes to the next PAGES of its pages in turn.
// Under a budget of less than MIB each write causes a fault, a page-in, a page-out and two transfers,
// always the same number. A page holds one word repeatedly, which zram compresses for free.
// Usage: storm MIB PAGES
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    size_t bytes = strtoul(arguments[1], NULL, 10) << 20;
    size_t pages = strtoul(arguments[2], NULL, 10);
    char *held = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char line[256];
    size_t place = 0;

    if (held == MAP_FAILED || madvise(held, bytes, MADV_NOHUGEPAGE) != 0)
        return 1;
    memset(held, 1, bytes);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        for (size_t touched = 0; touched < pages; touched++) {
            *(volatile uint64_t *)(held + place) = 0x0101010101010101;
            place = (place + PAGE_BYTES) % bytes;
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
