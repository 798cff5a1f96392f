"""What a comparison says in words: what differs, and what that does to bias, model and pace."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from fedsim.experiment.changes import ABSENT, Change
from fedsim.report.answer import MODEL, TRUST, WHAT, Sentence
from fedsim.report.finished_sweep import short, shown
from fedsim.report.formatting import capitalized, count, cut, listing
from fedsim.report.optimizers import references
from fedsim.report.sweep_figures import BIAS_TOLD, PACE_TOLD, Told, difference, told_of
from fedsim.sweeps.compare import Comparison, Missed

NAMED = 3
"""Differences, optimizers and limits that are named at most."""

VALUE = 28
"""Characters of a value in a title."""

_BESIDE = {
    *("name", "description", "decide", "expect", "drift", "sweep", "records", "replicates", "engine"),
    "schema_version",
}
_LOSS = re.compile(r"learning\.(.+)\.(loss|excess_loss)")


def of_the_world(changes: Sequence[Change]) -> list[Change]:
    """Keep the settings that can change what happens; the others name, record or judge it."""
    return [change for change in changes if re.split(r"[.\[]", change[0], maxsplit=1)[0] not in _BESIDE]


def named_differences(changes: Sequence[Change]) -> list[tuple[str, str, str]]:
    """Name what differs in the world, but for the seed, with both values: each only once.

    A source of another kind is named by its kinds, and what is on one side alone by that, without what is within it.
    """
    world = [change for change in of_the_world(changes) if change[0] != "seed"]
    kinds = {path.removesuffix(".kind") for path, *_ in world if path.endswith(".kind")}
    alone = {path for path, *pair in world if ABSENT in pair and (None in pair)}
    kept = []
    for path, ours, theirs in world:
        above = {path[: match.start()] for match in re.finditer(r"[.\[]", path)}
        if above & alone or (above & kinds and not (path.endswith(".kind") and path.removesuffix(".kind") in above)):
            continue
        kept.append((re.sub(r"\.(kind|value)$", "", path), _value(ours, path in alone), _value(theirs, path in alone)))
    names: dict[str, set[tuple[str, str]]] = {}
    for path, ours, theirs in kept:
        names.setdefault(short(path), set()).add((ours, theirs))
    told = [(short(path) if len(names[short(path)]) == 1 else path, ours, theirs) for path, ours, theirs in kept]
    return list(dict.fromkeys(told))


def _value(value: object, block: bool) -> str:
    if block:
        return "none" if value is None else "some"
    if isinstance(value, list | dict):
        return cut(json.dumps(value, ensure_ascii=False), VALUE)
    return cut(shown(value), VALUE)


def title(found: Comparison) -> str:
    """Name what differs: ``R = 4 against R = 12``; empty where nothing does."""
    apart = named_differences(found.configuration)
    if not apart:
        seeds = [change[1:] for change in found.configuration if change[0] == "seed"]
        return f"The same scenario with seed {seeds[0][0]} against seed {seeds[0][1]}" if seeds else ""
    sides = [", ".join(_equals(row[0], row[side]) for row in apart[:NAMED]) for side in (1, 2)]
    more = f", and {count(len(apart) - NAMED, 'more difference')}" if len(apart) > NAMED else ""
    return f"{sides[0]} against {sides[1]}{more}"


def _equals(name: str, value: str) -> str:
    return f"{name}\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{value}"


def findings(found: Comparison) -> Iterator[Sentence]:
    """Say what it does to bias, model and pace, what differs, which limits are missed, and how sure it is."""
    rows = {
        metric: found.metrics.filter(metric=metric) for metric in found.metrics["metric"].unique(maintain_order=True)
    }
    if (text := _way(BIAS_TOLD, rows)) is not None:
        yield Sentence(text, BIAS_TOLD.about)
    yield from _model(rows)
    if (text := _way(PACE_TOLD, rows)) is not None:
        yield Sentence(text, PACE_TOLD.about)
    yield _what(found.configuration)
    yield from misses(found)
    for note in filter(None, found.notes):
        yield Sentence(f"{capitalized(note)}.", TRUST, warns=True)
    if len(found.metrics) and not (found.metrics["seeds"] > 1).any():
        yield Sentence("Both sides are one run: where no ± stands, a difference may be chance.", TRUST)


def misses(found: Comparison) -> Iterator[Sentence]:
    """Say which limits of their own scenarios A and B miss."""
    for letter, missed in zip("AB", found.missed, strict=True):
        if missed:
            yield Sentence(f"{letter} misses {_limits(missed)}.", TRUST, warns=True)


def _what(configuration: Sequence[Change]) -> Sentence:
    changes = of_the_world(configuration)
    beside = len(configuration) - len(changes)
    if not changes:
        told = "The scenarios describe the same world" if beside else "The scenarios are the same"
    elif len(changes) <= NAMED:
        ways = [f"{path} ({written(ours)} against {written(theirs)})" for path, ours, theirs in changes]
        told = f"What differs: {listing(ways)}"
    else:
        told = f"{count(len(changes), 'setting')} of the world differ"
    told += f"; besides, {count(beside, 'setting')} that change nothing in it" if beside else ""
    return Sentence(f"{told}.", WHAT)


LONGEST = 160
"""Characters of a setting shown at most."""


def written(value: object) -> str:
    """Write a setting's value, as far as there is room."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(text, LONGEST)


