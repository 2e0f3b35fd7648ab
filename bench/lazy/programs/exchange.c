// Blocks that one thread allocates and another frees, in batches: the pattern of xmalloc-test.
//
//     exchange flow|turns SMALLEST LARGEST BLOCKS BATCHES PAIRS
//
// Each of PAIRS allocating threads makes BATCHES batches of BLOCKS blocks, log-uniform from SMALLEST
// to LARGEST bytes, and writes the first bytes of each. PAIRS other threads free whole batches.
// `flow`: both at once, through a queue of eight batches. `turns`: batches are freed once each
// allocating thread has made one, and the next are allocated once all are freed, so that the peak of
// live blocks does not depend on the scheduler. Prints one JSON object.
#include "figures.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>

enum { WRITTEN = 128, WAITING_MAX = 8, PAIRS_MAX = 64, SIZES = 4096 };

typedef struct Batch {
    struct Batch *next;
    void *blocks[];
} Batch;

typedef struct {
    pthread_t thread;
    uint64_t random;
    long number;
} Worker;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t has_room, has_batch;
    Batch *first;
    long waiting, to_come;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .has_room = PTHREAD_COND_INITIALIZER,
           .has_batch = PTHREAD_COND_INITIALIZER};

static struct {
    pthread_barrier_t barrier;
    Batch *made[PAIRS_MAX];
} turns;

static size_t sizes[SIZES];
static long blocks, batches, pairs;

static Batch *make_batch(Worker *worker)
{
    Batch *batch = malloc(sizeof *batch + (size_t)blocks * sizeof batch->blocks[0]);
    require(batch != NULL, "allocating a batch");
    for (long at = 0; at < blocks; at++) {
        worker->random ^= worker->random << 13;
        worker->random ^= worker->random >> 7;
        worker->random ^= worker->random << 17;
        size_t bytes = sizes[worker->random % SIZES];
        batch->blocks[at] = malloc(bytes);
        require(batch->blocks[at] != NULL, "allocating a block");
        memset(batch->blocks[at], (int)at, bytes < WRITTEN ? bytes : WRITTEN);
    }
    return batch;
}

static void free_batch(Batch *batch)
{
    for (long at = 0; at < blocks; at++)
        free(batch->blocks[at]);
    free(batch);
}

static void put(Batch *batch)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.waiting == WAITING_MAX)
        pthread_cond_wait(&queue.has_room, &queue.lock);
    batch->next = queue.first;
    queue.first = batch;
    queue.waiting++;
    pthread_cond_signal(&queue.has_batch);
    pthread_mutex_unlock(&queue.lock);
}

// The batch put last; NULL once all have been taken.
static Batch *take(void)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.first == NULL && queue.to_come > 0)
        pthread_cond_wait(&queue.has_batch, &queue.lock);
    Batch *batch = queue.first;
    if (batch != NULL) {
        queue.first = batch->next;
        queue.waiting--;
        if (--queue.to_come == 0)
            pthread_cond_broadcast(&queue.has_batch);
        pthread_cond_signal(&queue.has_room);
    }
    pthread_mutex_unlock(&queue.lock);
    return batch;
}

static void *allocate_flow(void *worker)
{
    for (long at = 0; at < batches; at++)
        put(make_batch(worker));
    return NULL;
}

static void *free_flow(void *unused)
{
    for (Batch *batch; (batch = take()) != NULL;)
        free_batch(batch);
    return unused;
}

static void *allocate_turns(void *worker)
{
    for (long at = 0; at < batches; at++) {
        turns.made[((Worker *)worker)->number] = make_batch(worker);
        pthread_barrier_wait(&turns.barrier);
        pthread_barrier_wait(&turns.barrier);
    }
    return NULL;
}

static void *free_turns(void *worker)
{
    for (long at = 0; at < batches; at++) {
        pthread_barrier_wait(&turns.barrier);
        free_batch(turns.made[((Worker *)worker)->number]);
        pthread_barrier_wait(&turns.barrier);
    }
    return NULL;
}

static void run(void *(*allocate)(void *), void *(*free_made)(void *))
{
    static Worker allocating[PAIRS_MAX], freeing[PAIRS_MAX];
    for (long pair = 0; pair < pairs; pair++) {
        allocating[pair].number = freeing[pair].number = pair;
        allocating[pair].random = 88172645463325252UL * (uint64_t)(2 * pair + 1);
        pthread_create(&allocating[pair].thread, NULL, allocate, &allocating[pair]);
        pthread_create(&freeing[pair].thread, NULL, free_made, &freeing[pair]);
    }
    for (long pair = 0; pair < pairs; pair++) {
        pthread_join(allocating[pair].thread, NULL);
        pthread_join(freeing[pair].thread, NULL);
    }
}

int main(int count, char **words)
{
    require(count == 7 && atol(words[6]) <= PAIRS_MAX,
            "usage: exchange flow|turns SMALLEST LARGEST BLOCKS BATCHES PAIRS, at most 64");
    double smallest = atof(words[2]), doublings = log2(atof(words[3]) / smallest);
    for (int at = 0; at < SIZES; at++)
        sizes[at] = (size_t)(smallest * exp2(doublings * at / SIZES));
    blocks = atol(words[4]);
    batches = atol(words[5]);
    pairs = atol(words[6]);
    queue.to_come = pairs * batches;
    pthread_barrier_init(&turns.barrier, NULL, (unsigned)(2 * pairs));
    int is_flow = strcmp(words[1], "flow") == 0;
    double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID), wall = clock_s(CLOCK_MONOTONIC);
    run(is_flow ? allocate_flow : allocate_turns, is_flow ? free_flow : free_turns);
    wall = clock_s(CLOCK_MONOTONIC) - wall;
    cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"cpu_s\": %.6f, \"steps_per_s\": %.1f, \"peak_bytes\": %ld}\n", cpu,
           (double)(pairs * batches * blocks) / wall, peak_bytes());
}
