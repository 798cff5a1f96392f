"""What happened in a run, and how biased it was: findings about who took part."""

import math
from collections.abc import Iterator

from fedsim.common.formatting import capitalized, count, duration, equation, listing, many, number, percent
from fedsim.measure.shares import ROUNDING
from fedsim.pages.bias import NOBODY, Bias, ClientShare, Seen, contrast_words, never_by_chance
from fedsim.pages.finding import BIAS, WHAT, Certainty, Finding
from fedsim.pages.metric_wording import tv
from fedsim.run.cautions import why_nothing
from fedsim.run.run import Run
from fedsim.scenario.server import has_random_size

_NAMED = 6  # of more groups than these, only the first and the last are named


def what_happened(run: Run, bias: Bias) -> Iterator[Finding]:
    """Say what the run did and who took part."""
    took, clients = int((run.clients["reported"] > 0).sum()), len(run.clients)
    if failure := failure_of(run):
        yield Finding(failure, WHAT, warns=True)
    over = f"Over {count(len(run.rounds), run.noun)}{_separation(run)}"
    if bias.seen is Seen.NOBODY:
        yield Finding(f"{over}, nobody took part: there is no frequency to measure.", WHAT, warns=True)
        yield Finding(f"{_wanted(run)} {_caps(run)}".strip(), WHAT)
        return
    did = "took part" if run.all_reported else "reported"
    everyone = f"all {count(clients, 'client')} {did}" if clients > 1 else f"the one client {did}"
    some = f"{count(took)} of {count(clients, 'client')} {did} ({percent(took / clients)})"
    yield Finding(f"{over}, {some if took < clients else everyone}.", WHAT)
    yield Finding(_wanted(run), WHAT)
    if caps := _caps(run):
        yield Finding(caps, WHAT)
    if clients > 1:
        yield Finding(_per_client(run), WHAT)


def failure_of(run: Run) -> str:
    """Say why the run is no success although it ended: it stalled, or took no report; "" where it is one."""
    stalled, nothing = run.manifest.get("stalled"), why_nothing(run.known)
    return f"The run stalled: {stalled}." if stalled else f"{capitalized(nothing)}." if nothing else ""


def _separation(run: Run) -> str:
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


def _wanted(run: Run) -> str:
    """Say how many clients a round selects, and why these are more than it wants reports from."""
    server, selected = run.scenario.server, run.rounds["selected"]
    if not server.selects_once:
        places, buffer = count(server.concurrency, "client"), count(server.buffer, "report")
        return f"The server keeps {places} at work at a time and makes a version of every {buffer}."
    if has_random_size(server.selection):
        law, mean, empty = server.selection.kind, float(selected.mean() or 0.0), int((selected == 0).sum())  # type: ignore[arg-type]
        nobody = f", and {count(empty)} of {count(len(selected), 'round')} selected nobody" if empty else ""
        return f"Cohorts vary in size ({law} selection): {many(mean, 'client')} on average{nobody}."
    if server.wanted == server.cohort:
        return f"Each round wants {count(server.cohort, 'client')}, its cohort."
    return (
        f"Each round wants {count(server.cohort, 'report')} and selects {count(server.wanted, 'client')} for them "
        f"(over_select {number(server.over_select)}), since some may not report."
    )


def _caps(run: Run) -> str:
    """Say how often a client may take part, where something bounds it, and how many did so often."""
    caps = [each.participations.most for each in run.scenario.population if each.participations is not None]
    if not caps:
        return ""
    most = getattr(caps[0], "value", None)
    if most is None or any(cap != caps[0] for cap in caps) or len(caps) < len(run.scenario.population):
        return "Caps (`participations`) bound how often some clients may take part."
    column = "reported" if run.scenario.server.cooldown_from == "reported" else "participations"
    reached = int((run.clients[column] >= most).sum())
    return f"A client may take part {count(most, 'time')} at most (`participations`); {count(reached)} did so often."


def _per_client(run: Run) -> str:
    """Say how often a client took part: on average, at most, and how many never did."""
    counts = run.clients["reported"]
    taken, clients = int(counts.sum()), len(counts)
    most = int(counts.to_numpy().max())
    did = "took part (was selected)" if run.all_reported else "gave a report that was taken"
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


def bias_findings(run: Run, bias: Bias) -> Iterator[Finding]:
    """Say how biased participation was: as a whole, by groups and zones, by tenths, and what theory says."""
    if bias.seen is Seen.UNMEASURED:
        yield Finding("How far participation lies from uniform was not measured.", BIAS)
    if bias.seen in NOBODY:
        return
    yield _of_the_whole(bias, run.all_reported)
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
            f"{percent(bias.fair)} if rounds were independent of each other.",
            BIAS,
        )
    if (pull := pull_apart(run)) is not None:
        text = f"The pull on the model, 1/n for each of the n reports of a round, is {percent(pull / 2)} from uniform."
        yield Finding(text, BIAS)
    if not run.all_reported:
        yield Finding(_selections(run), BIAS)
    elif (theory := run.known.get("participation.l1_uniform_theory")) is not None:
        reason = "the buffer's flow" if "staleness" in run.series else "weights, cohort and separation alone"
        yield Finding(f"Theory, which computes what {reason} do in the long run, says {tv(theory)}.", BIAS)


