"""What a run measured, in words: a table of sentences, one for each fact, and some that take more.

The numbers of a sentence are those of the facts, or of the series and tables, that it names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.formatting import (
    DUST,
    above_dust,
    at_rest,
    capitalized,
    count,
    count_range,
    duration,
    equation,
    listing,
    listing_of,
    many,
    number,
    percent,
    quantity,
)
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.measure.frequencies import fair_half
from fedsim.measure.metrics import split
from fedsim.measure.verdict import LEVEL, evenness
from fedsim.pages.answer import BIAS, COST, MODEL, PRIVACY, WHAT, Sentence
from fedsim.pages.bias import (
    FEW_CLIENTS,
    FORGOTTEN,
    NOBODY,
    Bias,
    ClientShare,
    Seen,
    bias_of,
    moved_groups,
    of_a_month,
    one_round,
    pace_of,
    steps_by_group,
)
from fedsim.pages.methods import (
    JUMPS,
    LARGE_STEPS,
    Ending,
    converged,
    daily_swing,
    endings,
    initial_loss,
    jumps,
    optimizer_figures,
    optimizers,
    references,
    same_training,
)
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.tables import cost_parts
from fedsim.run.run import Run
from fedsim.trials.optimizers import footprint

_NAMED = 6  # methods, groups or separations that a sentence names at most
STUDIED = 4  # ends of a convergence study in tiles and in a headline at most
_FEW_METHODS = 3  # and methods in a headline
ONE_SEED = " (one seed)"  # where methods are ranked
_GAP = 0.1  # of a loss, by which it differs between groups: worth a word
_APART = 0.01  # of a distance; a pull that is nearer to it is no news
_MUCH = 2.0  # times its fair share; more is worth a word on the share itself
_NEARER = 1.5  # times as far from the optimum: worth a word
_SMALL = 0.01  # of a loss; lesser differences are said as shares of it
_CLOSE = 0.1  # of a fair share: what an interval must lie within to say that clients have theirs
HARDLY = 0.02  # of the devices; half of it, of the time, is not worth a word
_BY_HOUR = "population.available_share.utc."
_SAID = {
    "participation.l1_uniform_theory": (BIAS, "In the long run, theory says, selections are {} from uniform."),
    "privacy.epsilon": (
        PRIVACY,
        "Each client is promised epsilon = {} (adjacency: all that it contributes is replaced by zeros).",
    ),
    "privacy.epsilon_if_known": (
        PRIVACY,
        "That is as long as the schedule stays secret, this page included: where it is known, epsilon is {}.",
    ),
}
"""What is said of a fact: the question that it answers, and a sentence with its value."""


def key_of(run: Run, name: str) -> str:
    """Return the key of ``participation.NAME`` of what reached the model."""
    reported = "participation.reported_"
    return f"{reported if f'{reported}l1_uniform' in run.known else 'participation.'}{name}"


def sentence_of(run: Run, key: str) -> Sentence | None:
    """Say the value of a fact by its sentence in the table; None where the run has none."""
    about, text = _SAID[key]
    return Sentence(text.format(wording_of(key).write(run.known[key])), about, (key,)) if key in run.known else None


def how_often(run: Run) -> Sentence | None:
    """Say how many reports clients gave, from the least to the most."""
    (counts, selected), log = (run.clients[of].to_numpy() for of in ("reported", "participations")), run.scenario.log
    if not counts.sum():
        return None
    text = f"{count(len(counts), 'client' if log else 'device')} gave {count(int(counts.sum()), 'report')}"
    if counts.min() < counts.max():
        text += f": {number(float(counts.mean()), 3)} each on average, from {counts.min():,} to {counts.max():,}"
    none, never = percent(float((counts == 0).mean())), percent(float((selected == 0).mean()))
    if log is not None and "clients" in log.unknown:
        text += f"; {none} of them gave none, since no session of theirs ended with a report" * (not counts.min())
        text += "; clients that never came are not known"
    elif not counts.min():
        apart = " (all were selected)" if selected.min() else f" ({never} were never selected)"
        text += f"; {none} gave none{apart if never != none else ''}"
    return Sentence(f"{text}.", WHAT, ("clients",))


def how_often_each(run: Run, bias: Bias) -> Sentence:
    """Say how often each of a few clients reported, or what that is in 30 days, and whether they differ."""
    counts, (days, share) = run.clients["reported"].to_numpy(), pace_of(run)
    devices = f"Each of the {len(counts)} devices"
    tested = {Seen.BIAS: "; the differences are significant", Seen.NONE: "; the differences are not significant"}
    if of_a_month(run):
        often, monthly = number(30 * share * counts.mean(), 3), [number(30 * share * each, 3) for each in counts]
        who = {each: [str(at) for at, other in enumerate(monthly) if other == each] for each in monthly}
        far = dict.fromkeys(monthly[at] for at in (int(counts.argmin()), int(counts.argmax())))
        named = [f"{end} (device{'s' * (len(who[end]) > 1)} {listing_of(who[end], _NAMED)})" for end in far]
        text = f"{devices} reports about {often} times in 30 days" + f", from {' to '.join(named)}" * (len(far) > 1)
        text += f", if it goes on as in the first {many(days, 'day')}"
    else:
        ends, mean = count_range(int(counts.min()), int(counts.max())), float(counts.mean())
        text = f"{devices} reported {number(mean, 3)} times on average in {duration(run.simulated_s)} ({ends})"
        text += f", {number(share * mean, 3)} times a day" * (days >= 1)
    return Sentence(f"{text}{tested.get(bias.seen, '')}.", BIAS, ("clients", "bias"))


def how_even(run: Run, bias: Bias) -> Sentence | None:
    """Say how far participation is from uniform (TV), and whether that is significant."""
    if bias.seen is Seen.UNMEASURED:
        return among_those_seen(run)
    if bias.seen is Seen.NOBODY:
        return Sentence("No report was taken: who takes part cannot be measured.", BIAS, ("bias",))
    if bias.seen in NOBODY:
        return None
    chance = f"equal chances would give{'' if bias.fair is None else f' ({percent(bias.fair)})'}"
    facts = (key_of(run, "tv_uniform"), "bias")
    if bias.seen is Seen.EVEN:
        counts = run.clients["reported"].to_numpy()
        ends = " or ".join(dict.fromkeys((f"{counts.min():,}", f"{counts.max():,}")))
        text = f"Participation is as even as can be: each client gave {ends} reports."
        return Sentence(text, BIAS, facts)
    if bias.seen in {Seen.ONCE, Seen.UNTESTED}:
        judged = f"not tested, {bias.why}" if bias.seen is Seen.UNTESTED else bias.seen.value
    elif bias.more_even:
        judged = f"more even than {chance}"
    else:
        judged = f"{'' if bias.whole else 'not '}significantly more than {chance}"
    text = f"Participation is {percent(bias.measured)} from uniform (TV), {judged}"
    share = ": that share of the reports would have to come from other clients" * bias.whole
    return Sentence(f"{text}{share}.", BIAS, facts)


def how_even_pull(run: Run, bias: Bias) -> Sentence | None:
    """Say how far the pull of clients on the model is from uniform, where that is not as far as their reports."""
    pull = run.known.get(key := "participation.pull_tv_uniform")
    if pull is None or bias.seen in NOBODY or abs(pull - bias.measured) <= _APART * bias.measured:
        return None
    text = "The fewer reports a round has, the more each weighs in a plain average: so weighed, participation is"
    return Sentence(f"{text} {percent(pull)} from uniform.", BIAS, (key,))


def among_those_seen(run: Run) -> Sentence | None:
    """Say of a log whose clients are not all known how the reports are shared by those that are in it."""
    counts = run.clients["reported"].to_numpy()
    if len(counts) < 2 or not counts.sum():
        return None
    half, fair = quieter_half(run)
    judged = "significantly less" if evenness(counts, left=1.0)[0] <= LEVEL else "not significantly less"
    text = f"Reports are {judged} even than chance: of the {count(len(counts), 'client')} in the log, the half that "
    text += f"reported least gave {percent(half)} of them ({percent(fair)} by equal chances)"
    if (tested := [part for part in bias_of(run).of("group") if part.tested]) and len(tested) <= _NAMED:
        ways = [f"“{part.name}” {_ratio(part.times)} times" for part in tested if part.significant]
        text += f"; for its number of clients, {listing(ways)} as often, significantly" if ways else ""
        text += "" if ways else "; no difference between groups is significant"
    return Sentence(f"{text}.", BIAS, ("clients",))


def quieter_half(run: Run) -> tuple[float, float]:
    """Return which share of the reports the half of the clients gave that reported least, and by equal chances."""
    counts = np.sort(run.clients["reported"].to_numpy())
    taken = int(counts.sum())
    return float(counts[: len(counts) // 2].sum() / max(taken, 1)), fair_half(taken, len(counts))


def by_group(run: Run, bias: Bias) -> Sentence | None:
    """Say how often each group takes part, of a few, and by which weight; of a log without all clients, of its own."""
    parts = sorted(bias.of("group"), key=lambda part: -part.times)
    if not 2 <= len(parts) <= _NAMED or not sum(part.taken for part in parts):
        return None
    weights = dict(run.clients.group_by("group").agg(pl.col("weight").unique()).iter_rows())
    least = min(min(each) for each in weights.values())
    apart = len({*map(tuple, weights.values())}) == len(parts) == sum(map(len, weights.values()))
    by = {name: f" (weight {number(each[0] / least, 3)})" * apart for name, each in weights.items()}
    ways = [f"“{part.name}” {_ratio(part.times)}{by[part.name]}" for part in parts]
    some = [f"“{part.name}”" for part in parts if part.significant]
    judged = "no difference from 1 is significant"
    if not any(part.tested for part in parts):
        judged = "not tested"
    elif some:
        judged = "all significant" if len(some) == len(parts) else f"significant: {listing(some)}"
    facts = *(fact for part in parts for fact in part.facts), *["clients"] * apart
    of = "Times their share of the clients in the log" if bias.seen is Seen.UNMEASURED else "Times their fair share"
    text, first = f"{of}: {listing(ways)} ({judged}).", parts[0]
    if first.significant and first.times > _MUCH and bias.seen is not Seen.UNMEASURED:
        share_of = percent(first.taken / sum(part.taken for part in parts))
        text += f" “{first.name}” has {percent(first.size)} of the devices and gave {share_of} of the reports."
        facts = *facts, "clients"
    return Sentence(text, BIAS, facts)


def by_steps(run: Run, bias: Bias) -> Sentence | None:
    """Say how many local steps the reports of groups hold, the fewest and the most, where they differ in that."""
    if not (steps := steps_by_group(run)):
        return None
    few, many = (by(steps, key=steps.__getitem__) for by in (min, max))
    even = "participation is even, work is not: " * (bias.seen in {Seen.EVEN, Seen.NONE})
    text = f"{even}a report of “{few}” holds {number(steps[few], 3)} local steps on average, and one of “{many}” "
    facts = tuple(f"group.{name}.sessions.steps_mean" for name in (few, many))
    return Sentence(capitalized(f"{text}{number(steps[many], 3)}."), BIAS, facts)


def share(part: ClientShare) -> Sentence:
    """Say how often some clients take part, and whether that differs from a fair share, or may do so by much."""
    judged, text = "not tested", f"{part.words} {_times(part)}"
    if part.tested:
        judged = f"{_ratio(part.low)} to {_ratio(part.high)}, "
        judged += "significant" if part.significant else "not significantly different from 1"
        text = f"cannot tell yet: {text}" if is_wide(part) else text
    return Sentence(f"{capitalized(text)} ({judged}).", BIAS, part.facts)


def is_wide(part: ClientShare) -> bool:
    """Say whether a share may be far from fair, or may not: it was tested, and chance hides it."""
    return part.tested and not part.significant and max(1 - part.low, part.high - 1) > _CLOSE


def _times(part: ClientShare) -> str:
    return f"gave {_ratio(part.times)} times its fair share of the reports"


def _ratio(value: float) -> str:
    """Write a ratio to three digits, or four where three of them hide on which side of 1 it lies."""
    return number(value, 4 if number(value, 3) == "1" else 3)


def contrast(ends: tuple[ClientShare, ClientShare]) -> Sentence:
    """Say which two parts differ most, of those that differ significantly from a fair share; or the one that does."""
    high, low = ends
    if high is low or not high.taken:
        return share(high)
    text = f"{capitalized(_both(high, low))}{': both significant' if low.times else ''}."
    return Sentence(text, BIAS, tuple(dict.fromkeys((*high.facts, *low.facts))))


def _both(high: ClientShare, low: ClientShare) -> str:
    """Say in a clause how often two parts take part, the more and the less often."""
    if not low.times:
        return f"{low.words} never reported, and {high.words} {_times(high)}"
    return f"{high.words} {_times(high)}, and {low.words} {_ratio(low.times)} times"


def trend(bias: Bias) -> Sentence | None:
    """Say how often those take part that are least and most available, or fast, where tenths have a trend."""
    parts = {part.name: part for part in bias.of(bias.trend or "")}
    if bias.trend is None or len(parts) != 2:
        return None
    high, low = parts.values()
    how = {"speed": "faster", "availability": "more available"}[bias.trend]
    way = f"The {how} clients are, the {'more' if high.times > low.times else 'less'} often they take part"
    within = "" if bias.whole else "; single clients differ no more than by chance"
    return Sentence(f"{way} (significant): {_both(high, low)}{within}.", BIAS, (*high.facts, *low.facts))


def how_uneven(run: Run, bias: Bias) -> Sentence | None:
    """Say of a significant bias how far participation is from uniform, and who takes part most and least."""
    of_trend = tuple(bias.of(bias.trend or ""))
    ends = of_trend if len(of_trend) == 2 else next(iter(bias.contrasts), ())
    if bias.seen is not Seen.BIAS or not bias.whole or len({*ends}) < 2 or len(run.clients) < FEW_CLIENTS:
        return None
    fair = "" if bias.fair is None else f"; {percent(bias.fair)} by equal chances"
    text = f"Participation is {percent(bias.measured)} from uniform (TV{fair}), significantly: {_both(*ends)}."
    return Sentence(text, BIAS, (key_of(run, "tv_uniform"), "bias", *(fact for each in ends for fact in each.facts)))


def who_takes_part(run: Run, bias: Bias) -> Sentence | None:
    """Say who takes part: the widest significant contrast, or that no bias was found, or how even participation is."""
    if bias.seen is Seen.ALONE:
        reports = count(int(run.clients["reported"].sum()), "report")
        return Sentence(f"There is one client, which gave {reports}: nothing can be biased.", BIAS, ("clients",))
    if bias.seen not in NOBODY and len(run.clients) < FEW_CLIENTS:
        return how_often_each(run, bias)
    if bias.seen is Seen.NONE and not bias.more_even:
        who = "All groups take part as often as their size says, within chance" if bias.of("group") else "No bias found"
        return Sentence(f"{who}{bias.could_see}.", BIAS, ("bias", "shares"))
    widest = [contrast(each) for each in bias.contrasts if bias.seen is Seen.BIAS]
    return trend(bias) or next(iter(widest), None) or how_even(run, bias)


def losses(run: Run) -> Sentence | None:
    """Say which methods stay biased, beside unbiased training; or else which to use, or that this cannot be said yet.

    None where losses jump too far to be measured, which a check says.
    """
    if run.scenario.learning is None:
        return None
    if (judged_ends := endings(run)) is None:
        return Sentence("No optimizer has a finite loss over the last half of the run.", MODEL)
    (other, ends), every = judged_ends, optimizer_figures(run, "loss")
    facts, last = tuple(map(_loss, (*(each.name for each in ends), other))), number(every[other])
    if all(each.why == LARGE_STEPS for each in ends) and (ends or jumps(run, other) > 2 * JUMPS):
        return None
    if not ends:
        return Sentence(f"The loss of “{other}” ends at {last}.", MODEL, facts)
    if same_training(run):
        return Sentence(f"All methods are the same training here: each loss ends at {last}.", MODEL, facts)
    small = all(abs(each.apart) < _SMALL * every[other] for each in ends)
    level, untested = every[other] if small else None, next((each.why for each in ends if each.look is None), "")
    if other in references(optimizers(run)):
        text = _biased(ends, level, initial_loss(run, other) - every[other])
        text += ONE_SEED if len(ends) > 1 else f" (its loss is {last})"
    elif untested:
        text = f"Cannot tell yet which method has the lowest loss, since {untested}: “{other}” has it so far ({last})"
    else:
        text = f"{_to_use(run, other, ends, level)}{ONE_SEED}"
    return Sentence(f"{text}.", MODEL, facts)


def nearer(run: Run) -> Sentence | None:
    """Say of a loss that stays biased that its mean model is nearer the optimum all the same than that of another."""
    (other, ends), far = endings(run) or ("", []), optimizer_figures(run, "bias")
    of = {each.name: each for each in ends if each.name in far}
    if other not in references(optimizers(run)) or len(of) < 2:
        return None
    least, most = (by(of, key=far.__getitem__) for by in (min, max))
    if not of[least].significant or of[least].apart < 0 or far[most] < _NEARER * far[least]:
        return None
    near, apart = (above_dust(far[name]) for name in (least, most))
    text = f"Yet the mean model of “{least}” lies {near} from the optimum, nearer than that of “{most}” ({apart})"
    return Sentence(f"{text}{ONE_SEED}.", MODEL, tuple(f"learning.{name}.bias" for name in (least, most)))


def _biased(ends: Sequence[Ending], level: float | None, gained: float) -> str:
    """Say which methods stay biased, of which it cannot be said, and which do not; and of the first, by how much."""
    above = [each for each in ends if each.significant and each.apart > 0]
    open_ = [each for each in ends if each.look is None]
    rest = [each for each in ends if each not in above and each not in open_]
    words = (
        (above, f"{'only ' * bool(rest and not open_)}{{}} stay{{}} biased", ""),
        (open_, f"whether {{}} stay{{}} biased cannot be said yet, since {open_[0].why if open_ else ''}", " so far"),
        (rest, "{} do{es} not end significantly above it" if above or open_ else "{} show{} no significant bias", ""),
    )
    clauses = list[str]()
    for some, says, when in words:
        who, s, it = _methods(some, len(ends))
        place = f": {it} end{s}{when} {_far(some, level)} unbiased training" * (not clauses and len(some) > 0)
        if place and level is not None and gained > 0:
            parts = sorted(abs(each.apart) / gained for each in some)
            place += f", or {' to '.join(dict.fromkeys(map(percent, (parts[0], parts[-1]))))} of what training gained"
        clauses += [f"{says.format(who, s, es='es' * bool(s))}{place}"] if some else []
    return capitalized("; ".join(clauses))


def _to_use(run: Run, other: str, ends: Sequence[Ending], level: float | None) -> str:
    """Say which method has the lowest loss, which come close or have a nearer mean model, and where others end."""
    loss, names = number(optimizer_figures(run, "loss")[other]), {other, *(each.name for each in ends)}
    far = {name: each for name, each in optimizer_figures(run, "bias").items() if name in names}
    nearest = min(far, key=far.__getitem__) if other in far and far[other] > min(far.values()) else other
    close = [each for each in ends if not each.significant and each.name != nearest]
    rest = [each for each in ends if each.significant and each.name != nearest]
    text = f"By this run, use “{other}”, which has the lowest loss ({loss})"
    text += f", or “{nearest}”, whose mean model is nearest the optimum" if nearest != other else ""
    text += f", or {_methods(close, len(ends))[0]}, not significantly higher" if close else ""
    who, s, _ = _methods(rest, len(ends))
    return f"{text}; {who} end{s} {_far(rest, level)} it, significantly" if rest else text


def _methods(some: Sequence[Ending], of: int) -> tuple[str, str, str]:
    """Name methods, or say how many they are; with the ending of a verb, and the pronoun."""
    who = listing([f"“{each.name}”" for each in some])
    who = who if len(some) <= _FEW_METHODS else count(len(some), "other" if len(some) < of else "method")
    return (who, "s", "it") if len(some) == 1 else (who, "", "they")


def _far(some: Sequence[Ending], level: float | None) -> str:
    """Say how far above or below another loss those of some methods end, from least to most; as shares of it."""
    ends = sorted((each.apart for each in some), key=abs)
    unit, scale, digits = ("\N{NARROW NO-BREAK SPACE}%", 100 / level, 2) if level else ("", 1.0, 3)
    ways, sides = [f"{number(scale * abs(each), digits)}{unit}" for each in ends], {each > 0 for each in ends}
    far = " to ".join(dict.fromkeys(ways[:: max(1, len(ways) - 1)]))
    return f"{far} {'away from' if len(sides) > 1 else 'above' if True in sides else 'below'}"


def _loss(name: str) -> str:
    return f"learning.{name}.loss"


def swing(run: Run) -> Sentence | None:
    """Say that losses swing with the hour of the day, where they do: of the optimizer whose loss does most."""
    swings = {name: daily_swing(run, name) for name in optimizer_figures(run, "loss")}
    widest = max(((each[1][0] - each[0][0], name) for name, each in swings.items() if each), default=None)
    if widest is None or (ends := swings[widest[1]]) is None:
        return None
    (low, at), (high, then) = ends
    text = f"The loss of “{widest[1]}” swings with the hour of the day, from {number(low, 3)} at {at:02}:00 to "
    text += f"{number(high, 3)} at {then:02}:00 UTC, with who is available then: compare means over whole days."
    return Sentence(text, MODEL, ("learning",))


@dataclass(frozen=True)
class Favoured:
    """A group whose data the mean model of an optimizer fits better than those of another, by a tenth of the loss."""

    text: str  # of the optimizer with the widest gap; without a capital
    why: str  # what differs between the groups that the optimizer weighs; empty if nothing is known to
    facts: tuple[str, ...]
    beside: str = ""  # a sentence on an optimizer that counts nothing, where it does without the cause
    remedy: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # of a run that does it


def favoured(run: Run) -> Favoured | None:
    """Say which group an optimizer favours, and why; None where losses by group are not known, or close."""
    groups = {name: f"loss_of_group_{name}" for name in run.clients["group"].unique(maintain_order=True)}
    every, learning = {name: optimizer_figures(run, figure) for name, figure in groups.items()}, run.scenario.learning
    choices = {} if learning is None else {each.label: each for each in learning.optimizers}
    twins = references(optimizers(run))
    names = [name for name in optimizers(run) if name not in twins and all(name in each for each in every.values())]
    if len(groups) < 2 or not names:
        return None
    gaps = {name: float(np.ptp([each[name] for each in every.values()])) for name in names}
    name = max(gaps, key=gaps.__getitem__)
    best, worst = (by(groups, key=lambda group: every[group][name]) for by in (min, max))
    if gaps[name] < _GAP * abs(every[best][name]):
        return None
    text = f"the mean model of “{name}” fits the data of “{best}” (loss {number(every[best][name], 3)}) better than "
    text += f"those of “{worst}” ({number(every[worst][name], 3)})"
    keys = [f"learning.{name}.{groups[group]}" for group in (best, worst)]
    choice, deadline_s = choices.get(name), run.scenario.server.deadline
    ends = (best, worst)
    fresh, old = (run.known.get(f"group.{group}.staleness.mean", 0.0) for group in ends)
    more, fewer = (steps_by_group(run).get(group, 0.0) for group in ends)
    first, last = moved_groups(run).get(best, (0.0, 0.0))
    kind, options = ("", dict[str, Any]()) if choice is None else (choice.kind, choice.options)
    why, beside, remedy, settings = "", "", "", dict[str, str]()
    if kind == "fedbuff" and options.get("exponent") != 0 and old > (1 + _GAP) * fresh:
        why = f", whose reports it discounts more: they are {number(old, 2)} versions old, not {number(fresh, 2)}"
        remedy = f"Sweep how much “{name}” discounts stale reports (`exponent`), with 5 seeds each."
        settings = _sweep(run, name, "exponent", [0, 0.25, 0.5])
    elif kind.endswith("fedavg") and options.get("counts") != "steps" and more > (1 + _GAP) * fewer:
        why = ", whose reports hold fewer local steps"
        remedy = f"Set a longer deadline, with which “{worst}” does more local steps." if deadline_s else ""
        settings = {"server.deadline": f"{2 * deadline_s:g}s"} if deadline_s else {}
    elif kind == "debiased_fedavg" and not options.get("forgetting") and first < min(1.0, last):
        why = f", since counts of the start still weigh: “{best}” gave {number(first, 2)} times its fair share of the "
        late = f", and is weighed up all the same in the last, with {number(last, 2)} times"
        why += f"reports in the first half{late if last > 1 else f' and {number(last, 2)} times in the last'}"
        mine = [each for each in bias_of(run).of("group") if each.name == best]
        less = [each for each, gap in gaps.items() if gap < gaps[name] / 2]
        plain = [each for each in less if each in choices and choices[each].kind == "fedavg"]
        for part in [each for each in mine if plain and each.tested and not each.significant]:
            beside = f" “{plain[0]}” weighs nobody up, and over the whole run “{best}” gave {_ratio(part.times)} times "
            beside += "its fair share, not significantly different from 1: the change evens out."
            keys += part.facts
        remedy = f"Sweep how fast “{name}” forgets, with 5 seeds each: counts of about the last 100, 30 and 10 rounds "
        remedy += "(`forgetting`)."
        settings = _sweep(run, name, "forgetting", [0.01, 0.03, 0.1])
    return Favoured(text, why, tuple(keys), beside, remedy, settings)


def _sweep(run: Run, name: str, option: str, values: Sequence[float]) -> dict[str, str]:
    """Return the settings that sweep an option, by what methods are ranked by, or losses; none if the file sweeps."""
    learning, sweep = run.scenario.learning, run.scenario.sweep
    if learning is None or (sweep is not None and sweep.paths):
        return {}
    at = [each.label for each in learning.optimizers].index(name)
    grid = {"sweep.grid": f"{{learning.optimizers.{at}.{option}: {[*values]}}}", "sweep.seeds": "5"}
    asked = run.scenario.headline or ""
    figure = asked.rpartition(".")[2] if by_figure(run, asked) else "loss"
    return {**grid, "headline": f"learning.{name}.{figure}"}


def by_group_of_data(run: Run) -> Sentence | None:
    """Say which group an optimizer favours, why, and which optimizer does not."""
    gap = favoured(run)
    return None if gap is None else Sentence(f"{capitalized(gap.text)}{gap.why}.{gap.beside}", MODEL, gap.facts)


def noise_cost(run: Run) -> Sentence | None:
    """Say what the noise of privacy adds to the loss of each optimizer, and of what training gains."""
    noise, ends = (optimizer_figures(run, figure) for figure in ("privacy_noise_loss", "loss"))
    if "privacy.epsilon" not in run.known or not noise or len(noise) > _NAMED:
        return None
    gains, text = {name: initial_loss(run, name) - ends[name] for name in noise}, "The noise"
    if all(0 < noise[name] < gains[name] for name in noise):
        shares = sorted(noise[name] / gains[name] for name in noise)
        cost = " to ".join(dict.fromkeys(percent(each) for each in (shares[0], shares[-1])))
        text = f"Privacy costs {cost} of what training gains: the noise"
    ways, to = list[str](), "the loss of"
    for name, each in noise.items():
        ways.append(f"{number(each, 2)} to {to} “{name}”")
        to = "that of"
    text += f" for {equation('epsilon', number(run.known['privacy.epsilon']))} adds {listing(ways)}{ONE_SEED}."
    return Sentence(text, MODEL, ("privacy.epsilon", *(f"learning.{name}.privacy_noise_loss" for name in noise)))


def by_figure(run: Run, key: str) -> dict[str, str]:
    """Return what is measured by ``learning.OPTIMIZER.figure`` of all methods, the best first; empty of one method."""
    entry, figure = split(key)[0], key.rpartition(".")[2]
    twins, every = references(optimizers(run)), optimizer_figures(run, figure)
    every = {name: value for name, value in every.items() if name not in twins}
    if entry is None or not entry.better or split(key)[1].get("optimizer") not in every or len(every) < 2:
        return {}
    order = sorted(every, key=lambda name: every[name] if entry.better == "lower" else -every[name])
    rests = DUST if figure == "bias" else 0.0
    return {name: (at_rest if every[name] < rests else wording_of(key).write)(every[name]) for name in order}


def against_methods(run: Run, key: str) -> Sentence | None:
    """Say a figure of one optimizer beside those of the others; None where it has no others, or no side is better."""
    entry, parts = split(key)
    name, figure, values = parts.get("optimizer", ""), key.rpartition(".")[2], by_figure(run, key)
    if entry is None or not values:
        return None
    every, order = optimizer_figures(run, figure), [*values]
    shown = {each: f"“{each}” ({values[each]})" for each in order}
    best = [each for each in order if every[each] == every[order[0]]]
    beaten = [shown[each] for each in order[order.index(name) :] if every[each] != every[name]]
    if name in best:
        apart = {each: abs(every[each] - every[order[0]]) for each in order}
        last = [shown[each] for each in order[len(best) + 1 :] if apart[each] >= (1 - _GAP) * apart[order[-1]]]
        second = f", then {shown[order[len(best)]]}" if len(best) < len(order) else ""
        second += f"; {listing_of(last, _FEW_METHODS)} {'is' if len(last) == 1 else 'are'} last" if last else ""
        text = f"{listing([shown[each] for each in best])} {'is' if len(best) == 1 else 'are'} best{second},"
    else:
        ahead = f"ahead of {listing_of(beaten, _FEW_METHODS)}, but {shown[best[0]]} is best"
        text = f"{shown[name]} is {ahead if beaten else f'behind the others, of which {shown[best[0]]} is best'},"
    text = f"In this one seed {text} by the {entry.words.replace('OPTIMIZER', 'each')}"
    moving = sum(not converged(run, each) for each in order)
    still = f"; {moving} of {len(order)} losses have not converged" if moving else ""
    return Sentence(f"{text}{still}.", MODEL, tuple(f"learning.{each}.{figure}" for each in (name, *order)))


def kept(run: Run) -> Sentence | None:
    """Say which optimizers keep something on each device, and how large it is; or that all cost devices the same."""
    every, sent = (optimizer_figures(run, figure) for figure in ("client_mb", "sent_mb"))
    sizes, learning = {name: size for name, size in every.items() if size}, run.scenario.learning
    needs = {} if learning is None else {each.label: footprint(each.kind) for each in learning.optimizers}
    if not sizes:
        same = len({*sent.values()}) == 1 < len(every) == len(sent)
        text = "All methods cost devices the same: they send as much, and keep nothing there"
        at_server = [f"“{name}”" for name, each in needs.items() if each is not None and each.per_participant]
        text += f"; of each client the server keeps a model for {listing(at_server)}" if at_server else ""
        return Sentence(f"{text}.", COST, tuple(f"learning.{name}.sent_mb" for name in sent)) if same else None
    ways = list[str]()
    for name, size in sizes.items():
        models = "" if (each := needs.get(name)) is None else f" ({count(each.client, 'model')})"
        ways.append(f"“{name}” keeps {quantity(1e6 * size, 'B')}{models}")
    others = "; the others keep nothing there" * (len(sizes) < len(optimizer_figures(run, "loss")))
    facts = tuple(f"learning.{name}.client_mb" for name in sizes)
    return Sentence(f"On each device {listing(ways)} between participations{others}.", COST, facts)


def costs(run: Run) -> Sentence | None:
    """Say what the run costs by the scenario's prices, and what most of that is for."""
    cost, parts = run.known.get("fleet.cost"), cost_parts(run)
    if not cost or not parts:
        return None
    most = next(iter(parts))
    text = f"The run of {duration(run.simulated_s)} costs {wording_of('fleet.cost').write(cost)} (in the currency of "
    text += f"the scenario), {percent(parts[most].cost / cost)} of it for {parts[most].words}, at {parts[most].price}."
    return Sentence(text, COST, ("fleet.cost", most))


