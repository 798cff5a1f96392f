"""Reasons to trust what trials say, or not: one ordered list of checks, of which warnings and exit codes follow."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import ceil, isinf
from typing import TypeAlias

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import ScenarioError
from fedsim.common.formatting import capitalized, count, equation, listing, listing_of, number, percent
from fedsim.learning.run_figures import CONVERGED_DESCENT
from fedsim.measure.metrics import filled, split
from fedsim.measure.noise import by_chance
from fedsim.measure.shares import ROUNDING
from fedsim.pages.answer import Check, Grade
from fedsim.pages.bias import FEW
from fedsim.pages.commands import command_of, longer, with_seeds
from fedsim.pages.expectations import sweep_verdict
from fedsim.pages.metric_wording import tv, wording_of
from fedsim.pages.tables import COVERED
from fedsim.pages.trial_tables import beyond, loss_parts, means, ranking_of, start_ratios, untrained, why_unfit
from fedsim.run.cautions import SPREAD, SURPLUS
from fedsim.run.check import LENGTH, SEEDS, STEP
from fedsim.scenario.learning import ConstantSchedule
from fedsim.scenario.units import format_duration, parse_duration
from fedsim.trials.contrasts import Standing, contrasts, interval, seeds_needed
from fedsim.trials.decision import (
    L1,
    MATTERS,
    MOSTLY,
    REPORTED,
    ROUNDS,
    SHORTAGE,
    TAKEN,
    UNDECIDED,
    Why,
    aim_of,
    bias_metric,
    is_of_lengths,
    judge_settings,
    judged,
    open_settings,
    pace_metric,
    reports_of,
    stopped_early,
    without_noise,
    worth,
)
from fedsim.trials.optimizers import by_optimizer, metrics_of, twins
from fedsim.trials.trials import COMPARED, CRASHED, FACTS, SIDE, Axis, Trials

NAMED = 3  # settings that a sentence names at most
_FEASIBLE = (SHORTAGE, "rounds.count")
_PLURAL = {"surely misses": "surely miss", "may miss": "may miss"}
LONGER = "Run longer, until losses settle."
LOWER_STEP = "Lower the step (`learning.step_size`)."
_WORTH = 100  # seeds at most that a difference of two single runs is worth
_GAP = 2.0  # times as long: a duration between is worth a try
_LONGER = 10  # times as long, where chance is a large part of a distance
_SHORT = 0.2  # of the rounds short of clients, at which longer waits would starve more
_SLOWER = 0.9  # of the fastest pace: the condition of the example of `decide`

Checks: TypeAlias = Callable[[Trials], Iterable[Check]]


def checks_of_trials(trials: Trials) -> Iterator[Check]:
    """Yield what became of each check, in the order of the list."""
    listed, by_loss = TRIAL_CHECKS, aim_of(trials).metric.startswith("learning.") or by_optimizer(trials) is not None
    if not by_loss and theory_of_sides(trials) is None:  # what is cured first is a doubt about what is compared
        listed = tuple(sorted(listed, key=lambda checks: checks is settled_losses))
    for checks in FACT_CHECKS if trials.stage == FACTS else listed:
        if checks not in _OF_CHOICE or not untrained(trials):
            yield from checks(trials)


def optimizer_facts(trials: Trials, figure: str) -> dict[str, Floats]:
    """Return a figure of each optimizer that has it, as it was measured, (settings, seeds)."""
    return {name: trials.as_measured(metric) for name, metric in metrics_of(trials, figure).items()}


def losses_of(trials: Trials) -> list[str]:
    """Return the loss of each optimizer, at most three: above the optimum or uniform participation, where known."""
    metrics = dict[str, str]()
    for figure in ("loss", "excess_loss", "above_optimum"):
        metrics |= metrics_of(trials, figure)
    return [metrics[name] for name in metrics if name not in twins(trials)][:NAMED]


def reports_and_chance(trials: Trials) -> tuple[Floats, Floats]:
    """Return how many reports each setting takes, and their L1 from uniform by equal chances; NaN if devices differ."""
    reports = reports_of(trials)
    if any("devices" in name or name == "population" for name in trials.swept):
        return reports, np.full(len(reports), np.nan)
    of = "reported_" * (bias_metric(trials) in {REPORTED, without_noise(REPORTED)})
    measured = interval(trials.samples(f"participation.{of}l1_fair")).mean
    drawn = np.array([by_chance(round(each), trials.scenario.devices) for each in reports.tolist()])
    return reports, np.where(np.isfinite(measured), measured, drawn)


def _complete(trials: Trials) -> Iterator[Check]:
    """Say which runs failed, and which were never done."""
    runs, without = trials.runs, trials.failed
    state = Grade.CAUTION if len(without) < len(runs) else Grade.BAD
    uneven = "Means are over the seeds that each setting has, differences over those that both have."
    failed, missing = without.filter(status=CRASHED), without.filter(pl.col("status") != CRASHED)
    tuning = trials.facts.filter(pl.col("stage") != COMPARED, status=CRASHED).select("stage", "setting").n_unique()
    if len(failed) or tuning:
        tried = f" {count(tuning, 'run')} that tuned them failed too." if tuning else ""
        why = "Read in runs/*.crashed.json why runs failed: the same command tries anew those that did not stall."
        text = f"{count(len(failed))} of {count(len(runs), 'run')} failed{_where(trials, failed)}.{tried} {uneven}"
        yield Check("failed", state, text, remedy=why, command=command_of(trials.meta))
    if len(missing):
        verb = "was" if len(missing) == 1 else "were"
        text = f"{count(len(missing))} of {count(len(runs), 'run')} {verb} not run{_where(trials, missing)}. {uneven}"
        rest = f"Run the same command again: it does the {count(len(missing), 'missing run')}."
        yield Check("missing", state, text, remedy=rest, command=command_of(trials.meta))
    if without.is_empty():
        yield Check("complete", Grade.OK, f"{count(len(runs), 'run')} completed.")


def _where(trials: Trials, without: pl.DataFrame) -> str:
    """Name the settings and seeds of some runs, the first few of them."""
    names = dict(zip(trials.settings["setting"].to_list(), trials.setting_names(), strict=True))
    places = []
    for setting, seeds in without.group_by("setting", maintain_order=True).agg("seed").iter_rows():
        which = f"seed{'' if len(seeds) == 1 else 's'} {listing_of(list(map(str, seeds)), NAMED)}"
        places.append(f"{names[setting]} with {which}" if names[setting] else which)
    return f": {listing_of(places, NAMED, 'more setting')}" if places else ""


def of_parts(trials: Trials, name: str) -> str:
    """Say where a metric such as ``learning.OPTIMIZER.loss`` is of parts of a run, as of jobs; "" where it is not."""
    named = [(*split(key), key) for key in trials.metrics]
    parts = [key for metric, of, key in named if metric is not None and metric.name == name != key != filled(name, of)]
    return f"Each part of a run has its own: {listing_of(parts, NAMED)}." if parts else ""


def _comparable(trials: Trials) -> Iterator[Check]:
    """Say whether there is something to choose by."""
    metric = aim_of(trials).metric
    if metric not in trials.metrics and (parts := of_parts(trials, metric)):
        yield Check("comparable", Grade.NONE, parts)
    elif metric not in trials.metrics or not np.isfinite(trials.samples(metric)).any():
        asked = trials.scenario.decide is not None or not trials.metrics
        text = f"Nothing to choose by: no run has a value of {metric}."
        say = "" if asked else "Say by `decide` which metric to choose by."
        yield Check("comparable", Grade.BAD if asked else Grade.CAUTION, text, facts=(metric,), remedy=say)
    elif len(trials.settings) < 2:
        yield Check("comparable", Grade.NONE, "There is one setting: nothing is compared.")
    else:
        valued = int(np.isfinite(trials.samples(metric)).any(axis=1).sum())
        text = f"{count(valued, 'setting')} have a value of {wording_of(metric).words}."
        yield Check("comparable", Grade.OK, text, facts=(metric,))


def _conditions(trials: Trials) -> Iterator[Check]:
    """Say whether the best setting keeps the conditions, for sure; and where none does, what would be the best."""
    metric, less, conditions = aim_of(trials)
    free = contrasts(trials, metric, less_is_better=less)
    if not conditions or free.best is None:
        return
    shown = listing([f"`{' '.join(each.text.split())}`" for each in conditions])
    best, facts = judge_settings(trials).choice, (metric, *(each.metric for each in conditions))
    first, value = trials.names[free.best], wording_of(metric).write(float(free.mean[free.best]))
    if best is None:
        text, relax = f"No setting keeps every condition ({shown}).", f"Relax a condition: without them {first} is best"
        yield Check("conditions", Grade.BAD, text, facts=facts, remedy=f"{relax}, with {value}.")
    elif not judge_settings(trials).sure[best]:
        text = f"Whether {trials.names[best]} keeps {shown} is not sure: an interval reaches beyond a limit."
        seeds, name = 2 * len(trials.seeds), trials.names[best]
        more, command = f"Run {count(seeds)} seeds, for narrower intervals.", with_seeds(trials.meta, seeds)
        yield Check("conditions", Grade.CAUTION, text, name, facts, more, command, SEEDS)
    else:
        text, without = f"{trials.names[best]} keeps {shown}.", not judge_settings(trials).kept[free.best]
        text += f" Without the conditions {first} would be best, with {value}." * without
        yield Check("conditions", Grade.OK, text, trials.names[best], facts)


def _missed(trials: Trials) -> Iterator[Check]:
    """Say of each condition which settings surely miss it before anything is trained, which may, and by how much."""
    conditions, left = aim_of(trials).conditions, open_settings(trials)
    ways, facts = list[str](), tuple(each.metric for each in conditions)
    for condition in conditions:
        (kept, sure), means = judged(trials, (condition,)), interval(trials.samples(condition.metric)).mean
        for verb, rows in (("surely misses", ~kept & sure), ("may miss", ~kept & ~sure)):
            some = np.flatnonzero(rows & np.isfinite(means)).tolist()
            write, named = wording_of(condition.metric).write, list[str]()
            for row in sorted(some, key=lambda row: condition.margin(float(means[row]))):
                value = float(means[row])
                named.append(f"{trials.names[row]} ({write(value)}{beyond(condition, value)})")
            if named:
                text = f"{count(len(named), 'setting')} {verb if len(named) == 1 else _PLURAL[verb]}"
                ways.append(f"{text} `{' '.join(condition.text.split())}`: {listing_of(named, NAMED)}")
    if not left.any():
        shown = listing([f"`{' '.join(each.text.split())}`" for each in conditions])
        text = f"No setting keeps every condition ({shown})."
        yield Check("conditions", Grade.BAD, text, facts=facts, remedy="Relax a condition.")
    if ways:
        yield Check("missed", Grade.CAUTION, f"{'; '.join(ways)}.", facts=facts)
    elif conditions:
        yield Check("missed", Grade.OK, "No setting misses a condition that is known.", facts=facts)


def limits_check(trials: Trials) -> Iterator[Check]:
    """Say which of the scenario's own limits are missed."""
    if (verdict := sweep_verdict(trials)) is not None:
        states = {"fail": Grade.CAUTION, "warn": Grade.CAUTION, "pass": Grade.OK, "unjudged": Grade.NONE}
        missed = [each for each in verdict.attention if each.status in {"fail", "warn"}][:NAMED]
        alone = [f"{capitalized(each.note)}." for each in verdict.met[:1] if each.note]
        ways = [f"{capitalized(each.words)}: {each.note}." for each in missed] or alone
        yield Check("expectations", states[verdict.status], " ".join([verdict.headline, *ways]))


