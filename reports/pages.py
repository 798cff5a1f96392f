"""The pages of this folder: figures of the paper at several separations, runs, a sweep, and the list of them all."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fedsim import Scenario, simulate
from fedsim.common.arrays import Floats
from fedsim.common.files import name_of_file
from fedsim.experiment.run_directory import Provenance as RunProvenance
from fedsim.report.answer import Sentence
from fedsim.report.binning import binned, edges
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.learning import Curve, Curves, Loss
from fedsim.report.charts.marks import scaled
from fedsim.report.charts.sweep_lines import Line, Lines, lines_chart
from fedsim.report.document import Document
from fedsim.report.formatting import capitalized, number
from fedsim.report.page import document_of, write_document
from fedsim.report.provenance import Provenance
from fedsim.report.render import Picture, picture
from fedsim.report.stamp import scenario_version
from fedsim.report.sweep_axes import Axis
from fedsim.report.tables import Table
from fedsim.sweeps import store
from fedsim.sweeps.executors import backend_of
from fedsim.sweeps.plan import plan_sweep
from fedsim.sweeps.sweep import run_sweep

HERE = Path(__file__).parent
REFERENCE = "fedavg_uniform"
SHOWN = ("loss", "average_loss", "excess_loss", "grad_norm", "accuracy", "bias", "bias_predicted", "converged")

RUNS = ("paper/synthetic", "paper/bias-vs-separation", "paper/convergence")
STUDIES = ("studies/night-charging", "studies/three-continents", "studies/mixed-separation")
SWEEPS = ("studies/separation-sweep",)
KEPT_SWEEPS = ("studies/which-separation", "studies/which-cooldown")

Results = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and what came of it.

    Parameters
    ----------
    claim, figure
        What is claimed, and the name of the scenario and page that test it.
    measured, verdict
        The numbers, and what they come to, in words.
    status
        ``pass`` where it holds, ``warn`` where it holds in part, ``fail`` where it does not.
    """

    claim: str
    figure: str
    measured: str
    verdict: str
    status: str


def figure_page(name: str, results: Results, tables: Mapping[int, pl.DataFrame], claims: Sequence[Claim]) -> Document:
    """Return a learning figure of the paper: losses by rounds, one line for each separation, and what they come to.

    Parameters
    ----------
    name
        Of its scenario in ``scenarios/paper``.
    results, tables
        Metrics and learning tables by separation.
    claims
        Those that it tests.
    """
    scenario = Scenario.load(HERE.parent / "scenarios" / "paper" / f"{name}.fedsim.yaml")
    first = tables[min(tables)]
    names = [each for each in first["optimizer"].unique(maintain_order=True) if each != REFERENCE]
    answer = [
        Sentence(f"{capitalized(each.verdict)}. {capitalized(each.measured)}.", each.claim, warns=each.status != "pass")
        for each in claims
    ]
    version = scenario_version(scenario.model_dump(mode="json"))
    return Document(
        version=version,
        kind="sweep",
        name=name,
        finding="; ".join(f"{each.claim}: {each.verdict}" for each in claims) + ".",
        description=scenario.description,
        answer=answer,
        charts={"bias": _bias(results, names), "trends": _losses(names, tables)},
        context={
            "ranked": None,
            "groups": None,
            "limits": None,
            "points": _table(results),
            "differences": None,
            "failures": None,
            "provenance": Provenance(
                facts=(("Scenario file", f"scenarios/paper/{name}.fedsim.yaml"), ("Seed", str(scenario.seed))),
                overrides=(),
                fingerprints=(),
                command=f"python reports/make.py {name}",
                scenario=json.dumps(scenario.model_dump(mode="json"), indent=2, ensure_ascii=False),
                omitted="",
                version=version,
            ),
        },
    )


def _bias(results: Results, names: Sequence[str]) -> tuple[Chart | Absent, ...]:
    """Draw the bias that is left at each separation, for each optimizer."""
    separations = np.array(sorted(results), dtype=np.float64)
    if len(separations) < 2:
        return ()
    lines = []
    for name in names:
        above = [
            results[int(r)][f"learning.{name}.average_loss"] - results[int(r)][f"learning.{REFERENCE}.average_loss"]
            for r in separations
        ]
        rows = np.arange(len(separations))
        lines.append(Line(name, rows, separations, np.abs(above), np.full(len(rows), np.nan)))
    data = Lines("average loss, distance from uniform", "", _along(separations), tuple(lines), 0, logarithmic=True)
    note = (
        "The loss of the mean model over the last half of the rounds, and how far it is from that of FedAvg under "
        "uniform participation, above it or below; signs are in the table of figures."
    )
    return (lines_chart(data, "excess", "What bias is left", (note,)), *_predicted(results, separations))


