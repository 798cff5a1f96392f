"""What a comparison shows: what differs, and what that does to bias, model and pace, tested together."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fedsim.analysis.noise import DEGREES
from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import capitalized, count, cut, equation, listing, listing_of, number, percent
from fedsim.common.intervals import half_width
from fedsim.experiment.run_directory import ABSENT, Change
from fedsim.findings.finding import BIAS, COST, MODEL, NEXT, TRUST, Certainty, Finding, Tile, with_half
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.finished_sweep import short_name, value_text
from fedsim.findings.methods import references, without_loss
from fedsim.findings.metric_wording import (
    L1,
    PACE,
    PACE_UNIT,
    REPORTED,
    MetricWording,
    difference,
    read_condition,
    wording_of,
)
from fedsim.trials.compare import Comparison
from fedsim.trials.decision import holm, p_of_mean

_NAMED = 3  # differences, optimizers and limits that are named at most
_VALUE = 28  # characters of a value in a title
_LONGEST = 160  # characters of a setting shown at most
_BESIDE = {
    *("name", "description", "question", "decide", "expect", "drift", "sweep", "records", "replicates", "engine"),
    *("schema_version", "choose"),
}
_LOSS = re.compile(r"learning\.(.+)\.(loss|excess_loss)")
COMPARISON_TEST = (
    "Student's t over paired seeds, or from the standard errors of two runs; "
    "5\N{NARROW NO-BREAK SPACE}% with Holm's correction"
)


def of_the_world(changes: Sequence[Change]) -> list[Change]:
    """Keep the settings that can change what happens; the others name, record or judge it."""
    named = re.compile(r".*\.(name|description)$")
    kept = (change for change in changes if re.split(r"[.\[]", change[0], maxsplit=1)[0] not in _BESIDE)
    return [change for change in kept if not named.match(change[0])]


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
    return list(dict.fromkeys((_of_group(path, len(names[short_name(path)]) > 1), a, b) for path, a, b in kept))


def _of_group(path: str, several: bool) -> str:
    """Name a setting in short, with its group where it is another one in others: ``R of group 2``."""
    group = re.match(r"population\[(\d+)\]\.", path)
    return short_name(path) if not several else f"{short_name(path)} of group {int(group[1]) + 1}" if group else path


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
    sides = [", ".join(equation(row[0], row[side]) for row in apart[:_NAMED]) for side in (1, 2)]
    more = f", and {count(len(apart) - _NAMED, 'more difference')}" if len(apart) > _NAMED else ""
    return f"{sides[0]} (A) against {sides[1]} (B){more}"


@dataclass(frozen=True, eq=False)
class Judged:
    """A metric of both sides, and what the test says: one row, or one for each setting of two sweeps."""

    wording: MetricWording
    rows: pl.DataFrame  # those of `Comparison.metrics`
    half: Floats  # of the 95 % interval of each difference, NaN where it is not known
    told: Bools  # whether each is told from chance, with Holm's correction

    @property
    def apart(self) -> Floats:
        """How much more B has than A."""
        return self.rows["difference"].to_numpy()

    def tested(self) -> bool:
        """Say whether there is a test at all."""
        return bool(np.isfinite(self.half).any())


def judged(found: Comparison) -> tuple[Judged, ...]:
    """Judge bias, models and pace together."""
    rows = {str(metric): own for (metric,), own in found.metrics.partition_by("metric", as_dict=True).items()}
    models: dict[str, str] = {}
    for metric in rows:
        if (match := _LOSS.fullmatch(metric)) and (match[2] == "excess_loss" or match[1] not in models):
            models[match[1]] = metric
    for reference in references(list(models)):
        del models[reference]
    shown = [_bias_metric(rows), *list(models.values())[:_NAMED], PACE]
    parts = [(metric, rows[metric], *_errors(rows[metric], rows)) for metric in shown if metric in rows]
    p = np.concatenate([each[3] for each in parts]) if parts else np.empty(0)
    told, first, judgements = holm(p), 0, []
    for metric, own, half, _ in parts:
        judgements.append(Judged(wording_of(metric), own, half, told[first : first + len(own)]))
        first += len(own)
    return tuple(judgements)


def _bias_metric(rows: Mapping[str, pl.DataFrame]) -> str:
    """Return what leads: the distance of reports, where they are not all selections."""
    if REPORTED not in rows or L1 not in rows:
        return L1 if L1 in rows else REPORTED
    same = rows[REPORTED].select("baseline_mean", "mean").equals(rows[L1].select("baseline_mean", "mean"))
    return L1 if same else REPORTED


def _errors(own: pl.DataFrame, rows: Mapping[str, pl.DataFrame]) -> tuple[Floats, Floats]:
    """Return half of the 95 % interval, and p, of each difference: over seeds, or from the errors of two runs."""
    apart, seeds = own["difference"].to_numpy(), own["seeds"].to_numpy()
    half = (own["high"] - own["difference"]).cast(pl.Float64).fill_null(math.nan).to_numpy().copy()
    half[seeds < 2] = np.nan
    freedom = seeds - 1
    errors = rows.get(f"{own['metric'][0]}_se")
    if errors is not None and len(errors) == len(own) == 1 and seeds[0] < 2:
        error = math.hypot(errors["baseline_mean"].item(), errors["mean"].item())
        half, freedom = np.array([half_width(error, DEGREES + 1)]), np.array([DEGREES])  # at least as wide as Welch's
    return half, p_of_mean(apart, half, freedom)


def comparison_title(looks: Sequence[Judged]) -> str:
    """Say what B has of bias, or of the loss, that A has not, and at what price in pace."""
    first = next((each for each in looks if len(each.rows) == 1), None)
    if first is None:
        return _settings(looks[0]) if looks else ""
    apart, wording = float(first.apart[0]), first.wording
    pace = next((each for each in looks if each.wording.metric == PACE and each is not first), None)
    price = ""
    if pace is not None and len(pace.rows) == 1 and (before := pace.rows["baseline_mean"][0]):
        change = float(pace.apart[0]) / before
        how = "more" if change > 0 else "fewer"
        price = f", at {percent(abs(change))} {how} rounds per day" if abs(change) > 1e-6 else ", at the same pace"
    if not apart:
        return f"{capitalized(wording.words)} is the same in A and B{price}"
    by = wording.apart(abs(apart))
    if wording.about == BIAS:
        text = f"B is {by} {'closer to' if apart < 0 else 'farther from'} uniform than A"
    else:
        text = f"{capitalized(wording.words)} is {by} {'lower' if apart < 0 else 'higher'} in B"
    if not first.tested():
        return f"{text}{price} (one run each, not tested)"
    if not first.told[0]:
        return f"A and B are not told apart in {wording.words} ({difference(wording, apart, float(first.half[0]))})"
    return f"{text}{price}"


def comparison_answer(found: Comparison, looks: Sequence[Judged]) -> Iterator[Finding]:
    """Say what differs in bias, model and pace, which limits are missed, how sure it is, and what to do next."""
    trained = [each for each in looks if each.wording.about == MODEL]
    for about in (BIAS, MODEL, COST):
        for each in looks:
            if each.wording.about == about:
                yield _beside(found, _change(each))
        if about == MODEL and not trained:
            lost = pl.col("metric").str.ends_with(".diverged") & (pl.max_horizontal("baseline_mean", "mean") > 0)
            yield without_loss(diverged=not found.metrics.filter(lost).is_empty())
    if len(trained) == _NAMED:
        yield Finding("Further optimizers are in the table of figures.", MODEL)
    yield from misses(found)
    for note in filter(None, found.notes):
        yield Finding(f"{capitalized(note)}.", TRUST, warns=True)
    single = bool(len(found.metrics)) and not (found.metrics["seeds"] > 1).any()
    if single:
        text = "Each side is one run: where no ± stands, nothing tells a difference from chance."
        yield Finding(text, TRUST, warns=not any(each.tested() for each in looks))
        yield Finding("Sweep both over several seeds, and compare the sweeps: that tests all.", NEXT)
    elif looks:
        if not all(each.told.all() for each in looks):
            yield Finding("More seeds would tell smaller differences (`sweep.seeds`).", NEXT)
        paired = f"Differences are paired by seed; {count(sum(len(each.rows) for each in looks), 'test')}"
        yield Finding(f"{paired} ({COMPARISON_TEST}).", TRUST, test=COMPARISON_TEST, brief=f"{paired} with correction.")


def misses(found: Comparison) -> Iterator[Finding]:
    """Say which limits of their own scenarios A and B miss."""
    for letter, missed in zip("AB", found.missed, strict=True):
        limits = []
        for each in missed:
            (words, write), several = read_condition(each.check), each.of > 1
            runs = f" in {count(each.runs)} of {count(each.of, 'run')}" if several else ""
            worst = "no value" if each.worst is None else f"{'worst ' if several else ''}{write(each.worst)}"
            grave = ", a warning" if each.severity == "warn" else ""
            limits.append(f"{words}{runs} ({worst}{grave})")
        if limits:
            text = f"{letter} misses {count(len(limits), 'expectation')}: {listing_of(limits, _NAMED, 'more')}."
            yield Finding(text, TRUST, warns=True)


def binding_settings(letter: str, run: FinishedRun) -> Iterator[Finding]:
    """Say which settings of a run bind, so that its figures depend on them."""
    scenario, outcomes = run.scenario, set(run.rounds["outcome"])
    said = {
        "participations are capped": any(group.participations is not None for group in scenario.population),
        "rounds were skipped": "skipped" in outcomes,
        "rounds failed": "failed" in outcomes,
        "reports came late": run.metrics.get("sessions.late_share", 0.0) > 0,
        "training is private": scenario.privacy is not None,
        "cohorts vary (Poisson)": scenario.server.selection.kind == "poisson",
        "shocks hit the devices": bool(scenario.shocks),
    }
    if binds := [words for words, does in said.items() if does]:
        yield Finding(f"In {letter}, {listing(binds)}.", TRUST)


def setting_text(value: object) -> str:
    """Write a setting's value, as far as there is room."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _LONGEST)


