"""Reasons to trust what trials say, or not: one ordered list of checks, of which warnings and exit codes follow."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import count, listing, listing_of, number
from fedsim.measure.metrics import split
from fedsim.measure.noise import by_chance
from fedsim.measure.shares import ROUNDING
from fedsim.pages.answer import Check, State
from fedsim.pages.bias import FEW
from fedsim.pages.commands import command_of, longer_command, with_seeds
from fedsim.pages.expectations import sweep_verdict
from fedsim.pages.metric_wording import tv, wording_of
from fedsim.trials.contrasts import Contrasts, Standing, contrasts, interval, seeds_needed
from fedsim.trials.decision import L1, PACE, aim_of, bias_metric, chosen, compared, is_open, keeping, trade_off
from fedsim.trials.optimizers import by_optimizer, ranked
from fedsim.trials.trials import COMPARED, COMPLETE, CRASHED, Axis, Trials

NAMED = 3  # settings that a sentence names at most
OF_EACH_JOB = "Each job has its own, in the results as job.NAME.METRIC."
_LONGER = 10  # times as long, where chance is a large part of a distance
_SLOWER = 0.9  # of the fastest pace: the condition of the example of `decide`

Checks: TypeAlias = Callable[[Trials], Iterable[Check]]


def checks_of_trials(trials: Trials) -> Iterator[Check]:
    """Yield what became of each check, in the order of the list."""
    for checks in TRIAL_CHECKS:
        yield from checks(trials)


def exit_code(checks: Iterable[Check]) -> int:
    """Return the code with which a command ends: 3 where runs failed, 1 where nothing can be chosen, else 0."""
    return max((_EXITS.get((each.name, each.state), 0) for each in checks), default=0)


_EXITS = {
    ("failed", State.CAUTION): 3,
    ("failed", State.BAD): 3,
    ("reports", State.BAD): 3,
    ("comparable", State.BAD): 1,
    ("conditions", State.BAD): 1,
}


def again(trials: Trials, *settings: str) -> str:
    """Return the command of a sweep or decision with more settings; "" where it has none."""
    return command_of(trials.meta, "sweep", *settings) or command_of(trials.meta, "decide", *settings)


def optimizer_facts(trials: Trials, figure: str) -> dict[str, Floats]:
    """Return a figure of each optimizer that has it, as it was measured, (settings, seeds)."""
    found = ((split(name), name) for name in trials.metrics)
    own = {
        parts["optimizer"]: name
        for (known, parts), name in found
        if known is not None and known.name == f"learning.OPTIMIZER.{figure}" and "job" not in parts
    }
    return {name: trials.as_measured(metric) for name, metric in own.items()}


def reports_and_chance(trials: Trials) -> tuple[Floats, Floats]:
    """Return how many reports each setting takes, and their L1 from uniform by equal chances; NaN if devices differ."""
    taken = trials.samples("sessions.count") * np.nan_to_num(trials.samples("sessions.reported_share"), nan=1.0)
    reports = np.nan_to_num(taken).mean(axis=1)
    if any("devices" in name or name == "population" for name in trials.swept):
        return reports, np.full(len(reports), np.nan)
    return reports, np.array([by_chance(round(each), trials.scenario.devices) for each in reports.tolist()])


def limits_of(trials: Trials) -> str:
    """Write the conditions as they are."""
    return listing([f"`{' '.join(each.text.split())}`" for each in aim_of(trials).conditions])


def _complete(trials: Trials) -> Iterator[Check]:
    """Say which runs failed, and which were never done."""
    runs, without = trials.runs, trials.failed
    done = runs.filter(status=COMPLETE).group_by("setting").agg(pl.col("seed").sort())["seed"]
    uneven = "" if without.is_empty() else " Means are over the seeds that each setting has, differences over those "
    uneven += "that both have." if uneven else ""
    state = State.CAUTION if len(done) else State.BAD
    failed, missing = without.filter(status=CRASHED), without.filter(pl.col("status") != CRASHED)
    tuning = trials.facts.filter(pl.col("stage") != COMPARED, status=CRASHED).select("stage", "setting").n_unique()
    if len(failed) or tuning:
        tried = f" {count(tuning, 'run')} that tuned them failed too." if tuning else ""
        why = "Read in runs/*.crashed.json why runs failed: the same command tries anew those that did not stall."
        text = f"{_of_runs(failed, runs)} failed{_where(trials, failed)}.{tried}{uneven}"
        yield Check("failed", state, text, remedy=why, command=again(trials))
    if len(missing):
        text = f"{_of_runs(missing, runs)} {'was' if len(missing) == 1 else 'were'} not run{_where(trials, missing)}."
        rest = f"Run the same command again: it does the {count(len(missing), 'missing run')}."
        yield Check("missing", state, f"{text}{uneven}", remedy=rest, command=again(trials))
    if without.is_empty():
        yield Check("complete", State.OK, f"{count(len(runs), 'run')} completed.")


def _of_runs(some: pl.DataFrame, runs: pl.DataFrame) -> str:
    return f"{count(len(some))} of {count(len(runs), 'run')}"


def _where(trials: Trials, without: pl.DataFrame) -> str:
    """Name the settings and seeds of some runs, the first few of them."""
    names = dict(zip(trials.settings["setting"].to_list(), trials.setting_names(), strict=True))
    places = []
    for setting, seeds in without.group_by("setting", maintain_order=True).agg("seed").iter_rows():
        which = f"seed{'' if len(seeds) == 1 else 's'} {listing_of(list(map(str, seeds)), NAMED)}"
        places.append(f"{names[setting]} with {which}" if names[setting] else which)
    return f": {listing_of(places, NAMED, 'more setting')}" if places else ""


def _comparable(trials: Trials) -> Iterator[Check]:
    """Say whether there is something to choose by."""
    metric = aim_of(trials).metric
    if trials.scenario.jobs and metric not in trials.metrics:
        yield Check("comparable", State.NONE, OF_EACH_JOB)
    elif metric not in trials.metrics or not np.isfinite(trials.samples(metric)).any():
        asked = trials.scenario.decide is not None or not trials.metrics
        text = f"Nothing to choose by: no run has a value of {metric}."
        say = "" if asked else "Say by `decide` which metric to choose by."
        yield Check("comparable", State.BAD if asked else State.CAUTION, text, facts=(metric,), remedy=say)
    elif len(trials.settings) < 2:
        yield Check("comparable", State.NONE, "There is one setting: nothing is compared.")
    else:
        known = int(np.isfinite(trials.samples(metric)).any(axis=1).sum())
        text = f"{count(known, 'setting')} have a value of {wording_of(metric).the}."
        yield Check("comparable", State.OK, text, facts=(metric,))


def _conditions(trials: Trials) -> Iterator[Check]:
    """Say whether the best setting keeps the conditions, for sure; and where none does, what would be the best."""
    metric, less, conditions = aim_of(trials)
    free = contrasts(trials, metric, less_is_better=less)
    if not conditions or free.best is None:
        return
    shown, best = limits_of(trials), compared(trials).best
    facts = (metric, *(each.metric for each in conditions))
    if best is None:
        text = f"No setting keeps every condition ({shown})."
        value = wording_of(metric).write(float(free.mean[free.best]))
        relax = f"Relax a condition: without them {trials.names[free.best]} is best, with {value}."
        yield Check("conditions", State.BAD, text, facts=facts, remedy=relax)
    elif not keeping(trials).sure[best]:
        text = f"Whether {trials.names[best]} keeps {shown} is not sure: an interval reaches beyond a limit."
        seeds = 2 * len(trials.seeds)
        more = f"Run {count(seeds)} seeds, for narrower intervals."
        yield Check("conditions", State.CAUTION, text, trials.names[best], facts, more, with_seeds(trials.meta, seeds))
    else:
        yield Check("conditions", State.OK, f"{trials.names[best]} keeps {shown}.", trials.names[best], facts)


def _limits(trials: Trials) -> Iterator[Check]:
    """Say which of the scenario's own limits are missed."""
    if (verdict := sweep_verdict(trials)) is not None:
        states = {"fail": State.CAUTION, "warn": State.CAUTION, "pass": State.OK, "unjudged": State.NONE}
        missed = [f"`{each.check}` {each.note}" for each in verdict.attention if each.status in {"fail", "warn"}]
        text = verdict.headline + (f" {listing_of(missed, NAMED, 'more limit')}." if missed else "")
        yield Check("limits", states[verdict.status], text)


