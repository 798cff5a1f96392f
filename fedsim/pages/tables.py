"""The tables of the report: clients at both ends, groups, how rounds, sessions and learning ended."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import polars as pl

from fedsim.common.formatting import (
    NO_VALUE,
    above_dust,
    at_rest,
    capitalized,
    count,
    duration,
    number,
    percent,
    quantity,
    signed,
)
from fedsim.common.outcomes import ROUND_OUTCOMES, SESSION_OUTCOMES
from fedsim.measure.metrics.metric import updates_of
from fedsim.pages.methods import (
    JUMPS,
    LARGE_STEPS,
    daily_swing,
    endings,
    jumps,
    late_losses,
    optimizers,
    references,
    renamed,
)
from fedsim.pages.metric_wording import wording_of
from fedsim.run.run import Run

GROUP_ROWS = 24  # groups shown at most
COVERED = "participation.l1_uniform_theory"
"""Runs whose scenario theory covers have this fact."""
_DATA_ROWS = 160  # rows of a chart's data shown at most


@dataclass(frozen=True)
class Table:
    """A table as it is shown: every cell is text."""

    caption: str  # what the table holds
    header: tuple[str, ...]  # column heads
    rows: tuple[tuple[str, ...], ...]  # as many cells a row as there are heads
    # How many of the first columns hold words, set to the left; the others hold numbers, set to the right
    words: int = 1
    note: str = ""  # what was left out; empty where nothing was
    places: tuple[float, ...] = ()  # of a chart's data: where each row stands along x, or along y; empty if nowhere
    along: Literal["x", "y"] = "x"
    aside: bool = False  # of interest to few, and folded away


def thinned(
    caption: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], places: Sequence[float] = ()
) -> Table:
    """Make the table of a chart's data, evenly thinned where it is long; the first and last rows stay."""
    step = max(1.0, (len(rows) - 1) / (_DATA_ROWS - 1))
    kept = [round(step * k) for k in range(min(len(rows), _DATA_ROWS))]
    note = f"{_DATA_ROWS} of {count(len(rows))} points, evenly spaced; all values are in the Parquet tables."
    return Table(
        caption,
        header,
        tuple(rows[k] for k in kept),
        words=0,
        note=note if len(kept) < len(rows) else "",
        places=tuple(places[k] for k in kept) if places else (),
    )


def ending_table(what: str, endings: pl.DataFrame) -> Table | None:
    """Show how rounds or sessions ended, given ``outcome`` and ``len``; None where all did so alike."""
    if len(endings) < 2:
        return None
    ranked = endings.sort("len", "outcome", descending=[True, False])
    total = endings["len"].sum()
    rows = tuple((str(outcome), count(number), percent(number / total)) for outcome, number in ranked.iter_rows())
    outcomes = ROUND_OUTCOMES | SESSION_OUTCOMES
    meanings = [f"{outcome}: {outcomes[outcome].words}" for outcome, *_ in rows if outcome in outcomes]
    note = f"{capitalized('; '.join(meanings))}." if meanings else ""
    return Table(f"How {what} ended", ("Outcome", what.capitalize(), "Share"), rows, note=note, aside=True)


_OF_OPTIMIZERS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("Above the optimum", "above_optimum", above_dust),
    ("... by bias", "bias_loss", above_dust),
    ("... by who comes when", "participation_noise_loss", above_dust),
    ("... by noise of privacy", "privacy_noise_loss", above_dust),
    ("Accuracy", "accuracy", percent),
    ("Mean model from the optimum", "bias", at_rest),
    ("... by theory", "bias_predicted", at_rest),
    ("Rounds to the target", "rounds_to_target", lambda value: NO_VALUE if value is None else count(value)),
    ("Sent by then", "sent_mb_to_target", partial(quantity, unit="MB")),
    ("Kept on each device", "client_mb", lambda mb: NO_VALUE if mb is None else quantity(1e6 * mb, "B")),
)


