"""What a comparison shows: what differs, and what that does to bias, model and pace, tested together."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import polars as pl

from fedsim.common.formatting import capitalized, count, cut, equation, listing, listing_of, number, percent
from fedsim.pages.choice import CERTAINTY, NAMED
from fedsim.pages.finding import BIAS, COST, MODEL, NEXT, TRUST, Certainty, Finding, Tile, with_half
from fedsim.pages.methods import references, without_loss
from fedsim.pages.metric_wording import PACE_UNIT, MetricWording, difference, read_condition, wording_of
from fedsim.run.files import ABSENT, Change
from fedsim.run.run import Run
from fedsim.trials.compare import Comparison
from fedsim.trials.contrasts import Contrasts, Standing, contrasts_of, tested_together
from fedsim.trials.decision import PACE, UNDECIDED, bias_metric
from fedsim.trials.trials import short_name, value_text

_VALUE = 28  # characters of a value in a title
_LONGEST = 160  # characters of a setting shown at most
_BESIDE = {
    *("name", "description", "question", "decide", "expect", "drift", "sweep", "records", "replicates", "engine"),
    *("schema_version", "choose"),
}
_LOSS = re.compile(r"learning\.(.+)\.(loss|excess_loss)")


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
    sides = [", ".join(equation(row[0], row[side]) for row in apart[:NAMED]) for side in (1, 2)]
    more = f", and {count(len(apart) - NAMED, 'more difference')}" if len(apart) > NAMED else ""
    return f"{sides[0]} (A) against {sides[1]} (B){more}"


Looks: TypeAlias = Mapping[str, tuple[Contrasts, ...]]
"""What is tested, by metric: A, the reference, and B; at each pair of settings of two sweeps."""


def judged(found: Comparison) -> Looks:
    """Judge bias, models and pace together."""
    trials, models = found.trials, dict[str, str]()
    for metric in trials.in_order:
        if (match := _LOSS.fullmatch(metric)) and (match[2] == "excess_loss" or match[1] not in models):
            models[match[1]] = metric
    for reference in references(list(models)):
        del models[reference]
    looks = list[tuple[str, Contrasts]]()
    for metric in (bias_metric(trials), *list(models.values())[:NAMED], PACE):
        values, errors = trials.samples(metric), trials.errors(metric)
        for pair in found.pairs:
            own = None if errors is None else errors[[*pair]]
            each = contrasts_of(values[[*pair]], reference=0, errors=own)
            looks += [(metric, each)] if np.isfinite(each.difference[1]) else []
    judgements = zip((metric for metric, _ in looks), tested_together([each for _, each in looks]), strict=True)
    return {metric: tuple(each for _, each in own) for metric, own in groupby(judgements, itemgetter(0))}


def comparison_title(looks: Looks) -> str:
    """Say what B has of bias, or of the loss, that A has not, and at what price in pace."""
    if not looks:
        return ""
    metric, every = next(iter(looks.items()))
    wording, found = wording_of(metric), every[0]
    if len(every) > 1:
        return _settings(wording, every)
    apart, price = float(found.difference[1]), ""
    if metric != PACE and (pace := looks.get(PACE)) and (before := pace[0].mean[0]):
        change = float(pace[0].difference[1]) / before
        how = "more" if change > 0 else "fewer"
        price = f", at {percent(abs(change))} {how} rounds per day" if abs(change) > 1e-6 else ", at the same pace"
    if not apart:
        return f"{capitalized(wording.words)} is the same in A and B{price}"
    by = wording.apart(abs(apart))
    if wording.about == BIAS:
        text = f"B is {by} {'closer to' if apart < 0 else 'farther from'} uniform than A"
    else:
        text = f"{capitalized(wording.words)} is {by} {'lower' if apart < 0 else 'higher'} in B"
    if found.states[1] is Standing.UNTESTED:
        return f"{text}{price} (one run each, not tested)"
    if found.states[1] is not Standing.DIFFERS:
        few = f"; {count(int(found.seeds[1]), 'seed')} are too few" if found.states[1] is Standing.FEW else ""
        by = difference(wording, apart, float(found.half[1]))
        return f"A and B are not told apart in {wording.words} ({by}{few})"
    return f"{text}{price}"


def comparison_answer(found: Comparison, looks: Looks) -> Iterator[Finding]:
    """Say what differs in bias, model and pace, which limits are missed, how sure it is, and what to do next."""
    every = [each for own in looks.values() for each in own]
    trained = [metric for metric in looks if wording_of(metric).about == MODEL]
    for about in (BIAS, MODEL, COST):
        for metric, own in looks.items():
            if wording_of(metric).about == about:
                yield from _change(found, metric, own)
        if about == MODEL and not trained:
            lost = pl.col("metric").str.ends_with(".diverged") & (pl.max_horizontal("baseline_mean", "mean") > 0)
            yield without_loss(diverged=not found.metrics.filter(lost).is_empty())
    if len(trained) == NAMED:
        yield Finding("Further optimizers are in the table of figures.", MODEL)
    yield from misses(found)
    for note in filter(None, found.notes):
        yield Finding(f"{capitalized(note)}.", TRUST, warns=True)
    if bool(len(found.metrics)) and not (found.metrics["seeds"] > 1).any():
        untested = all(each.states[1] is Standing.UNTESTED for each in every)
        text = "Each side is one run: where no ± stands, nothing tells a difference from chance."
        yield Finding(text, TRUST, warns=untested)
        yield Finding("Sweep both over several seeds, and compare the sweeps: that tests all.", NEXT)
    elif every:
        if any(each.states[1] in UNDECIDED for each in every):
            yield Finding("More seeds would tell smaller differences (`sweep.seeds`).", NEXT)
        yield Finding("Differences are paired by seed.", TRUST)
        yield Finding(f"They are tested together: {every[0].test}.", TRUST, test=every[0].test)


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
            text = f"{letter} misses {count(len(limits), 'expectation')}: {listing_of(limits, NAMED, 'more')}."
            yield Finding(text, TRUST, warns=True)


def binding_settings(letter: str, run: Run) -> Iterator[Finding]:
    """Say which settings of a run bind, so that its figures depend on them."""
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
        yield Finding(f"In {letter}, {listing(binds)}.", TRUST)


def setting_text(value: object) -> str:
    """Write a setting's value, as far as there is room."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _LONGEST)


