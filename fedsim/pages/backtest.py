"""What is said of a backtest: each figure of a log beside what a scenario expects of it."""

from collections.abc import Sequence

from fedsim.common.formatting import count, percent
from fedsim.measure.metrics import describe
from fedsim.pages.answer import TRUST, WHAT, Answer, Check, Grade, Section, Sentence
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.tables import Table
from fedsim.run.backtest import RUNS, Figure


def backtest_answer(name: str, setup: str, judged: Sequence[Figure]) -> Answer:
    """Return what is said of the figures of a log; `setup` is what they were compared with."""
    off = [each for each in judged if not each.within]
    text = f"{count(len(judged) - len(off))} of {count(len(judged), 'figure')} of the log are as the scenario expects."
    state = Grade.CAUTION if off else Grade.OK
    about = (
        f"Intervals are those of one more run by {count(RUNS)}, at 90 % for all figures together, and the tolerance."
    )
    rows = tuple((*written(each)[:1], each.verdict, *written(each)[1:]) for each in judged)
    table = Table("The log beside the scenario", ("Figure", "Verdict", "Log", "Expected", "From", "To"), rows, words=2)
    changes = dict.fromkeys(each.because for each in off if each.because)
    return Answer(
        kind="backtest",
        name=name,
        headline=text,
        setup=setup,
        checks=[Check("backtest", state, text)],
        sentences=[*(Sentence(f"What is off is so because {why}.", WHAT) for why in changes), Sentence(about, TRUST)],
        sections=(Section("figures", "Log and scenario", (), [table]),),
    )


def written(figure: Figure) -> tuple[str, ...]:
    """Write a figure: its name, that of the log, what is expected, and the ends of the interval."""
    values = (figure.log, figure.expected, figure.low, figure.high)
    if describe(figure.name) is None:
        return figure.name, *map(percent, values)
    wording = wording_of(figure.name)
    return wording.words, *map(wording.write, values)


def figure_line(figure: Figure) -> str:
    """Say a figure in a line."""
    return "{}: {} in the log, {} expected ({} to {}): {}".format(*written(figure), figure.verdict)