def _along(separations: Floats) -> Axis:
    return Axis(("separation",), ("separation",), "separation R (rounds)", separations, ())


def _predicted(results: Results, separations: Floats) -> tuple[Chart, ...]:
    """Draw how far from the optimum FedAvg ends beside what theory says; nothing where the problem knows no optimum."""
    measured, foreseen = (
        np.array([results[int(r)].get(f"learning.fedavg.{what}", np.nan) for r in separations])
        for what in ("bias", "bias_predicted")
    )
    if not np.isfinite(measured).all():
        return ()
    rows = np.arange(len(separations))
    line = Line("fedavg", rows, separations, measured, np.full(len(rows), np.nan), foreseen)
    data = Lines("distance of the mean model from the optimum", "", _along(separations), (line,), 0)
    note = "Theory: the optimum of the objective in which clients weigh as much as the chain says that they take part."
    return (lines_chart(data, "predicted", "Where FedAvg ends, predicted and measured", (note,)),)


def _losses(names: Sequence[str], tables: Mapping[int, pl.DataFrame]) -> tuple[Chart, ...]:
    """Draw the losses by rounds, a chart for each optimizer and all over the same span, with a line for each R."""
    kind, shown = Loss(), {name: _curves(name, tables) for name in names}
    ends = np.concatenate([curve.points.mean for curves in shown.values() for curve in curves.shown])
    span = (float(ends.min()), float(ends.max()))
    return tuple(
        Chart(
            name=f"loss-{name}",
            title=f"{name}, {kind.finding(curves)[0].lower()}{kind.finding(curves)[1:]}",
            description=kind.description(curves),
            notes=(f"Of {name}; charts of the other optimizers have the same axis.", *kind.notes(curves)),
            table=kind.table(curves),
            draw=partial(_draw_losses, kind, curves, span),
        )
        for name, curves in shown.items()
    )


def _curves(name: str, tables: Mapping[int, pl.DataFrame]) -> Curves:
    own = [(f"R = {r}", table.filter(optimizer=name), False) for r, table in sorted(tables.items())]
    own.append(("FedAvg, uniform", tables[min(tables)].filter(optimizer=REFERENCE), True))
    data = []
    for color, (label, table, reference) in enumerate(own):
        kept = table.filter(pl.col("loss").is_finite()).sort("round")
        x = (kept["round"].to_numpy() + 1).astype(np.float64)
        points = binned(x, kept["loss"].to_numpy(), edges(len(kept)))
        data.append(Curve(label, reference, color, points, len(table) - len(kept), None))
    return Curves(tuple(data), "rounds")


def _draw_losses(kind: Loss, curves: Curves, span: tuple[float, float], axes: Axes) -> None:
    kind.draw(curves, axes)
    low, high = span
    apart = 0.04 * (high - low)
    far = low > 0 and high > 4 * low
    scaled(axes, "y", far)
    axes.set_ylim(*((low / 1.1, high * 1.1) if far else (low - apart, high + apart)))


def _table(results: Results) -> Table:
    """List the figures of every optimizer at every separation."""
    columns = [what for what in SHOWN if any(key.endswith(f".{what}") for found in results.values() for key in found)]
    rows = []
    for separation, found in sorted(results.items()):
        for name in dict.fromkeys(key.split(".")[1] for key in found if key.startswith("learning.")):
            cells = [number(found.get(f"learning.{name}.{what}"), 5) for what in columns]
            rows.append((str(separation), name, *cells))
    header = ("R", "Optimizer", *(what.replace("_", " ").capitalize() for what in columns))
    note = (
        "Means over the last half of the rounds; the average loss is that of the mean of the server's models there, "
        "the excess is over FedAvg under uniform participation."
    )
    return Table("Figures", header, tuple(rows), words=2, note=note)


