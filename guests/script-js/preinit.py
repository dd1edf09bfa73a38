"""Runs `preinit` of a core module, and writes the module with the memory that it leaves.

    preinit.py IN.wasm OUT.wasm

Needs the Python package wasmtime. The module has one memory; its globals do not change meanwhile, as
the stack is empty again afterwards. Imports must not be called."""
import re
import sys

import wasmtime

MEMORY, EXPORTS, DATA, DATA_COUNT = 5, 7, 11, 12


def unsigned(n):
    out = b""
    while True:
        n, low = n >> 7, n & 127
        out += bytes([low | (128 if n else 0)])
        if not n:
            return out


def signed(n):
    out = b""
    while True:
        n, low = n >> 7, n & 127
        if (n == 0 and not low & 64) or (n == -1 and low & 64):
            return out + bytes([low])
        out += bytes([low | 128])


def read(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        at += 1
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return n, at


def sections(module):
    at = 8
    while at < len(module):
        size, start = read(module, at + 1)
        yield module[at], module[start:start + size]
        at = start + size


def run(module):
    engine = wasmtime.Engine()
    compiled, store = wasmtime.Module(engine, module), wasmtime.Store(engine)

    def refusal(item):
        def refuse(*_):
            raise RuntimeError(f"{item.module} {item.name} is called while the image is made")
        return wasmtime.Func(store, item.type, refuse)

    exports = wasmtime.Instance(store, compiled, [refusal(i) for i in compiled.imports]).exports(store)
    exports["_initialize"](store)
    exports["preinit"](store)
    memory = exports["memory"]
    return bytes(memory.read(store, 0, memory.data_len(store)))


def without(exports, names):
    count, at = read(exports, 0)
    kept = []
    for _ in range(count):
        start = at
        size, at = read(exports, at)
        name = exports[at:at + size]
        _, at = read(exports, at + size + 1)
        if name not in names:
            kept.append(exports[start:at])
    return unsigned(len(kept)) + b"".join(kept)


def main(source, target):
    module = open(source, "rb").read()
    memory = run(module)
    # A segment ends where 16 or more zeros follow.
    segments = [(m.start(), m.group().rstrip(b"\0")) for m in re.finditer(rb"[^\0](?:[^\0]|\0(?!\0{15}))*", memory)]
    out = module[:8]
    for number, body in sections(module):
        if number == MEMORY:
            _, end = read(body, 2)
            body = body[:2] + unsigned(len(memory) >> 16) + body[end:]
        elif number == EXPORTS:
            body = without(body, (b"_initialize", b"preinit"))
        elif number == DATA_COUNT:
            body = unsigned(len(segments))
        elif number == DATA:
            body = unsigned(len(segments)) + b"".join(
                b"\0\x41" + signed(at) + b"\x0b" + unsigned(len(data)) + data for at, data in segments)
        out += bytes([number]) + unsigned(len(body)) + body
    open(target, "wb").write(out)
    used = sum(len(data) for _, data in segments)
    print(f"preinit.py: {used} bytes of {len(memory)} in {len(segments)} segments", file=sys.stderr)


main(*sys.argv[1:])
