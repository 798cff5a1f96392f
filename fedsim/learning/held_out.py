"""Clients held out: they have data as devices have, are no devices, and say how well a model serves others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.problems.problem import ByClient, Problem
from fedsim.learning.trajectory import End

_FORWARDED = ("samples", "optimum", "solve")
_OF_CLIENTS = ("gradients", "select", "losses", "descend", "affine")


class Devices:
    """Clients (N,) of a problem that are devices, as a problem; its evaluation and optimum are of all of `whole`."""

    def __init__(self, whole: Problem, devices: Ints) -> None:
        self.whole, self.devices, self.clients, self.dimension = whole, devices, len(devices), whole.dimension
        self.initial, self.evaluate = whole.initial, whole.evaluate

    def _by_client(self, model: Floats) -> Mapping[str, Floats]:
        return {name: values[self.devices] for name, values in self.whole.by_client(model).items()}  # type: ignore[attr-defined]

    def _rest(self, weights: Floats, scales: Floats, *, local_steps: int | Ints, step_size: float) -> Floats:
        all_weights, all_scales, steps = np.zeros(self.whole.clients), np.ones(self.whole.clients), local_steps
        all_weights[self.devices], all_scales[self.devices] = weights, scales
        if isinstance(local_steps, np.ndarray):
            steps = np.ones(self.whole.clients, dtype=np.int64)
            steps[self.devices] = local_steps
        return self.whole.rest(all_weights, all_scales, local_steps=steps, step_size=step_size)  # type: ignore


def devices_of(whole: Problem, devices: Ints) -> Problem:
    """Return some clients (N,) of a problem as one that has the optional members of the whole."""

    def forwarded(name: str) -> property:
        return property(lambda self: getattr(self.whole, name))

    def of_clients(name: str) -> Callable[..., Any]:
        return lambda self, clients, *more: getattr(self.whole, name)(self.devices[clients], *more)

    members: dict[str, Any] = {name: forwarded(name) for name in _FORWARDED if hasattr(whole, name)}
    members |= {name: of_clients(name) for name in _OF_CLIENTS if hasattr(whole, name)}
    members |= {name: getattr(Devices, f"_{name}") for name in ("by_client", "rest") if hasattr(whole, name)}
    if getattr(whole, "counts", None) is not None:
        members["counts"] = property(lambda self: self.whole.counts[self.devices])
    made: Problem = type("DevicesOnly", (Devices,), members)(whole, devices)
    return made


def places_of(held_out: int, clients: int) -> Ints:
    """Return the device (H,) whose group, time zone, speed and availability each client that is held out shares."""
    return (2 * np.arange(held_out) + 1) * clients // (2 * held_out)


def among(held_out: int, clients: int) -> Ints:
    """Return for each client (N + H,) of the whole problem its device, or N and more where it is held out.

    Those held out stand next to the device that they are like: in many problems data go by the order of clients.
    """
    return np.argsort(np.concatenate([np.arange(clients), places_of(held_out, clients) + 0.5]), kind="stable")


def generalisation(problem: Problem, ends: Mapping[str, End], groups: Ints, names: Sequence[str]) -> dict[str, float]:
    """Return the figures of each optimizer's mean model, if it is finite, for the clients held out and all others.

    The gap is the mean of those held out less that of the devices, with its 95 % interval by Welch's t, in which both
    are drawn from all clients that there might be. `groups`, (N,), are places in the `names`. {} if none is held out.
    """
    figures = dict[str, float]()
    if not isinstance(problem, Devices) or not isinstance(problem.whole, ByClient):
        return figures
    groups = groups[places_of(problem.whole.clients - problem.clients, problem.clients)]
    rest = np.setdiff1d(np.arange(problem.whole.clients), problem.devices)
    for optimizer, end in ends.items():
        if not np.isfinite(end.average).all():
            continue
        for what, values in problem.whole.by_client(end.average).items():
            at, devices, others = f"learning.{optimizer}.{what}", values[problem.devices], values[rest]
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
