"""Suggestions for misspelt words, as the last part of an error message."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches

_hints_left: ContextVar[list[int] | None] = ContextVar("hints left", default=None)
_FEW = 30
_ELSEWHERE = {
    "random": "uniform",
    "fedadam": "{kind: fedavg, server: {kind: adam}}",
    "fedavgm": "{kind: fedavg, server: {kind: momentum}}",
    "fedsgd": "fedavg",
    "softmax": "softmax_regression",
    "logistic": "softmax_regression",
    "always_on": "always",
}
"""What others call by another name; what is in braces is an optimizer."""


@contextmanager
def few_hints() -> Iterator[None]:
    """Let this module give 30 hints at most while the block runs: each takes a while, and nobody reads hundreds."""
    token = _hints_left.set([_FEW])
    try:
        yield
    finally:
        _hints_left.reset(token)


def did_you_mean(word: object, choices: Iterable[str], *, or_known: bool = False) -> str:
    """Return ``; did you mean 'x'?`` for the closest known word.

    Where none is close: nothing or, with `or_known`, ``; known are a, b and c``.
    """
    left = _hints_left.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            return ""
    names = list(choices)
    meant = _ELSEWHERE.get(str(word).lower().replace("-", "_"), "")
    if meant in names or (meant[:1] == "{" and "fedavg" in names):
        return f"; did you mean {meant}?" if meant[0] == "{" else f"; did you mean {meant!r}?"
    close = get_close_matches(str(word), names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(sorted(names))}" if or_known and names else ""