def learning_table(run: Run) -> Table | None:
    """Show where each optimizer ended, beside others, and whether it has settled; None without learning."""
    names, (other, ends) = optimizers(run), endings(run) or ("", [])
    if not names:
        return None
    to = "unbiased training" if other in references(names) else f"“{other}”"
    apart = {each.name: signed(each.apart, partial(number, digits=3)) for each in ends if each.why != LARGE_STEPS}
    yes = {True: "yes", False: "no, below" if other in references(names) else "yes"}
    tests = {each.name: yes[each.apart > 0] if each.significant else "no" for each in ends}
    tested = "Stays biased" if other in references(names) else "Significant in this run"
    tests |= {each.name: "not tested" for each in ends if each.look is None}
    figures = {
        "Loss converged": [_converged(run, name) for name in names],
        "Loss": [_level(run, name) for name in names],
        f"Above {to}": [apart.get(name, NO_VALUE) for name in names],
        tested: [tests.get(name, NO_VALUE) for name in names],
    } | {
        head: [write(run.known.get(f"learning.{name}.{figure}")) for name in names]
        for head, figure, write in _OF_OPTIMIZERS
        if figure != "bias_predicted" or COVERED in run.known
    }
    nothing = {NO_VALUE, quantity(0.0, "MB"), quantity(0.0, "B")}
    columns = {head: cells for head, cells in figures.items() if not nothing.issuperset(cells)}
    rows, learning = tuple(zip(names, *columns.values(), strict=True)), run.scenario.learning
    notes = [f"“{name}” is {kind}." for name, kind in renamed(run).items()]
    below = other in references(names) and any(each.significant and each.apart < 0 for each in ends)
    notes += ["Biased is what ends significantly above unbiased training in this run; below it is no bias."] * below
    notes += [f"Not tested: {why}." for why in dict.fromkeys(each.why for each in ends if each.why)]
    if learning is not None and "Rounds to the target" in columns:
        above = learning.target_above_optimum
        goal = f"loss of {number(learning.target_loss)}" if above is None else f"loss {number(above)} above the optimum"
        notes.append(f"The target is a {goal}.")
    return Table("Where learning ended", ("Optimizer", *columns), rows, words=2, note=" ".join(notes))


def _level(run: Run, name: str) -> str:
    """Write where the loss of an optimizer ends, or between which ends it jumps."""
    if jumps(run, name) <= JUMPS:
        return above_dust(run.known.get(f"learning.{name}.loss"))
    late = late_losses(run, name)[0]["loss"]
    return f"{number(late.min(), 3)} to {number(late.max(), 3)}"  # type: ignore[arg-type]


def _converged(run: Run, name: str) -> str:
    """Say whether the loss of an optimizer has converged, and of what that is judged where it swings or jumps."""
    if (value := run.known.get(f"learning.{name}.converged")) is None:
        return "not known"
    if value and jumps(run, name) > JUMPS:
        return "it jumps"
    return ("yes, day by day" if daily_swing(run, name) else "yes") if value else "no"


_COSTS = (
    "sessions.device_hours",
    *(f"fleet.{name}" for name in ("bytes_down", "bytes_up", "energy", "carbon", "cost")),
)


@dataclass(frozen=True)
class CostPart:
    """What of the cost is for one thing."""

    cost: float
    price: str  # of one unit of it
    words: str  # how much of it there is
    remedy: str  # what lowers it
    key: str  # that a run with half of it sets; empty where there is none


_SAMPLES = "Try fewer samples in a session (`session.samples`)"
_FEWER = f"{_SAMPLES}, or fewer clients in a round"
_PRICED = {
    "fleet.bytes_down": ("gigabyte", 1e9, "{} a GB", "{} sent to devices", "Try a model of half the size", "model"),
    "fleet.bytes_up": ("gigabyte", 1e9, "{} a GB", "{} sent by devices", "Try updates of half the size", "update"),
    "fleet.energy": ("kilowatt_hour", 1e3, "{} a kWh", "{} of energy", _SAMPLES, ""),
    "sessions.device_hours": ("device_hour", 1.0, "{} an hour", "{} hours of device time", _FEWER, ""),
}
"""What has a price: the key of that, of how many of the fact's units, both in words, and what lowers it."""


