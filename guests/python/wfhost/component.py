"""The contract, by the bindings of componentize-py: `Guest` and `Describe` are its exports."""

import json
import sys

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import host as imports
from wit_world.imports import types as t

import wfhost

from . import Exit, Message, Sender, inputs, world
from .problem import Problem, of_exception

_CLASSES = {"definite": t.ProblemClass.DEFINITE, "retryable": t.ProblemClass.RETRYABLE, "uncertain": t.ProblemClass.UNCERTAIN}
_NAMES = {of: name for name, of in _CLASSES.items()}
_process = None


def _payload(value):
    if isinstance(value, (bytes, bytearray)):
        return t.Payload_Bytes(bytes(value))
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if not text.isascii():
        text.encode()  # half a surrogate pair is refused here
    return t.Payload_Json(text)


def _value(payload):
    return json.loads(payload.value) if isinstance(payload, t.Payload_Json) else payload.value


def _problem(of):
    return Problem(
        of.kind, of.title, status=of.status, detail=of.detail, cls=_NAMES[of.class_],
        retry_after=None if of.retry_after is None else of.retry_after / 1_000_000,
        data=None if of.data is None else json.loads(of.data),
    )


def _wire(error):
    of = of_exception(error)
    try:
        return _written(of)
    except Exception as wrong:
        return _written(Problem("exception", of.title, detail=f"a field of the problem is wrong: {wrong}"))


def _written(of):
    """A problem for the contract, which would trap at what does not fit."""
    if not 0 <= int(of.status or 0) < 1000:
        raise ValueError(f"the status is {of.status}")
    if of.cls not in _CLASSES:
        raise ValueError(f"the class is {of.cls!r}")
    data = None if of.data is None else json.dumps(of.data, allow_nan=False)
    after = None if of.retry_after is None else max(0, round(of.retry_after * 1_000_000))
    detail = None if of.detail is None else _clean(of.detail)
    return t.Problem(_clean(of.kind), _clean(of.title), int(of.status or 0), detail, _CLASSES[of.cls], after, data)


def _clean(text):
    """Text without halves of surrogate pairs, which cannot be handed on."""
    text = str(text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class _Host:
    """The imports."""

    payload = staticmethod(_payload)

    def log(self, level, text, fields):
        try:
            fields = None if fields is None else json.dumps(fields, default=repr, allow_nan=False)
        except ValueError:
            fields = json.dumps({name: repr(value) for name, value in fields.items()})
        imports.log(imports.Level[level.upper()], _clean(text), fields)

    def whoami(self):
        me = imports.whoami()
        return me.run, me.pid, me.next_tag

    def now(self):
        return imports.now()

    def random(self, count):
        return imports.random(count)


class _Lines:
    """What is printed becomes log lines."""

    def __init__(self, level):
        self.level, self.rest = level, ""

    def write(self, text):
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            imports.log(self.level, _clean(line), None)

    def flush(self):
        if self.rest:
            self.write("\n")


def _quiet(unraisable):
    imports.log(imports.Level.WARN, _clean(f"ignored: {unraisable.exc_value!r}"), None)


def _target(of):
    kind, id = of
    if kind == "name":
        return t.Target_Name(id)
    return t.Target_Child(id) if kind == "child" else t.Target_Process(id)


def _action(name, *args):
    match name:
        case "sleep":
            return t.Action_Sleep(*args)
        case "call":
            handler, value, timeout, key = args
            return t.Action_Call(t.Call(handler, value, timeout, key))
        case "spawn":
            component, entry, value, name, link, detached, narrow = args
            narrow = None if narrow is None else json.dumps(narrow)
            return t.Action_Spawn(t.Spawn(component, entry, value, name, link, detached, narrow))
        case "send":
            to, topic, body = args
            return t.Action_Send(t.Send(_target(to), topic, body))
        case "expose":
            query, value = args
            return t.Action_Expose(t.Expose(query, value))
        case "cancel":
            return t.Action_Cancel(*args)
        case "register":
            return t.Action_Register(*args)
    return {"stop": t.Action_Stop, "monitor": t.Action_Monitor, "link": t.Action_Link, "unlink": t.Action_Unlink}[name](_target(*args))


_SENDERS = {t.Sender_Child: "child", t.Sender_Process: "process", t.Sender_Call: "call", t.Sender_Outside: "outside"}


def _event(event):
    of = event.value
    if isinstance(event, t.Event_Completed):
        if isinstance(of.answer, Err):
            return "completed", of.tag, None, _problem(of.answer.value)
        return "completed", of.tag, _value(of.answer.value), None
    if isinstance(event, t.Event_Message):
        sender = Sender(_SENDERS[type(of.sender)], of.sender.value)
        return "message", Message(sender, of.topic, _value(of.body))
    if isinstance(event, t.Event_Exited):
        ending = of.ending
        if isinstance(ending, t.Ending_Failed):
            return "exited", of.by, Exit(of.pid, "failed", _problem(ending.value))
        name = "completed" if isinstance(ending, t.Ending_Completed) else "cancelled"
        return "exited", of.by, Exit(of.pid, name, None)
    return "cancel", of.reason


def _status(kind, *args):
    match kind:
        case "complete":
            return t.Status_Complete(_payload(*args))
        case "failed":
            return t.Status_Failed(_wire(*args))
        case "renew":
            entry, input = args
            return t.Status_Renew(t.Renewal(entry, input))
    return t.Status_Idle() if kind == "idle" else t.Status_Blocked()


class Guest(exports.Guest):
    def init(self, entry, input):
        global _process
        sys.stdout, sys.stderr = _Lines(imports.Level.INFO), _Lines(imports.Level.WARN)
        sys.unraisablehook = _quiet
        try:
            world.begin()
            _process = wfhost.begin(_Host(), entry, _value(input))
        except BaseException as error:
            raise Err(_wire(error)) from None

    def step(self, events):
        try:
            status, commands = _process.step([_event(event) for event in events])
            if status[0] in ("complete", "failed", "renew"):
                sys.stdout.flush()
                sys.stderr.flush()
            commands = [t.Command(tag, _action(*action)) for tag, action in commands]
            return t.Outcome(_status(*status), commands)
        except BaseException as error:
            # A value that has no JSON: at the place where it was handed on nothing was known of it.
            return t.Outcome(t.Status_Failed(_wire(error)), [])

    def close(self):
        pass


class Describe(exports.Describe):
    def describe(self):
        entries = {name: inputs.described(function) for name, function in wfhost._entries.items()}
        return json.dumps({"entries": entries}, default=repr)
