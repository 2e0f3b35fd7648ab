/* Sound work on blocks of 1 byte to 700 KB in three threads, with a child: blocks [ROUNDS]. Prints a checksum. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, KEPT = 12 };
static int rounds = 40;

static void fail(const char *what)
{
    fprintf(stderr, "blocks: %s\n", what);
    exit(1);
}

static void *work(void *argument)
{
    unsigned state = (unsigned)(size_t)argument * 77 + 1;
    unsigned char *kept[KEPT] = {0};
    size_t sizes[KEPT] = {0}, sum = 0;
    for (int number = 0; number < rounds * KEPT; number++) {
        state = state * 1103515245 + 12345;
        size_t size = 1 + (state >> 8) % (state & 64 ? 700000 : 5000), at = number % KEPT;
        if (kept[at] != NULL && kept[at][sizes[at] - 1] != (unsigned char)at)
            fail("a block has changed");
        if (state & 128) {
            kept[at] = realloc(kept[at], size);
        } else {
            free(kept[at]);
            kept[at] = state & 256 ? calloc(1, size) : malloc(size);
            if (state & 256 && (kept[at][0] | kept[at][size / 2] | kept[at][size - 1]) != 0)
                fail("fresh memory is not zero");
        }
        memset(kept[at], (int)at, size);
        sizes[at] = size;
        sum = sum * 31 + size;
        unsigned char *mapped =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED || mapped[size - 1] != 0)
            fail("a mapping is not zero");
        mapped[0] = 1;
        munmap(mapped, size);
    }
    for (int at = 0; at < KEPT; at++)
        free(kept[at]);
    return (void *)sum;
}

int main(int count, char **words)
{
    pthread_t threads[THREADS];
    size_t sum = 0;
    if (count > 1)
        rounds = atoi(words[1]);
    for (size_t at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, work, (void *)at);
    for (size_t at = 0; at < THREADS; at++) {
        void *own;
        pthread_join(threads[at], &own);
        sum = sum * 1009 + (size_t)own;
    }
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit((int)(size_t)work((void *)9) & 63);
    waitpid(child, &status, 0);
    printf("finished %zu, child %d\n", sum, WEXITSTATUS(status));
    return 0;
}
