// Random episodes of memory pressure with lazy unmapping in the kernel. Built statically.
//
//     pressure_episodes on|off EPISODES SEED
//
// In each episode, one to four processes fill blocks and free them, as many as the pools can hold, and
// then all take memory at once, in total from half of what is free to a fifth more. So some episodes fit
// only if the pools are emptied, and some cannot fit. Prints the number of processes killed.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_MAX = 4, BLOCKS_MAX = 64, STEP = 1 << 20, PAGE = 4096, SET_LAZY_UNMAP = 0x4c5a554d };

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

static void require(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        exit(2);
    }
}

static long free_kib(void)
{
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    require(file != NULL, "/proc/meminfo");
    while (fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %ld", &kib) != 1)
        ;
    fclose(file);
    return kib;
}

// The parent is never killed, its children may be.
static void set_oom_score(const char *score)
{
    FILE *file = fopen("/proc/self/oom_score_adj", "w");
    require(file != NULL && fputs(score, file) >= 0 && fclose(file) == 0, "oom_score_adj");
}

static char *map(size_t bytes, int kind)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "mmap");
    return memory;
}

static void fill_and_free(size_t bytes)
{
    char *block[BLOCKS_MAX];
    size_t size[BLOCKS_MAX], filled = 0;
    int blocks = 0;
    while (filled < bytes && blocks < BLOCKS_MAX) {
        size[blocks] = PAGE * (16 + draw(1008));
        block[blocks] = map(size[blocks], MAP_PRIVATE);
        memset(block[blocks], 0xa5, size[blocks]);
        filled += size[blocks++];
    }
    while (blocks-- > 0)
        munmap(block[blocks], size[blocks]);
}

// Takes memory in steps, which the pool may serve if they are private, and checks that it holds zeros.
static void burst(size_t bytes)
{
    int kind = draw(2) ? MAP_PRIVATE : MAP_SHARED;
    for (size_t done = 0; done < bytes; done += STEP) {
        char *step = map(STEP, kind);
        for (size_t at = 0; at < STEP; at += PAGE) {
            if (step[at] != 0)
                exit(3);
            step[at] = 1;
        }
    }
}

// One process: frees, tells that it has, waits for the start, and takes its part.
static void process(size_t freed, size_t taken, int ready, int start)
{
    char byte;
    fill_and_free(freed);
    require(write(ready, "r", 1) == 1, "ready");
    require(read(start, &byte, 1) == 1, "start");
    burst(taken);
    exit(0);
}

static int episode(void)
{
    int ready[2], start[2], processes = 1 + (int)draw(PROCESSES_MAX), killed = 0;
    size_t all = (size_t)free_kib() << 10, percent = 50 + draw(70);
    pid_t child[PROCESSES_MAX];
    char byte;
    require(pipe(ready) == 0 && pipe(start) == 0, "pipe");
    for (int number = 0; number < processes; number++) {
        uint64_t own = draw(UINT64_MAX) | 1;
        child[number] = fork();
        require(child[number] >= 0, "fork");
        if (child[number] == 0) {
            state = own;
            set_oom_score("0");
            process(all / 2 / processes, all / 100 * percent / processes, ready[1], start[0]);
        }
    }
    close(ready[1]);
    for (int number = 0; number < processes && read(ready[0], &byte, 1) == 1; number++)
        ;
    require(write(start[1], "ssss", processes) == processes, "start");
    for (int number = 0; number < processes; number++) {
        int status;
        require(waitpid(child[number], &status, 0) == child[number], "wait");
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0)
            exit(WEXITSTATUS(status));
    }
    close(ready[0]), close(start[0]), close(start[1]);
    return killed;
}

int main(int count, char **words)
{
    int killed = 0, with_kills = 0;
    if (count != 4) {
        fprintf(stderr, "usage: pressure_episodes on|off EPISODES SEED\n");
        return 2;
    }
    require(prctl(SET_LAZY_UNMAP, strcmp(words[1], "on") == 0, 0, 0, 0) == 0, "prctl");
    set_oom_score("-1000");
    for (int number = 0; number < atoi(words[2]); number++) {
        state = 88172645463325252UL + (uint64_t)(atoi(words[3]) + number) * 0x9e3779b97f4a7c15UL;
        draw(2);
        int of_episode = episode();
        killed += of_episode;
        with_kills += of_episode > 0;
    }
    printf("episodes=%s killed=%d with_kills=%d\n", words[2], killed, with_kills);
    return 0;
}
