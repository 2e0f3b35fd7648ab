// SPDX-License-Identifier: GPL-2.0-only
/*
 * A low-memory killer as a shrinker, for guests of the experiments with S2.
 *
 * The rule is S2's: with free and file pages both below a level, kill the process with the highest
 * oom_score_adj at or above the level's, of equals the largest; while a victim is dying, kill no
 * other for a second. Here a victim is dying until its memory is unmapped, and a process that was
 * sent SIGKILL is never chosen again. TIF_MEMDIE stays untouched, because the kernel of the guest
 * counts its own victims by it.
 *
 * Parameters choose the levels and how to kill. /proc/pagewise_lowmem holds counters and the log.
 * It loads only with in_guest=1, because it kills processes.
 *
 * Written for Debian's Linux 6.1. Debian's kernel exports zap_page_range, which `how=first` needs,
 * to modules under the GPL (a patch of Debian's, for Android's drivers).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/oom.h>
#include <linux/proc_fs.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/shrinker.h>
#include <linux/swap.h>
#include <linux/vmstat.h>

#define LEVELS_MAX 6
#define VICTIMS_MAX 32
#define LOG_MAX 256
#define TIMEOUT_NS NSEC_PER_SEC

static bool in_guest;
module_param(in_guest, bool, 0444);
MODULE_PARM_DESC(in_guest, "1: this machine is a guest, whose processes may be killed");

static int minfree[LEVELS_MAX] = { 1024, 4096 };
static unsigned int minfree_count = 2;
module_param_array(minfree, int, &minfree_count, 0444);
MODULE_PARM_DESC(minfree, "levels in pages, ascending");

static int adj[LEVELS_MAX] = { 0, 470 };
static unsigned int adj_count = 2;
module_param_array(adj, int, &adj_count, 0444);
MODULE_PARM_DESC(adj, "the least oom_score_adj of a victim at each level");

static char *how = "serial";
module_param(how, charp, 0444);
MODULE_PARM_DESC(how, "serial: one victim; batch: as many as bring free memory back to the level; "
		      "first: one victim, whose private memory the caller frees itself");

static uint wait_ms;
module_param(wait_ms, uint, 0644);
MODULE_PARM_DESC(wait_ms, "how long a program waits in its allocation for dying victims; "
			  "default 0");

static bool in_kswapd = true;
module_param(in_kswapd, bool, 0444);
MODULE_PARM_DESC(in_kswapd, "whether kswapd kills, too, and not only programs that allocate");

static bool is_batch, is_first;

/* A process that was sent SIGKILL. `mm` is held by mm_count, so that its rss can be read. */
struct victim {
	struct mm_struct *mm;
	u64 killed_ns;
	bool is_shared;
	struct kill *logged;
};

/* `gone_ns` is when the driver noticed that the memory was gone: at its next call. */
struct kill {
	u64 at_ns, gone_ns, reaped_pages, reap_ns;
	unsigned long pages;
	long free_pages, file_pages;
	pid_t process, caller;
	int adj;
	bool by_kswapd;
	char name[TASK_COMM_LEN], caller_name[TASK_COMM_LEN];
};

/* `deciding` guards everything below except the counters of time, which are atomic. */
static DEFINE_MUTEX(deciding);
static struct victim dying[VICTIMS_MAX];
static unsigned int dying_count;
static struct kill kills[LOG_MAX];
static unsigned long kill_count, pending_count, ample_count, without_victim_count;
static atomic64_t calls, calls_of_kswapd, busy, in_shrinker_ns, in_shrinker_direct_ns, waited_ns;

struct memory {
	long free_pages, file_pages;
};

static struct memory memory_now(void)
{
	struct memory now = { .free_pages = global_zone_page_state(NR_FREE_PAGES) };
	int node;

	/* totalreserve_pages is not exported; it is the sum of these. */
	for_each_online_node(node)
		now.free_pages -= NODE_DATA(node)->totalreserve_pages;
	now.file_pages = global_node_page_state(NR_FILE_PAGES) - global_node_page_state(NR_SHMEM);
	return now;
}

/* The first level that both are below, or -1. */
static int level_of(struct memory now)
{
	int level;

	for (level = 0; level < minfree_count; level++)
		if (now.free_pages < minfree[level] && now.file_pages < minfree[level])
			return level;
	return -1;
}

