// The WASI preview 1 that runtimes such as Go's import, without any WASI behind it: an adapter for
// `wasm-tools component new --adapt`. What a program could learn from it is constant, so that the
// component imports nothing but wfhost:process/host, is deterministic and can be snapshotted.
//
// It has no memory of its own, and calls the host only to write a line: the runtime may need clocks
// and random numbers in `cabi_realloc`, where a component must not call its host.

typedef int i32;
typedef long long i64;
typedef unsigned char u8;

__attribute__((import_module("wfhost:process/host@0.1.0"), import_name("log"))) void host_log(
    i32 level, const u8 *text, i32 len, i32 some, const u8 *fields, i32 fields_len);

enum { OK = 0, BADF = 8, NOENT = 44, NOSYS = 52, INFO = 2, ERROR = 4, STDERR = 2 };

#define EXPORT(name) __attribute__((export_name(#name))) i32 name
// Functions of files and sockets: there are none.
#define NONE(name, errno, ...) \
    EXPORT(name)(__VA_ARGS__) { return errno; }

EXPORT(args_sizes_get)(i32 *count, i32 *size) { return *count = 0, *size = 0, OK; }
EXPORT(environ_sizes_get)(i32 *count, i32 *size) { return *count = 0, *size = 0, OK; }
NONE(args_get, OK, i32 a, i32 b)
NONE(environ_get, OK, i32 a, i32 b)
NONE(sched_yield, OK, void)

// The real time is 2000-01-01, the monotonic one 1 s: Go takes 0 for an error.
EXPORT(clock_time_get)(i32 clock, i64 precision, i64 *time) {
    return *time = clock == 0 ? 946684800000000000 : 1000000000, OK;
}
EXPORT(clock_res_get)(i32 clock, i64 *resolution) { return *resolution = 1000, OK; }

// Not random: it seeds hash tables. The host's random numbers are the process's.
EXPORT(random_get)(u8 *into, i32 len) {
    for (i32 i = 0; i < len; i++) ((volatile u8 *)into)[i] = (u8)(i * 167 + 13);
    return OK;
}

typedef struct { const u8 *at; i32 len; } part;
EXPORT(fd_write)(i32 fd, const part *parts, i32 count, i32 *written) {
    *written = 0;
    for (i32 i = 0; i < count; i++) {
        i32 len = parts[i].len;
        *written += len;
        while (len > 0 && parts[i].at[len - 1] == '\n') len--;
        if (len > 0) host_log(fd == STDERR ? ERROR : INFO, parts[i].at, len, 0, 0, 0);
    }
    return OK;
}

__attribute__((export_name("proc_exit"))) void proc_exit(i32 code) { __builtin_trap(); }
// It would wait: a guest waits by its SDK.
EXPORT(poll_oneoff)(i32 in, i32 out, i32 count, i32 *events) { __builtin_trap(); }

EXPORT(fd_fdstat_get)(i32 fd, u8 *stat) {
    if (fd > STDERR) return BADF;
    for (i32 i = 0; i < 24; i++) ((volatile u8 *)stat)[i] = i == 0 ? 2 : i >= 8 ? 255 : 0;  // a character device
    return OK;
}
NONE(fd_fdstat_set_flags, OK, i32 a, i32 b)
NONE(fd_fdstat_set_rights, OK, i32 a, i64 b, i64 c)
EXPORT(fd_read)(i32 fd, i32 parts, i32 count, i32 *read) { return *read = 0, fd == 0 ? OK : BADF; }
NONE(fd_advise, BADF, i32 a, i64 b, i64 c, i32 d)
NONE(fd_allocate, BADF, i32 a, i64 b, i64 c)
NONE(fd_close, BADF, i32 a)
NONE(fd_datasync, BADF, i32 a)
NONE(fd_filestat_get, BADF, i32 a, i32 b)
NONE(fd_filestat_set_size, BADF, i32 a, i64 b)
NONE(fd_filestat_set_times, BADF, i32 a, i64 b, i64 c, i32 d)
NONE(fd_pread, BADF, i32 a, i32 b, i32 c, i64 d, i32 e)
NONE(fd_prestat_get, BADF, i32 a, i32 b)
NONE(fd_prestat_dir_name, BADF, i32 a, i32 b, i32 c)
NONE(fd_pwrite, BADF, i32 a, i32 b, i32 c, i64 d, i32 e)
NONE(fd_readdir, BADF, i32 a, i32 b, i32 c, i64 d, i32 e)
NONE(fd_renumber, BADF, i32 a, i32 b)
NONE(fd_seek, BADF, i32 a, i64 b, i32 c, i32 d)
NONE(fd_sync, BADF, i32 a)
NONE(fd_tell, BADF, i32 a, i32 b)
NONE(path_create_directory, NOENT, i32 a, i32 b, i32 c)
NONE(path_filestat_get, NOENT, i32 a, i32 b, i32 c, i32 d, i32 e)
NONE(path_filestat_set_times, NOENT, i32 a, i32 b, i32 c, i32 d, i64 e, i64 f, i32 g)
NONE(path_link, NOENT, i32 a, i32 b, i32 c, i32 d, i32 e, i32 f, i32 g)
NONE(path_open, NOENT, i32 a, i32 b, i32 c, i32 d, i32 e, i64 f, i64 g, i32 h, i32 i)
NONE(path_readlink, NOENT, i32 a, i32 b, i32 c, i32 d, i32 e, i32 f)
NONE(path_remove_directory, NOENT, i32 a, i32 b, i32 c)
NONE(path_rename, NOENT, i32 a, i32 b, i32 c, i32 d, i32 e, i32 f)
NONE(path_symlink, NOENT, i32 a, i32 b, i32 c, i32 d, i32 e)
NONE(path_unlink_file, NOENT, i32 a, i32 b, i32 c)
NONE(proc_raise, NOSYS, i32 a)
NONE(sock_accept, NOSYS, i32 a, i32 b, i32 c)
NONE(sock_recv, NOSYS, i32 a, i32 b, i32 c, i32 d, i32 e, i32 f)
NONE(sock_send, NOSYS, i32 a, i32 b, i32 c, i32 d, i32 e)
NONE(sock_shutdown, NOSYS, i32 a, i32 b)