def diverged(trials: Trials) -> Iterator[Check]:
    """Say of which optimizers training diverged, and where."""
    every = optimizer_facts(trials, "diverged")
    runs = {name: values == 1 for name, values in every.items() if (values == 1).any()}
    if not runs:
        if (optimizers := by_optimizer(trials)) is not None and (lost := optimizers.meta["lost"]):
            several = len(optimizers.meta["cases"]) > 1
            far = [f"“{name}”{f' in {listing_of(cases, NAMED)}' * several}" for name, cases in lost.items()]
            text = f"{listing_of(far, NAMED)} diverged, more than ten times as far off as others in some runs, and "
            text += f"{'is' if len(lost) == 1 else 'are'} not compared."
            yield Check("diverged", Grade.CAUTION, text)
        elif every:
            yield Check("diverged", Grade.OK, "No training diverged.")
        return
    places = _where_each(trials, runs, every)
    ways = [f"{who} in {count(int(at.sum()))} of {count(int(of), 'run')}{where}" for who, where, at, of in places]
    state, text = Grade.CAUTION, f"Training diverged: {listing_of(ways, NAMED)}."
    if all((values[np.isfinite(values)] == 1).all() for values in every.values()):
        state, text = Grade.BAD, "All training diverged, so no loss can be compared."
    swept = any("step_size" in name for name in trials.swept)
    remedy, command = _lower_step(trials)
    remedy = "" if swept and state is Grade.CAUTION else remedy  # smaller steps were tried
    facts = tuple(f"learning.{name}.diverged" for name in runs)
    yield Check("diverged", state, text, "", facts, remedy, command, STEP)


