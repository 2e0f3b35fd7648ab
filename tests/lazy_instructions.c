// Counts the instructions that a program executes between two traps of its own (SIGTRAP), by single
// steps. The count is the same in every run of the same code.
//
//     lazy_instructions COMMAND...
//
// Prints one JSON object. What the kernel does in a system call counts as one instruction.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void require(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        exit(1);
    }
}

// Resumes the child, and returns the signal at which it stops next, or 0 if it has ended.
static int stop_after(pid_t child, int request)
{
    int status;
    require(ptrace(request, child, NULL, NULL) == 0, "ptrace");
    require(waitpid(child, &status, 0) == child, "waiting");
    return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

static int is_own_trap(pid_t child)
{
    siginfo_t signal;
    require(ptrace(PTRACE_GETSIGINFO, child, NULL, &signal) == 0, "reading the signal");
    return signal.si_code == SI_TKILL;  // From raise(); an exec's SIGTRAP has SI_USER.
}

int main(int count, char **words)
{
    require(count > 1, "usage: lazy_instructions COMMAND...");
    pid_t child = fork();
    require(child >= 0, "fork");
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execvp(words[1], words + 1);
        _exit(127);
    }
    int status, signal;
    require(waitpid(child, &status, 0) == child && WIFSTOPPED(status), words[1]);
    while ((signal = stop_after(child, PTRACE_CONT)) != SIGTRAP || !is_own_trap(child))
        require(signal != 0, "the command ended before its first trap");
    long instructions = 0;
    while ((signal = stop_after(child, PTRACE_SINGLESTEP)) != 0 && !is_own_trap(child))
        instructions++;
    require(signal == SIGTRAP, "the command ended before its second trap");
    printf("{\"instructions\": %ld}\n", instructions);
    kill(child, SIGKILL);
}
