"""What a run measured, in words: one function for each fact, which handles sign, zero, plural, and what is not tested.

The numbers of a sentence are those of the facts, or of the series, that it names.
"""

from collections.abc import Callable, Iterator, Sequence

from fedsim.common.formatting import capitalized, count, duration, equation, listing, listing_of, number, percent
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.measure.metrics import split
from fedsim.pages.answer import BIAS, COST, MODEL, WHAT, Sentence
from fedsim.pages.bias import NOBODY, Bias, ClientShare, Seen, bias_of, pull_apart
from fedsim.pages.methods import Method, compare_losses, optimizer_figures, optimizers, references
from fedsim.pages.metric_wording import tv, wording_of
from fedsim.run.run import Run

_FORGOTTEN = 0.01  # distance from the long run at which the start counts as forgotten
_NAMED = 4  # methods that a sentence names at most


def key_of(run: Run, name: str) -> str:
    """Return the key of ``participation.NAME`` of what reached the model."""
    reported = "participation.reported_"
    return f"{reported if f'{reported}l1_uniform' in run.known else 'participation.'}{name}"


def coverage(run: Run) -> Sentence | None:
    """Say which share of the clients took part, and in how many rounds."""
    key, did = key_of(run, "coverage"), "took part" if run.all_reported else "gave a report that was taken"
    share, rounds = run.known.get(key), run.known.get("rounds.count")
    if share is None or rounds is None:
        return None
    who = "No client" if not share else "All clients" if share == 1 else f"{percent(share)} of the clients"
    return Sentence(f"{who} {did} in {count(rounds, run.noun)}.", WHAT, (key, "rounds.count"))


def distance(run: Run, bias: Bias) -> Sentence | None:
    """Say how far participation is from uniform (TV), and whether that is significant."""
    if bias.seen is Seen.UNMEASURED:
        return Sentence("How evenly clients take part was not measured.", BIAS)
    if bias.seen in NOBODY:
        return None
    own, fair = percent(bias.measured), percent(bias.fair)
    ends = f" ({percent(bias.low)} to {percent(bias.high)})" if percent(bias.low) != percent(bias.high) else ""
    if bias.seen is Seen.EVEN:
        once = "took part equally often" if run.clients["reported"].min() else "took part in turn, at most once"
        text = f"All clients {once}: participation is {own} from uniform (TV)."
    elif bias.seen is Seen.ONCE:
        text = f"Nobody took part twice, so that the distance from uniform, {own} (TV), says nothing of a bias."
    elif bias.whole and bias.corrected is not None:
        text = f"Participation is {percent(bias.tv)}{ends} from uniform (TV) without noise: significantly uneven."
    elif bias.whole:
        text = f"Participation is {own} from uniform (TV), significantly more than equal chances would give ({fair})."
    elif bias.seen is Seen.UNTESTED:
        text = f"Participation is {own} from uniform (TV; equal chances: {fair}), not tested: {bias.why}."
    elif bias.more_even:
        text = f"Participation is {own} from uniform (TV), more even than equal chances would make it ({fair})."
    else:
        text = f"Participation is {own} from uniform (TV), not significantly more than by equal chances ({fair})."
    return Sentence(text, BIAS, (key_of(run, "tv_uniform"), "bias"))


def _clients(part: ClientShare, *, second: bool = False) -> str:
    """Say how often some clients take part, in fair shares; of the second in a sentence without its verb."""
    whole, times = part.kind in {"group", "zone"}, f"{number(part.times, 3)} times"
    those = "those" if second else "clients"
    who = f"{those} {'of' if part.kind == 'group' else 'in'} {part.words}" if whole else part.words
    verb = "take" if whole else "takes"
    if not part.taken and part.told:
        return f"{who} never {verb} part"
    return f"{who} {times}" if second else f"{who} {verb} part {times} {'their' if whole else 'its'} fair share"


