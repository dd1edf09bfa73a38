"""What coroutines, problems and inputs do, each by a small entry."""

import enum
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NotRequired, Optional, TypedDict

import pytest

import wfhost
from wfhost import Cancelled, Problem, TaskGroup, call, entry, gather, inputs, messages, sleep, spawn, timeout
from wfhost.testing import Guest, Host, run

PACKAGE = Path(wfhost.__file__).parent


@pytest.fixture(autouse=True)
def own_entries(monkeypatch):
    monkeypatch.setattr(wfhost, "_entries", {})
    monkeypatch.setattr(wfhost, "_process", None)


def problem_of(function, *answers):
    entry(function)
    return Guest(function.__name__).problem


# Problems


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError(), BaseException("x")])
def test_whatever_is_raised_is_a_problem(raised):
    def entry_that_raises():
        raise raised

    problem = problem_of(entry_that_raises)
    assert (problem.kind, problem.title.partition(":")[0]) == ("exception", type(raised).__name__)
    assert problem.data["at"]["path"] == __file__


def test_endless_recursion_is_a_problem_with_a_bounded_stack():
    def again():
        return again()

    problem = problem_of(again)
    assert problem.title.startswith("RecursionError") and len(problem.data["stack"]) == 50


def test_an_exception_that_cannot_be_shown():
    class Mute(Exception):
        def __str__(self):
            raise ValueError

    def fails():
        raise Mute

    assert problem_of(fails).title == "Mute: it cannot be shown"


@pytest.mark.parametrize(
    "ask",
    [
        lambda: call(5), lambda: call("http", {1j}), lambda: call("half\ud800"), lambda: sleep("x"), lambda: sleep(float("nan")),
        lambda: spawn(len), lambda: wfhost.send(5, "topic"), lambda: wfhost.log("x", "loud"), lambda: wfhost.expose("q", object()),
        lambda: wfhost.start(5), lambda: wfhost.register(None),
    ],
)
def test_what_no_command_can_be_made_of_is_told_at_its_line(ask):
    async def asks():
        await ask()

    assert problem_of(asks).data["at"]["path"] == __file__


def test_an_output_that_has_no_json():
    def gives():
        return {1, 2}

    assert problem_of(gives).title == "TypeError: Object of type set is not JSON serializable"


def test_what_is_foreign_cannot_be_awaited():
    class Foreign:
        def __await__(self):
            yield 1

    async def waits():
        await Foreign()

    assert "nothing of wfhost" in problem_of(waits).title


def test_outside_an_entry():
    with pytest.raises(RuntimeError, match="only an entry that runs"):
        wfhost.now()


# Cancels and limits


def test_a_cancel_is_not_caught_as_an_exception():
    @entry
    async def works():
        try:
            await sleep(1)
        except Exception:
            return "caught"

    assert Guest("works").cancel("enough").problem.detail == "enough"


def test_a_cancel_reaches_a_task_whose_answer_has_just_come():
    @entry
    async def works():
        async def one():
            await call("a")
            await call("b")

        task = wfhost.create_task(one())
        await call("c")
        task.cancel()
        try:
            await task
        except Cancelled:
            return "cancelled"

    guest = Guest("works")
    tags = {action[1]: tag for tag, action in guest.open}
    guest.step(("completed", tags["c"], None, None), ("completed", tags["a"], None, None))
    assert guest.output == "cancelled"


def test_a_monitor_is_cancelled_too():
    @entry
    async def watches():
        await wfhost.monitor("other")

    assert Guest("watches").cancel().problem.kind == "cancelled"


def test_a_block_with_a_timeout():
    @entry
    async def limited(seconds):
        try:
            async with timeout(5):
                await sleep(seconds)
                return "in time"
        except Problem as problem:
            await sleep(0.1)
            return problem.kind

    assert [run("limited", 1), run("limited", 9)] == ["in time", "timed-out"]
    assert Guest("limited", 1).cancel().problem.kind == "cancelled", "a cancel is no timeout"


def test_a_group_waits_for_its_tasks():
    @entry
    async def works():
        found = []

        async def one(number):
            await sleep(number)
            found.append(number)

        async with TaskGroup() as group:
            for number in [3, 1, 2]:
                group.start(one(number))
        return found

    assert run("works") == [1, 2, 3]


def test_a_failure_cancels_a_group_and_its_block():
    @entry
    async def works():
        async def fails():
            await sleep(1)
            raise Problem("no")

        ended = []

        async def waits():
            try:
                await sleep(100)
            finally:
                ended.append("waits")

        try:
            async with TaskGroup() as group:
                group.start(fails())
                group.start(waits())
                await sleep(50)
                ended.append("block")
        except Problem as problem:
            return [problem.kind, *ended, await call("clock")]

    host = Host({"clock": lambda _: 7})
    assert host.run("works") == ["no", "waits", 7]


