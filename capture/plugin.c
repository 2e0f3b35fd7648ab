/* A QEMU user-mode plugin that captures and filters the memory references of a program.
 *
 * -plugin qemu_capture.so,stream=FD,shared=FD[,max=REFERENCES][,filter=BLOCKS][,threads=on]
 *
 * Instructions are counted and fetched by segments: instructions of a translation block that lie in
 * the same 512-byte block of memory. One callback counts a segment. After each access to data, the
 * block of the instruction is touched again if another instruction of its segment follows. So the
 * order of use is the same as with a callback for each instruction.
 *
 * System calls that map memory or read into it become records between the steps. The mappings that
 * the program starts with come first.
 *
 * Without threads=on only the first thread is recorded, without locks. A forked child records
 * nothing; a program that replaces this program (execve) runs outside of QEMU.
 *
 * With threads=on, a change of mappings is recorded when its system call returns. If another thread
 * maps the range of a munmap again and touches it before that, the record removes the new mapping.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filter.h"
#include "qemu_plugin.h"
#include "stream.h"

QEMU_EXPORT int qemu_plugin_version = 1;

/* Instructions that are fetched from the same block; the first may begin in the block before. */
struct segment {
    uint64_t block;
    uint32_t instructions;
    bool is_crossing;
};

/* The access of the callback before, because the next callback may belong to the same access. */
struct access {
    /* The instruction, by the tag of its callback; 0 for none. */
    uintptr_t tag;
    uint64_t start;
    uint64_t end;
    bool is_store;
    /* Number of the chunk's last steps that belong to this access. */
    unsigned steps;
};

static const unsigned NO_VCPU = UINT32_MAX;
/* Descriptors of a program start at 3; a high number keeps the pipe apart from them. */
static const int STREAM_FD_MIN = 900;
/* An instruction that reads and writes two blocks needs four. */
enum { FILTER_BLOCKS_MIN = 4 };

static struct filter filter;
static struct chunk *chunk;
static struct access last;
/* The slot of the last block of a fetch, which the next fetch often uses again. */
static unsigned fetched_slot;
/* References at the last step. */
static uint64_t references_reported;
static uint64_t references_max = UINT64_MAX;
static int stream = -1;
static struct stat stream_identity;
/* The recorded thread, or NO_VCPU after the capture has stopped; with threads=on, every thread. */
static unsigned recorded_vcpu;
static bool follows_threads;
static pthread_spinlock_t lock;
/* Numbers of the target's system calls; -1 does not exist. */
struct calls {
    int64_t exec[2];
    int64_t mmap, munmap, mremap, brk, madvise, read, pread;
};

static struct calls calls = {{-1, -1}, -1, -1, -1, -1, -1, -1, -1};
/* Arguments of the system call that this thread is in. */
static __thread uint64_t arguments[4];
/* The mappings that the program starts with are recorded. */
static bool has_mappings;
static uint64_t heap_end;
/* Pages that the kernel wrote to, by their remainder: programs often read into the same buffer. */
enum { FILLED_PAGES = 1024 };
static uint64_t filled[FILLED_PAGES];

static void stop(enum state state)
{
    recorded_vcpu = NO_VCPU;
    chunk->state = state;
}

/* The program may have closed the pipe and opened another file with the same number. */
static bool is_stream_ours(void)
{
    struct stat now;
    return fstat(stream, &now) == 0 && now.st_dev == stream_identity.st_dev &&
           now.st_ino == stream_identity.st_ino;
}

static void send_chunk(void)
{
    const char *from = (const char *)chunk;
    const char *end = (const char *)&chunk->step[chunk->steps];
    while (from < end && is_stream_ours()) {
        ssize_t written = write(stream, from, (size_t)(end - from));
        if (written > 0)
            from += written;
        else if (errno != EINTR)
            break;
    }
    if (from < end) {
        stop(CUT_OFF);
        return;
    }
    last.steps = 0;
    chunk->steps = 0;
    chunk->sequence++;
}

static __attribute__((noinline)) void add_step(uint64_t block, enum kind kind,
                                               struct touched touched)
{
    if (chunk->steps == CHUNK_STEPS)
        send_chunk();
    if (recorded_vcpu == NO_VCPU)
        return;
    chunk->step[chunk->steps] = (struct step){
        .references = chunk->references - references_reported,
        .place = place_of(block, touched.slot, touched.is_left_written, kind),
    };
    references_reported = chunk->references;
    chunk->steps++;
    last.steps = kind == INSTRUCTION ? 0 : last.steps + 1;
}

