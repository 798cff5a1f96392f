"""What a run measured, in words: a table of sentences, one for each fact, and some that take more.

The numbers of a sentence are those of the facts, or of the series and tables, that it names.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from fedsim.common.formatting import capitalized, count, count_range, duration, equation, listing, number, percent
from fedsim.common.instants import DAY_S
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.measure.frequencies import fair_half, overdispersed
from fedsim.measure.metrics import split
from fedsim.pages.answer import BIAS, COST, MODEL, WHAT, Sentence
from fedsim.pages.bias import NOBODY, Bias, ClientShare, Seen, bias_of, one_round
from fedsim.pages.methods import (
    Ending,
    compared_with,
    daily_swing,
    debiased_pairs,
    endings,
    endings_beside,
    optimizer_figures,
    optimizers,
    references,
    same_training,
)
from fedsim.pages.metric_wording import wording_of
from fedsim.run.run import Run
from fedsim.scenario.learning import OptimizerChoice

FORGOTTEN = 0.01  # distance from the long run at which the start counts as forgotten
_NAMED = 6  # methods, groups or separations that a sentence names at most
_GAP = 0.1  # of a loss, by which it differs between groups: worth a word
_SMALL = 0.01  # of a loss; lesser differences are said as shares of it
_CLOSE = 0.1  # of a fair share: what an interval must lie within to say that clients have theirs
HARDLY = 0.02  # of the devices; half of it, of the time, is not worth a word
_BY_HOUR = "population.available_share.utc."
_FEW = 20  # clients that are said one by one, or from least to most
_SAID = {
    "participation.l1_uniform_theory": (BIAS, "In the long run, theory says, selections are {} from uniform."),
    "updates.per_day": (COST, "The pace of the server is {}."),
    "sessions.device_hours": (COST, "Sessions took {} hours of device time."),
    "privacy.epsilon": (
        COST,
        "Each client is promised epsilon = {} (adjacency: all that it contributes is replaced by zeros).",
    ),
    "privacy.epsilon_if_known": (
        COST,
        "That is as long as the schedule stays secret, this page included: where it is known, epsilon is {}.",
    ),
}
"""What is said of a fact: the question that it answers, and a sentence with its value."""
_IF_ANY = ("sessions.device_hours",)  # of none nothing is said
_IN_GENERAL = ("participation.l1_uniform_theory", "updates.per_day")  # of a run that shows neither nothing is said


def key_of(run: Run, name: str) -> str:
    """Return the key of ``participation.NAME`` of what reached the model."""
    reported = "participation.reported_"
    return f"{reported if f'{reported}l1_uniform' in run.known else 'participation.'}{name}"


def sentence_of(run: Run, key: str) -> Sentence | None:
    """Say the value of a fact by its sentence in the table; None where the run has none."""
    about, text = _SAID[key]
    return Sentence(text.format(wording_of(key).write(run.known[key])), about, (key,)) if key in run.known else None


def how_often(run: Run) -> Sentence | None:
    """Say how long the run was, and how many reports clients gave, from the least to the most."""
    counts, selected = run.clients["reported"].to_numpy(), run.clients["participations"].to_numpy()
    if not counts.sum():
        return None
    log, by_rounds = run.scenario.log, _by_rounds(run)
    whole = log is None and not by_rounds and run.manifest.get("status", "complete") == "complete"
    rounds, lasted, stop = count(len(run.rounds), run.noun), duration(run.simulated_s), run.scenario.stop
    allowed = f" of the {duration(stop.most_s)} allowed" if by_rounds and np.isfinite(stop.most_s) else ""
    text = f"{'The log has' if log else 'The run did'} {'its ' * by_rounds}{rounds} in "
    text += f"{'its ' * whole}{lasted}{allowed}. "
    text += f"{count(len(counts), 'client' if log else 'device')} gave {count(int(counts.sum()), 'report')}"
    if counts.min() < counts.max():
        text += f": {number(float(counts.mean()), 3)} each on average, from {counts.min():,} to {counts.max():,}"
    none, never = percent(float((counts == 0).mean())), percent(float((selected == 0).mean()))
    if log is not None and "clients" in log.unknown:
        text += f"; {none} of them gave none, since no session of theirs ended with a report" * (not counts.min())
        text += "; clients that never came are not known"
    elif not counts.min():
        apart = " (all were selected)" if selected.min() else f" ({never} were never selected)"
        text += f"; {none} gave none{apart if never != none else ''}"
    return Sentence(f"{text}.", WHAT, ("clients", "rounds.count"))


def how_often_each(run: Run, bias: Bias) -> Sentence:
    """Say how often each of a few clients reported, or what that is in 30 days, and whether they differ."""
    counts, days = run.clients["reported"].to_numpy(), run.simulated_s / DAY_S
    lasted, devices = duration(run.simulated_s), f"Each of the {len(counts)} devices"
    tested = {Seen.BIAS: "; the differences are significant", Seen.NONE: "; the differences are not significant"}
    if of_a_month(run):
        least, often, most = (number(30 * each / days, 2) for each in (counts.min(), counts.mean(), counts.max()))
        text = (
            f"{devices} reports about {often} times in 30 days ({least} to {most}), if it goes on as in these {lasted}"
        )
    else:
        ends, mean = count_range(int(counts.min()), int(counts.max())), float(counts.mean())
        text = f"{devices} reported {number(mean, 3)} times on average in {lasted} ({ends})"
        text += f", {number(mean / days, 3)} times a day" * (days >= 1)
    return Sentence(f"{text}{tested.get(bias.seen, '')}.", BIAS, ("clients", "bias"))


def of_a_month(run: Run) -> bool:
    """Say whether what a run of a few clients shows of 30 days follows from fewer, which its rounds took."""
    return 1 < len(run.clients) < _FEW and _by_rounds(run) and DAY_S <= run.simulated_s < 30 * DAY_S


def _by_rounds(run: Run) -> bool:
    """Say whether a run ended since it did all its rounds."""
    return run.scenario.log is None and len(run.rounds) >= run.scenario.stop.most_rounds


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
        text = f"Each client gave {ends} reports: participation is as even as "
        text += f"can be, {percent(bias.measured)} from uniform (TV)."
        return Sentence(text, BIAS, facts)
    if bias.seen in {Seen.ONCE, Seen.UNTESTED}:
        judged = f"not tested, {bias.why}" if bias.seen is Seen.UNTESTED else bias.seen.value
    elif bias.more_even:
        judged = f"more even than {chance}"
    else:
        judged = f"{'' if bias.whole else 'not '}significantly more than {chance}"
    text = f"Participation is {percent(bias.measured)} from uniform (TV), {judged}"
    if bias.trend and not bias.whole:
        text = f"Client by client, participation is {percent(bias.measured)} from uniform (TV), {judged}"
        text += ": what is significant is the trend over tenths"
    share = ": that share of the reports would have to come from other clients" * bias.whole
    return Sentence(f"{text}{share}.", BIAS, facts)


def among_those_seen(run: Run) -> Sentence | None:
    """Say of a log whose clients are not all known how the reports are shared by those that are in it."""
    counts = np.sort(run.clients["reported"].to_numpy())
    if len(counts) < 2 or not counts.sum():
        return None
    half, fair = float(counts[: len(counts) // 2].sum() / counts.sum()), fair_half(int(counts.sum()), len(counts))
    judged = "significantly less" if overdispersed(counts) else "not significantly less"
    text = f"Reports are {judged} even than chance: of the {count(len(counts), 'client')} in the log, the half that "
    text += f"reported least gave {percent(half)} of them ({percent(fair)} by equal chances)."
    return Sentence(text, BIAS, ("clients",))


def by_group(run: Run, bias: Bias) -> Sentence | None:
    """Say how often each group takes part, of a few; of a log without all clients, which share of reports it has."""
    sizes = run.clients.group_by("group", maintain_order=True).agg(pl.len(), pl.col("reported").sum())
    if not 2 <= len(sizes) <= _NAMED or not sizes["reported"].sum():
        return None
    if bias.seen is Seen.UNMEASURED:
        clients, reports = (sizes[each] / sizes[each].sum() for each in ("len", "reported"))
        ways = [
            f"“{name}” gave {percent(b)} of the reports, as {percent(a)} of these clients"
            for name, a, b in zip(sizes["group"], clients, reports, strict=True)
        ]
        return Sentence(f"{'; '.join(ways)} (not tested: other clients are not known).", BIAS, ("clients",))
    if not (parts := sorted(bias.of("group"), key=lambda part: -part.times)):
        return None
    ways = [f"“{part.name}” {_ratio(part.times)}" for part in parts]
    some = [f"“{part.name}”" for part in parts if part.significant]
    judged = "no difference from 1 is significant"
    if not any(part.tested for part in parts):
        judged = "not tested"
    elif some:
        judged = "all significant" if len(some) == len(parts) else f"significant: {listing(some)}"
    facts = tuple(fact for part in parts for fact in part.facts)
    return Sentence(f"Times their fair share: {listing(ways)} ({judged}).", BIAS, facts)


def share(part: ClientShare) -> Sentence:
    """Say how often some clients take part, and whether that differs from a fair share, or may do so by much."""
    judged, text = "not tested", f"{part.words} {_times(part)}"
    if part.tested:
        judged = f"{_ratio(part.low)} to {_ratio(part.high)}, "
        judged += "significant" if part.significant else "not significantly different from 1"
        wide = not part.significant and max(1 - part.low, part.high - 1) > _CLOSE
        text = f"cannot tell yet: {text}" if wide else text
    return Sentence(f"{capitalized(text)} ({judged}).", BIAS, part.facts)


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
    text = f"{capitalized(high.words)} {_times(high)}, and {low.words} {_ratio(low.times)} times: both significant."
    if not low.times:
        text = f"{capitalized(low.words)} never reported, and {high.words} {_times(high)}."
    return Sentence(text, BIAS, tuple(dict.fromkeys((*high.facts, *low.facts))))


def trend(bias: Bias) -> Sentence | None:
    """Say how often those take part that are least and most available, or fast, where tenths have a trend."""
    parts = {part.name: part for part in bias.of(bias.trend or "")}
    if bias.trend is None or len(parts) != 2:
        return None
    (most, high), (least, low) = parts.items()
    text = f"the {most} {_times(high)}, and the {least} {_ratio(low.times)} times"
    text = text if low.times else f"the {least} never reported, and the {most} {_times(high)}"
    how = {"speed": "faster", "availability": "more available"}[bias.trend]
    way = f"The {how} clients are, the {'more' if high.times > low.times else 'less'} often they take part"
    return Sentence(f"{way} (significant): {text}.", BIAS, (*high.facts, *low.facts))


def strongest(bias: Bias) -> Sentence | None:
    """Say what is significant of who takes part: the trend, or else the widest contrast; None where nothing is."""
    widest = next(iter(bias.contrasts), None) if bias.seen is Seen.BIAS else None
    return trend(bias) or (None if widest is None else contrast(widest))


def who_takes_part(run: Run, bias: Bias) -> Sentence | None:
    """Say who takes part: the widest significant contrast, or that no bias was found, or how even participation is."""
    if bias.seen is Seen.ALONE:
        reports = count(int(run.clients["reported"].sum()), "report")
        return Sentence(f"There is one client, which gave {reports}: nothing can be biased.", BIAS, ("clients",))
    if bias.seen not in NOBODY and len(run.clients) < _FEW:
        return how_often_each(run, bias)
    if bias.seen is Seen.NONE and not bias.more_even:
        who = "All groups take part as often as their size says, within chance" if bias.of("group") else "No bias found"
        return Sentence(f"{who}{bias.could_see}.", BIAS, ("bias", "shares"))
    return strongest(bias) or how_even(run, bias)


def losses(run: Run) -> Sentence | None:
    """Say where the loss of each optimizer ends, compared with unbiased training or else with the lowest."""
    if run.scenario.learning is None:
        return None
    if (judged_ends := endings(run)) is None:
        return Sentence("No optimizer has a finite loss over the last half of the run.", MODEL)
    (other, ends), every = judged_ends, optimizer_figures(run, "loss")
    facts, last = tuple(map(_loss, (*(each.name for each in ends), other))), number(every[other])
    if not ends:
        return Sentence(f"The loss of “{other}” ends at {last}.", MODEL, facts)
    if same_training(run):
        return Sentence(f"All methods are the same training here: each loss ends at {last}.", MODEL, facts)
    clauses, beside = list[str](), f"unbiased training (loss {last})"
    if other not in references(optimizers(run)):
        clauses, beside = [f"“{other}” has the lowest loss ({last})"], "it"
    ways = dict[tuple[str, bool], list[Ending]]()
    for each in ends:
        ways.setdefault((each.judged, each.apart > 0), []).append(each)
    alike = len({judged for judged, _ in ways}) == 1
    small = all(abs(each.apart) < _SMALL * every[other] for each in ends)
    for (judged, above), some in ways.items():
        says = ", significantly" if judged == "significant" else "" if alike else f" ({judged})"
        clauses.append(f"{_end(some, every[other] if small else None)} {'above' if above else 'below'} {beside}{says}")
        beside = "it"
    end = f"; {judged}" if alike and judged != "significant" else ""
    text = f"{capitalized('; '.join(clauses))}{end}."
    if other not in references(optimizers(run)) and alike and not end:
        far = optimizer_figures(run, "bias")
        far = {name: far[name] for name in (other, *(each.name for each in ends)) if name in far}
        nearest = min(far, key=far.__getitem__, default=other)
        if other not in far or far[other] == far[nearest]:
            return Sentence(f"{text} By this run, use “{other}” of these methods.", MODEL, facts)
        text += f" Yet the mean model of “{nearest}” over the last half is nearer the optimum ({number(far[nearest])} "
        text += f"away, not {number(far[other])}): no method is best by both."
        facts += tuple(f"learning.{name}.bias" for name in (nearest, other))
    return Sentence(text, MODEL, facts)


def debiasing(run: Run) -> Iterator[Sentence]:
    """Say of each debiased method whether it helps, by the loss and by the distance of the mean model."""
    findings, far = dict[str, list[Sentence]](), optimizer_figures(run, "bias")
    learning = run.scenario.learning
    kinds = {} if learning is None else {each.label: _kind(each) for each in learning.optimizers}
    lowest = (compared_with(run) or ("",))[0]
    for name, plain in [] if same_training(run) else [*debiased_pairs(run).items()][:_NAMED]:
        (end,) = endings_beside(run, plain, [name])
        tested = end.look is not None and end.look.significant
        finding = "Debiasing has not lowered the loss" if end.apart > 0 else "Whether debiasing helps is not clear"
        finding = f"Debiasing {'hurts' if end.apart > 0 else 'helps'} here" if tested else finding
        keys, which, text = tuple(map(_loss, (name, plain))), f"“{name}”{kinds[name]}", ""
        contrary = {name, plain} <= {*far} and (far[name] < far[plain]) != (end.apart < 0)
        if {name, plain} <= {*far} and far[name] != far[plain]:
            nearer = "nearer" if far[name] < far[plain] else "further from"
            text = f"of {which} is {nearer} the optimum than that of “{plain}” ({number(far[name])} away, not "
            text = f"the mean model over the last half {text}{number(far[plain])})"
            keys += tuple(f"learning.{each}.bias" for each in (name, plain))
        if plain != lowest or contrary or not text:  # else the sentence about losses has said it
            by = f"{which} ends {number(abs(end.apart), 3)} {'above' if end.apart > 0 else 'below'} “{plain}”"
            text = f", {'although' if contrary else 'and'} {text}" * bool(text)
            text = f"{by} ({end.judged}){text}"
        findings.setdefault(finding, []).append(Sentence(text, MODEL, keys))
    for finding, ways in findings.items():
        facts = tuple(dict.fromkeys(key for each in ways for key in each.facts))
        yield Sentence(f"{finding}: {'; '.join(each.text for each in ways)}.", MODEL, facts)


def _kind(choice: OptimizerChoice) -> str:
    """Say what an optimizer is, whose name does not."""
    options = [f"{key}: {value}" for key, value in choice.options.items() if key != "server"]
    return f" ({', '.join([choice.kind, *options])})" if choice.label != choice.kind else ""


def _end(some: Sequence[Ending], other: float | None) -> str:
    """Say how far from another loss those of some optimizers end, in order; as shares of it, if it is given."""
    far = [abs(each.apart) for each in some]
    shares = [f"{number(100 * each / other, 2)}\N{NARROW NO-BREAK SPACE}%" for each in far] if other else []
    apart = shares or [number(each, 3) for each in far]
    if len(some) < 3:
        ways = [f"“{each.name}” {'ends ' * (each is some[0])}{by}" for each, by in zip(some, apart, strict=True)]
        return listing(ways)
    ends = dict.fromkeys(apart[:: len(apart) - 1] if some[0].apart < 0 else apart[:: 1 - len(apart)])
    names = [f"“{each.name}”" for each in some]
    return f"{listing(names) if len(names) <= _NAMED else count(len(names), 'other')} end {' to '.join(ends)}"


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


def by_group_of_data(run: Run) -> Sentence | None:
    """Say on which groups' data mean models do worst and best: that with the widest gap, and that with the least."""
    twins = references(optimizers(run))
    groups = {name: f"loss_of_group_{name}" for name in run.clients["group"].unique(maintain_order=True)}
    every = {name: optimizer_figures(run, figure) for name, figure in groups.items()}
    names = [name for name in optimizers(run) if name not in twins and all(name in each for each in every.values())]
    if len(groups) < 2 or not names:
        return None
    gaps = {name: float(np.ptp([each[name] for each in every.values()])) for name in names}
    widest, least = max(names, key=gaps.__getitem__), min(names, key=gaps.__getitem__)
    worst, best = (by(groups, key=lambda group: every[group][widest]) for by in (max, min))
    if gaps[widest] < _GAP * abs(every[best][widest]):
        return None
    text = f"The mean model of “{widest}” has a loss of {number(every[worst][widest], 3)} on the data of “{worst}” and "
    text += f"{number(every[best][widest], 3)} on those of “{best}”"
    if gaps[least] < gaps[widest] / 2:
        text += f"; that of “{least}” has {number(every[worst][least], 3)} and {number(every[best][least], 3)}"
    keys = [f"learning.{name}.{groups[group]}" for name in dict.fromkeys((widest, least)) for group in (worst, best)]
    return Sentence(f"{text}.", MODEL, tuple(keys))


