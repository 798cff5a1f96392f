"""The page of a decision: one sentence, one picture, one table."""

from pathlib import Path

import numpy as np

from fedsim.common.formatting import capitalized, count, number
from fedsim.pages.charts import Chart
from fedsim.pages.charts.sweep_settings import IntervalRows, interval_chart
from fedsim.pages.choice import loss_parts, objective_wording, order_of, standings
from fedsim.pages.decided import decided_findings, decided_title, figure_text, figures_of
from fedsim.pages.document import ReportDocument, Section
from fedsim.pages.finding import Tile
from fedsim.pages.provenance import sweep_provenance
from fedsim.pages.sweep import sweep_setup, sweep_tiles, what_was_simulated
from fedsim.pages.sweep_tables import SettingColumn, group_ratio_table, parts_table, setting_table
from fedsim.pages.tables import Table
from fedsim.trials.contrasts import interval
from fedsim.trials.decision import UNDECIDED, compared, planned_seeds
from fedsim.trials.trials import Trials, names_of

_ROWS = 24  # settings in the picture at most
PICTURE, _LEGEND = "settings", ("not told from the best", "worse, or missing a condition")


def decision_document(directory: Path) -> ReportDocument:
    """Compute the page of a decision from its folder, or from that of its last stage."""
    trials = Trials.read(directory)
    found, wording, tiles = compared(trials), objective_wording(trials), list[Tile]()
    if (best := found.best) is not None:
        words = wording.words.removeprefix("the ")
        first = Tile(wording.write(float(found.mean[best])), words, f"at {trials.names[best]}")
        tiles = [first, *sweep_tiles(trials)]
    tables = _tables(trials)
    return ReportDocument(
        kind="decision",
        name=trials.name,
        finding=decided_title(trials),
        question=trials.scenario.question,
        setup=sweep_setup(trials),
        description=trials.scenario.description,
        status=trials.meta.get("status", ""),
        answer=(*decided_findings(trials), *what_was_simulated(trials)),
        tiles=tiles,
        sections=(
            Section("settings", "Settings", [] if best is None else [_chart(trials)], tables),
            Section("tuned", "What was tuned", (), [_tuned_table(trials)]),
        ),
        names=(PICTURE,),
        tables=tables,
        origins={"": sweep_provenance(trials.meta)},
    )


def _tables(trials: Trials) -> list[Table]:
    """Return the table of the settings, those of what their losses are made of, and that of groups."""
    losses = [each for each in loss_parts(trials) if np.isfinite(each.parts["bias"]).any()]
    more = [*(parts_table(trials, each) for each in losses), group_ratio_table(trials)]
    return [decision_table(trials), *(table for table in more if table is not None)]


def decision_table(trials: Trials) -> Table:
    """Show each setting: how it stands, the figure to choose by, and what it costs, with intervals."""
    wording = objective_wording(trials)
    columns: list[SettingColumn] = [("Standing", standings(trials))]
    for metric, head in ((wording.metric, wording.short or wording.metric), *figures_of(trials)):
        halves = zip(*(each.tolist() for each in interval(trials.samples(metric))), strict=True)
        columns.append((head, [figure_text(metric, mean, half) for mean, half in halves]))
    columns.append(("Seeds", [number(seeds) for seeds in planned_seeds(trials).tolist()]))
    note = "Dropped settings had no further seeds. Each setting was tuned on other seeds."
    caption = "Settings, the best first: mean ± half of the 95 % interval"
    return setting_table(trials, caption, columns, words=1, note=note, order=order_of(trials))


def _tuned_table(trials: Trials) -> Table | None:
    names = names_of((*trials.parameters, *trials.tuned))
    columns = [(names[path], trials.texts(path)) for path in trials.tuned]
    return setting_table(trials, "What each setting was tuned to, on seeds of its own", columns) if columns else None


def _chart(trials: Trials) -> Chart:
    found, wording = compared(trials), objective_wording(trials)
    rows = [row for row in order_of(trials) if np.isfinite(found.mean[row])][:_ROWS]
    first = [row in {found.best, *found.rows(*UNDECIDED)} for row in rows]
    names, label, scale = tuple(trials.names[row] for row in rows), wording.short or wording.metric, wording.scale
    mean, half = scale * found.mean[rows], scale * found.margin[rows]
    data = IntervalRows(names, mean, half, np.array(first), _LEGEND, label, None, chosen=0)
    left = int(np.isfinite(found.mean).sum()) - len(rows)
    notes = [f"{count(left, 'setting')} left out."] if left else []
    return interval_chart(data, PICTURE, f"{capitalized(label)} at each setting", notes)
