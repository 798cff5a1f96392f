"""What is said of a backtest: each figure of a log beside what a scenario expects of it."""

from collections.abc import Iterator, Sequence

from fedsim.common.formatting import count, listing_of, percent
from fedsim.measure.metrics import describe
from fedsim.pages.answer import TRUST, WHAT, Answer, Check, Grade, Section, Sentence
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.tables import Table
from fedsim.pages.trial_checks import NAMED
from fedsim.run.backtest import RUNS, Figure

_REMEDY = (
    "Where a change is named, calibrate with the days after it, `--since DAY`; where availability is not known, with "
    "`--check-ins FILE`."
)


def backtest_answer(name: str, setup: str, judged: Sequence[Figure]) -> Answer:
    """Return what is said of the figures of a log; `setup` is what they were compared with."""
    off = [each for each in judged if not each.within]
    text = f"{count(len(judged) - len(off))} of {count(len(judged), 'figure')} of the log are as the scenario expects"
    text += f"; off: {listing_of([written(each)[0] for each in off], NAMED)}." if off else "."
    state = Grade.CAUTION if off else Grade.OK
    about = (
        f"Expected is the mean of {count(RUNS)} runs of the scenario; from and to are where one more run would lie, "
        "at 90 % for all figures together, widened by the tolerance."
    )
    off_first = [*off, *(each for each in judged if each.within)]
    rows = tuple((*written(each)[:1], each.verdict, *written(each)[1:]) for each in off_first)
    table = Table("The log beside the scenario", ("Figure", "Verdict", "Log", "Expected", "From", "To"), rows, words=2)
    changes = dict.fromkeys(each.because for each in off if each.because)
    return Answer(
        kind="backtest",
        name=name,
        headline=text,
        setup=setup,
        checks=[Check("backtest", state, text, remedy=_REMEDY if off else "")],
        sentences=[*(Sentence(f"Why figures are off: {why}.", WHAT) for why in changes), Sentence(about, TRUST)],
        sections=(Section("figures", "Log and scenario", (), [table]),),
    )


def written(figure: Figure) -> tuple[str, ...]:
    """Write a figure: its name, that of the log, what is expected, and the ends of the interval."""
    values = (figure.log, figure.expected, figure.low, figure.high)
    if describe(figure.name) is None:
        return figure.name, *map(percent, values)
    wording = wording_of(figure.name)
    return wording.words, *map(wording.write, values)


def comparison_lines(judged: Sequence[Figure]) -> Iterator[str]:
    """Say each figure in a line, then how many are off, why, and the next step."""
    for each in judged:
        yield "{}: {} in the log, {} expected ({} to {}): {}".format(*written(each), each.verdict)
    answer = backtest_answer("", "", judged)
    yield from filter(None, (answer.headline, *(each.text for each in answer.sentences[:-1]), answer.checks[0].remedy))