def noise_cost(run: Run) -> Sentence | None:
    """Say what the noise of privacy adds to the loss of each optimizer, where the parts of losses are known."""
    every, above = (optimizer_figures(run, figure) for figure in ("privacy_noise_loss", "above_optimum"))
    if "privacy.epsilon" not in run.known or not every or len(every) > _NAMED:
        return None
    ways, of = list[str](), "what “{}” loses to the optimum"
    for name, noise in every.items():
        share = percent(noise / above[name])
        ways.append(f"{share} of {of.format(name)} ({number(noise, 2)} of {number(above[name], 2)})")
        of = "that of “{}”"
    text = f"The noise for epsilon = {number(run.known['privacy.epsilon'])} makes {listing(ways)}."
    keys = [f"learning.{name}.{figure}" for name in every for figure in ("privacy_noise_loss", "above_optimum")]
    return Sentence(text, MODEL, ("privacy.epsilon", *keys))


def against_methods(run: Run, key: str) -> Sentence | None:
    """Say a figure of one optimizer beside those of the others; None where it has no others, or no side is better."""
    entry, parts = split(key)
    name, figure = parts.get("optimizer", ""), key.rpartition(".")[2]
    twins, every = references(optimizers(run)), optimizer_figures(run, figure)
    every = {each: value for each, value in every.items() if each not in twins}
    if entry is None or not entry.better or name not in every or len(every) < 2:
        return None
    top = (min if entry.better == "lower" else max)(every.values())
    best = [each for each in every if every[each] == top]
    wording, value, ways = wording_of(key), every.pop(name), list[str]()
    order = sorted(every, key=every.__getitem__)
    for way, sign in (("lower than", 1.0), ("the same as", 0.0), ("higher than", -1.0)):
        some = [each for each in order if np.sign(every[each] - value) == sign]
        named = [f"“{each}” ({wording.write(every[each])})" for each in some[:_NAMED]]
        ways += [f"{way} that of {listing(named)}"] if some else []
    facts = tuple(f"learning.{each}.{figure}" for each in (name, *every))
    verdict = f"“{name}” is best in this run: the" if best == [name] else "In this run the"
    last = ", the best" * (len(best) == 1 and best != [name])
    return Sentence(f"{verdict} {wording.words} is {wording.write(value)}, {' and '.join(ways)}{last}.", MODEL, facts)


