"""The page of a decision: one sentence, one picture, one table."""

from pathlib import Path

import numpy as np

from fedsim.findings.choice import loss_parts
from fedsim.findings.decided import Decided, decided_findings, decided_of, decided_title, figure_text, figures_of
from fedsim.findings.finding import Tile
from fedsim.findings.finished_sweep import FinishedSweep, names_of, read_finished_sweep
from fedsim.findings.formatting import count, number
from fedsim.findings.sweep import what_was_simulated
from fedsim.report.charts import Chart
from fedsim.report.charts.sweep_settings import IntervalRows, interval_chart
from fedsim.report.document import ReportDocument, Section
from fedsim.report.provenance import sweep_provenance
from fedsim.report.sweep_tables import group_ratio_table, parts_table
from fedsim.report.tables import Table
from fedsim.sweeps.decision import interval

_ROWS = 24  # settings in the picture at most
PICTURE, _LEGEND = "settings", ("the best, and its ties", "worse")


def decision_document(final: Path) -> ReportDocument:
    """Compute the page of a decision from the folder of its last stage."""
    sweep = read_finished_sweep(final)
    found = decided_of(sweep)
    tables = _tables(found)
    best = found.best
    tiles = [] if best is None else [Tile(found.choice.at(best), found.choice.wording.words, found.choice.names[best])]
    return ReportDocument(
        kind="decision",
        name=sweep.name,
        finding=decided_title(found),
        question=sweep.scenario.question,
        description=sweep.scenario.description,
        status=sweep.meta.get("status", ""),
        answer=(*decided_findings(found), *what_was_simulated(sweep)),
        tiles=tiles,
        sections=(
            Section("settings", "Settings", [] if best is None else [_chart(found)], tables),
            Section("tuned", "What was tuned", (), [_tuned_table(sweep)]),
        ),
        names=(PICTURE,),
        tables=tables,
        origins={"": sweep_provenance(sweep.meta)},
    )


def _tables(found: Decided) -> list[Table]:
    """Return the table of the settings, those of what their losses are made of, and that of groups."""
    sweep = found.choice.sweep
    losses = [each for each in loss_parts(sweep) if np.isfinite(each.parts["bias"]).any()]
    more = [*(parts_table(sweep, each) for each in losses), group_ratio_table(sweep)]
    return [decision_table(found), *(table for table in more if table is not None)]


def _order(found: Decided) -> list[int]:
    """Order the settings: those that are ranked, then the others by their means."""
    ranked, mean = found.choice.ranking.order.tolist(), found.choice.mean
    sign = -1 if found.choice.maximize else 1
    others = [row for row in range(len(mean)) if row not in set(ranked)]
    return [*ranked, *sorted(others, key=lambda row: sign * np.nan_to_num(mean[row], nan=sign * np.inf))]


def decision_table(found: Decided) -> Table:
    """Show each setting: how it stands, the figure to choose by, and what it costs, with intervals."""
    choice, sweep = found.choice, found.choice.sweep
    shown = [(choice.wording.metric, choice.wording.short or choice.wording.metric), *figures_of(found)]
    halves = {metric: interval(sweep.samples(metric)) for metric, _ in shown}
    rows = []
    for row in _order(found):
        cells = [figure_text(metric, *(float(each[row]) for each in halves[metric])) for metric, _ in shown]
        values = [sweep.values(name)[row] for name in sweep.parameters]
        rows.append((*values, found.standing(row), *cells, number(found.seeds[row])))
    header = (*names_of(sweep.parameters).values(), "Standing", *(head for _, head in shown), "Seeds")
    note = "Dropped settings had no further seeds. Each setting was tuned on other seeds."
    caption = "Settings, the best first: mean ± half of the 95 % interval"
    return Table(caption, header, tuple(rows), len(sweep.parameters) + 1, note)


def _tuned_table(sweep: FinishedSweep) -> Table | None:
    if not sweep.tuned:
        return None
    columns = [sweep.values(name) for name in (*sweep.parameters, *sweep.tuned)]
    names = names_of((*sweep.parameters, *sweep.tuned))
    rows = tuple(zip(*columns, strict=True))
    return Table("What each setting was tuned to, on seeds of its own", (*names.values(),), rows, len(names))


def _chart(found: Decided) -> Chart:
    choice = found.choice
    mean, half = interval(choice.values)
    rows = [row for row in _order(found) if np.isfinite(mean[row])][:_ROWS][::-1]
    first = [row == found.best or bool(choice.ranking.tied[row]) for row in rows]
    wording, scale = choice.wording, choice.wording.scale
    names, label = tuple(choice.names[row] for row in rows), wording.short or wording.metric
    data = IntervalRows(names, scale * mean[rows], scale * half[rows], np.array(first), _LEGEND, label, None)
    left = int(np.isfinite(mean).sum()) - len(rows)
    notes = [f"{count(left, 'setting')} left out."] if left else []
    return interval_chart(data, PICTURE, f"{label} at each setting", notes)
