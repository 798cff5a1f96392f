"""What a run measured, in words: a table of sentences, one for each fact, and some that take more.

The numbers of a sentence are those of the facts, or of the series, that it names.
"""

from collections.abc import Iterator

from fedsim.common.formatting import capitalized, count, equation, listing, number, percent
from fedsim.pages.answer import BIAS, COST, MODEL, WHAT, Sentence
from fedsim.pages.bias import NOBODY, Bias, ClientShare, Seen, bias_of, pull_apart
from fedsim.pages.methods import compare_losses, compared_with, converged, optimizer_figures, optimizers, references
from fedsim.pages.metric_wording import wording_of
from fedsim.run.run import Run

_FORGOTTEN = 0.01  # distance from the long run at which the start counts as forgotten
_NAMED = 6  # methods that a sentence names at most
_SELECTED, _PULL = "participation.l1_uniform", "participation.pull_l1_uniform"
_SAID = {
    "participation.coverage": (WHAT, "{} of the clients took part."),
    "participation.reported_coverage": (WHAT, "{} of the clients gave a report that was taken."),
    _PULL: (BIAS, "The pull on the model, 1/n for each of n reports that come at once, is {} from uniform (TV)."),
    _SELECTED: (BIAS, "Selections, of which not all ended with a report, are {} from uniform (TV)."),
    "participation.l1_uniform_theory": (BIAS, "Theory says that selections are {} from uniform (TV) in the long run."),
    "updates.per_day": (COST, "The pace of the server is {}."),
    "reports.per_day": (COST, "The server takes {}."),
    "rounds.waiting_share": (COST, "Rounds wait for clients {} of the time."),
    "sessions.device_hours": (COST, "Sessions took {} hours of device time."),
    "sessions.wasted_share": (COST, "{} of the device time was wasted."),
    "privacy.epsilon": (
        COST,
        "Each client is promised epsilon = {} (adjacency: all that it contributes is replaced by zeros).",
    ),
    "privacy.epsilon_if_known": (
        COST,
        "That is as long as the schedule stays secret, this page included: where it is known, epsilon is {}.",
    ),
    "fleet.cost": (COST, "The run costs {} by the scenario's prices."),
}
"""What is said of a fact: the question that it answers, and a sentence with its value."""
_IF_ANY = ("reports.per_day", "rounds.waiting_share", "sessions.wasted_share")  # of none nothing is said


def key_of(run: Run, name: str) -> str:
    """Return the key of ``participation.NAME`` of what reached the model."""
    reported = "participation.reported_"
    return f"{reported if f'{reported}l1_uniform' in run.known else 'participation.'}{name}"


def sentence_of(run: Run, key: str) -> Sentence | None:
    """Say the value of a fact by its sentence in the table; None where the run has none."""
    about, text = _SAID[key]
    return Sentence(text.format(wording_of(key).write(run.known[key])), about, (key,)) if key in run.known else None


def how_even(run: Run, bias: Bias, *, whole: bool = True) -> Sentence | None:
    """Say how far participation is from uniform (TV), and whether that is significant; `whole`: and what would be."""
    if bias.seen is Seen.UNMEASURED:
        return Sentence("How evenly clients take part was not measured.", BIAS)
    if bias.seen in NOBODY:
        return None
    chance, ends = "equal chances would give", ""
    if whole and bias.could_see:
        ends = f": no bias found{bias.could_see}"
    if bias.fair is not None:
        chance += f" ({percent(bias.fair)})"
    if bias.seen in {Seen.EVEN, Seen.ONCE, Seen.UNTESTED}:
        judged = f"not tested, {bias.why}" if bias.seen is Seen.UNTESTED else bias.seen.value
    elif bias.more_even:
        judged = f"more even than {chance}"
    else:
        judged = f"{'' if bias.whole else 'not '}significantly more than {chance}"
    if bias.whole and bias.corrected is not None:
        ends = f"; without noise it is {percent(bias.tv)} ({percent(bias.low)} to {percent(bias.high)})"
        if not bias.low:  # by the counts of clients, which tell more than their distance
            ends = f"; without noise it is at most {percent(bias.high)}"
    text = f"Participation is {percent(bias.measured)} from uniform (TV): {judged}{ends}."
    return Sentence(text, BIAS, (key_of(run, "tv_uniform"), "bias", *(["shares"] if bias.could_see else [])))


