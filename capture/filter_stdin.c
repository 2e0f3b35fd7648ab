/* Runs the filter on references from standard input, for the test that compares it with the Rust
 * filter. The argument is the filter's number of blocks. Input: 16 bytes each, address, size, kind (8, 4, 4). Output: the steps of stream.h. */
#include <stdio.h>
#include <stdlib.h>

#include "filter.h"
#include "stream.h"

struct reference {
    uint64_t address;
    uint32_t bytes;
    uint32_t kind;
};

int main(int argc, char **argv)
{
    static struct filter filter;
    struct reference reference;
    uint64_t references = 0;
    filter_init(&filter, argc > 1 ? (unsigned)atoi(argv[1]) : FILTER_BLOCKS);
    while (fread(&reference, sizeof reference, 1, stdin) == 1) {
        uint64_t last = reference.address + reference.bytes - 1;
        references++;
        for (uint64_t block = reference.address >> BLOCK_SHIFT; block <= last >> BLOCK_SHIFT;
             block++) {
            struct touched touched = filter_touch(&filter, block, reference.kind == WRITE);
            if (!touched.is_entered)
                continue;
            struct step step = {
                references, place_of(block, touched.slot, touched.is_left_written, reference.kind)};
            fwrite(&step, sizeof step, 1, stdout);
            references = 0;
        }
    }
    return fflush(stdout) != 0;
}
