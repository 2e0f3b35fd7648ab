/* phases MIB: blocks of 1 MiB, all freed, then as much memory in small blocks. If the program keeps the memory of the
   first phase, its peak doubles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024, SMALL = 1000 };

int main(int count, char **words)
{
    static char *blocks[MOST];
    int mebibytes = count > 1 ? atoi(words[1]) : 200;
    size_t sum = 0;
    if (mebibytes < 1 || mebibytes > MOST)
        return 2;
    for (int at = 0; at < mebibytes; at++)
        memset(blocks[at] = malloc(1 << 20), 1, 1 << 20);
    for (int at = 0; at < mebibytes; at++)
        free(blocks[at]);
    for (int at = 0; at < mebibytes * 1024; at++) {
        char *small = malloc(SMALL);
        memset(small, at, SMALL);
        sum += (size_t)(unsigned char)small[SMALL - 1];
    }
    printf("finished %zu\n", sum);
    return 0;
}
