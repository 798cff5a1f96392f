"""Old names of the Python interface, which go on working for a while, with a `DeprecationWarning`."""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_R = TypeVar("_R")


def warn_of(old: str, new: str, level: int = 3) -> None:
    """Warn of a name that is going, at the line `level` calls up: by default that of whoever called the caller."""
    warnings.warn(f"fedsim: {old} is now {new}; the old name goes in a later version", DeprecationWarning, level)


def once_called(**old_names: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator of a function whose parameters had other names, each given as ``new="old"``."""

    def decorator(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def called(*args: Any, **given: Any) -> _R:
            for new, old in old_names.items():
                if old in given:
                    warn_of(f"{function.__name__}({old}=)", f"{function.__name__}({new}=)")
                    given[new] = given.pop(old)
            return function(*args, **given)

        return cast("Callable[_P, _R]", called)

    return decorator
