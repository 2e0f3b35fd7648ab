// Programs for a guest under memory pressure: most take memory, and two watch it.
//
//   pressure hog MIB_A_SECOND THREADS       takes memory until it is killed
//   pressure hold MIB ADJ NICE              takes memory, prints "ready", and keeps the memory
//   pressure spin MIB ADJ NICE THREADS      as hold, with threads that compute
//   pressure stuck MIB ADJ FILE             as hold, with a thread that writes FILE
//   pressure forks MIB ADJ FORKS            takes memory, forks children that share it, prints "ready"
//   pressure bomb PROCESSES MIB             forks children that each take memory at once
//   pressure launch KIB                     takes memory once; prints the time in milliseconds
//   pressure watch LOW RECOVERED SECONDS    watches MemAvailable from its fall below LOW percent of
//                                           memory to its rise above RECOVERED percent; prints JSON
//   pressure until FILE PERCENT SECONDS     prints the milliseconds until the number in FILE has
//                                           fallen to PERCENT of its first value
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20 };

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void wait_ms(long ms) { usleep(ms * 1000); }

static void take(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    for (size_t at = 0; at < bytes; at += PAGE) memory[at] = 1;
}

static void set_adj(const char *adj) {
    FILE *file = fopen("/proc/self/oom_score_adj", "w");
    if (!file || fputs(adj, file) < 0 || fclose(file)) fail("oom_score_adj");
}

static void *sleep_on(void *unused) {
    for (;;) pause();
    return unused;
}

static void *compute(void *unused) {
    for (volatile unsigned long count = 0;; count++) {}
    return unused;
}

static void *write_file(void *path) {
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    if (file < 0 || write(file, "x", 1) != 1) fail(path);
    return NULL;
}

static void start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument)) fail("pthread_create");
}

static void hog(long mib_a_second, long threads) {
    for (long more = 1; more < threads; more++) start(sleep_on, NULL);
    for (;;) {
        take(mib_a_second * MIB / 100);
        wait_ms(10);
    }
}

static void hold(long mib, const char *adj, int nice_value) {
    set_adj(adj);
    if (mib > 0) take(mib * MIB);
    // Set last, because with a low priority it would take the memory slowly.
    if (setpriority(PRIO_PROCESS, 0, nice_value)) fail("setpriority");
}

static void stay(void) {
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}

static void bomb(long processes, long mib) {
    for (long child = 0; child < processes; child++) {
        pid_t pid = fork();
        if (pid < 0) fail("fork");
        if (pid == 0) {
            take(mib * MIB);
            sleep_on(NULL);
        }
    }
    while (wait(NULL) > 0) {}
}

// The number of KiB after a name in the text of /proc/meminfo.
static long meminfo(const char *text, const char *name) {
    const char *line = strstr(text, name);
    return line ? atol(line + strlen(name)) : 0;
}

static void read_text(int file, char *text, size_t size) {
    ssize_t length = pread(file, text, size - 1, 0);
    if (length < 0) fail("read");
    text[length] = 0;
}

// Checks every millisecond with the highest priority, because the program may use all processors.
static void watch(double low, double recovered, double seconds) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) || setpriority(PRIO_PROCESS, 0, -20)) fail("watch");
    int file = open("/proc/meminfo", O_RDONLY);
    char text[4096];
    double begin = now_ms(), crossed = 0, back = 0, under = 0, last = begin, gap = 0;
    long lowest = -1, total = 0;
    while (!back && now_ms() - begin < seconds * 1e3) {
        read_text(file, text, sizeof text);
        double time = now_ms();
        total = meminfo(text, "MemTotal:");
        long available = meminfo(text, "MemAvailable:");
        if (time - last > gap) gap = time - last;
        if (available < total * low / 100) {
            if (!crossed) crossed = time;
            under += time - last;
        }
        last = time;
        if (crossed && (lowest < 0 || available < lowest)) lowest = available;
        if (crossed && available > total * recovered / 100) back = time;
        wait_ms(1);
    }
    printf("{\"crossed\": %s, \"recovery_ms\": ", crossed ? "true" : "false");
    back ? printf("%.1f", back - crossed) : printf("null");
    printf(", \"under_ms\": %.1f, \"lowest_kib\": %ld, \"total_kib\": %ld, \"gap_ms\": %.1f}\n",
           under, lowest, total, gap);
}

static void until(const char *path, double percent, double seconds) {
    if (setpriority(PRIO_PROCESS, 0, -20)) fail("until");
    int file = open(path, O_RDONLY);
    if (file < 0) fail(path);
    char text[64];
    read_text(file, text, sizeof text);
    double first = atof(text), begin = now_ms();
    puts("ready");
    fflush(stdout);
    while (now_ms() - begin < seconds * 1e3) {
        read_text(file, text, sizeof text);
        if (atof(text) <= first * percent / 100) {
            printf("%.2f\n", now_ms() - begin);
            return;
        }
        wait_ms(1);
    }
    puts("never");
}

int main(int count, char **words) {
    const char *task = count > 1 ? words[1] : "";
    if (!strcmp(task, "hog") && count == 4) hog(atol(words[2]), atol(words[3]));
    else if (!strcmp(task, "hold") && count == 5) {
        hold(atol(words[2]), words[3], atoi(words[4]));
        stay();
    } else if (!strcmp(task, "spin") && count == 6) {
        hold(atol(words[2]), words[3], atoi(words[4]));
        for (long thread = 0; thread < atol(words[5]); thread++) start(compute, NULL);
        stay();
    } else if (!strcmp(task, "forks") && count == 5) {
        hold(atol(words[2]), words[3], 0);
        for (long child = 0; child < atol(words[4]); child++) {
            pid_t pid = fork();
            if (pid < 0) fail("fork");
            if (pid == 0) sleep_on(NULL);
        }
        stay();
    } else if (!strcmp(task, "stuck") && count == 5) {
        hold(atol(words[2]), words[3], 0);
        start(write_file, words[4]);
        wait_ms(200);
        stay();
    } else if (!strcmp(task, "bomb") && count == 4) bomb(atol(words[2]), atol(words[3]));
    else if (!strcmp(task, "launch") && count == 3) {
        double begin = now_ms();
        take(atol(words[2]) * 1024);
        printf("%.2f\n", now_ms() - begin);
    } else if (!strcmp(task, "watch") && count == 5)
        watch(atof(words[2]), atof(words[3]), atof(words[4]));
    else if (!strcmp(task, "until") && count == 5)
        until(words[2], atof(words[3]), atof(words[4]));
    else return fputs("usage: see the head of pressure.c\n", stderr), 2;
    return 0;
}
