"""The charts of a run's report, in the order in which they are read.

To add one, write a class with a method `draw` in a module of its own and name it in `RUN_CHARTS`. Charts that a
scenario names under ``charts`` are built by the same registry.
"""

from typing import Final

from fedsim.common.registry import Registry
from fedsim.report.charts.chart import Absent, Chart, RunChart, chart_of
from fedsim.report.finished_run import FinishedRun

_ROOM = "fedsim.report.charts"
RUN_CHARTS: Final = {
    "participation": f"{_ROOM}.participation:ParticipationChart",
    "distance": f"{_ROOM}.distance:DistanceChart",
    "group-frequency": f"{_ROOM}.groups:GroupChart",
    "tenths": f"{_ROOM}.groups:TenthsChart",
    "zone-frequency": f"{_ROOM}.groups:ZoneChart",
    "gaps": f"{_ROOM}.gaps:GapChart",
    "coverage": f"{_ROOM}.coverage:CoverageChart",
    "convergence": f"{_ROOM}.convergence:ConvergenceChart",
    "availability": f"{_ROOM}.availability:AvailabilityChart",
    "eligible": f"{_ROOM}.eligible:EligibleChart",
    "timeline": f"{_ROOM}.timeline:TimelineChart",
    "durations": f"{_ROOM}.rounds:DurationChart",
    "staleness": f"{_ROOM}.buffered:StalenessChart",
    "places": f"{_ROOM}.buffered:ConcurrencyChart",
    "loss": f"{_ROOM}.learning:Loss",
    "loss-last-half": f"{_ROOM}.learning:LossLastHalf",
    "gradient": f"{_ROOM}.learning:Gradient",
    "gradient-last-half": f"{_ROOM}.learning:GradientLastHalf",
    "loss-time": f"{_ROOM}.learning:LossOverTime",
    "gradient-time": f"{_ROOM}.learning:GradientOverTime",
    "optimum": f"{_ROOM}.learning:OptimumChart",
}
"""Every chart that the report of a run can have, by the anchor in its page."""
CHARTS: Final = Registry[RunChart]("a chart", RunChart, RUN_CHARTS)
OWN = "own"  # the section of charts that name none
SECTIONS = ("bias", "devices", "rounds", "learning", OWN)


def section_of(kind: RunChart) -> str:
    """Return the section of the page in which a chart stands."""
    found: str = getattr(kind, "section", OWN)
    return found


def run_charts(run: FinishedRun) -> dict[str, tuple[Chart | Absent, ...]]:
    """Compute the data of every built-in chart of a run, by the section that shows it; one without data says why."""
    sections: dict[str, tuple[Chart | Absent, ...]] = dict.fromkeys(SECTIONS, ())
    for name in RUN_CHARTS:
        kind = CHARTS[name]()
        made = chart_of(name, kind, run)
        sections[section_of(kind)] += () if made is None else (made,)
    return sections
