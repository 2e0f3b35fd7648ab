/* Runs the filter on references from standard input, for the test that compares it with the one in
 * Rust. In: 16 bytes each, address, size, kind (8, 4, 4). Out: the steps of stream.h. */
#include <stdio.h>

#include "filter.h"
#include "stream.h"

struct reference {
    uint64_t address;
    uint32_t bytes;
    uint32_t kind;
};

int main(void)
{
    static struct filter filter;
    struct reference reference;
    uint64_t untold = 0;
    filter_init(&filter);
    while (fread(&reference, sizeof reference, 1, stdin) == 1) {
        uint64_t last = reference.address + reference.bytes - 1;
        untold++;
        for (uint64_t block = reference.address >> BLOCK_SHIFT; block <= last >> BLOCK_SHIFT;
             block++) {
            struct touched touched = filter_touch(&filter, block, reference.kind == WRITE);
            if (!touched.is_entered)
                continue;
            struct step step = {
                untold, place_of(block, touched.slot, touched.is_left_written, reference.kind)};
            fwrite(&step, sizeof step, 1, stdout);
            untold = 0;
        }
    }
    return fflush(stdout) != 0;
}