def share(part: ClientShare) -> Sentence:
    """Say how often some clients take part, and whether that differs from a fair share."""
    within, judged = "", "not tested"
    if part.tested:
        within = f" ({number(part.low, 3)} to {number(part.high, 3)})" if part.taken else ""
        judged = "not significantly different from 1"
        if part.told:
            judged = f"significantly {'more' if part.times > 1 else 'less'}"
    return Sentence(f"{capitalized(_clients(part))}{within}: {judged}.", BIAS, part.facts)


def contrast(bias: Bias) -> Sentence | None:
    """Say which two parts of the clients differ most, where one of them differs significantly from a fair share."""
    if (ends := bias.contrast) is None:
        return None
    high, low = ends
    if len(bias.of(high.kind)) < 2 or not (high.taken or low.taken):
        return share(high if high.told else low)
    text = f"{capitalized(_clients(high))}, {_clients(low, second=True)}: a significant difference."
    return Sentence(text, BIAS, tuple(dict.fromkeys((*high.facts, *low.facts))))


def participation(run: Run, bias: Bias) -> Sentence | None:
    """Say who takes part: the widest significant contrast, or else how even participation is."""
    if bias.seen is Seen.ALONE:
        return Sentence("The one client takes part every time.", BIAS)
    return (contrast(bias) if bias.seen is Seen.BIAS else None) or distance(run, bias)


def pull(run: Run) -> Sentence | None:
    """Say how far the pull on the model is from uniform, where that differs from the shares of reports."""
    if (away := pull_apart(run)) is None:
        return None
    text = f"The pull on the model, 1/n for each of the n reports of a {run.noun}, is {tv(away)} from uniform (TV)."
    return Sentence(text, BIAS, ("participation.pull_l1_uniform",))


def selections(run: Run) -> Sentence | None:
    """Say how far selections are from uniform, where not all of them ended with a report."""
    key = "participation.l1_uniform"
    if run.all_reported or (away := run.known.get(key)) is None:
        return None
    return Sentence(
        f"Selections, of which not all ended with a report, are {tv(away)} from uniform (TV).", BIAS, (key,)
    )


def theory(run: Run) -> Sentence | None:
    """Say what theory says of the distance from uniform."""
    key = "participation.l1_uniform_theory"
    if (away := run.known.get(key)) is None:
        return None
    of = "participation" if run.all_reported else "selections"
    return Sentence(f"Theory says that {of} is {tv(away)} from uniform (TV) in the long run.", BIAS, (key,))


def losses(run: Run) -> Iterator[Sentence]:
    """Say where the loss of each optimizer ends, compared with unbiased training or else with the lowest."""
    known, names = optimizer_figures(run, "loss"), optimizers(run)
    own = [name for name in known if name not in references(names)]
    paired = [name for name in references(names) if name in known]
    if run.scenario.learning is None:
        return
    if not own:
        yield Sentence("No optimizer has a finite loss over the last half of the run.", MODEL)
    elif paired and run.scenario.divisor is None:
        yield _compared(compare_losses(run, own, paired[0]), paired[0], "of unbiased training", known)
    elif len(own) > 1:
        best = min(own, key=lambda name: known[name])
        yield Sentence(f"The lowest loss is that of “{best}”, {number(known[best])}.", MODEL, (_loss(best),))
        others = compare_losses(run, [name for name in own if name != best], best)
        yield _compared(others, best, f"of “{best}”", known)
    else:
        yield Sentence(f"The loss of “{own[0]}” ends at {number(known[own[0]])}.", MODEL, (_loss(own[0]),))


def _loss(name: str) -> str:
    return f"learning.{name}.loss"


