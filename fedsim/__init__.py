"""An event-driven simulator of participation in cross-device federated learning.

>>> from fedsim import Scenario, simulate
>>> result = simulate(Scenario.load("scenarios/paper/synthetic.fedsim.yaml", ["stop.rounds=200"]))
>>> len(result.rounds), result.metrics["participation.gap.min"]
(200, 5.0)

All that is public is here, and told in ``docs/api.md``.
"""

import os
import sys

# ruff: noqa: E402
# `python -m fedsim` has put the working folder first on the path: from there no module is imported and no plug-in is
# known, unless fedsim itself lies there.
_AS_PROGRAM = sys.argv[:1] == ["-m"] and "fedsim" in sys.orig_argv and not sys.flags.safe_path
if _AS_PROGRAM and os.path.dirname(os.path.dirname(__file__)) != sys.path[0]:  # noqa: PTH120
    del sys.path[0]

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from fedsim._version import __version__

if TYPE_CHECKING:
    from fedsim.common.errors import (
        ChainError,
        FedsimError,
        PluginError,
        RunError,
        ScenarioError,
        StalledError,
        SweepError,
    )
    from fedsim.learning.failures import LearningError
    from fedsim.run.chain import participation_theory
    from fedsim.run.citation import citation
    from fedsim.run.live import live
    from fedsim.run.load import load
    from fedsim.run.privacy import privacy_guarantees
    from fedsim.run.run import Result
    from fedsim.run.simulate import simulate
    from fedsim.scenario import Scenario
    from fedsim.trials.compare import compare
    from fedsim.trials.sweep import sweep

__all__ = [
    "ChainError",
    "FedsimError",
    "LearningError",
    "PluginError",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "StalledError",
    "SweepError",
    "__version__",
    "citation",
    "compare",
    "live",
    "load",
    "participation_theory",
    "privacy_guarantees",
    "register",
    "simulate",
    "sweep",
]

_HOMES = {
    "LearningError": "fedsim.learning.failures",
    "Result": "fedsim.run.run",
    "Scenario": "fedsim.scenario",
    "citation": "fedsim.run.citation",
    "compare": "fedsim.trials.compare",
    "live": "fedsim.run.live",
    "load": "fedsim.run.load",
    "participation_theory": "fedsim.run.chain",
    "privacy_guarantees": "fedsim.run.privacy",
    "simulate": "fedsim.run.simulate",
    "sweep": "fedsim.trials.sweep",
}
_OLD = {"chain": ("participation_theory", "Answers"), "promises": ("privacy_guarantees", "Guarantees")}
"""What functions of 0.2 are called now, and the lists that they always returned."""
_T = TypeVar("_T", bound=type)


def register(role: str, name: str) -> Callable[[_T], _T]:
    """Return a decorator that makes a class known by a name in this process: ``kind: name`` then means it.

    Parameters
    ----------
    role
        What it is: ``selection law``, ``matching policy``, ``availability model``, ``law`` (of a weight, a speed or a
        length of time), ``metric``, ``chart``, ``optimizer``, ``problem``, ``server update`` or ``privacy mechanism``.
    name
        What scenarios call it.

    Raises
    ------
    ValueError
        If there is no such role; where a class is decorated, if its name is taken or holds a colon.
    PluginError
        Where a class is decorated that lacks what the role needs.

    >>> @register("law", "always_two")
    ... class AlwaysTwo:
    ...     def quantile(self, p):
    ...         return 0 * p + 2
    """
    from fedsim.scenario.roles import ROLES, registry_of

    if role not in ROLES:
        raise ValueError(f"{role!r} is not something that can be registered; known are {', '.join(sorted(ROLES))}")
    if not isinstance(name, str):
        raise TypeError(f"name must be text, not {name!r}")
    decorator: Callable[[_T], _T] = registry_of(role).register(name)
    return decorator


def _old(name: str) -> Callable[..., object]:
    from fedsim.common.renamed import warn_of

    new, listed = _OLD[name]
    home = import_module(_HOMES[new])
    warn_of(f"fedsim.{name}", f"fedsim.{new}, which gives one answer where one thing is asked", level=4)

    def called(*args: object, **given: object) -> object:
        answer = getattr(home, new)(*args, **given)
        return answer if isinstance(answer, list) else getattr(home, listed)([answer])

    return called


def __getattr__(name: str) -> object:
    if name in _OLD:
        return _old(name)
    # Imported when first used: `fedsim --help` should not wait for numpy, polars and pydantic.
    if name not in __all__:
        raise AttributeError(f"module 'fedsim' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "fedsim.common.errors")), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__file__", "__name__", "__path__"])
