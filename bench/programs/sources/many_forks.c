/* Short children with blocks up to 400 KB, eight at once, while the parent holds blocks: many_forks COUNT. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT = 8 };

static unsigned char *filled(size_t size, int value)
{
    unsigned char *block = malloc(size);
    if (block == NULL)
        exit(7);
    memset(block, value, size);
    return block;
}

static int child(unsigned state, unsigned char **kept)
{
    unsigned sum = 0;
    for (int at = 0; at < 4; at++) {
        state = state * 1103515245 + 12345;
        size_t size = 1 + (state >> 8) % 400000;
        unsigned char *block = filled(size, at + 1);
        sum += block[size - 1] + kept[at][0];
        free(block);
    }
    free(kept[0]);
    kept[0] = filled(100000, 3);
    return (int)((sum + kept[0][9]) & 127);
}

int main(int words_count, char **words)
{
    int count = words_count > 1 ? atoi(words[1]) : 1000, running = 0;
    unsigned char *kept[KEPT];
    size_t sum = 0;
    for (int at = 0; at < KEPT; at++)
        kept[at] = filled(50000 + (size_t)at * 50000, at);
    for (int number = 0; number < count || running > 0;) {
        if (number < count && running < 8) {
            pid_t process = fork();
            if (process < 0)
                return 3;
            if (process == 0)
                _exit(child((unsigned)number, kept));
            running++;
            number++;
            continue;
        }
        int status;
        if (wait(&status) < 0 || !WIFEXITED(status))
            return 4;
        sum += (size_t)WEXITSTATUS(status);
        running--;
    }
    printf("finished %zu\n", sum);
    return 0;
}
