"""The SDK, stepped natively: python3 -m pytest guests/python/tests"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "suite" / "python")]

import suite  # noqa: E402, F401 its entries
from wfhost import Problem, inputs  # noqa: E402
from wfhost.testing import Guest  # noqa: E402


def test_an_order():
    guest = Guest("run", {"ids": [1, 2]})
    assert guest.calls() == [("price", {"id": 1}), ("price", {"id": 2})]
    guest.answer("call", 10).answer("call", 20).answer("sleep").answer("spawn", 30)
    assert guest.logged == [("info", "total is 30", None)]
    assert guest.answer("call", {"by": "Ann"}).output == {"total": 30, "by": "Ann"}


def test_a_failure_ends_what_gathers():
    guest = Guest("parallel", [{"handler": "a", "args": 1}, {"handler": "b", "args": 2}])
    tag = guest.open[1][0]
    guest.step(("completed", tag, None, Problem("no", "No", status=404)))
    assert guest.problem.status == 404
    assert guest.issued[-1][1] == ("cancel", 1), "the other call is given up"


def test_the_loser_of_a_race_is_cancelled():
    guest = Guest("race", {"ms": 1}).answer("sleep")
    assert [action for _, action in guest.issued if action[0] == "cancel"] == [("cancel", 2)]
    assert guest.answer("call").output == "sleep"


def test_a_cancel_reaches_finally_which_may_call():
    guest = Guest("cleanup").cancel("enough")
    assert guest.calls() == [("note", "cleanup")]
    assert guest.answer("call").problem.kind == "cancelled"


def test_messages_wait_for_who_wants_them():
    guest = Guest("inbox").answer("register")
    for topic, body in [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("c", 5), ("wfhost.news", 0), ("c", 6)]:
        guest.message(topic, body)
    assert guest.answer("spawn").output == [2, 4, 1, 3, 5, 6]


def test_an_exception_has_its_place():
    problem = Guest("crash").answer("sleep").problem
    assert (problem.kind, problem.title) == ("exception", "ValueError: no good")
    path, line, column = problem.data["at"].values()
    assert Path(path).name == "suite.py" and "ValueError" in Path(path).read_text().splitlines()[line - 1][column - 1 :]


@pytest.mark.parametrize("input", ["x", 1.5, True, None, [1]])
def test_an_input_that_does_not_fit(input):
    with pytest.raises(Problem) as raised:
        Guest("twice", input)
    assert raised.value.kind == "bad-input"


def test_schemas_follow_from_annotations():
    def entry(numbers: list[int | None], other: str = ""):
        """Adds."""

    item = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert inputs.described(entry) == {"description": "Adds.", "input": {"type": "array", "items": item}}


def test_what_nothing_ends_is_told():
    assert Guest("never").problem.kind == "never-ends"
    assert Guest("renew", {"left": 1, "seen": []}).answer("sleep").status == ("renew", "renew", {"left": 0, "seen": [1]})
