"""Entries stepped in this process, without WebAssembly or a host: for pytest.

    from wfhost.testing import Guest
    import order

    def test_order():
        guest = Guest("run", {"ids": [1]})
        assert guest.calls() == [("price", {"id": 1})]
        guest.answer("call", 10)                  # the oldest unanswered command of that name
        guest.answer("sleep")
        guest.answer("spawn", 10)
        guest.answer("call", {"by": "Ann"})
        assert guest.output == {"total": 10, "by": "Ann"}
"""

import random

import wfhost

from . import Message, Sender
from .problem import of_exception


class Guest:
    """One entry that runs. The handlers are the test."""

    def __init__(self, entry, input=None, *, seed=0):
        self.logged, self.micros, self._random = [], 1_700_000_000_000_000, random.Random(seed)
        self.open, self.issued, self.status = [], [], None
        self._process = wfhost.begin(self, entry, input)
        self.step()

    # What the guest asks its host.

    def log(self, level, text, fields):
        self.logged.append((level, text, fields))

    def whoami(self):
        return "test", 1, 1

    def now(self):
        return self.micros

    def random(self, count):
        return self._random.randbytes(count)

    # What the test does.

    def step(self, *events):
        """Delivers events, each a tuple that begins with its name, and runs the guest."""
        wfhost._process = self._process
        self.micros += 1_000
        self.status, commands = self._process.step(events)
        self.issued += commands
        self.open += [(tag, action) for tag, action in commands if action[0] in ("sleep", "call", "spawn", "register")]
        cancelled = {action[1] for _, action in commands if action[0] == "cancel"}
        self.open = [(tag, action) for tag, action in self.open if tag not in cancelled]
        return self

    def answer(self, name, value=None, problem=None):
        """Answers the oldest unanswered `sleep`, `call`, `spawn` or `register`."""
        tag, action = next((tag, action) for tag, action in self.open if action[0] == name)
        self.open.remove((tag, action))
        return self.step(("completed", tag, value, problem))

    def message(self, topic, body=None, sender=Sender("process", 2)):
        return self.step(("message", Message(sender, topic, body)))

    def cancel(self, reason="enough"):
        return self.step(("cancel", reason))

    def calls(self):
        """The unanswered calls: handler and args."""
        return [action[1:3] for _, action in self.open if action[0] == "call"]

    @property
    def output(self):
        """What it returned; raises the problem that it failed with."""
        kind, *rest = self.status
        if kind == "failed":
            raise rest[0]
        assert kind == "complete", f"it has not ended: {self.status}"
        return rest[0]

    @property
    def problem(self):
        kind, *rest = self.status
        assert kind == "failed", f"it has not failed: {self.status}"
        return of_exception(rest[0])
