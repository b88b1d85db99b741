/* A preload after which each sync of a file takes SLOW_DISK_US microseconds longer, as cloud disks do.

   cc -shared -fPIC -o slow_disk.so slow_disk.c -ldl
   SLOW_DISK_US=5000 LD_PRELOAD=./slow_disk.so python ... */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void wait_for_disk(void) {
    const char *microseconds = getenv("SLOW_DISK_US");
    long left = microseconds ? atol(microseconds) : 0;
    struct timespec rest = {left / 1000000, left % 1000000 * 1000};
    int saved = errno;
    while (nanosleep(&rest, &rest) == -1 && errno == EINTR) {
    }
    errno = saved;
}

int fsync(int file) {
    int (*original)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_for_disk();
    return original(file);
}

int fdatasync(int file) {
    int (*original)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_for_disk();
    return original(file);
}
