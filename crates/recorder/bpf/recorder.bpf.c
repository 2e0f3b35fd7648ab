// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Records each page that a process swaps, from BTF-typed raw tracepoints; this does not need function tracing,
// which many kernels refuse. A page is named by (process, virtual page), because the kernel reuses a slot of a swap
// area for another page as soon as it is free.
//
// For a swap-out, mm_vmscan_write_folio gives the owner: the folio's anon_vma leads to the mapping by a walk
// through an interval tree. A swap-in is a pair of events: a page fault begins, and the same task's count
// of swapped pages falls before the task returns to user space.

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "record.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// The filter and the options; set before loading, so that the verifier removes dead branches.
const volatile u64 only_cgroup = 0;  // kernfs id of a memory cgroup; 0 = every process
const volatile u32 cgroup_level = 0; // its depth below the root
const volatile bool uses_memory_controller = false; // version 1 has a hierarchy per controller
const volatile u32 only_process = 0; // a thread group; 0 = every process
const volatile bool marks_zeros = false; // a page swapped out without a write holds zeros

// Reads a field of a kernel object: by a plain load if the kernel has bpf_rdonly_cast (Linux 6.2), else by a call,
// which takes ten times as long.
#define READ(object, field)                                                                \
	({                                                                                 \
		typeof(object) of = (object);                                              \
		bpf_ksym_exists(bpf_rdonly_cast) ? bpf_core_cast(of, typeof(*of))->field : \
						   BPF_CORE_READ(of, field);               \
	})

// Reads a pointer field as a plain word, because the verifier permits no arithmetic on the bits of a pointer;
// struct cpumask begins with a plain word.
#define WORD(object, field)                                                                    \
	READ((struct cpumask *)((void *)(object) + bpf_core_field_offset((object)->field)), bits[0])

#define PAGE_SHIFT 12
#define MAPPING_FLAGS 3UL
#define MAPPING_ANON 1UL
#define MM_SWAPENTS 2
#define CHARGE_FLAGS 7UL // in folio->memcg_data
#define REQ_OP_MASK 0xff
#define REQ_OP_WRITE 1
#define SIGNAL_KILL 9
#define SIGNAL_DELIVERED 0
#define PF_MEMALLOC 0x800 // the task reclaims memory
#define DEPTH_MAX 48 // of an interval tree: more than log2 of all mappings that fit in memory
#define THREADS_MAX 65536 // a power of two
#define CLAIMS_MAX 16

// Records wait in rings that the BPF programs and the reader share: each processor fills one. A writer claims a
// place by compare-and-swap, because several processors may share a ring and an interrupt may come between.
// A record is complete when its kind has the mark of the ring's round; until then the reader leaves it and all
// records behind it.
const volatile u32 ring_mask = 0;   // rings, a power of two, less one
const volatile u32 record_mask = 0; // records of a ring, a power of two, less one

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct record);
} records SEC(".maps");

// Names of files.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} names SEC(".maps");

// One less than the number of entries in the tables of threads, which the loader sets by the kernel's pid_max.
const volatile u32 thread_mask = THREADS_MAX - 1;

enum fault_state { NO_FAULT, USER_FAULT, KERNEL_FAULT };

struct fault {
	u64 address;
	u64 time_ns;
	u64 return_address; // of the task's user registers while the fault was open
	u32 thread;
	u8 state;
	bool reads_device;
	bool reclaims; // the task reclaims memory inside its own fault
	int swapped;   // the task's own count of swapped pages, before Linux 6.2
};

// Indexed by the low bits of the thread ID: an array is the cheapest map, and a fault is short.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREADS_MAX);
	__type(key, u32);
	__type(value, struct fault);
} faults SEC(".maps");

// The folio whose write a thread queued last, indexed by the low bits of the thread ID; with UNREPORTED if its
// page-out is not recorded yet.
#define UNREPORTED 1
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREADS_MAX);
	__type(key, u32);
	__type(value, u64);
} written_folios SEC(".maps");

struct file_key {
	u64 inode;
	u32 device;
	u32 unused; // keys are compared byte by byte
};