def _way(told: Told, rows: Mapping[str, pl.DataFrame]) -> str | None:
    own = rows.get(told.metric)
    if own is None:
        return None
    name = capitalized(told.words)
    if len(own) > 1:
        return _settings(told, own)
    row = own.row(0, named=True)
    if not row["difference"]:
        return f"{name} is {told.write(row['mean'])} in both."
    half = _half(row, rows)
    chance = ", which may be chance" if abs(row["difference"]) <= half else ""
    first, second = told.write(row["baseline_mean"]), told.write(row["mean"])
    return f"{name} goes from {first} in A to {second} in B ({difference(told, row['difference'], half)}{chance})."


def _half(row: Mapping[str, float | None], rows: Mapping[str, pl.DataFrame]) -> float:
    """Return how much of a difference may be chance, with 95 %: from its interval, or from the errors of two runs."""
    high, apart, seeds = row["high"], row["difference"], row["seeds"]
    if high is not None and apart is not None and seeds is not None and seeds > 1:
        return high - apart
    errors = rows.get(f"{row['metric']}_se")
    if errors is None or len(errors) != 1:
        return math.nan
    return 1.96 * math.hypot(errors["baseline_mean"].item(), errors["mean"].item())


def _settings(told: Told, own: pl.DataFrame) -> str:
    """Say at how many settings of two sweeps B has less, more, or neither."""
    apart = own["difference"]
    half = (own["high"] - apart).fill_null(0.0).to_list()
    less, more = (
        sum(sign * mean > reach for mean, reach in zip(apart.to_list(), half, strict=True)) for sign in (-1, 1)
    )
    ways = [f"{way} at {count(number)}" for way, number in (("lower", less), ("higher", more)) if number]
    rest = len(own) - less - more
    ways += [f"not told apart at {count(rest)}"] if rest else []
    return f"Of {count(len(own), 'setting')}, {told.words} in B is {listing(ways)}."


def _model(rows: Mapping[str, pl.DataFrame]) -> Iterator[Sentence]:
    """Tell how each optimizer of both sides ends: by how far from the optimum where that is known, else by its loss."""
    found: dict[str, str] = {}
    for metric in rows:
        if (match := _LOSS.fullmatch(metric)) and (match[2] == "excess_loss" or match[1] not in found):
            found[match[1]] = metric
    for reference in references(list(found)):
        del found[reference]
    for metric in list(found.values())[:NAMED]:
        if (text := _way(told_of(metric), rows)) is not None:
            yield Sentence(text, MODEL)
    if (left := len(found) - NAMED) > 0:
        yield Sentence(f"{count(left, 'more optimizer')} in the table of figures.", MODEL)


def _limits(missed: Sequence[Missed]) -> str:
    told = []
    for each in missed[:NAMED]:
        runs = "" if each.of == 1 else f" in {count(each.runs)} of {count(each.of, 'run')}"
        worst = "no value" if each.worst is None else f"{'' if each.of == 1 else 'worst '}{shown(each.worst)}"
        grave = ", a warning" if each.severity == "warn" else ""
        told.append(f"{' '.join(each.check.split())}{runs} ({worst}{grave})")
    more = [count(len(missed) - NAMED, "more limit")] if len(missed) > NAMED else []
    return listing([*told, *more])
