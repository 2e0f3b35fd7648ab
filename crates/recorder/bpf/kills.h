/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The events that kills.bpf.c writes; trace::kills::typed reads them. */
#ifndef PAGEWISE_KILLS_H
#define PAGEWISE_KILLS_H

/* One event, 48 bytes. */
struct event {
	u64 time_ns; /* CLOCK_MONOTONIC */
	u32 thread;  /* the current thread */
	u32 kind;
	u64 first;
	u64 second;
	char name[16];
};

#define UNSAID (~0ULL)

enum kind {
	KILL_CALL = 1,         /* the thread calls the kernel to send SIGKILL */
	KILL_CALL_ENDS = 2,
	WAKES = 3,             /* first = thread */
	SIGNAL_GENERATED = 4,  /* first = thread, second = si_code, its name */
	SIGNAL_DELIVERED = 5,
	THREAD_ENDS = 6,       /* second = UNSAID */
	LOCK_WANTED = 7,       /* first = memory, second = to write */
	LOCK_TAKEN = 8,        /* as LOCK_WANTED */
	MEMORY_GONE = 9,       /* first = memory */
	RESIDENT = 10,         /* first = kind of pages, second = bytes */
	RELEASE_CALL = 11,     /* process_mrelease */
	RELEASE_CALL_ENDS = 12,
	CHOSEN = 13,           /* first = thread, second = UNSAID */
	REAPER_BEGINS = 14,    /* first = thread */
	REAPER_ENDS = 15,      /* as REAPER_BEGINS */
	RECLAIM_BEGINS = 16,   /* first = for a memory cgroup */
	RECLAIM_ENDS = 17,     /* as RECLAIM_BEGINS */
	KSWAPD_WAKES = 18,
	KSWAPD_SLEEPS = 19,
	NEW_TASK = 20,         /* first = thread, second = of the same process */
};

#endif