def share(part: ClientShare) -> Sentence:
    """Say how often some clients take part, and whether that differs from a fair share."""
    judged = "not tested"
    if part.tested:
        judged = f"not significantly different from 1; a difference of {percent(part.visible)} would have been"
        if part.significant:
            judged = f"significantly {'more' if part.times > 1 else 'less'}"
        low, high = (number(end, 5 if number(end, 3) == "1" else 3) for end in (part.low, part.high))
        judged = f"{low} to {high}, {judged}"
    text = f"Participation of {part.words} is {number(part.times, 3)} times a fair share ({judged})."
    return Sentence(text, BIAS, part.facts)


def contrast(bias: Bias) -> Sentence | None:
    """Say which two of the parts that differ significantly from a fair share differ most; or the one that does."""
    if (ends := bias.contrast) is None:
        return None
    high, low = ends
    if high is low or not high.taken:
        sentence, noun = share(high), {"group": "group", "zone": "time zone"}.get(high.kind)
        alone = high is low and noun and len(bias.of(high.kind)) > 2
        return (
            Sentence(f"{sentence.text} No other {noun} differs significantly.", BIAS, sentence.facts)
            if alone
            else sentence
        )
    text = f"Participation of {high.words} is {number(high.times, 3)} times a fair share, and of {low.words} "
    text += f"{number(low.times, 3)} times: both significant."
    if not low.times:
        text = f"{capitalized(low.words)} never reported, and {high.words} reported {number(high.times, 3)} times its "
        text += "fair share."
    return Sentence(text, BIAS, tuple(dict.fromkeys((*high.facts, *low.facts))))


def who_takes_part(run: Run, bias: Bias) -> Sentence | None:
    """Say who takes part: the widest significant contrast, or that no bias was found, or how even participation is."""
    if bias.seen is Seen.ALONE:
        reports = count(int(run.clients["reported"].sum()), "report")
        return Sentence(f"The one client gave {reports} in {count(len(run.rounds), run.noun)}.", BIAS)
    if bias.seen is Seen.NONE and not bias.more_even:
        who = "All groups take part as often as their size says, within chance" if bias.of("group") else "No bias found"
        return Sentence(f"{who}{bias.could_see}.", BIAS, ("bias", "shares"))
    return (contrast(bias) if bias.seen is Seen.BIAS else None) or how_even(run, bias)


def losses(run: Run) -> Sentence | None:
    """Say where the loss of each optimizer ends, compared with unbiased training or else with the lowest."""
    if run.scenario.learning is None:
        return None
    if (pair := compared_with(run)) is None:
        return Sentence("No optimizer has a finite loss over the last half of the run.", MODEL)
    (other, compared), ends = pair, optimizer_figures(run, "loss")
    if not compared:
        return Sentence(f"The loss of “{other}” ends at {number(ends[other])}.", MODEL, (_loss(other),))
    looks, ways = compare_losses(run, compared, other), dict[tuple[str, ...], list[str]]()
    far = sorted(compared, key=lambda name: -abs(ends[name] - ends[other]))
    for name in far[:_NAMED]:
        look, judged = looks.get(name), _untested("there are too few evaluations")
        if not converged(run, name, other):
            judged = _untested("a loss has not converged")
        elif isinstance(look, float):
            judged = _untested("the run is too short")
        elif look is not None:
            judged = (_ABOVE if look.value > 0 else _BELOW) if look.significant else _SAME
        ways.setdefault(judged, []).append(f"“{name}” ({number(ends[name])})")
    texts, with_what = list[str](), f"unbiased training ({number(ends[other])})"
    if other not in references(optimizers(run)):
        texts, with_what = [f"“{other}” has the lowest loss ({number(ends[other])})"], "it"
    elif not {*_TESTED} & {*ways}:
        texts, with_what = [f"No difference from {with_what} can be tested yet"], "it"
    for judged in sorted(ways, key=lambda each: _TESTED.index(each) if each in _TESTED else len(_TESTED)):
        clause = f"{listing(ways[judged])} {judged[len(ways[judged]) > 1]}"
        texts, with_what = [*texts, clause.format(with_what)], "it"
    more = f"; {count(len(far) - _NAMED)} more" if len(far) > _NAMED else ""
    return Sentence(f"{'; '.join(texts)}{more}.", MODEL, tuple(map(_loss, (*compared, other))))


