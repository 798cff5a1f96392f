"""The answer in words and key figures, computed from the metrics: what a reader sees first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.report.optimizers import SETTLED, late_descents, optimizers, references
from fedsim.report.rundir import Run
from fedsim.report.words import count, duration, fixed, listing, number, percent, together

ROUNDING = 1e-9
"""Distances below are zero, written with the rounding errors of their sums."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of the answer; one with `warns` set asks the reader to be careful."""

    text: str
    warns: bool = False


@dataclass(frozen=True)
class Tile:
    """A key figure: its value, what it is, and what to compare it with."""

    value: str
    label: str
    detail: str = ""


def answer(run: Run) -> tuple[Sentence, ...]:
    """Say in words what happened, how biased it was, and whether the learning curves can be compared."""
    return (*_participation(run), *_rounds(run), *_learning(run))


def _participation(run: Run) -> tuple[Sentence, ...]:
    if run.rounds.is_empty():
        return (Sentence("The run has no rounds: there is nothing to measure.", warns=True),)
    over = f"Over {count(len(run.rounds), 'round')}{_separation(run)}"
    if not run.clients["participations"].sum():
        return (Sentence(f"{over}, nobody took part: there is no frequency to measure.", warns=True),)
    measured = run.metrics.get("participation.l1_uniform")
    if measured is None:
        return (Sentence(f"{over}: how far frequencies lie from uniform was not measured."),)
    theory = run.metrics.get("participation.l1_uniform_theory")
    text = f"{over}, client frequencies lie {_distance(measured)} (L1) from uniform"
    text += "." if theory is None else f"; theory says {_distance(theory)}."
    return (Sentence(text), *_noise(run), Sentence(_moved(measured)))


def _moved(measured: float) -> str:
    if measured < ROUNDING:
        return "Everyone took part equally often."
    share = percent(measured / 2)
    return f"For all to take part equally, {share} of the participations would have to go to other clients."


def _distance(l1: float) -> str:
    return "0" if l1 < ROUNDING else fixed(l1)


def _separation(run: Run) -> str:
    separations = run.clients["separation"].unique()
    return f" with separation R\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{separations[0]}" if len(separations) == 1 else ""


def _noise(run: Run) -> tuple[Sentence, ...]:
    apart = run.metrics.get("participation.l1_chain")
    noise = run.metrics.get("participation.l1_noise")
    if noise is None:
        return ()
    if apart is None:
        return (Sentence(f"Sampling noise alone would give {_distance(noise)}."),)
    alone = f"sampling noise alone would give {_distance(noise)}"
    text = f"Measured and theoretical frequencies are {_distance(apart)} apart, where {alone}"
    if apart > 2 * noise + ROUNDING:
        return (Sentence(f"{text}: the theory does not describe this run.", warns=True),)
    return (Sentence(f"{text}."),)


def _rounds(run: Run) -> tuple[Sentence, ...]:
    shortage = run.metrics.get("rounds.shortage_share")
    reported = run.metrics.get("sessions.reported_share")
    pace, wasted = run.metrics.get("rounds.per_day"), run.metrics.get("sessions.wasted_share")
    sentences = []
    if pace is not None:
        sentences.append(Sentence(f"The pace was {number(pace, 3)} rounds per simulated day."))
    if shortage:
        sentences.append(Sentence(f"{percent(shortage)} of the rounds found fewer eligible clients than they wanted."))
    if reported is not None and reported < 1:
        text = f"{percent(reported)} of the sessions ended with a report"
        text += f"; {percent(wasted)} of the devices' time was spent in vain." if wasted else "."
        sentences.append(Sentence(text, warns=reported == 0))
    return tuple(sentences)


def _learning(run: Run) -> tuple[Sentence, ...]:
    names = optimizers(run)
    losses = _losses(run)
    pairs = references(names)
    ends = [f"{name} at {losses[name]}" for name in names if name in losses and name not in pairs]
    fair = [f"{own} would end at {losses[name]}" for name, own in pairs.items() if name in losses]
    unknown = [name for name in names if name not in losses]
    sentences = []
    if ends:
        text = f"Learning ends at these losses: {listing(ends)}."
        sentences.append(Sentence(text))
    if fair:
        sentences.append(Sentence(f"Under uniform participation, {listing(fair)}."))
    if unknown:
        sentences.append(Sentence(f"No finite loss at the end: {listing(unknown)}.", warns=True))
    return (*sentences, *_convergence(run, [name for name in names if name in losses]))


def _losses(run: Run) -> dict[str, str]:
    """Write the loss of each optimizer that has one, so that they can be compared."""
    found = {name: run.metrics.get(f"learning.{name}.loss") for name in optimizers(run)}
    known = [name for name, loss in found.items() if loss is not None]
    return dict(zip(known, together([found[name] for name in known]), strict=True))


def _convergence(run: Run, names: Sequence[str]) -> tuple[Sentence, ...]:
    state = {name: run.metrics.get(f"learning.{name}.converged") for name in names}
    moving = [name for name, value in state.items() if value == 0]
    unknown = [name for name, value in state.items() if value is None]
    if len(moving) == 1 < len(names):
        text = f"{moving[0]} has NOT converged: its loss shows how far it got, not where it would end."
        return (Sentence(text, warns=True),)
    if moving:
        who = "The runs" if len(moving) == len(names) else listing(moving)
        text = f"{who} have NOT converged: their losses show how far they got, not where they would end."
        return (Sentence(text, warns=True),)
    if unknown:
        return (Sentence(f"Whether {listing(unknown)} converged is not known.", warns=True),)
    late = {name: share for name, share in late_descents(run).items() if name in names and share > SETTLED}
    return _slow(late) if late else _settled(names)


def _slow(late: Mapping[str, float]) -> tuple[Sentence, ...]:
    least, greatest = percent(min(late.values())), percent(max(late.values()))
    share = least if least == greatest else f"{least} to {greatest}"
    text = (
        f"The losses hardly drift, yet {share} of the whole descent of {listing(list(late))} fell in the last quarter"
    )
    return (Sentence(f"{text} of the run: learning is slow, NOT settled.", warns=True),)


def _settled(names: Sequence[str]) -> tuple[Sentence, ...]:
    return (Sentence("The runs have converged: their losses can be compared."),) if names else ()


def tiles(run: Run) -> tuple[Tile, ...]:
    """Pick the key figures; one that the run does not have is left out."""
    metric = run.metrics.get
    found = [Tile(count(len(run.rounds)), "rounds" if len(run.rounds) != 1 else "round", _length(run))]
    found.append(Tile(count(len(run.clients)), "clients" if len(run.clients) != 1 else "client", _cohort(run)))
    if (distance := metric("participation.l1_uniform")) is not None:
        theory, error = metric("participation.l1_uniform_theory"), metric("participation.l1_uniform_se")
        detail = f"± {_distance(error)} standard error" if error else ""
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


def _length(run: Run) -> str:
    closed = run.rounds["closed_s"].to_numpy()
    closed = closed[np.isfinite(closed)]
    return f"{duration(float(closed.max()))} simulated" if len(closed) else ""


def _cohort(run: Run) -> str:
    cohort = run.scenario("server", "cohort")
    return f"{count(cohort)} wanted a round" if isinstance(cohort, int) else ""