def _compared(methods: Sequence[Method], reference: str, of: str, known: dict[str, float]) -> Sentence:
    """Say whose losses differ significantly from that of a reference, the farthest first."""

    def those(some: Sequence[Method]) -> str:
        named = [f"“{each.name}” ({number(known[each.name])})" for each in some]
        return f"the loss{'es' if len(some) > 1 else ''} of {listing_of(named, _NAMED)}"

    far = sorted((each for each in methods if each.apart), key=lambda each: -abs(each.excess))
    against = f"that {of} ({number(known[reference])})"
    facts = tuple(_loss(name) for name in (*(each.name for each in methods), reference))
    if any(each.look is None for each in methods):
        text = f"{those(methods)} compared with {against}: not tested, since there are too few evaluations"
    elif far:
        sides = [
            (side, [each for each in far if (each.excess > 0) == (side == "above")]) for side in ("above", "below")
        ]
        text = listing(
            [
                f"{those(some)} end{'' if len(some) > 1 else 's'} significantly {side} {against}"
                for side, some in sides
                if some
            ]
        )
        if near := len(methods) - len(far):
            text += f"; {'the other does' if near == 1 else 'the others do'} not differ significantly"
    else:
        text = f"{those(methods)} {'do' if len(methods) > 1 else 'does'} not differ significantly from {against}"
    return Sentence(f"{capitalized(text)}.", MODEL, facts)


def who_pays(run: Run) -> Sentence | None:
    """Say which losses the mean model of the first optimizer leaves to rare and to frequent clients."""
    name = next(iter(optimizer_figures(run, "loss_of_worst_tenth")), "")
    keys = [f"learning.{name}.loss_of_{which}" for which in ("tenth_1", "tenth_10", "worst_tenth")]
    rare, frequent, worst = map(run.known.get, keys)
    if worst is None:
        return None
    text = f"The mean model of “{name}” has a loss of {number(worst, 3)} over the tenth of the clients with the highest"
    if rare is not None and frequent is not None:
        text += (
            f", {number(rare, 3)} over the tenth that reported least often and {number(frequent, 3)} over the tenth "
        )
        text += "that reported most often"
    return Sentence(f"{text}.", MODEL, tuple(key for key in keys if key in run.known))


def device_time(run: Run) -> Sentence | None:
    """Say how much time sessions took of devices, and how much of it was wasted."""
    hours, wasted = run.known.get("sessions.device_hours"), run.known.get("sessions.wasted_share")
    if hours is None:
        return None
    much = "none" if not wasted else "all" if wasted == 1 else percent(wasted)
    of_it = "" if wasted is None or not hours else f", {much} of it wasted"
    facts = ("sessions.device_hours", *(("sessions.wasted_share",) if of_it else ()))
    return Sentence(f"Sessions took {number(hours, 3)} hours of device time{of_it}.", COST, facts)


def pace(run: Run) -> Sentence | None:
    """Say how many rounds a day the server makes."""
    if (value := run.known.get("rounds.per_day")) is None:
        return None
    text = number(value, 3)
    return Sentence(f"The server makes {text} {run.noun}{'' if text == '1' else 's'} a day.", COST, ("rounds.per_day",))


def waiting(run: Run) -> Sentence | None:
    """Say how much of the time rounds waited for clients."""
    if not (value := run.known.get("rounds.waiting_share")):
        return None
    longest, facts = run.known.get("rounds.wait.max"), ["rounds.waiting_share"]
    text = f"Rounds wait for clients {percent(value)} of the time"
    if longest:
        text, facts = f"{text}, {duration(longest)} at the longest", [*facts, "rounds.wait.max"]
    return Sentence(f"{text}.", COST, tuple(facts))


def endings(run: Run) -> Sentence | None:
    """Say how sessions ended that gave no report."""
    shares = {name: run.known.get(f"sessions.{name}_share", 0.0) for name in SESSION_OUTCOMES}
    ended = {name: value for name, value in shares.items() if value and name != "reported"}
    if not ended:
        return None
    ways = listing([f"{percent(value)} {name}" for name, value in ended.items()])
    return Sentence(f"Of the sessions, {ways}.", COST, tuple(f"sessions.{name}_share" for name in ended))


def promise(run: Run) -> Sentence | None:
    """Say what is promised to each client."""
    if (epsilon := run.known.get("privacy.epsilon")) is None:
        return None
    text = f"Each client is promised epsilon = {number(epsilon, 4)}, with all that it contributes replaced by zeros"
    if (known := run.known.get("privacy.epsilon_if_known")) is None:
        return Sentence(f"{text}.", COST, ("privacy.epsilon",))
    text += f", as long as the schedule stays secret, this page included; {number(known, 4)} if it is known"
    return Sentence(f"{text}.", COST, ("privacy.epsilon", "privacy.epsilon_if_known"))


