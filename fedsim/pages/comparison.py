"""What a comparison answers: what differs between A and B, and what that does to bias, model and pace."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl

from fedsim.common.formatting import (
    NO_VALUE,
    above_dust,
    capitalized,
    count,
    cut,
    equation,
    listing,
    listing_of,
    percent,
    signed,
)
from fedsim.measure.metrics import describe, listed
from fedsim.pages.answer import BIAS, COST, MODEL, TRUST, Answer, Check, Section, Sentence, State, Tile
from fedsim.pages.charts import Chart
from fedsim.pages.charts.learning import loss_chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.charts.who import clients_chart
from fedsim.pages.commands import command_of
from fedsim.pages.metric_wording import PACE_UNIT, MetricWording, read_condition, wording_of
from fedsim.pages.provenance import ReportProvenance, run_provenance, sweep_provenance
from fedsim.pages.tables import Table
from fedsim.pages.trial_checks import NAMED, diverged, optimizer_facts, settled_losses
from fedsim.pages.trial_tables import HEADLINES, about_of
from fedsim.pages.trials import IN_BRACKETS
from fedsim.run.files import ABSENT, Change
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.privacy import scope_of
from fedsim.trials.compare import Comparison
from fedsim.trials.contrasts import Contrasts, Standing, contrasts_of, seeds_needed, tested_together
from fedsim.trials.decision import PACE, UNDECIDED, bias_metric
from fedsim.trials.results import parameters_of
from fedsim.trials.store import SWEEP_FILE, read_sweep
from fedsim.trials.trials import short_name, value_text

_VALUE = 28  # characters of a value in a title
_LONGEST = 160  # characters of a setting shown at most
_HEADLINE_ROWS = 14  # figures in the first table at most; all are in the second
_SETTINGS = 80  # settings shown at most
_ROWS = 250  # rows of figures shown at most
_ROUNDING = 1e-12
_UNIFORM = "_uniform"  # ends the name of an optimizer that was trained under uniform participation
_BESIDE = {
    *("name", "description", "question", "headline", "decide", "expect", "drift", "sweep", "records", "replicates"),
    *("engine", "schema_version", "choose"),
}
_OWN = ("seeds", "baseline_mean", "mean", "difference", "standard_error", "low", "high")

Looks: TypeAlias = Mapping[str, tuple[Contrasts, ...]]
"""What is tested, by metric: A, the reference, and B; at each pair of settings of two sweeps."""


@dataclass(frozen=True, eq=False)
class Side:
    """A or B: a run, a sweep or a point of one."""

    place: str
    name: str
    origin: ReportProvenance
    run: Run | None  # None of what is no single run


def side_of(path: Path) -> Side:
    """Read what a page shows of one side; a `RunError` says that it cannot be read."""
    if path.is_dir() and not (path / SWEEP_FILE).exists():
        run = load_one(path)
        return Side(str(path), run.scenario.name, run_provenance(run.manifest), run)
    directory, _, point = (str(path), "", "") if path.exists() else str(path).rpartition("@")
    meta = read_sweep(directory)
    name = meta["name"] if isinstance(meta["name"], str) else path.name
    return Side(str(path), f"{name}, point {point}" if point else name, sweep_provenance(meta), None)


def comparison_answer(found: Comparison, sides: Sequence[Side] = ()) -> Answer:
    """Return what is said of a comparison; with its two sides, what they are and how they look too."""
    looks, figures = judged(found), _ranked(found.metrics)
    moves = pl.col("difference").abs() > _ROUNDING * pl.max_horizontal(1.0, pl.col("mean").abs())
    moved = figures.filter(moves & ~pl.col("metric").str.ends_with("_se"))
    runs, names = [side.run for side in sides if side.run is not None], [side.name for side in sides]
    both = dict(zip("AB", runs, strict=True)) if len(runs) == 2 else {}
    charts = [clients_chart(both, "frequencies"), loss_chart(both)] if both else []
    first = _figure_table(moved, "Figures that differ", _HEADLINE_ROWS, "that differ, below") if len(moved) else None
    checks, asked = tuple(checks_of_comparison(found, looks, sides)), what_differs(found)
    setup = "one run each" if len(runs) == 2 else f"{count(max(found.metrics['seeds'], default=0), 'seed')} in common"
    setup += "; R: rounds a device waits" if "R\N{NO-BREAK SPACE}=" in asked else ""
    return Answer(
        kind="comparison",
        name=f"{names[0]}: A against B" if len({*names}) == 1 else " against ".join(names),
        headline=next((each.text for each in checks if each.state is State.BAD), "") or comparison_headline(looks),
        question=asked,
        setup=setup,
        description="; ".join(
            f"{letter}: {side.name} ({side.place})" for letter, side in zip("AB", sides, strict=False)
        ),
        checks=checks,
        sentences=(*comparison_sentences(found, looks), *_binding(runs)),
        tiles=tuple(_tiles(looks)),
        sections=(
            Section("results", "Results", (*charts, *_differences(found, looks)), [first]),
            Section("settings", "Settings", (), [_setting_table(found.configuration)]),
            Section("metrics", "All figures", (), [_figure_table(figures, "All figures")], folded=True),
        ),
        figures=("frequencies", "losses", "differences"),
        origins={letter: side.origin for letter, side in zip("AB", sides, strict=False)},
    )


# What differs in the configuration


def _pieces(path: str) -> tuple[str, ...]:
    """Take a path apart: ``population[0].weight`` is population, [0], weight."""
    return tuple(path.replace("[", ".[").split("."))


def _path(pieces: Sequence[str]) -> str:
    return ".".join(pieces).replace(".[", "[")


def of_the_world(changes: Sequence[Change]) -> list[Change]:
    """Keep the settings that can change what happens; the others name, record or judge it."""
    every = [(_pieces(change[0]), change) for change in changes]
    return [
        change
        for pieces, change in every
        if pieces[0] not in _BESIDE and not (len(pieces) > 1 and pieces[-1] in {"name", "description"})
    ]


def _named_differences(changes: Sequence[Change]) -> list[tuple[str, str, str]]:
    """Name what differs in the world, but for the seed, with both values: each only once.

    A source of another kind is named by its kinds, and what is on one side alone by that, without what is within it.
    """
    world = [(_pieces(path), *pair) for path, *pair in of_the_world(changes) if path != "seed"]
    kinds = {pieces[:-1] for pieces, *_ in world if pieces[-1] == "kind"}
    alone = {pieces for pieces, *pair in world if ABSENT in pair and None in pair}
    kept = []
    for pieces, ours, theirs in world:
        above = {pieces[:length] for length in range(1, len(pieces))}
        if above & alone or (above & kinds and pieces[-1] != "kind"):
            continue
        own = pieces[:-1] if pieces[-1] in {"kind", "value"} else pieces
        kept.append((own, _value(ours, pieces in alone), _value(theirs, pieces in alone)))
    names: dict[str, set[tuple[str, str]]] = {}
    for own, ours, theirs in kept:
        names.setdefault(short_name(_path(own)), set()).add((ours, theirs))
    return list(dict.fromkeys((_of_group(own, len(names[short_name(_path(own))]) > 1), a, b) for own, a, b in kept))


def _of_group(pieces: Sequence[str], several: bool) -> str:
    """Name a setting in short, with its group where it is another one in others: ``R of group 2``."""
    name = short_name(_path(pieces))
    if not several:
        return name
    group = pieces[0] == "population" and len(pieces) > 2
    return f"{name} of group {int(pieces[1].strip('[]')) + 1}" if group else _path(pieces)


def _value(value: object, block: bool) -> str:
    if block or value is None:
        return "none" if value is None else "some"
    return cut(json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value_text(value), _VALUE)


def what_differs(found: Comparison) -> str:
    """Name what differs: ``R = 4 (A) against R = 12 (B)``; empty where nothing does."""
    apart = _named_differences(found.configuration)
    if not apart:
        seeds = [change[1:] for change in found.configuration if change[0] == "seed"]
        return f"The same scenario with seed {seeds[0][0]} (A) against seed {seeds[0][1]} (B)" if seeds else ""
    sides = [", ".join(equation(row[0], row[side]) for row in apart[:NAMED]) for side in (1, 2)]
    more = f", and {count(len(apart) - NAMED, 'more difference')}" if len(apart) > NAMED else ""
    return f"{sides[0]} (A) against {sides[1]} (B){more}"


# What that does


def judged(found: Comparison) -> Looks:
    """Judge what the scenario asks for, bias, models and pace together."""
    trials, looks = found.trials, list[tuple[str, Contrasts]]()
    names = dict.fromkeys([*optimizer_facts(trials, "excess_loss"), *optimizer_facts(trials, "loss")])
    own = [name for name in names if name.removesuffix(_UNIFORM) == name or name.removesuffix(_UNIFORM) not in names]
    both = ([f"learning.{name}.{what}" for what in ("excess_loss", "loss")] for name in own[:NAMED])
    losses = [next(each for each in pair if each in trials.metrics) for pair in both]
    asked = (trials.meta.get("scenario") or {}).get("headline")
    for metric in dict.fromkeys([*([asked] if asked else []), bias_metric(trials), *losses, PACE]):
        values, errors = trials.samples(metric), trials.errors(metric)
        for pair in found.pairs:
            each = contrasts_of(values[[*pair]], reference=0, errors=None if errors is None else errors[[*pair]])
            looks += [(metric, each)] if np.isfinite(each.difference[1]) else []
    together = tested_together([each for _, each in looks])
    pairs = zip((metric for metric, _ in looks), together, strict=True)
    return {metric: tuple(each for _, each in every) for metric, every in groupby(pairs, itemgetter(0))}


def comparison_headline(looks: Looks) -> str:
    """Say what B has of bias, or of the loss, that A has not, and at what price in pace."""
    if not looks:
        return "Nothing to compare: the two have no figure of bias, model or pace in common."
    metric, every = next(iter(looks.items()))
    wording, found = wording_of(metric), every[0]
    if len(every) > 1:
        return _at_settings(wording, every)
    apart, state, price = float(found.difference[1]), found.states[1], ""
    if metric != PACE and (pace := looks.get(PACE)) and (before := pace[0].mean[0]):
        change = float(pace[0].difference[1]) / before
        how = "more" if change > 0 else "fewer"
        price = f", at {percent(abs(change))} {how} rounds per day" if abs(change) > 1e-6 else ", at the same pace"
    if state is Standing.SAME or not apart:
        return f"{capitalized(wording.the)} is the same in A and B{price}."
    by = wording.difference(apart, float(found.half[1]))
    if state is Standing.TIED:
        return f"A and B show no significant difference in {wording.the} ({by})."
    if state is Standing.FEW:
        return f"{count(int(found.seeds[1]), 'seed')} are too few to test the difference in {wording.the} ({by})."
    sure, untested = ("significantly ", "") if state is Standing.DIFFERS else ("", " (one run each, not tested)")
    way = f"{sure}{'lower' if apart < 0 else 'higher'}"
    return f"{capitalized(wording.the)} is {way} in B than in A ({by}){price}{untested}."


def _at_settings(wording: MetricWording, own: Sequence[Contrasts]) -> str:
    """Say at how many settings of two sweeps B has significantly less, more, or neither."""
    apart = np.array([each.difference[1] for each in own])
    if not apart.any():
        return f"{capitalized(wording.the)} is the same in both at all {count(len(own), 'setting')}."
    differs = np.array([each.states[1] is Standing.DIFFERS for each in own])
    settings = {
        "significantly lower": int((differs & (apart < 0)).sum()),
        "significantly higher": int((differs & (apart > 0)).sum()),
        "without a significant difference": int((~differs).sum()),
    }
    ways = [f"{way} at {count(many)}" for way, many in settings.items() if many]
    return f"Of {count(len(own), 'setting')}, {wording.the} in B is {listing(ways)}."


def comparison_sentences(found: Comparison, looks: Looks) -> Iterator[Sentence]:
    """Say what differs in bias, model and pace, and by which test."""
    trained = [metric for metric in looks if about_of(metric) == MODEL]
    for about in (BIAS, MODEL, COST):
        for metric in (each for each in looks if about_of(each) == about):
            yield Sentence(_change(wording_of(metric), looks[metric]), about, (metric,))
        if about == MODEL and not trained and not optimizer_facts(found.trials, "diverged"):
            yield Sentence("No model was trained.", MODEL)
    if len(trained) == NAMED:
        yield Sentence("Further optimizers are in the table of figures.", MODEL)
    every = [each for own in looks.values() for each in own]
    if any(each.states[1] not in {Standing.UNTESTED, Standing.SAME} for each in every):
        yield Sentence(f"Differences are paired by seed and tested together: {every[0].test}.", TRUST)


def _change(wording: MetricWording, own: Sequence[Contrasts]) -> str:
    """Say how a metric differs, and what the test says."""
    if len(own) > 1:
        return _at_settings(wording, own)
    first, second = map(wording.write, own[0].mean.tolist())
    apart = float(own[0].difference[1])
    if not apart:
        return f"{capitalized(wording.the)} is {second} in both."
    by = f"{wording.difference(apart, float(own[0].half[1]))}{IN_BRACKETS[own[0].states[1]]}"
    return f"{capitalized(wording.the)} is {first} in A and {second} in B ({by})."


def checks_of_comparison(found: Comparison, looks: Looks, sides: Sequence[Side] = ()) -> Iterator[Check]:
    """Yield what became of each check of a comparison."""
    for nothing in found.nothing:
        yield Check("reports", State.BAD, f"{capitalized(nothing)}.")
    for note in filter(None, found.notes):
        yield Check("paired", State.CAUTION, f"{capitalized(note)}.")
    for letter, missed in zip("AB", found.missed, strict=True):
        limits = []
        for each in missed:
            (words, write), several = read_condition(each.check), each.of > 1
            runs = f" in {count(each.runs)} of {count(each.of, 'run')}" if several else ""
            worst = "no value" if each.worst is None else f"{'worst ' if several else ''}{write(each.worst)}"
            limits.append(f"{words}{runs} ({worst}{', a warning' if each.severity == 'warn' else ''})")
        if limits:
            text = f"{letter} misses {count(len(limits), 'expectation')}: {listing_of(limits, NAMED, 'more')}."
            yield Check("limits", State.CAUTION, text, letter)
    # A command would be that of B alone.
    trials = replace(found.trials, meta={key: each for key, each in found.trials.meta.items() if key != "command"})
    if len(found.pairs) == 1:
        letters = pl.Series(["A", "B"])
        trials = replace(trials, parameters=("name",), settings=trials.settings.with_columns(name=letters))
    yield from diverged(trials)
    yield from settled_losses(trials)
    yield from _seeds(found, looks, sides)


def _seeds(found: Comparison, looks: Looks, sides: Sequence[Side]) -> Iterator[Check]:
    """Say whether there are enough seeds to test what differs, and what would be."""
    every = [each for own in looks.values() for each in own]
    if not every:
        return
    if not (found.metrics["seeds"] > 1).any():
        commands = [command_of({"command": side.origin.command}, "sweep", "sweep.seeds=5") for side in sides]
        swept = [f"{each} --out 5-{letter}" for each, letter in zip(commands, "ab", strict=False) if each]
        command = " && ".join([*swept, "fedsim compare 5-a 5-b"]) if len(swept) == 2 else ""
        untested = all(each.states[1] is Standing.UNTESTED for each in every)
        text = "Each side is one run: a difference without ± is not tested."
        more = "Sweep both over several seeds, and compare the sweeps."
        yield Check("seeds", State.CAUTION if untested else State.OK, text, "", tuple(looks), more, command)
        return
    metric, first = next(iter(looks.items()))
    open_ = [each for each in first if each.states[1] in UNDECIDED and each.difference[1]]
    if not open_:
        yield Check("seeds", State.OK, "The seeds are enough to test the first figure.", "", (metric,))
        return
    apart, half, seeds = (float(values[1]) for values in (open_[0].difference, open_[0].half, open_[0].seeds))
    needed = seeds_needed(apart, half, int(seeds), max(1, open_[0].tests)) if np.isfinite(half) else None
    by = wording_of(metric).difference(abs(apart), sign=False)
    remedy = f"Run about {count(needed)} seeds (`sweep.seeds`) to see a difference as small as {by}." if needed else ""
    text = f"{count(seeds, 'seed')} show no significant difference in {wording_of(metric).the}."
    if len(first) > 1:
        text = f"At {count(len(open_))} of {count(len(first), 'setting')} the seeds show no significant difference in "
        text += f"{wording_of(metric).the}."
    yield Check("seeds", State.CAUTION if needed else State.OK, text, "", (metric,), remedy)


def _binding(runs: Sequence[Run]) -> Iterator[Sentence]:
    """Say which settings of runs bind, so that their figures depend on them."""
    for letter, run in zip("AB", runs, strict=False):
        scenario, outcomes = run.scenario, set(run.rounds["outcome"])
        said = {
            "participations are capped": any(group.participations is not None for group in scenario.population),
            "rounds were skipped": "skipped" in outcomes,
            "rounds failed": "failed" in outcomes,
            "reports came late": run.known.get("sessions.late_share", 0.0) > 0,
            "training is private": scenario.privacy is not None,
            "cohorts vary (Poisson)": scenario.server.selection.kind == "poisson",
            "shocks hit the devices": bool(scenario.shocks),
        }
        if binds := [words for words, does in said.items() if does]:
            yield Sentence(f"In {letter}, {listing(binds)}.", TRUST)


# Tiles, charts and tables


def _tiles(looks: Looks) -> Iterator[Tile]:
    """Pick the key figures: bias and pace of both."""
    for metric, own in looks.items():
        wording, each = wording_of(metric), own[0]
        if len(own) == 1 and about_of(metric) in {BIAS, COST}:
            apart = float(each.difference[1])
            write, words = (wording.apart, PACE_UNIT) if metric == PACE else (wording.write, wording.words)
            first, second = map(write, each.mean.tolist())
            yield Tile(first, f"{words}, A")
            yield Tile(second, f"{words}, B", f"{wording.difference(apart)} against A" if apart else "the same as A")


def _differences(found: Comparison, looks: Looks) -> Iterator[Chart]:
    """Draw the differences of bias at every setting of two sweeps, or of what is tested, in per cent of A."""
    many = next((metric for metric, own in looks.items() if len(own) > 1), None)
    tested = [(metric, own[0]) for metric, own in looks.items() if np.isfinite(own[0].half[1]) and own[0].mean[0]]
    rows = tested if many is None else [(many, each) for each in looks[many]][: _SETTINGS // 2]
    if not rows:
        return
    scale = np.array([100 / abs(each.mean[0]) if many is None else wording_of(many).scale for _, each in rows])
    apart, half = (np.array(each) for each in zip(*((c.difference[1], c.half[1]) for _, c in rows), strict=True))
    differs = np.array([each.states[1] is Standing.DIFFERS for _, each in rows])
    if many is None:
        names = [wording_of(metric).axis for metric, _ in rows]
        unit, title = "change from A to B, in % of A", "What changes from A to B, with intervals"
    else:
        names, wording = [found.trials.names[row] for _, row in found.pairs], wording_of(many)
        unit, title = f"{wording.axis}, B less A", f"How {wording.the} differs"
    legend = ("significant", "not significant")
    data = Rows(tuple(names[: len(rows)]), scale * apart, scale * half, differs, legend, unit, 0.0)
    yield row_plot(data, "differences", title)


def _setting_table(changes: Sequence[Change]) -> Table | None:
    """Show the settings that differ; None where none does."""
    if not changes:
        return None
    first = of_the_world(changes)
    ordered = [*first, *(change for change in changes if change not in first)]
    left = len(changes) - _SETTINGS
    rows = tuple((path, _written(ours), _written(theirs)) for path, ours, theirs in ordered[:_SETTINGS])
    note = f"{count(left, 'more setting')} in the manifests." if left > 0 else ""
    return Table("Settings that differ", ("Setting", "A", "B"), rows, words=3, note=note)


def _written(value: object) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _LONGEST)


def _ranked(figures: pl.DataFrame) -> pl.DataFrame:
    """Put the figures in the order in which they are read: the headlines, then as the catalogue lists them."""
    order = [*HEADLINES, *(metric.name for metric in listed()), ""]

    def rank(name: str) -> int:
        known = describe(name)
        return order.index(name if name in HEADLINES else "" if known is None else known.name)

    ranks = pl.col("metric").replace_strict({name: rank(name) for name in figures["metric"].unique()})
    return figures.sort(ranks if len(figures) else "metric", "metric", "point", maintain_order=True)


def _figure_table(figures: pl.DataFrame, caption: str, rows: int = _ROWS, rest: str = "in the directories") -> Table:
    """Show figures side by side, with how B differs from A, and by how much that may be chance where it is known."""
    parameters = [name for name in parameters_of(figures) if name not in _OWN]
    several, cells = bool((figures["seeds"] > 1).any()), []
    for row in figures.head(rows).iter_rows(named=True):
        first, second = (0.0 if abs(row[name]) < _ROUNDING else row[name] for name in ("baseline_mean", "mean"))
        apart = 0.0 if abs(row["difference"]) <= _ROUNDING * max(1.0, abs(first)) else row["difference"]
        values = [row["metric"], *(value_text(row[name]) for name in parameters)]
        values += [above_dust(first, 5), above_dust(second, 5), signed(apart)]
        if several:
            known = row["high"] is not None and row["seeds"] > 1
            values.append(above_dust(row["high"] - apart, 2) if known else NO_VALUE)
        values.append(signed(apart / abs(first), percent) if first else NO_VALUE)
        cells.append(tuple(values))
    interval = ("± 95 %",) if several else ()
    header = ("Metric", *map(short_name, parameters), "A", "B", "B \N{MINUS SIGN} A", *interval, "Change")
    left = len(figures) - len(cells)
    notes = [f"{count(left, 'more figure')} {rest}."] if left > 0 else []
    if any(row[0].startswith("privacy.epsilon") for row in cells):
        notes.append(f"Epsilon is for {scope_of('privacy.epsilon_if_known' in set(figures['metric']))}.")
    return Table(caption, header, tuple(cells), words=1 + len(parameters), note=" ".join(notes))