def _where_each(
    trials: Trials, runs: Mapping[str, Bools], every: Mapping[str, Floats]
) -> Iterator[tuple[str, str, Bools, int]]:
    """Yield optimizers with where some runs of theirs are, which these are, and of how many; by settings that name one.

    A setting that is an optimizer has one name.
    """
    named = [axis.parameters for axis in trials.axes] == [("learning.optimizers",)]
    for name, mask in runs.items():
        there = np.isfinite(every[name]) if name in every else np.isfinite(mask)
        if not named:
            yield f"“{name}”", _at(trials, np.asarray(mask.any(axis=1))), mask, int(there.sum())
        for row in np.flatnonzero(mask.any(axis=1)).tolist() if named else ():
            yield trials.names[row], "", mask[row], int(there[row].sum())


def _lower_step(trials: Trials) -> tuple[str, str]:
    """Say to lower the step, and from where; with the command for a tenth of it, where it is one and is not swept."""
    learning = trials.scenario.learning
    step = None if learning is None else learning.step_size
    several = learning is not None and any(each.local_step_size is not None for each in learning.optimizers)
    if not isinstance(step, ConstantSchedule) or several or any("step_size" in name for name in trials.swept):
        return LOWER_STEP, ""
    text = f"Try a lower step than {number(step.initial)} (`learning.step_size`): too large a step is a likely cause."
    return text, command_of(trials.meta, "", {"learning.step_size": f"{step.initial / 10:g}"})


