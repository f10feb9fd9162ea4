/* Counts the system calls of a process that change files below a folder, and injects a fault at the n-th of them.
 *
 * Loaded with LD_PRELOAD. Nothing happens before fault_arm is called, so a process can import what it needs, fork, and
 * arm the fork. What is counted: write, pwrite, ftruncate, fsync, rename, unlink, mkdir and opening a file for writing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { NONE, KILL, TORN, TERM, INTERRUPT, FULL, READ_ONLY, CLOCK, CHILDREN };

static volatile long counted = 0;
static long at = 0;
static int kind = NONE, armed = 0, jumped = 0;
static char root[PATH_MAX];

void fault_arm(const char *folder, int which, long number) {
    strncpy(root, folder, sizeof root - 1);
    kind = which; at = number; counted = 0; jumped = 0; armed = 1;
}

long fault_count(void) { return counted; }

static int inside(const char *path) {
    char here[PATH_MAX];
    if (!armed || !path) return 0;
    if (path[0] == '/') return !strncmp(path, root, strlen(root));
    return getcwd(here, sizeof here) && !strncmp(here, root, strlen(root));
}

static int open_inside(int fd) {
    char link[64], path[PATH_MAX];
    ssize_t n;
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return !strncmp(path, root, strlen(root));
}

/* What the system does when memory is full: the largest processes end, which are those that compute. */
static void kill_children(void) {
    char path[64];
    int child;
    FILE *children;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    if (!(children = fopen(path, "r"))) return;
    while (fscanf(children, "%d", &child) == 1) kill(child, SIGKILL);
    fclose(children);
}

/* 0: go on; otherwise the error to return. TORN is left to the caller, who writes half first. */
static int due(int takes_space) {
    long number = __sync_add_and_fetch(&counted, 1);
    if (kind == READ_ONLY) return EROFS;
    if (kind == FULL) return number >= at && takes_space ? ENOSPC : 0;
    if (number != at) return 0;
    switch (kind) {
        case KILL: kill(getpid(), SIGKILL); break;
        case TERM: kill(getpid(), SIGTERM); break;
        case INTERRUPT: kill(getpid(), SIGINT); break;
        case CLOCK: jumped = 1; break;
        case CHILDREN: kill_children(); break;
        case TORN: return -1;
    }
    return 0;
}

#define REAL(name) ({ static __typeof__(&name) f; if (!f) f = (__typeof__(&name))dlsym(RTLD_NEXT, #name); f; })
#define STOP_IF(is_inside, space) \
    if (is_inside) { int e = due(space); if (e == -1) kill(getpid(), SIGKILL); if (e) { errno = e; return -1; } }

ssize_t write(int fd, const void *data, size_t size) {
    if (open_inside(fd)) {
        int e = due(1);
        if (e == -1) { REAL(write)(fd, data, size / 2); kill(getpid(), SIGKILL); }
        if (e) { errno = e; return -1; }
    }
    return REAL(write)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    if (open_inside(fd)) {
        int e = due(1);
        if (e == -1) { REAL(pwrite)(fd, data, size / 2, offset); kill(getpid(), SIGKILL); }
        if (e) { errno = e; return -1; }
    }
    return REAL(pwrite)(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    if (open_inside(fd)) {
        int e = due(1);
        if (e == -1) { REAL(pwrite64)(fd, data, size / 2, offset); kill(getpid(), SIGKILL); }
        if (e) { errno = e; return -1; }
    }
    return REAL(pwrite64)(fd, data, size, offset);
}

int ftruncate(int fd, off_t size) { STOP_IF(open_inside(fd), 0) return REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { STOP_IF(open_inside(fd), 0) return REAL(ftruncate64)(fd, size); }
int fsync(int fd) { STOP_IF(open_inside(fd), 1) return REAL(fsync)(fd); }
int fdatasync(int fd) { STOP_IF(open_inside(fd), 1) return REAL(fdatasync)(fd); }
int rename(const char *from, const char *to) { STOP_IF(inside(to), 0) return REAL(rename)(from, to); }
int renameat(int a, const char *from, int b, const char *to) {
    STOP_IF(inside(to), 0)
    return REAL(renameat)(a, from, b, to);
}
int unlink(const char *path) { STOP_IF(inside(path), 0) return REAL(unlink)(path); }
int unlinkat(int fd, const char *path, int flags) {
    STOP_IF(path[0] == '/' ? inside(path) : open_inside(fd), 0)
    return REAL(unlinkat)(fd, path, flags);
}
int mkdir(const char *path, mode_t mode) { STOP_IF(inside(path), 1) return REAL(mkdir)(path, mode); }

#define OPEN(name)                                                            \
    int name(const char *path, int flags, ...) {                              \
        mode_t mode = 0;                                                      \
        if (flags & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        STOP_IF((flags & (O_WRONLY | O_RDWR | O_CREAT)) && inside(path), flags & O_CREAT) \
        return REAL(name)(path, flags, mode);                                 \
    }
OPEN(open)
OPEN(open64)

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = REAL(clock_gettime)(clock, now);
    if (jumped && clock == CLOCK_REALTIME) now->tv_sec -= 3600;
    return result;
}
