"""The key figures of a run, each with what to compare it with."""

from collections.abc import Iterator

import numpy as np

from fedsim.report import methods
from fedsim.report.answer import STUDENT, Tile
from fedsim.report.bias import Seen, bias_of
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, duration, number, percent, percent_within
from fedsim.report.optimizers import references
from fedsim.scenario.server import BufferedServer


def tiles(run: FinishedRun) -> Iterator[Tile]:
    """Pick the key figures; one that the run does not have is left out."""
    yield from _of_bias(run)
    yield from _of_cost(run)
    yield from _of_learning(run)


def _of_bias(run: FinishedRun) -> Iterator[Tile]:
    bias, metric = bias_of(run), run.metrics.get
    if metric("participation.l1_uniform") is None or bias.seen in {Seen.NO_ROUNDS, Seen.NOBODY, Seen.ALONE}:
        return
    error = metric("participation.l1_uniform_se")
    margin = None if error is None else STUDENT * error / 2
    detail = f"equal chances: {percent(bias.misplaced_by_chance)}"
    yield Tile(percent_within(bias.misplaced, margin), "misplaced turns", detail)
    if (theory := metric("participation.l1_uniform_theory")) is not None:
        yield Tile(percent(theory / 2), "misplaced turns, theory")
    if (coverage := metric("participation.coverage")) is not None:
        never = f"{percent(1 - coverage)} never did" if coverage < 1 else ""
        yield Tile(percent(coverage), "of clients took part", never)


def _of_cost(run: FinishedRun) -> Iterator[Tile]:
    metric, server = run.metrics.get, run.scenario.server
    if (waiting := metric("rounds.waiting_share")) is not None and waiting > 0:
        longest = metric("rounds.wait.max")
        yield Tile(percent(waiting), "of the time spent waiting", f"longest {duration(longest)}" if longest else "")
    closed = run.rounds["closed_s"].to_numpy()
    closed = closed[np.isfinite(closed)]
    length = f"{duration(float(closed.max()))} simulated" if len(closed) else ""
    yield Tile(count(len(run.rounds)), f"{run.noun}{'s' if len(run.rounds) != 1 else ''}", length)
    selected = ""
    if not isinstance(server, BufferedServer):
        more = f", {count(server.wanted)} selected" if server.wanted != server.cohort else ""
        selected = f"{count(server.cohort, 'report')} wanted a round{more}"
    yield Tile(count(len(run.clients)), "clients" if len(run.clients) != 1 else "client", selected)
    if (pace := metric("rounds.per_day")) is not None:
        yield Tile(number(pace, 3), f"{run.noun}s per day")
    if (typical := metric("rounds.duration.p50")) is not None:
        slow = metric("rounds.duration.p95")
        detail = f"19 of 20 within {duration(slow)}" if slow is not None else ""
        yield Tile(duration(typical), f"median {run.noun}", detail)
    if hours := metric("sessions.device_hours"):
        wasted = metric("sessions.wasted_share")
        yield Tile(number(hours, 3), "device-hours", f"{percent(wasted)} in vain" if wasted else "")


def _of_learning(run: FinishedRun) -> Iterator[Tile]:
    known = methods.losses(run)
    paired = list(references(tuple(known)))
    for name, loss in known.items():
        if not paired or name in paired:
            yield Tile(number(loss, 3), f"loss, {name}")
        else:
            yield Tile(methods.compared(run, name, paired[0]).difference, f"loss against unbiased, {name}")