def staleness(run: Run) -> Sentence | None:
    """Say of a buffered server how many versions old reports are when they are taken, by group where there are few."""
    key, groups = "staleness.mean", run.clients["group"].unique(maintain_order=True).to_list()
    if key not in run.known:
        return None
    keys = {name: f"group.{name}.{key}" for name in groups if f"group.{name}.{key}" in run.known}
    by = [f"{number(run.known[each], 2)} of “{name}”" for name, each in keys.items()] if len(keys) <= _NAMED else []
    text = f"A report is {number(run.known[key], 2)} versions old on average when the server takes it"
    return Sentence(f"{text}{f': {listing(by)}' if by else ''}.", WHAT, (key, *keys.values()))


def hours_without(run: Run) -> tuple[int, list[str]]:
    """Return in how many hours of the day hardly any device is available, and the facts of those that are known."""
    keys = [key for key in run.known if key.startswith(_BY_HOUR)]
    return sum(run.known[key] < HARDLY for key in keys), keys


def waiting(run: Run) -> Sentence | None:
    """Say how long rounds wait for clients, and in how many hours of the day hardly any device is available."""
    if (share := run.known.get("rounds.waiting_share", 0.0)) < HARDLY / 2:
        return None
    empty, keys = hours_without(run)
    text = f"Rounds wait for clients {percent(share)} of the time"
    text += f": in {empty} of {len(keys)} hours of the day hardly any device is available" if empty else ""
    return Sentence(f"{text}.", COST, ("rounds.waiting_share", *keys))


