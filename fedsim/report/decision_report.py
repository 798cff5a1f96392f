"""The page of a decision: one sentence, one picture, one table."""

from pathlib import Path

import numpy as np

from fedsim.common.formatting import capitalized, count, number
from fedsim.findings.choice import SweepChoice, loss_parts
from fedsim.findings.decided import decided_findings, decided_of, decided_title, figure_text, figures_of, planned_seeds
from fedsim.findings.finding import Tile
from fedsim.findings.finished_sweep import FinishedSweep, names_of, read_finished_sweep
from fedsim.findings.sweep import sweep_setup, sweep_tiles, what_was_simulated
from fedsim.report.charts import Chart
from fedsim.report.charts.sweep_settings import IntervalRows, interval_chart
from fedsim.report.document import ReportDocument, Section
from fedsim.report.provenance import sweep_provenance
from fedsim.report.sweep_tables import SettingColumn, group_ratio_table, parts_table, setting_table
from fedsim.report.tables import Table
from fedsim.trials.decision import interval

_ROWS = 24  # settings in the picture at most
PICTURE, _LEGEND = "settings", ("not told from the best", "worse, or missing a condition")


def decision_document(final: Path) -> ReportDocument:
    """Compute the page of a decision from the folder of its last stage."""
    sweep = read_finished_sweep(final)
    found = decided_of(sweep)
    best, tiles = found.ranking.best, list[Tile]()
    if best is not None:
        first = Tile(found.at(best), found.wording.words.removeprefix("the "), f"at {found.names[best]}")
        tiles = [first, *sweep_tiles(sweep, found)]
    tables = _tables(found)
    return ReportDocument(
        kind="decision",
        name=sweep.name,
        finding=decided_title(found),
        question=sweep.scenario.question,
        setup=sweep_setup(sweep),
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


def _tables(found: SweepChoice) -> list[Table]:
    """Return the table of the settings, those of what their losses are made of, and that of groups."""
    sweep = found.sweep
    losses = [each for each in loss_parts(sweep) if np.isfinite(each.parts["bias"]).any()]
    more = [*(parts_table(sweep, each) for each in losses), group_ratio_table(sweep)]
    return [decision_table(found), *(table for table in more if table is not None)]


def decision_table(found: SweepChoice) -> Table:
    """Show each setting: how it stands, the figure to choose by, and what it costs, with intervals."""
    sweep, wording = found.sweep, found.wording
    columns: list[SettingColumn] = [("Standing", found.standings)]
    for metric, head in ((wording.metric, wording.short or wording.metric), *figures_of(found)):
        halves = zip(*(each.tolist() for each in interval(sweep.samples(metric))), strict=True)
        columns.append((head, [figure_text(metric, mean, half) for mean, half in halves]))
    columns.append(("Seeds", [number(seeds) for seeds in planned_seeds(sweep).tolist()]))
    note = "Dropped settings had no further seeds. Each setting was tuned on other seeds."
    caption = "Settings, the best first: mean ± half of the 95 % interval"
    return setting_table(sweep, caption, columns, words=1, note=note, order=found.order)


def _tuned_table(sweep: FinishedSweep) -> Table | None:
    names = names_of((*sweep.parameters, *sweep.tuned))
    columns = [(names[path], sweep.values(path)) for path in sweep.tuned]
    return setting_table(sweep, "What each setting was tuned to, on seeds of its own", columns) if columns else None


def _chart(found: SweepChoice) -> Chart:
    mean, half = interval(found.values)
    rows = [row for row in found.order if np.isfinite(mean[row])][:_ROWS]
    first = [row == found.ranking.best or bool(found.ranking.tied[row]) for row in rows]
    wording, scale = found.wording, found.wording.scale
    names, label = tuple(found.names[row] for row in rows), wording.short or wording.metric
    data = IntervalRows(names, scale * mean[rows], scale * half[rows], np.array(first), _LEGEND, label, None, chosen=0)
    left = int(np.isfinite(mean).sum()) - len(rows)
    notes = [f"{count(left, 'setting')} left out."] if left else []
    return interval_chart(data, PICTURE, f"{capitalized(label)} at each setting", notes)
