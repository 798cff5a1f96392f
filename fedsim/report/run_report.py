"""The report of one run."""

from fedsim.report.answer import answer, tiles
from fedsim.report.charts import BUFFERED, NAMES, run_charts
from fedsim.report.document import Document
from fedsim.report.finished_run import FinishedRun
from fedsim.report.markdown import plain_table, summary
from fedsim.report.provenance import provenance
from fedsim.report.tables import Table, client_table, group_table, learning_table, round_table, session_table
from fedsim.report.verdict import verdict


def run_document(run: FinishedRun) -> Document:
    """Compute everything that the report of a run shows."""
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
            "provenance": origin,
        },
        charts=run_charts(run),
        names=(*NAMES, *BUFFERED),
        summary=summary(
            "run", run.name, judged, said, key, [plain_table(learning)] if learning else [], origin.command
        ),
    )


def _not_empty(*tables: Table) -> tuple[Table, ...]:
    return tuple(table for table in tables if table.rows)
