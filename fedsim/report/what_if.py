"""What the sliders of a run page need: the run's weights, or the answers of theory where those are too many."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.findings.finished_run import FinishedRun, Json
from fedsim.findings.formatting import count, percent
from fedsim.report.charts.distance import LARGEST_CURVE, choose_separations
from fedsim.scenario import Scenario
from fedsim.scenario.component import Choice
from fedsim.theory import closed_form

IN_PAGE = 1_000  # up to so many units of selection the page computes itself, at most some 30 ms for a move of a slider
GRID = 24  # values of R that are computed in advance where the page does not compute
_BARS = 24  # bars at most
_ENTRIES = 6  # entries of a population whose weights a command changes, at most
_STEEPEST = 3  # the largest power that weights can be raised to in a page
_SEPARATION = "population.*.separation"
_LAWS = {"midzuno", "successive", "groups"}


@dataclass(frozen=True)
class _Bars:
    """The bars, and which unit of selection stands in which."""

    header: str  # what one is, at the head of a column
    between: str  # what they are, in a sentence
    names: Sequence[str]  # what each is called in the chart
    named: Sequence[str]  # and in a sentence
    of: Ints  # (units,) the bar of each unit of selection

    @property
    def counts(self) -> Ints:
        """How many units stand in each bar."""
        return np.bincount(self.of, minlength=len(self.names))

    def shares(self, turns: Floats) -> list[float]:
        """Return how many times a fair share of the turns of the units each bar has."""
        totals = np.bincount(self.of, weights=turns, minlength=len(self.names))
        return [float(share) for share in totals * len(turns) / self.counts]


def what_if(run: FinishedRun) -> Mapping[str, Json] | None:
    """Return the data of the section "What if" of a run page; None where no closed form answers, or R changes nothing.

    The closed form covers always-available clients under one common separation; see `fedsim.theory.closed_form`.
    """
    server, wanted = run.scenario.server, run.wanted
    if wanted is None or not 0 < len(run.clients) <= LARGEST_CURVE:
        return None
    table = run.clients.sort("client")
    law, weights = server.selection.kind, table["weight"].to_numpy()
    covered = law in _LAWS and (law != "successive" or wanted == 1)
    if not covered or table["separation"].n_unique() > 1 or set(table["pi_method"].to_list()) != {"closed-form"}:
        return None
    separation, feasible = int(table["separation"][0]), len(table) // wanted
    if feasible < 2 or separation >= feasible or weights.min() == weights.max():
        return None
    size = wanted if law == "groups" else 1
    units = weights.reshape(-1, size).sum(axis=1)
    bars = _bars(table, units, size)
    taken = table["participations"].to_numpy().astype(np.float64)
    measured: list[float] | list[None] = [None] * len(bars.names)
    if taken.any():
        measured = bars.shares((taken / taken.sum()).reshape(-1, size).sum(axis=1))
    chance = _chance(run, table)
    found: dict[str, Json] = {
        "clients": len(table),
        "cohort": 1 if law == "groups" else wanted,
        "turns_per_round": wanted,
        "separation": separation,
        "measured": run.metrics.get("participation.l1_uniform", 0.0) / 2 if taken.any() else None,
        "bars": [
            {"name": name, "named": named, "units": int(many), "measured": value}
            for name, named, many, value in zip(bars.names, bars.named, bars.counts, measured, strict=True)
        ],
        "bar_header": bars.header,
        "between": bars.between,
        **_command(run),
    }
    if len(units) <= IN_PAGE:
        return {
            **found,
            "weights": (units / units.max()).tolist(),
            "bar_of": bars.of.tolist(),
            "separations": list(range(feasible)),
            "curve_note": chance,
            "spread": _spread(run.scenario),
        }
    separations = choose_separations(feasible, separation, GRID)
    answers = [closed_form(weights, int(each), wanted, law) for each in separations]
    places = f"{len(separations)} of the {count(feasible)} values that R can take"
    stops = f"Computed in advance at {places}; the slider stops there."
    return {
        **found,
        "weights": None,
        "separations": separations.tolist(),
        "misplaced": [answer.l1_uniform / 2 for answer in answers],
        "shares": [bars.shares(answer.pi.reshape(-1, size).sum(axis=1)) for answer in answers],
        "curve_note": f"{chance} {stops}" if len(separations) < feasible else chance,
        "spread": None,
    }


def _chance(run: FinishedRun, table: pl.DataFrame) -> str:
    """Say what chance does to the measured share; more, where it is most of it."""
    theory = float(np.abs(table["pi"].to_numpy() - 1 / len(table)).sum())
    measured, apart, noise = (
        run.metrics.get(f"participation.{name}", math.nan) for name in ("l1_uniform", "l1_chain", "l1_noise")
    )
    if measured > 2 * theory and apart <= 2 * noise:
        return (
            f"Of the {percent(measured / 2)} that this run measured most is chance: so few turns cannot be even. "
            f"Theory, which has no chance, says {percent(theory / 2)}."
        )
    return "Measured turns hold chance too, the more the shorter the run; theory has none."


def _bars(table: pl.DataFrame, units: Floats, size: int) -> _Bars:
    """Choose the bars: the population's groups, the units themselves, or tenths of them; the heaviest first."""
    names = table["group"].unique(maintain_order=True).to_list()
    if size == 1 and 2 <= len(names) <= _BARS:
        codes = table["group"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
        heaviest = np.argsort(-np.bincount(codes, weights=units) / np.bincount(codes), kind="stable")
        shown = [str(names[each]) for each in heaviest]
        named = [name if name.lower().startswith("group") else f"group {name}" for name in shown]
        return _Bars("Group", "groups", shown, named, np.argsort(heaviest)[codes])
    order = np.argsort(-units, kind="stable")
    if len(units) <= _BARS:
        noun, first = ("group", 1) if size > 1 else ("client", 0)
        shown = [f"{noun} {unit + first}" for unit in order.tolist()]
        return _Bars(noun.capitalize(), f"{noun}s", shown, shown, np.argsort(order, kind="stable"))
    tenth = np.empty(len(units), dtype=np.int64)
    tenth[order] = np.arange(len(units)) * 10 // len(units)
    between = ("2nd", "3rd", *(f"{each}th" for each in range(4, 10)))
    shown = [f"{each} tenth" for each in ("heaviest", *between, "lightest")]
    of = "selection groups" if size > 1 else "clients"
    return _Bars(of.capitalize(), f"tenths of the {of}", shown, [f"the {each} of the {of}" for each in shown], tenth)


def _command(run: FinishedRun) -> dict[str, Json]:
    """Return the run's command less what sets its separation, and whether something did; None where it has none."""
    command = run.manifest.get("command")
    if not isinstance(command, str) or not command:
        return {"command": None, "separation_was_set": False}
    try:
        words = shlex.split(command)
    except ValueError:  # not quoted as a shell quotes
        return {"command": command, "separation_was_set": True}
    kept: list[str] = []
    for word in words:
        if kept and kept[-1] == "--set" and word.partition("=")[0].strip() == _SEPARATION:
            kept.pop()
        else:
            kept.append(word)
    return {"command": shlex.join(kept), "separation_was_set": len(kept) < len(words)}


def _spread(scenario: Scenario) -> list[Json] | None:
    """Return which settings raise every weight to a power; None where no setting does.

    Each is a path, its value, and whether that is multiplied by the power or raised to it.
    """
    if len(scenario.population) > _ENTRIES:
        return None
    settings: list[Json] = []
    for index, group in enumerate(scenario.population):
        path, weight = f"population.{index}.weight", group.weight
        match weight:
            case Choice(kind="zipf") if weight.exponent * _STEEPEST <= 50:
                settings.append({"path": f"{path}.exponent", "value": weight.exponent, "by": "times"})
            case Choice(kind="lognormal") if weight.sigma * _STEEPEST <= 50:
                settings.append({"path": f"{path}.sigma", "value": weight.sigma, "by": "times"})
                settings.append({"path": f"{path}.median", "value": weight.median, "by": "power"})
            case Choice(kind="constant"):
                settings.append({"path": path, "value": weight.value, "by": "power"})
            case _:
                return None
    return [each for each in settings if isinstance(each, Mapping) and (each["by"], each["value"]) != ("power", 1.0)]