def money(run: Run) -> Sentence | None:
    """Say what the run costs by the scenario's prices."""
    return (
        None
        if (value := run.known.get("fleet.cost")) is None
        else Sentence(f"The run costs {number(value)} by the scenario's prices.", COST, ("fleet.cost",))
    )


def convergence(run: Run) -> Sentence | None:
    """Say after how many rounds participation stays that of the long run, at the ends of a convergence study."""
    if run.convergence is None or run.scenario.theory.convergence is None:
        return None
    ways = list[str]()
    for (r,), own in run.convergence.sort("separation", "round").group_by("separation", maintain_order=True):
        far = own.filter(own["tv"] >= _FORGOTTEN)["round"]  # distances may rise again
        after, followed = int(far[-1]) + 1 if len(far) else 0, int(own["round"][-1]) + 1
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
    bias, (metric, dimensions) = bias_of(run), split(key)
    if (own := next((part for part in bias.parts if part.key == key), None)) is not None:
        return share(own)
    name = "" if metric is None else metric.name
    of_selections = name in _DISTANCES and name != key_of(
        run, name.removeprefix("participation.").removeprefix("reported_")
    )
    if name in _WORDS and not of_selections and not dimensions.keys() & {"group", "zone", "job"}:
        return _WORDS[name](run, bias)
    fact = run.fact(key)
    if fact is None or fact["value"] is None:
        return None
    wording, plain = wording_of(key), f"`{key}`" if metric is None else metric.words
    what = wording.the if wording.words != key else plain
    of = [f"“{each}”" for each in dimensions.values() if f"“{each}”" not in what]
    text = f"{capitalized(what)}{f' of {listing(of)}' if of else ''} is {wording.write(fact['value'])}"
    if fact["low"] is not None and fact["high"] is not None:
        text += f" ({wording.write(fact['low'])} to {wording.write(fact['high'])})"
    return Sentence(f"{text}.", WHAT, (key,))


_DISTANCES = {
    f"participation.{of}{kind}_uniform{end}": distance
    for of in ("", "reported_")
    for kind in ("l1", "tv")
    for end in ("", "_corrected")
}
_WORDS: dict[str, Callable[[Run, Bias], Sentence | None]] = {
    **_DISTANCES,
    "participation.coverage": lambda run, _: coverage(run),
    "participation.reported_coverage": lambda run, _: coverage(run),
    "learning.OPTIMIZER.loss": lambda run, _: next(losses(run), None),
    "learning.OPTIMIZER.excess_loss": lambda run, _: next(losses(run), None),
    "rounds.per_day": lambda run, _: pace(run),
    "rounds.waiting_share": lambda run, _: waiting(run),
    "sessions.device_hours": lambda run, _: device_time(run),
    "privacy.epsilon": lambda run, _: promise(run),
    "fleet.cost": lambda run, _: money(run),
}


def headline(run: Run) -> Sentence | None:
    """Say what the scenario asks for.

    That is the fact of `headline`; else that of `decide`, what came of `learning`, the cost by `prices`, a convergence
    study; else who takes part.
    """
    scenario, bias = run.scenario, bias_of(run)
    asked = [scenario.headline, "" if scenario.decide is None else scenario.decide.metric]
    if (found := next((said for key in asked if key and (said := measured(run, key))), None)) is not None:
        return found
    trained = next(losses(run), None) if scenario.learning is not None else None
    return trained or money(run) or convergence(run) or participation(run, bias) or coverage(run)


def sentences(run: Run) -> list[Sentence]:
    """Say what a run measured, by the questions of a reader."""
    bias = bias_of(run)
    found = [
        coverage(run),
        distance(run, bias),
        contrast(bias),
        pull(run),
        selections(run),
        theory(run),
        convergence(run),
    ]
    found += [*losses(run), who_pays(run)]
    found += [device_time(run), pace(run), waiting(run), endings(run), promise(run), money(run)]
    return [each for each in found if each is not None]
