/* Holds memory with threads until it is killed: victim THREADS MIB [FILE]. Says "ready". With FILE one
 * thread reads it, which on a file system that stalls no signal ends. bench/killer.py kills it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static size_t share;
static const char *file;
static pthread_barrier_t ready;

static void fill(void)
{
    char *memory = mmap(0, share, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    for (size_t at = 0; at < share; at += 4096)
        memory[at] = (char)(1 + (at >> 12));
}

static void *work(void *number)
{
    fill();
    pthread_barrier_wait(&ready);
    if (file && (long)number == 1) {
        char byte;
        int opened = open(file, O_RDONLY);
        if (opened < 0 || read(opened, &byte, 1) < 0)
            abort();
    }
    for (;;)
        pause();
}

int main(int count, char **words)
{
    if (count < 3)
        return 2;
    long threads = atol(words[1]);
    share = ((size_t)atol(words[2]) << 20) / (size_t)threads & ~(size_t)4095;
    file = count > 3 ? words[3] : NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_barrier_init(&ready, 0, (unsigned)threads);
    for (long number = 1; number < threads; number++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, (void *)number))
            return 1;
    }
    fill();
    pthread_barrier_wait(&ready);
    if (file)
        usleep(200000);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
