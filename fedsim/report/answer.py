"""The answer in words, computed from tables and metrics: what a reader sees first, under its title."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from fedsim.experiment.cautions import drawn_together, of_chance, of_separation, of_shocks
from fedsim.report import methods
from fedsim.report.bias import ROUNDING, Bias, Seen, bias_of
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import (
    capitalized,
    count,
    duration,
    give_or_take,
    listing,
    number,
    percent,
    percent_within,
    time_unit,
)
from fedsim.report.optimizers import optimizers, slow_descents
from fedsim.report.parts import Part, ends_of, groups_of, never_by_chance, tenths_of
from fedsim.scenario.server import BufferedServer

WHAT, BIAS, MODEL = "What happens", "How biased", "What it does to the model"
COST, TRUST = "At what cost", "Can I trust it"
"""What the sentences of an answer are about, in their order."""

NAMED = 6
"""Of more groups than these, only the first and the last are named."""

STUDENT = 2.09
"""Half of a 95 % interval in standard errors that come from 20 batch means."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of the answer; one with `warns` set asks the reader to be careful.

    Sentences that are `about` the same question follow each other.
    """

    text: str
    about: str = ""
    warns: bool = False


@dataclass(frozen=True)
class Tile:
    """A key figure: its value, what it is, and what to compare it with."""

    value: str
    label: str
    detail: str = ""


def answer(run: FinishedRun) -> tuple[Sentence, ...]:
    """Say in words what happened, how biased it was, at what cost, and how far the figures can be trusted."""
    if run.rounds.is_empty():
        return (Sentence("The run has no rounds: there is nothing to measure.", WHAT, warns=True),)
    bias = bias_of(run)
    parts = (_what(run, bias), _bias(run, bias), _learning(run), _cost(run), _trust(run, bias))
    return tuple(chain.from_iterable(parts))


def _what(run: FinishedRun, bias: Bias) -> Iterator[Sentence]:
    took, clients = int((run.clients["participations"] > 0).sum()), len(run.clients)
    over = f"Over {count(len(run.rounds), run.noun)}{_separation(run)}"
    if bias.seen is Seen.NOBODY:
        yield Sentence(f"{over}, nobody took part: there is no frequency to measure.", WHAT, warns=True)
        return
    everyone = f"all {count(clients, 'client')} took part" if clients > 1 else "the one client took part"
    some = f"{count(took)} of {count(clients, 'client')} took part ({percent(took / clients)})"
    yield Sentence(f"{over}, {some if took < clients else everyone}.", WHAT)
    if (wanted := _wanted(run)) is not None:
        yield Sentence(wanted, WHAT)
    if clients > 1:
        yield Sentence(_per_client(run), WHAT)
    if run.metrics.get("sessions.reported_share") == 0:
        yield Sentence("No session ended with a report.", WHAT, warns=True)


def _separation(run: FinishedRun) -> str:
    """Say what keeps clients from coming back at once: with one separation R, and with cool-downs."""
    separation, cooldown_s = run.clients["separation"], run.clients["cooldown_s"]
    least, most = int(separation.min() or 0), int(separation.max() or 0)  # type: ignore[arg-type]
    r = "R\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
    said = [f"separations from {r}{least} to {most}" if least != most else f"separation {r}{most}"]
    if most:
        rest = f"{count(most)} {run.noun}{'s' if most != 1 else ''}"
        said[0] += f" (who takes part rests for {'up to ' if least != most else ''}{rest})"
    shortest, longest = float(cooldown_s.min() or 0.0), float(cooldown_s.max() or 0.0)  # type: ignore[arg-type]
    if longest:
        same = duration(longest) if shortest == longest else f"{duration(shortest)} to {duration(longest)}"
        said.append(f"a cool-down of {same}")
    return f" with {listing(said)}"


def _wanted(run: FinishedRun) -> str | None:
    """Say how many clients a round selects, and why these are more than it wants reports from."""
    server = run.scenario.server
    if isinstance(server, BufferedServer):
        places = f"keeps {count(server.concurrency, 'client')} at work at a time"
        return f"The server {places} and makes a version of every {count(server.buffer, 'report')}."
    if server.wanted == server.cohort:
        return f"Each round selects {count(server.cohort, 'client')}, its cohort."
    return (
        f"Each round wants {count(server.cohort, 'report')} and selects {count(server.wanted, 'client')} for them "
        f"(over_select {number(server.over_select)}), since some may not report."
    )


def _per_client(run: FinishedRun) -> str:
    """Say how often a client took part: on average, at most, and how many never did."""
    counts = run.clients["participations"]
    taken, clients = int(counts.sum()), len(counts)
    most, often = int(counts.to_numpy().max()), int(counts.quantile(0.99, "higher") or 0)
    text = f"A client took part (was selected) {number(taken / clients, 3)} times on average and {count(most)} at most"
    if clients >= 200 and often < most:
        text += f", 99 in 100 no more than {count(often)} times"
    never, once = int((counts == 0).sum()) / clients, int((counts == 1).sum()) / clients
    if not never:
        return f"{text}; nobody was left out."
    text += f"; {percent(never)} never did"
    if once:
        text += f", {percent(once)} only once"
    fair = never_by_chance(taken, clients)
    return f"{text} (equal chances would leave out {percent(fair) if fair >= ROUNDING else 'nobody'})."


def _bias(run: FinishedRun, bias: Bias) -> Iterator[Sentence]:
    if bias.seen in {Seen.NOBODY, Seen.ALONE}:
        return
    if bias.seen is Seen.UNMEASURED:
        yield Sentence("How far frequencies lie from uniform was not measured.", BIAS)
        return
    if bias.seen is Seen.EVEN:
        yield Sentence("Everyone took part equally often.", BIAS)
        return
    error = run.metrics.get("participation.l1_uniform_se")
    share = percent_within(bias.misplaced, None if error is None else STUDENT * error / 2)
    fair, interval = percent(bias.misplaced_by_chance), "; ± is a 95 % interval" if error else ""
    yield Sentence(
        f"For all to take part equally, {share} of the turns (a turn is one participation of one client{interval}) "
        f"would have to go to other clients, where equal chances for everybody would misplace {fair}.",
        BIAS,
    )
    theory = run.metrics.get("participation.l1_uniform_theory")
    if theory is not None:
        says = percent(theory / 2) if theory > ROUNDING else "none"
        reason = "the buffer's flow" if run.buffered is not None else "weights, cohort and separation alone"
        yield Sentence(f"Theory, which computes what {reason} do in the long run, says {says}.", BIAS)
    if bias.seen is not Seen.ONCE:
        yield from _who(run, bias)


def _who(run: FinishedRun, bias: Bias) -> Iterator[Sentence]:
    """Say who gets more than a share, and who less: by group, by weight, or else by how often they took part."""
    groups, ends = groups_of(run), ends_of(run)
    if groups:
        yield Sentence(_groups(groups), BIAS)
    if ends is not None and ends.margin is not None and ends.times is not None:
        interval = give_or_take(ends.times, ends.margin)
        yield Sentence(f"{capitalized(ends.high)} takes part {interval} times as often as {ends.low}.", BIAS)
    elif ends is not None and ends.times is None:
        yield Sentence(f"{capitalized(ends.least)} never takes part.", BIAS)
    tenths = tenths_of(run)
    if not groups and ends is None and bias.seen in {Seen.BIAS, Seen.SLIGHT} and tenths is not None:
        fair = f"{percent(tenths.most_by_chance)} and {percent(tenths.least_by_chance)}"
        yield Sentence(
            f"The tenth of the clients that took part most had {percent(tenths.most)} of the turns, the tenth that did "
            f"least {percent(tenths.least)}; by equal chances alone these would be {fair}.",
            BIAS,
        )


def _groups(groups: Sequence[Part]) -> str:
    """Compare groups with their size, and with how far from it equal chances would put them."""
    shown = sorted(groups, key=lambda group: -group.times)
    if several := len(shown) > NAMED:
        shown = [shown[0], min(groups, key=lambda group: group.times)]
    first, *rest = shown
    told = [f"{first.name} takes part {number(first.times, 3)} times as often as its size says"]
    told += [f"{group.name} {number(group.times, 3)}" for group in rest]
    begin = f"Of {count(len(groups), 'group')}, " if several else ""
    widest = max(group.margin for group in groups)
    within = "within" if widest >= 1 else f"between {number(1 - widest, 3)} and"
    chance = f"equal chances would keep each {within} {number(1 + widest, 3)}"
    apart = any(group.apart for group in groups)
    return f"{begin}{listing(told)}; {chance}{'' if apart else ', and do'}."


def _learning(run: FinishedRun) -> Iterator[Sentence]:
    known = methods.losses(run)
    yield from (Sentence(text, MODEL) for text in methods.told(run))
    if unknown := [name for name in optimizers(run) if name not in known]:
        yield Sentence(f"No finite loss at the end: {listing(unknown)}.", MODEL, warns=True)


_SHORT = {
    "wait": ", and waited for more",
    "proceed": ", and went on with fewer",
    "skip": ", and were skipped",
}
"""What rounds that lack clients do, by the scenario's `shortage`."""


