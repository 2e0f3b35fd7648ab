/* Prints its user and whether the loader runs it in secure mode, then works with memory. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(void)
{
    uid_t real, effective, saved;
    getresuid(&real, &effective, &saved);
    printf("users %d %d %d\nsecure %lu\n", (int)real, (int)effective, (int)saved, getauxval(AT_SECURE));
    for (int number = 0; number < 200; number++) {
        size_t size = 1000 + (size_t)number * 2000;
        unsigned char *block = calloc(1, size);
        if (block == NULL || block[size - 1] != 0)
            return 1;
        memset(block, 1, size);
        free(block);
    }
    puts("finished");
    return 0;
}