/* Records a change of the pages that have bytes in a range. */
static void add_change(enum change change, uint64_t start, uint64_t bytes)
{
    /* Memory ends with the last address. */
    if (bytes == 0 || bytes - 1 > UINT64_MAX - start)
        return;
    uint64_t first = start >> MAPPED_PAGE_SHIFT;
    uint64_t end = ((start + bytes - 1) >> MAPPED_PAGE_SHIFT) + 1;
    if (change != FILLED)
        memset(filled, 0, sizeof filled);
    if (chunk->steps == CHUNK_STEPS)
        send_chunk();
    if (recorded_vcpu != NO_VCPU)
        chunk->step[chunk->steps++] =
            (struct step){first, place_of(end - first, change, 0, MAPPING)};
    /* The steps before belong to an access that has ended. */
    last.tag = 0;
    last.steps = 0;
}

static void add_filled(uint64_t start, uint64_t bytes)
{
    bool is_new = false;
    if (bytes == 0)
        return;
    uint64_t last_page = (start + bytes - 1) >> MAPPED_PAGE_SHIFT;
    for (uint64_t page = start >> MAPPED_PAGE_SHIFT; page <= last_page; page++) {
        is_new |= filled[page % FILLED_PAGES] != page;
        filled[page % FILLED_PAGES] = page;
    }
    if (is_new)
        add_change(FILLED, start, bytes);
}

/* Records the mappings of this process, which include those of the program. If QEMU places the program
 * at other addresses, these stay unknown. */
static void add_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    has_mappings = true;
    while (maps && fgets(line, sizeof line, maps)) {
        uint64_t start, end, inode;
        if (sscanf(line, "%lx-%lx %*s %*x %*s %lu", &start, &end, &inode) == 3)
            add_change(inode ? FILE_PAGES : ANONYMOUS, start, end - start);
    }
    if (maps)
        fclose(maps);
}

/* Returns the block's slot. */
static inline unsigned touch(uint64_t block, enum kind kind)
{
    struct touched touched = filter_touch(&filter, block, kind == WRITE);
    if (__builtin_expect(touched.is_entered, 0))
        add_step(block, kind, touched);
    return touched.slot;
}

/* Touches a block that instructions are fetched from. */
static inline void touch_fetched(uint64_t block)
{
    if (__builtin_expect(filter.block[fetched_slot] == block, 1))
        filter.last_use[fetched_slot] = ++filter.uses;
    else
        fetched_slot = touch(block, INSTRUCTION);
}

static inline void fetch(const struct segment *segment)
{
    chunk->references += segment->instructions;
    last.tag = 0;
    if (segment->is_crossing)
        touch(segment->block - 1, INSTRUCTION);
    touch_fetched(segment->block);
    if (__builtin_expect(chunk->references >= references_max, 0)) {
        stop(FULL);
        _exit(0);
    }
}

/* A load followed by a store to the same address is a modification, which counts as one reference, a
 * write. */
static void turn_into_write(void)
{
    chunk->writes++;
    chunk->reads--;
    for (uint64_t step = chunk->steps - last.steps; step < chunk->steps; step++)
        chunk->step[step].place = (chunk->step[step].place & ~UINT64_C(3)) | WRITE;
}

/* QEMU may report an access in parts, for example of 8 bytes. Consecutive parts make one reference. */
static inline void access_data(uintptr_t tag, uint64_t start, unsigned bytes, bool is_store)
{
    uint64_t end = start + bytes;
    bool is_same = last.tag == tag;
    if (is_same && start == last.end && is_store == last.is_store) {
        last.end = end;
    } else if (is_same && start == last.start && is_store && !last.is_store) {
        turn_into_write();
        last.end = end;
        last.is_store = true;
    } else {
        chunk->references++;
        if (is_store)
            chunk->writes++;
        else
            chunk->reads++;
        last = (struct access){tag, start, end, is_store, 0};
    }
    enum kind kind = is_store ? WRITE : READ;
    touch(start >> BLOCK_SHIFT, kind);
    if (__builtin_expect((end - 1) >> BLOCK_SHIFT != start >> BLOCK_SHIFT, 0))
        touch((end - 1) >> BLOCK_SHIFT, kind);
    /* See tag_of. */
    if (tag & 1)
        touch_fetched(tag >> 1 >> BLOCK_SHIFT);
}

static void on_segment(unsigned vcpu, void *data)
{
    if (vcpu == recorded_vcpu)
        fetch(data);
}

static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    if (vcpu == recorded_vcpu)
        access_data((uintptr_t)data, address, 1u << qemu_plugin_mem_size_shift(info),
                    qemu_plugin_mem_is_store(info));
}

static void on_segment_of_any(unsigned vcpu, void *data)
{
    pthread_spin_lock(&lock);
    if (recorded_vcpu != NO_VCPU)
        fetch(data);
    pthread_spin_unlock(&lock);
}

static void on_access_of_any(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address,
                             void *data)
{
    pthread_spin_lock(&lock);
    if (recorded_vcpu != NO_VCPU)
        access_data((uintptr_t)data, address, 1u << qemu_plugin_mem_size_shift(info),
                    qemu_plugin_mem_is_store(info));
    pthread_spin_unlock(&lock);
}