/* The process's memory, from the first thread that still has it; with the thread's task lock. */
static struct task_struct *lock_thread_with_memory(struct task_struct *process)
{
	struct task_struct *thread;

	for_each_thread(process, thread) {
		task_lock(thread);
		if (thread->mm)
			return thread;
		task_unlock(thread);
	}
	return NULL;
}

static bool is_dying(struct mm_struct *mm)
{
	unsigned int at;

	for (at = 0; at < dying_count; at++)
		if (dying[at].mm == mm)
			return true;
	return false;
}

/* Whether a process other than this one has this memory, as a child between vfork and exec. */
static bool is_used_elsewhere(struct task_struct *owner, struct mm_struct *mm)
{
	struct task_struct *process, *thread;

	for_each_process(process) {
		if (same_thread_group(process, owner))
			continue;
		for_each_thread(process, thread)
			if (READ_ONCE(thread->mm) == mm)
				return true;
	}
	return false;
}

/*
 * Kills the best victim. Returns the pages of its memory, or 0 without a victim. The walk drops
 * each task's lock, so the memory of the best is looked up again, under the same RCU lock.
 */
static unsigned long kill_one(int least_adj, struct memory now)
{
	struct task_struct *process, *thread, *best = NULL;
	unsigned long best_pages = 0;
	int best_adj = 0;
	struct mm_struct *mm;
	struct kill *logged;

	rcu_read_lock();
	for_each_process(process) {
		unsigned long pages;
		int process_adj;
		bool is_candidate;

		if ((process->flags & PF_KTHREAD) || is_global_init(process))
			continue;
		thread = lock_thread_with_memory(process);
		if (!thread)
			continue;
		process_adj = thread->signal->oom_score_adj;
		pages = get_mm_rss(thread->mm);
		is_candidate = process_adj >= least_adj && pages > 0 &&
			       !(thread->signal->flags & SIGNAL_GROUP_EXIT) &&
			       !is_dying(thread->mm);
		task_unlock(thread);
		if (!is_candidate)
			continue;
		if (best && (process_adj < best_adj ||
			     (process_adj == best_adj && pages <= best_pages)))
			continue;
		best = process;
		best_adj = process_adj;
		best_pages = pages;
	}
	thread = best ? lock_thread_with_memory(best) : NULL;
	if (!thread) {
		rcu_read_unlock();
		return 0;
	}
	mm = thread->mm;
	mmgrab(mm);
	task_unlock(thread);
	logged = &kills[kill_count++ % LOG_MAX];
	*logged = (struct kill) {
		.at_ns = ktime_get_ns(),
		.pages = best_pages,
		.free_pages = now.free_pages,
		.file_pages = now.file_pages,
		.process = best->tgid,
		.caller = current->tgid,
		.adj = best_adj,
		.by_kswapd = current_is_kswapd(),
	};
	strscpy(logged->name, best->comm, sizeof(logged->name));
	strscpy(logged->caller_name, current->comm, sizeof(logged->caller_name));
	/* To the whole process: its first thread may have exited before the others. */
	kill_pid(task_tgid(best), SIGKILL, 1);
	/* After the signal, which keeps the process from making another that shares its memory. */
	dying[dying_count++] = (struct victim) {
		.mm = mm,
		.killed_ns = logged->at_ns,
		.is_shared = is_used_elsewhere(best, mm),
		.logged = logged,
	};
	rcu_read_unlock();
	return best_pages;
}

/* Forgets the victims whose memory is back, and those that the timeout has passed. */
static void forget_the_dead(void)
{
	u64 now_ns = ktime_get_ns();
	unsigned int at = 0;

	while (at < dying_count) {
		struct victim *victim = &dying[at];
		bool is_gone = get_mm_rss(victim->mm) == 0;

		if (is_gone)
			victim->logged->gone_ns = now_ns;
		if (is_gone || now_ns - victim->killed_ns > TIMEOUT_NS) {
			mmdrop(victim->mm);
			*victim = dying[--dying_count];
		} else {
			at++;
		}
	}
}

/*
 * Frees a dying victim's private memory, as the kernel's OOM reaper does. Leaves alone what others
 * may use: shared mappings, locked and huge pages, device memory, and memory of another process.
 */
