/* Opens files until RLIMIT_NOFILE refuses, prints the descriptors, allocates with none left, and closes them:
   descriptors LIMIT. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void *allocate(void *argument)
{
    for (int number = 1; number < 60; number++) {
        size_t size = (size_t)number * 50000;
        char *block = calloc(1, size);
        if (block == NULL || block[size - 1] != 0)
            exit(3);
        memset(block, 1, size);
        free(block);
    }
    return argument;
}

int main(int count, char **words)
{
    rlim_t most = count > 1 ? (rlim_t)atoi(words[1]) : 16;
    struct rlimit limit = {most, most};
    pthread_t thread;
    allocate(NULL);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    for (int round = 0; round < 3; round++) {
        int last = -1, file;
        while ((file = open("/dev/null", O_RDONLY)) >= 0)
            last = file;
        printf("refused at %d: %s\n", last + 1, strerror(errno));
        pthread_create(&thread, NULL, allocate, NULL);
        pthread_join(thread, NULL);
        for (int at = 3; at <= last; at++)
            if (close(at) != 0)
                printf("%d was not open\n", at);
    }
    return 0;
}