// Generations of the files whose names were passed to the reader.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct file_key);
	__type(value, u32);
} named_files SEC(".maps");

// Claims the next place of a ring; null if the ring is full, or if other writers claim faster.
static __always_inline struct record *claim(u32 number, struct ring *ring, u8 *round)
{
	for (int attempt = 0; attempt < CLAIMS_MAX; attempt++) {
		u64 place = *(volatile u64 *)&ring->claimed;

		if (place - *(volatile u64 *)&ring->read > record_mask)
			return 0;
		if (__sync_val_compare_and_swap(&ring->claimed, place, place + 1) != place)
			continue;
		u32 index = number * (record_mask + 1) + (place & record_mask);

		*round = place & (record_mask + 1) ? 0 : ROUND;
		return bpf_map_lookup_elem(&records, &index);
	}
	return 0;
}

// x86 stores in order; on other processors an exchange orders the stores before it.
static __always_inline void complete(u64 *end, u64 value)
{
#ifdef __TARGET_ARCH_x86
	barrier();
	*(volatile u64 *)end = value;
#else
	__sync_lock_test_and_set(end, value);
#endif
}

// Whether the record of a page-out also stands for its write.
static __always_inline bool is_written(struct record *record)
{
	return record->kind == PAGE_OUT && record->device;
}

static __always_inline void hand_over_at(u64 time_ns, struct record record)
{
	u32 number = bpf_get_smp_processor_id() & ring_mask;
	struct ring *ring = bpf_map_lookup_elem(&rings, &number);
	u8 round;

	if (!ring)
		return;
	struct record *place = claim(number, ring, &round);

	if (!place) {
		__sync_fetch_and_add(&ring->lost, is_written(&record) ? 2 : 1);
		return;
	}
	place->time_ns = time_ns;
	place->address = record.address;
	place->object = record.object;
	place->process = record.process;
	place->auxiliary = record.auxiliary;
	record.kind |= round;
	complete(&place->end, record.end);
}

static __always_inline void hand_over(struct record record)
{
	hand_over_at(bpf_ktime_get_ns(), record);
}

