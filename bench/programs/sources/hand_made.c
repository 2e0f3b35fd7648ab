/* A hand-made allocator: the malloc family on its own mappings, with a header before each block. Freed blocks go to
   lists by size. It defines only what a program must: no reallocarray and no C++ operators. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CLASSES = 40, HEADER = 64, MAGIC = 0x68616e64 };

struct header {
    uint32_t magic, class;
    size_t size;
    void *start;
    struct header *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct header *lists[CLASSES];
static char *fresh, *fresh_end;

static struct header *header_of(void *block)
{
    struct header *header = (struct header *)((char *)block - HEADER);
    if (header->magic != MAGIC)
        __builtin_trap(); /* a block of another allocator */
    return header;
}

/* Room of a power of two, from its list or from fresh memory. */
static void *room(unsigned class)
{
    size_t size = (size_t)1 << class;
    struct header *header = lists[class];
    if (header != NULL) {
        lists[class] = header->next;
        return header->start;
    }
    if ((size_t)(fresh_end - fresh) < size) {
        size_t mapped = size > (4 << 20) ? size : 4 << 20;
        char *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return NULL;
        fresh = memory;
        fresh_end = memory + mapped;
    }
    fresh += size;
    return fresh - size;
}

static void *aligned(size_t alignment, size_t size)
{
    size_t wanted = size + HEADER + (alignment > 16 ? alignment : 16);
    unsigned class = 7;
    if (wanted < size || wanted > (size_t)1 << (CLASSES - 1)) {
        errno = ENOMEM;
        return NULL;
    }
    while ((size_t)1 << class < wanted)
        class++;
    pthread_mutex_lock(&lock);
    char *start = room(class);
    pthread_mutex_unlock(&lock);
    if (start == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t mask = (alignment > 16 ? alignment : 16) - 1;
    char *block = (char *)(((uintptr_t)start + HEADER + mask) & ~mask);
    struct header *header = (struct header *)(block - HEADER);
    *header = (struct header){.magic = MAGIC, .class = class, .size = size, .start = start};
    return block;
}

void *malloc(size_t size)
{
    return aligned(16, size);
}

void free(void *block)
{
    if (block == NULL)
        return;
    struct header *header = header_of(block);
    header->magic = 0;
    /* The list's node lies at the start of the room, wherever the block began. */
    struct header copy = *header, *node = copy.start;
    pthread_mutex_lock(&lock);
    node->start = copy.start;
    node->next = lists[copy.class];
    lists[copy.class] = node;
    pthread_mutex_unlock(&lock);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = aligned(16, bytes);
    /* The compiler must not make a call of calloc of this. */
    for (volatile char *at = block, *end = at + bytes; block != NULL && at < end; at++)
        *at = 0;
    return block;
}

void *realloc(void *block, size_t size)
{
    void *other = aligned(16, size);
    if (block != NULL && other != NULL) {
        size_t before = header_of(block)->size;
        memcpy(other, block, before < size ? before : size);
        free(block);
    }
    return other;
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = aligned(alignment, size);
    return *block == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return aligned(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
    return aligned(alignment, size);
}

void *valloc(size_t size)
{
    return aligned(4096, size);
}

void *pvalloc(size_t size)
{
    return aligned(4096, (size + 4095) & ~(size_t)4095);
}

size_t malloc_usable_size(void *block)
{
    return block == NULL ? 0 : header_of(block)->size;
}

int hand_made_owns(void *block)
{
    return header_of(block)->size > 0;
}
