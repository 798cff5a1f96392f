"""What is said of a backtest: each figure of a log beside what a scenario expects of it."""

from collections.abc import Iterator, Sequence

import numpy as np

from fedsim.common.formatting import capitalized, count, listing, minus, percent
from fedsim.measure.metrics import describe, split
from fedsim.pages.answer import TRUST, WHAT, Answer, Check, Grade, Section, Sentence
from fedsim.pages.charts import Chart
from fedsim.pages.charts.plot import Rows, row_plot
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.tables import Table
from fedsim.run.backtest import CHECK_INS, RUNS, Figure

_QUESTION = "Does the scenario do what the log shows, on days that it was not fitted to?"
_PARTS = {
    "how fast it goes": ("updates.", "reports."),
    "how long rounds take": ("rounds.",),
    "how sessions end": ("sessions.",),
    "who takes part": ("participation.", "group."),
    "when sessions begin": ("sessions from ",),
}
"""What figures say, and how the names of these begin."""


def backtest_answer(name: str, setup: str, judged: Sequence[Figure], command: str = "") -> Answer:
    """Say what the figures of a log are beside those of `setup`; `command` tells of check-ins too."""
    off = [each for each in judged if not each.within]
    parts = {
        what: [each for each in judged if each.name.startswith(begins) and (" " in each.name) == (" " in begins[0])]
        for what, begins in _PARTS.items()
    }
    right = [what for what, some in parts.items() if some and all(each.within for each in some)]
    wrong = {what: [each for each in some if not each.within] for what, some in parts.items()}
    ways = [f"{what} ({len(some)} of {count(len(parts[what]), 'figure')} off)" for what, some in wrong.items() if some]
    text = f"Yes: {listing(right)}" if right else "No: nothing is as in the log"
    text += f". No: {listing(ways)}." if ways and right else "."
    state = Grade.CAUTION if off else Grade.OK
    use = f"Trust the scenario for {listing(right)}" if right else "Trust the scenario for nothing that was compared"
    use += f", and not for {listing([what for what, some in wrong.items() if some])}." if right and ways else "."
    about = (
        f"Expected is the mean of {count(RUNS)} runs of the scenario. In 9 of 10 cases all figures of one more run lie "
        "from low to high, which are wider by `--check` percent of what is expected (by default 5)."
    )
    rows = tuple(written(each) for some in parts.values() for each in some)
    table = Table("The log beside the scenario", ("Figure", "Verdict", "Log", "Expected", "Low", "High"), rows, words=2)
    remedy = off[0].remedy if off else ""
    changes = dict.fromkeys(each.because for each in off if each.because)
    who, when = (parts[what] for what in ("who takes part", "when sessions begin"))
    charts = (
        _chart("who", "Who takes part", "%", who),
        _chart("hours", "When sessions begin", "share of the sessions (%)", when),
    )
    return Answer(
        kind="backtest",
        name=name,
        headline=text,
        question=_QUESTION,
        setup=setup,
        checks=[Check("backtest", state, text, remedy=remedy, command=command if CHECK_INS in remedy else "")],
        sentences=[
            *(Sentence(f"Why figures may be off: {why}.", WHAT) for why in changes),
            *(Sentence(each, TRUST) for each in (use, about)),
        ],
        sections=(Section("figures", "Log and scenario", charts, [table]),),
        figures=("who", "hours"),
    )


_SHORT = {
    "participation.l1_uniform": "from uniform (TV)",
    "participation.gini": "Gini coefficient",
    "participation.never_share": "never took part",
}


def _chart(name: str, title: str, unit: str, figures: Sequence[Figure]) -> Chart | None:
    """Draw shares of a log beside where runs of the scenario lie; None where they are not compared."""
    if not figures:
        return None
    by = np.array([50.0 if each.name.endswith("l1_uniform") else 100.0 for each in figures])
    log, expected, low, high = (
        by * [getattr(each, which) for each in figures] for which in ("log", "expected", "low", "high")
    )
    data = Rows(
        names=[_label(each.name) for each in figures],
        value=expected,
        margin=np.stack([expected - low, high - expected]),
        filled=np.array([each.within for each in figures]),
        legend=("expected", "expected, and the log is off"),
        unit=unit,
        theory=log,
        tick="log",
        listed=True,
        scale="linear",
        interval="where one more run of the scenario would lie",
    )
    return row_plot(data, name, title)


def _label(name: str) -> str:
    if describe(name) is None:
        return name.removeprefix(_PARTS["when sessions begin"][0])
    return _SHORT.get(name) or f"share of “{split(name)[1]['group']}”"


def written(figure: Figure) -> tuple[str, ...]:
    """Write a figure: its name, by how much it is off, the log's, what is expected, and the ends of the interval."""
    values, by = (figure.log, figure.expected, figure.low, figure.high), figure.log - figure.expected
    if describe(figure.name) is None:
        verdict = f"off by {100 * by:+.1f} points"
        return capitalized(figure.name), "within" if figure.within else minus(verdict), *map(percent, values)
    wording = wording_of(figure.name)
    verdict = "within" if figure.within else f"off by {wording.difference(by)}"
    return capitalized(wording.words), verdict, *map(wording.write, values)


def comparison_lines(judged: Sequence[Figure]) -> Iterator[str]:
    """Say each figure in a line, then how many are off, why, and the next step."""
    for each in judged:
        name, verdict, *values = written(each)
        yield "{}: {} in the log, {} expected ({} to {}): {}".format(name, *values, verdict)
    answer = backtest_answer("", "", judged)
    yield from filter(None, (answer.headline, *(each.text for each in answer.sentences[:-2]), answer.checks[0].remedy))
