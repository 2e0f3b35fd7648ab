/* Makes one memory error per run: faulty free|double|over|leak. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words)
{
    const char *fault = count > 1 ? words[1] : "";
    volatile char *block = malloc(200000);
    memset((char *)block, 1, 200000);
    if (strcmp(fault, "over") == 0)
        block[200000] = 1;
    if (strcmp(fault, "leak") == 0)
        return 0;
    free((char *)block);
    if (strcmp(fault, "free") == 0)
        printf("read %d\n", block[100]);
    if (strcmp(fault, "double") == 0)
        free((char *)block);
    return 0;
}
