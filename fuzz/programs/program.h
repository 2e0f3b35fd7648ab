// A program that runs the operations of a script and prints everything that it can observe.
//
// The same script prints the same lines with every allocator: no line contains an address, or a result
// that the C library or the kernel may choose freely.
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PAGE = 4096, SLOTS = 16, PAGES_MAX = 4096, WORKERS_MAX = 6, NUMBERS = 4 };

// A block of the malloc family. `mark` determines the contents written to it.
typedef struct {
    unsigned char *data;
    size_t size, alignment;
    uint64_t mark;
    enum { BY_MALLOC, BY_NEW, BY_NEW_ARRAY, BY_NEW_ALIGNED } origin;
} Block;

typedef enum { HOLE, MAPPED } PageState;

// Pages that one call mapped. A hole in them may belong to another mapping by now.
typedef struct {
    char *at;
    size_t pages;
    unsigned char state[PAGES_MAX];
    unsigned char stays[PAGES_MAX];  // May be excluded from children by MADV_DONTFORK.
    int is_whole;   // One mapping, with the same attributes throughout.
} Region;

typedef struct {
    Block blocks[SLOTS];
    Region regions[SLOTS];
} Memory;

typedef struct Operation {
    int worker, index;
    const struct Kind *kind;
    uint64_t numbers[NUMBERS];
} Operation;

typedef struct {
    int number, depth;
    Memory *memory;
    const Operation *current;
} Worker;

typedef struct Kind {
    const char *name;
    void (*act)(Worker *worker, const uint64_t *numbers);
} Kind;

extern const Kind BLOCK_KINDS[], MAP_KINDS[], HOLE_KINDS[], PROCESS_KINDS[];
extern int is_serial;
extern int leaves_main_thread;  // The main thread ends by pthread_exit, so the last thread ends the program.
extern const char *own_path;
extern __thread Worker *self;

// Prints a line about the current operation.
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Runs the next `count` operations of the worker in this child or thread.
void run_next(Worker *worker, size_t count);
// Prints the contents of the worker's slots in one line.
void report_memory(Worker *worker);
void release_memory(Worker *worker);
void report_blocks(Worker *worker);
void release_blocks(Worker *worker);
void forget_not_inherited(Memory *memory);

// How an access ends: 0, or the signal and its code.
typedef struct {
    int signal, code;
    ptrdiff_t distance;  // Of the faulting address from the accessed one.
} Outcome;
Outcome load(const char *address, uint64_t *value);
Outcome store(char *address, uint64_t value);

uint64_t mix(uint64_t hash, uint64_t value);
static inline int error_of(long result) { return result == -1 ? errno : 0; }
// Finds mapped pages without a hole among `count` pages from `from` on; returns their number and moves
// `from` to the first.
size_t run_of(const Region *region, size_t *from, size_t count);
uint64_t region_digest(const Region *region);
void map_region(Region *region, size_t pages, uint64_t kind, int protection);
void unmap_region(Region *region);
int any_protection(uint64_t number);
