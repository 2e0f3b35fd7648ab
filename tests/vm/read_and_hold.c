// An application for a guest without Python: holds MIB MiB, beside three threads that sleep. At each line of input it reads
// FILE and writes to each page.
// Usage: read_and_hold MIB FILE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 3 };

static void *rest(void *unused) {
    for (;;) pause();
    return unused;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    size_t bytes = strtoul(arguments[1], NULL, 10) << 20;
    char *held = calloc(bytes, 1);
    if (!held) return 1;
    for (int number = 0; number < THREADS; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, rest, NULL)) return 1;
    }
    puts("ready");
    fflush(stdout);
    static char line[256], buffer[1 << 16];
    while (fgets(line, sizeof line, stdin)) {
        int file = open(arguments[2], O_RDONLY);
        if (file < 0) return 1;
        while (read(file, buffer, sizeof buffer) > 0) {}
        close(file);
        for (size_t place = 0; place < bytes; place += 4096) held[place]++;
        puts("done");
        fflush(stdout);
    }
    return 0;
}
