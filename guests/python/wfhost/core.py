"""Tasks, answers and messages between the steps of a guest. Nothing here knows WebAssembly.

An action is a tuple that begins with its name in the contract; so is an event. `testing` and
`component` translate them.
"""

from collections import deque

from .problem import Cancelled, Problem


class Future:
    """Something that is done later: awaited, it is its value, or raises why there is none."""

    def __init__(self):
        self.done = False
        self._value = self._error = None
        self._wake = []

    def __await__(self):
        while not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value

    def _end(self, value=None, error=None):
        if not self.done:
            self.done, self._value, self._error = True, value, error
            for wake in self._wake:
                wake()
            self._wake = []

    def cancel(self, reason="Nobody waits for it"):
        """Gives it up. Who awaits it is raised `Cancelled`."""
        self._end(error=Cancelled(reason))


class Answer(Future):
    """The answer to a command. To cancel it cancels the command."""

    def __init__(self, process, tag):
        super().__init__()
        self._process, self.tag = process, tag

    def cancel(self, reason="Nobody waits for it"):
        if self._process.pending.pop(self.tag, None) is not None:
            self._process.command("cancel", self.tag)
            super().cancel(reason)


class Task(Future):
    """A coroutine that runs beside others."""

    def __init__(self, process, coroutine):
        super().__init__()
        self._process, self._coroutine, self._waits_for, self._cancel = process, coroutine, None, None
        process.ready.append(self._step)

    def _step(self):
        if self.done:
            return
        self._waits_for, error, self._cancel = None, self._cancel, None
        try:
            future = self._coroutine.throw(error) if error else self._coroutine.send(None)
        except StopIteration as end:
            self._end(end.value)
        except Renewal as renewal:
            self._process.renewal = renewal
        except BaseException as error:  # SystemExit too: it is told, and does not trap
            self._end(error=error)
        else:
            self._waits_for = future
            future._wake.append(lambda: self._process.ready.append(self._step))

    def cancel(self, reason="Nobody waits for it"):
        """Raises `Cancelled` in it, where it waits."""
        if self.done:
            return
        if self._waits_for is not None:
            self._waits_for.cancel(reason)
        else:
            self._cancel = Cancelled(reason)


class Receiver(Future):
    def __init__(self, process, topic, sender):
        super().__init__()
        self._process, self.topic, self.sender = process, topic, sender
        process.receivers.append(self)
        process.deliver()

    def takes(self, message):
        if self.topic is None:
            topic = not message.topic.startswith("wfhost.")
        else:
            topic = message.topic == self.topic
        return topic and (self.sender is None or message.sender == self.sender)

    def cancel(self, reason="Nobody waits for it"):
        if self in self._process.receivers:
            self._process.receivers.remove(self)
        super().cancel(reason)


class Renewal(BaseException):
    """Ends the process, which goes on as a fresh one."""

    def __init__(self, entry, input):
        super().__init__()
        self.entry, self.input = entry, input


class Sent:
    """A message on its way. `refusal` says why it was not delivered: one step later."""

    refusal = None


class Process:
    """One guest between its steps."""

    def __init__(self, host):
        self.host = host
        self.next_tag = host.whoami()[2]
        self.commands, self.ready = [], deque()
        self.pending, self.exits = {}, {}
        self.sent, self.sent_before = {}, {}
        self.inbox, self.receivers = [], []
        self.main = self.renewal = None

    def command(self, *action):
        tag = self.next_tag
        self.next_tag += 1
        self.commands.append((tag, action))
        return tag

    def ask(self, *action, of=Answer):
        answer = of(self, self.command(*action))
        self.pending[answer.tag] = answer
        return answer

    def exit(self, tag):
        self.exits[tag] = Future()
        return self.exits[tag]

    def send(self, *action):
        sent = Sent()
        self.sent[self.command(*action)] = sent
        return sent

    def deliver(self):
        for receiver in list(self.receivers):
            for message in self.inbox:
                if receiver.takes(message):
                    self.inbox.remove(message)
                    self.receivers.remove(receiver)
                    receiver._end(message)
                    break

    def step(self, events):
        """Takes a batch of events, runs all that can run, and returns status and commands."""
        self.sent, self.sent_before = {}, self.sent
        for event in events:
            getattr(self, "_" + event[0])(*event[1:])
        self.deliver()
        while self.ready and self.renewal is None and not self.main.done:
            self.ready.popleft()()
        commands, self.commands = self.commands, []
        return self._status(), commands

    def _status(self):
        if self.renewal is not None:
            return "renew", self.renewal.entry, self.renewal.input
        if self.main.done:
            return ("complete", self.main._value) if self.main._error is None else ("failed", self.main._error)
        if self.receivers:
            return ("idle",)
        if not self.pending and not self.exits:
            return "failed", Problem("never-ends", "The guest waits for something that nothing will do")
        return ("blocked",)

    def _completed(self, tag, value, problem):
        answer = self.pending.pop(tag, None)
        if answer is not None:
            answer._end(value, problem)
        elif problem is not None and tag in self.sent_before:
            self.sent_before[tag].refusal = problem

    def _message(self, message):
        self.inbox.append(message)

    def _exited(self, tag, exit):
        future = self.exits.pop(tag, None)
        if future is not None:
            future._end(exit)

    def _cancel(self, reason):
        for future in [*self.pending.values(), *self.receivers]:
            future.cancel(reason)
