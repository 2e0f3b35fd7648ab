/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel types that the recorder reads, each with only the fields that it reads. libbpf relocates every
 * access to the field's offset in the running kernel (CO-RE), so order and size here do not matter. Names
 * and types follow Linux 6.12; the types of other versions follow the type that they replace. */
#ifndef PAGEWISE_KERNEL_H
#define PAGEWISE_KERNEL_H

typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
enum { false = 0, true = 1 };

/* Makes bpf_tracing.h use the kernel's names of registers. */
#define __VMLINUX_H__

/* include/uapi/linux/bpf.h */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

#define __kernel_type __attribute__((preserve_access_index))

struct list_head {
	struct list_head *next;
} __kernel_type;

struct rb_node {
	struct rb_node *rb_left;
	struct rb_node *rb_right;
} __kernel_type;

struct rb_root {
	struct rb_node *rb_node;
} __kernel_type;

struct rb_root_cached {
	struct rb_root rb_root;
} __kernel_type;

struct hlist_node {
	struct hlist_node *next;
} __kernel_type;

struct hlist_head {
	struct hlist_node *first;
} __kernel_type;

struct kernfs_node {
	u64 id;
} __kernel_type;

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} __kernel_type;

struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *ancestors[];
} __kernel_type;

/* Before Linux 6.1 a cgroup has only the IDs of its ancestors. */
struct cgroup___ids {
	u64 ancestor_ids[1];
} __kernel_type;

typedef struct {
	long counter;
} atomic_long_t;

struct page_counter {
	atomic_long_t usage;
} __kernel_type;

struct zone {
	atomic_long_t vm_stat[1]; /* the first counts free pages */
} __kernel_type;

struct pglist_data {
	struct zone node_zones[1];
	int nr_zones;
} __kernel_type;

struct lruvec {
	struct pglist_data *pgdat;
} __kernel_type;

struct mem_cgroup_per_node {
	struct lruvec lruvec;
} __kernel_type;

struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct page_counter memory;
	struct mem_cgroup_per_node *nodeinfo[];
} __kernel_type;

struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
} __kernel_type;

/* The value of the enumerator differs between kernels. */
enum cgroup_subsys_id { memory_cgrp_id = 4 };

struct task_struct;

struct percpu_counter {
	long long count;
} __kernel_type;

struct mm_struct {
	struct task_struct *owner;
	struct percpu_counter rss_stat[4]; /* since Linux 6.2 */
} __kernel_type;

/* Before Linux 6.2. */
struct mm_rss_stat {
	atomic_long_t count[4];
} __kernel_type;

struct mm_struct___by_counts {
	struct mm_rss_stat rss_stat;
} __kernel_type;

struct kernel_siginfo {
	int si_code;
} __kernel_type;

struct pt_regs {
	unsigned long dx; /* x86 */
	unsigned long si;
	unsigned long ip;
} __kernel_type;

struct user_pt_regs {
	u64 regs[31]; /* arm64 */
	u64 pc;
} __kernel_type;

struct signal_struct {
	unsigned long maj_flt; /* of ended threads */
	short oom_score_adj;
} __kernel_type;

struct task_struct {
	unsigned flags;
	int pid;
	int tgid;
	char comm[16];
	struct mm_struct *mm;
	struct css_set *cgroups;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	u64 start_boottime;
	unsigned long maj_flt;
} __kernel_type;

/* Before Linux 6.2 a task counts its own pages and adds them to its mm every 64 faults. */
struct task_rss_stat {
	int count[4];
} __kernel_type;

struct task_struct___counting {
	struct task_rss_stat rss_stat;
} __kernel_type;

/* Since Linux 6.9 the argument of this event is the task, before that its PID. */
struct trace_event_raw_mark_victim {
	unsigned long total_vm;
} __kernel_type;

/* Since Linux 6.13 it has the ID of the memory cgroup, before that the path. */
struct trace_event_raw_mmap_lock_acquire_returned {
	u64 memcg_id;
} __kernel_type;

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_pgoff;
} __kernel_type;

struct anon_vma {
	struct rb_root_cached rb_root;
	unsigned long num_active_vmas;
} __kernel_type;

/* Before Linux 5.19. */
struct anon_vma___degree {
	unsigned degree;
} __kernel_type;

struct anon_vma_chain {
	struct vm_area_struct *vma;
	struct rb_node rb;
	unsigned long rb_subtree_last;
} __kernel_type;

typedef struct {
	unsigned long val;
} swp_entry_t;

struct cpumask {
	unsigned long bits[1];
} __kernel_type;

struct super_block {
	u32 s_dev;
} __kernel_type;

struct qstr {
	const unsigned char *name;
} __kernel_type;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	union {
		struct hlist_node d_alias;
	} d_u;
} __kernel_type;

struct inode {
	unsigned long i_ino;
	u32 i_generation;
	struct hlist_head i_dentry;
	struct super_block *i_sb;
} __kernel_type;

struct address_space {
	struct inode *host;
} __kernel_type;

struct folio {
	unsigned long flags;
	void *mapping;
	unsigned long index;
	swp_entry_t swap;
	unsigned long memcg_data;
	unsigned long _flags_1;
} __kernel_type;

/* Since Linux 6.18 the flags have their own type. */
typedef struct {
	unsigned long f;
} __kernel_type memdesc_flags_t;

struct folio___memory_flags {
	memdesc_flags_t flags;
} __kernel_type;

/* Before Linux 6.6 the swap entry is in the private word. */
struct folio___private {
	void *private;
} __kernel_type;

struct page {
	unsigned long compound_head;
} __kernel_type;

/* include/linux/mm_types.h; the same in every kernel from Linux 4.1. */
enum fault_flag { FAULT_FLAG_TRIED = 1 << 5, FAULT_FLAG_USER = 1 << 6 };

enum pageflags { PG_writeback = 1, PG_head = 6, PG_swapcache = 10, PG_swapbacked = 17 };

struct bio_vec {
	struct page *bv_page;
} __kernel_type;

struct block_device {
	u32 bd_dev;
} __kernel_type;

struct gendisk {
	int major;
	int first_minor;
} __kernel_type;

struct request_queue {
	struct gendisk *disk;
} __kernel_type;

struct bio;

enum mq_rq_state { MQ_RQ_IDLE = 0 };

struct request {
	struct bio *bio;
	struct request_queue *q;
	u32 cmd_flags;
	unsigned __data_len;
	u64 __sector;
	enum mq_rq_state state;
} __kernel_type;

struct bvec_iter {
	u64 bi_sector;
	unsigned bi_size;
} __kernel_type;

struct bio {
	struct block_device *bi_bdev;
	u32 bi_opf;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
} __kernel_type;

#endif
