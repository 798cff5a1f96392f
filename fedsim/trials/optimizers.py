"""Trials of optimizers: those that the runs of a sweep train are the settings, over the sweep's settings as cases."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import ScenarioError
from fedsim.measure.metrics import split
from fedsim.scenario.learning import OptimizerChoice
from fedsim.trials.contrasts import FAR, LEVEL, Contrasts, Standing, contrasts, contrasts_of
from fedsim.trials.trials import Trials

if TYPE_CHECKING:
    from fedsim.learning.optimizers.optimizer import Footprint

FIGURES = ("bias", "excess_loss", "loss")
"""What optimizers are compared by, the first that is known: distance of the mean model from the optimum, and losses."""
RANK = "rank"
"""The fact that ranks an optimizer: the mean over the cases, 1 is the best."""
_FEWEST = 3  # optimizers of one run; two are compared at every setting
_WORLDS = {"population", "server", "learning.problem", "name"}  # keys whose values are cases, and no choice


def in_case(what: str, case: str) -> str:
    """Return the name of the fact that an optimizer has in a case."""
    return f"{what}, {case}"


def metrics_of(trials: Trials, figure: str) -> dict[str, str]:
    """Return the metric ``learning.NAME.figure`` of every optimizer that has it, by its name."""
    parsed = ((split(name), name) for name in trials.metrics)
    return {
        parts["optimizer"]: name
        for (metric, parts), name in parsed
        if metric is not None and metric.name == f"learning.OPTIMIZER.{figure}" and parts.keys() == {"optimizer"}
    }


@lru_cache(8)
def twins(trials: Trials) -> frozenset[str]:
    """Name the optimizers that were trained under uniform participation, as the settings' `learning.reference` says."""
    points = [each["values"] for each in trials.meta.get("points", ())] or [{}]
    trained = [{path: value for path, value in each.items() if path.partition(".")[0] == "learning"} for each in points]
    names = set[str | None](trials.meta.get("twins", ()))  # of both sides of a comparison
    for values in {json.dumps(each): each for each in trained}.values():
        with suppress(ScenarioError):  # of another version
            learning = trials.scenario.with_values({"sweep": None, **values}).learning
            names.add(None if learning is None else learning.twin)
    return frozenset(name for name in names if name is not None)


@lru_cache(8)
def by_optimizer(trials: Trials) -> Trials | None:
    """Return the trials of the optimizers of a sweep over optimizers, or whose runs train several; None of others.

    Their facts are `RANK` and, in each case, the figure that they are compared by. `meta` has the ``figure``, the
    ``cases``, those judged ``by_loss`` among distances, those that are ``ranked``, the optimizers that are ``lost`` in
    some runs, where they are last or far off, with the cases of these, and those ``elsewhere``: in too few cases.
    """
    others = [name for name in trials.parameters if name not in _choices(trials)]
    cases = trials.setting_names([name for name in others if len(set(trials.texts(name))) > 1])
    for figure in FIGURES if len({*cases}) > 1 else FIGURES[::-1]:  # of one case the loss itself can be compared
        if names := [name for name in metrics_of(trials, figure) if name not in twins(trials)]:
            break
    else:
        return None

    def table(what: str) -> Floats:
        return np.stack([trials.samples(f"learning.{name}.{what}") for name in names])

    values, by_loss = table(figure), list[str]()
    if figure == "bias":  # where no optimum is known, models are compared by their losses
        losses, none = table("average_loss"), np.isnan(values).all(axis=(0, 2), keepdims=True)
        values, at = np.where(none, losses, values), np.flatnonzero((none & np.isfinite(losses)).any(axis=(0, 2)))
        by_loss = [cases[row] for row in at.tolist()]
    values = np.where(table("diverged") == 1, np.inf, values)
    finite, kinds = ~np.isnan(values), {name: each.kind for name, each in configured(trials).items()}
    if any(axis.size > 1 and {*axis.parameters} & {*_choices(trials)} for axis in trials.axes):
        every = list(dict.fromkeys(cases))
        rows = [[row for row, case in enumerate(cases) if case == each] for each in every]
        if any((finite[:, at].any(axis=2).sum(axis=1) > 1).any() for at in rows):
            alone = finite.any(axis=2)
            if (alone.sum(axis=0) > 1).any():
                return None  # an optimizer has several settings of its own in one case
            texts = [", ".join(row) for row in zip(*(trials.texts(name) for name in _choices(trials)), strict=True)]
            first = [names[int(at)] for at in alone.argmax(axis=0)]
            kinds = {text: kinds.get(name, text) for text, name in zip(texts, first, strict=True)}
            names, places = [*kinds], [np.array([text == name for text in texts])[:, None] for name in kinds]
            values = np.stack([np.where(mine, np.fmin.reduce(values), np.nan) for mine in places])
        # of each case the one setting in which an optimizer is
        values, cases = np.stack([np.fmin.reduce(values[:, at], axis=1) for at in rows], axis=1), tuple(every)
    elif len(names) < _FEWEST or trials.scenario.decide is not None or not _WORLDS & {*trials.parameters}:
        return None
    if _comparable(values)[0].sum() < 2:
        return None
    meta = {**trials.meta, "by_loss": by_loss}
    return of_optimizers(meta, {name: kinds.get(name, name) for name in names}, figure, cases, values)


