"""The tables of the report: clients at both ends, groups, how rounds, sessions and learning ended."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import polars as pl

from fedsim.common.formatting import (
    NO_VALUE,
    above_dust,
    capitalized,
    count,
    duration,
    fixed,
    number,
    percent,
    quantity,
    signed,
)
from fedsim.common.outcomes import ROUND_OUTCOMES, SESSION_OUTCOMES
from fedsim.measure.metrics.metric import updates_of
from fedsim.measure.shares import ROUNDING
from fedsim.pages.bias import NOBODY, Bias, pull_apart
from fedsim.pages.methods import JUMPS, daily_swing, endings, jumps, optimizers, references, renamed
from fedsim.pages.metric_wording import tv, wording_of
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
    facts: tuple[str, ...] = ()  # keys of the facts of which it says all, so that no sentence need
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


def bias_table(run: Run, bias: Bias) -> Table | None:
    """Show distances as total variation and as L1; None where nothing was measured."""
    metric, of = run.known.get, "" if run.all_reported else "Selections: "
    if run.of_reports("l1_uniform") is None or bias.seen in NOBODY:
        return None
    distances = {
        "Measured, from uniform": 2 * bias.measured,
        "... without what noise adds": None if bias.corrected is None else 2 * bias.corrected,
        "Equal chances for everybody, from uniform": None if bias.fair is None else 2 * bias.fair,
        "Weights of clients in the model, from uniform": pull_apart(run),
        "Selections: measured, from uniform": metric("participation.l1_uniform") if of else None,
        f"{of}Theory, from uniform": metric("participation.l1_uniform_theory"),
        f"{of}Measured, from theory": metric("participation.l1_chain"),
        f"{of}Sampling noise alone, from the long run": metric("participation.l1_noise"),
    }
    rows = tuple(
        (what, tv(l1), "0" if l1 <= ROUNDING else fixed(l1)) for what, l1 in distances.items() if l1 is not None
    )
    note = (
        "L1 is the sum over all clients of |frequency - 1/N|, as papers give it; half of it is the total variation "
        "distance (TV): the share of reports that would have to come from other clients for all to give equally many."
    )
    facts = tuple(f"participation.{name}" for name in ("l1_uniform", "pull_l1_uniform", "l1_uniform_theory"))
    return Table(
        "How far frequencies lie from each other", ("Distance", "TV", "L1"), rows, note=note, facts=facts, aside=True
    )


def ending_table(what: str, endings: pl.DataFrame) -> Table:
    """Show how rounds or sessions ended, given ``outcome`` and ``len``: how many did so."""
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
    ("Mean model from the optimum", "bias", above_dust),
    ("... by theory", "bias_predicted", above_dust),
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
    apart = {each.name: signed(each.apart, partial(number, digits=3)) for each in ends}
    yes = {True: "yes", False: "no, below" if other in references(names) else "yes"}
    tests = {each.name: yes[each.apart > 0] if each.significant else "no" for each in ends}
    tested = "Stays biased" if other in references(names) else "Significant in this run"
    tests |= {each.name: "not tested" for each in ends if each.look is None}
    figures = {
        "Loss converged": [_converged(run, name) for name in names],
        "Loss": [above_dust(run.known.get(f"learning.{name}.loss")) for name in names],
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
    return Table("What it costs", ("Of", "In all", "For each update"), rows, facts=_COSTS)


_WHO = {"tenth_1": "tenth with the fewest reports", "tenth_10": "tenth with the most reports"}
_WHO |= {
    "worst_tenth": "tenth of the clients with the worst",
    "devices": "devices that train",
    "held_out": "devices held out",
}


def who_pays_table(run: Run) -> Table | None:
    """Show losses and accuracies of mean models of the tenths at both ends of participation, by group, and at worst."""
    counts = run.clients["reported"]
    several, uneven = len(counts) > 1, counts.max() - counts.min() > 1  # type: ignore[operator]
    names = [name for name in optimizers(run) if several and f"learning.{name}.loss_of_worst_tenth" in run.known]
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
