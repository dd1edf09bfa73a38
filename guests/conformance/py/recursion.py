"""How deep Python recurses in a guest's stack. Each entry completes with a number; `endless` does not complete."""

import json
import re
import sys

from wit_world import exports
from wit_world.imports import types as t

entry = None
value = None


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def depth(lists):
    return 1 + depth(lists[0]) if lists else 1


def tree(n):
    return {"left": tree(n - 1), "value": n} if n else None


def total(node):
    return node["value"] + total(node["left"]) if node else 0


class Node:
    """Recursion through the interpreter's own C functions: `repr` calls `__repr__` calls `repr`."""

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"({self.inner!r})"


def dive(level):
    try:
        return dive(level + 1)
    except RecursionError:
        return level


def endless(n):
    return 1 + endless(n + 1)


def nested(n):
    text = "[" * n + "]" * n
    lists = json.loads(text)
    return depth(lists) if json.dumps(lists) == text else -1


def shown(n):
    node = None
    for _ in range(n):
        node = Node(node)
    return len(repr(node))


def limit(n):
    sys.setrecursionlimit(n)
    return dive(0)


def unlimited(n):
    sys.setrecursionlimit(n)
    return endless(0)


entries = {
    # Recursive fib.
    "fib": fib,
    # JSON of that many nested lists, parsed, walked and written again.
    "nested": nested,
    # A tree of that depth, made and walked by recursion.
    "tree": lambda n: total(tree(n)),
    # Objects that are shown by recursion.
    "shown": shown,
    # A regular expression whose groups nest.
    "regex": lambda n: len(re.match("(" * n + "a" + ")" * n, "a").groups()) + 1,
    # Until the language's own error is raised at that limit, and caught: how many calls deep that was.
    "limit": limit,
    # Without a catch, and with a limit beyond what any stack has room for.
    "endless": unlimited,
}


class Guest(exports.Guest):
    def init(self, name, payload):
        global entry, value
        entry, value = entries[name], json.loads(payload.value)

    def step(self, events):
        return t.Outcome(t.Status_Complete(t.Payload_Json(json.dumps(entry(value)))), [])

    def close(self):
        pass
