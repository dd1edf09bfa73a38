"""The conformance suite in Python. ../README.md says what each entry does."""

from datetime import datetime, timedelta, timezone

import order  # with its entries, `run` and `total`
import wfhost
from wfhost import Problem, entry, gather, receive, register, send, sleep, spawn


def begin(what):
    timeout = what.get("timeout")
    return wfhost.call(what["handler"], what["args"], timeout=timeout and timeout / 1000, key=what.get("key"))


# Values and the host


@entry
def echo(input):
    return input


@entry
async def clock(input):
    before, again = wfhost.now(), wfhost.now()
    await sleep(input["ms"] / 1000)
    waited = wfhost.now() - before >= timedelta(milliseconds=input["ms"])
    return {"still": before == again, "waited": waited, "recent": before > datetime(2025, 1, 1, tzinfo=timezone.utc)}


@entry
async def sleeps(all: list[int]):
    ends = []

    async def one(index, ms):
        await sleep(ms / 1000)
        ends.append(index)

    await gather(*[one(index, ms) for index, ms in enumerate(all)])
    return ends


@entry
def twice(n: int):
    return 2 * n


@entry
def own():
    data = {"sku": "a1", "left": 0}
    raise Problem("out-of-stock", "Sold out", status=409, detail="sku a1", cls="retryable", retry_after=0.25, data=data)


def fails():
    raise ValueError("no good")


@entry
async def crash():
    await sleep(0.001)
    fails()


@entry
async def progress():
    wfhost.expose("progress", {"done": 0})
    await wfhost.signal("go")
    wfhost.expose("progress", {"done": 1})
    await wfhost.signal("end")
    return "ok"


@entry
def logs():
    for level in ["trace", "debug", "info", "warn", "error"]:
        wfhost.log("a line", level, n=1)


@entry
async def random():
    one, other = wfhost.random_bytes(16), wfhost.random_bytes(16)
    await wfhost.call("note", [one.hex(), other.hex()])
    return {"length": len(one), "differ": one != other}


@entry
async def renew(state):
    await sleep(0.001)
    if state["left"] == 0:
        return state["seen"]
    wfhost.renew(renew, {"left": state["left"] - 1, "seen": [*state["seen"], state["left"]]})


@entry
async def never():
    await wfhost.core.Future()


@entry
def nested(input):
    value = []
    for _ in range(1, input["depth"]):
        value = [value]
    return value


@entry
async def reverse():
    return await spawn("pass", (await wfhost.call("bytes"))[::-1])


@entry(name="pass")
def pass_on(input: bytes):
    return input


# Calls, races and signals


@entry
async def call(what):
    return await begin(what)


@entry
async def caught(what):
    try:
        return {"answer": await begin(what)}
    except Problem as problem:
        retry = problem.retry_after and round(problem.retry_after * 1000)
        return {
            "kind": problem.kind, "title": problem.title, "status": problem.status, "detail": problem.detail,
            "class": problem.cls, "retry": retry, "data": problem.data,
        }


@entry
async def parallel(calls: list):
    finished = []

    async def one(index, answer):
        value = await answer
        finished.append(index)
        return value

    outputs = await gather(*[one(index, answer) for index, answer in enumerate([begin(what) for what in calls])])
    return {"outputs": outputs, "finished": finished}


@entry
async def settle(calls: list):
    results = await wfhost.settle(*[begin(what) for what in calls])
    return [{"problem": one.kind} if isinstance(one, Problem) else {"value": one} for one in results]


@entry
async def limited(input):
    return await wfhost.map_all(
        input["limit"], range(input["items"]), lambda i: wfhost.call("delay", {"ms": 20, "value": i})
    )


@entry
async def loop(input):
    sum = 0
    for i in range(1, input["n"] + 1):
        answer = await wfhost.call(input["handler"], {"value": i})
        sum += answer["value"] if isinstance(answer, dict) else answer
    return sum


@entry
async def race(input):
    index, _ = await wfhost.select(sleep(input["ms"] / 1000), wfhost.call("hang", "race"))
    await wfhost.signal("go")
    return ["sleep", "call"][index]