static __always_inline u32 current_process(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

// Whether the group is the wanted cgroup or below it.
static __always_inline bool is_wanted_group(struct cgroup *group)
{
	struct cgroup *ancestor;

	if ((u32)READ(group, level) < cgroup_level)
		return false;
	if (bpf_core_field_exists(group->ancestors)) {
		bpf_core_read(&ancestor, sizeof(ancestor), &group->ancestors[cgroup_level & 63]);
		return READ(READ(ancestor, kn), id) == only_cgroup;
	}
	struct cgroup___ids *older = (void *)group;
	u64 id = 0;

	bpf_core_read(&id, sizeof(id), &older->ancestor_ids[cgroup_level & 63]);
	return id == only_cgroup;
}

// The memory cgroup of a task.
static __always_inline struct cgroup *group_of(struct task_struct *task)
{
	if (!uses_memory_controller)
		return READ(READ(task, cgroups), dfl_cgrp);
	u32 memory = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	struct cgroup_subsys_state *state = 0;
	struct css_set *set = READ(task, cgroups);

	bpf_core_read(&state, sizeof(state), &set->subsys[memory & 15]);
	return READ(state, cgroup);
}

static __always_inline bool is_in_cgroup(struct task_struct *task)
{
	return is_wanted_group(group_of(task));
}

static __always_inline bool is_wanted(struct task_struct *task)
{
	if (only_process && READ(task, tgid) != only_process)
		return false;
	return !only_cgroup || is_in_cgroup(task);
}

static __always_inline bool is_current_wanted(void)
{
	if (!only_process && !only_cgroup)
		return true;
	return is_wanted((struct task_struct *)bpf_get_current_task());
}

// Whether a page counts: with a cgroup filter, if the page is charged to the wanted cgroup; with a process filter,
// only the current process is known.
static __always_inline bool is_folio_wanted(struct folio *folio)
{
	if (!only_cgroup)
		return is_current_wanted();
	if (!bpf_core_field_exists(folio->memcg_data))
		return false;
	struct mem_cgroup *group = (void *)(READ(folio, memcg_data) & ~CHARGE_FLAGS);

	return group && is_wanted_group(READ(group, css.cgroup));
}

static __always_inline u64 swap_entry(struct folio *folio)
{
	struct folio___private *older = (void *)folio;

	return bpf_core_field_exists(folio->swap) ? READ(folio, swap.val) : (u64)READ(older, private);
}

static __always_inline unsigned long flags_of(struct folio *folio)
{
	struct folio___memory_flags *newer = (void *)folio;

	return bpf_core_field_exists(newer->flags.f) ? READ(newer, flags.f) :
						       READ(folio, flags);
}

static __always_inline bool is_swap_backed(struct folio *folio)
{
	return flags_of(folio) >> bpf_core_enum_value(enum pageflags, PG_swapbacked) & 1;
}

static __always_inline struct folio *folio_of(struct page *page)
{
	unsigned long head = WORD(page, compound_head);

	return head & 1 ? (void *)(head - 1) : (void *)page;
}

// Linux 6.6 and newer keep the order in _flags_1; before, few file systems have folios of several pages.
static __always_inline u16 pages_of(struct folio *folio)
{
	if (!(flags_of(folio) >> bpf_core_enum_value(enum pageflags, PG_head) & 1) ||
	    !bpf_core_field_exists(folio->_flags_1))
		return 1;
	return 1 << (READ(folio, _flags_1) & 15);
}

#define chain_of(node) \
	((struct anon_vma_chain *)((void *)(node) - bpf_core_field_offset(struct anon_vma_chain, rb)))

// The mapping that covers page `index` of an anonymous object: the interval tree's leftmost.
static __always_inline struct vm_area_struct *mapping_of(struct anon_vma *object, u64 index)
{
	struct rb_node *node = READ(object, rb_root.rb_root.rb_node);

	for (int depth = 0; depth < DEPTH_MAX && node; depth++) {
		struct rb_node *left = READ(node, rb_left);

		if (left && READ(chain_of(left), rb_subtree_last) >= index) {
			node = left;
			continue;
		}
		struct vm_area_struct *area = READ(chain_of(node), vma);
		u64 first = READ(area, vm_pgoff);

		if (first > index)
			return 0;
		u64 pages = (READ(area, vm_end) - READ(area, vm_start)) >> PAGE_SHIFT;

		if (index < first + pages)
			return area;
		node = READ(node, rb_right);
	}
	return 0;
}

static __always_inline bool is_mapped_twice(struct anon_vma *object)
{
	if (bpf_core_field_exists(object->num_active_vmas))
		return READ(object, num_active_vmas) > 1;
	return READ((struct anon_vma___degree *)(void *)object, degree) > 1;
}

// Fills in the pages of a folio that leaves memory, and their owner; false if the folio is of a file, or its owner
// is not wanted.
static __always_inline bool describe_page_out(struct record *record, struct folio *folio, u32 reclaimer)
{
	unsigned long mapping = WORD(folio, mapping);
	u64 index = READ(folio, index);

	if ((mapping & MAPPING_FLAGS) != MAPPING_ANON)
		return false;
	struct anon_vma *object = (void *)(mapping & ~MAPPING_FLAGS);
	struct vm_area_struct *area = mapping_of(object, index);
	struct task_struct *owner = area ? READ(READ(area, vm_mm), owner) : 0;

	if (owner) {
		if (!is_wanted(owner))
			return false;
		record->process = READ(owner, tgid);
		record->address = (READ(area, vm_start) >> PAGE_SHIFT) + index - READ(area, vm_pgoff);
	} else {
		record->flags |= NO_OWNER;
	}
	if (is_mapped_twice(object))
		record->flags |= SHARED;
	record->kind = PAGE_OUT;
	record->object = swap_entry(folio);
	record->auxiliary = reclaimer;
	record->pages = pages_of(folio);
	return true;
}

static __always_inline u64 *written_folio(struct task_struct *task)
{
	u32 key = (u32)task->pid & thread_mask;

	return bpf_map_lookup_elem(&written_folios, &key);
}

#define HAS(flags, flag) ((flags) >> bpf_core_enum_value(enum pageflags, flag) & 1)

// If the reclaiming thread did not queue a write of the folio, there are four cases. Not in the swap cache: no
// process needs the folio and its slot is free, as with the parts of a huge page of zeros, which the kernel maps
// to the zero page when it splits the huge page. Under writeback: another thread will write it. In zswap: ruled
// out if marks_zeros is set. Otherwise it is a page of zeros, and the kernel has only set a bit (Linux 6.12,
// swap_writeout in mm/page_io.c).
SEC("tp_btf/mm_vmscan_write_folio")
int BPF_PROG(page_out, struct folio *folio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 *written = written_folio(task);
	u64 last = written ? *written : 0;
	unsigned long flags = flags_of(folio);
	struct record record = {};

	if (written && (last & ~(u64)UNREPORTED) == (u64)folio)
		*written = 0;
	else if (!HAS(flags, PG_swapcache))
		return 0;
	else if (marks_zeros && !HAS(flags, PG_writeback))
		record.flags = ZEROS;
	if (last != (u64)folio && describe_page_out(&record, folio, task->tgid))
		hand_over(record);
	return 0;
}

static __always_inline struct fault *open_fault(u32 thread)
{
	u32 key = thread & thread_mask;
	struct fault *fault = bpf_map_lookup_elem(&faults, &key);

	return fault && fault->thread == thread && fault->state != NO_FAULT ? fault : 0;
}

// The address in user space to which the task will return. It differs between a fault and any later system
// call, so it shows whether a remembered fault is still open.
static __always_inline u64 return_address(struct task_struct *task)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);

	return PT_REGS_IP(registers);
}