def _change(found: Comparison, metric: str, own: tuple[Contrasts, ...]) -> Iterator[Finding]:
    """Say how a metric differs, and whether that is told from chance; of a loss above another how large that is."""
    wording, each = wording_of(metric), own[0]
    if len(own) > 1:
        yield Finding(f"{_settings(wording, own)}.", wording.about, quantity=metric, test=each.test)
        return
    first, second = map(wording.write, each.mean.tolist())
    apart, half, state = float(each.difference[1]), float(each.half[1]), each.states[1]
    if not apart:
        yield Finding(f"{capitalized(wording.words)} is {second} in both.", wording.about, quantity=metric)
    else:
        told = CERTAINTY[state]
        chance = "" if told is Certainty.TOLD else f", {told}"
        by = f"({difference(wording, apart, half)}{chance})"
        text = f"{capitalized(wording.words)} is {first} in A, {second} in B {by}."
        named = (wording.about, False, "difference", metric, "B less A", apart)
        yield with_half(
            half, replace(Finding(text, *named, reference=0.0, against="A"), test=each.test, certainty=told)
        )
    unbiased = found.metrics.filter(metric=f"{metric.removesuffix('.excess_loss')}_uniform.loss")
    if metric.endswith(".excess_loss") and len(unbiased) == 1:
        loss = number(unbiased["baseline_mean"][0], 3)
        yield Finding(f"The loss under uniform participation is {loss} in A.", MODEL)


def _settings(wording: MetricWording, own: Sequence[Contrasts]) -> str:
    """Say at how many settings of two sweeps B has less, more, or neither."""
    apart, states = np.array([each.difference[1] for each in own]), [each.states[1] for each in own]
    if not apart.any():
        return f"{capitalized(wording.words)} is the same in both at all {count(len(own), 'setting')}"
    told = np.array([state is Standing.DIFFERS for state in states])
    numbers = {
        "lower": int((told & (apart < 0)).sum()),
        "higher": int((told & (apart > 0)).sum()),
        "not told apart": int((~told).sum()),
    }
    ways = [f"{way} at {count(number)}" for way, number in numbers.items() if number]
    return f"Of {count(len(own), 'setting')}, {wording.words} in B is {listing(ways)}"


def comparison_tiles(looks: Looks) -> Iterator[Tile]:
    """Pick the key figures: bias and pace of both."""
    for metric, own in looks.items():
        wording, each = wording_of(metric), own[0]
        if len(own) == 1 and wording.about in {BIAS, COST}:
            apart = float(each.difference[1])
            against = f"{difference(wording, apart, np.nan)} against A" if apart else "the same as A"
            first, second = map(wording.bare, each.mean.tolist())
            words = "from uniform (TV)" if wording.about == BIAS else PACE_UNIT.strip()
            yield Tile(first, f"{words}, A")
            yield Tile(second, f"{words}, B", against)