def gained(trials: Trials) -> Iterator[Check]:
    """Say which trainings did not get below the loss of their initial models, over the last half of their rounds."""
    if SIDE in trials.parameters:  # each side has its own
        return
    by_setting, swept = start_ratios(trials), any("step_size" in name for name in trials.swept)
    every = {name: [of.get(name) for of in by_setting] for name in sorted({name for of in by_setting for name in of})}
    lost = {name: np.array([(ratio or 0) >= 1 for ratio in of]) for name, of in every.items()}
    if not any(rows.any() for rows in lost.values()):
        return
    if untrained(trials):
        trained = [ratio for of in by_setting for ratio in of.values()]
        ends = dict.fromkeys(f"{each:.2f}" for each in (min(trained), max(trained)))
        text = "No training got below the loss of its initial model: over the last half it is "
        what = "no length that was tried is enough" if is_of_lengths(trials) else "none can be chosen"
        text += f"{' to '.join(ends)} times that{f', so {what}' * (len(trials.settings) > 1)}."
        yield Check("trained", Grade.BAD, text, "", (), *_lower_step(trials), STEP + LENGTH)
        return
    where = np.stack([*lost.values()]).any(axis=0)
    who = [trials.names[row] for row in np.flatnonzero(where).tolist()]
    if any(len(of) != 1 for of in by_setting):
        who = [f"“{name}”{_at(trials, rows)}" for name, rows in lost.items() if rows.any()]
    text = f"{capitalized(listing_of(who, NAMED))} did not get below the loss of the initial model."
    remedy, command = _lower_step(trials)
    yield Check("trained", Grade.CAUTION, text, "", (), "" if swept else remedy, command, STEP + LENGTH)


def _at(trials: Trials, rows: Bools) -> str:
    """Name some settings, where there are several to name them among."""
    if len(trials.settings) < 2:
        return ""
    names = [trials.names[row] for row in np.flatnonzero(rows).tolist()]
    return " at every setting" if rows.all() else f" at {listing_of(names, NAMED, 'more setting')}"


def unsettled(trials: Trials) -> dict[str, Bools]:
    """Say of each optimizer in which runs, (settings, seeds), its model moved and its loss has not converged."""
    state, moved, loss = (optimizer_facts(trials, figure) for figure in ("converged", "moved", "loss"))
    moving = {name: (state[name] == 0) & np.isfinite(loss[name]) for name in state if name in loss}
    moving |= {name: mask & (moved[name] != 0) for name, mask in moving.items() if name in moved}
    every = optimizer_facts(trials, "rounds_to_target")
    needed = [values for name, values in every.items() if name not in twins(trials)]
    learning = trials.scenario.learning
    if needed and learning is not None and learning.stop_at_target:  # training that stopped at its target shows no end
        stopped = np.isfinite(np.stack(needed)).all(axis=0)
        moving = {name: mask & ~stopped for name, mask in moving.items()}
    return moving


def settled_losses(trials: Trials) -> Iterator[Check]:
    """Say whose loss has not converged, and where; nothing where no training got anywhere."""
    every = {} if any(each.state is Grade.BAD for each in gained(trials)) else unsettled(trials)
    moving = {name: mask for name, mask in every.items() if mask.any()}
    moving = {name: mask for name, mask in moving.items() if name not in twins(trials)} or moving
    if not moving:
        text = "Every loss has converged, or training stopped at its target."
        yield from [Check("converged", Grade.OK, text)] if every else []
        return
    facts = tuple(f"learning.{name}.converged" for name in moving)
    rows = np.asarray(np.stack([mask.any(axis=1) for mask in moving.values()]).any(axis=0))
    places = [(who, where) for who, where, *_ in _where_each(trials, moving, {})]
    who, apart = listing([each for each, _ in places]), any(where for _, where in places) or len(rows) < 2
    if len(moving) > NAMED:
        who = f"{len(moving)} of {len(every)} optimizers"
    where, but = _at(trials, rows) * apart, ""
    if rows.sum() > NAMED and not rows.all():
        at, where = judge_settings(trials).choice, f" at {rows.sum()} of {len(rows)} settings"
        but = "" if at is None or rows[at] else f" At {trials.names[at]}, which is chosen, it has converged."
    if rows.all() and len(rows) > 1 and apart:
        where = " at any setting" if all(mask.any(axis=1).all() for mask in moving.values()) else " at some settings"
    text = f"The loss of {who} has not converged{where}: it shows how far training got, not where it would end.{but}"
    late, judgement = optimizer_facts(trials, "late_descent"), judge_settings(trials)
    matter = judgement.contrast.rows(Standing.REFERENCE, *UNDECIDED)
    matter = [*matter, *(row for row in (judgement.choice,) if row is not None)]
    steep = [mask & (late[name] > CONVERGED_DESCENT) for name, mask in moving.items() if name in late]
    falling = any(each[matter].any() for each in steep)
    helps = falling and judgement.why is not Why.ENOUGH and trials.scenario.privacy is None
    # A loss that swings or rises does not settle by itself, and more rounds need other noise.
    remedy, command = (LONGER, _longer(trials, 2)) if helps else ("", "")
    yield Check("converged", Grade.CAUTION, text, "", facts, remedy, command, LENGTH)


