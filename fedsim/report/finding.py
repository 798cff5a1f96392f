"""The finding of a run in one sentence that needs no glossary: the title of its page."""

from fedsim.report.bias import Seen, bias_of
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import capitalized, percent, roughly
from fedsim.report.parts import largest_contrast, never_by_chance, tenth_shares

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
    if bias.seen in _TITLES:
        return f"{_TITLES[bias.seen]}."
    if bias.seen is Seen.NONE and bias.more_even:
        return "Turns are spread more evenly than equal chances would spread them."
    if bias.seen is Seen.NONE:
        return "No bias to be seen: turns are spread as equal chances would spread them."
    if bias.seen is Seen.BIAS:
        share = capitalized(roughly(bias.misplaced, bias.margin or 0.0))
        return f"{share} of all turns go to the wrong devices{_who(run)}."
    begin = "Too short to tell how biased" if bias.seen is Seen.UNCLEAR else "Hardly biased"
    misplaced, fair = percent(bias.misplaced), percent(bias.misplaced_by_chance)
    return f"{begin}: {misplaced} of all turns go to the wrong devices, and equal chances would misplace {fair}."


def _who(run: FinishedRun) -> str:
    """Say who gets too many turns, or none; empty where neither can be named."""
    if (ends := largest_contrast(run)) is not None:
        return f"; {ends.words}"
    taken, clients = int(run.clients["participations"].sum()), len(run.clients)
    never = int((run.clients["participations"] == 0).sum()) / clients
    if never > max(_MENTIONED, 2 * never_by_chance(taken, clients)):
        return f"; {percent(never)} of the devices never get one"
    tenths = tenth_shares(run)
    if tenths is None or tenths.most <= tenths.most_by_chance:
        return ""
    by_chance = percent(tenths.most_by_chance)
    return f"; the busiest tenth takes {percent(tenths.most)} of them, where chance would give it {by_chance}"
