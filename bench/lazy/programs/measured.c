// Runs a program that cannot measure itself, and writes a JSON object of its figures to a file.
//
//     measured FILE COMMAND...
//
// Small itself, so that the peak of resident memory is the command's: a child's peak starts at its
// parent's. The starter of the command (pagewise-agent) is included. `tree_ns` is the CPU time of all
// descendants, also of those that were not waited for.
#include "figures.h"

#include <sys/wait.h>

int main(int count, char **words)
{
    require(count > 2, "usage: measured FILE COMMAND...");
    int counter = open_trap_counter(), clock = open_counter(PERF_COUNT_SW_TASK_CLOCK);
    pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        execvp(words[2], words + 2);
        perror(words[2]);
        _exit(127);
    }
    int status;
    require(waitpid(child, &status, 0) == child, "waiting");
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    FILE *file = fopen(words[1], "w");
    require(file != NULL, words[1]);
    double user = seconds_of(usage.ru_utime), system = seconds_of(usage.ru_stime);
    fprintf(file,
            "{\"traps\": %ld, \"cpu_s\": %.6f, \"user_s\": %.6f, \"peak_bytes\": %ld, "
            "\"tree_ns\": %ld}\n",
            traps_of(counter), user + system, user, usage.ru_maxrss * 1024, count_of(clock));
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
