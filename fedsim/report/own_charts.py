"""Charts of a scenario's own, drawn so that one that fails costs neither the run nor the page."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fedsim.common.errors import FedsimError, KeyPath, Mistake
from fedsim.report.charts import CHARTS, OWN, RUN_CHARTS, SECTIONS, section_of
from fedsim.report.charts.chart import Absent, Chart, chart_of
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import distinct
from fedsim.report.render import Picture, picture
from fedsim.report.tables import Table
from fedsim.scenario import Scenario, import_folders, let_import_from
from fedsim.scenario.component import Component
from fedsim.scenario.permissions import Permissions

_LEFT_OUT = "Left out, since it runs code of your own: `fedsim report DIR --allow-plugins` draws it."
_PARTS = {"title": str, "description": str, "table": Table | None, "height": int | float}


@dataclass(frozen=True)
class OwnChart:
    """The result of drawing a chart of the scenario's own."""

    chart: Chart | Absent  # what it shows, or why it is not there
    section: str = OWN  # where it stands in the page
    picture: Picture | None = None  # the chart, drawn; None where it is not there
    failure: str = ""  # why it failed; empty where it did not


def check_charts(scenario: Scenario) -> list[Mistake]:
    """Return what is wrong with a scenario's choice of charts, as far as it can be known before there is a run."""
    found: list[tuple[KeyPath, str]] = []
    for index, choice in enumerate(scenario.charts):
        if choice.kind in RUN_CHARTS:
            found.append((("charts", index, "kind"), f"{choice.kind!r} is a chart of every report already"))
        else:
            findings = CHARTS.check(choice.kind, choice.options)
            found += [(("charts", index, *path), message) for path, message in findings]
    return [scenario.mistake(path, message) for path, message in found]


def own_charts(run: FinishedRun, plugins: bool) -> Iterator[OwnChart]:
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


def _draw(name: str, choice: Component, run: FinishedRun) -> OwnChart:
    try:
        kind = CHARTS.build(choice.kind, choice.options)
        section = section_of(kind)
        chart = chart_of(name, kind, run)
        if chart is None:
            chart = Absent(name, choice.kind, "It has nothing to show of this run.")
        if isinstance(chart, Chart):
            for part, wanted in _PARTS.items():
                if not isinstance(getattr(chart, part), wanted):
                    raise TypeError(f"its {part} is {getattr(chart, part)!r}")  # noqa: TRY301
        drawing = picture(chart) if isinstance(chart, Chart) else None
        return OwnChart(chart, section if section in SECTIONS else OWN, drawing)
    except Exception as error:  # noqa: BLE001  whatever it is, the page must not be lost
        why = str(error) if isinstance(error, FedsimError) else f"{type(error).__name__}: {error}"
        return OwnChart(Absent(name, choice.kind, f"It failed: {why}"), failure=f"chart {choice.kind!r} failed: {why}")
