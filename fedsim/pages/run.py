"""The answer of a run, computed from tables and metrics: title, key figures, and findings about each question."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from fedsim.common.formatting import (
    capitalized,
    count,
    count_range,
    duration,
    equation,
    from_to,
    listing,
    number,
    percent,
)
from fedsim.pages.bias import (
    FEW,
    NOBODY,
    Bias,
    ClientShare,
    Seen,
    bias_of,
    contrast_words,
    never_by_chance,
    tenth_shares,
)
from fedsim.pages.finding import BIAS, WHAT, Certainty, Finding, Tile
from fedsim.pages.methods import model_findings
from fedsim.pages.participation import bias_findings, failure_of, what_happened
from fedsim.pages.run_advice import SMALL, advice, spent_findings, training_findings
from fedsim.run.cautions import why_nothing
from fedsim.run.run import Run


@dataclass(frozen=True)
class RunAnswer:
    """What is said of a run."""

    bias: Bias
    title: str  # who takes part, and whether that is more than chance, in one sentence
    findings: tuple[Finding, ...]  # by question; the first one about each is its line on the first screen
    facts: tuple[Finding, ...]  # what was found of each group, time zone and tenth
    tiles: tuple[Tile, ...]  # the key figures, at most five, the most important first


def run_answer(run: Run) -> RunAnswer:
    """Judge a run and say in words what happened, how biased it was, at what cost, how sure that is, and what next."""
    bias, model = bias_of(run), tuple(model_findings(run))
    if run.rounds.is_empty():
        found: tuple[Finding, ...] = (Finding("The run has no rounds: there is nothing to measure.", WHAT, warns=True),)
    else:
        found = (*what_happened(run, bias), *bias_findings(run, bias), *model, *training_findings(run))
        found += (*spent_findings(run), *advice(run, bias))
    looks = sum(math.isfinite(part.visible) for part in bias.parts)
    facts = tuple(_fact(part, looks) for part in bias.parts)
    title, sweep = _title(run, bias, model), run.scenario.sweep
    if run.scenario.question and sweep is not None and sweep.paths:
        title = f"One setting: {title[0].lower()}{title[1:]}"
    return RunAnswer(bias, title, found, facts, tuple(_tiles(run, bias, model))[:5])


def setup_of(run: Run) -> list[str]:
    """Say what was simulated, in a few words each: devices, separation, cohort, rounds, seed."""
    server, separation = run.scenario.server, run.clients["separation"]
    groups = run.clients["group"].n_unique()
    cooldown_s = float(run.clients["cooldown_s"].max() or 0.0)  # type: ignore[arg-type]
    ends = count_range(int(separation.min() or 0), int(separation.max() or 0))  # type: ignore[arg-type]
    parts = [count(len(run.clients), "device") + (f" in {count(groups)} groups" if groups > 1 else "")]
    parts += [equation("R", ends), *([f"cool-down {duration(cooldown_s)}"] if cooldown_s else [])]
    parts.append(f"buffer of {server.buffer}" if server.buffer else equation("cohort", run.scenario.sync_server.cohort))
    if (privacy := run.scenario.privacy) is not None:
        none = "" if privacy.training == "noise" else " (not in training)"
        parts.append(f"{privacy.mechanism.kind} noise{none if run.scenario.learning else ''}")
    parts += [count(len(run.rounds), run.noun), f"seed\N{NO-BREAK SPACE}{run.manifest.get('seed')}"]
    return parts


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


def _title(run: Run, bias: Bias, model: Sequence[Finding]) -> str:
    """Answer in one sentence: who takes part, and whether that is more than chance."""
    if run.manifest.get("stalled"):
        return f"The run stalled in {run.noun} {len(run.rounds) - 1:,} and ended there."
    if why_nothing(run.known) and bias.seen is not Seen.NO_ROUNDS:
        return failure_of(run)
    if run.convergence is not None and asks_of_convergence(run):
        return _forgotten(run.convergence)
    if (learnt := _learnt(model)) and any(word in run.scenario.question.lower() for word in _OF_MODELS):
        return learnt
    asked = run.scenario.question
    named = [each for each in bias.parts if len(each.name) > 2 and re.search(rf"(?i)\b{re.escape(each.name)}\b", asked)]
    if len(named) == 1:
        part = named[0]
        ways = [(number(part.low, digits), number(part.high, digits)) for digits in range(3, 7)]
        # An interval without 1 is not written as one that ends there.
        within = " to ".join(next((way for way in ways if not part.told or "1" not in way), ways[-1]))
        if math.isfinite(part.visible) and min(part.taken, part.taken / max(part.times, 1e-9)) >= FEW:
            near = min(abs(part.low - 1), abs(part.high - 1)) < 0.05 * (part.high - part.low)
            judged = f"{'barely ' * near}more than chance" if part.told else "which chance explains"
            share = f"{capitalized(part.words)} takes part {number(part.times, 3)} times its fair share ({within})"
            return f"{share}, {judged}."
    if bias.seen is Seen.BIAS:
        who = _favoured(run, bias)
        if not bias.whole:
            return f"{capitalized(who)}, which is more than chance."
        if who and not _OF_BIAS.search(run.scenario.question):
            return f"{capitalized(who)}."
        return f"Participation is {percent(bias.tv)} away from uniform{f'; {who}' if who else ' (total variation)'}."
    if bias.seen is Seen.NONE and (bias.more_even or bias.measured <= bias.fair / 2):
        return "Participation is more even than equal chances would make it."
    if bias.seen is Seen.NONE and bias.visible is not None and bias.visible > 2 * SMALL:
        return f"Too short to tell bias from chance: a distance below {percent(bias.visible)} would not show."
    shows = "" if bias.visible is None else f", and a distance of {percent(bias.visible)} would show"
    return {
        Seen.NO_ROUNDS: "Nothing was simulated: the run has no rounds.",
        Seen.NOBODY: "Nobody took part.",
        Seen.ALONE: "The one client takes part every time.",
        Seen.UNMEASURED: "How evenly clients take part was not measured.",
        Seen.EVEN: "Every client takes part equally often."
        if run.clients["reported"].min()
        else "Clients take part one after the other, and none took part twice yet.",
        Seen.ONCE: "Nobody took part twice: the run cannot show a bias between clients.",
        Seen.UNTESTED: _untested(bias),
        Seen.NONE: f"No bias to be seen: participation is as even as equal chances make it{shows}.",
    }[bias.seen]


def _untested(bias: Bias) -> str:
    """Name the groups that lie far apart, where nothing can be tested."""
    if bias.far is None:
        return f"Too short to tell bias from chance: the run has {bias.why}."
    return f"{capitalized(contrast_words(*bias.far))} (not tested: {bias.why})."


def asks_of_convergence(run: Run) -> bool:
    """Say whether the question of a scenario with a convergence study is about that."""
    return run.convergence is not None and re.search("forg|start|converg", run.scenario.question) is not None


_FORGOTTEN = 0.01  # distance from the long run at which the start counts as forgotten


def _forgotten(study: pl.DataFrame) -> str:
    """Say after how many rounds participation stays that of the long run, at the ends of a convergence study."""
    ways = list[str]()
    for (r,), own in study.sort("separation", "round").group_by("separation", maintain_order=True):
        far = own.filter(pl.col("tv") >= _FORGOTTEN)["round"]  # distances may rise again
        after, followed = int(far[-1]) + 1 if len(far) else 0, int(own["round"][-1]) + 1
        way = f"after {count(after + 1, 'round')}"
        if after == followed:
            way = f"not within {count(followed, 'round')} ({percent(own['tv'][-1])} off)"
        ways.append(f"{way} at {equation('R', r)}")
    ends = listing(list(dict.fromkeys((ways[0], ways[-1]))))
    return f"Participation comes within {percent(_FORGOTTEN)} (TV) of its long-run shares {ends}."


_OF_BIAS = re.compile(r"even|bias|skew|uniform|fair", re.IGNORECASE)
_OF_MODELS = ("model", "loss", "learn", "train", "method", "optimizer")


def _learnt(model: Sequence[Finding]) -> str:
    """Say what participation does to the model, where that was compared with unbiased training."""
    found = next((each for each in model if each.quantity == "excess_loss"), None)
    if found is None or found.value is None or found.certainty is Certainty.UNTESTED:
        return ""
    if found.certainty is Certainty.NOT_TOLD:
        return "No loss ends above that of unbiased training by more than chance."
    side = "above" if found.value > 0 else "below"
    return f"The loss of {found.scope} ends {number(abs(found.value), 2)} {side} that of {found.against}."


def _favoured(run: Run, bias: Bias) -> str:
    """Say who takes part more often than others, or never; empty where nobody can be named."""
    if bias.contrast is not None:
        return contrast_words(*bias.contrast)
    counts = run.clients["reported"]
    taken, never = int(counts.sum()), int((counts == 0).sum()) / len(counts)
    if never > max(0.01, 2 * never_by_chance(taken, len(counts))):
        return f"{percent(never)} of the clients never take part"
    tenths = tenth_shares(run)
    if tenths is None or tenths.most <= tenths.most_by_chance or taken * tenths.most < FEW:
        return ""
    by_chance = percent(tenths.most_by_chance)
    return f"the busiest tenth gives {percent(tenths.most)} of the reports, where chance would make it {by_chance}"


def _tiles(run: Run, bias: Bias, model: Sequence[Finding]) -> Iterator[Tile]:
    """Return the key figures, the most important first."""
    metric = run.known.get
    if bias.seen not in NOBODY:
        detail = f"equal chances: {percent(bias.fair)}"
        if bias.corrected is not None and bias.whole:
            detail = f"{from_to(percent(bias.low), percent(bias.high))} with 95\N{NARROW NO-BREAK SPACE}%"
        yield Tile(percent(bias.tv if bias.whole else bias.measured), "from uniform (total variation)", detail)
    if (ends := bias.contrast) is not None:
        if min(ends[0].taken, ends[1].taken) >= FEW:
            yield Tile(
                f"{number(ends[0].times / ends[1].times, 2)}\N{MULTIPLICATION SIGN}",
                f"{ends[0].words} compared with {ends[1].words}",
                f"{number(ends[0].times, 3)} and {number(ends[1].times, 3)} times a fair share",
            )
    elif (coverage := run.of_reports("coverage")) is not None and bias.seen not in NOBODY:
        never = f"{percent(1 - coverage)} never" if coverage < 1 else ""
        yield Tile(percent(coverage), f"of clients {'took part' if run.all_reported else 'reported'}", never)
    for each in model:
        if each.quantity == "excess_loss" and each.value is not None:
            side = "below" if each.value < 0 else "above"
            yield Tile(number(abs(each.value), 2), f"loss {side} that of {each.against}", each.scope)
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
