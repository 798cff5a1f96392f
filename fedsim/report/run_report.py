"""The report of one run."""

from fedsim.report.answer import answer, tiles
from fedsim.report.charts import BUILTIN, run_charts
from fedsim.report.document import Document
from fedsim.report.finished_run import FinishedRun
from fedsim.report.markdown import plain_table, summary
from fedsim.report.own_charts import own_charts
from fedsim.report.provenance import provenance
from fedsim.report.tables import (
    Table,
    client_table,
    group_table,
    learning_table,
    own_metric_table,
    round_table,
    session_table,
)
from fedsim.report.verdict import verdict


def run_document(run: FinishedRun, plugins: bool = False) -> Document:
    """Compute everything that the report of a run shows; `plugins` lets it import code for charts of its own."""
    own, charts = list(own_charts(run, plugins)), run_charts(run)
    for each in own:
        charts[each.section] += (each.chart,)
    judged, said, key = verdict(run.manifest.get("verdict")), answer(run), tiles(run)
    origin, learning = provenance(run), learning_table(run)
    return Document(
        name=run.name,
        template="run.html.jinja",
        context={
            "description": run.scenario.description,
            "status": run.manifest.get("status"),
            "verdict": judged,
            "answer": said,
            "tiles": key,
            "learning": learning,
            "groups": group_table(run),
            "clients": client_table(run),
            "endings": _not_empty(round_table(run), session_table(run)),
            "own_metrics": own_metric_table(run),
            "provenance": origin,
        },
        charts=charts,
        names=(*BUILTIN, *(each.chart.name for each in own if each.picture or each.failure)),
        summary=summary(
            "run", run.name, judged, said, key, [plain_table(learning)] if learning else [], origin.command
        ),
        pictures={each.chart.name: each.picture for each in own if each.picture is not None},
        failures=tuple(each.failure for each in own if each.failure),
    )


def _not_empty(*tables: Table) -> tuple[Table, ...]:
    return tuple(table for table in tables if table.rows)
