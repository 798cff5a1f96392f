"""The answer of a run, computed from tables and metrics: title, key figures, and findings about each question."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from fedsim.common.errors import FedsimError
from fedsim.common.instants import HOUR_S, time_unit
from fedsim.experiment.cautions import of_paid_rounds, of_separation, of_shocks, of_training, why_nothing
from fedsim.findings.bias import (
    FEW,
    ROUNDING,
    Bias,
    ClientShare,
    Seen,
    bias_of,
    contrast_words,
    never_by_chance,
    tenth_shares,
    turn_share,
)
from fedsim.findings.finding import BIAS, COST, MODEL, NEXT, TRUST, WHAT, Certainty, Finding, Tile
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import capitalized, count, duration, equation, from_to, listing, many, number, percent
from fedsim.findings.methods import initial_loss, model_findings, optimizer_figures, slow_descents
from fedsim.population import build_population
from fedsim.scenario.server import has_random_size
from fedsim.theory.prediction import before_the_chain

_NAMED = 6  # of more groups than these, only the first and the last are named
_SMALL = 0.05  # a difference that a run should be able to see
_LONG = 1_000  # times as long as it was, at which no run is proposed
_NOBODY = {Seen.NO_ROUNDS, Seen.NOBODY, Seen.ALONE, Seen.UNMEASURED}


def run_answer(run: FinishedRun) -> tuple[Finding, ...]:
    """Say in words what happened, how biased it was, at what cost, how far to trust the figures, and what to do next.

    The first finding about each question is its line on the first screen.
    """
    if run.rounds.is_empty():
        return (Finding("The run has no rounds: there is nothing to measure.", WHAT, warns=True),)
    bias = bias_of(run)
    model = [*model_findings(run), *_training(run)]
    trust = sorted(_trust(run, bias), key=lambda each: not each.warns)
    return (*_what(run, bias), *_bias(run, bias), *model, *_cost(run), *trust, *_next(run, bias))


def run_facts(run: FinishedRun) -> tuple[Finding, ...]:
    """Return what was found of each group, time zone and tenth."""
    bias = bias_of(run)
    looks = sum(math.isfinite(part.visible) for part in bias.parts)
    return tuple(_fact(part, looks) for part in bias.parts)


def _fact(part: ClientShare, looks: int) -> Finding:
    tested = math.isfinite(part.visible)
    certainty = Certainty.TOLD if part.told else Certainty.NOT_TOLD if tested else Certainty.UNTESTED
    within = f" ({number(part.low, 3)} to {number(part.high, 3)})" if tested else ""
    return Finding(
        f"{capitalized(part.words)} takes part {number(part.times, 3)} times its fair share{within}: {certainty}.",
        BIAS,
        name=f"{part.kind}.{part.name}",
        quantity="participation share over fair share",
        scope=part.name,
        value=part.times,
        low=part.low if tested else None,
        high=part.high if tested else None,
        reference=1.0,
        against="equal chances for everybody",
        test=f"binomial with an effective number of draws, Holm over {looks} looks" if tested else "",
        certainty=certainty,
        visible=part.visible if tested else None,
    )


def run_finding(run: FinishedRun) -> str:
    """Answer in one sentence: who takes part, and whether that is more than chance; the title of the page."""
    bias = bias_of(run)
    if run.manifest.get("stalled"):
        return f"The run stalled in {run.noun} {len(run.rounds) - 1:,} and ended there."
    if why_nothing(run.metrics) and bias.seen is not Seen.NO_ROUNDS:
        return _failure(run)
    if (learnt := _learnt(run)) and any(word in run.scenario.question.lower() for word in _OF_MODELS):
        return learnt
    if len(named := [part for part in bias.parts if _asked_of(part.name, run.scenario.question)]) == 1:
        (part,), digits = named, 3
        while (
            named[0].told
            and number(1.0, digits) in {number(part.low, digits), number(part.high, digits)}
            and digits < 6
        ):
            digits += 1  # an interval without 1 is not written as one that ends there
        within = f"{number(part.low, digits)} to {number(part.high, digits)}"
        if math.isfinite(part.visible) and min(part.taken, part.taken / max(part.times, 1e-9)) >= FEW:
            judged = "more than chance" if part.told else "which chance explains"
            share = f"{capitalized(part.words)} takes part {number(part.times, 3)} times its fair share ({within})"
            return f"{share}, {judged}."
    if bias.seen is Seen.BIAS:
        who = _favoured(run, bias)
        if not bias.whole:
            return f"{capitalized(who)}, which is more than chance."
        return f"Participation is {percent(bias.tv)} away from uniform (total variation){f'; {who}' if who else ''}."
    if bias.seen is Seen.NONE and (bias.more_even or bias.measured <= bias.fair / 2):
        return "Participation is more even than equal chances would make it."
    if bias.seen is Seen.NONE and bias.visible is not None and bias.visible > 2 * _SMALL:
        return f"Too short to tell bias from chance: a distance below {percent(bias.visible)} would not show."
    shows = "" if bias.visible is None else f", and a distance of {percent(bias.visible)} would show"
    return {
        Seen.NO_ROUNDS: "Nothing was simulated: the run has no rounds.",
        Seen.NOBODY: "Nobody took part.",
        Seen.ALONE: "The one client takes part every time.",
        Seen.UNMEASURED: "How evenly clients take part was not measured.",
        Seen.EVEN: "Every client takes part equally often."
        if run.clients["participations"].min()
        else "Clients take part one after the other, and none took part twice yet.",
        Seen.ONCE: "Nobody took part twice: the run cannot show a bias between clients.",
        Seen.UNTESTED: f"Too short to tell bias from chance: the run has {bias.why}.",
        Seen.NONE: f"No bias to be seen: participation is as even as equal chances make it{shows}.",
    }[bias.seen]


def _asked_of(name: str, question: str) -> bool:
    return len(name) > 2 and re.search(rf"\b{re.escape(name)}\b", question, re.IGNORECASE) is not None


_OF_MODELS = ("model", "loss", "learn", "train", "method", "optimizer")


def _learnt(run: FinishedRun) -> str:
    """Say what participation does to the model, where that was compared with unbiased training."""
    found = next((each for each in model_findings(run) if each.quantity == "excess_loss"), None)
    if found is None or found.value is None or found.certainty is Certainty.UNTESTED:
        return ""
    if found.certainty is Certainty.NOT_TOLD:
        return "No loss ends above that of unbiased training by more than chance."
    side = "above" if found.value > 0 else "below"
    return f"The loss of {found.scope} ends {number(abs(found.value), 2)} {side} that of {found.against}."


def _favoured(run: FinishedRun, bias: Bias) -> str:
    """Say who takes part more often than others, or never; empty where nobody can be named."""
    if bias.contrast is not None:
        return contrast_words(*bias.contrast)
    counts = run.clients["participations"]
    taken, never = int(counts.sum()), int((counts == 0).sum()) / len(counts)
    if never > max(0.01, 2 * never_by_chance(taken, len(counts))):
        return f"{percent(never)} of the clients never take part"
    tenths = tenth_shares(run)
    if tenths is None or tenths.most <= tenths.most_by_chance or taken * tenths.most < FEW:
        return ""
    by_chance = percent(tenths.most_by_chance)
    return f"the busiest tenth gives {percent(tenths.most)} of the reports, where chance would make it {by_chance}"


def _what(run: FinishedRun, bias: Bias) -> Iterator[Finding]:
    took, clients = int((run.clients["participations"] > 0).sum()), len(run.clients)
    if failure := _failure(run):
        yield Finding(failure, WHAT, warns=True)
    over = f"Over {count(len(run.rounds), run.noun)}{_separation(run)}"
    if bias.seen is Seen.NOBODY:
        yield Finding(f"{over}, nobody took part: there is no frequency to measure.", WHAT, warns=True)
        yield Finding(f"{_wanted(run)} {_caps(run)}".strip(), WHAT)
        return
    did = "took part" if run.selected is None else "reported"
    everyone = f"all {count(clients, 'client')} {did}" if clients > 1 else f"the one client {did}"
    some = f"{count(took)} of {count(clients, 'client')} {did} ({percent(took / clients)})"
    yield Finding(f"{over}, {some if took < clients else everyone}.", WHAT)
    yield Finding(_wanted(run), WHAT)
    if caps := _caps(run):
        yield Finding(caps, WHAT)
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
        said[0] += f" (a client that took part waits {'up to ' if least != most else ''}{count(most, run.noun)})"
    shortest, longest = float(cooldown_s.min() or 0.0), float(cooldown_s.max() or 0.0)  # type: ignore[arg-type]
    if longest:
        same = duration(longest) if shortest == longest else f"{duration(shortest)} to {duration(longest)}"
        said.append(f"a cool-down of {same}")
    return f" with {listing(said)}"


def _wanted(run: FinishedRun) -> str:
    """Say how many clients a round selects, and why these are more than it wants reports from."""
    server, selected = run.scenario.server, run.rounds["selected"]
    if not server.selects_once:
        places, buffer = count(server.concurrency, "client"), count(server.buffer, "report")
        return f"The server keeps {places} at work at a time and makes a version of every {buffer}."
    if has_random_size(server.selection):
        law, mean, empty = server.selection.kind, float(selected.mean() or 0.0), int((selected == 0).sum())  # type: ignore[arg-type]
        text = f"Cohorts vary in size ({law} selection): {many(mean, 'client')} on average"
        return (
            f"{text}, and {count(empty)} of {count(len(selected), 'round')} selected nobody." if empty else f"{text}."
        )
    if server.wanted == server.cohort:
        return f"Each round wants {count(server.cohort, 'client')}, its cohort."
    return (
        f"Each round wants {count(server.cohort, 'report')} and selects {count(server.wanted, 'client')} for them "
        f"(over_select {number(server.over_select)}), since some may not report."
    )


def _caps(run: FinishedRun) -> str:
    """Say how often a client may take part, where something bounds it, and how many did so often."""
    caps = [each.participations.most for each in run.scenario.population if each.participations is not None]
    if not caps:
        return ""
    most = getattr(caps[0], "value", None)
    if most is None or any(cap != caps[0] for cap in caps) or len(caps) < len(run.scenario.population):
        return "Caps (`participations`) bound how often some clients may take part."
    column = "participations" if run.scenario.server.cooldown_from == "reported" else "selections"
    reached = int((run.clients.get_column(column, default=run.clients["participations"]) >= most).sum())
    return f"A client may take part {count(most, 'time')} at most (`participations`); {count(reached)} did so often."


def _per_client(run: FinishedRun) -> str:
    """Say how often a client took part: on average, at most, and how many never did."""
    counts = run.clients["participations"]
    taken, clients = int(counts.sum()), len(counts)
    most = int(counts.to_numpy().max())
    did = "took part (was selected)" if run.selected is None else "gave a report that was taken"
    times = "time" if taken == clients else "times"
    text = f"A client {did} {number(taken / clients, 3)} {times} on average and {count(most)} at most"
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
        yield Finding("How far participation lies from uniform was not measured.", BIAS)
    if bias.seen in _NOBODY:
        return
    yield _of_the_whole(bias, run.selected is None)
    if bias.seen is Seen.EVEN:
        return
    for kind in ("group", "zone"):
        if parts := bias.of(kind):
            yield Finding(_parts(parts), BIAS)
    if (ends := bias.contrast) is not None and ends[0].kind not in {"group", "zone"}:
        yield Finding(f"{capitalized(contrast_words(*ends))}, which is more than chance.", BIAS)
    if bias.corrected is not None and bias.whole:
        yield Finding(
            f"As it was measured, with noise, the distance is {percent(bias.measured)}; equal chances alone would give "
            f"{percent(bias.fair)}.",
            BIAS,
        )
    if run.pull is not None:
        pull = percent(run.pull / 2)
        yield Finding(f"The pull on the model, 1/n for each of the n reports of a round, is {pull} from uniform.", BIAS)
    if run.selected is not None:
        yield Finding(_selections(run, run.selected), BIAS)
    if (theory := run.metrics.get("participation.l1_uniform_theory")) is not None:
        reason = "the buffer's flow" if run.gathered.staleness is not None else "weights, cohort and separation alone"
        yield Finding(f"Theory, which computes what {reason} do in the long run, says {turn_share(theory)}.", BIAS)


def _of_the_whole(bias: Bias, selections: bool) -> Finding:
    """Return the finding about the distance from uniform."""
    own, fair = percent(bias.measured), f"where equal chances would give {percent(bias.fair)}"
    seen, certainty = "", Certainty.TOLD if bias.whole else Certainty.NOT_TOLD
    corrected = bias.whole and bias.corrected is not None
    if bias.visible is not None and bias.visible < 1:
        seen = f"; {percent(bias.visible)} beyond chance would show in four of five such runs"
    if bias.seen is Seen.EVEN:
        text, certainty = (
            f"All took part equally often, but for one participation: {own} from uniform (total variation).",
            Certainty.EXACT,
        )
        text = text if bias.measured > ROUNDING else "Everyone took part equally often: 0 % from uniform."
    elif bias.seen is Seen.ONCE:
        text = f"Nobody took part twice, so that {own} from uniform (total variation) says nothing of a bias."
        certainty = Certainty.UNTESTED
    elif bias.whole:
        ends = dict.fromkeys((percent(bias.low), percent(bias.high)))
        within = f" ({' to '.join(ends)} with 95 %)" if corrected and len(ends) > 1 else ""
        of = "participations" if selections else "reports"
        text = f"{percent(bias.tv)} of the {of}{within} would have to come from other clients for all to give equally "
        text += f"many (total variation distance), {fair}: more than chance."
    elif bias.seen is Seen.UNTESTED:
        text = f"Bias cannot be tested with {bias.why}: participation is {own} away from uniform (total "
        text, certainty = f"{text}variation distance), {fair}.", Certainty.UNTESTED
    elif bias.more_even:
        text = f"Participation is {own} away from uniform (total variation distance), {fair}: more even than chance."
    else:
        but = "For all clients together, chance" if bias.seen is Seen.BIAS else "Chance"
        text = f"{but} explains the distance from uniform, {own} (total variation), {fair}{seen}."
    return Finding(
        text,
        BIAS,
        name="participation.tv",
        quantity=f"participation.{'' if selections else 'reported_'}tv_uniform{'_corrected' if corrected else ''}",
        value=bias.tv if corrected else bias.measured,
        low=bias.low if corrected else None,
        high=bias.high if corrected else None,
        reference=0.0 if corrected else bias.fair,
        against="equal chances for everybody",
        certainty=certainty,
        test="Pearson's test, and the noise of the run" if certainty in {Certainty.TOLD, Certainty.NOT_TOLD} else "",
        visible=bias.visible,
    )


def _parts(parts: tuple[ClientShare, ...]) -> str:
    """Compare groups with their size, and say which of them differ by more than chance."""
    ordered = sorted(parts, key=lambda each: -each.times)
    several = len(parts) > _NAMED
    shown = [ordered[0], min(parts, key=lambda each: each.times)] if several else ordered
    nouns = "time zones" if parts[0].kind == "zone" else "groups"
    shares = [f"{each.words} {number(each.times, 3)}" for each in shown]
    text = (
        f"Participation share over fair share: {f'of {count(len(parts))} {nouns} ' if several else ''}{listing(shares)}"
    )
    told, tested = [each for each in parts if each.told], [each for each in parts if math.isfinite(each.visible)]
    if not tested:
        return f"{text}; the run is too short to tell this from chance."
    if not told:
        least = percent(max(each.visible for each in tested))
        return f"{text}; chance explains this, and a difference of {least} would show in four of five such runs."
    if len(told) == len(parts):
        return f"{text}; {'each' if len(parts) > 2 else 'this'} is more than chance."
    which = listing([each.words for each in told]) if len(told) <= _NAMED else f"{count(len(told))} of them"
    return f"{text}; {which} {'differs' if len(told) == 1 else 'differ'} from 1 by more than chance."


def _selections(run: FinishedRun, metrics: Mapping[str, float]) -> str:
    """Say what selections alone look like, of which not all ended with a report."""
    some, clients = int((run.clients["selections"] > 0).sum()), len(run.clients)
    who = f"all {count(clients)} clients were" if some == clients else f"{count(some)} of {count(clients)} clients were"
    text = f"Selections, of which not all ended with a report: {who} selected"
    if (measured := metrics.get("participation.l1_uniform")) is not None:
        text += f", {turn_share(measured)} from uniform"
    theory = metrics.get("participation.l1_uniform_theory")
    return f"{text} (theory: {turn_share(theory)})." if theory is not None else f"{text}."


def _training(run: FinishedRun) -> Iterator[Finding]:
    sizes, divisor = run.rounds["reported"], run.scenario.divisor
    yield from (Finding(f"{capitalized(text)}.", MODEL, warns=True) for text in of_training(run.metrics))
    if run.scenario.learning is not None and sizes.filter(sizes > 0).n_unique() > 1:
        how = "by their number, so that a report counts more in a small round"
        if divisor is not None or run.wanted is None:
            how = f"by {count(divisor or run.scenario.server.buffer or 1)}, so that all reports count alike"
        yield Finding(f"The server divides the sum of a {run.noun}'s reports {how}.", MODEL)


# What rounds that lack clients do, by the scenario's `shortage`
_SHORT = {"wait": ", and waited for more", "proceed": ", and went on with fewer", "skip": ", and were skipped"}


def _cost(run: FinishedRun) -> Iterator[Finding]:
    metric, server, said = run.metrics.get, run.scenario.server, list[str]()
    if hours := metric("sessions.device_hours"):
        wasted = metric("sessions.wasted_share")
        vain = f", {percent(wasted)} of that without a report that was taken" if wasted else ""
        said.append(f"{number(hours, 3)} device-hours in sessions{vain}")
    if (pace := metric("rounds.per_day")) is not None:
        typical = metric("rounds.duration.p50")
        median = f" (the median {run.noun} took {duration(typical)})" if typical is not None else ""
        said.append(f"{many(pace, run.noun)} per simulated day{median}")
    if said:
        yield Finding(f"{capitalized('; '.join(said))}.", COST)
    if waiting := metric("rounds.waiting_share"):
        waited_s, longest = waiting * run.simulated_s, metric("rounds.wait.max")
        size, unit = (HOUR_S, "h") if waited_s >= HOUR_S else time_unit(waited_s)
        text = f"{number(waited_s / size, 3)} of {number(run.simulated_s / size, 3)} {unit}"
        text += f", the longest {duration(longest)}" if longest else ""
        yield Finding(f"Rounds spent {percent(waiting)} of the time waiting for clients ({text}).", COST)
    if failed := metric("rounds.failed_share"):
        least = run.scenario.sync_server.minimum_reports
        text = f"{percent(failed)} of the rounds failed: fewer than {count(least, 'report')} came, and none was taken"
        yield Finding(f"{text}.", COST, warns=True)
    if (shortage := metric("rounds.shortage_share")) and server.shortage is not None:
        text = f"{percent(shortage)} of the rounds found fewer eligible clients than they wanted to select"
        if (met := metric("rounds.target_share")) is not None:
            text += f"{_SHORT[server.shortage]}; {percent(met)} of all rounds closed with the reports they wanted"
        yield Finding(f"{text}.", COST)
    if (reported := metric("sessions.reported_share")) is not None and reported < 1:
        late = metric("sessions.late_share")
        why = (
            f" ({percent(late)} missed the deadline of {duration(server.deadline)})" if late and server.deadline else ""
        )
        yield Finding(f"{percent(reported)} of the sessions ended with a report{why}.", COST, warns=reported == 0)


def _trust(run: FinishedRun, bias: Bias) -> Iterator[Finding]:
    """Tell what chance does to the figures, what may not have been meant, and whether training settled."""
    separation, cooldown_s = run.clients["separation"].to_numpy(), run.clients["cooldown_s"].to_numpy()
    meant = tuple(of_separation(run.scenario, separation, cooldown_s))
    if nothing := why_nothing(run.metrics):
        yield Finding("Without a report that was taken nothing is known of a bias.", TRUST, warns=True)
    for text in (*of_shocks(run.scenario), *meant, *of_paid_rounds(run.metrics)):
        yield Finding(f"{capitalized(text)}.", TRUST, warns=True)
    if nothing:
        return
    if bias.seen in {Seen.ONCE, Seen.UNTESTED}:
        why = bias.why or "participations of which none is a client's second"
        yield Finding(f"Bias and chance cannot be distinguished by {why}.", TRUST, warns=True)
    apart, noise = run.metrics.get("participation.l1_chain"), run.metrics.get("participation.l1_noise")
    if noise is not None and bias.seen not in {Seen.ONCE, Seen.UNTESTED}:
        by_chance = f"sampling noise alone would give {turn_share(noise)}"
        if apart is None:
            yield Finding(f"No theory covers this scenario{_why_not(run)}.", TRUST)
        else:
            text = f"Measured and theoretical frequencies are {turn_share(apart)} apart (total variation)"
            far = apart > 2 * noise + ROUNDING
            text += f", where {by_chance}"
            yield Finding(f"{text}: the theory does not describe this run." if far else f"{text}.", TRUST, warns=far)
    elif not meant and not run.scenario.shocks and bias.seen not in {Seen.ONCE, Seen.UNTESTED}:
        yield Finding(
            "One run with one seed: intervals are of the chance within it; other seeds (`sweep.seeds`) tell the rest.",
            TRUST,
        )
    if noise is None and bias.seen in {Seen.NONE, Seen.BIAS}:
        yield Finding(f"Chance was judged by the run itself{_why_not(run) and ', since no theory covers it'}.", TRUST)
    yield from _convergence(run)


def _why_not(run: FinishedRun) -> str:
    """Say why theory does not hold, in brackets, as far as that is known."""
    with suppress(FedsimError):
        if isinstance(why := before_the_chain(run.scenario, build_population(run.scenario)), str):
            return f" ({why})"
    return ""


def _convergence(run: FinishedRun) -> Iterator[Finding]:
    names = [name for name in optimizer_figures(run, "loss") if run.metrics.get(f"learning.{name}.moved") != 0]
    worse, ends = _worse(run, names), optimizer_figures(run, "loss")
    if worse:
        those = listing([f"{name} ({number(initial_loss(run, name), 3)} to {number(ends[name], 3)})" for name in worse])
        yield Finding(f"Training made the model worse than it was before, by the loss of {those}.", TRUST, warns=True)
    names = [name for name in names if name not in worse]
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
        who = listing(names) if worse else "all methods"
        text = f"The losses of {who} have converged, so that they can be compared."
    elif names:
        text = f"The loss of {names[0]} has converged."
    else:
        return
    yield Finding(text, TRUST, warns=bool(moving or unknown or late))


def _worse(run: FinishedRun, names: list[str]) -> list[str]:
    """Return the optimizers whose loss ends above that of the initial model, by more than its three digits show."""
    ends = optimizer_figures(run, "loss")
    starts = {name: start for name in names if (start := initial_loss(run, name)) is not None}
    return [name for name, start in starts.items() if ends[name] > start and number(ends[name], 3) != number(start, 3)]


def _next(run: FinishedRun, bias: Bias) -> Iterator[Finding]:
    """Yield what to do next, the most urgent first."""
    metric, server = run.metrics.get, run.scenario.server
    said, noun, trained = list[str](), run.noun, optimizer_figures(run, "loss")
    if run.manifest.get("stalled"):
        said.append("Lower the separation, the cohort or the caps, or let rounds go on with fewer clients (`shortage`)")
    elif why_nothing(run.metrics) or bias.seen is Seen.NOBODY:
        late = server.deadline is not None and metric("sessions.late_share")
        said.append("Set a longer `deadline`" if late else "See below how sessions ended, and why no report was taken")
    if _worse(run, list(trained)) or any(name.endswith(".diverged_round") for name in run.metrics):
        said.append("Lower the step (`learning.step_size`): training made a model worse")
    if bias.seen is Seen.UNTESTED:
        said.append(f"Run longer (`stop`): {bias.why} do not tell bias from chance")
    elif bias.seen is Seen.ONCE and bias.visible is None:
        said.append("Run longer (`stop`), until clients take part more than once")
    elif bias.seen in {Seen.NONE, Seen.ONCE} and not bias.more_even and bias.visible is not None:
        seen = max([bias.visible, *(part.visible for part in bias.parts if math.isfinite(part.visible))])
        times = math.ceil((seen / _SMALL) ** 2)
        if 1 < times <= _LONG:
            long = f"{count(times * len(run.rounds), noun)}, about {duration(times * run.simulated_s)}"
            said.append(f"Run {count(times)} times as long ({long}) to see a difference of 5 %")
    elif bias.seen is Seen.BIAS:
        said += _against_bias(run, trained)
    state = [metric(f"learning.{name}.converged") for name in trained]
    if trained and (0 in state or slow_descents(run)):
        said.append("Run longer, or with a larger step: losses are not settled")
    if not said:
        said.append("Nothing: the run answers its question" if run.scenario.question else "Nothing: no more is needed")
    yield from (Finding(f"{text}.", NEXT) for text in said)


def _against_bias(run: FinishedRun, trained: Iterable[str]) -> Iterator[str]:
    """Say what helps against uneven participation."""
    once, uneven = run.scenario.server.selects_once, run.clients["weight"].min() != run.clients["weight"].max()
    if run.scenario.learning is not None and once and not any("debias" in name for name in trained):
        yield "Train with `debiased_fedavg` too, which corrects the model for uneven participation"
    if uneven and run.scenario.always_available and once:
        yield "Sweep the separation: a longer one makes participation more even"
    elif run.scenario.learning is None:
        yield "Sweep the separation or the cool-down to see what evens participation out, and what it costs"


def run_tiles(run: FinishedRun) -> Iterator[Tile]:
    """Return the key figures, at most five, the most important first."""
    bias, metric = bias_of(run), run.metrics.get
    if bias.seen not in _NOBODY:
        detail = f"equal chances: {percent(bias.fair)}"
        if bias.corrected is not None and bias.whole:
            detail = f"{from_to(percent(bias.low), percent(bias.high))} with 95\N{NARROW NO-BREAK SPACE}%"
        yield Tile(percent(bias.tv if bias.whole else bias.measured), "from uniform (total variation)", detail)
    if (ends := bias.contrast) is not None:
        if min(ends[0].taken, ends[1].taken) >= FEW:
            yield Tile(
                f"{number(ends[0].times / ends[1].times, 2)}\N{MULTIPLICATION SIGN}",
                f"{ends[0].words} compared with {ends[1].words}",
            )
    elif (coverage := metric("participation.coverage")) is not None and bias.seen not in _NOBODY:
        never = f"{percent(1 - coverage)} never" if coverage < 1 else ""
        yield Tile(percent(coverage), f"of clients {'took part' if run.selected is None else 'reported'}", never)
    for each in model_findings(run):
        if each.quantity == "excess_loss" and each.value is not None:
            yield Tile(number(each.value, 2), f"loss above that of {each.against}", each.scope)
        elif each.quantity == "loss":
            yield Tile(number(each.value, 3), f"loss of {each.scope}")
    if (waiting := metric("rounds.waiting_share")) is not None and waiting > 0:
        yield Tile(percent(waiting), "of the time spent waiting")
    pace = metric("rounds.per_day")
    yield Tile(
        count(len(run.rounds)),
        f"{run.noun}{'s' if len(run.rounds) != 1 else ''}",
        f"{number(pace, 3)} a day" if pace else "",
    )