static void reap(struct victim *victim)
{
	struct mm_struct *mm = victim->mm;
	struct vm_area_struct *area;
	u64 begin_ns = ktime_get_ns();
	unsigned long before = get_mm_rss(mm), after;
	VMA_ITERATOR(areas, mm, 0);

	if (victim->is_shared || !mmget_not_zero(mm))
		return;
	if (mm_has_notifiers(mm) || !mmap_read_trylock(mm))
		goto out;
	/* A thread that touches reaped memory must not see zeros before it dies. */
	set_bit(MMF_UNSTABLE, &mm->flags);
	for_each_vma(areas, area) {
		if (area->vm_flags & (VM_SHARED | VM_HUGETLB | VM_PFNMAP | VM_LOCKED))
			continue;
		zap_page_range(area, area->vm_start, area->vm_end - area->vm_start);
	}
	mmap_read_unlock(mm);
	after = get_mm_rss(mm);
	if (after < before)
		victim->logged->reaped_pages += before - after;
	victim->logged->reap_ns += ktime_get_ns() - begin_ns;
out:
	/* The last reference would free the rest in the middle of the caller's allocation. */
	mmput_async(mm);
}

/* Decides once, with `deciding` held. */
static void decide(void)
{
	struct memory now = memory_now();
	int level = level_of(now);
	unsigned long pages = 0, more;
	long short_by;

	forget_the_dead();
	if (level < 0) {
		ample_count++;
		return;
	}
	if (dying_count) {
		pending_count++;
		return;
	}
	short_by = minfree[level] - now.free_pages;
	do {
		more = kill_one(adj[level], now);
		pages += more;
	} while (is_batch && more && (long)pages < short_by && dying_count < VICTIMS_MAX);
	if (!pages)
		without_victim_count++;
}

static bool is_any_dying(void)
{
	bool is_any;

	mutex_lock(&deciding);
	forget_the_dead();
	is_any = dying_count > 0;
	mutex_unlock(&deciding);
	return is_any;
}

/* Waits in the caller's allocation until the victims' memory is back. */
static void wait_for_victims(struct shrink_control *control)
{
	u64 begin_ns = ktime_get_ns();
	u64 end_ns = begin_ns + (u64)wait_ms * NSEC_PER_MSEC;
	bool has_slept = false;

	/* Kernel threads serve all; a victim may need a lock of a caller that must not enter files. */
	if (!wait_ms || (current->flags & PF_KTHREAD) || !(control->gfp_mask & __GFP_FS))
		return;
	/* A victim that allocates as it ends must not wait for itself. */
	if (current->signal->flags & SIGNAL_GROUP_EXIT)
		return;
	while (!fatal_signal_pending(current) && ktime_get_ns() < end_ns && is_any_dying()) {
		usleep_range(50, 100);
		has_slept = true;
	}
	if (has_slept)
		atomic64_add(ktime_get_ns() - begin_ns, &waited_ns);
}

static unsigned long count_pages(struct shrinker *shrinker, struct shrink_control *control)
{
	return global_node_page_state(NR_ACTIVE_ANON) + global_node_page_state(NR_INACTIVE_ANON) +
	       global_node_page_state(NR_ACTIVE_FILE) + global_node_page_state(NR_INACTIVE_FILE);
}

static unsigned long free_pages_by_kill(struct shrinker *shrinker, struct shrink_control *control)
{
	u64 begin_ns = ktime_get_ns(), spent_ns;
	unsigned int at;

	if (current_is_kswapd() && !in_kswapd)
		return SHRINK_STOP;
	atomic64_inc(&calls);
	if (current_is_kswapd())
		atomic64_inc(&calls_of_kswapd);
	if (mutex_trylock(&deciding)) {
		decide();
		if (is_first)
			for (at = 0; at < dying_count; at++)
				reap(&dying[at]);
		mutex_unlock(&deciding);
	} else {
		atomic64_inc(&busy);
	}
	spent_ns = ktime_get_ns() - begin_ns;
	atomic64_add(spent_ns, &in_shrinker_ns);
	if (!current_is_kswapd())
		atomic64_add(spent_ns, &in_shrinker_direct_ns);
	wait_for_victims(control);
	/* The kernel would call it again in the same pass of reclaim, for each object counted. */
	return SHRINK_STOP;
}