def _longer(trials: Trials, times: int) -> str:
    """Return the command for so many times as much; "" where it has none, or settings differ in it."""
    swept = any(name.startswith("stop") for name in trials.swept)
    return "" if swept or trials.scenario.privacy else longer(trials.meta, trials.scenario.stop, times)


def _seeds(trials: Trials) -> Iterator[Check]:
    """Say whether chance leaves open which is best, and how many seeds would do; a finding if it settles more."""
    (contrast, names, wording), meta = ranking_of(trials), trials.meta
    if contrast.reference is None or len(contrast.order) < 2:
        return
    best, remedy, command = names[contrast.reference], "", ""
    few, tied, same = (contrast.rows(state) for state in (Standing.FEW, Standing.TIED, Standing.SAME))
    others = listing_of([names[row] for row in few or tied or same], NAMED)
    alone, settled = int(contrast.seeds.max()) < 2, False  # settled: what they may differ by does not matter
    if alone or Standing.UNTESTED in contrast.states:
        text = "With one seed no difference is tested."
        if Standing.UNTESTED not in contrast.states:
            text = "With one seed each, differences are judged by the intervals that the runs state."
        why, remedy, command = _seeds_of_one(trials, [*few, *tied])
        text, settled = f"{text}{why}", bool(why)
    elif few:
        text = f"{count(int(contrast.seeds[few].max()), 'seed')} are too few to test {best} against {others}."
    elif tied:
        seeds = count(int(contrast.seeds[tied].min()), "seed")
        text = f"{seeds} show no significant difference between {best} and {others}."
    elif same:
        text = f"{best} and {others} are the same with every seed."
    else:
        text = f"What is compared with {best} differs significantly from it."
    open_ = [row for row in (*few, *tied) if contrast.difference[row] and np.isfinite(contrast.half[row])]
    if open_ and not alone:
        row = min(open_, key=contrast.order.tolist().index)  # the rival: the next best
        apart, half = abs(float(contrast.difference[row])), float(contrast.half[row])
        least, by = MATTERS * worth(contrast), wording.difference(apart, sign=False)
        needed = seeds_needed(max(apart, least), half, int(contrast.seeds[row]), max(1, contrast.tests))
        of_best = f"{percent(MATTERS)} ({wording.difference(least, sign=False)})"
        what = f"whether {names[row]} is worse by {of_best if apart < least else by} in {wording.words}"
        if settled := (needed is None or apart + half < least) and (not few or apart + half < least):
            why = f"{wording.difference(apart, half, sign=False)} apart" if needed else "it takes more than 1,000 seeds"
            text += f" Not worth separating: {why}."
        elif needed and not (by_optimizer(trials) is None and judge_settings(trials).why is Why.ENOUGH):
            remedy, command = f"Run about {count(needed)} seeds to see {what}.", with_seeds(meta, needed)
    state = Grade.CAUTION if ((open_ or few) and not settled) or Standing.UNTESTED in contrast.states else Grade.OK
    state = Grade.NONE if state is Grade.CAUTION and not few and len(tied) < contrast.differs.sum() else state
    yield Check("seeds", state, text, best, (wording.metric,), remedy, command, SEEDS)


def _feasible(trials: Trials) -> Iterator[Check]:
    """Say whether the setting of choice finds its clients, and does all its rounds."""
    if (row := judge_settings(trials).choice) is None or by_optimizer(trials) is not None:
        return
    (short, rounds), name = (float(interval(trials.samples(each)).mean[row]) for each in _FEASIBLE), trials.names[row]
    text, remedy = f"{percent(short)} of the rounds at {name} found too few eligible clients.", "Lower the cohort or R."
    if short > MOSTLY:
        yield Check("cohorts", Grade.CAUTION, text, name, _FEASIBLE[:1], remedy)
    elif np.isfinite(short):
        yield Check("cohorts", Grade.OK, text, name, _FEASIBLE[:1])
    early, contrast = stopped_early(trials), judge_settings(trials).contrast
    if early[row]:
        text = f"{capitalized(name)} {why_unfit(trials, row, time=True)}."
        left = listing_of([trials.names[each] for each in np.flatnonzero(judge_settings(trials).unfit).tolist()], NAMED)
        if left and not early[contrast.order].all():
            text += f" It is compared all the same, unlike {left}: no setting that did its rounds is as good."
        more = "Give runs more time (`stop.duration`)."
        yield Check("ended", Grade.CAUTION, text, name, _FEASIBLE[1:], more, _until_done(trials, rounds), LENGTH)
        return
    better = contrast.mean < contrast.mean[row] if contrast.less_is_better else contrast.mean > contrast.mean[row]
    for out in np.flatnonzero(judge_settings(trials).unfit & better & early).tolist():
        rounds, out_name = float(means(trials, "rounds.count")[out]), trials.names[out]
        text = f"{capitalized(name)} did its rounds."
        more = f"Give runs more time (`stop.duration`), in which {out_name} does its rounds too."
        yield Check("ended", Grade.NONE, text, name, _FEASIBLE[1:], more, _until_done(trials, rounds), LENGTH)