def diverged(trials: Trials) -> Iterator[Check]:
    """Say of which optimizers training diverged, and where."""
    every = optimizer_facts(trials, "diverged")
    found = {name: values == 1 for name, values in every.items()}
    facts = tuple(f"learning.{name}.diverged" for name, own in found.items() if own.any())
    if not every:
        return
    if not facts:
        yield Check("diverged", State.OK, "No training diverged.")
        return
    known = np.isfinite(np.stack([*every.values()]))
    step = _learning(trials).get("step_size")
    step = step.get("initial") if isinstance(step, dict) and step.get("kind") == "constant" else step
    swept = any("step_size" in name for name in trials.swept)
    command = again(trials, f"learning.step_size={step / 10:g}") if isinstance(step, int | float) and not swept else ""
    remedy = "Lower the step (`learning.step_size`)."
    if np.stack([*found.values()])[known].all():
        text = "All training diverged, so no loss can be compared."
        yield Check("diverged", State.BAD, text, "", facts, remedy, command)
        return
    ways = [
        f"“{name}” in {count(int(own.sum()))} of {count(int(np.isfinite(every[name]).sum()), 'run')}"
        f"{_at(trials, own.any(axis=1))}"
        for name, own in found.items()
        if own.any()
    ]
    yield Check("diverged", State.CAUTION, f"Training diverged: {listing_of(ways, NAMED)}.", "", facts, remedy, command)


