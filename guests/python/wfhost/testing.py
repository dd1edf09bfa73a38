"""Entries stepped in this process, without WebAssembly or a host: for pytest and unittest.

`run` answers for the host: functions are the handlers, sleeps cost no time, children are run too.

    from wfhost.testing import run
    import order

    def test_order():
        output = run("run", {"ids": [1]}, handlers={"price": lambda args: 10}, signals={"approve": {"by": "Ann"}})
        assert output == {"total": 10, "by": "Ann"}

A `Guest` is one entry whose commands the test answers itself, in the order that it wants:

    guest = Guest("run", {"ids": [1]})
    assert guest.calls() == [("price", {"id": 1})]
    guest.answer("call", 10)                  # the oldest unanswered command of that name
    guest.answer("sleep")
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import wfhost

from . import Exit, Message, Sender
from .problem import Problem, of_exception

_START = 1_700_000_000_000_000


class Guest:
    """One entry that runs. The handlers are the test."""

    def __init__(self, entry: str, input: Any = None, *, seed: int = 0, pid: int = 1) -> None:
        self.logged: list[tuple[str, str, dict[str, Any] | None]] = []
        self.micros, self.pid, self._random = _START, pid, random.Random(seed)
        self.open: list[tuple[int, tuple[Any, ...]]] = []
        self.issued: list[tuple[int, tuple[Any, ...]]] = []
        self.status: tuple[Any, ...] = ("blocked",)
        self._process = wfhost.begin(self, entry, self.payload(input))
        self.step()

    # What the guest asks its host.

    def log(self, level: str, text: str, fields: dict[str, Any] | None) -> None:
        self.logged.append((level, text, fields))

    def whoami(self) -> tuple[str, int, int]:
        return "test", self.pid, 1

    def now(self) -> int:
        return self.micros

    def random(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def payload(self, value: Any) -> Any:
        """The value as it arrives at the other end: bytes, or what JSON makes of it."""
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        return json.loads(json.dumps(value, allow_nan=False))

    # What the test does.

    def step(self, *events: tuple[Any, ...]) -> Guest:
        """Delivers events, each a tuple that begins with its name, and runs the guest."""
        wfhost._process = self._process
        self.micros += 1_000
        status, commands = self._process.step(events)
        if status[0] == "complete":
            try:
                status = ("complete", self.payload(status[1]))
            except Exception as error:
                status = ("failed", error)
        self.status = status
        self.issued += commands
        self.open += [(tag, action) for tag, action in commands if action[0] in ("sleep", "call", "spawn", "register")]
        cancelled = {action[1] for _, action in commands if action[0] == "cancel"}
        self.open = [(tag, action) for tag, action in self.open if tag not in cancelled]
        return self

    def answer(self, name: str, value: Any = None, problem: Problem | None = None) -> Guest:
        """Answers the oldest unanswered `sleep`, `call`, `spawn` or `register`."""
        found = [(tag, action) for tag, action in self.open if action[0] == name]
        assert found, f"the guest waits for no {name}, but for {[action[0] for _, action in self.open]}"
        self.open.remove(found[0])
        return self.step(("completed", found[0][0], self.payload(value), problem))

    def message(self, topic: str, body: Any = None, sender: Sender = Sender("process", 2)) -> Guest:
        return self.step(("message", Message(sender, topic, self.payload(body))))

    def cancel(self, reason: str | None = "enough") -> Guest:
        return self.step(("cancel", reason))

    def calls(self) -> list[tuple[str, Any]]:
        """The unanswered calls: handler and args."""
        return [action[1:3] for _, action in self.open if action[0] == "call"]

    @property
    def has_ended(self) -> bool:
        return self.status[0] in ("complete", "failed", "renew")

    @property
    def output(self) -> Any:
        """What it returned; raises the problem that it failed with."""
        kind, *rest = self.status
        if kind == "failed":
            raise rest[0]
        assert kind == "complete", f"it has not ended: {self.status}"
        return rest[0]

    @property
    def problem(self) -> Problem:
        kind, *rest = self.status
        assert kind == "failed", f"it has not failed: {self.status}"
        return of_exception(rest[0])


Handler = Callable[[Any], Any]


class Host:
    """A host that is deterministic: its clock stands at the next thing that happens."""

    def __init__(
        self, handlers: Mapping[str, Handler] | None = None, signals: Mapping[str, Any] | None = None, *, seed: int = 0
    ) -> None:
        self.handlers, self.signals, self.seed = dict(handlers or {}), dict(signals or {}), seed
        #: Every call: handler and args, in order.
        self.calls: list[tuple[str, Any]] = []
        #: Lines of the log: level, text, fields.
        self.logged: list[tuple[str, str, dict[str, Any] | None]] = []
        #: What queries read, by process and name.
        self.exposed: dict[tuple[int, str], Any] = {}
        self.micros = _START
        self._due: list[tuple[int, int, int, tuple[Any, ...]]] = []
        self._number = 0
        self._guests: dict[int, Guest] = {}
        self._parents: dict[int, tuple[int, int, bool]] = {}
        self._children: dict[tuple[int, int], int] = {}
        self._names: dict[str, int] = {}
        self._watchers: list[tuple[int, int, int, bool]] = []
        self._pids = 0

    def run(self, entry: str, input: Any = None) -> Any:
        """Runs an entry to its end. Returns its output; raises its problem."""
        pid = self._begin(entry, input)
        guest = self._guests[pid]
        self._took(guest)
        while not guest.has_ended:
            self.next()
            guest = self._guests[pid]
        return guest.output

    def next(self) -> None:
        """Advances the clock to the next event, and delivers it."""
        while self._due:
            at, _, pid, event = heapq.heappop(self._due)
            guest = self._guests[pid]
            waits = [tag for tag, _ in guest.open]
            if guest.has_ended or event[0] == "completed" and event[1] not in waits and event[3] is None:
                continue
            self.micros = max(self.micros, at)
            guest.micros = max(guest.micros, self.micros)
            guest.open = [(tag, action) for tag, action in guest.open if event[0] != "completed" or tag != event[1]]
            self._after(guest, event)
            return
        open = {pid: guest.open for pid, guest in self._guests.items() if not guest.has_ended}
        raise AssertionError(f"nothing happens any more, and these wait: {open}")

    def cancel(self, reason: str = "enough", pid: int = 1) -> None:
        """Cancels a process."""
        self._later(0, pid, ("cancel", reason))

    def _begin(self, entry: str, input: Any) -> int:
        self._pids += 1
        before = wfhost._process
        self._guests[self._pids] = Guest(entry, input, seed=self.seed + self._pids - 1, pid=self._pids)
        wfhost._process = before
        return self._pids

    def _later(self, micros: int, pid: int, event: tuple[Any, ...]) -> None:
        self._number += 1
        heapq.heappush(self._due, (self.micros + micros, self._number, pid, event))

    def _after(self, guest: Guest, event: tuple[Any, ...]) -> None:
        """Steps a guest and does what it commands."""
        guest.step(event)
        self._took(guest)

    def _took(self, guest: Guest) -> None:
        commands, guest.issued = guest.issued, []
        self.logged += guest.logged
        guest.logged = []
        for tag, action in commands:
            try:
                getattr(self, "_" + action[0])(guest, tag, *action[1:])
            except Problem as problem:
                self._later(0, guest.pid, ("completed", tag, None, problem))
        if guest.has_ended:
            self._ended(guest)

    def _ended(self, guest: Guest) -> None:
        if guest.status[0] == "renew":
            _, entry, input = guest.status
            renewed = self._guests[guest.pid] = Guest(entry, input, seed=self.seed + guest.pid - 1, pid=guest.pid)
            renewed._process.next_tag = guest._process.next_tag
            return self._took(renewed)
        problem = guest.problem if guest.status[0] == "failed" else None
        ending = "completed" if problem is None else "cancelled" if problem.kind == "cancelled" else "failed"
        self._names = {name: pid for name, pid in self._names.items() if pid != guest.pid}
        if guest.pid in self._parents:
            parent, tag, _ = self._parents[guest.pid]
            self._later(0, parent, ("completed", tag, None if problem else guest.output, problem))
        for watched, watcher, tag, is_link in self._watchers:
            if watched == guest.pid and not self._guests[watcher].has_ended:
                self._later(0, watcher, ("exited", tag, Exit(guest.pid, ending, problem if ending == "failed" else None)))
                if is_link and problem is not None:
                    self._later(0, watcher, ("cancel", "a linked process did not complete"))
        for child, (parent, _, is_detached) in self._parents.items():
            if parent == guest.pid and not is_detached and not self._guests[child].has_ended:
                self._later(0, child, ("cancel", "the parent has ended"))

    def _pid(self, guest: Guest, target: tuple[str, Any]) -> int:
        kind, id = target
        pid = self._names.get(id) if kind == "name" else self._children.get((guest.pid, id)) if kind == "child" else id
        if pid is None or pid not in self._guests or self._guests[pid].has_ended:
            raise Problem("no-process", "There is no such process", detail=str(id))
        return pid

    # The commands.

    def _sleep(self, guest: Guest, tag: int, micros: int) -> None:
        self._later(micros, guest.pid, ("completed", tag, None, None))

    def _call(self, guest: Guest, tag: int, handler: str, args: Any, timeout: int | None, key: str | None) -> None:
        self.calls.append((handler, args))
        if timeout is not None:
            self._later(timeout, guest.pid, ("completed", tag, None, Problem("timed-out", "The time is over", cls="uncertain")))
        if handler == "signal" and handler not in self.handlers:
            if args["name"] in self.signals:
                self._later(0, guest.pid, ("completed", tag, guest.payload(self.signals[args["name"]]), None))
            return
        if handler not in self.handlers:
            raise Problem("unknown-handler", "There is no such handler", detail=handler)
        answer = guest.payload(self.handlers[handler](args))
        self._later(0, guest.pid, ("completed", tag, answer, None))

    def _spawn(
        self, guest: Guest, tag: int, component: str | None, entry: str, input: Any, name: str | None,
        link: bool, detached: bool, narrow: Any,
    ) -> None:
        pid = self._begin(entry, input)
        self._parents[pid], self._children[guest.pid, tag] = (guest.pid, tag, detached), pid
        if name is not None:
            self._names[name] = pid
        if link:
            self._watchers += [(pid, guest.pid, tag, True), (guest.pid, pid, 0, True)]
        self._took(self._guests[pid])

    def _send(self, guest: Guest, tag: int, to: tuple[str, Any], topic: str, body: Any) -> None:
        pid = self._pid(guest, to)
        sender = Sender("process", guest.pid)
        for (parent, number), child in self._children.items():
            if parent == pid and child == guest.pid:
                sender = Sender("child", number)
        self._later(0, pid, ("message", Message(sender, topic, body)))

    def _register(self, guest: Guest, tag: int, name: str) -> None:
        if name in self._names:
            raise Problem("name-taken", "The name is taken", detail=name)
        self._names[name] = guest.pid
        self._later(0, guest.pid, ("completed", tag, None, None))

    def _expose(self, guest: Guest, tag: int, query: str, value: Any) -> None:
        self.exposed[guest.pid, query] = value

    def _cancel(self, guest: Guest, tag: int, of: int) -> None:
        child = self._children.get((guest.pid, of))
        if child is not None:
            self._later(0, child, ("cancel", "the parent gave it up"))

    def _stop(self, guest: Guest, tag: int, target: tuple[str, Any]) -> None:
        self._later(0, self._pid(guest, target), ("cancel", "stopped"))

    def _monitor(self, guest: Guest, tag: int, target: tuple[str, Any]) -> None:
        self._watchers.append((self._pid(guest, target), guest.pid, tag, False))

    def _link(self, guest: Guest, tag: int, target: tuple[str, Any]) -> None:
        pid = self._pid(guest, target)
        self._watchers += [(pid, guest.pid, tag, True), (guest.pid, pid, 0, True)]

    def _unlink(self, guest: Guest, tag: int, target: tuple[str, Any]) -> None:
        pid = self._pid(guest, target)
        pairs = [(pid, guest.pid), (guest.pid, pid)]
        self._watchers = [one for one in self._watchers if one[:2] not in pairs or not one[3]]


def run(
    entry: str, input: Any = None, *, handlers: Mapping[str, Handler] | None = None,
    signals: Mapping[str, Any] | None = None, seed: int = 0,
) -> Any:
    """Runs an entry to its end on a `Host`. Returns its output; raises its problem."""
    return Host(handlers, signals, seed=seed).run(entry, input)