@entry
async def revoke():
    answer = wfhost.call("hang", "revoke")
    await sleep(0.02)
    answer.cancel()
    await wfhost.signal("go")
    return "revoked"


@entry
async def first(input):
    index, body = await wfhost.select(*[wfhost.signal(name) for name in input["names"]])
    return {"name": input["names"][index], "body": body}


@entry
async def signal(input):
    timeout = input.get("timeout")
    return await wfhost.signal(input["name"], timeout=timeout and timeout / 1000)


# Children


@entry
async def child(input):
    return await spawn(input["entry"], input.get("input"), component=input.get("component"))


@entry
async def children(input):
    return await gather(*[spawn(twice, i) for i in range(1, input["n"] + 1)])


@entry
async def fib(n: int):
    if n < 2:
        return n
    return sum(await gather(spawn(fib, n - 1), spawn(fib, n - 2)))


@entry
async def stop(input):
    await register("parent")
    child = spawn(input["entry"])
    await receive("ready", child)
    child.stop()
    try:
        return {"output": await child}
    except Problem as problem:
        return {"problem": problem.kind}


async def hang(name):
    send("parent", "ready")
    await wfhost.call("hang", name)


@entry
async def cleanup():
    try:
        await hang("cleanup")
    finally:
        await wfhost.call("note", "cleanup")


@entry
async def stubborn():
    try:
        await hang("stubborn")
    except wfhost.Cancelled:
        return "completed anyway"


@entry
async def deaf():
    try:
        await hang("deaf")
    except wfhost.Cancelled:
        await wfhost.call("note", "deaf")
        await sleep(timedelta(hours=1))


@entry
async def waits():
    return await wfhost.call("hang", "waits")


@entry
async def outlive(input):
    output = await spawn(leaves, input)
    await wfhost.signal("go")
    return output


@entry
async def leaves(input):
    spawn(late, detached=input["detached"])
    await sleep(0.05)
    return "left"


@entry
async def late():
    await wfhost.call("delay", {"ms": 200, "value": None})
    await wfhost.call("note", "late")


@entry
async def linked():
    spawn(own, link=True)
    await wfhost.call("hang", "linked")


@entry
async def monitor(input):
    exit = await wfhost.monitor(spawn(input["entry"], input.get("input")))
    return {"ending": exit.ending, **({"kind": exit.problem.kind} if exit.problem else {})}


@entry
async def deadline(input):
    try:
        await wfhost.timeout(input["ms"] / 1000, spawn(waits))
        ended = "ended"
    except Problem:
        ended = "timed out"
    await wfhost.signal("go")
    return ended


# Messages and names


@entry
async def names():
    await register("parent")
    return {"taken": await spawn(namesake), "hello": (await receive("hello")).body}


@entry
async def namesake():
    try:
        await register("parent")
    except Problem as problem:
        send("parent", "hello", 1)
        return problem.kind


@entry
async def nowhere():
    sent = send("nobody", "hello")
    await sleep(0.02)
    return sent.refusal.kind


@entry
async def inbox():
    await register("parent")
    await spawn(talker)
    return [(await receive(topic)).body for topic in ["b", "b", None, None, None, None]]


@entry
def talker():
    for topic, body in [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6)]:
        send("parent", topic, body)


@entry(name="from")
async def from_each():
    await register("parent")
    x, y = spawn(speaker, "x"), spawn(speaker, "y")
    second = await receive(sender=y)
    return [second.body, (await receive(sender=x)).body]


@entry
def speaker(text: str):
    send("parent", "said", text)


@entry
async def patience(input):
    message = await receive("none", timeout=input["ms"] / 1000)
    return {"got": message and message.body}


@entry
async def pingpong(input):
    child, number = spawn(ponger, input), 0
    for _ in range(input["rounds"]):
        child.send("ping", number)
        number = (await receive("pong")).body
    return number


@entry
async def ponger(input):
    for _ in range(input["rounds"]):
        ping = await receive("ping")
        send(ping.sender, "pong", ping.body + 1)


@entry
async def mailbox():
    await register("mailbox")
    message = await receive("wfhost.signal")
    return {"from": message.sender.id, "body": message.body}
