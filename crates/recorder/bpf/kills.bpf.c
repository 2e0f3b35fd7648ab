// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reports kills from BTF-typed raw tracepoints: the events of trace::kills without tracefs. Events of locks and
// page counts come hundreds of thousands of times a second, so they are reported only from a SIGKILL until
// the reader finds that no process is dying.

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "kills.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define SIGKILL 9
#define SIGNAL_DELIVERED_NOW 0 // a signal that was already pending, or is ignored, has another result
#define SI_USER 0
#define SI_KERNEL 0x80
#define CLONE_THREAD 0x10000
#define PAGE_SHIFT 12
#define MM_SWAPENTS 2

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

enum call { NO_CALL, KILLS, RELEASES };

// Threads that are inside a call to kill or process_mrelease.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} calls SEC(".maps");

const volatile u64 system_calls[6] = {}; // numbers of kill, tkill, tgkill, queueinfo, pidfd, mrelease

u64 lost = 0;     // events that found the buffer full
u32 in_calls = 0; // threads in `calls`
u32 is_armed = 0; // a process is dying

static __always_inline void report(u32 kind, u64 first, u64 second, const char *name)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	event->time_ns = bpf_ktime_get_ns();
	event->thread = (u32)bpf_get_current_pid_tgid();
	event->kind = kind;
	event->first = first;
	event->second = second;
	__builtin_memset(event->name, 0, sizeof(event->name));
	if (name)
		bpf_probe_read_kernel(event->name, sizeof(event->name), name);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(call_begins, struct pt_regs *registers, long number)
{
	enum call call = NO_CALL;
	u64 signal = SIGKILL;

	if (number == system_calls[5]) {
		call = RELEASES;
	} else if (number == system_calls[2]) {
		call = KILLS;
		signal = PT_REGS_PARM3_CORE_SYSCALL(registers);
	} else if (number == system_calls[0] || number == system_calls[1] ||
		   number == system_calls[3] || number == system_calls[4]) {
		call = KILLS;
		signal = PT_REGS_PARM2_CORE_SYSCALL(registers);
	}
	if (call == NO_CALL || (int)signal != SIGKILL)
		return 0;
	u32 thread = bpf_get_current_pid_tgid();
	u32 value = call;

	if (!bpf_map_update_elem(&calls, &thread, &value, BPF_ANY))
		__sync_fetch_and_add(&in_calls, 1);
	report(call == KILLS ? KILL_CALL : RELEASE_CALL, 0, 0, 0);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call_ends)
{
	if (!in_calls)
		return 0;
	u32 thread = bpf_get_current_pid_tgid();
	u32 *call = bpf_map_lookup_elem(&calls, &thread);

	if (!call)
		return 0;
	report(*call == KILLS ? KILL_CALL_ENDS : RELEASE_CALL_ENDS, 0, 0, 0);
	bpf_map_delete_elem(&calls, &thread);
	__sync_fetch_and_add(&in_calls, -1);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(wakes, struct task_struct *task)
{
	if (!in_calls)
		return 0;
	u32 thread = bpf_get_current_pid_tgid();
	u32 *call = bpf_map_lookup_elem(&calls, &thread);

	if (call && *call == KILLS)
		report(WAKES, task->pid, 0, 0);
	return 0;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_generated, int signal, struct kernel_siginfo *info, struct task_struct *task, int group,
	     int result)
{
	if (signal != SIGKILL || result != SIGNAL_DELIVERED_NOW)
		return 0;
	// The values 0 and 1 are not pointers: they mean a signal from a process and from the kernel.
	u64 code = (u64)info == 1 ? SI_KERNEL : SI_USER;

	if ((u64)info > 1)
		code = (u32)BPF_CORE_READ(info, si_code);
	is_armed = 1;
	report(SIGNAL_GENERATED, task->pid, code, task->comm);
	return 0;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(signal_delivered, int signal)
{
	if (signal == SIGKILL)
		report(SIGNAL_DELIVERED, 0, 0, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_ends)
{
	report(THREAD_ENDS, 0, UNSAID, 0);
	return 0;
}

// Before Linux 6.13 these events have the path of the memory cgroup as an additional argument in front. The
// two empty instructions differ, so that the compiler does not merge the loads into one with a variable offset:
// the verifier permits only fixed offsets into the context.
#define LOCK_ARGUMENT(context, place)                                                            \
	({                                                                                       \
		struct trace_event_raw_mmap_lock_acquire_returned *form = 0;                     \
		u64 value;                                                                       \
		if (bpf_core_field_exists(form->memcg_id)) {                                     \
			value = (context)[place];                                                \
			asm volatile("/* with a number */" : "+r"(value));                       \
		} else {                                                                         \
			value = (context)[(place) + 1];                                          \
			asm volatile("/* with a path */" : "+r"(value));                         \
		}                                                                                \
		value;                                                                           \
	})

SEC("tp_btf/mmap_lock_start_locking")
int lock_wanted(u64 *context)
{
	if (is_armed)
		report(LOCK_WANTED, context[0], (u8)LOCK_ARGUMENT(context, 1), 0);
	return 0;
}

SEC("tp_btf/mmap_lock_acquire_returned")
int lock_taken(u64 *context)
{
	if (is_armed && (u8)LOCK_ARGUMENT(context, 2))
		report(LOCK_TAKEN, context[0], (u8)LOCK_ARGUMENT(context, 1), 0);
	return 0;
}

SEC("tp_btf/exit_mmap")
int BPF_PROG(memory_gone, struct mm_struct *memory)
{
	report(MEMORY_GONE, (u64)memory, 0, 0);
	return 0;
}

SEC("tp_btf/rss_stat")
int resident(u64 *context)
{
	struct mm_struct *memory = (void *)context[0];
	u32 member = context[1];
	s64 pages = 0;

	if (!is_armed || member == MM_SWAPENTS || member > 3)
		return 0;
	if (BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), mm) == memory)
		return 0;
	// Before Linux 6.2 the event has the count as an argument. Since then each processor holds back up to
	// 31 pages, which only the kernel's own event sums up.
	if (bpf_core_type_exists(struct mm_rss_stat))
		pages = context[2];
	else
		bpf_probe_read_kernel(&pages, sizeof(pages),
				      (void *)memory + bpf_core_field_offset(memory->rss_stat) +
					      member * bpf_core_type_size(struct percpu_counter) +
					      bpf_core_field_offset(struct percpu_counter, count));
	report(RESIDENT, member, pages > 0 ? pages << PAGE_SHIFT : 0, 0);
	return 0;
}

SEC("tp_btf/mark_victim")
int BPF_PROG(chosen, u64 victim)
{
	struct trace_event_raw_mark_victim *event = 0;
	struct task_struct *task = (void *)victim;

	// Since Linux 6.9 the argument is the task, before that its PID.
	report(CHOSEN, bpf_core_field_exists(event->total_vm) ? BPF_CORE_READ(task, pid) : victim, UNSAID, 0);
	return 0;
}

SEC("tp_btf/start_task_reaping")
int BPF_PROG(reaper_begins, int thread)
{
	report(REAPER_BEGINS, thread, 0, 0);
	return 0;
}

SEC("tp_btf/finish_task_reaping")
int BPF_PROG(reaper_ends, int thread)
{
	report(REAPER_ENDS, thread, 0, 0);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(machine_reclaim_begins)
{
	report(RECLAIM_BEGINS, 0, 0, 0);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(machine_reclaim_ends)
{
	report(RECLAIM_ENDS, 0, 0, 0);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(group_reclaim_begins)
{
	report(RECLAIM_BEGINS, 1, 0, 0);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(group_reclaim_ends)
{
	report(RECLAIM_ENDS, 1, 0, 0);
	return 0;
}

SEC("tp_btf/mm_vmscan_kswapd_wake")
int BPF_PROG(kswapd_wakes)
{
	report(KSWAPD_WAKES, 0, 0, 0);
	return 0;
}

SEC("tp_btf/mm_vmscan_kswapd_sleep")
int BPF_PROG(kswapd_sleeps)
{
	report(KSWAPD_SLEEPS, 0, 0, 0);
	return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(new_task, struct task_struct *task, u64 flags)
{
	report(NEW_TASK, task->pid, !!(flags & CLONE_THREAD), 0);
	return 0;
}
