// A QEMU user-mode plugin that measures decisions of a program, its calls between decision_begins and decision_ends.
// For each decision it counts the instructions, and the different addresses that they read or write in tables. A
// table is memory that the program got by mmap. malloc calls mmap for MALLOC_MMAP_THRESHOLD_ bytes or more; smaller
// memory is not counted. At each call of form_begins, and at the end, the plugin writes the largest counts since the
// call before as a line to standard error. They are the same in every run of the same code.
//
//     MALLOC_MMAP_THRESHOLD_=400000 qemu-x86_64 -plugin decision_instructions.so target/release/examples/decisions
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../capture/qemu_plugin.h"

// Of version 1 of the interface; later ones lack it.
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, enum qemu_plugin_op op,
                                                void *counter, uint64_t addend);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *insn);

QEMU_EXPORT int qemu_plugin_version = 1;

static uint64_t executed, begun, largest, decisions;

// The mapped tables, and the addresses of the current decision: a set by open addressing, emptied by a new mark.
enum { TABLES = 4096, ADDRESSES = 1 << 14 };
static struct table {
    uint64_t begin, end;
} tables[TABLES];
static size_t table_count;
static uint64_t asked_bytes;
static struct seen {
    uint64_t address, mark;
} seen[ADDRESSES];
static uint64_t mark = 1, addresses, most_addresses;

static bool is_in_table(uint64_t address)
{
    for (size_t at = 0; at < table_count; at++)
        if (address >= tables[at].begin && address < tables[at].end)
            return true;
    return false;
}

static void touches(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    if (begun == 0 || addresses >= ADDRESSES / 2 || !is_in_table(address))
        return;
    size_t at = (address * 0x9e3779b97f4a7c15u) >> 50;
    while (seen[at].mark == mark) {
        if (seen[at].address == address)
            return;
        at = (at + 1) % ADDRESSES;
    }
    seen[at] = (struct seen){address, mark};
    addresses++;
}

enum { MMAP = 9, MUNMAP = 11, MREMAP = 25 };

static void asked(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, uint64_t first, uint64_t second,
                  uint64_t third, uint64_t fourth, uint64_t fifth, uint64_t sixth, uint64_t seventh, uint64_t eighth)
{
    asked_bytes = number == MMAP ? second : number == MREMAP ? third : 0;
    if (number != MUNMAP && number != MREMAP)
        return;
    for (size_t at = 0; at < table_count; at++)
        if (tables[at].begin == first)
            tables[at] = tables[--table_count];
}

static void answered(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, int64_t result)
{
    if (asked_bytes > 0 && result > 0 && table_count < TABLES)
        tables[table_count++] = (struct table){result, result + asked_bytes};
    asked_bytes = 0;
}

static void begins(unsigned int vcpu, void *data)
{
    begun = executed;
    mark++;
    addresses = 0;
}

static void ends(unsigned int vcpu, void *data)
{
    if (begun == 0)
        return;
    uint64_t count = executed - begun;
    largest = count > largest ? count : largest;
    most_addresses = addresses > most_addresses ? addresses : most_addresses;
    begun = 0;
    decisions++;
}

static void report(unsigned int vcpu, void *data)
{
    if (decisions == 0)
        return;
    fprintf(stderr, "%" PRIu64 " and %" PRIu64 " of %" PRIu64 "\n", largest, most_addresses, decisions);
    largest = most_addresses = decisions = 0;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    for (size_t at = 0; at < qemu_plugin_tb_n_insns(block); at++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, at);
        const char *symbol = qemu_plugin_insn_symbol(instruction);
        qemu_plugin_vcpu_udata_cb_t call =
            symbol == NULL                      ? NULL
            : strstr(symbol, "decision_begins") ? begins
            : strstr(symbol, "decision_ends")   ? ends
            : strstr(symbol, "form_begins")     ? report
                                                : NULL;
        if (call != NULL)
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, call, QEMU_PLUGIN_CB_NO_REGS, NULL);
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, QEMU_PLUGIN_INLINE_ADD_U64, &executed, 1);
        qemu_plugin_register_vcpu_mem_cb(instruction, touches, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
    }
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count, char **words)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, asked);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, answered);
    return 0;
}
