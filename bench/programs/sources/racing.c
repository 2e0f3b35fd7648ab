/* Two threads that write the same word without a lock; each also allocates. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared;

static void *work(void *argument)
{
    (void)argument;
    for (int number = 0; number < 50; number++) {
        char *block = malloc(300000);
        memset(block, 1, 300000);
        shared += block[number];
        free(block);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int at = 0; at < 2; at++)
        pthread_create(&threads[at], NULL, work, NULL);
    for (int at = 0; at < 2; at++)
        pthread_join(threads[at], NULL);
    puts("finished");
    return 0;
}