def _cost(run: FinishedRun) -> Iterator[Sentence]:
    metric = run.metrics.get
    waiting, longest = metric("rounds.waiting_share"), metric("rounds.wait.max")
    if waiting:
        waited_s = waiting * run.simulated_s
        size, unit = (3600.0, "h") if waited_s >= 3600 else time_unit(waited_s)
        text = f"Rounds spent {percent(waiting)} of the time waiting for clients "
        text += f"({number(waited_s / size, 3)} of {number(run.simulated_s / size, 3)} {unit}"
        yield Sentence(f"{text}{f', the longest {duration(longest)}' if longest else ''}).", COST)
    pace, typical = metric("rounds.per_day"), metric("rounds.duration.p50")
    if pace is not None:
        text = f"The pace was {number(pace, 3)} {run.noun}s per simulated day"
        once = ", once it had its clients" if waiting else ""
        yield Sentence(
            f"{text}; the median {run.noun} took {duration(typical)}{once}." if typical is not None else f"{text}.",
            COST,
        )
    server = run.scenario.server
    if (shortage := metric("rounds.shortage_share")) and not isinstance(server, BufferedServer):
        text = f"{percent(shortage)} of the rounds found fewer eligible clients than they wanted to select"
        met = metric("rounds.target_share")
        then = f"{_SHORT[server.shortage]}; {percent(met)} of all rounds closed with the reports they wanted"
        yield Sentence(f"{text}{then if met is not None else ''}.", COST)
    hours, wasted = metric("sessions.device_hours"), metric("sessions.wasted_share")
    if hours:
        vain = f", {percent(wasted)} of that in vain (without a report that was taken)" if wasted else ""
        yield Sentence(f"Devices spent {number(hours, 3)} device-hours in sessions{vain}.", COST)
    reported = metric("sessions.reported_share")
    if reported is not None and reported < 1:
        yield Sentence(f"{percent(reported)} of the sessions ended with a report.", COST, warns=reported == 0)