_ABOVE, _BELOW = (tuple(f"{end} significantly {way} {{}}" for end in ("ends", "end")) for way in ("above", "below"))
_SAME: tuple[str, ...] = "does not differ significantly from {}", "do not differ significantly from {}"
_TESTED = (_ABOVE, _BELOW, _SAME)
"""What a test says of the losses of one method, and of several, compared with another."""


def _untested(why: str) -> tuple[str, ...]:
    return f"is not tested, since {why}", f"are not tested, since {why}"


def _loss(name: str) -> str:
    return f"learning.{name}.loss"


def long_run(run: Run) -> Sentence | None:
    """Say after how many rounds participation stays that of the long run, at the ends of a convergence study."""
    if run.convergence is None or run.scenario.theory.convergence is None:
        return None
    ways = list[str]()
    for (r,), study in run.convergence.sort("separation", "round").group_by("separation", maintain_order=True):
        far = study.filter(study["tv"] >= _FORGOTTEN)["round"]  # distances may rise again
        after, followed = int(far[-1]) + 1 if len(far) else 0, int(study["round"][-1]) + 1
        way = f"after {count(after + 1, 'round')}"
        if after == followed:
            way = f"not within {count(followed, 'round')}"
        ways.append(f"{way} at {equation('R', r)}")
    ends = listing(list(dict.fromkeys((ways[0], ways[-1]))))
    return Sentence(
        f"Participation comes within {percent(_FORGOTTEN)} (TV) of its long-run shares {ends}.", BIAS, ("convergence",)
    )


def measured(run: Run, key: str) -> Sentence | None:
    """Say any fact by its key: with the words of its own where it has some, or else as its value with its interval."""
    bias, wording, fact = bias_of(run), wording_of(key), run.fact(key)
    if (match := next((part for part in bias.parts if part.key == key), None)) is not None:
        return share(match)
    if key in {key_of(run, "l1_uniform"), key_of(run, "tv_uniform")}:
        return how_even(run, bias)
    if key in map(_loss, optimizers(run)):
        return losses(run)
    if key in _SAID and key != _SELECTED:
        return sentence_of(run, key)
    if fact is None or fact["value"] is None:
        return None
    text = f"{capitalized(wording.words)}: {wording.write(fact['value'])}"
    if fact["low"] is not None and fact["high"] is not None:
        text += f" ({wording.write(fact['low'])} to {wording.write(fact['high'])})"
    return Sentence(f"{text}.", WHAT, (key,))


def headline(run: Run) -> Sentence | None:
    """Say what the scenario asks for.

    That is the fact of `headline`; else that of `decide`, the losses of `learning`, the cost by `prices`, a convergence
    study; else who takes part.
    """
    scenario = run.scenario
    asked = [scenario.headline, "" if scenario.decide is None else scenario.decide.metric]
    if (wanted := next(filter(None, (measured(run, key) for key in asked if key)), None)) is not None:
        return wanted
    first = losses(run) or sentence_of(run, "fleet.cost") or long_run(run) or who_takes_part(run, bias_of(run))
    return first or sentence_of(run, key_of(run, "coverage"))


def sentences(run: Run) -> Iterator[Sentence]:
    """Say what a run measured, by the questions of a reader."""
    bias = bias_of(run)
    apart = {_SELECTED: not run.all_reported, _PULL: pull_apart(run) is not None}
    facts = [key for key in _SAID if apart.get(key, True) and (key not in _IF_ANY or run.known.get(key))]
    if not run.clients["reported"].sum():
        facts = [key for key in facts if not key.endswith("coverage")]
    else:
        facts.remove("participation.coverage" if "reported" in key_of(run, "") else "participation.reported_coverage")
    even = how_even(run, bias, whole=headline(run) != who_takes_part(run, bias))  # else the headline says the rest
    by_question: dict[str, list[Sentence | None]] = {WHAT: [], BIAS: [even, contrast(bias), long_run(run)]}
    for about, lines in (by_question | {MODEL: [losses(run)], COST: []}).items():
        yield from filter(None, (*lines, *(sentence_of(run, key) for key in facts if _SAID[key][0] == about)))