def _change(each: Judged) -> Finding:
    """Say how a metric differs, and whether that is told from chance."""
    wording, row, apart = each.wording, each.rows.row(0, named=True), float(each.apart[0])
    if len(each.rows) > 1:
        brief = f"{_settings(each).replace(f'{wording.words} in B is', 'B is')}."
        return Finding(f"{_settings(each)}.", wording.about, quantity=wording.metric, test=COMPARISON_TEST, brief=brief)
    first, second, half = wording.write(row["baseline_mean"]), wording.write(row["mean"]), float(each.half[0])
    if not apart:
        text, brief = (f"{capitalized(wording.words)} is {second}", f"{capitalized(wording.brief)}: {second}")
        return Finding(f"{text} in both.", wording.about, quantity=wording.metric, brief=f"{brief} in both.")
    told = Certainty.TOLD if each.told[0] else Certainty.NOT_TOLD if each.tested() else Certainty.UNTESTED
    chance = "" if told is Certainty.TOLD else f", {told}"
    text = f"{capitalized(wording.words)} goes from {first} in A to {second} in B"
    named = (wording.about, False, "difference", wording.metric, "B less A", apart)
    by = f"({difference(wording, apart, half)}{chance})."
    brief = f"{capitalized(wording.brief)}: {first} in A, {second} in B {by}"
    if wording.about == BIAS:
        brief = f"{first} from uniform in A, {second} in B {by}"
    finding = Finding(f"{text} {by}", *named, reference=0.0, against="A", brief=brief)
    return with_half(half, replace(finding, test=COMPARISON_TEST, certainty=told))


