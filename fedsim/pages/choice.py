"""Which setting of trials to choose, at what price and how sure that is, in words over contrasts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import capitalized, count, listing, listing_of, number, percent
from fedsim.pages.finding import BIAS, COST, MODEL, NEXT, TRUST, Certainty, Finding, command_of, with_half, with_seeds
from fedsim.pages.metric_wording import MetricWording, difference, wording_of
from fedsim.trials.contrasts import Contrasts, Standing, contrasts, contrasts_of, detectable, interval, seeds_needed
from fedsim.trials.decision import (
    PACE,
    UNDECIDED,
    aim_of,
    bias_metric,
    chosen,
    compared,
    dropped,
    is_open,
    keeping,
    trade_off,
)
from fedsim.trials.trials import CRASHED, Axis, Trials

NAMED = 3  # settings that a sentence names at most
_TITLE = 100  # characters of a title that names all that tie
_SHORT = 24  # characters of a name in a title
_SAME = 0.01  # device-hours that differ by no more than this share are called the same
_SLOWER = 0.9  # of the fastest pace: the condition of the example of `decide`
CERTAINTY = {
    Standing.DIFFERS: Certainty.TOLD,
    Standing.TIED: Certainty.NOT_TOLD,
    Standing.FEW: Certainty.NOT_TOLD,
    Standing.SAME: Certainty.EXACT,
    Standing.UNTESTED: Certainty.UNTESTED,
}
"""What is said of a finding by the state of a setting beside the reference."""
_WORDS = {
    Standing.REFERENCE: "best",
    Standing.TIED: "tied",
    Standing.FEW: "too few seeds",
    Standing.SAME: "the same",
    Standing.UNTESTED: "not tested",
    Standing.DIFFERS: "worse",
}


def objective_wording(trials: Trials) -> MetricWording:
    """Return how the metric to choose by is written."""
    return wording_of(aim_of(trials).metric)


def means(trials: Trials, metric: str) -> Floats:
    """Return a metric at every setting."""
    return interval(trials.samples(metric)).mean


def paces_differ(trials: Trials) -> bool:
    """Say whether settings differ in pace by more than rounding."""
    pace = means(trials, PACE)
    pace = pace[np.isfinite(pace)]
    return len(pace) > 1 and bool(np.ptp(pace) > 1e-6 * np.abs(pace).max())


def order_of(trials: Trials) -> list[int]:
    """Return the settings from the best to the worst: those that are compared, then the others by their means."""
    found = compared(trials)
    ranked, sign = found.order.tolist(), 1 if found.less_is_better else -1
    return [*ranked, *(row for row in np.argsort(sign * found.mean, kind="stable").tolist() if row not in {*ranked})]


def standings(trials: Trials) -> tuple[str, ...]:
    """Say how each setting stands, in a word."""
    found, ends = compared(trials), trade_off(trials) if is_open(trials) else None

    def standing(row: int) -> str:
        if not np.isfinite(found.mean[row]):
            return "no result"
        if not keeping(trials).kept[row]:
            return "misses a condition"
        if ends is None:
            return "dropped" if dropped(trials)[row] else _WORDS.get(found.states[row], "")
        if row in ends.rows:
            return {ends.rows[-1]: "most even", ends.rows[0]: "fastest"}.get(row, "in between")
        return "beaten" if ends.dominated[row] else "not told apart"

    return tuple(map(standing, range(len(trials.settings))))


def limits_of(trials: Trials) -> str:
    """Write the conditions as they are."""
    return listing([f"`{' '.join(each.text.split())}`" for each in aim_of(trials).conditions])


def choice_title(trials: Trials) -> str:
    """Say what to choose, why, and at what price in pace."""
    found, names, wording, row = compared(trials), trials.names, objective_wording(trials), chosen(trials)
    if not np.isfinite(found.mean).any():
        return f"Nothing to choose by: no run has a value of {wording.metric}"
    if found.best is None or row is None:
        return "No setting keeps every condition"
    best = found.best
    at = wording.write(float(found.mean[best]))
    if len(names) == 1:
        return f"{capitalized(wording.words)} is {at}"
    value = f"({at}{' from uniform' if wording.about == BIAS else ''})"
    if row != best:
        return f"{names[row]} is the fastest, and no setting is more even beyond chance"
    untested = " (one seed, not tested)" if Standing.UNTESTED in found.states else ""
    if is_open(trials):
        paces = means(trials, PACE)
        fast = int(np.nanargmax(paces))
        lost = percent(1 - paces[best] / paces[fast])
        rival = names[fast] if len(names[fast]) <= _SHORT else "the fastest"
        return f"{names[best]} is the most even {value} and {lost} slower than {rival}{untested}"
    tied, few = found.rows(Standing.TIED, Standing.SAME), found.rows(Standing.FEW)
    extreme = wording.extreme(not found.less_is_better)
    if few:
        seeds = count(int(found.seeds[few].max()), "seed")
        others = names[few[0]] if len(few) == 1 and len(names[few[0]]) <= _SHORT else count(len(few), "other")
        return f"{names[best]} has {extreme} {value}, but {seeds} are too few to tell it from {others}"
    if not tied:
        return f"{names[best]} has {extreme} {value}{_beside(trials, best)}{untested}"
    title = f"{listing([names[each] for each in (best, *tied)])} tie for {extreme} {value}"
    if len(tied) < NAMED and len(title) <= _TITLE:
        return title
    return f"{names[best]} has {extreme} {value}, and {count(len(tied))} others tie with it"


def _beside(trials: Trials, best: int) -> str:
    """Say what the best setting was chosen from, and at what price in pace."""
    metric, _, conditions = aim_of(trials)
    paces = means(trials, PACE)
    if conditions:
        left = len(compared(trials).order)
        alone = ", and no other setting keeps the conditions"
        return alone if left == 1 else f" of {count(left)} settings that keep the conditions"
    if metric == PACE or not np.isfinite(paces).all():
        return ""
    if not paces_differ(trials):
        return ", at the same pace as all others"
    lost = 1 - paces[best] / paces.max()
    return ", and none is faster" if lost <= 0 else f", {percent(lost)} slower than the fastest"


def cost_findings(trials: Trials) -> Iterator[Finding]:
    """Say what the chosen setting costs in pace and in time of devices."""
    row, names, paces, write = chosen(trials), trials.names, means(trials, PACE), wording_of(PACE).write
    if row is None or not np.isfinite(paces[row]):
        return
    fast, pace = int(np.nanargmax(paces)), write(float(paces[row]))
    text = f"The choice runs {pace}, and none is faster"
    if not paces_differ(trials):
        text = f"Every setting runs {pace}"
    elif fast != row:
        text = f"The choice runs {pace}, {percent(1 - paces[row] / paces[fast])} less than the fastest"
    yield Finding(f"{text}.", COST, name="cost.pace", quantity=PACE, scope=names[row], value=float(paces[row]))
    if fast != row and paces_differ(trials):
        yield Finding(f"The fastest is {names[fast]}, with {write(float(paces[fast]))}.", COST)
    yield from _device_hours(trials, row)
    ends = trade_off(trials)
    if is_open(trials) and ends is not None and len(between := ends.rows[1:-1].tolist()):
        bias = means(trials, bias_metric(trials))
        even = wording_of(bias_metric(trials)).write
        ways = [f"{names[each]} ({even(float(bias[each]))} at {write(float(paces[each]))})" for each in between]
        lies = "lies" if len(between) == 1 else "lie"
        yield Finding(f"Between the fastest and the most even {lies} {listing_of(ways, NAMED)}.", COST)


def _device_hours(trials: Trials, row: int) -> Iterator[Finding]:
    """Say what a setting spends of the time of devices, where settings differ in it."""
    rounds = np.maximum(trials.samples("rounds.count"), 1)
    spent = interval(trials.samples("sessions.device_hours") / rounds).mean
    if not np.isfinite(spent[row]) or np.nanmin(spent) <= 0 or np.nanmax(spent) <= (1 + _SAME) * np.nanmin(spent):
        return
    times = float(spent[row] / np.nanmin(spent))
    how = "twice" if abs(times - 2) < 0.05 else f"{percent(times)} of"
    more = f"{how} the device-hours per round of the cheapest setting"
    more = more if times > 1 + _SAME else "the fewest device-hours per round"
    yield Finding(f"{trials.names[row]} spends {more}.", COST)


def over_common(one: Floats, other: Floats) -> str:
    """Say over how many seeds the difference of two settings is, where these are not all that they have."""
    both = common_seeds(one, other)
    return "" if both is None else f" over {count(int(both.sum()), 'seed')} that both have"


def common_seeds(one: Floats, other: Floats) -> Bools | None:
    """Say which seeds two settings share, (seeds,); None where both have the same ones, or none together."""
    first, second = np.isfinite(one), np.isfinite(other)
    return None if (first == second).all() or not (first & second).any() else np.asarray(first & second)


def sure_findings(trials: Trials) -> Iterator[Finding]:
    """Say which settings are not told from the best, what these seeds see, and whether conditions are kept."""
    found, names, wording = compared(trials), trials.names, objective_wording(trials)
    if (best := found.best) is None:
        return
    if not keeping(trials).sure[best]:
        text = f"Whether {names[best]} keeps {limits_of(trials)} is not sure: an interval reaches beyond a limit."
        yield Finding(text, TRUST, warns=True)
    yield from _undecided(trials, found, wording)
    if worse := found.rows(Standing.DIFFERS, Standing.UNTESTED):
        row = worse[0]
        value = wording.write(float(found.mean[row]))
        apart = difference(wording, float(found.difference[row]), float(found.half[row]))
        values = trials.samples(wording.metric)
        text = f"Next best is {names[row]} with {value} ({apart}{over_common(values[row], values[best])})."
        if found.states[row] is Standing.DIFFERS and row == found.order[1]:
            by = difference(wording, abs(float(found.difference[row])), float(found.half[row]), sign=False)
            text = f"{names[row]}, the next best with {value}, is worse by {by}."
        yield _apart(trials, found, row, text, CERTAINTY[found.states[row]])
    ends = trade_off(trials)
    tested = Standing.UNTESTED not in found.states
    if tested and trials.scenario.decide is None and ends is not None and (beaten := int(ends.dominated.sum())):
        text = f"{count(beaten, 'setting')} {'is' if beaten == 1 else 'are'} worse than another in bias or pace"
        yield Finding(f"{text}, and better in neither.", TRUST)


def _undecided(trials: Trials, found: Contrasts, wording: MetricWording) -> Iterator[Finding]:
    """Say which settings tie with the best, and of which so few seeds tell nothing."""
    names, best = trials.names, trials.names[found.best or 0]
    for state in UNDECIDED:
        rows = found.rows(state)
        if not rows:
            continue
        row, who = rows[0], count(len(rows), "setting")
        seeds = count(int(found.seeds[row]), "seed")
        verb = "ties" if len(rows) == 1 else "tie"
        text = {
            Standing.TIED: f"{who} {verb} with the best: {seeds} do not tell them apart.",
            Standing.SAME: f"{who} {verb} with the best: it is the same.",
            Standing.FEW: f"{seeds} cannot tell {who} from the best: these are too few.",
        }[state]
        yield Finding(text, TRUST, test=found.test, certainty=CERTAINTY[state])
        if state is Standing.SAME:
            continue
        half = float(found.half[row])
        tested = state is Standing.TIED and np.isfinite(half)
        least = detectable(half, int(found.seeds[row]), max(1, found.tests)) if tested else None
        apart = [difference(wording, float(found.difference[each]), float(found.half[each])) for each in rows]
        ways = [f"{names[each]} {by}" for each, by in zip(rows, apart, strict=True)]
        text = f"From {best}: {listing_of(ways, NAMED, 'more setting')}"
        if (np.abs(found.difference[rows]) > found.half[rows]).any():  # an interval of its own would tell
            text += f"; {count(found.tests, 'difference')} are tested together (Holm)"
        text += f"; {wording.apart(least)} would have been seen" if least else ""
        yield _apart(trials, found, row, f"{text}.", CERTAINTY[state], least)


def _apart(
    trials: Trials, found: Contrasts, row: int, text: str, told: Certainty, least: float | None = None
) -> Finding:
    """Return a finding about how a setting differs from the best."""
    names, apart = trials.names, float(found.difference[row])
    named = ("choice.difference", aim_of(trials).metric, names[row], apart)
    finding = Finding(text, TRUST, False, *named, reference=0.0, test=found.test, certainty=told, visible=least)
    return with_half(float(found.half[row]), replace(finding, against=names[found.best or 0]))


def several_seeds(trials: Trials) -> Finding:
    """Say of a sweep that one seed is too few."""
    return Finding("Sweep several seeds: one tells nothing of chance.", NEXT, command=with_seeds(trials.meta, 5))


def next_findings(trials: Trials) -> Iterator[Finding]:
    """Say what to do next: run what is missing, more seeds, a finer grid, an objective."""
    found, names, wording = compared(trials), trials.names, objective_wording(trials)
    failed = int((trials.runs["status"] == CRASHED).sum())
    if missing := len(trials.failed) - failed:
        text = f"Run the same command again: it does the {count(missing, 'run')} that are missing."
        yield Finding(text, NEXT, command=command_of(trials.meta, "sweep") or command_of(trials.meta, "decide"))
    if failed:
        text = f"Read in runs/*.crashed.json why {count(failed, 'run')} failed: the same command tries anew"
        yield Finding(f"{text} those that did not stall.", NEXT)
    if (best := found.best) is None or len(names) < 2:
        yield from _without_conditions(trials)
        return
    if Standing.UNTESTED in found.states:
        yield several_seeds(trials)
    undecided = [row for row in found.rows(Standing.TIED, Standing.FEW) if found.difference[row]]
    if undecided and np.isfinite(found.half[undecided[-1]]):
        row = undecided[-1]
        apart, half = float(found.difference[row]), float(found.half[row])
        needed = seeds_needed(apart, half, int(found.seeds[row]), max(1, found.tests))
        many = f"About {count(needed)} seeds" if needed else "Not even 1,000 seeds"
        text = f"{many} would tell {names[row]} from the best ({wording.apart(abs(apart))})."
        yield Finding(text, NEXT, command=with_seeds(trials.meta, needed) if needed else "")
    further = [*_decide(trials), *_finer(trials), *_without_conditions(trials)]
    choice, seeds = chosen(trials), int(found.seeds[best])
    if not further and not undecided and choice is not None and seeds > 1:
        text = f"Confirm {names[choice]} with twice as many seeds before you set it."
        yield Finding(text, NEXT, command=with_seeds(trials.meta, 2 * seeds))
    yield from further


def _decide(trials: Trials) -> Iterator[Finding]:
    """Say what `decide` would choose, where nothing says what pace is worth."""
    if not is_open(trials) or chosen(trials) != compared(trials).best:
        return
    wording, paces = objective_wording(trials), means(trials, PACE)
    least = float(f"{_SLOWER * np.nanmax(paces):.3g}")
    row = contrasts(trials, wording.metric, less_is_better=True, eligible=np.nan_to_num(paces) >= least).best
    if row is not None:
        decide = f"{{minimize: {wording.metric}, subject_to: [{PACE} >= {least:g}]}}"
        value = wording.write(float(compared(trials).mean[row]))
        text = f"Say what pace you need: for {least:g} rounds a day, {trials.names[row]} is best ({value})."
        yield Finding(text, NEXT, command=command_of(trials.meta, "sweep", f"decide={decide}"))


def _finer(trials: Trials) -> Iterator[Finding]:
    """Say which values to try next along an axis of numbers."""
    along, row, swept = trials.axis, chosen(trials), trials.scenario.sweep
    if along is None or row is None or along.ticks or along.size < 3 or (swept is not None and swept.zip):
        return
    values = np.unique(along.x)
    place = int(np.searchsorted(values, along.x[row]))
    if 0 < place < len(values) - 1:
        low, middle, high = values[place - 1 : place + 2]
        text = f"Try values of {along.name} around {along.at(middle)}, from {along.at(low)} to {along.at(high)}"
        command = _grid(trials, along, (low + middle) / 2, middle, (middle + high) / 2)
        if trials.tuned:
            text = f"Confirm it with more seeds, or tune {along.name} from {along.at(low)} to {along.at(high)} anew"
            command = with_seeds(trials.meta, 2 * len(trials.seeds))
        yield Finding(f"{text}.", NEXT, command=command)
    elif place:
        text = f"The choice is at the end of the grid: try {along.name} above {along.at(values[-1])}."
        yield Finding(text, NEXT, command=_grid(trials, along, values[-1], 2 * values[-1] - values[-2]))


def _grid(trials: Trials, along: Axis, *values: float) -> str:
    """Return the command that sweeps one parameter over other values; "" where more is swept, or tuned."""
    swept = trials.scenario.sweep
    whole = bool((along.x == along.x.astype(int)).all())
    shown = ", ".join(f"{round(each) if whole else each:g}" for each in values)
    grid = f"sweep.grid={{{along.parameters[0]}: [{shown}]}}"
    alone = swept is not None and swept.paths == list(swept.grid) == [along.parameters[0]]
    return command_of(trials.meta, "sweep", grid) if alone else ""


def _without_conditions(trials: Trials) -> Iterator[Finding]:
    """Say which setting would be the best without the conditions."""
    found, shown, (metric, less, conditions) = compared(trials), limits_of(trials), aim_of(trials)
    free = contrasts(trials, metric, less_is_better=less).best
    if found.best is None and conditions and free is not None:
        yield Finding(f"No setting keeps {shown}: there is nothing to choose from.", TRUST, warns=True)
    if free is not None and not keeping(trials).kept[free]:
        value = wording_of(metric).write(float(found.mean[free]))
        yield Finding(f"Without the conditions ({shown}) it would be {trials.names[free]} with {value}.", NEXT)


_TOTAL = "above_optimum"
_PARTS = ("bias", "participation noise", "privacy noise")  # what they are called, as are their metrics
_OPTIMIZERS = 4  # optimizers described at most


@dataclass(frozen=True, eq=False)
class LossParts:
    """The loss of one optimizer above the optimum, and its parts: (settings, seeds), NaN where there is no value."""

    name: str  # of the optimizer
    total: Floats
    parts: dict[str, Floats]  # by what they are called
    # Simulated time to the target, s; without a value where it was not reached, None where there was no target
    time: Floats | None


def loss_parts(trials: Trials) -> tuple[LossParts, ...]:
    """Return the parts of every optimizer that has them."""
    known, found = trials.metrics, []
    names = [each[1] for name in known if (each := re.fullmatch(rf"learning\.(.+)\.{_TOTAL}", name))]
    for name in names[:_OPTIMIZERS]:
        prefix = f"learning.{name}."
        parts = {part: trials.samples(f"{prefix}{part.replace(' ', '_')}_loss") for part in _PARTS}
        has_target = any(prefix + each in known for each in ("time_to_target", "rounds_to_target"))
        time = trials.samples(f"{prefix}time_to_target") if has_target else None
        found.append(LossParts(name, trials.samples(prefix + _TOTAL), parts, time))
    return tuple(found)


def parts_findings(trials: Trials) -> Iterator[Finding]:
    """Say where each optimizer ends closest to the optimum, how sure that is, and which part is the largest."""
    names = trials.names
    for each in loss_parts(trials):
        found = contrasts_of(each.total)
        if (best := found.best) is None or len(names) < 2:
            continue
        mean, half = float(found.mean[best]), float(found.margin[best])
        margin = f" ± {number(half, 2)}" if np.isfinite(half) else ""
        told = Certainty.TOLD
        told = Certainty.UNTESTED if Standing.UNTESTED in found.states else told
        told = Certainty.NOT_TOLD if found.rows(*UNDECIDED) else told
        named = (f"closest.{each.name}", f"learning.{each.name}.{_TOTAL}", names[best], mean)
        text = f"“{each.name}” ends closest to the optimum at {names[best]} (loss {number(mean, 3)}{margin} above it)."
        yield with_half(half, Finding(text, MODEL, False, *named, test=found.test, certainty=told))
        sure = {Certainty.TOLD: "all others are worse", Certainty.NOT_TOLD: "others are not told from it"}
        largest = largest_part(each, best)
        more = [*filter(None, (sure.get(told), largest and f"the largest part is {largest}"))]
        if more:
            yield Finding(f"At {names[best]} of “{each.name}”, {listing(more)}.", MODEL)


def largest_part(each: LossParts, row: int) -> str:
    """Name the largest part at a setting, and its share of the whole; empty where a part is negative or unknown."""
    own = {words: float(interval(values).mean[row]) for words, values in each.parts.items()}
    total = float(interval(each.total).mean[row])
    if not all(0 <= value <= total for value in own.values()) or total <= 0:
        return ""
    words = max(own, key=own.__getitem__)
    return f"{words} ({percent(own[words] / total)})"
