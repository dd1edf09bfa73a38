"""Problems: what a guest fails with, and what a call, a child or a command raises."""

from __future__ import annotations

import types
from typing import Any

#: Lines of the innermost calls that a problem names. Arbitrary.
_STACK_MAX = 50
_LIBRARY = (types.__file__ or "").replace("\\", "/").rpartition("/")[0] + "/"


class Problem(Exception):
    """Why something failed (RFC 9457). `cls` is `definite` (it did not happen, and trying
    again would not help), `retryable` or `uncertain`; `retry_after` is in seconds, `data` a dictionary."""

    def __init__(
        self, kind: str, title: str | None = None, *, status: int = 0, detail: str | None = None,
        cls: str = "definite", retry_after: float | None = None, data: dict[str, Any] | None = None,
    ) -> None:
        self.kind, self.title, self.status, self.detail = kind, title or kind, status, detail
        self.cls, self.retry_after, self.data = cls, retry_after, data
        super().__init__(self.title)

    def __str__(self) -> str:
        return f"{self.title} ({self.kind})" + (f": {self.detail}" if self.detail else "")


class Cancelled(BaseException):
    """The guest was cancelled, or what it waits for. `except Exception` does not catch it."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason
        super().__init__(reason)


def of_exception(error: BaseException) -> Problem:
    """Any exception as a problem, with the place where it was raised."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, Cancelled):
        return Problem("cancelled", "Cancelled", detail=error.reason)
    try:
        text = str(error)
    except Exception:
        text = "it cannot be shown"
    title = f"{type(error).__name__}: {text}" if text else type(error).__name__
    found = []
    at = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        path = code.co_filename
        if path.replace("\\", "/").rsplit("/", 2)[-2:-1] != ["wfhost"]:
            found.append((code, path, at.tb_lineno, at.tb_lasti // 2))
        at = at.tb_next
    stack = [(code.co_name, path, line, _column(code, index)) for code, path, line, index in found[-_STACK_MAX:]]
    if not stack:
        return Problem("exception", title)
    own = [place for place in stack if not place[1].replace("\\", "/").startswith(_LIBRARY)]
    _, path, line, column = (own or stack)[-1]
    data = {
        "at": {"path": path, "line": line, "column": column},
        "stack": [f"{name} ({path}:{line}:{column})" for name, path, line, column in reversed(stack)],
    }
    return Problem("exception", title, detail=f"{path}:{line}:{column}", data=data)


def _column(code: Any, index: int) -> int:
    for number, position in enumerate(code.co_positions()):
        if number == index:
            return (position[2] or 0) + 1
    return 1