def wasted(run: Run) -> Sentence | None:
    """Say which share of the device time was wasted, and which sessions ended without a report that was taken."""
    if (share := run.known.get("sessions.wasted_share", 0.0)) < HARDLY:
        return None
    ends = {f"sessions.{name}_share": each.words for name, each in SESSION_OUTCOMES.items() if name != "reported"}
    ends = {key: words for key, words in ends.items() if run.known.get(key, 0.0) >= HARDLY / 2}
    ways = [f"in {percent(run.known[key])} {ends[key]}" for key in ends]
    server = run.scenario.server
    if share == 1 and run.known.get("sessions.late_share") == 1 and server.deadline is not None:
        mean = duration(3600 * run.known["sessions.device_hours"] / run.known["sessions.count"])
        text = f"All device time was wasted: sessions took {mean} on average; the deadline is "
        return Sentence(f"{text}{duration(server.deadline)}.", COST, ("sessions.wasted_share", *ends))
    if "sessions.aborted_share" in ends and server.selects_once and server.wanted > server.cohort:
        ways[[*ends].index("sessions.aborted_share")] += " (rounds select more clients than they take reports of)"
    text = f"{percent(share)} of the device time was wasted by sessions that ended without a report"
    text += f": of all sessions, {listing(ways)}." if ways else "."
    return Sentence(text, COST, ("sessions.wasted_share", *ends))


