/* A file system with one file whose reads take MILLISECONDS, during which no signal interrupts the reader:
 * stall FOLDER MILLISECONDS. Prints "ready"; ends when it is unmounted. bench/killer.py mounts it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static int device;

static void answer(unsigned long unique, int error, const void *data, size_t size)
{
    char bytes[8192];
    struct fuse_out_header head = { .error = error, .unique = unique };
    head.len = (unsigned)(sizeof head + size);
    memcpy(bytes, &head, sizeof head);
    if (size)
        memcpy(bytes + sizeof head, data, size);
    if (write(device, bytes, head.len) < 0 && errno != ENOENT)
        perror("answer");
}

static struct fuse_attr attributes(unsigned long node)
{
    struct fuse_attr attributes = { .ino = node, .nlink = 1, .size = 4096 };
    attributes.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644;
    return attributes;
}

static void serve(const struct fuse_in_header *head, int milliseconds)
{
    struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = 4096 };
    struct fuse_entry_out entry = { .nodeid = 2, .attr = attributes(2) };
    struct fuse_attr_out found = { .attr = attributes(head->nodeid) };
    struct fuse_open_out opened = { .open_flags = FOPEN_DIRECT_IO };
    switch (head->opcode) {
    case FUSE_INIT:
        answer(head->unique, 0, &init, sizeof init);
        break;
    case FUSE_LOOKUP:
        answer(head->unique, 0, &entry, sizeof entry);
        break;
    case FUSE_GETATTR:
        answer(head->unique, 0, &found, sizeof found);
        break;
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        answer(head->unique, 0, &opened, sizeof opened);
        break;
    case FUSE_READ:
        /* A child waits, so that other requests are served meanwhile. */
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            usleep((unsigned)milliseconds * 1000);
            answer(head->unique, 0, "x", 1);
            _exit(0);
        }
        break;
    case FUSE_INTERRUPT:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        break;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
        answer(head->unique, 0, NULL, 0);
        break;
    default:
        answer(head->unique, -ENOSYS, NULL, 0);
    }
}

int main(int count, char **words)
{
    char options[128];
    static char request[1 << 20];
    if (count != 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGCHLD, SIG_IGN);
    device = open("/dev/fuse", O_RDWR);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (device < 0 || mount("stall", words[1], "fuse.stall", 0, options) < 0) {
        perror("mount");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        ssize_t length = read(device, request, sizeof request);
        if (length < 0 && errno == ENODEV)
            return 0;
        if (length >= (ssize_t)sizeof(struct fuse_in_header))
            serve((const struct fuse_in_header *)request, atoi(words[2]));
        else if (errno != EINTR && errno != EAGAIN && errno != ENOENT)
            return 1;
    }
}
