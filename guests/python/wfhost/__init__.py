"""Guests of wfhost in Python: coroutines that call, sleep, spawn and survive their host.

    from wfhost import call, entry, gather, sleep

    @entry
    async def run(order):
        pages = await gather(*[call("http", url=url) for url in order["urls"]])
        await sleep(0.2)
        return [page["status"] for page in pages]

What is asked for is under way at once; `await` waits for the answer. What is no longer awaited by a
`gather` that failed, a `race`, a `timeout` is cancelled.
"""

from __future__ import annotations

import datetime as _datetime
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, NamedTuple, NoReturn, TypeVar, overload

from . import inputs
from .core import Answer, Future, Process, Receiver, Renewal, Sent, Task
from .problem import Cancelled, Problem, of_exception

__all__ = [
    "Cancelled", "Child", "Exit", "Future", "Message", "Problem", "Sender", "Sent", "Task", "TaskGroup", "call",
    "create_task", "entry", "expose", "gather", "link", "log", "map_all", "messages", "monitor", "now", "race",
    "random_bytes", "receive", "register", "renew", "select", "send", "settle", "signal", "sleep", "spawn", "start",
    "stop", "timeout", "unlink", "whoami",
]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
#: Seconds, or a `timedelta`.
Time = float | _datetime.timedelta


class Sender(NamedTuple):
    """Who sent a message: `kind` is `child`, `process`, `call` or `outside`, `id` its number or name."""

    kind: str
    id: Any


class Message(NamedTuple):
    """A message of the mailbox."""

    sender: Sender
    topic: str
    body: Any


class Exit(NamedTuple):
    """How another process ended: `ending` is `completed`, `failed` or `cancelled`."""

    pid: int
    ending: str
    problem: Problem | None


_entries: dict[str, Callable[..., Any]] = {}
_process: Process | None = None


def _here() -> Process:
    if _process is None:
        raise RuntimeError("only an entry that runs can do this")
    return _process


# Entries


@overload
def entry(function: F) -> F: ...
@overload
def entry(*, name: str) -> Callable[[F], F]: ...
def entry(function: Any = None, *, name: str | None = None) -> Any:
    """Makes a function an entry of the guest. Annotations of its input are checked."""
    if function is None:
        return lambda function: _enter(function, name)
    return _enter(function, name)


def _enter(function: F, name: str | None) -> F:
    _entries[name or function.__name__] = function
    return function


def _name_of(of: Any) -> str:
    if isinstance(of, str):
        return of
    for name, function in _entries.items():
        if function is of:
            return name
    raise TypeError(f"{getattr(of, '__name__', of)!r} is no entry: it needs @entry")


def begin(host: Any, name: str, input: Any) -> Process:
    """Starts an entry, as the host's `init` does."""
    global _process
    if name not in _entries:
        raise Problem("unknown-entry", "The component has no such entry", detail=name)
    function = _entries[name]
    arguments = inputs.arguments(function, input)
    process = _process = Process(host)

    async def run() -> Any:
        output = function(*arguments)
        return await output if hasattr(output, "__await__") else output

    process.main = Task(process, run())
    return process


# What commands are made of. What does not fit is told here, at the line of the guest.


def _micros(time: Time) -> int:
    if isinstance(time, _datetime.timedelta):
        micros = time // _datetime.timedelta(microseconds=1)
    else:
        micros = round(time * 1_000_000)
    return min(max(micros, 0), 2**63 - 1)


def _limit(time: Time | None) -> int | None:
    return None if time is None else _micros(time)


def _text(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} is a string, not {type(text).__name__}")
    if not text.isascii():
        text.encode()  # half a surrogate pair is refused here
    return text


def _payload(value: Any) -> Any:
    return _here().host.payload(value)


# Waiting


def sleep(time: Time) -> Answer[None]:
    """Waits for so many seconds, or a `timedelta`."""
    return _here().ask("sleep", _micros(time))


def call(
    handler: str, args: Any = None, *, timeout: Time | None = None, key: str | None = None, **members: Any
) -> Answer[Any]:
    """Calls a handler of the host, with these args: a value, or members by their names."""
    if members:
        args = {**(args or {}), **members}
    key = None if key is None else _text(key, "the key of a call")
    return _here().ask("call", _text(handler, "a handler"), _payload(args), _limit(timeout), key)


def signal(name: str, *, timeout: Time | None = None) -> Answer[Any]:
    """Waits for a signal from outside."""
    return call("signal", {"name": name}, timeout=timeout)


def start(work: Awaitable[T]) -> Future[T]:
    """Runs a coroutine beside the others, at once."""
    if isinstance(work, Future):
        return work
    if not hasattr(work, "send"):
        if not hasattr(work, "__await__"):
            raise TypeError(f"{work!r} cannot be awaited")
        work = _awaiting(work)
    return Task(_here(), work)  # type: ignore[arg-type]


create_task = start


async def _awaiting(work: Awaitable[T]) -> T:
    return await work