def cost_parts(run: Run) -> dict[str, CostPart]:
    """Return what of the cost is for what, the most first, by the key of the fact that says how much there is."""
    parts = dict[str, CostPart]()
    for key, (name, units, price, words, *cheaper) in _PRICED.items():
        each = 0.0 if run.scenario.prices is None else getattr(run.scenario.prices, name)
        if each and key in run.known:
            much = words.format(wording_of(key).write(run.known[key]))
            parts[key] = CostPart(each / units * run.known[key], price.format(f"{each:g}"), much, *cheaper)
    return dict(sorted(parts.items(), key=lambda part: -part[1].cost))


def cost_table(run: Run) -> Table | None:
    """Show what sessions took, in all and for each update of the model; None where they are not from work."""
    updates = int(updates_of(run.rounds, buffered=not run.scenario.server.selects_once).sum())
    costs = {wording_of(key): run.known[key] for key in _COSTS if key in run.known}
    if len(costs) < 2:
        return None
    rows = tuple(
        (capitalized(of.words), of.write(value), of.write(value / updates) if updates else NO_VALUE)
        for of, value in costs.items()
    )
    return Table("What it costs", ("Of", "In all", "For each update"), rows)


_WHO = {
    "tenth_1": "tenth with the fewest reports",
    "tenth_10": "tenth with the most reports",
    "worst_tenth": "worst tenth of the clients",
    "devices": "devices that train",
    "held_out": "devices held out",
}


def who_pays_table(run: Run) -> Table | None:
    """Show losses and accuracies of mean models of the tenths at both ends of participation, by group, and at worst."""
    counts = run.clients["reported"]
    several, uneven = len(counts) > 1, counts.max() - counts.min() > 1  # type: ignore[operator]
    names = [name for name in optimizers(run) if several and f"learning.{name}.loss_of_worst_tenth" in run.known]
    names = [name for name in names if jumps(run, name) <= 2 * JUMPS]
    first, rows = f"learning.{names[0]}." if names else "", list[tuple[str, ...]]()
    for key in [name for name in run.known if names and name.startswith(first) and "_of_" in name.removeprefix(first)]:
        what, _, which = key.removeprefix(first).partition("_of_")
        if which.startswith("tenth_") and not (uneven and which in _WHO):
            continue  # tenths of what all do equally often are no tenths
        words = _WHO.get(which, which)
        values = [run.known.get(f"learning.{name}.{what}_of_{which}") for name in names]
        write = percent if what == "accuracy" else lambda value: NO_VALUE if value is None else number(value, 3)
        rows.append((f"{capitalized(what)}, {words.replace('_', ' ')}", *(write(value) for value in values)))
    return Table("Who pays: by reports, by group, and the worst tenth", ("Of", *names), tuple(rows)) if rows else None


def own_metric_table(run: Run) -> Table | None:
    """Show the metrics of the scenario's own, as the manifest describes them; None where it has none."""
    described = run.manifest.get("own_metrics")
    entries = [entry for entry in described if isinstance(entry, Mapping)] if isinstance(described, list) else []
    write = {"s": duration, "share": percent}
    rows = []
    for name, unit, meaning in ((str(each.get(key, "")) for key in ("name", "unit", "meaning")) for each in entries):
        value = write.get(unit, number)(run.known.get(name))
        rows.append((name, meaning, f"{value} {unit}" if unit not in write and value != NO_VALUE else value))
    header = ("Metric", "Meaning", "Value")
    return Table("Metrics of the scenario's own", header, tuple(rows), words=2) if rows else None
