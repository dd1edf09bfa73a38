#!/usr/bin/env python3
"""Runs scripts on the engine alone, without wfhost:

    run.py ENGINE.wasm FILE ENTRY [INPUT]     one entry; INPUT is JSON
    run.py ENGINE.wasm                        cases/cases.json

Needs the Python package wasmtime. Answers what `sleep` and `register` ask, and no calls. Limits are
those of wfhost: 10^9 units of fuel a step and 64 MiB of memory; but of its 2 MiB of stack an eighth is
kept, so that a trap here tells that the margin is gone before one in wfhost does."""
import ctypes
import json
import os
import re
import sys
import time

import wasmtime as w
from wasmtime.component import Component, Linker, Record, Variant

P, HERE = "wfhost:process/", os.path.dirname(os.path.abspath(__file__))
FUEL, LOAD_FUEL, MEMORY = 10**9, 10**10, 64 << 20
STACK = int(os.environ.get("STACK", 7 << 18))


def record(**fields):
    r = Record()
    for name, value in fields.items():
        setattr(r, name.replace("_", "-"), value)
    return r


def fuel_left(store):
    left = ctypes.c_uint64()
    w._ffi.wasmtime_context_get_fuel(store._context(), ctypes.byref(left))
    return left.value


class Engine:
    def __init__(self, path):
        config = w.Config()
        config.consume_fuel = True
        config.max_wasm_stack = STACK
        self.engine = w.Engine(config)
        self.component = Component.from_file(self.engine, path)
        self.linker = Linker(self.engine)
        self.log = []
        with self.linker.root() as root:
            with root.add_instance(P + "host@0.1.0") as host:
                host.add_func("log", lambda store, level, text, fields: self.log.append(f"{level}: {text}" + (f" {fields}" if fields else "")))
                host.add_func("whoami", lambda store: record(run="r", pid=1, next_tag=1))
                host.add_func("now", lambda store: 1700000000000000)
                host.add_func("random", lambda store, n: bytes(i & 255 for i in range(n)))
            with root.add_instance(P + "engine@0.1.0") as engine:
                engine.add_func("fuel-left", fuel_left)

    def instance(self):
        return Instance(self)


class Instance:
    def __init__(self, engine):
        self.store = w.Store(engine.engine)
        self.store.set_limits(memory_size=MEMORY)
        self.store.set_fuel(LOAD_FUEL)
        self.instance = engine.linker.instantiate(self.store, engine.component)

    def call(self, interface, name, *args, fuel=None):
        fuel = fuel or FUEL
        self.store.set_fuel(fuel)
        index = self.instance.get_export_index(self.store, P + interface + "@0.1.0")
        f = self.instance.get_func(self.store, self.instance.get_export_index(self.store, name, index))
        out = f(self.store, *args)
        self.spent = fuel - self.store.get_fuel()
        return out


def problem(p):
    out = {k: v for k, v in vars(p).items() if v}
    if "data" in out:
        out["data"] = json.loads(out["data"])
    return out


def load(engine, sources):
    """Sources are (path, line, form, text); files are read below the first one's folder."""
    base, known = sources[0][4], list(sources)
    while True:
        instance = engine.instance()
        listed = [record(path=p, line=l, form=f, text=t) for p, l, f, t, *_ in known]
        refused = instance.call("script", "load", listed, fuel=LOAD_FUEL)
        if not isinstance(refused, list):
            return instance, refused and problem(refused)
        for path in refused:
            try:
                text = open(os.path.join(base, path)).read()
                known.append((path, 1, "module", translated(engine, path, 1, "module", text)))
            except OSError as e:
                known.append((path, 1, "absent", "there is no such file"))
            except Wrong as e:
                return instance, e.args[0]


class Wrong(Exception):
    pass


def translated(engine, path, line, form, text):
    if not path.endswith(".ts"):
        return text
    out = engine.instance().call("script", "translate", record(path=path, line=line, form=form, text=text), fuel=LOAD_FUEL)
    if isinstance(out, str):
        return out
    raise Wrong(problem(out))


