/* The output of the capture for pagewise: full chunks go through a pipe, and the current chunk is in
 * shared memory, so that no reference is lost when the program ends in any way.
 * crates/trace/src/references/capture.rs reads it. */
#ifndef PAGEWISE_STREAM_H
#define PAGEWISE_STREAM_H

#include <stdint.h>

enum { CHUNK_STEPS = 8192 };

/* A record of kind MAPPING is no step. */
enum kind { INSTRUCTION, READ, WRITE, MAPPING };

/* A change of a range of pages. */
enum change {
    /* Private memory without a file, for which malloc can request huge pages. */
    HEAP,
    /* Other private memory without a file: stacks, reserved areas, what the loader maps. */
    ANONYMOUS,
    FILE_PAGES,
    REMOVED,
    /* The content is dropped, the mapping stays. */
    DISCARDED,
    /* The kernel wrote to it, in a system call. */
    FILLED,
    /* The pages move to the range of the MOVED_TO that follows. */
    MOVED_FROM,
    MOVED_TO,
    /* Huge pages are requested for it. */
    REQUESTED,
};

enum { MAPPED_PAGE_SHIFT = 12 };

enum state {
    RUNNING,
    /* The capture has the requested number of references. */
    FULL,
    /* The program closed the pipe, or the pipe has no reader. */
    CUT_OFF,
};

/* A reference to a block that the filter did not hold. If the kind is MAPPING, it is a change of a range of
 * pages of 4 KiB: `references` is the first page, and `place` has the number of pages instead of the block, and
 * the change instead of the slot. */
struct step {
    /* References since the step before. */
    uint64_t references;
    /* From the highest bit: 55 bits of the block, 6 of its slot, 1 if the block that left the slot was
     * written, 2 of the kind. */
    uint64_t place;
};

/* Totals count from the beginning of the program; references that are neither reads nor writes are
 * instructions. `sequence` grows by one after each sent chunk. */
struct chunk {
    uint64_t sequence;
    uint64_t references;
    uint64_t reads;
    uint64_t writes;
    uint32_t threads;
    uint32_t children;
    uint32_t programs;
    uint32_t state;
    uint64_t steps;
    struct step step[CHUNK_STEPS];
};

static inline uint64_t place_of(uint64_t block, unsigned slot, int is_left_written, enum kind kind)
{
    return block << 9 | (uint64_t)slot << 3 | (uint64_t)is_left_written << 2 | kind;
}

#endif