def cost_parts(run: Run) -> dict[str, float]:
    """Return what of the cost is for what, by the key of the fact that says how much of it there is."""
    if (prices := run.scenario.prices) is None:
        return {}
    each = {"fleet.bytes_down": prices.gigabyte / 1e9, "fleet.bytes_up": prices.gigabyte / 1e9}
    each |= {"fleet.energy": prices.kilowatt_hour / 1e3, "sessions.device_hours": prices.device_hour}
    return {key: price * run.known[key] for key, price in each.items() if price and key in run.known}


_PAID = {
    "fleet.bytes_down": "{} sent to devices",
    "fleet.bytes_up": "{} sent by devices",
    "fleet.energy": "{} of energy",
    "sessions.device_hours": "{} hours of device time",
}


def costs(run: Run) -> Sentence | None:
    """Say what the run costs by the scenario's prices, and what most of that is for."""
    cost, parts = run.known.get("fleet.cost"), cost_parts(run)
    if not cost or not parts:
        return None
    most = max(parts, key=parts.__getitem__)
    text = f"The run costs {wording_of('fleet.cost').write(cost)} (in the currency of the scenario), "
    text += f"{percent(parts[most] / cost)} of it for {_PAID[most].format(wording_of(most).write(run.known[most]))}."
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
    if "sessions.aborted_share" in ends and server.selects_once and server.wanted > server.cohort:
        ways[[*ends].index("sessions.aborted_share")] += " (rounds select more clients than they take reports of)"
    text = f"{percent(share)} of the device time was wasted."
    text += f" Of the sessions, {listing(ways)}." if ways else ""
    if share == 1 and run.known.get("sessions.late_share") == 1 and server.deadline is not None:
        mean = duration(3600 * run.known["sessions.device_hours"] / run.known["sessions.count"])
        text = (
            f"All device time was wasted: sessions took {mean} on average; the deadline is {duration(server.deadline)}."
        )
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
    """Say after how many rounds participation stays that of the long run: of the separations of a study the ends."""
    if not (shown := [f"after {way} at {listing(some)}" for way, some in forgotten(run).items()]):
        return None
    ends = listing(shown if len(shown) <= 2 else [shown[0], shown[-1]])
    text = f"Participation is within {percent(FORGOTTEN)} (TV) of its long-run shares {ends}."
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
        return who_takes_part(run, bias)
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
        return wanted
    if bias.seen is Seen.ALONE:
        return who_takes_part(run, bias)
    return noise_cost(run) or losses(run) or costs(run) or long_run(run) or who_takes_part(run, bias)


def sentences(run: Run) -> Iterator[Sentence]:
    """Say what a run measured, by the questions of a reader."""
    bias = bias_of(run)
    facts = [key for key in _SAID if key not in _IF_ANY or run.known.get(key)]
    if bias.seen in NOBODY or one_round(run):
        facts = [key for key in facts if key not in _IN_GENERAL]
    groups = by_group(run, bias)
    widest = [each for each in bias.contrasts if groups is None or each[0].kind != "group"]
    by_question: dict[str, list[Sentence | None]] = {
        WHAT: [staleness(run), how_often(run), of_study(run)],
        BIAS: [trend(bias), *map(contrast, widest), how_even(run, bias), groups, long_run(run)],
        MODEL: [losses(run), *debiasing(run), by_group_of_data(run), swing(run), noise_cost(run)],
        COST: [costs(run), waiting(run), wasted(run)],
    }
    if one_round(run):
        by_question = {WHAT: by_question[WHAT], COST: [wasted(run)]}
    for about, lines in by_question.items():
        yield from filter(None, (*lines, *(sentence_of(run, key) for key in facts if _SAID[key][0] == about)))
