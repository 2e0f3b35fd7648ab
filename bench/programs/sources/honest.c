/* The program of the self-test: prints a line, writes a file, works for a moment, and exits with 0. */
#include <stdio.h>
#include <time.h>

int main(void)
{
    FILE *file = fopen("result", "w");
    if (file == NULL)
        return 1;
    fputs("a result\n", file);
    fclose(file);
    while (clock() < CLOCKS_PER_SEC / 4)
        continue;
    puts("worked");
    return 0;
}
