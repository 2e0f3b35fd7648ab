/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The data that the BPF programs pass to the recorder; trace::recording::Record and recorder::rings read it. */
#ifndef PAGEWISE_RECORD_H
#define PAGEWISE_RECORD_H

/* One record, 40 bytes. */
struct record {
	u64 time_ns;   /* CLOCK_MONOTONIC */
	u64 address;   /* virtual page number, page offset in a file, sector, or 8 bytes of a name */
	u64 object;    /* swap entry, inode, or the next 8 bytes of a name */
	u32 process;   /* the page's owner, the faulting process, or another process, by kind */
	u32 auxiliary; /* the acting process, nanoseconds, or the parent process, by kind */
	union {
		struct {
			u32 device; /* number of the device */
			u16 pages;  /* 4 KiB pages */
			u8 kind;    /* with ROUND set in every other round of the ring, beginning with the first */
			u8 flags;
		};
		u64 end; /* written last */
	};
};

#define ROUND 0x80

/* Positions in a ring of records; they keep counting from round to round. */
struct ring {
	u64 claimed; /* by the BPF programs */
	u64 lost;    /* records that found the ring full */
	u64 apart[6]; /* own cache line: another processor writes `read` */
	u64 read;
	u64 end_apart[7];
};

/* The name of a file, passed once before its pages: the parts of its path up to the root of its file
 * system, the last part first, each ended by a zero. */
#define PARTS_MAX 20
#define PART_BYTES 64

struct file_name {
	u64 inode;
	u32 device;
	u32 parts;
	char path[PARTS_MAX][PART_BYTES];
};

enum kind {
	PAGE_OUT = 1,     /* address = page of process, object = swap entry, auxiliary = reclaiming process;
			   * with a device, the record stands for the SWAP_WRITE of these pages too */
	SWAP_WRITE = 2,   /* object = swap entry, process = submitting process */
	SWAP_READ = 3,    /* as SWAP_WRITE; in a fault: address = faulting page */
	SWAP_IN = 4,      /* address = page of process, auxiliary = ns since the fault began */
	FILE_ADDED = 5,   /* address = page offset, object = inode, process = current process */
	EXEC = 6,         /* address, object = name */
	EXIT = 7,
	FORK = 8,         /* auxiliary = parent */
	FILE_DROPPED = 9, /* as FILE_ADDED */
	BLOCK = 10,       /* address = sector, object = bytes, process = issuing process */
	KILL = 11,        /* process = victim, auxiliary = killer */
};

enum {
	NO_OWNER = 1,   /* PAGE_OUT: the owner was not found */
	SHARED = 2,     /* PAGE_OUT: more than one mapping; the first stands for all */
	ZEROS = 4,      /* PAGE_OUT: a page of zeros, which is not written */
	IN_FAULT = 4,   /* SWAP_READ: issued in a page fault of `process` */
	IN_KERNEL = 1,  /* SWAP_IN: the fault happened in kernel mode */
	MAJOR = 2,      /* SWAP_IN: it read the device */
	WRITES = 1,     /* BLOCK: it writes */
	IS_OTHER = 2,   /* BLOCK: neither read nor write */
	OOM_KILL = 1,   /* KILL: the kernel's out-of-memory killer chose it */
};

#endif