def of_optimizers(
    meta: Mapping[str, Any], kinds: Mapping[str, str], figure: str, cases: Sequence[str], values: Floats
) -> Trials:
    """Make trials of optimizers, by their names with their kinds.

    `values` of the `figure` are (optimizers, cases, seeds): NaN where an optimizer has none, infinite if it diverged.
    """
    figures = dict[tuple[int, int], dict[str, float | None]]()
    able, of_all = _comparable(values)
    by_seed = np.full(values.shape[::2], np.nan)
    by_seed[able] = _ranks(values[able][:, of_all])
    for row, place in np.ndindex(by_seed.shape):
        of = {in_case(figure, case): float(values[row, k, place]) for k, case in enumerate(cases)}
        figures[row, place] = {RANK: float(by_seed[row, place]), **of}
    steady = np.stack([_steady(each) for each in values.swapaxes(0, 1)], axis=1)
    lost = ~np.isnan(values).all(axis=2) & ~steady
    names = np.array([*kinds])
    about = {
        "figure": figure,
        "cases": [*cases],
        "ranked": np.array(cases)[of_all].tolist(),
        "lost": {name: [*np.array(cases)[lost[names == name][0]]] for name in names[able & lost.any(axis=1)]},
        "elsewhere": names[~able].tolist(),
    }
    made = Trials.in_memory("optimizers", {**meta, **about}, figures)
    columns = {"optimizer": pl.Series([*kinds]), "kind": pl.Series([*kinds.values()])}
    return replace(made, parameters=("optimizer",), settings=made.settings.with_columns(**columns))


def _comparable(values: Floats) -> tuple[Bools, Bools]:
    """Say which optimizers are ranked, those that have the most cases, and over which: those that all of them have."""
    there: Bools = np.asarray(~np.isnan(values).all(axis=2))
    number = there.sum(axis=1)
    cases = there[number == number.max()].all(axis=0)
    return np.asarray(there[:, cases].all(axis=1) & cases.any()), cases


def _steady(values: Floats) -> Bools:
    """Say which rows of a case's figures, (optimizers, seeds), have all of the seeds that any has, and none far off.

    One is far off where the mean is more than ten times the geometric mean, and the median of the case.
    """
    values = values[:, np.isfinite(values).any(axis=0)]
    steady: Bools = np.asarray(np.isfinite(values).all(axis=1))
    logs = _logs(values)
    if logs is not None:
        usual = np.exp(np.maximum(logs[steady].mean(axis=1), np.median(logs[np.isfinite(logs)])))
        steady[steady] = values[steady].mean(axis=1) <= FAR * usual
    return steady


def _logs(values: Floats) -> Floats | None:
    """Return logarithms of figures, those below a millionth of the median being equal; None where one is below 0."""
    finite = values[np.isfinite(values)]
    if not len(finite) or (finite < 0).any():
        return None
    return np.asarray(np.log(np.maximum(values, max(1e-6 * float(np.median(finite)), 1e-300))))


def _ranks(values: Floats) -> Floats:
    """Return the mean rank of each optimizer over the cases, by seed: 1 is the least; without a value it is last."""
    figures = np.where(np.isfinite(values), values, np.inf)
    less, equal = (compare(figures[None], figures[:, None]).sum(axis=1) for compare in (np.less, np.equal))
    return np.asarray((less + (equal + 1) / 2).mean(axis=1))


