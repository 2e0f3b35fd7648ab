/* A preload library that is broken in the way that BROKEN names: output, status, errors, file, crash, hang, leave,
   memory or cpu. Any other value: it does nothing. The comparison must report each of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int is_broken(const char *way)
{
    const char *chosen = getenv("BROKEN");
    return chosen != NULL && strcmp(chosen, way) == 0;
}

/* Programs write their lines by fwrite or puts, which end here only inside libc; so these are changed. */
int puts(const char *line)
{
    int (*next)(const char *, FILE *) = (int (*)(const char *, FILE *))dlsym(RTLD_NEXT, "fputs");
    char changed[4096];
    snprintf(changed, sizeof changed, "%s\n", line);
    if (is_broken("output"))
        changed[0] ^= 1;
    return next(changed, stdout);
}

FILE *fopen(const char *path, const char *how)
{
    FILE *(*next)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    FILE *file = next(path, how);
    if (file != NULL && is_broken("file"))
        fputc('!', file);
    return file;
}

static void burn(double seconds)
{
    while ((double)clock() / CLOCKS_PER_SEC < seconds)
        continue;
}

__attribute__((constructor)) static void begin(void)
{
    if (is_broken("errors"))
        (void)!write(2, "broken\n", 7);
    if (is_broken("crash"))
        raise(SIGSEGV);
    if (is_broken("hang"))
        pause();
    if (is_broken("memory")) {
        size_t bytes = 64 << 20;
        memset(mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, bytes);
    }
    if (is_broken("cpu"))
        burn(0.3);
    if (is_broken("leave") && fork() == 0) {
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
    }
}

__attribute__((destructor)) static void end(void)
{
    if (is_broken("status"))
        _exit(3);
}
