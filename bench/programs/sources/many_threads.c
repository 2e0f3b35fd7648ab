/* Many threads at once: each allocates blocks, passes them to its neighbour and frees those that it gets.
   Usage: many_threads COUNT */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1000, ROUNDS = 200 };

struct slot {
    pthread_mutex_t lock;
    unsigned char *block;
    size_t size;
};

static struct slot slots[MOST];
static pthread_barrier_t all_started;
static int count;

static void *work(void *argument)
{
    size_t own = (size_t)argument, sum = 0;
    unsigned state = (unsigned)own * 77 + 1;
    pthread_barrier_wait(&all_started);
    for (unsigned number = 0; number < ROUNDS; number++) {
        state = state * 1103515245 + 12345;
        size_t size = 1 + (state >> 8) % (state & 64 ? 300000 : 3000);
        unsigned char *block = state & 128 ? calloc(1, size) : malloc(size);
        memset(block, (int)(size & 255), size);
        struct slot *next = &slots[(own + 1) % (size_t)count];
        pthread_mutex_lock(&next->lock);
        unsigned char *taken = next->block;
        size_t taken_size = next->size;
        next->block = block;
        next->size = size;
        pthread_mutex_unlock(&next->lock);
        if (taken != NULL && (taken[0] != (taken_size & 255) || taken[taken_size - 1] != (taken_size & 255))) {
            fputs("a block has changed\n", stderr);
            exit(1);
        }
        free(taken);
        sum += size;
    }
    return (void *)sum;
}

int main(int words_count, char **words)
{
    static pthread_t threads[MOST];
    size_t sum = 0;
    count = words_count > 1 ? atoi(words[1]) : 300;
    if (count < 1 || count > MOST)
        return 2;
    pthread_barrier_init(&all_started, NULL, (unsigned)count);
    for (int at = 0; at < count; at++) {
        pthread_mutex_init(&slots[at].lock, NULL);
        if (pthread_create(&threads[at], NULL, work, (void *)(size_t)at) != 0)
            return 3;
    }
    for (int at = 0; at < count; at++) {
        void *own;
        pthread_join(threads[at], &own);
        sum += (size_t)own;
    }
    for (int at = 0; at < count; at++)
        free(slots[at].block);
    printf("finished %zu\n", sum);
    return 0;
}
