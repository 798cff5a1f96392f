"""What a comparison answers: what differs between A and B, and what that does to bias, model and pace."""

import json
from collections import Counter
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
from fedsim.pages.answer import BIAS, COST, MODEL, TRUST, Answer, Check, Grade, Section, Sentence, Tile
from fedsim.pages.charts import Chart
from fedsim.pages.charts.learning import loss_chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.charts.who import clients_chart
from fedsim.pages.metric_wording import MetricWording, read_condition, wording_of
from fedsim.pages.provenance import ReportProvenance, run_provenance, sweep_provenance
from fedsim.pages.tables import Table
from fedsim.pages.trial_checks import NAMED, diverged, losses_of, optimizer_facts, seeds_check, settled_losses
from fedsim.pages.trial_tables import HEADLINES, about_of
from fedsim.run.files import ABSENT, Change
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.privacy import scope_of
from fedsim.trials.compare import Comparison
from fedsim.trials.contrasts import Contrasts, Standing, contrasts_of, tested_together
from fedsim.trials.decision import TAKEN, UNDECIDED, UPDATES, bias_metric, pace_metric
from fedsim.trials.results import parameters_of
from fedsim.trials.store import SWEEP_FILE, read_sweep
from fedsim.trials.trials import Trials, short_name, value_text