async def gather(*works: Awaitable[Any], limit: int | None = None) -> list[Any]:
    """Waits for all, in order; the first failure cancels the others.

    With a limit no more than so many coroutines are run at a time.
    """
    if limit is not None:
        try:
            return await map_all(limit, works, lambda work: work)
        finally:
            for work in works:
                if hasattr(work, "close"):
                    work.close()  # never begun
    futures = [start(work) for work in works]
    if not futures:
        return []
    done: Future[None] = Future()
    left = len(futures)

    def ended(future: Future[Any]) -> None:
        nonlocal left
        left -= 1
        if future._error is not None:
            done._end(error=future._error)
        elif left == 0:
            done._end()

    _when_done(futures, ended)
    try:
        await done
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return [future._value for future in futures]


async def settle(*works: Awaitable[Any]) -> list[Any]:
    """Waits for all, in order; a failure is a `Problem` in the list."""
    results = []
    for future in [start(work) for work in works]:
        try:
            results.append(await future)
        except Cancelled as error:
            if error is not future._error or _here().is_cancelled:
                raise
            results.append(of_exception(error))
        except Exception as error:
            results.append(of_exception(error))
    return results


def _when_done(futures: list[Future[Any]], ended: Callable[[Future[Any]], None]) -> None:
    for future in futures:
        if future.done:
            ended(future)
        else:
            future._wake.append(lambda future=future: ended(future))  # type: ignore[misc]


async def select(*works: Awaitable[Any]) -> tuple[int, Any]:
    """Waits for the first that is done, and cancels the others. Returns its index and its value."""
    futures = [start(work) for work in works]
    first: Future[Future[Any]] = Future()
    _when_done(futures, lambda future: first._end(future))
    try:
        winner = await first
    finally:
        for future in futures:
            if not future.done:
                future.cancel()
    return futures.index(winner), await winner


async def race(*works: Awaitable[T]) -> T:
    """Waits for the first that is done, and cancels the others."""
    return (await select(*works))[1]


async def map_all(limit: int, items: Iterable[Any], make: Callable[[Any], Awaitable[T]]) -> list[T]:
    """Makes a future of each item, waits for so many at a time, and returns all values in order."""
    if limit < 1:
        raise ValueError(f"the limit is at least 1, not {limit}")
    items = list(items)
    values: list[Any] = [None] * len(items)
    numbers = iter(range(len(items)))

    async def work() -> None:
        for number in numbers:
            values[number] = await make(items[number])

    await gather(*[work() for _ in range(min(limit, len(items)))])
    return values


def _timed_out() -> Problem:
    return Problem("timed-out", "The time is over", cls="retryable")


async def _in_time(time: Time, work: Awaitable[T]) -> T:
    index, value = await select(work, sleep(time))
    if index == 1:
        raise _timed_out()
    return value


class _Timeout:
    """A block that must be over in so much time."""

    def __init__(self, time: Time) -> None:
        self._time, self._is_over = time, False

    async def __aenter__(self) -> None:
        task = _here().current
        assert task is not None
        self._sleep = sleep(self._time)

        def over() -> None:
            if self._sleep._error is None:
                self._is_over = True
                task.cancel("The time is over")

        self._sleep._wake.append(over)

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._sleep.cancel()
        if self._is_over and isinstance(error, Cancelled):
            raise _timed_out() from None


@overload
def timeout(time: Time) -> _Timeout: ...
@overload
def timeout(time: Time, work: Awaitable[T]) -> Awaitable[T]: ...
def timeout(time: Time, work: Any = None) -> Any:
    """Waits for so long at most; then cancels the work, and raises a problem `timed-out`.

    Either `await timeout(5, work)`, or `async with timeout(5):`.
    """
    return _Timeout(time) if work is None else _in_time(time, work)


class TaskGroup:
    """Tasks that a block waits for at its end; the first failure cancels the others, and the block.

    async with TaskGroup() as group:
        group.start(work())
    """

    async def __aenter__(self) -> TaskGroup:
        task = _here().current
        assert task is not None
        self._parent, self._cancels = task, task.cancels
        self._tasks: list[Future[Any]] = []
        self._error: BaseException | None = None
        self._is_inside = True
        return self

    def start(self, work: Awaitable[T]) -> Future[T]:
        task = start(work)
        self._tasks.append(task)
        _when_done([task], self._ended)
        return task

    create_task = start

    def _ended(self, task: Future[Any]) -> None:
        if self._error is None and task._error is not None and not isinstance(task._error, Cancelled):
            self._error = task._error
            self._cancel()
            if self._is_inside:
                self._cancels += 1
                self._parent.cancel("A task of the group failed")

    def _cancel(self) -> None:
        for task in self._tasks:
            if not task.done:
                task.cancel()

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._is_inside = False
        if error is not None:
            self._cancel()
        cancelled = None
        for task in self._tasks:
            while not task.done:
                try:
                    await task
                except Cancelled as given_up:
                    if self._parent.cancels > self._cancels or _here().is_cancelled:
                        cancelled = given_up
                except BaseException:
                    pass
        if self._error is not None and (error is None or isinstance(error, Cancelled)):
            raise self._error
        if error is None and cancelled is not None:
            raise cancelled


