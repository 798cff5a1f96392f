"""Clients held out: they have data as devices have, are no devices, and say how well a model serves others."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.problems.problem import ByClient, Problem
from fedsim.learning.trajectory import End

_FORWARDED = ("select", "samples", "losses", "descend", "affine", "optimum", "solve")


class First:
    """The first N clients of a problem, as a problem; its evaluation and its optimum are of all clients of `whole`."""

    def __init__(self, whole: Problem, clients: int) -> None:
        self.whole, self.clients, self.dimension = whole, clients, whole.dimension
        self.initial, self.gradients, self.evaluate = whole.initial, whole.gradients, whole.evaluate
        self._more = whole.clients - clients

    def _by_client(self, model: Floats) -> Mapping[str, Floats]:
        return {name: values[: self.clients] for name, values in self.whole.by_client(model).items()}  # type: ignore[attr-defined]

    def _rest(self, weights: Floats, scales: Floats, *, local_steps: int | Ints, step_size: float) -> Floats:
        steps = np.pad(local_steps, (0, self._more), "edge") if isinstance(local_steps, np.ndarray) else local_steps
        all_weights, all_scales = np.pad(weights, (0, self._more)), np.pad(scales, (0, self._more), "edge")
        return self.whole.rest(all_weights, all_scales, local_steps=steps, step_size=step_size)  # type: ignore


def first_clients(whole: Problem, clients: int) -> Problem:
    """Return the first N clients of a problem as one that has the optional members of the whole."""

    def forwarded(name: str) -> property:
        return property(lambda self: getattr(self.whole, name))

    members: dict[str, Any] = {name: forwarded(name) for name in _FORWARDED if hasattr(whole, name)}
    members |= {name: getattr(First, f"_{name}") for name in ("by_client", "rest") if hasattr(whole, name)}
    if getattr(whole, "counts", None) is not None:
        members["counts"] = property(lambda self: self.whole.counts[: self.clients])
    made: Problem = type("FirstClients", (First,), members)(whole, clients)
    return made


def places_of(held_out: int, clients: int) -> Ints:
    """Return the device (H,) whose group, time zone, speed and availability each client that is held out shares."""
    return (2 * np.arange(held_out) + 1) * clients // (2 * held_out)


def generalisation(problem: Problem, ends: Mapping[str, End], groups: Ints, names: Sequence[str]) -> dict[str, float]:
    """Return the figures of each optimizer's mean model, if it is finite, for the clients held out and all others.

    The gap is the mean of those held out less that of the devices, with its 95 % interval by Welch's t, in which both
    are drawn from all clients that there might be. `groups`, (N,), are places in the `names`. {} if none is held out.
    """
    figures = dict[str, float]()
    if not isinstance(problem, First) or not isinstance(problem.whole, ByClient):
        return figures
    groups = groups[places_of(problem.whole.clients - problem.clients, problem.clients)]
    for optimizer, end in ends.items():
        if not np.isfinite(end.average).all():
            continue
        for what, values in problem.whole.by_client(end.average).items():
            at, devices, others = f"learning.{optimizer}.{what}", values[: problem.clients], values[problem.clients :]
            figures[f"{at}_of_devices"], figures[f"{at}_of_held_out"] = float(devices.mean()), float(others.mean())
            gap = figures[f"{at}_gap"] = float(others.mean() - devices.mean())
            if min(len(devices), len(others)) > 1:
                parts = np.array([each.var(ddof=1) / len(each) for each in (devices, others)])
                squares = (parts**2 / (np.array([len(devices), len(others)]) - 1)).sum()
                freedom = parts.sum() ** 2 / squares if squares else np.inf
                margin = float(stats.t.ppf(0.975, freedom) * np.sqrt(parts.sum()))
                figures |= {f"{at}_gap_low": gap - margin, f"{at}_gap_high": gap + margin}
            means = {name: others[groups == place] for place, name in enumerate(names)} if len(names) > 1 else {}
            figures |= {
                f"{at}_of_held_out_group_{name}": float(each.mean()) for name, each in means.items() if len(each)
            }
    return figures
