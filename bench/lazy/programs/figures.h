// Measurements of a program by itself: page-fault traps, CPU time of all its threads, resident memory.
//
// Traps are counted by perf's software event, not by ru_minflt, which also counts pages that a
// system call populates without a trap.
#pragma once

#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline void require(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        exit(1);
    }
}

// Opened before the work; also counts threads and processes that start later.
static inline int open_counter(unsigned long event)
{
    struct perf_event_attr attribute = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attribute,
        .config = event,
        .inherit = 1,
    };
    int counter = (int)syscall(SYS_perf_event_open, &attribute, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    require(counter >= 0, "counting by perf_event_open, which wants root");
    return counter;
}

static inline int open_trap_counter(void) { return open_counter(PERF_COUNT_SW_PAGE_FAULTS); }

static inline long count_of(int counter)
{
    long count;
    require(read(counter, &count, sizeof count) == sizeof count, "reading a counter");
    return count;
}

static inline long traps_of(int counter) { return count_of(counter); }

static inline double seconds_of(struct timeval time) { return time.tv_sec + time.tv_usec / 1e6; }

static inline double user_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return seconds_of(usage.ru_utime);
}

static inline double clock_s(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

// A line of a file in /proc/self, in bytes; read without the allocator under test.
static inline long proc_bytes(const char *file, const char *line)
{
    static char text[16384];
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t length = 0, got;
    while (descriptor >= 0 && (got = read(descriptor, text + length, sizeof text - 1 - length)) > 0)
        length += got;
    close(descriptor);
    text[length] = 0;
    const char *found = strstr(text, line);
    require(found != NULL, file);
    return strtol(found + strlen(line), NULL, 10) * 1024;
}

static inline long resident_bytes(void) { return proc_bytes("/proc/self/smaps_rollup", "\nRss:"); }
static inline long huge_bytes(void)
{
    return proc_bytes("/proc/self/smaps_rollup", "\nAnonHugePages:");
}
static inline long peak_bytes(void) { return proc_bytes("/proc/self/status", "\nVmHWM:"); }
