// A QEMU user-mode plugin that counts the instructions of single calls in a program: those between its functions
// decision_begins and decision_ends. At each call of form_begins, and at the end, it writes the largest count since
// the call before as a line to standard error. The counts are the same in every run of the same code.
//
//     qemu-x86_64 -plugin decision_instructions.so target/release/examples/decisions
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

static void begins(unsigned int vcpu, void *data)
{
    begun = executed;
}

static void ends(unsigned int vcpu, void *data)
{
    if (begun == 0)
        return;
    uint64_t count = executed - begun;
    largest = count > largest ? count : largest;
    begun = 0;
    decisions++;
}

static void report(unsigned int vcpu, void *data)
{
    if (decisions == 0)
        return;
    fprintf(stderr, "%" PRIu64 " of %" PRIu64 "\n", largest, decisions);
    largest = decisions = 0;
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
    }
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count, char **words)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
