// A disk that fails and a clock that jumps, for a process that has this preloaded (LD_PRELOAD).
//
// WFHOST_SHIM_FOLDER is the folder whose files fail. The files in the folder WFHOST_SHIM_CONTROL
// select the fault, as long as they exist:
//   full         writes fail with ENOSPC
//   bytes        holds a number: after this many more bytes, writes fail with ENOSPC
//   sync-fails   fsync and fdatasync of the journal fail with EIO
//   read-only    nothing can be opened for writing, and no folder made: EROFS
//   clock        holds the number of seconds by which the wall clock is ahead, or behind
// A byte is appended to these files for each call: syncs, failed-syncs, failed-writes.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char folder[2048], control[2048];
static atomic_long written;

__attribute__((constructor)) static void begin(void) {
    const char *from = getenv("WFHOST_SHIM_FOLDER"), *how = getenv("WFHOST_SHIM_CONTROL");
    if (from) snprintf(folder, sizeof folder, "%s", from);
    if (how) snprintf(control, sizeof control, "%s", how);
}

// The system's own calls, past this shim.
static int raw_open(const char *path, int flags) { return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0644); }

static int named(const char *name, int flags) {
    char path[2304];
    if (!control[0]) return -1;
    snprintf(path, sizeof path, "%s/%s", control, name);
    return raw_open(path, flags);
}

static int is_there(const char *name) {
    int fd = named(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    syscall(SYS_close, fd);
    return 1;
}

// Returns whether the file exists.
static int number(const char *name, long *value) {
    char text[32] = {0};
    int fd = named(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    *value = atol(text);
    return 1;
}

static void count(const char *name) {
    int fd = named(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
    if (fd < 0) return;
    syscall(SYS_write, fd, "x", 1);
    syscall(SYS_close, fd);
}

static int is_below(const char *path) {
    size_t len = strlen(folder);
    return len && strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]);
}

// Whether a file is in the folder and its name begins with this.
static int is_ours(int fd, const char *name) {
    char link[64], path[4096];
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len <= 0) return 0;
    path[len] = 0;
    return is_below(path) && strncmp(path + strlen(folder), name, strlen(name)) == 0;
}

// Whether there is no room for this many bytes. A write of one byte fails too: SQLite extends its
// index that way.
static int is_full(int fd, size_t bytes) {
    long most;
    if (!is_ours(fd, "")) return 0;
    int full = is_there("full") || (number("bytes", &most) && atomic_fetch_add(&written, (long)bytes) + (long)bytes > most);
    if (full) {
        count("failed-writes");
        errno = ENOSPC;
    }
    return full;
}

ssize_t write(int fd, const void *bytes, size_t len) { return is_full(fd, len) ? -1 : syscall(SYS_write, fd, bytes, len); }

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) {
    return is_full(fd, len) ? -1 : syscall(SYS_pwrite64, fd, bytes, len, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) { return pwrite(fd, bytes, len, at); }

static int sync_with(long call, int fd) {
    if (is_ours(fd, "/journal.db")) {
        count("syncs");
        if (is_there("sync-fails")) {
            count("failed-syncs");
            errno = EIO;
            return -1;
        }
    }
    return (int)syscall(call, fd);
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

static int is_refused(const char *path, int flags) {
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
    return writes && is_below(path) && is_there("read-only");
}

static int open_with(int at, const char *path, int flags, mode_t mode) {
    if (is_refused(path, flags)) {
        errno = EROFS;
        return -1;
    }
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

#define OPENS(name, parameters, at, extra)                        \
    int name parameters {                                         \
        mode_t mode = 0;                                          \
        if (flags & (O_CREAT | O_TMPFILE)) {                      \
            va_list rest;                                         \
            va_start(rest, flags);                                \
            mode = va_arg(rest, mode_t);                          \
            va_end(rest);                                         \
        }                                                         \
        return open_with(at, path, flags | (extra), mode);        \
    }

OPENS(open, (const char *path, int flags, ...), AT_FDCWD, 0)
OPENS(open64, (const char *path, int flags, ...), AT_FDCWD, O_LARGEFILE)
OPENS(openat, (int at, const char *path, int flags, ...), at, 0)
OPENS(openat64, (int at, const char *path, int flags, ...), at, O_LARGEFILE)

int mkdir(const char *path, mode_t mode) {
    if (is_below(path) && is_there("read-only")) {
        errno = EROFS;
        return -1;
    }
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long ahead;
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_REALTIME && number("clock", &ahead)) now->tv_sec += ahead;
    return result;
}
