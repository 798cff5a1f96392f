"""The report of one run."""

from collections.abc import Sequence

from fedsim.report.answer import answer
from fedsim.report.charts import BUILTIN, run_charts
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.document import Document
from fedsim.report.finding import finding
from fedsim.report.finished_run import FinishedRun
from fedsim.report.own_charts import own_charts
from fedsim.report.privacy import privacy_section
from fedsim.report.provenance import provenance
from fedsim.report.tables import (
    bias_table,
    client_table,
    ending_table,
    group_table,
    learning_table,
    own_metric_table,
)
from fedsim.report.tiles import tiles
from fedsim.report.verdict import verdict
from fedsim.report.what_if import what_if


def _shown(charts: Sequence[Chart | Absent]) -> bool:
    return any(isinstance(chart, Chart) for chart in charts)


def run_document(run: FinishedRun, plugins: bool = False) -> Document:
    """Compute everything that the report of a run shows; `plugins` lets it import code for charts of its own."""
    own, charts = list(own_charts(run, plugins)), run_charts(run)
    for each in own:
        charts[each.section] += (each.chart,)
    origin, learning = provenance(run), learning_table(run)
    rounds = run.rounds.group_by("outcome").len()
    endings = (ending_table(f"{run.noun}s", rounds), ending_table("sessions", run.gathered.outcomes))
    return Document(
        kind="run",
        name=run.name,
        finding=finding(run),
        question=run.scenario.question,
        description=run.scenario.description,
        status=run.manifest.get("status"),
        verdict=verdict(run.manifest.get("verdict")),
        answer=answer(run),
        tiles=tuple(tiles(run)),
        charts=charts,
        names=(*BUILTIN, *(each.chart.name for each in own if each.picture or each.failure)),
        context={
            "noun": run.noun,
            "trained": run.scenario.learning is not None or bool(learning) or _shown(charts["learning"]),
            "learning": learning,
            "distances": bias_table(run),
            "groups": group_table(run),
            "clients": client_table(run),
            "endings": [table for table in endings if table.rows],
            "privacy": privacy_section(run),
            "own_metrics": own_metric_table(run),
            "provenance": origin,
            "what_if": what_if(run),
        },
        tables=[learning],
        command=origin.command,
        version=origin.version,
        pictures={each.chart.name: each.picture for each in own if each.picture is not None},
        failures=tuple(each.failure for each in own if each.failure),
    )