def _trust(run: FinishedRun, bias: Bias) -> Iterator[Sentence]:
    """Tell what chance does to the figures, what may not have been meant, and whether training settled."""
    counts = run.clients["participations"]
    taken, together = int(counts.sum()), drawn_together(run.scenario)
    short = list(of_chance(bias.measured, int(counts.to_numpy().max(initial=0)), taken, len(counts), together))
    meant = of_separation(run.scenario, run.clients["separation"].to_numpy(), run.clients["cooldown_s"].to_numpy())
    for text in (*short, *of_shocks(run.scenario), *meant):
        yield Sentence(f"{capitalized(text)}.", TRUST, warns=True)
    apart, noise = run.metrics.get("participation.l1_chain"), run.metrics.get("participation.l1_noise")
    if noise is not None and not short:
        alone = f"sampling noise alone would give {_share(noise)}"
        if apart is None:
            moves = f"sampling noise alone would put {_share(noise)} of the turns elsewhere than in the long run"
            yield Sentence(f"No theory covers this scenario; {moves}.", TRUST)
        else:
            text = f"Measured and theoretical frequencies are {_share(apart)} of the turns apart, where {alone}"
            far = apart > 2 * noise + ROUNDING
            said = f"{text}: the theory does not describe this run." if far else f"{text}."
            yield Sentence(said, TRUST, warns=far)
    if (settled := _convergence(run)) is not None:
        yield settled


def _share(l1: float) -> str:
    return percent(l1 / 2) if l1 > ROUNDING else percent(0.0)


def _convergence(run: FinishedRun) -> Sentence | None:
    known = methods.losses(run)
    names = [name for name in optimizers(run) if name in known]
    state = {name: run.metrics.get(f"learning.{name}.converged") for name in names}
    moving = [name for name, value in state.items() if value == 0]
    unknown = [name for name, value in state.items() if value is None]
    late = {name: share for name, share in slow_descents(run).items() if name in names}
    if len(moving) == 1:
        text = f"The loss of {moving[0]} has NOT converged: it shows how far training got, not where it would end."
    elif moving:
        who = "all methods" if len(moving) == len(names) else listing(moving)
        text = f"The losses of {who} have NOT converged: they show how far training got, not where it would end."
    elif unknown:
        text = f"Whether the loss of {listing(unknown)} converged is not known."
    elif late:
        least, greatest = percent(min(late.values())), percent(max(late.values()))
        share = least if least == greatest else f"{least} to {greatest}"
        text = (
            f"The losses hardly drift, yet {share} of the whole descent of {listing(list(late))} fell in the last "
            "quarter of the run: learning is slow, NOT settled."
        )
    elif names:
        several = "The losses of all methods have converged, so that they can be compared."
        return Sentence(several if len(names) > 1 else f"The loss of {names[0]} has converged.", TRUST)
    else:
        return None
    return Sentence(text, TRUST, warns=True)
