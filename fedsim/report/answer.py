"""The answer in words and key figures, computed from the metrics: what a reader sees first."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

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
    settled = _convergence(run, [name for name in names if name in _losses(run)])
    found = chain(_participation(run), _bias(run), _learning(run, names), _cost(run), _chance(run))
    return (*found, *((settled,) if settled else ()))


def _participation(run: FinishedRun) -> Iterator[Sentence]:
    took, clients = int((run.clients["participations"] > 0).sum()), len(run.clients)
    separations = run.clients["separation"].unique()
    wait = f" with separation R\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{separations[0]}" if len(separations) == 1 else ""
    over = f"Over {count(len(run.rounds), 'round')}{wait}"
    if not took:
        yield Sentence(f"{over}, nobody took part: there is no frequency to measure.", WHAT, warns=True)
        return
    everyone = f"all {count(clients, 'client')} took part" if clients > 1 else "the one client took part"
    some = f"{count(took)} of {count(clients, 'client')} took part ({percent(took / clients)})"
    yield Sentence(f"{over}, {some if took < clients else everyone}.", WHAT)
    if run.metrics.get("sessions.reported_share") == 0:
        yield Sentence("No session ended with a report.", WHAT, warns=True)


def _bias(run: FinishedRun) -> Iterator[Sentence]:
    if not run.clients["participations"].sum():
        return
    measured = run.metrics.get("participation.l1_uniform")
    if measured is None:
        yield Sentence("How far frequencies lie from uniform was not measured.", BIAS)
        return
    theory = run.metrics.get("participation.l1_uniform_theory")
    text = f"Client frequencies lie {_distance(measured)} (L1) from uniform"
    yield Sentence(f"{text}." if theory is None else f"{text}; theory says {_distance(theory)}.", BIAS)
    moved = f"For all to take part equally, {percent(measured / 2)} of the participations would have to go"
    yield Sentence("Everyone took part equally often." if measured < ROUNDING else f"{moved} to other clients.", BIAS)


def _distance(l1: float) -> str:
    return "0" if l1 < ROUNDING else fixed(l1)


def _chance(run: FinishedRun) -> Iterator[Sentence]:
    """Tell what chance alone would do to the frequencies."""
    measured = run.metrics.get("participation.l1_uniform")
    taken, clients = int(run.clients["participations"].sum()), len(run.clients)
    apart, noise = run.metrics.get("participation.l1_chain"), run.metrics.get("participation.l1_noise")
    if measured is not None and ROUNDING < measured < 2 * (fair := by_chance(taken, clients)) and taken < FEW * clients:
        text = f"A fair lottery of as few participations ({number(taken / clients, 2)} for each client) would lie"
        text += f" {fixed(fair)} from uniform: the run is too short to tell bias from chance."
        yield Sentence(text, TRUST, warns=True)
    elif noise is not None:
        alone = f"sampling noise alone would give {_distance(noise)}"
        if apart is None:
            yield Sentence(f"No theory covers this scenario; {alone}.", TRUST)
            return
        text = f"Measured and theoretical frequencies are {_distance(apart)} apart, where {alone}"
        far = apart > 2 * noise + ROUNDING
        yield Sentence(f"{text}: the theory does not describe this run." if far else f"{text}.", TRUST, warns=far)


def by_chance(taken: int, clients: int) -> float:
    """Return the L1 distance from uniform to be expected when each participation goes to anyone alike.

    A client's count is binomial, and its mean absolute deviation is 2 v C(n, v) p^v (1 - p)^(n - v + 1), where v is the
    least whole number above n p (De Moivre, 1730).
    """
    if not taken or clients < 2:
        return 0.0
    share = 1 / clients
    above = math.floor(taken * share + ROUNDING) + 1
    ways = math.lgamma(taken + 2) - math.lgamma(above + 1) - math.lgamma(taken - above + 1) - math.log(taken + 1)
    logarithm = ways + above * math.log(share) + (taken - above + 1) * math.log1p(-share)
    return 2 * above * math.exp(logarithm) * clients / taken


def _cost(run: FinishedRun) -> Iterator[Sentence]:
    shortage = run.metrics.get("rounds.shortage_share")
    reported = run.metrics.get("sessions.reported_share")
    pace, wasted = run.metrics.get("rounds.per_day"), run.metrics.get("sessions.wasted_share")
    typical = run.metrics.get("rounds.duration.p50")
    if pace is not None:
        text = f"The pace was {number(pace, 3)} rounds per simulated day"
        text += f"; the median round took {duration(typical)}." if typical is not None else "."
        yield Sentence(text, COST)
    if shortage:
        yield Sentence(f"{percent(shortage)} of the rounds found fewer eligible clients than they wanted.", COST)
    if reported is not None and reported < 1:
        text = f"{percent(reported)} of the sessions ended with a report"
        text += f"; {percent(wasted)} of the devices' time was spent in vain." if wasted else "."
        yield Sentence(text, COST, warns=reported == 0)


def _learning(run: FinishedRun, names: Sequence[str]) -> Iterator[Sentence]:
    losses = _losses(run)
    pairs = references(names)
    ends = [f"{name} at {losses[name]}" for name in names if name in losses and name not in pairs]
    fair = [f"{own} would end at {losses[name]}" for name, own in pairs.items() if name in losses]
    unknown = [name for name in names if name not in losses]
    if ends:
        yield Sentence(f"Learning ends at these losses: {listing(ends)}.", MODEL)
    if fair:
        yield Sentence(f"Under uniform participation, {listing(fair)}.", MODEL)
    if unknown:
        yield Sentence(f"No finite loss at the end: {listing(unknown)}.", MODEL, warns=True)


def _losses(run: FinishedRun) -> dict[str, str]:
    """Write the loss of each optimizer that has one, so that they can be compared."""
    found = {name: run.metrics.get(f"learning.{name}.loss") for name in optimizers(run)}
    known = [name for name, loss in found.items() if loss is not None]
    return dict(zip(known, together([found[name] for name in known]), strict=True))


def _convergence(run: FinishedRun, names: Sequence[str]) -> Sentence | None:
    state = {name: run.metrics.get(f"learning.{name}.converged") for name in names}
    moving = [name for name, value in state.items() if value == 0]
    unknown = [name for name, value in state.items() if value is None]
    late = {name: share for name, share in slow_descents(run).items() if name in names}
    if len(moving) == 1 < len(names):
        text = f"{moving[0]} has NOT converged: its loss shows how far it got, not where it would end."
    elif moving:
        who = "The runs" if len(moving) == len(names) else listing(moving)
        text = f"{who} have NOT converged: their losses show how far they got, not where they would end."
    elif unknown:
        text = f"Whether {listing(unknown)} converged is not known."
    elif late:
        least, greatest = percent(min(late.values())), percent(max(late.values()))
        share = least if least == greatest else f"{least} to {greatest}"
        text = (
            f"The losses hardly drift, yet {share} of the whole descent of {listing(list(late))} fell in the last "
            "quarter of the run: learning is slow, NOT settled."
        )
    elif names:
        several = "The runs have converged: their losses can be compared."
        return Sentence(several if len(names) > 1 else "The loss has converged.", TRUST)
    else:
        return None
    return Sentence(text, TRUST, warns=True)


def tiles(run: FinishedRun) -> Iterator[Tile]:
    """Pick the key figures; one that the run does not have is left out."""
    metric, server = run.metrics.get, run.scenario.server
    closed = run.rounds["closed_s"].to_numpy()
    closed = closed[np.isfinite(closed)]
    length = f"{duration(float(closed.max()))} simulated" if len(closed) else ""
    yield Tile(count(len(run.rounds)), "rounds" if len(run.rounds) != 1 else "round", length)
    cohort = "" if isinstance(server, BufferedServer) else f"{count(server.cohort)} wanted a round"
    yield Tile(count(len(run.clients)), "clients" if len(run.clients) != 1 else "client", cohort)
    if (distance := metric("participation.l1_uniform")) is not None:
        theory, error = metric("participation.l1_uniform_theory"), metric("participation.l1_uniform_se")
        detail = f"± {_distance(error)} standard error" if error and error > ROUNDING else ""
        yield Tile(_distance(distance), "L1 from uniform, measured", detail)
        if theory is not None:
            noise = metric("participation.l1_noise")
            detail = f"noise alone {_distance(noise)}" if noise is not None else ""
            yield Tile(_distance(theory), "L1 from uniform, theory", detail)
    if (coverage := metric("participation.coverage")) is not None:
        yield Tile(percent(coverage), "of clients took part")
    if (pace := metric("rounds.per_day")) is not None:
        wait = metric("rounds.wait.mean")
        yield Tile(number(pace, 3), "rounds per day", f"mean wait {duration(wait)}" if wait else "")
    if (typical := metric("rounds.duration.p50")) is not None:
        slow = metric("rounds.duration.p95")
        detail = f"19 of 20 within {duration(slow)}" if slow is not None else ""
        yield Tile(duration(typical), "median round", detail)
    for name, loss in _losses(run).items():
        gradient = metric(f"learning.{name}.grad_norm")
        detail = f"gradient norm {number(gradient, 3)}" if gradient is not None else ""
        yield Tile(loss, f"loss, {name}", detail)