def _at(trials: Trials, rows: Bools) -> str:
    """Name some settings, where there are several to name them among."""
    if len(trials.settings) < 2:
        return ""
    names = [trials.names[row] for row in np.flatnonzero(rows).tolist()]
    return " at every setting" if rows.all() else f" at {listing_of(names, NAMED, 'more setting')}"


def unsettled(trials: Trials) -> dict[str, Bools]:
    """Say of each optimizer in which runs, (settings, seeds), its loss was still falling; as of a run by itself."""
    from fedsim.learning.summary import CONVERGED_DESCENT  # PyTorch is not needed to compare

    state, late, moved, diverged, loss = (
        optimizer_facts(trials, figure) for figure in ("converged", "late_descent", "moved", "diverged", "loss")
    )
    nothing = np.full((len(trials.settings), len(trials.seeds)), np.nan)
    found = {
        name: ((own == 0) | (late.get(name, nothing) > CONVERGED_DESCENT))
        & (moved.get(name, nothing) != 0)
        & (diverged.get(name, nothing) != 1)
        & np.isfinite(loss.get(name, nothing))
        for name, own in state.items()
    }
    every = optimizer_facts(trials, "rounds_to_target")
    needed = [values for name, values in every.items() if not name.endswith("_uniform")]
    if needed and _learning(trials).get("stop_at_target"):  # training that stopped at its target shows no end
        stopped = np.isfinite(np.stack(needed)).all(axis=0)
        found = {name: own & ~stopped for name, own in found.items()}
    return found


def _learning(trials: Trials) -> dict[str, Any]:
    """Return what the scenario says of training, as it is written; of a point of a sweep that is all there is."""
    return (trials.meta.get("scenario") or {}).get("learning") or {}