def pull_apart(run: Run) -> float | None:
    """Return how far the pulls on the model are from uniform (L1); None where these are the shares of reports."""
    pull, own = run.known.get("participation.pull_l1_uniform"), run.of_reports("l1_uniform")
    return None if pull is None or own is None or abs(pull - own) <= 0.01 * own else pull


def _of_the_whole(bias: Bias, selections: bool) -> Finding:
    """Return the finding about the distance from uniform."""
    own, fair = percent(bias.measured), f"where equal chances would give {percent(bias.fair)}"
    seen, more, certainty = "", "", Certainty.TOLD if bias.whole else Certainty.NOT_TOLD
    brief = f"{own} from uniform, more even than chance (equal chances: {percent(bias.fair)})."
    corrected = bias.whole and bias.corrected is not None
    if bias.visible is not None and bias.visible < 1:
        seen = f"; {percent(bias.visible)} beyond chance would show in four of five such runs"
        more = f"; {percent(bias.visible)} more would show"
    if bias.seen is Seen.EVEN:
        text, certainty = "Everyone took part equally often: 0 % from uniform.", Certainty.EXACT
        if bias.measured > ROUNDING:
            text = f"All took part equally often, but for one participation: {own} from uniform (total variation)."
    elif bias.seen is Seen.ONCE:
        text = f"Nobody took part twice, so that {own} from uniform (total variation) says nothing of a bias."
        certainty = Certainty.UNTESTED
    elif bias.whole:
        ends = dict.fromkeys((percent(bias.low), percent(bias.high)))
        within = f" ({' to '.join(ends)} with 95 %)" if corrected and len(ends) > 1 else ""
        of = "participations" if selections else "reports"
        beyond = ", once chance is taken off" if corrected else f", {fair}"
        text = f"{percent(bias.tv)} of the {of}{within} would have to come from other clients for all to give equally "
        text += f"many (total variation distance){beyond}: more than chance."
        single = "Single devices: " if bias.of("group") or bias.of("zone") else ""
        brief = f"{single}{percent(bias.tv)} from uniform{within.replace(' with 95 %', '')}"
        if corrected:
            brief += f" once chance is taken off{'' if single else ': more than chance'}."
        else:
            brief += f", more than chance (equal chances: {percent(bias.fair)})."
    elif bias.seen is Seen.UNTESTED:
        text = f"Bias cannot be tested with {bias.why}: participation is {own} away from uniform (total "
        text, certainty = f"{text}variation distance), {fair}.", Certainty.UNTESTED
        brief = f"{own} from uniform (equal chances: {percent(bias.fair)}); not tested with {bias.why}."
    elif bias.more_even:
        text = f"Participation is {own} away from uniform (total variation distance), {fair}: more even than chance."
    else:
        but = "For all clients together, chance" if bias.seen is Seen.BIAS else "Chance"
        text = f"{but} explains the distance from uniform, {own} (total variation), {fair}{seen}."
        brief = f"Chance explains {own} from uniform (equal chances: {percent(bias.fair)}){more}."
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
        brief=brief,
    )


def _parts(parts: tuple[ClientShare, ...]) -> str:
    """Compare groups with their size, and say which of them differ by more than chance."""
    ordered = sorted(parts, key=lambda each: -each.times)
    several = len(parts) > _NAMED
    shown = [ordered[0], min(parts, key=lambda each: each.times)] if several else ordered
    nouns = "time zones" if parts[0].kind == "zone" else "groups"
    shares = [f"{each.words} {number(each.times, 3)}" for each in shown]
    of = f"of {count(len(parts))} {nouns} " if several else ""
    text = f"Participation share over fair share: {of}{listing(shares)}"
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


def _selections(run: Run) -> str:
    """Say what selections alone look like, of which not all ended with a report."""
    some, clients = int((run.clients["participations"] > 0).sum()), len(run.clients)
    who = f"all {count(clients)} clients were" if some == clients else f"{count(some)} of {count(clients)} clients were"
    text = f"Selections, of which not all ended with a report: {who} selected"
    if (measured := run.known.get("participation.l1_uniform")) is not None:
        text += f", {tv(measured)} from uniform"
    theory = run.known.get("participation.l1_uniform_theory")
    return f"{text} (theory: {tv(theory)})." if theory is not None else f"{text}."
