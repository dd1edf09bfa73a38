"""Guests of wfhost in Python: coroutines that call, sleep, spawn and survive their host.

    from wfhost import call, entry, gather, sleep

    @entry
    async def run(order):
        pages = await gather(*[call("http", {"url": url}) for url in order["urls"]])
        await sleep(0.2)
        return [page["status"] for page in pages]

What is asked for is under way at once; `await` waits for the answer. What is no longer awaited by a
`gather` that failed, a `race`, a `timeout` is cancelled.
"""

from collections import namedtuple
from datetime import datetime, timedelta, timezone

from . import inputs
from .core import Answer, Future, Process, Receiver, Renewal, Task
from .problem import Cancelled, Problem, of_exception

__all__ = [
    "Cancelled", "Exit", "Message", "Problem", "Sender", "call", "entry", "expose", "gather", "link", "log", "map_all",
    "monitor", "now", "race", "random_bytes", "receive", "register", "renew", "select", "send", "settle", "signal",
    "sleep", "spawn", "start", "stop", "timeout", "unlink", "whoami",
]

#: Who sent a message: `kind` is `child`, `process`, `call` or `outside`, `id` its number or name.
Sender = namedtuple("Sender", "kind id")
Message = namedtuple("Message", "sender topic body")
#: How another process ended: `ending` is `completed`, `failed` or `cancelled`.
Exit = namedtuple("Exit", "pid ending problem")

_entries = {}
_process = None


# Entries


def entry(function=None, *, name=None):
    """Makes a function an entry of the guest. Annotations of its input are checked."""
    if function is None:
        return lambda function: entry(function, name=name)
    _entries[name or function.__name__] = function
    return function


def begin(host, name, input):
    """Starts an entry, as the host's `init` does."""
    global _process
    if name not in _entries:
        raise Problem("unknown-entry", "The component has no such entry", detail=name)
    function = _entries[name]
    arguments = inputs.arguments(function, input)
    _process = Process(host)

    async def run():
        output = function(*arguments)
        return await output if hasattr(output, "__await__") else output

    _process.main = Task(_process, run())
    return _process


# Waiting


def _micros(time):
    if isinstance(time, timedelta):
        return time // timedelta(microseconds=1)
    return round(time * 1_000_000)


def sleep(time):
    """Waits for so many seconds, or a `timedelta`."""
    return _process.ask("sleep", _micros(time))


def call(handler, args=None, *, timeout=None, key=None):
    """Calls a handler of the host."""
    return _process.ask("call", handler, args, None if timeout is None else _micros(timeout), key)


def signal(name, *, timeout=None):
    """Waits for a signal from outside."""
    return call("signal", {"name": name}, timeout=timeout)


def start(work):
    """Runs a coroutine beside the others, at once."""
    return work if isinstance(work, Future) else Task(_process, work)


async def gather(*works):
    """Waits for all, in order; the first failure cancels the others."""
    futures = [start(work) for work in works]
    if not futures:
        return []
    done = Future()
    left = len(futures)

    def ended(future):
        nonlocal left
        left -= 1
        if future._error is not None:
            done._end(error=future._error)
        elif left == 0:
            done._end()

    _when_done(futures, ended)
    try:
        await done
    except Exception:
        for future in futures:
            future.cancel()
        raise
    return [future._value for future in futures]


async def settle(*works):
    """Waits for all, in order; a failure is a `Problem` in the list."""
    results = []
    for future in [start(work) for work in works]:
        try:
            results.append(await future)
        except Exception as error:
            results.append(of_exception(error))
    return results


def _when_done(futures, ended):
    for future in futures:
        if future.done:
            ended(future)
        else:
            future._wake.append(lambda future=future: ended(future))


async def select(*works):
    """Waits for the first that is done, and cancels the others. Returns its index and its value."""
    futures = [start(work) for work in works]
    first = Future()
    _when_done(futures, lambda future: first._end(future))
    try:
        winner = await first
    finally:
        for future in futures:
            if not future.done:
                future.cancel()
    return futures.index(winner), await winner


async def race(*works):
    """Waits for the first that is done, and cancels the others."""
    return (await select(*works))[1]


async def timeout(time, work):
    """Waits for so long at most; then cancels the work, and raises a problem `timed-out`."""
    index, value = await select(work, sleep(time))
    if index == 1:
        raise Problem("timed-out", "The time is over", cls="retryable")
    return value


async def map_all(limit, items, make):
    """Makes a future of each item, waits for so many at a time, and returns all values in order."""
    items = list(items)
    values = [None] * len(items)
    numbers = iter(range(len(items)))

    async def work():
        for number in numbers:
            values[number] = await make(items[number])

    await gather(*[work() for _ in range(min(limit, len(items)))])
    return values


# Children and other processes


class _Child(Answer):
    """A child: awaited, it is its output."""

    def __init__(self, process, tag):
        super().__init__(process, tag)
        self.sender, self.exited = Sender("child", tag), None

    def send(self, topic, body=None):
        return send(self, topic, body)

    def stop(self):
        """Asks it to end; its answer still arrives."""
        stop(self)


def spawn(of, input=None, *, component=None, name=None, link=False, detached=False, narrow=None):
    """Starts an entry (a name, or the function) as a process of its own."""
    of = of if isinstance(of, str) else next(name for name, function in _entries.items() if function is of)
    child = _process.ask("spawn", component, of, input, name, link, detached, narrow, of=_Child)
    if link:
        child.exited = _process.exit(child.tag)
    return child


def _target(to):
    if isinstance(to, str):
        return ("name", to)
    return tuple(getattr(to, "sender", to))


def send(to, topic, body=None):
    """Sends a message to a name, a child, or the sender of a message."""
    return _process.send("send", _target(to), topic, body)


def receive(topic=None, sender=None, *, timeout=None):
    """Waits for a message. With a timeout it is None when the time is over."""
    receiver = Receiver(_process, topic, getattr(sender, "sender", sender))
    if timeout is None:
        return receiver

    async def limited():
        index, value = await select(receiver, sleep(timeout))
        return value if index == 0 else None

    return Task(_process, limited())


def register(name):
    """Takes a name in the run."""
    return _process.ask("register", name)


def stop(target):
    """Asks a process to end."""
    _process.command("stop", _target(target))


def monitor(target):
    """Waits for the `Exit` of another process."""
    return _process.exit(_process.command("monitor", _target(target)))


def link(target):
    """The same; if one of the two does not complete, the other is cancelled."""
    return _process.exit(_process.command("link", _target(target)))


def unlink(target):
    _process.command("unlink", _target(target))


def expose(query, value):
    """What queries of this name read from now on."""
    _process.command("expose", query, value)


def renew(entry, input=None):
    """Goes on as an entry with an empty history. Does not return."""
    raise Renewal(entry if isinstance(entry, str) else entry.__name__, input)


# The host


def log(text, level="info", **fields):
    """Writes a line to the run's log: trace, debug, info, warn or error."""
    _process.host.log(level, str(text), fields or None)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def now():
    """The time of this step: a `datetime` in UTC. It stands still until the next one."""
    return _EPOCH + timedelta(microseconds=_process.host.now())


def random_bytes(count):
    """Bytes of the process's seeded stream: the same in a replay."""
    return b"".join(_process.host.random(min(4096, count - at)) for at in range(0, count, 4096))


def whoami():
    """The id of the run and the number of this process."""
    return _process.host.whoami()[:2]