def test_a_cancel_in_a_group_is_a_cancel():
    @entry
    async def works():
        async with TaskGroup() as group:
            group.start(sleep(9))

    assert Guest("works").cancel().problem.kind == "cancelled"


def test_settle_does_not_swallow_a_cancel():
    @entry
    async def works():
        await wfhost.settle(sleep(1), sleep(2))
        return "done"

    assert Guest("works").cancel().problem.kind == "cancelled"


def test_gather_with_a_limit():
    @entry
    async def works():
        async def one(number):
            return await call("price", id=number)

        return await gather(*[one(number) for number in range(4)], limit=2)

    guest = Guest("works")
    assert guest.calls() == [("price", {"id": 0}), ("price", {"id": 1})]
    assert run("works", handlers={"price": lambda args: args["id"] * 10}) == [0, 10, 20, 30]


# The fake host


def test_a_host_runs_children_messages_and_signals():
    @entry
    async def parent():
        child = spawn(worker, name="worker")
        exited = child.exited
        child.send("add", 2)
        child.send("add", 3)
        child.send("end")
        return [await child, await wfhost.signal("go"), (await exited).ending]

    @entry
    async def worker():
        sum = 0
        async for message in messages():
            if message.topic == "end":
                return sum
            sum += message.body

    assert run("parent", signals={"go": 1}) == [5, 1, "completed"]


def test_a_host_tells_what_waits_for_ever():
    @entry
    async def waits():
        await wfhost.signal("never")

    with pytest.raises(AssertionError, match="never"):
        run("waits")


def test_values_arrive_as_json_makes_them():
    @entry
    async def sends():
        return await call("echo", (1, 2))

    assert run("sends", handlers={"echo": lambda args: args}) == [1, 2]


# Inputs


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Options(TypedDict):
    size: Size
    note: NotRequired[str]


@dataclass
class Item:
    """One line of an order."""

    id: int
    price: float = 0
    tags: list[str] = field(default_factory=list)
    parts: Optional[list["Item"]] = None

    def __post_init__(self):
        if self.id < 0:
            raise ValueError("the id is negative")


@pytest.mark.parametrize(
    "annotation, input, value",
    [
        (float, 1, 1.0),
        (Literal["a", 1], "a", "a"),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Size, "l", Size.LARGE),
        (Options, {"size": "s", "more": 1}, {"size": Size.SMALL, "more": 1}),
        (Item, {"id": 1, "parts": [{"id": 2}]}, Item(1, parts=[Item(2)])),
        (dict[str, int | None], {"a": None}, {"a": None}),
        (object, [1], [1]),
    ],
)
def test_inputs_that_fit(annotation, input, value):
    def takes(input: annotation):
        pass

    takes.__annotations__["input"] = annotation
    (found,) = inputs.arguments(takes, input)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    "annotation, input, detail",
    [
        (int, True, "input is a boolean, not an integer"),
        (Literal["a", 1], True, "input is a boolean, not 'a' or 1"),
        (tuple[int, str], [1], "input has 1 items, not 2"),
        (Size, "m", "input is a string, not 's' or 'l'"),
        (Options, {}, "input has no member size"),
        (Item, {"id": 1, "tags": ["a", 2]}, "input.tags[1] is an integer, not a string"),
        (Item, {"id": -1}, "input: the id is negative"),
        (int | None, "x", "input is a string, not an integer or null"),
    ],
)
def test_inputs_that_do_not_fit(annotation, input, detail):
    def takes(input):
        pass

    takes.__annotations__["input"] = annotation
    with pytest.raises(Problem) as raised:
        inputs.arguments(takes, input)
    assert (raised.value.kind, raised.value.detail) == ("bad-input", detail)


def test_schemas_of_types_within_themselves():
    schema = inputs.schema(Item)
    assert (schema["description"], schema["required"]) == ("One line of an order.", ["id"])
    assert schema["properties"]["parts"]["anyOf"][0] == {"type": "array", "items": {"type": "object"}}


def test_annotations_that_are_not_there_say_nothing():
    def takes(input: "Missing"):  # noqa: F821
        pass

    assert inputs.arguments(takes, 1) == (1,)


# The package


def test_the_contract_is_that_of_the_repository():
    assert (PACKAGE / "process.wit").read_text() == (PACKAGE.parents[2] / "wit/process.wit").read_text()


def test_the_readme_runs(tmp_path, monkeypatch):
    readme = (PACKAGE.parent / "README.md").read_text()
    program, test = (block.split("```")[0] for block in readme.split("```python\n")[1:3])
    (tmp_path / "order.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "order", raising=False)
    names = {}
    exec(test, names)
    names["test_order"]()
    monkeypatch.delitem(sys.modules, "order")
