"""The answer in words and key figures, computed from the metrics: what a reader sees first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, duration, fixed, listing, number, percent, together
from fedsim.report.optimizers import optimizers, references, slow_descents
from fedsim.scenario.server import BufferedServer

ROUNDING = 1e-9
"""Distances below are zero, written with the rounding errors of their sums."""


WHAT, BIAS, MODEL = "What happens", "How biased", "What it does to the model"
COST, TRUST = "At what cost", "Can I trust it"
"""What the sentences of an answer are about, in their order."""

FEW = 30
"""With more participations a client than these, chance alone hides no bias that matters."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of the answer; one with `warns` set asks the reader to be careful.

    Sentences that are `about` the same question follow each other.
    """

    text: str
    about: str = ""
    warns: bool = False


@dataclass(frozen=True)
class Tile:
    """A key figure: its value, what it is, and what to compare it with."""

    value: str
    label: str
    detail: str = ""


def answer(run: FinishedRun) -> tuple[Sentence, ...]:
    """Say in words what happened, how biased it was, at what cost, and how far the figures can be trusted."""
    if run.rounds.is_empty():
        return (Sentence("The run has no rounds: there is nothing to measure.", WHAT, warns=True),)
    names = optimizers(run)
    return (
        *_participation(run),
        *_bias(run),
        *_learning(run, names),
        *_cost(run),
        *_chance(run),
        *_convergence(run, [name for name in names if name in _losses(run)]),
    )


def _participation(run: FinishedRun) -> tuple[Sentence, ...]:
    over = f"Over {count(len(run.rounds), 'round')}{_separation(run)}"
    took = int((run.clients["participations"] > 0).sum())
    if not took:
        return (Sentence(f"{over}, nobody took part: there is no frequency to measure.", WHAT, warns=True),)
    clients = len(run.clients)
    who = f"{count(took)} of {count(clients, 'client')}" if took < clients else f"all {count(clients, 'client')}"
    text = f"{over}, {who if clients > 1 else 'the one client'} took part{_reached(run, took)}."
    reported = run.metrics.get("sessions.reported_share")
    if reported == 0:
        return (Sentence(text, WHAT), Sentence("No session ended with a report.", WHAT, warns=True))
    return (Sentence(text, WHAT),)


def _reached(run: FinishedRun, took: int) -> str:
    share = took / len(run.clients)
    return f" ({percent(share)})" if share < 1 else ""


def _separation(run: FinishedRun) -> str:
    separations = run.clients["separation"].unique()
    return f" with separation R\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{separations[0]}" if len(separations) == 1 else ""


def _bias(run: FinishedRun) -> tuple[Sentence, ...]:
    if not run.clients["participations"].sum():
        return ()
    measured = run.metrics.get("participation.l1_uniform")
    if measured is None:
        return (Sentence("How far frequencies lie from uniform was not measured.", BIAS),)
    theory = run.metrics.get("participation.l1_uniform_theory")
    text = f"Client frequencies lie {_distance(measured)} (L1) from uniform"
    text += "." if theory is None else f"; theory says {_distance(theory)}."
    return (Sentence(text, BIAS), Sentence(_moved(measured), BIAS))


def _moved(measured: float) -> str:
    if measured < ROUNDING:
        return "Everyone took part equally often."
    share = percent(measured / 2)
    return f"For all to take part equally, {share} of the participations would have to go to other clients."


def _distance(l1: float) -> str:
    return "0" if l1 < ROUNDING else fixed(l1)


def _chance(run: FinishedRun) -> tuple[Sentence, ...]:
    """Tell what chance alone would do to the frequencies."""
    measured = run.metrics.get("participation.l1_uniform")
    taken, clients = int(run.clients["participations"].sum()), len(run.clients)
    if measured is not None and ROUNDING < measured < 2 * (fair := by_chance(taken, clients)) and taken < FEW * clients:
        text = f"A fair lottery of as few participations ({number(taken / clients, 2)} for each client) would lie"
        text += f" {fixed(fair)} from uniform: the run is too short to tell bias from chance."
        return (Sentence(text, TRUST, warns=True),)
    apart = run.metrics.get("participation.l1_chain")
    noise = run.metrics.get("participation.l1_noise")
    if noise is None:
        return ()
    if apart is None:
        text = f"No theory covers this scenario; sampling noise alone would give {_distance(noise)}."
        return (Sentence(text, TRUST),)
    alone = f"sampling noise alone would give {_distance(noise)}"
    text = f"Measured and theoretical frequencies are {_distance(apart)} apart, where {alone}"
    if apart > 2 * noise + ROUNDING:
        return (Sentence(f"{text}: the theory does not describe this run.", TRUST, warns=True),)
    return (Sentence(f"{text}.", TRUST),)


def by_chance(taken: int, clients: int) -> float:
    """Return the L1 distance from uniform to be expected when each participation goes to anyone alike.

    A client's count is binomial, and its mean absolute deviation is 2 v C(n, v) p^v (1 - p)^(n - v + 1), where v is the
    least whole number above n p (De Moivre, 1730).
    """
    if not taken or clients < 2:
        return 0.0
    share = 1 / clients
    above = math.floor(taken * share + ROUNDING) + 1
    logarithm = (
        math.lgamma(taken + 1)
        - math.lgamma(above + 1)
        - math.lgamma(taken - above + 1)
        + above * math.log(share)
        + (taken - above + 1) * math.log1p(-share)
    )
    return 2 * above * math.exp(logarithm) * clients / taken


def _cost(run: FinishedRun) -> tuple[Sentence, ...]:
    shortage = run.metrics.get("rounds.shortage_share")
    reported = run.metrics.get("sessions.reported_share")
    pace, wasted = run.metrics.get("rounds.per_day"), run.metrics.get("sessions.wasted_share")
    typical = run.metrics.get("rounds.duration.p50")
    sentences = []
    if pace is not None:
        text = f"The pace was {number(pace, 3)} rounds per simulated day"
        text += f"; the median round took {duration(typical)}." if typical is not None else "."
        sentences.append(Sentence(text, COST))
    if shortage:
        text = f"{percent(shortage)} of the rounds found fewer eligible clients than they wanted."
        sentences.append(Sentence(text, COST))
    if reported is not None and reported < 1:
        text = f"{percent(reported)} of the sessions ended with a report"
        text += f"; {percent(wasted)} of the devices' time was spent in vain." if wasted else "."
        sentences.append(Sentence(text, COST, warns=reported == 0))
    return tuple(sentences)


def _learning(run: FinishedRun, names: Sequence[str]) -> tuple[Sentence, ...]:
    losses = _losses(run)
    pairs = references(names)
    ends = [f"{name} at {losses[name]}" for name in names if name in losses and name not in pairs]
    fair = [f"{own} would end at {losses[name]}" for name, own in pairs.items() if name in losses]
    unknown = [name for name in names if name not in losses]
    sentences = []
    if ends:
        sentences.append(Sentence(f"Learning ends at these losses: {listing(ends)}.", MODEL))
    if fair:
        sentences.append(Sentence(f"Under uniform participation, {listing(fair)}.", MODEL))
    if unknown:
        sentences.append(Sentence(f"No finite loss at the end: {listing(unknown)}.", MODEL, warns=True))
    return tuple(sentences)


def _losses(run: FinishedRun) -> dict[str, str]:
    """Write the loss of each optimizer that has one, so that they can be compared."""
    found = {name: run.metrics.get(f"learning.{name}.loss") for name in optimizers(run)}
    known = [name for name, loss in found.items() if loss is not None]
    return dict(zip(known, together([found[name] for name in known]), strict=True))


def _convergence(run: FinishedRun, names: Sequence[str]) -> tuple[Sentence, ...]:
    state = {name: run.metrics.get(f"learning.{name}.converged") for name in names}
    moving = [name for name, value in state.items() if value == 0]
    unknown = [name for name, value in state.items() if value is None]
    if len(moving) == 1 < len(names):
        text = f"{moving[0]} has NOT converged: its loss shows how far it got, not where it would end."
        return (Sentence(text, TRUST, warns=True),)
    if moving:
        who = "The runs" if len(moving) == len(names) else listing(moving)
        text = f"{who} have NOT converged: their losses show how far they got, not where they would end."
        return (Sentence(text, TRUST, warns=True),)
    if unknown:
        return (Sentence(f"Whether {listing(unknown)} converged is not known.", TRUST, warns=True),)
    late = {name: share for name, share in slow_descents(run).items() if name in names}
    return _slow(late) if late else _settled(names)


def _slow(late: Mapping[str, float]) -> tuple[Sentence, ...]:
    least, greatest = percent(min(late.values())), percent(max(late.values()))
    share = least if least == greatest else f"{least} to {greatest}"
    text = (
        f"The losses hardly drift, yet {share} of the whole descent of {listing(list(late))} fell in the last quarter"
    )
    return (Sentence(f"{text} of the run: learning is slow, NOT settled.", TRUST, warns=True),)


def _settled(names: Sequence[str]) -> tuple[Sentence, ...]:
    if not names:
        return ()
    text = "The runs have converged: their losses can be compared."
    return (Sentence(text if len(names) > 1 else "The loss has converged.", TRUST),)


def tiles(run: FinishedRun) -> tuple[Tile, ...]:
    """Pick the key figures; one that the run does not have is left out."""
    metric = run.metrics.get
    found = [Tile(count(len(run.rounds)), "rounds" if len(run.rounds) != 1 else "round", _length(run))]
    found.append(Tile(count(len(run.clients)), "clients" if len(run.clients) != 1 else "client", _cohort(run)))
    if (distance := metric("participation.l1_uniform")) is not None:
        theory, error = metric("participation.l1_uniform_theory"), metric("participation.l1_uniform_se")
        detail = f"± {_distance(error)} standard error" if error and error > ROUNDING else ""
        found.append(Tile(_distance(distance), "L1 from uniform, measured", detail))
        if theory is not None:
            noise = metric("participation.l1_noise")
            detail = f"noise alone {_distance(noise)}" if noise is not None else ""
            found.append(Tile(_distance(theory), "L1 from uniform, theory", detail))
    if (coverage := metric("participation.coverage")) is not None:
        found.append(Tile(percent(coverage), "of clients took part"))
    if (pace := metric("rounds.per_day")) is not None:
        wait = metric("rounds.wait.mean")
        found.append(Tile(number(pace, 3), "rounds per day", f"mean wait {duration(wait)}" if wait else ""))
    if (typical := metric("rounds.duration.p50")) is not None:
        slow = metric("rounds.duration.p95")
        detail = f"19 of 20 within {duration(slow)}" if slow is not None else ""
        found.append(Tile(duration(typical), "median round", detail))
    for name, loss in _losses(run).items():
        gradient = metric(f"learning.{name}.grad_norm")
        detail = f"gradient norm {number(gradient, 3)}" if gradient is not None else ""
        found.append(Tile(loss, f"loss, {name}", detail))
    return tuple(found)


def _length(run: FinishedRun) -> str:
    closed = run.rounds["closed_s"].to_numpy()
    closed = closed[np.isfinite(closed)]
    return f"{duration(float(closed.max()))} simulated" if len(closed) else ""


def _cohort(run: FinishedRun) -> str:
    server = run.scenario.server
    return "" if isinstance(server, BufferedServer) else f"{count(server.cohort)} wanted a round"
