"""Charts of a scenario's own: drawn twice, so that a page has the same bytes every time; one that fails says why."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fedsim.common.errors import PluginError, told, users_line
from fedsim.common.formatting import distinct
from fedsim.pages.charts import CHARTS, OWN, SECTIONS, Absent, Chart, chart_of
from fedsim.pages.render import picture
from fedsim.pages.tables import Table
from fedsim.run.run import Run
from fedsim.scenario import import_folders, let_import_from
from fedsim.scenario.component import Component
from fedsim.scenario.permissions import Permissions

_LEFT_OUT = "Left out, since it runs code of your own: `fedsim report DIR --allow-plugins` draws it."
_PARTS = {"title": str, "description": str, "table": Table | None, "height": int | float}


@dataclass(frozen=True)
class OwnChart:
    """The result of drawing a chart of the scenario's own."""

    chart: Chart | Absent  # what it shows, or why it is not there
    section: str = OWN  # where it stands in the page
    failure: str = ""  # why it failed; empty where it did not


def own_charts(run: Run, plugins: bool) -> Iterator[OwnChart]:
    """Draw the charts of a scenario's own.

    With `plugins`, code may be imported for them: from where Python finds modules, the working folder, and the folder
    of the scenario file. Without, such charts are left out, which the page says.
    """
    if plugins and run.scenario.charts:
        let_import_from(import_folders(str(run.manifest.get("scenario_file") or ""), Permissions(plugins=True)))
    kinds = [choice.kind.rpartition(":")[2].lower() for choice in run.scenario.charts]
    names = distinct("own-" + re.sub(r"[^a-z0-9]+", "-", kind).strip("-") for kind in kinds)
    for name, choice in zip(names, run.scenario.charts, strict=True):
        if ":" in choice.kind and not plugins:
            yield OwnChart(Absent(name, choice.kind, _LEFT_OUT))
        else:
            yield _draw(name, choice, run)


def _draw(name: str, choice: Component, run: Run) -> OwnChart:
    drawn: object = None
    try:
        kind, again = (CHARTS.build(choice.kind, choice.options) for _ in range(2))
        drawn = kind.draw
        section = getattr(kind, "section", OWN)
        chart = chart_of(name, kind, run)
        if isinstance(chart, Chart):
            for part, wanted in _PARTS.items():
                if not isinstance(getattr(chart, part), wanted):
                    raise TypeError(f"its {part} is {getattr(chart, part)!r}")  # noqa: TRY301
        drawing = picture(chart) if isinstance(chart, Chart) else None
        second = chart_of(name, again, run)
        if drawing is not None and (not isinstance(second, Chart) or picture(second) != drawing):
            drawn = type(kind)
            raise PluginError(CHARTS.unrepeatable(choice.kind))  # noqa: TRY301
        return OwnChart(chart, section if section in SECTIONS else OWN)
    except BaseException as error:  # noqa: BLE001  whatever it is, the page must not be lost
        why = told(error, drawn)
        place = users_line(error, drawn)  # the page does not show it: it has the same bytes wherever it is made
        reason = f"It failed: {why.removesuffix(f' ({place})')}"
        return OwnChart(Absent(name, choice.kind, reason), failure=f"chart {choice.kind!r} failed: {why}")