def forgotten(run: Run) -> dict[str, list[str]]:
    """Return after how many rounds participation stays that of the long run, with the separations of a study."""
    ways = dict[str, list[str]]()
    if run.convergence is None or run.scenario.theory.convergence is None:
        return ways
    for (r,), study in run.convergence.sort("separation", "round").group_by("separation", maintain_order=True):
        far = study.filter(study["tv"] >= FORGOTTEN)["round"]  # distances may rise again
        after, followed = int(far[-1]) + 1 if len(far) else 0, int(study["round"][-1]) + 1
        sure = study.filter(study["tv"] - study["noise_floor"].fill_null(0.0) >= FORGOTTEN)["round"]
        way = count(after + 1, "round")
        if after == followed:
            least = int(sure[-1]) + 1 if len(sure) else 0
            way = f"more than {count(least, 'round')}" if least else "some rounds"
            way += " (sampling noise hides when)" * (least < followed)
        ways.setdefault(way, []).append(equation("R", int(r)))
    return ways


def long_run(run: Run) -> Sentence | None:
    """Say after how many rounds participation stays that of the long run, at few separations, or at the ends."""
    if not (shown := [f"{way} at {listing(some)}" for way, some in forgotten(run).items()]):
        return None
    ends = shown if len(shown) <= STUDIED else [shown[0], shown[-1]]
    after = ", and ".join(filter(None, (", ".join(ends[:-1]), ends[-1])))
    text = f"Participation is within {percent(FORGOTTEN)} (TV) of its long-run shares after {after}."
    return Sentence(text, BIAS, ("convergence",))