def _beside(found: Comparison, change: Finding) -> Finding:
    """Say of a loss above that of unbiased training how large that is."""
    unbiased = found.metrics.filter(metric=change.quantity.replace(".excess_loss", "_uniform.loss"))
    if not change.quantity.endswith(".excess_loss") or len(unbiased) != 1:
        return change
    whole = f"; unbiased: {number(unbiased['baseline_mean'][0], 3)}."
    return replace(change, text=change.text.removesuffix(".") + whole, brief=change.brief.removesuffix(".") + whole)


def _settings(each: Judged) -> str:
    """Say at how many settings of two sweeps B has less, more, or neither."""
    if not each.apart.any():
        return f"{capitalized(each.wording.words)} is the same in both at all {count(len(each.rows), 'setting')}"
    numbers = {
        "lower": int((each.told & (each.apart < 0)).sum()),
        "higher": int((each.told & (each.apart > 0)).sum()),
        "not told apart": int((~each.told).sum()),
    }
    ways = [f"{way} at {count(number)}" for way, number in numbers.items() if number]
    return f"Of {count(len(each.rows), 'setting')}, {each.wording.words} in B is {listing(ways)}"


def comparison_tiles(looks: Sequence[Judged]) -> Iterator[Tile]:
    """Pick the key figures: bias and pace of both."""
    for each in looks:
        if len(each.rows) == 1 and each.wording.about in {BIAS, COST}:
            wording, row, apart = each.wording, each.rows.row(0, named=True), float(each.apart[0])
            against = f"{difference(wording, apart, np.nan)} against A" if apart else "the same as A"
            first, second = (wording.write(row[name]).removesuffix(PACE_UNIT) for name in ("baseline_mean", "mean"))
            words = "from uniform (TV)" if wording.about == BIAS else PACE_UNIT.strip()
            yield Tile(first, f"{words}, A")
            yield Tile(second, f"{words}, B", against)