static __always_inline int begin_fault(u64 address, u64 return_to, enum fault_state state)
{
	u32 thread = bpf_get_current_pid_tgid();
	u32 key = thread & thread_mask;
	struct fault *fault = bpf_map_lookup_elem(&faults, &key);

	if (!fault)
		return 0;
	fault->address = address;
	fault->time_ns = bpf_ktime_get_ns();
	fault->return_address = return_to;
	fault->thread = thread;
	fault->reads_device = false;
	fault->reclaims = false;
	fault->state = state;
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(user_fault, unsigned long address, struct pt_regs *registers)
{
	return begin_fault(address, PT_REGS_IP(registers), USER_FAULT);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(kernel_fault, unsigned long address)
{
	return begin_fault(address, return_address(bpf_get_current_task_btf()), KERNEL_FAULT);
}

// Replaces user_fault and kernel_fault where the kernel has no tracepoints of faults, as on arm64. Without registers
// the kernel itself wants the page, which is no fault. A fault that waited for its page is tried again: it began
// with the first try.
SEC("fentry/handle_mm_fault")
int BPF_PROG(fault_entered, struct vm_area_struct *area, unsigned long address, unsigned int flags,
	     struct pt_regs *registers)
{
	struct fault *fault = open_fault(bpf_get_current_pid_tgid());

	if (!registers ||
	    (fault && flags & FAULT_FLAG_TRIED && fault->address >> PAGE_SHIFT == address >> PAGE_SHIFT))
		return 0;
	if (flags & FAULT_FLAG_USER)
		return begin_fault(address, PT_REGS_IP(registers), USER_FAULT);
	return begin_fault(address, return_address(bpf_get_current_task_btf()), KERNEL_FAULT);
}

static __always_inline int set_reclaims(bool reclaims)
{
	struct fault *fault = open_fault(bpf_get_current_pid_tgid());

	if (fault)
		fault->reclaims = reclaims;
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(machine_reclaim_begins)
{
	return set_reclaims(true);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(machine_reclaim_ends)
{
	return set_reclaims(false);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(group_reclaim_begins)
{
	return set_reclaims(true);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(group_reclaim_ends)
{
	return set_reclaims(false);
}

static __always_inline int end_fault(struct fault *fault, u32 process)
{
	u64 now = bpf_ktime_get_ns();
	u64 duration = now - fault->time_ns;

	hand_over_at(now, (struct record){
		.kind = SWAP_IN,
		.process = process,
		.address = fault->address >> PAGE_SHIFT,
		.auxiliary = duration > 0xffffffffULL ? 0xffffffff : duration,
		.pages = 1,
		.flags = (fault->state == KERNEL_FAULT ? IN_KERNEL : 0) |
			 (fault->reads_device ? MAJOR : 0),
	});
	fault->state = NO_FAULT;
	return 0;
}

SEC("tp_btf/rss_stat")
int BPF_PROG(swapped_pages_change, struct mm_struct *memory, int member)
{
	if (member != MM_SWAPENTS)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct fault *fault = open_fault(task->pid);

	// A page-out of the task's own memory changes the same count, and the tracepoint does not report
	// in which direction.
	if (!fault || fault->reclaims || task->mm != memory ||
	    fault->return_address != return_address(task) || !is_wanted(task))
		return 0;
	return end_fault(fault, task->tgid);
}

// swap_in_begins and swap_in_ends replace swapped_pages_change if rss_stat comes only once in 64 faults.
static __always_inline int swapped_by_task(void)
{
	struct task_struct___counting *task = (void *)bpf_get_current_task();

	return READ(task, rss_stat.count[MM_SWAPENTS]);
}

SEC("fentry/do_swap_page")
int BPF_PROG(swap_in_begins)
{
	struct fault *fault = open_fault(bpf_get_current_pid_tgid());

	if (fault)
		fault->swapped = swapped_by_task();
	return 0;
}

// A probe, not part of a recording: if it can be attached, the kernel permits function tracing.
SEC("fentry/do_swap_page")
int BPF_PROG(function_entry)
{
	return 0;
}

SEC("fexit/do_swap_page")
int BPF_PROG(swap_in_ends)
{
	struct fault *fault = open_fault(bpf_get_current_pid_tgid());

	if (!fault || swapped_by_task() >= fault->swapped || !is_current_wanted())
		return 0;
	return end_fault(fault, current_process());
}

// Records a page-out together with its write, in one record with one time: the reclaiming thread queues the write,
// and mm_vmscan_write_folio follows in the same thread. False if it does not follow: for zswap writeback, for
// writes from the thread of a driver, and for parts of folios.
static __always_inline bool write_by_reclaim(struct task_struct *task, struct folio *folio, u64 *written,
					     u32 device, u16 pages)
{
	struct record record = { .device = device };

	if (!(task->flags & PF_MEMALLOC) || !written || *written == (u64)folio ||
	    !describe_page_out(&record, folio, task->tgid) || record.pages != pages)
		return false;
	*written = (u64)folio;
	hand_over(record);
	return true;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(swap_transfer, struct bio *bio)
{
	u32 operation = bio->bi_opf;
	bool writes = (operation & REQ_OP_MASK) == REQ_OP_WRITE;

	if ((operation & REQ_OP_MASK) > REQ_OP_WRITE)
		return 0;
	struct bio_vec *parts = bio->bi_io_vec;
	struct page *page = parts ? parts->bv_page : 0;

	if (!page)
		return 0;
	struct folio *folio = folio_of(page);

	if (!is_swap_backed(folio))
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	u64 *written = writes ? written_folio(task) : 0;

	// Noted before the check of the group: the folio may be charged to a group that its owner has left.
	if (written && *written != (u64)folio)
		*written = (u64)folio + UNREPORTED;
	if (only_cgroup && !is_folio_wanted(folio))
		return 0;
	u32 device = bio->bi_bdev->bd_dev;
	u16 pages = bio->bi_iter.bi_size >> PAGE_SHIFT;

	if (writes && write_by_reclaim(task, folio, written, device, pages))
		return 0;
	struct fault *fault = writes ? 0 : open_fault(task->pid);

	if (fault)
		fault->reads_device = true;
	hand_over((struct record){
		.kind = writes ? SWAP_WRITE : SWAP_READ,
		.process = task->tgid,
		.address = fault ? fault->address >> PAGE_SHIFT : 0,
		.object = swap_entry(folio),
		.device = device,
		.pages = pages,
		.flags = fault ? IN_FAULT : 0,
	});
	return 0;
}

#define dentry_of(alias) ((struct dentry *)((void *)(alias) - bpf_core_field_offset(struct dentry, d_u.d_alias)))

// Passes the file's name to the reader, unless it was passed before.
static __always_inline void name_file(struct inode *inode, u64 number, u32 device)
{
	struct file_key key = { .inode = number, .device = device };
	u32 generation = READ(inode, i_generation);
	u32 *known = bpf_map_lookup_elem(&named_files, &key);

	if (known && *known == generation)
		return;
	struct hlist_node *alias = READ(inode, i_dentry.first);

	if (!alias)
		return;
	struct file_name *name = bpf_ringbuf_reserve(&names, sizeof(*name), 0);

	if (!name)
		return; // the next page tries again
	struct dentry *entry = dentry_of(alias);
	u32 parts = 0;

	for (; parts < PARTS_MAX; parts++) {
		struct dentry *parent = READ(entry, d_parent);

		if (!parent || parent == entry)
			break;
		bpf_probe_read_kernel_str(name->path[parts], PART_BYTES, READ(entry, d_name.name));
		entry = parent;
	}
	name->inode = number;
	name->device = device;
	name->parts = parts;
	bpf_ringbuf_submit(name, BPF_RB_NO_WAKEUP);
	bpf_map_update_elem(&named_files, &key, &generation, BPF_ANY);
}

static __always_inline int file_page(struct folio *folio, u8 kind)
{
	if (!is_folio_wanted(folio))
		return 0;
	unsigned long mapping = WORD(folio, mapping);

	if (!mapping || mapping & MAPPING_FLAGS)
		return 0;
	struct inode *inode = READ((struct address_space *)mapping, host);
	u64 number = READ(inode, i_ino);
	u32 device = READ(READ(inode, i_sb), s_dev);

	name_file(inode, number, device);
	hand_over((struct record){
		.kind = kind,
		.process = current_process(),
		.address = READ(folio, index),
		.object = number,
		.device = device,
		.pages = pages_of(folio),
	});
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(file_page_added, struct folio *folio)
{
	return file_page(folio, FILE_ADDED);
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(file_page_dropped, struct folio *folio)
{
	return file_page(folio, FILE_DROPPED);
}

#include "requests.h"
#include "notice.h"

SEC("tp_btf/signal_generate")
int BPF_PROG(kill, int signal, void *information, struct task_struct *task, int group, int result)
{
	if (signal != SIGNAL_KILL || !is_wanted(task))
		return 0;
	u64 now = bpf_ktime_get_ns();

	hand_over_at(now, (struct record){
		.kind = KILL,
		.process = READ(task, tgid),
		.auxiliary = current_process(),
	});
	// A process that already has SIGKILL pending gets no second notice.
	if (result == SIGNAL_DELIVERED)
		give_notice(now, task, group_of(task));
	return 0;
}

SEC("tp_btf/mark_victim")
int BPF_PROG(oom_kill, u64 victim)
{
	struct task_struct *task = (void *)victim;
	struct trace_event_raw_mark_victim *event = 0;
	bool is_task = bpf_core_field_exists(event->total_vm);

	// If only the victim's PID is known, check the current process, which asked for memory.
	if (is_task ? !is_wanted(task) : !is_current_wanted())
		return 0;
	hand_over((struct record){
		.kind = KILL,
		.process = is_task ? READ(task, tgid) : (u32)victim,
		.auxiliary = current_process(),
		.flags = OOM_KILL,
	});
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	if (!is_wanted(task))
		return 0;
	u64 name[2] = {};

	bpf_core_read(name, sizeof(name), &task->comm);
	hand_over((struct record){
		.kind = EXEC,
		.process = READ(task, tgid),
		.address = name[0],
		.object = name[1],
	});
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 process = READ(child, tgid);

	if (READ(child, pid) != process || !is_wanted(child))
		return 0;
	hand_over((struct record){
		.kind = FORK,
		.process = process,
		.auxiliary = READ(parent, tgid),
	});
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	u32 process = READ(task, tgid);

	if (READ(task, pid) != process || !is_wanted(task))
		return 0;
	hand_over((struct record){ .kind = EXIT, .process = process });
	return 0;
}