def of_study(run: Run) -> Sentence | None:
    """Say which separation all else is of, where a convergence study follows several."""
    at = run.clients["separation"]
    if run.convergence is None or at.n_unique() > 1 or run.convergence["separation"].n_unique() < 2:
        return None
    text = f"Separations are compared under “How the start is forgotten”: all else is of {equation('R', int(at[0]))}."
    return Sentence(text, WHAT, ("convergence",))


def measured(run: Run, key: str) -> Sentence | None:
    """Say any fact by its key: with the words of its own where it has some, or else as its value with its interval."""
    bias, wording, fact = bias_of(run), wording_of(key), run.fact(key)
    if (match := next((part for part in bias.parts if part.key == key), None)) is not None:
        return share(match)
    if key in {key_of(run, "l1_uniform"), key_of(run, "tv_uniform")}:
        return how_uneven(run, bias) or who_takes_part(run, bias)
    if key in map(_loss, optimizers(run)):
        return losses(run)
    if key == "fleet.cost":
        return costs(run)
    if key in _SAID:
        return sentence_of(run, key)
    if fact is None or fact["value"] is None:
        return None
    if (beside := against_methods(run, key)) is not None:
        return beside
    text = f"{capitalized(wording.words)}: {wording.write(fact['value'])}"
    if fact["low"] is not None and fact["high"] is not None:
        text += f" ({wording.write(fact['low'])} to {wording.write(fact['high'])})"
    return Sentence(f"{text}.", WHAT, (key,))


