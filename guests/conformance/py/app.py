"""The conformance guest in Python, on the bare bindings. What it does is written in ../README.md.

What is set on `self` is lost between calls, so the state is a module's. Only `Err` becomes the error result of init; any other exception traps.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import host
from wit_world.imports import types as t

COUNT_MAX = 1000
MICROS_MAX = 2**53 - 1


class State:
    """What init keeps; the lists and counts are those of `concurrent` and `spawn`."""

    def __init__(self, entry, data):
        self.entry = entry
        self.data = data
        self.first = host.whoami().next_tag
        self.started = False
        self.left = data
        self.results = [None] * data if entry == "spawn" else []


state = None


def text(value):
    return t.Payload_Json(value)


def problem(kind, title, detail=None):
    return t.Problem(kind, title, 0, detail, t.ProblemClass.DEFINITE, None, None)


def complete(output, *actions):
    return t.Outcome(t.Status_Complete(output), commands(actions))


def failed(with_problem):
    return t.Outcome(t.Status_Failed(with_problem), [])


def commands(actions):
    return [t.Command(state.first + i, action) for i, action in enumerate(actions)]


def blocked(*actions):
    return t.Outcome(t.Status_Blocked(), commands(actions))


def idle(*actions):
    return t.Outcome(t.Status_Idle(), commands(actions))


def spawn(entry, value):
    return t.Action_Spawn(t.Spawn(None, entry, text(value), None, False, False, None))


def send(to, topic):
    return t.Action_Send(t.Send(to, topic, text(f'"{topic}"')))


def members(payload, *names):
    """The members of a JSON object, if they are exactly these."""
    if not isinstance(payload, t.Payload_Json):
        return None
    try:
        value = json.loads(payload.value)
    except ValueError:
        return None
    return value if isinstance(value, dict) and tuple(value) == names else None


def whole(payload, name, most):
    value = (members(payload, name) or {}).get(name)
    return value if type(value) is int and 0 <= value <= most else None


def call_of(payload):
    value = members(payload, "handler", "args")
    return value if value and isinstance(value["handler"], str) else None


def anything(_):
    return ()


# What init keeps of the input; None if it does not fit.
INPUTS = {
    "echo": lambda payload: payload,
    "sleep": lambda payload: whole(payload, "micros", MICROS_MAX),
    "call": call_of,
    "concurrent": lambda payload: whole(payload, "n", COUNT_MAX),
    "spawn": lambda payload: whole(payload, "n", COUNT_MAX),
    "message": anything,
    "ponger": anything,
    "cancel": anything,
    "failure": anything,
    "imports": anything,
}


def start_call():
    args = text(json.dumps(state.data["args"], separators=(",", ":"), ensure_ascii=False))
    return blocked(t.Action_Call(t.Call(state.data["handler"], args, None, None)))


def start_concurrent():
    if state.left == 0:
        return complete(text("[]"))
    return blocked(*(t.Action_Sleep(n * 1000) for n in range(state.left, 0, -1)))


def start_spawn():
    if state.left == 0:
        return complete(text("[]"))
    return blocked(*(spawn("echo", str(n)) for n in range(1, state.left + 1)))


def start_failure():
    asked = problem("conformance-failure", "The guest was asked to fail", "as asked")
    asked.status = 503
    asked.class_ = t.ProblemClass.RETRYABLE
    asked.retry_after = 250_000
    asked.data = '{"asked":true}'
    return failed(asked)


def start_imports():
    host.log(host.Level.INFO, "conformance", '{"answer":42}')
    me = host.whoami()
    random = host.random(8).hex()
    clock = "true" if host.now() != 0 else "false"
    return complete(text(f'{{"pid":{me.pid},"next-tag":{me.next_tag},"random":"{random}","clock":{clock}}}'))


# The first step of each entry but ponger.
STARTS = {
    "echo": lambda: complete(state.data),
    "sleep": lambda: blocked(t.Action_Sleep(state.data)),
    "call": start_call,
    "concurrent": start_concurrent,
    "spawn": start_spawn,
    "message": lambda: idle(spawn("ponger", "null"), send(t.Target_Child(state.first), "ping")),
    "cancel": lambda: blocked(t.Action_Sleep(3_600_000_000), t.Action_Cancel(state.first)),
    "failure": start_failure,
    "imports": start_imports,
}


def hear(event):
    """The outcome that an event ends the process with, if any."""
    match event:
        case t.Event_Completed(completion):
            return answered(completion.tag, completion.answer)
        case t.Event_Message(message):
            return received(message)
        case t.Event_Cancel(cancellation):
            return failed(problem("cancelled", "The guest was cancelled", cancellation.reason))
    return None


def answered(tag, answer):
    index = tag - state.first
    if state.entry == "cancel":
        if index != 0:
            return None
        if isinstance(answer, Err):
            return complete(text(f'"{answer.value.kind}"'))
        return failed(problem("not-cancelled", "The sleep was not cancelled"))
    if isinstance(answer, Err):
        return failed(answer.value)
    match state.entry:
        case "sleep":
            return complete(text("null"))
        case "call":
            return complete(answer.value)
        case "concurrent":
            state.results.append(str(tag))
        case "spawn":
            if not isinstance(answer.value, t.Payload_Json) or index >= len(state.results):
                return None
            state.results[index] = answer.value.value
        case _:
            return None
    state.left -= 1
    return complete(text("[" + ",".join(state.results) + "]")) if state.left == 0 else None


def received(message):
    if state.entry == "message" and message.topic == "pong":
        return complete(message.body)
    if state.entry == "ponger" and message.topic == "ping" and isinstance(message.sender, t.Sender_Process):
        return complete(text("null"), send(t.Target_Process(message.sender.value), "pong"))
    return None


class Guest(exports.Guest):
    def init(self, entry, input):
        global state
        if entry not in INPUTS:
            raise Err(problem("unknown-entry", "The component has no such entry", entry))
        data = INPUTS[entry](input)
        if data is None:
            raise Err(problem("bad-input", "The input does not fit the entry"))
        state = State(entry, data)

    def step(self, events):
        begins = not state.started
        state.started = True
        if begins and state.entry != "ponger":
            return STARTS[state.entry]()
        for event in events:
            ended = hear(event)
            if ended:
                return ended
        return idle() if state.entry in ("message", "ponger") else blocked()

    def close(self):
        pass
