// An application for a guest without Python: holds MIB MiB, and writes to each page at every line of input.
// Usage: hold MIB
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    size_t bytes = count > 1 ? strtoul(arguments[1], NULL, 10) << 20 : 0;
    char *held = calloc(bytes, 1);
    char line[256];
    if (!held)
        return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        for (size_t place = 0; place < bytes; place += 4096)
            held[place]++;
        puts("done");
        fflush(stdout);
    }
    return 0;
}