def run_page(scenario: str) -> Document:
    """Run a scenario and write its report."""
    file = f"scenarios/{scenario}.fedsim.yaml"
    with tempfile.TemporaryDirectory() as folder:
        result = simulate(Scenario.load(HERE.parent / file))
        document = document_of(result.save(Path(folder) / "run", RunProvenance(file)))
    write_document(document, HERE / f"{Path(scenario).name}.html")
    return document


def sweep_page(scenario: str) -> Document:
    """Run a sweep and write its report."""
    file = f"scenarios/{scenario}.fedsim.yaml"
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / Path(scenario).name
        plan = plan_sweep(Scenario.load(HERE.parent / file))
        run_sweep(plan, directory, backend_of("process", 2), provenance=RunProvenance(file))
        # What differs from one making to the next has no place in a page that is kept.
        meta = store.read_sweep(directory)
        store.write_sweep(directory, {**meta, "command": f"fedsim sweep {file}", "wall_time_s": None})
        document = document_of(directory)
    write_document(document, HERE / f"{Path(scenario).name}.html")
    return document


def kept_sweep_page(scenario: str) -> Document:
    """Write the report of a sweep that takes long, from the results in ``reports/sweeps``; run what they lack.

    They are used as they are where the scenario says all that it said when they were made. A key that scenarios have
    had since, and that this one leaves at its default, makes no difference.
    """
    file, directory = f"scenarios/{scenario}.fedsim.yaml", HERE / "sweeps" / Path(scenario).name
    loaded = Scenario.load(HERE.parent / file)
    now, stored = loaded.model_dump(mode="json"), store.read_sweep(directory) if directory.exists() else None
    if stored is None or not said_before(stored["scenario"], now):
        run_sweep(plan_sweep(loaded), directory, backend_of("process", 2), provenance=RunProvenance(file))
        store.compact(directory)
    meta = store.read_sweep(directory)
    own = {"command": f"fedsim sweep {file}", "scenario_file": file, "overrides": [], "wall_time_s": None}
    store.write_sweep(directory, {**meta, **own, "scenario": now, "description": loaded.description})
    document = document_of(directory)
    write_document(document, HERE / f"{Path(scenario).name}.html")
    return document


def said_before(stored: Any, now: Any) -> bool:
    """Tell whether all that a part of a stored scenario says is what it says now; words for people make no run."""
    if isinstance(stored, dict) and isinstance(now, dict):
        words = {"description", "question", "decide", "expect"}
        return all(key in now and said_before(each, now[key]) for key, each in stored.items() if key not in words)
    if isinstance(stored, list) and isinstance(now, list):
        return len(stored) == len(now) and all(map(said_before, stored, now))
    return bool(stored == now)


def write_list(
    claims: Sequence[Claim], figures: Sequence[Document], runs: Sequence[Document], studies: Sequence[Document]
) -> None:
    """Write the page that lists them, after the paper's claims, each with the number and the figure that show it."""
    sections = [("The paper's learning figures", figures), ("The paper's chain", runs), ("Studies", studies)]
    shown = [(title, [(f"{each.name}.html", each) for each in listed]) for title, listed in sections if listed]
    pages = {each.name: each for each in figures}
    met = sum(claim.status == "pass" for claim in claims)
    partly, missed = (sum(claim.status == status for claim in claims) for status in ("warn", "fail"))
    told = (
        f"Of {len(claims)} claims that were tested {met} hold{'s' * (met == 1)}, {partly} in part, and {missed} "
        f"{'does' if missed == 1 else 'do'} not."
    )
    about = (
        "What the paper (Sun et al., arXiv:2410.01209) claims of participation with a minimum separation R, and what "
        "was measured over many draws; a page shows one run of each. docs/paper-results.md has every statement of the "
        "paper. Made by make reports."
    )
    table = [{**vars(claim), "href": f"{claim.figure}.html", "picture": _thumbnail(pages, claim)} for claim in claims]
    context = {"claims": table, "sections": shown}
    document = Document("index", "what the paper claims", told, about, context=context)
    write_document(document, HERE / "index.html")


def _thumbnail(pages: Mapping[str, Document], claim: Claim) -> Picture | None:
    """Draw the first chart of a claim's figure; None where it has none."""
    charts = pages[claim.figure].charts.values() if claim.figure in pages else ()
    first = next((chart for section in charts for chart in section if isinstance(chart, Chart)), None)
    # Pictures of one page need names of their own.
    return None if first is None else picture(replace(first, name=f"{name_of_file(claim.claim, claim.figure)}"))