def _until_done(trials: Trials, rounds: float) -> str:
    """Return the command for the time in which a setting that did some rounds does all; "" where none ends by time."""
    stop = trials.scenario.stop
    if not rounds or isinf(stop.most_s):
        return ""
    return command_of(trials.meta, "", {"stop.duration": stop.times(ceil(stop.most_rounds / rounds))["duration"]})


def surplus(trials: Trials) -> Iterator[Check]:
    """Say where rounds take more reports than they want, as they do of sessions that end at the same instant."""
    taken, rounds, wanted = (means(trials, each) for each in (TAKEN, ROUNDS, "reports.wanted"))
    times = np.nan_to_num(taken / np.where(rounds * wanted > 0, rounds * wanted, np.nan))  # jobs have their own
    if (times > SURPLUS).any() and (trials.scenario.server.closes_early or "server.over_select" in trials.swept):
        text = f"Rounds take {number(times.max(), 3)} times the reports that they want{_at(trials, times > SURPLUS)}: "
        text += "all sessions count that end at the instant at which a round closes."
        yield Check("surplus", Grade.CAUTION, text, "", (TAKEN, ROUNDS, "reports.wanted"), SPREAD, "", ("session",))


def _chance(trials: Trials) -> Iterator[Check]:
    """Say whether chance alone would give at least half of the distance from uniform of the choice."""
    metric, judgement = bias_metric(trials), judge_settings(trials)
    if metric.endswith(without_noise("")):
        yield Check("chance", Grade.OK, "What chance adds to the distances is taken off them.", "", (metric,))
        return
    if judgement.choice is None or by_optimizer(trials) is not None:
        return
    row, where = judgement.choice, trials.names[judgement.choice]
    reports, fair = (float(each[row]) for each in reports_and_chance(trials))
    bias = float(means(trials, metric)[row])
    if not (bias > 0 and reports > 0 and np.isfinite(fair)):
        return
    far, even, large = tv(bias), tv(fair), bias < 2 * fair and reports < FEW * trials.scenario.devices
    if bias <= fair:
        text = f"At {where} clients take part more evenly than equal chances would have it: {far} against {even}."
        yield Check("chance", Grade.OK, text, where, (metric,))
    elif not large or metric != judgement.aim.metric:
        yield Check("chance", Grade.OK, f"At {where} equal chances alone would give {even} of {far}.", where, (metric,))
    else:
        text, command = "Chance is a large part of these distances: ", _longer(trials, _LONGER)
        text += f"{far} at {where}, and equal chances alone would give {even}."
        more = f"Run {_LONGER} times as long." if command else ""
        yield Check("chance", Grade.CAUTION, text, where, (metric,), more, command, LENGTH)


_BETWEEN = "The choice lies between values that were tried."


def _edge(trials: Trials) -> Iterator[Check]:
    """Say where the best may lie beyond the values that were tried, and which values between them to try."""
    row, tuning = judge_settings(trials).choice, (trials.scenario.decide and trials.scenario.decide.tune) or {}
    if row is None or len(trials.settings) < 2 or by_optimizer(trials) is not None:
        return
    few = 1 if trials.scenario.decide is not None else 2  # two values of a sweep are compared, and are no search
    checks = [each for axis in trials.axes if axis.ordered and axis.size > few for each in _beyond(trials, axis, row)]
    for key, path in product(tuning, trials.tuned):
        x, values = trials.numbers(path), np.unique(tuning[key])
        if x is None or not f".{path}".endswith(f".{key}") or len(values) < 2:
            continue
        least = x[row] == values[0] and _has_less(trials, path, float(x[row]))
        end = "largest" if x[row] == values[-1] else "least" if least else ""
        text, way = f"{equation(key, number(float(x[row])))} of the choice", "larger" if end == "largest" else "smaller"
        text = f"{text} is the {end} value that was tried: the best may lie beyond." if end else _BETWEEN
        remedy = f"Try {way} values of {key} too (`decide.tune`)." if end else ""
        state, turns = Grade.CAUTION if end else Grade.OK, (key.rpartition(".")[2],)
        checks.append(Check("edge", state, text, trials.names[row], (), remedy, "", turns))
    yield from [each for each in checks if each.state is Grade.CAUTION] or checks[:1]