def settled_losses(trials: Trials) -> Iterator[Check]:
    """Say whose loss has not converged, and where."""
    every = unsettled(trials)
    moving = {name: own for name, own in every.items() if own.any()}
    if not every:
        return
    if not moving:
        who = f"the loss of {listing([f'“{name}”' for name in every])}" if len(every) <= NAMED else "every loss"
        yield Check("settled", State.OK, f"{who[:1].upper()}{who[1:]} has converged in every run that has one.")
        return
    facts = tuple(f"learning.{name}.{what}" for name in moving for what in ("converged", "late_descent"))
    rows = np.asarray(np.stack([own.any(axis=1) for own in moving.values()]).any(axis=0))
    who = listing_of([f"“{name}”" for name in moving], NAMED)
    text = f"The loss of {who} has not converged{_at(trials, rows)}"
    text += ": it shows how far training got, not where it would end."
    longer = "" if any(name.startswith("stop") for name in trials.swept) else _longer(trials, 2)
    remedy = "Run longer, until losses settle."
    yield Check("settled", State.CAUTION, text, "", facts, remedy, longer)


def _longer(trials: Trials, times: int) -> str:
    if not trials.meta.get("command"):
        return ""
    verb = "decide" if command_of(trials.meta, "decide") else "sweep"
    return longer_command(trials.meta, verb, trials.scenario.stop, times)


def _seeds(trials: Trials) -> Iterator[Check]:
    """Say whether there are enough seeds to compare, and how many would be."""
    optimizers = by_optimizer(trials)
    if optimizers is not None:
        names = tuple(f"“{name}”" for name in optimizers.settings["optimizer"])
        yield from _seeds_of(trials, ranked(optimizers), names, "optimizer", "mean rank")
    else:
        wording = wording_of(aim_of(trials).metric)
        yield from _seeds_of(trials, compared(trials), trials.names, "setting", wording.metric)


def _seeds_of(
    trials: Trials, found: Contrasts, names: Sequence[str], noun: str, metric: str, against: str = "the best"
) -> Iterator[Check]:
    """Say of a comparison whether there are enough seeds, and how many would be."""
    if found.reference is None or len(found.order) < 2:
        return
    write = wording_of(metric).difference
    if Standing.UNTESTED in found.states:
        text = f"Each {noun} has one seed: no difference is tested."
        more = "Sweep several seeds, which tests differences."
        yield Check("seeds", State.CAUTION, text, "", (metric,), more, with_seeds(trials.meta, 5))
        return
    few, tied, same = (found.rows(state) for state in (Standing.FEW, Standing.TIED, Standing.SAME))
    open_ = [row for row in (*tied, *few) if found.difference[row] and np.isfinite(found.half[row])]
    best, text = names[found.reference], ""
    if few:
        seeds = count(int(found.seeds[few].max()), "seed")
        text = f"{seeds} are too few to test {count(len(few), noun)} against {against}."
    elif tied:
        seeds = count(int(found.seeds[tied].min()), "seed")
        verb = "ties" if len(tied) == 1 else "tie"
        text = f"{count(len(tied), noun)} {verb} with {against}: {seeds} show no significant difference."
    elif same:
        text = f"{count(len(same), noun)} {'is' if len(same) == 1 else 'are'} the same as {against} with every seed."
    else:
        worse = "Every other" if len(found.order) > 2 else "The other"
        text = f"{worse} {noun} that is compared differs significantly from {against}."
    if not open_:
        more = "" if few or tied or same else f"Confirm {best} with twice as many seeds before you set it."
        command = with_seeds(trials.meta, 2 * int(found.seeds[found.reference])) if more else ""
        yield Check("seeds", State.CAUTION if few else State.OK, text, best, (metric,), more, command)
        return
    row = open_[-1] if not few else max(few, key=lambda each: abs(float(found.difference[each])))
    apart, own = abs(float(found.difference[row])), int(found.seeds[row])
    needed = seeds_needed(apart, float(found.half[row]), own, max(1, found.tests))
    by = write(apart, sign=False)
    remedy = f"Differences as small as that of {names[row]} ({by}) would take more than 1,000 seeds to see."
    if needed:
        runs = count(needed * len(trials.settings), "run")
        remedy = (
            f"Run about {count(needed)} seeds ({runs}) to see a difference as small as that of {names[row]} ({by})."
        )
    command = with_seeds(trials.meta, needed) if needed else ""
    yield Check("seeds", State.CAUTION, text, best, (metric,), remedy, command)


