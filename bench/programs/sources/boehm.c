/* Four threads under Boehm's collector: lists, arrays, malloc beside it, finalizers. Prints a checksum. */
#define GC_THREADS
#include <gc/gc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 1500, KEPT = 16 };

struct node {
    struct node *next;
    unsigned value;
    unsigned char *array;
    size_t size;
};

static void finalized(void *object, void *data)
{
    (void)object;
    (void)data;
}

static void *work(void *argument)
{
    unsigned state = (unsigned)(size_t)argument * 77 + 1;
    struct node *kept[KEPT] = {0};
    size_t sum = 0;
    for (unsigned number = 0; number < ROUNDS; number++) {
        state = state * 1103515245 + 12345;
        struct node *list = NULL;
        for (unsigned at = 0; at < 200; at++) {
            struct node *node = GC_MALLOC(sizeof *node);
            node->next = list;
            node->value = number ^ at;
            list = node;
        }
        list->size = 1 + (state >> 8) % (state & 64 ? 1 << 19 : 1 << 13);
        list->array = GC_MALLOC_ATOMIC(list->size);
        memset(list->array, (int)number, list->size);
        GC_register_finalizer(list, finalized, NULL, NULL, NULL);
        size_t outside_size = 65536 + state % 300000;
        char *outside = malloc(outside_size);
        outside[0] = outside[outside_size - 1] = 1;
        unsigned at = (state >> 4) % KEPT;
        if (kept[at] != NULL) {
            for (struct node *node = kept[at]; node != NULL; node = node->next)
                sum = sum * 31 + node->value;
            sum += kept[at]->array[kept[at]->size - 1] + kept[at]->size;
        }
        kept[at] = list;
        free(outside);
        if (number % 100 == 0)
            GC_gcollect();
    }
    return (void *)sum;
}

int main(void)
{
    pthread_t threads[THREADS];
    size_t sum = 0;
    GC_INIT();
    for (size_t at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, work, (void *)at);
    for (int at = 0; at < THREADS; at++) {
        void *own;
        pthread_join(threads[at], &own);
        sum = sum * 1009 + (size_t)own;
    }
    printf("finished %zu\n", sum);
    return GC_get_gc_no() < 4;
}