def _beyond(trials: Trials, axis: Axis, row: int) -> Iterator[Check]:
    """Say which values along an axis to try with the other values of the choice, or else with others of the best."""
    mean = judge_settings(trials).contrast.mean * (1 if judge_settings(trials).contrast.less_is_better else -1)
    alone, between, every = trials.scenario.decide is not None, _BETWEEN, trials.rows_along(axis, np.isfinite(mean))
    for words, line in sorted(every, key=lambda each: row not in each[1]):
        best = row if row in line else int(line[np.argmin(mean[line])])
        at, where = line.tolist().index(best), f" with {words}" * bool(words)
        if len(line) < 2 or (best != row and (alone or at < len(line) - 1 or judge_settings(trials).unfit[best])):
            continue
        way = "largest" if at == len(line) - 1 else "" if at else "least"
        beside = [int(each) for each in line[max(at - 1, 0) : at + 2] if each != best]
        turns = tuple(each.rpartition(".")[2] for each in axis.parameters)
        near = [each for each in beside if abs(mean[each] - mean[best]) <= MATTERS * abs(mean[best])]
        tied = any(best != row or each in judge_settings(trials).tied for each in near)
        if way and best == row:
            between = "Beyond the choice there are no further values."
        if not tied and (tried := _to_try(trials, axis, best, beside, way)):
            text = f"{axis.named(axis.x[best])} is the {way} value that was tried{where}: the best may lie beyond."
            values = f"{'larger' if at else 'smaller'} values of {axis.name}"
            values = values if axis.ticks else f"{axis.name} = {listing([number(each) for each in tried])}"
            swept = "" if axis.ticks else ", ".join(f"{x:g}" for x in sorted([float(axis.x[best]), *tried]))
            remedy, command = f"Try {values}{where} too.", _grid(trials, axis, best, swept)
            state = Grade.CAUTION if way else Grade.NONE
            yield Check("edge", state, text if way else between, trials.names[row], (), remedy, command, turns)
            return
        next_best = min(beside, key=lambda each: float(mean[each]))
        if best == row and not tied and (middle := _midway(trials, axis, (best, next_best))):
            ends = " and ".join(axis.at(axis.x[each]) for each in (next_best, best))
            remedy = f"Try {axis.name} = {middle} too, between {ends}."
            command = _grid(trials, axis, best, f"{middle}, {axis.at(axis.x[best])}")
            yield Check("edge", Grade.NONE, between, trials.names[row], (), remedy, command, turns)
            return
    yield Check("edge", Grade.OK, between, trials.names[row])


def _to_try(trials: Trials, axis: Axis, row: int, beside: Sequence[int], way: str) -> list[float]:
    """Return values along an axis that may be better than a setting's: beyond it, or between it and its neighbours."""
    x, whole = float(axis.x[row]), bool((axis.x == np.rint(axis.x)).all())
    if way == "largest":
        most = _most(trials, axis, row)
        tried = [min(x + k * (x - axis.x[beside[0]]), most) for k in (1, 2) if most > x]
    elif way:
        tried = [x / 2] * (not axis.ticks and _has_less(trials, axis.parameters[0], x))
    else:
        tested = judge_settings(trials).contrast.differs.any() and not axis.ticks
        tried = [(x + axis.x[each]) / 2 for each in beside if tested]
    there = {x, *axis.x[list(beside)].tolist()}
    return sorted({float(np.rint(each)) if whole else float(each) for each in tried} - there)


def _midway(trials: Trials, axis: Axis, ends: Sequence[int]) -> str:
    """Return the duration midway between two settings, one of which is much longer; "" of other values."""
    try:
        low, high = sorted(parse_duration(trials.settings[axis.parameters[0]][each]) for each in ends)
    except ValueError:
        return ""
    return format_duration(np.rint((low + high) / 2)) if len(axis.parameters) == 1 and high >= _GAP * low > 0 else ""


def _has_less(trials: Trials, path: str, least: float) -> bool:
    """Say whether there are values below the least that was tried, which the scenario takes."""
    for less in (least - 1, least / 2) if least > 0 else ():
        with suppress(ScenarioError):
            trials.scenario.with_values({path: int(less) if less.is_integer() else less})
            return True
    return False


def _most(trials: Trials, axis: Axis, row: int) -> float:
    """Return the largest value that can work: clients must have come back when a round wants them.

    No evenness lies beyond that of all clients taking part equally.
    """
    metric = judge_settings(trials).aim.metric
    even = metric == bias_metric(trials) and means(trials, metric)[row] <= ROUNDING
    waits = any(each.endswith(("separation", "cooldown")) for each in axis.parameters)
    if even or (waits and means(trials, SHORTAGE)[row] >= _SHORT):
        return -np.inf
    if axis.ticks or not waits:
        return np.inf
    selected = float(means(trials, "sessions.count")[row] / means(trials, "rounds.count")[row])
    selected = selected if np.isfinite(selected) else float(trials.scenario.server.wanted or 1)
    return float(int(trials.scenario.devices / selected) - 1)


def _grid(trials: Trials, along: Axis, row: int, tried: str) -> str:
    """Return the command that tries values along an axis with the other values of a setting; "" without one."""
    if not tried or any(len(axis.parameters) > 1 for axis in trials.axes):
        return ""
    columns = {name: str(trials.settings[name][row]) for name in trials.parameters}
    columns |= dict.fromkeys(along.parameters, tried)
    grid = f"{{{', '.join(f'{name}: [{each}]' for name, each in columns.items())}}}"
    choose = command_of(trials.meta, "decide", {"choose": grid})
    return command_of(trials.meta, "sweep", {"sweep.grid": grid}) or choose