def even_but(run: Run, wanted: Sentence) -> Sentence:
    """Add to what is said of even participation that a model favours a group all the same, where one does."""
    gap = favoured(run) if wanted.about == BIAS and bias_of(run).seen in {Seen.EVEN, Seen.NONE} else None
    return wanted if gap is None else Sentence(f"{wanted.text} Yet {gap.text}.", BIAS, (*wanted.facts, *gap.facts))


def headline(run: Run) -> Sentence | None:
    """Say what the scenario asks for.

    That is the fact of `headline`; else that of `decide`, what the noise of privacy or the choice of clients does to
    losses, the cost by `prices`, a convergence study; else who takes part.
    """
    scenario, bias = run.scenario, bias_of(run)
    if one_round(run):
        text = f"There is one {run.noun}, in {duration(run.simulated_s)}: too little to say who takes part"
        text += " or where training ends" * (scenario.learning is not None)
        return Sentence(f"{text}.", WHAT, ("rounds.count",))
    asked = [scenario.headline, "" if scenario.decide is None else scenario.decide.metric]
    if (wanted := next(filter(None, (measured(run, key) for key in asked if key)), None)) is not None:
        return even_but(run, wanted)
    if bias.seen is Seen.ALONE:
        return who_takes_part(run, bias)
    return noise_cost(run) or losses(run) or costs(run) or long_run(run) or who_takes_part(run, bias)


