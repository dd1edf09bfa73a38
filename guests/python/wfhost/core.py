"""Tasks, answers and messages between the steps of a guest. Nothing here knows WebAssembly.

An action is a tuple that begins with its name in the contract; so is an event. `testing` and
`component` translate them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from .problem import Cancelled, Problem

T = TypeVar("T")


class Future(Generic[T]):
    """Something that is done later: awaited, it is its value, or raises why there is none."""

    def __init__(self) -> None:
        self.done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._wake: list[Callable[[], None]] = []

    def __await__(self) -> Generator[Any, None, T]:
        while not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value

    def _end(self, value: Any = None, error: BaseException | None = None) -> None:
        if not self.done:
            self.done, self._value, self._error = True, value, error
            wakes, self._wake = self._wake, []
            for wake in wakes:
                wake()

    def cancel(self, reason: str | None = None) -> None:
        """Gives it up. Who awaits it is raised `Cancelled`."""
        self._end(error=Cancelled(reason))


class Answer(Future[T]):
    """The answer to a command. To cancel it cancels the command."""

    def __init__(self, process: Process, tag: int) -> None:
        super().__init__()
        self._process, self.tag = process, tag

    def cancel(self, reason: str | None = None) -> None:
        if self._process.pending.pop(self.tag, None) is not None:
            self._process.command("cancel", self.tag)
            super().cancel(reason)


class Task(Future[T]):
    """A coroutine that runs beside others."""

    def __init__(self, process: Process, coroutine: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self._process, self._coroutine = process, coroutine
        self._waits_for: Future[Any] | None = None
        self._cancel: Cancelled | None = None
        #: How often it was cancelled.
        self.cancels = 0
        process.ready.append(self._step)

    def _step(self) -> None:
        if self.done:
            return
        self._waits_for, cancel, self._cancel = None, self._cancel, None
        self._process.current = self
        try:
            future = self._coroutine.throw(cancel) if cancel else self._coroutine.send(None)
            if not isinstance(future, Future):
                self._coroutine.throw(RuntimeError(f"{future!r} is nothing of wfhost that can be awaited"))
        except StopIteration as end:
            self._end(end.value)
        except Renewal as renewal:
            self._process.renewal = renewal
        except BaseException as error:  # SystemExit too: it is told, and does not trap
            self._end(error=error)
        else:
            self._waits_for = future
            future._wake.append(lambda: self._process.ready.append(self._step))
        self._process.current = None

    def cancel(self, reason: str | None = None) -> None:
        """Raises `Cancelled` in it, where it waits."""
        if self.done:
            return
        self.cancels += 1
        if self._waits_for is not None and not self._waits_for.done:
            self._waits_for.cancel(reason)
        else:
            self._cancel = Cancelled(reason)


class Receiver(Future[Any]):
    """Waits for a message."""

    def __init__(self, process: Process, topic: str | None, sender: Any) -> None:
        super().__init__()
        self._process, self.topic, self.sender = process, topic, sender
        process.receivers.append(self)
        process.deliver()

    def takes(self, message: Any) -> bool:
        if self.topic is None:
            topic = not message.topic.startswith("wfhost.")
        else:
            topic = message.topic == self.topic
        return topic and (self.sender is None or message.sender == self.sender)

    def cancel(self, reason: str | None = None) -> None:
        if self in self._process.receivers:
            self._process.receivers.remove(self)
        super().cancel(reason)


class Renewal(BaseException):
    """Ends the process, which goes on as a fresh one."""

    def __init__(self, entry: str, input: Any) -> None:
        super().__init__()
        self.entry, self.input = entry, input


class Sent:
    """A message on its way. `refusal` says why it was not delivered: one step later."""

    refusal: Problem | None = None


class Process:
    """One guest between its steps."""

    main: Task[Any]

    def __init__(self, host: Any) -> None:
        self.host = host
        self.next_tag: int = host.whoami()[2]
        self.commands: list[tuple[int, tuple[Any, ...]]] = []
        self.ready: deque[Callable[[], None]] = deque()
        self.pending: dict[int, Answer[Any]] = {}
        self.exits: dict[int, Future[Any]] = {}
        self.sent: dict[int, Sent] = {}
        self.sent_before: dict[int, Sent] = {}
        self.inbox: list[Any] = []
        self.receivers: list[Receiver] = []
        self.renewal: Renewal | None = None
        self.current: Task[Any] | None = None
        #: Whether the host has cancelled it.
        self.is_cancelled = False

    def command(self, *action: Any) -> int:
        tag = self.next_tag
        self.next_tag += 1
        self.commands.append((tag, action))
        return tag

    def ask(self, *action: Any, of: type[Answer[Any]] = Answer) -> Any:
        answer = of(self, self.command(*action))
        self.pending[answer.tag] = answer
        return answer

    def exit(self, tag: int) -> Future[Any]:
        self.exits[tag] = Future()
        return self.exits[tag]

    def send(self, *action: Any) -> Sent:
        sent = Sent()
        self.sent[self.command(*action)] = sent
        return sent

    def deliver(self) -> None:
        for receiver in list(self.receivers):
            for message in self.inbox:
                if receiver.takes(message):
                    self.inbox.remove(message)
                    self.receivers.remove(receiver)
                    receiver._end(message)
                    break

    def step(self, events: Any) -> tuple[tuple[Any, ...], list[tuple[int, tuple[Any, ...]]]]:
        """Takes a batch of events, runs all that can run, and returns status and commands."""
        self.sent, self.sent_before = {}, self.sent
        for event in events:
            getattr(self, "_" + event[0])(*event[1:])
        self.deliver()
        while self.ready and self.renewal is None and not self.main.done:
            self.ready.popleft()()
        commands, self.commands = self.commands, []
        return self._status(), commands

    def _status(self) -> tuple[Any, ...]:
        if self.renewal is not None:
            return "renew", self.renewal.entry, self.renewal.input
        if self.main.done:
            return ("complete", self.main._value) if self.main._error is None else ("failed", self.main._error)
        if self.receivers:
            return ("idle",)
        if not self.pending and not self.exits:
            return "failed", Problem("never-ends", "The guest waits for something that nothing will do")
        return ("blocked",)

    def _completed(self, tag: int, value: Any, problem: Problem | None) -> None:
        answer = self.pending.pop(tag, None)
        if answer is not None:
            answer._end(value, problem)
        elif problem is not None and tag in self.sent_before:
            self.sent_before[tag].refusal = problem

    def _message(self, message: Any) -> None:
        self.inbox.append(message)

    def _exited(self, tag: int, exit: Any) -> None:
        future = self.exits.pop(tag, None)
        if future is not None:
            future._end(exit)

    def _cancel(self, reason: str | None) -> None:
        self.is_cancelled = True
        exits, self.exits = list(self.exits.values()), {}
        for future in [*self.pending.values(), *self.receivers, *exits]:
            future.cancel(reason)
