/* Touches MIB MiB of anonymous memory, a byte in every 4 KiB, and prints the base page and the minor faults.
 * Usage: touch_memory MIB */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const size_t step = 4096;

static long minor_faults(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
}

int main(int count, char **words)
{
    size_t bytes = (count > 1 ? strtoul(words[1], NULL, 10) : 32) << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    long before = minor_faults();
    for (size_t place = 0; place < bytes; place += step)
        memory[place] = 1;
    printf("base_bytes %ld\nfaults %ld\n", sysconf(_SC_PAGESIZE), minor_faults() - before);
    return 0;
}
