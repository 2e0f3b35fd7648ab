/* A process to kill: THREADS threads, including the first, together touch MIB MiB of anonymous memory
 * in pages of 4 KiB, and wait. Prints "ready" after that. Dies with its parent. With FILE, one of the
 * threads reads it; on a file system that stalls, no signal interrupts that read.
 * Usage: victim THREADS MIB [FILE] */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, STACK_BYTES = 64 << 10, READING_US = 200000 /* until the read waits */ };

static size_t share_bytes;
static const char *file;
static pthread_barrier_t all_touched;

static void touch_share(void)
{
    char *memory =
        mmap(NULL, share_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(memory, share_bytes, MADV_NOHUGEPAGE);
    for (size_t place = 0; place < share_bytes; place += PAGE_BYTES)
        memory[place] = 1;
    pthread_barrier_wait(&all_touched);
}

static void *live(void *nothing)
{
    touch_share();
    for (;;)
        pause();
    return nothing;
}

static void *read_file(void *nothing)
{
    char byte;
    touch_share();
    int opened = open(file, O_RDONLY);
    if (opened < 0 || read(opened, &byte, 1) < 0) {
        perror(file);
        exit(1);
    }
    return nothing;
}

int main(int count, char **words)
{
    if (count != 3 && count != 4) {
        fprintf(stderr, "usage: victim THREADS MIB [FILE]\n");
        return 2;
    }
    unsigned threads = strtoul(words[1], NULL, 10);
    share_bytes = (strtoul(words[2], NULL, 10) << 20) / threads / PAGE_BYTES * PAGE_BYTES;
    file = words[3];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_barrier_init(&all_touched, NULL, threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    for (unsigned number = 1; number < threads; number++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, file && number == 1 ? read_file : live, NULL) != 0) {
            perror("pthread_create");
            return 1;
        }
    }
    touch_share();
    if (file)
        usleep(READING_US);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
