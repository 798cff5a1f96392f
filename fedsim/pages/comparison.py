"""What a comparison answers: what trials do whose settings are A and B, and what was set differently."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from fedsim.common.formatting import capitalized, count, cut, equation
from fedsim.pages.answer import Answer, Check, Grade, Section
from fedsim.pages.charts.learning import loss_chart
from fedsim.pages.charts.who import lorenz_chart
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.provenance import ReportProvenance, run_provenance, sweep_provenance
from fedsim.pages.tables import Table
from fedsim.pages.trial_checks import NAMED, limits_check
from fedsim.pages.trial_tables import cells
from fedsim.pages.trials import trials_answer
from fedsim.run.files import ABSENT, Change
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.privacy import scope_of
from fedsim.scenario.sweep import WITHOUT_EFFECT
from fedsim.trials.compare import Comparison
from fedsim.trials.decision import aim_of, bias_metric
from fedsim.trials.store import SWEEP_FILE, read_sweep
from fedsim.trials.trials import SIDE, Trials, short_name, value_text

_VALUE = 28  # characters of a value in a title
_LONGEST = 160  # characters of a setting shown at most
_SETTINGS = 80  # settings shown at most
_ROWS = 250  # rows of figures shown at most
_BESIDE = WITHOUT_EFFECT | {"records", "engine"}


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


def comparison_answer(comparison: Comparison, sides: Sequence[Side] = ()) -> Answer:
    """Return what is said of a comparison; with its two sides, what they are and how they look too."""
    answer, names = trials_answer(_named(comparison), tuple(_checks(comparison))), [side.name for side in sides]
    pairs = [*zip("AB", sides, strict=False)]
    asked = aim_of(comparison.trials).metric == bias_metric(comparison.trials)
    runs = {letter: side.run for letter, side in pairs if side.run is not None}
    figures = figure_table(comparison.metrics.head(_ROWS), len(comparison.metrics))
    charts = [lorenz_chart(runs, "frequencies"), loss_chart(runs)] if len(runs) == 2 else []
    return replace(
        answer,
        kind="comparison",
        name=f"{names[0]}: A against B" if len({*names}) == 1 else " against ".join(names),
        question=what_differs(comparison),
        picture="distance" if asked else "settings",  # of what the headline says
        description="; ".join(f"{letter}: {side.name} ({Path(side.place).name})" for letter, side in pairs),
        sections=(
            Section("results", "Results", charts),
            *answer.sections,
            Section("settings", "What differs", (), [_setting_table(comparison.configuration)]),
            Section("metrics", "All figures", (), [figures], folded=True),
        ),
        figures=("frequencies", "losses", *answer.figures),
        origins={letter: side.origin for letter, side in pairs},
    )


def _named(comparison: Comparison) -> Trials:
    """Return the trials with sides that are called by what they set, where that is short."""
    trials, named = comparison.trials, dict(zip("AB", _sides(comparison), strict=False))
    if max(map(len, named.values()), default=99) > _VALUE or len({*named.values()}) < 2:
        return trials
    sides = pl.col(SIDE).replace({side: f"{text} ({side})" for side, text in named.items()})
    return replace(trials, settings=trials.settings.with_columns(sides))


def _checks(comparison: Comparison) -> Iterator[Check]:
    """Yield what became of each check of the two sides, before those of the trials."""
    for nothing in comparison.nothing:
        yield Check("reports", Grade.BAD, f"{capitalized(nothing)}.")
    for note in comparison.notes:
        yield Check("paired", Grade.CAUTION, f"{capitalized(note)}.")
    for side in comparison.sides:
        yield from limits_check(side)


def _of_the_world(changes: Sequence[Change]) -> list[Change]:
    """Keep the settings that can change what happens; the others name, record or judge it."""

    def changes_it(path: str) -> bool:
        first, *others = path.replace("[", ".").split(".")
        return first not in _BESIDE and not (others and others[-1] in {"name", "description"})

    return [change for change in changes if changes_it(change[0])]


def what_differs(comparison: Comparison) -> str:
    """Name what differs: ``R = 4 (A) against R = 12 (B)``; empty where nothing does.

    Keys of one side alone are left out, but for blocks that the other does without.
    """
    sides, apart = _sides(comparison), len(_apart(comparison)[0])
    more = f", and {count(apart - NAMED, 'more difference')}" if apart > NAMED else ""
    same = "The same scenario with " * (not apart)
    return f"{same}{sides[0]} (A) against {sides[1]} (B){more}" if sides else ""


def _apart(comparison: Comparison) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Return what differs, with the values of A and B, but for the seed; and the seed where that does."""
    world = [each for each in _of_the_world(comparison.configuration) if ABSENT not in each[1:] or None in each[1:]]
    every = [(path.removesuffix(".kind").removesuffix(".value"), _value(a), _value(b)) for path, a, b in world]
    times = Counter(name for name, *_ in {(short_name(path), *pair) for path, *pair in every})
    named = ((short if times[short := short_name(path)] == 1 else path, a, b) for path, a, b in every if path != "seed")
    return list(dict.fromkeys(named)), [each for each in every if each[0] == "seed"]


def _sides(comparison: Comparison) -> list[str]:
    """Name A and B by what differs, or by their seeds; empty where nothing does."""
    apart, seeds = _apart(comparison)
    if not apart:
        return [f"seed {seeds[0][side]}" for side in (1, 2)] if seeds else []
    return [", ".join(equation(row[0], row[side]) for row in apart[:NAMED]) for side in (1, 2)]


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value_text(value)
    return {None: "none", ABSENT: "some"}.get(value if value is None or value == ABSENT else "", cut(text, _VALUE))


def _setting_table(changes: Sequence[Change]) -> Table | None:
    """Show the settings that differ; None where none does."""
    if not changes:
        return None
    first = _of_the_world(changes)
    ordered = [*first, *(change for change in changes if change not in first)]
    left = len(changes) - _SETTINGS
    rows = tuple((path, _written(ours), _written(theirs)) for path, ours, theirs in ordered[:_SETTINGS])
    note = f"{count(left, 'more setting')} in the manifests." if left > 0 else ""
    return Table("Settings that differ", ("Setting", "A", "B"), rows, words=3, note=note)


def _written(value: object) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _LONGEST)


def figure_table(figures: pl.DataFrame, every: int = 0) -> Table:
    """Show figures of A and B, of `every` that there are, and how these differ, with the interval where it is known."""
    parameters = figures.columns[1 : figures.columns.index("metric")]
    rows = list[tuple[str, ...]]()
    for row in figures.iter_rows(named=True):
        metric, apart, high = row["metric"], row["difference"], row["high"]
        names = (metric, *(value_text(row[name]) for name in parameters))
        both = cells(np.array([row["baseline_mean"], row["mean"]]), np.full((2, 2), np.nan), metric)
        rows.append((*names, *both, wording_of(metric).difference(apart, np.nan if high is None else high - apart)))
    left = every - len(rows)
    notes = [f"{count(left, 'more figure')} in the directories."] if left > 0 else []
    if any(row[0].startswith("privacy.epsilon") for row in rows):
        notes.append(f"Epsilon is for {scope_of('privacy.epsilon_if_known' in set(figures['metric']))}.")
    header = ("Metric", *map(short_name, parameters), "A", "B", "B minus A")
    caption = "All figures, and half of the 95 % interval of a difference"
    return Table(caption, header, tuple(rows), 1 + len(parameters), " ".join(notes))
