/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What crosses from the kernel; trace::recording::Record and recorder::rings are its other side. */
#ifndef PAGEWISE_RECORD_H
#define PAGEWISE_RECORD_H

/* One record, 40 bytes. */
struct record {
	u64 time_ns;   /* CLOCK_MONOTONIC */
	u64 address;   /* virtual page number, page offset in a file, sector, or 8 bytes of a name */
	u64 object;    /* swap entry, inode, or the next 8 bytes of a name */
	u32 process;   /* who the record is about: the page's owner, the faulting process */
	u32 auxiliary; /* by kind: who did it, nanoseconds, or the parent process */
	union {
		struct {
			u32 device; /* number of the device */
			u16 pages;  /* 4 KiB pages */
			u8 kind;    /* with ROUND in every other round of the ring, the first too */
			u8 flags;
		};
		u64 end; /* written last */
	};
};

#define ROUND 0x80

/* Positions in a ring of records, which count on from round to round. */
struct ring {
	u64 claimed; /* by the kernel's side */
	u64 lost;    /* records that found the ring full */
	u64 apart[6]; /* another processor writes what follows */
	u64 read;
	u64 end_apart[7];
};

/* The name of a file, once ahead of its pages: the last part of its path first, each part ended by
 * a zero, up to the root of its file system. */
#define PARTS_MAX 20
#define PART_BYTES 64

struct file_name {
	u64 inode;
	u32 device;
	u32 parts;
	char path[PARTS_MAX][PART_BYTES];
};

enum kind {
	PAGE_OUT = 1,     /* address = page of process, object = swap entry, auxiliary = who reclaimed;
			   * of a device: who reclaimed submitted the SWAP_WRITE of these pages too */
	SWAP_WRITE = 2,   /* object = swap entry, process = who submitted */
	SWAP_READ = 3,    /* the same; in a fault: address = faulting page */
	SWAP_IN = 4,      /* address = page of process, auxiliary = ns since the fault began */
	FILE_ADDED = 5,   /* address = page offset, object = inode, process = who caused it */
	EXEC = 6,         /* address, object = name */
	EXIT = 7,
	FORK = 8,         /* auxiliary = parent */
	FILE_DROPPED = 9, /* as FILE_ADDED */
	BLOCK = 10,       /* address = sector, object = bytes, process = who issued */
	KILL = 11,        /* process = who dies, auxiliary = who killed */
};

enum {
	NO_OWNER = 1,   /* PAGE_OUT: the owner was not found */
	SHARED = 2,     /* PAGE_OUT: more than one mapping; the first stands for all */
	ZEROS = 4,      /* PAGE_OUT: nothing but zeros, so nothing is written */
	IN_FAULT = 4,   /* SWAP_READ: issued in a page fault of process */
	IN_KERNEL = 1,  /* SWAP_IN: the fault happened in kernel mode */
	MAJOR = 2,      /* SWAP_IN: it read the device */
	WRITES = 1,     /* BLOCK: it writes */
	IS_OTHER = 2,   /* BLOCK: neither read nor write */
	OOM_KILL = 1,   /* KILL: the kernel's out-of-memory killer chose it */
};

#endif
