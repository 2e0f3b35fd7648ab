// Mixes all calls of the malloc family and of C++, in three threads and a child; frees or resizes blocks of one call by
// another. No pvalloc, since jemalloc has none. Prints which allocator a block belongs to, as shown by functions that only
// this allocator has.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace {

constexpr int kThreads = 3, kRounds = 3000, kKept = 24;

[[noreturn]] void fail(const char *what, int kind)
{
    std::fprintf(stderr, "mixes: %s, call %d\n", what, kind);
    std::exit(1);
}

enum Way { kFree, kDelete, kDeleteArray, kDeleteSized, kDeleteAligned };

struct Block {
    unsigned char *memory = nullptr;
    size_t size = 0;
    Way way = kFree;
};

Block allocated(unsigned kind, size_t size)
{
    void *memory = nullptr;
    Way way = kFree;
    // mimalloc 2.0.9 aligns some blocks to less than 256.
    size_t alignment = size_t{64} << (size % 2);
    switch (kind) {
    case 0: memory = malloc(size); break;
    case 1: memory = calloc(1, size); break;
    case 2: memory = calloc(size, 1); break;
    case 3: memory = realloc(nullptr, size); break;
    case 4: memory = reallocarray(nullptr, size, 1); break;
    case 5:
        if (posix_memalign(&memory, alignment, size) != 0)
            fail("posix_memalign refuses", 5);
        break;
    case 6: memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment); break;
    case 7: memory = memalign(alignment, size); break;
    case 8: memory = valloc(size); break;
    case 9: memory = ::operator new(size), way = kDelete; break;
    case 10: memory = ::operator new[](size), way = kDeleteArray; break;
    case 11: memory = ::operator new(size, std::nothrow), way = kDeleteSized; break;
    case 12: memory = ::operator new(size, std::align_val_t{256}), way = kDeleteAligned; break;
    default: {
        std::string text(size < 200000 ? size : 200000, 'x');
        memory = strdup(text.c_str());
        size = text.size();
    }
    }
    if (memory == nullptr)
        fail("no memory", static_cast<int>(kind));
    if ((kind >= 5 && kind <= 7 && reinterpret_cast<uintptr_t>(memory) % alignment != 0) ||
        (kind == 8 && reinterpret_cast<uintptr_t>(memory) % 4096 != 0))
        fail("not aligned", static_cast<int>(kind));
    if ((kind == 1 || kind == 2) && static_cast<unsigned char *>(memory)[size - 1] != 0)
        fail("no zeros", static_cast<int>(kind));
    if (way == kFree && malloc_usable_size(memory) < size)
        fail("usable size too small", static_cast<int>(kind));
    return {static_cast<unsigned char *>(memory), size, way};
}

void freed(const Block &block)
{
    switch (block.way) {
    case kFree: free(block.memory); break;
    case kDelete: ::operator delete(block.memory); break;
    case kDeleteArray: ::operator delete[](block.memory); break;
    case kDeleteSized: ::operator delete(block.memory, block.size); break;
    case kDeleteAligned: ::operator delete(block.memory, std::align_val_t{256}); break;
    }
}

void check(const Block &block, int at)
{
    if (block.memory[0] != at || block.memory[block.size / 2] != at || block.memory[block.size - 1] != at)
        fail("a block has changed", at);
}

void *work(void *argument)
{
    unsigned state = static_cast<unsigned>(reinterpret_cast<size_t>(argument)) * 77 + 1;
    Block kept[kKept];
    size_t sum = 0;
    for (int number = 0; number < kRounds; number++) {
        state = state * 1103515245 + 12345;
        unsigned at = (state >> 4) % kKept, kind = (state >> 20) % 14;
        size_t size = 1 + (state >> 8) % (state & 64 ? 600000 : 3000);
        Block &block = kept[at];
        if (block.memory != nullptr) {
            check(block, static_cast<int>(at));
            if (block.way == kFree && state & 128) {
                void *grown = state & 512 ? realloc(block.memory, size) : reallocarray(block.memory, 1, size);
                block = {static_cast<unsigned char *>(grown), size, kFree};
            } else {
                freed(block);
                block = allocated(kind, size);
            }
        } else {
            block = allocated(kind, size);
        }
        memset(block.memory, static_cast<int>(at), block.size);
        sum = sum * 31 + size;
    }
    for (Block &block : kept)
        if (block.memory != nullptr)
            freed(block);
    return reinterpret_cast<void *>(sum);
}

template <typename Function> Function *function(const char *name)
{
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

// Which allocator a block of this size from malloc belongs to.
const char *owner(size_t size)
{
    auto *mallctl = function<int(const char *, void *, size_t *, void *, size_t)>("mallctl");
    auto *region = function<bool(const void *)>("mi_is_in_heap_region");
    auto *extension = function<int(const char *, size_t *)>("MallocExtension_GetNumericProperty");
    auto *owns = function<int(void *)>("hand_made_owns");
    uint64_t before = 0, after = 0;
    size_t length = sizeof before, bytes_before = 0, bytes_after = 0;
    if (mallctl != nullptr)
        mallctl("thread.allocated", &before, &length, nullptr, 0);
    if (extension != nullptr)
        extension("generic.current_allocated_bytes", &bytes_before);
    void *block = malloc(size);
    if (mallctl != nullptr)
        mallctl("thread.allocated", &after, &length, nullptr, 0);
    if (extension != nullptr)
        extension("generic.current_allocated_bytes", &bytes_after);
    const char *name = "the C library or the preload library";
    if (after >= before + size)
        name = "jemalloc";
    else if (region != nullptr && region(block))
        name = "mimalloc";
    else if (extension != nullptr && bytes_after >= bytes_before + size)
        name = "tcmalloc";
    else if (owns != nullptr && owns(block))
        name = "hand-made";
    free(block);
    return name;
}

// jemalloc's own calls mixed with those of the standard.
void own_calls()
{
    auto *mallocx = function<void *(size_t, int)>("mallocx");
    auto *dallocx = function<void(void *, int)>("dallocx");
    if (mallocx == nullptr || dallocx == nullptr)
        return;
    for (size_t size : {100UL, 100000UL, 3000000UL}) {
        void *block = mallocx(size, 0);
        memset(block, 1, size);
        free(block);
        block = malloc(size);
        memset(block, 1, size);
        dallocx(block, 0);
    }
    std::puts("mallocx and dallocx mixed");
}

} // namespace

int main()
{
    std::printf("owner %s\n", owner(100));
    std::printf("owner %s\n", owner(300000));
    pthread_t threads[kThreads];
    size_t sum = 0;
    for (size_t at = 0; at < kThreads; at++)
        pthread_create(&threads[at], nullptr, work, reinterpret_cast<void *>(at));
    for (pthread_t thread : threads) {
        void *own;
        pthread_join(thread, &own);
        sum = sum * 1009 + reinterpret_cast<size_t>(own);
    }
    own_calls();
    std::fflush(stdout);
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(static_cast<int>(reinterpret_cast<size_t>(work(reinterpret_cast<void *>(9))) & 63));
    waitpid(child, &status, 0);
    std::vector<int> grown;
    for (int at = 0; at < 300000; at++)
        grown.push_back(at);
    errno = 0;
    // Too large for any machine; volatile, since compilers know that the call must fail.
    volatile size_t huge = SIZE_MAX / 2;
    void *refused = malloc(huge);
    std::printf("huge %s\n", refused == nullptr && errno == ENOMEM ? "refused" : "given");
    std::printf("finished %zu, child %d, grown %zu\n", sum, status, grown.size());
    return 0;
}
