/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The notice of a kill: the victim's memory and the machine's free memory at the instant of the signal, before the
 * victim frees any. recorder::notices reads it. Included by recorder.bpf.c. */
#ifndef PAGEWISE_NOTICE_H
#define PAGEWISE_NOTICE_H

#define KINDS_OF_PAGES 4
#define UNKNOWN_PAGES (-1LL)
#define NODES_MAX 8
#define ZONES_MAX 6

struct notice {
	u64 time_ns;               /* CLOCK_MONOTONIC, as in the record of the kill */
	u64 start_ns;              /* start time of the process, CLOCK_BOOTTIME */
	u64 major_faults;          /* of its main thread and of its ended threads */
	s64 pages[KINDS_OF_PAGES]; /* of files, anonymous, in swap, shared: as the kernel numbers them */
	s64 used_pages;            /* of the noted memory cgroup; UNKNOWN_PAGES if none is noted */
	s64 free_pages;            /* of the machine; UNKNOWN_PAGES if unknown */
	u32 process;
	s32 adj;
	char name[16];
};

// The memory cgroup whose usage notices contain; set before loading.
const volatile u64 noted_cgroup = 0; // kernfs id; 0 = the machine
const volatile u32 noted_level = 0;  // its depth below the root
const volatile u32 nodes = 1;	     // NUMA nodes of the machine, numbered from 0

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 10);
} notices SEC(".maps");

// Counts the pages of each kind. There is a loop for each kind of kernel, because clang hoists invariant loads out of
// a loop, and the verifier refuses to pass a load of a field that the kernel lacks.
static __always_inline void count_pages(struct mm_struct *memory, s64 *pages)
{
	if (bpf_core_type_exists(struct mm_rss_stat)) {
		struct mm_struct___by_counts *older = (void *)memory;

		for (u32 kind = 0; kind < KINDS_OF_PAGES; kind++)
			pages[kind] = BPF_CORE_READ(older, rss_stat.count[kind].counter);
	} else {
		// Each processor holds back up to a batch of pages.
		for (u32 kind = 0; kind < KINDS_OF_PAGES; kind++)
			bpf_probe_read_kernel(&pages[kind], sizeof(pages[kind]),
					      (void *)memory + bpf_core_field_offset(memory->rss_stat) +
						      kind * bpf_core_type_size(struct percpu_counter) +
						      bpf_core_field_offset(struct percpu_counter, count));
	}
	for (u32 kind = 0; kind < KINDS_OF_PAGES; kind++)
		if (pages[kind] < 0)
			pages[kind] = 0;
}

// The noted group if the victim is in it or below it; else null.
static __always_inline struct cgroup *noted_group_of(struct cgroup *group)
{
	struct cgroup *ancestor = 0;

	if ((u32)BPF_CORE_READ(group, level) < noted_level)
		return 0;
	if (bpf_core_field_exists(group->ancestors)) {
		bpf_core_read(&ancestor, sizeof(ancestor), &group->ancestors[noted_level & 63]);
	} else {
		// Before Linux 6.1 a group has only the IDs of its ancestors, and a pointer to its parent's state.
		ancestor = group;
		for (u32 step = 0; step < DEPTH_MAX && (u32)BPF_CORE_READ(ancestor, level) > noted_level; step++) {
			struct cgroup_subsys_state *parent = BPF_CORE_READ(ancestor, self.parent);

			ancestor = BPF_CORE_READ(parent, cgroup);
		}
	}
	return BPF_CORE_READ(ancestor, kn, id) == noted_cgroup ? ancestor : 0;
}

// The memory controller's state of a cgroup; null if the controller is not enabled in it.
static __always_inline struct mem_cgroup *charges_of(struct cgroup *group)
{
	u32 memory = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	struct cgroup_subsys_state *state = 0;
	struct mem_cgroup *charges;

	bpf_core_read(&state, sizeof(state), &group->subsys[memory & 15]);
	charges = (void *)state;
	return state ? (void *)state - bpf_core_field_offset(charges->css) : 0;
}

static __always_inline s64 free_pages_of_node(struct pglist_data *node)
{
	u32 zones = BPF_CORE_READ(node, nr_zones);
	s64 sum = 0;

	for (u32 place = 0; place < ZONES_MAX && place < zones; place++) {
		struct zone *zone = (void *)node + bpf_core_field_offset(node->node_zones) +
				    place * bpf_core_type_size(struct zone);
		s64 pages = 0;

		bpf_core_read(&pages, sizeof(pages), &zone->vm_stat[0]);
		sum += pages > 0 ? pages : 0;
	}
	return sum;
}

// Every memory cgroup points to every node; not all kernels export a symbol for their own sum.
static __always_inline s64 free_pages_of_machine(struct mem_cgroup *charges)
{
	s64 sum = 0;

	if (!charges)
		return UNKNOWN_PAGES;
	for (u32 place = 0; place < NODES_MAX && place < nodes; place++) {
		struct mem_cgroup_per_node *books = 0;

		bpf_core_read(&books, sizeof(books), &charges->nodeinfo[place]);
		struct pglist_data *node = BPF_CORE_READ(books, lruvec.pgdat);

		if (!node)
			return UNKNOWN_PAGES;
		sum += free_pages_of_node(node);
	}
	return sum;
}

// Writes the notice of a kill before the victim frees anything, and wakes the reader.
static __always_inline void give_notice(u64 time_ns, struct task_struct *task, struct cgroup *group)
{
	struct mm_struct *memory = BPF_CORE_READ(task, mm);
	struct cgroup *noted = noted_cgroup ? noted_group_of(group) : 0;

	if (!memory || (noted_cgroup && !noted))
		return;
	struct notice *notice = bpf_ringbuf_reserve(&notices, sizeof(*notice), 0);

	if (!notice)
		return; // this kill gets no moment
	notice->time_ns = time_ns;
	notice->start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	notice->major_faults = BPF_CORE_READ(task, group_leader, maj_flt) + BPF_CORE_READ(task, signal, maj_flt);
	count_pages(memory, notice->pages);
	notice->used_pages = UNKNOWN_PAGES;
	if (noted && charges_of(noted))
		notice->used_pages = BPF_CORE_READ(charges_of(noted), memory.usage.counter);
	notice->free_pages = free_pages_of_machine(charges_of(group));
	notice->process = BPF_CORE_READ(task, tgid);
	notice->adj = BPF_CORE_READ(task, signal, oom_score_adj);
	bpf_core_read(notice->name, sizeof(notice->name), &task->group_leader->comm);
	bpf_ringbuf_submit(notice, BPF_RB_FORCE_WAKEUP);
}

#endif