def left_to_chance(run: Run) -> bool:
    """Say whether the headline leaves open what other seeds tell: who takes part, or the best method."""
    scenario, bias, first = run.scenario, bias_of(run), headline(run)
    asked = scenario.headline or ("" if scenario.decide is None else scenario.decide.metric)
    if asked and any(part.key == asked and is_wide(part) for part in bias.parts):
        return True
    ranked = losses(run) if len((endings(run) or ("", []))[1]) > 1 else None
    return first is not None and first in (against_methods(run, asked), ranked)


def sentences(run: Run) -> Iterator[Sentence]:
    """Say what a run measured, by the questions of a reader."""
    bias = bias_of(run)
    facts = [key for key in _SAID if _SAID[key][0] != BIAS or not (bias.seen in NOBODY or one_round(run))]
    groups = by_group(run, bias)
    widest = [each for each in bias.contrasts if groups is None or each[0].kind != "group"]
    ranked = against_methods(run, run.scenario.headline or "") is not None  # by another figure than losses
    unranked = ranked and any(each.look is None for each in (endings(run) or ("", []))[1])
    even = how_even(run, bias), how_even_pull(run, bias)
    by_question: dict[str, list[Sentence | None]] = {
        WHAT: [staleness(run), how_often(run), of_study(run)],
        BIAS: [by_steps(run, bias), trend(bias), *map(contrast, widest), *even, groups, long_run(run)],
        MODEL: [None if unranked else losses(run), nearer(run), by_group_of_data(run), swing(run), noise_cost(run)],
        PRIVACY: [],
        COST: [costs(run), kept(run), waiting(run), wasted(run)],
    }
    if one_round(run):
        by_question = {WHAT: by_question[WHAT], COST: [wasted(run)]}
    for about, lines in by_question.items():
        yield from filter(None, (*lines, *(sentence_of(run, key) for key in facts if _SAID[key][0] == about)))
