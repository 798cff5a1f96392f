"""The charts of a run's report, in the order in which they are read.

To add one, write a function that makes a `Chart` of a `Run` and name it in `run_charts`. Charts that a scenario
names under ``charts`` are classes, built by the registry `CHARTS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from matplotlib.axes import Axes

from fedsim.common.errors import Mistake
from fedsim.common.registry import Registry
from fedsim.pages.bias import Bias
from fedsim.pages.tables import Table
from fedsim.run.run import Run
from fedsim.scenario import Scenario


@dataclass(frozen=True)
class Chart:
    """A chart that is ready to be drawn."""

    name: str  # its anchor in the page and its file under `figures/`
    title: str  # its finding, or what it shows
    description: str  # its finding for readers who cannot see it
    notes: tuple[str, ...]  # how to read it: what a mark stands for, what was averaged or left out
    table: Table | None  # its data; None where it has none to show
    draw: Callable[[Axes], None]  # draws it on empty axes
    height: float = 1.0  # how tall it is, relative to the usual height
    finding: str = ""  # what is to be seen, in a sentence below the title; empty where the title says it
    aside: bool = False  # of interest to few, and folded away


@dataclass(frozen=True)
class Absent:
    """A chart of the scenario's own that the page has not, and why."""

    name: str
    title: str
    reason: str


class RunChart(Protocol):
    """Draws a chart of a run.

    It may have a method ``prepare(run)``, which returns the data to draw; or a text that says why there are none; or
    None. Without it, the data are the `Run` itself. It may have
    ``title``, a text or a method of the run, and ``finding``, a method of the data: what is to be seen, in about 80
    characters, which becomes the title. It may have ``description``, ``notes`` (texts), ``table`` and ``height``, each
    a value or a method of the data; and ``section``: bias, devices, rounds or learning.
    """

    def draw(self, data: Any, axes: Axes) -> None:
        """Draw the data on empty axes, on which the style of the page is set."""
        ...


def chart_of(name: str, kind: RunChart, run: Run) -> Chart | Absent:
    """Compute what a chart of the scenario's own shows of a run, or why it shows nothing."""
    prepare = getattr(kind, "prepare", None)
    data = run if prepare is None else prepare(run)
    title = _part_of(kind, "title", type(kind).__name__, run)
    if data is None or isinstance(data, str):
        return Absent(name, title, data or "It has nothing to show of this run.")
    notes = _part_of(kind, "notes", (), data)
    return Chart(
        name=name,
        title=_part_of(kind, "finding", title, data),
        description=_part_of(kind, "description", title, data),
        notes=(notes,) if isinstance(notes, str) else tuple(notes),
        table=_part_of(kind, "table", None, data),
        draw=partial(kind.draw, data),
        height=_part_of(kind, "height", 1.0, data),
    )


def _part_of(kind: RunChart, what: str, otherwise: Any, data: object) -> Any:
    """Return an attribute of a chart: a value, or what its method returns for the data."""
    part = getattr(kind, what, otherwise)
    return part(data) if callable(part) else part


RUN_CHARTS: Final = (
    *("who", "who-groups", "who-zones", "who-weights", "who-availability", "who-speed", "who-over-time", "lorenz"),
    *("reached", "distance", "convergence", "hours", "eligible", "week", "durations", "one-round"),
    *("staleness", "steps", "loss", "loss-whole", "loss-noise", "optimum", "cost"),
)
"""Every chart that the report of a run can have, by the anchor in its page."""
CHARTS: Final = Registry[RunChart](
    "a chart", RunChart, {}, at="charts[]", chance="draw chance from np.random.default_rng(0), made in draw"
)
OWN = "own"  # the section of charts that name none
SECTIONS = ("bias", "devices", "rounds", "learning", OWN)


def run_charts(run: Run, bias: Bias) -> dict[str, tuple[Chart | Absent, ...]]:
    """Compute the data of every chart of a run, by the section that shows it."""
    from fedsim.pages.charts import availability, distance, learning, rounds, timelines, who

    made = {
        "bias": [
            *(*who.who_charts(run, bias), who.over_time_chart(run, bias), who.reached_chart(run)),
            *(distance.distance_chart(run), distance.convergence_chart(run)),
        ],
        "devices": [*(availability.local_chart(run), availability.eligible_chart(run)), timelines.week_chart(run)],
        "rounds": [rounds.duration_chart(run), timelines.round_chart(run), rounds.staleness_chart(run)],
        "cost": [rounds.cost_chart(run)],
        "learning": [
            *(who.steps_chart(run), *learning.loss_charts(run)),
            *(learning.noise_chart(run), learning.training_chart(run, "distance")),
        ],
        OWN: [],
    }
    return {section: tuple(each for each in charts if each is not None) for section, charts in made.items()}


def check_charts(scenario: Scenario) -> list[Mistake]:
    """Return what is wrong with a scenario's choice of charts, as far as it can be known before there is a run."""
    mistakes = list[Mistake]()
    for index, choice in enumerate(scenario.charts):
        findings = CHARTS.check(choice.kind, choice.options)
        if choice.kind in RUN_CHARTS:
            findings = [(("kind",), f"{choice.kind!r} is a chart of every report already")]
        mistakes += [scenario.mistake(("charts", index, *path), message) for path, message in findings]
    return mistakes
