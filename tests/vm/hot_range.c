/* Touches MIB MiB of anonymous memory once, and then one of its ranges of HOT MiB, at OFFSET MiB, again and again for
 * SECONDS. Prints the addresses of all of the memory and of the hot range.
 * Usage: hot_range MIB OFFSET HOT SECONDS */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static const size_t step = 4096;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    if (count != 5)
        return 2;
    size_t bytes = strtoul(words[1], NULL, 10) << 20;
    size_t offset = strtoul(words[2], NULL, 10) << 20, hot = strtoul(words[3], NULL, 10) << 20;
    double end = now() + strtod(words[4], NULL);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (size_t place = 0; place < bytes; place += step)
        memory[place] = 1;
    printf("%p %p %p %p\n", memory, memory + bytes, memory + offset, memory + offset + hot);
    fflush(stdout);
    while (now() < end)
        for (size_t place = offset; place < offset + hot; place += step)
            memory[place]++;
    return 0;
}
