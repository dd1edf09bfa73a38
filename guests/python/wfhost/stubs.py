"""Makes a component of componentize-py answer where its stubs of WASI would trap.

`componentize-py --stub-wasi` leaves no import of WASI: whatever asks for a file or a clock traps.
Python asks for files when it shows a traceback or misses a module. This replaces the functions of
the C library that would ask, by their names, so that they fail as the C library's do: "no such
file", "bad descriptor", "not implemented"; clocks show 1970. The component stays free of imports,
so it can be snapshotted.
"""

ENOENT, EBADF, ENOSYS = 44, 8, 52

# These return a pointer: none.
_NULL = ("opendir", "fdopendir", "__wasilibc_nocwd_opendirat")
# The first argument of those in the second list points to where the time goes.
_FAILS = {
    **dict.fromkeys(
        """__wasilibc_find_relpath __wasilibc_find_relpath_alloc __wasilibc_open_nomode open openat access faccessat stat
        lstat readlink opendir scandir unlink rmdir mkdir remove rename link symlink utime utimes utimensat chdir
        __wasilibc_access __wasilibc_stat __wasilibc_link __wasilibc_link_oldat __wasilibc_link_newat
        __wasilibc_rename_oldat __wasilibc_rename_newat __wasilibc_utimens __wasilibc_nocwd_openat_nomode
        __wasilibc_nocwd_renameat __wasilibc_nocwd_fstatat __wasilibc_nocwd_mkdirat_nomode __wasilibc_nocwd_utimensat
        __wasilibc_nocwd_faccessat __wasilibc_nocwd_linkat __wasilibc_nocwd_symlinkat __wasilibc_nocwd_readlinkat
        __wasilibc_nocwd___wasilibc_rmdirat __wasilibc_nocwd___wasilibc_unlinkat __wasilibc_nocwd_opendirat fdopendir""".split(),
        ENOENT,
    ),
    **dict.fromkeys(
        """fstat fsync fdatasync ftruncate futimens fcntl ioctl pread pwrite preadv pwritev isatty __isatty lseek __lseek dup dup2
        __wasilibc_write __wasilibc_read read write readv writev close""".split(),
        EBADF,
    ),
    **dict.fromkeys(
        "poll ppoll select pselect socket __wasilibc_random getentropy __getentropy getrandom nanosleep clock_nanosleep usleep".split(),
        ENOSYS,
    ),
}
_CLOCKS = ("clock_gettime", "__clock_gettime", "clock_getres")
_I32, _I64 = 0x7F, 0x7E


def _leb(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _uleb(value):
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _sleb(value):
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if (value == 0 and not byte & 0x40) or (value == -1 and byte & 0x40):
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)


def _sections(data):
    at = 8
    while at < len(data):
        kind = data[at]
        size, start = _leb(data, at + 1)
        yield kind, at, start, start + size
        at = start + size


def _name(data, at):
    size, at = _leb(data, at)
    return data[at : at + size].decode(), at + size


def _skip_limits(data, at):
    flags, at = data[at], at + 1
    _, at = _leb(data, at)
    return _leb(data, at)[1] if flags & 1 else at


class _Module:
    """What has to be known of a core module."""

    def __init__(self, data):
        self.data, self.types, self.imported, self.functions, self.exports, self.wasi = data, [], 0, [], {}, False
        for kind, _, at, _ in _sections(data):
            count, at = _leb(data, at) if kind in (1, 2, 3, 7) else (0, at)
            for _ in range(count):
                at = {1: self._type, 2: self._import, 3: self._function, 7: self._export}[kind](at)

    def _type(self, at):
        size, at = _leb(self.data, at + 1)
        parameters, at = self.data[at : at + size], at + size
        size, at = _leb(self.data, at)
        self.types.append((parameters, self.data[at : at + size]))
        return at + size

    def _import(self, at):
        module, at = _name(self.data, at)
        _, at = _name(self.data, at)
        kind, at = self.data[at], at + 1
        self.wasi |= module.startswith("wasi:")
        if kind == 0:
            self.imported += 1
            return _leb(self.data, at)[1]
        if kind == 1:
            return _skip_limits(self.data, at + 1)
        if kind == 2:
            return _skip_limits(self.data, at)
        return at + 2 if kind == 3 else _leb(self.data, at + 1)[1]

    def _function(self, at):
        index, at = _leb(self.data, at)
        self.functions.append(index)
        return at

    def _export(self, at):
        name, at = _name(self.data, at)
        kind, at = self.data[at], at + 1
        index, at = _leb(self.data, at)
        if kind == 0:
            self.exports[name] = index
        return at

    def bodies(self):
        """The new bodies, by the index of the function among those that have one."""
        errno = self.exports.get("__errno_location")
        found = {}
        for name, index in self.exports.items():
            if errno is None or index < self.imported:
                continue
            parameters, results = self.types[self.functions[index - self.imported]]
            if name in _FAILS and results in (bytes([_I32]), bytes([_I64])):
                failed = bytes([0x41 if results[0] == _I32 else 0x42]) + _sleb(0 if name in _NULL else -1)
                code = bytes([0x10]) + _uleb(errno) + b"\x41" + _sleb(_FAILS[name]) + b"\x36\x02\x00" + failed
            elif name in _CLOCKS and len(parameters) == 2:
                # tv_sec and tv_nsec are 0: `i64.store offset=0`, `i64.store offset=8`.
                code = b"\x20\x01\x42\x00\x37\x03\x00\x20\x01\x42\x00\x37\x03\x08\x41\x00"
            elif name == "time" and results == bytes([_I64]):
                code = b"\x42\x00"
            else:
                continue
            found[index - self.imported] = b"\x00" + code + b"\x0b"
        return found

    def with_bodies(self, new):
        """The module with these bodies."""
        out = bytearray(self.data[:8])
        for kind, begins, at, ends in _sections(self.data):
            if kind != 10:
                out += self.data[begins:ends]
                continue
            count, at = _leb(self.data, at)
            code = bytearray(_uleb(count))
            for index in range(count):
                size, start = _leb(self.data, at)
                body = new.get(index, self.data[start : start + size])
                code += _uleb(len(body)) + body
                at = start + size
            out += bytes([10]) + _uleb(len(code)) + code
        return bytes(out)


def answering(component: bytes) -> bytes:
    """The same component, whose C library answers instead of trapping."""
    out, replaced = bytearray(component[:8]), 0
    for kind, begins, at, ends in _sections(component):
        if kind == 1:
            module = _Module(component[at:ends])
            bodies = module.bodies() if module.wasi else {}
            if bodies:
                replaced += len(bodies)
                data = module.with_bodies(bodies)
                out += bytes([1]) + _uleb(len(data)) + data
                continue
        out += component[begins:ends]
    if replaced < 40:
        raise ValueError(f"only {replaced} functions of a C library were found: this is no component of componentize-py 0.25")
    return bytes(out)


if __name__ == "__main__":
    import sys

    with open(sys.argv[1], "rb") as file:
        made = answering(file.read())
    with open(sys.argv[1], "wb") as output:
        output.write(made)