/* The tag of an instruction: the address of its last byte, shifted left by one bit. The lowest bit is set
 * if another instruction of its segment follows. User addresses leave the highest bit free. */
static void *tag_of(uint64_t last_byte, bool is_followed)
{
    return (void *)(uintptr_t)(last_byte << 1 | is_followed);
}

static uint64_t last_byte_of(const struct qemu_plugin_insn *insn)
{
    return qemu_plugin_insn_vaddr(insn) + qemu_plugin_insn_size(insn) - 1;
}

/* Segments are never freed, because QEMU does not report when it drops a translation. */
static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb);
    struct segment *segment = NULL;
    if (recorded_vcpu == NO_VCPU)
        return;
    if (!has_mappings)
        add_mappings();
    for (size_t index = 0; index < count; index++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, index);
        uint64_t first = qemu_plugin_insn_vaddr(insn) >> BLOCK_SHIFT;
        uint64_t block = last_byte_of(insn) >> BLOCK_SHIFT;
        if (!segment || segment->block != block) {
            segment = malloc(sizeof *segment);
            if (!segment)
                abort();
            *segment = (struct segment){.block = block, .is_crossing = first != block};
            qemu_plugin_register_vcpu_insn_exec_cb(
                insn, follows_threads ? on_segment_of_any : on_segment, QEMU_PLUGIN_CB_NO_REGS,
                segment);
        }
        segment->instructions++;
        bool is_followed =
            index + 1 < count &&
            last_byte_of(qemu_plugin_tb_get_insn(tb, index + 1)) >> BLOCK_SHIFT == block;
        qemu_plugin_register_vcpu_mem_cb(insn, follows_threads ? on_access_of_any : on_access,
                                         QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                         tag_of(last_byte_of(insn), is_followed));
    }
}

static void on_thread(qemu_plugin_id_t id, unsigned vcpu)
{
    if (recorded_vcpu != NO_VCPU)
        __atomic_fetch_add(&chunk->threads, 1, __ATOMIC_RELAXED);
}

static bool is_exec(int64_t number)
{
    return recorded_vcpu != NO_VCPU && number >= 0 &&
           (number == calls.exec[0] || number == calls.exec[1]);
}

static void on_call(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
                    uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    memcpy(arguments, (uint64_t[]){a1, a2, a3, a4}, sizeof arguments);
    if (is_exec(number))
        __atomic_fetch_add(&chunk->programs, 1, __ATOMIC_RELAXED);
}

static void add_mapped(uint64_t start, uint64_t bytes, uint64_t flags)
{
    /* The targets that `capture` offers have the same flags. Stacks of threads have MAP_STACK,
     * malloc's areas for threads MAP_NORESERVE, and what the loader maps within a library MAP_FIXED. */
    const uint64_t is_anonymous = 0x20, is_shared = 0x01;
    const uint64_t is_not_malloc = 0x20000 | 0x4000 | 0x10;
    if (!(flags & is_anonymous) || flags & is_shared)
        add_change(FILE_PAGES, start, bytes);
    else
        add_change(flags & is_not_malloc ? ANONYMOUS : HEAP, start, bytes);
}

static uint64_t round_up_to_page(uint64_t bytes)
{
    const uint64_t rest = (1 << MAPPED_PAGE_SHIFT) - 1;
    return (bytes + rest) & ~rest;
}

static void add_moved(uint64_t from, uint64_t bytes_before, uint64_t to, uint64_t bytes)
{
    bytes_before = round_up_to_page(bytes_before);
    bytes = round_up_to_page(bytes);
    uint64_t kept = bytes < bytes_before ? bytes : bytes_before;
    if (from != to) {
        add_change(MOVED_FROM, from, kept);
        add_change(MOVED_TO, to, kept);
    }
    add_change(REMOVED, from + kept, bytes_before - kept);
    add_change(HEAP, to + kept, bytes - kept);
}

static void add_heap(uint64_t end)
{
    uint64_t now = round_up_to_page(end);
    if (heap_end && now > heap_end)
        add_change(HEAP, heap_end, now - heap_end);
    else if (now < heap_end)
        add_change(REMOVED, now, heap_end - now);
    heap_end = now;
}

/* Records what a system call that succeeded did to memory. */
static void add_call(int64_t number, uint64_t result)
{
    const uint64_t dont_need = 4, huge_page = 14;
    uint64_t start = arguments[0], bytes = arguments[1];
    if (number == calls.mmap)
        add_mapped(result, bytes, arguments[3]);
    else if (number == calls.munmap)
        add_change(REMOVED, start, bytes);
    else if (number == calls.mremap)
        add_moved(start, bytes, result, arguments[2]);
    else if (number == calls.brk)
        add_heap(result);
    else if (number == calls.madvise && arguments[2] == dont_need)
        add_change(DISCARDED, start, bytes);
    else if (number == calls.madvise && arguments[2] == huge_page)
        add_change(REQUESTED, start, bytes);
    else if (number == calls.read || number == calls.pread)
        add_filled(arguments[1], result);
}

