/* squeeze MIB: allocates and frees at most MIB MiB in a loop, in blocks of 256 KiB to 4 MiB by malloc and mmap. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 512, ROUNDS = 4 };

struct block {
    unsigned char *memory;
    size_t size;
    int is_mapped;
};

int main(int count, char **words)
{
    static struct block blocks[MOST];
    size_t limit = (size_t)(count > 1 ? atoi(words[1]) : 40) << 20, sum = 0;
    unsigned state = 7;
    for (int round = 0; round < ROUNDS; round++) {
        size_t held = 0;
        int used = 0;
        while (held < limit && used < MOST) {
            state = state * 1103515245 + 12345;
            struct block *block = &blocks[used];
            block->size = (256 << 10) + (state >> 8) % (4 << 20);
            if (held + block->size > limit)
                block->size = limit - held;
            block->is_mapped = (state >> 4) & 1;
            block->memory = block->is_mapped
                                ? mmap(NULL, block->size, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                : malloc(block->size);
            if (block->memory == NULL || block->memory == MAP_FAILED)
                return 1;
            for (size_t at = 0; at < block->size; at += 512)
                block->memory[at] = (unsigned char)(used + round);
            held += block->size;
            used++;
        }
        for (int at = 0; at < used; at++) {
            if (blocks[at].memory[0] != (unsigned char)(at + round))
                return 2;
            sum = sum * 31 + blocks[at].memory[(blocks[at].size - 1) / 512 * 512];
            if (blocks[at].is_mapped)
                munmap(blocks[at].memory, blocks[at].size);
            else
                free(blocks[at].memory);
        }
    }
    printf("finished %zu\n", sum);
    return 0;
}