# Children and other processes


class Child(Answer[Any]):
    """A child: awaited, it is its output."""

    def __init__(self, process: Process, tag: int) -> None:
        super().__init__(process, tag)
        self.sender = Sender("child", tag)
        self._exit: Future[Exit] | None = None

    @property
    def exited(self) -> Future[Exit]:
        """How it ended: a failure is not raised."""
        if self._exit is None:
            self._exit = monitor(self)
        return self._exit

    def send(self, topic: str, body: Any = None) -> Sent:
        return send(self, topic, body)

    def stop(self) -> None:
        """Asks it to end; its answer still arrives."""
        stop(self)


def spawn(
    of: str | Callable[..., Any], input: Any = None, *, component: str | None = None, name: str | None = None,
    link: bool = False, detached: bool = False, narrow: Any = None,
) -> Child:
    """Starts an entry (a name, or the function) as a process of its own."""
    for text, what in [(component, "a component"), (name, "the name of a child")]:
        if text is not None:
            _text(text, what)
    entry, input = _text(_name_of(of), "an entry"), _payload(input)
    child = _here().ask("spawn", component, entry, input, name, bool(link), bool(detached), narrow, of=Child)
    if link:
        child._exit = _here().exit(child.tag)
    return child


def _target(to: Any) -> tuple[str, Any]:
    if isinstance(to, str):
        return ("name", _text(to, "a name"))
    target = getattr(to, "sender", to)
    if not isinstance(target, Sender) or target.kind not in ("child", "process"):
        raise TypeError(f"{to!r} is no name, child, or process that sent a message")
    return target.kind, target.id


def send(to: str | Child | Sender, topic: str, body: Any = None) -> Sent:
    """Sends a message to a name, a child, or the sender of a message."""
    return _here().send("send", _target(to), _text(topic, "a topic"), _payload(body))


def receive(
    topic: str | None = None, sender: Child | Sender | None = None, *, timeout: Time | None = None
) -> Future[Any]:
    """Waits for a `Message`. With a timeout it is None when the time is over."""
    receiver = Receiver(_here(), topic, getattr(sender, "sender", sender))
    if timeout is None:
        return receiver
    limit = timeout

    async def limited() -> Any:
        index, value = await select(receiver, sleep(limit))
        return value if index == 0 else None

    return start(limited())


async def messages(
    topic: str | None = None, sender: Child | Sender | None = None, *, timeout: Time | None = None
) -> AsyncIterator[Message]:
    """The messages as they come, for `async for`: until none comes for so long."""
    while (message := await receive(topic, sender, timeout=timeout)) is not None:
        yield message


def register(name: str) -> Answer[None]:
    """Takes a name in the run."""
    return _here().ask("register", _text(name, "a name"))


def stop(target: str | Child | Sender) -> None:
    """Asks a process to end."""
    _here().command("stop", _target(target))


def monitor(target: str | Child | Sender) -> Future[Exit]:
    """Waits for the `Exit` of another process."""
    return _here().exit(_here().command("monitor", _target(target)))


def link(target: str | Child | Sender) -> Future[Exit]:
    """The same; if one of the two does not complete, the other is cancelled."""
    return _here().exit(_here().command("link", _target(target)))


def unlink(target: str | Child | Sender) -> None:
    """Ends a link."""
    _here().command("unlink", _target(target))


def expose(query: str, value: Any) -> None:
    """What queries of this name read from now on."""
    _here().command("expose", _text(query, "a query"), _payload(value))


def renew(entry: str | Callable[..., Any], input: Any = None) -> NoReturn:
    """Goes on as an entry with an empty history. Does not return."""
    raise Renewal(_text(_name_of(entry), "an entry"), _payload(input))


# The host

_LEVELS = ("trace", "debug", "info", "warn", "error")


def log(text: object, level: str = "info", **fields: Any) -> None:
    """Writes a line to the run's log: trace, debug, info, warn or error."""
    if level not in _LEVELS:
        raise ValueError(f"{level!r} is no level: {', '.join(_LEVELS)}")
    _here().host.log(level, str(text), fields or None)


def now() -> _datetime.datetime:
    """The time of this step: a `datetime` in UTC. It stands still until the next one."""
    epoch = _datetime.datetime(1970, 1, 1, tzinfo=_datetime.timezone.utc)
    return epoch + _datetime.timedelta(microseconds=_here().host.now())


def random_bytes(count: int) -> bytes:
    """Bytes of the process's seeded stream: the same in a replay."""
    host = _here().host
    return b"".join(host.random(min(4096, count - at)) for at in range(0, count, 4096))


def whoami() -> tuple[str, int]:
    """The id of the run and the number of this process."""
    run, pid, _ = _here().host.whoami()
    return run, pid