def _chance(trials: Trials) -> Iterator[Check]:
    """Say where chance alone would give at least half of the distance from uniform, since reports are few."""
    metric = bias_metric(trials)
    bias, row = interval(trials.samples(metric)).mean, chosen(trials)
    reports, fair = reports_and_chance(trials)
    known = (bias > 0) & (reports > 0) & np.isfinite(fair)
    few = np.flatnonzero(known & (bias < 2 * fair) & (reports < FEW * trials.scenario.devices)).tolist()
    if not few:
        if known.any():
            yield Check("chance", State.OK, "Chance is a small part of the distances from uniform.", "", (metric,))
        return
    worst = max(few, key=lambda each: (each == row, float(fair[each] / bias[each])))
    own, even, where = tv(float(bias[worst])), tv(float(fair[worst])), trials.names[worst]
    text = f"Chance is a large part of these distances: {own} at {where}, and equal chances alone would give {even}."
    command = "" if any(name.startswith("stop") for name in trials.swept) else _longer(trials, _LONGER)
    yield Check("chance", State.CAUTION, text, where, (metric,), f"Run {_LONGER} times as long.", command)


def _edge(trials: Trials) -> Iterator[Check]:
    """Say where the choice has the largest or least value that was tried, so that the best may lie beyond."""
    row = chosen(trials)
    if row is None or len(trials.settings) < 2 or by_optimizer(trials) is not None:
        return
    ends = 0
    for axis in trials.axes:
        values = np.unique(axis.x)
        if axis.ticks or len(values) < 3 or values[0] < axis.x[row] < values[-1]:
            continue
        highest = bool(axis.x[row] == values[-1])
        if not highest and values[0] == 0:  # there is nothing below
            continue
        end = values[-1] if highest else values[0]
        further = (end, 2 * end - values[-2]) if highest else (end / 2, end)
        way, beyond = ("largest", "larger") if highest else ("least", "smaller")
        text = f"{axis.named(float(end))} of the choice is the {way} value that was tried: the best may lie beyond."
        remedy = f"Try {beyond} values of {axis.name} too."
        yield Check("edge", State.CAUTION, text, trials.names[row], (), remedy, _grid(trials, axis, further))
        ends += 1
    for key, path in product((trials.scenario.decide and trials.scenario.decide.tune) or {}, trials.tuned):
        tried = trials.scenario.decide.tune[key]  # type: ignore[union-attr, index]
        known = trials.numbers(path) if path.endswith(f".{key}") and len(tried) > 1 else None
        if known is None or known[row] not in {min(tried), max(tried)}:
            continue
        way = "least" if known[row] == min(tried) else "largest"
        text = (
            f"{key} of {trials.names[row]} is {number(float(known[row]))}, the {way} value that was tried in tuning it."
        )
        remedy = f"Give `decide.tune` {'smaller' if way == 'least' else 'larger'} values of {key} too."
        yield Check("edge", State.CAUTION, text, trials.names[row], (), remedy)
        ends += 1
    if not ends and any(not axis.ticks and axis.size > 2 for axis in trials.axes):
        yield Check("edge", State.OK, "The choice lies between values that were tried.", trials.names[row])