/* An execve that returns has failed. */
static void on_return(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
    const int64_t errors = 4096;
    if (is_exec(number))
        __atomic_fetch_sub(&chunk->programs, 1, __ATOMIC_RELAXED);
    if (number < 0 || (result < 0 && result > -errors))
        return;
    if (follows_threads)
        pthread_spin_lock(&lock);
    if (follows_threads ? recorded_vcpu != NO_VCPU : vcpu == recorded_vcpu)
        add_call(number, (uint64_t)result);
    if (follows_threads)
        pthread_spin_unlock(&lock);
}

static void before_fork(void)
{
    pthread_spin_lock(&lock);
}

static void in_parent(void)
{
    chunk->children += recorded_vcpu != NO_VCPU;
    pthread_spin_unlock(&lock);
}

/* The chunk is shared with the parent: the child must not write to it. */
static void in_child(void)
{
    recorded_vcpu = NO_VCPU;
    if (is_stream_ours())
        close(stream);
    pthread_spin_unlock(&lock);
}

/* Finds the numbers of execve and execveat, mmap (mmap2 on 32 bits), munmap, mremap, brk, madvise, read and
 * pread64. Source: Linux 6.1, the targets' syscall tables. */
static void find_calls(const char *target)
{
    static const struct {
        const char *target;
        struct calls calls;
    } known[] = {
        {"x86_64", {{59, 322}, 9, 11, 25, 12, 28, 0, 17}},
        {"i386", {{11, 358}, 192, 91, 163, 45, 219, 3, 180}},
        {"aarch64", {{221, 281}, 222, 215, 216, 214, 233, 63, 67}},
        {"arm", {{11, 387}, 192, 91, 163, 45, 220, 3, 180}},
        {"riscv64", {{221, 281}, 222, 215, 216, 214, 233, 63, 67}},
        {"ppc64le", {{11, 362}, 90, 91, 163, 45, 205, 3, 179}},
        {"s390x", {{11, 354}, -1, 91, 163, 45, 219, 3, 180}},
    };
    for (size_t row = 0; row < sizeof known / sizeof *known; row++)
        if (strcmp(known[row].target, target) == 0)
            calls = known[row].calls;
}

/* QEMU reads the version right after it loads the plugin. Scoreboards came with version 2. */
__attribute__((constructor)) static void choose_version(void)
{
    if (dlsym(RTLD_DEFAULT, "qemu_plugin_scoreboard_new"))
        qemu_plugin_version = 2;
}

static bool attach(int stream_fd, int shared_fd)
{
    stream = fcntl(stream_fd, F_DUPFD_CLOEXEC, STREAM_FD_MIN);
    if (stream < 0)
        stream = fcntl(stream_fd, F_DUPFD_CLOEXEC, 3);
    if (stream < 0 || fstat(stream, &stream_identity) != 0)
        return false;
    chunk = mmap(NULL, sizeof *chunk, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
    close(stream_fd);
    close(shared_fd);
    return chunk != MAP_FAILED;
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                    char **argv)
{
    int stream_fd = -1, shared_fd = -1;
    unsigned blocks = FILTER_BLOCKS;
    for (int argument = 0; argument < argc; argument++) {
        const char *text = argv[argument];
        if (strcmp(text, "threads=on") == 0)
            follows_threads = true;
        else if (sscanf(text, "stream=%d", &stream_fd) != 1 &&
                 sscanf(text, "shared=%d", &shared_fd) != 1 &&
                 sscanf(text, "filter=%u", &blocks) != 1 &&
                 sscanf(text, "max=%lu", &references_max) != 1) {
            fprintf(stderr, "qemu_capture: unknown argument %s\n", text);
            return 1;
        }
    }
    if (blocks < FILTER_BLOCKS_MIN || blocks > FILTER_BLOCKS) {
        fprintf(stderr, "qemu_capture: a filter of %u blocks; possible are %d to %d\n", blocks,
                FILTER_BLOCKS_MIN, FILTER_BLOCKS);
        return 1;
    }
    if (!attach(stream_fd, shared_fd)) {
        perror("qemu_capture: cannot attach to pagewise");
        return 1;
    }
    /* After a kill of pagewise the stream has no reader, so kill the program too. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    filter_init(&filter, blocks);
    find_calls(info->target_name);
    if (pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE) != 0 ||
        pthread_atfork(before_fork, in_parent, in_child) != 0)
        return 1;
    qemu_plugin_register_vcpu_init_cb(id, on_thread);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
    return 0;
}