def ranked_by(optimizers: Trials) -> str:
    """Return the fact that optimizers are compared by: the mean rank, or the figure in the one case."""
    cases = optimizers.meta["cases"]
    return RANK if len(cases) > 1 else in_case(optimizers.meta["figure"], cases[0])


@lru_cache(8)
def ranked(optimizers: Trials) -> Contrasts:
    """Compare optimizers by their mean ranks, or in one case by its figure: those lost nowhere, if there are any."""
    safe = ~np.isin(optimizers.settings["optimizer"].to_numpy(), [*optimizers.meta["lost"]])
    return contrasts(optimizers, ranked_by(optimizers), less_is_better=True, eligible=safe if safe.any() else None)


MEMORY = ("Any memory", "Nothing kept on the device", "No model kept per client")
"""What the columns of a table of winners allow, each more than the next."""


def allowed(optimizers: Trials) -> Bools:
    """Say which optimizers stay within each of `MEMORY`, (columns, optimizers), by what they tell of themselves.

    Unknown memory: first column; the oracle, which knows all frequencies: excluded.
    """
    rows = []
    for kind in optimizers.settings["kind"]:
        needs = footprint(kind)
        off_device, of_each = (False, False) if needs is None else (not needs.client, bool(needs.per_participant))
        rows.append([kind != "oracle_weighted", off_device, off_device and not of_each])
    columns = np.array(rows).T
    return np.asarray(columns & columns[0])


@lru_cache(8)
def winners(optimizers: Trials) -> list[list[list[int]]]:
    """Return by case, and in it for each of `MEMORY`, the best optimizer, and those without a significant difference.

    The best has the least geometric mean. The 5 % are of the whole table, shared by its cells. Figures below a
    millionth of the case's median count as equal; some that are below 0 are compared as they are. An optimizer that is
    lost with some seed, or far off, is none of them.
    """
    columns, cases, table = allowed(optimizers), optimizers.meta["cases"], list[list[list[int]]]()
    level = LEVEL / max(1, len(cases) * len({column.tobytes() for column in columns}))
    for case in cases:
        figures = optimizers.samples(in_case(optimizers.meta["figure"], case))
        figures = figures[:, np.isfinite(figures).any(axis=0)]
        steady, logs, cells = _steady(figures), _logs(figures), list[list[int]]()
        for column in columns:
            each = contrasts_of(figures if logs is None else logs, eligible=column & steady, level=level, logs=False)
            cells.append([row for row in each.order.tolist() if each.states[row] is not Standing.DIFFERS])
        table.append(cells)
    return table


def cases_won(optimizers: Trials, memory: int = 0) -> dict[int, list[str]]:
    """Return the cases in which each ranked optimizer is the best, or not significantly worse, within a `MEMORY`."""
    gone = {*optimizers.meta["lost"], *optimizers.meta["elsewhere"]}
    won = {row: list[str]() for row, name in enumerate(optimizers.settings["optimizer"]) if name not in gone}
    for case, best in zip(optimizers.meta["cases"], winners(optimizers), strict=True):
        for row in won.keys() & {*best[memory]}:
            won[row].append(case)
    return won


def configured(trials: Trials) -> dict[str, OptimizerChoice]:
    """Return the optimizers of the scenario, and those of a sweep over them, by what results and settings call them."""
    learning, key = trials.scenario.learning, "learning.optimizers"
    every = {each.label: each for each in (() if learning is None else learning.optimizers)}
    there = key in trials.settings.columns
    for text, written in zip(trials.texts(key), trials.settings[key], strict=True) if there else ():
        named = [{"kind": each} if isinstance(each, str) else each for each in json.loads(written)]
        with suppress(ValueError):  # of another version
            choices = [OptimizerChoice.model_validate(each) for each in named]
            every |= {each.label: each for each in choices if each.label not in every}
            every |= {text: choices[0]} if len(choices) == 1 else {}
    return every


def footprint(kind: str) -> "Footprint | None":
    """Return what an optimizer tells of what it sends and keeps; None of one that tells nothing, or is not built in."""
    from fedsim.learning.optimizers import OPTIMIZERS

    return getattr(OPTIMIZERS.find(kind), "footprint", None) if kind in OPTIMIZERS.built_in else None


def _choices(trials: Trials) -> list[str]:
    """Return the parameters whose values are optimizers."""
    return [name for name in trials.parameters if re.fullmatch(r"learning\.optimizers(\.\d+(\.kind)?)?", name)]
