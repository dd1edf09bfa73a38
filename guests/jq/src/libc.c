/* What jq and the C library ask of a system, so that the component imports nothing. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* A failed assertion ends the instance without a word. (So does the C library's abort.) */
_Noreturn void __assert_fail(const char *expression, const char *file, int line, const char *function) { __builtin_trap(); }

/* The functions of WASI that the C library refers to. The linker prefers these to imports. There is no file, and no
 * environment. The clock stands still: it is asked only for the seed of jq's hash table, which is a constant then. */
#define WASI(name, ...) int32_t __imported_wasi_snapshot_preview1_##name(__VA_ARGS__)
enum { EBADF_WASI = 8 };
typedef int32_t i32;
typedef int64_t i64;
WASI(fd_close, i32 fd) { return EBADF_WASI; }
WASI(fd_fdstat_get, i32 fd, i32 stat) { return EBADF_WASI; }
WASI(fd_fdstat_set_flags, i32 fd, i32 flags) { return EBADF_WASI; }
WASI(fd_prestat_get, i32 fd, i32 prestat) { return EBADF_WASI; }
WASI(fd_prestat_dir_name, i32 fd, i32 path, i32 length) { return EBADF_WASI; }
WASI(fd_read, i32 fd, i32 vectors, i32 count, i32 read) { return EBADF_WASI; }
WASI(fd_seek, i32 fd, i64 offset, i32 whence, i32 position) { return EBADF_WASI; }
WASI(fd_write, i32 fd, i32 vectors, i32 count, i32 written) { return EBADF_WASI; }
WASI(path_open, i32 fd, i32 flags, i32 path, i32 length, i32 open, i64 rights, i64 inheriting, i32 fdflags, i32 opened) {
  return EBADF_WASI;
}
WASI(environ_get, i32 pointers, i32 text) { return 0; }
WASI(environ_sizes_get, i32 *count, i32 *bytes) { return *count = *bytes = 0; }
WASI(clock_time_get, i32 clock, i64 precision, uint64_t *time) { return *time = 0; }
_Noreturn void __imported_wasi_snapshot_preview1_proc_exit(i32 code) { __builtin_trap(); }

/* zig's own part of the C library closes files by an import of WASI under its plain name. */
int close(int fd) {
  errno = EBADF;
  return -1;
}

/* Two functions of the GNU C library that musl has under other names. */
double gamma(double x) { return lgamma(x); }
double drem(double x, double y) { return remainder(x, y); }
