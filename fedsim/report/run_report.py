"""The report of one run."""

from fedsim.report.answer import answer, tiles
from fedsim.report.charts import BUILTIN, run_charts
from fedsim.report.document import Document
from fedsim.report.finished_run import FinishedRun
from fedsim.report.own_charts import own_charts
from fedsim.report.provenance import provenance
from fedsim.report.tables import (
    client_table,
    ending_table,
    group_table,
    learning_table,
    own_metric_table,
)
from fedsim.report.verdict import verdict
from fedsim.report.what_if import what_if


def run_document(run: FinishedRun, plugins: bool = False) -> Document:
    """Compute everything that the report of a run shows; `plugins` lets it import code for charts of its own."""
    own, charts = list(own_charts(run, plugins)), run_charts(run)
    for each in own:
        charts[each.section] += (each.chart,)
    origin, learning = provenance(run), learning_table(run)
    rounds = run.rounds.group_by("outcome").len()
    endings = (ending_table("rounds", rounds), ending_table("sessions", run.gathered.outcomes))
    return Document(
        kind="run",
        name=run.name,
        description=run.scenario.description,
        status=run.manifest.get("status"),
        verdict=verdict(run.manifest.get("verdict")),
        answer=answer(run),
        tiles=tuple(tiles(run)),
        charts=charts,
        names=(*BUILTIN, *(each.chart.name for each in own if each.picture or each.failure)),
        context={
            "learning": learning,
            "groups": group_table(run),
            "clients": client_table(run),
            "endings": [table for table in endings if table.rows],
            "own_metrics": own_metric_table(run),
            "provenance": origin,
            "what_if": what_if(run),
        },
        tables=[learning],
        command=origin.command,
        pictures={each.chart.name: each.picture for each in own if each.picture is not None},
        failures=tuple(each.failure for each in own if each.failure),
    )