def run(engine, sources, entry, given=None, most=100):
    engine.log.clear()
    try:
        instance, wrong = load(engine, sources)
        if wrong:
            return "failed", wrong
        wrong = instance.call("guest", "init", entry, json.dumps(given))
        if wrong:
            return "failed", problem(wrong)
        events, cancelled = [], False
        for _ in range(most):
            out = instance.call("guest", "step", events)
            events = [e for c in out.commands for e in answers(c)]
            status = out.status
            if status.tag == "complete":
                value = status.payload
                return "complete", output(value)
            if status.tag == "failed":
                return "failed", problem(status.payload)
            if status.tag == "renew":
                return "renew", [status.payload.entry, status.payload.input]
            if not events:
                if cancelled:
                    return status.tag, None
                events, cancelled = [Variant("cancel", record(reason="test", grace=1000000))], True
        return "still", None
    except (w.Trap, w.WasmtimeError) as e:
        why = str(e).strip().splitlines()[-1].strip()
        kinds = {"fuel consumed": "fuel-exhausted", "stack exhausted": "stack-exhausted"}
        return "failed", {"kind": next((kind for part, kind in kinds.items() if part in why), "trap"), "title": why}


def output(value):
    try:
        return json.loads(value) if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):
        return "no JSON: " + value[:80]


def answers(command):
    action = command.action
    if action.tag in ("sleep", "register"):
        return [Variant("completed", record(tag=command.tag, answer=Variant("ok", "null")))]
    if action.tag in ("call", "spawn"):
        refusal = record(kind="unknown-handler", title="There is no such handler", status=0, detail=None, retry_after=None, data=None)
        setattr(refusal, "class", "definite")
        return [Variant("completed", record(tag=command.tag, answer=Variant("err", refusal)))]
    return []


def sources_of(engine, base, name, text=None, form="module", line=1):
    if text is None:
        text = open(os.path.join(base, name), newline="").read()
    return [(name, line, form, translated(engine, name, line, form, text), base)]


def differences(case, status, value):
    """What a case expects and did not get."""
    got = value if isinstance(value, dict) else {}
    at = got.get("data", {}).get("at", {})
    found = {"status": status, "output": value, "kind": got.get("kind"), "title": got.get("title"),
             "at": f"{at.get('path')}:{at.get('line')}:{at.get('column')}" if at else None}
    if "error" in case and not (isinstance(value, list) and value[1:2] == [case["error"]]):
        yield f"{value!r}, not {case['error']}"
    for name in ("status", "output", "kind", "title", "at"):
        if name in case:
            want, have = case[name], found[name]
            same = want in (have or "") if name == "title" else (have or "").startswith(want) if name in ("at", "kind") else want == have
            if not same:
                yield f"{name}: {have!r}, not {want!r}"


def table(engine):
    folder = os.path.join(HERE, "cases")
    bad = 0
    cases = json.load(open(os.path.join(folder, "cases.json")))
    for case in cases:
        name = f"{case['file']} {case.get('entry', 'run')}"
        begin = time.time()
        global FUEL
        FUEL = case.get("fuel", 10**9)
        try:
            text = case.get("script")
            form = "body" if text is not None else "module"
            sources = sources_of(engine, folder, case["file"], text, form, case.get("line", 1))
        except Wrong as e:
            status, value = "failed", e.args[0]
        else:
            status, value = run(engine, sources, case.get("entry", "run"), case.get("input"))
        wrong = list(differences(case, status, value))
        bad += bool(wrong)
        print(f"{'WRONG' if wrong else 'ok   '} {time.time() - begin:5.2f}s {name}" + ("" if not wrong else "\n    " + "\n    ".join(wrong) + f"\n    {status} {json.dumps(value)[:600]}"))
    print(f"{len(cases)} cases, {bad} wrong")
    return bad


def main(argv):
    engine = Engine(argv[1])
    if len(argv) == 2:
        sys.exit(1 if table(engine) else 0)
    try:
        sources = sources_of(engine, *os.path.split(os.path.abspath(argv[2])))
    except Wrong as e:
        print("failed", e.args[0])
        return
    print(*run(engine, sources, argv[3], json.loads(argv[4]) if len(argv) > 4 else None))
    print("\n".join(engine.log))


if __name__ == "__main__":
    main(sys.argv)
