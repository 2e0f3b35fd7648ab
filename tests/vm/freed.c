// A program for a guest with the preload library: takes memory in blocks of 1 MiB, frees all of it,
// prints "ready", and keeps running.
// Usage: freed MIB
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, BLOCKS_MAX = 256 };

int main(int count, char **words) {
    int blocks = count == 2 ? atoi(words[1]) : 0;
    char *block[BLOCKS_MAX];
    if (blocks < 1 || blocks > BLOCKS_MAX) return fputs("usage: freed MIB\n", stderr), 2;
    for (int at = 0; at < blocks; at++) {
        if (!(block[at] = malloc(MIB))) return 1;
        memset(block[at], 1, MIB);
    }
    for (int at = 0; at < blocks; at++) free(block[at]);
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
