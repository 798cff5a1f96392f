"""What a comparison says in words: what differs, and what that does to bias, model and pace."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from fedsim.analysis.noise import DEGREES
from fedsim.common.intervals import half_width
from fedsim.experiment.run_directory import ABSENT, Change
from fedsim.findings.finding import MODEL, TRUST, WHAT, Finding
from fedsim.findings.finished_sweep import short_name, value_text
from fedsim.findings.formatting import capitalized, count, cut, equation, listing, listing_of
from fedsim.findings.methods import references
from fedsim.report.sweep_figures import BIAS_WORDING, PACE_WORDING, MetricWording, difference, wording_of
from fedsim.sweeps.compare import Comparison

_NAMED = 3  # differences, optimizers and limits that are named at most
VALUE = 28  # characters of a value in a title
_BESIDE = {
    *("name", "description", "decide", "expect", "drift", "sweep", "records", "replicates", "engine"),
    "schema_version",
}
_LOSS = re.compile(r"learning\.(.+)\.(loss|excess_loss)")


def of_the_world(changes: Sequence[Change]) -> list[Change]:
    """Keep the settings that can change what happens; the others name, record or judge it."""
    return [change for change in changes if re.split(r"[.\[]", change[0], maxsplit=1)[0] not in _BESIDE]


def _named_differences(changes: Sequence[Change]) -> list[tuple[str, str, str]]:
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
        names.setdefault(short_name(path), set()).add((ours, theirs))
    named = [
        (short_name(path) if len(names[short_name(path)]) == 1 else path, ours, theirs) for path, ours, theirs in kept
    ]
    return list(dict.fromkeys(named))


def _value(value: object, block: bool) -> str:
    if block:
        return "none" if value is None else "some"
    if isinstance(value, list | dict):
        return cut(json.dumps(value, ensure_ascii=False), VALUE)
    return cut(value_text(value), VALUE)


def title(found: Comparison) -> str:
    """Name what differs: ``R = 4 against R = 12``; empty where nothing does."""
    apart = _named_differences(found.configuration)
    if not apart:
        seeds = [change[1:] for change in found.configuration if change[0] == "seed"]
        return f"The same scenario with seed {seeds[0][0]} against seed {seeds[0][1]}" if seeds else ""
    sides = [", ".join(equation(row[0], row[side]) for row in apart[:_NAMED]) for side in (1, 2)]
    more = f", and {count(len(apart) - _NAMED, 'more difference')}" if len(apart) > _NAMED else ""
    return f"{sides[0]} against {sides[1]}{more}"


def comparison_sentences(found: Comparison) -> Iterator[Finding]:
    """Say what it does to bias, model and pace, what differs, which limits are missed, and how sure it is."""
    metrics = found.metrics
    rows = {metric: metrics.filter(metric=metric) for metric in metrics["metric"].unique(maintain_order=True)}
    yield from _change_of(BIAS_WORDING, rows)
    yield from _model(rows)
    yield from _change_of(PACE_WORDING, rows)
    yield _what(found.configuration)
    yield from misses(found)
    for note in filter(None, found.notes):
        yield Finding(f"{capitalized(note)}.", TRUST, warns=True)
    if len(metrics) and not (metrics["seeds"] > 1).any():
        yield Finding("Both sides are one run: where no ± stands, a difference may be chance.", TRUST)


def misses(found: Comparison) -> Iterator[Finding]:
    """Say which limits of their own scenarios A and B miss."""
    for letter, missed in zip("AB", found.missed, strict=True):
        limits = []
        for each in missed:
            runs = "" if each.of == 1 else f" in {count(each.runs)} of {count(each.of, 'run')}"
            worst = "no value" if each.worst is None else f"{'' if each.of == 1 else 'worst '}{value_text(each.worst)}"
            grave = ", a warning" if each.severity == "warn" else ""
            limits.append(f"{' '.join(each.check.split())}{runs} ({worst}{grave})")
        if limits:
            yield Finding(f"{letter} misses {listing_of(limits, _NAMED, 'more limit')}.", TRUST, warns=True)


def _what(configuration: Sequence[Change]) -> Finding:
    changes = of_the_world(configuration)
    beside = len(configuration) - len(changes)
    if not changes:
        text = "The scenarios describe the same world" if beside else "The scenarios are the same"
    elif len(changes) <= _NAMED:
        ways = [f"{path} ({setting_text(ours)} against {setting_text(theirs)})" for path, ours, theirs in changes]
        text = f"What differs: {listing(ways)}"
    else:
        text = f"{count(len(changes), 'setting')} of the world differ"
    text += f"; besides, {count(beside, 'setting')} that change nothing in it" if beside else ""
    return Finding(f"{text}.", WHAT)


_LONGEST = 160  # characters of a setting shown at most


def setting_text(value: object) -> str:
    """Write a setting's value, as far as there is room."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(text, _LONGEST)


def _change_of(wording: MetricWording, rows: Mapping[str, pl.DataFrame]) -> Iterator[Finding]:
    """Say how a metric differs, where both sides have it."""
    own = rows.get(wording.metric)
    if own is None:
        return
    name, row = capitalized(wording.words), own.row(0, named=True)
    first, second = wording.write(row["baseline_mean"]), wording.write(row["mean"])
    if len(own) > 1:
        text = _settings(wording, own)
    elif not row["difference"]:
        text = f"{name} is {second} in both."
    else:
        half = _half(row, rows)
        chance = ", which may be chance" if abs(row["difference"]) <= half else ""
        change = difference(wording, row["difference"], half)
        text = f"{name} goes from {first} in A to {second} in B ({change}{chance})."
    yield Finding(text, wording.about)


def _half(row: Mapping[str, float | None], rows: Mapping[str, pl.DataFrame]) -> float:
    """Return how much of a difference may be chance, with 95 %: from its interval, or from the errors of two runs."""
    high, apart, seeds = row["high"], row["difference"], row["seeds"]
    if high is not None and apart is not None and seeds is not None and seeds > 1:
        return high - apart
    errors = rows.get(f"{row['metric']}_se")
    if errors is None or len(errors) != 1:
        return math.nan
    error = math.hypot(errors["baseline_mean"].item(), errors["mean"].item())
    return half_width(error, DEGREES + 1)  # at least as wide as Welch's


def _settings(wording: MetricWording, own: pl.DataFrame) -> str:
    """Say at how many settings of two sweeps B has less, more, or neither."""
    apart, half = own["difference"].to_numpy(), (own["high"] - own["difference"]).fill_null(0.0).to_numpy()
    less, more = int((-apart > half).sum()), int((apart > half).sum())
    numbers = {"lower": less, "higher": more, "not told apart": len(own) - less - more}
    ways = [f"{way} at {count(number)}" for way, number in numbers.items() if number]
    return f"Of {count(len(own), 'setting')}, {wording.words} in B is {listing(ways)}."


def _model(rows: Mapping[str, pl.DataFrame]) -> Iterator[Finding]:
    """Tell how each optimizer of both sides ends: by how far from the optimum where that is known, else by its loss."""
    found: dict[str, str] = {}
    for metric in rows:
        if (match := _LOSS.fullmatch(metric)) and (match[2] == "excess_loss" or match[1] not in found):
            found[match[1]] = metric
    for reference in references(list(found)):
        del found[reference]
    for metric in list(found.values())[:_NAMED]:
        yield from _change_of(wording_of(metric), rows)
    if (left := len(found) - _NAMED) > 0:
        yield Finding(f"{count(left, 'more optimizer')} in the table of figures.", MODEL)