def _grid(trials: Trials, along: Axis, values: tuple[float, float]) -> str:
    """Return the command that tries other values of one parameter; "" where that is not all that differs."""
    whole, path = bool((along.x == np.rint(along.x)).all()), along.parameters[0]
    shown = [f"{round(each) if whole else each:g}" for each in values]
    sweep = trials.scenario.sweep
    if sweep is not None and sweep.paths == list(sweep.grid) == [path]:
        return command_of(trials.meta, "sweep", f"sweep.grid={{{path}: [{', '.join(shown)}]}}")
    grids: dict[str, Any] = {name: trials.numbers(name) for name in trials.parameters}
    if any(each is None for each in grids.values()):
        return ""
    grid = {name: [f"{each:g}" for each in np.unique(own)] for name, own in grids.items()}
    grid[path] = sorted({*grid[path], *shown}, key=float)
    choose = ", ".join(f"{name}: [{', '.join(each)}]" for name, each in grid.items())
    return command_of(trials.meta, "decide", f"choose={{{choose}}}")


def _theory(trials: Trials) -> Iterator[Check]:
    """Say where measurement lies farther from theory than noise explains."""
    metrics = ("participation.l1_chain", "participation.l1_noise")
    apart, noise = (interval(trials.samples(metric)).mean for metric in metrics)
    known = np.isfinite(apart) & np.isfinite(noise)
    if bias_metric(trials) != L1 or not known.any():  # theory is of selections
        yield Check("theory", State.NONE, "No theory is compared with these runs.", "", metrics)
        return
    far = known & (apart > 2 * noise + ROUNDING)
    if not far.any():
        yield Check("theory", State.OK, "Measurement and theory agree within sampling noise.", "", metrics)
        return
    worst = int(np.argmax(np.where(far, apart - noise, -np.inf)))
    where = trials.names[worst]
    text = f"Theory does not describe {count(int(far.sum()))} of {count(int(known.sum()), 'setting')}: at {where} it "
    text += f"lies {tv(float(apart[worst]))} from measurement, where sampling noise alone would give "
    yield Check("theory", State.CAUTION, f"{text}{tv(float(noise[worst]))}.", where, metrics)


def _size(trials: Trials) -> Iterator[Check]:
    """Say of a federation that stands for a larger one which figures it does not keep."""
    privacy = trials.scenario.privacy
    if privacy is not None and privacy.stands_for is not None:
        times = number(privacy.stands_for)
        text = f"At full size ({times} times this) participation noise is smaller: compare the other parts of the loss."
        yield Check("size", State.CAUTION, text)


def _price(trials: Trials) -> Iterator[Check]:
    """Say that nothing says what pace is worth, where the most even setting is not the fastest."""
    if by_optimizer(trials) is not None or not is_open(trials) or chosen(trials) != (best := compared(trials).best):
        return
    ends, wording = trade_off(trials), wording_of(aim_of(trials).metric)
    assert ends is not None
    assert best is not None
    paces, fast = interval(trials.samples(PACE)).mean, int(ends.rows[0])
    text = f"{trials.names[best]} is more even and {trials.names[fast]} faster, and nothing says what pace is worth."
    least = float(f"{_SLOWER * np.nanmax(paces):.3g}")
    found = contrasts(trials, wording.metric, less_is_better=True, eligible=np.nan_to_num(paces) >= least)
    assert found.best is not None
    decide = f"{{minimize: {wording.metric}, subject_to: [{PACE} >= {least:g}]}}"
    value = wording.write(float(found.mean[found.best]))
    remedy = f"Say what pace you need: for {least:g} rounds per day, {trials.names[found.best]} is best ({value})."
    facts = (wording.metric, PACE)
    yield Check("price", State.CAUTION, text, "", facts, remedy, command_of(trials.meta, "sweep", f"decide={decide}"))


TRIAL_CHECKS: tuple[Checks, ...] = (
    *(_complete, _comparable, _conditions, _limits, diverged, settled_losses, _seeds, _chance, _edge, _theory, _size),
    _price,
)
"""In this order; the first bad one is the headline."""
