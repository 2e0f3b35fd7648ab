// CPU time of a parent's next large block while a child shares its memory.
//
//     forks ROUNDS
//
// Prints a JSON object of lists, one entry per round: the CPU time and traps of the next block after
// a warm one, before and after fork, and the time of fork itself.
#include "figures.h"

#include <signal.h>
#include <sys/wait.h>

enum { BLOCK = 32 << 20, ROUNDS_MAX = 100 };

typedef struct {
    double cpu_s;
    long traps;
} Cost;

static Cost use_block(int counter)
{
    long traps = traps_of(counter);
    double cpu = clock_s(CLOCK_THREAD_CPUTIME_ID);
    char *block = malloc(BLOCK);
    require(block != NULL, "allocating");
    memset(block, 1, BLOCK);
    // Prevents the compiler from removing a block that is never read.
    __asm__ volatile("" : : "r"(block) : "memory");
    free(block);
    return (Cost){clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu, traps_of(counter) - traps};
}

static pid_t fork_sleeper(void)
{
    pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        pause();
        _exit(0);
    }
    return child;
}

static void print_list(const char *name, const double *values, int count, const char *end)
{
    printf("\"%s\": [", name);
    for (int at = 0; at < count; at++)
        printf("%s%.6f", at ? ", " : "", values[at]);
    printf("]%s", end);
}

int main(int count, char **words)
{
    require(count == 2 && atoi(words[1]) <= ROUNDS_MAX, "usage: forks ROUNDS, at most 100");
    int rounds = atoi(words[1]), counter = open_trap_counter();
    static double warm_s[ROUNDS_MAX], shared_s[ROUNDS_MAX], fork_s[ROUNDS_MAX], traps[ROUNDS_MAX];
    use_block(counter);
    for (int round = 0; round < rounds; round++) {
        warm_s[round] = use_block(counter).cpu_s;
        double start = clock_s(CLOCK_THREAD_CPUTIME_ID);
        pid_t child = fork_sleeper();
        fork_s[round] = clock_s(CLOCK_THREAD_CPUTIME_ID) - start;
        Cost cost = use_block(counter);
        shared_s[round] = cost.cpu_s;
        traps[round] = (double)cost.traps;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    printf("{");
    print_list("warm_s", warm_s, rounds, ", ");
    print_list("fork_s", fork_s, rounds, ", ");
    print_list("shared_s", shared_s, rounds, ", ");
    print_list("shared_traps", traps, rounds, "}\n");
}