_VALUE = 28  # characters of a value in a title
_LONGEST = 160  # characters of a setting shown at most
_HEADLINE_ROWS = 14  # figures in the first table at most; all are in the second
_SETTINGS = 80  # settings shown at most
_ROWS = 250  # rows of figures shown at most
_ROUNDING = 1e-12
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
    first = _figure_table(moved.head(_HEADLINE_ROWS), "Figures that differ") if len(moved) else None
    checks, asked = tuple(checks_of_comparison(found, looks)), what_differs(found)
    setup = "one run each" if len(runs) == 2 else f"{count(max(found.metrics['seeds'], default=0), 'seed')} in common"
    return Answer(
        kind="comparison",
        name=f"{names[0]}: A against B" if len({*names}) == 1 else " against ".join(names),
        headline=next((each.text for each in checks if each.state is Grade.BAD), "") or comparison_headline(looks),
        question=asked,
        setup=setup,
        description="; ".join(
            f"{letter}: {side.name} ({side.place})" for letter, side in zip("AB", sides, strict=False)
        ),
        checks=checks,
        sentences=tuple(comparison_sentences(found, looks)),
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


def of_the_world(changes: Sequence[Change]) -> list[Change]:
    """Keep the settings that can change what happens; the others name, record or judge it."""

    def changes_it(path: str) -> bool:
        first, *others = path.replace("[", ".").split(".")
        return first not in _BESIDE and not (others and others[-1] in {"name", "description"})

    return [change for change in changes if changes_it(change[0])]


def _named_differences(changes: Sequence[Change]) -> list[tuple[str, str, str]]:
    """Name what differs in the world, but for the seed, with both values: each only once.

    A source of another kind is named by its kinds, and what is on one side alone by that, without what is within it.
    """
    world = [change for change in of_the_world(changes) if change[0] != "seed"]
    alone = {path for path, *pair in world if ABSENT in pair and None in pair}
    kinds = tuple(path.removesuffix("kind") for path, *_ in world if path.endswith(".kind"))
    kept = []
    for path, ours, theirs in world:
        within = path.startswith(kinds) and not path.endswith(".kind")
        if not within and not path.startswith(tuple(f"{each}." for each in alone)):
            own = path.removesuffix(".kind").removesuffix(".value")
            kept.append((own, _value(ours, path in alone), _value(theirs, path in alone)))
    times = Counter(name for name, *_ in {(short_name(path), *pair) for path, *pair in kept})
    return list(dict.fromkeys((short if times[short := short_name(path)] == 1 else path, a, b) for path, a, b in kept))


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
    asked = (trials.meta.get("scenario") or {}).get("headline") or bias_metric(trials)
    for metric in dict.fromkeys([asked, bias_metric(trials), *losses_of(trials), pace_metric(trials)]):
        looks += [(metric, each) for each in beside(trials, metric, found.pairs)]
    together = tested_together([each for _, each in looks])
    pairs = zip((metric for metric, _ in looks), together, strict=True)
    return {metric: tuple(each for _, each in every) for metric, every in groupby(pairs, itemgetter(0))}


def beside(trials: Trials, metric: str, pairs: Sequence[tuple[int, int]]) -> list[Contrasts]:
    """Compare settings in pairs, of which the first is the reference; those without a value in common are left out."""
    values, errors = trials.samples(metric), trials.errors(metric)
    each = (
        contrasts_of(values[[*pair]], reference=0, errors=None if errors is None else errors[[*pair]]) for pair in pairs
    )
    return [found for found in each if np.isfinite(found.difference[1])]


def comparison_headline(looks: Looks) -> str:
    """Say how B differs from A in the first figure, and in pace."""
    if not looks:
        return "Nothing to compare: the two have no figure of bias, model or pace in common."
    metric, every = next(iter(looks.items()))
    text = _change(wording_of(metric), every)
    pace = next((wording_of(each) for each in (TAKEN, UPDATES) if each in looks), None)
    if pace is None or metric == pace.metric:
        return f"{text}."
    return f"{text}; {pace.words}: {_ways(pace, looks[pace.metric])}."


def _ways(wording: MetricWording, own: Sequence[Contrasts]) -> str:
    """Say how B differs from A in a metric; of two sweeps at how many settings it is more, less, or neither."""
    apart = np.array([each.difference[1] for each in own])
    if not apart.any():
        return "the same in A and B"
    if len(own) == 1:
        first, second = map(wording.write, own[0].mean.tolist())
        return f"{first} in A and {second} in B ({wording.contrast(own[0])})"
    differs = np.array([each.states[1] is Standing.DIFFERS for each in own])
    settings = {
        "significantly lower": int((differs & (apart < 0)).sum()),
        "significantly higher": int((differs & (apart > 0)).sum()),
        "without a significant difference": int((~differs).sum()),
    }
    ways = listing([f"{way} at {count(many)}" for way, many in settings.items() if many])
    return f"of {count(len(own), 'setting')} in B {ways}"


def _change(wording: MetricWording, own: Sequence[Contrasts]) -> str:
    return f"{capitalized(wording.words)}: {_ways(wording, own)}"


def comparison_sentences(found: Comparison, looks: Looks) -> Iterator[Sentence]:
    """Say what differs in bias, model and pace, and by which test."""
    for about in (BIAS, MODEL, COST):
        own = [metric for metric in looks if about_of(metric) == about]
        yield from (Sentence(f"{_change(wording_of(each), looks[each])}.", about, (each,)) for each in own)
        if about == MODEL and not own and not optimizer_facts(found.trials, "diverged"):
            yield Sentence("No model was trained.", MODEL)
    every = [each for own in looks.values() for each in own]
    if any(each.states[1] not in {Standing.UNTESTED, Standing.SAME} for each in every):
        yield Sentence(f"Differences are paired by seed and tested together: {every[0].test}.", TRUST)


def checks_of_comparison(found: Comparison, looks: Looks) -> Iterator[Check]:
    """Yield what became of each check of a comparison."""
    for nothing in found.nothing:
        yield Check("reports", Grade.BAD, f"{capitalized(nothing)}.")
    for note in filter(None, found.notes):
        yield Check("paired", Grade.CAUTION, f"{capitalized(note)}.")
    for letter, missed in zip("AB", found.missed, strict=True):
        limits = []
        for each in missed:
            (words, write), several = read_condition(each.check), each.of > 1
            runs = f" in {count(each.runs)} of {count(each.of, 'run')}" if several else ""
            worst = "no value" if each.worst is None else f"{'worst ' if several else ''}{write(each.worst)}"
            limits.append(f"{words}{runs} ({worst}{', a warning' if each.severity == 'warn' else ''})")
        if limits:
            text = f"{letter} misses {count(len(limits), 'expectation')}: {listing_of(limits, NAMED, 'more')}."
            yield Check("limits", Grade.CAUTION, text, letter)
    # A command would be that of B alone.
    trials = replace(found.trials, meta={key: each for key, each in found.trials.meta.items() if key != "command"})
    if len(found.pairs) == 1:
        letters = pl.Series(["A", "B"])
        trials = replace(trials, parameters=("name",), settings=trials.settings.with_columns(name=letters))
    yield from diverged(trials)
    yield from settled_losses(trials)
    yield from _seeds(found, looks)


def _seeds(found: Comparison, looks: Looks) -> Iterator[Check]:
    """Say whether there are enough seeds to test what differs first, and what would be."""
    if not looks:
        return
    metric, first = next(iter(looks.items()))
    if (found.metrics["seeds"] > 1).any():
        least = min(first, key=lambda each: each.states[1] not in UNDECIDED)  # one that is open, if there is
        yield from seeds_check(least, ("A", "B"), wording_of(metric), {})
        return
    untested = all(each.states[1] is Standing.UNTESTED for own in looks.values() for each in own)
    text = "Each side is one run: a difference without ± is not tested."
    more = "Sweep both over several seeds, and compare the sweeps."
    yield Check("seeds", Grade.CAUTION if untested else Grade.OK, text, "", tuple(looks), more)


# Tiles, charts and tables


def _tiles(looks: Looks) -> Iterator[Tile]:
    """Pick the key figures: bias and pace of both."""
    for metric, own in looks.items():
        wording, each = wording_of(metric), own[0]
        if len(own) == 1 and about_of(metric) in {BIAS, COST}:
            first, second = map(wording.write, each.mean.tolist())
            yield Tile(first, f"{wording.words}, A")
            yield Tile(second, f"{wording.words}, B", f"{wording.difference(float(each.difference[1]))} against A")


def _differences(found: Comparison, looks: Looks) -> Iterator[Chart]:
    """Draw how the first figure differs at every setting of two sweeps."""
    metric, own = next(iter(looks.items()), ("", ()))
    if len(own) > 1:
        wording, legend = wording_of(metric), ("significant", "not significant")
        ends, values = np.array(found.pairs).T, found.trials.samples(metric)
        rows = ends[1][np.isfinite(values[ends[0]] - values[ends[1]]).any(axis=1)].tolist()
        apart, half = wording.scale * np.array([(each.difference[1], each.half[1]) for each in own]).T
        names, differs = tuple(found.trials.names[row] for row in rows), np.array([each.differs[1] for each in own])
        data = Rows(names, apart, half, differs, legend, f"{wording.axis}, B less A", 0.0)
        yield row_plot(data, "differences", f"{capitalized(wording.words)}: how B differs")


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


def _figure_table(figures: pl.DataFrame, caption: str) -> Table:
    """Show figures side by side, with how B differs from A, and by how much that may be chance where it is known."""
    parameters = [name for name in parameters_of(figures) if name not in _OWN]
    several, cells = bool((figures["seeds"] > 1).any()), []
    for row in figures.head(_ROWS).iter_rows(named=True):
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
    notes = [f"{count(left, 'more figure')} in the directories."] if left > 0 else []
    if any(row[0].startswith("privacy.epsilon") for row in cells):
        notes.append(f"Epsilon is for {scope_of('privacy.epsilon_if_known' in set(figures['metric']))}.")
    return Table(caption, header, tuple(cells), words=1 + len(parameters), note=" ".join(notes))
