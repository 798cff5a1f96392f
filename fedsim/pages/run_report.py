"""The report of one run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from fedsim.common.errors import PluginError, told, users_line
from fedsim.common.formatting import NO_VALUE, capitalized, count, distinct, number, with_separation
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.learning.private import caveats_of
from fedsim.measure.contributions import Contributions
from fedsim.pages import tables
from fedsim.pages.charts import CHARTS, OWN, RUN_CHARTS, SECTIONS, Absent, Chart, chart_of, run_charts
from fedsim.pages.document import ReportDocument, Section
from fedsim.pages.expectations import verdict
from fedsim.pages.finding import Finding
from fedsim.pages.methods import paying_findings
from fedsim.pages.provenance import run_provenance
from fedsim.pages.render import Picture, picture
from fedsim.pages.run import asks_of_convergence, run_answer, setup_of
from fedsim.pages.tables import Table
from fedsim.privacy.bounds import ParticipationBounds, broken_promises
from fedsim.privacy.epsilon import epsilon_of_rho
from fedsim.run.run import Run
from fedsim.scenario import import_folders, let_import_from
from fedsim.scenario.component import Component
from fedsim.scenario.permissions import Permissions
from fedsim.scenario.privacy import SECRET


def run_document(run: Run, plugins: bool = False) -> ReportDocument:
    """Compute everything that the report of a run shows; `plugins` lets it import code for charts of its own."""
    said, own = run_answer(run), list(own_charts(run, plugins))
    charts = run_charts(run, said.bias)
    for each in own:
        charts[each.section] += (each.chart,)
    learning, noun = tables.learning_table(run), run.noun
    rounds = run.rounds.group_by("outcome").len()
    endings = (tables.ending_table(f"{noun}s", rounds), tables.ending_table("sessions", _outcomes(run)))
    sections = (
        Section("bias", "Participation and bias", charts["bias"], [tables.bias_table(run, said.bias)]),
        Section(
            "learning", "Learning", charts["learning"], [learning, tables.who_pays_table(run)], (*paying_findings(run),)
        ),
        Section("devices", "Devices and time", charts["devices"]),
        Section("rounds", f"{capitalized(noun)}s and sessions", charts["rounds"], endings, folded=True),
        privacy_section(run),
        Section("own", "Of the scenario's own", charts[OWN], [tables.own_metric_table(run)]),
    )
    return ReportDocument(
        kind="run",
        name=run.scenario.name,
        finding=said.title,
        question=run.scenario.question,
        setup=with_separation(", ".join(setup_of(run))),
        description=run.scenario.description,
        status=run.manifest.get("status"),
        verdict=verdict(run.manifest.get("verdict")),
        answer=said.findings,
        facts=said.facts,
        tiles=said.tiles,
        picture=picture_of(run),
        sections=sections,
        names=(*RUN_CHARTS, *(each.chart.name for each in own if each.picture or each.failure)),
        tables=[learning],
        origins={"": run_provenance(run.manifest)},
        pictures={each.chart.name: each.picture for each in own if each.picture is not None},
        failures=tuple(each.failure for each in own if each.failure),
    )


def _outcomes(run: Run) -> pl.DataFrame:
    """Return how sessions ended, ``outcome`` and ``len``."""
    sessions = run.known.get("sessions.count", 0.0)
    counts = {name: round(run.known.get(f"sessions.{name}_share", 0.0) * sessions) for name in SESSION_OUTCOMES}
    return pl.DataFrame({"outcome": [*counts], "len": [*counts.values()]}).filter(pl.col("len") > 0)


def picture_of(run: Run) -> str:
    """Return the chart that answers the question of a scenario: who takes part, unless it asks of something else."""
    if asks_of_convergence(run):
        return "convergence"
    return "distance" if re.search(r"\bR\b|\bseparation", run.scenario.question) else "who"


_FIGURES = ("epsilon", "rho", "sensitivity", "noise_multiplier", "rounds", "separation", "most")


def privacy_section(run: Run) -> Section:
    """Compute the section about what is promised to privacy, which is empty where the scenario promises nothing."""
    privacy, known, table = run.scenario.privacy, run.known, run.series.get("contributions")
    if privacy is None or table is None or any(f"privacy.{name}" not in known for name in _FIGURES):
        return Section("privacy", "Privacy")
    figures = {name: known[f"privacy.{name}"] for name in _FIGURES}
    rounds, least, most = (int(figures[name]) for name in ("rounds", "separation", "most"))
    bounds = ParticipationBounds(rounds, least, most)
    seen = Contributions(**table.row(0, named=True))
    faults = broken_promises(bounds, seen)
    apart = NO_VALUE if seen.least_separation is None else count(seen.least_separation)
    rows = (
        (f"n: {run.noun}s", count(bounds.rounds), count(seen.last_round + 1)),
        (f"b: {run.noun}s from one contribution to the next, at least", count(bounds.min_separation), apart),
        ("k: contributions of a client, at most", count(bounds.participations), count(seen.most)),
    )
    header = ("Bound", "Promised", "Observed")
    std = None if privacy.clip is None else privacy.clip * figures["noise_multiplier"] * figures["sensitivity"]
    zcdp, public = epsilon_of_rho(figures["rho"], privacy.delta), known.get("privacy.epsilon_if_known")
    secret = "" if public is None else f", {SECRET}, this page included"
    noise = (
        ("Mechanism", privacy.mechanism.kind),
        ("Sensitivity of C", number(figures["sensitivity"], 5)),
        ("Noise multiplier", number(figures["noise_multiplier"], 5)),
        ("Standard deviation of the rows of Z", number(std, 5) if std is not None else "no clip is given"),
        ("zCDP, rho", number(figures["rho"], 5)),
        (f"Epsilon by way of zCDP{', schedule known' * (public is not None)}", number(zcdp, 5)),
    ) + (() if public is None else (("Epsilon if the schedule is known", number(public, 5)),))
    clocked = bool((run.clients["cooldown_s"] > 0).any())
    promise = (
        f"Each client is promised epsilon = {number(figures['epsilon'], 4)} at delta = {privacy.delta:g}, with all "
        f"that it contributes replaced by zeros{secret}."
    )
    kept = [Finding(f"The log breaks the promise: {each}.", warns=True) for each in faults]
    caveats = (f"{capitalized(each)}." for each in caveats_of(run.scenario, bounds, clocked=clocked))
    bound = Table("What is promised, because the server enforces it, and what the log shows", header, rows)
    shown = Table("The noise", ("Figure", "Value"), noise)
    text = (Finding(promise), *(kept or [Finding("The log keeps the promise.")]), *map(Finding, caveats))
    return Section("privacy", "Privacy", (), (bound, shown), text)


_LEFT_OUT = "Left out, since it runs code of your own: `fedsim report DIR --allow-plugins` draws it."
_PARTS = {"title": str, "description": str, "table": Table | None, "height": int | float}


@dataclass(frozen=True)
class OwnChart:
    """The result of drawing a chart of the scenario's own."""

    chart: Chart | Absent  # what it shows, or why it is not there
    section: str = OWN  # where it stands in the page
    picture: Picture | None = None  # the chart, drawn; None where it is not there
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
        if chart is None:
            chart = Absent(name, choice.kind, "It has nothing to show of this run.")
        if isinstance(chart, Chart):
            for part, wanted in _PARTS.items():
                if not isinstance(getattr(chart, part), wanted):
                    raise TypeError(f"its {part} is {getattr(chart, part)!r}")  # noqa: TRY301
        drawing = picture(chart) if isinstance(chart, Chart) else None
        second = chart_of(name, again, run)
        if drawing is not None and (not isinstance(second, Chart) or picture(second) != drawing):
            drawn = type(kind)
            raise PluginError(CHARTS.unrepeatable(choice.kind))  # noqa: TRY301
        return OwnChart(chart, section if section in SECTIONS else OWN, drawing)
    except BaseException as error:  # noqa: BLE001  whatever it is, the page must not be lost
        why = told(error, drawn)
        place = users_line(error, drawn)  # the page does not show it: it has the same bytes wherever it is made
        reason = f"It failed: {why.removesuffix(f' ({place})')}"
        return OwnChart(Absent(name, choice.kind, reason), failure=f"chart {choice.kind!r} failed: {why}")
