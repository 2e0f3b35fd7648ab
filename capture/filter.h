/* The filter: an exact LRU list of the 64 blocks of 512 bytes used last. It does what
 * crates/trace/src/references/filter.rs does; a test feeds both the same addresses. */
#ifndef PAGEWISE_FILTER_H
#define PAGEWISE_FILTER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK_SHIFT = 9, FILTER_BLOCKS = 64, GUESSES = 4096 };

/* What a slot holds that no block was put into; no block has this number. */
#define EMPTY UINT64_MAX

/* `block` are distinct but for EMPTY; the slot with the least `last_use` holds the block used
 * longest ago. `guess` is the slot that the block with this remainder had last, perhaps out of
 * date. A bit of `is_written` per slot. */
struct filter {
    uint64_t block[FILTER_BLOCKS];
    uint64_t last_use[FILTER_BLOCKS];
    uint64_t uses;
    uint64_t is_written;
    uint8_t guess[GUESSES];
};

/* What a touch did. */
struct touched {
    unsigned slot;
    /* The block was not held, and took the slot. */
    bool is_entered;
    /* The block that left the slot for it was written. */
    bool is_left_written;
};

static inline void filter_init(struct filter *filter)
{
    memset(filter, 0, sizeof *filter);
    memset(filter->block, 0xff, sizeof filter->block);
}

/* The slot of a block whose guess failed: its own, or of one not held the slot used longest ago. */
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

/* Makes `block` the one used last. */
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
