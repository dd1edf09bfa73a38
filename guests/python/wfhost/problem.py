"""Problems: what a guest fails with, and what a call, a child or a command raises."""


class Problem(Exception):
    """Why something failed (RFC 9457). `cls` is `definite` (it did not happen, and trying
    again would not help), `retryable` or `uncertain`; `retry_after` is in seconds, `data` a dictionary."""

    def __init__(self, kind, title=None, *, status=0, detail=None, cls="definite", retry_after=None, data=None):
        self.kind, self.title, self.status, self.detail = kind, title or kind, status, detail
        self.cls, self.retry_after, self.data = cls, retry_after, data
        super().__init__(self.title)

    def __str__(self):
        return f"{self.title} ({self.kind})" + (f": {self.detail}" if self.detail else "")


class Cancelled(Problem):
    """It was cancelled, or the guest that waits for it."""

    def __init__(self, reason=None):
        super().__init__("cancelled", "Cancelled", detail=reason)


def of_exception(error):
    """Any exception as a problem, with the place where it was raised."""
    if isinstance(error, Problem):
        return error
    text = str(error)
    title = f"{type(error).__name__}: {text}" if text else type(error).__name__
    stack = []
    at = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        positions = list(code.co_positions())
        column = positions[at.tb_lasti // 2][2] if at.tb_lasti // 2 < len(positions) else None
        path = code.co_filename
        if not path.replace("\\", "/").rsplit("/", 2)[-2:-1] == ["wfhost"]:
            stack.append((code.co_name, path, at.tb_lineno, (column or 0) + 1))
        at = at.tb_next
    if not stack:
        return Problem("exception", title)
    _, path, line, column = stack[-1]
    data = {
        "at": {"path": path, "line": line, "column": column},
        "stack": [f"{name} ({path}:{line}:{column})" for name, path, line, column in reversed(stack)],
    }
    return Problem("exception", title, detail=f"{path}:{line}:{column}", data=data)
