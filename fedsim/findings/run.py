"""The answer in words, computed from tables and metrics: the title of a page, and the sentences under it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from fedsim.common.errors import FedsimError
from fedsim.common.instants import HOUR_S, time_unit
from fedsim.experiment.cautions import (
    drawn_together,
    of_chance,
    of_separation,
    of_shocks,
    of_training,
    why_nothing,
)
from fedsim.findings.bias import (
    ROUNDING,
    Bias,
    GroupRate,
    Seen,
    bias_of,
    group_rates,
    largest_contrast,
    never_by_chance,
    tenth_shares,
    turn_share,
)
from fedsim.findings.finding import BIAS, COST, MODEL, TRUST, WHAT, Finding
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import (
    capitalized,
    count,
    duration,
    equation,
    give_or_take,
    listing,
    number,
    percent,
    percent_within,
    roughly,
)
from fedsim.findings.methods import learning_sentences, optimizer_figures, slow_descents
from fedsim.population import build_population
from fedsim.theory.prediction import before_the_chain

_NAMED = 6  # of more groups than these, only the first and the last are named


def run_answer(run: FinishedRun) -> tuple[Finding, ...]:
    """Say in words what happened, how biased it was, at what cost, and how far the figures can be trusted."""
    if run.rounds.is_empty():
        return (Finding("The run has no rounds: there is nothing to measure.", WHAT, warns=True),)
    bias = bias_of(run)
    parts = (_what(run, bias), _bias(run, bias), _learning(run), _cost(run), _trust(run, bias))
    return tuple(chain.from_iterable(parts))


def _what(run: FinishedRun, bias: Bias) -> Iterator[Finding]:
    took, clients = int((run.clients["participations"] > 0).sum()), len(run.clients)
    if failure := _failure(run):
        yield Finding(failure, WHAT, warns=True)
    over = f"Over {count(len(run.rounds), run.noun)}{_separation(run)}"
    if bias.seen is Seen.NOBODY:
        yield Finding(f"{over}, nobody took part: there is no frequency to measure.", WHAT, warns=True)
        return
    did = "took part" if run.selected is None else "reported"
    everyone = f"all {count(clients, 'client')} {did}" if clients > 1 else f"the one client {did}"
    some = f"{count(took)} of {count(clients, 'client')} {did} ({percent(took / clients)})"
    yield Finding(f"{over}, {some if took < clients else everyone}.", WHAT)
    yield Finding(_wanted(run), WHAT)
    if clients > 1:
        yield Finding(_per_client(run), WHAT)


def _failure(run: FinishedRun) -> str:
    """Say why the run is no success although it ended: it stalled, or took no report; "" where it is one."""
    stalled, nothing = run.manifest.get("stalled"), why_nothing(run.metrics)
    return f"The run stalled: {stalled}." if stalled else f"{capitalized(nothing)}." if nothing else ""


def _separation(run: FinishedRun) -> str:
    """Say what keeps clients from coming back at once: with one separation R, and with cool-downs."""
    separation, cooldown_s = run.clients["separation"], run.clients["cooldown_s"]
    least, most = int(separation.min() or 0), int(separation.max() or 0)  # type: ignore[arg-type]
    from_to = f"separations from {equation('R', least)} to {most}"
    said = [from_to if least != most else f"separation {equation('R', most)}"]
    if most:
        said[0] += f" (who takes part rests for {'up to ' if least != most else ''}{count(most, run.noun)})"
    shortest, longest = float(cooldown_s.min() or 0.0), float(cooldown_s.max() or 0.0)  # type: ignore[arg-type]
    if longest:
        same = duration(longest) if shortest == longest else f"{duration(shortest)} to {duration(longest)}"
        said.append(f"a cool-down of {same}")
    return f" with {listing(said)}"


def _wanted(run: FinishedRun) -> str:
    """Say how many clients a round selects, and why these are more than it wants reports from."""
    server = run.scenario.server
    if not server.selects_once:
        places, buffer = count(server.concurrency, "client"), count(server.buffer, "report")
        return f"The server keeps {places} at work at a time and makes a version of every {buffer}."
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
    did = "took part (was selected)" if run.selected is None else "gave a report that was taken"
    text = f"A client {did} {number(taken / clients, 3)} times on average and {count(most)} at most"
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


def _bias(run: FinishedRun, bias: Bias) -> Iterator[Finding]:
    if bias.seen is Seen.UNMEASURED:
        yield Finding("How far frequencies lie from uniform was not measured.", BIAS)
    elif bias.seen is Seen.EVEN:
        yield Finding("Everyone took part equally often.", BIAS)
    if bias.seen in {Seen.NOBODY, Seen.ALONE, Seen.UNMEASURED, Seen.EVEN}:
        return
    share = percent_within(bias.misplaced, bias.margin)
    fair, interval = percent(bias.misplaced_by_chance), "; ± is a 95 % interval" if bias.margin else ""
    turn = "participation of one client" if run.selected is None else "report that was taken"
    yield Finding(
        f"For all to take part equally, {share} of the turns (a turn is one {turn}{interval}) "
        f"would have to go to other clients, where equal chances for everybody would misplace {fair}.",
        BIAS,
    )
    if bias.lasting is not None:
        corrected, *ends = map(turn_share, bias.lasting)
        yield Finding(f"Noise adds to that: without it, {corrected} would ({' to '.join(ends)} with 95 %).", BIAS)
    if run.pull is not None:
        pull = percent(run.pull / 2)
        yield Finding(f"Of the pull on the model, 1/n for each of the n reports of a round, {pull} is misplaced.", BIAS)
    if run.selected is not None:
        yield Finding(_selections(run, run.selected), BIAS)
    if (theory := run.metrics.get("participation.l1_uniform_theory")) is not None:
        says = percent(theory / 2) if theory > ROUNDING else "none"
        reason = "the buffer's flow" if run.gathered.staleness is not None else "weights, cohort and separation alone"
        yield Finding(f"Theory, which computes what {reason} do in the long run, says {says}.", BIAS)
    if bias.seen is not Seen.ONCE:
        yield from _who(run, bias)


def _selections(run: FinishedRun, metrics: Mapping[str, float]) -> str:
    """Say what selections alone look like, of which not all ended with a report."""
    some, clients = int((run.clients["selections"] > 0).sum()), len(run.clients)
    who = f"all {count(clients)} clients were" if some == clients else f"{count(some)} of {count(clients)} clients were"
    text = f"Selections, of which not all ended with a report: {who} selected"
    if (measured := metrics.get("participation.l1_uniform")) is not None:
        text += f", {turn_share(measured)} are misplaced"
    theory = metrics.get("participation.l1_uniform_theory")
    return f"{text} (theory: {turn_share(theory)})." if theory is not None else f"{text}."


def _who(run: FinishedRun, bias: Bias) -> Iterator[Finding]:
    """Say who gets more than a share, and who less: by group, by weight, or else by how often they took part."""
    groups, ends, tenths = group_rates(run), largest_contrast(run), tenth_shares(run)
    if groups:
        yield Finding(_groups(groups), BIAS)
    if ends is not None and ends.times is None:
        yield Finding(f"{capitalized(ends.least)} never takes part.", BIAS)
    elif ends is not None and ends.margin is not None and ends.times is not None:
        interval = give_or_take(ends.times, ends.margin)
        yield Finding(f"{capitalized(ends.high)} takes part {interval} times as often as {ends.low}.", BIAS)
    elif not groups and ends is None and bias.seen in {Seen.BIAS, Seen.SLIGHT} and tenths is not None:
        fair = f"{percent(tenths.most_by_chance)} and {percent(tenths.least_by_chance)}"
        yield Finding(
            f"The tenth of the clients that took part most had {percent(tenths.most)} of the turns, the tenth that did "
            f"least {percent(tenths.least)}; by equal chances alone these would be {fair}.",
            BIAS,
        )


def _groups(groups: Sequence[GroupRate]) -> str:
    """Compare groups with their size, and with how far from it equal chances would put them."""
    first, *rest = sorted(groups, key=lambda group: -group.times)
    if several := len(groups) > _NAMED:
        rest = [min(groups, key=lambda group: group.times)]
    rates = [f"{first.name} takes part {number(first.times, 3)} times as often as its size says"]
    rates += [f"{group.name} {number(group.times, 3)}" for group in rest]
    begin = f"Of {count(len(groups), 'group')}, " if several else ""
    widest = max(group.margin for group in groups)
    within = "within" if widest >= 1 else f"between {number(1 - widest, 3)} and"
    do = "" if any(group.apart for group in groups) else ", and do"
    return f"{begin}{listing(rates)}; equal chances would keep each {within} {number(1 + widest, 3)}{do}."


def _learning(run: FinishedRun) -> Iterator[Finding]:
    sizes, divisor = run.rounds["reported"], run.scenario.divisor
    if run.scenario.learning is not None and sizes.filter(sizes > 0).n_unique() > 1:
        how = "by their number, so that a report counts more in a small round"
        if divisor is not None or run.wanted is None:
            how = f"by {count(divisor or run.scenario.server.buffer or 1)}, so that all reports count alike"
        yield Finding(f"The server divides the sum of a {run.noun}'s reports {how}.", MODEL)
    yield from (Finding(text, MODEL) for text in learning_sentences(run))
    yield from (Finding(f"{capitalized(text)}.", MODEL, warns=True) for text in of_training(run.metrics))


# What rounds that lack clients do, by the scenario's `shortage`
_SHORT = {"wait": ", and waited for more", "proceed": ", and went on with fewer", "skip": ", and were skipped"}


def _cost(run: FinishedRun) -> Iterator[Finding]:
    metric, server = run.metrics.get, run.scenario.server
    if waiting := metric("rounds.waiting_share"):
        waited_s, longest = waiting * run.simulated_s, metric("rounds.wait.max")
        size, unit = (HOUR_S, "h") if waited_s >= HOUR_S else time_unit(waited_s)
        text = f"{number(waited_s / size, 3)} of {number(run.simulated_s / size, 3)} {unit}"
        text += f", the longest {duration(longest)}" if longest else ""
        yield Finding(f"Rounds spent {percent(waiting)} of the time waiting for clients ({text}).", COST)
    if (pace := metric("rounds.per_day")) is not None:
        text = f"The pace was {number(pace, 3)} {run.noun}s per simulated day"
        if (typical := metric("rounds.duration.p50")) is not None:
            once = ", once it had its clients" if waiting else ""
            text += f"; the median {run.noun} took {duration(typical)}{once}"
        yield Finding(f"{text}.", COST)
    if failed := metric("rounds.failed_share"):
        least = run.scenario.sync_server.minimum_reports
        text = f"{percent(failed)} of the rounds failed: fewer than {count(least, 'report')} came, and none was taken"
        yield Finding(f"{text}.", COST, warns=True)
    if (shortage := metric("rounds.shortage_share")) and server.shortage is not None:
        text = f"{percent(shortage)} of the rounds found fewer eligible clients than they wanted to select"
        if (met := metric("rounds.target_share")) is not None:
            text += f"{_SHORT[server.shortage]}; {percent(met)} of all rounds closed with the reports they wanted"
        yield Finding(f"{text}.", COST)
    if hours := metric("sessions.device_hours"):
        wasted = metric("sessions.wasted_share")
        vain = f", {percent(wasted)} of that in vain (without a report that was taken)" if wasted else ""
        yield Finding(f"Devices spent {number(hours, 3)} device-hours in sessions{vain}.", COST)
    if (reported := metric("sessions.reported_share")) is not None and reported < 1:
        yield Finding(f"{percent(reported)} of the sessions ended with a report.", COST, warns=reported == 0)


def _trust(run: FinishedRun, bias: Bias) -> Iterator[Finding]:
    """Tell what chance does to the figures, what may not have been meant, and whether training settled."""
    if why_nothing(run.metrics):
        return
    counts = run.clients["participations"]
    taken, together = int(counts.sum()), drawn_together(run.scenario)
    low, most = run.metrics.get("participation.l1_uniform_low", 0.0), int(counts.to_numpy().max(initial=0))
    short = list(of_chance(bias.measured, most, taken, len(counts), together, low))
    meant = of_separation(run.scenario, run.clients["separation"].to_numpy(), run.clients["cooldown_s"].to_numpy())
    for text in (*short, *of_shocks(run.scenario), *meant):
        yield Finding(f"{capitalized(text)}.", TRUST, warns=True)
    apart, noise = run.metrics.get("participation.l1_chain"), run.metrics.get("participation.l1_noise")
    if noise is not None and not short:
        if apart is None:
            moves = f"sampling noise alone would put {turn_share(noise)} of the turns elsewhere than in the long run"
            yield Finding(f"No theory covers this scenario{_why_not(run)}; {moves}.", TRUST)
        else:
            text = f"Measured and theoretical frequencies are {turn_share(apart)} of the turns apart"
            far = apart > 2 * noise + ROUNDING
            text += f", where sampling noise alone would give {turn_share(noise)}"
            yield Finding(f"{text}: the theory does not describe this run." if far else f"{text}.", TRUST, warns=far)
    yield from _convergence(run)


def _why_not(run: FinishedRun) -> str:
    """Say why theory does not hold, in brackets, as far as that is known."""
    with suppress(FedsimError):
        if isinstance(why := before_the_chain(run.scenario, build_population(run.scenario)), str):
            return f" ({why})"
    return ""


def _convergence(run: FinishedRun) -> Iterator[Finding]:
    names = [name for name in optimizer_figures(run, "loss") if run.metrics.get(f"learning.{name}.moved") != 0]
    state = {name: run.metrics.get(f"learning.{name}.converged") for name in names}
    moving, unknown = ([name for name in names if state[name] == value] for value in (0, None))
    late = {name: share for name, share in slow_descents(run).items() if name in names}
    if len(moving) == 1:
        text = f"The loss of {moving[0]} has NOT converged: it shows how far training got, not where it would end."
    elif moving:
        who = "all methods" if len(moving) == len(names) else listing(moving)
        text = f"The losses of {who} have NOT converged: they show how far training got, not where it would end."
    elif unknown:
        text = f"Whether the loss of {listing(unknown)} converged is not known."
    elif late:
        share = " to ".join(dict.fromkeys(percent(end(late.values())) for end in (min, max)))
        text = (
            f"The losses hardly drift, yet {share} of the whole descent of {listing(list(late))} fell in the last "
            "quarter of the run: learning is slow, NOT settled."
        )
    elif len(names) > 1:
        text = "The losses of all methods have converged, so that they can be compared."
    elif names:
        text = f"The loss of {names[0]} has converged."
    else:
        return
    yield Finding(text, TRUST, warns=bool(moving or unknown or late))


_MENTIONED = 0.01  # a smaller share of devices that never train is not worth a title
_TITLES = {
    Seen.NO_ROUNDS: "Nothing was simulated: the run has no rounds",
    Seen.NOBODY: "Nobody took part",
    Seen.ALONE: "The one device takes every turn",
    Seen.UNMEASURED: "How evenly devices take part was not measured",
    Seen.EVEN: "Every device takes part equally often",
    Seen.ONCE: "Nobody took part twice: the run cannot show a bias",
    Seen.TOO_SHORT: "The run is too short to tell bias from chance",
}


def run_finding(run: FinishedRun) -> str:
    """Say what a run found: how many turns go to the wrong devices, and who gets too many or none."""
    bias = bias_of(run)
    if run.manifest.get("stalled"):
        return f"The run stalled in {run.noun} {len(run.rounds) - 1:,} and ended there."
    if why_nothing(run.metrics) and bias.seen is not Seen.NO_ROUNDS:
        return _failure(run)
    if bias.seen in _TITLES:
        return f"{_TITLES[bias.seen]}."
    if bias.seen is Seen.NONE:
        how = "Turns are spread more evenly than" if bias.more_even else "No bias to be seen: turns are spread as"
        return f"{how} equal chances would spread them."
    if bias.seen is Seen.BIAS:
        share = capitalized(roughly(*bias.titled))
        return f"{share} of all {_turns(run)} the wrong devices{_favoured(run)}."
    begin = "Too short to tell how biased" if bias.seen is Seen.UNCLEAR else "Hardly biased"
    misplaced, fair = percent(bias.misplaced), percent(bias.misplaced_by_chance)
    return f"{begin}: {misplaced} of all {_turns(run)} the wrong devices, and equal chances would misplace {fair}."


def _turns(run: FinishedRun) -> str:
    """Call what a title counts: reports where not every selection ended with one."""
    return "turns go to" if run.selected is None else "reports come from"


def _favoured(run: FinishedRun) -> str:
    """Say who gets too many turns, or none; empty where neither can be named."""
    if (ends := largest_contrast(run)) is not None:
        return f"; {ends.words}"
    taken, clients = int(run.clients["participations"].sum()), len(run.clients)
    never = int((run.clients["participations"] == 0).sum()) / clients
    if never > max(_MENTIONED, 2 * never_by_chance(taken, clients)):
        return f"; {percent(never)} of the devices never {'get' if run.selected is None else 'give'} one"
    tenths = tenth_shares(run)
    if tenths is None or tenths.most <= tenths.most_by_chance:
        return ""
    by_chance = percent(tenths.most_by_chance)
    return f"; the busiest tenth takes {percent(tenths.most)} of them, where chance would give it {by_chance}"