static struct shrinker lowmem_shrinker = {
	.count_objects = count_pages,
	.scan_objects = free_pages_by_kill,
	/* Called in every pass of reclaim, however little the pass scans. */
	.seeks = 0,
	.batch = 1,
};

static int show(struct seq_file *file, void *unused)
{
	unsigned long number;

	mutex_lock(&deciding);
	forget_the_dead();
	seq_printf(file, "calls %lld\n", atomic64_read(&calls));
	seq_printf(file, "calls_of_kswapd %lld\n", atomic64_read(&calls_of_kswapd));
	seq_printf(file, "busy %lld\n", atomic64_read(&busy));
	seq_printf(file, "ample %lu\n", ample_count);
	seq_printf(file, "pending %lu\n", pending_count);
	seq_printf(file, "without_victim %lu\n", without_victim_count);
	seq_printf(file, "kills %lu\n", kill_count);
	seq_printf(file, "in_shrinker_ns %lld\n", atomic64_read(&in_shrinker_ns));
	seq_printf(file, "in_shrinker_direct_ns %lld\n", atomic64_read(&in_shrinker_direct_ns));
	seq_printf(file, "waited_ns %lld\n", atomic64_read(&waited_ns));
	number = kill_count > LOG_MAX ? kill_count - LOG_MAX : 0;
	for (; number < kill_count; number++) {
		struct kill *each = &kills[number % LOG_MAX];

		seq_printf(file,
			   "kill at_ns=%llu process=%d adj=%d pages=%lu free_pages=%ld "
			   "file_pages=%ld caller=%d by_kswapd=%d gone_ns=%llu reaped_pages=%llu "
			   "reap_ns=%llu caller_name=%s name=%s\n",
			   each->at_ns, each->process, each->adj, each->pages, each->free_pages,
			   each->file_pages, each->caller, each->by_kswapd, each->gone_ns,
			   each->reaped_pages, each->reap_ns, each->caller_name, each->name);
	}
	mutex_unlock(&deciding);
	return 0;
}

static int __init start(void)
{
	int level, failed;

	if (!in_guest) {
		pr_err("kills processes: load it only in a guest, with in_guest=1\n");
		return -EPERM;
	}
	is_batch = !strcmp(how, "batch");
	is_first = !strcmp(how, "first");
	if (!is_batch && !is_first && strcmp(how, "serial")) {
		pr_err("how=%s: give serial, batch or first\n", how);
		return -EINVAL;
	}
	if (minfree_count != adj_count) {
		pr_err("%u levels in minfree, but %u in adj: give as many\n", minfree_count,
		       adj_count);
		return -EINVAL;
	}
	for (level = 0; level < minfree_count; level++) {
		if (minfree[level] <= 0) {
			pr_err("minfree: %d pages: give levels above 0\n", minfree[level]);
			return -EINVAL;
		}
		if (adj[level] < OOM_SCORE_ADJ_MIN || adj[level] > OOM_SCORE_ADJ_MAX) {
			pr_err("adj: %d: give numbers from %d to %d\n", adj[level],
			       OOM_SCORE_ADJ_MIN, OOM_SCORE_ADJ_MAX);
			return -EINVAL;
		}
		if (level && minfree[level] <= minfree[level - 1]) {
			pr_err("minfree: %d after %d: give ascending levels\n", minfree[level],
			       minfree[level - 1]);
			return -EINVAL;
		}
	}
	if (!proc_create_single("pagewise_lowmem", 0444, NULL, show))
		return -ENOMEM;
	failed = register_shrinker(&lowmem_shrinker, "pagewise-lowmem");
	if (failed)
		remove_proc_entry("pagewise_lowmem", NULL);
	return failed;
}

static void __exit stop(void)
{
	unregister_shrinker(&lowmem_shrinker);
	remove_proc_entry("pagewise_lowmem", NULL);
	while (dying_count)
		mmdrop(dying[--dying_count].mm);
}

module_init(start);
module_exit(stop);
MODULE_DESCRIPTION("S2's low-memory killer as a shrinker, for guests");
MODULE_LICENSE("GPL");
