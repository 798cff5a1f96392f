"""Problems and optimizers by name: mistakes in a scenario's choice, and the object that it means.

How a ``kind`` is found and its options are checked stands in `fedsim.common.registry`. An optimizer's option ``server``
is not an argument of its constructor but names the server update that its direction goes through.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedsim.common.arrays import Floats, Ints
from fedsim.common.registry import Findings, findings_text
from fedsim.learning.failures import LearningError
from fedsim.learning.optimizers import OPTIMIZERS
from fedsim.learning.optimizers.optimizer import Optimizer
from fedsim.learning.problems import PROBLEMS
from fedsim.learning.problems.problem import Problem
from fedsim.learning.server_updates import SERVER_UPDATES, Composed


def problem_size(kind: str, options: Mapping[str, object], clients: int) -> tuple[int, int]:
    """Return about how many bytes a problem's data take, and how many parameters it has; 0 if that is not known.

    A class says so by a static method ``size``, called with the number of clients and the scenario's options. Classes
    of users are not imported for this.
    """
    size: Callable[..., tuple[int, int]] | None = getattr(PROBLEMS.get(kind), "size", None)
    if size is None or PROBLEMS.check(kind, options):
        return 0, 0
    return size(clients, options)


def check_optimizer(kind: str, options: Mapping[str, object]) -> Findings:
    """Return every mistake in a scenario's choice of an optimizer and its server update; see `Registry.check`."""
    arguments, server, choice = _split_server(options)
    findings = OPTIMIZERS.check(kind, arguments)
    if "kind" in choice:
        of_server = SERVER_UPDATES.check(choice.pop("kind"), choice)
        return findings + [(("server", *path), message) for path, message in of_server]
    if server is not None:
        names = ", ".join(sorted(SERVER_UPDATES))
        findings.append((("server",), f"must name a server update, known are {names}, got {server!r}"))
    return findings


def build_problem(
    kind: str,
    options: Mapping[str, object],
    *,
    clients: int,
    seed: int,
    folder: Path = Path(),
    traits: Mapping[str, Any] | None = None,
) -> Problem:
    """Return the problem that a scenario names, for N clients; paths in its options are relative to `folder`.

    `traits` are arrays of shape (N,) by name, for partitions that follow the devices.

    Raises a `LearningError` if an option is wrong, the constructor fails, or it makes no problem for N clients.
    """
    problem = PROBLEMS.build(kind, options, clients=clients, seed=seed, folder=folder, traits=traits)
    if problem.clients != clients:
        raise LearningError(f"problem {kind!r} says that it has {problem.clients!r} clients, not {clients}")
    return problem


def build_optimizer(
    kind: str,
    options: Mapping[str, object],
    *,
    pi: Floats | None = None,
    frequency: Floats | None = None,
    shares: Floats | None = None,
    predicted: Callable[[], Floats] | None = None,
    local_steps: Ints | None = None,
) -> Optimizer:
    """Return the optimizer that a scenario names, with its server update around it.

    `Optimizer` says what `pi` and the others are, for constructors that have such arguments.
    Raises a `LearningError` if `check_optimizer` finds a mistake, or the constructor fails.
    """
    if findings := check_optimizer(kind, options):
        raise LearningError(findings_text(f"optimizer {kind!r}", findings))
    arguments, _, choice = _split_server(options)
    offered = {"pi": pi, "frequency": frequency, "shares": shares, "predicted": predicted, "local_steps": local_steps}
    optimizer = OPTIMIZERS.build(kind, arguments, **offered)
    return Composed(optimizer, SERVER_UPDATES.build(choice.pop("kind"), choice)) if choice else optimizer


def _split_server(options: Mapping[str, object]) -> tuple[dict[str, Any], object, dict[str, Any]]:
    """Return an optimizer's own options, its option ``server``, and that as a mapping (or an empty one)."""
    arguments = dict(options)
    server = arguments.pop("server", None)
    choice = {"kind": server} if isinstance(server, str) else dict(server) if isinstance(server, Mapping) else {}
    return arguments, server, choice
