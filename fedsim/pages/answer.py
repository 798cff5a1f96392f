"""The answer: what a command says of a run or of trials, which each printer writes in its own form."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fedsim.pages.charts import Absent, Chart
from fedsim.pages.expectations import Verdict
from fedsim.pages.provenance import ReportProvenance
from fedsim.pages.tables import Table
from fedsim.run.check import Check, Grade, agreeing

__all__ = ["BIAS", "COST", "MODEL", "NEXT", "TRUST", "WHAT", "Answer", "Check", "Grade", "Section", "Sentence", "Tile"]

ANSWER_VERSION = 1
"""Of the JSON form of an answer."""

# What sentences are about: the questions of a reader, in their order
WHAT, BIAS, MODEL, PRIVACY = "What happens", "How biased", "To the model", "To privacy"
COST, TRUST, NEXT = "At what cost", "Can I trust it", "Do this next"
QUESTIONS = (WHAT, BIAS, MODEL, PRIVACY, COST, TRUST, NEXT)


@dataclass(frozen=True)
class Sentence:
    """A fact or a contrast in words."""

    text: str
    about: str = ""  # the question of a reader that it answers
    facts: tuple[str, ...] = ()  # keys of the facts that it names
    command: str = ""  # what does what it says, for a shell


@dataclass(frozen=True)
class Tile:
    """A key figure: its value, what it is, and what to compare it with."""

    value: str
    label: str
    detail: str = ""
    facts: tuple[str, ...] = ()  # keys of the facts that it shows


@dataclass(frozen=True)
class Section:
    """Charts and tables below the first screen; a section that has nothing to show is left out."""

    name: str  # its anchor
    title: str
    charts: Sequence[Chart | Absent | None] = ()
    tables: Sequence[Table | None] = ()
    folded: bool = False  # opened by those who want it


@dataclass(frozen=True)
class Answer:
    """What is said of a run, of trials or of a comparison."""

    kind: str  # ``run``, ``jobs``, ``sweep``, ``decision``, ``comparison`` or ``backtest``
    name: str  # as a person wrote it: text, never markup
    headline: str  # one sentence: a bad check, or else the fact that the scenario asks for
    question: str = ""
    setup: str = ""  # what was simulated, in a few words
    description: str = ""
    status: str = ""  # how far it got
    verdict: Verdict | None = None  # what became of expectations
    checks: Sequence[Check] = ()  # in the order of their list
    sentences: Sequence[Sentence] = ()  # by question
    trust: Sequence[Sentence] = ()  # what a page says of trust before its alarms
    tiles: Sequence[Tile] = ()
    picture: str = ""  # the chart of the first screen; where none has this name, the first that has data
    sections: Sequence[Section] = ()
    figures: tuple[str, ...] = ()  # names of the charts that an answer of this kind can have; ``*`` for any part
    origins: Mapping[str, ReportProvenance] = field(default_factory=dict)  # by the letter of a run; one has none
    failures: tuple[str, ...] = ()  # charts of the scenario's own that could not be drawn, for stderr

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", agreeing(self.checks))

    @property
    def charts(self) -> list[Chart]:
        """The charts that have data, in the order of the page."""
        return [chart for section in self.sections for chart in section.charts if isinstance(chart, Chart)]

    @property
    def first_picture(self) -> Chart | None:
        """The chart of the first screen; None where no chart has data."""
        return next((chart for chart in self.charts if chart.name == self.picture), next(iter(self.charts), None))

    @property
    def alarms(self) -> list[Check]:
        """The checks that are not as they should be, the bad ones first."""
        return [each for state in (Grade.BAD, Grade.CAUTION) for each in self.checks if each.state is state]

    @property
    def remedies(self) -> Iterator[Sentence]:
        """What to do next, once each."""
        for each in {each.remedy: each for each in self.checks if each.remedy}.values():
            yield Sentence(each.remedy, NEXT, each.facts, each.command)

    def json(self) -> dict[str, Any]:
        """Return the answer for JSON: version, kind, name, headline, checks, sentences and tiles."""
        verdict = self.verdict
        return {
            "version": ANSWER_VERSION,
            "kind": self.kind,
            "name": self.name,
            "question": self.question,
            "setup": self.setup,
            "answer": self.headline,
            "expectations": None
            if verdict is None
            else {"status": verdict.status, "text": verdict.headline}
            | {"missed": [{**vars(each), "words": each.words} for each in verdict.attention]},
            "checks": [
                {key: each for key, each in vars(check).items() if key not in {"turns", "since"}}
                for check in self.checks
            ],
            "sentences": [asdict(each) for each in self.sentences],
            "tiles": [asdict(each) for each in self.tiles],
        }