def theory_check(trials: Trials) -> Iterator[Check]:
    """Say where measurement lies farther from theory than noise explains; both are of selections."""
    metrics = ("participation.l1_chain", "participation.l1_noise")
    apart, noise = (interval(trials.samples(metric)).mean for metric in metrics)
    few = interval(trials.samples("participation.l1_chance")).mean > 2.0 / np.e  # less than a selection a client
    tested = np.isfinite(apart) & np.isfinite(noise) & ~few
    far = tested & (apart > 2 * noise + ROUNDING)
    if far.any():
        row = int(np.argmax(np.where(far, apart - noise, -np.inf)))
        where = trials.setting_names()[row]
        text = f"Theory does not describe selections{_at(trials, far)}: {f'at {where} ' if where else ''}they are "
        text += f"{tv(float(apart[row]))} from it (TV), where sampling noise alone would give {tv(float(noise[row]))}."
        yield Check("theory", Grade.CAUTION, text, where, metrics)
    elif tested.any():
        text = f"Measurement and theory agree within sampling noise{'' if tested.all() else _at(trials, tested)}."
        yield Check("theory", Grade.OK, text, "", metrics)
    elif np.isfinite(trials.samples(L1)).any():
        text = "No theory covers these settings."
        if np.isfinite(trials.samples(COVERED)).any():
            text = "Theory is not compared with selections, whose sampling noise was not estimated."
        yield Check("theory", Grade.NONE, text, "", (COVERED,))


def _seeds_of_one(trials: Trials, open_: Sequence[int]) -> tuple[str, str, str]:
    """Say why two single runs are not worth separating; else how many seeds to run, with the command."""
    (contrast, _, wording), theory = ranking_of(trials), theory_of_sides(trials)
    if SIDE not in trials.parameters or not open_:
        return "", "Run several seeds, which tests differences.", with_seeds(trials.meta, 5)
    apart = abs(float(contrast.difference[open_[0]] if theory is None else np.diff(theory)[0]))
    by = f"a difference of {wording.difference(apart, sign=False)}{', that of theory' * (theory is not None)}"
    gives = "these runs show" if theory is None else "theory gives"
    needed = seeds_needed(apart, float(contrast.half[open_[0]]), 1, 1) if apart > ROUNDING else _WORTH + 1
    if needed is None or needed > _WORTH:
        why = f"more than {_WORTH} seeds would be needed for {by}" if apart > ROUNDING else f"{gives} no difference"
        return f" Not worth separating: {why}.", "", ""
    return "", f"Run about {needed} seeds: four times in five they show {by}.", with_seeds(trials.meta, needed)


def theory_of_sides(trials: Trials) -> Floats | None:
    """Return how far from uniform theory puts each side, where it covers both and describes what is compared."""
    theory, compared = means(trials, COVERED), aim_of(trials).metric in {L1, without_noise(L1)}
    fails = any(each.state is Grade.CAUTION for each in theory_check(trials))
    return theory if compared and len(theory) == 2 and np.isfinite(theory).all() and not fails else None


def _size(trials: Trials) -> Iterator[Check]:
    """Say of a federation that stands for a larger one which figures it does not keep."""
    privacy = trials.scenario.privacy
    if privacy is not None and privacy.stands_for is not None:
        times = number(privacy.stands_for)
        text = f"At full size ({times} times this) participation noise is smaller"
        text += f"{': compare the other parts of the loss' * bool(loss_parts(trials))}."
        yield Check("size", Grade.CAUTION, text)


def _price(trials: Trials) -> Iterator[Check]:
    """Say that nothing says what pace is worth, where the most even setting is not the fastest."""
    ends, best = judge_settings(trials).front, judge_settings(trials).contrast.best
    if ends is None or best is None or judge_settings(trials).why is not Why.OPEN or by_optimizer(trials) is not None:
        return
    fast, metric, pace = int(ends[0]), aim_of(trials).metric, pace_metric(trials)
    least = f"{_SLOWER * interval(trials.samples(pace)).mean[fast]:.3g}"
    even, faster = capitalized(trials.names[best]), trials.names[fast]
    text = f"{even} is more even and {faster} faster, and nothing says what pace is worth."
    decide = f"{{minimize: {metric}, subject_to: [{pace} >= {least}]}}"
    tenths = f"{wording_of(pace).write(float(least))}, nine tenths of the fastest"
    remedy = f"Say by `decide` what pace you need, such as {tenths}."
    command = command_of(trials.meta, "sweep", {"decide": decide})
    yield Check("price", Grade.CAUTION, text, "", (metric, pace), remedy, command)


TRIAL_CHECKS: tuple[Checks, ...] = (
    *(_complete, _comparable, _conditions, limits_check, diverged, gained, settled_losses),
    *(_feasible, surplus, _seeds, _chance, _edge, theory_check, _size, _price),
)
"""In this order; the first bad one is the headline."""
_OF_CHOICE = (_feasible, _seeds, _chance, _edge, _price)
"""Those of what is chosen and compared, for which something must have been trained."""
FACT_CHECKS: tuple[Checks, ...] = (_complete, _comparable, _missed, surplus, theory_check)
"""Those of the first stage of a decision, which chooses nothing."""
