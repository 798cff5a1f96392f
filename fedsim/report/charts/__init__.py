"""The charts of a run's report, in the order in which they are read."""

from collections.abc import Mapping
from types import MappingProxyType

from fedsim.report.charts import (
    availability,
    concurrency,
    convergence,
    coverage,
    distance,
    eligible,
    gaps,
    groups,
    optimum,
    participation,
    rounds,
    staleness,
    timeline,
)
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.learning import VIEWS, learning_charts
from fedsim.report.finished_run import FinishedRun

__all__ = ["BUFFERED", "NAMES", "Absent", "Chart", "run_charts"]

NAMES = (
    participation.NAME,
    distance.NAME,
    groups.NAME,
    gaps.NAME,
    coverage.NAME,
    convergence.NAME,
    availability.NAME,
    eligible.NAME,
    timeline.NAME,
    rounds.NAME,
    *(view.name for view in VIEWS),
)
"""Every chart that the report of any run has."""

BUFFERED = (staleness.NAME, concurrency.NAME)
"""Those of buffered servers."""


def run_charts(run: FinishedRun) -> Mapping[str, tuple[Chart | Absent, ...]]:
    """Compute the data of every chart of a run, by the section that shows it; one without data says why."""
    buffered = () if run.buffered is None else (staleness.staleness_chart(run), concurrency.concurrency_chart(run))
    studies = () if run.convergence is None else (convergence.convergence_chart(run.convergence),)
    return MappingProxyType(
        {
            "bias": (
                participation.participation_chart(run),
                distance.distance_chart(run),
                groups.group_chart(run),
                gaps.gap_chart(run),
                coverage.coverage_chart(run),
                *studies,
            ),
            "devices": (
                availability.availability_chart(run),
                eligible.eligible_chart(run),
                timeline.timeline_chart(run),
            ),
            "rounds": (rounds.duration_chart(run), *buffered),
            "learning": (*learning_charts(run), *optimum.optimum_charts(run)),
        }
    )
