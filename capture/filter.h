/* The filter: an exact LRU list of the most recently used blocks of 512 bytes, at most 64. It does the same as
 * crates/trace/src/references/filter.rs; a test runs both on the same addresses. */
#ifndef PAGEWISE_FILTER_H
#define PAGEWISE_FILTER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK_SHIFT = 9, FILTER_BLOCKS = 64, GUESSES = 4096 };

/* Content of an empty slot; no block has this number. */
#define EMPTY UINT64_MAX

/* `block` are distinct except for EMPTY; the slot with the smallest `last_use` holds the least recently
 * used block. Slots beyond the filter's number of blocks stay empty and count as used last. `guess` is the last slot of the block with this remainder, possibly out of date.
 * `is_written` has a bit per slot. */
struct filter {
    uint64_t block[FILTER_BLOCKS];
    uint64_t last_use[FILTER_BLOCKS];
    uint64_t uses;
    uint64_t is_written;
    uint8_t guess[GUESSES];
};

/* The result of a touch. */
struct touched {
    unsigned slot;
    /* The block was not in the filter, and took the slot. */
    bool is_entered;
    /* The block that left the slot for it was written. */
    bool is_left_written;
};

static inline void filter_init(struct filter *filter, unsigned blocks)
{
    memset(filter, 0, sizeof *filter);
    memset(filter->block, 0xff, sizeof filter->block);
    for (unsigned slot = blocks; slot < FILTER_BLOCKS; slot++)
        filter->last_use[slot] = UINT64_MAX;
}

/* The slot of a block after a wrong guess: its slot, or the least recently used slot for a new block. */
static __attribute__((noinline)) struct touched filter_search(struct filter *filter, uint64_t block)
{
    unsigned slot = 0;
    for (unsigned other = 0; other < FILTER_BLOCKS; other++)
        if (filter->block[other] == block)
            return (struct touched){.slot = other};
    for (unsigned other = 1; other < FILTER_BLOCKS; other++)
        if (filter->last_use[other] < filter->last_use[slot])
            slot = other;
    struct touched touched = {slot, true, filter->is_written >> slot & 1};
    filter->block[slot] = block;
    filter->is_written &= ~(UINT64_C(1) << slot);
    return touched;
}

/* Makes `block` the most recently used block. */
static inline struct touched filter_touch(struct filter *filter, uint64_t block, bool is_write)
{
    uint8_t *guess = &filter->guess[block % GUESSES];
    struct touched touched = {.slot = *guess};
    if (__builtin_expect(filter->block[touched.slot] != block, 0)) {
        touched = filter_search(filter, block);
        *guess = (uint8_t)touched.slot;
    }
    filter->last_use[touched.slot] = ++filter->uses;
    filter->is_written |= (uint64_t)is_write << touched.slot;
    return touched;
}

#endif
